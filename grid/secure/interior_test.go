package secure

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// stirred is bordered at a random positive slack and multiplier of every limit, some modes fixed, with an angle limit.
func stirred(t *testing.T, name string, elastic, modes bool) *interior {
	p := bordered(t, name, elastic)
	rng := rand.New(rand.NewPCG(57, 5))
	for k, st := range p.states {
		if modes && k == 1 {
			c := st.modes()
			for g := range c.active {
				c.active[g] = 0
			}
			for i := range c.reactive {
				c.reactive[i] = int8(i%3 - 1)
			}
			st.setSwitching(c)
		}
		for i := range st.limits {
			st.s[i], st.z[i], st.elasticSlack[i], st.elasticDual[i] = 0.1+rng.Float64(), 0.1+rng.Float64(), 0.1+rng.Float64(), 0.1+rng.Float64()
		}
		if e := st.elastic; e != nil {
			for i := range e.row {
				e.slack[i], e.dual[i] = 0.1+rng.Float64(), 0.1+rng.Float64()
			}
		}
	}
	p.evaluate()
	return p
}

// conditions are the residuals of all conditions of an optimum with the products at mu. shifted is what a direction of the shifted
// matrix takes away more.
func (p *interior) conditions(mu float64, products func(t *state, i int) (hard, soft float64), shift, rho float64) (out, shifted []float64) {
	for _, t := range p.states {
		for v, r := range t.r {
			if t.omit[v] {
				continue
			}
			out, shifted = append(out, r), append(shifted, shift*t.d[v])
			if t.dual[v] {
				shifted[len(out)-1] = -rho * t.d[v]
			} else if t.after && slices.Contains(t.setPoints, v) {
				shifted[len(out)-1] = 0
			}
		}
		for i := range t.limits {
			slack, hard, soft := 0.0, 0.0, 0.0
			if products != nil {
				hard, soft = products(t, i)
			}
			if t.soft(i) {
				slack = t.elasticSlack[i]
				out, shifted = append(out, t.penalty[i]-t.z[i]-t.elasticDual[i], slack*t.elasticDual[i]-mu+soft), append(shifted, 0, 0)
			}
			out, shifted = append(out, t.h[i]-slack+t.s[i], t.s[i]*t.z[i]-mu+hard), append(shifted, 0, 0)
		}
		if e := t.elastic; e != nil {
			for i := range e.row {
				out, shifted = append(out, e.dualResidual(i, t), e.slack[i]*e.dual[i]-mu), append(shifted, 0, 0)
			}
		}
	}
	return out, shifted
}

// The direction is Newton's: a small step along it takes its own share of the residual of every condition away, with every kind of
// limit, soft and hard, with elastic balances and fixed modes. The second direction counts the products of the first.
func TestAStepTakesItsShareOfEveryResidual(t *testing.T) {
	for _, name := range []string{"case9", everyFeature} {
		for k := range 4 {
			p := stirred(t, name, k&1 > 0, k&2 > 0)
			kinds := map[limitKind]int{}
			for _, st := range p.states {
				for i := range st.limits {
					kinds[st.limits[i].kind]++
				}
			}
			const mu, shift, rho = 0.1, 1, 1e-2 // at random points the matrix may be singular without
			p.pivoted = true
			p.factorWith(shift, rho)
			p.direction(0, false)
			type product struct{ hard, soft float64 }
			first := map[*state][]product{}
			for _, st := range p.states {
				for i := range st.limits {
					first[st] = append(first[st], product{st.ds[i] * st.dz[i], st.dElasticSlack[i] * st.dElasticDual[i]})
				}
			}
			for _, second := range []bool{false, true} {
				if second && p.elastic {
					continue // the products of elastic balances are those of the conditions at mu alone
				}
				p.direction(mu, second)
				if worst, size := p.residual(); !(worst < 1e-6*size) {
					t.Fatalf("%s: the direction is off by %g of %g", name, worst, size)
				}
				products := func(st *state, i int) (float64, float64) { return first[st][i].hard, first[st][i].soft }
				if !second {
					products = nil
				}
				before, shifted := p.conditions(mu, products, shift, rho)
				clones, longest := p.clone(), 0.0
				for _, st := range p.states {
					for _, d := range [][]float64{st.d, st.ds, st.dz, st.dElasticSlack, st.dElasticDual} {
						longest = max(longest, slices.Max(d), -slices.Min(d))
					}
				}
				step := 1e-4 / longest
				p.move(step, step)
				p.evaluate()
				after, _ := p.conditions(mu, products, shift, rho)
				p.move(-2*step, -2*step)
				p.evaluate()
				behind, _ := p.conditions(mu, products, shift, rho)
				largest := 0.0
				for _, r := range before {
					largest = max(largest, math.Abs(r))
				}
				for i, r := range before {
					if got := (behind[i]-after[i])/(2*step) - shifted[i]; !(math.Abs(got-r) <= 1e-3*(0.01*largest+math.Abs(r))) {
						t.Fatalf("%s, elastic %v, second %v: condition %d of %d is %g, a step takes %g away", name, p.elastic, second, i, len(before), r, got)
					}
				}
				p.restore(clones)
				p.factorWith(shift, rho)
				p.direction(0, false)
			}
			if k&2 > 0 && kinds[shareLimit] == 0 || name == everyFeature && kinds[segmentLimit] == 0 {
				t.Errorf("%s: limits %v", name, kinds)
			}
		}
	}
}

