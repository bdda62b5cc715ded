// Package closedloop runs methods against a case's plant, scores them, records
// every decision in a trace that anyone can check, and checks such traces.
//
// The central functions are Evaluate, which streams a trace and returns the
// statistics of the tables, and Verify, which re-simulates a trace from its
// header, scenes and actions alone. Simulated makes a plant for a problem that
// brings none.
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
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
)

// Options say what is run.
type Options struct {
	Method   string // the name in header and result
	Episodes int    // of the whole evaluation, over all shards
	Seed     uint64
	// ShardIndex of ShardCount: this run takes the episodes e with e mod ShardCount =
	// ShardIndex. ShardCount 0 is 1.
	ShardIndex, ShardCount int
	// Noise is the standard deviation of the measurement noise in units of each
	// state's own scale; Regime the case's word, "" its default.
	Noise  float64
	Regime string
	// Bias is the size of a constant error of every measured value, in its own unit, with
	// a sign that is drawn for each value and episode.
	Bias float64
	// Preference of decisions and of scoring.
	Preference domain.Preference
	// Threads run episodes side by side; 0 or 1 is one, which is what latencies
	// should be measured with. Everything but the latencies is the same.
	Threads int
	// TracePath is the file to write, "" for none. Resume continues it behind its
	// last complete episode; otherwise a file that is there is refused. One process at a
	// time writes it.
	TracePath string
	Resume    bool
	// Commit, Device, Backend, ISA, ModelSHA256 and Candidates are recorded; see Header.
	Commit, Device, Backend, ISA, ModelSHA256 string
	Candidates                                int
	// Every is the period of an episode's observations; one that is due before the last is decided
	// about waits for that. 0: none.
	Every time.Duration
	// Limit is the load of the machine above which nothing is run, or returned.
	Limit LoadLimit
	// Progress, if set, is called after each episode, Visit with each that was run.
	Progress func(done, total int)
	Visit    func(e *EpisodeRecord)
	// Scenes are run instead of drawn ones, each an episode; the case is on their plant (see
	// Remade). nil: episodes are drawn.
	Scenes *Scenes
}

// Load is the machine's during a run, LoadLimit the one above which latencies are not
// worth recording.
type (
	Load      = machine.Load
	LoadLimit = machine.Limit
)

// maxEpisodes bounds what a request can ask for.
const maxEpisodes = 10_000_000

// Validate says what in options for a case cannot be, and sets the default of ShardCount.
func (o *Options) Validate(spec *domain.Spec) error {
	if o.ShardCount == 0 {
		o.ShardCount = 1
	}
	switch {
	case o.Episodes < 1 || o.Episodes > maxEpisodes:
		return fmt.Errorf("closedloop: %d episodes, want 1 to %d", o.Episodes, maxEpisodes)
	case o.ShardCount < 1 || o.ShardIndex < 0 || o.ShardIndex >= o.ShardCount:
		return fmt.Errorf("closedloop: shard %d/%d, want 0 ≤ i < n", o.ShardIndex, o.ShardCount)
	case !(o.Noise >= 0) || math.IsInf(o.Noise, 0):
		return fmt.Errorf("closedloop: noise %v, want a finite standard deviation ≥ 0", o.Noise)
	case !(o.Bias >= 0) || math.IsInf(o.Bias, 0):
		return fmt.Errorf("closedloop: bias %v, want a finite number ≥ 0", o.Bias)
	case o.Every < 0:
		return fmt.Errorf("closedloop: an observation every %v, want 0 or more", o.Every)
	case o.Scenes != nil && (o.Episodes != len(o.Scenes.Files) || o.Regime != ""):
		return fmt.Errorf("closedloop: %d episodes of regime %q of %d scenes that are given: want an episode a scene, and no regime", o.Episodes, o.Regime, len(o.Scenes.Files))
	case o.Resume && o.TracePath == "":
		return fmt.Errorf("closedloop: nothing to resume without a trace file")
	}
	return o.Preference.Validate(spec.ObjectiveSize())
}

