package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
)

// Steering is the record of `gpc steer`: the front that one map traces under a
// user's fixed preferences, beside the exact front.
type Steering struct {
	Case   string                  `json:"case"`
	Method string                  `json:"method"`
	Seed   uint64                  `json:"seed"`
	Commit string                  `json:"commit"`
	Device string                  `json:"device"`
	Front  []closedloop.FrontPoint `json:"front"`
	// Hypervolume of the method's front divided by that of the exact one, to the
	// nadir of both stretched by a tenth of the range; two or three objectives, NaN
	// otherwise.
	HypervolumeRatio closedloop.Number `json:"hypervolume_ratio"`
	MeanRegretPct    closedloop.Number `json:"mean_regret_pct"`
	WorstRegretPct   closedloop.Number `json:"worst_regret_pct"`
}

// Summarize fills in the ratios from the front.
func (s *Steering) Summarize() {
	mean, worst, sizes := 0.0, math.Inf(-1), 0
	var own, exact [][3]float64
	lo, hi := [3]float64{}, [3]float64{}
	for j := range lo {
		lo[j], hi[j] = math.Inf(1), math.Inf(-1)
	}
	for _, p := range s.Front {
		mean += float64(p.RegretPct) / float64(len(s.Front))
		worst = math.Max(worst, float64(p.RegretPct))
		var a, b [3]float64
		if sizes = len(p.J); sizes != 2 && sizes != 3 {
			continue
		}
		for j := range p.J {
			a[j], b[j] = float64(p.J[j]), float64(p.OracleJ[j])
			lo[j], hi[j] = math.Min(lo[j], math.Min(a[j], b[j])), math.Max(hi[j], math.Max(a[j], b[j]))
		}
		own, exact = append(own, a), append(exact, b)
	}
	s.MeanRegretPct, s.WorstRegretPct, s.HypervolumeRatio = closedloop.Number(mean), closedloop.Number(worst), closedloop.Number(math.NaN())
	if len(own) == 0 {
		return
	}
	var ref [3]float64
	for j := range sizes {
		ref[j] = hi[j] + (hi[j]-lo[j])/10
	}
	for j := sizes; j < len(ref); j++ {
		ref[j] = 1 // the third objective of two is 0 throughout
	}
	s.HypervolumeRatio = closedloop.Number(closedloop.Hypervolume3(own, ref) / closedloop.Hypervolume3(exact, ref))
}

// Rows lays the front out as a table, the header first.
func (s *Steering) Rows() [][]string {
	list := func(v []closedloop.Number) string {
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = number("%.4f", float64(x))
		}
		return strings.Join(parts, ", ")
	}
	rows := [][]string{{"w", "Σ J", "exact Σ J", "regret %", "compared", "violations"}}
	for _, p := range s.Front {
		w := make([]string, len(p.W))
		for i, x := range p.W {
			w[i] = fmt.Sprintf("%.3g", x)
		}
		rows = append(rows, []string{strings.Join(w, ", "), list(p.J), list(p.OracleJ), number("%.4f", float64(p.RegretPct)), fmt.Sprintf("%d/%d", p.Compared, p.Episodes), fmt.Sprint(p.Violations)})
	}
	return rows
}
