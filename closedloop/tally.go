package closedloop

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/tensor"
)

// tally sums up episodes, whether they were just run or read from a trace.
type tally struct {
	spec                    *domain.Spec
	total                   Result // its counts
	safe, collisionFree     int
	times                   decisionTimes
	prepare                 []float64 // times between decisions
	regret                  []float64
	costs, oracles          []float64 // of the episodes of regret
	costAll                 float64
	lows                    []float64 // smallest margin of each episode
	displacement            float64
	displacements, shared   int
	shares                  [3]float64
	lowest                  []float64 // sums of the named margins' minima
	withMargins             int       // episodes that have them
	limits                  limits
	soft                    softLimits
	goals, goalsReached     int
	atEnd                   int
	guard                   GuardCounts
	gapBounds               []float64
	starts, converged, best int       // of references that solve from several starts
	gaps                    []float64 // of its starts, by episode
	outcomes                Outcomes
	series                  *series
}

// newTally sums up episodes of that number of decisions; 0: the problem's own.
func newTally(spec *domain.Spec, steps int) *tally {
	steps = cmp.Or(steps, spec.Steps)
	return &tally{spec: spec, lowest: make([]float64, len(spec.Margins)), limits: newLimits(spec), series: newSeries(spec, steps)}
}

// count adds one to a number where a condition holds.
func count(n *int, condition bool) {
	if condition {
		*n++
	}
}

// add counts one complete episode.
func (a *tally) add(e *EpisodeRecord) {
	total, end := &a.total, &e.End
	total.Episodes++
	total.Excluded += end.Excluded
	a.outcomes.add(e)
	a.series.add(e)
	count(&a.safe, end.Safe)
	count(&a.collisionFree, end.CollisionFree)
	count(&total.BestKnown, end.BestKnown)
	count(&total.Failures, !end.Completed)
	count(&total.Failed, end.Failed)
	count(&total.NoWay, end.NoWay)
	count(&total.SafeNoWay, end.NoWay && end.Safe)
	if cause := cmp.Or(end.Failure, end.Cause); cause != "" && !end.Safe {
		total.Unsafe = append(total.Unsafe, UnsafeEpisode{e.Episode, cause})
	}
	a.countReference(e)
	if end.GoalReached != nil {
		a.goals++
		count(&a.goalsReached, *end.GoalReached)
		count(&a.atEnd, end.AtEnd != nil && *end.AtEnd)
	}
	if len(end.Margins) == len(a.spec.Margins) {
		a.withMargins++
		tensor.Axpy(1, end.Margins, a.lowest)
	}
	a.limits.add(e)
	a.soft.add(e)
	a.multistart(end.Starts)
	low := math.Inf(1)
	for i := range e.Lines {
		a.decision(i, &e.Lines[i])
		low = math.Min(low, float64(e.Lines[i].Margin))
	}
	if len(a.spec.Switches) > 0 && len(end.Margins) == len(a.spec.Margins) {
		low = domain.Smallest(a.spec.LimitMargins(end.Margins))
	}
	if len(e.Lines) > 0 {
		a.lows = append(a.lows, low)
	}
	a.costAll += float64(end.Cost)
	if r, ok := e.Regret(); ok {
		a.regret = append(a.regret, r)
		a.costs, a.oracles = append(a.costs, float64(end.Cost)), append(a.oracles, float64(end.OracleCost))
	}
}

// decision counts the i-th decision of an episode.
func (a *tally) decision(i int, l *Line) {
	bits := domain.Fallback(l.Fallback)
	a.total.Decisions++
	count(&a.total.Violations, !a.spec.Keeps(float64(l.Margin)))
	count(&a.total.Flagged, bits != 0)
	count(&a.total.Fallback, bits.Replaced() || bits&domain.FallbackMethod != 0)
	count(&a.total.Late, l.Late)
	a.guard.add(l)
	if l.Gap != 0 {
		a.gapBounds = append(a.gapBounds, float64(l.Gap))
	}
	if !l.Late || l.Latency > 0 {
		a.times.add(i, l.Latency)
	}
	if l.Prepare > 0 {
		a.prepare = append(a.prepare, float64(l.Prepare))
	}
	if d := float64(l.Displacement); !math.IsNaN(d) {
		a.displacement += d
		a.displacements++
	}
	if len(l.Times) == len(a.shares) {
		tensor.Axpy(1, l.Times, a.shares[:])
		a.shared++
	}
}

// countReference counts an episode whose cost has no reference by the reason.
func (a *tally) countReference(e *EpisodeRecord) {
	m := MissingReference{Episode: e.Episode, Cause: e.End.OracleFailure}
	switch cost := float64(e.End.OracleCost); {
	case m.Cause != "":
		a.total.OracleFailures++
		m.Reason, m.Fix = diagnosis.Unsolved(m.Cause)
	case cost <= 0:
		m.Reason, m.Cause = "the optimum does not cost more than nothing, which regret is relative to", fmt.Sprintf("it costs %.4g", cost)
		m.Fix = "objectives that are never below zero, such as what is missing to the best value"
	default:
		return
	}
	i := slices.IndexFunc(a.total.NoReference, func(other MissingReference) bool { return other.Reason == m.Reason })
	if i < 0 {
		if i = len(a.total.NoReference); len(e.Lines) > 0 {
			m.Start = e.Lines[0].X
		}
		a.total.NoReference = append(a.total.NoReference, m)
	}
	a.total.NoReference[i].Episodes++
}

