// Package closedloop runs methods against a case's plant, scores them, records
// every decision in a trace that anyone can check, and checks such traces.
//
// There are two central functions. Evaluate streams a trace and returns the
// statistics of the tables. Verify re-simulates a trace from its header, scenes
// and actions alone. Simulated makes a plant for a problem that brings none.
//
// Rates come with Clopper–Pearson intervals; the definitions of regret and gap
// are the paper's eq. iclr-opf-gap, iclr-nav-gap and eq. analytical-regret, the
// last with each method's σ at its own state.
package closedloop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/tensor"
)

// Evaluate runs a method through the episodes of a case and returns its statistics. factory makes a method for every
// thread. The case needs a Plant (see Simulated). With a TracePath every episode is on disk before the next is counted,
// so that an interrupted run can be resumed. The statistics then cover the resumed episodes too.
func Evaluate(ctx context.Context, c *domain.Case, factory func() (domain.Controller, error), opt Options) (*Result, error) {
	spec := c.Problem.Spec()
	if err := opt.Validate(spec); err != nil {
		return nil, err
	}
	if c.Plant == nil {
		return nil, fmt.Errorf("case %q has no plant to simulate; closedloop.Simulated makes one of its dynamics", spec.Name)
	}
	ctx, cancel := opt.Within(ctx)
	defer cancel()
	header, err := newHeader(c, c.Plant, &opt)
	if err != nil {
		return nil, err
	}
	e := evaluation{
		controlCase: c, opt: &opt, header: header, methods: make([]domain.Controller, max(1, opt.Threads)), log: episodeLog{sum: newTally(spec, header.Steps)},
		episodeOptions: domain.EpisodeOptions{Noise: opt.Noise, Regime: opt.Regime, Preference: opt.Preference, Context: ctx},
	}
	var excursions []Excursion
	if opt.Scenes != nil {
		if excursions, err = opt.Scenes.Check(ctx, c, opt.Seed, opt.ShardIndex, opt.ShardCount, e.episodeOptions); err != nil {
			return nil, err
		}
	}
	watch, err := machine.Begin(opt.Limit)
	if err != nil {
		return nil, err
	}
	if opt.TracePath != "" {
		lock, err := lockTrace(opt.TracePath, opt.Resume)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			defer lock.Release()
		}
	}
	domain.Prepare(c.Problem)
	for i := range e.methods {
		if e.methods[i], err = factory(); err != nil {
			return nil, fmt.Errorf("method %q: %w", opt.Method, err)
		}
	}
	next, resumed := opt.ShardIndex, false
	if opt.TracePath != "" {
		last, err := e.log.open(opt.TracePath, &e.header, opt.Resume)
		if err != nil {
			return nil, err
		}
		defer e.log.file.Close()
		if resumed = last >= 0; resumed {
			next = last + opt.ShardCount
		}
	}
	err = e.run(ctx, next)
	late := context.Cause(ctx) == errBudget
	if err != nil && late && e.log.sum.total.Episodes == 0 {
		return nil, option.Errorf("the budget of %v ended before the first of %d episodes was driven and compared: give a larger {Budget}, or fewer steps", opt.Budget, opt.Episodes)
	} else if err != nil && !late {
		return e.log.sum.result(&e.header), err
	}
	if err := e.log.close(); err != nil {
		return nil, err
	}
	result := e.log.sum.result(&e.header)
	if result.Excursions = excursions; err != nil {
		result.Unfinished = fmt.Sprintf("the budget of %v ended after %d of %d episodes: a larger one drives more", opt.Budget, result.Episodes, opt.Episodes)
	}
	if opt.Scenes == nil && !late {
		result.SteadyState = SteadyStateRemark(c, opt.Seed, opt.Episodes, opt.Preference)
	}
	if result.Load, err = watch.End(); err != nil {
		return nil, err
	}
	if result.Load != nil {
		result.Load.Partial = resumed
	}
	if opt.Finer != nil && !late {
		result.Integration, err = opt.Finer.check(ctx, result, factory, opt)
	}
	if context.Cause(ctx) == errBudget {
		return result, nil
	}
	return result, err
}

// begin makes an episode, and a record of its scene alone.
func (e *evaluation) begin(number int) (ep domain.Episode, record *EpisodeRecord, err error) {
	name := e.controlCase.Problem.Spec().Name
	if e.opt.Scenes != nil {
		ep, err = e.opt.Scenes.Episode(e.controlCase, e.opt.Seed, number, e.episodeOptions)
	} else {
		ep, err = e.controlCase.Plant.Episode(e.opt.Seed, number, e.episodeOptions)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("episode %d of %s: %w", number, name, err)
	}
	scene, err := json.Marshal(ep.Scene())
	if err != nil {
		return nil, nil, fmt.Errorf("scene of episode %d of %s: %w", number, name, err)
	}
	return ep, &EpisodeRecord{Episode: number, Scene: scene}, nil
}

