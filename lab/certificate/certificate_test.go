package certificate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// samplesOf are samples of the feedback that the exact map was built from.
func samplesOf(n int) []domain.Sample {
	rng := rand.New(rand.NewPCG(1, 1))
	samples := make([]domain.Sample, n)
	for i := range samples {
		s := []float64{2*rng.Float64() - 1, rng.Float64() - 0.5}
		u := math.Max(-1, math.Min(1, testdomain.Feedback[0]*s[0]+testdomain.Feedback[1]*s[1]))
		samples[i] = domain.Sample{S: s, C: []float64{0.5}, Preference: domain.Preference{Adaptive: true}, U: []float64{u}}
	}
	return samples
}

func latents(t *testing.T, m *model.Model, p domain.Problem, opt batchnav.Options) *batchnav.Latents {
	t.Helper()
	return require.Get(batchnav.NewLatents(ref.New(), m, p, opt))(t)
}

func close(t *testing.T, name string, got Number, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= tolerance) {
		t.Errorf("%s = %v, want %g ± %g", name, got, want, tolerance)
	}
}

func estimate(t *testing.T, cart *testdomain.Cart, m *model.Model) *Constants {
	t.Helper()
	k := require.Get(Estimate(t.Context(), latents(t, m, cart, batchnav.Options{}), samplesOf(60), Options{points: 40, Seed: 3}))(t)
	return k
}

