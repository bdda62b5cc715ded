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
	spec                                     *domain.Spec
	episodes, safe, collisionFree, failures  int
	failed, late                             int
	decisions, violations, fallback, flagged int
	bestKnown                                int
	times                                    decisionTimes
	prepare                                  []float64 // times between decisions
	regret                                   []float64
	costs, oracles                           []float64 // of the episodes of regret
	costAll                                  float64
	lows                                     []float64 // smallest margin of each episode
	displacement                             float64
	displacements                            int
	shares                                   [3]float64
	shared, oracleFailures, excluded         int
	noReference                              []MissingReference
	lowest                                   []float64 // sums of the named margins' minima
	withMargins                              int       // episodes that have them
	limits                                   limits
	soft                                     softLimits
	goals, goalsReached, atEnd               int
	unsafe                                   []UnsafeEpisode
	guard                                    GuardCounts
	noWay, safeNoWay                         int
	gapBounds                                []float64
	starts, converged, best                  int       // of a Multistart
	gaps                                     []float64 // of its starts, by episode
	outcomes                                 Outcomes
	series                                   *series
}

// newTally sums up episodes of that number of decisions; 0: the problem's own.
func newTally(spec *domain.Spec, steps int) *tally {
	steps = cmp.Or(steps, spec.Steps)
	return &tally{spec: spec, lowest: make([]float64, len(spec.Margins)), limits: newLimits(spec), series: newSeries(spec, steps)}
}

