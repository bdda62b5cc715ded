package program

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// roundedShare is the width of a rounded corner, in mean sizes of the difference that changes sign there.
	roundedShare = 1e-4
	// cornerLines are searched for corners, in cornerParts parts each.
	cornerLines, cornerParts = 24, 32
	cornerHalvings           = 45
	// probed are the outputs of a probe for each node.
	probed = 3
	// probedFactor rounds the corners that are known while others are searched.
	probedFactor = 1e3
	// shortLength is what a length that may be 0 comes down to on the lines, in its mean.
	shortLength = 0.3
	// roundOff is what may lie between equal outputs, in their size.
	roundOff = 1e-12
)

// Corners are those of a function: where the operands of an abs, a min, a max or a select change over and a slope of
// its outputs jumps. An operation whose value jumps there is none, nor is max(x, 0) in its square.
type Corners struct {
	of    *Function
	nodes []Value
	shape []Op      // what each is like: a select between branches of which the larger counts is like Max
	width []float64 // of each rounding; 0: no corner was found
	// probe computes for each node its difference and how far its two branches are from its value, then the outputs, from
	// the inputs of the function and a number that is added to each node.
	probe   *Function
	in, out []float64
}

// Corners finds the corners; nil for none. draw draws inputs. Corners are searched on lines between two of them, along
// which the entries move that free marks. lengths counts the tip of a length, √(x² + y²) at 0, as a corner.
func (f *Function) Corners(draw func(rng *rand.Rand) []float64, free []bool, lengths bool) *Corners {
	c := newCorners(f, lengths)
	if len(c.nodes) == 0 {
		return nil
	}
	// Behind a corner another may show where the first is rounded: |x| in max(|x|, |y|), whose slope jumps at 0 alone.
	for found := -1; found != c.found(); {
		found = c.found()
		c.probe = c.newProbe()
		c.search(draw, free)
	}
	if c.found() == 0 {
		return nil
	}
	return c
}

// found is the number of corners.
func (c *Corners) found() (n int) {
	for _, w := range c.width {
		if w > 0 {
			n++
		}
	}
	return n
}

// Round is the function with rounded corners: |x| is √(x² + w²), and so for the others. w is small beside the usual
// size of x, but for the factor.
func (c *Corners) Round(factor float64) *Function {
	b := NewBuilder(c.of.name, c.of.in...)
	values := b.inlineBy(c.of, b.inputValues(), func(v Value, n node, args []Value) Value {
		return c.apply(b, n, args, slices.Index(c.nodes, v), factor)
	})
	return b.Function(c.of.out, pick(values, c.of.results))
}

// apply writes operation n, rounded if it is the corner k.
func (c *Corners) apply(b *Builder, n node, args []Value, k int, factor float64) Value {
	exact := b.Apply(n.op, args...)
	if k < 0 || c.width[k] == 0 {
		return exact
	}
	return b.rounded(c.shape[k], args, b.difference(n, args), b.Const(factor*c.width[k]), exact)
}

func newCorners(f *Function, lengths bool) *Corners {
	c := &Corners{of: f}
	for i, n := range f.nodes {
		if n.op == Abs || n.op == Min || n.op == Max || n.op == Select && f.compares(n.arg[0]) ||
			lengths && (n.op == Hypot || n.op == Sqrt && f.sumsSquares(n.arg[0])) {
			c.nodes, c.shape = append(c.nodes, Value(f.inputs+i)), append(c.shape, n.op)
		}
	}
	c.width, c.in = make([]float64, len(c.nodes)), make([]float64, f.inputs+len(c.nodes))
	c.out = make([]float64, probed*len(c.nodes)+len(f.results))
	return c
}

