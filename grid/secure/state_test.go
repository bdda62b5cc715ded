package secure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The matrix of a state, without the weights of its limits, is the derivative of its residual by
// central differences, before an outage and after a branch's and a unit's, inside corners and out.
func TestMatrixIsTheDerivativeOfTheResidual(t *testing.T) {
	for _, name := range []string{"case9", "case30", "case39", everyFeature} {
		n := load(t, name)
		sys, err := newSystem(n, DefaultOptions().withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		weighed := newState(sys, Outage{Branch: -1, Unit: -1}, false, n.Pd, n.Qd, nil)
		weighed.scale, weighed.weight = 0.5, weights{thermal: 1e-3, voltage: 20, cost: 0.1}
		for _, st := range []*state{
			newState(sys, Outage{Branch: -1, Unit: -1}, false, n.Pd, n.Qd, nil),
			weighed,
			newState(sys, Outage{Branch: 2, Unit: -1}, true, n.Pd, n.Qd, nil),
			newState(sys, Outage{Branch: -1, Unit: 1}, true, n.Pd, n.Qd, nil),
		} {
			for v := range st.x {
				st.x[v] = 0.3 * r.NormFloat64()
			}
			for b, at := range st.bus {
				st.x[at+magnitudeOffset] = n.Vm0[b]
			}
			if st.after { // powers near corners and voltages near set-points
				for g, k := range sys.setP {
					if k >= 0 {
						st.x[st.setPoints[k]] = n.PMax[g] + 0.3*r.NormFloat64()
					}
				}
			}
			for i := range st.limits {
				st.s[i], st.z[i], st.penalty[i] = 1e30, r.Float64(), math.Inf(1)
			}
			const width, step = 0.5, 1e-6
			st.evaluate(width)
			n := st.variables
			whole := make([][]float64, n)
			for i := range whole {
				whole[i] = make([]float64, n)
			}
			for e, i := range st.row {
				j := st.col[e]
				whole[i][j], whole[j][i] = st.values[e], st.values[e]
			}
			up, down := make([]float64, n), make([]float64, n)
			for j := range n {
				if st.omit[j] {
					continue
				}
				x := st.x[j]
				st.x[j] = x + step
				st.evaluate(width)
				copy(up, st.r)
				st.x[j] = x - step
				st.evaluate(width)
				copy(down, st.r)
				st.x[j] = x
				for i := range n {
					want := (up[i] - down[i]) / (2 * step)
					if d := math.Abs(whole[i][j] - want); !(d <= 1e-5*(1+math.Abs(want))) {
						t.Fatalf("%s, outage %v: entry (%d, %d) is %g, differences say %g", name, st.outage, i, j, whole[i][j], want)
					}
				}
			}
		}
	}
}
