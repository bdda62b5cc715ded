package gpc_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
)

// BenchmarkObstacleAge measures what "safe past a moving ellipse" says: in how many safe episodes of Case 1 the robot gets to a
// position inside the ellipse where that is by then, as the limit tests the position against the ellipse of a period before;
// and how many episodes are safe with the ellipse of that time as the limit, which plant and method know. Episodes are those of
// the records of closed loops.
func BenchmarkObstacleAge(b *testing.B) {
	e := require.Get(gpc.OpenEngine(engine.Options{Threads: 1}))(b)
	defer e.Close()
	for _, name := range []string{"integrator-convex", "integrator-nonconvex"} {
		cases := paper.Cases()
		c := require.Get(cases.Find(name))(b)
		later := require.Get(c.Shifted(map[string]float64{"obstacle-age": 0}))(b)
		for _, run := range []struct {
			method   string
			episodes int
		}{{"direct", 1000}, {"navigator", 1000}, {"nmpc", 200}} {
			b.Run(name+"/"+run.method, func(b *testing.B) {
				method := require.Get(c.Controller(e, require.Get(c.Setup(run.method, ""))(b)))(b)
				knowing := require.Get(later.Controller(e, require.Get(later.Setup(run.method, ""))(b)))(b)
				safe, safeLater, inside, least := 0, 0, 0, math.Inf(1)
				for k := range run.episodes {
					if kept, _ := tested(b, later, later, knowing, k); kept {
						safeLater++
					}
					if kept, psi := tested(b, c, later, method, k); kept {
						safe++
						if least = min(least, psi); psi < 1-c.Spec().MarginTolerance {
							inside++
						}
					}
				}
				b.ReportMetric(float64(run.episodes), "episodes")
				b.ReportMetric(float64(safe), "safe")
				b.ReportMetric(float64(safeLater), "safe_later")
				b.ReportMetric(float64(inside), "inside")
				b.ReportMetric(least, "least_psi")
			})
		}
	}
}

// tested drives an episode of a case and reports whether it kept every limit, with the least ψ of its positions against the
// ellipse of another.
func tested(t testing.TB, c, against *gpc.Case, method domain.Controller, index int) (kept bool, least float64) {
	t.Helper()
	spec, other := c.Spec(), against.Definition().Problem
	ep := require.Get(c.Definition().Plant.Episode(7, index, domain.EpisodeOptions{}))(t)
	require.OK(t, method.Reset(ep))
	s, cx, u, margins := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize()), make([]float64, len(spec.Margins))
	kept, least = true, math.Inf(1)
	for !ep.Done() {
		ep.Observe(s, cx)
		require.Get(method.Decide(s, cx, domain.Preference{Adaptive: true}, u))(t)
		other.Margins(s, cx, u, margins)
		least = min(least, 1+margins[0])
		kept = kept && require.Get(ep.Apply(u))(t).Margin >= -spec.MarginTolerance
	}
	return kept, least
}
