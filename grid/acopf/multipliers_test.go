package acopf

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
)

// A limit's multiplier is how much the objective falls when it gives way, by differences
// of whole solves.
func TestMultipliersAreDerivativesByLimits(t *testing.T) {
	for _, currents := range []bool{false, true} {
		net := load(t, "case30")
		solve := func(n *network.Network) (*Solver, *Result) {
			s := newTestSolver(t, n, Options{CurrentLimits: currents})
			r := solveOne(t, s, Problem{})
			if r.Status != Optimal {
				t.Fatal(r.Status)
			}
			return s, r
		}
		s, r := solve(net)
		m := s.LimitMultipliers(&Problem{}, r)
		const step = 1e-4
		checked := 0
		for name, of := range map[string]struct {
			mu    []float64
			limit func(n *network.Network) *[]float64
			sign  float64
		}{
			"Vmax": {m.VMax, func(n *network.Network) *[]float64 { return &n.VMax }, 1},
			"Vmin": {m.VMin, func(n *network.Network) *[]float64 { return &n.VMin }, -1},
			"Pmax": {m.PMax, func(n *network.Network) *[]float64 { return &n.PMax }, 1},
			"Qmin": {m.QMin, func(n *network.Network) *[]float64 { return &n.QMin }, -1},
			"rate": {sum(m.SFrom, m.STo), func(n *network.Network) *[]float64 { return &n.Rate }, 1},
		} {
			for i, mu := range of.mu {
				if mu < 1 { // $/h per pu, of prices near 400
					continue
				}
				at := func(d float64) float64 {
					n := *net
					limits := of.limit(&n)
					*limits = append([]float64(nil), *limits...)
					(*limits)[i] += of.sign * d
					_, r := solve(&n)
					return r.Objective
				}
				checked++
				if want := (at(-step) - at(step)) / (2 * step); !(math.Abs(mu-want) <= 0.02*want+0.1) {
					t.Errorf("currents %v, %s[%d]: multiplier %g, differences give %g", currents, name, i, mu, want)
				}
			}
		}
		if checked < 3 {
			t.Errorf("currents %v: only %d limits bind", currents, checked)
		}
	}
}

func sum(a, b []float64) []float64 {
	out := append([]float64(nil), a...)
	for i := range b {
		out[i] += b[i]
	}
	return out
}

// Limits of currents are kept where those of powers are not, and the other way round.
func TestCurrentLimits(t *testing.T) {
	net := load(t, "case30")
	loading := func(currents bool) (power, current float64) {
		r := solveOne(t, newTestSolver(t, net, Options{CurrentLimits: currents}), Problem{})
		if r.Status != Optimal {
			t.Fatal(r.Status)
		}
		f := network.NewFlows(net.Branches())
		net.BranchFlows(&net.Admittance, r.Vm, r.Va, f)
		for l, rate := range net.Rate {
			from, to := math.Hypot(f.Pf[l], f.Qf[l])/rate, math.Hypot(f.Pt[l], f.Qt[l])/rate
			power = max(power, from, to)
			current = max(current, from/r.Vm[net.From[l]], to/r.Vm[net.To[l]])
		}
		return power, current
	}
	if power, current := loading(false); !(math.Abs(power-1) < 1e-7 && current > 1.001) {
		t.Errorf("limits of |S|: loaded to %g of them, %g by current", power, current)
	}
	if power, current := loading(true); !(math.Abs(current-1) < 1e-7 && math.Abs(power-1) > 1e-3) {
		t.Errorf("limits of |I|: loaded to %g of them, %g by power", current, power)
	}
	s := newTestSolver(t, net, Options{CurrentLimits: true})
	if err := s.Solve(t.Context(), []Problem{{Objective: Objective{Weights: [3]float64{1, 0, 0}}}}, make([]Result, 1)); err == nil || !strings.Contains(err.Error(), "CurrentLimits") {
		t.Errorf("a thermal objective beside limits of currents: %v", errors.Unwrap(err))
	}
}
