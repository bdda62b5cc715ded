package batchnav_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

var adaptive = domain.Preference{Adaptive: true}

func navigator(t *testing.T, cart *testdomain.Cart, opt batchnav.Options) *batchnav.Navigator {
	t.Helper()
	nav := require.Get(batchnav.NewNavigator(ref.New(), testdomain.Map(cart, 13, false), cart, opt))(t)
	return nav
}

func decide(t *testing.T, nav *batchnav.Navigator, s []float64, pref domain.Preference) *batchnav.Decision {
	t.Helper()
	d := require.Get(nav.Decide(s, []float64{0}, pref))(t)
	return d
}

// The exact map's `direct` action is the feedback it was built from.
func TestDirectIsTheDecodedFeedback(t *testing.T) {
	cart := testdomain.NewCart(50)
	nav := navigator(t, cart, batchnav.Options{Direct: true})
	for _, s := range [][]float64{{0.3, -0.2}, {-0.5, 0.1}, {0, 0}} {
		d := decide(t, nav, s, domain.Preference{W: []float64{0.75, 0.25}})
		want := testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1] + 0.2*0.25
		if math.Abs(d.U[0]-want) > 1e-6 {
			t.Errorf("u(%v) = %g, want %g", s, d.U[0], want)
		}
		if d.Residual > 1e-12 || d.Displacement != 0 || d.Fallback != 0 {
			t.Errorf("direct at %v: residual %g, displacement %g, fallback %v; want 0, 0, none", s, d.Residual, d.Displacement, d.Fallback)
		}
	}
}

// Affine refinement over a grid of codes recovers the point between them, so the
// whole controller stays near the feedback it was built from; and it moves.
func TestWholeDecisionStaysNearTheMap(t *testing.T) {
	cart := testdomain.NewCart(50)
	nav := navigator(t, cart, batchnav.Options{})
	for _, s := range [][]float64{{0.33, -0.21}, {-0.52, 0.17}} {
		nav.Reset()
		d := decide(t, nav, s, adaptive)
		want := testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1]
		if math.Abs(d.U[0]-want) > 0.05 {
			t.Errorf("u(%v) = %g, want about %g", s, d.U[0], want)
		}
		if !d.Consistent || d.Displacement == 0 || d.Fallback != 0 {
			t.Errorf("at %v: consistent %v, displacement %g, fallback %v", s, d.Consistent, d.Displacement, d.Fallback)
		}
		vmax := cart.Spec().Navigation.VMax * cart.Spec().Navigation.LatentStep
		if d.Displacement > 1.2*vmax+0.1 {
			t.Errorf("displacement %g is above V_max Δt = %g and retraction", d.Displacement, vmax)
		}
	}
}

func TestAblationsChangeWhatTheySay(t *testing.T) {
	cart := testdomain.NewCart(50)
	s := []float64{1.1, 0.35}
	run := func(name string) batchnav.Decision {
		opt := require.Get(batchnav.OptionsFor(name))(t)
		opt.Latents = true
		return *decide(t, navigator(t, cart, opt), s, adaptive)
	}
	whole := run("navigator")
	if d := run("navigator-no-semantic"); d.Sigma[0] != 0.5 || d.Sigma[1] != 0.5 {
		t.Errorf("navigator-no-semantic steers by %v, want 1/2 each", d.Sigma)
	}
	if whole.Sigma[0] == 0.5 {
		t.Errorf("gpc steers by %v: no semantics", whole.Sigma)
	}
	if d := run("navigator-no-retraction"); d.Latent[0] == whole.Latent[0] && d.Latent[1] == whole.Latent[1] {
		t.Error("navigator-no-retraction ends at the latent of navigator")
	}
	if d := run("navigator-no-lie"); d.Latent[0] == whole.Latent[0] && d.Latent[1] == whole.Latent[1] {
		t.Error("navigator-no-lie ends at the latent of navigator")
	}
	// The wall binds here: u must be below (Wall − q − dt v)/(dt²/2) = −6, so only
	// the projection's box end −1 is reached, and the margin is negative.
	s = []float64{1.97, 1.2}
	if d := run("navigator-no-projection"); d.Correction != 0 || d.Fallback.Replaced() {
		t.Errorf("navigator-no-projection: correction %g, fallback %v", d.Correction, d.Fallback)
	}
	if _, err := batchnav.OptionsFor("navigator-no-brakes"); err == nil {
		t.Error("an unknown method was accepted")
	}
}

