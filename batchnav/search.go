package batchnav

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/tensor"
)

// SearchOptions make each decision the best of many roll-outs of the policy. A
// candidate acts at step h by D_u(E_x(x_h) + o_h). Rounds of the cross-entropy method (package crossentropy)
// improve the offsets under the true dynamics. The best, one step on, are candidates of the
// next decision. Plans must be of one action. The zero value is no search.
type SearchOptions struct {
	Candidates int // roll-outs of one decision over all rounds, 1 to MaxCandidates
	// LookAhead is how many decisions of the true dynamics score a candidate. 0: to the
	// end of the episode as the problem (domain.ProblemAbilities.Remaining) knows it, else a whole episode.
	LookAhead int
	// Ahead searches between decisions, in the state that the last action leads to (Batch.Prepare). A decision adds the
	// best offset found there to its latent, and the change of Polish to its action, in about the time of direct's. A
	// decision that is not prepared, as the first of an episode or under another preference, searches by itself.
	Ahead  bool
	Polish int // iterations of the problem (domain.ProblemAbilities.Polish) on the best roll-out; 0: none
	// TimeLimit ends a decision's rounds where another, as long as the last, would take it
	// beyond that; 0: never. The result then depends on the machine.
	TimeLimit time.Duration
	Seed      uint64 // with the number of the decision in its episode, all that is random
	round     int    // candidates of a round; 0: roundsOf says it
}

const (
	// A decision has searchRounds rounds, or fewer of leastRound candidates each. Where many roll-outs take no more time than
	// one, the rounds are fewer and fill the places: at least wideRounds, and oneStepRounds for roll-outs of a single step.
	searchRounds  = 8
	leastRound    = 16
	wideRounds    = 4
	oneStepRounds = 3
)

// roundsOf is the number of rounds of a search of n candidates, whose roll-outs have steps decisions. places is the
// number of roll-outs that take no more time than one.
func roundsOf(n, steps, places int) int {
	if places == 0 {
		return searchRounds
	}
	least := wideRounds
	if steps == 1 {
		least = oneStepRounds
	}
	return min(searchRounds, max(least, (n+places-1)/places))
}

// roundSize is the number of candidates of each round.
func roundSize(n, rounds int) int { return min(n, max(leastRound, (n+rounds-1)/rounds)) }

// search is the workspace of the loops of one batch. Offsets of a candidate are
// [steps·width], width that of a latent.
type search struct {
	*rollouts
	roundContext            context.Context // ends a round
	opt                     SearchOptions
	noProjection            bool
	threads, round          int // round: candidates of one
	sampler                 *crossentropy.Sampler
	device                  *deviceSearch // scores rounds, or makes them all, where the backend can; nil: it cannot
	steps                   int           // most that it rolls out
	present                 []float32     // context
	first                   tensor.Matrix
	cost, margin, projected []float64
	polish                  *polish // nil: none
	ends                    ending
	onHost                  onHost
}

// memory is what one loop keeps from decision to decision.
type memory struct {
	*crossentropy.Memory
	// plan are the actions of the last decision, of a polish or of a search on a device; the first was executed. change is
	// its difference from the best roll-out's first action; empty: there is none.
	plan, change []float64
	target       *target // of a polish, in place of the weights that reach a goal; nil: there is none
}

// newSearch prepares the search of loops that have made their latents' stepper: l's
// becomes one for a round of candidates.
func newSearch(l *loaded, opt *Options) (*search, error) {
	o := opt.Search
	if o.Candidates < 1 || o.Candidates > MaxCandidates || o.LookAhead < 0 || o.LookAhead > MaxLookAhead || o.TimeLimit < 0 {
		return nil, fmt.Errorf("a search of %d candidates with look-ahead %d within %v, want 1 to %d candidates, a look-ahead of 0 to %d, and a time ≥ 0", o.Candidates, o.LookAhead, o.TimeLimit, MaxCandidates, MaxLookAhead)
	}
	if l.spec.Plan != 1 {
		return nil, fmt.Errorf("a search along roll-outs needs plans of one action, those of case %q have %d", l.spec.Name, l.spec.Plan)
	}
	steps, places := cmp.Or(o.LookAhead, max(1, l.spec.LookAhead())), l.backend.Describe().Places
	round := cmp.Or(o.round, roundSize(o.Candidates, roundsOf(o.Candidates, steps, places)))
	if err := l.makeStepper(round); err != nil {
		return nil, err
	}
	nu, width := l.spec.ActionSize(), l.model.Latent()
	unit := slices.Repeat([]float64{l.model.Calibration.LatentSpread / math.Sqrt(float64(width))}, width)
	sampling := crossentropy.Options{Unit: unit, Round: round, Payload: nu, Tolerance: l.spec.MarginTolerance, Seed: o.Seed}
	r := &search{
		rollouts: newRollouts(l), roundContext: cmp.Or(opt.Context, context.Background()), opt: o, noProjection: opt.NoProjection, threads: l.backend.Describe().HostThreads(), round: round,
		sampler: crossentropy.New(sampling), steps: steps,
		present: make([]float32, l.spec.ContextSize()), first: tensor.New(round, nu),
		cost: make([]float64, round), margin: make([]float64, round), projected: make([]float64, round*nu),
	}
	var err error
	if r.many, err = l.manyValues(); err != nil {
		return nil, err
	}
	r.grow(round, r.threads)
	if o.Polish != 0 {
		if r.polish, err = newPolish(r); err != nil {
			return nil, err
		}
	}
	return r, r.prepareDevice(sampling)
}

