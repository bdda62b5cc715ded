package batchnav

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// drawn is a front of n points, whose objectives are small whole numbers so that ties abound.
func drawn(rng *rand.Rand, n, objectives int) *Front {
	f := &Front{}
	for range n {
		p := FrontPoint{Feasible: rng.IntN(5) > 0}
		for range objectives {
			p.J, p.W = append(p.J, float64(rng.IntN(5))), append(p.W, rng.Float64())
		}
		f.Points = append(f.Points, p)
	}
	return f
}

// Of any number of objectives the dominated points, the ideal, the nadir, the knee, the best within bounds and the two cheapest are those of
// their definitions.
func TestAFrontIsComparedByItsDefinitions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	inf := math.Inf(1)
	for range 600 {
		m, n := 1+rng.IntN(4), rng.IntN(12)
		f := drawn(rng, n, m)
		f.compare(m)
		ideal, nadir := slices.Repeat([]float64{inf}, m), slices.Repeat([]float64{-inf}, m)
		front := 0
		for i, p := range f.Points {
			dominated := slices.ContainsFunc(f.Points, func(o FrontPoint) bool {
				no := !o.Feasible
				cheaper := false
				for j := range o.J {
					no, cheaper = no || o.J[j] > p.J[j], cheaper || o.J[j] < p.J[j]
				}
				return cheaper && !no
			})
			if p.Dominated != (p.Feasible && dominated) {
				t.Fatalf("%+v: point %d is dominated: %t", f.Points, i, p.Dominated)
			}
			if p.Feasible && !dominated {
				front++
				for j, v := range p.J {
					ideal[j], nadir[j] = min(ideal[j], v), max(nadir[j], v)
				}
			}
		}
		if front == 0 {
			if f.Ideal != nil || f.Nadir != nil || f.Knee != -1 || f.Best(ideal) != -1 {
				t.Fatalf("of no point: %+v", f)
			}
			continue
		}
		if !slices.Equal(f.Ideal, ideal) || !slices.Equal(f.Nadir, nadir) {
			t.Fatalf("%v to %v, want %v to %v", f.Ideal, f.Nadir, ideal, nadir)
		}
		best := func(bounds []float64) int {
			k, least := -1, inf
			for i, p := range f.Points {
				sum, all := 0.0, !slices.Contains(bounds, inf)
				for j, v := range p.J {
					if !(v <= bounds[j]) {
						sum = inf
					}
					if (all || bounds[j] == inf) && nadir[j] > ideal[j] {
						sum += (v - ideal[j]) / (nadir[j] - ideal[j])
					}
				}
				if p.Feasible && !p.Dominated && sum < least {
					k, least = i, sum
				}
			}
			return k
		}
		bounds := make([]float64, m)
		for j := range bounds {
			if bounds[j] = float64(rng.IntN(5)); rng.IntN(2) == 0 {
				bounds[j] = inf
			}
		}
		if f.Best(bounds) != best(bounds) || f.Knee != best(slices.Repeat([]float64{inf}, m)) {
			t.Fatalf("%+v within %v: point %d, the knee is %d", f.Points, bounds, f.Best(bounds), f.Knee)
		}
		w := make([]float64, m)
		for j := range w {
			w[j] = float64(1 + rng.IntN(3))
		}
		var costs []float64
		for _, p := range f.Points {
			if p.Feasible {
				costs = append(costs, floats.Dot(w, p.J))
			}
		}
		slices.Sort(costs)
		for k, p := range [2]*FrontPoint{first(cheapest(f.Points, w)), second(cheapest(f.Points, w))} {
			if (p == nil) != (k >= len(costs)) || p != nil && (!p.Feasible || floats.Dot(w, p.J) != costs[k]) {
				t.Fatalf("%+v, weights %v: %+v is the cheapest but %d of %v", f.Points, w, p, k, costs)
			}
		}
		if a, b := cheapest(f.Points, w); a == b {
			t.Fatal("one point is the two cheapest")
		}
	}
}

func first[A, B any](a A, _ B) A  { return a }
func second[A, B any](_ A, b B) B { return b }

