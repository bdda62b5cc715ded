package cli

import (
	"os"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/durable"
)

// MakeFolder makes the folder that a flag names, where it is not there.
func MakeFolder(flag, dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return BadInputf("%s: %s is a file, want a folder", flag, dir)
	}
	if err := durable.ProbeFolder(dir); err != nil {
		return BadInputf("%s: %w", flag, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return BadInputf("%s: %w", flag, err)
	}
	return nil
}

// systemFiles are those of such cases that are files of systems: inputs, which no output may overwrite.
func systemFiles(cases ...string) []durable.File {
	return durable.Ending(gpc.SystemSuffix, "the system", cases...)
}

// CheckOutputs refuses, before any work, outputs that overwrite an input or each other
// and outputs that cannot be written. Paths that are "" are not asked for.
func CheckOutputs(outputs, inputs []durable.File) error {
	return gpc.BadInput(durable.Check(outputs, inputs))
}
