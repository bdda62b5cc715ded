package closedloop

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// LimitStatistics say how often a kind of limit was broken, and how near to it or how far beyond
// it episodes came.
type LimitStatistics struct {
	Limit        string `json:"limit"`         // a kind of limit, such as `voltage`; absent from older records, as is all of `limits` and `above_oracle`
	Unit         string `json:"unit"`          // of its margins
	Decisions    int    `json:"decisions"`     // that broke it
	DecisionRate Number `json:"decision_rate"` // their share
	Episodes     int    `json:"episodes"`      // with such a decision
	EpisodeRate  Number `json:"episode_rate"`  // their share
	Mean         Number `json:"margin_mean"`   // mean of the episodes' smallest margins of this kind
	SEM          Number `json:"margin_sem"`    // its standard error
	Least        Number `json:"least"`         // least of all episodes; below 0 the worst violation
	Margin       string `json:"margin"`        // name of that margin
	Episode      int    `json:"episode"`       // where it was
}

// limits counts what LimitStatistics say.
type limits struct {
	spec  *domain.Spec
	kinds []domain.Variable
	kind  []int // the kind of each margin
	all   []LimitStatistics
	lows  [][]float64 // of each kind, by episode
	// unknown: an episode that was added does not say which limits its decisions broke.
	unknown bool
}

func newLimits(spec *domain.Spec) limits {
	l := limits{spec: spec}
	l.kinds, l.kind = spec.Limits()
	l.lows = make([][]float64, len(l.kinds))
	for _, k := range l.kinds {
		l.all = append(l.all, LimitStatistics{Limit: k.Name, Unit: k.Unit, Least: Number(math.Inf(1))})
	}
	return l
}

// add counts an episode; one without a decision broke nothing.
func (l *limits) add(e *EpisodeRecord) {
	if len(e.Lines) == 0 || len(l.kinds) == 0 {
		return
	}
	if len(e.End.Violations) != len(l.kinds) || len(e.End.Margins) != len(l.kind) {
		l.unknown = true
		return
	}
	for k, n := range e.End.Violations {
		if l.all[k].Decisions += n; n > 0 {
			l.all[k].Episodes++
		}
	}
	first := len(l.lows[0])
	for i, m := range e.End.Margins {
		k := l.kind[i]
		if len(l.lows[k]) == first {
			l.lows[k] = append(l.lows[k], m)
		}
		l.lows[k][first] = math.Min(l.lows[k][first], m)
		if s := &l.all[k]; m < float64(s.Least) {
			s.Least, s.Margin, s.Episode = Number(m), l.spec.Margins[i].Name, e.Episode
		}
	}
}

// statistics are those of all episodes; nil where one of them does not say.
func (l *limits) statistics(episodes, decisions int) []LimitStatistics {
	if l.unknown || len(l.all) == 0 {
		return nil
	}
	for k := range l.all {
		s := &l.all[k]
		mean, sem := meanAndError(l.lows[k])
		s.Mean, s.SEM = Number(mean), Number(sem)
		s.DecisionRate, s.EpisodeRate = ratio(s.Decisions, decisions), ratio(s.Episodes, episodes)
	}
	return l.all
}

// AboveOracle is the cost above the oracle of all N episodes with one, safe or not. A policy that breaks limits may
// cost less than every one that keeps them.
type AboveOracle struct {
	Pct     Number `json:"pct"`      // 100 (Σ cost − Σ oracle)/Σ oracle over all episodes with an oracle, safe or not; absent where an episode was not completed
	PctSEM  Number `json:"pct_sem"`  // its standard error
	Step    Number `json:"step"`     // (Σ cost − Σ oracle) for each decision, in the unit of the cost
	StepSEM Number `json:"step_sem"` // its standard error
	N       int    `json:"n"`        // number of these episodes
}

// Above is AboveOracle by the record's Outcomes. It is nil without them, and without an episode that has an oracle. It
// is also nil where an episode was not completed, whose cost is of fewer decisions.
func (r *Result) Above() *AboveOracle {
	if r.Outcomes == nil || r.Outcomes.Validate() != nil || r.Failures > 0 || r.Episodes == 0 {
		return nil
	}
	var costs, oracles, differences []float64
	for _, o := range r.Outcomes.list() {
		if finite(o.cost) && finite(o.oracle) && o.oracle > 0 {
			costs, oracles = append(costs, o.cost), append(oracles, o.oracle)
			differences = append(differences, o.cost-o.oracle)
		}
	}
	if len(costs) == 0 {
		return nil
	}
	gap, gapSEM := RatioAndError(costs, oracles)
	step, stepSEM := meanAndError(differences)
	steps := float64(r.Decisions) / float64(r.Episodes)
	return &AboveOracle{Number(100 * (gap - 1)), Number(100 * gapSEM), Number(step / steps), Number(stepSEM / steps), len(costs)}
}
