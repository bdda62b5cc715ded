package integrator

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Tolerances of the tests in this package.
const (
	tolGradient   = 1e-7 // analytic against central differences, relative; h = 1e-5 leaves ~1e-9
	tolHessian    = 1e-6 // differences of the gradient, relative
	tolFloat32    = 2e-5 // float32 batch against float64, relative to the largest entry
	tolProjection = 1e-9 // distance of a projection against a better candidate, m/s²
	tolTarget     = 1e-5 // lifted target projected back; a bound of multiplier ~1e-4 is kept to ~1e-6
	tolRegret     = 1e-6 // relative regret below zero: active constraints kept to 1e-9
)

func system(t testing.TB, name string, params Params) *System {
	t.Helper()
	y, err := NewSystem(name, params)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// systems are those of both cases, and one whose limit is the ellipse where it is as the robot gets there.
func systems(t testing.TB) []*System {
	t.Helper()
	later := Default(false)
	later.Lead = 1
	return []*System{system(t, "integrator-convex", Default(false)), system(t, "integrator-nonconvex", Default(true)), system(t, "integrator-convex", later)}
}

func asJSON(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// randomPoint draws a state, context and action of the kind an episode visits.
func randomPoint(rng *rand.Rand, s, c, u []float64) {
	s[0], s[1] = -4+8*rng.Float64(), -1+2.5*rng.Float64()
	s[2], s[3] = -0.5+3*rng.Float64(), -1.5+3*rng.Float64()
	angle, radius := 2*math.Pi*rng.Float64(), 1.5*math.Sqrt(rng.Float64())
	c[0], c[1] = radius*math.Cos(angle), radius*math.Sin(angle)
	c[2], c[3], c[4] = 0.8*rng.Float64(), 0.06+0.08*rng.Float64(), float64(rng.IntN(20))/20
	u[0], u[1] = 3*rng.Float64()-1.5, 3*rng.Float64()-1.5
}

func TestGradientAgainstDifferences(t *testing.T) {
	for _, y := range systems(t) {
		rng := rand.New(rand.NewPCG(1, 2))
		var s, c, u = make([]float64, 4), make([]float64, contextSize), make([]float64, 2)
		gs, gu, J := make([]float64, 4), make([]float64, 2), make([]float64, 2)
		for range 200 {
			randomPoint(rng, s, c, u)
			w := rng.Float64()
			sigma := []float64{w, 1 - w}
			y.Gradient(s, u, c, sigma, gs, gu)
			value := func() float64 {
				y.Objectives(s, u, c, J)
				return sigma[0]*J[0] + sigma[1]*J[1]
			}
			for i := range s {
				checkClose(t, "∂/∂s", gs[i], difference(&s[i], 1e-5, value), tolGradient)
			}
			for i := range u {
				checkClose(t, "∂/∂u", gu[i], difference(&u[i], 1e-5, value), tolGradient)
			}
		}
	}
}

// difference is the central difference of f in *x.
func difference(x *float64, h float64, f func() float64) float64 {
	at := *x
	*x = at + h
	up := f()
	*x = at - h
	down := f()
	*x = at
	return (up - down) / (2 * h)
}

func checkClose(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*(1+math.Abs(want))) {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

func TestBatchAgreesWithSingle(t *testing.T) {
	for _, y := range systems(t) {
		const rows = 64
		rng := rand.New(rand.NewPCG(3, 4))
		b := domain.Batch{Rows: rows, SStride: 4, UStride: 2, CStride: contextSize, SigmaStride: 0,
			JStride: 2, GSStride: 5, GUStride: 2,
			S: make([]float32, 4*rows), U: make([]float32, 2*rows), C: make([]float32, contextSize*rows),
			Sigma: []float32{0.25, 0.75}, J: make([]float32, 2*rows), GS: make([]float32, 5*rows), GU: make([]float32, 2*rows)}
		s, c, u := make([]float64, 4), make([]float64, contextSize), make([]float64, 2)
		type row struct{ J, gs, gu []float64 }
		var want []row
		for i := range rows {
			randomPoint(rng, s, c, u)
			for j, v := range s {
				b.S[4*i+j] = float32(v)
				s[j] = float64(float32(v))
			}
			for j, v := range c {
				b.C[contextSize*i+j] = float32(v)
				c[j] = float64(float32(v))
			}
			for j, v := range u {
				b.U[2*i+j] = float32(v)
				u[j] = float64(float32(v))
			}
			r := row{make([]float64, 2), make([]float64, 4), make([]float64, 2)}
			y.Objectives(s, u, c, r.J)
			y.Gradient(s, u, c, []float64{0.25, 0.75}, r.gs, r.gu)
			want = append(want, r)
		}
		y.GradientBatch(b)
		for i, r := range want {
			for j := range 2 {
				checkClose(t, "J", float64(b.J[2*i+j]), r.J[j], tolFloat32)
				checkClose(t, "gu", float64(b.GU[2*i+j]), r.gu[j], tolFloat32)
			}
			for j := range 4 {
				checkClose(t, "gs", float64(b.GS[5*i+j]), r.gs[j], tolFloat32)
			}
		}
	}
}

func TestAdaptivePriorityIsSemanticOfIndicators(t *testing.T) {
	y := systems(t)[0]
	rng := rand.New(rand.NewPCG(5, 6))
	s, c, u, delta, sigma := make([]float64, 4), make([]float64, contextSize), make([]float64, 2), make([]float64, 2), make([]float64, 2)
	for range 500 {
		randomPoint(rng, s, c, u)
		y.Indicators(s, u, c, delta)
		y.spec.Semantic.Priority(delta, sigma)
		a := y.Params.adaptive(s[0], s[1], c[contextP])
		checkClose(t, "σ₁", a.sigma, sigma[0], 1e-12)
		at := func() priority { return y.Params.adaptive(s[0], s[1], c[contextP]) }
		checkClose(t, "∂σ₁/∂x", a.gx, difference(&s[0], 1e-5, func() float64 { return at().sigma }), tolGradient)
		checkClose(t, "∂σ₁/∂y", a.gy, difference(&s[1], 1e-5, func() float64 { return at().sigma }), tolGradient)
		checkClose(t, "∂²σ₁/∂x²", a.hxx, difference(&s[0], 1e-5, func() float64 { return at().gx }), tolHessian)
		checkClose(t, "∂²σ₁/∂x∂y", a.hxy, difference(&s[1], 1e-5, func() float64 { return at().gx }), tolHessian)
		checkClose(t, "∂²σ₁/∂y²", a.hyy, difference(&s[1], 1e-5, func() float64 { return at().gy }), tolHessian)
	}
}

// A projection is feasible, idempotent, and no sampled feasible action is
// nearer to what was asked for.
func TestProjectIsNearestFeasible(t *testing.T) {
	for _, y := range systems(t)[1:] {
		projectsToNearest(t, y)
	}
}

func projectsToNearest(t *testing.T, y *System) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	s, c, u, m := make([]float64, 4), make([]float64, contextSize), make([]float64, 2), make([]float64, 3)
	infeasible, obstacle := 0, 0
	for trial := range 3000 {
		randomPoint(rng, s, c, u)
		if trial%4 != 0 {
			// Near the ellipse, so that the rims meet in every way.
			angle := 2 * math.Pi * rng.Float64()
			scale := 1 + 0.01*rng.NormFloat64()
			s[0] = scale*y.Params.Ellipse.A*math.Cos(angle) - y.Params.Dt*s[2]
			s[1] = scale*y.Params.Ellipse.B*math.Sin(angle) + y.Params.Ellipse.C0[1] + y.Params.Ellipse.Rho[1]*c[2] - y.Params.Dt*s[3]
		}
		u[0], u[1] = 6*rng.Float64()-3, 6*rng.Float64()-3
		want := [2]float64{u[0], u[1]}
		feasible := y.nearest(s, c, u)
		y.Margins(s, c, u, m)
		if m[1] < -1e-9 || m[2] < -1e-9 {
			t.Fatalf("trial %d: projection leaves the discs: margins %v", trial, m)
		}
		if feasible != (m[0] >= -1e-12) {
			t.Fatalf("trial %d: Project says feasible=%v, obstacle margin %g", trial, feasible, m[0])
		}
		got := squared([2]float64{u[0], u[1]}, want[:])
		clearest := m[0]
		if feasible {
			again := []float64{u[0], u[1]}
			if !y.nearest(s, c, again) || math.Sqrt(squared([2]float64{again[0], again[1]}, u)) > tolProjection {
				t.Fatalf("trial %d: projecting twice moves %v to %v", trial, u, again)
			}
		} else {
			infeasible++
		}
		first := []float64{want[0], want[1]}
		y.discs(c).project(first)
		if feasible && math.Sqrt(squared([2]float64{first[0], first[1]}, u)) > 1e-6 {
			obstacle++
		}
		free, discs := y.freeMotion(s, c), y.discs(c)
		for k := range 400 {
			// Half of the samples on the slew rim, where constrained optima are.
			radius := y.Params.RMax
			if k%2 == 0 {
				radius *= math.Sqrt(rng.Float64())
			}
			angle := 2 * math.Pi * rng.Float64()
			at := [2]float64{c[0] + radius*math.Cos(angle), c[1] + radius*math.Sin(angle)}
			if math.Hypot(at[0], at[1]) > discs.input {
				continue
			}
			psi := free.clearance(at[0], at[1])
			if feasible && psi >= 1 && math.Sqrt(squared(at, want[:])) < math.Sqrt(got)-tolProjection {
				t.Fatalf("trial %d: %v is nearer to %v than the projection %v", trial, at, want, u)
			}
			if !feasible && psi-1 > clearest+1e-9 {
				t.Fatalf("trial %d: %v has clearance %g, Project gave up at %g", trial, at, psi-1, clearest)
			}
		}
	}
	if infeasible < 50 || obstacle < 200 {
		t.Fatalf("the draw is too easy: %d infeasible, %d moved by the ellipse", infeasible, obstacle)
	}
}

func TestProjectRejectsNonFinite(t *testing.T) {
	y := systems(t)[0]
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		u := []float64{bad, 0}
		if y.nearest([]float64{-3, 0, 0, 0}, []float64{1.4, 0, 0, 0.1, 0}, u) {
			t.Fatal("a non-finite action was called feasible")
		}
		checkClose(t, "u₁", u[0], 1.0, 1e-12)
	}
}

func TestFallback(t *testing.T) {
	y := systems(t)[0]
	c := []float64{0.3, 0.4, 0.1, 0.1, 0}
	u := make([]float64, 2)
	y.Fallback([]float64{math.NaN(), 0, 0, 0}, c, u)
	checkClose(t, "‖u‖", math.Hypot(u[0], u[1]), 0.1, 1e-9)
	y.Fallback([]float64{-3, 0, 1, 0}, c, u)
	if m := make([]float64, 3); true {
		y.Margins([]float64{-3, 0, 1, 0}, c, u, m)
		if min(m[0], m[1], m[2]) < -1e-9 || u[0] >= c[0] {
			t.Fatalf("fallback %v does not brake within bounds, margins %v", u, m)
		}
	}
}

// Whatever is observed, the fallback is a number, and the receding horizon's decisions are flagged where the observation is none.
func TestWhatIsNoObservation(t *testing.T) {
	y := systems(t)[0]
	k := domain.FiniteController(y, &recedingHorizon{system: y, work: newInterior(y), steps: 5})
	for entry := range 9 {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e308, -1e308} {
			observed, u := []float64{-3, 0.5, 0, 0, 0, 0, 0.2, 0, 0}, make([]float64, 2)
			observed[entry] = v
			s, c := observed[:4], observed[4:]
			if y.Fallback(s, c, u); math.IsNaN(u[0] - u[0] + u[1] - u[1]) {
				t.Errorf("entry %d is %v: the fallback is %v", entry, v, u)
			}
			if d, err := k.Decide(s, c, domain.Preference{Adaptive: true}, u); err == nil && math.IsNaN(v-v) && d.Fallback == 0 {
				t.Errorf("entry %d is %v: the decision is not flagged", entry, v)
			}
		}
	}
}

