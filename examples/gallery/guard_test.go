package gallery

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// counts are calls of what evaluates many margins, and many roll-outs.
type counts struct{ margins, values int }

// stretched is a problem whose margins, and the roll-outs of a search, are evaluated together, so often; alone without that.
type stretched struct {
	*equations.Problem
	alone bool
	calls *counts
}

func (p stretched) Abilities() *domain.ProblemAbilities {
	may := p.Problem.Abilities()
	if p.alone {
		may.ManyMargins, may.ManyValues = nil, nil
		return may
	}
	if make := may.ManyMargins; make != nil {
		may.ManyMargins = func() (domain.ManyMargins, error) {
			m, err := make()
			if m == nil || err != nil {
				return nil, err
			}
			return counting{m, p.calls}, nil
		}
	}
	if prepare := may.ManyValues; prepare != nil {
		may.ManyValues = func() (func() domain.ManyValues, error) {
			make, err := prepare()
			if make == nil || err != nil {
				return nil, err
			}
			return func() domain.ManyValues {
				values := make()
				evaluate := values.Evaluate
				values.Evaluate = func(n int, x, u, next, j, margins []float64) {
					p.calls.values++
					evaluate(n, x, u, next, j, margins)
				}
				return values
			}, nil
		}
	}
	return may
}

type counting struct {
	domain.ManyMargins
	calls *counts
}

func (c counting) Evaluate(n int, x, u, next, margins []float64) {
	c.calls.margins++
	c.ManyMargins.Evaluate(n, x, u, next, margins)
}

// guarded are loops of a system's bundled map: with a guard that looks at every step alone, with one that looks at stretches, and without
// a guard.
func guarded(tb testing.TB, y *equations.System, calls *counts, methods ...string) (loops []*batchnav.Navigator, plant domain.Case) {
	if _, err := models.Bundled.Open(y.Name + ".safetensors"); err != nil {
		tb.Skip("this build carries no map of it")
	}
	for i, method := range methods {
		c := require.Get(y.Case())(tb)
		c.Problem = stretched{c.Problem.(*equations.Problem), i == 0, calls}
		all := gpc.Catalogue{Cases: []domain.Case{c}, Models: models.Bundled}
		known := require.Get(all.Find(y.Name))(tb)
		loops, plant = append(loops, require.Get(known.Loop(require.Get(gpc.OpenEngine(engine.Options{Threads: 1}))(tb), gpc.Setup{Method: method}))(tb)), c
	}
	return loops, plant
}

// noisy calls decide with what is measured in each decision of some episodes, with noise of a share of each state's scale.
func noisy(tb testing.TB, c *domain.Case, episodes int, noise float64, begin func(), decide func(s, x []float64) []float64) {
	spec := c.Problem.Spec()
	s, x := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	for i := range episodes {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		begin()
		for ep := require.Get(c.Plant.Episode(7, i, adaptive))(tb); !ep.Done(); {
			ep.Observe(s, x)
			for k, v := range spec.Measured {
				s[k] += noise * v.Scale() * rng.NormFloat64()
			}
			require.Get(ep.Apply(decide(s, x)))(tb)
		}
	}
}

// A guard that looks at stretches of a roll-out decides bit for bit as one that looks at each step alone, in states that no plan has foreseen.
func TestStretchesDecideAsSteps(t *testing.T) {
	for _, y := range Systems() {
		t.Run(y.Name, func(t *testing.T) {
			if y.EscapeSteps == 0 {
				t.Skip("an action has the margins of the state after it")
			}
			var calls counts
			compared, replaced := 0, 0
			loops, c := guarded(t, &y, &calls, "direct", "direct")
			if many := require.Get(domain.AbilitiesOfProblem(c.Problem).ManyMargins())(t); many == nil {
				t.Skip("no vectors here")
			}
			noisy(t, &c, 2, 0.01, func() {
				for _, l := range loops {
					l.Reset()
				}
			}, func(s, x []float64) []float64 {
				want := require.Get(loops[0].Decide(s, x, adaptive.Preference))(t)
				got := require.Get(loops[1].Decide(s, x, adaptive.Preference))(t)
				compared++
				if got.Fallback&domain.FallbackGuard != 0 {
					replaced++
				}
				if !slices.Equal(got.U, want.U) || got.Fallback != want.Fallback || got.Margin != want.Margin || !slices.Equal(got.Ahead, want.Ahead) {
					t.Fatalf("decision %d: %v %v %v, alone %v %v %v", compared, got.U, got.Fallback, got.Margin, want.U, want.Fallback, want.Margin)
				}
				return want.U
			})
			t.Logf("%d decisions, %d with a roll-out that fails, %d calls", compared, replaced, calls.margins)
			if calls.margins < compared/2 {
				t.Errorf("%d calls in %d decisions: stretches are not looked at", calls.margins, compared)
			}
		})
	}
}