// Norms, gap and objective are the largest and the sums over all states, and the lengths are the longest that leave a share of every
// slack and multiplier.
func TestMeasuresOfAnIterate(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		p := stirred(t, "case14", elastic, true)
		rng := rand.New(rand.NewPCG(57, 6))
		for trial := range 6 {
			for k, st := range p.states { // each trial has its largest entries elsewhere
				scale := func(n int) float64 { return rng.NormFloat64() * math.Pow(10, float64((trial+n+k)%6)/2) }
				for v := range st.r {
					st.r[v], st.x[v] = scale(0), scale(1)
				}
				for i := range st.limits {
					st.h[i], st.s[i], st.z[i] = scale(2), math.Abs(scale(3)), math.Abs(scale(4))
					st.elasticSlack[i], st.elasticDual[i] = math.Abs(scale(5)), math.Abs(scale(0))
					st.ds[i], st.dz[i], st.dElasticSlack[i], st.dElasticDual[i] = scale(1), scale(2), scale(3), scale(4)
				}
				if e := st.elastic; e != nil {
					for i := range e.row {
						e.slack[i], e.dual[i], e.dslack[i], e.ddual[i] = math.Abs(scale(2)), math.Abs(scale(3)), scale(0), scale(1)
					}
				}
			}
			var want norms
			gap, objective, count := 0.0, p.states[0].objective, 0.0
			primal, dual := 1.0, 1.0
			pair := func(s, z, ds, dz float64) {
				gap += s * z
				if s+ds < s*0.1 {
					primal = min(primal, -0.9*s/ds)
				}
				if z+dz < z*0.1 {
					dual = min(dual, -0.9*z/dz)
				}
			}
			for _, st := range p.states {
				for v, r := range st.r {
					if st.omit[v] {
						continue
					}
					count++
					want.average += math.Abs(r)
					if st.dual[v] {
						want.mismatch, want.multiplier = max(want.mismatch, math.Abs(r)), max(want.multiplier, math.Abs(st.x[v]))
					} else {
						want.gradient, want.x = max(want.gradient, math.Abs(r)), max(want.x, math.Abs(st.x[v]))
					}
				}
				for i := range st.limits {
					residual := st.h[i]
					pair(st.s[i], st.z[i], st.ds[i], st.dz[i])
					if st.soft(i) {
						residual -= st.elasticSlack[i]
						pair(st.elasticSlack[i], st.elasticDual[i], st.dElasticSlack[i], st.dElasticDual[i])
						objective += st.penalty[i] * st.elasticSlack[i]
						want.gradient = max(want.gradient, math.Abs(st.penalty[i]-st.z[i]-st.elasticDual[i]))
					}
					count++
					want.average += math.Abs(residual + st.s[i])
					want.violation, want.slack = max(want.violation, residual), max(want.slack, math.Abs(residual+st.s[i]))
					want.multiplier, want.s = max(want.multiplier, st.z[i]), max(want.s, st.s[i])
				}
				if e := st.elastic; e != nil {
					for i := range e.row {
						pair(e.slack[i], e.dual[i], e.dslack[i], e.ddual[i])
						objective += e.penalty * e.slack[i]
						want.gradient = max(want.gradient, math.Abs(e.penalty-e.sign[i]*st.x[e.row[i]]-e.dual[i]))
					}
				}
			}
			want.average /= count
			near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(math.Abs(a)+math.Abs(b)) }
			got := p.norms()
			for i, v := range [][2]float64{{got.gradient, want.gradient}, {got.mismatch, want.mismatch}, {got.violation, want.violation}, {got.slack, want.slack}, {got.x, want.x},
				{got.multiplier, want.multiplier}, {got.s, want.s}, {got.average, want.average}, {p.gap(), gap}, {p.objective(), objective}} {
				if !near(v[0], v[1]) {
					t.Errorf("elastic %v, measure %d: %g, want %g", elastic, i, v[0], v[1])
				}
			}
			if a, b := p.lengths(0.9); !near(a, primal) || !near(b, dual) {
				t.Errorf("elastic %v: lengths %g and %g, want %g and %g", elastic, a, b, primal, dual)
			}
		}
	}
}