// The pairs that are made denser are those farthest apart in an objective, as a share of the front, first. A pair without a front's point, or
// under bounds one on the same side of them, has no middle; where no point keeps the bounds the nearest's pairs have.
func TestBisectionTakesTheWidestPairs(t *testing.T) {
	inf := math.Inf(1)
	f := &Front{}
	for i, j := range [][2]float64{{0, 10}, {1, 8}, {4, 4}, {9, 1}, {10, 0}, {20, 20}} {
		f.Points = append(f.Points, FrontPoint{J: []float64{j[0], j[1]}, W: []float64{float64(i), 10 - float64(i)}, Feasible: true})
	}
	f.compare(2)
	chain := [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}} // 0.2, 0.4, 0.5, 0.1 and 2
	f.Points[5].Feasible = false
	for _, c := range []struct {
		bounds []float64
		most   int
		want   []int // pairs that have a middle
	}{
		{nil, 1, []int{2}}, {nil, 2, []int{2, 1}}, {nil, 9, []int{2, 1, 0, 3}}, {nil, 0, nil},
		{[]float64{4, inf}, 9, []int{2}}, {[]float64{3, inf}, 9, []int{1}}, {[]float64{inf, 0.5}, 9, []int{3}},
		{[]float64{1, 1}, 9, []int{2, 1}}, // none keeps both: the nearest, the third, exceeds them by 0.6
		{[]float64{inf, inf}, 9, nil},
	} {
		middles, next := f.bisect(chain, c.bounds, c.most)
		if len(middles) != len(c.want) || len(next) != len(chain)+len(c.want) {
			t.Errorf("within %v, %d at most: %v, %v", c.bounds, c.most, middles, next)
			continue
		}
		for k, pair := range c.want {
			a, b := chain[pair][0], chain[pair][1]
			w := float64(a+b) / 2
			if middles[k][0] != w || middles[k][1] != 10-w || next[pair] != [2]int{a, 6 + k} || next[len(chain)+k] != [2]int{6 + k, b} {
				t.Errorf("within %v: middle %d at %v, pairs %v", c.bounds, k, middles[k], next)
			}
		}
	}
	f.Points[1].Dominated, f.Points[2].Dominated = true, true
	if middles, _ := f.bisect(chain, nil, 9); len(middles) != 3 { // the pair of both has none
		t.Errorf("beside dominated points %v", middles)
	}
	f.Points[0].J[1], f.Nadir, f.Ideal = 5, []float64{10, 5}, []float64{0, 5} // an objective that all have alike
	if middles, _ := f.bisect(chain[:1], nil, 1); len(middles) != 1 || middles[0][0] != 0.5 {
		t.Errorf("%v", middles)
	}
}

// pushed is the cart with a polish that moves every action a share of the way to -0.4 w₀ where it changes one.
type pushed struct {
	finite
	share float64
	calls *atomic.Int64
}

func (p pushed) Abilities() *domain.ProblemAbilities {
	may := p.finite.Abilities()
	may.Polish = func(_, _ []float64, pref domain.Preference, _ []domain.Bound, plan []float64, iterations int) bool {
		p.calls.Add(1)
		for h := range plan {
			plan[h] += p.share * float64(iterations) / 10 * (-0.4*pref.W[0] - plan[h])
		}
		return p.share > 0
	}
	return may
}

func (p pushed) Objectives(s, u, c, J []float64) { J[0], J[1] = (u[0]+0.4)*(u[0]+0.4), u[0]*u[0] }

