package cli

import (
	"encoding/json"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/machine"
)

// LimitFlags adds the flags of a command whose times are recorded. The function that it
// returns reads them.
func LimitFlags(cmd *cobra.Command) func() (closedloop.LoadLimit, error) {
	var limit closedloop.LoadLimit
	f := cmd.Flags()
	f.Float64Var(&limit.Load, "max-load", 0, "refuse to record, with exit code 1, where the machine's load average is above this before or after the run (default: no limit)")
	f.BoolVar(&limit.Any, "any-load", false, "record even above --max-load; the record says so")
	return func() (closedloop.LoadLimit, error) {
		if !(limit.Load >= 0) || math.IsInf(limit.Load, 0) {
			return limit, BadInputf("--max-load %v: want a finite load average ≥ 0", limit.Load)
		}
		return limit, nil
	}
}

// loadOf is the worst load of recorded evaluations, nil where one has none.
func loadOf(files []string) (*closedloop.Load, error) {
	var loads []*closedloop.Load
	for _, path := range files {
		text, err := os.ReadFile(path)
		var r closedloop.Result
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return nil, BadInputf("--runs %s: %w", path, err)
		}
		loads = append(loads, r.Load)
	}
	return machine.Worst(loads), nil
}
