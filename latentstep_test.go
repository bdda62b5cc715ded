package gpc_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

const (
	stepSeed      = 9057 // of development episodes: none that a record is of
	stepDecisions = 400  // at which steps are taken, at most; evenly from the episodes
	paperStep     = 5    // the paper's Δt
)

// stepShares are of an action's range: what the Lie residual is made to move.
var stepShares = map[string]float64{"0.1_%": 1e-3, "1_%": 1e-2}

// flowed is one decision from which latent steps are taken: the localized latent, and what the energy there depends on.
type flowed struct{ z, s, c, sigma []float64 }

// decided are decisions of the navigator's own episodes.
func decided(t testing.TB, c *gpc.Case, e *gpc.Engine, m *model.Model, episodes int, opt domain.EpisodeOptions) (out []flowed) {
	t.Helper()
	setup := gpc.Setup{Method: gpc.AlgorithmTwo, Model: m}
	loop, latents, spec := require.Get(c.Loop(e, setup))(t), require.Get(c.Latents(e, setup))(t), c.Spec()
	var at batchnav.Rows
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	for k := range episodes {
		ep := require.Get(c.Definition().Plant.Episode(stepSeed, k, opt))(t)
		loop.Reset()
		for !ep.Done() {
			ep.Observe(s, cx)
			at.S, at.C = append(at.S, s...), append(at.C, cx...)
			require.Get(ep.Apply(require.Get(loop.Decide(s, cx, domain.Preference{Adaptive: true}))(t).U))(t)
		}
	}
	n := len(at.S) / len(s)
	z, sigma := tensor.New(n, latents.Size()), make([]float64, n*spec.ObjectiveSize())
	require.OK(t, latents.Encode(at, true, z))
	require.OK(t, latents.Step(z, at, batchnav.Moved{Sigma: sigma}))
	few := min(n, stepDecisions)
	for k := range few {
		i := k * n / few
		o := at.At(spec, i)
		d := flowed{z: make([]float64, z.Cols), s: o.S, c: o.C, sigma: sigma[i*spec.ObjectiveSize():][:spec.ObjectiveSize()]}
		tensor.Widen(d.z, z.Row(i))
		out = append(out, d)
	}
	return out
}

// latentFlow takes latent steps in float64.
type latentFlow struct {
	energy  ref.Energy
	params  backend.StepParams
	inverse []float64 // 1/range of each objective
}

func newLatentFlow(c *gpc.Case, m *model.Model) latentFlow {
	p := c.Definition().Problem
	nav := p.Spec().Navigation
	cfg := backend.StepperConfig{
		DecoderS: m.DecoderS, DecoderU: m.DecoderU, NormS: m.NormS, NormU: m.NormU, Problem: p, MaxBatch: 1,
		Params: backend.StepParams{
			Dt: float32(nav.LatentStep), VMax: float32(nav.VMax), Epsilon: float32(nav.Epsilon), MetricLambda: float32(nav.MetricLambda),
			TopK: nav.TopK, LieGain: float32(nav.LieGain), LieScale: float32(nav.LieScale),
		},
	}
	f := latentFlow{energy: ref.NewEnergy(cfg), params: cfg.Params}
	for i, nadir := range m.Calibration.ObjectiveNadir {
		f.inverse = append(f.inverse, 1/(nadir-m.Calibration.ObjectiveIdeal[i]))
	}
	return f
}

// move is Δz_Euc of a step, and Δz_Lie.
func (f *latentFlow) move(d *flowed, dt float64) (euclidean, lie []float64) {
	weights := make([]float64, len(d.sigma))
	for i, v := range d.sigma {
		weights[i] = v * f.inverse[i]
	}
	p := f.params
	p.Dt, p.LieGain = float32(dt), 0
	euclidean, _ = f.energy.Step(d.z, d.s, d.c, weights, p)
	p.LieGain = 1
	lie, _ = f.energy.Step(d.z, d.s, d.c, weights, p)
	for i := range lie {
		lie[i] -= euclidean[i]
		euclidean[i] -= d.z[i]
	}
	return euclidean, lie
}

