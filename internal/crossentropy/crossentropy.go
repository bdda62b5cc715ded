// Package crossentropy improves candidates by rounds of the cross-entropy method
// (Rubinstein and Kroese, "The Cross-Entropy Method", 2004), for decisions that follow
// one another: what one decision has found is, one step on, where the next begins.
//
// A candidate is offsets at knots spread evenly over the steps of a look-ahead,
// [knots·width]; what an offset means, and what a candidate costs, is the caller's. A
// decision is Begin, then Ask and Tell in turn. Nothing is allocated after New.
package crossentropy

import (
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/tensor"
)

// Knots of the longest candidates; a look-ahead of fewer steps has a knot for each.
const Knots = 5

const (
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
	// stream separates these random numbers from every other use of a seed, decision
	// those of one decision from the next.
	stream   = 0x67706373726368 // "gpcsrch"
	decision = 0x9e3779b97f4a7c15
)

// widths of the spread that candidates are drawn with, in turn: the wide ones find what
// lies far from where a map was made for, which rounds about the mean alone do not.
var widths = [...]float64{1, 1, 3, 10}

// Options are what all decisions of a Sampler have in common.
type Options struct {
	Unit    []float64 // of the spread, for each coordinate of a knot: its length is the width
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
	asked        int // candidates of the decision so far
	candidates   tensor.Matrix
	room         []float32
	mean         []float64
	spread       []float64
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
	size, source := Knots*len(o.Unit), rand.NewPCG(0, 0)
	return &Sampler{
		opt: o, room: make([]float32, o.Round*size), mean: make([]float64, size), spread: make([]float64, size),
		rank: make([]float64, max(1, o.Round/eliteShare)), source: source, rng: rand.New(source),
	}
}

// NewMemory returns an empty memory.
func (s *Sampler) NewMemory() *Memory {
	m := &Memory{elites: make([]Elite, len(s.rank)), spread: make([]float64, len(s.spread))}
	for i := range m.elites {
		m.elites[i] = Elite{Offsets: make([]float32, len(s.mean)), Payload: make([]float32, s.opt.Payload)}
	}
	return m
}

// Forget begins an episode.
func (m *Memory) Forget() { m.decisions, m.steps, m.kept = 0, 0, 0 }

// Lose forgets what was found; the decisions are still counted.
func (m *Memory) Lose() { m.steps = 0 }

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
	s.memory, s.steps, s.knots, s.asked, s.given = m, steps, min(Knots, steps), 0, 1
	size := s.knots * width
	clear(s.room[:size])
	clear(s.mean)
	if m.steps == 0 {
		for j := range size {
			s.spread[j] = firstSpread * s.opt.Unit[j%width]
		}
	} else {
		s.given += min(m.kept, s.opt.Round-1)
		s.recall(steps)
	}
	m.decisions, m.steps, m.kept = m.decisions+1, 0, 0
}

// recall moves what is remembered one step on.
func (s *Sampler) recall(steps int) {
	m, width := s.memory, len(s.opt.Unit)
	size := s.knots * width
	for k := range s.knots {
		at := 1.0 // a step has passed
		if s.knots > 1 {
			at += float64(k*(steps-1)) / float64(s.knots-1)
		}
		from, to, f := Between(min(at, float64(m.steps-1)), m.steps, min(Knots, m.steps))
		from, to = from*width, to*width
		for i := 1; i < s.given; i++ {
			old, now := m.elites[i-1].Offsets, s.room[i*size+k*width:]
			for j := range width {
				now[j] = (1-f)*old[from+j] + f*old[to+j]
			}
		}
		for j := range width {
			s.spread[k*width+j] = growth * ((1-float64(f))*m.spread[from+j] + float64(f)*m.spread[to+j])
		}
	}
	if s.given > 1 {
		tensor.Widen(s.mean[:size], s.room[size:2*size])
	}
}

// Seed replaces the seed of the decisions that follow.
func (s *Sampler) Seed(seed uint64) { s.opt.Seed = seed }

// Offer makes room for one more candidate of the decision's first round, after Begin:
// offsets to be written, [knots·width], all 0; nil where the round is full.
func (s *Sampler) Offer() []float32 {
	if s.given == s.opt.Round {
		return nil
	}
	size := s.knots * len(s.opt.Unit)
	row := s.room[s.given*size : (s.given+1)*size]
	clear(row)
	s.given++
	return row
}

// Ask returns the next n candidates of the decision, at most Round, [n, knots·width]:
// those given in its first round, the elites' mean in another, and draws. They hold until
// the next Ask or Begin.
func (s *Sampler) Ask(n int) tensor.Matrix {
	size := s.knots * len(s.opt.Unit)
	s.candidates = tensor.Matrix{Rows: n, Cols: size, Stride: size, Data: s.room}
	if s.asked > 0 && s.memory.kept > 0 {
		tensor.Narrow(s.candidates.Row(0), s.mean[:size])
		s.given = 1
	}
	for i := s.given; i < n; i++ {
		s.source.Seed(s.opt.Seed+decision*(s.memory.decisions-1), stream^uint64(s.asked+i)<<32)
		o := s.candidates.Row(i)
		width := widths[(s.asked+i)%len(widths)]
		for j := range o {
			o[j] = float32(s.mean[j] + width*s.spread[j]*s.rng.NormFloat64())
		}
	}
	s.asked, s.given = s.asked+n, 0
	return s.candidates
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
	copy(s.memory.spread, s.spread[:s.candidates.Cols])
	return gained
}

// keep puts candidate i of a round among the elites if it is one. One without a margin,
// or that leaves the numbers, is none.
func (s *Sampler) keep(i int, cost, margin float64, payload tensor.Matrix) bool {
	m, e := s.memory, Elite{Number: s.asked - s.candidates.Rows + i, Cost: cost, Margin: margin}
	at := m.kept
	for at > 0 && s.Better(&e, &m.elites[at-1]) {
		at--
	}
	if !(margin > math.Inf(-1)) || at == len(m.elites) {
		return false
	}
	m.kept = min(m.kept+1, len(m.elites))
	last := &m.elites[m.kept-1]
	e.Offsets, e.Payload = last.Offsets, last.Payload
	copy(e.Offsets, s.candidates.Row(i))
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
	for j := range s.candidates.Cols {
		mean, square := 0.0, 0.0
		for i, w := range s.rank[:len(elites)] {
			o := float64(elites[i].Offsets[j])
			mean += w / total * o
			square += w / total * (o - s.mean[j]) * (o - s.mean[j])
		}
		s.spread[j] = max(spreadFloor*s.opt.Unit[j%len(s.opt.Unit)], (1-learn)*s.spread[j]+learn*math.Sqrt(square))
		s.mean[j] = mean
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
