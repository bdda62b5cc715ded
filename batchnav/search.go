package batchnav

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Search chooses each decision among whole roll-outs of the policy: a candidate acts
// at step h by D_u(E_x(x_h) + o_h), where its offsets o_h are linear between a few
// knots over the look-ahead. Rounds of the cross-entropy method improve the offsets
// under the true dynamics, and the best of them, one step on, begin the next decision.
// It needs plans of one action. The zero value is no search.
type Search struct {
	Candidates int // roll-outs of one decision, over all rounds; at most MaxCandidates
	// LookAhead is how many decisions of the true dynamics score a candidate. 0: to the
	// end of the episode as the problem (domain.Finite) knows it, else a whole episode.
	LookAhead int
	NoMemory  bool   // every decision begins at zero offsets
	Actions   bool   // offsets are of decoded actions, in units of NormU's scale
	Seed      uint64 // the result depends on it and on the number of the decision
}

const (
	searchKnots  = 5
	// leastRound is the least number of candidates in a round, searchElites the most
	// elites that are kept.
	searchElites = 64
)
var searchRounds, leastRound, eliteShare = int(tune("ROUNDS",8)), int(tune("LEAST",16)), int(tune("ESHARE", 4))


// search is the workspace of all loops of a batch.
type search struct {
	*rollouts
	opt                     Search
	draw                    *draws
	unit                    []float64 // of each offset coordinate
	ctx1                    []float32
	plans                   tensor.Matrix
	cost, margin, projected []float64
	mean, spread, normals   []float64 // [knots·width]
	room                    []float32 // of the offsets
	round                   int       // candidates of one
	threads                 int
}

// memory is what one loop keeps of its last decision.
type memory struct {
	decision uint64
	steps    int // that the knots are spread over; 0: nothing is kept
	elites   []elite
	kept     int       // of elites, the best first
	spread   []float64 // [knots·width]
}

type elite struct {
	offsets, action []float32
	cost, margin    float64
}

func newSearch(l *loaded, opt Search) (*search, error) {
	if opt.Candidates < 1 || opt.Candidates > MaxCandidates || opt.LookAhead < 0 {
		return nil, fmt.Errorf("batchnav: a search of %d candidates with look-ahead %d, want 1 to %d and none negative", opt.Candidates, opt.LookAhead, MaxCandidates)
	}
	if l.spec.Plan != 1 {
		return nil, fmt.Errorf("batchnav: a search over offsets needs plans of one action, those of case %q have %d", l.spec.Name, l.spec.Plan)
	}
	round := min(opt.Candidates, max(leastRound, opt.Candidates/searchRounds))
	own := *l // its step is as large as a round
	if err := own.makeStepper(round); err != nil {
		return nil, err
	}
	s := &search{rollouts: newRollouts(&own), opt: opt, draw: newDraws(), round: round, threads: l.backend.Describe().Threads}
	if opt.Actions {
		s.unit = make([]float64, l.spec.ActionSize())
		for j := range s.unit {
			s.unit[j] = float64(l.model.NormU.Scale[j])
		}
	} else {
		s.unit = make([]float64, l.model.Latent())
		for j := range s.unit {
			s.unit[j] = l.model.Calibration.LatentSpread / math.Sqrt(float64(len(s.unit)))
		}
	}
	size := searchKnots * len(s.unit)
	s.bendActions, s.room, s.ctx1 = opt.Actions, make([]float32, round*size), make([]float32, l.spec.ContextSize())
	s.plans = tensor.New(round, l.spec.ActionSize())
	s.cost, s.margin, s.projected = make([]float64, round), make([]float64, round), make([]float64, round*l.spec.ActionSize())
	s.mean, s.spread, s.normals = make([]float64, size), make([]float64, size), make([]float64, size)
	return s, nil
}

// remember makes the memory of one loop.
func (s *search) remember() *memory {
	m := &memory{elites: make([]elite, max(1, min(searchElites, s.round/eliteShare))), spread: make([]float64, len(s.mean))}
	for i := range m.elites {
		m.elites[i].offsets, m.elites[i].action = make([]float32, len(s.mean)), make([]float32, s.plans.Cols)
	}
	return m
}

// forget begins an episode.
func (m *memory) forget() { m.decision, m.steps, m.kept = 0, 0, 0 }

// decide improves a loop's plan: s as the loop works on it with its float32 copies
// state and z = E_x(s), plan is direct's and becomes the first action of the best
// roll-out. It returns how far the best offsets move z. A plan stays as it is where no
// roll-out has a margin.
func (r *search) decide(m *memory, s, c []float64, pref domain.Preference, state, z, plan []float32) (moved float64, err error) {
	width := len(r.unit)
	steps := lookAhead(r.problem, c, &RefineOptions{LookAhead: r.opt.LookAhead})
	size := min(searchKnots, steps) * width
	tensor.Narrow(r.ctx1, c)
	n := r.recall(m, steps, size)
	for done, seed := 0, r.opt.Seed+m.decision*decisionStream; done < r.opt.Candidates; n = 0 {
		round := min(r.round, r.opt.Candidates-done)
		r.offsets.Rows = round
		r.scatter(n, round, done, seed)
		if err := r.score(s, c, pref, state, z, steps, round); err != nil {
			return 0, err
		}
		gained := false
		for i := range round {
			gained = r.keep(m, i) || gained
		}
		if done += round; !gained && tune("STOP",0) > 0 {
			break
		}
		r.adapt(m, size)
	}
	m.decision++
	m.steps = steps
	copy(m.spread, r.spread[:size])
	if m.kept == 0 {
		m.steps = 0
		return 0, nil
	}
	best := &m.elites[0]
	copy(plan, best.action)
	if !r.opt.Actions {
		for j := range z {
			moved += float64(best.offsets[j]) * float64(best.offsets[j])
			z[j] += best.offsets[j]
		}
	}
	return math.Sqrt(moved), nil
}

