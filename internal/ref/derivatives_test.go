package ref_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

// differenceTolerance bounds a central difference of step 1e-6 of a function
// with derivatives of order one: rounding 1e-16/1e-6, truncation 1e-12.
const differenceTolerance = 2e-8

func randomNet(rng *rand.Rand, widths ...int) *ref.MLP {
	return ref.Widen(testdomain.Network(rng, 0.3, widths...))
}

func normal(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

func normals(rng *rand.Rand, rows, n int) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = normal(rng, n)
	}
	return m
}

// checkGradient compares grad with central differences of f in every x[i].
func checkGradient(t *testing.T, what string, x, grad []float64, f func() float64) {
	t.Helper()
	const h = 1e-6
	for i := range x {
		x0 := x[i]
		x[i] = x0 + h
		up := f()
		x[i] = x0 - h
		down := f()
		x[i] = x0
		want := (up - down) / (2 * h)
		if d := math.Abs(grad[i] - want); !(d <= differenceTolerance*(1+math.Abs(want))) {
			t.Errorf("%s: derivative %d is %v, central difference %v", what, i, grad[i], want)
		}
	}
}

func inner(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

func TestNetworkDerivativesMatchDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, widths := range [][]int{{3, 2}, {1, 5, 1}, {4, 7, 6, 3}, {5, 8, 9, 7, 2}} {
		net := randomNet(rng, widths...)
		x, ybar := normal(rng, net.In()), normal(rng, net.Out())
		value := func() float64 { return inner(ybar, net.Forward(x)) }
		checkGradient(t, "VJP", x, net.VJP(x, ybar), value)
		grad := training.ZeroLike(net)
		net.Backward(net.Run(x), ybar, grad)
		for l := range net.Layers {
			checkGradient(t, "weights", net.Layers[l].W, grad.Layers[l].W, value)
			checkGradient(t, "biases", net.Layers[l].B, grad.Layers[l].B, value)
		}
		jac := net.Jacobian(x)
		for i := range net.Out() {
			checkGradient(t, "Jacobian", x, jac[i*net.In():(i+1)*net.In()], func() float64 { return net.Forward(x)[i] })
		}
		// zᵀ G z = ‖J z‖² + λ‖z‖².
		g, z := net.Metric(x, 0.25), normal(rng, net.In())
		quadratic, want := 0.0, 0.25*inner(z, z)
		for i := range z {
			quadratic += z[i] * inner(g[i*len(z):(i+1)*len(z)], z)
		}
		for i := range net.Out() {
			jz := inner(jac[i*len(z):(i+1)*len(z)], z)
			want += jz * jz
		}
		if math.Abs(quadratic-want) > 1e-12*want {
			t.Errorf("metric: zᵀGz is %v, ‖Jz‖² + λ‖z‖² is %v", quadratic, want)
		}
	}
}

func TestKinkHasZeroSlopeAndNaNPropagates(t *testing.T) {
	net := &ref.MLP{Layers: []ref.Layer{{In: 1, Out: 1, W: []float64{2}, B: []float64{-2}}, {In: 1, Out: 1, W: []float64{3}, B: []float64{0}}}}
	for _, c := range []struct{ x, slope float64 }{{1, 0}, {1 - 1e-9, 0}, {1 + 1e-9, 6}} {
		if got := net.Jacobian([]float64{c.x})[0]; got != c.slope {
			t.Errorf("slope at %v is %v, want %v", c.x, got, c.slope)
		}
	}
	if got := backendtest.KinkMargin(net, []float64{1}); got != 0 {
		t.Errorf("kink margin on the kink is %v, want 0", got)
	}
	nan := []float64{math.NaN()}
	if y, j := net.Forward(nan)[0], net.Jacobian(nan)[0]; !math.IsNaN(y) || !math.IsNaN(j) {
		t.Errorf("a NaN input gives %v with slope %v, want NaN", y, j)
	}
}

func testNetworks(rng *rand.Rand) training.Networks {
	return training.Networks{
		EncoderX: randomNet(rng, 5, 8, 7, 3), EncoderO: randomNet(rng, 4, 6, 3),
		DecoderU: randomNet(rng, 3, 9, 2), DecoderS: randomNet(rng, 3, 7, 6, 4),
	}
}