// A start sets products to the barrier with slacks of at least the least one, and keeps what is larger. A soft limit without
// multiplier starts where its two multipliers make up the penalty.
func TestAStartIsAtItsBarrier(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		for _, point := range []initialPoint{coldStart, resumedStart, warmStart, {0.3, 0.02, true}} {
			p := stirred(t, "case14", elastic, false)
			rng := rand.New(rand.NewPCG(57, 7))
			for _, st := range p.states {
				for i := range st.limits {
					st.s[i], st.elasticDual[i] = 0, 0
					st.z[i], st.elasticSlack[i] = math.Exp(4*rng.NormFloat64()), math.Exp(4*rng.NormFloat64())
					if i%3 == 0 {
						st.z[i], st.elasticSlack[i] = 0, 0
					}
				}
			}
			p.shift, p.lastShift, p.barrier, p.iterations, p.error, p.lastObjective, p.limits = 1, 1, 1, 1, 1, 1, 1
			before := p.clone()
			p.begin(point)
			limits := 0
			for k, st := range p.states {
				was := before[k]
				for i := range st.limits {
					limits++
					least := point.slack
					if z := was.z[i]; point.usesMultipliers && z > 0 {
						least = min(least, point.barrier/z)
					}
					s, z, slack, dual := max(-st.h[i], least), was.z[i], 0.0, 0.0
					if st.soft(i) {
						limits++
						switch dual = max(st.penalty[i]-z, 1e-6*st.penalty[i]); {
						case z > 0:
							slack = max(was.elasticSlack[i], point.barrier/dual)
							s = max(slack-st.h[i], least)
						case point.usesMultipliers && !elastic:
							z = min(point.barrier/s, st.penalty[i]/2)
							dual = st.penalty[i] - z
							slack = point.barrier / dual
						default:
							z = st.z[i]
							dual = st.penalty[i] - z
							s, slack = point.barrier/z, point.barrier/dual
							if off := st.h[i] - slack + s; !(z > 0 && dual > 0) || z > 2e-9*st.penalty[i] && math.Abs(off) > 1e-6*(1+math.Abs(st.h[i])+s+slack) {
								t.Fatalf("limit %d: %g with slacks %g and %g is off by %g", i, st.h[i], s, slack, off)
							}
						}
					}
					if was.z[i] > 0 || !st.soft(i) {
						z = max(z, point.barrier/s)
					}
					for j, v := range [][2]float64{{st.s[i], s}, {st.z[i], z}, {st.elasticSlack[i], slack}, {st.elasticDual[i], dual}} {
						if !st.soft(i) && j > 1 {
							continue
						}
						if !(math.Abs(v[0]-v[1]) <= 1e-12*math.Abs(v[1])) {
							t.Fatalf("elastic %v, %+v, limit %d, soft %v: number %d is %g, want %g", elastic, point, i, st.soft(i), j, v[0], v[1])
						}
					}
				}
				if st.elastic != nil {
					limits += len(st.elastic.row)
				}
			}
			if p.limits != limits || p.shift != 0 || p.lastShift != 0 || p.barrier != 0 || p.iterations != 0 || !math.IsInf(p.error, 1) || !math.IsNaN(p.lastObjective) {
				t.Errorf("%d limits of %d; %+v", p.limits, limits, []float64{p.shift, p.lastShift, p.barrier, p.error, p.lastObjective})
			}
		}
	}
	p := &interior{}
	if p.startAfterSwitch() != switchedStart {
		t.Error("hard balances start elsewhere")
	}
	if p.elastic = true; p.startAfterSwitch() != resumedStart {
		t.Error("elastic balances start elsewhere")
	}
}

