//go:build linux

package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestEverySystem of the gallery is driven, and has its equations in systems.py.
func TestEverySystem(t *testing.T) {
	text := string(require.Get(scripts.ReadFile("systems.py"))(t))
	for _, y := range gallery.Systems() {
		if l := loops[y.Name]; l.episodes < 1 || l.decisions < 2 {
			t.Errorf("%s has %+v, want episodes of two or more decisions: cold and warm", y.Name, l)
		}
		if !strings.Contains(text, `"`+y.Name+`":`) {
			t.Errorf("systems.py has no %s", y.Name)
		}
	}
	if len(loops) != len(gallery.Systems()) {
		t.Errorf("%d loops for %d systems", len(loops), len(gallery.Systems()))
	}
	if _, err := chosen([]string{"cstr", "pole"}); err == nil || !strings.Contains(err.Error(), `"pole"`) {
		t.Errorf("want an error that names pole, got %v", err)
	}
	if y := require.Get(chosen([]string{"cstr"}))(t); len(y) != 1 || y[0].Name != "cstr" {
		t.Errorf("chosen are %d systems, want cstr", len(y))
	}
}

// TestDrive: optima follow the dynamics from where the loop is, the next decision begins
// where the first action of the timed plan leads, and no timed plan is cheaper than its
// optimum by more than the tolerance explains.
func TestDrive(t *testing.T) {
	if testing.Short() {
		t.Skip("solves horizons of an implicit system")
	}
	y := cstr.System()
	e := require.Get(drive(y, loop{episodes: 2, decisions: 2}, 991))(t)
	c := require.Get(y.Case())(t)
	if len(e.Decisions) != 4 || !e.Decisions[0].First || e.Decisions[1].First || !e.Decisions[2].First {
		t.Fatalf("%d decisions, want two episodes of two", len(e.Decisions))
	}
	for k, d := range e.Decisions {
		if !d.Solved || !d.solved || d.cost < d.Cost*(1-1e-9) || d.cost > d.Cost*(1+1e-3) {
			t.Errorf("decision %d: solved %t and %t, cost %v as timed, %v at the optimum", k, d.solved, d.Solved, d.cost, d.Cost)
		}
		s, ctx := make([]float64, 4), make([]float64, 4)
		for i, u := range d.Plan {
			c.Problem.Step(d.States[i], d.Contexts[i], u, s, ctx)
			if !slices.Equal(s, d.States[i+1]) || !slices.Equal(ctx, d.Contexts[i+1]) {
				t.Fatalf("decision %d: step %d leads to %v, the plan says %v", k, i, s, d.States[i+1])
			}
		}
		if k%2 == 0 && math.Abs(e.Decisions[k+1].States[0][2]-d.States[1][2]) > 0.1 {
			t.Errorf("episode %d is at %v, the plan was at %v", k/2, e.Decisions[k+1].States[0], d.States[1])
		}
	}
}

// TestRatio takes percentiles apart by which decisions they are of.
func TestRatio(t *testing.T) {
	decisions := []decision{{First: true}, {}, {}, {}}
	ours, theirs := []float64{100, 1, 3, 2}, []float64{50, 20, 60, 10}
	for _, want := range []struct {
		first   bool
		percent int
		x, y    float64
	}{{true, 50, 100, 50}, {false, 50, 2, 20}, {false, 100, 3, 60}} {
		if r := ratio(decisions, ours, theirs, want.first, want.percent); r.OursUS != want.x || r.PeerUS != want.y || r.Ratio != want.y/want.x {
			t.Errorf("first %t, %d %%: %+v, want %v and %v", want.first, want.percent, r, want.x, want.y)
		}
	}
}

// TestCheck: other equations, another optimum and none are errors that say whose.
func TestCheck(t *testing.T) {
	e := episodes{Name: "cart", Decisions: []decision{{Solved: true, solved: true, Cost: 2, cost: 2.5}, {Solved: true, Cost: 1, cost: 1}, {}}}
	good := check{Peer: "other", Unlike: 1e-12, Worst: 1e-8}
	got := require.Get(good.of(e))(t)
	if got.Case != "cart" || got.Peer != "other" || got.Decisions != 3 || got.Compared != 2 || got.Unsolved != 2 || got.Worst != 1e-8 || got.Above != 0.25 {
		t.Errorf("%+v", got)
	}
	for _, x := range []struct {
		says  string
		check check
	}{
		{"the equations of other differ", check{Peer: "other", Unlike: 1e-8}},
		{"costs of other differ", check{Peer: "other", Worst: 1e-5}},
		{"costs of other differ", check{Peer: "other", Worst: math.NaN()}},
		{"other does not converge from our plan: cart, decision 1", check{Peer: "other", Stuck: []string{"cart, decision 1: Restoration_Failed"}}},
	} {
		if _, err := x.check.of(e); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%+v: %v, want %q", x.check, err, x.says)
		}
	}
}
