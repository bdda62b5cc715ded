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
	// nadir of both stretched by a tenth of the range; two objectives only, NaN
	// otherwise.
	HypervolumeRatio closedloop.Number `json:"hypervolume_ratio"`
	MeanRegretPct    closedloop.Number `json:"mean_regret_pct"`
	WorstRegretPct   closedloop.Number `json:"worst_regret_pct"`
}

// Summarize fills in the ratios from the front.
func (s *Steering) Summarize() {
	mean, worst := 0.0, math.Inf(-1)
	var own, exact [][2]float64
	lo, hi := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, p := range s.Front {
		mean += float64(p.RegretPct) / float64(len(s.Front))
		worst = math.Max(worst, float64(p.RegretPct))
		if len(p.J) != 2 {
			continue
		}
		a := [2]float64{float64(p.J[0]), float64(p.J[1])}
		b := [2]float64{float64(p.OracleJ[0]), float64(p.OracleJ[1])}
		own, exact = append(own, a), append(exact, b)
		for j := range 2 {
			lo[j], hi[j] = math.Min(lo[j], math.Min(a[j], b[j])), math.Max(hi[j], math.Max(a[j], b[j]))
		}
	}
	s.MeanRegretPct, s.WorstRegretPct, s.HypervolumeRatio = closedloop.Number(mean), closedloop.Number(worst), closedloop.Number(math.NaN())
	if len(own) > 0 {
		ref := [2]float64{hi[0] + (hi[0]-lo[0])/10, hi[1] + (hi[1]-lo[1])/10}
		s.HypervolumeRatio = closedloop.Number(closedloop.Hypervolume2(own, ref) / closedloop.Hypervolume2(exact, ref))
	}
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
