package gallery

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// BenchmarkMeasuredDecision is the time of a decision of a system's bundled map whose every state is measured with 1 % of noise, and of its
// parts: the filter, what is kept off the limits (nothing, or three standard deviations), the guard and the map. Of a system without
// a map only filter and limits are timed, at rest.
func BenchmarkMeasuredDecision(b *testing.B) {
	for _, y := range Systems() {
		for _, level := range []float64{0, 3} {
			b.Run(fmt.Sprintf("%s/%v", y.Name, level), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				d := newTimedLoop(b, y, level)
				for episode := 0; b.Loop(); episode++ {
					d.drive(b, episode)
				}
				b.ReportMetric(0, "ns/op")
				for part, took := range d.took {
					b.ReportMetric(median(took), part+"-p50-µs")
				}
			})
		}
	}
}

// timedLoop is a loop behind an estimator with the times of its decisions, and beside it, on the same observations, what these are made of.
type timedLoop struct {
	of     domain.Case
	loop   *estimate.Loop
	inner  *timed
	bare   domain.Controller // the map without its guard; nil: there is no map
	filter *estimate.Filter
	level  float64
	took   map[string][]float64 // µs of each decision, by part
}

// timed is a controller that adds up how long it decides.
type timed struct {
	domain.Controller
	took time.Duration
}

func (t *timed) Abilities() *domain.ControllerAbilities {
	return domain.AbilitiesOfController(t.Controller)
}

func (t *timed) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	began := time.Now()
	d, err := t.Controller.Decide(s, c, pref, u)
	t.took += time.Since(began)
	return d, err
}

// holding decides for what a plant rests with.
type holding struct{ domain.Problem }

func (h holding) Reset(domain.Episode) error { return nil }

func (h holding) Decide(s, c []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	h.Fallback(s, c, u)
	return domain.Decided(true), nil
}

func newTimedLoop(b *testing.B, y equations.System, level float64) *timedLoop {
	def := require.Get(whole(b, y, 0.01, 0).Case())(b)
	known := require.Get(gpc.NewCase(def))(b)
	d := &timedLoop{of: def, filter: require.Get(known.Estimator())(b), level: level, took: map[string][]float64{}}
	decided, filter := def, require.Get(known.Estimator())(b)
	var margin *estimate.Margin
	if level > 0 {
		off := domain.NewBackoff(def.Problem.Spec())
		decided = require.Get(def.Tightened(off))(b)
		margin = require.Get(estimate.NewMargin(def.Problem, off, filter, level))(b)
	}
	decided.Measurement = nil
	d.inner = &timed{Controller: holding{def.Problem}}
	if f, err := models.Bundled.Open(y.Name + ".safetensors"); err == nil {
		require.OK(b, f.Close())
		all := gpc.Catalogue{Cases: []domain.Case{decided}, Models: models.Bundled}
		c := require.Get(all.Find(y.Name))(b)
		made := func(method string) domain.Controller {
			return require.Get(c.Controller(require.Get(gpc.OpenEngine(engine.Options{Threads: 1}))(b), gpc.Setup{Method: method}))(b)
		}
		d.inner.Controller, d.bare = made("direct"), made("direct-no-guard")
	}
	d.loop = estimate.NewLoop(d.inner, def.Problem, filter, margin, domain.Delay{})
	return d
}

// drive times the decisions of an episode behind the first, which is made several times where limits are kept off.
func (d *timedLoop) drive(b *testing.B, episode int) {
	spec := d.of.Problem.Spec()
	y, c, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	s, known, alone := slices.Clone(y), slices.Clone(c), slices.Clone(u)
	rng := rand.New(rand.NewPCG(7, uint64(episode)))
	require.OK(b, d.loop.Reset(nil))
	d.filter.Reset()
	if d.bare != nil {
		require.OK(b, d.bare.Reset(nil))
	}
	first := true
	for ep := require.Get(d.of.Plant.Episode(7, episode, adaptive))(b); !ep.Done(); first = false {
		ep.Observe(y, c)
		for k, v := range spec.Measured {
			y[k] += 0.01 * v.Scale() * rng.NormFloat64()
		}
		began := time.Now()
		if !first {
			d.filter.Predict(u)
		}
		require.OK(b, d.filter.Update(y, c, s, known))
		filtered := time.Since(began)
		d.inner.took = 0
		began = time.Now()
		require.Get(d.loop.Decide(y, c, adaptive.Preference, u))(b)
		whole, mapped := time.Since(began), time.Duration(0)
		if d.bare != nil {
			began = time.Now()
			require.Get(d.bare.Decide(s, known, adaptive.Preference, alone))(b)
			mapped = time.Since(began)
		}
		if !first {
			d.add("filter", filtered)
			if d.level > 0 {
				d.add("limits", whole-filtered-d.inner.took)
			}
			if d.bare != nil {
				d.add("decision", whole)
				d.add("guard", d.inner.took-mapped)
				d.add("map", mapped)
			}
		}
		require.Get(ep.Apply(u))(b)
	}
}

func (d *timedLoop) add(part string, took time.Duration) {
	d.took[part] = append(d.took[part], float64(took.Nanoseconds())/1e3)
}