// Result holds the statistics of an evaluation under the JSON keys of `gpc
// eval`. Rates are fractions.
type Result struct {
	Case   string  `json:"case"`
	Method string  `json:"method"`
	Seed   uint64  `json:"seed"`
	Commit string  `json:"commit"`
	Device string  `json:"device"`
	Regime string  `json:"regime"`
	Noise  float64 `json:"noise"`
	// Bias and Shift are zero, and absent, where measurements are true on average and
	// the plant is the case's own.
	Bias     float64            `json:"bias,omitempty"`
	Shift    map[string]float64 `json:"shift,omitempty"`
	Episodes int                `json:"episodes"`
	// Safe: every step taken, no margin violated, no state lost and, where the episode has
	// a goal (see domain.Judged), the goal reached.
	Safe Number `json:"safe"`
	// Feasible is the fraction of decisions without a violation (paper, OPF).
	Feasible Number `json:"feasible"`
	// CollisionFree: no collision margin violated; null for a case that has none.
	CollisionFree Number `json:"collision_free"`
	// GapPct is 100 (Σ cost − Σ oracle)/Σ oracle over the RegretN safe episodes that have
	// an oracle (where that is a reference method: in which both are safe). GapSEM is the
	// standard error of this ratio over episodes.
	GapPct Number `json:"gap_pct"`
	GapSEM Number `json:"gap_sem_pct"`
	// RegretPct is the mean of 100 (cost − oracle)/oracle over the same RegretN
	// episodes, RegretSEM its standard error, RegretMin the smallest: below zero
	// it says that the oracle is weak.
	RegretPct Number `json:"regret_pct"`
	RegretSEM Number `json:"regret_sem_pct"`
	RegretMin Number `json:"regret_min_pct"`
	RegretN   int    `json:"regret_n"`
	// Regret is their distribution, with intervals.
	Regret   RegretStatistics `json:"regret"`
	CostMean Number           `json:"cost_mean"`
	// MarginMin and MarginMean are over the episodes' smallest margins, MarginSEM is
	// the mean's standard error.
	MarginMin  Number `json:"margin_min"`
	MarginMean Number `json:"margin_mean"`
	MarginSEM  Number `json:"margin_sem"`
	// MarginsMean are the means over episodes of the smallest value of each named
	// margin; absent where a trace does not hold them.
	MarginsMean map[string]Number `json:"margins_mean,omitempty"`
	// Reached and AtEnd are the fractions of episodes that met their goal at some
	// step, and after the last; absent for a case without goals.
	Reached *Number `json:"reached,omitempty"`
	AtEnd   *Number `json:"at_end,omitempty"`
	// ScenesSHA256 is of the scenes that were given (Scenes.SHA256), Beyond says in what they
	// lie outside of what the case's maps are made for; absent where scenes were drawn.
	ScenesSHA256 string   `json:"scenes_sha256,omitempty"`
	Beyond       []Beyond `json:"beyond,omitempty"`
	// Starts are of a domain.Multistart, absent elsewhere.
	Starts *StartStatistics `json:"starts,omitempty"`
	// Unsafe lists the episodes that were not safe, with what is known of the cause.
	Unsafe []UnsafeEpisode `json:"unsafe,omitempty"`
	// Decisions, of which Violations broke a margin, Fallback executed something
	// other than the method's own action, and Flagged had any guard act.
	Decisions  int `json:"decisions"`
	Violations int `json:"violations"`
	Fallback   int `json:"fallback"`
	Flagged    int `json:"flagged"`
	// Guard is what the case's guard did; absent for a case without.
	Guard *GuardCounts `json:"guard,omitempty"`
	// Failed are the episodes that passed through a lost state (domain.Failing), Failures
	// those that were not completed.
	Failed   int `json:"failed"`
	Failures int `json:"failures"`
	// OracleFailures are episodes whose oracle did not solve.
	OracleFailures int `json:"oracle_failures"`
	// Excluded are scenes left out before any method ran, by the case's own
	// criterion.
	Excluded int       `json:"excluded"`
	Latency  Quantiles `json:"latency_us"`
	// Load is the machine's while the latencies were taken; absent where it is not known, as
	// of a result that was read from traces.
	Load *Load `json:"load,omitempty"`
	// Shares are mean times of localize, step and project, µs; null where a method
	// has no such parts.
	Shares Shares `json:"shares_us"`
	// Displacement is the mean ‖z_{t+1} − z_t‖.
	Displacement Number        `json:"displacement_mean"`
	CI95         RateIntervals `json:"ci95"`
	Outcomes     *Outcomes     `json:"outcomes,omitempty"`
	Series       *Series       `json:"series,omitempty"`
}

// StartStatistics say how far the local optima of an oracle's starts lie apart, and so
// what it is worth.
type StartStatistics struct {
	Solves    int    `json:"solves"`    // over all episodes
	Converged Number `json:"converged"` // fraction
	// Best is the fraction of the converged that ended within 0.01 % of their episode's
	// least cost, GapPct the distribution over episodes of the worst above it.
	Best   Number           `json:"best"`
	GapPct RegretStatistics `json:"gap"`
}

// UnsafeEpisode is one entry of Result.Unsafe; with the result's seed it can be
// run again.
type UnsafeEpisode struct {
	Episode int    `json:"episode"`
	Cause   string `json:"cause"`
}

