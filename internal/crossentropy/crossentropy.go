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
	"slices"

	"github.com/gpc-engine/gpc/internal/normal"
	"github.com/gpc-engine/gpc/tensor"
)

const (
	// Draws have MostKnots, spread evenly over the steps, or one for each step of fewer.
	MostKnots = 5
	// One in EliteShare candidates of a round is elite.
	EliteShare = 4
	// The spread begins at firstSpread and stays above SpreadFloor, in units of each
	// coordinate. A round moves it by Learn towards the elites', and the next decision
	// begins at growth times what is left, so that it grows again where the plant is not
	// as it was.
	firstSpread = 0.03
	SpreadFloor = 1e-3
	Learn       = 0.7
	growth      = 2
	// Of Kinds draws in turn one is Wide, of WideWidth spreads, and one Held throughout, of
	// HeldWidth spreads and at least HeldSpread: that finds what lies far from where a map
	// was made for, which rounds about the mean do not.
	Kinds, Wide, Held = 4, 2, 3
	WideWidth         = 3
	HeldWidth         = 10
	HeldSpread        = 0.3
	// Stream separates these random numbers from every other use of a seed.
	Stream = 0x73726368 // "srch"
	// BeyondMargins is more than any margin is broken by, in any unit: a roll-out that loses the state is ranked by when.
	BeyondMargins = 1e12
	// Parts is how many sums over the elites are added up side by side, elite by elite in turn: on a device
	// one sum waits for its last number.
	Parts = 4
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
	sums         []float64 // [Parts, steps·width], scratch
	square       []float64 // [Parts, width], scratch
	rank         Ranks
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
	size := MostKnots * len(o.Unit)
	return &Sampler{
		opt: o, spread: make([]float64, size), drew: make([]float64, size), square: make([]float64, Parts*len(o.Unit)), rank: NewRanks(Elites(o.Round)),
	}
}

// Elites is how many are kept of rounds of so many candidates.
func Elites(round int) int { return max(1, round/EliteShare) }

// Ranks weigh elites by rank: of n, the i-th best by log(n + ½) − log(i + 1), over the sum of all.
type Ranks struct {
	Most  []float64 // [n] log(n + ½)
	Place []float64 // [i] log(i + 1)
	Sum   []float64 // [n] of the weights of n
}

// NewRanks are those of up to most elites.
func NewRanks(most int) Ranks {
	r := Ranks{make([]float64, most+1), make([]float64, most+1), make([]float64, most+1)}
	places := 0.0
	for n := range most + 1 {
		r.Most[n], r.Place[n] = math.Log(float64(n)+0.5), math.Log(float64(n+1))
		r.Sum[n] = float64(n)*r.Most[n] - places
		places += r.Place[n]
	}
	return r
}

// weight is that of elite i of n.
func (r *Ranks) weight(i, n int) float64 { return (r.Most[n] - r.Place[i]) / r.Sum[n] }

// NewMemory returns an empty memory.
func (s *Sampler) NewMemory() *Memory {
	m := &Memory{elites: make([]Elite, Elites(s.opt.Round)), spread: make([]float64, len(s.spread))}
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
	width, size := len(s.opt.Unit), steps*len(s.opt.Unit)
	s.memory, s.steps, s.knots = m, steps, min(MostKnots, steps)
	s.drawn, s.given = 0, 1
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
		from, to, f := Between(min(at, float64(m.steps-1)), m.steps, min(MostKnots, m.steps))
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
		s.draw(s.drawn+i, (i-s.given)%Kinds, s.candidates.Row(i))
	}
	s.drawn, s.given = s.drawn+n, 0
	return s.candidates
}