// Elastic balances begin without slacks and multipliers, at the same voltages and powers, also where they were elastic before.
func TestBalancesBecomeElastic(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		p := stirred(t, "case9", elastic, false)
		before := p.clone()
		p.relaxBalances()
		for k, st := range p.states {
			if !p.elastic || (st.elastic != nil) != (k > 0) || slices.ContainsFunc(st.z, func(z float64) bool { return z != 0 }) {
				t.Fatalf("state %d: elastic %v, multipliers %v", k, st.elastic != nil, st.z)
			}
			for v, x := range st.x {
				want := before[k].x[v]
				if k > 0 && st.dual[v] {
					want = 0
				}
				if x != want {
					t.Fatalf("state %d, variable %d is %g, want %g", k, v, x, want)
				}
			}
			if e := st.elastic; e != nil && (len(e.row) != 4*len(st.bus) || slices.Max(e.slack) != 0 || e.penalty != initialBalancePenalty) {
				t.Fatalf("%d entries at a penalty of %g, slacks up to %g", len(e.row), e.penalty, slices.Max(e.slack))
			}
		}
	}
}

// Penalties of slacks above the least one rise up to the largest penalty; their multipliers start anew.
func TestPenaltiesRise(t *testing.T) {
	p := stirred(t, "case9", true, false)
	st := p.states[1]
	for _, s := range p.states {
		for i := range s.limits {
			s.elasticSlack[i] = 0
		}
		if s.elastic != nil {
			clear(s.elastic.slack)
		}
	}
	if p.raisePenalties() {
		t.Fatal("penalties rise without slacks")
	}
	soft := slices.IndexFunc(st.limits, func(l limit) bool { return l.weight == voltageSeverity })
	flow := slices.IndexFunc(st.limits, func(l limit) bool { return l.kind == toFlowLimit })
	for _, c := range []struct {
		limit           int
		slack, penalty  float64 // of the limit's weight
		rises           bool
		elastic, factor float64
	}{
		{soft, 1.01 * minElasticSlack, initialPenalty, true, 0, 1}, {soft, minElasticSlack, initialPenalty, false, 0, 1}, {flow, 2 * minElasticSlack, initialPenalty, true, 0, 1},
		{soft, 1, maxPenalty, false, 0, 1}, {soft, 1, 0.99 * maxPenalty, true, 0, 1},
		{soft, 0, initialPenalty, false, minElasticSlack, 1}, {soft, 0, initialPenalty, false, 1.01 * minElasticSlack, penaltyGrowth}, {soft, 0, initialPenalty, false, -1, penaltyGrowth},
	} {
		w := st.limits[c.limit].weight
		st.elasticSlack[c.limit], st.penalty[c.limit], st.z[c.limit] = c.slack/w, c.penalty*w, 0.7
		e := st.elastic
		e.penalty = initialBalancePenalty
		e.slack[4], e.slack[5] = max(0, c.elastic), max(0, -c.elastic)
		raised := p.raisePenalties()
		want, z := c.penalty*w, 0.7
		if c.rises {
			want, z = want*penaltyGrowth, 0
		}
		if raised != (c.rises || c.factor > 1) || math.Abs(st.penalty[c.limit]/want-1) > 1e-12 || st.z[c.limit] != z || e.penalty != c.factor*initialBalancePenalty || (e.slack[4]+e.slack[5] == 0) != (c.factor > 1 || c.elastic == 0) {
			t.Errorf("%+v: raised %v, penalty %g, multiplier %g; of balances %g, slacks %v", c, raised, st.penalty[c.limit]/w, st.z[c.limit], e.penalty, e.slack[4:6])
		}
		st.elasticSlack[c.limit] = 0
	}
	e := st.elastic
	if e.penalty, e.slack[2], e.slack[3] = maxBalancePenalty, 1, 0; p.raisePenalties() {
		t.Error("the largest penalty of balances rises")
	}
	e.slack[6], e.slack[7] = 0.5, 3
	if row, slack := e.largest(); row != 6 || slack != 2.5 {
		t.Errorf("the largest net slack is %g of entry %d", slack, row)
	}
}

