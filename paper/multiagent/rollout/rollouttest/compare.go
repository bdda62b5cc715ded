// Package rollouttest is the one suite that every way to roll plans out has to pass:
// problems of every shape, the float64 reference of package rollout, and tolerances
// with their reasons.
//
// Its central function is Compare. The same problems give the deviations in
// docs/contribute/numerics.md.
package rollouttest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
)

// Tolerance bounds the deviation of one quantity.
type Tolerance struct {
	Quantity string
	Value    float64
	Reason   string
}

var (
	costTolerance = Tolerance{"cost, relative to max(1, cost)", 1e-4,
		"40 steps add up 10⁻⁶ m in positions, times slopes of the score of up to 10² a metre; sums of 10³ terms in another order"}
	marginTolerance = Tolerance{"smallest margins, of each kind, m", 1e-4,
		"the error of two positions; a body's distance from one Newton step is good to 10⁻⁶ of it"}
	slopeTolerance = Tolerance{"derivatives, of the candidate's largest", 5e-4,
		"the reverse mode adds up the slopes of all later steps, each off by its position's error times the second derivative, up to 2·260 a square metre"}
	safeTolerance = Tolerance{"leading safe steps, cost of a candidate that is not finite", 0,
		"counts are equal, and a candidate without a cost has none everywhere; no problem has a deciding margin within rounding of the hard one"}
)

// Tolerances lists them.
func Tolerances() []Tolerance {
	return []Tolerance{costTolerance, marginTolerance, slopeTolerance, safeTolerance}
}

// Compare holds results, and derivatives where slopes is not nil, to the reference.
func Compare(results []rollout.Result, slopes []float32, want []rollout.Scores[float64], exact []float64, candidates int) error {
	size := len(exact) / len(want)
	for i := range candidates {
		g, w, l := &results[i/rollout.Lanes], &want[i/rollout.Lanes], i%rollout.Lanes
		if math.IsNaN(w.Cost[l]) {
			if g.Cost[l] == g.Cost[l] || g.Low[l] == g.Low[l] || g.Safe[l] != 0 {
				return fmt.Errorf("candidate %d is not finite; it gets cost %v, margin %v and %v safe steps", i, g.Cost[l], g.Low[l], g.Safe[l])
			}
			continue
		}
		if d := math.Abs(float64(g.Cost[l]) - w.Cost[l]); !(d <= costTolerance.Value*max(1, math.Abs(w.Cost[l]))) {
			return fmt.Errorf("candidate %d: cost %v, in float64 %v", i, g.Cost[l], w.Cost[l])
		}
		if d := math.Abs(float64(g.Low[l]) - w.Low[l]); !(d <= marginTolerance.Value) {
			return fmt.Errorf("candidate %d: margin %v, in float64 %v", i, g.Low[l], w.Low[l])
		}
		for kind := range rollout.MarginKinds {
			if d := math.Abs(float64(g.Kinds[kind][l]) - w.Kinds[kind][l]); !(d <= marginTolerance.Value) {
				return fmt.Errorf("candidate %d: margin of kind %d %v, in float64 %v", i, kind, g.Kinds[kind][l], w.Kinds[kind][l])
			}
		}
		if float64(g.Safe[l]) != w.Safe[l] {
			return fmt.Errorf("candidate %d: %v safe steps, in float64 %v", i, g.Safe[l], w.Safe[l])
		}
		if slopes == nil {
			continue
		}
		difference, largest := deviation(slopes, exact, i/rollout.Lanes*size, size, l)
		if !(difference <= slopeTolerance.Value*max(1, largest)) {
			return fmt.Errorf("candidate %d: a derivative is off by %v, the largest is %v", i, difference, largest)
		}
	}
	return nil
}

// deviation is the largest difference in one lane of a block, and the largest entry
// of the reference there. NaN stays one.
func deviation(results []float32, want []float64, start, size, lane int) (difference, largest float64) {
	for e := start + lane; e < start+size; e += rollout.Lanes {
		difference, largest = math.Max(difference, math.Abs(float64(results[e])-want[e])), math.Max(largest, math.Abs(want[e]))
	}
	return difference, largest
}

// Deviation is how far one quantity of a problem is from float64 arithmetic on the
// same float32 inputs: the largest of all candidates, absolute and relative to the
// candidate's own size.
type Deviation struct {
	Operation, Size    string
	Absolute, Relative float64
}

func (d *Deviation) add(difference, size float64) {
	d.Absolute = math.Max(d.Absolute, difference)
	if difference > 0 || math.IsNaN(difference) {
		d.Relative = math.Max(d.Relative, difference/size)
	}
}

// Deviations measures an evaluator over so many candidates of the problems that the
// planner and the reference solve. A nil evaluator is the reference itself, rounded
// to float32.
func Deviations(v rollout.Evaluator, candidates int) ([]Deviation, error) {
	var list []Deviation
	for _, o := range Problems() {
		if o.Name != fullJoint && o.Name != straightSingle {
			continue
		}
		plans := o.Draw(rand.New(rand.NewPCG(77, 78)), candidates)
		want, exact := rollout.Reference(o.Problem, widened(plans), candidates)
		results, slopes := make([]rollout.Result, len(want)), make([]float32, len(plans))
		if v == nil {
			for i, w := range want {
				for l := range rollout.Lanes {
					results[i].Cost[l], results[i].Low[l] = float32(w.Cost[l]), float32(w.Low[l])
				}
			}
			for i, w := range exact {
				slopes[i] = float32(w)
			}
		} else if err := v.Evaluate(o.Problem, nil, plans, candidates, results, slopes); err != nil {
			return nil, err
		}
		cost, low, slope := Deviation{Operation: "Roll-out, cost", Size: o.Name}, Deviation{Operation: "Roll-out, smallest margin", Size: o.Name}, Deviation{Operation: "Roll-out, derivatives", Size: o.Name}
		size := len(exact) / len(want)
		for i := range candidates {
			b, l := i/rollout.Lanes, i%rollout.Lanes
			cost.add(math.Abs(float64(results[b].Cost[l])-want[b].Cost[l]), math.Abs(want[b].Cost[l]))
			low.add(math.Abs(float64(results[b].Low[l])-want[b].Low[l]), math.Abs(want[b].Low[l]))
			slope.add(deviation(slopes, exact, b*size, size, l))
		}
		list = append(list, cost, low, slope)
	}
	return list, nil
}

func widened(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w
}
