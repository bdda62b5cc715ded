package batchnav_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

func fronts(t testing.TB, p domain.Problem) *batchnav.Fronts {
	t.Helper()
	return require.Get(batchnav.NewFronts(ref.New(), testdomain.Map(testdomain.NewCart(20), 13, false), p, batchnav.Options{}))(t)
}

// A point is the decision of a single loop under its weights, to the bit, and an independent roll-out's cost and margin.
func TestAFrontIsOfSingleDecisions(t *testing.T) {
	cart := testdomain.NewCart(20)
	s, c := []float64{0.4, -0.3}, []float64{0}
	f := require.Get(fronts(t, cart).Front(t.Context(), batchnav.Observation{S: s, C: c}, batchnav.FrontOptions{Points: 21, LookAhead: 6, Threads: 2}))(t)
	if len(f.Points) != 21 || f.LookAhead != 6 {
		t.Fatalf("%d points, %d decisions", len(f.Points), f.LookAhead)
	}
	single := require.Get(batchnav.NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(20), 13, false), cart, batchnav.Options{Direct: true}))(t)
	for i, p := range f.Points {
		pref := domain.Preference{W: p.W}
		single.Reset()
		if d := require.Get(single.Decide(s, c, pref))(t); !slices.Equal(d.U, p.U) {
			t.Errorf("point %d acts %v, a single decision %v", i, p.U, d.U)
		}
		cost, margin := rollout(t, cart, s, p.U, pref, 6)
		if sum := p.W[0]*p.J[0] + p.W[1]*p.J[1]; math.Abs(sum-cost) > 1e-9*(1+math.Abs(cost)) || math.Abs(p.Margin-margin) > 1e-12 {
			t.Errorf("point %d costs %v with a margin of %v, rolled out by itself %v and %v", i, sum, p.Margin, cost, margin)
		}
	}
}

// Every dominated point is one by its definition, no other is, and the knee and the point within bounds are the best of the others.
func TestAFrontKnowsWhatIsDominated(t *testing.T) {
	cart := testdomain.NewCart(20)
	f := require.Get(fronts(t, cart).Front(t.Context(), batchnav.Observation{S: []float64{0.7, 0.5}, C: []float64{0}}, batchnav.FrontOptions{Points: 60}))(t)
	sum := func(p batchnav.FrontPoint) (sum float64) {
		for j, v := range p.J {
			sum += (v - f.Ideal[j]) / (f.Nadir[j] - f.Ideal[j])
		}
		return sum
	}
	kept := 0
	for i, p := range f.Points {
		if !(slices.Min(p.W) >= 0.01) {
			t.Errorf("point %d lets an objective go: weights %v", i, p.W)
		}
		dominated := slices.ContainsFunc(f.Points, func(o batchnav.FrontPoint) bool {
			return o.Feasible && o.J[0] <= p.J[0] && o.J[1] <= p.J[1] && (o.J[0] < p.J[0] || o.J[1] < p.J[1])
		})
		if p.Feasible && p.Dominated != dominated {
			t.Errorf("point %d, %v: dominated %v", i, p.J, p.Dominated)
		}
		if p.Feasible && !dominated {
			if kept++; sum(p) < sum(f.Points[f.Knee])-1e-12 {
				t.Errorf("point %d is nearer to the ideal than the knee", i)
			}
		}
	}
	if kept < 2 {
		t.Fatalf("%d points make a front", kept)
	}
	bounds := []float64{(f.Ideal[0] + f.Nadir[0]) / 2, math.Inf(1)}
	if k := f.Best(bounds); k < 0 || f.Points[k].J[0] > bounds[0] {
		t.Errorf("within %v: point %d", bounds, k)
	}
	if k := f.Best([]float64{f.Ideal[0] - 1, math.Inf(1)}); k >= 0 {
		t.Errorf("point %d is below the least of all", k)
	}
}