// episode runs one episode to its end. What goes wrong inside the method or
// the plant fails the episode; a scene that cannot be made, or cancellation,
// ends the evaluation.
func (e *evaluation) episode(ctx context.Context, number int, method domain.Controller) (*EpisodeRecord, error) {
	c, opt := e.controlCase, e.opt
	spec := c.Problem.Spec()
	ep, record, err := e.begin(number)
	if err != nil {
		return nil, err
	}
	failure := ""
	if err := method.Reset(ep); err != nil {
		failure = fmt.Sprintf("reset: %v", err)
	}
	abilities := domain.AbilitiesOfController(method)
	sensed := newMeasuredEpisode(c, ep, abilities)
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	u := make([]float64, spec.ActionSize())
	ns, nu := sizes(spec, ep)
	var sum score
	bias := biases(opt.Bias, opt.Seed, number, ns)
	pace, gap := newPace(opt.Computing, c, abilities, opt.Seed, number), gapOf(domain.AbilitiesOfProblem(c.Problem).Gap)
	for t, due := 0, time.Now(); failure == "" && !ep.Done(); t, due = t+1, due.Add(opt.Interval) {
		if err := wait(ctx, due); err != nil {
			return nil, err
		}
		decides, late := pace.next()
		start := opt.now()
		var decision domain.Decision
		if sensed != nil {
			sensed.measure(bias)
			if decides {
				decision, err = sensed.decide(sensed.y, sensed.c, opt.Preference, s, cx, u)
			}
		} else {
			ep.Observe(s, cx)
			tensor.Axpy(1, bias, s)
			if start = opt.now(); decides {
				decision, err = method.Decide(s, cx, opt.Preference, u)
			}
		}
		latency := opt.now().Sub(start)
		if errors.As(err, new(domain.PreferenceError)) {
			return nil, fmt.Errorf("method %s: %w", opt.Method, err) // so it is in every episode
		}
		if err != nil {
			failure = fmt.Sprintf("decision %d: %v", t, err)
			break
		}
		decision = gap.bounded(pace.executed(decision, s, cx, u), s, cx, opt.Preference, u)
		out, err := apply(spec, ep, u)
		if err != nil {
			failure = fmt.Sprintf("step %d: %v", t, err)
			break
		}
		sum.add(spec, &out)
		record.add(s[:ns], cx, u[:nu], &out, decision, latency)
		if late {
			record.Lines[t].late(decides)
		}
		if sum.diverged != "" && !ep.Done() {
			failure = sum.diverged
			break
		}
		if !decides {
			continue
		}
		if elapsed, err := prepare(abilities, ep, opt.now); err != nil {
			failure = unprepared(t, err)
		} else {
			record.Lines[t].Prepare = Number(machine.Microseconds(elapsed))
		}
	}
	record.End = endOf(ep, &sum, failure == "")
	record.End.Failure = failure
	if abilities.Starts != nil {
		record.End.Starts = append(Vector(nil), abilities.Starts()...)
	}
	record.End.NoWay = abilities.Way != nil && !abilities.Way()
	reference := noOptimum
	if !opt.WithoutOptima && ctx.Err() == nil {
		reference = opt.optima.ask(number, ep).improved(c, ep, &record.End)
		opt.optima.keep(number, reference)
	}
	record.End.compare(reference)
	if err := ctx.Err(); err != nil {
		return nil, err // what failed may have been ended by it
	}
	return record, nil
}

// unprepared is the failure of an episode whose method could not continue after a decision.
func unprepared(t int, err error) string { return fmt.Sprintf("behind decision %d: %v", t, err) }

// prepare lets a method that works between decisions do so, where there is another.
func prepare(abilities *domain.ControllerAbilities, ep domain.Episode, now func() time.Time) (elapsed time.Duration, err error) {
	if abilities.Prepare == nil || ep.Done() {
		return 0, nil
	}
	start := now()
	err = abilities.Prepare()
	return now().Sub(start), err
}

// now is a time of the clock.
func (o *Options) now() time.Time {
	if o.Clock != nil {
		return o.Clock()
	}
	return time.Now()
}

