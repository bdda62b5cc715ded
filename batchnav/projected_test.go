package batchnav_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

// keeping is a backend that keeps loops by itself and projects where it is asked to, by
// the methods of a cart of its own.
type keeping struct {
	backend.Backend
	cart      *testdomain.Cart
	projected []bool // of each decision
}

func (b *keeping) NewLoops(cfg backend.LoopsConfig) (backend.Loops, error) {
	l, err := backend.NewHostLoops(b.Backend, cfg)
	return keptLoops{l, b}, err
}

type keptLoops struct {
	backend.Loops
	of *keeping
}

func (l keptLoops) Decide(in backend.LoopsInput, out backend.LoopsOutput) error {
	err := l.Loops.Decide(in, out)
	l.of.projected = append(l.of.projected, len(out.Action) > 0)
	for i := range out.Action {
		u, s, c, m := out.Action[i:i+1], in.State[2*i:2*i+2], in.C[i:i+1], out.Margins[2*i:2*i+2]
		tensor.Widen(u, out.U.Row(i))
		l.of.cart.Project(s, c, u)
		if l.of.cart.Margins(s, c, u, m); l.of.cart.Spec().Keeps(domain.Smallest(m)) {
			out.Flags[i] |= backend.LoopProjected
		}
	}
	return err
}

// projecting counts the actions that it projects.
type projecting struct {
	*testdomain.Cart
	count int
}

func (p *projecting) Project(s, c, u []float64) bool {
	p.count++
	return p.Cart.Project(s, c, u)
}

// Where a backend keeps the loops, 32 of them or more are projected there, and of
// these the host projects what breaks a limit; few, a search and an ablation are the
// host's. In all of it a decision is, to the bit, that of a backend which projects nothing.
func TestLoopsAreProjectedWhereTheyAreKept(t *testing.T) {
	const size = 40
	for name, projects := range map[string]bool{"navigator": true, "direct": true, "navigator-observer": true, "navigator-no-projection": false, "refine-64": false} {
		opt := require.Get(batchnav.OptionsFor(name))(t)
		cart := testdomain.NewCart(20)
		p, kept := &projecting{Cart: cart}, &keeping{Backend: ref.New(), cart: cart}
		on := require.Get(batchnav.NewBatch(kept, testdomain.Map(cart, 13, false), p, opt, size))(t)
		off := require.Get(batchnav.NewBatch(ref.New(), testdomain.Map(cart, 13, false), cart, opt, size))(t)
		if !on.OnDevice() || off.OnDevice() {
			t.Fatalf("latents are kept: %v, %v", on.OnDevice(), off.OnDevice())
		}
		rng := rand.New(rand.NewPCG(13, 2))
		broken := 0
		for step, count := range []int{size, 3, 32, 31, size, 1} {
			which := rng.Perm(size)[:count]
			obs, got, want := noisy(rng, count), make([]batchnav.Decision, count), make([]batchnav.Decision, count)
			if step != 1 { // beyond the wall no action keeps the margin
				obs[0].S = []float64{2.2, 0.5}
			}
			p.count = 0
			require.OK(t, on.DecideSome(which, obs, got))
			require.OK(t, off.DecideSome(which, obs, want))
			left := 0
			for i := range want {
				if g, w := said(&got[i]), said(&want[i]); g != w {
					t.Errorf("%s, step %d: loop %d decides %s, want %s", name, step, which[i], g, w)
				}
				if f := want[i].Fallback; f&domain.FallbackMargin != 0 || count < 32 && f&domain.FallbackObservation == 0 {
					left++
				}
			}
			if projected := kept.projected[step]; projected != (projects && count >= 32) {
				t.Errorf("%s: %d of %d loops decide, projected where they are kept: %v", name, count, size, projected)
			}
			if projects && p.count != left {
				t.Errorf("%s: of %d loops the host projects %d, want %d", name, count, p.count, left)
			}
			if count >= 32 {
				broken += left
			}
		}
		if projects && broken == 0 {
			t.Errorf("%s: no decision broke a limit", name)
		}
	}
}

// A batch of fewer loops asks for no room to project them in.
func TestFewLoopsAskForNothing(t *testing.T) {
	cart := testdomain.NewCart(20)
	kept := &keeping{Backend: ref.New(), cart: cart}
	b := require.Get(batchnav.NewBatch(kept, testdomain.Map(cart, 13, false), cart, batchnav.Options{}, 31))(t)
	obs := slices.Repeat([]batchnav.Observation{{S: []float64{0.3, 0.1}, C: []float64{0}, Preference: adaptive}}, 31)
	out := make([]batchnav.Decision, 31)
	require.OK(t, b.Decide(obs, out))
	if kept.projected[0] || math.IsNaN(out[30].Margin) {
		t.Errorf("asked %v, margin %v", kept.projected[0], out[30].Margin)
	}
}
