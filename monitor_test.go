package gpc_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/tensor"
)

var monitorEpisodes = flag.Int("monitor-episodes", 20, "of BenchmarkMonitor: episodes of each of seeds 991 to 993 for the rate of false alarms in Case 1, a fifteenth as many in Cases 3 and 4, and at most 20 for corrupted maps")

// corruptions make a wrong D_u of an intact one. All weights are changed, of every layer.
var corruptions = []struct {
	name string
	// cost says that it costs tens of percents, and has to be seen.
	costs  bool
	weight func(rng *rand.Rand, w float32) float32
	scale  float32 // of D_u's normalisation; 0: 1
}{
	{name: "intact"},
	{name: "weights × 1.1", weight: func(_ *rand.Rand, w float32) float32 { return 1.1 * w }},
	{name: "weights × 1.3", weight: func(_ *rand.Rand, w float32) float32 { return 1.3 * w }},
	{name: "weights × 3", costs: true, weight: func(_ *rand.Rand, w float32) float32 { return 3 * w }},
	{name: "norms × 3", weight: func(_ *rand.Rand, w float32) float32 { return w }, scale: 3},
	{name: "norms × 30", costs: true, weight: func(_ *rand.Rand, w float32) float32 { return w }, scale: 30},
	{name: "1 % of signs", weight: flipped(0.01)},
	{name: "10 % of signs", weight: flipped(0.1)},
	{name: "half of the signs", weight: flipped(0.5)},
	{name: "all signs", costs: true, weight: flipped(1)},
	{name: "30 % noise", weight: noisy(0.3)},
	{name: "100 % noise", weight: noisy(1)},
}

func flipped(share float64) func(*rand.Rand, float32) float32 {
	return func(rng *rand.Rand, w float32) float32 {
		if rng.Float64() < share {
			return -w
		}
		return w
	}
}

func noisy(deviation float64) func(*rand.Rand, float32) float32 {
	return func(rng *rand.Rand, w float32) float32 { return w * float32(1+deviation*rng.NormFloat64()) }
}

// wrongDecoder is a map with another D_u.
func wrongDecoder(m *model.Model, weight func(*rand.Rand, float32) float32, scale float32) *model.Model {
	if weight == nil {
		return m
	}
	wrong, decoder := *m, *m.DecoderU
	rng := rand.New(rand.NewPCG(3, 4))
	decoder.Layers = append([]model.Layer(nil), decoder.Layers...)
	for i := range decoder.Layers {
		w := decoder.Layers[i].W.Clone()
		for j, v := range w.Data {
			w.Data[j] = weight(rng, v)
		}
		decoder.Layers[i].W = w
	}
	wrong.DecoderU = &decoder
	if scale != 0 {
		wrong.NormU.Scale = append([]float32(nil), m.NormU.Scale...)
		for i := range wrong.NormU.Scale {
			wrong.NormU.Scale[i] *= scale
		}
	}
	return &wrong
}

// monitored is what flags say in the first decisions of episodes, and what those cost.
type monitored struct {
	decisions, alarms int
	episodes, seen    int // episodes, and those with an alarm within flagWithin decisions
	cost, error       float64
	apart             [][]float64 // of each decision, realised less decoded cost, absolute
}

// drifting is in how many episodes a CUSUM of realised against decoded cost passes h, and the
// most that it comes to; it is the test that the answers made unnecessary.
func (r *monitored) drifting(k, h float64) (n int, top float64) {
	for _, episode := range r.apart {
		sum, most := 0.0, 0.0
		for _, v := range episode {
			sum = max(0, sum+v-k)
			most = max(most, sum)
		}
		top = max(top, most)
		if most > h {
			n++
		}
	}
	return n, top
}

// mean is that of all decisions apart.
func (r *monitored) mean() float64 {
	sum := 0.0
	for _, episode := range r.apart {
		for _, v := range episode {
			sum += v / float64(r.decisions)
		}
	}
	return sum
}

// flagWithin decisions a wrong action has to be seen.
const flagWithin = 20