func (c *Corners) newProbe() *Function {
	b := NewBuilder(c.of.name, append(c.of.Inputs(), Argument{Name: "added", Size: len(c.nodes)})...)
	inputs := b.inputValues()
	var results []Value
	values := b.inlineBy(c.of, inputs[:c.of.inputs], func(v Value, n node, args []Value) Value {
		k := slices.Index(c.nodes, v)
		value := c.apply(b, n, args, k, probedFactor)
		if k < 0 {
			return value
		}
		branches := args
		switch n.op {
		case Abs:
			branches = []Value{args[0], b.Apply(Neg, args[0])}
		case Select:
			branches = args[1:]
		case Sqrt, Hypot:
			branches = []Value{value, b.Const(0)}
		}
		results = append(results, b.difference(n, args), b.Apply(Sub, branches[0], value), b.Apply(Sub, branches[1], value))
		return b.Apply(Add, value, inputs[c.of.inputs+k])
	})
	results = append(results, pick(values, c.of.results)...)
	return b.Function([]Argument{{Name: "probe", Size: len(results)}}, results)
}

// compares reports whether v compares two numbers.
func (f *Function) compares(v Value) bool {
	i := int(v) - f.inputs
	return i >= 0 && (f.nodes[i].op == Less || f.nodes[i].op == AtMost)
}

// sumsSquares reports whether v is a sum of squares, whose root is a length.
func (f *Function) sumsSquares(v Value) bool {
	i := int(v) - f.inputs
	if i < 0 {
		return false
	}
	n := f.nodes[i]
	return n.op == Mul && n.arg[0] == n.arg[1] || n.op == Add && f.sumsSquares(n.arg[0]) && f.sumsSquares(n.arg[1])
}

// difference is the number whose sign decides an operation; of a length, itself.
func (b *Builder) difference(n node, args []Value) Value {
	switch n.op {
	case Abs:
		return args[0]
	case Sqrt, Hypot:
		return b.Apply(n.op, args...)
	case Select:
		if c := b.node(args[0]); c != nil && (c.op == Less || c.op == AtMost) {
			return b.Apply(Sub, c.arg[1], c.arg[0])
		}
		return b.Const(1) // a comparison of constants
	}
	return b.Apply(Sub, args[0], args[1])
}

// rounded is an operation of that shape, whose difference is d, with a rounding of width w.
func (b *Builder) rounded(shape Op, args []Value, d, w, exact Value) Value {
	half := func(v Value) Value { return b.Apply(Mul, b.Const(0.5), v) }
	if len(args) == 3 && shape != Select { // the larger or smaller of two branches
		args = args[1:]
		d = b.Apply(Sub, args[0], args[1])
	}
	squares := b.Apply(Mul, d, d)
	switch shape {
	case Sqrt:
		squares = args[0]
	case Hypot:
		squares = b.Apply(Add, b.Apply(Mul, args[0], args[0]), b.Apply(Mul, args[1], args[1]))
	}
	absolute := b.Apply(Sqrt, b.Apply(Add, squares, b.Apply(Mul, w, w)))
	switch shape {
	case Max:
		return half(b.Apply(Add, b.Apply(Add, args[0], args[1]), absolute))
	case Min:
		return half(b.Apply(Sub, b.Apply(Add, args[0], args[1]), absolute))
	case Select:
		share := half(b.Apply(Add, b.Const(1), b.Apply(Div, d, absolute)))
		jump := b.Apply(Sub, args[1], args[2])
		finite := b.Apply(Equal, b.Apply(Sub, jump, jump), b.Const(0))
		return b.Apply(Select, finite, b.Apply(Add, args[2], b.Apply(Mul, share, jump)), exact)
	}
	return absolute
}

