package ocp

import (
	"math"
	"math/cmplx"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// stagedTanks is dualTanks with the derivatives of many stages in one call, and margins in units of their own.
type stagedTanks struct{ dualTanks }

func (p stagedTanks) Spec() *domain.Spec {
	spec := p.dualTanks.Spec()
	for i, size := range []float64{0.5, 2, 0.25, 4} {
		spec.Margins[i].Size = size
	}
	return spec
}

func (p stagedTanks) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Stages: func() (domain.Stages, error) { return &tankStages{}, nil }}}
}

// tankStages differentiates tanks by dual numbers, and these derivatives by differences.
type tankStages struct {
	dualTanks
	x, u, priorities []float64 // as Linearise and Priority were called with last
	level, most      int       // of rounding, and the widest that has values
}

const tankEntries, tankColumns = 7, 6 // (s, c, u), and the columns by which derivatives are

// entry of (s, c, u) that a column is about: the actions, then what moves.
func (tankStages) entry(column int) int { return []int{5, 6, 0, 1, 3, 4}[column] }

func (tankStages) Moving() []int   { return []int{0, 1, 3, 4} }
func (tankStages) Limiting() []int { return []int{1, 2} }

func (p *tankStages) Round(level int) { p.level = level }

// values are next, J and the margins at (s, c, u), 5, 2 and 4.
func (p tankStages) values(y []complex128) []complex128 {
	out := make([]complex128, 11)
	p.StepDual(y[:2], y[2:5], y[5:], out[:2], out[2:5])
	p.ObjectivesDual(y[:2], y[5:], y[2:5], out[5:7])
	p.MarginsDual(y[:2], y[2:5], y[5:], out[7:])
	if out[6] += 0.02 * complex(float64(p.level), 0) * y[5] * y[5]; p.level > p.most {
		out[6] = cmplx.NaN()
	}
	return out
}

func decision(x, u []float64, i int) (y []complex128) {
	for _, v := range slices.Concat(x[5*i:5*i+5], u[2*i:2*i+2]) {
		y = append(y, complex(v, 0))
	}
	return y
}

// slopes are the derivatives of values by a column.
func (p tankStages) slopes(y []complex128, column int) (out [11]float64) {
	y = slices.Clone(y)
	y[p.entry(column)] += complex(0, domain.DualStep)
	for i, v := range p.values(y) {
		out[i] = imag(v) / domain.DualStep
	}
	return out
}

func (p *tankStages) Evaluate(n int, x, u, next, j, margins []float64) {
	for i := range n {
		values := p.values(decision(x, u, i))
		for k, v := range values {
			switch {
			case k < 5 && next != nil:
				next[5*i+k] = real(v)
			case k >= 5 && k < 7 && j != nil:
				j[2*i+k-5] = real(v)
			case k >= 7 && margins != nil:
				margins[4*i+k-7] = real(v)
			}
		}
	}
}

func (p *tankStages) Linearise(n int, x, u, next, j, margins, ofNext, ofJ, ofMargins []float64) {
	p.Evaluate(n, x, u, next, j, margins)
	p.x, p.u = slices.Clone(x), slices.Clone(u)
	for i := range n {
		for col := range tankColumns {
			slopes := p.slopes(decision(x, u, i), col)
			for k := range 5 {
				ofNext[(5*i+k)*tankColumns+col] = slopes[k]
			}
			for k := range 2 {
				ofJ[(2*i+k)*tankColumns+col] = slopes[5+k]
			}
			for k := range 4 {
				ofMargins[(4*i+k)*tankColumns+col] = slopes[7+k]
			}
		}
	}
}

func (p *tankStages) Curvature(w, lambda, z []float64, negligible []bool, h []float64) {
	const step = 1e-5
	for i := range len(w) / 2 {
		weights := slices.Concat(lambda[5*i:5*i+5], w[2*i:2*i+2], make([]float64, 4))
		for k, v := range z[4*i : 4*i+4] {
			weights[7+k] = -v
		}
		for row := range tankColumns {
			for col := range row + 1 {
				y, sum := decision(p.x, p.u, i), 0.0
				for _, sign := range []float64{1, -1} {
					y[p.entry(row)] += complex(sign*step, 0)
					for k, v := range p.slopes(y, col) {
						sum += sign * weights[k] * v / (2 * step)
					}
					y[p.entry(row)] -= complex(sign*step, 0)
				}
				h[(i*tankColumns+row)*tankColumns+col] = sum
			}
		}
	}
}

func (p *tankStages) priority(y []float64) []float64 {
	delta, sigma := make([]float64, 2), make([]float64, 2)
	p.Indicators(y[:2], y[5:], y[2:5], delta)
	p.Spec().Semantic.Priority(delta, sigma)
	return sigma
}

// difference is the slope of f by a column at the decision that Priority was called with.
func (p *tankStages) difference(i, column int, step float64, f func(y []float64) []float64) (slopes []float64) {
	y := slices.Concat(p.priorities[5*i:5*i+5], make([]float64, 2))
	at := p.entry(column)
	v := y[at]
	y[at] = v + step
	above := f(y)
	y[at] = v - step
	for k, below := range f(y) {
		slopes = append(slopes, (above[k]-below)/(2*step))
	}
	return slopes
}

func (p *tankStages) Priority(n int, x, ofSigma []float64) {
	p.priorities = slices.Clone(x)
	for i := range n {
		for col := range tankColumns {
			for k, v := range p.difference(i, col, 1e-6, p.priority) {
				ofSigma[(2*i+k)*tankColumns+col] = v
			}
		}
	}
}

func (p *tankStages) PriorityCurvature(j, h []float64) {
	for i := range len(j) / 2 {
		for row := range tankColumns {
			for col := range row + 1 {
				sum := 0.0
				slope := func(y []float64) []float64 {
					q := tankStages{priorities: y[:5]}
					return q.difference(0, col, 1e-4, q.priority)
				}
				for k, v := range p.difference(i, row, 1e-4, slope) {
					sum += j[2*i+k] * v
				}
				h[(i*tankColumns+row)*tankColumns+col] = sum
			}
		}
	}
}

// sizedTanks has the margins of stagedTanks, stage by stage.
type sizedTanks struct{ dualTanks }

func (p sizedTanks) Spec() *domain.Spec { return stagedTanks{}.Spec() }

// A plan's optimum does not depend on where its derivatives come from.
func TestStagesHaveTheOptimumOfSingleOnes(t *testing.T) {
	for _, pref := range []domain.Preference{{Adaptive: true}, {W: []float64{0.7, 0.3}}} {
		var costs []float64
		var plans [][]float64
		for _, p := range []domain.Problem{stagedTanks{}, sizedTanks{}, tanks{}} {
			solver, err := New(p, nil, func(p, s, c []float64) {}, Options{Tolerance: 1e-8, StateScale: []float64{0.5, 1}})
			if err != nil {
				t.Fatal(err)
			}
			best := minimise(t, solver, []float64{0.5, 0.4}, []float64{0.75, 0.4, 0.1}, 12, pref, domain.WeightedSum)
			costs, plans = append(costs, best.Cost), append(plans, slices.Concat(best.U...))
		}
		for i, cost := range costs {
			for k, u := range plans[i] {
				if math.Abs(cost-costs[0]) > 1e-7*costs[0] || math.Abs(u-plans[0][k]) > 1e-3 {
					t.Fatalf("problem %d costs %v with action %d of %v; by stages %v and %v", i, cost, k, u, costs[0], plans[0][k])
				}
			}
		}
	}
}