// What is not finite is answered by the conservative action and flagged, and the
// loop goes on afterwards.
func TestObservationThatIsNotFinite(t *testing.T) {
	cart := testdomain.NewCart(50)
	nav := navigator(t, cart, batchnav.Options{})
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		d := decide(t, nav, []float64{bad, 0}, adaptive)
		if d.U[0] != -1 || d.Fallback != domain.FallbackObservation|domain.FallbackConservative {
			t.Errorf("observation %v: u %g, fallback %v", bad, d.U[0], d.Fallback)
		}
		if !math.IsNaN(d.Margin) {
			t.Errorf("observation %v: margin %g, want NaN: it cannot be known", bad, d.Margin)
		}
		if d := decide(t, nav, []float64{0.1, 0}, adaptive); d.Fallback != 0 || math.Abs(d.U[0]) > 0.5 {
			t.Errorf("after %v: u %g, fallback %v", bad, d.U[0], d.Fallback)
		}
	}
	if _, err := nav.Decide([]float64{1}, []float64{0}, adaptive); err == nil {
		t.Error("a measured state of the wrong length was accepted")
	}
	if _, err := nav.Decide([]float64{1, 0}, []float64{0}, domain.Preference{W: []float64{2, -1}}); err == nil {
		t.Error("a preference off the simplex was accepted")
	}
}

func TestFallbackTriggers(t *testing.T) {
	cart := testdomain.NewCart(50)
	// Beyond the wall no action keeps the margin; full braking is the least bad and
	// what the projection already chose, so it is flagged and not replaced.
	nav := navigator(t, cart, batchnav.Options{})
	d := decide(t, nav, []float64{2.2, 0.5}, adaptive)
	if d.Fallback&domain.FallbackMargin == 0 || d.Margin >= 0 {
		t.Errorf("beyond the wall: margin %g, fallback %v", d.Margin, d.Fallback)
	}
	// Far outside of the codes the residual is above the limit.
	d = decide(t, nav, []float64{-30, 0}, adaptive)
	if d.Fallback&domain.FallbackResidual == 0 || d.Consistent {
		t.Errorf("far outside: residual %g of τ %g, fallback %v, consistent %v", d.Residual, d.Threshold, d.Fallback, d.Consistent)
	}
	if !d.Fallback.Replaced() || d.U[0] != -1 {
		t.Errorf("far outside the conservative action was not taken: u %g, fallback %v", d.U[0], d.Fallback)
	}
	// A solver is asked first.
	calls := 0
	nav = navigator(t, cart, batchnav.Options{Solver: func(s, c []float64, pref domain.Preference, u []float64) bool {
		calls++
		u[0] = 0.25
		return true
	}})
	d = decide(t, nav, []float64{-30, 0}, adaptive)
	if calls != 1 || d.U[0] != 0.25 || d.Fallback&domain.FallbackSolver == 0 {
		t.Errorf("solver asked %d times: u %g, fallback %v", calls, d.U[0], d.Fallback)
	}
	// Without the fallback the trigger is recorded and the map's action executed.
	raw := decide(t, navigator(t, cart, batchnav.Options{ResidualLimit: math.Inf(1)}), []float64{-30, 0}, adaptive).U[0]
	d = decide(t, navigator(t, cart, batchnav.Options{NoFallback: true}), []float64{-30, 0}, adaptive)
	if d.Fallback != domain.FallbackResidual || d.U[0] != raw {
		t.Errorf("without the fallback: u %g, the map's action is %g, fallback %v", d.U[0], raw, d.Fallback)
	}
}

// doubted is the cart whose actions above 0.3 are known to be dear.
type doubted struct{ *testdomain.Cart }

