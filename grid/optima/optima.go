// Package optima is the record of the optimal power flows of many networks, which `gpc opf` writes and
// goes on with.
package optima

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
)

// OptimalFlows are the optimal power flows of many networks: what `gpc opf` writes for several files. The run may have been
// interrupted and continued.
type OptimalFlows struct {
	Device    string        `json:"device"`              // processor and threads
	Commit    string        `json:"commit"`              // of the build
	Command   string        `json:"command"`             // without folders' paths
	Threads   int           `json:"threads"`             // of the solver
	Published string        `json:"published,omitempty"` // file of the published values; absent without
	Load      *machine.Load `json:"load,omitempty"`
	Networks  []Network     `json:"networks"`
}

// Network is one file.
type Network struct {
	Name       string   `json:"name"`                      // of the file, without `.m`
	Key        string   `json:"key,omitempty"`             // SHA-256 of its file, options and published values, which a continued record compares
	Buses      int      `json:"buses"`                     // in service
	Units      int      `json:"units"`                     // likewise
	Branches   int      `json:"branches"`                  // likewise
	Status     string   `json:"status"`                    // optimal, or why not; `not read` where there was no solve
	Reason     string   `json:"reason,omitempty"`          // of another status, in a sentence; absent with an optimum
	Note       string   `json:"note,omitempty"`            // how units that could be loads of constant power factor are taken; absent without such
	Objective  *float64 `json:"objective"`                 // $/h; null without an optimum
	Published  *float64 `json:"published"`                 // $/h; null where none is
	Gap        *float64 `json:"gap"`                       // (objective − published)/|published|
	Iterations int      `json:"iterations"`                // of the interior point, of all starts up to the one that the objective is of
	SetupMS    float64  `json:"setup_ms"`                  // analysis of the network
	WallMS     float64  `json:"wall_ms"`                   // of the first solve from these starts
	CPUMS      float64  `json:"cpu_ms"`                    // of the same, CPU time
	PeerMS     *float64 `json:"published_ms,omitempty"`    // time that is published, other hardware; absent without
	Violation  *float64 `json:"max_violation_pu"`          // of the limits by a power flow of the dispatch, pu and rad; null without
	Violated   string   `json:"violated,omitempty"`        // where, or why there is no such power flow; absent without a violation
	Difference *float64 `json:"max_voltage_difference_pu"` // of that power flow from the optimum
	Starts     []Start  `json:"starts,omitempty"`          // where there are several: the flat one, then the nearest feasible point
	PeakMB     float64  `json:"peak_mb,omitempty"`         // most memory of the process; absent where the system does not say
}

// Start is a solve from one of several starts.
type Start struct {
	Status     string   `json:"status"`     // optimal, or why not
	Objective  *float64 `json:"objective"`  // $/h; null without an optimum
	Iterations int      `json:"iterations"` // of the interior point
	WallMS     float64  `json:"wall_ms"`    // of the solve
	CPUMS      float64  `json:"cpu_ms"`     // of the same, CPU time
}

// Lower says whether a start after the first has the objective.
func (n *Network) Lower() bool { return len(n.Starts) > 0 && n.Iterations > n.Starts[0].Iterations }

// Optimal says whether there is an objective.
func (n *Network) Optimal() bool { return n.Objective != nil }

// Of is the network of that name, nil for none.
func (r *OptimalFlows) Of(name string) *Network {
	i := slices.IndexFunc(r.Networks, func(n Network) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Networks[i]
}

// Check validates a record that was read.
func (r *OptimalFlows) Check() error {
	names := map[string]bool{}
	for _, n := range r.Networks {
		switch {
		case n.Name == "" || names[n.Name]:
			return fmt.Errorf("network %q stands twice or has no name", n.Name)
		case n.Buses < 0 || n.Iterations < 0 || !(n.WallMS >= 0):
			return fmt.Errorf("network %s: %d buses, %d iterations, %g ms", n.Name, n.Buses, n.Iterations, n.WallMS)
		}
		names[n.Name] = true
	}
	return nil
}

// ReadOptimalFlows is the record in a file, nil where there is no file.
func ReadOptimalFlows(path string) (*OptimalFlows, error) {
	r, err := durable.ReadJSON[OptimalFlows](path)
	if r == nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Write replaces a file by the record.
func (r *OptimalFlows) Write(path string) error {
	return durable.WriteJSON(path, r, " ")
}
