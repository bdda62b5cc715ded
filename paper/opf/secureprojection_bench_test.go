package opf

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// BenchmarkSecureProjection projects the dispatch of the step before onto what survives outages, along a trajectory
// of GPC_CASE. It counts the power flows of a decision, and the factorisations and Newton steps of as many side by
// side as there are lanes.
func BenchmarkSecureProjection(b *testing.B) {
	c := require.Get(SecureFromFile(cmp.Or(os.Getenv("GPC_CASE"), "opf-secure:pglib_opf_case118_ieee.m")))(b)
	y := c.Problem.(*System)
	y.prepare()
	type decision struct{ s, c, u []float64 }
	var all []decision
	adaptive := domain.Preference{Adaptive: true}
	episode, hold := require.Get(c.Plant.Episode(11, 0, domain.EpisodeOptions{Preference: adaptive}))(b), &holdController{system: y}
	require.OK(b, hold.Reset(episode))
	s, ctx, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
	for k := range 10 {
		episode.Observe(s, ctx)
		if k > 0 {
			all = append(all, decision{slices.Clone(s), slices.Clone(ctx), slices.Clone(u)})
		}
		require.Get(hold.Decide(s, ctx, adaptive, u))(b)
		require.Get(episode.Apply(u))(b)
	}
	w := newWorkspace(y)
	w.outages = newOutages(y)
	for b.Loop() {
		for _, d := range all {
			copy(u, d.u)
			y.clip(d.c, u)
			y.projectSecure(w, d.s, d.c, u, nil)
		}
	}
	f, n := w.outages.flows, float64(b.N*len(all))
	b.ReportMetric(float64(b.Elapsed().Microseconds())/n, "µs/decision")
	b.ReportMetric(float64(f.Flows)/n, "flows/decision")
	b.ReportMetric(float64(f.Factorisations)/n, "factorisations/decision")
	b.ReportMetric(float64(f.Steps)/n, "steps/decision")
}