// watch runs a method on a map, to the end of the episodes or for so many decisions.
func watch(t testing.TB, c *gpc.Case, e *gpc.Engine, method string, m *model.Model, seeds, episodes, decisions int) (r monitored) {
	t.Helper()
	loop := require.Get(c.Loop(e, gpc.Setup{Method: method, Model: m}))(t)
	r.error = loop.AnswerError()
	spec := c.Spec()
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	decoded, J := make([]float64, spec.ActionSize()), make([]float64, spec.ObjectiveSize())
	for k := range seeds * episodes {
		ep := require.Get(c.Definition().Plant.Episode(uint64(991+k/episodes), k%episodes, domain.EpisodeOptions{}))(t)
		loop.Reset()
		alarms, apart := 0, []float64(nil)
		for step := 0; !ep.Done() && step < decisions; step++ {
			ep.Observe(s, cx)
			d := require.Get(loop.Decide(s, cx, domain.Preference{Adaptive: true}))(t)
			if d.Fallback&(domain.FallbackMap|domain.FallbackResidual) != 0 {
				alarms++
			}
			out, err := ep.Apply(d.U)
			if err != nil {
				break // nothing to apply: the episode has cost enough
			}
			tensor.Widen(decoded, d.Decoded[:len(decoded)])
			c.Definition().Problem.Objectives(s, decoded, cx, J)
			difference := 0.0
			for i, v := range J {
				difference += d.Sigma[i] * (out.J[i] - v) / (m.Calibration.ObjectiveNadir[i] - m.Calibration.ObjectiveIdeal[i])
			}
			apart = append(apart, math.Abs(difference))
			r.cost += out.Cost
			r.decisions++
		}
		r.alarms, r.apart = r.alarms+alarms, append(r.apart, apart)
		r.episodes++
		if alarms > 0 {
			r.seen++
		}
	}
	return r
}

// above is what a run costs above another, %.
func (r *monitored) above(other *monitored) float64 { return 100 * (r.cost/other.cost - 1) }

// monitoredMaps calls f with every case whose bundled map is asked for known answers.
func monitoredMaps(t testing.TB, f func(c *gpc.Case, e *gpc.Engine, m *model.Model)) {
	e := require.Get(gpc.OpenEngine(engine.Options{Threads: 1}))(t)
	defer e.Close()
	for _, name := range []string{"integrator-convex", "integrator-nonconvex", "opf30", "opf30-uncertain"} {
		cases := paper.Cases()
		c := require.Get(cases.Find(name))(t)
		f(c, e, require.Get(c.Model(""))(t))
	}
}

// Actions that cost tens of percents are flagged in the first decisions, and the intact maps'
// are not.
func TestWrongActionsAreFlagged(t *testing.T) {
	monitoredMaps(t, func(c *gpc.Case, e *gpc.Engine, m *model.Model) {
		name := c.Spec().Name
		var intact monitored
		for _, k := range corruptions {
			r := watch(t, c, e, "navigator-no-fallback", wrongDecoder(m, k.weight, k.scale), 1, 2, flagWithin)
			if k.weight == nil {
				intact = r
			}
			switch above := r.above(&intact); {
			case k.weight == nil && r.alarms > 0:
				t.Errorf("%s: %d alarms in %d decisions of the intact map", name, r.alarms, r.decisions)
			case (k.costs || above > 15) && 5*r.seen < 4*r.episodes: // one, 100 % noise of nonconvex, is seen by its residuals in 48 of 60
				t.Errorf("%s, %s: flagged in %d of %d episodes, answers missed by %.3g, cost %.1f %% above", name, k.name, r.seen, r.episodes, r.error, above)
			}
		}
	})
}

// BenchmarkMonitor measures what is seen of every corruption and how often the intact maps are
// flagged: a table of docs/results/monitor.md.
func BenchmarkMonitor(b *testing.B) {
	monitoredMaps(b, func(c *gpc.Case, e *gpc.Engine, m *model.Model) {
		b.Run(c.Spec().Name, func(b *testing.B) {
			run := func(k int) monitored {
				return watch(b, c, e, "navigator-no-fallback", wrongDecoder(m, corruptions[k].weight, corruptions[k].scale), 3, min(*monitorEpisodes, 20), flagWithin)
			}
			intact := run(0)
			// The CUSUM is given the best: thresholds from the intact map on the same episodes.
			drift := 2 * intact.mean()
			_, top := intact.drifting(drift, 0)
			for k, of := range corruptions {
				b.Run(of.name, func(b *testing.B) {
					r := run(k)
					drifting, _ := r.drifting(drift, 1.5*top)
					b.ReportMetric(r.error, "answers_missed")
					b.ReportMetric(r.above(&intact), "above_%")
					b.ReportMetric(float64(r.seen), "flagged")
					b.ReportMetric(float64(drifting), "drifting")
					b.ReportMetric(float64(r.episodes), "episodes")
				})
			}
			b.Run("direct", func(b *testing.B) {
				all := *monitorEpisodes
				if c.Spec().Steps > flagWithin {
					all = (all + 14) / 15
				}
				r := watch(b, c, e, "direct", m, 3, all, c.Spec().Steps)
				b.ReportMetric(float64(r.alarms), "alarms")
				b.ReportMetric(float64(r.decisions), "decisions")
			})
		})
	})
}
