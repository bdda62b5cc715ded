package crossentropy

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/tensor"
)

// sphere tells the sampler the squared distance of every candidate to target.
func sphere(s *Sampler, n int, target float32) (gained bool) {
	x := s.Ask(n)
	cost, margin := make([]float64, n), make([]float64, n)
	for i := range n {
		for _, v := range x.Row(i) {
			cost[i] += float64(v-target) * float64(v-target)
		}
	}
	return s.Tell(cost, margin, tensor.New(n, 0))
}

func unit(n int) []float64 {
	u := make([]float64, n)
	for i := range u {
		u[i] = 1
	}
	return u
}

// Rounds come ever closer to a minimum that lies many spreads away.
func TestFindsAMinimum(t *testing.T) {
	s := New(Options{Unit: unit(2), Round: 64, Seed: 3})
	m := s.NewMemory()
	s.Begin(m, 1)
	for range 40 {
		sphere(s, 64, 0.5)
	}
	if best := m.Best(); !(best.Cost < 1e-4) {
		t.Errorf("%v costs %g, the beginning 0.5", best.Offsets, best.Cost)
	}
}

// The elites of a decision, one step on, are candidates of the next, to the bit, and hold
// behind the last step; the spread, linear between its knots, stays so at every step left.
func TestRemembersOneStepOn(t *testing.T) {
	const steps = 12
	s := New(Options{Unit: unit(3), Round: 16})
	m := s.NewMemory()
	for was := 1; was <= steps; was++ {
		for _, now := range []int{was - 1, was, was + 2} { // with and without the end known
			if now == 0 {
				continue
			}
			m.steps, m.kept = was, 2
			for i := range 2 {
				m.elites[i].Offsets = make([]float32, 3*was)
				for j := range m.elites[i].Offsets {
					m.elites[i].Offsets[j] = float32(math.Sin(float64(17*i + j)))
				}
			}
			old := [2][]float32{slices.Clone(m.elites[0].Offsets), slices.Clone(m.elites[1].Offsets)}
			line := func(h float64, j int) float64 { return 3 + 0.3*float64(j) - 0.1*h }
			knots := min(MostKnots, was)
			for k := range knots {
				for j := range 3 {
					m.spread[3*k+j] = line(float64(k*(was-1))/float64(max(1, knots-1)), j)
				}
			}
			s.Begin(m, now)
			if s.given != 3 {
				t.Fatalf("%d candidates of two elites", s.given)
			}
			for k := range s.knots {
				at := min(1+float64(k*(now-1))/float64(max(1, s.knots-1)), float64(was-1))
				for j := range 3 {
					if got, want := s.spread[3*k+j], growth*line(at, j); math.Abs(got-want) > 1e-5 {
						t.Errorf("%d steps after %d, knot %d: spread %g, want %g", now, was, k, got, want)
					}
				}
			}
			x := s.Ask(16)
			for h := range now {
				for j := range 3 {
					n := 3*min(h+1, was-1) + j
					if x.Row(0)[3*h+j] != 0 || x.Row(1)[3*h+j] != old[0][n] || x.Row(2)[3*h+j] != old[1][n] || s.mean[3*h+j] != float64(old[0][n]) {
						t.Errorf("%d steps after %d, step %d: first offset %g, elites' %g, %g, mean %g", now, was, h, x.Row(0)[3*h+j], x.Row(1)[3*h+j], x.Row(2)[3*h+j], s.mean[3*h+j])
					}
				}
			}
		}
	}
	m.Forget()
	if s.Begin(m, 1); s.given != 1 || s.spread[0] != firstSpread {
		t.Errorf("after a reset there are %d candidates and a spread of %g", s.given, s.spread[0])
	}
}

// A later round begins with the elites' mean. Of the draws about it one in four is wide,
// and one in four a far offset that is held throughout.
func TestRoundsTryTheMean(t *testing.T) {
	const n, size, steps = 64, 30, 9
	s := New(Options{Unit: unit(size), Round: n, Seed: 3})
	s.Begin(s.NewMemory(), steps)
	for round := range 3 {
		was := slices.Clone(s.mean)
		x := s.Ask(n)
		for j, v := range x.Row(0) {
			if math.Abs(float64(v)-was[j]) > 1e-6 {
				t.Errorf("round %d: the first candidate is %g at %d, the mean %g", round, v, j, was[j])
			}
		}
		counted := [3]int{}
		for i := 1; i < n; i++ {
			o := x.Row(i)
			isHeld, spreads, far := true, 0.0, 0.0
			for j, v := range o {
				d := float64(v) - was[j]
				isHeld = isHeld && math.Abs(d-(float64(o[j%size])-was[j%size])) < 1e-6
				if j < size {
					spreads += d * d / (s.spread[j] * s.spread[j])
					far += d * d
				}
			}
			switch {
			case isHeld && far > 0.25*HeldSpread*HeldSpread*size:
				counted[2]++
			case !isHeld && spreads > 4*size:
				counted[1]++
			case !isHeld && spreads > size/4:
				counted[0]++
			}
		}
		if counted != [3]int{n / 2, n / 4, n/4 - 1} {
			t.Errorf("round %d: %d draws are of the spread, wide and held, of %d", round, counted, n-1)
		}
		cost, margin := make([]float64, n), make([]float64, n)
		for i := range n {
			for _, v := range x.Row(i) {
				cost[i] += (float64(v) - 0.5) * (float64(v) - 0.5)
			}
		}
		s.Tell(cost, margin, tensor.New(n, 0))
	}
}

// A candidate without a margin is no elite, one without a cost is worse than any that
// keeps its margin, and of those that keep none the largest margin is best.
func TestOrder(t *testing.T) {
	nan, lost := math.NaN(), math.Inf(-1)
	s := New(Options{Unit: unit(1), Round: 16, Payload: 1, Tolerance: 1e-6})
	m := s.NewMemory()
	payload := tensor.New(16, 1)
	for i := range 16 {
		payload.Row(i)[0] = float32(i)
	}
	for _, c := range []struct {
		cost, margin [4]float64
		best         int
	}{
		{[4]float64{4, 3, 2, 1}, [4]float64{0, 1, -1e-7, -1}, 2},
		{[4]float64{4, 3, 2, 1}, [4]float64{-4, -1, -2, nan}, 1},
		{[4]float64{nan, 3, 2, 1}, [4]float64{1, -3, -0.5, lost}, 0},
		{[4]float64{nan, 3, 2, 1}, [4]float64{1, 0, lost, nan}, 1},
		{[4]float64{1, 1, 1, 1}, [4]float64{lost, nan, lost, nan}, -1},
	} {
		m.Forget()
		s.Begin(m, 1)
		s.Ask(4)
		gained := s.Tell(c.cost[:], c.margin[:], payload)
		switch best := m.Best(); {
		case c.best < 0:
			if best != nil || gained {
				t.Errorf("%v: best is %+v", c, best)
			}
		case !gained || best == nil || best.Payload[0] != float32(c.best) || best.Margin != c.margin[c.best]:
			t.Errorf("%v: best is %+v", c, best)
		}
	}
}