// draw writes candidate i of the decision.
func (s *Sampler) draw(i, kind int, o []float32) {
	n := len(s.opt.Unit)
	drew := s.drew[:s.knots*n]
	normal.Fill(drew, s.opt.Seed, normal.Place{Number: uint32(i), Decision: uint32(s.memory.decisions - 1), Stream: Stream})
	for j := range drew {
		switch {
		case kind == Held && j < n:
			drew[j] *= max(HeldWidth*s.spread[j], HeldSpread*s.opt.Unit[j])
		case kind == Held:
			drew[j] = drew[j-n]
		case kind == Wide:
			drew[j] *= WideWidth * s.spread[j]
		default:
			drew[j] *= s.spread[j]
		}
	}
	for h := range s.steps {
		from, to, f := Between(float64(h), s.steps, s.knots)
		for j := range n {
			o[h*n+j] = float32(s.mean[h*n+j] + float64((1-float64(f))*drew[from*n+j]) + float64(float64(f)*drew[to*n+j]))
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
	elites, n, size := s.memory.elites[:s.memory.kept], len(s.opt.Unit), len(s.mean)
	for k := range s.knots {
		at := Beside(k, s.steps, s.knots) * n
		clear(s.square)
		for i := range elites {
			w, square := s.rank.weight(i, len(elites)), s.square[i%Parts*n:][:n]
			for j := range n {
				o := float64(elites[i].Offsets[at+j]) - s.mean[at+j]
				square[j] += float64(w * o * o)
			}
		}
		for j := range n {
			spread := &s.spread[k*n+j]
			*spread = max(SpreadFloor*s.opt.Unit[j], float64((1-Learn)**spread)+float64(Learn*math.Sqrt(inParts(s.square, n, j))))
		}
	}
	s.sums = slices.Grow(s.sums[:0], Parts*size)[:Parts*size]
	clear(s.sums)
	for i := range elites {
		w, sum := s.rank.weight(i, len(elites)), s.sums[i%Parts*size:][:size]
		for j, o := range elites[i].Offsets[:size] {
			sum[j] += float64(w * float64(o))
		}
	}
	for j := range s.mean {
		s.mean[j] = inParts(s.sums, size, j)
	}
}

// inParts adds entry j of the Parts sums of so many up.
func inParts(sums []float64, size, j int) float64 {
	return (sums[j] + sums[size+j]) + (sums[2*size+j] + sums[3*size+j])
}

// Beside is the step next to knot k of so many over so many steps.
func Beside(k, steps, knots int) int {
	if knots == 1 {
		return 0
	}
	return (k*(steps-1) + (knots-1)/2) / (knots - 1)
}

// Decision is what a backend that makes all rounds of a decision by itself begins with. It holds until the
// sampler's next call.
type Decision struct {
	Steps, Knots int
	Given        tensor.Matrix // [·, steps·width] the first candidates
	Mean         []float64     // [steps·width]
	Spread       []float64     // [knots·width]
	Seed         uint64
	Number       uint32 // of the decision
}

// Decision is the one that was begun.
func (s *Sampler) Decision() Decision {
	size := len(s.mean)
	return Decision{
		Steps: s.steps, Knots: s.knots, Given: tensor.Matrix{Rows: s.given, Cols: size, Stride: size, Data: s.room}, Mean: s.mean,
		Spread: s.spread[:s.knots*len(s.opt.Unit)], Seed: s.opt.Seed, Number: uint32(s.memory.decisions - 1),
	}
}

// Outcome is how all rounds of a decision end, made elsewhere.
type Outcome struct {
	Number       []int         // of each elite, best first: empty where no candidate has a margin
	Cost, Margin []float64     // of each elite
	Offsets      tensor.Matrix // [elites, steps·width]
	Payload      tensor.Matrix // [elites, payload]
	Spread       []float64     // [knots·width]
}

// Settle takes the outcome of the decision for what Ask and Tell would have come to.
func (s *Sampler) Settle(o Outcome) {
	m := s.memory
	copy(m.spread, o.Spread)
	if m.kept = min(len(o.Number), len(m.elites)); m.kept == 0 {
		return
	}
	m.steps = s.steps
	for i := range m.kept {
		e := &m.elites[i]
		e.Number, e.Cost, e.Margin = o.Number[i], o.Cost[i], o.Margin[i]
		e.Offsets = append(e.Offsets[:0], o.Offsets.Row(i)...)
		copy(e.Payload, o.Payload.Row(i))
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
