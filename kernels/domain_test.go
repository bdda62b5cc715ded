package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/integrator"
	"github.com/gpc-engine/gpc/domains/multiagent"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// opened gives a backend on the host shim.
func opened(t testing.TB) (*Backend, *shim.Library) {
	t.Helper()
	library := shim.Open(t)
	context, err := driver.Open(library, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(context, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, library
}

// deviceProblem is a problem with device functions and rows to try them on.
type deviceProblem struct {
	problem    domain.Problem
	s, c, u, w [][]float64
}

// integratorRows draws rows around the ellipse: states that head for it, actions
// within and beyond every limit.
func integratorRows(t testing.TB, nonconvex bool, rows int) deviceProblem {
	t.Helper()
	system, err := integrator.NewSystem("integrator", integrator.Default(nonconvex))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	d := deviceProblem{problem: system}
	within := func(lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
	for range rows {
		d.s = append(d.s, []float64{within(-3, 3), within(-2, 1.5), within(-1, 2), within(-1, 1)})
		previous := within(0, 1.5)
		sin, cos := math.Sincos(within(0, 2*math.Pi))
		d.c = append(d.c, []float64{previous * cos, previous * sin, within(0, 0.5), within(0.06, 0.14), float64(rng.IntN(20)) / 20})
		d.u = append(d.u, []float64{within(-2, 2), within(-2, 2)})
		d.w = append(d.w, []float64{rng.Float64(), rng.Float64()})
	}
	return d
}

func flat32(rows [][]float64) []float32 {
	var v []float32
	for _, r := range rows {
		for _, x := range r {
			v = append(v, float32(x))
		}
	}
	return v
}

func flat64(rows [][]float64) []float64 {
	var v []float64
	for _, r := range rows {
		v = append(v, r...)
	}
	return v
}

func wide32(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w
}

// TestDeviceFunctionsAgree holds the device functions of a problem to its own
// methods: Base, Objectives and Gradient in float32, one roll-out step in float64.
func TestDeviceFunctionsAgree(t *testing.T) {
	for _, nonconvex := range []bool{false, true} {
		d := integratorRows(t, nonconvex, 400)
		checkGradient(t, d)
		checkRollout(t, d)
	}
	d := multiagentRows(t, 48)
	checkGradient(t, d)
	checkRollout(t, d)
}

// multiagentRows draws rows of test scenes of both cases some steps in; in every other
// one a robot drives at an obstacle just before it. Actions are within and beyond
// every limit.
func multiagentRows(t testing.TB, rows int) deviceProblem {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	var d deviceProblem
	for row := range rows {
		made := multiagent.Moving()
		if row%4 == 3 {
			made = multiagent.Static()
		}
		d.problem = made.Problem
		episode, err := made.Plant.Episode(7, row, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
		if err != nil {
			t.Fatal(err)
		}
		spec := made.Problem.Spec()
		s, c, u, w := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize()), make([]float64, spec.ObjectiveSize())
		draw := func() {
			episode.Observe(s, c)
			for i := range u {
				u[i] = 3 * rng.NormFloat64()
			}
		}
		for range rng.IntN(20) {
			draw()
			made.Problem.Project(s, c, u)
			if _, err := episode.Apply(u); err != nil {
				t.Fatal(err)
			}
		}
		draw()
		if row%2 == 1 {
			robot, obstacle := rng.IntN(3), c[len(c)-75:]
			sin, cos := math.Sincos(6 * rng.Float64())
			away := obstacle[4] + c[24+robot] + 0.18 + 0.1*rng.Float64()
			copy(s[4*robot:], []float64{obstacle[0] + away*cos, obstacle[1] + away*sin, math.Atan2(-sin, -cos), 1})
		}
		for i := range w {
			w[i] = rng.Float64()
		}
		d.s, d.c, d.u, d.w = append(d.s, s), append(d.c, c), append(d.u, u), append(d.w, w)
	}
	return d
}

func checkGradient(t *testing.T, d deviceProblem) {
	b, _ := opened(t)
	spec, rows := d.problem.Spec(), len(d.s)
	ns, nc, nu, m, np := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize(), spec.PlanSize()
	J, gs, gu, base := make([]float32, rows*m), make([]float32, rows*ns), make([]float32, rows*nu), make([]float32, rows*np)
	s, c, u, w := flat32(d.s), flat32(d.c), flat32(d.u), flat32(d.w)
	code := d.problem.(domain.Device).Device()
	err := b.do(func(t *driver.Thread) error {
		var m2 memory
		defer m2.free(t)
		if err := b.loadDomain(t, code); err != nil {
			return err
		}
		place := func(v []float32) driver.Pointer {
			p, err := uploaded(t, &m2, v)
			if err != nil {
				panic(err)
			}
			return p
		}
		constants, err := uploaded(t, &m2, code.Constants)
		if err != nil {
			return err
		}
		batch := domainBatch{
			s: place(s), u: place(u), c: place(c), sigma: place(w), J: place(J), gs: place(gs), gu: place(gu),
			lds: int32(ns), ldu: int32(nu), ldc: int32(nc), ldsigma: int32(m), ldJ: int32(m), ldgs: int32(ns), ldgu: int32(nu), rows: int32(rows),
		}
		f := flow{backend: b, code: code.Name, constants: constants, plan: np}
		if err := b.launch(t, "gpc_domain_gradient_"+code.Name, driver.Dim{X: ceil(rows, 128)}, 128, 0, driver.Struct(&batch), driver.Address(constants)); err != nil {
			return err
		}
		to := place(base)
		if err := f.bases(t, rows, inputs{x: batch.s, ctx: batch.c, ldx: ns, ldctx: nc}, to); err != nil {
			return err
		}
		for _, r := range []struct {
			v []float32
			p driver.Pointer
		}{{J, batch.J}, {gs, batch.gs}, {gu, batch.gu}, {base, to}} {
			if err := driver.Download(t, r.v, r.p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		x, ctx, a, sigma := wide32(s[i*ns:(i+1)*ns]), wide32(c[i*nc:(i+1)*nc]), wide32(u[i*nu:(i+1)*nu]), wide32(w[i*m:(i+1)*m])
		wantJ, wantS, wantU, wantBase := make([]float64, m), make([]float64, ns), make([]float64, nu), make([]float64, np)
		d.problem.Objectives(x, a, ctx, wantJ)
		d.problem.Gradient(x, a, ctx, sigma, wantS, wantU)
		d.problem.Base(x, ctx, wantBase)
		for _, r := range []struct {
			what      string
			got, want []float64
		}{
			{"J", wide32(J[i*m : (i+1)*m]), wantJ}, {"∂/∂s", wide32(gs[i*ns : (i+1)*ns]), wantS},
			{"∂/∂u", wide32(gu[i*nu : (i+1)*nu]), wantU}, {"base", wide32(base[i*np : (i+1)*np]), wantBase},
		} {
			if err := near(r.got, r.want, 1e-5); err != nil {
				t.Fatalf("%s, row %d, %s: %v", spec.Name, i, r.what, err)
			}
		}
	}
}

// near compares relative to 1 + the largest entry.
func near(got, want []float64, relative float64) error {
	scale := 1.0
	for _, v := range want {
		scale = math.Max(scale, math.Abs(v))
	}
	for i, v := range want {
		if !(math.Abs(got[i]-v) <= relative*scale) {
			return fmt.Errorf("entry %d is %v, want %v", i, got[i], v)
		}
	}
	return nil
}

func checkRollout(t *testing.T, d deviceProblem) {
	b, _ := opened(t)
	spec, rows := d.problem.Spec(), len(d.s)
	ns, nc, nu, m, np := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize(), spec.PlanSize()
	width := spec.ObservationSize()
	u := flat32(d.u)
	u[5*nu] = float32(math.NaN())
	plans := make([]float32, rows*np) // the first action of each
	for i := range rows {
		copy(plans[i*np:], u[i*nu:(i+1)*nu])
	}
	s, c := flat64(d.s), flat64(d.c)
	cost, margin, best := make([]float64, rows), make([]float64, rows), make([]float64, rows*np)
	input := make([]float32, rows*width)
	mean, scale, slot := make([]float32, width), make([]float32, width), make([]float32, 1+m)
	for i := range mean {
		mean[i], scale[i] = float32(i)/8, 1+float32(i)/4
	}
	semantic := semanticOf(spec)
	code := d.problem.(domain.Device).Device()
	err := b.do(func(t *driver.Thread) error {
		var m2 memory
		defer m2.free(t)
		if err := b.loadDomain(t, code); err != nil {
			return err
		}
		place64 := func(v []float64) driver.Pointer {
			p, err := uploaded(t, &m2, v)
			if err != nil {
				panic(err)
			}
			return p
		}
		place := func(v []float32) driver.Pointer {
			p, err := uploaded(t, &m2, v)
			if err != nil {
				panic(err)
			}
			return p
		}
		r := rolloutJob{
			s: place64(s), c: place64(c), cost: place64(cost), margin: place64(margin), plan: place(plans), best: place64(best), input: place(input),
			stateOut: place(make([]float32, rows*ns)), contextOut: place(make([]float32, rows*nc)), rows: int32(rows), project: 1, encode: 1,
		}
		p := preferenceJob{weights: place64(make([]float64, m)), slot: place(slot), semantic: place64(semantic), mean: place(mean), scale: place(scale), adaptive: 1}
		if err := b.launch(t, "gpc_domain_rollout_"+code.Name, driver.Dim{X: ceil(rows, 128)}, 128, 0, driver.Struct(&r), driver.Struct(&p), driver.Address(place64(code.Constants))); err != nil {
			return err
		}
		for _, v := range []struct {
			v []float64
			p driver.Pointer
		}{{s, r.s}, {c, r.c}, {cost, r.cost}, {margin, r.margin}, {best, r.best}} {
			if err := driver.Download(t, v.v, v.p); err != nil {
				return err
			}
		}
		return driver.Download(t, input, r.input)
	})
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for i := range rows {
		a := wide32(u[i*nu : (i+1)*nu])
		wantMargin := math.Inf(1)
		if a[0] != a[0] {
			wantMargin = math.Inf(-1)
			clear(a)
		} else {
			d.problem.Project(d.s[i], d.c[i], a)
		}
		if a[0] != float64(u[i*nu]) {
			moved++
		}
		delta, sigma, J, margins := make([]float64, m), make([]float64, m), make([]float64, m), make([]float64, len(spec.Margins))
		nextS, nextC := make([]float64, ns), make([]float64, nc)
		d.problem.Indicators(d.s[i], a, d.c[i], delta)
		spec.Semantic.Priority(delta, sigma)
		d.problem.Objectives(d.s[i], a, d.c[i], J)
		wantCost := 0.0
		for k := range J {
			wantCost += sigma[k] * J[k]
		}
		d.problem.Margins(d.s[i], d.c[i], a, margins)
		for _, v := range margins {
			wantMargin = math.Min(wantMargin, v)
		}
		d.problem.Step(d.s[i], d.c[i], a, nextS, nextC)
		if math.IsInf(wantMargin, -1) != math.IsInf(margin[i], -1) {
			t.Fatalf("row %d: margin %v, want %v", i, margin[i], wantMargin)
		}
		if math.IsInf(wantMargin, -1) {
			wantMargin, margin[i] = 0, 0
		}
		wantInput := append(append(append([]float64{}, nextS...), nextC...), make([]float64, 1+m)...)
		for k := range wantInput {
			wantInput[k] = (wantInput[k] - float64(mean[k])) / float64(scale[k])
		}
		for _, r := range []struct {
			what      string
			got, want []float64
			tolerance float64
		}{
			{"action", best[i*np : i*np+nu], a, 1e-9}, {"state", s[i*ns : (i+1)*ns], nextS, 1e-9}, {"context", c[i*nc : (i+1)*nc], nextC, 1e-9},
			{"cost and margin", []float64{cost[i], margin[i]}, []float64{wantCost, wantMargin}, 1e-8},
			{"input of E_x", wide32(input[i*width : (i+1)*width]), wantInput, 1e-6},
		} {
			if err := near(r.got, r.want, r.tolerance); err != nil {
				t.Fatalf("%s, row %d, %s: %v", spec.Name, i, r.what, err)
			}
		}
	}
	if moved < rows/2 {
		t.Errorf("only %d of %d actions were projected; the rows are badly chosen", moved, rows)
	}
}