// A polished front is nowhere dearer than the map's. Where a polish ends at a weighting's optimum every point but those between the polished is
// there, and these are between their neighbours. Each point says what its own plan costs.
func TestAFrontIsPolished(t *testing.T) {
	s, c := []float64{-0.3, 0.1}, []float64{0}
	obs := Observation{S: s, C: c}
	for _, points := range []int{1, 2, 30, 90} {
		p := pushed{finite{testdomain.NewCart(cartSteps)}, 1, new(atomic.Int64)}
		var weights [][]float64
		for i := range points {
			w := (float64(i) + 0.5) / float64(points)
			weights = append(weights, []float64{w, 1 - w})
		}
		rand.New(rand.NewPCG(3, uint64(points))).Shuffle(points, func(i, j int) { weights[i], weights[j] = weights[j], weights[i] })
		fronts := require.Get(NewFronts(ref.New(), testdomain.Map(p.Cart, 5, false), p, Options{}))(t)
		opt := FrontOptions{Weights: weights, LookAhead: 5, Plans: true}
		plain := require.Get(fronts.Front(t.Context(), obs, opt))(t)
		for i, q := range require.Get(fronts.Front(t.Context(), obs, FrontOptions{Weights: weights, LookAhead: 5}))(t).Points {
			if q.plan != nil || len(plain.Points[i].plan) != 5 || !slices.Equal(q.J, plain.Points[i].J) {
				t.Errorf("point %d keeps %v and %v", i, q.plan, plain.Points[i].plan)
			}
		}
		opt.Polish = 10
		for _, threads := range []int{1, 3} {
			opt.Threads = threads
			opt.Plans = threads == 1
			f := require.Get(fronts.Front(t.Context(), obs, opt))(t)
			if f.Polished != points || plain.Polished != 0 {
				t.Errorf("%d of %d points are polished", f.Polished, points)
			}
			sources := 0
			for i, q := range f.Points {
				cost := func(q FrontPoint) float64 { return floats.Dot(q.W, q.J) }
				if !slices.Equal(q.W, weights[i]) || !(cost(q) < cost(plain.Points[i])) || !q.Feasible {
					t.Fatalf("point %d costs %g under %v, the map's %g under %v", i, cost(q), q.W, cost(plain.Points[i]), weights[i])
				}
				optimum := -0.4 * q.W[0]
				if math.Abs(q.U[0]-optimum) < 1e-12 {
					sources++
				} else if math.Abs(q.U[0]-optimum) > 0.4/90*2 {
					t.Errorf("point %d acts %g, want about %g", i, q.U[0], optimum)
				}
				sum := make([]float64, 2)
				for _, u := range q.plan {
					sum[0], sum[1] = sum[0]+(u+0.4)*(u+0.4), sum[1]+u*u
				}
				if len(q.plan) != 5 || math.Abs(sum[0]-q.J[0])+math.Abs(sum[1]-q.J[1]) > 1e-9 {
					t.Errorf("point %d: %v, its plan sums to %v", i, q.J, sum)
				}
			}
			if sources < min(points, polishedPoints) {
				t.Errorf("%d of %d points are at their optimum", sources, points)
			}
		}
	}
	// A polish that changes nothing leaves the front as it is; one that is asked for as a method's own is of a map that was compiled for one, or of
	// points that break a limit, whose plans are then no worse.
	p := pushed{finite{testdomain.NewCart(cartSteps)}, 0, new(atomic.Int64)}
	m := testdomain.Map(p.Cart, 5, false)
	opt := FrontOptions{Weights: [][]float64{{0.2, 0.8}, {0.7, 0.3}}, LookAhead: 5, Polish: 10}
	single := opt // which takes no other's plan
	single.Weights = opt.Weights[:1]
	if f := require.Get(require.Get(NewFronts(ref.New(), m, p, Options{}))(t).Front(t.Context(), obs, single))(t); f.Polished != 0 || p.calls.Load() == 0 {
		t.Errorf("%d points are polished, by %d calls", f.Polished, p.calls.Load())
	}
	for _, compiled := range []bool{false, true} {
		m.Provenance.Method = "direct"
		if compiled {
			m.Provenance.Method = "polish"
		}
		p = pushed{finite{testdomain.NewCart(cartSteps)}, 1, new(atomic.Int64)}
		opt.Polish = -1
		fronts := require.Get(NewFronts(ref.New(), m, p, Options{}))(t)
		if f := require.Get(fronts.Front(t.Context(), obs, opt))(t); (f.Polished == 2) != compiled || (p.calls.Load() > 0) != compiled {
			t.Errorf("compiled for a polish %t: %d points, %d calls", compiled, f.Polished, p.calls.Load())
		}
		p.calls.Store(0)
		near := Observation{S: []float64{1.9, 1.5}, C: c} // the wall is passed
		if f := require.Get(fronts.Front(t.Context(), near, opt))(t); p.calls.Load() == 0 || len(f.Points) != 2 || len(f.Points[0].plan) != 5 {
			t.Errorf("near the wall: %d calls, %+v", p.calls.Load(), f.Points)
		}
	}
	// None is of a search, and an end of the context is an error.
	search := NewSearchFronts(p, func(_ context.Context, _ Observation, _ []float64, n int) (domain.Chosen, error) {
		return domain.Chosen{Plan: make([]float64, n), Feasible: true}, nil
	})
	if _, err := search.Front(t.Context(), obs, FrontOptions{Weights: opt.Weights, Polish: 1}); err == nil || !strings.Contains(err.Error(), "no polish") {
		t.Errorf("a search is polished: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ending := require.Get(NewFronts(ref.New(), m, cancelling{p, cancel}, Options{}))(t)
	if _, err := ending.Front(ctx, obs, FrontOptions{Weights: opt.Weights, LookAhead: 5, Polish: 10}); !errors.Is(err, context.Canceled) {
		t.Errorf("behind its end: %v", err)
	}
}

// cancelling ends a context where it is polished.
type cancelling struct {
	pushed
	cancel context.CancelFunc
}

func (p cancelling) Abilities() *domain.ProblemAbilities {
	may := p.pushed.Abilities()
	may.Polish = func(_, _ []float64, _ domain.Preference, _ []domain.Bound, plan []float64, _ int) bool {
		p.cancel()
		return false
	}
	return may
}

// A search is asked for each weighting with the plan of the nearest before it, what it finds is simulated, and a weighting without a plan has no point.
// Its errors, a plan of another length, an end of the context and a wrong preference are the front's; the end of its time is not.
func TestASearchsFront(t *testing.T) {
	p := finite{testdomain.NewCart(cartSteps)}
	obs := Observation{S: []float64{-0.3, 0.1}, C: []float64{0}}
	weights := [][]float64{{0.9, 0.1}, {0.1, 0.9}, {0.55, 0.45}, {0.8, 0.2}, {0.3, 0.7}}
	var given []float64
	find := func(_ context.Context, o Observation, neighbour []float64, decisions int) (domain.Chosen, error) {
		nearest := -1.0
		if neighbour != nil {
			nearest = neighbour[0]
		}
		given = append(given, nearest)
		if o.Preference.W[0] == 0.55 {
			return domain.Chosen{}, nil
		}
		return domain.Chosen{Plan: slices.Repeat([]float64{o.Preference.W[0]}, decisions), Feasible: o.Preference.W[0] != 0.8}, nil
	}
	f := require.Get(NewSearchFronts(p, find).Front(t.Context(), obs, FrontOptions{Weights: weights, LookAhead: 4}))(t)
	if !slices.Equal(given, []float64{-1, 0.9, 0.9, 0.9, 0.1}) || len(f.Points) != 4 || f.LookAhead != 4 || f.Incomplete {
		t.Errorf("the neighbours are %v; %+v", given, f)
	}
	for k, i := range []int{0, 1, 3, 4} {
		q := f.Points[k]
		if want := simulated(p, obs, weights[i], slices.Repeat([]float64{weights[i][0]}, 4), false); q.U[0] != weights[i][0] || !slices.Equal(q.J, want.J) || q.Margin != want.Margin || q.Feasible != (i != 3) {
			t.Errorf("point %d: %+v, want %+v", k, q, want)
		}
	}
	broken := errors.New("broken")
	ended, end := context.WithCancel(t.Context())
	end()
	for says, c := range map[string]struct {
		ctx    context.Context
		search FrontSearch
		opt    FrontOptions
	}{
		"broken": {t.Context(), func(context.Context, Observation, []float64, int) (domain.Chosen, error) {
			return domain.Chosen{}, broken
		}, FrontOptions{Weights: weights}},
		"which is 3": {t.Context(), func(context.Context, Observation, []float64, int) (domain.Chosen, error) {
			return domain.Chosen{Plan: make([]float64, 3)}, nil
		}, FrontOptions{Weights: weights, LookAhead: 4}},
		"canceled":         {ended, find, FrontOptions{Weights: weights}},
		"point 1":          {t.Context(), find, FrontOptions{Weights: [][]float64{{0.9, 0.1}, {1, 1}}}},
		"remaining -1":     {t.Context(), find, FrontOptions{Weights: weights, Remaining: -1}},
		"look-ahead 10001": {t.Context(), find, FrontOptions{Weights: weights, LookAhead: MaxLookAhead + 1}},
		"remaining 10001":  {t.Context(), find, FrontOptions{Weights: weights, Remaining: MaxLookAhead + 1}},
	} {
		if _, err := NewSearchFronts(p, c.search).Front(c.ctx, obs, c.opt); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	slow := func(ctx context.Context, o Observation, n []float64, decisions int) (domain.Chosen, error) {
		if len(given) > 6 {
			<-ctx.Done()
			return domain.Chosen{}, ctx.Err()
		}
		return find(ctx, o, n, decisions)
	}
	given = given[:5]
	if f, err := NewSearchFronts(p, slow).Front(t.Context(), obs, FrontOptions{Weights: weights, LookAhead: 4, TimeLimit: time.Second / 50}); err != nil || !f.Incomplete || len(f.Points) > 2 {
		t.Errorf("in a moment %+v: %v", f, err)
	}
	if f := require.Get(NewSearchFronts(p, find).Front(t.Context(), obs, FrontOptions{Weights: weights, LookAhead: 4, TimeLimit: 1}))(t); !f.Incomplete || len(f.Points) > 0 {
		t.Errorf("in no time %+v", f)
	}
	if n := (&FrontOptions{LookAhead: MaxLookAhead}); second(n.decisions(p.Spec(), p.Abilities(), obs.C)) != nil {
		t.Error("the longest look-ahead is refused")
	}
}

// many is the cart whose roll-outs step together, with a projection of their own.
type many struct{ *testdomain.Cart }

func (p many) Abilities() *domain.ProblemAbilities {
	evaluate := func(n int, x, u, next, j, margins []float64) {
		for i := range n {
			s, c := x[3*i:3*i+2], x[3*i+2:3*i+3]
			p.Step(s, c, u[i:i+1], next[3*i:3*i+2], next[3*i+2:3*i+3])
			p.Objectives(s, u[i:i+1], c, j[2*i:2*i+2])
			p.Margins(s, c, u[i:i+1], margins[2*i:2*i+2])
		}
	}
	return &domain.ProblemAbilities{ManyValues: func() (func() domain.ManyValues, error) {
		return func() domain.ManyValues {
			return domain.ManyValues{Evaluate: evaluate, Project: func(n int, x, u, next, j, margins []float64) {
				for i := range n {
					p.Project(x[3*i:3*i+2], x[3*i+2:3*i+3], u[i:i+1])
				}
				evaluate(n, x, u, next, j, margins)
			}}
		}, nil
	}}
}

// A front's points are the same whether their roll-outs step together or alone, on any number of threads, near the limits too.
func TestAFrontStepsTogetherAsAlone(t *testing.T) {
	cart := testdomain.NewCart(cartSteps)
	m := testdomain.Map(cart, 5, false)
	for _, s := range [][]float64{{-0.5, 0.2}, {1.7, 0.6}, {2.3, 0.9}, {-2.5, -1}} {
		obs := Observation{S: s, C: []float64{0}}
		var want *Front
		for i, of := range []struct {
			p       domain.Problem
			threads int
		}{{cart, 1}, {many{cart}, 1}, {many{cart}, 3}, {cart, 2}} {
			b := require.Get(cpufallback.New(cpufallback.Options{Threads: of.threads}))(t)
			defer b.Close()
			fronts := require.Get(NewFronts(b, m, of.p, Options{}))(t)
			if len(fronts.workers) != of.threads || fronts.rows != serialRows {
				t.Errorf("%d workers of %d rows, want %d", len(fronts.workers), fronts.rows, of.threads)
			}
			f := require.Get(fronts.Front(t.Context(), obs, FrontOptions{Points: 300, LookAhead: 6, Threads: of.threads}))(t)
			if i == 0 {
				want = f
			}
			if len(f.Points) != len(want.Points) {
				t.Fatalf("%d points, want %d", len(f.Points), len(want.Points))
			}
			for k, q := range f.Points {
				w := want.Points[k]
				if math.Abs(q.U[0]-w.U[0]) > 1e-12 || math.Abs(q.J[0]-w.J[0]) > 1e-9*(1+w.J[0]) || math.Abs(q.J[1]-w.J[1]) > 1e-9*(1+w.J[1]) || math.Abs(q.Margin-w.Margin) > 1e-9 || q.Feasible != w.Feasible {
					t.Fatalf("from %v, point %d: %+v, want %+v", s, k, q, w)
				}
			}
		}
	}
	failing := errors.New("no such values")
	values, margins := valueless{cart, failing, true}, valueless{cart, failing, false}
	for _, err := range []error{
		second(NewFronts(ref.New(), m, values, Options{})), second(NewNavigator(ref.New(), m, values, Options{Search: SearchOptions{Candidates: 1}})),
		second(NewNavigator(ref.New(), m, margins, Options{Direct: true, Guard: &domain.Guard{}})),
	} {
		if !errors.Is(err, failing) {
			t.Errorf("error %v", err)
		}
	}
}

// valueless is the cart whose many values, or many margins, are an error.
type valueless struct {
	*testdomain.Cart
	err    error
	values bool
}

func (p valueless) Abilities() *domain.ProblemAbilities {
	if p.values {
		return &domain.ProblemAbilities{ManyValues: func() (func() domain.ManyValues, error) { return nil, p.err }}
	}
	return &domain.ProblemAbilities{ManyMargins: func() (domain.ManyMargins, error) { return nil, p.err }}
}
