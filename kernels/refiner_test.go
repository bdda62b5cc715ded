package kernels

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/paper/models"
)

// bundledModel is a map that the program carries, with every so many of its codes.
func bundledModel(t testing.TB, name string, codes int) *model.Model {
	t.Helper()
	text := require.Get(models.Bundled.ReadFile(name + ".safetensors"))(t)
	m := require.Get(model.Read(bytes.NewReader(text)))(t)
	step := m.Codes.Rows / codes
	for i := range codes {
		copy(m.Codes.Row(i), m.Codes.Row(i*step))
	}
	m.Codes = m.Codes.Slice(0, codes)
	if m.CodesDecoded.Rows > 0 {
		for i := range codes {
			copy(m.CodesDecoded.Row(i), m.CodesDecoded.Row(i*step))
		}
		m.CodesDecoded = m.CodesDecoded.Slice(0, codes)
	}
	return m
}

func integratorModel(t testing.TB, codes int) *model.Model {
	t.Helper()
	return bundledModel(t, "integrator-convex", codes)
}

// refineCase is a refinement to compare.
type refineCase struct {
	s, c []float64
	pref domain.Preference
	opt  batchnav.RefineOptions
}

// compareRefinements holds refinements on the device to those of another backend in
// single operations.
func compareRefinements(t *testing.T, device, single *batchnav.Refiner, cases []refineCase) {
	t.Helper()
	for i, c := range cases {
		var results [2]*batchnav.Refinement
		for j, r := range []*batchnav.Refiner{device, single} {
			var err error
			if results[j], err = r.Refine(context.Background(), batchnav.Observation{S: c.s, C: c.c, Preference: c.pref}, c.opt); err != nil {
				t.Fatalf("case %d: %v", i, err)
			}
		}
		got, want := results[0], results[1]
		// Two candidates whose costs agree to rounding are both the best.
		if math.Abs(got.Cost-want.Cost) > 1e-4*(1+want.Cost) || math.Abs(got.Margin-want.Margin) > 1e-3 || got.Feasible != want.Feasible {
			t.Errorf("case %d: cost %v, margin %v, feasible %v, want %v, %v, %v", i, got.Cost, got.Margin, got.Feasible, want.Cost, want.Margin, want.Feasible)
		}
		if got.Index == want.Index {
			if err := backendtest.Near(got.U, want.U, 1e-4); err != nil {
				t.Errorf("case %d: action: %v", i, err)
			}
			if err := backendtest.Near(wide32(got.Latent), wide32(want.Latent), 1e-4); err != nil || got.Source != want.Source {
				t.Errorf("case %d: winner from %v, want %v; latent: %v", i, got.Source, want.Source, err)
			}
		}
		if err := backendtest.Near(got.Sigma, want.Sigma, 1e-5); err != nil {
			t.Errorf("case %d: priority: %v", i, err)
		}
		if math.Abs(got.Residual-want.Residual) > 1e-5*(1+want.Residual) || got.Consistent != want.Consistent || math.Abs(got.LocalizedCost-want.LocalizedCost) > 1e-4*(1+want.LocalizedCost) {
			t.Errorf("case %d: residual %v, consistent %v, localized cost %v, want %v, %v, %v", i, got.Residual, got.Consistent, got.LocalizedCost, want.Residual, want.Consistent, want.LocalizedCost)
		}
		if len(got.Sources) != len(want.Sources) {
			t.Fatalf("case %d: sources %+v, want %+v", i, got.Sources, want.Sources)
		}
		for k, s := range got.Sources {
			w := want.Sources[k]
			if s.Source != w.Source || s.Candidates != w.Candidates || s.Feasible != w.Feasible || math.Abs(s.MeanCost-w.MeanCost) > 1e-3*(1+w.MeanCost) {
				t.Errorf("case %d: source %+v, want %+v", i, s, w)
			}
		}
	}
}

