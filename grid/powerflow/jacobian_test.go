package powerflow

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// TestJacobian: every entry against central differences of the injections, at
// random voltages of a network with taps, charging and shunts, and with a phase
// shifter added.
func TestJacobian(t *testing.T) {
	for _, name := range []string{"case9", "case14", "case39"} {
		c := networktest.Case(t, name)
		c.Branch[2].ShiftDeg = 12
		n := networktest.Of(t, c)
		s, err := New(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.specify(Input{}); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for b := range s.vm {
			s.vm[b], s.va[b] = 0.9+0.2*rng.Float64(), rng.NormFloat64()*0.3
		}
		s.evaluate()
		s.jacobian()
		got := append([]float64(nil), s.lu.data...)
		const h = 1e-6
		for _, column := range s.unknown {
			for variable := range 2 {
				at, step := &s.va[column], h
				if variable == 1 {
					at, step = &s.vm[column], h*s.vm[column]
				}
				middle := *at
				*at = middle + step
				s.evaluate()
				p, q := append([]float64(nil), s.p...), append([]float64(nil), s.q...)
				*at = middle - step
				s.evaluate()
				*at = middle
				for _, row := range s.unknown {
					want := [2]float64{(p[row] - s.p[row]) / (2 * h), (q[row] - s.q[row]) / (2 * h)}
					if s.kind[row] != network.PQ {
						want[1] = 0
						if row == column && variable == 1 {
							want[1] = 1
						}
					}
					var have [2]float64
					if block, ok := s.lookup(row, column); ok {
						have = [2]float64{got[4*block+int32(variable)], got[4*block+2+int32(variable)]}
					}
					for e := range 2 {
						if !(math.Abs(have[e]-want[e]) <= 1e-7*(1+math.Abs(want[e]))) {
							t.Errorf("%s: entry %d of buses (%d, %d) by variable %d is %g, differences give %g",
								name, e, row, column, variable, have[e], want[e])
						}
					}
				}
			}
		}
	}
}

// lookup is the block of two buses, where they have one.
func (s *Solver) lookup(row, column int32) (int32, bool) {
	if row == column {
		return s.position[row], true
	}
	for _, p := range s.pairs {
		if p.i == row && p.j == column {
			return p.blockIJ, true
		}
		if p.j == row && p.i == column {
			return p.block, true
		}
	}
	return 0, false
}
