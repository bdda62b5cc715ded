package batchnav

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// RefineOptions say how many candidates are tried and how.
type RefineOptions struct {
	Candidates int    // B ≥ 1; at most MaxCandidates
	FlowSteps  int    // n ≥ 0 latent steps that all candidates take together
	Seed       uint64 // the result depends on it and on nothing else that varies
	// LookAhead is how many decisions of the true dynamics score a candidate: its
	// own action, then the base policy `direct`. 0: to the end of the episode as
	// Remaining or the problem (domain.Finite) knows it, else a whole episode; for a
	// decoded plan its length.
	LookAhead int
	// Remaining is how many decisions the episode still has; 0: not known.
	Remaining int
	// Mixture is the split of the candidates; the zero value is DefaultMixture.
	Mixture Mixture
	// NoProjection leaves decoded actions as they are.
	NoProjection bool
	// Threads that evaluate candidates; 0 or 1 is one. The result is the same.
	Threads int
}

// Mixture holds the shares of candidates by source.
type Mixture = domain.Mixture

// DefaultMixture gives half of the candidates to what the map knows, half to
// noise around it.
var DefaultMixture = Mixture{Neighbours: 0.25, Preference: 0.25}

// MaxCandidates bounds the memory that a request can ask for.
const MaxCandidates = 1 << 20

func (o *RefineOptions) validate() error {
	if o.Candidates < 1 || o.Candidates > MaxCandidates {
		return fmt.Errorf("refine: %d candidates, want 1 to %d", o.Candidates, MaxCandidates)
	}
	if o.FlowSteps < 0 || o.LookAhead < 0 || o.Remaining < 0 {
		return fmt.Errorf("refine: flow steps %d, look-ahead %d, remaining %d: want none negative", o.FlowSteps, o.LookAhead, o.Remaining)
	}
	if o.Mixture.Previous != 0 {
		return fmt.Errorf("refine: a share of %g around the previous latent, and a single observation has none", o.Mixture.Previous)
	}
	if err := checkMixture(o.Mixture); err != nil {
		return fmt.Errorf("refine: %w", err)
	}
	return nil
}

// checkMixture says what is wrong with shares.
func checkMixture(m Mixture) error {
	if !(m.Neighbours >= 0 && m.Preference >= 0 && m.Previous >= 0 && m.Neighbours+m.Preference+m.Previous <= 1) {
		return fmt.Errorf("shares %g of neighbours, %g of preferences and %g around the previous latent, want them ≥ 0 with a sum ≤ 1", m.Neighbours, m.Preference, m.Previous)
	}
	return nil
}

// Refinement is the best plan found. Its JSON keys are those of `gpc refine`.
type Refinement struct {
	U []float64 `json:"u"` // best plan [Plan·action], projected, physical units
	// Cost is Σ σᵀJ of the true roll-out; Margin its smallest hard margin.
	Cost     float64 `json:"cost"`
	Margin   float64 `json:"margin"`
	Feasible bool    `json:"feasible"` // Margin ≥ −MarginTolerance
	// Candidates is B, Index the winner among them, Source its origin.
	Candidates int    `json:"candidates"`
	Index      int    `json:"index"`
	Source     Source `json:"source"`
	// FeasibleCount is how many candidates were feasible over the look-ahead.
	FeasibleCount int `json:"feasible_candidates"`
	LookAhead     int `json:"look_ahead"`
	// LocalizedCost and LocalizedFeasible are candidate 0's: what one latent step
	// without refinement would do.
	LocalizedCost     float64            `json:"localized_cost"`
	LocalizedFeasible bool               `json:"localized_feasible"`
	Sigma             []float64          `json:"sigma"`
	Residual          float64            `json:"residual"`
	Consistent        bool               `json:"consistent"`
	Sources           []SourceStatistics `json:"sources"`
	Latency           RefineLatency      `json:"latency_us"`
}

// SourceStatistics say what one source of candidates contributed.
type SourceStatistics = domain.SourceStatistics

// RefineLatency is where the time went, µs. A backend that refines by itself tells
// the total only.
type RefineLatency struct {
	Localize   float64 `json:"localize"`
	Candidates float64 `json:"candidates"`
	Flow       float64 `json:"flow"`
	Evaluate   float64 `json:"evaluate"`
	Total      float64 `json:"total"`
}

// Refiner refines many latent candidates of one observation together. Buffers
// grow to the largest request and are kept. It is used by one goroutine.
type Refiner struct {
	*loaded
	device                      backend.Refiner // refines whole requests where the backend can; nil: it cannot
	capacity                    int
	observed, normal            tensor.Matrix // one row: E_x, x̂
	state, ctx                  tensor.Matrix // one row
	input                       tensor.Matrix // [B, n_x]
	z, other, plan              tensor.Matrix // [B, ·]
	rollS, rollC                tensor.Matrix // [B, ·] float32 copies of the roll-outs' states
	weight                      []float32
	slot                        []float64
	nearest                     []int32
	distance                    []float32
	source                      []Source
	cost, margin                []float64
	s, c, nextS, nextC, u, best []float64 // [B·] roll-out states and actions
	sigma, J                    []float64 // [B·M] priorities and objectives of the present actions
	scored                      domain.Scored
}

