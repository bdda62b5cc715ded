//go:build !linux

package device

// threadID is the same for all threads: where they cannot be told apart, one context is
// current for all.
func threadID() int { return 0 }