// wait waits for a moment, or the end of the context.
func wait(ctx context.Context, moment time.Time) error {
	if remaining := time.Until(moment); remaining > 0 {
		select {
		case <-time.After(remaining):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// endOf is what the plant says of an episode after its last step; completed is whether
// every step was taken.
func endOf(ep domain.Episode, sum *score, completed bool) End {
	end := End{Cost: Number(sum.cost), Completed: completed, CollisionFree: sum.collisionFree, Margins: sum.lowest, Violations: sum.violations, Failed: sum.failed, Excess: sum.excess, Exceeding: sum.exceeding}
	end.Safe = completed && sum.safe()
	abilities := domain.AbilitiesOfEpisode(ep)
	if abilities.Succeeded != nil {
		goal := abilities.Succeeded()
		end.GoalReached = &goal
		end.Safe = end.Safe && goal
	}
	if abilities.Arrived != nil {
		end.AtEnd = new(abilities.Arrived())
	}
	if abilities.Cause != nil && !end.Safe && completed {
		end.Cause = abilities.Cause()
	}
	if completed {
		end.Cause = cmp.Or(end.Cause, sum.cause)
	}
	if abilities.Excluded != nil {
		end.Excluded = abilities.Excluded()
	}
	return end
}

// compare states the optimum of the episode.
func (e *End) compare(best optimum) {
	e.OracleCost, e.OracleFailure, e.BestKnown = best.cost, best.failure, best.bestKnown
}

// biasStream separates the signs of an episode's bias from its scene and its noise.
const biasStream = 0x6269_6173 // "bias"

// biases are the errors of n measured values in one episode, of a size; nil: none.
func biases(size float64, seed uint64, number, n int) []float64 {
	if size == 0 {
		return nil
	}
	bias, rng := make([]float64, n), rand.New(rand.NewPCG(seed^biasStream, uint64(number)))
	for i := range bias {
		bias[i] = size * float64(1-2*rng.IntN(2))
	}
	return bias
}

// add appends a line: a copy of what the trace keeps of one decision.
func (e *EpisodeRecord) add(s, c, u []float64, out *domain.Outcome, decision domain.Decision, latency time.Duration) {
	clone := func(v []float64) Vector { return append(Vector{}, v...) }
	l := Line{
		Episode: e.Episode, T: len(e.Lines), X: clone(s), C: clone(c), U: clone(u), S: clone(out.S[:len(s)]), Sigma: clone(out.Sigma), J: clone(out.J),
		Margin: Number(out.Margin), Residual: Number(decision.Residual), Latency: Number(machine.Microseconds(latency)),
		Fallback: uint32(decision.Fallback), Failed: out.Failed, Displacement: Number(decision.Displacement),
		Gap: Number(decision.Gap),
	}
	if decision.Sigma != nil {
		l.Priority = clone(decision.Sigma)
	}
	if t := decision.Times; t.Total() > 0 {
		l.Times = Vector{machine.Microseconds(t.Localize), machine.Microseconds(t.Step), machine.Microseconds(t.Project)}
	}
	e.Lines = append(e.Lines, l)
}

// score sums up the steps of one episode.
type score struct {
	cost                    float64
	steps                   int
	feasible, collisionFree bool   // there is a step, and none violated a margin, or one against collision
	failed                  bool   // a state was lost
	lowest                  Vector // the smallest named margins so far
	limits                  []int  // of each named margin, the kind of limit that it is of
	violations              []int  // decisions that broke one, by kind
	violated                []bool // which this decision breaks
	excess                  Vector // the largest of each soft limit
	exceeding               []int  // decisions that exceeded it
	cause                   string // the first of what makes the episode unsafe
	diverged                string // the first value that is not finite; ""
}

// safe reports whether there is a step, every margin was kept and no state was lost.
func (s *score) safe() bool { return s.feasible && !s.failed }

func (s *score) add(spec *domain.Spec, out *domain.Outcome) {
	if s.lowest == nil {
		s.feasible, s.collisionFree, s.lowest = true, true, append(Vector{}, out.Named...)
		kinds, kindOf := spec.Limits()
		s.limits, s.violations, s.violated = kindOf, make([]int, len(kinds)), make([]bool, len(kinds))
	}
	s.cost += out.Cost
	if reason := divergence(spec, out); reason != "" && s.diverged == "" {
		s.diverged = fmt.Sprintf("decision %d: %s", s.steps, reason)
	}
	bad := !spec.Keeps(out.Margin)
	switch index := slices.Index(out.Named, out.Margin); {
	case !s.safe():
	case s.diverged != "":
		s.cause = s.diverged
	case bad && index >= 0:
		s.cause = fmt.Sprintf("decision %d: margin %s is %.3g", s.steps, spec.Margins[index].Name, out.Margin)
	case bad:
		s.cause = fmt.Sprintf("decision %d: a margin is %.3g", s.steps, out.Margin)
	case out.Failed:
		s.cause = fmt.Sprintf("decision %d: the state is lost", s.steps)
	}
	s.feasible, s.failed = s.feasible && !bad, s.failed || out.Failed
	s.steps++
	for i, m := range out.Named {
		s.lowest[i] = math.Min(s.lowest[i], m)
		s.collisionFree = s.collisionFree && !(collides(spec.Margins[i]) && !spec.Keeps(m))
		s.violated[s.limits[i]] = s.violated[s.limits[i]] || !spec.Keeps(m)
	}
	for k, violated := range s.violated {
		if violated {
			s.violations[k]++
		}
	}
	clear(s.violated)
	s.soft(out.Soft)
}

// soft counts what exceeds soft limits.
func (s *score) soft(margins []float64) {
	if s.excess == nil && len(margins) > 0 {
		s.excess, s.exceeding = make(Vector, len(margins)), make([]int, len(margins))
	}
	for i, m := range margins {
		if m < 0 {
			s.excess[i] = math.Max(s.excess[i], -m)
			s.exceeding[i]++
		}
	}
}

// collides reports whether a margin is a distance to another body.
func collides(margin domain.Variable) bool { return margin.Kind == domain.Collision }

// divergence names the first value of an outcome that is not finite; "" where all are.
func divergence(spec *domain.Spec, out *domain.Outcome) string {
	for i, v := range out.S {
		if !finite(v) {
			return fmt.Sprintf("%s is %v: the episode diverged", spec.Measured[i].Name, v)
		}
	}
	if !finite(out.Cost) {
		return fmt.Sprintf("the cost is %v: the episode diverged", out.Cost)
	}
	return ""
}

// apply advances the plant and checks the sizes of what it says. A state or a cost that is not finite is lost. An
// infinite margin becomes the largest number of its sign, which a trace can hold.
func apply(spec *domain.Spec, ep domain.Episode, u []float64) (domain.Outcome, error) {
	out, err := ep.Apply(u)
	if err != nil {
		return out, err
	}
	for _, v := range []struct {
		name         string
		length, want int
	}{
		{"S", len(out.S), spec.MeasuredSize()}, {"J", len(out.J), spec.ObjectiveSize()},
		{"Sigma", len(out.Sigma), spec.ObjectiveSize()}, {"Named", len(out.Named), len(spec.Margins)},
	} {
		if v.length != v.want {
			return out, fmt.Errorf("the plant's Outcome.%s has %d entries, case %q has %d", v.name, v.length, spec.Name, v.want)
		}
	}
	out.Failed = out.Failed || divergence(spec, &out) != ""
	for _, margins := range [][]float64{out.Named, out.Soft} {
		for i, m := range margins {
			margins[i] = max(-math.MaxFloat64, min(m, math.MaxFloat64))
		}
	}
	if len(out.Named) > 0 {
		out.Margin = max(-math.MaxFloat64, min(out.Margin, math.MaxFloat64))
	}
	return out, nil
}

// evaluation is a running one.
type evaluation struct {
	controlCase    *domain.Case
	opt            *Options
	header         Header
	episodeOptions domain.EpisodeOptions
	methods        []domain.Controller // one for each thread
	log            episodeLog
}

// run runs the shard's episodes from number next on, and keeps them in their order.
func (e *evaluation) run(ctx context.Context, next int) error {
	opt := e.opt
	total := (opt.Episodes - opt.ShardIndex + opt.ShardCount - 1) / opt.ShardCount
	progress := func() {
		if opt.Progress != nil {
			opt.Progress(e.log.sum.total.Episodes, total)
		}
	}
	progress()
	for next < opt.Episodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		records, errs := e.runBatch(ctx, next)
		for i, record := range records {
			if errs[i] != nil {
				return errs[i]
			}
			if err := e.log.add(record); err != nil {
				return err
			}
			if opt.Visit != nil {
				opt.Visit(record)
			}
			progress()
			next += opt.ShardCount
		}
	}
	return nil
}

// runBatch runs the shard's episodes from number next on, one for each method at once.
func (e *evaluation) runBatch(ctx context.Context, next int) ([]*EpisodeRecord, []error) {
	stride := e.opt.ShardCount
	count := min(len(e.methods), (e.opt.Episodes-next+stride-1)/stride)
	records, errs := make([]*EpisodeRecord, count), make([]error, count)
	parallel.Each(count, count, func(_, i int) { records[i], errs[i] = e.episode(ctx, next+i*stride, e.methods[i]) })
	return records, errs
}

// computingStream separates the times of decisions from every other draw of an episode.
const computingStream = 0x636f_6d70_7574_6573 // "computes"

// normalP99 is the 99th percentile of the standard normal distribution.
const normalP99 = 2.3263478740408408

// pace says when the decisions of one episode come, and keeps the rest of the last plan that came. The zero value is
// for decisions that take no time.
type pace struct {
	computing     *Computing
	cs            *domain.Case
	abilities     *domain.ControllerAbilities
	period        float64 // µs
	rng           *rand.Rand
	t             int     // periods that have begun
	decides, late bool    // in this period; its action comes after it, or not at all
	free          float64 // when the decision that was begun is ready, in periods
	current       timedPlan
	pending       timedPlan // of a decision that is late; its actions are nil where there is none
}

// timedPlan are actions from a period on, and when they are ready, in periods.
type timedPlan struct {
	actions []float64
	start   int
	ready   float64
}

// newPace is the pace of an episode; computing is nil where decisions take no time.
func newPace(computing *Computing, cs *domain.Case, abilities *domain.ControllerAbilities, seed uint64, number int) *pace {
	if computing == nil {
		return &pace{}
	}
	return &pace{computing: computing, cs: cs, abilities: abilities, period: 1e6 * cs.Problem.Spec().StepSeconds, rng: rand.New(rand.NewPCG(seed^computingStream, uint64(number)))}
}

// next begins a period. decides reports whether a decision is made in it. late reports that its action comes after the
// period or not at all.
func (p *pace) next() (decides, late bool) {
	if p.computing == nil {
		return true, false
	}
	duration := p.computing.P50 * math.Exp(math.Log(p.computing.P99/p.computing.P50)/normalP99*p.rng.NormFloat64()) / p.period
	begin := float64(p.t)
	p.t++
	if p.decides = p.free < begin+1; p.decides {
		p.free = math.Max(begin, p.free) + duration
	}
	p.late = p.free > begin+1 || !p.decides
	return p.decides, p.late
}

// executed writes the action that is available in this period into u, which holds the action of decision d, and returns
// its record. A decision that misses its period becomes the plan for the next ones.
func (p *pace) executed(d domain.Decision, s, c, u []float64) domain.Decision {
	if p.computing == nil {
		return d
	}
	var plan timedPlan
	if p.decides {
		plan = timedPlan{slices.Clone(u), p.t - 1, p.free}
		if len(d.Ahead) > len(u) {
			plan.actions = append(plan.actions, d.Ahead[len(u):]...)
		}
	}
	if !p.late {
		p.current, p.pending = plan, timedPlan{}
		return d
	}
	if p.pending.actions != nil && p.pending.ready <= float64(p.t) {
		p.current, p.pending = p.pending, timedPlan{}
	}
	var next []float64
	if offset := (p.t - 1 - p.current.start) * len(u); offset > 0 && offset+len(u) <= len(p.current.actions) {
		next = p.current.actions[offset : offset+len(u)]
	}
	replacement := domain.Decided(true)
	exact := p.cs.Measurement == nil && p.cs.Delay.Periods == 0
	_, replacement.Fallback = Hold(p.cs.Problem, s, c, next, exact, u)
	switch {
	case p.abilities.Executed == nil:
	case p.decides:
		p.abilities.Executed(u)
	case exact:
		p.abilities.Missed(s, c, u)
	default:
		p.abilities.Missed(nil, nil, u)
	}
	if p.decides {
		p.pending = plan
	}
	return replacement
}

// measuredEpisode is an episode whose method decides by measurements.
type measuredEpisode struct {
	read   func(y, c []float64)
	decide func(y, c []float64, pref domain.Preference, s, unknown, u []float64) (domain.Decision, error) // s and unknown become the estimates
	y, c   []float64
}

// newMeasuredEpisode is nil for a case without a Measurement, and for a method that gets the state itself.
func newMeasuredEpisode(cs *domain.Case, ep domain.Episode, abilities *domain.ControllerAbilities) *measuredEpisode {
	measure := domain.AbilitiesOfEpisode(ep).Measure
	if cs.Measurement == nil || measure == nil || abilities.DecideMeasured == nil {
		return nil
	}
	return &measuredEpisode{measure, abilities.DecideMeasured, make([]float64, len(cs.Measurement.Outputs)), make([]float64, cs.Problem.Spec().ContextSize())}
}

// measure measures, with a bias of each output.
func (e *measuredEpisode) measure(bias []float64) {
	e.read(e.y, e.c)
	for i := range min(len(bias), len(e.y)) {
		e.y[i] += bias[i]
	}
}