// NewRefiner prepares refinement with a workspace for capacity candidates; more
// can be asked for and are given a larger one.
func NewRefiner(b backend.Backend, m *model.Model, p domain.Problem, opt Options, capacity int) (*Refiner, error) {
	if capacity < 1 || capacity > MaxCandidates {
		return nil, fmt.Errorf("refine: a workspace for %d candidates, want 1 to %d", capacity, MaxCandidates)
	}
	l, err := load(b, m, p, &opt)
	if err != nil {
		return nil, err
	}
	spec := l.spec
	r := &Refiner{
		loaded:   l,
		observed: tensor.New(1, m.Latent()), normal: tensor.New(1, spec.MeasuredSize()),
		state: tensor.New(1, spec.MeasuredSize()), ctx: tensor.New(1, spec.ContextSize()),
		weight: make([]float32, spec.ObjectiveSize()), slot: make([]float64, spec.PreferenceSize()),
	}
	r.scored, _ = p.(domain.Scored)
	if r.device, err = deviceRefiner(l, capacity); err != nil {
		return nil, err
	}
	if r.device == nil {
		err = r.grow(capacity)
	}
	return r, err
}

// grow makes room for n candidates of a refinement in single operations.
func (r *Refiner) grow(n int) error {
	if n <= r.capacity {
		return nil
	}
	if r.stepper == nil { // larger batches it takes in parts
		if err := r.makeStepper(n); err != nil {
			return err
		}
	}
	spec, nz := r.spec, r.model.Latent()
	ns, nc := spec.MeasuredSize(), spec.ContextSize()
	r.capacity = n
	r.input = tensor.New(n, spec.ObservationSize())
	r.z, r.other, r.plan = tensor.New(n, nz), tensor.New(n, nz), tensor.New(n, spec.PlanSize())
	r.rollS, r.rollC = tensor.New(n, ns), tensor.New(n, nc)
	r.source = make([]Source, n)
	r.cost, r.margin = make([]float64, n), make([]float64, n)
	r.s, r.nextS = make([]float64, n*ns), make([]float64, n*ns)
	r.c, r.nextC = make([]float64, n*nc), make([]float64, n*nc)
	r.u = make([]float64, n*spec.PlanSize())
	r.best = make([]float64, n*spec.PlanSize())
	r.sigma, r.J = make([]float64, n*spec.ObjectiveSize()), make([]float64, n*spec.ObjectiveSize())
	return nil
}