// Step, the plant and Margins use one convention: the ellipse of step t stands
// at c₀ + ρ·p[t], or, for the limit of one that looks ahead, at c₀ + ρ·p[t+1].
func TestPlantMatchesProblem(t *testing.T) {
	for _, y := range systems(t) {
		plant := &Plant{system: y, oracle: newOracle(y)}
		ep, err := plant.Episode(11, 3, domain.EpisodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, c, u, m := make([]float64, 4), make([]float64, contextSize), make([]float64, 2), make([]float64, 3)
		ns, nc := make([]float64, 4), make([]float64, contextSize)
		rng := rand.New(rand.NewPCG(9, 9))
		scene := ep.Scene().(Scene)
		for step := 0; !ep.Done(); step++ {
			ep.Observe(s, c)
			if step > 0 {
				for i := range s {
					checkClose(t, "predicted s", ns[i], s[i], 1e-12)
				}
				for i := range c {
					checkClose(t, "predicted c", nc[i], c[i], 1e-12)
				}
			}
			u[0], u[1] = rng.NormFloat64(), rng.NormFloat64()
			y.Step(s, c, u, ns, nc)
			y.Margins(s, c, u, m)
			out, err := ep.Apply(u)
			if err != nil {
				t.Fatal(err)
			}
			p := scene.P[step]
			if y.Params.Lead == 1 {
				p = scene.P[0] + float64(step+1)*(scene.P[1]-scene.P[0])
			}
			centre := y.Params.Ellipse.C0[1] + y.Params.Ellipse.Rho[1]*p
			dx, dy := out.S[0]/1.2, (out.S[1]-centre)/0.8
			checkClose(t, "obstacle margin", out.Named[0], dx*dx+dy*dy-1, 1e-12)
			for i := range m {
				checkClose(t, "margin", m[i], out.Named[i], 1e-12*y.Params.Lead)
			}
			checkClose(t, "cost", out.Cost, out.Sigma[0]*out.J[0]+out.Sigma[1]*out.J[1], 0)
		}
		if _, err := ep.Apply(u); err == nil {
			t.Fatal("a step past the end was accepted")
		}
	}
}

func TestReplayIsBitwise(t *testing.T) {
	for _, y := range systems(t) {
		plant := &Plant{system: y, oracle: newOracle(y)}
		for _, pref := range []domain.Preference{{Adaptive: true}, {W: []float64{0.3, 0.7}}} {
			ep, err := plant.Episode(5, 8, domain.EpisodeOptions{Noise: 0.05, Preference: pref})
			if err != nil {
				t.Fatal(err)
			}
			params := asJSON(t, plant.Params())
			scene := asJSON(t, ep.Scene())
			again, err := plant.Replay(params, scene)
			if err != nil {
				t.Fatal(err)
			}
			c1, c2, s := make([]float64, contextSize), make([]float64, contextSize), make([]float64, 4)
			for k := range Horizon {
				ep.Observe(s, c1)
				again.Observe(s, c2)
				for i := range c1 {
					if c1[i] != c2[i] {
						t.Fatalf("context %d is %v, replayed %v", i, c1[i], c2[i])
					}
				}
				u := []float64{math.Sin(float64(k)), math.Cos(float64(k))}
				a, err1 := ep.Apply(u)
				b, err2 := again.Apply(u)
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				if a.Cost != b.Cost || a.Margin != b.Margin || a.S[0] != b.S[0] || a.S[3] != b.S[3] {
					t.Fatalf("step %d: %+v, replayed %+v", k, a, b)
				}
			}
		}
	}
}

func TestReplayNamesWhatIsWrong(t *testing.T) {
	y := systems(t)[0]
	plant := &Plant{system: y, oracle: newOracle(y)}
	params := asJSON(t, plant.Params())
	for _, scene := range []string{`{`, `{"q0":[0,0]}`, `{"q0":[0,0],"v0":[0,0],"u_prev":[0,0],"p":[1]}`} {
		if _, err := plant.Replay(params, json.RawMessage(scene)); err == nil {
			t.Errorf("scene %s was accepted", scene)
		}
	}
	if _, err := plant.Replay(json.RawMessage(`{"dt":0.2}`), json.RawMessage(`{}`)); err == nil {
		t.Error("params without limits were accepted")
	}
}

func TestNoiseIsSeeded(t *testing.T) {
	y := systems(t)[0]
	plant := &Plant{system: y, oracle: newOracle(y)}
	draw := func(noise float64) []float64 {
		ep, err := plant.Episode(5, 1, domain.EpisodeOptions{Noise: noise})
		if err != nil {
			t.Fatal(err)
		}
		s, c := make([]float64, 4), make([]float64, contextSize)
		ep.Observe(s, c)
		return s
	}
	a, b, clean := draw(0.1), draw(0.1), draw(0)
	if a[0] != b[0] || a[0] == clean[0] || math.Abs(a[0]-clean[0]) > 1 {
		t.Fatalf("noisy %v, again %v, clean %v", a, b, clean)
	}
}

// Whatever stands in a trace, Replay refuses it or returns an episode that runs
// to its end.
func FuzzReplay(f *testing.F) {
	y := system(f, "integrator-nonconvex", Default(true))
	plant := &Plant{system: y, oracle: newOracle(y)}
	params := asJSON(f, y.Params)
	ep, err := plant.Episode(1, 1, domain.EpisodeOptions{Preference: domain.Preference{W: []float64{0.5, 0.5}}})
	if err != nil {
		f.Fatal(err)
	}
	scene := asJSON(f, ep.Scene())
	f.Add(params, scene)
	f.Add([]byte(`{"dt":0.1}`), []byte(`{"q0":[0,0],"v0":[0,0],"u_prev":[0,0],"p":[]}`))
	f.Add(params, []byte(`{"q0":[1e300,0],"v0":[0],"u_prev":null,"p":[1,2],"w":[]}`))
	f.Fuzz(func(t *testing.T, params, scene []byte) {
		ep, err := plant.Replay(params, scene)
		if err != nil {
			return
		}
		s, c := make([]float64, 4), make([]float64, contextSize)
		steps := 0
		for ; !ep.Done(); steps++ {
			ep.Observe(s, c)
			if _, err := ep.Apply([]float64{0.1, -0.1}); err != nil {
				t.Fatal(err)
			}
		}
		if steps != Horizon {
			t.Fatalf("the episode has %d steps", steps)
		}
	})
}

// A shifted plant has other limits and another ellipse, for problem and trace alike.
func TestShiftedSystem(t *testing.T) {
	c := Convex()
	shifted := require.Get(c.Shifted(map[string]float64{"ellipse": 1.1, "ellipse-minor": 0.5, "obstacle-speed": 1.5, "input-limit": 0.9, "slew-limit": 1.2, "obstacle-age": 0}))(t)
	want := Default(false)
	want.Ellipse.A *= 1.1
	want.Ellipse.B *= 1.1 * 0.5
	want.Ellipse.Rho[1] *= 1.5
	want.UMax *= 0.9
	want.RMax *= 1.2
	want.Lead = 1
	if got := shifted.Problem.(*System).Params; got != want {
		t.Errorf("parameters %+v, want %+v", got, want)
	}
	if got := shifted.Plant.Params().(traceParams).Params; got != want {
		t.Errorf("a trace holds %+v, want %+v", got, want)
	}
	if got := c.Problem.(*System).Params; got != Default(false) {
		t.Errorf("the case itself has %+v", got)
	}
	for of, f := range map[string]float64{"ellipse-minor": 0.1, "obstacle-age": 1.5, "obstacle-speed": 0} {
		if _, err := c.Shifted(map[string]float64{of: f}); err == nil {
			t.Errorf("%s times %v is accepted", of, f)
		}
	}
}

// A test scene shares no random numbers with a dataset of the same seed, whose scenario of
// the same number draws from (seed, number).
func TestTestScenesHaveAStreamOfTheirOwn(t *testing.T) {
	plant := Convex().Plant
	for seed := range uint64(3) {
		for index := range 3 {
			ep, err := plant.Episode(seed, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
			if err != nil {
				t.Fatal(err)
			}
			scene, rng := ep.Scene().(Scene), rand.New(rand.NewPCG(seed, uint64(index)))
			for i, axis := range testRange()[:2] {
				if q := axis.Lo + (axis.Hi-axis.Lo)*rng.Float64(); scene.Q0[i] == q {
					t.Errorf("seed %d, scene %d: q%d = %v is the training stream's", seed, index, i+1, q)
				}
			}
		}
	}
}
