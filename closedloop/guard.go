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
	contains := func(bits domain.Fallback) bool { return domain.Fallback(l.Fallback)&bits == bits }
	count(&g.Failing, contains(domain.FallbackGuard))
	count(&g.Incumbent, contains(domain.FallbackIncumbent))
	count(&g.Rescues, contains(domain.FallbackRescue))
	count(&g.Solved, contains(domain.FallbackRescue|domain.FallbackSolver))
	if contains(domain.FallbackRescue) {
		g.RescueWorst = max(g.RescueWorst, l.Latency)
	}
}