// Refine scatters B latents around the observation (localized code, neighbours
// in M_t, preference sweep, scaled noise), flows them together, decodes and
// projects, evaluates every one under the true dynamics and returns the best
// feasible: the least cost, ties to the lowest index. If none is feasible the one
// of largest smallest margin is returned with Feasible false. A non-finite
// observation is an error here; the context's cancellation is answered between
// roll-out steps, or before the start where the backend refines by itself.
func (r *Refiner) Refine(ctx context.Context, obs Observation, opt RefineOptions) (*Refinement, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
	if (opt.Mixture == Mixture{}) {
		opt.Mixture = DefaultMixture
	}
	spec := r.spec
	if len(obs.S) != spec.MeasuredSize() || len(obs.C) != spec.ContextSize() {
		return nil, fmt.Errorf("refine: the observation has %d measured values and %d of context, case %q has %d and %d",
			len(obs.S), len(obs.C), spec.Name, spec.MeasuredSize(), spec.ContextSize())
	}
	if !tensor.Finite(obs.S) || !tensor.Finite(obs.C) {
		return nil, fmt.Errorf("refine: the observation has an entry that is not finite: s %v, c %v", obs.S, obs.C)
	}
	if err := obs.Preference.Validate(spec.ObjectiveSize()); err != nil {
		return nil, err
	}
	if r.device != nil {
		result, err := r.refineOnDevice(ctx, &obs, &opt)
		if !errors.Is(err, backend.ErrNoRefiner) {
			return result, err
		}
		r.device = nil // it works no longer
	}
	if err := r.grow(opt.Candidates); err != nil {
		return nil, err
	}
	n := opt.Candidates
	z, source := r.z.Slice(0, n), r.source[:n]
	result := &Refinement{Candidates: n, Sigma: make([]float64, spec.ObjectiveSize())}

	start := time.Now()
	localized, tau, err := r.anchor(&obs, result)
	if err != nil {
		return nil, err
	}
	t1 := time.Now()
	if err := r.scatter(&obs, localized, tau, &opt, z, source); err != nil {
		return nil, err
	}
	t2 := time.Now()
	plan := r.plan.Slice(0, n)
	if _, err := r.drift(z, r.other.Slice(0, n), opt.FlowSteps, result.Sigma, plan); err != nil {
		return nil, err
	}
	t3 := time.Now()
	result.LookAhead = lookAhead(r.problem, obs.C, &opt)
	if err := r.evaluate(ctx, &obs, plan, result.LookAhead, &opt); err != nil {
		return nil, err
	}
	r.choose(source, result)
	end := time.Now()
	result.Latency = RefineLatency{
		Localize: microseconds(t1.Sub(start)), Candidates: microseconds(t2.Sub(t1)), Flow: microseconds(t3.Sub(t2)),
		Evaluate: microseconds(end.Sub(t3)), Total: microseconds(end.Sub(start)),
	}
	return result, nil
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// lookAhead resolves the default of RefineOptions.LookAhead.
func lookAhead(p domain.Problem, c []float64, opt *RefineOptions) int {
	spec := p.Spec()
	if spec.Plan > 1 {
		if opt.LookAhead == 0 {
			return spec.Plan
		}
		return min(spec.Plan, opt.LookAhead)
	}
	if opt.LookAhead > 0 {
		return opt.LookAhead
	}
	if opt.Remaining > 0 {
		return opt.Remaining
	}
	if f, ok := p.(domain.Finite); ok {
		return max(1, f.Remaining(c))
	}
	return max(1, spec.Steps)
}

// anchor encodes and localizes the observation and computes the priority at ŝ.
func (r *Refiner) anchor(obs *Observation, result *Refinement) (localized []float32, tau float64, err error) {
	r.observe(obs.S, obs.C, obs.Preference, r.slot, r.input.Row(0), r.state.Row(0), r.ctx.Row(0), r.normal.Row(0))
	if err := r.encoder.Forward(r.input.Slice(0, 1), r.observed); err != nil {
		return nil, 0, err
	}
	tau = r.threshold(0)
	spot := r.observed.Clone()
	result.Consistent = true
	if r.index != nil {
		consistent := [1]bool{}
		if err := r.index.Localize(r.normal, r.observed, []float32{float32(tau)}, r.nav.Neighbours, backend.LocalizeOutput{Z: spot, Consistent: consistent[:]}); err != nil {
			return nil, 0, err
		}
		result.Consistent = consistent[0]
	}
	plan, decoded := tensor.New(1, r.spec.PlanSize()), tensor.New(1, r.spec.MeasuredSize())
	if err := r.stepper.Decode(spot, r.ctx, r.state, plan, decoded); err != nil {
		return nil, 0, err
	}
	shat, u := make([]float64, decoded.Cols), make([]float64, r.spec.ActionSize())
	tensor.Widen(shat, decoded.Row(0))
	tensor.Widen(u, plan.Row(0)[:len(u)])
	r.priority(obs.Preference, shat, u, obs.C, make([]float64, len(result.Sigma)), result.Sigma)
	r.model.NormS.Apply(decoded.Row(0), decoded.Row(0))
	result.Residual = tensor.SquaredDistance(r.normal.Row(0), decoded.Row(0))
	return spot.Row(0), tau, nil
}

// choose selects the winner and fills in the statistics.
func (r *Refiner) choose(source []Source, result *Refinement) {
	tolerance, np := r.spec.MarginTolerance, r.spec.PlanSize()
	statistics := make([]SourceStatistics, domain.Sources)
	best, bestMargin := -1, -1
	for i, src := range source {
		st := &statistics[src]
		st.Source = src
		st.Candidates++
		if better := bestMargin < 0 || r.margin[i] > r.margin[bestMargin]; better && !math.IsNaN(r.margin[i]) {
			bestMargin = i
		}
		if !(r.margin[i] >= -tolerance) || math.IsNaN(r.cost[i]) {
			continue
		}
		if st.Feasible == 0 || r.cost[i] < st.BestCost {
			st.BestCost = r.cost[i]
		}
		st.Feasible++
		st.MeanCost += r.cost[i]
		result.FeasibleCount++
		if best < 0 || r.cost[i] < r.cost[best] {
			best = i
		}
	}
	for _, st := range statistics {
		if st.Candidates == 0 {
			continue
		}
		if st.Feasible > 0 {
			st.MeanCost /= float64(st.Feasible)
		}
		result.Sources = append(result.Sources, st)
	}
	result.Feasible = best >= 0
	if best < 0 {
		best = max(bestMargin, 0)
	}
	result.Index, result.Source = best, source[best]
	result.Cost, result.Margin = r.cost[best], r.margin[best]
	result.LocalizedCost, result.LocalizedFeasible = r.cost[0], r.margin[0] >= -tolerance
	result.U = append([]float64(nil), r.best[best*np:(best+1)*np]...)
}
