package network

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// Cost is a generator's cost in $/h as a function of per-unit power: a
// polynomial or, when Power is not nil, a piecewise linear function.
type Cost struct {
	// Polynomial coefficients, constant first: Σ Polynomial[k]·p^k. Trailing zeros
	// are left out.
	Polynomial []float64
	// Power and Value are the corners of a piecewise linear cost, Power strictly
	// increasing, two or more. The end segments go on beyond the ends.
	Power, Value []float64
	line         int // of the file
}

func newCost(c matpower.Cost, base float64) Cost {
	out := Cost{line: c.Line}
	switch c.Model {
	case matpower.Polynomial:
		scale := 1.0
		for _, a := range slices.Backward(c.Coefficients) {
			out.Polynomial = append(out.Polynomial, a*scale)
			scale *= base
		}
		for k := len(out.Polynomial); k > 0 && out.Polynomial[k-1] == 0; k-- {
			out.Polynomial = out.Polynomial[:k-1]
		}
	case matpower.PiecewiseLinear:
		for _, p := range c.Points {
			out.Power = append(out.Power, p.Power/base)
			out.Value = append(out.Value, p.Cost)
		}
		if !out.Convex() {
			out.convexHull()
		}
	}
	return out
}

// PiecewiseLinear says which of the two forms the cost has.
func (c Cost) PiecewiseLinear() bool { return c.Power != nil }

// At is the cost at p (pu) in $/h with its first and second derivative by p.
// At a corner of a piecewise linear cost the slope is that of the segment on
// the left; its second derivative is 0.
func (c Cost) At(p float64) (value, first, second float64) {
	if c.PiecewiseLinear() {
		k := 1
		for k < len(c.Power)-1 && p > c.Power[k] {
			k++
		}
		first = (c.Value[k] - c.Value[k-1]) / (c.Power[k] - c.Power[k-1])
		return c.Value[k-1] + first*(p-c.Power[k-1]), first, 0
	}
	for _, a := range slices.Backward(c.Polynomial) {
		second = second*p + 2*first
		first = first*p + value
		value = value*p + a
	}
	return value, first, second
}

// Segments are the lines of a piecewise linear cost: on segment k the cost is
// Slope[k]·p + Intercept[k]. Where the cost is convex it is the largest of them
// at every p. Nil for a polynomial.
func (c Cost) Segments() (slope, intercept []float64) {
	for k := 1; k < len(c.Power); k++ {
		m := (c.Value[k] - c.Value[k-1]) / (c.Power[k] - c.Power[k-1])
		slope = append(slope, m)
		intercept = append(intercept, c.Value[k-1]-m*c.Power[k-1])
	}
	return slope, intercept
}

// Convex says whether the slopes of a piecewise linear cost never fall, within the rounding of numbers in a file
// (1e-9 relative). It is true for a polynomial: a solver takes its curvature from At.
func (c Cost) Convex() bool {
	slope, _ := c.Segments()
	for k := 1; k < len(slope); k++ {
		if slope[k] < slope[k-1]-1e-9*math.Max(1, math.Abs(slope[k-1])) {
			return false
		}
	}
	return true
}

// convexHull takes out the corners above the convex hull where none is above it by more than a unit in the fifth digit of
// the largest value. Such corners are a straight line in segments, as files round it.
func (c *Cost) convexHull() {
	var hull []int
	excess := func(k, i, j int) float64 { // of corner k over the line from i to j
		slope := (c.Value[j] - c.Value[i]) / (c.Power[j] - c.Power[i])
		return c.Value[k] - c.Value[i] - slope*(c.Power[k]-c.Power[i])
	}
	largest := 0.0
	for k, v := range c.Value {
		for len(hull) > 1 && excess(hull[len(hull)-1], hull[len(hull)-2], k) > 0 {
			hull = hull[:len(hull)-1]
		}
		hull, largest = append(hull, k), max(largest, math.Abs(v))
	}
	unit := math.Pow(10, math.Floor(math.Log10(largest))-4)
	out := Cost{line: c.line}
	for n, i := range hull {
		out.Power, out.Value = append(out.Power, c.Power[i]), append(out.Value, c.Value[i])
		if n == 0 {
			continue
		}
		for k := hull[n-1] + 1; k < i; k++ {
			if excess(k, hull[n-1], i) > unit {
				return
			}
		}
	}
	*c = out
}