// TestRefinementOnDevice holds the captured refinement to the one in single
// operations, on the reference.
func TestRefinementOnDevice(t *testing.T) {
	problem := integrator.Convex().Problem
	m := integratorModel(t, 300)
	library, b := metered(t, Options{})
	const candidates = 48
	refiners := make([]*batchnav.Refiner, 2)
	for i, made := range []backend.Backend{b, ref.New()} {
		r := require.Get(batchnav.NewRefiner(made, m, problem, batchnav.Options{}, candidates))(t)
		refiners[i] = r
	}
	compareRefinements(t, refiners[0], refiners[1], []refineCase{
		{[]float64{-2.2, 0.1, 1.2, -0.1}, []float64{0.9, 0.1, 0.15, 0.1, 0.2}, domain.Preference{Adaptive: true}, batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: 3, LookAhead: 4}},
		{[]float64{-1.4, -0.4, 1.5, 0.2}, []float64{0.4, 0.6, 0.2, 0.1, 0.3}, domain.Preference{W: []float64{0.3, 0.7}}, batchnav.RefineOptions{Candidates: candidates, FlowSteps: 2, Seed: 4, LookAhead: 3}},
		{[]float64{-1.4, -0.4, 1.5, 0.2}, []float64{0.4, 0.6, 0.2, 0.1, 0.3}, domain.Preference{W: []float64{0.3, 0.7}}, batchnav.RefineOptions{Candidates: candidates, FlowSteps: 0, Seed: 4, LookAhead: 2, NoProjection: true}},
		{[]float64{1.1, 0.3, 0.9, -0.2}, []float64{0.1, -0.2, 0.4, 0.1, 0.7}, domain.Preference{Adaptive: true}, batchnav.RefineOptions{Candidates: 1, Seed: 4, LookAhead: 1}},
		{[]float64{-2.2, 0.1, 1.2, -0.1}, []float64{0.9, 0.1, 0.15, 0.1, 0.2}, domain.Preference{Adaptive: true}, batchnav.RefineOptions{
			Candidates: candidates, FlowSteps: 1, Seed: 3, LookAhead: 3, Previous: m.Codes.Row(7), Mixture: batchnav.Mixture{Neighbours: 0.2, Preference: 0.2, Previous: 0.4}}},
		{[]float64{-1.4, -0.4, 1.5, 0.2}, []float64{0.4, 0.6, 0.2, 0.1, 0.3}, domain.Preference{Adaptive: true}, batchnav.RefineOptions{
			Candidates: candidates, FlowSteps: 2, Seed: 5, LookAhead: 2, Previous: m.Codes.Row(70), Mixture: batchnav.Mixture{Previous: 1}}},
		{[]float64{-1.4, -0.4, 1.5, 0.2}, []float64{0.4, 0.6, 0.2, 0.1, 0.3}, domain.Preference{Adaptive: true}, batchnav.RefineOptions{Candidates: 2, LookAhead: 2, Previous: m.Codes.Row(70)}},
	})
	launches := library.Calls("cuGraphLaunch")
	captures := library.Calls("cuStreamBeginCapture_v2")
	got, err := refiners[0].Refine(context.Background(), batchnav.Observation{S: []float64{-2, 0, 1, 0}, C: []float64{0.5, 0, 0.1, 0.1, 0.2}, Preference: domain.Preference{Adaptive: true}},
		batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: 3, LookAhead: 4})
	if err != nil {
		t.Fatal(err)
	}
	if n := library.Calls("cuGraphLaunch") - launches; n != 2 || len(got.Rounds) < 3 {
		t.Errorf("a refinement launches %d graphs, want one for the proposals and one for the rounds of %+v", n, got.Rounds)
	}
	if n := library.Calls("cuStreamBeginCapture_v2") - captures; n != 0 {
		t.Errorf("a refinement of known counts captures %d graphs, want none", n)
	}
}

// TestNeighboursAreTheFirstOfASort holds the codes that a refinement begins from to a sort by distance and number, among
// ties of distance and more rivals than are compared at once.
func TestNeighboursAreTheFirstOfASort(t *testing.T) {
	b := onAny(t)
	rng := rand.New(rand.NewPCG(31, 7))
	for _, v := range []struct{ count, kinds, k, want int }{{7, 7, 3, 3}, {900, 40, 250, 100}, {3000, 1 << 30, 2600, 1300}, {2500, 3, 1200, 700}, {2100, 1, 30, 15}} {
		distance, consistent := make([]float32, v.count), make([]uint8, v.count)
		order := upTo(v.count)
		for i := range distance {
			distance[i], consistent[i] = float32(rng.IntN(v.kinds))/7, uint8(rng.IntN(4))&1
		}
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(distance[i], distance[j]) })
		var want []int32
		for _, i := range order[:v.k] {
			if consistent[i] == 1 && len(want) < v.want {
				want = append(want, int32(i))
			}
		}
		got, found := make([]int32, v.want), []int32{-1}
		require.OK(t, b.execute(func(th *driver.Thread) error {
			m, q := &memory{}, b.queue(th)
			room := func(bytes int) piece { return piece{device: q.alloc(m, bytes)} }
			s := &refineSpace{list: room(4 * v.count), listLength: room(4), selected: room(4 * v.want), selectedCount: room(4)}
			s.distance.device, s.consistent.device = uploaded(q, m, distance), uploaded(q, m, consistent)
			q.neighbours(s, v.count, v.k, v.want)
			q.enqueue(func() error {
				return errors.Join(th.Wait(q.stream), driver.Download(th, got, s.selected.device), driver.Download(th, found, s.selectedCount.device))
			})
			return errors.Join(q.err, m.free(th))
		}))
		if int(found[0]) != len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%+v: %d codes %v, want %v", v, found[0], got, want)
		}
	}
}

// TestLaunchesOfARefinement holds the count of docs/contribute/cuda-kernels.md to the program:
// nine launches to the priority at the localized code, six to the candidates,
// twelve of a flow step and the plans, the roll-outs, however long, and the choice.
func TestLaunchesOfARefinement(t *testing.T) {
	library, b := metered(t, Options{})
	r := require.Get(batchnav.NewRefiner(b, integratorModel(t, 60), integrator.Convex().Problem, batchnav.Options{}, 8))(t)
	obs := batchnav.Observation{S: []float64{-2.2, 0.1, 1.2, -0.1}, C: []float64{0.9, 0.1, 0.15, 0.1, 0.2}, Preference: domain.Preference{Adaptive: true}}
	for _, look := range []int{1, 4, 20} {
		before := library.Calls("kernel")
		if _, err := r.Refine(context.Background(), obs, batchnav.RefineOptions{Candidates: 8, FlowSteps: 1, Seed: 3, LookAhead: look}); err != nil {
			t.Fatal(err)
		}
		if n, want := library.Calls("kernel")-before, 9+6+12+1+1; n != want {
			t.Errorf("a refinement with a look-ahead of %d launches %d kernels, want %d", look, n, want)
		}
	}
}
