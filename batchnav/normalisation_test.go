package batchnav_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// reads is a network that does with normalised inputs what another does with inputs as they are.
func reads(net *model.MLP, norm model.Normalizer) *model.MLP {
	first, rest := net.Layers[0], net.Layers[1:]
	w, b := tensor.New(first.W.Rows, first.W.Cols), slices.Clone(first.B)
	for o := range w.Rows {
		for i, v := range first.W.Row(o) {
			w.Row(o)[i] = v * norm.Scale[i]
			b[o] += v * norm.Mean[i]
		}
	}
	return &model.MLP{Layers: append([]model.Layer{{W: w, B: b}}, rest...)}
}

// writes is a network whose outputs are normalised.
func writes(net *model.MLP, norm model.Normalizer) *model.MLP {
	last := net.Layers[len(net.Layers)-1]
	w, b := tensor.New(last.W.Rows, last.W.Cols), slices.Clone(last.B)
	for o := range w.Rows {
		for i, v := range last.W.Row(o) {
			w.Row(o)[i] = v / norm.Scale[o]
		}
		b[o] = (b[o] - norm.Mean[o]) / norm.Scale[o]
	}
	return &model.MLP{Layers: append(slices.Clone(net.Layers[:len(net.Layers)-1]), model.Layer{W: w, B: b})}
}

// renormalised is the same map with means and scales of its own: what it reads and writes is the same in physical units. The state
// is not scaled, as residuals are in units of its scale.
func renormalised(m *model.Model) *model.Model {
	norm := func(n int, scaled bool) model.Normalizer {
		out := testdomain.Scaled(n, 1)
		for i := range n {
			out.Mean[i] = []float32{0.25, -0.5, 0.125}[i%3]
			if scaled {
				out.Scale[i] = []float32{2, 0.5, 4, 0.25}[i%4]
			}
		}
		return out
	}
	other := *m
	other.NormX, other.NormS, other.NormU = norm(len(m.NormX.Mean), true), norm(len(m.NormS.Mean), false), norm(len(m.NormU.Mean), true)
	other.EncoderX, other.DecoderS, other.DecoderU = reads(m.EncoderX, other.NormX), writes(m.DecoderS, other.NormS), writes(m.DecoderU, other.NormU)
	other.CodesDecoded = tensor.New(m.CodesDecoded.Rows, m.CodesDecoded.Cols)
	for i := range other.CodesDecoded.Rows {
		other.NormS.Apply(other.CodesDecoded.Row(i), m.CodesDecoded.Row(i))
	}
	return &other
}

// near says whether values agree, and which are no numbers.
func near[T float32 | float64](a, b []T) bool {
	for i, v := range a {
		x, y := float64(v), float64(b[i])
		if !(math.Abs(x-y) <= 1e-4*(1+math.Abs(x))) && !(math.IsNaN(x) && math.IsNaN(y)) {
			return false
		}
	}
	return len(a) == len(b)
}

