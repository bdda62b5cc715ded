package batchnav_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

const loopsOfTest = 4

// loopOptions are methods whose loops remember different things.
func loopOptions(t *testing.T) map[string]batchnav.Options {
	t.Helper()
	all := map[string]batchnav.Options{}
	for _, name := range []string{"navigator", "direct", "navigator-observer", "refine-64"} {
		all[name] = require.Get(batchnav.OptionsFor(name))(t)
	}
	guarded := all["direct"]
	guarded.Guard = &domain.Guard{Steps: 6}
	all["a guard"] = guarded
	return all
}

func batchOf(t *testing.T, cart *testdomain.Cart, opt batchnav.Options, size int) *batchnav.Batch {
	t.Helper()
	return require.Get(batchnav.NewBatch(ref.New(), testdomain.Map(cart, 13, false), cart, opt, size))(t)
}

// noisy are observations of loops at random, one of them lost now and then.
func noisy(rng *rand.Rand, n int) []batchnav.Observation {
	obs := make([]batchnav.Observation, n)
	for i := range obs {
		obs[i] = batchnav.Observation{S: []float64{2*rng.Float64() - 1, rng.Float64() - 0.5}, C: []float64{0.1 * rng.Float64()}, Preference: adaptive}
		if rng.IntN(8) == 0 {
			obs[i].S[0] = math.NaN()
		}
		if rng.IntN(4) == 0 {
			obs[i].Preference = domain.Preference{W: []float64{0.25, 0.75}}
		}
	}
	return obs
}

// said is what a decision says, in words that differ where a bit does.
func said(d *batchnav.Decision) string {
	return fmt.Sprint(d.U, d.Decoded, d.Sigma, d.Margins, d.Residual, d.Threshold, d.NoiseVariance, d.Displacement, d.Fallback)
}

// Loops that decide in whatever company decide as each does alone.
func TestSomeLoopsDecideAsAlone(t *testing.T) {
	cart := testdomain.NewCart(20)
	for name, opt := range loopOptions(t) {
		together := batchOf(t, cart, opt, loopsOfTest)
		alone := make([]*batchnav.Navigator, loopsOfTest)
		for i := range alone {
			alone[i] = navigator(t, cart, opt)
		}
		rng := rand.New(rand.NewPCG(9, 3))
		for step := range 12 {
			which := rng.Perm(loopsOfTest)[:1+rng.IntN(loopsOfTest)]
			obs, out := noisy(rng, len(which)), make([]batchnav.Decision, len(which))
			require.OK(t, together.DecideSome(which, obs, out))
			for i, w := range which {
				d := require.Get(alone[w].Decide(obs[i].S, obs[i].C, obs[i].Preference))(t)
				if got, want := said(&out[i]), said(d); got != want {
					t.Fatalf("%s, step %d: loop %d of %v decides %s, alone %s", name, step, w, which, got, want)
				}
			}
		}
	}
}

func TestSomeLoopsAreRefused(t *testing.T) {
	b := batchOf(t, testdomain.NewCart(20), batchnav.Options{}, loopsOfTest)
	obs, out := noisy(rand.New(rand.NewPCG(1, 1)), 2), make([]batchnav.Decision, 2)
	for _, x := range []struct {
		which []int
		want  string
	}{{[]int{0, 0}, "entry 1 names loop 0"}, {[]int{0, loopsOfTest}, "entry 1 names loop"}, {[]int{-1, 0}, "entry 0 names loop -1"}, {[]int{1}, "for 1 loops"}} {
		if err := b.DecideSome(x.which, obs, out); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("loops %v: %v, want %q", x.which, err, x.want)
		}
	}
	require.OK(t, b.DecideSome(nil, nil, nil))
}

// Loops that go back to where they were decide again what they decided then, and the others
// go on.
func TestRestoredLoopsDecideAgain(t *testing.T) {
	cart := testdomain.NewCart(20)
	for name, opt := range loopOptions(t) {
		for _, size := range []int{1, loopsOfTest} {
			b, plain := batchOf(t, cart, opt, size), batchOf(t, cart, opt, size)
			rng := rand.New(rand.NewPCG(4, 7))
			var saved batchnav.Saved
			out, want := make([]batchnav.Decision, size), make([]batchnav.Decision, size)
			for step := range 8 {
				obs := noisy(rng, size)
				which := rng.Perm(size)[:1+rng.IntN(size)]
				require.OK(t, b.Save(which, &saved))
				require.OK(t, b.DecideSome(which, noisy(rng, len(which)), make([]batchnav.Decision, len(which)))) // something else
				require.OK(t, b.Restore(&saved))
				require.OK(t, b.DecideSome([]int{0, 1, 2, 3}[:size], obs, out))
				require.OK(t, plain.Decide(obs, want))
				for i := range out {
					if got, want := said(&out[i]), said(&want[i]); got != want {
						t.Fatalf("%s, step %d: loop %d, restored %v, decides %s, else %s", name, step, i, slices.Contains(which, i), got, want)
					}
				}
			}
		}
	}
}

// watching remembers the state that a fallback was asked for in.
type watching struct {
	*testdomain.Cart
	state []float64
}

func (p *watching) Fallback(s, c, u []float64) {
	p.state = slices.Clone(s)
	p.Cart.Fallback(s, c, u)
}

// What was executed in place of a decision, or of one that was missed, is what a loop
// predicts from.
func TestALoopGoesOnFromWhatWasExecuted(t *testing.T) {
	obs := batchnav.Observation{S: []float64{0.3, 0.2}, C: []float64{0}, Preference: adaptive}
	lost := batchnav.Observation{S: []float64{math.NaN(), math.NaN()}, C: []float64{0.05}, Preference: adaptive}
	out := make([]batchnav.Decision, 1)
	for _, missed := range []bool{false, true} {
		cart := testdomain.NewCart(20)
		p := &watching{Cart: cart}
		b := require.Get(batchnav.NewBatch(ref.New(), testdomain.Map(cart, 13, false), p, batchnav.Options{}, loopsOfTest))(t)
		if missed {
			b.Missed(1, obs, []float64{1})
		} else {
			require.OK(t, b.DecideSome([]int{1}, []batchnav.Observation{obs}, out))
			b.Executed(1, []float64{1})
		}
		require.OK(t, b.DecideSome([]int{1}, []batchnav.Observation{lost}, out))
		s, c := make([]float64, 2), make([]float64, 1)
		if cart.Step(obs.S, obs.C, []float64{1}, s, c); !slices.Equal(p.state, s) {
			t.Errorf("missed %v: the fallback is asked for in %v, what was executed led to %v", missed, p.state, s)
		}
	}
}