func testManifoldBatch(rng *rand.Rand, rows, kappa int) training.ManifoldBatch {
	b := training.ManifoldBatch{
		X: normals(rng, rows, 5), O: normals(rng, rows, 4), S: normals(rng, rows, 4), U: normals(rng, rows, 2),
		NeighbourX: normals(rng, rows*kappa, 5), NeighbourU: normals(rng, rows*kappa, 2),
	}
	for range rows * kappa {
		b.Kernel = append(b.Kernel, rng.Float64())
	}
	return b
}

func TestManifoldGradientMatchesDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, isometry := range []bool{false, true} {
		nets, batch := testNetworks(rng), testManifoldBatch(rng, 3, 2)
		weights := backend.ManifoldLoss{ReconX: 1, Action: 0.7, ReconO: 0.5, Consistency: 0.9, ConsistencyBeta: 0.3, Locality: 0.4, Isometry: isometry, IsometryAlpha: 0.6}
		loss, grad := training.ManifoldLoss(nets, batch, weights)
		if !(loss.ReconX > 0 && loss.Action > 0 && loss.ReconO > 0 && loss.Consistency > 0 && loss.Locality > 0) {
			t.Fatalf("a term of the loss is not at work: %+v", loss)
		}
		value := func() float64 {
			l, _ := training.ManifoldLoss(nets, batch, weights)
			return l.Total
		}
		for n, net := range nets.All() {
			for l := range net.Layers {
				g := grad.All()[n].Layers[l]
				checkGradient(t, backend.NetworkNames[n]+" weights", net.Layers[l].W, g.W, value)
				checkGradient(t, backend.NetworkNames[n]+" biases", net.Layers[l].B, g.B, value)
			}
		}
	}
}

func TestManifoldTermsByHand(t *testing.T) {
	// One linear network each, so that every term can be written down.
	line := func(w float64) *ref.MLP {
		return &ref.MLP{Layers: []ref.Layer{{In: 1, Out: 1, W: []float64{w}, B: []float64{0}}}}
	}
	nets := training.Networks{EncoderX: line(2), EncoderO: line(-1), DecoderU: line(3), DecoderS: line(0.5)}
	batch := training.ManifoldBatch{
		X: [][]float64{{1}, {2}}, O: [][]float64{{1}, {-4}}, S: [][]float64{{0}, {1}}, U: [][]float64{{5}, {10}},
		NeighbourX: [][]float64{{0}, {3}}, NeighbourU: [][]float64{{4}, {4}}, Kernel: []float64{0.5, 0.25},
	}
	// z^x = 2, 4; z^o = −1, 4; neighbours' codes 0, 6.
	want := backend.ManifoldLosses{
		ReconX: (1. + 1) / 2, Action: (1. + 4) / 2, ReconO: (0.25 + 1) / 2,
		Consistency: (2 + 0.1*9 + 0) / 2, Locality: (0.5*4 + 0.25*4) / 2,
	}
	want.Total = want.ReconX + 2*want.Action + 3*want.ReconO + 4*want.Consistency + 5*want.Locality
	got, _ := training.ManifoldLoss(nets, batch, backend.ManifoldLoss{ReconX: 1, Action: 2, ReconO: 3, Consistency: 4, ConsistencyBeta: 0.1, Locality: 5})
	closeTo := func(a, b float64) bool { return math.Abs(a-b) < 1e-7 }
	if !closeTo(got.ReconX, want.ReconX) || !closeTo(got.Action, want.Action) || !closeTo(got.ReconO, want.ReconO) ||
		!closeTo(got.Consistency, want.Consistency) || !closeTo(got.Locality, want.Locality) || !closeTo(got.Total, want.Total) {
		t.Errorf("losses %+v, by hand %+v", got, want)
	}
	// |‖z_b−z_j‖ − α‖u_b−u_j‖| = |2 − 0.5·1| and |2 − 0.5·6|.
	got, _ = training.ManifoldLoss(nets, batch, backend.ManifoldLoss{Locality: 1, Isometry: true, IsometryAlpha: 0.5})
	if !closeTo(got.Locality, (1.5+1)/2) {
		t.Errorf("isometry %v, by hand 1.25", got.Locality)
	}
}

func testRolloutBatch(rng *rand.Rand, nets training.Networks, rows int, w backend.RolloutLoss) training.RolloutBatch {
	b := training.RolloutBatch{U: normals(rng, rows, 2), UNext: normals(rng, rows, 2)}
	for range rows {
		b.Latents = append(b.Latents, training.Rollout(nets.DecoderS, normal(rng, 3), normal(rng, 3), w))
		b.Risk = append(b.Risk, rng.Float64())
	}
	return b
}