// The barrier is fixed from the first step that does not lower the error, until all conditions are within ten times of it; it
// falls to a fifth or to its power of 1.5, and not below the least.
func TestTheBarrierIsKept(t *testing.T) {
	p := stirred(t, "case9", true, false)
	products := func(value float64) {
		for _, st := range p.states {
			for i := range st.limits {
				st.s[i], st.z[i] = 1, value
			}
			if e := st.elastic; e != nil {
				for i := range e.row {
					e.slack[i], e.dual[i] = 1, value
				}
			}
		}
	}
	for i, c := range []struct {
		m                                 norms
		monotone                          bool
		error, barrier                    float64
		iterations                        int
		mean, least, length, product, off float64
		keeps                             bool
		wantBarrier, wantError            float64
	}{
		{m: norms{average: 0.4}, error: 1, mean: 0.5, keeps: false, wantError: 0.9},                                                                     // the error falls enough
		{m: norms{average: 0.41}, error: 1, mean: 0.5, iterations: 2, keeps: false, wantError: 0.91},                                                    // one of the first steps
		{m: norms{average: 0.41}, error: 1, mean: 0.5, iterations: 3, length: 0.11, keeps: false, wantError: 0.91},                                      // a long one
		{m: norms{average: 0.41}, error: 1, mean: 0.5, iterations: 3, length: 0.1, product: 0.5, off: 5.1, keeps: true, wantBarrier: 0.5, wantError: 1}, // a short one
		{m: norms{average: 0.4}, error: 1, mean: 0.5, monotone: true, off: 5.1, product: 0.5, keeps: true, wantBarrier: 0.5, wantError: 1},
		{m: norms{average: 0.41}, error: 1, barrier: 0.3, mean: 0.5, length: 1, product: 0.3, off: 3.1, keeps: true, wantBarrier: 0.3, wantError: 1},    // it was kept before
		{m: norms{average: 1}, error: 1, barrier: 0.3, length: 1, product: 0.3, off: 0.7, keeps: true, wantBarrier: 0.06, wantError: 1},                 // a fifth: 10 · 0.06 is below 0.7
		{m: norms{average: 1}, error: 1, barrier: 0.01, length: 1, product: 0.01, off: 0.05, keeps: true, wantBarrier: 0.001, wantError: 1},             // the power: below a fifth
		{m: norms{average: 1}, error: 1, barrier: 0.01, length: 1, least: 0.004, product: 0.01, keeps: true, wantBarrier: 0.004, wantError: 1},          // the least
		{m: norms{average: 1}, error: 1, barrier: 0.001, length: 1, least: 0.004, product: 0.01, off: 9, keeps: true, wantBarrier: 0.004, wantError: 1}, // below it
		{m: norms{average: 1}, error: 1, barrier: 0.1, length: 1, product: 1.2, keeps: true, wantBarrier: 0.1, wantError: 1},                            // products are off by 1.1
		{m: norms{average: 1, multiplier: 200}, error: 1, barrier: 0.1, length: 1, least: 0.02, product: 1.2, keeps: true, wantBarrier: 0.02, wantError: 1},
	} {
		for _, name := range []string{"mismatch", "slack", "gradient"} {
			m := c.m
			switch name {
			case "mismatch":
				m.mismatch = c.off
			case "slack":
				m.slack = c.off
			default:
				m.gradient = c.off * max(1, m.multiplier/100)
			}
			products(c.product)
			p.monotone, p.error, p.barrier, p.iterations = c.monotone, c.error, c.barrier, c.iterations
			if got := p.keepsBarrier(m, c.mean, c.least, c.length); got != c.keeps || math.Abs(p.barrier-c.wantBarrier) > 1e-12 || math.Abs(p.error-c.wantError) > 1e-12 {
				t.Errorf("case %d by its %s: kept %v, barrier %g, error %g", i, name, got, p.barrier, p.error)
			}
		}
	}
	for _, one := range []string{"limit", "balance"} { // one product alone is off
		products(0.1)
		last := p.states[len(p.states)-1]
		if one == "limit" {
			last.z[len(last.z)-1] = 1.2
		} else {
			last.elastic.dual[len(last.elastic.dual)-1] = 1.2
		}
		if p.monotone, p.barrier = true, 0.1; !p.keepsBarrier(norms{}, 1, 0.01, 1) || p.barrier != 0.1 {
			t.Errorf("one %s is off: barrier %g", one, p.barrier)
		}
	}
}

