package batchnav

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/model"
)

// RefineOptions say how many candidates are tried and how. Where plans are of one action
// a share of them are proposals (see Proposer), each followed by the base policy `direct`.
// The others are rounds of offsets along the whole roll-out (see SearchOptions), which
// begin with the best proposal. Plans of several actions are all proposals.
type RefineOptions struct {
	Candidates int    // B ≥ 1; at most MaxCandidates
	FlowSteps  int    // n ≥ 0 latent steps that all candidates take together
	Seed       uint64 // the result depends on it and on nothing else that varies
	// LookAhead is how many decisions of the true dynamics score a candidate: its
	// own action, then the base policy `direct`. 0: to the end of the episode as
	// Remaining or the problem (domain.ProblemAbilities.Remaining) knows it, else a whole episode; for a
	// decoded plan its length.
	LookAhead int
	// Remaining is how many decisions the episode still has; 0: not known.
	Remaining int
	// Mixture is the split of the candidates; the zero value is DefaultMixture.
	Mixture Mixture
	// Previous is the latent adopted at the last decision, [n_z]; nil: none.
	Previous []float32
	// NoRounds makes all candidates proposals. TimeLimit ends the rounds where another, as
	// long as the last, would exceed it; 0: never. The result then depends on the machine.
	NoRounds  bool
	TimeLimit time.Duration
	// NoProjection leaves decoded actions as they are.
	NoProjection bool
	// Threads that evaluate candidates; 0 or 1 is one. The result is the same.
	Threads int
}

// DefaultMixture gives half of the candidates to what the map knows, half to
// noise around it.
var DefaultMixture = Mixture{Neighbours: 0.25, Preference: 0.25}

// checkRefine says what is wrong with a request.
func (l *loaded) checkRefine(o *RefineOptions, q *domain.Question) error {
	switch err := checkOptions(domain.ProposeOptions{FlowSteps: o.FlowSteps, Mixture: o.Mixture}); {
	case err != nil:
		return fmt.Errorf("refine: %w", err)
	case o.Candidates < 1 || o.Candidates > MaxCandidates:
		return fmt.Errorf("refine: %d candidates, want 1 to %d", o.Candidates, MaxCandidates)
	case o.LookAhead < 0 || o.LookAhead > MaxLookAhead || o.Remaining < 0 || o.Remaining > MaxLookAhead || o.TimeLimit < 0:
		return fmt.Errorf("refine: look-ahead %d, remaining %d, within %v: want numbers ≥ 0, and at most %d decisions", o.LookAhead, o.Remaining, o.TimeLimit, MaxLookAhead)
	}
	if err := l.check(q); err != nil {
		return fmt.Errorf("refine: the observation %w", err)
	}
	if l.abilities.Remaining != nil {
		if remaining, most := l.abilities.Remaining(q.C), max(1, l.spec.LookAhead()); remaining > most {
			return fmt.Errorf("refine: the observation leaves %d decisions in its episode: want at most %d, a whole one", remaining, most)
		}
	}
	if steps := lookAhead(l.spec, l.abilities, q.C, o.LookAhead, o.Remaining); o.Candidates*steps > maxDecisions {
		return fmt.Errorf("refine: %d candidates with a look-ahead of %d decisions: want a product of at most %d", o.Candidates, steps, maxDecisions)
	}
	return nil
}

// Refinement is the best plan found. Its JSON keys are those of `gpc refine`.
type Refinement struct {
	U             []float64     `json:"u"`                   // best plan, action by action, projected, physical units
	Cost          float64       `json:"cost"`                // Σ σᵀJ of its true roll-out
	Margin        float64       `json:"margin"`              // smallest of the roll-out
	Feasible      bool          `json:"feasible"`            // whether that is no violation
	Candidates    int           `json:"candidates"`          // tried
	Index         int           `json:"index"`               // the winner among them
	Source        domain.Source `json:"source"`              // where the winner is from
	FeasibleCount int           `json:"feasible_candidates"` // over the look-ahead
	LookAhead     int           `json:"look_ahead"`          // decisions of the roll-out
	// Latent is the one that the winner was decoded from, the next question's Previous.
	Latent            []float32 `json:"-"`
	LocalizedCost     float64   `json:"localized_cost"`     // of the localized code's plan: one latent step without refinement
	LocalizedFeasible bool      `json:"localized_feasible"` // whether that is feasible
	Sigma             []float64 `json:"sigma"`              // priority of the decision
	// OffMap: the map was not made for such an observation, and its plans are candidates like any other.
	OffMap        bool               `json:"off_map"`        // whether it is, by residual, state or context
	Residual      float64            `json:"residual"`       // ‖s − D_s(z)‖² at the localized latent, normalised
	ResidualLimit float64            `json:"residual_limit"` // above it the observation is off the map; 0: not known
	Consistent    bool               `json:"consistent"`     // whether a code agreed with the measurement
	Sources       []SourceStatistics `json:"sources"`
	// Rounds are the proposals and the rounds after them, one behind the other.
	Rounds  []RefineRound `json:"rounds"`
	Latency RefineLatency `json:"latency_us"`
}

