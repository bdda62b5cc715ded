package closedloop

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// sampler is path integral control of a cart before its first decision.
func sampler(t *testing.T, o pathOptions) *pathIntegral {
	t.Helper()
	c, err := newPathIntegral(testdomain.NewCart(12), o)
	if err != nil {
		t.Fatal(err)
	}
	k := c.(*pathIntegral)
	if err := k.Reset(nil); err != nil {
		t.Fatal(err)
	}
	return k
}

// A name says the candidates and, where it has them, all constants; others are no method.
func TestPathIntegralNames(t *testing.T) {
	cart := testdomain.NewCart(12)
	for name, want := range map[string]bool{
		"mppi-8": true, "mppi-1048576": true, "mppi-7": false, "mppi-1048577": false, "mppi-064": false, "mppi-x": false, "mppi": false, "mppi-64-0.2": false,
		"mppi-64-0.2-0.1-0.9-100": true, "mppi-64-0.2-0.1-1-100": false, "mppi-64-0.2-0.1-0.9-1000001": false, "mppi-64--1-0.1-0.9-1": false, "mppi-64-0-0-0-0": true,
		"nmpc-64": false,
	} {
		if m, ok := pathMethod(cart, name); ok != want || ok && m.Name != name {
			t.Errorf("%s: %v, %q", name, ok, m.Name)
		}
	}
}

// The first candidate is the plan. The others lie about it with the stated deviation, as a share of half the range, which from one
// decision to the next is correlated as stated; none leaves the range.
func TestPathIntegralSamples(t *testing.T) {
	const n, steps = 20000, 6
	k := sampler(t, pathOptions{candidates: n, noise: 0.1, correlation: 0.6})
	for h := range steps {
		k.plan[h] = 0.05 * float64(h)
	}
	k.sample(steps)
	at := func(h, i int) float64 { return k.plans[h*n+i] - k.plan[h] }
	for h := range steps {
		sum, squares, product := 0.0, 0.0, 0.0
		for i := range n {
			sum, squares = sum+at(h, i), squares+at(h, i)*at(h, i)
			if h > 0 {
				product += at(h, i) * at(h-1, i)
			}
		}
		if at(h, 0) != 0 || math.Abs(sum/n) > 3e-3 || math.Abs(math.Sqrt(squares/n)-0.1) > 3e-3 || h > 0 && math.Abs(product/squares-0.6) > 0.03 {
			t.Errorf("decision %d: the plan is off by %g, candidates by %g ± %g, correlated by %g", h, at(h, 0), sum/n, math.Sqrt(squares/n), product/squares)
		}
	}
	k.opt.noise, k.plan[0] = 5, 3
	k.sample(1)
	if lo, hi := slices.Min(k.plans[:n]), slices.Max(k.plans[:n]); lo != -1 || hi != 1 || k.plans[0] != 1 {
		t.Errorf("actions from %g to %g, the plan's %g", lo, hi, k.plans[0])
	}
}

// A candidate costs what the problem's functions say along it, with the margins that it breaks apart, in whatever groups they step.
func TestPathIntegralCosts(t *testing.T) {
	cart := testdomain.NewCart(12)
	const n, steps = 300, 5
	k := sampler(t, pathOptions{candidates: n, noise: 0.8, correlation: 0.5})
	k.sample(steps)
	start, violated := []float64{1.95, 0.3}, 0
	for _, pref := range []domain.Preference{{Adaptive: true}, {W: []float64{0.3, 0.7}}} {
		k.rollOut(start, []float64{0}, pref, steps, 0, pathGroup)
		k.rollOut(start, []float64{0}, pref, steps, pathGroup, n)
		for i := range n {
			s, c, next, nextC := slices.Clone(start), []float64{0}, make([]float64, 2), make([]float64, 1)
			cost, off := 0.0, 0.0
			j, m, delta, sigma := make([]float64, 2), make([]float64, 2), make([]float64, 2), []float64{0.3, 0.7}
			for h := range steps {
				u := k.plans[h*n+i : h*n+i+1]
				if cart.Objectives(s, u, c, j); pref.Adaptive {
					cart.Indicators(s, u, c, delta)
					cart.Spec().Semantic.Priority(delta, sigma)
				}
				cost += sigma[0]*j[0] + sigma[1]*j[1]
				cart.Margins(s, c, u, m)
				if least := domain.Smallest(m); !cart.Spec().Keeps(least) {
					off -= least
				}
				cart.Step(s, c, u, next, nextC)
				s, next, c, nextC = next, s, nextC, c
			}
			if math.Abs(k.costs[i]-cost) > 1e-12*(1+cost) || math.Abs(k.violations[i]-off) > 1e-12 {
				t.Fatalf("candidate %d costs %g and breaks limits by %g, want %g and %g", i, k.costs[i], k.violations[i], cost, off)
			}
			if off > 0 {
				violated++
			}
		}
	}
	if violated == 0 {
		t.Error("no candidate breaks a limit")
	}
}