// For the exact map every constant is known in closed form. (An even grid keeps
// the codes off the kinks of the ReLUs, where the derivative is 0 by definition.)
func TestConstantsOfAnExactMap(t *testing.T) {
	cart := testdomain.NewCart(20)
	k := estimate(t, cart, testdomain.Map(cart, 14, true))
	gain := math.Hypot(testdomain.Feedback[0], testdomain.Feedback[1])
	close(t, "K_Du", k.KDu, gain, 1e-5)
	close(t, "K_Du bound", k.KDuBound, 2*gain, 1e-4) // the ± pairs double it
	close(t, "K_Ds", k.KDs, 1, 1e-6)
	close(t, "σ_0", k.Sigma0, 1, 1e-6)
	close(t, "μ_PL", k.MuPL, 4, 1e-3)
	close(t, "L_f", k.Lf, 1, 1e-6)
	close(t, "δ_dec", k.DeltaDec, 0, 1e-6)
	close(t, "δ_loc", k.DeltaLoc, 0, 1e-3)
	close(t, "κ_max", k.KappaMax, 0, 1e-4)
	if k.TangentDimension != 2 {
		t.Errorf("tangent dimension %d of a plane", k.TangentDimension)
	}
	// The clip reaches |u| = 1 in some samples: the input margin is then 0.
	close(t, "γ_min", k.GammaMin, 0, 1e-9)
	c := Judge("cart", *k, nil)
	for name, want := range map[string]Verdict{
		"identifiability": Holds, "Polyak–Łojasiewicz": Holds, "snap step size": Holds, "small step": Holds,
		"positive margin": DoesNot, "feasible step": DoesNot, "curvature": SaysNought, "action error, end to end": Unmeasured,
	} {
		if got := c.Verdict(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// F_Δ bounds what random displacements of that length do to Φ.
func TestFDeltaBoundsTheIncrease(t *testing.T) {
	cart := testdomain.NewCart(20)
	nav := cart.Spec().Navigation
	nav.VMax, nav.LatentStep = 4, 0.1 // ½V²Δt² = 0.08, far above rounding
	a := require.Get(newCertifier(latents(t, testdomain.Map(cart, 14, false), cart, batchnav.Options{Navigation: &nav}), samplesOf(40), Options{}))(t)
	// Start away from M*, where Φ has a slope.
	displace(9, 0, 0.3, a.spot, a.spot)
	var c Constants
	for _, f := range []func(*Constants) error{a.lipschitz, a.potential} {
		require.OK(t, f(&c))
	}
	n := len(a.samples)
	before, after, slope := make([]float64, n), make([]float64, n), make([]float64, n)
	require.OK(t, a.gradients(a.spot, before, slope))
	worst := 0.0
	z := tensor.New(n, a.spot.Cols)
	for round := range 50 {
		displace(5, round, 0.08, a.spot, z)
		require.OK(t, a.gradients(z, after, slope))
		for i := range n {
			worst = math.Max(worst, after[i]-before[i])
		}
	}
	if worst > float64(c.FDelta)*(1+1e-5) || worst < 0.5*float64(c.FDelta) {
		t.Errorf("largest sampled increase %g, F_Δ = %v: want it below and near", worst, c.FDelta)
	}
}

// A latent that D_s cannot see makes the strict assumption fail, and the
// certificate says so instead of printing a finite bound.
func TestUnidentifiableLatentIsSaidPlainly(t *testing.T) {
	cart := testdomain.NewCart(20)
	k := estimate(t, cart, testdomain.Map(cart, 14, false))
	close(t, "σ_0", k.Sigma0, 0, 0)
	close(t, "σ_0, row space", k.SigmaRowSpace, 1, 1e-6)
	c := Judge("cart", *k, nil)
	if v := c.Verdict("identifiability"); v != DoesNot {
		t.Errorf("identifiability %q", v)
	}
	if v := c.Verdict("action error, end to end"); v != SaysNought {
		t.Errorf("a bound with σ_0 = 0 %q", v)
	}
	var text bytes.Buffer
	require.OK(t, c.WriteTable(&text))
	for _, want := range []string{"does not hold", "says nothing", "γ_min", "δ_feas"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, text.String())
		}
	}
	if _, err := json.Marshal(c); err != nil {
		t.Errorf("certificate with an infinite bound as JSON: %v", err)
	}
}

// Verdict returns the verdict of a condition by name, "" if there is none.
func (c *Certificate) Verdict(name string) Verdict {
	for _, d := range c.Conditions {
		if d.Name == name {
			return d.Verdict
		}
	}
	return ""
}

// With a margin everywhere the feasible-step condition is exactly the inequality.
func TestFeasibleStepCondition(t *testing.T) {
	k := Constants{GammaMin: 0.1, KDu: 2, KDs: 1, Lf: 1, Sigma0: 1, SigmaRowSpace: 1, MuPL: 4, DeltaFeas: 0.05, DeltaLoc: 0.02, VMax: 1, Dt: 0.02, Epsilon: 0.1}
	if v := Judge("x", k, nil).Verdict("feasible step"); v != Holds {
		t.Errorf("0.02 + 0.02 ≤ 0.05 %q", v)
	}
	k.Dt = 0.04
	if v := Judge("x", k, nil).Verdict("feasible step"); v != DoesNot {
		t.Errorf("0.02 + 0.04 ≤ 0.05 %q", v)
	}
}

// Codes on a circle of radius 2 have the curvature 1/2.
func TestCurvatureOfACircle(t *testing.T) {
	const n = 400
	codes, decoded := tensor.New(n, 3), tensor.New(n, 2)
	for i := range n {
		phi := 2 * math.Pi * float64(i) / n
		codes.Row(i)[0], codes.Row(i)[1] = float32(2*math.Cos(phi)), float32(2*math.Sin(phi))
	}
	index := require.Get(ref.New().NewIndex(codes, decoded))(t)
	k, err := curvature(index, codes, 30, 10)
	require.OK(t, err)
	if k.dimension != 1 || math.Abs(k.largest-0.5) > 0.02 || math.Abs(k.p95-0.5) > 0.02 {
		t.Errorf("κ = %g, 95 %% %g, dimension %d; want 0.5 in 1", k.largest, k.p95, k.dimension)
	}
}

// level is the cart without a tangential field.
type level struct{ *testdomain.Cart }

func (level) Gradient(s, u, c, sigma, gs, gu []float64) {
	clear(gs)
	clear(gu)
}

// The flow contracts Φ at least as fast as predicted, once the cap is out of the
// way, and the prediction is e^{−4Δt/ε} a step for the exact map.
func TestRecovery(t *testing.T) {
	cart := testdomain.NewCart(20)
	nav := cart.Spec().Navigation
	nav.VMax, nav.Epsilon = 15, 0.2 // the cap is above the initial speed 2·0.5/ε = 5
	m := testdomain.Map(cart, 14, true)
	opt := Options{samples: 30, Steps: 12, Perturbation: 0.5 / m.Calibration.LatentSpread}
	k := require.Get(Estimate(t.Context(), latents(t, m, cart, batchnav.Options{Navigation: &nav}), samplesOf(60), opt))(t)
	r := require.Get(Recover(t.Context(), latents(t, m, level{cart}, batchnav.Options{Navigation: &nav}), samplesOf(60), k, opt))(t)
	close(t, "contraction", r.Contraction, math.Exp(-4*nav.LatentStep/nav.Epsilon), 1e-3)
	if len(r.Median) != 13 || math.Abs(float64(r.Median[0])-0.25) > 0.01 {
		t.Fatalf("Φ starts at %v, want 0.25 in 13 entries", r.Median)
	}
	// Without a tangential field RK2 contracts by (1 − 2η + 2η²)² with η = Δt/ε,
	// which is e^{−4η} to third order.
	eta := nav.LatentStep / nav.Epsilon
	close(t, "Φ after 12 steps", r.Median[12], 0.25*math.Pow(1-2*eta+2*eta*eta, 24), 1e-4)
	if r.Capped != 0 || r.Conforming < 0.99 {
		t.Errorf("capped %v, within the prediction %v", r.Capped, r.Conforming)
	}
	nav.VMax = 0.1
	k = require.Get(Estimate(t.Context(), latents(t, m, cart, batchnav.Options{Navigation: &nav}), samplesOf(60), opt))(t)
	r, err := Recover(t.Context(), latents(t, m, cart, batchnav.Options{Navigation: &nav}), samplesOf(60), k, opt)
	require.OK(t, err)
	if r.Capped < 0.99 || r.Conforming > 0.1 {
		t.Errorf("with V_max = 0.1: capped %v, within %v; the cap must be seen", r.Capped, r.Conforming)
	}
}

func TestMeasureLoopComparesWithTheOptimum(t *testing.T) {
	cart := testdomain.NewCart(20)
	nav := require.Get(batchnav.NewNavigator(ref.New(), testdomain.Map(cart, 14, true), cart, batchnav.Options{Direct: true}))(t)
	pref := domain.Preference{Adaptive: true}
	const offset = 0.125
	m, err := MeasureLoop(context.Background(), cart.Spec(), nav.Controller(), oneScene{cart}, 1, 2, pref, func(s, c []float64, _ domain.Preference, u []float64) bool {
		u[0] = math.Max(-1, math.Min(1, testdomain.Feedback[0]*s[0]+testdomain.Feedback[1]*s[1])) + offset
		return s[0] != 0.5 // the first state has no optimum
	})
	require.OK(t, err)
	close(t, "largest action error", m.ActionErrorMax, offset, 1e-6)
	close(t, "mean action error", m.ActionErrorMean, offset, 1e-6)
	if m.Decisions != 40 || m.Compared != 38 || m.Episodes != 2 {
		t.Errorf("%d decisions, %d compared, %d episodes; want 40, 38, 2", m.Decisions, m.Compared, m.Episodes)
	}
	k := estimate(t, cart, testdomain.Map(cart, 14, true))
	k.DeltaDec = offset
	if v := Judge("cart", *k, m).Verdict("action error, closed loop"); v != Holds {
		t.Errorf("an error of δ_dec: %q", v)
	}
	k.DeltaDec = offset / 2
	k.DeltaLoc = 0
	if v := Judge("cart", *k, m).Verdict("action error, closed loop"); v != DoesNot {
		t.Errorf("an error of 2 δ_dec: %q", v)
	}
}

// A decision that breaks a margin by more than its tolerance is counted, and the certificate
// says that the loop does not keep its margins.
func TestMeasureLoopCountsMarginsBroken(t *testing.T) {
	cart := testdomain.NewCart(20)
	nav := require.Get(batchnav.NewNavigator(ref.New(), testdomain.Map(cart, 14, true), cart, batchnav.Options{Direct: true}))(t)
	k := estimate(t, cart, testdomain.Map(cart, 14, true))
	for _, push := range []float64{0, 1e3} {
		m, err := MeasureLoop(context.Background(), cart.Spec(), pushed{nav.Controller(), push}, oneScene{cart}, 1, 1, domain.Preference{Adaptive: true}, nil)
		require.OK(t, err)
		c := Judge("cart", *k, m)
		kept := c.Verdict("margins kept")
		if broken := push > 0; broken != (m.Violations > 0) || broken != (kept == DoesNot) || broken != strings.Contains(c.Summary(), fmt.Sprintf("margins kept (%d of 20 decisions", m.Violations)) {
			t.Errorf("pushed by %g: %d violations, margins kept: %q; %s", push, m.Violations, kept, c.Summary())
		}
	}
}

// pushed is a controller with a constant added to its first action.
type pushed struct {
	domain.Controller
	by float64
}

func (p pushed) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	d, err := p.Controller.Decide(s, c, pref, u)
	u[0] += p.by
	return d, err
}