// A search whose roll-outs step together decides as one whose roll-outs step alone, but for rounding.
func TestSearchesStepTogether(t *testing.T) {
	const decisions = 4
	for _, y := range Systems() {
		t.Run(y.Name, func(t *testing.T) {
			var calls counts
			loops, c := guarded(t, &y, &calls, "refine-64", "refine-64")
			if require.Get(domain.AbilitiesOfProblem(c.Problem).ManyValues())(t) == nil {
				t.Skip("no vectors here")
			}
			spec := c.Problem.Spec()
			s, x := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
			ep := require.Get(c.Plant.Episode(7, 0, adaptive))(t)
			for i := range decisions {
				ep.Observe(s, x)
				want := require.Get(loops[0].Decide(s, x, adaptive.Preference))(t)
				before := calls.values
				got := require.Get(loops[1].Decide(s, x, adaptive.Preference))(t)
				for k, a := range spec.Action {
					if !(math.Abs(got.U[k]-want.U[k]) <= 1e-4*a.Scale()) {
						t.Errorf("decision %d: %v, alone %v", i, got.U, want.U)
					}
				}
				if calls.values == before {
					t.Errorf("decision %d: no roll-outs step together", i)
				}
				require.Get(ep.Apply(want.U))(t)
			}
		})
	}
}

// Projections in lanes find what those of one action find: the nearest action, the escape's where none keeps the limits.
func TestProjectionsInLanesAreNearest(t *testing.T) {
	for _, y := range Systems() {
		t.Run(y.Name, func(t *testing.T) {
			c := require.Get(y.Case())(t)
			p, spec := c.Problem, c.Problem.Spec()
			many := require.Get(domain.AbilitiesOfProblem(p).ManyValues())(t)
			if many == nil {
				t.Skip("no vectors here")
			}
			rng := rand.New(rand.NewPCG(5, 1))
			ns, nu := spec.MeasuredSize(), spec.ActionSize()
			var x, u []float64
			s, cx, n := make([]float64, ns), make([]float64, spec.ContextSize()), 0
			for e := range 6 { // two actions at random, then one of the projection
				ep := require.Get(c.Plant.Episode(8, e, adaptive))(t)
				for range min(12, ep.Steps()) {
					ep.Observe(s, cx)
					for range 2 {
						for _, a := range spec.Action {
							u = append(u, a.Lo+(a.Hi-a.Lo)*rng.Float64())
						}
						x, n = append(append(x, s...), cx...), n+1
					}
					step := slices.Clone(u[len(u)-nu:])
					p.Project(s, cx, step)
					require.Get(ep.Apply(step))(t)
				}
			}
			nx, nm, values := ns+len(cx), len(spec.Margins), many()
			next, j, m := make([]float64, n*nx), make([]float64, n*spec.ObjectiveSize()), make([]float64, n*nm)
			wanted := slices.Clone(u)
			values.Evaluate(n, x, u, next, j, m)
			values.Project(n, x, u, next, j, m)
			moved, margins := 0, make([]float64, nm)
			for i := range n {
				at, want, got := x[i*nx:][:nx], wanted[i*nu:][:nu], u[i*nu:][:nu]
				if !slices.Equal(want, got) {
					moved++
				}
				keeps := p.Project(at[:ns], at[ns:], want)
				p.Margins(at[:ns], at[ns:], want, margins)
				if a, b := domain.Smallest(margins), domain.Smallest(m[i*nm:][:nm]); spec.Keeps(b) != keeps || !keeps && !(b >= a-1e-6*(1+math.Abs(a))) {
					t.Errorf("decision %d: the smallest margin is %g, by one action %g", i, b, a)
				}
				for k, a := range spec.Action {
					if keeps && !(math.Abs(got[k]-want[k]) <= 1e-6*a.Scale()) {
						t.Errorf("decision %d: %v, by one action %v", i, got, want)
					}
				}
			}
			t.Logf("%d of %d actions moved", moved, n)
		})
	}
}

// BenchmarkGuard is the CPU time of a decision in states that no plan has foreseen: with a guard that looks at each step alone, with one that
// looks at stretches where the system has them, and without one. All decide in turn, on one thread.
func BenchmarkGuard(b *testing.B) {
	inTurn(b, []string{"direct", "direct", "direct-no-guard"}, "alone-p50-µs", "stretches-p50-µs", "no-guard-p50-µs")
}

// BenchmarkSearch is the CPU time of a decision by a search whose roll-outs step alone, and together where the system can.
func BenchmarkSearch(b *testing.B) {
	inTurn(b, []string{"refine-64", "refine-64"}, "alone-p50-µs", "together-p50-µs")
}

// inTurn drives every system by methods that all decide in turn, the first alone, on one thread.
func inTurn(b *testing.B, methods []string, units ...string) {
	for _, y := range Systems() {
		b.Run(y.Name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var calls counts
			loops, c := guarded(b, &y, &calls, methods...)
			took, first := make([][]float64, len(loops)), 0
			for b.Loop() {
				noisy(b, &c, 1, 0.001, func() {
					for _, l := range loops {
						l.Reset()
					}
				}, func(s, x []float64) (u []float64) {
					first++
					for i := range loops {
						k := (first + i) % len(loops)
						began := cpu(b)
						d := require.Get(loops[k].Decide(s, x, adaptive.Preference))(b)
						took[k] = append(took[k], 1e6*(cpu(b)-began))
						if k == 0 {
							u = slices.Clone(d.U)
						}
					}
					return u
				})
			}
			b.ReportMetric(0, "ns/op")
			for k, unit := range units {
				slices.Sort(took[k])
				b.ReportMetric(took[k][len(took[k])/2], unit)
			}
		})
	}
}