func TestFrontsThatCannotBe(t *testing.T) {
	f := fronts(t, testdomain.NewCart(20))
	obs := batchnav.Observation{S: []float64{0, 0}, C: []float64{0}}
	for says, opt := range map[string]batchnav.FrontOptions{
		"16385 points, want 2 to 16384": {Points: 16385}, "1 points": {Points: 1}, "16386 points": {Weights: dataset.Lattice(2, 16386)}, "look-ahead -1": {LookAhead: -1},
		"point 1: the observation has a wrong preference": {Weights: [][]float64{{1, 0}, {1, 1}}},
	} {
		if _, err := f.Front(t.Context(), obs, opt); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	if _, err := f.Front(t.Context(), batchnav.Observation{S: []float64{0, math.NaN()}, C: []float64{0}}, batchnav.FrontOptions{}); err == nil {
		t.Error("a state that is no number has a front")
	}
}

// A problem without a polish has no polished front.
func TestNoPolishOfAFront(t *testing.T) {
	p := testdomain.NewCart(20)
	obs := batchnav.Observation{S: []float64{0.4, -0.3}, C: []float64{0}}
	opt := batchnav.FrontOptions{Weights: dataset.Lattice(2, 11), Polish: 5}
	if _, err := fronts(t, p).Front(t.Context(), obs, opt); err == nil || !strings.Contains(err.Error(), "no polish") {
		t.Errorf("of a problem without a polish: %v", err)
	}
}

// A front that states no number of points has its own: fewer where each is searched by itself.
func TestAFrontHasANumberOfPoints(t *testing.T) {
	cart := testdomain.NewCart(4)
	rest := func(_ context.Context, _ batchnav.Observation, _ []float64, decisions int) (domain.Chosen, error) {
		return domain.Chosen{Plan: make([]float64, decisions*cart.Spec().ActionSize()), Feasible: true}, nil
	}
	start := batchnav.Observation{S: []float64{0.1, 0}, C: []float64{0}}
	for want, f := range map[int]*batchnav.Fronts{1000: fronts(t, cart), 50: batchnav.NewSearchFronts(cart, rest)} {
		got := require.Get(f.Front(t.Context(), start, batchnav.FrontOptions{}))(t)
		if n := len(got.Points); n > want || n < want*3/4 {
			t.Errorf("%d points, want at most %d", n, want)
		}
	}
}

// undefined is a cart whose first objective is no number behind some actions.
type undefined struct {
	*testdomain.Cart
	from float64
}

func (p undefined) Objectives(s, u, c, J []float64) {
	p.Cart.Objectives(s, u, c, J)
	if u[0] > p.from {
		J[0] = math.NaN()
	}
}

// A point whose objectives are no numbers dominates none and moves neither ideal nor knee: it is not feasible.
func TestPointsWithoutObjectivesAreNotFeasible(t *testing.T) {
	obs, opt := batchnav.Observation{S: []float64{0.2, 0.1}, C: []float64{0}}, batchnav.FrontOptions{Points: 60, LookAhead: 1}
	whole := require.Get(fronts(t, testdomain.NewCart(20)).Front(t.Context(), obs, opt))(t)
	var first []float64
	for _, p := range whole.Points {
		first = append(first, p.U[0])
	}
	slices.Sort(first)
	p := undefined{testdomain.NewCart(20), first[len(first)/2]}
	f := require.Get(fronts(t, p).Front(t.Context(), obs, opt))(t)
	for i, q := range f.Points {
		if number := !math.IsNaN(q.J[0]); q.Feasible != number {
			t.Errorf("point %d, %v: feasible %v", i, q.J, q.Feasible)
		}
	}
	if f.Knee < 0 || math.IsNaN(f.Ideal[0]+f.Nadir[0]) || f.Best([]float64{math.Inf(1), math.Inf(1)}) < 0 {
		t.Errorf("the knee is point %d, between %v and %v", f.Knee, f.Ideal, f.Nadir)
	}
}
