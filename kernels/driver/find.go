//go:build !gorgoniacu

package driver

// linkedDriver is the driver through gorgonia.org/cu; this build has none (lab/run build-cu).
func linkedDriver() Driver { return nil }
