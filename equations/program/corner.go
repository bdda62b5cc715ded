package program

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// roundedShare is the width of a rounded corner, in usual sizes of the difference that changes sign there.
	roundedShare = 1e-4
	// mostMedians is the most of a usual size, in medians: near a pole some sizes have no bound.
	mostMedians = 3
	// floorShare is the most of a constant branch other than 0: a rounded max(x, 1e-3) in a logarithm keeps its floor.
	floorShare = 1e-2
	// cornerLines are searched for corners near by, and as many far away, in cornerParts parts each. A change of sign is
	// halved cornerHalvings times.
	cornerLines, cornerParts, cornerHalvings = 24, 32, 45
	// mostCornerLines are searched where an operation does not change its branch on these, or as many as mostCornerWork
	// operations take.
	mostCornerLines, mostCornerWork = 16 * cornerLines, 3e7
	// probedFactor rounds known corners while the others are searched.
	probedFactor = 1e3
	// shortLength is what a length that may be 0 comes down to on the lines, in its mean.
	shortLength = 0.3
	// roundOff is what may lie between equal outputs, in their size.
	roundOff = 1e-12
)

// Corners are the operations abs, min, max and select of a function that make a slope of its outputs jump. An operation
// that makes an output itself jump is none. Nor is max(x, 0) where it is squared.
type Corners struct {
	function *Function
	limits   bool // the outputs are to be above 0
	nodes    []corner
	// probe has the inputs of the function and a number that is added to each node. For each node it computes the
	// difference and both branches less the value, then the outputs.
	probe   *Function
	in, out []float64
}

// corner is an operation that may be one.
type corner struct {
	node  Value
	shape Op      // a select between branches of which the larger counts has the shape Max
	width float64 // of the rounding; 0: no corner was found
	// Of the points on the lines: sizes near by of the difference, and of the distance between branches; the usual one of
	// the first; the shortest length; whether the branch of the sign of the difference was ever the larger, or the smaller.
	sizes, distances []float64
	size, shortest   float64
	larger, smaller  bool
	difference       float64 // at the last point
}

// Corners finds the corners; nil for none. They are searched on lines between inputs that draw draws, near by or far away,
// along which the entries move that free marks. The tip of a length, √(x² + y²) at 0, is a corner too, of limits where the length
// takes from an output: where one keeps a length above something its tip is out of reach.
func (f *Function) Corners(draw func(rng *rand.Rand, distant bool) []float64, free []bool, limits bool) *Corners {
	f = f.flattened()
	c := &Corners{function: f, limits: limits}
	live := make([]bool, f.inputs+len(f.nodes)) // has a part in the slopes of outputs; Newton's iterations have none
	for _, v := range f.results {
		live[v] = true
	}
	for i, n := range slices.Backward(f.nodes) {
		for _, v := range n.arg[:n.op.Arity()] {
			live[v] = live[v] || live[f.inputs+i] && n.op != Detach
		}
	}
	for i, n := range f.nodes {
		switch length := n.op == Hypot || n.op == Sqrt && f.sumsSquares(n.arg[0]); {
		case !live[f.inputs+i]:
		case n.op == Abs, n.op == Min, n.op == Max, n.op == Select && f.compares(n.arg[0]), length:
			c.nodes = append(c.nodes, corner{node: Value(f.inputs + i), shape: n.op})
		}
	}
	c.in, c.out = make([]float64, f.inputs+len(c.nodes)), make([]float64, probed*len(c.nodes)+len(f.results))
	// Where a corner is rounded another may show: |x| in max(|x|, |y|), whose slope jumps at x = y = 0 alone.
	for count := -1; count != c.count(); {
		count = c.count()
		c.probe = c.newProbe()
		c.search(draw, free)
	}
	if c.count() == 0 {
		return nil
	}
	return c
}

// flattened is the function with each condition of several comparisons as choices by one, of which each may be a corner.
func (f *Function) flattened() *Function {
	b := NewBuilder(f.name, f.in...)
	values := b.inlineBy(f, b.inputValues(), func(_ Value, n node, args []Value) Value {
		if n.op != Select {
			return b.Apply(n.op, args...)
		}
		return b.choose(args[0], args[1], args[2])
	})
	return b.Function(f.out, pick(values, f.results))
}

// choose is Select by a condition that may be a choice of conditions itself, of which one is a constant.
func (b *Builder) choose(condition, x, y Value) Value {
	if n := b.node(condition); n != nil && n.op == Select {
		_, constant := b.Constant(n.arg[1])
		if _, other := b.Constant(n.arg[2]); constant || other {
			return b.choose(n.arg[0], b.choose(n.arg[1], x, y), b.choose(n.arg[2], x, y))
		}
	}
	return b.Apply(Select, condition, x, y)
}