// add counts one complete episode.
func (a *tally) add(e *EpisodeRecord) {
	a.episodes++
	a.outcomes.add(e)
	if e.End.BestKnown {
		a.bestKnown++
	}
	a.series.add(e)
	if !e.End.Completed {
		a.failures++
	}
	if e.End.Safe {
		a.safe++
	} else if cause := cmp.Or(e.End.Failure, e.End.Cause); cause != "" {
		a.unsafe = append(a.unsafe, UnsafeEpisode{e.Episode, cause})
	}
	if e.End.CollisionFree {
		a.collisionFree++
	}
	if e.End.Failed {
		a.failed++
	}
	a.excluded += e.End.Excluded
	if e.End.NoWay {
		a.noWay++
		if e.End.Safe {
			a.safeNoWay++
		}
	}
	a.countReference(e)
	if e.End.GoalReached != nil {
		a.goals++
		if *e.End.GoalReached {
			a.goalsReached++
		}
		if e.End.AtEnd != nil && *e.End.AtEnd {
			a.atEnd++
		}
	}
	if len(e.End.Margins) == len(a.spec.Margins) {
		a.withMargins++
		tensor.Axpy(1, e.End.Margins, a.lowest)
	}
	a.limits.add(e)
	a.soft.add(e)
	a.multistart(e.End.Starts)
	low := math.Inf(1)
	for i := range e.Lines {
		l := &e.Lines[i]
		a.decisions++
		if !a.spec.Keeps(float64(l.Margin)) {
			a.violations++
		}
		bits := domain.Fallback(l.Fallback)
		if bits != 0 {
			a.flagged++
		}
		if bits.Replaced() || bits&domain.FallbackMethod != 0 {
			a.fallback++
		}
		a.guard.add(l)
		if l.Gap != 0 {
			a.gapBounds = append(a.gapBounds, float64(l.Gap))
		}
		low = math.Min(low, float64(l.Margin))
		if l.Late {
			a.late++
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
	if len(a.spec.Switches) > 0 && len(e.End.Margins) == len(a.spec.Margins) {
		low = domain.Smallest(a.spec.LimitMargins(e.End.Margins))
	}
	if len(e.Lines) > 0 {
		a.lows = append(a.lows, low)
	}
	a.costAll += float64(e.End.Cost)
	if r, ok := e.Regret(); ok {
		a.regret = append(a.regret, r)
		a.costs, a.oracles = append(a.costs, float64(e.End.Cost)), append(a.oracles, float64(e.End.OracleCost))
	}
}

// countReference counts an episode whose cost has no reference by the reason.
func (a *tally) countReference(e *EpisodeRecord) {
	m := MissingReference{Episode: e.Episode, Cause: e.End.OracleFailure}
	switch cost := float64(e.End.OracleCost); {
	case m.Cause != "":
		a.oracleFailures++
		m.Reason, m.Fix = diagnosis.Unsolved(m.Cause)
	case cost <= 0:
		m.Reason, m.Cause = "the optimum does not cost more than nothing, which regret is relative to", fmt.Sprintf("it costs %.4g", cost)
		m.Fix = "objectives that are never below zero, such as what is missing to the best value"
	default:
		return
	}
	i := slices.IndexFunc(a.noReference, func(other MissingReference) bool { return other.Reason == m.Reason })
	if i < 0 {
		if i = len(a.noReference); len(e.Lines) > 0 {
			m.Start = e.Lines[0].X
		}
		a.noReference = append(a.noReference, m)
	}
	a.noReference[i].Episodes++
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
	cost, oracle := float64(e.End.Cost), float64(e.End.OracleCost)
	return 100 * (cost - oracle) / oracle, e.End.Safe && oracle > 0 && !math.IsInf(oracle, 0)
}

// ratio is k/n, NaN for n = 0.
func ratio(k, n int) Number { return Number(float64(k) / float64(n)) }

func (a *tally) result(h *Header) *Result {
	mean, sem := meanAndError(a.regret)
	gap, gapSEM := RatioAndError(a.costs, a.oracles)
	margin, marginSEM := meanAndError(a.lows)
	low, lowest := math.NaN(), math.Inf(1)
	if len(a.regret) > 0 {
		low = slices.Min(a.regret)
	}
	if len(a.lows) > 0 {
		lowest = slices.Min(a.lows)
	}
	r := &Result{
		Case: h.Case, Method: h.Method, Seed: h.Seed, Commit: h.Commit, Device: h.Device,
		Source: Source{h.ProblemSHA256, h.ModelSHA256, h.Backend, h.ISA}, Regime: h.Regime, Noise: h.Noise, Bias: h.Bias, Sensing: h.Sensing, Shift: h.Shift, Plant: h.Plant, Steps: h.Steps, Computing: h.Computing, Late: a.late, ScenesSHA256: h.ScenesSHA256,
		Episodes: a.episodes, Safe: ratio(a.safe, a.episodes), Feasible: ratio(a.decisions-a.violations, a.decisions),
		CollisionFree: Number(math.NaN()),
		GapPct:        Number(100 * (gap - 1)), GapSEM: Number(100 * gapSEM),
		RegretPct: Number(mean), RegretSEM: Number(sem), RegretMin: Number(low), RegretN: len(a.regret),
		CostMean:  Number(a.costAll / float64(a.episodes)),
		MarginMin: Number(lowest), Tolerance: a.spec.MarginTolerance, MarginMean: Number(margin), MarginSEM: Number(marginSEM),
		Regret: DescribeRegret(slices.Clone(a.regret)),
		Failed: a.failed,
		Unsafe: a.unsafe,
		NoWay:  a.noWay, SafeNoWay: a.safeNoWay,
		Decisions: a.decisions, Violations: a.violations, Fallback: a.fallback, Flagged: a.flagged, Failures: a.failures, OracleFailures: a.oracleFailures, NoReference: a.noReference, BestKnown: a.bestKnown, Excluded: a.excluded,
		Latency:      a.times.latency(),
		Displacement: Number(a.displacement / float64(a.displacements)),
		Shares: Shares{
			Localize: Number(a.shares[0] / float64(a.shared)), Step: Number(a.shares[1] / float64(a.shared)), Project: Number(a.shares[2] / float64(a.shared)),
		},
		CI95:     RateIntervals{Safe: ClopperPearson(a.safe, a.episodes), Failed: ClopperPearson(a.failed, a.episodes)},
		Outcomes: a.outcomes.sorted(),
		Series:   a.series.result(),
		Gap:      gapBounds(a.gapBounds),
	}
	if h.Guard != nil {
		guard := a.guard
		guard.RescueRate = ratio(guard.Rescues, a.decisions)
		r.Guard = &guard
	}
	if len(a.prepare) > 0 {
		r.Prepare = new(quantiles(slices.Clone(a.prepare)))
	}
	if a.starts > 0 {
		r.Starts = &StartStatistics{a.starts, ratio(a.converged, a.starts), ratio(a.best, a.converged), DescribeRegret(slices.Clone(a.gaps))}
	}
	if a.goals > 0 {
		goal, atEnd := ratio(a.goalsReached, a.goals), ratio(a.atEnd, a.goals)
		r.GoalReached, r.AtEnd = &goal, &atEnd
	}
	if a.withMargins > 0 {
		r.MarginsMean = map[string]Number{}
		for i, m := range a.spec.Margins {
			r.MarginsMean[m.Name] = Number(a.lowest[i] / float64(a.withMargins))
		}
	}
	r.Limits = a.limits.statistics(a.episodes, a.decisions)
	r.Soft = a.soft.statistics(h.Soft, a.decisions)
	r.AboveOracle = r.Above()
	if slices.ContainsFunc(a.spec.Margins, collides) {
		r.CollisionFree = ratio(a.collisionFree, a.episodes)
		r.CI95.CollisionFree = new(ClopperPearson(a.collisionFree, a.episodes))
	}
	return r
}