// A certificate counts what does not hold as it is, and says which bounds the closed loop
// went beyond: of both drifts and of the closed loop's action error here, not of a step size
// that nobody measured.
func TestCertificateCountsItsVerdicts(t *testing.T) {
	c := &Certificate{Conditions: []Condition{
		{Name: "snap step size", Left: 1, Right: 0.5, Verdict: DoesNot},
		{Name: "small step", Verdict: Holds},
		{Name: "drift, steady", Left: 0.25, Right: 0.125, Verdict: DoesNot},
		{Name: "drift, row space", Verdict: SaysNought},
		{Name: "action error, closed loop", Left: 3, Right: 2, Verdict: DoesNot},
		{Name: "bounded step", Verdict: Unmeasured},
	}}
	const want = "of 6 conditions 1 hold, 3 do not, 1 say nothing, 1 were not measured; the closed loop breaks drift, steady (0.25 > 0.125), action error, closed loop (3 > 2)"
	if got := c.Summary(); got != want {
		t.Errorf("the certificate says %q, want %q", got, want)
	}
	if n := len(c.Broken()); n != 2 {
		t.Errorf("%d bounds broken", n)
	}
}

// The bounds that a closed loop can break are those that Judge holds beside what was measured.
func TestEveryBoundBesideTheMeasuredCanBeBroken(t *testing.T) {
	none := func(float64) float64 { return 0 }
	var bounds Certificate
	bounds.compare(&Measured{}, none, none, 0)
	for _, c := range []*Certificate{&bounds, Judge("cart", Constants{}, nil)} {
		for i := range c.Conditions {
			c.Conditions[i].Verdict = DoesNot
		}
		if n := len(c.Broken()); n != len(bounds.Conditions) || n == 0 {
			t.Errorf("of %d conditions that do not hold %d are bounds broken, want %d", len(c.Conditions), n, len(bounds.Conditions))
		}
	}
}
