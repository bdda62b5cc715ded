package closedloop

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// bar keeps |u − s| ≤ 10 with a margin of that, and falls back to s.
type bar struct{ domain.Problem }

func (bar) Spec() *domain.Spec {
	return &domain.Spec{Name: "bar", StepSeconds: 0.25, Steps: 20, Measured: []domain.Variable{{Name: "s", Lo: -2, Hi: 2}}, Context: []domain.Variable{{Name: "c"}},
		Action: []domain.Variable{{Name: "u"}}, Objectives: []domain.Variable{{Name: "j"}}, Margins: []domain.Variable{{Name: "m"}}}
}
func (bar) Margins(s, c, u, m []float64)         { m[0] = 10 - math.Abs(u[0]-s[0]) }
func (bar) Fallback(s, c, u []float64)           { u[0] = s[0] }
func (bar) Objectives(s, u, c, j []float64)      { j[0] = u[0] * u[0] }
func (bar) Step(s, c, u, sNext, cNext []float64) { sNext[0], cNext[0] = s[0]+u[0], c[0] }

// A declared time is one that can be: above 0, and the 99th percentile no less than the median.
func TestComputingTimesAreOrdered(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for c, want := range map[Computing]bool{
		{1, 1}: true, {1, 2}: true, {1e-9, 1e9}: true, {0, 1}: false, {-1, 1}: false, {2, 1}: false, {1, inf}: false, {inf, inf}: false, {nan, 1}: false, {1, nan}: false,
	} {
		if err := c.Validate(); (err == nil) != want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Without spread a decision takes what is declared. One that ends with its period is in time, one that ends later is late, and
// none begins in a period that the one before fills.
func TestPaceOfAConstantTime(t *testing.T) {
	for periods, want := range map[float64]string{ // . in time, l late, - not made
		0.5: "......", 1: "......", 1.5: "ll-ll-ll-", 2: "l-l-l-", 3: "l--l--", 1.25: "llll-llll-",
	} {
		us := periods * 0.25e6
		p, got := newPace(&Computing{us, us}, &domain.Case{Problem: bar{}}, nil, 1, 0), ""
		for range want {
			switch decides, late := p.next(); {
			case !decides && late:
				got += "-"
			case decides && late:
				got += "l"
			case decides:
				got += "."
			}
		}
		if got != want {
			t.Errorf("%g periods: %s, want %s", periods, got, want)
		}
	}
	p := newPace(nil, &domain.Case{Problem: bar{}}, nil, 1, 0)
	if decides, late := p.next(); !decides || late {
		t.Errorf("without a computing time: decides %v, late %v", decides, late)
	}
}

// Times have the declared median and 99th percentile, and depend on the seed and the episode alone.
func TestPaceIsLognormal(t *testing.T) {
	times := func(seed uint64, episode int) (all []float64) {
		p := newPace(&Computing{250, 1000}, &domain.Case{Problem: bar{}}, nil, seed, episode) // 0.001 and 0.004 periods
		for range 20000 {
			p.next()
			all = append(all, (p.free-float64(p.t-1))*0.25e6)
		}
		return all
	}
	first := times(3, 4)
	if !slices.Equal(first, times(3, 4)) || slices.Equal(first, times(4, 4)) || slices.Equal(first, times(3, 5)) {
		t.Error("times do not depend on seed and episode alone")
	}
	slices.Sort(first)
	for quantile, want := range map[float64]float64{0.01: 62.5, 0.5: 250, 0.99: 1000} { // symmetric in the logarithm
		if got := first[int(quantile*float64(len(first)))]; math.Abs(got/want-1) > 0.06 {
			t.Errorf("quantile %g is %g µs, want %g", quantile, got, want)
		}
	}
}

// Where a decision is late the plan before it goes on, from where its period is in that plan, and the new plan from the period on in
// which it is ready. The method is told what was executed.
func TestALateDecisionIsAPlanForLater(t *testing.T) {
	want := []float64{-5, 1, 11, 12, 31, 41, 42} // plans of periods 0, 1, 3 and 4 are ready at 1.5, 3, 4.5 and 6
	for _, delay := range []float64{0, 1} {
		var executed, missed []float64
		abilities := &domain.ControllerAbilities{
			Executed: func(u []float64) { executed = append(executed, u[0]) },
			Missed: func(s, c, u []float64) {
				missed = append(missed, u[0])
				if (s == nil) != (delay > 0) || (c == nil) != (delay > 0) {
					t.Errorf("delay %g: missed at %v, %v", delay, s, c)
				}
			},
		}
		cs := &domain.Case{Problem: bar{}, Delay: domain.Delay{Periods: delay}}
		p := newPace(&Computing{1.5 * 0.25e6, 1.5 * 0.25e6}, cs, abilities, 1, 0)
		var got []float64
		for period := range 7 {
			u := []float64{float64(10 * period)}
			d := domain.Decided(true)
			for k := range 4 {
				d.Ahead = append(d.Ahead, u[0]+float64(k))
			}
			if period == 6 {
				d.Ahead = nil
			}
			p.next()
			s := []float64{want[period]}
			if period > 0 {
				s[0]++ // where the fallback is
			}
			r := p.executed(d, s, []float64{0}, u)
			got = append(got, u[0])
			if want := domain.FallbackIncumbent; period > 0 && r.Fallback != want || period == 0 && r.Fallback != domain.FallbackConservative {
				t.Errorf("delay %g, period %d: fallback %v", delay, period, r.Fallback)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("delay %g: executed %v, want %v", delay, got, want)
		}
		if made := []float64{got[0], got[1], got[3], got[4], got[6]}; !slices.Equal(executed, made) || !slices.Equal(missed, []float64{got[2], got[5]}) {
			t.Errorf("delay %g: told of %v, and without a decision of %v", delay, executed, missed)
		}
	}
}

// What is executed in the place of a late decision is the plan's action where it keeps the limits or breaks them no more than
// the fallback; elsewhere the fallback. In a state that is not the action's the plan's action is taken as it is.
func TestHoldTakesThePlanOrTheFallback(t *testing.T) {
	const incumbent, conservative = domain.FallbackIncumbent, domain.FallbackConservative
	s := []float64{3}
	for _, c := range []struct {
		name      string
		p         domain.Problem
		next      []float64
		exact     bool
		u, margin float64
		source    domain.Fallback
	}{
		{"keeps the limits", bar{}, []float64{12}, true, 12, 1, incumbent},
		{"to the limit", bar{}, []float64{13}, true, 13, 0, incumbent},
		{"breaks a limit", bar{}, []float64{14}, true, 3, 10, conservative},
		{"no plan", bar{}, nil, true, 3, 10, conservative},
		{"a plan of no number", bar{}, []float64{math.NaN()}, true, 3, 10, conservative},
		{"of another state", bar{}, []float64{99}, false, 99, math.NaN(), incumbent},
		{"no plan of another state", bar{}, nil, false, 3, 10, conservative},
		{"no worse than the fallback", farBar{}, []float64{23}, true, 23, -10, incumbent},
		{"worse than the fallback", farBar{}, []float64{24}, true, 23, -10, conservative},
	} {
		u := []float64{7}
		margin, source := Hold(c.p, s, []float64{0}, c.next, c.exact, u)
		if u[0] != c.u || source != c.source || margin != c.margin && !(math.IsNaN(margin) && math.IsNaN(c.margin)) {
			t.Errorf("%s: %g by %v with a margin of %g", c.name, u[0], source, margin)
		}
	}
}

// farBar is bar with a fallback that breaks its limit by 10.
type farBar struct{ bar }

func (farBar) Fallback(s, c, u []float64) { u[0] = s[0] + 20 }

// A bound of a decision is the method's own, or that of the problem; what has none, or too large a one, is counted.
func TestGapBoundsAreCounted(t *testing.T) {
	gap := gapOf(func(s, c []float64, pref domain.Preference, u []float64) float64 { return 0.25 })
	for _, c := range []struct {
		gap       gapOf
		own, want float64
	}{{gap, 0, 0.25}, {gap, 0.5, 0.5}, {nil, 0, 0}, {nil, 0.5, 0.5}} {
		if got := c.gap.bounded(domain.Decision{Gap: c.own}, nil, nil, domain.Preference{}, nil).Gap; got != c.want {
			t.Errorf("own bound %g: %g, want %g", c.own, got, c.want)
		}
	}
	if gapBounds(nil) != nil {
		t.Error("bounds of no decision")
	}
	const largest = domain.LargestGap
	b := gapBounds([]float64{3 * largest, 0, math.NaN(), largest, math.Inf(1), largest / 2})
	if b.N != 4 || b.Exceeding != 3 || math.Abs(float64(b.Mean)-100*4.5*largest/4) > 1e-12 || math.Abs(float64(b.Max)-300*largest) > 1e-12 || !(b.P99 <= b.Max && b.P99 > b.Mean) {
		t.Errorf("%+v", b)
	}
	if b = gapBounds([]float64{math.Inf(1)}); b.N != 0 || b.Exceeding != 1 || !math.IsNaN(float64(b.Max)) {
		t.Errorf("no bound: %+v", b)
	}
}

// What exceeds soft limits is counted by decision and by episode; the largest is that of its episode. A margin of 0 exceeds nothing.
func TestSoftLimitsAreCounted(t *testing.T) {
	var all softLimits
	decisions := 0
	for episode, margins := range [][][]float64{{{1, -2}, {0, -3}, {2, 5}}, {{-1, 1}, {3, 1}}, {{1, -3}}} {
		var sum score
		for _, m := range margins {
			sum.soft(m)
			decisions++
		}
		all.add(&EpisodeRecord{Episode: episode + 10, End: End{Excess: sum.excess, Exceeding: sum.exceeding}})
	}
	want := []SoftStatistics{{"hot", "K", 1, 11, 1, Number(1.0 / 6), 1}, {"full", "m", 3, 10, 3, 0.5, 2}}
	if got := all.statistics([]SoftLimit{{"hot", "K"}, {"full", "m"}}, decisions); !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if got := all.statistics([]SoftLimit{{"hot", "K"}}, decisions); got != nil {
		t.Errorf("of other limits: %+v", got)
	}
}
