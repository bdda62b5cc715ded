package batchnav

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// A constant of the navigation may be at either end of its range, and not beyond.
func TestConstantsOfTheNavigationHaveARange(t *testing.T) {
	spec, tiny, huge := testdomain.NewCart(3).Spec(), math.SmallestNonzeroFloat32, math.MaxFloat32
	for name, c := range map[string]struct {
		field  func(*domain.Navigation) *float64
		lo, hi float64
	}{
		"LatentStep":     {func(n *domain.Navigation) *float64 { return &n.LatentStep }, 0, huge},
		"VMax":           {func(n *domain.Navigation) *float64 { return &n.VMax }, 0, huge},
		"Epsilon":        {func(n *domain.Navigation) *float64 { return &n.Epsilon }, tiny, huge},
		"MetricLambda":   {func(n *domain.Navigation) *float64 { return &n.MetricLambda }, 0, huge},
		"LieGain":        {func(n *domain.Navigation) *float64 { return &n.LieGain }, 0, huge},
		"LieScale":       {func(n *domain.Navigation) *float64 { return &n.LieScale }, -huge, huge},
		"RetractionMix":  {func(n *domain.Navigation) *float64 { return &n.RetractionMix }, 0, 1},
		"Smoothing":      {func(n *domain.Navigation) *float64 { return &n.Smoothing }, tiny, 1},
		"PriorityFilter": {func(n *domain.Navigation) *float64 { return &n.PriorityFilter }, tiny, 1},
	} {
		beyond := func(v, towards float64) float64 { return v + (towards-v)*1e-9 }
		for v, ok := range map[float64]bool{c.lo: true, c.hi: true, min(-tiny/2, 2*c.lo, c.lo-tiny/2): false, 2 * c.hi: false, beyond(c.hi, 4*huge): false, math.Inf(1): false, math.Inf(-1): false} {
			nav := spec.Navigation
			*c.field(&nav) = v
			if _, err := (&Options{Navigation: &nav}).resolve(spec); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %v: %v", name, v, err)
			}
		}
		nav := spec.Navigation
		*c.field(&nav) = math.NaN()
		if _, err := (&Options{Navigation: &nav}).resolve(spec); err == nil {
			t.Errorf("%s is no number", name)
		}
	}
	for name, field := range map[string]func(*domain.Navigation) *int{
		"TopK":           func(n *domain.Navigation) *int { return &n.TopK },
		"Neighbours":     func(n *domain.Navigation) *int { return &n.Neighbours },
		"RotationBlocks": func(n *domain.Navigation) *int { return &n.RotationBlocks },
	} {
		for v, ok := range map[int]bool{0: true, math.MaxInt32: true, -1: false, math.MaxInt32 + 1: false} {
			nav := spec.Navigation
			*field(&nav) = v
			if _, err := (&Options{Navigation: &nav}).resolve(spec); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %v: %v", name, v, err)
			}
		}
	}
	nav := spec.Navigation
	nav.Smoothing, nav.PriorityFilter = 0, 0
	if got := require.Get((&Options{Navigation: &nav, NoLie: true, NoRetraction: true}).resolve(spec))(t); got.Smoothing != 1 || got.PriorityFilter != 1 || got.LieGain != 0 || got.RetractionMix != 0 || got.VMax != nav.VMax {
		t.Errorf("%+v of %+v", got, nav)
	}
	for v, ok := range map[float64]bool{0: true, 1: true, math.Inf(1): true, -1e-9: false, math.NaN(): false} {
		if _, err := (&Options{ResidualLimit: v}).resolve(spec); (err == nil) != ok {
			t.Errorf("a residual limit of %v: %v", v, err)
		}
	}
	p := stepParams(domain.Navigation{TopK: 5, LatentStep: 0.5}, 3)
	if q := stepParams(domain.Navigation{TopK: 2}, 3); p.TopK != 3 || q.TopK != 2 || p.Dt != 0.5 {
		t.Errorf("%+v, %+v", p, q)
	}
}