// The mean weighs candidates by their costs with the penalty: it does not change where all cost more, where they are counted in another
// unit, or in their order, and a candidate without a finite cost has no part in it. Equal costs weigh the same.
func TestPathIntegralMeans(t *testing.T) {
	const n, steps = 40, 3
	rng := rand.New(rand.NewPCG(1, 2))
	k := sampler(t, pathOptions{candidates: n, noise: 0.3, temperature: 0.2, correlation: 0.5})
	k.sample(steps)
	costs, plans, order := make([]float64, n), slices.Clone(k.plans), rng.Perm(n)
	for i := range costs {
		costs[i] = 5 + rng.Float64()
	}
	mean := func(unit float64, cost func(i int) (cost, violation float64), order []int) []float64 {
		k.unit = unit
		for i, from := range order {
			k.costs[i], k.violations[i] = cost(from)
			for h := range steps {
				k.plans[h*n+i] = plans[h*n+from]
			}
		}
		k.average(steps)
		return slices.Clone(k.plan[:steps])
	}
	same := make([]int, n)
	for i := range same {
		same[i] = i
	}
	want := mean(0, func(i int) (float64, float64) { return costs[i], float64(i) }, same)
	agree := func(what string, got []float64) {
		for h := range want {
			if math.Abs(got[h]-want[h]) > 1e-9 {
				t.Errorf("%s: the mean is %v, want %v", what, got, want)
				return
			}
		}
	}
	agree("dearer", mean(0, func(i int) (float64, float64) { return costs[i] + 100, 0 }, same))
	agree("another unit", mean(0, func(i int) (float64, float64) { return 1e3 * costs[i], 0 }, same))
	agree("another order", mean(0, func(i int) (float64, float64) { return costs[i], 0 }, order))
	agree("half of it is a penalty", mean(4, func(i int) (float64, float64) { return costs[i] / 2, costs[i] / 8 }, same))
	ranked := slices.Clone(costs)
	slices.Sort(ranked)
	direct, sum := make([]float64, steps), 0.0
	for i, c := range costs {
		w := math.Exp(-(c - ranked[0]) / (0.2 * (ranked[n/4] - ranked[0])))
		sum += w
		for h := range direct {
			direct[h] += w * plans[h*n+i]
		}
	}
	for h := range direct {
		direct[h] /= sum
	}
	agree("as published", direct)
	want = make([]float64, steps)
	for h := range want {
		want[h] = (plans[h*n+3] + plans[h*n+8]) / 2
	}
	agree("two of all", mean(1, func(i int) (float64, float64) {
		switch i {
		case 3, 8:
			return 1, 0
		case 5:
			return math.NaN(), 0
		}
		return 1, math.Inf(1)
	}, same))
	agree("none", mean(1, func(int) (float64, float64) { return math.Inf(1), 0 }, same))
}

// From decision to decision the plan moves on by one, also where one is missed. It is the same from the same start, has as many
// actions as are left, and costs less than no action.
func TestPathIntegralDecides(t *testing.T) {
	cart := testdomain.NewCart(12)
	pref := domain.Preference{W: []float64{0.9, 0.1}}
	drive := func() (actions []float64, cost float64) {
		k := sampler(t, pathOptions{candidates: 200, noise: 0.3, temperature: 0.1, correlation: 0.8, penalty: 100})
		s, c, next, nextC, j := []float64{-1.4, 0.2}, []float64{0}, make([]float64, 2), make([]float64, 1), make([]float64, 2)
		for h := range 12 {
			u := []float64{9}
			d, err := k.Decide(s, c, pref, u)
			if err != nil || len(d.Ahead) != 12-h || u[0] < -1 || u[0] > 1 {
				t.Fatalf("decision %d: %v, %d actions ahead, %v", h, err, len(d.Ahead), u)
			}
			if h < 11 && !slices.Equal(k.plan[:11-h], d.Ahead[1:]) {
				t.Errorf("decision %d: the plan goes on with %v, decided were %v", h, k.plan, d.Ahead)
			}
			cart.Objectives(s, u, c, j)
			cost += pref.W[0]*j[0] + pref.W[1]*j[1]
			cart.Step(s, c, u, next, nextC)
			s, next, c, nextC = next, s, nextC, c
			actions = append(actions, u[0])
		}
		return actions, cost
	}
	actions, cost := drive()
	if repeated, _ := drive(); !slices.Equal(actions, repeated) {
		t.Error("a second loop decides otherwise")
	}
	idle, s, j := 0.0, []float64{-1.4, 0.2}, make([]float64, 2)
	next, c := make([]float64, 2), []float64{0}
	for range 12 {
		cart.Objectives(s, []float64{0}, c, j)
		idle += pref.W[0]*j[0] + pref.W[1]*j[1]
		cart.Step(s, c, []float64{0}, next, make([]float64, 1))
		s, next = next, s
	}
	if !(cost < 0.95*idle) {
		t.Errorf("the loop costs %g, without actions %g", cost, idle)
	}
	k := sampler(t, pathOptions{candidates: 8})
	copy(k.plan, []float64{1, 2, 3})
	k.t = 1
	k.Abilities().Missed(nil, nil, nil)
	if k.plan[0] != 2 || k.plan[1] != 3 || k.t != 2 {
		t.Errorf("after a missed decision, number %d, the plan is %v", k.t, k.plan)
	}
}