// A run ends by what happens first: the context's end, numbers that are none, the limit of iterations.
func TestARunEndsByItsReason(t *testing.T) {
	ended, stop := context.WithCancel(context.Background())
	stop()
	for want, change := range map[Status]func(p *interior) (context.Context, int){
		NotSolved:      func(p *interior) (context.Context, int) { return ended, 100 },
		Numerical:      func(p *interior) (context.Context, int) { p.states[1].z[0] = math.NaN(); return ended, 100 },
		IterationLimit: func(p *interior) (context.Context, int) { return context.Background(), 2 },
	} {
		p := bordered(t, "case9", false)
		ctx, most := change(p)
		var trace []Iterate
		p.trace = func(it Iterate) { trace = append(trace, it) }
		if got := p.run(ctx, most, finalTolerances); got != want || want == IterationLimit && p.iterations != 2 || len(trace) != p.iterations+1 {
			t.Errorf("%v after %d iterations, want %v", got, p.iterations, want)
		}
		first := trace[0]
		if want == NotSolved {
			m, gap, f := p.norms(), p.gap(), p.objective()
			k := KKT{Mismatch: m.mismatch, Violation: m.violation, Feasibility: max(m.mismatch, m.violation) / (1 + max(m.x, m.s)), Gradient: m.gradient / (1 + m.multiplier), Complementarity: gap / (1 + m.x), Cost: math.NaN()}
			if fmt.Sprint(first.KKT) != fmt.Sprint(k) || first.Objective != f/p.states[0].scale || math.Abs(first.Barrier*float64(p.limits)/gap-1) > 1e-12 || first.Outages != 5 || first.Iteration != 0 || first.Step != 1 || first.Smoothing != 0.1 {
				t.Errorf("the first iterate is %+v, want %+v", first, k)
			}
		}
	}
}

// Smooth clips are between both ramps, whose polynomial has the values of its definition.
func TestClip(t *testing.T) {
	for _, c := range []struct{ t, value, first, second float64 }{{-1, 0, 0, 0}, {1, 1, 1, 0}, {0, 3. / 16, 0.5, 0.75}, {0.5, 0.5 + 7./256, 27. / 32, 9. / 16}, {-0.5, 7. / 256, 5. / 32, 9. / 16}} {
		for _, width := range []float64{1, 0.2} {
			v, d, dd := ramp(c.t*width, width)
			if math.Abs(v-c.value*width) > 1e-15 || math.Abs(d-c.first) > 1e-15 || math.Abs(dd-c.second/width) > 1e-14 {
				t.Errorf("ramp at %g of its width %g: %g, %g, %g", c.t, width, v, d, dd)
			}
		}
	}
	inf := math.Inf(1)
	for _, c := range []struct{ lo, hi float64 }{{-1, 2}, {-inf, 2}, {-1, inf}, {-inf, inf}} {
		for x := -2.0; x <= 3; x += 0.05 {
			v, d, dd := clip(x, c.lo, c.hi, 0)
			if want := min(max(x, c.lo), c.hi); math.Abs(v-want) > 1e-15 || dd != 0 || math.Abs(x-c.lo) > 1e-9 && math.Abs(x-c.hi) > 1e-9 && (d != 1) == (v == x) {
				t.Errorf("%g within %g and %g is %g with slope %g", x, c.lo, c.hi, v, d)
			}
			v, d, dd = clip(x, c.lo, c.hi, 0.4)
			up, dUp, _ := clip(x+1e-5, c.lo, c.hi, 0.4)
			down, dDown, _ := clip(x-1e-5, c.lo, c.hi, 0.4)
			if math.Abs((up-down)/2e-5-d) > 1e-6 || math.Abs((dUp-dDown)/2e-5-dd) > 1e-3 || v < c.lo || v > c.hi || math.Abs(v-min(max(x, c.lo), c.hi)) > 0.4*3/16+1e-15 {
				t.Errorf("smooth clip at %g within %g and %g: %g, %g, %g", x, c.lo, c.hi, v, d, dd)
			}
		}
	}
	for mode, want := range map[int8][3]float64{-1: {-1, 0, 0}, 0: {5, 1, 0}, 1: {2, 0, 0}} {
		if v, d, dd := clipInMode(&switching{}, func() int8 { return mode }, 5, -1, 2, 0.1); [3]float64{v, d, dd} != want {
			t.Errorf("mode %d: %g, %g, %g", mode, v, d, dd)
		}
		x := []float64{-1, 0, 2}[mode+1]
		if got := modeOf(x, -1, 2); got != mode {
			t.Errorf("mode of %g is %d, want %d", x, got, mode)
		}
	}
}
