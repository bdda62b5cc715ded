// Package peerrecord holds the records of the programs that measure this one, and of the optimal power flows of many
// networks: what their commands write, and what reports and pages show.
//
// The central type is Record, other programs' times beside ours.
package peerrecord

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
)

// Record is one run of a program that times others.
type Record struct {
	Device  string   `json:"device"`
	Commit  string   `json:"commit"`
	Missing []string `json:"missing,omitempty"` // peers that were not at hand, and why
	Note    string   `json:"note,omitempty"`    // how times were taken; empty: CPU time of one thread, medians of alternating rounds
	Ratios  []Ratio  `json:"ratios"`
	// Load is the machine's during the run; a peer that is a process of its own is among the
	// others.
	Load   *machine.Load `json:"load,omitempty"`
	Checks []Check       `json:"checks,omitempty"`
}

// Check is a comparison of optima: of Compared, Worst is the largest relative difference of
// a peer's cost, started at our plan, from ours; Lower more it left for a lower optimum. Of Decisions, Unsolved are those that we
// have no solution of in the time that is compared; what that finds costs up to Above more
// than the optimum, relative to it.
type Check struct {
	Case      string  `json:"case"`
	Peer      string  `json:"peer"`
	Decisions int     `json:"decisions"`
	Unsolved  int     `json:"unsolved"`
	Compared  int     `json:"compared"`
	Lower     int     `json:"lower,omitempty"`
	Worst     float64 `json:"worst"`
	Above     float64 `json:"above"`
}

// Ratio is one comparison: Ratio is the peer's time over ours, [Lo, Hi] its spread
// over the rounds of the run.
type Ratio struct {
	Op     string  `json:"op"`
	Case   string  `json:"case"`
	Peer   string  `json:"peer"`
	Batch  int     `json:"batch"`
	Ratio  float64 `json:"ratio"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
	OursUS float64 `json:"ours_us"`
	PeerUS float64 `json:"peer_us"`
	// Where the peer decides: of Decisions, those without a solution, and those that ended
	// at a cost below and above ours. OursUnsolved are those that we have no solution of, Acceptable
	// those that the peer solved to a tolerance which it calls acceptable.
	Decisions    int `json:"decisions,omitempty"`
	Unsolved     int `json:"unsolved,omitempty"`
	OursUnsolved int `json:"ours_unsolved,omitempty"`
	Acceptable   int `json:"acceptable,omitempty"`
	Lower        int `json:"lower,omitempty"`
	Higher       int `json:"higher,omitempty"`
	// Different are those where the two end at different solutions.
	Different int `json:"different,omitempty"`
	// Where both do the same floating-point work: the shares of the machine's multiply-add ceiling.
	OursShare float64 `json:"ours_share,omitempty"`
	PeerShare float64 `json:"peer_share,omitempty"`
	// PeerDerivatives is the share of the peer's time in functions and derivatives that we evaluate for it.
	PeerDerivatives float64 `json:"peer_derivatives,omitempty"`
	// PeerAnalysisUS is what the peer analyses once before a factorisation.
	PeerAnalysisUS float64 `json:"peer_analysis_us,omitempty"`
}

// Operations of a record on networks of PGLib: a solve with the analysis of the network, another one with that analysis kept, and
// one numeric factorisation of its matrix.
const (
	OpFirst  = "first opf of PGLib"
	OpAgain  = "opf of PGLib again"
	OpFactor = "factorisation of PGLib"
)

// Solved says whether both found an optimum of a network. Times of others make no ratio.
func (v *Ratio) Solved() bool { return v.Unsolved == 0 && v.OursUnsolved == 0 }

// Check refuses ratios of networks that either did not solve, and networks without a ratio that both solved.
func (r *Record) Check() error {
	for i := range r.Ratios {
		v := &r.Ratios[i]
		if (v.Op == OpFirst || v.Op == OpAgain) && v.Solved() != (v.Ratio > 0) {
			return fmt.Errorf("%s, %s: a ratio of %g, unsolved by %s %d, by us %d", v.Op, v.Case, v.Ratio, v.Peer, v.Unsolved, v.OursUnsolved)
		}
	}
	return nil
}

// Compare is the comparison of times, µs, that were taken in turn, each the median of its rounds.
func Compare(op, of, peer string, batch int, ours, theirs []float64) Ratio {
	ratios := make([]float64, len(ours))
	for k := range ratios {
		ratios[k] = theirs[k] / ours[k]
	}
	median := func(v []float64) float64 {
		v = slices.Sorted(slices.Values(v))
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	return Ratio{Op: op, Case: of, Peer: peer, Batch: batch, Ratio: median(ratios), Lo: slices.Min(ratios), Hi: slices.Max(ratios),
		OursUS: median(ours), PeerUS: median(theirs)}
}

// Read is the record in a file, nil where there is no file.
func Read(path string) (*Record, error) { return durable.ReadJSON[Record](path) }

// Write replaces the file whole, or writes to standard output where its name is
// empty.
func (r *Record) Write(file string) error {
	if err := r.Check(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if file == "" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return durable.WriteFile(file, text, 0o644)
}

// Mean is the geometric mean of the ratios of an operation, alone or side by side, and of how many: those that both solved.
func Mean(rows []Ratio, op string, alone bool) (mean float64, n int) {
	var ratios []float64
	for i := range rows {
		if v := &rows[i]; v.Op == op && (v.Batch == 1) == alone && v.Solved() {
			ratios = append(ratios, v.Ratio)
		}
	}
	return GeometricMean(ratios), len(ratios)
}

// GeometricMean is NaN of none.
func GeometricMean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}
