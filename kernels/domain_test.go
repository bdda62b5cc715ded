package kernels

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/integrator"
	"github.com/gpc-engine/gpc/domains/multiagent"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/tensor"
)

// onShim gives a backend on the host shim.
func onShim(t testing.TB, o Options) (*shim.Library, *Backend) {
	t.Helper()
	library := shim.Open(t)
	return library, on(t, library, o)
}

// onAny gives a backend on the host shim or, where tests run on one, on a GPU.
func onAny(t testing.TB) *Backend {
	t.Helper()
	return on(t, shim.Device(t), Options{})
}

func on(t testing.TB, d driver.Driver, o Options) *Backend {
	t.Helper()
	context, err := driver.Open(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(context, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
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
	b := onAny(t)
	for _, nonconvex := range []bool{false, true} {
		d := integratorRows(t, nonconvex, 400)
		d.u[5][0] = math.NaN()
		checkGradient(t, b, d)
		if moved := checkRollout(t, b, d, true, 400); moved < 200 {
			t.Errorf("only %d of 400 actions were projected; the rows are badly chosen", moved)
		}
		checkRollout(t, b, d, false, 20)
	}
	d := multiagentRows(t, 48)
	checkGradient(t, b, d)
	if moved := checkRollout(t, b, d, true, 48); moved < 24 {
		t.Errorf("only %d of 48 joint actions were projected; the rows are badly chosen", moved)
	}
	d.u[5][3] = math.NaN()
	checkRollout(t, b, d, false, 20)
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

// first are the first rows of a problem.
func (d deviceProblem) first(rows int) deviceProblem {
	return deviceProblem{d.problem, d.s[:rows], d.c[:rows], d.u[:rows], d.w[:rows]}
}

// withCode runs f with the device functions of a problem and a way to bring values
// there, which are gone afterwards.
func withCode(t testing.TB, b *Backend, p domain.Problem, f func(t *driver.Thread, code *problemCode, place func(any) driver.Pointer) error) {
	t.Helper()
	err := b.do(func(t *driver.Thread) error {
		var m memory
		defer m.free(t)
		code, err := newProblemCode(t, b, &m, p)
		if err != nil {
			return err
		}
		place := func(v any) (at driver.Pointer) {
			switch v := v.(type) {
			case []float32:
				at, err = uploaded(t, &m, v)
			case []float64:
				at, err = uploaded(t, &m, v)
			}
			if err != nil {
				panic(err)
			}
			return at
		}
		return f(t, &code, place)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func download(t *driver.Thread, to any, from driver.Pointer) error {
	if v, ok := to.([]float32); ok {
		return driver.Download(t, v, from)
	}
	return driver.Download(t, to.([]float64), from)
}

func checkGradient(t *testing.T, b *Backend, d deviceProblem) {
	t.Helper()
	spec, rows := d.problem.Spec(), len(d.s)
	ns, nc, nu, m, np := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize(), spec.PlanSize()
	J, gs, gu, base := make([]float32, rows*m), make([]float32, rows*ns), make([]float32, rows*nu), make([]float32, rows*np)
	s, c, u, w := flat32(d.s), flat32(d.c), flat32(d.u), flat32(d.w)
	withCode(t, b, d.problem, func(t *driver.Thread, code *problemCode, place func(any) driver.Pointer) error {
		batch := domainBatch{
			s: place(s), u: place(u), c: place(c), sigma: place(w), J: place(J), gs: place(gs), gu: place(gu),
			lds: int32(ns), ldu: int32(nu), ldc: int32(nc), ldsigma: int32(m), ldJ: int32(m), ldgs: int32(ns), ldgu: int32(nu), rows: int32(rows),
		}
		if err := code.gradient(t, b, &batch); err != nil {
			return err
		}
		to := place(base)
		if err := code.base(t, b, rows, inputs{x: batch.s, ctx: batch.c, ldx: ns, ldctx: nc}, to, np); err != nil {
			return err
		}
		return errors.Join(download(t, J, batch.J), download(t, gs, batch.gs), download(t, gu, batch.gu), download(t, base, to))
	})
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
			if err := nearOrLost(r.got, r.want, 1e-5); err != nil {
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

// nearOrLost compares the entries that are numbers. In a row that has left the
// numbers the others have to be the same infinity, or not a number.
func nearOrLost(got, want []float64, relative float64) error {
	var numbers, wanted []float64
	for i, v := range want {
		switch {
		case math.IsNaN(v):
			if !math.IsNaN(got[i]) {
				return fmt.Errorf("entry %d is %v, want one that is not a number", i, got[i])
			}
		case math.IsInf(v, 0):
			if got[i] != v {
				return fmt.Errorf("entry %d is %v, want %v", i, got[i], v)
			}
		default:
			numbers, wanted = append(numbers, got[i]), append(wanted, v)
		}
	}
	return near(numbers, wanted, relative)
}

// rolled is what one step of roll-outs leaves.
type rolled struct {
	s, c, cost, margin, best []float64
	input                    []float32
}

// rollOut takes one step with the device functions, under the adaptive priority.
// Entry i of E_x's input is normalised by mean i/8 and scale 1 + i/4.
func rollOut(t testing.TB, b *Backend, d deviceProblem, project bool) rolled {
	t.Helper()
	spec, rows := d.problem.Spec(), len(d.s)
	ns, nc, np, m, width := spec.MeasuredSize(), spec.ContextSize(), spec.PlanSize(), spec.ObjectiveSize(), spec.ObservationSize()
	r := rolled{flat64(d.s), flat64(d.c), make([]float64, rows), make([]float64, rows), make([]float64, rows*np), make([]float32, rows*width)}
	plans := make([]float32, rows*np) // of whose actions the first is taken
	for i, u := range d.u {
		copy(plans[i*np:], flat32([][]float64{u}))
	}
	mean, scale := make([]float32, width), make([]float32, width)
	for i := range mean {
		mean[i], scale[i] = float32(i)/8, 1+float32(i)/4
	}
	withCode(t, b, d.problem, func(t *driver.Thread, code *problemCode, place func(any) driver.Pointer) error {
		job := rolloutJob{
			s: place(r.s), c: place(r.c), cost: place(r.cost), margin: place(r.margin), plan: place(plans), best: place(r.best), input: place(r.input),
			stateOut: place(make([]float32, rows*ns)), contextOut: place(make([]float32, rows*nc)), rows: int32(rows), encode: 1,
			workspace: place(make([]float64, code.workspace/8*code.inFlight(b, rows))),
		}
		if project {
			job.project = 1
		}
		p := preferenceJob{
			weights: place(make([]float64, m)), slot: place(make([]float32, 1+m)), semantic: place(semanticOf(spec)), mean: place(mean), scale: place(scale), adaptive: 1,
		}
		if err := code.rollout(t, b, &job, &p); err != nil {
			return err
		}
		return errors.Join(download(t, r.s, job.s), download(t, r.c, job.c), download(t, r.cost, job.cost), download(t, r.margin, job.margin),
			download(t, r.best, job.best), download(t, r.input, job.input))
	})
	return r
}

// row is what one of the rows became: action, next state and context, cost and
// margin, input of E_x.
func (r *rolled) row(i int, spec *domain.Spec) [5][]float64 {
	ns, nc, nu, np, width := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.PlanSize(), spec.ObservationSize()
	return [5][]float64{
		r.best[i*np : i*np+nu], r.s[i*ns : (i+1)*ns], r.c[i*nc : (i+1)*nc], {r.cost[i], r.margin[i]}, wide32(r.input[i*width : (i+1)*width]),
	}
}

// stepOf is the same by the problem's own methods, as refinement in single
// operations takes them.
func stepOf(p domain.Problem, s, c []float64, u []float32, project bool) [5][]float64 {
	spec := p.Spec()
	m := spec.ObjectiveSize()
	a, margin := wide32(u), math.Inf(1)
	if !tensor.Finite(a) || !tensor.Finite(s) {
		margin = math.Inf(-1)
		clear(a)
	} else if project {
		p.Project(s, c, a)
	}
	delta, sigma, J, margins := make([]float64, m), make([]float64, m), make([]float64, m), make([]float64, len(spec.Margins))
	nextS, nextC := make([]float64, len(s)), make([]float64, len(c))
	p.Indicators(s, a, c, delta)
	spec.Semantic.Priority(delta, sigma)
	if scored, ok := p.(domain.Scored); ok {
		scored.Score(s, c, a, J, margins)
	} else {
		p.Objectives(s, a, c, J)
		p.Margins(s, c, a, margins)
	}
	cost := 0.0
	for k := range J {
		cost += sigma[k] * J[k]
	}
	for _, v := range margins {
		margin = math.Min(margin, v)
	}
	p.Step(s, c, a, nextS, nextC)
	if !tensor.Finite(nextS) || !tensor.Finite(nextC) {
		margin = math.Inf(-1)
		copy(nextS, s)
		copy(nextC, c)
	}
	input := append(append(append([]float64{}, nextS...), nextC...), make([]float64, 1+m)...)
	for k := range input {
		input[k] = (input[k] - float64(float32(k)/8)) / float64(1+float32(k)/4)
	}
	return [5][]float64{a, nextS, nextC, {cost, margin}, input}
}

// checkRollout compares a step of the first rows with the problem's own methods, and
// counts the actions that the projection moved.
func checkRollout(t *testing.T, b *Backend, d deviceProblem, project bool, rows int) (moved int) {
	t.Helper()
	d = d.first(rows)
	spec := d.problem.Spec()
	got := rollOut(t, b, d, project)
	var worst [5]float64
	for i := range rows {
		u := flat32(d.u[i : i+1])
		have, want := got.row(i, spec), stepOf(d.problem, d.s[i], d.c[i], u, project)
		if want[0][0] != float64(u[0]) {
			moved++
		}
		for k, r := range []struct {
			what      string
			tolerance float64
		}{{"action", 1e-9}, {"state", 1e-9}, {"context", 1e-9}, {"cost and margin", 1e-8}, {"input of E_x", 1e-6}} {
			if err := nearOrLost(have[k], want[k], r.tolerance); err != nil {
				t.Errorf("%s, row %d of %d, %s: %v", spec.Name, i, rows, r.what, err)
			}
			for j, v := range want[k] {
				if off := math.Abs(have[k][j] - v); off > worst[k] && !math.IsInf(v, 0) {
					worst[k] = off
				}
			}
		}
	}
	t.Logf("%s, %d rows, projected %v: action off by at most %.1e, state %.1e, context %.1e, cost and margin %.1e", spec.Name, rows, project, worst[0], worst[1], worst[2], worst[3])
	return moved
}