// search finds the corners and the widths of their rounding.
func (c *Corners) search(draw func(rng *rand.Rand) []float64, free []bool) {
	type crossing struct {
		from, to []float64
		k        int
		lo, hi   float64
	}
	rng := rand.New(rand.NewPCG(5, 0x636f726e6572)) // "corner"
	n, points := len(c.nodes), 0.0
	size, jumps, larger, smaller := make([]float64, n), make([]float64, n), make([]bool, n), make([]bool, n)
	before, least := make([]float64, n), slices.Repeat([]float64{math.Inf(1)}, n)
	var crossings []crossing
	for range cornerLines {
		from, to := draw(rng), draw(rng)
		for i, moves := range free {
			if !moves {
				to[i] = from[i]
			}
		}
		for part := range cornerParts + 1 {
			c.at(from, to, float64(part)/cornerParts)
			points++
			for k := range n {
				d, jump := c.out[probed*k], c.out[probed*k+1]-c.out[probed*k+2]
				size[k] += math.Abs(d)
				least[k] = min(least[k], math.Abs(d))
				jumps[k] += math.Abs(jump)
				larger[k], smaller[k] = larger[k] || !(d*jump <= 0), smaller[k] || !(d*jump >= 0)
				if part > 0 && d*before[k] < 0 {
					crossings = append(crossings, crossing{from, to, k, float64(part-1) / cornerParts, float64(part) / cornerParts})
				}
				before[k] = d
			}
		}
	}
	at := draw(rng)
	for k, shape := range c.shape {
		if mean := size[k] / points; (shape == Sqrt || shape == Hypot) && least[k] < shortLength*mean && c.turnsAtZero(at, k, mean) {
			c.width[k] = roundedShare * mean
		}
	}
	for _, x := range crossings {
		k := x.k
		if c.width[k] > 0 || !c.turns(x.from, x.to, k, x.lo, x.hi) {
			continue
		}
		c.width[k] = roundedShare * size[k] / points
		if c.shape[k] == Select && larger[k] != smaller[k] {
			c.shape[k], c.width[k] = Min, roundedShare*jumps[k]/points
			if larger[k] {
				c.shape[k] = Max
			}
		}
	}
}

// at evaluates the probe on the line from one point to another.
func (c *Corners) at(from, to []float64, t float64) {
	for i := range from {
		c.in[i] = from[i] + t*(to[i]-from[i])
	}
	c.probe.Evaluate(c.in, c.out)
}

// turns reports whether node k, whose difference changes sign between lo and hi, turns a slope of an output there and
// lets none jump: what lies between the outputs of its two branches grows from 0 in proportion.
func (c *Corners) turns(from, to []float64, k int, lo, hi float64) bool {
	step := (hi - lo) / 64
	c.at(from, to, lo)
	first := c.out[probed*k]
	for range cornerHalvings {
		if c.at(from, to, (lo+hi)/2); c.out[probed*k]*first > 0 {
			lo = (lo + hi) / 2
		} else {
			hi = (lo + hi) / 2
		}
	}
	apart := func(t float64) (outputs, difference []float64) {
		c.at(from, to, t)
		one, other := c.out[probed*k+1], c.out[probed*k+2]
		outputs, difference = c.with(k, other), c.with(k, one)
		for i, v := range outputs {
			difference[i] = math.Abs(difference[i] - v)
		}
		return outputs, difference
	}
	outputs, here := apart(lo)
	_, near := apart(lo + step)
	_, far := apart(lo + 2*step)
	turns := false
	for i, size := range outputs {
		switch grows := near[i] > roundOff*math.Abs(size); {
		case !(here[i] <= near[i]/16) && grows:
			return false // it jumps
		case grows && near[i] > far[i]/3:
			turns = true
		}
	}
	return turns
}

// with are the outputs at the present inputs with a number added to node k.
func (c *Corners) with(k int, added float64) []float64 {
	at := len(c.in) - len(c.nodes) + k
	c.in[at] = added
	c.probe.Evaluate(c.in, c.out)
	c.in[at] = 0
	return slices.Clone(c.out[probed*len(c.nodes):])
}

// turnsAtZero reports whether an output has a slope by node k, a length of that usual size, where that is 0.
func (c *Corners) turnsAtZero(at []float64, k int, size float64) bool {
	c.at(at, at, 0)
	zero := c.out[probed*k+2]
	here, near, far := c.with(k, zero), c.with(k, zero+size/64), c.with(k, zero+size/32)
	for i, v := range here {
		if d := math.Abs(near[i] - v); d > roundOff*math.Abs(v) && d > math.Abs(far[i]-v)/3 {
			return true
		}
	}
	return false
}
