package view_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/bundled"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
	"github.com/gpc-engine/gpc/view"
)

// A fan is the method under every preference, from one state.
func TestAFanLooksAhead(t *testing.T) {
	for name, paths := range map[string]bool{"opf30": false, "integrator-nonconvex": true} {
		l, _ := live(t, name, view.LiveOptions{Seed: 991, Preference: nil}, serve.Options{})
		fan := require.Get(l.Fan(false)(t.Context()))(t)
		if fan.Present != len(fan.Rays)-1 || !fan.Rays[fan.Present].Preference.Adaptive || len(fan.Rays) < 10 || len(fan.Rays) > 22 || fan.Ahead < 1 {
			t.Fatalf("%s: %d rays, %d the present one, %d ahead", name, len(fan.Rays), fan.Present, fan.Ahead)
		}
		m := len(fan.Rays[0].J)
		for i := range m { // the least of an objective is where it alone counts, or next to there
			own := slices.IndexFunc(fan.Rays, func(r view.Ray) bool { return !r.Preference.Adaptive && r.Preference.W[i] == 1 })
			other := slices.IndexFunc(fan.Rays, func(r view.Ray) bool { return !r.Preference.Adaptive && r.Preference.W[(i+1)%m] == 1 })
			if own < 0 || other < 0 || !(fan.Rays[own].J[i] <= fan.Rays[other].J[i]+1e-9) {
				t.Errorf("%s: objective %d costs %v where it alone counts, %v where another does", name, i, fan.Rays[own].J[i], fan.Rays[other].J[i])
			}
		}
		kept := slices.DeleteFunc(slices.Clone(fan.Points), func(p view.Point) bool { return !p.Feasible || p.Dominated })
		if len(fan.Points) < 150 || len(kept) < 3 || len(fan.Points[0].W) != m || len(fan.Points[0].J) != m {
			t.Errorf("%s: a front of %d points, of which %d stand", name, len(fan.Points), len(kept))
		}
		for _, r := range fan.Rays {
			if paths != (len(r.Paths) == 1) || paths && len(r.Paths[0]) != fan.Ahead+1 {
				t.Errorf("%s: paths of %d bodies", name, len(r.Paths))
			}
		}
	}
	// As many as there are sessions for.
	k := paper.Cases()
	c := require.Get(k.Find("integrator-convex"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	s := require.Get(serve.New(c, e, serve.Options{Sessions: view.Sessions - 1}))(t)
	defer s.Close()
	if _, err := view.NewLive(t.Context(), c, s, view.LiveOptions{}); err == nil {
		t.Error("a server with too few sessions is taken")
	}
}

// Robots have plans of a search, for each of them.
func TestAFanOfRobots(t *testing.T) {
	l, p := live(t, "multiagent-static", view.LiveOptions{Seed: 991}, serve.Options{})
	p.post("step", `{"by":1}`)
	fan := require.Get(l.Fan(false)(t.Context()))(t)
	f := get[view.Frame](p, "frame?k=1")
	bodies := 0
	for _, s := range f.Shapes {
		if s.Role == "body" {
			bodies++
		}
	}
	if len(fan.Rays) != 4 || bodies < 2 || len(fan.Rays[3].Paths) != bodies || len(fan.Rays[3].Paths[0]) < 5 {
		t.Errorf("%d robots, %d rays with paths of %d", bodies, len(fan.Rays), len(fan.Rays[3].Paths))
	}
}

// breaking is a cart whose objectives panic, or take half a second, once they are told to.
type breaking struct {
	*testdomain.Cart
	broken, slow atomic.Bool
}

func (b *breaking) Objectives(s, u, c, J []float64) {
	if b.slow.Load() {
		time.Sleep(500 * time.Millisecond)
		b.slow.Store(false)
	}
	if b.broken.Load() {
		panic("no way to say")
	}
	b.Cart.Objectives(s, u, c, J)
}

// beside is a plant of the cart beside a server.
func beside(t *testing.T, p *breaking) *view.Live {
	solver := require.Get(ocp.New(p, testdomain.Starts, testdomain.Start, ocp.Options{}))(t)
	c := require.Get(gpc.NewCase(domain.Case{Problem: p, Solver: solver, Plant: closedloop.Simulated(p, testdomain.Starts, testdomain.Start), Guard: domain.Guard{Off: true}}))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	t.Cleanup(func() { e.Close() })
	s := require.Get(serve.New(c, e, serve.Options{Setup: gpc.Setup{Method: "direct", Model: testdomain.Map(p.Cart, 9, true)}}))(t)
	t.Cleanup(s.Close)
	return require.Get(view.NewLive(t.Context(), c, s, view.LiveOptions{}))(t)
}

// A fan in a hurry has the present preference and each objective alone, and leaves the others out where rays take long.
func TestAFanInAHurry(t *testing.T) {
	p := &breaking{Cart: testdomain.NewCart(8)}
	l := beside(t, p)
	for _, hurry := range []bool{true, false} {
		p.slow.Store(true)
		fan := require.Get(l.Fan(hurry)(t.Context()))(t)
		if few := len(fan.Rays) == 3; few != hurry || fan.Present != len(fan.Rays)-1 || !fan.Rays[fan.Present].Preference.Adaptive || slices.Max(fan.Rays[1].Preference.W) != 1 {
			t.Errorf("in a hurry %v: %d rays, %d the present one", hurry, len(fan.Rays), fan.Present)
		}
	}
}

// A panic of a ray is the caller's of the fan, who may catch it: on its own it would end the
// program.
func TestAPanicOfARayIsTheFans(t *testing.T) {
	p := &breaking{Cart: testdomain.NewCart(8)}
	look := beside(t, p).Fan(false)
	require.Get(look(t.Context()))(t)
	p.broken.Store(true)
	defer func() {
		if v := recover(); v != "no way to say" {
			t.Errorf("the fan panics with %v", v)
		}
	}()
	_, err := look(t.Context())
	t.Errorf("a fan of broken rays: %v", err)
}

// A plant of which outputs are measured decides by an estimate, and has no fan, which would be of the state.
func TestAMeasuredPlantDecides(t *testing.T) {
	k := bundled.Cases()
	c := require.Get(require.Get(k.Find("cartpole"))(t).Noisy(0.01, nil))(t)
	l, _ := liveOf(t, c, view.LiveOptions{Seed: 991}, serve.Options{})
	if l.Fan(false) != nil {
		t.Error("a fan is of a state that nobody measures")
	}
	for range 3 {
		require.OK(t, l.Advance(t.Context()))
	}
	if _, last := l.Range(); last != 3 {
		t.Errorf("%d decisions", last)
	}
}

// The exact front of the last frame has the map's beside it, goes to the end of the episode, and ends with whoever asked. A trace has none.
func TestAnExactFrontOnDemand(t *testing.T) {
	l, p := live(t, "integrator-convex", view.LiveOptions{Seed: 991}, serve.Options{})
	p.post("step", `{"by":1}`)
	exact := get[view.Exact](p, "exact")
	if exact.T != 1 || exact.K != 1 || exact.Ahead != 19 || len(exact.Points) == 0 || !exact.Incomplete && len(exact.Points) != 30 || len(exact.Same) != 30 || exact.Ratio == nil || !exact.Incomplete && !(*exact.Ratio > 0.9 && *exact.Ratio < 1.1) {
		t.Errorf("decision %d, frame %d, %d ahead: %d points beside %d, ratio %v", exact.T, exact.K, exact.Ahead, len(exact.Points), len(exact.Same), exact.Ratio)
	}
	for _, q := range exact.Points {
		own := exact.Same[max(0, slices.IndexFunc(exact.Same, func(p view.Point) bool { return slices.Equal(p.W, q.W) }))]
		if cost := q.W[0]*q.J[0] + q.W[1]*q.J[1]; !slices.Equal(q.W, own.W) || own.Feasible && !(cost <= (own.W[0]*own.J[0]+own.W[1]*own.J[1])*(1+1e-6)) {
			t.Errorf("weights %v: %v beside %v", q.W, q.J, own.J)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := l.Exact()(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever has left is answered %v", err)
	}
}
