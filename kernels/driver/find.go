//go:build !gorgoniacu

package driver

// linkedDriver is the driver through gorgonia.org/cu; this build has none (make build-cu).
func linkedDriver() Driver { return nil }