// Shares are the mean parts of a decision, µs.
type Shares struct {
	Localize Number `json:"localize"`
	Step     Number `json:"step"`
	Project  Number `json:"project"`
}

// RateIntervals are the 95 % Clopper–Pearson intervals of the rates over episodes. The
// decisions of an episode are not independent, so that Feasible has none.
type RateIntervals struct {
	Safe          Interval  `json:"safe"`
	Failed        Interval  `json:"failed"`
	CollisionFree *Interval `json:"collision_free"`
}

// sizes returns how many components of state and action an episode has.
func sizes(spec *domain.Spec, ep domain.Episode) (state, action int) {
	if sized, ok := ep.(domain.Sized); ok {
		return sized.Sizes()
	}
	return spec.MeasuredSize(), spec.ActionSize()
}

// newHeader describes a run.
func newHeader(c *domain.Case, plant domain.Plant, opt *Options) (Header, error) {
	params, err := json.Marshal(plant.Params())
	if err != nil {
		return Header{}, fmt.Errorf("closedloop: plant parameters: %w", err)
	}
	spec := c.Problem.Spec()
	h := Header{
		Trace: traceVersion, Case: spec.Name, Method: opt.Method, Seed: opt.Seed, Params: params,
		ProblemSHA256: durable.Sum(domain.FingerprintOf(c.Problem)), Commit: opt.Commit, Device: opt.Device, Backend: opt.Backend, ISA: opt.ISA, ModelSHA256: opt.ModelSHA256, Candidates: opt.Candidates,
		Noise: opt.Noise, Bias: opt.Bias, Shift: c.Shift, Regime: opt.Regime, Preference: opt.Preference,
		Episodes: opt.Episodes, Shard: [2]int{opt.ShardIndex, opt.ShardCount}, Tolerance: spec.MarginTolerance,
	}
	if !c.Guard.Off {
		h.Guard = &c.Guard
	}
	if opt.Scenes != nil {
		h.ScenesSHA256 = opt.Scenes.SHA256
	}
	for _, m := range spec.Margins {
		h.Margins = append(h.Margins, m.Name)
	}
	return h, nil
}

// Evaluate runs a method, made anew by factory for every thread, through the
// episodes of a case and returns its statistics. The case needs a Plant (see
// Simulated). With a TracePath every episode is on disk before the next is
// counted, so that an interrupted run can be resumed; then the statistics cover
// the resumed episodes too.
func Evaluate(ctx context.Context, c *domain.Case, factory func() (domain.Controller, error), opt Options) (*Result, error) {
	spec := c.Problem.Spec()
	if err := opt.Validate(spec); err != nil {
		return nil, err
	}
	if c.Plant == nil {
		return nil, fmt.Errorf("closedloop: case %q has no plant; see Simulated", spec.Name)
	}
	header, err := newHeader(c, c.Plant, &opt)
	if err != nil {
		return nil, err
	}
	episodeOptions := domain.EpisodeOptions{Noise: opt.Noise, Regime: opt.Regime, Preference: opt.Preference, Context: ctx}
	var beyond []Beyond
	if opt.Scenes != nil {
		if beyond, err = opt.Scenes.Check(ctx, c, opt.Seed, opt.ShardIndex, opt.ShardCount, episodeOptions); err != nil {
			return nil, err
		}
	}
	watch, err := machine.Begin(opt.Limit)
	if err != nil {
		return nil, err
	}
	if opt.TracePath != "" {
		lock, err := claim(opt.TracePath, opt.Resume)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			defer lock.Release()
		}
	}
	threads := max(1, opt.Threads)
	methods := make([]domain.Controller, threads)
	for i := range methods {
		if methods[i], err = factory(); err != nil {
			return nil, fmt.Errorf("closedloop: method %q: %w", opt.Method, err)
		}
	}
	sum := newTally(spec)
	next, resumed := opt.ShardIndex, false
	var file *traceFile
	if opt.TracePath != "" {
		last := -1
		if file, last, err = openTrace(opt.TracePath, &header, opt.Resume, sum); err != nil {
			return nil, err
		}
		defer file.close()
		if resumed = last >= 0; resumed {
			next = last + opt.ShardCount
		}
	}
	total := (opt.Episodes - opt.ShardIndex + opt.ShardCount - 1) / opt.ShardCount
	for next < opt.Episodes {
		if err := ctx.Err(); err != nil {
			return sum.result(&header), err
		}
		records := make([]*EpisodeRecord, threads)
		errs := make([]error, threads)
		var wait sync.WaitGroup
		for i := range threads {
			number := next + i*opt.ShardCount
			if number >= opt.Episodes {
				break
			}
			run := func() {
				records[i], errs[i] = runEpisode(ctx, c, methods[i], number, &opt, episodeOptions)
			}
			if threads == 1 {
				run()
				continue
			}
			wait.Go(run)
		}
		wait.Wait()
		for i, e := range records {
			if errs[i] != nil {
				return sum.result(&header), errs[i]
			}
			if e == nil {
				continue
			}
			if file != nil {
				if err := file.append(e); err != nil {
					return sum.result(&header), err
				}
			}
			sum.add(e)
			if opt.Visit != nil {
				opt.Visit(e)
			}
			if opt.Progress != nil {
				opt.Progress(sum.episodes, total)
			}
			next += opt.ShardCount
		}
	}
	if file != nil {
		if err := file.close(); err != nil {
			return nil, err
		}
	}
	result := sum.result(&header)
	result.Beyond = beyond
	if result.Load, err = watch.End(); err != nil {
		return nil, err
	}
	if result.Load != nil {
		result.Load.Partial = resumed
	}
	return result, nil
}

