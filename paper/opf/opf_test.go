package opf

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
)

func TestContract(t *testing.T)          { domaintest.Run(t, Thirty()) }
func TestContractUncertain(t *testing.T) { domaintest.Run(t, ThirtyUncertain()) }

// Solving all preferences of a load side by side gives what one at a time gives.
func TestSamplesDoNotDependOnCompany(t *testing.T) {
	y := newTestSystem(t, "case30", Options{Uncertain: true})
	v := newSolver(y)
	p := ones(len(v.Parameters()))
	p[0] = 0.85
	prefs := []domain.Preference{{Adaptive: true}, {W: []float64{0, 0.2, 0.8}}, {W: []float64{0.3, 0, 0.7}}}
	seeds := []uint64{3, 4, 5}
	all, errs := v.SolveAll(7, p, prefs, domain.WeightedSum, seeds)
	for i, pref := range prefs {
		one, err := v.Solve(7, p, pref, domain.WeightedSum, seeds[i])
		if !errors.Is(errs[i], err) || len(one) != len(all[i]) || len(one) == 0 {
			t.Fatalf("preference %d: %d samples and %v, alone %d and %v", i, len(all[i]), errs[i], len(one), err)
		}
		for k := range one {
			if !slices.Equal(one[k].U, all[i][k].U) || !slices.Equal(one[k].S, all[i][k].S) || one[k].Scenario != 7 {
				t.Fatalf("preference %d, sample %d differs", i, k)
			}
		}
	}
}

// The targets of the adaptive priority are ramp-coupled trajectories: each state
// is what the dispatch before leads to under the next loads.
func TestAdaptiveSamplesAreTrajectories(t *testing.T) {
	y := newTestSystem(t, "case30", Options{})
	v := newSolver(y)
	p := ones(len(v.Parameters()))
	p[0] = 0.8
	samples, err := v.Solve(0, p, domain.Preference{Adaptive: true}, domain.WeightedSum, 1)
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	s, c := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context)
	for i := 1; i < len(samples); i++ {
		a, b := &samples[i-1], &samples[i]
		if a.Trajectory != b.Trajectory {
			continue
		}
		if b.Step != a.Step+1 {
			t.Fatalf("step %d follows step %d", b.Step, a.Step)
		}
		y.Step(b.S, b.C, a.U, s, c)
		for j := range s {
			if math.Abs(s[j]-b.S[j]) > 1e-7 {
				t.Fatalf("sample %d, state %d is %v, the dispatch before gives %v", i, j, b.S[j], s[j])
			}
		}
		y.Step(a.S, a.C, a.U, s, c)
		for g := range y.layout.gens {
			if got, want := b.C[y.layout.previous+g], c[y.layout.previous+g]; math.Abs(got-want) > 1e-7 {
				t.Fatalf("sample %d: previous P_G of unit %d is %v, the plant gave %v", i, g, got, want)
			}
			if move := math.Abs(b.U[g] - b.C[y.layout.previous+g]); move > y.Ramp[g]+1e-6 {
				t.Fatalf("sample %d: unit %d moves by %v, its ramp is %v", i, g, move, y.Ramp[g])
			}
		}
		followed++
	}
	if followed < adaptiveSteps {
		t.Fatalf("%d samples follow another", followed)
	}
}

// Any network makes a case: one with few units, one with ten and with taps.
func TestContractOfOtherNetworks(t *testing.T) {
	if testing.Short() {
		t.Skip("two more networks take seconds")
	}
	for _, name := range []string{"opf:case9.m", "opf:case39.m"} {
		t.Run(name, func(t *testing.T) {
			c, err := FromFile(name)
			if err != nil {
				t.Fatal(err)
			}
			domaintest.Run(t, c)
		})
	}
}

// Goroutines that share a system get what one alone gets, bit for bit.
func TestThreadsShareASystem(t *testing.T) {
	y := newTestSystem(t, "case30", Options{Uncertain: true})
	type point struct{ s, c, u, projected, margins []float64 }
	rng := rand.New(rand.NewPCG(9, 9))
	points := make([]point, 24)
	for i := range points {
		p := &points[i]
		p.s, p.c, p.u = randomPoint(rng, y, 0.7+0.3*rng.Float64())
		p.projected, p.margins = slices.Clone(p.u), make([]float64, y.layout.margins)
		y.Project(p.s, p.c, p.projected)
		y.Margins(p.s, p.c, p.projected, p.margins)
	}
	var wait sync.WaitGroup
	for thread := range 4 {
		wait.Go(func() {
			u, m := make([]float64, 2*y.layout.gens), make([]float64, y.layout.margins)
			for k := range points {
				p := &points[(k*(2*thread+1)+thread)%len(points)]
				copy(u, p.u)
				y.Project(p.s, p.c, u)
				y.Margins(p.s, p.c, u, m)
				if !slices.Equal(u, p.projected) || !slices.Equal(m, p.margins) {
					t.Errorf("thread %d: point %d gives %v, alone %v", thread, k, u, p.projected)
					return
				}
			}
		})
	}
	wait.Wait()
}