func (c *Corners) count() (n int) {
	for _, k := range c.nodes {
		if k.width > 0 {
			n++
		}
	}
	return n
}

// Rounding is the last input of a function whose corners are rounded by it, and is its factor.
const Rounding = "rounding"

// Round is the function with rounded corners: |x| is √(x² + w²), and the others are alike. w is small compared with the
// usual size of x, but for the factor, which is the input Rounding.
func (c *Corners) Round() *Function {
	b := NewBuilder(c.function.name, append(c.function.Inputs(), Argument{Name: Rounding, Size: 1})...)
	inputs := b.inputValues()
	factor := inputs[len(inputs)-1]
	values := b.inlineBy(c.function, inputs[:len(inputs)-1], func(v Value, n node, args []Value) Value {
		value, _ := c.apply(b, v, n, args, factor)
		return value
	})
	return b.Function(c.function.out, pick(values, c.function.results))
}

// Followed is what a solver needs of a system: its functions with corners that Rounding rounds by the factors, one after
// another, nil for no corners; the adaptive priority as a function of (s, c); the entries of (s, c) that an action moves.
type Followed struct {
	Program  *Program
	Factors  []float64
	Priority *Function
	Moving   []int // ascending
}

// Own are the entries of the inputs but for Rounding.
func (f *Function) Own() (entries []int) {
	for i := range f.inputs {
		entries = append(entries, i)
	}
	if last := len(f.in) - 1; last >= 0 && f.in[last].Name == Rounding {
		entries = entries[:f.inputs-1]
	}
	return entries
}

// apply writes operation n, rounded if it is a corner, and finds its entry of nodes, −1 for none.
func (c *Corners) apply(b *Builder, v Value, n node, args []Value, factor Value) (value Value, k int) {
	value = b.Apply(n.op, args...)
	if k = slices.IndexFunc(c.nodes, func(k corner) bool { return k.node == v }); k >= 0 && c.nodes[k].width > 0 {
		value = b.rounded(c.nodes[k].shape, args, b.difference(n, args), b.Apply(Mul, factor, b.Const(c.nodes[k].width)), value)
	}
	return value, k
}

// probed are the outputs of a probe for each node.
const probed = 3

