package bundled_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/bundled"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

var frontCases = []string{"cartpole", "quadrotor", "hvac", "integrator-convex", "opf30"}

// Each point acts as a single decision under its weights, to the bit, whatever the number of threads and the rows that it is decided with.
func TestFrontsActAsSingleDecisions(t *testing.T) {
	catalogue := bundled.Cases()
	for _, name := range frontCases {
		unguarded := *require.Get(catalogue.Find(name))(t).Definition()
		unguarded.Guard.Off = true
		c := require.Get(gpc.NewCase(unguarded))(t)
		setup := require.Get(require.Get(catalogue.Find(name))(t).Setup("direct", ""))(t)
		obs := require.Get(c.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		var fronts []*batchnav.Front
		for threads := 1; threads <= 2; threads++ {
			e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: threads}))(t)
			defer e.Close()
			f := require.Get(c.Fronts(e, setup))(t)
			fronts = append(fronts, require.Get(f.Front(t.Context(), obs, batchnav.FrontOptions{Threads: threads, LookAhead: 3}))(t))
			if threads == 1 {
				continue
			}
			k, u := require.Get(require.Get(c.Resolve(setup))(t).Controller(e))(t), make([]float64, c.Spec().ActionSize())
			for i := 0; i < len(fronts[0].Points); i += 7 {
				p := &fronts[0].Points[i]
				require.OK(t, k.Reset(nil))
				if _, err := k.Decide(obs.S, obs.C, domain.Preference{W: p.W}, u); err != nil || !slices.Equal(u, p.U) {
					t.Errorf("%s, weights %v: %v, decided by itself %v, %v", name, p.W, p.U, u, err)
				}
			}
		}
		if !reflect.DeepEqual(fronts[0], fronts[1]) {
			t.Errorf("%s: the front depends on the number of threads", name)
		}
		for i, p := range fronts[0].Points {
			dominated := slices.ContainsFunc(fronts[0].Points, func(q batchnav.FrontPoint) bool {
				cheaper := false
				for j, v := range q.J {
					cheaper = cheaper || v < p.J[j]
					if v > p.J[j] {
						return false
					}
				}
				return q.Feasible && cheaper
			})
			if p.Feasible && p.Dominated != dominated {
				t.Errorf("%s, point %d: dominated %v", name, i, p.Dominated)
			}
		}
	}
}

// BenchmarkFront decides 1000 weightings of one state and rolls each out.
func BenchmarkFront(b *testing.B) {
	catalogue := bundled.Cases()
	for _, name := range frontCases {
		c := require.Get(catalogue.Find(name))(b)
		setup := require.Get(c.Setup("direct", ""))(b)
		obs := require.Get(c.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(b)
		for _, threads := range []int{1, 2} {
			e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: threads}))(b)
			defer e.Close()
			f := require.Get(c.Fronts(e, setup))(b)
			b.Run(name+map[int]string{1: "/one", 2: "/two"}[threads], func(b *testing.B) {
				b.ReportAllocs()
				start := machine.CPUTime()
				for b.Loop() {
					require.Get(f.Front(b.Context(), obs, batchnav.FrontOptions{Threads: threads}))(b)
				}
				b.ReportMetric(float64((machine.CPUTime()-start).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