func (p doubted) Abilities() *domain.ProblemAbilities {
	may := domain.AbilitiesOfProblem(p.Cart)
	may.Gap = func(s, c []float64, pref domain.Preference, u []float64) float64 {
		if u[0] > 0.3 {
			return 2 * domain.LargestGap
		}
		return domain.LargestGap / 2
	}
	return may
}

// An action whose bound is too large is the solver's where that keeps the limits; without a fallback it is flagged.
func TestABoundThatIsTooLargeAsksTheSolver(t *testing.T) {
	cart := doubted{testdomain.NewCart(50)}
	m := testdomain.Map(cart.Cart, 13, false)
	solver := func(s, c []float64, pref domain.Preference, u []float64) bool {
		u[0] = 0.25
		return true
	}
	nav := require.Get(batchnav.NewNavigator(ref.New(), m, cart, batchnav.Options{Solver: solver, Direct: true}))(t)
	d := decide(t, nav, []float64{-1, 0}, adaptive)
	if d.U[0] != 0.25 || d.Fallback != domain.FallbackGap|domain.FallbackSolver || d.Gap != domain.LargestGap/2 {
		t.Errorf("u %g, bound %g, fallback %v", d.U[0], d.Gap, d.Fallback)
	}
	d = decide(t, nav, []float64{0, 0}, adaptive)
	if d.Fallback != 0 || d.Gap != domain.LargestGap/2 {
		t.Errorf("at rest: bound %g, fallback %v", d.Gap, d.Fallback)
	}
	raw := require.Get(batchnav.NewNavigator(ref.New(), m, cart, batchnav.Options{NoFallback: true, Direct: true}))(t)
	if d = decide(t, raw, []float64{-1, 0}, adaptive); d.Fallback != domain.FallbackGap || !(d.U[0] > 0.3) {
		t.Errorf("without a fallback: u %g, fallback %v", d.U[0], d.Fallback)
	}
}

// edged is a cart whose samples have the edges of the simplex.
type edged struct{ *testdomain.Cart }

func (p edged) Spec() *domain.Spec {
	spec := *p.Cart.Spec()
	spec.Training.Design.Name = "uniform"
	return &spec
}

// A weighting that random samples leave out is named, unless it is a goal's.
func TestWeightsBeyondTheSamplesAreNamed(t *testing.T) {
	cart := testdomain.NewCart(50)
	for _, c := range []struct {
		p    domain.Problem
		pref domain.Preference
		want domain.Fallback
	}{
		{cart, domain.Preference{W: []float64{0.995, 0.005}}, domain.FallbackWeights},
		{cart, domain.Preference{W: []float64{0.98, 0.02}}, 0},
		{cart, domain.Preference{W: []float64{0.99, 0.01}}, 0},
		{cart, adaptive, 0},
		{edged{cart}, domain.Preference{W: []float64{1, 0}}, 0},
		{cart, domain.Preference{Goal: &domain.Goals{First: []int{0}}}, 0},
	} {
		nav := require.Get(batchnav.NewNavigator(ref.New(), testdomain.Map(cart, 13, false), c.p, batchnav.Options{Direct: true}))(t)
		if d := decide(t, nav, []float64{-0.1, 0}, c.pref); d.Fallback != c.want {
			t.Errorf("under %+v: fallback %v, want %v", c.pref, d.Fallback, c.want)
		}
	}
}

// A batch decides row by row what single loops decide, bad rows included, where threads share its loops too.
func TestBatchEqualsSingleLoops(t *testing.T) {
	b := require.Get(cpufallback.New(cpufallback.Options{Threads: 3}))(t)
	defer b.Close()
	for size, b := range map[int]backend.Backend{5: ref.New(), 100: b} {
		testBatchEqualsSingleLoops(t, b, size)
	}
}

