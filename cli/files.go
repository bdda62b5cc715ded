package cli

import (
	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/durable"
)

// CheckOutputs refuses, before any work, outputs that overwrite an input or each other
// and outputs that cannot be written. Paths that are "" are not asked for.
func CheckOutputs(outputs, inputs []durable.File) error {
	if err := durable.Apart(outputs, inputs); err != nil {
		return gpc.BadInput(err)
	}
	for _, f := range outputs {
		if f.Path == "" {
			continue
		}
		if err := durable.Probe(f.Path); err != nil {
			return BadInputf("%s: %w", f.Name, err)
		}
	}
	return nil
}
