package peerrecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
)

// OptimalFlows are the optimal power flows of many networks: what `gpc opf` writes for several files. The run may have been
// interrupted and continued.
type OptimalFlows struct {
	Device    string        `json:"device"`
	Commit    string        `json:"commit"`
	Command   string        `json:"command"`
	Threads   int           `json:"threads"`
	Published string        `json:"published,omitempty"` // the table of published values
	Load      *machine.Load `json:"load,omitempty"`
	Networks  []Network     `json:"networks"`
}

// Network is one file.
type Network struct {
	Name       string   `json:"name"`
	Buses      int      `json:"buses"`
	Units      int      `json:"units"`
	Branches   int      `json:"branches"`
	Status     string   `json:"status"`           // of the solve; "not read" with Reason where there was none
	Reason     string   `json:"reason,omitempty"` // of a status that is not optimal
	Note       string   `json:"note,omitempty"`   // how the file was taken
	Objective  *float64 `json:"objective"`        // $/h
	Published  *float64 `json:"published"`
	Gap        *float64 `json:"gap"` // (objective − published)/|published|
	Iterations int      `json:"iterations"`
	SetupMS    float64  `json:"setup_ms"` // analysis of the network
	WallMS     float64  `json:"wall_ms"`  // the first solve
	CPUMS      float64  `json:"cpu_ms"`
	// PeerMS is the published time of the same.
	PeerMS *float64 `json:"published_ms,omitempty"`
	// Violation is the largest, pu and rad, of the limits by a power flow of the dispatch, made by
	// another solver; Where it is; Difference the largest of its voltages from the optimum's, pu.
	Violation  *float64 `json:"max_violation_pu"`
	Where      string   `json:"violated,omitempty"`
	Difference *float64 `json:"max_voltage_difference_pu"`
	PeakMB     float64  `json:"peak_mb,omitempty"` // of the process, from reading to the solution
}

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

// Check says what is wrong with a record that was read.
func (r *OptimalFlows) Check() error {
	seen := map[string]bool{}
	for _, n := range r.Networks {
		switch {
		case n.Name == "" || seen[n.Name]:
			return fmt.Errorf("network %q stands twice or has no name", n.Name)
		case n.Buses < 0 || n.Iterations < 0 || !(n.WallMS >= 0):
			return fmt.Errorf("network %s: %d buses, %d iterations, %g ms", n.Name, n.Buses, n.Iterations, n.WallMS)
		}
		seen[n.Name] = true
	}
	return nil
}

// ReadOptimalFlows is the record in a file, nil where there is no file.
func ReadOptimalFlows(path string) (*OptimalFlows, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &OptimalFlows{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
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