// Requests at the ends of their ranges are taken, and none beyond.
func TestRequestsHaveARange(t *testing.T) {
	cart := testdomain.NewCart(20)
	m := testdomain.Map(cart, 3, false)
	r := require.Get(NewRefiner(ref.New(), m, cart, Options{}, 1))(t)
	question := domain.Question{S: []float64{0, 0}, C: []float64{0}, Preference: adaptively}
	for _, c := range []struct {
		o  RefineOptions
		ok bool
	}{
		{RefineOptions{Candidates: 1}, true}, {RefineOptions{}, false}, {RefineOptions{Candidates: MaxCandidates, LookAhead: 1}, true}, {RefineOptions{Candidates: MaxCandidates + 1, LookAhead: 1}, false},
		{RefineOptions{Candidates: 1, LookAhead: MaxLookAhead}, true}, {RefineOptions{Candidates: 1, LookAhead: MaxLookAhead + 1}, false}, {RefineOptions{Candidates: 1, LookAhead: -1}, false},
		{RefineOptions{Candidates: 1, Remaining: MaxLookAhead}, true}, {RefineOptions{Candidates: 1, Remaining: MaxLookAhead + 1}, false}, {RefineOptions{Candidates: 1, Remaining: -1}, false},
		{RefineOptions{Candidates: 1, TimeLimit: 1}, true}, {RefineOptions{Candidates: 1, TimeLimit: -1}, false}, {RefineOptions{Candidates: 1, FlowSteps: MaxFlowSteps}, true}, {RefineOptions{Candidates: 1, FlowSteps: MaxFlowSteps + 1}, false},
		{RefineOptions{Candidates: 1 << 18, LookAhead: 1 << 10}, true}, {RefineOptions{Candidates: 1<<18 + 1, LookAhead: 1 << 10}, false},
		{RefineOptions{Candidates: 1, Mixture: Mixture{Neighbours: 0.5, Preference: 0.25, Previous: 0.25}}, true}, {RefineOptions{Candidates: 1, Mixture: Mixture{Neighbours: 0.5, Preference: 0.25, Previous: 0.26}}, false},
		{RefineOptions{Candidates: 1, Mixture: Mixture{Neighbours: -0.1}}, false}, {RefineOptions{Candidates: 1, Mixture: Mixture{Preference: -0.1}}, false}, {RefineOptions{Candidates: 1, Mixture: Mixture{Previous: -0.1}}, false}, {RefineOptions{Candidates: 1, Mixture: Mixture{Previous: math.NaN()}}, false},
	} {
		if err := r.checkRefine(&c.o, &question); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	p := require.Get(NewProposer(ref.New(), m, cart, Options{}, 1))(t)
	all := slices.Repeat([]domain.Question{question}, MaxQuestions+1)
	answers := make([]domain.Answer, len(all))
	for n, ok := range map[int]bool{MaxQuestions: true, MaxQuestions + 1: false, 0: true} {
		if _, err := p.checkAll(domain.ProposeOptions{}, all[:n], answers[:n]); (err == nil) != ok {
			t.Errorf("%d questions: %v", n, err)
		}
	}
	all[0].Count, all[1].Count = MaxCandidates-3, 3
	if total, err := p.checkAll(domain.ProposeOptions{}, all[:2], answers[:2]); err != nil || total != MaxCandidates {
		t.Errorf("%d plans: %v", total, err)
	}
	all[1].Count++
	if _, err := p.checkAll(domain.ProposeOptions{}, all[:2], answers[:2]); err == nil {
		t.Error("a plan more than there may be")
	}
	all[0].Previous = []float32{1, 2, float32(math.NaN())}
	if _, err := p.checkAll(domain.ProposeOptions{}, all[:1], answers[:1]); err == nil {
		t.Error("a latent that is no number")
	}
	if p.LatentSize() != 3 {
		t.Errorf("latents of %d", p.LatentSize())
	}
	for n, ok := range map[int]bool{0: false, -1: false, 1: true, MaxCandidates + 1: false} {
		_, refiner := NewRefiner(ref.New(), m, cart, Options{}, n)
		_, proposer := NewProposer(ref.New(), m, cart, Options{}, n)
		if (refiner == nil) != ok || (proposer == nil) != ok {
			t.Errorf("room for %d: %v, %v", n, refiner, proposer)
		}
	}
	for n, ok := range map[int]bool{0: false, 1: true} {
		if _, err := NewBatch(ref.New(), m, cart, Options{}, n); (err == nil) != ok {
			t.Errorf("%d loops: %v", n, err)
		}
	}
	b := require.Get(NewBatch(ref.New(), m, cart, Options{}, 2))(t)
	if b.Decide(make([]Observation, 1), make([]Decision, 2)) == nil || b.Decide(make([]Observation, 2), make([]Decision, 1)) == nil || b.DecideSome([]int{0}, make([]Observation, 1), make([]Decision, 2)) == nil || b.PrepareSome([]int{-1}) != nil {
		t.Error("another number of observations or decisions")
	}
	o := Options{Search: SearchOptions{Candidates: 1, Ahead: true}}
	b = require.Get(NewBatch(ref.New(), m, cart, o, 2))(t)
	if b.PrepareSome([]int{-1}) == nil || b.PrepareSome([]int{1, 0}) != nil || !strings.Contains(fmt.Sprint(b.PrepareSome([]int{2})), "want 0 to 1") {
		t.Error("the loops that are prepared are 0 and 1")
	}
	for c, ok := range map[SearchOptions]bool{
		{Candidates: 1, LookAhead: MaxLookAhead + 1}: false, {Candidates: 1, TimeLimit: -1}: false, {Candidates: 1, LookAhead: 1, TimeLimit: 1}: true, {Candidates: -1}: false,
	} {
		if _, err := NewBatch(ref.New(), m, cart, Options{Search: c}, 1); (err == nil) != ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