var testRollout = backend.RolloutLoss{
	Delta: 0.5, Roll: 0.8, Flow: 0.6, Lie: 0.7, RollFraction: 0.9, FlowFraction: 0.4,
	MetricLambda: 0.01, TopK: 3, LieGain: 0.2, LieScale: 1.5, LieDt: 0.3,
}

func TestRolloutGradientMatchesDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	nets := testNetworks(rng)
	batch := testRolloutBatch(rng, nets, 4, testRollout)
	loss, grad := training.RolloutLoss(nets.DecoderU, batch, testRollout)
	for name, v := range map[string]float64{
		"act": loss.Act, "act next": loss.ActNext, "δ": loss.Delta, "roll": loss.Roll, "flow": loss.Flow,
		"Lie-act": loss.LieAct, "Lie-δ": loss.LieDelta, "Lie-anchor": loss.LieAnchor, "Lie-reg": loss.LieReg,
	} {
		if !(v > 0) {
			t.Errorf("%s is %v, want a term at work", name, v)
		}
	}
	// z̃ − ẑ^α = γ_L Δz_Lie, so that the anchor is γ_L² times the regulariser.
	gain := float64(testRollout.LieGain)
	if d := loss.LieAnchor - gain*gain*loss.LieReg; math.Abs(d) > 1e-12 {
		t.Errorf("Lie-anchor differs from γ_L² Lie-reg by %v", d)
	}
	value := func() float64 {
		l, _ := training.RolloutLoss(nets.DecoderU, batch, testRollout)
		return l.Total
	}
	for l := range nets.DecoderU.Layers {
		checkGradient(t, "D_u weights", nets.DecoderU.Layers[l].W, grad.Layers[l].W, value)
		checkGradient(t, "D_u biases", nets.DecoderU.Layers[l].B, grad.Layers[l].B, value)
	}
}

func TestRiskWeightsHaveMeanOne(t *testing.T) {
	w := training.RiskWeights([]float64{1, 2, 3, 6})
	if mean := (w[0] + w[1] + w[2] + w[3]) / 4; math.Abs(mean-1) > 1e-15 || math.Abs(w[3]/w[0]-6) > 1e-14 {
		t.Errorf("weights %v: want mean 1 and the proportions of the numerators", w)
	}
	if w := training.RiskWeights([]float64{0, 0}); w[0] != 1 || w[1] != 1 {
		t.Errorf("weights of transitions without risk are %v, want 1", w)
	}
}

func TestChainGradientMatchesDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	nets := testNetworks(rng)
	batch := training.ChainBatch{Z: normals(rng, 4, 3), U: normals(rng, 4, 2)}
	for range batch.Z {
		batch.Chain, batch.Weight = append(batch.Chain, normals(rng, 2, 3)), append(batch.Weight, []float64{rng.Float64(), 3 * rng.Float64()})
	}
	loss, grad := training.ChainLoss(nets.DecoderU, batch, testRollout)
	if !(loss.Act > 0 && loss.Roll > 0) || loss.Total != loss.Act+float64(testRollout.Roll)*loss.Roll {
		t.Errorf("losses %+v, want both terms at work and their weighted sum", loss)
	}
	value := func() float64 {
		l, _ := training.ChainLoss(nets.DecoderU, batch, testRollout)
		return l.Total
	}
	for l := range nets.DecoderU.Layers {
		checkGradient(t, "D_u weights", nets.DecoderU.Layers[l].W, grad.Layers[l].W, value)
		checkGradient(t, "D_u biases", nets.DecoderU.Layers[l].B, grad.Layers[l].B, value)
	}
	// A latent is asked for its own part of the plan alone.
	before := loss.Roll
	batch.U[0][1] += 5
	batch.Weight[0][1], batch.Weight[1] = 0, []float64{0, 0}
	loss, _ = training.ChainLoss(nets.DecoderU, batch, testRollout)
	batch.U[0][1] -= 5
	again, _ := training.ChainLoss(nets.DecoderU, batch, testRollout)
	if loss.Roll != again.Roll || !(loss.Roll < before) {
		t.Errorf("Roll is %v with another second part and %v without, before %v", loss.Roll, again.Roll, before)
	}
}
