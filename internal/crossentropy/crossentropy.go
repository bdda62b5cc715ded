// Package crossentropy improves candidates by rounds of the cross-entropy method
// (Rubinstein and Kroese, "The Cross-Entropy Method", 2004), for decisions that follow
// one another: what one decision has found is, one step on, where the next begins.
//
// A candidate is offsets at every step of a look-ahead, [steps·width]; what an offset
// means, and what a candidate costs, is the caller's. They are drawn at knots and linear
// between them, about a mean that is of every step: so a plan that was found is, one step
// on, the same plan. A decision is Begin, then Ask and Tell in turn. Nothing is allocated
// after the longest look-ahead's first decision.
package crossentropy

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

const (
	// Draws have mostKnots, spread evenly over the steps, or one for each step of fewer.
	mostKnots = 5
	// One in eliteShare candidates of a round is elite.
	eliteShare = 4
	// The spread begins at firstSpread and stays above spreadFloor, in units of each
	// coordinate. A round moves it by learn towards the elites', and the next decision
	// begins at growth times what is left, so that it grows again where the plant is not
	// as it was.
	firstSpread = 0.03
	spreadFloor = 1e-3
	learn       = 0.7
	growth      = 2
	// Of kinds draws in turn one is wide, of wideWidth spreads, and one held throughout, of
	// heldWidth spreads and at least heldSpread: that finds what lies far from where a map
	// was made for, which rounds about the mean do not.
	kinds, wide, held = 4, 2, 3
	wideWidth         = 3
	heldWidth         = 10
	heldSpread        = 0.3
	// stream separates these random numbers from every other use of a seed, decision
	// those of one decision from the next.
	stream   = 0x67706373726368 // "gpcsrch"
	decision = 0x9e3779b97f4a7c15
)

// Options are what all decisions of a Sampler have in common.
type Options struct {
	Unit    []float64 // of the spread, for each coordinate of a step: its length is the width
	Round   int       // most candidates of a round
	Payload int       // numbers that an elite keeps beside its offsets
	// Tolerance: a candidate is feasible whose margin is at least −Tolerance.
	Tolerance float64
	Seed      uint64 // with the number of the decision, all that is random
}

// Sampler draws the candidates of one decision at a time, for any number of memories.
type Sampler struct {
	opt          Options
	memory       *Memory
	steps, knots int // of the decision
	given        int // candidates that are not drawn in the next round
	drawn        int // candidates of the decision so far
	candidates   tensor.Matrix
	room         []float32
	mean         []float64 // [steps·width]
	spread, drew []float64 // [knots·width]
	apart        []float64 // scratch of one step
	square       []float64
	rank         []float64 // weights of the elites
	source       *rand.PCG
	rng          *rand.Rand
}

// Memory is what a controller keeps from decision to decision: the elites, best first,
// with the steps that their offsets span, 0 where there are none.
type Memory struct {
	decisions uint64
	steps     int
	elites    []Elite
	kept      int
	spread    []float64
}

// Elite is one of the best candidates of a decision.
type Elite struct {
	Number           int // of the candidate among those asked for in its decision, from 0
	Offsets, Payload []float32
	Cost, Margin     float64
}

// New returns a Sampler.
func New(o Options) *Sampler {
	size, source := mostKnots*len(o.Unit), rand.NewPCG(0, 0)
	return &Sampler{
		opt: o, spread: make([]float64, size), drew: make([]float64, size), apart: make([]float64, len(o.Unit)), square: make([]float64, len(o.Unit)),
		rank: make([]float64, max(1, o.Round/eliteShare)), source: source, rng: rand.New(source),
	}
}

// NewMemory returns an empty memory.
func (s *Sampler) NewMemory() *Memory {
	m := &Memory{elites: make([]Elite, len(s.rank)), spread: make([]float64, len(s.spread))}
	for i := range m.elites {
		m.elites[i] = Elite{Payload: make([]float32, s.opt.Payload)}
	}
	return m
}

// Forget begins an episode.
func (m *Memory) Forget() { m.decisions, m.steps, m.kept = 0, 0, 0 }

// CopyFrom makes the memory another one of the same Sampler.
func (m *Memory) CopyFrom(o *Memory) {
	m.decisions, m.steps, m.kept = o.decisions, o.steps, o.kept
	copy(m.spread, o.spread)
	for i := range o.elites {
		to, from := &m.elites[i], &o.elites[i]
		to.Number, to.Cost, to.Margin = from.Number, from.Cost, from.Margin
		to.Offsets = append(to.Offsets[:0], from.Offsets...)
		copy(to.Payload, from.Payload)
	}
}

