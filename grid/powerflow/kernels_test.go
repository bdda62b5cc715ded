package powerflow

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// inGo runs f with the loops of Go.
func inGo(f func()) {
	defer func(was bool) { vectors = was }(vectors)
	vectors = false
	f()
}

// The kernels in registers of vectors write what the loops of Go write.
func TestKernelsWriteWhatGoWrites(t *testing.T) {
	if !vectors {
		t.Skip("no vectors of four numbers")
	}
	rng := rand.New(rand.NewPCG(63, 2))
	for _, name := range []string{"case9", "case14", "case30", "case39", "case118"} {
		n := networktest.Load(t, name)
		base := require.Get(New(n))(t)
		s := base.NewSolution()
		require.OK(t, base.Solve(Input{}, Options{}, s))
		o := require.Get(base.NewOutages(Input{}, Options{}, s))(t)
		same := func(what string, list func() []float64, run func()) {
			t.Helper()
			before := append([]float64(nil), list()...)
			run()
			got := append([]float64(nil), list()...)
			copy(list(), before)
			inGo(run)
			for i, want := range list() {
				if d := math.Abs(got[i] - want); !(d <= 1e-13*max(1, math.Abs(want))) && !(math.IsNaN(want) && math.IsNaN(got[i])) {
					t.Fatalf("%s, %s: number %d is %.17g, in Go %.17g", name, what, i, got[i], want)
				}
			}
		}
		x := func() []float64 { return o.s.lu.rhs }
		fill := func(size float64) {
			for i := range o.s.lu.rhs {
				o.s.lu.rhs[i] = size * rng.NormFloat64() * float64(rng.IntN(2))
			}
		}
		lu := *o.s.lu
		factors := func() []float64 { return append(append([]float64(nil), lu.data...), lu.inverse...) }
		o.s.jacobian()
		lu.data, lu.inverse = append([]float64(nil), lu.data...), append([]float64(nil), lu.inverse...)
		matrix := append([]float64(nil), lu.data...)
		same("factors", factors, func() {
			copy(lu.data, matrix)
			lu.factorise()
		})
		require.OK(t, base.Solve(Input{}, Options{}, s))
		o = require.Get(base.NewOutages(Input{}, Options{}, s))(t)
		for range 20 {
			fill(1)
			same("forward", x, o.s.lu.forward)
			fill(1)
			same("backward", x, o.s.lu.backward)
			a, sum := make([]float64, len(x())), make([]float64, 1)
			for i := range a {
				a[i] = rng.NormFloat64()
			}
			fill(1)
			same("the sum", x, func() { sum[0] = addDot(x(), 0.3, a) })
			same("the product", func() []float64 { return sum }, func() { fill(0); sum[0] = addDot(x(), 0.3, a) })
			path := o.s.lu.path(nil, []int32{int32(rng.IntN(o.s.lu.n)), int32(rng.IntN(o.s.lu.n))})
			lower, upper := make([]half, o.s.lu.n), make([]half, o.s.lu.n)
			flat := func() (list []float64) {
				for _, k := range path {
					list = append(append(list, lower[k][:]...), upper[k][:]...)
				}
				return list
			}
			same("halves", flat, func() {
				clear(lower)
				clear(upper)
				lower[path[0]][1], upper[path[0]][columns+2], upper[path[len(path)/2]][0] = 1, 1, 0.5
				o.s.lu.halves(lower, upper, path)
			})
			fill(0.01)
			var scale, angle, length float64
			same("lengths", func() []float64 { return []float64{scale, angle, length} }, func() { scale, angle, length = o.s.stepScale() })
			v := append([][2]float64(nil), o.rows.v...)
			rectangular := func() (list []float64) {
				for _, x := range o.rows.v {
					list = append(list, x[:]...)
				}
				return list
			}
			same("rectangular voltages", rectangular, func() {
				copy(o.rows.v, v)
				o.rows.move(o.s)
			})
			for _, list := range [][]float64{o.s.vm, o.s.va} {
				same("a step", func() []float64 { return list }, func() {
					copy(o.rows.v, v)
					o.rows.move(o.s)
				})
			}
			for _, list := range [][]float64{o.s.p, o.s.q} {
				same("injections", func() []float64 { return list }, func() { o.rows.inject(o.s) })
			}
			worst := make([]float64, 1)
			o.s.p[rng.IntN(n.Buses())] += 1e-3
			same("mismatches", x, func() { worst[0], _ = o.mismatch() })
			same("the largest", func() []float64 { return worst }, func() { worst[0], _ = o.mismatch() })
			o.restoreBase()
			copy(o.s.vm, s.Vm)
			copy(o.s.va, s.Va)
			copy(o.rows.v, o.v)
		}
		o.s.q[1] = math.NaN()
		worst := make([]float64, 1)
		if same("not a number", func() []float64 { return worst }, func() { worst[0], _ = o.mismatch() }); name == "case118" && worst[0] == worst[0] {
			t.Error("a mismatch that is no number is", worst[0])
		}
	}
}

