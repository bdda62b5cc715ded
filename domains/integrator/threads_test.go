package integrator

import "runtime"

// withProcs runs f with GOMAXPROCS n.
func withProcs(n int, f func()) {
	before := runtime.GOMAXPROCS(n)
	defer runtime.GOMAXPROCS(before)
	f()
}