// runEpisode runs one episode to its end. What goes wrong inside the method or
// the plant fails the episode; a scene that cannot be made, or cancellation,
// ends the evaluation.
func runEpisode(ctx context.Context, c *domain.Case, method domain.Controller, number int, opt *Options, how domain.EpisodeOptions) (*EpisodeRecord, error) {
	spec := c.Problem.Spec()
	var ep domain.Episode
	var err error
	if opt.Scenes != nil {
		ep, err = opt.Scenes.Episode(c, opt.Seed, number, how)
	} else {
		ep, err = c.Plant.Episode(opt.Seed, number, how)
	}
	if err != nil {
		return nil, fmt.Errorf("closedloop: episode %d of %s: %w", number, spec.Name, err)
	}
	scene, err := json.Marshal(ep.Scene())
	if err != nil {
		return nil, fmt.Errorf("closedloop: scene of episode %d of %s: %w", number, spec.Name, err)
	}
	e := &EpisodeRecord{Episode: number, Scene: scene}
	failure := ""
	if err := method.Reset(ep); err != nil {
		failure = fmt.Sprintf("reset: %v", err)
	}
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	u := make([]float64, spec.ActionSize())
	ns, nu := sizes(spec, ep)
	var sum score
	bias := biases(opt.Bias, opt.Seed, number, ns)
	for t, due := 0, time.Now(); failure == "" && !ep.Done(); t, due = t+1, due.Add(opt.Every) {
		if err := wait(ctx, due); err != nil {
			return nil, err
		}
		ep.Observe(s, cx)
		for i, b := range bias {
			s[i] += b
		}
		start := time.Now()
		ok, err := method.Decide(s, cx, opt.Preference, u)
		latency := time.Since(start)
		if errors.As(err, new(domain.PreferenceError)) {
			return nil, fmt.Errorf("method %s: %w", opt.Method, err) // so it is in every episode
		}
		if err != nil {
			failure = fmt.Sprintf("decision %d: %v", t, err)
			break
		}
		out, err := apply(spec, ep, u)
		if err != nil {
			failure = fmt.Sprintf("step %d: %v", t, err)
			break
		}
		sum.add(spec, &out)
		e.Lines = append(e.Lines, line(number, t, s[:ns], cx, u[:nu], &out, monitor(method, ok), latency))
	}
	e.End = endOf(ep, &sum, failure == "")
	e.End.Failure = failure
	if m, ok := method.(domain.Multistart); ok {
		e.End.Starts = append(Vector(nil), m.Starts()...)
	}
	e.End.oracle(ep)
	if err := ctx.Err(); err != nil {
		return nil, err // what failed may have been ended by it
	}
	return e, nil
}