// multistart counts the costs that the starts of an episode ended at.
func (a *tally) multistart(costs Vector) {
	least, worst := math.Inf(1), math.Inf(-1)
	for _, c := range costs {
		if a.starts++; !math.IsNaN(c) {
			a.converged++
			least, worst = math.Min(least, c), math.Max(worst, c)
		}
	}
	for _, c := range costs {
		if c <= least+1e-4*math.Abs(least) {
			a.best++
		}
	}
	if least <= worst {
		a.gaps = append(a.gaps, 100*(worst-least)/math.Abs(least))
	}
}

// Regret is 100 (cost − oracle)/oracle; ok is false for an episode that is not safe or has
// no oracle.
func (e *EpisodeRecord) Regret() (pct float64, ok bool) {
	pct, ok = regret(float64(e.End.Cost), float64(e.End.OracleCost))
	return pct, ok && e.End.Safe
}

func regret(cost, oracle float64) (pct float64, ok bool) {
	return 100 * (cost - oracle) / oracle, oracle > 0 && !math.IsInf(oracle, 0)
}

// ratio is k/n, NaN for n = 0.
func ratio(k, n int) Number { return Number(float64(k) / float64(n)) }

func (a *tally) result(h *Header) *Result {
	r := a.total
	r.Case, r.Method, r.Seed = h.Case, h.Method, h.Seed
	r.Commit, r.Device, r.Source = h.Commit, h.Device, Source{h.ProblemSHA256, h.ModelSHA256, h.Backend, h.ISA}
	r.Regime, r.Noise, r.Bias = h.Regime, h.Noise, h.Bias
	r.Sensing, r.Shift, r.Computing = h.Sensing, h.Shift, h.Computing
	r.Plant, r.Steps, r.ScenesSHA256 = h.Plant, h.Steps, h.ScenesSHA256
	r.Safe, r.Feasible, r.CollisionFree = ratio(a.safe, r.Episodes), ratio(r.Decisions-r.Violations, r.Decisions), Number(math.NaN())
	r.CI95 = RateIntervals{Safe: ClopperPearson(a.safe, r.Episodes), Failed: ClopperPearson(r.Failed, r.Episodes)}
	if slices.ContainsFunc(a.spec.Margins, collides) {
		r.CollisionFree = ratio(a.collisionFree, r.Episodes)
		r.CI95.CollisionFree = new(ClopperPearson(a.collisionFree, r.Episodes))
	}
	gap, gapSEM := RatioAndError(a.costs, a.oracles)
	r.GapPct, r.GapSEM = Number(100*(gap-1)), Number(100*gapSEM)
	mean, sem := meanAndError(a.regret)
	r.RegretPct, r.RegretSEM, r.RegretMin = Number(mean), Number(sem), Number(math.NaN())
	if r.RegretN = len(a.regret); r.RegretN > 0 {
		r.RegretMin = Number(slices.Min(a.regret))
	}
	r.Regret = DescribeRegret(slices.Clone(a.regret))
	mean, sem = meanAndError(a.lows)
	r.MarginMean, r.MarginSEM, r.MarginMin = Number(mean), Number(sem), Number(math.Inf(1))
	if r.Tolerance = a.spec.MarginTolerance; len(a.lows) > 0 {
		r.MarginMin = Number(slices.Min(a.lows))
	}
	r.CostMean, r.Displacement = Number(a.costAll/float64(r.Episodes)), Number(a.displacement/float64(a.displacements))
	shared := func(part int) Number { return Number(a.shares[part] / float64(a.shared)) }
	r.Latency, r.Shares = a.times.latency(), Shares{Localize: shared(0), Step: shared(1), Project: shared(2)}
	r.Outcomes, r.Series, r.Gap = a.outcomes.sorted(), a.series.result(), gapBounds(a.gapBounds)
	if h.Guard != nil {
		guard := a.guard
		guard.RescueRate = ratio(guard.Rescues, r.Decisions)
		r.Guard = &guard
	}
	if len(a.prepare) > 0 {
		r.Prepare = new(quantiles(slices.Clone(a.prepare)))
	}
	if a.starts > 0 {
		r.Starts = &StartStatistics{a.starts, ratio(a.converged, a.starts), ratio(a.best, a.converged), DescribeRegret(slices.Clone(a.gaps))}
	}
	if a.goals > 0 {
		r.GoalReached, r.AtEnd = new(ratio(a.goalsReached, a.goals)), new(ratio(a.atEnd, a.goals))
	}
	if a.withMargins > 0 {
		r.MarginsMean = map[string]Number{}
		for i, m := range a.spec.Margins {
			r.MarginsMean[m.Name] = Number(a.lowest[i] / float64(a.withMargins))
		}
	}
	r.Limits = a.limits.statistics(r.Episodes, r.Decisions)
	r.Soft = a.soft.statistics(h.Soft, r.Decisions)
	r.AboveOracle = r.Above()
	return &r
}
