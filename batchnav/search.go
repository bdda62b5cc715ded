package batchnav

import (
	"context"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// SearchOptions make each decision the best of many roll-outs of the policy. A
// candidate acts at step h by D_u(E_x(x_h) + o_h), its offsets o_h linear between
// searchKnots knots over the look-ahead. Rounds of the cross-entropy method (Rubinstein
// and Kroese, "The Cross-Entropy Method", 2004) improve the offsets under the true
// dynamics, and the best, one step on, are candidates of the next decision. Plans must
// be of one action. The zero value is no search.
type SearchOptions struct {
	Candidates int // roll-outs of one decision over all rounds, 1 to MaxCandidates
	// LookAhead is how many decisions of the true dynamics score a candidate. 0: to the
	// end of the episode as the problem (domain.Finite) knows it, else a whole episode.
	LookAhead int
	NoMemory  bool   // nothing is kept from one decision to the next
	Actions   bool   // offsets are added to decoded actions instead of latents
	Polish    int    // iterations of the problem (domain.Polisher) on the best roll-out; 0: none
	Seed      uint64 // with the number of the decision in its episode, all that is random
}

const (
	searchKnots = 5
	// A decision has searchRounds rounds, or as many of leastRound candidates as it can.
	// One in eliteShare of a round is elite.
	searchRounds = 8
	leastRound   = 16
	eliteShare   = 4
	// The spread begins at searchSpread and stays above searchFloor, as shares of the
	// width of M* (of the actions' scale) along each coordinate. A round moves it by
	// searchLearn towards the elites' and the next decision begins at searchGrowth times
	// what is left, so that it grows again where the plant is not as it was.
	searchSpread = 0.03
	searchFloor  = 1e-3
	searchLearn  = 0.7
	searchGrowth = 2
	// decisionStream separates the random numbers of decisions.
	decisionStream = 0x9e3779b97f4a7c15
)

// search is the workspace of the loops of one batch. Offsets of a candidate are
// [knots·width], width that of a latent or an action.
type search struct {
	*rollouts
	opt                     SearchOptions
	noProjection            bool
	threads, round          int // round: candidates of one
	draw                    *draws
	unit                    []float64 // of the spread, per coordinate
	room                    []float32 // of the offsets of a round
	present                 []float32 // context
	first                   tensor.Matrix
	cost, margin, projected []float64
	mean, spread, normals   []float64
	rank                    []float64 // weights of the elites
	polish                  *polish   // nil: none
}

// memory is what one loop keeps from decision to decision: the elites, best first, with
// the steps that their offsets span, 0 where there are none.
type memory struct {
	decision uint64
	steps    int
	elites   []elite
	kept     int
	spread   []float64
	plan     []float64 // of a polish: the actions of the decision, the first executed
}

// elite is a roll-out with the decoded action that it begins with.
type elite struct {
	offsets, action []float32
	cost, margin    float64
}

// newSearch prepares the search of loops that have made their latents' stepper: l's
// becomes one for a round of candidates.
func newSearch(l *loaded, opt *Options) (*search, error) {
	o := opt.Search
	if o.Candidates < 1 || o.Candidates > MaxCandidates || o.LookAhead < 0 {
		return nil, fmt.Errorf("batchnav: a search of %d candidates with look-ahead %d, want 1 to %d and none negative", o.Candidates, o.LookAhead, MaxCandidates)
	}
	if l.spec.Plan != 1 {
		return nil, fmt.Errorf("batchnav: a search along roll-outs needs plans of one action, those of case %q have %d", l.spec.Name, l.spec.Plan)
	}
	round := min(o.Candidates, max(leastRound, (o.Candidates+searchRounds-1)/searchRounds))
	if err := l.makeStepper(round); err != nil {
		return nil, err
	}
	nu, width := l.spec.ActionSize(), l.model.Latent()
	if o.Actions {
		width = nu
	}
	size := searchKnots * width
	r := &search{
		rollouts: newRollouts(l), opt: o, noProjection: opt.NoProjection, threads: l.backend.Describe().Threads, round: round, draw: newDraws(),
		unit: make([]float64, width), room: make([]float32, round*size), present: make([]float32, l.spec.ContextSize()), first: tensor.New(round, nu),
		cost: make([]float64, round), margin: make([]float64, round), projected: make([]float64, round*nu),
		mean: make([]float64, size), spread: make([]float64, size), normals: make([]float64, size), rank: make([]float64, max(1, round/eliteShare)),
	}
	r.bendActions = o.Actions
	r.grow(round, r.threads)
	if o.Polish != 0 {
		var err error
		if r.polish, err = newPolish(r); err != nil {
			return nil, err
		}
	}
	for j := range r.unit {
		if r.unit[j] = l.model.Calibration.LatentSpread / math.Sqrt(float64(width)); o.Actions {
			r.unit[j] = float64(l.model.NormU.Scale[j])
		}
	}
	return r, nil
}

// newMemory makes the memory of one loop.
func (r *search) newMemory() *memory {
	m := &memory{elites: make([]elite, len(r.rank)), spread: make([]float64, len(r.spread))}
	for i := range m.elites {
		m.elites[i] = elite{offsets: make([]float32, len(r.mean)), action: make([]float32, r.first.Cols)}
	}
	return m
}

// forget begins an episode.
func (m *memory) forget() { m.decision, m.steps, m.plan = 0, 0, m.plan[:0] }

// decide searches one decision of a loop in the finite state s: state is its float32
// copy and z its latent E_x, which the best offset is added to, plan is direct's, which
// becomes the first action of the best roll-out. It returns how far z has moved. Both
// stay as they are where no roll-out has a margin.
func (r *search) decide(m *memory, s, c []float64, pref domain.Preference, state, z, plan []float32) (moved float64, err error) {
	steps := lookAhead(r.problem, c, &RefineOptions{LookAhead: r.opt.LookAhead})
	size, seed := min(searchKnots, steps)*len(r.unit), r.opt.Seed+decisionStream*m.decision
	tensor.Narrow(r.present, c)
	r.offsets = tensor.Matrix{Cols: size, Stride: size, Data: r.room}
	given := r.recall(m, steps)
	if r.polish != nil {
		r.polish.makeRoom(steps)
	}
	m.decision, m.steps, m.kept = m.decision+1, steps, 0
	for done, gained := 0, true; gained && done < r.opt.Candidates; given = 0 {
		n := min(r.round, r.opt.Candidates-done)
		r.offsets.Rows = n
		r.scatter(given, done, seed)
		if err := r.score(s, c, pref, state, z, steps); err != nil {
			return 0, err
		}
		gained = false
		for i := range n {
			gained = r.keep(m, i) || gained
		}
		r.adapt(m)
		done += n
	}
	copy(m.spread, r.spread[:size])
	if m.kept == 0 {
		m.steps, m.plan = 0, m.plan[:0]
		return 0, nil
	}
	best := &m.elites[0]
	copy(plan, best.action)
	if r.polish != nil {
		r.polish.improve(m, s, c, pref, plan)
	}
	if !r.opt.Actions {
		for j, o := range best.offsets[:len(z)] {
			z[j] += o
			moved += float64(o) * float64(o)
		}
	}
	return math.Sqrt(moved), nil
}

// recall writes the first candidates of a decision: no offsets, which is `direct`, then
// the elites of the last decision one step on. Mean and spread are those of the best
// elite and of the last round. It returns how many candidates there are.
func (r *search) recall(m *memory, steps int) (given int) {
	width, size := len(r.unit), r.offsets.Cols
	knots := size / width
	clear(r.room[:size])
	clear(r.mean)
	if m.steps == 0 || r.opt.NoMemory {
		for j := range size {
			r.spread[j] = searchSpread * r.unit[j%width]
		}
		return 1
	}
	given = 1 + min(m.kept, r.round-1)
	for k := range knots {
		at := 1.0 // a step has passed
		if knots > 1 {
			at += float64(k*(steps-1)) / float64(knots-1)
		}
		from, to, f := between(min(at, float64(m.steps-1)), m.steps, min(searchKnots, m.steps))
		from, to = from*width, to*width
		for i := 1; i < given; i++ {
			old, now := m.elites[i-1].offsets, r.room[i*size+k*width:]
			for j := range width {
				now[j] = (1-f)*old[from+j] + f*old[to+j]
			}
		}
		for j := range width {
			r.spread[k*width+j] = searchGrowth * ((1-float64(f))*m.spread[from+j] + float64(f)*m.spread[to+j])
		}
	}
	if given > 1 {
		tensor.Widen(r.mean[:size], r.room[size:2*size])
	}
	return given
}

// scatter draws the candidates of a round behind those given, done before it.
func (r *search) scatter(given, done int, seed uint64) {
	for i := given; i < r.offsets.Rows; i++ {
		o := r.offsets.Row(i)
		r.draw.noise(seed, done+i, r.normals[:len(o)])
		for j := range o {
			o[j] = float32(r.mean[j] + r.spread[j]*r.normals[j])
		}
	}
}

// score rolls the candidates of a round out.
func (r *search) score(s, c []float64, pref domain.Preference, state, z []float32, steps int) error {
	n := r.offsets.Rows
	from, first := r.z.Slice(0, n), r.first.Slice(0, n)
	for i := range n {
		copy(from.Row(i), z)
	}
	if err := r.decode(from, tensor.Broadcast(r.present, n), tensor.Broadcast(state, n), first, 0, steps); err != nil {
		return err
	}
	return r.ScorePlans(context.Background(), domain.PlanBatch{
		S: s, C: c, Preference: pref, Plans: first, Steps: steps, NoProjection: r.noProjection, Threads: r.threads,
		Projected: r.projected[:n*first.Cols], Cost: r.cost[:n], Margin: r.margin[:n],
	})
}

// keep puts candidate i of a round among the elites if it is one. One without a margin,
// or that leaves the numbers, is none.
func (r *search) keep(m *memory, i int) bool {
	e := elite{cost: r.cost[i], margin: r.margin[i]}
	at := m.kept
	for at > 0 && r.better(&e, &m.elites[at-1]) {
		at--
	}
	if !(e.margin > math.Inf(-1)) || at == len(m.elites) {
		return false
	}
	m.kept = min(m.kept+1, len(m.elites))
	last := &m.elites[m.kept-1]
	e.offsets, e.action = last.offsets, last.action
	copy(e.offsets, r.offsets.Row(i))
	copy(e.action, r.first.Row(i))
	copy(m.elites[at+1:m.kept], m.elites[at:])
	m.elites[at] = e
	if at == 0 && r.polish != nil {
		r.polish.take(i)
	}
	return true
}

// better is feasible before cheap, and the larger margin where neither is feasible.
func (r *search) better(a, b *elite) bool {
	fa, fb := r.feasible(a), r.feasible(b)
	if fa && fb {
		return a.cost < b.cost
	}
	return fa || !fb && a.margin > b.margin
}

func (r *search) feasible(e *elite) bool {
	return e.margin >= -r.spec.MarginTolerance && !math.IsNaN(e.cost)
}

// adapt moves mean and spread to the elites', weighed by rank. The spread is about the
// mean before, so that it widens along a direction in which all elites lie.
func (r *search) adapt(m *memory) {
	total := 0.0
	for i := range m.kept {
		r.rank[i] = math.Log((float64(m.kept) + 0.5) / float64(i+1))
		total += r.rank[i]
	}
	if m.kept == 0 {
		return
	}
	for j := range r.offsets.Cols {
		mean, square := 0.0, 0.0
		for i, w := range r.rank[:m.kept] {
			o := float64(m.elites[i].offsets[j])
			mean += w / total * o
			square += w / total * (o - r.mean[j]) * (o - r.mean[j])
		}
		r.spread[j] = max(searchFloor*r.unit[j%len(r.unit)], (1-searchLearn)*r.spread[j]+searchLearn*math.Sqrt(square))
		r.mean[j] = mean
	}
}
