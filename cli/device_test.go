package cli

import (
	"strings"
	"testing"
)

// Devices that contradict each other or the backend, or are not there, are refused by name
// before any work, also where the CPU could do it.
func TestDevicesThatCannotBeAreRefused(t *testing.T) {
	app, _ := cart(t)
	for line, says := range map[string]string{
		"bench gemm --backend cpu --device 0":  "--backend cpu with --device 0: ",
		"doctor --backend ref --device 1":      "--backend ref with --device 1: ",
		"doctor --device 0,1":                  "--device",
		"bench gemm --device 7":                "--device 7",
		"bench gemm --backend cuda --device 7": "--device 7",
		"doctor --device 256":                  "--device 256: want 0 to 255",
		"doctor --device -1":                   "--device -1: want 0 to 255",
		"doctor --device two":                  "--device",
		"doctor --backend cuda --device 200":   "--device 200",
	} {
		refused(t, app, says, strings.Fields(line)...)
	}
}