// Branches that carry at least a limit at an end are listed, and few others.
func TestLoading(t *testing.T) {
	rng := rand.New(rand.NewPCG(63, 3))
	n := networktest.Load(t, "case118")
	y, nl := NewLoading(n), n.Branches()
	rate, from, to := make([]float64, nl), make([]float64, nl), make([]float64, nl)
	vm, va, flows := make([]float64, n.Buses()), make([]float64, n.Buses()), network.NewFlows(nl)
	for range 50 {
		for b := range vm {
			vm[b], va[b] = 0.9+0.2*rng.Float64(), rng.NormFloat64()
		}
		n.BranchFlows(&n.Admittance, vm, va, flows)
		reaches := make([]bool, nl)
		for k := range rate {
			sf, st := math.Hypot(flows.Pf[k], flows.Qf[k]), math.Hypot(flows.Pt[k], flows.Qt[k])
			rate[k], from[k], to[k] = rng.Float64(), math.Inf(1), math.Inf(1)
			switch kind := rng.IntN(5); kind {
			case 0, 1:
				from[k], reaches[k] = sf*(1-1e-9+2e-9*float64(kind))-rate[k], kind == 0
			case 2, 3:
				to[k], reaches[k] = st*(1-1e-9+2e-9*float64(kind-2))-rate[k], kind == 2
			case 4:
				to[k], reaches[k] = -math.MaxFloat64, true
			}
		}
		listed := make([]bool, nl)
		for _, k := range y.Above(make([]int32, len(rate)), Rectangular(vm, va), rate, from, to) {
			listed[k] = true
		}
		for k := range listed {
			if reaches[k] && !listed[k] || vectors && listed[k] != reaches[k] {
				t.Fatalf("branch %d: listed %v, reaches %v", k, listed[k], reaches[k])
			}
		}
	}
}

// Lanes turn voltages by any angle up to a radian, as the first steps of heavy outages do.
func TestLanesTurnByWideAngles(t *testing.T) {
	if !vectors {
		t.Skip("without vectors")
	}
	for _, angle := range []float64{1e-3, -0.5, 1, laneAngle, -laneAngle} {
		x, voltages, v := make([]float64, laneStride), make([]quad, 1), make([]quad, 1)
		var factor, squares [lanes]float64
		var largest quad
		for lane := range lanes {
			x[lane], x[lanes+lane], factor[lane] = angle, 0.1, 1
			voltages[0][1][lane], v[0][0][lane], v[0][1][lane] = 1, 0.6, 0.8
		}
		moveLanesAVX2([]int32{0}, x, &factor, voltages, v, &laneTerms, &largest, &squares)
		sin, cos := math.Sincos(angle)
		re, im := 1.1*(0.6*cos-0.8*sin), 1.1*(0.8*cos+0.6*sin)
		if d := math.Hypot(v[0][0][1]-re, v[0][1][1]-im); !(d < 2e-15) || largest[0][1] != math.Abs(angle) {
			t.Errorf("%g rad: off by %g, largest %g", angle, d, largest[0][1])
		}
	}
}