// RefineRound is the best so far after a round.
type RefineRound struct {
	Candidates int     `json:"candidates"` // so far
	Cost       float64 `json:"cost"`       // best so far
	Margin     float64 `json:"margin"`     // its margin
	Feasible   bool    `json:"feasible"`   // whether it is feasible
}

// endRound adds the best so far to the rounds.
func (r *Refinement) endRound() {
	r.Rounds = append(r.Rounds, RefineRound{Candidates: r.Candidates, Cost: r.Cost, Margin: r.Margin, Feasible: r.Feasible})
}

// SourceStatistics say what one source of candidates contributed.
type SourceStatistics = domain.SourceStatistics

// RefineLatency is where the time went, µs. A backend that refines by itself tells
// the total only.
type RefineLatency struct {
	Localize   float64 `json:"localize"`   // encode and search
	Candidates float64 `json:"candidates"` // spread
	Flow       float64 `json:"flow"`       // latent steps
	Evaluate   float64 `json:"evaluate"`   // roll-outs
	Total      float64 `json:"total"`      // the whole decision
}

// Refiner searches for the best plan of one observation in three parts. It proposes (a Proposer with one question),
// scores (the problem's own PlanScorer, or roll-outs by the true dynamics), and chooses. A backend that does all three
// by itself gets the whole request. Buffers grow to the largest request and are kept. It is used by one goroutine.
type Refiner struct {
	*loaded
	device                  backend.Refiner // refines whole requests where the backend can; nil: it cannot
	ends                    ending
	proposer                *Proposer         // nil while the device refines
	scorer                  domain.PlanScorer // the problem's; nil: it has none
	rollouts                *rollouts
	rounds                  *rolloutSearch // rounds along roll-outs, of the last request's size; nil: none yet
	question                [1]domain.Question
	answer                  [1]domain.Answer
	cost, margin, projected []float64
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
	r := &Refiner{loaded: l}
	if r.device, err = deviceRefiner(l, capacity); err == nil && r.device == nil {
		err = r.grow(capacity)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// grow makes room for n candidates of a refinement in single operations.
func (r *Refiner) grow(n int) (err error) {
	if r.proposer == nil {
		if r.abilities.NewPlanScorer != nil {
			device, _ := r.backend.(domain.Accelerator)
			if r.scorer, err = r.abilities.NewPlanScorer(device); err != nil {
				return fmt.Errorf("refine: scoring the plans of %s: %w", r.spec.Name, err)
			}
		}
		r.rollouts = newRollouts(r.loaded)
		if r.proposer, err = newProposer(r.loaded, n); err != nil {
			return err
		}
	}
	if n > len(r.cost) {
		r.cost, r.margin, r.projected = make([]float64, n), make([]float64, n), make([]float64, n*r.spec.PlanSize())
	}
	return nil
}

// Refine tries B plans of the observation and scores every one under the true dynamics. It returns the best feasible
// plan: the least cost, ties to the lowest index. If none is feasible it returns the one of largest smallest margin,
// with Feasible false. A non-finite observation is an error here. The context's cancellation is answered between
// roll-out steps, or before the start where the backend refines by itself.
func (r *Refiner) Refine(ctx context.Context, obs Observation, opt RefineOptions) (*Refinement, error) {
	r.question[0] = domain.Question{S: obs.S, C: obs.C, Preference: obs.Preference, Previous: opt.Previous, Count: opt.Candidates, Seed: opt.Seed}
	if err := r.checkRefine(&opt, &r.question[0]); err != nil {
		return nil, err
	}
	if (opt.Mixture == Mixture{}) {
		opt.Mixture = DefaultMixture
	}
	start := time.Now()
	steps := lookAhead(r.spec, r.abilities, obs.C, opt.LookAhead, opt.Remaining)
	proposed, offset := Split(r.spec, opt, steps, r.backend.Describe().Places)
	r.question[0].Count = proposed
	result, err := r.propose(ctx, obs, &opt, steps)
	if err != nil {
		return nil, err
	}
	result.OffMap = result.OffMap || r.outsideEnvelope(obs.S, obs.C, 0)
	result.endRound()
	if offset > 0 {
		if err := r.search(ctx, obs, &opt, steps, offset, start, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// propose is a refinement by proposals alone.
func (r *Refiner) propose(ctx context.Context, obs Observation, opt *RefineOptions, steps int) (*Refinement, error) {
	if r.device != nil {
		result, err := r.refineOnDevice(ctx, opt, steps)
		if !errors.Is(err, backend.ErrNoRefiner) {
			return result, err
		}
		r.device = nil // it works no longer
	}
	n := r.question[0].Count
	if err := r.grow(n); err != nil {
		return nil, err
	}
	start := time.Now()
	if err := r.proposer.Propose(domain.ProposeOptions{FlowSteps: opt.FlowSteps, Mixture: opt.Mixture, Context: ctx}, r.question[:], r.answer[:]); err != nil {
		return nil, err
	}
	answer := &r.answer[0]
	scored := domain.PlanBatch{
		S: obs.S, C: obs.C, Preference: obs.Preference, Plans: answer.Plans, Steps: steps, NoProjection: opt.NoProjection, Threads: opt.Threads,
		Projected: r.projected[:n*answer.Plans.Cols], Cost: r.cost[:n], Margin: r.margin[:n],
	}
	var scorer domain.PlanScorer = r.rollouts
	if r.scorer != nil && steps <= r.spec.Plan {
		scorer = r.scorer
	}
	if err := scorer.ScorePlans(ctx, scored); err != nil {
		return nil, err
	}
	out := choose(&scored, answer.Sources, r.spec)
	out.Latent, out.Sigma, out.Consistent = slices.Clone(answer.Latents.Row(out.Index)), slices.Clone(answer.Sigma), answer.Consistent
	result := r.refinement(&out, answer.Residual, n, steps)
	p, end := r.proposer, time.Now()
	result.Latency = RefineLatency{
		Localize: machine.Microseconds(p.localized.Sub(start)), Candidates: machine.Microseconds(p.scattered.Sub(p.localized)), Flow: machine.Microseconds(p.flowed.Sub(p.scattered)),
		Evaluate: machine.Microseconds(end.Sub(p.flowed)), Total: machine.Microseconds(end.Sub(start)),
	}
	return result, nil
}

// refinement is what was chosen, by whoever chose it.
func (r *Refiner) refinement(out *backend.RefineOutput, residual float64, candidates, lookAhead int) *Refinement {
	result := &Refinement{
		U: out.U, Cost: out.Cost, Margin: out.Margin, Feasible: out.Feasible, Candidates: candidates, Index: out.Index, Source: out.Source,
		FeasibleCount: out.FeasibleCount, LookAhead: lookAhead, Latent: out.Latent,
		LocalizedCost: out.LocalizedCost, LocalizedFeasible: r.spec.Keeps(out.LocalizedMargin),
		Sigma: out.Sigma, Consistent: out.Consistent,
	}
	result.Locate(residual, r.limit(0))
	for i, s := range out.Sources {
		if s.Source = domain.Source(i); s.Candidates > 0 {
			result.Sources = append(result.Sources, s)
		}
	}
	return result
}

// Locate says whether the observation is on the map: its residual at most the limit; 0: no
// limit is known.
func (r *Refinement) Locate(residual, limit float64) {
	r.Residual, r.ResidualLimit, r.OffMap = residual, limit, limit > 0 && !(residual <= limit)
}

// MaxLookAhead bounds the decisions that a roll-out looks ahead, MaxFlowSteps the latent
// steps of proposals.
const (
	MaxLookAhead = 10_000
	MaxFlowSteps = 1000
)

// maxDecisions of all roll-outs of a refinement together bound its memory.
const maxDecisions = 1 << 28

// lookAhead is the look-ahead in decisions from a context where that number is requested; 0: as RefineOptions.LookAhead
// says. remaining is RefineOptions.Remaining. No context makes it longer than an episode, and with a clock no request: beyond its
// end there are no limits.
func lookAhead(spec *domain.Spec, abilities *domain.ProblemAbilities, c []float64, requested, remaining int) int {
	if spec.Plan > 1 {
		return min(spec.Plan, cmp.Or(requested, spec.Plan))
	}
	end := abilities.LookAhead(spec, c)
	decisions := cmp.Or(requested, remaining, end)
	if spec.Clock > 0 {
		decisions = min(decisions, end)
	}
	return max(1, decisions)
}