// Lose forgets what was found; the decisions are still counted.
func (m *Memory) Lose() { m.steps = 0 }

// Steps are those that the offsets of the last decision span, 0 where nothing was found.
func (m *Memory) Steps() int { return m.steps }

// Best is the best candidate of the last decision, until the next; nil where none had a
// margin.
func (m *Memory) Best() *Elite {
	if m.kept == 0 {
		return nil
	}
	return &m.elites[0]
}

// Begin starts a decision that looks so many steps ahead. Its first candidates are no
// offsets and the elites of the last decision, one step on. Mean and spread are those of
// the best elite and of the last round.
func (s *Sampler) Begin(m *Memory, steps int) {
	width := len(s.opt.Unit)
	s.memory, s.steps, s.knots, s.drawn, s.given = m, steps, min(mostKnots, steps), 0, 1
	size := steps * width
	s.room = slices.Grow(s.room[:0], s.opt.Round*size)[:s.opt.Round*size]
	s.mean = slices.Grow(s.mean[:0], size)[:size]
	for i := range m.elites {
		e := &m.elites[i]
		e.Offsets = slices.Grow(e.Offsets, max(0, size-len(e.Offsets)))
	}
	clear(s.room[:size])
	clear(s.mean)
	if m.steps == 0 {
		for j := range s.knots * width {
			s.spread[j] = firstSpread * s.opt.Unit[j%width]
		}
	} else {
		s.given += min(m.kept, s.opt.Round-1)
		s.recall()
	}
	m.decisions, m.steps, m.kept = m.decisions+1, 0, 0
}

// recall moves what is remembered one step on. Offsets hold behind the last that are.
func (s *Sampler) recall() {
	m, width, size := s.memory, len(s.opt.Unit), len(s.mean)
	for i := 1; i < s.given; i++ {
		old, now := m.elites[i-1].Offsets, s.room[i*size:(i+1)*size]
		for n := copy(now, old[min(width, len(old)-width):]); n < size; n += width {
			copy(now[n:], now[n-width:n])
		}
	}
	for k := range s.knots {
		at := 1.0 // a step has passed
		if s.knots > 1 {
			at += float64(k*(s.steps-1)) / float64(s.knots-1)
		}
		from, to, f := Between(min(at, float64(m.steps-1)), m.steps, min(mostKnots, m.steps))
		for j := range width {
			s.spread[k*width+j] = growth * ((1-float64(f))*m.spread[from*width+j] + float64(f)*m.spread[to*width+j])
		}
	}
	if s.given > 1 {
		tensor.Widen(s.mean, s.room[size:2*size])
	}
}

// Seed replaces the seed of the decisions that follow.
func (s *Sampler) Seed(seed uint64) { s.opt.Seed = seed }

// Offer makes room for one more candidate of the decision's first round, after Begin:
// offsets to be written, [steps·width], all 0; nil where the round is full.
func (s *Sampler) Offer() []float32 {
	if s.given == s.opt.Round {
		return nil
	}
	size := len(s.mean)
	row := s.room[s.given*size : (s.given+1)*size]
	clear(row)
	s.given++
	return row
}

// Ask returns the next n candidates of the decision, at most Round, [n, steps·width]:
// those given in its first round, the elites' mean in another, and draws. They hold until
// the next Ask or Begin.
func (s *Sampler) Ask(n int) tensor.Matrix {
	size := len(s.mean)
	s.candidates = tensor.Matrix{Rows: n, Cols: size, Stride: size, Data: s.room}
	if s.drawn > 0 && s.memory.kept > 0 {
		tensor.Narrow(s.candidates.Row(0), s.mean)
		s.given = 1
	}
	for i := s.given; i < n; i++ {
		s.draw(s.drawn+i, (i-s.given)%kinds, s.candidates.Row(i))
	}
	s.drawn, s.given = s.drawn+n, 0
	return s.candidates
}

