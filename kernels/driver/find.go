//go:build !gorgoniacu

package driver

// Find opens the driver that this build uses: here through purego, see Load.
func Find(path string) (Driver, error) { return Load(path) }