func (c *Corners) newProbe() *Function {
	b := NewBuilder(c.function.name, append(c.function.Inputs(), Argument{Name: "added", Size: len(c.nodes)})...)
	inputs := b.inputValues()
	var results []Value
	values := b.inlineBy(c.function, inputs[:c.function.inputs], func(v Value, n node, args []Value) Value {
		value, k := c.apply(b, v, n, args, b.Const(probedFactor))
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
		return b.Apply(Add, value, inputs[c.function.inputs+k])
	})
	results = append(results, pick(values, c.function.results)...)
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

// rounded is an operation of a shape, whose difference is d, with a rounding of width w.
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

// segment is a part of a line on which the difference of node k changes sign.
type segment struct {
	first, last []float64 // ends of the line
	k           int
	lo, hi      float64 // shares of the line
}

// search finds the corners and the widths of their rounding.
func (c *Corners) search(draw func(rng *rand.Rand, distant bool) []float64, free []bool) {
	rng := rand.New(rand.NewPCG(5, 0x636f726e6572)) // "corner"
	for i := range c.nodes {
		c.nodes[i] = corner{node: c.nodes[i].node, shape: c.nodes[i].shape, width: c.nodes[i].width, shortest: math.Inf(1)}
	}
	var segments []segment
	most := min(mostCornerLines, mostCornerWork/(cornerParts*max(1, len(c.probe.nodes))))
	for line := 0; line < 2*cornerLines || line < most && c.unturned(segments); line++ {
		distant := line >= cornerLines
		first, last := draw(rng, false), draw(rng, distant)
		for i, moves := range free {
			if !moves {
				last[i] = first[i]
			}
		}
		for part := range cornerParts + 1 {
			c.evaluate(first, last, float64(part)/cornerParts)
			for i := range c.nodes {
				k, d := &c.nodes[i], c.out[probed*i]
				distance := c.out[probed*i+1] - c.out[probed*i+2]
				if !distant {
					k.sizes, k.distances = append(k.sizes, math.Abs(d)), append(k.distances, math.Abs(distance))
				}
				k.shortest = min(k.shortest, math.Abs(d))
				k.larger, k.smaller = k.larger || !(d*distance <= 0), k.smaller || !(d*distance >= 0)
				if part > 0 && d*k.difference < 0 {
					segments = append(segments, segment{first, last, i, float64(part-1) / cornerParts, float64(part) / cornerParts})
				}
				k.difference = d
			}
		}
	}
	point := draw(rng, false)
	for i := range c.nodes {
		k := &c.nodes[i]
		k.size = usual(k.sizes)
		if (k.shape == Sqrt || k.shape == Hypot) && k.shortest < shortLength*k.size && c.turnsAtZero(point, i) {
			k.width = roundedShare * k.size
		}
	}
	for _, s := range segments {
		k := &c.nodes[s.k]
		if k.width > 0 || !c.turns(s) {
			continue
		}
		k.width = roundedShare * k.size
		if k.shape == Select && k.larger != k.smaller {
			k.shape, k.width = Min, roundedShare*usual(k.distances)
			if k.larger {
				k.shape = Max
			}
		}
		for _, v := range c.function.nodes[int(k.node)-c.function.inputs].arg {
			if _, _, floor := c.function.Operation(v); k.shape == Max && floor > 0 {
				k.width = min(k.width, floorShare*floor)
			}
		}
	}
}

// unturned reports whether the difference of a node has no change of sign.
func (c *Corners) unturned(segments []segment) bool {
	for i, k := range c.nodes {
		if k.shape != Sqrt && k.shape != Hypot && !slices.ContainsFunc(segments, func(s segment) bool { return s.k == i }) {
			return true
		}
	}
	return false
}

// usual is the mean of sizes, or mostMedians medians of those above 0 if that is less. What is not finite does not count.
func usual(sizes []float64) (mean float64) {
	sizes = slices.DeleteFunc(sizes, func(v float64) bool { return !(v < math.Inf(1)) })
	for _, v := range sizes {
		mean += v / float64(len(sizes))
	}
	slices.Sort(sizes)
	if sizes = slices.DeleteFunc(sizes, func(v float64) bool { return v == 0 }); len(sizes) > 0 {
		mean = min(mean, mostMedians*sizes[len(sizes)/2])
	}
	return mean
}

// evaluate computes the probe on the line from one point to another.
func (c *Corners) evaluate(first, last []float64, share float64) {
	for i := range first {
		c.in[i] = first[i] + share*(last[i]-first[i])
	}
	c.probe.Evaluate(c.in, c.out)
}

// outputs are those at the present inputs, with a number added to node k.
func (c *Corners) outputs(k int, added float64) []float64 {
	entry := &c.in[c.function.inputs+k]
	*entry = added
	c.probe.Evaluate(c.in, c.out)
	*entry = 0
	return slices.Clone(c.out[probed*len(c.nodes):])
}

// turns reports whether a node turns a slope of an output where its difference changes sign, and lets no output jump.
// The outputs of its two branches then are apart in proportion to the distance from there.
func (c *Corners) turns(s segment) bool {
	step := (s.hi - s.lo) / 64
	c.evaluate(s.first, s.last, s.lo)
	sign := c.out[probed*s.k]
	for range cornerHalvings {
		middle := (s.lo + s.hi) / 2
		if c.evaluate(s.first, s.last, middle); c.out[probed*s.k]*sign > 0 {
			s.lo = middle
		} else {
			s.hi = middle
		}
	}
	branches := func(share float64) (one, other []float64) {
		c.evaluate(s.first, s.last, share)
		toOne, toOther := c.out[probed*s.k+1], c.out[probed*s.k+2]
		return c.outputs(s.k, toOne), c.outputs(s.k, toOther)
	}
	one0, other0 := branches(s.lo)
	one1, other1 := branches(s.lo + step)
	one2, other2 := branches(s.lo + 2*step)
	turns := false
	for i := range one0 {
		gap0, gap1, gap2 := math.Abs(one0[i]-other0[i]), math.Abs(one1[i]-other1[i]), math.Abs(one2[i]-other2[i])
		switch grows := gap1 > roundOff*math.Abs(one0[i]); {
		case !(gap0 <= gap1/16) && grows:
			return false // it jumps
		case grows && gap1 > gap2/3:
			turns = true
		}
	}
	return turns
}

// turnsAtZero reports whether an output has a slope by node k, a length, where that is 0.
func (c *Corners) turnsAtZero(point []float64, k int) bool {
	c.evaluate(point, point, 0)
	zero, step := c.out[probed*k+2], c.nodes[k].size/64
	tip, one, two := c.outputs(k, zero), c.outputs(k, zero+step), c.outputs(k, zero+2*step)
	for i, v := range tip {
		if d := math.Abs(one[i] - v); d > roundOff*math.Abs(v) && d > math.Abs(two[i]-v)/3 && !(c.limits && one[i] > v) {
			return true
		}
	}
	return false
}
