package batchnav

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// manyMargins is speeding whose margins are evaluated together, at most some at once.
type manyMargins struct {
	speeding
	most  int
	calls *int
}

func (p manyMargins) Most() int { return p.most }

func (p manyMargins) Evaluate(n int, x, u, next, margins []float64) {
	*p.calls++
	for i := range n {
		p.Margins(x[3*i:3*i+2], x[3*i+2:3*i+3], u[i:i+1], margins[2*i:2*i+2])
	}
}

func (p manyMargins) Abilities() *domain.ProblemAbilities {
	may := p.speeding.Abilities()
	may.ManyMargins = func() (domain.ManyMargins, error) { return p, nil }
	return may
}

// A guard that evaluates margins of several steps together accepts what one does that takes step after step, to the bit: plans, where they lead,
// margins and failures, of any number at once, far from the limits, at them, and beyond.
func TestGuardEvaluatesMarginsTogetherAsAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	m := testdomain.Map(testdomain.NewCart(cartSteps), 5, false)
	saved := 0
	for trial := range 30 {
		limit := 0.3 + 1.5*rng.Float64()
		s, pref := []float64{-2.5 + 4.6*rng.Float64(), -1 + 2.2*rng.Float64()}, simplex(rng.Float64())
		steps := rng.IntN(8)
		o := Options{Direct: true, NoRescue: trial%2 == 0, Guard: &domain.Guard{Steps: steps}}
		for _, most := range []int{1, 2, 3, 100} {
			alone, together := newSpeeding(limit), manyMargins{newSpeeding(limit), most, new(int)}
			a, b := require.Get(NewNavigator(ref.New(), m, alone, o))(t), require.Get(NewNavigator(ref.New(), m, together, o))(t)
			at, c := slices.Clone(s), []float64{0}
			for h := range 3 {
				d, e := require.Get(a.Decide(at, c, pref))(t), require.Get(b.Decide(at, c, pref))(t)
				p, q := &a.batch.loops[0].guard.accepted, &b.batch.loops[0].guard.accepted
				if d.Fallback != e.Fallback || !slices.Equal(d.U, e.U) || !slices.Equal(p.actions, q.actions) || !slices.Equal(p.s, q.s) || !slices.Equal(p.c, q.c) || p.fails != q.fails || p.steps != q.steps ||
					p.margin != q.margin || p.keepsLimits() && (!slices.Equal(p.endS, q.endS) || !slices.Equal(p.endC, q.endC)) {
					t.Fatalf("from %v below %g over %d, decision %d, %d at once: %v and %+v, want %v and %+v", s, limit, steps, h, most, e.Fallback, q, d.Fallback, p)
				}
				testdomain.NewCart(cartSteps).Step(slices.Clone(at), slices.Clone(c), d.U, at, c)
			}
			if most > 3 && *together.calls > 0 && *together.calls < 3*12 {
				saved++
			}
		}
	}
	if saved == 0 {
		t.Error("every step was evaluated alone")
	}
}

// The leading steps whose margins are sure are those above rounding, relative to the largest of each margin.
func TestSureMargins(t *testing.T) {
	for _, c := range []struct {
		margins []float64 // of two a step
		steps   int
		least   float64
	}{
		{[]float64{1, 5, 2, 0.5, 3, 7}, 3, 0.5}, {[]float64{1, 5, 2, -0.5, 0.1, 7}, 1, 1}, {[]float64{-1, 5, 2, 3, 3, 7}, 0, math.Inf(1)}, {[]float64{1, 5, math.NaN(), 3, 3, 7}, 0, math.Inf(1)},
		{[]float64{1, 1e6, 1, 0.9, 1, 1}, 1, 1}, {[]float64{1, 1e6, 1, 1.1, 1, 1.2}, 3, 1}, {[]float64{1, -1e6, 1, 0.9, 1, 1}, 0, math.Inf(1)}, {[]float64{1.9e-6, 1, 1, 1, 1, 1}, 0, math.Inf(1)}, {[]float64{2.1e-6, 1, 1, 1, 1, 1}, 3, 2.1e-6},
	} {
		m := &marginBatch{margins: c.margins, size: make([]float64, 2)}
		if steps, least := m.sure(3); steps != c.steps || least != c.least {
			t.Errorf("%v: %d steps, the least %g", c.margins, steps, least)
		}
	}
	for _, c := range []struct {
		margins []float64
		want    bool
	}{{[]float64{1, 1e-3}, true}, {[]float64{1, 0.9e-6}, false}, {[]float64{1.1e-6}, true}, {[]float64{-1}, false}, {[]float64{math.NaN(), 1}, false}, {[]float64{math.Inf(1)}, true}} {
		if surelyKept(c.margins) != c.want {
			t.Errorf("%v", c.margins)
		}
	}
}