// wait waits for a moment, or the end of the context.
func wait(ctx context.Context, until time.Time) error {
	if left := time.Until(until); left > 0 {
		select {
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// endOf is what the plant says of an episode after its last step; completed is whether
// every step was taken.
func endOf(ep domain.Episode, sum *score, completed bool) End {
	end := End{Cost: Number(sum.cost), Completed: completed, CollisionFree: sum.collisionFree, Margins: sum.lowest, Failed: sum.failed}
	end.Safe = completed && sum.safe()
	if judged, ok := ep.(domain.Judged); ok {
		reached := judged.Succeeded()
		end.Reached = &reached
		end.Safe = end.Safe && reached
	}
	if a, ok := ep.(domain.Arrived); ok {
		now := a.Arrived()
		end.AtEnd = &now
	}
	if x, ok := ep.(domain.Explained); ok && !end.Safe && completed {
		end.Cause = x.Cause()
	}
	if completed {
		end.Cause = cmp.Or(end.Cause, sum.cause)
	}
	if drawn, ok := ep.(domain.Drawn); ok {
		end.Excluded = drawn.Excluded()
	}
	return end
}

// oracle asks the episode for the cost of its optimum.
func (e *End) oracle(ep domain.Episode) {
	cost, _, err := ep.Oracle()
	if err != nil {
		cost, e.OracleFailure = math.NaN(), err.Error()
	}
	e.OracleCost = Number(cost)
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

// monitor is a method's own record of its last decision; ok says whether its own
// solve succeeded.
func monitor(method domain.Controller, ok bool) domain.Monitor {
	m := domain.NoMonitor()
	if monitored, has := method.(domain.Monitored); has {
		m = monitored.Monitor()
	}
	if !ok {
		m.Fallback |= domain.FallbackMethod
	}
	return m
}

// line copies what the trace keeps of one decision.
func line(number, t int, s, c, u []float64, out *domain.Outcome, report domain.Monitor, latency time.Duration) Line {
	clone := func(v []float64) Vector { return append(Vector{}, v...) }
	l := Line{
		Episode: number, T: t, X: clone(s), C: clone(c), U: clone(u), S: clone(out.S[:len(s)]), Sigma: clone(out.Sigma), J: clone(out.J),
		Margin: Number(out.Margin), Residual: Number(report.Residual), Latency: Number(microseconds(latency)),
		Fallback: uint16(report.Fallback), Failed: out.Failed, Displacement: Number(report.Displacement),
	}
	if report.Priority != nil {
		l.Priority = clone(report.Priority)
	}
	if t := report.Times; t.Total() > 0 {
		l.Times = Vector{microseconds(t.Localize), microseconds(t.Step), microseconds(t.Project)}
	}
	return l
}

// score sums up the steps of one episode.
type score struct {
	cost                float64
	steps               int
	kept, collisionFree bool   // there is a step, and none violated a margin, or one against collision
	failed              bool   // a state was lost
	lowest              Vector // the smallest named margins so far
	cause               string // the first of what makes the episode unsafe
}

// safe reports whether there is a step, every margin was kept and no state was lost.
func (s *score) safe() bool { return s.kept && !s.failed }

func (s *score) add(spec *domain.Spec, out *domain.Outcome) {
	if s.lowest == nil {
		s.kept, s.collisionFree, s.lowest = true, true, append(Vector{}, out.Named...)
	}
	s.cost += out.Cost
	bad := violated(out.Margin, spec)
	switch at := slices.Index(out.Named, out.Margin); {
	case !s.safe():
	case bad && at >= 0:
		s.cause = fmt.Sprintf("decision %d: margin %s is %.3g", s.steps, spec.Margins[at].Name, out.Margin)
	case bad:
		s.cause = fmt.Sprintf("decision %d: a margin is %.3g", s.steps, out.Margin)
	case out.Failed:
		s.cause = fmt.Sprintf("decision %d: the state is lost", s.steps)
	}
	s.kept, s.failed = s.kept && !bad, s.failed || out.Failed
	s.steps++
	for i, m := range out.Named {
		s.lowest[i] = math.Min(s.lowest[i], m)
		s.collisionFree = s.collisionFree && !(collides(spec.Margins[i]) && violated(m, spec))
	}
}

// collides reports whether a margin is a distance to another body.
func collides(margin domain.Variable) bool { return margin.Kind == domain.Collision }

// apply advances the plant and checks the sizes of what it says.
func apply(spec *domain.Spec, ep domain.Episode, u []float64) (domain.Outcome, error) {
	out, err := ep.Apply(u)
	if err != nil {
		return out, err
	}
	for _, v := range []struct {
		name      string
		got, want int
	}{
		{"S", len(out.S), spec.MeasuredSize()}, {"J", len(out.J), spec.ObjectiveSize()},
		{"Sigma", len(out.Sigma), spec.ObjectiveSize()}, {"Named", len(out.Named), len(spec.Margins)},
	} {
		if v.got != v.want {
			return out, fmt.Errorf("the plant's Outcome.%s has %d entries, case %q has %d", v.name, v.got, spec.Name, v.want)
		}
	}
	return out, nil
}

// violated reports whether a margin is; a NaN is a violation.
func violated(margin float64, spec *domain.Spec) bool { return !(margin >= -spec.MarginTolerance) }

// isEnd reports whether an error only says that there is no more to read.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, ErrTruncated) }

// microseconds is the unit of every latency here.
func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