func testBatchEqualsSingleLoops(t *testing.T, b backend.Backend, size int) {
	cart := testdomain.NewCart(50)
	m := testdomain.Map(cart, 13, false)
	batch := require.Get(batchnav.NewBatch(b, m, cart, batchnav.Options{}, size))(t)
	single := make([]*batchnav.Navigator, size)
	for i := range single {
		single[i] = require.Get(batchnav.NewNavigator(b, m, cart, batchnav.Options{}))(t)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	obs, out := make([]batchnav.Observation, size), make([]batchnav.Decision, size)
	for step := range 4 {
		for i := range obs {
			obs[i] = batchnav.Observation{S: []float64{rng.Float64()*4 - 2, rng.Float64() - 0.5}, C: []float64{0}, Preference: adaptive}
		}
		obs[3].Preference = domain.Preference{W: []float64{0.2, 0.8}}
		if step == 2 {
			obs[1].S[0] = math.NaN()
		}
		require.OK(t, batch.Decide(obs, out))
		for i := range obs {
			d := require.Get(single[i].Decide(obs[i].S, obs[i].C, obs[i].Preference))(t)
			if d.U[0] != out[i].U[0] || d.Fallback != out[i].Fallback || d.NoiseVariance != out[i].NoiseVariance ||
				(d.Residual != out[i].Residual && !math.IsNaN(d.Residual)) {
				t.Fatalf("step %d, loop %d: batch u %v fallback %v, single u %v fallback %v", step, i, out[i].U, out[i].Fallback, d.U, d.Fallback)
			}
		}
	}
}

// The estimator finds the noise that is there, none where there is none, and does
// not mistake an unmodelled input for noise.
func TestNoiseEstimator(t *testing.T) {
	const tau = 1e-6
	run := func(noise, drive float64) float64 {
		rng := rand.New(rand.NewPCG(7, 8))
		var n batchnav.NoiseEstimator
		sum, count := 0.0, 0
		q, v := 0.0, 0.0
		var lastQ, lastV float64
		for i := range 4000 {
			mq, mv := q+noise*rng.NormFloat64(), v+noise*rng.NormFloat64()
			if i > 0 {
				n.Observe([]float64{mq - (lastQ + testdomain.Dt*lastV), mv - lastV})
			}
			if i > 50 {
				sum += n.Variance(tau)
				count++
			}
			lastQ, lastV = mq, mv
			a := drive * rng.NormFloat64()
			q, v = q+testdomain.Dt*v, v+testdomain.Dt*a
		}
		return sum / float64(count)
	}
	if v := run(0, 0); v != 0 {
		t.Errorf("no noise: σ̂² = %g", v)
	}
	const noise = 0.05
	if v, want := run(noise, 0), 2*noise*noise; math.Abs(v-want) > 0.35*want {
		t.Errorf("noise %g: mean σ̂² = %g, want about %g", noise, v, want)
	}
	// An unknown acceleration as large in the innovation as that noise.
	if v, noisy := run(0, 0.5), run(noise, 0); v > 0.3*noisy {
		t.Errorf("model error alone gives σ̂² = %g, noise of its size %g", v, noisy)
	}
}

// With noisy measurements α < 1 is in force and the action varies less than with
// α = 1, while without noise the two loops are the same.
func TestSmoothingActsOnlyUnderNoise(t *testing.T) {
	cart := testdomain.NewCart(50)
	roughness := func(noise float64, opt batchnav.Options) (rough float64, estimated float64) {
		nav := navigator(t, cart, opt)
		rng := rand.New(rand.NewPCG(3, 4))
		s, c := []float64{-0.4, 0}, []float64{0}
		last := math.NaN()
		for range 60 {
			m := []float64{s[0] + noise*rng.NormFloat64(), s[1] + noise*rng.NormFloat64()}
			d := decide(t, nav, m, adaptive)
			if !math.IsNaN(last) {
				rough += math.Abs(d.U[0] - last)
			}
			last = d.U[0]
			estimated = math.Max(estimated, d.NoiseVariance)
			cart.Step(append([]float64(nil), s...), c, d.U, s, []float64{0})
		}
		return rough, estimated
	}
	smooth, seen := roughness(0.15, batchnav.Options{})
	rough, _ := roughness(0.15, batchnav.Options{NoiseFree: true})
	if seen == 0 || smooth > 0.8*rough {
		t.Errorf("under noise: total variation %g smoothed, %g not; σ̂² reached %g", smooth, rough, seen)
	}
	a, seen := roughness(0, batchnav.Options{})
	b, _ := roughness(0, batchnav.Options{NoiseFree: true})
	if a != b || seen != 0 {
		t.Errorf("without noise smoothing acted: total variation %g and %g, σ̂² %g", a, b, seen)
	}
}

// The observer follows a moving cart through the noise more closely than the
// paper's smoothing, which lags, and than no smoothing, and does nothing without
// noise.
func TestObserverDoesNotLag(t *testing.T) {
	cart := testdomain.NewCart(50)
	deviation := func(noise float64, opt batchnav.Options) float64 {
		nav := navigator(t, cart, opt)
		rng := rand.New(rand.NewPCG(5, 6))
		s, next, c := []float64{-2.5, 1.5}, make([]float64, 2), []float64{0}
		sum := 0.0
		for i := range 45 {
			d := decide(t, nav, []float64{s[0] + noise*rng.NormFloat64(), s[1] + noise*rng.NormFloat64()}, adaptive)
			if i >= 5 {
				exact := math.Max(-1, math.Min(1, testdomain.Feedback[0]*s[0]+testdomain.Feedback[1]*s[1]))
				sum += (d.U[0] - exact) * (d.U[0] - exact)
			}
			cart.Step(s, c, d.U, next, []float64{0})
			s, next = next, s
		}
		return math.Sqrt(sum / 40)
	}
	const noise = 0.15
	observer := deviation(noise, batchnav.Options{Observer: true})
	lagging := deviation(noise, batchnav.Options{})
	none := deviation(noise, batchnav.Options{NoiseFree: true})
	if observer > 0.8*none || observer > 0.8*lagging {
		t.Errorf("RMS deviation from the noise-free feedback: observer %g, smoothing of z %g, none %g", observer, lagging, none)
	}
	if a, b := deviation(0, batchnav.Options{Observer: true}), deviation(0, batchnav.Options{}); a != b {
		t.Errorf("without noise the observer changes the loop: %g and %g", a, b)
	}
}

// The priority is filtered at the stated gain.
func TestPriorityFilter(t *testing.T) {
	cart := testdomain.NewCart(50)
	nav := navigator(t, cart, batchnav.Options{})
	first := append([]float64(nil), decide(t, nav, []float64{0.2, 0}, adaptive).Sigma...)
	second := append([]float64(nil), decide(t, nav, []float64{1.8, 0}, adaptive).Sigma...)
	nav.Reset()
	target := decide(t, nav, []float64{1.8, 0}, adaptive).Sigma
	gain := cart.Spec().Navigation.PriorityFilter
	for i := range first {
		if want := first[i] + gain*(target[i]-first[i]); math.Abs(second[i]-want) > 1e-6 {
			t.Errorf("σ_%d = %g after one filtered step, want %g", i, second[i], want)
		}
	}
}

func TestMismatchedModelIsRefused(t *testing.T) {
	cart := testdomain.NewCart(50)
	m := testdomain.Map(cart, 5, false)
	m.Case = "other"
	if _, err := batchnav.NewNavigator(ref.New(), m, cart, batchnav.Options{}); err == nil {
		t.Error("a model of another case was accepted")
	}
	m = testdomain.Map(cart, 5, false)
	nav := cart.Spec().Navigation
	nav.RetractionMix = 2
	if _, err := batchnav.NewNavigator(ref.New(), m, cart, batchnav.Options{Navigation: &nav}); err == nil {
		t.Error("μ_R = 2 was accepted")
	}
}

// A model as it is read from disk has no decoded codes; the loop is the same.
func TestCodesAreDecodedWhereTheModelHasNone(t *testing.T) {
	cart := testdomain.NewCart(50)
	m := testdomain.Map(cart, 13, false)
	want := *decide(t, navigator(t, cart, batchnav.Options{}), []float64{0.3, 0.1}, adaptive)
	m.CodesDecoded = tensor.Matrix{}
	nav := require.Get(batchnav.NewNavigator(ref.New(), m, cart, batchnav.Options{}))(t)
	if got := decide(t, nav, []float64{0.3, 0.1}, adaptive); got.U[0] != want.U[0] || got.Threshold != want.Threshold {
		t.Errorf("u %v τ %g, want %v τ %g", got.U, got.Threshold, want.U, want.Threshold)
	}
	if m.CodesDecoded.Rows != 0 {
		t.Error("the shared model was modified")
	}
}

// What a controller decoded is the plan before projection, and nothing where there was
// none.
func TestControllerSaysWhatItDecoded(t *testing.T) {
	cart := testdomain.NewCart(50)
	c := navigator(t, cart, batchnav.Options{Direct: true}).Controller()
	want := decide(t, navigator(t, cart, batchnav.Options{Direct: true, NoProjection: true}), []float64{0.3, -0.2}, adaptive)
	u := make([]float64, 1)
	if got := require.Get(c.Decide([]float64{0.3, -0.2}, []float64{0}, adaptive, u))(t).Decoded; len(got) != 1 || float64(got[0]) != want.U[0] {
		t.Errorf("decoded %v, want %v", got, want.U)
	}
	if got := require.Get(c.Decide([]float64{math.NaN(), 0}, []float64{0}, adaptive, u))(t).Decoded; got != nil {
		t.Errorf("decoded %v of what is not a number", got)
	}
}

// What is lost of an observation is predicted from the last decision: the action before it
// is not the measured one's any more, and the slew bound is about it.
func TestLostContextIsPredicted(t *testing.T) {
	b := cpu(t)
	c, m, observations := caseOne(t, b, 200)
	nav := require.Get(batchnav.NewNavigator(b, m, c.Problem, batchnav.Options{Direct: true}))(t)
	nan := math.NaN()
	lostS, lostC := []float64{nan, nan, nan, nan}, []float64{nan, nan, nan, nan, nan}
	var known, none float64
	for _, o := range observations[:20] {
		nav.Reset()
		s, cx := o.S, append([]float64(nil), o.C...)
		for step := range 4 {
			seenS, seenC := s, cx
			if step > 0 {
				seenS, seenC = lostS, lostC
			}
			d := require.Get(nav.Decide(seenS, seenC, adaptive))(t)
			margins := make([]float64, 3)
			c.Problem.Margins(s, cx, d.U, margins)
			if margins[1] < -1e-6 || margins[2] < -1e-6 {
				t.Errorf("step %d: input and slew margins %v", step, margins[1:])
			}
			next, nextC := make([]float64, 4), make([]float64, 5)
			c.Problem.Step(s, cx, d.U, next, nextC)
			known += math.Hypot(next[2], next[3])
			none += math.Hypot(s[2], s[3])
			s, cx = next, nextC
		}
	}
	if !(known < none) {
		t.Errorf("blind, the speed goes from %g to %g: the predicted state was not braked", none, known)
	}
}

// What the monitor asks for is executed only where it is better: an answer with a smaller
// margin than the action it would replace, or one that breaks a limit for a large residual,
// is not.
func TestAWorseAnswerIsNotExecuted(t *testing.T) {
	cart := testdomain.NewCart(50)
	for _, c := range []struct {
		name    string
		s       []float64
		answer  float64
		trigger domain.Fallback
	}{
		{"beyond the wall", []float64{2.2, 0.5}, 1, domain.FallbackMargin},
		{"beyond the wall, out of the box", []float64{2.2, 0.5}, -3, domain.FallbackMargin},
		{"far outside", []float64{-30, 0}, 2, domain.FallbackResidual},
	} {
		own := decide(t, navigator(t, cart, batchnav.Options{NoFallback: true}), c.s, adaptive)
		action, margin := own.U[0], own.Margin
		nav := navigator(t, cart, batchnav.Options{Solver: func(_, _ []float64, _ domain.Preference, u []float64) bool {
			u[0] = c.answer
			return true
		}})
		d := decide(t, nav, c.s, adaptive)
		if d.Fallback&c.trigger == 0 || d.Fallback.Replaced() || d.U[0] != action || d.Margin != margin {
			t.Errorf("%s: executed %g with a margin of %g by %v, decided was %g with %g", c.name, d.U[0], d.Margin, d.Fallback, action, margin)
		}
	}
}