// decisionStream separates the random numbers of decisions.
const decisionStream = 0x9e3779b97f4a7c15

// recall writes the first candidates of a decision, no offsets and the elites of the
// last decision one step on, with the mean and spread of the first round. It returns
// how many there are.
func (r *search) recall(m *memory, steps, size int) (n int) {
	width := len(r.unit)
	knots := size / width
	r.offsets = tensor.Matrix{Rows: r.round, Cols: size, Stride: size, Data: r.room[:r.round*size]}
	clear(r.offsets.Row(0))
	n = 1
	if r.opt.NoMemory {
		m.steps = 0
	}
	clear(r.mean)
	for k := range knots {
		for j, u := range r.unit {
			r.spread[k*width+j] = searchSpread * u
		}
	}
	if m.steps > 0 {
		old := min(searchKnots, m.steps)
		for k := range knots {
			at := 1.0 // the first knot
			if knots > 1 {
				at += float64(k) * float64(steps-1) / float64(knots-1)
			}
			from, to, f := between(min(at, float64(m.steps-1)), m.steps, old)
			for i := range min(m.kept, r.round-1) {
				o, v := m.elites[i].offsets, r.offsets.Row(1 + i)[k*width:]
				for j := range width {
					v[j] = (1-f)*o[from*width+j] + f*o[to*width+j]
				}
			}
			for j := range width {
				r.spread[k*width+j] = searchGrowth * ((1-float64(f))*m.spread[from*width+j] + float64(f)*m.spread[to*width+j])
			}
		}
		if n += min(m.kept, r.round-1); n > 1 {
			for j, v := range r.offsets.Row(1) {
				r.mean[j] = float64(v)
			}
		}
	}
	m.kept = 0
	return n
}

// scatter draws candidates from until to of a round around the mean.
func (r *search) scatter(from, to, done int, seed uint64) {
	size := r.offsets.Cols
	for i := from; i < to; i++ {
		r.draw.noise(seed, done+i, r.normals[:size])
		scale := tuneScales[(done+i)%len(tuneScales)]
		o := r.offsets.Row(i)
		for j, v := range r.normals[:size] {
			o[j] = float32(r.mean[j] + scale*r.spread[j]*v)
		}
	}
}

// score rolls the candidates of a round out.
func (r *search) score(s, c []float64, pref domain.Preference, state, z []float32, steps, n int) error {
	r.grow(n, 1)
	first, plans := r.z.Slice(0, n), r.plans.Slice(0, n)
	for i := range n {
		copy(first.Row(i), z)
	}
	if err := r.decode(first, tensor.Broadcast(r.ctx1, n), tensor.Broadcast(state, n), plans, 0, steps); err != nil {
		return err
	}
	return r.ScorePlans(context.Background(), domain.PlanBatch{
		S: s, C: c, Preference: pref, Plans: plans, Steps: steps, Threads: r.threads,
		Projected: r.projected[:n*plans.Cols], Cost: r.cost[:n], Margin: r.margin[:n],
	})
}

// keep puts candidate i of a round among the elites if it belongs there.
func (r *search) keep(m *memory, i int) bool {
	e := elite{cost: r.cost[i], margin: r.margin[i]}
	if math.IsNaN(e.margin) || math.IsInf(e.margin, -1) {
		return false
	}
	at := m.kept
	for at > 0 && r.before(&e, &m.elites[at-1]) {
		at--
	}
	if at == len(m.elites) {
		return false
	}
	m.kept = min(m.kept+1, len(m.elites))
	e.offsets, e.action = m.elites[m.kept-1].offsets, m.elites[m.kept-1].action
	copy(m.elites[at+1:m.kept], m.elites[at:m.kept-1])
	copy(e.offsets, r.offsets.Row(i))
	copy(e.action, r.plans.Row(i))
	m.elites[at] = e
	return true
}

// before reports whether a is better than b: feasible before cheap, and without a
// feasible one the larger margin.
func (r *search) before(a, b *elite) bool {
	feasible := func(e *elite) bool { return e.margin >= -r.spec.MarginTolerance && !math.IsNaN(e.cost) }
	switch fa, fb := feasible(a), feasible(b); {
	case fa != fb:
		return fa
	case fa:
		return a.cost < b.cost
	}
	return a.margin > b.margin
}

// adapt moves mean and spread of the next round to the elites.
func (r *search) adapt(m *memory, size int) {
	width := len(r.unit)
	for j := range size {
		mean, square, total := 0.0, 0.0, 0.0
		for i := range m.elites[:m.kept] {
			w := math.Log(float64(m.kept)+0.5) - math.Log(float64(i)+1)
			v := float64(m.elites[i].offsets[j])
			total += w
			mean += w * v
			square += w * (v - r.mean[j]) * (v - r.mean[j])
		}
		mean /= total
		spread := math.Sqrt(square / total)
		r.spread[j] = max(searchFloor*r.unit[j%width], (1-searchLearn)*r.spread[j]+searchLearn*spread)
		r.mean[j] = mean
	}
}

var (
	searchSpread = tune("SPREAD", 0.1)
	searchGrowth = tune("GROWTH", 1)
	searchFloor  = tune("FLOOR", 1e-3)
	searchLearn  = tune("LEARN", 0.7)
	tuneScales   = [][]float64{{1}, {1, 0.5, 0.25, 2}, {1, 0.3, 0.1, 3}}[int(tune("SCALES", 0))]
)

func tune(name string, d float64) float64 {
	if v, err := strconv.ParseFloat(os.Getenv("T_"+name), 64); err == nil {
		return v
	}
	return d
}