// draw writes candidate i of the decision.
func (s *Sampler) draw(i, kind int, o []float32) {
	s.source.Seed(s.opt.Seed+decision*(s.memory.decisions-1), stream^uint64(i)<<32)
	n := len(s.opt.Unit)
	for j := range s.knots * n {
		switch {
		case kind == held && j < n:
			s.drew[j] = max(heldWidth*s.spread[j], heldSpread*s.opt.Unit[j]) * s.rng.NormFloat64()
		case kind == held:
			s.drew[j] = s.drew[j-n]
		case kind == wide:
			s.drew[j] = wideWidth * s.spread[j] * s.rng.NormFloat64()
		default:
			s.drew[j] = s.spread[j] * s.rng.NormFloat64()
		}
	}
	for h := range s.steps {
		from, to, f := Between(float64(h), s.steps, s.knots)
		for j := range n {
			o[h*n+j] = float32(s.mean[h*n+j] + (1-float64(f))*s.drew[from*n+j] + float64(f)*s.drew[to*n+j])
		}
	}
}

// Tell says what the candidates asked for cost, with their smallest margins and, one
// row each, their payloads. It reports whether one of them is elite: a round without
// is the last worth asking for.
func (s *Sampler) Tell(cost, margin []float64, payload tensor.Matrix) (gained bool) {
	for i := range s.candidates.Rows {
		gained = s.keep(i, cost[i], margin[i], payload) || gained
	}
	if s.memory.kept > 0 {
		s.adapt()
		s.memory.steps = s.steps
	}
	copy(s.memory.spread, s.spread)
	return gained
}

// keep puts candidate i of a round among the elites if it is one. One without a margin,
// or that leaves the numbers, is none.
func (s *Sampler) keep(i int, cost, margin float64, payload tensor.Matrix) bool {
	m, e := s.memory, Elite{Number: s.drawn - s.candidates.Rows + i, Cost: cost, Margin: margin}
	at := m.kept
	for at > 0 && s.Better(&e, &m.elites[at-1]) {
		at--
	}
	if !(margin > math.Inf(-1)) || at == len(m.elites) {
		return false
	}
	m.kept = min(m.kept+1, len(m.elites))
	last := &m.elites[m.kept-1]
	e.Offsets, e.Payload = append(last.Offsets[:0], s.candidates.Row(i)...), last.Payload
	copy(e.Payload, payload.Row(i))
	copy(m.elites[at+1:m.kept], m.elites[at:])
	m.elites[at] = e
	return true
}

// Better is feasible before cheap, and the larger margin where neither is feasible.
func (s *Sampler) Better(a, b *Elite) bool {
	fa, fb := s.Feasible(a), s.Feasible(b)
	if fa && fb {
		return a.Cost < b.Cost
	}
	return fa || !fb && a.Margin > b.Margin
}

// Feasible reports whether a candidate keeps its margin.
func (s *Sampler) Feasible(e *Elite) bool {
	return e.Margin >= -s.opt.Tolerance && !math.IsNaN(e.Cost)
}

// adapt moves mean and spread to the elites', weighed by rank. The spread is about the
// mean before, so that it widens along a direction in which all elites lie.
func (s *Sampler) adapt() {
	elites, total := s.memory.elites[:s.memory.kept], 0.0
	for i := range elites {
		s.rank[i] = math.Log((float64(len(elites)) + 0.5) / float64(i+1))
		total += s.rank[i]
	}
	n := len(s.opt.Unit)
	for k := range s.knots {
		at := 0 // the step next to the knot
		if s.knots > 1 {
			at = (k*(s.steps-1) + (s.knots-1)/2) / (s.knots - 1) * n
		}
		clear(s.square)
		for i, w := range s.rank[:len(elites)] {
			for j := range n {
				s.apart[j] = float64(elites[i].Offsets[at+j]) - s.mean[at+j]
			}
			for j, o := range s.apart {
				s.square[j] += w / total * o * o
			}
		}
		for j, square := range s.square {
			s.spread[k*n+j] = max(spreadFloor*s.opt.Unit[j], (1-learn)*s.spread[k*n+j]+learn*math.Sqrt(square))
		}
	}
	clear(s.mean)
	for i, w := range s.rank[:len(elites)] {
		for j, o := range elites[i].Offsets {
			s.mean[j] += w / total * float64(o)
		}
	}
}

// Between is where step h lies among knots spread evenly over so many steps, the last
// knot on the last step: a share f of the way between two of them.
func Between(h float64, steps, knots int) (from, to int, f float32) {
	if knots == 1 {
		return 0, 0, 0
	}
	at := h * float64(knots-1) / float64(steps-1)
	from = min(int(at), knots-1)
	return from, min(from+1, knots-1), float32(at - float64(from))
}