// What a map decides does not depend on how its inputs and outputs are normalised, by whatever method.
func TestDecisionsDoNotDependOnTheNormalisation(t *testing.T) {
	cart := testdomain.NewCart(50)
	m := testdomain.Map(cart, 13, false)
	methods := map[string]batchnav.Options{"guarded": {Direct: true, Guard: &domain.Guard{}}}
	for _, name := range []string{"navigator", "direct", "navigator-observer", "navigator-no-semantic", "navigator-no-lie", "navigator-no-retraction", "navigator-no-projection", "refine-64"} {
		methods[name] = require.Get(batchnav.OptionsFor(name))(t)
	}
	for name, opt := range methods {
		opt.Latents = true
		one := require.Get(batchnav.NewNavigator(ref.New(), m, cart, opt))(t)
		two := require.Get(batchnav.NewNavigator(ref.New(), renormalised(m), cart, opt))(t)
		rng := rand.New(rand.NewPCG(5, 6))
		for step := range 8 {
			s, c, pref := []float64{4*rng.Float64() - 2, 2*rng.Float64() - 1}, []float64{rng.Float64()}, adaptive
			if step%3 == 2 {
				pref = domain.Preference{W: []float64{0.3, 0.7}}
			}
			if step == 6 {
				c[0] = math.NaN() // predicted
			}
			a, b := require.Get(one.Decide(s, c, pref))(t), require.Get(two.Decide(s, c, pref))(t)
			if !near(a.U, b.U) || !near(a.Latent, b.Latent) || !near(a.Sigma, b.Sigma) || a.Fallback != b.Fallback || a.Consistent != b.Consistent ||
				!near([]float64{a.Threshold, a.Margin, a.Displacement, a.NoiseVariance}, []float64{b.Threshold, b.Margin, b.Displacement, b.NoiseVariance}) {
				t.Fatalf("%s, step %d at %v, %v: %+v\nnormalised otherwise %+v", name, step, s, c, *a, *b)
			}
		}
	}
	p := planCart()
	m = testdomain.Map(p, 13, false)
	var answers [2][]domain.Answer
	for i, m := range []*model.Model{m, renormalised(m)} {
		answers[i] = make([]domain.Answer, 3)
		r := require.Get(batchnav.NewProposer(ref.New(), m, p, batchnav.Options{}, 64))(t)
		require.OK(t, r.Propose(domain.ProposeOptions{FlowSteps: 1, Mixture: thirdsOf}, questions(3, 40), answers[i]))
	}
	for i, a := range answers[0] {
		b := answers[1][i]
		if !near(a.Plans.Data, b.Plans.Data) || !near(a.Latents.Data, b.Latents.Data) || !slices.Equal(a.Sources, b.Sources) || !near(a.Sigma, b.Sigma) {
			t.Errorf("question %d: %+v\nnormalised otherwise %+v", i, a, b)
		}
	}
}

// enveloped is the cart that asks for the range of its map.
type enveloped struct{ *testdomain.Cart }

func (p enveloped) Spec() *domain.Spec {
	spec := *p.Cart.Spec()
	spec.Enveloped = true
	return &spec
}

// The range of a map is that of its codes and half their width more on either side, in physical units; of the context what the map
// says, or about its mean. An observation outside is flagged, one at its edge is not.
func TestEnvelopeIsTheRangeOfTheCodes(t *testing.T) {
	cart := enveloped{testdomain.NewCart(50)}
	m := renormalised(testdomain.Map(cart.Cart, 13, false)) // codes of ±3 and ±2
	for _, ranges := range [][][2]float64{nil, {{-0.5, 1.5}}} {
		m.Calibration.ContextRange = ranges
		nav := require.Get(batchnav.NewNavigator(ref.New(), m, cart, batchnav.Options{Direct: true, NoFallback: true, NoiseFree: true}))(t)
		lo, hi := nav.Envelope()
		if !near(lo[:2], []float64{-6, -4}) || !near(hi[:2], []float64{6, 4}) {
			t.Fatalf("states from %v to %v", lo, hi)
		}
		mean, scale := float64(m.NormX.Mean[2]), float64(m.NormX.Scale[2])
		if ranges != nil && (lo[2] != -0.5 || hi[2] != 1.5) || ranges == nil && !(near([]float64{(lo[2] + hi[2]) / 2}, []float64{mean}) && hi[2]-mean > 2*scale) {
			t.Errorf("contexts from %v to %v, about %v ± %v", lo[2], hi[2], mean, scale)
		}
		at := func(k int, v float64) bool {
			nav.Reset()
			o := []float64{0, 0, mean}
			o[k] = v
			return require.Get(nav.Decide(o[:2], o[2:], adaptive))(t).OffMap
		}
		for k := range lo {
			for _, c := range []struct {
				v       float64
				outside bool
			}{{lo[k], false}, {hi[k], false}, {lo[k] - 1e-6, true}, {hi[k] + 1e-6, true}} {
				if outside := at(k, c.v); outside != c.outside {
					t.Errorf("entry %d at %v of %v to %v is outside: %v", k, c.v, lo[k], hi[k], outside)
				}
			}
		}
	}
}
