package closedloop

import "github.com/gpc-engine/gpc/domain"

// GuardCounts are decisions by what the guard did in them.
type GuardCounts struct {
	Failing     int    `json:"failing"`         // decisions whose roll-out failed
	Incumbent   int    `json:"incumbent"`       // the plan before was executed
	Rescues     int    `json:"rescues"`         // a rescue was asked for
	Solved      int    `json:"solved"`          // and its action executed
	RescueRate  Number `json:"rescue_rate"`     // rescues over all decisions
	RescueWorst Number `json:"rescue_worst_us"` // the longest
}

// add counts a decision.
func (g *GuardCounts) add(l *Line) {
	bits := domain.Fallback(l.Fallback)
	for _, n := range []struct {
		bits  domain.Fallback
		count *int
	}{
		{domain.FallbackGuard, &g.Failing}, {domain.FallbackIncumbent, &g.Incumbent}, {domain.FallbackRescue, &g.Rescues},
		{domain.FallbackRescue | domain.FallbackSolver, &g.Solved},
	} {
		if bits&n.bits == n.bits {
			*n.count++
		}
	}
	if bits&domain.FallbackRescue != 0 {
		g.RescueWorst = max(g.RescueWorst, l.Latency)
	}
}
