//go:build !linux

package machine

// CPUs are not known here.
func CPUs() []int { return nil }

// Bind changes nothing here.
func Bind([]int) error { return nil }

// On calls f.
func On(_ []int, f func() error) error { return f() }

// Punctual changes nothing here.
func Punctual() error { return nil }