// acts is by how much, as a share of its range, an entry of the decoded action moves at most by gain times Δz_Lie.
func (f *latentFlow) acts(d *flowed, euclidean, lie []float64, gain float64) (most float64) {
	plain, turned := slices.Clone(d.z), slices.Clone(d.z)
	for i := range plain {
		plain[i] += euclidean[i]
		turned[i] = plain[i] + gain*lie[i]
	}
	u, v := f.energy.DecodeAction(plain, d.s, d.c), f.energy.DecodeAction(turned, d.s, d.c)
	for i, a := range f.energy.Problem.Spec().Action {
		most = max(most, math.Abs(u[i]-v[i])/(a.Hi-a.Lo))
	}
	return most
}

// middle is the median.
func middle(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

func length(v []float64) (sum float64) {
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// BenchmarkLatentStep measures what one latent step does, in float64, at decisions of development episodes: how many steps
// are at the velocity cap, how large the Lie residual is beside a unit of float32 at the latent, by how much it moves the action,
// and the γ_L with which it moves the action by shares of its range, in the median. lab/scripts/steps.sh reads these γ_L.
func BenchmarkLatentStep(b *testing.B) {
	monitoredMaps(b, func(c *gpc.Case, e *gpc.Engine, m *model.Model) {
		spec, f := c.Spec(), newLatentFlow(c, m)
		opt, noises, episodes := domain.EpisodeOptions{}, []float64{0, 0.02}, 20
		if spec.Steps > stepDecisions/2 {
			opt.Regime, noises, episodes = "envelope", []float64{0, 0.002}, 2
		}
		for _, opt.Noise = range noises {
			decisions := decided(b, c, e, m, episodes, opt)
			for _, dt := range []float64{spec.Navigation.LatentStep, 10 * spec.Navigation.LatentStep, 100 * spec.Navigation.LatentStep, paperStep} {
				b.Run(fmt.Sprintf("%s/noise_%g/step_%g", spec.Name, opt.Noise, dt), func(b *testing.B) { f.report(b, decisions, dt) })
			}
		}
	})
}

// report measures the steps of one size from some decisions.
func (f *latentFlow) report(b *testing.B, decisions []flowed, dt float64) {
	n := len(decisions)
	euclidean, lie := make([][]float64, n), make([][]float64, n)
	moved, residual, unit := make([]float64, n), make([]float64, n), make([]float64, n)
	capped := 0
	for i := range decisions {
		d := &decisions[i]
		euclidean[i], lie[i] = f.move(d, dt)
		moved[i], residual[i] = length(euclidean[i]), float64(f.params.LieGain)*length(lie[i])
		if moved[i] > 0.999*float64(f.params.VMax)*dt {
			capped++
		}
		largest := float32(0)
		for _, v := range d.z {
			largest = max(largest, float32(math.Abs(v)))
		}
		unit[i] = float64(math.Nextafter32(largest, math.MaxFloat32) - largest)
	}
	acts := func(gain float64) float64 {
		shares := make([]float64, n)
		for i := range decisions {
			shares[i] = f.acts(&decisions[i], euclidean[i], lie[i], gain)
		}
		return middle(shares)
	}
	b.ReportMetric(float64(capped)/float64(n), "capped")
	b.ReportMetric(middle(moved), "moved")
	// The program of benchmarks prints seven decimals: lengths and shares below are in units of 10⁻⁹.
	const nano = 1e9
	b.ReportMetric(nano*slices.Max(residual), "residual_most_nano")
	b.ReportMetric(nano*middle(residual), "residual_nano")
	b.ReportMetric(nano*middle(unit), "float32_unit_nano")
	b.ReportMetric(nano*acts(float64(f.params.LieGain)), "action_share_nano")
	b.ReportMetric(float64(n), "decisions")
	for name, share := range stepShares {
		lo, hi := 1e-2, 1e10
		for range 30 { // by halves of the logarithm
			if gain := math.Sqrt(lo * hi); acts(gain) < share {
				lo = gain
			} else {
				hi = gain
			}
		}
		b.ReportMetric(hi, "gain_"+name)
	}
}
