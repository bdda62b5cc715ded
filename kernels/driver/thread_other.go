//go:build !linux

package driver

// threadID is the same for all threads: where they cannot be told apart, one context is
// current for all.
func threadID() int { return 0 }
