package bench

import (
	"github.com/gpc-engine/gpc/internal/machine"
)

// Record is what `gpc bench` prints and what lab/results holds.
type Record struct {
	Device  string   `json:"device"`  // that was measured
	Commit  string   `json:"commit"`  // of the program
	Command string   `json:"command"` // as typed
	Results []Result `json:"results"`
	// Bandwidth is the ceiling of memory, GB/s; 0 where it was not measured.
	Bandwidth float64 `json:"bandwidth_gb_s,omitempty"`
	// Load is the machine's while they were measured.
	Load *machine.Load `json:"load,omitempty"`
}