// forget begins an episode; lose drops the last decision only.
func (m *memory) forget() {
	m.Forget()
	m.plan, m.change, m.target = m.plan[:0], m.change[:0], nil
}

func (m *memory) lose() {
	m.Lose()
	m.plan, m.change = m.plan[:0], m.change[:0]
}

// offsets of the best roll-out, [1, steps·width], where it has that number of steps; no rows otherwise.
func (m *memory) offsets(steps int) tensor.Matrix {
	best := m.Best()
	if best == nil || m.Steps() != steps {
		return tensor.Matrix{}
	}
	return single(best.Offsets)
}

// root is the observation that the roll-outs of a search start from, with its latent.
type root struct {
	s, c     []float64 // finite
	pref     domain.Preference
	state, z []float32 // s, and the latent, which a decision moves by the best offset
}

// decide searches one decision of a loop. plan is direct's and becomes the first action of the best roll-out. It returns
// how far x.z has moved. Both stay as they are where no roll-out has a margin. timeLimit is SearchOptions.TimeLimit.
func (r *search) decide(m *memory, x root, plan []float32, timeLimit time.Duration) (distance float64, err error) {
	start, steps := time.Now(), lookAhead(r.spec, r.abilities, x.c, r.opt.LookAhead, 0)
	if r.polish != nil {
		r.polish.makeRoom(steps)
	}
	tensor.Narrow(r.present, x.c)
	r.sampler.Begin(m.Memory, steps)
	whole, err := r.searchOnDevice(r.opt.Candidates, x, steps, true, timeLimit, time.Since(start))
	if err != nil {
		return 0, err
	}
	for total, rounds, improved := 0, 0, !whole; improved && total < r.opt.Candidates && !late(timeLimit, start, rounds); rounds++ {
		n := min(r.round, r.opt.Candidates-total)
		if improved, err = r.next(n, x, steps); err != nil {
			return 0, err
		}
		if best := m.Best(); r.polish != nil && best != nil && best.Number >= total {
			copy(r.polish.best, r.polish.executed[(best.Number-total)*len(r.polish.best):])
		}
		total += n
	}
	best := m.Best()
	if best == nil {
		m.lose()
		return 0, nil
	}
	copy(plan, best.Payload)
	if r.polish != nil {
		r.polish.improve(m, best, x, plan)
	} else if m.plan = m.plan[:0]; whole {
		m.plan = append(m.plan, r.device.out.Executed...)
	}
	r.onHost.tell(r.loaded, time.Since(start))
	return displaceBy(best.Offsets, x.z), nil
}

// displaceBy adds the first of a roll-out's offsets to z, and returns how far that is.
func displaceBy(offsets, z []float32) float64 {
	square := 0.0
	for j, o := range offsets[:len(z)] {
		z[j] += o
		square += float64(o) * float64(o)
	}
	return math.Sqrt(square)
}

// late reports whether a round more, as long as those since start, would exceed the time limit.
func late(timeLimit time.Duration, start time.Time, rounds int) bool {
	return timeLimit > 0 && rounds > 0 && time.Since(start)*time.Duration(rounds+1)/time.Duration(rounds) > timeLimit
}

// next is a round of n candidates, and reports whether one of them is elite.
func (r *search) next(n int, x root, steps int) (improved bool, err error) {
	r.offsets = r.sampler.Ask(n)
	if err := r.score(x, steps); err != nil {
		return false, err
	}
	r.rank(n, steps)
	return r.sampler.Tell(r.cost[:n], r.margin[:n], r.first), nil
}

// score rolls the candidates of a round out.
func (r *search) score(x root, steps int) error {
	if handled, err := r.scoreOnDevice(x, steps); handled || err != nil {
		return err
	}
	n := r.offsets.Rows
	latents, first := r.z.Slice(0, n), r.first.Slice(0, n)
	for i := range n {
		copy(latents.Row(i), x.z)
	}
	if err := r.decode(latents, tensor.Broadcast(r.present, n), tensor.Broadcast(x.state, n), first, 0); err != nil {
		return err
	}
	if r.onHost.reason != "" {
		start := time.Now()
		defer func() { r.onHost.elapsed += time.Since(start) }()
	}
	err := r.ScorePlans(r.roundContext, domain.PlanBatch{
		S: x.s, C: x.c, Preference: x.pref, Plans: first, Steps: steps, NoProjection: r.noProjection, Threads: r.threads,
		Projected: r.projected[:n*first.Cols], Cost: r.cost[:n], Margin: r.margin[:n],
	})
	for i, tight := range r.tight[:min(n, len(r.tight))] {
		r.margin[i] = math.Min(r.margin[i], tight)
	}
	return err
}

// rank orders the roll-outs that lose the state below all others, the earlier loss lower, by their margins.
func (r *search) rank(n, steps int) {
	if r.failed == nil {
		return
	}
	for i, survived := range r.survived[:n] {
		if survived < steps && math.IsInf(r.margin[i], -1) {
			r.margin[i] = -crossentropy.BeyondMargins * float64(steps-survived)
		}
	}
}
