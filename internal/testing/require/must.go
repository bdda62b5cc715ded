// Package require ends a test at once if a step that only prepares it fails.
package require

// T is a test, a benchmark or a check of properties.
type T interface {
	Helper()
	Fatal(args ...any)
}

// OK ends the test with err.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get gives the value of a call, or ends the test with its error: require.Get(f())(t).
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		OK(t, err)
		return v
	}
}
