package ocp

import (
	"context"
	"errors"
	"math"
	"reflect"
	"runtime"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// wells has one basin on each side of a hill, the left one cheaper from everywhere: a solve from
// rest ends in that of its side.
type wells struct{}

func (wells) Spec() *domain.Spec {
	return &domain.Spec{
		Name:       "wells",
		Measured:   []domain.Variable{{Name: "x"}},
		Action:     []domain.Variable{{Name: "u", Lo: -1, Hi: 1}},
		Objectives: []domain.Variable{{Name: "height"}, {Name: "effort"}},
		Plan:       1, Steps: 20,
		Semantic: domain.Semantic{K: []float64{1, 1}, Epsilon: []float64{1, 1}, Rho: 1},
	}
}
func (wells) Base(s, c, plan []float64) { clear(plan) }
func (wells) Objectives(s, u, c, J []float64) {
	h := s[0]*s[0] - 1
	J[0], J[1] = h*h+0.3*s[0]+0.4, 0.1*u[0]*u[0]
}
func (wells) Gradient(s, u, c, sigma, gs, gu []float64) {
	gs[0], gu[0] = sigma[0]*(4*s[0]*(s[0]*s[0]-1)+0.3), 0.2*sigma[1]*u[0]
}
func (wells) Indicators(s, u, c, delta []float64) { delta[0], delta[1] = 0.5, 0.5 }
func (wells) Step(s, c, u, sn, cn []float64)      { sn[0] = s[0] + 0.5*u[0] }
func (wells) Margins(s, c, u, m []float64)        {}
func (wells) Project(s, c, u []float64) bool      { return true }
func (wells) Fallback(s, c, u []float64)          { clear(u) }

// newWells is without screened plans, which would find the better well as well.
func newWells(library int) *Solver {
	s, err := New(wells{}, []domain.Variable{{Name: "x", Lo: -1.2, Hi: 1.2}}, func(p, s, c []float64) { copy(s, p) }, Options{Library: library})
	if err != nil {
		panic(err)
	}
	return s.SingleStart().(*Solver)
}

// A scenario begins from what its neighbours found, and theirs: across the hill.
func TestALibraryLeavesTheWorseBasin(t *testing.T) {
	alone, with := newWells(0), newWells(12)
	adaptive := domain.Preference{Adaptive: true}
	stuck := 0
	for _, x := range []float64{-1.1, -0.4, 0.05, 0.3, 0.6, 0.9, 1.15} {
		own, _, err := alone.Oracle(t.Context(), []float64{x}, nil, 20, adaptive)
		require.OK(t, err)
		cost, plan, err := with.Oracle(t.Context(), []float64{x}, nil, 20, adaptive)
		require.OK(t, err)
		end := x
		for _, u := range plan {
			end += 0.5 * u[0]
		}
		if end > -0.9 || cost > own*(1+1e-6) {
			t.Errorf("from %v the reference ends at %v for %v, want the left well for at most %v", x, end, cost, own)
		}
		if cost < own*0.9 {
			stuck++
		}
		samples, err := with.Solve(0, []float64{x}, domain.Preference{W: []float64{0.7, 0.3}}, domain.WeightedSum, 1)
		require.OK(t, err)
		if last := samples[len(samples)-1].S[0]; last > -0.9 {
			t.Errorf("from %v the samples end at %v, want the left well", x, last)
		}
		visited, err := with.SolveVisited(0, []float64{x}, adaptive, domain.Lent(idle{}))
		require.OK(t, err)
		if first := visited[0].U[0]; x > 0 && first > 0 {
			t.Errorf("from %v the state visited next is led to the right, by %v", x, first)
		}
	}
	if stuck < 3 {
		t.Errorf("from %d starts a solve from rest costs a tenth more, want 3: this problem proves nothing", stuck)
	}
}

// idle does nothing.
type idle struct{}

func (idle) Reset(domain.Episode) error { return nil }
func (idle) Decide(_, _ []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	clear(u)
	return domain.Decided(true), nil
}

// It is made once, by whoever comes first, and the same on any number of threads.
func TestALibraryIsTheSolversOwn(t *testing.T) {
	one, other := newWells(8), newWells(8)
	require.OK(t, one.Prepare(context.Background(), 1, nil))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	last, total := 0, 0
	require.OK(t, other.Prepare(context.Background(), 2, func(done, of int) {
		if done < last || done > of {
			t.Errorf("%d of %d behind %d", done, of, last)
		}
		last, total = done, of
	}))
	if total != 8*(1+exchangeRounds) {
		t.Errorf("progress of %d solves", total)
	}
	if a, b := one.work.library, other.work.library; len(a.entries) != 8 || !reflect.DeepEqual(a.entries, b.entries) {
		t.Errorf("two libraries differ, of %d and %d entries", len(a.entries), len(b.entries))
	}
	before := other.Counts().Starts
	require.OK(t, other.Prepare(context.Background(), 3, nil))
	if n := other.Counts().Starts - before; n != 0 {
		t.Errorf("a second Prepare solves %d times", n)
	}
}

// Where nothing is won by an exchange, nothing is begun from it.
func TestOneBasinNeedsNoLibrary(t *testing.T) {
	p := cart{force: 2, speed: 10, steps: 12}
	alone, with := newCart(p, Options{}), newCart(p, Options{Library: 6})
	adaptive := domain.Preference{W: []float64{0.5, 0.5}}
	want, _, err := alone.Oracle(t.Context(), []float64{1, 0.5}, []float64{}, 12, adaptive)
	require.OK(t, err)
	before := alone.Counts().Starts
	got, _, err := with.Oracle(t.Context(), []float64{1, 0.5}, []float64{}, 12, adaptive)
	require.OK(t, err)
	if got != want || len(with.work.library.entries) != 0 {
		t.Errorf("the optimum is %v beside %v, of a library with %d entries, want the same and none", got, want, len(with.work.library.entries))
	}
	after := with.Counts().Starts
	_, _, err = with.Oracle(t.Context(), []float64{1, 0.4}, []float64{}, 12, adaptive)
	require.OK(t, err)
	if n := with.Counts().Starts - after; n != before {
		t.Errorf("a solve has %d starts, want %d", n, before)
	}
}

// What ends in the middle leaves no half of a library.
func TestALibraryIsInterrupted(t *testing.T) {
	// On one thread progress comes behind every solve: on several, from one that may have its first turn behind the last of them.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := newWells(8)
	ctx, cancel := context.WithCancel(context.Background())
	err := s.Prepare(ctx, 1, func(done, _ int) {
		if done >= 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || s.work.library != nil {
		t.Fatalf("%v, with a library %v", err, s.work.library)
	}
	require.OK(t, s.Prepare(context.Background(), 1, nil))
	if cost, _, err := s.Oracle(t.Context(), []float64{0.9}, nil, 20, domain.Preference{Adaptive: true}); err != nil || math.IsNaN(cost) {
		t.Errorf("%v, %v", cost, err)
	}
	if _, err := New(wells{}, nil, func(p, s, c []float64) {}, Options{Library: -1}); err == nil {
		t.Error("a library of −1 is taken")
	}
}

// The first decision of an episode begins from the library, as its reference does; a shorter look-ahead builds none.
func TestFirstDecisionsBeginFromTheLibrary(t *testing.T) {
	alone, with := newWells(0), newWells(12)
	adaptive := domain.Preference{Adaptive: true}
	plan := make([]float64, 20)
	_, _, err := with.NewHorizon(0).Solve([]float64{0.9}, nil, adaptive, plan[:5])
	require.OK(t, err)
	if with.work.library != nil {
		t.Error("a look-ahead of 5 decisions of 20 built the library")
	}
	want, _, err := with.Oracle(t.Context(), []float64{0.9}, nil, 20, adaptive)
	require.OK(t, err)
	for _, of := range []struct {
		solver      *Solver
		least, most float64
	}{{with, want * (1 - 1e-6), want * (1 + 1e-6)}, {alone, want * 1.1, math.Inf(1)}} {
		h := of.solver.NewHorizon(0)
		for range 2 { // another episode
			cost, solved, err := h.Solve([]float64{0.9}, nil, adaptive, plan)
			require.OK(t, err)
			if !solved || !(cost >= of.least && cost <= of.most) {
				t.Errorf("library of %d: solved %v at %v, want %v to %v", of.solver.opt.Library, solved, cost, of.least, of.most)
			}
			h.Begin(nil)
		}
	}
}
