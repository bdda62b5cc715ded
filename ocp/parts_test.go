package ocp

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A trial is accepted by the rules of Wächter and Biegler (2006), stated once more: it has finite values, no entry of the filter beats
// it in both, and it descends enough where the step is one of descent, else it improves either. It never lifts the barrier function by
// more than its smaller defect is worth. All values lie on a lattice, which has those that are just at a bound.
func TestTheFilterAcceptsByItsRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(9001, 21))
	pick := func(values ...float64) float64 { return values[rng.IntN(len(values))] }
	answers := map[bool]int{}
	for range 20000 {
		p := &ipm{thetaMax: 4, thetaMin: pick(0, 0.5), defectPenalty: pick(1, 10)}
		for range rng.IntN(3) {
			p.filter = append(p.filter, filterEntry{pick(0.5, 1, 2), pick(-1, 0, 1)})
		}
		theta, phi, alpha, slope, noise := pick(0, 0.5, 1, 2), pick(0, 1), pick(1, 0.5), pick(-10, -1, -1e-3, 0, 1), pick(0, 1e-6)
		newTheta := pick(0, 0.25, 0.5, 1, 2, 4, 5, math.NaN(), theta, (1-1e-5)*theta)
		newPhi := pick(-1, 0, 0.5, 1, math.NaN(), phi+noise, phi+1e-4*alpha*slope+noise, phi-1e-5*theta+noise, phi+p.defectPenalty*max(0, theta-newTheta)+noise)
		before := slices.Clone(p.filter)

		want, enters := newTheta <= 4 && newPhi == newPhi, false
		for _, e := range before {
			want = want && (newTheta < e.theta || newPhi < e.phi)
		}
		descends := slope < 0 && alpha*math.Pow(-slope, 2.3) > math.Pow(theta, 1.1)
		armijo := newPhi <= phi+1e-4*alpha*slope+noise
		if descends && theta <= p.thetaMin {
			want = want && armijo
		} else {
			want = want && (newTheta <= (1-1e-5)*theta || newPhi <= phi-1e-5*theta+noise)
			want = want && newPhi <= phi+p.defectPenalty*max(0, theta-newTheta)+noise
			enters = want && !(descends && armijo)
		}
		if got := p.filterAccepts(theta, phi, newTheta, newPhi, alpha, slope, noise); got != want {
			t.Fatalf("θ %v to %v, φ %v to %v, slope %v, filter %v: accepted %v", theta, newTheta, phi, newPhi, slope, before, got)
		}
		if enters {
			before = append(before, filterEntry{(1 - 1e-5) * theta, phi - 1e-5*theta})
		}
		if !slices.Equal(p.filter, before) {
			t.Fatalf("θ %v to %v, φ %v to %v, slope %v: the filter is %v, want %v", theta, newTheta, phi, newPhi, slope, p.filter, before)
		}
		answers[want]++
	}
	if answers[true] < 1000 || answers[false] < 1000 {
		t.Errorf("answers %v", answers)
	}
}

// Blocks hold an action for as many steps as they say, and the last number repeats; their actions become the mean.
func TestBlocksOfAPlan(t *testing.T) {
	for _, c := range []struct {
		blocks []int
		want   []bool
	}{
		{nil, make([]bool, 4)},
		{[]int{1}, make([]bool, 4)},
		{[]int{2}, []bool{false, true, false, true, false}},
		{[]int{1, 3, 2}, []bool{false, false, true, true, false, true, false, true}},
		{[]int{9}, []bool{false, true, true}},
	} {
		s := newCart(cart{force: 1, speed: 1, steps: 8}, Options{Blocks: c.blocks})
		if got := s.Blocked(len(c.want)); !slices.Equal(got, c.want) {
			t.Errorf("blocks %v: %v, want %v", c.blocks, got, c.want)
		}
	}
	q := &program{nu: 2, steps: 6, blocks: []int{1, 3, 2}, blocked: []bool{false, false, true, true, false, true}}
	v := []float64{1, 2, 3, 4, 5, 7, 10, 1, 2, 2, 4, 6}
	if q.averageBlocks(v); !slices.Equal(v, []float64{1, 2, 6, 4, 6, 4, 6, 4, 3, 4, 3, 4}) {
		t.Errorf("means %v", v)
	}
}

// Stages move to the front, and the last one repeats, whichever number of them there is.
func TestShiftedStages(t *testing.T) {
	for _, c := range []struct {
		steps, shift int
		want         []float64
	}{{3, 0, []float64{1, 2, 3, 4, 5, 6}}, {3, 1, []float64{3, 4, 5, 6, 5, 6}}, {2, 1, []float64{3, 4, 5, 6}}, {4, 2, []float64{5, 6, 5, 6, 5, 6, 5, 6}}, {1, 9, []float64{5, 6}}} {
		to := []float64{1, 2, 3, 4, 5, 6}
		if shiftStages(&to, slices.Clone(to), 3, c.steps, c.shift, 2); !slices.Equal(to, c.want) {
			t.Errorf("%+v: %v", c, to)
		}
	}
}

// The longest step keeps to its room; the largest magnitude is of any sign, and once no number stays none; logarithms sum without
// overflow.
func TestStepsMagnitudesAndLogarithms(t *testing.T) {
	for _, c := range [][4]float64{{1, 0.5, -1, 0.5}, {1, 1, -1, 1}, {0.25, 0.5, -1, 0.25}, {1, 0.5, 3, 1}, {0.5, 1, -4, 0.25}} {
		if got := boundary(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("a step of %v in a room of %v, at most %v: %v, want %v", c[2], c[1], c[0], got, c[3])
		}
	}
	var l largest
	for _, v := range []float64{1, -3, 2} {
		l.include(v)
	}
	if l != 3 {
		t.Errorf("the largest is %v", l)
	}
	l.include(math.NaN())
	if l.include(5); l == l {
		t.Errorf("the largest of what is no number is %v", l)
	}
	for _, values := range [][]float64{{2, 3}, {1e90, 1e90, 1e90, 1e90, 1e-300}, {1e-80, 1e-90, 1e-200, 1e-300, 5}, slices.Repeat([]float64{1e60}, 40), slices.Repeat([]float64{1e-60}, 40)} {
		sum, want := newLogarithm(), 0.0
		for _, v := range values {
			sum.add(v)
			want += math.Log(v)
		}
		if math.Abs(sum.value()-want) > 1e-12*(1+math.Abs(want)) {
			t.Errorf("the logarithms of %v sum to %v, want %v", values, sum.value(), want)
		}
	}
	none := newLogarithm()
	none.add(math.NaN())
	none.add(2)
	if v := none.value(); v == v {
		t.Errorf("the logarithm of no number is %v", v)
	}
	if math.Abs(barrierFor(1e-2)-1e-8) > 1e-20 || barrierFor(1e9) != 1 || (ipmOptions{tolerance: 1e-3}).lastBarrier() != 5e-5 {
		t.Errorf("barrier parameters %v, %v and %v", barrierFor(1e-2), barrierFor(1e9), ipmOptions{tolerance: 1e-3}.lastBarrier())
	}
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		o    ipmOptions
		want bool
	}{{ipmOptions{}, false}, {ipmOptions{deadline: past}, true}, {ipmOptions{deadline: future}, false}, {ipmOptions{ctx: ended}, true}, {ipmOptions{ctx: context.Background()}, false}, {ipmOptions{deadline: future, ctx: ended}, true}} {
		if c.o.outOfTime() != c.want {
			t.Errorf("%+v: out of time %v", c.o, !c.want)
		}
	}
}

// The generator of a search's starts is splitmix64, whose first numbers are known.
func TestStartsAreOfSplitmix(t *testing.T) {
	draw := splitmix(1234567)
	for _, n := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got, want := draw(), float64(n>>11)/(1<<52)-1; got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// A steady state inside the ranges is better than one outside, then the cheaper one, then that nearer to the middle; what is within
// a tolerance is the same.
func TestTheBetterSteadyState(t *testing.T) {
	for _, c := range []struct {
		a, b rank
		want bool
	}{
		{rank{0, 5, 9}, rank{0.1, 1, 1}, true}, {rank{0.1, 1, 1}, rank{0, 5, 9}, false},
		{rank{0, 1, 9}, rank{0, 1.001, 1}, true}, {rank{0, 1.001, 1}, rank{0, 1, 9}, false}, {rank{1e-7, 1, 9}, rank{0, 1.001, 1}, true},
		{rank{0, -1.001, 9}, rank{0, -1, 1}, true}, {rank{0, 1000, 1}, rank{0, 1000 + 5e-5, 9}, true}, {rank{0, 1000 + 5e-5, 1}, rank{0, 1000, 9}, true},
		{rank{0, 0, 1}, rank{0, 0, 1}, false}, {rank{0, 0, 1}, rank{0, 0, 1.1}, true}, {rank{0, 0, 1.1}, rank{0, 0, 1}, false}, {rank{0, 0, 1 - 1e-7}, rank{0, 0, 1}, false},
		{rank{0, 0, 1}, rank{0, 2e-7, 0}, true}, {rank{0, -1000, 1}, rank{0, -1000 - 5e-5, 9}, true},
	} {
		if c.a.better(&c.b) != c.want {
			t.Errorf("%+v is better than %+v: %v", c.a, c.b, !c.want)
		}
	}
}

// A context's cell is an eighth of its entry's range; what has none, or moves, stays.
func TestCellsOfAContext(t *testing.T) {
	p := newFunctions(1, 5, 0, variablesOf(1), nil, nil, nil)
	p.spec.Context = []domain.Variable{{Lo: -1, Hi: 3}, {}, {Lo: -1, Hi: 3}, {Lo: 0, Hi: 8}, {Lo: 0, Hi: 8}}
	r := &steadyStateSolver{q: &program{spec: &p.spec, ns: 1, isActive: []bool{true, false, false, true, false, false}}}
	c := []float64{0.1, 0.3, 0.1, 8.5, -0.2}
	if got := r.cellCentre(c); !slices.Equal(got, []float64{0.25, 0.3, 0.1, 8.5, -0.5}) || c[0] != 0.1 {
		t.Errorf("the centre of %v is %v", c, got)
	}
}

// A library's distances are in ranges of its entries; its plans are those of the nearest ones that are long enough.
func TestNeighboursOfALibrary(t *testing.T) {
	entries := []entry{{start: []float64{0, 5, 2}}, {start: []float64{10, 5, 3}}, {start: []float64{4, 5, 6}}, {start: []float64{8, 5, 2.5}}, {start: []float64{4, 5, 5}}}
	l := &library{entries: entries, scale: scales(entries)}
	if !slices.Equal(l.scale, []float64{0.1, 0, 0.25}) {
		t.Fatalf("scales %v", l.scale)
	}
	for i := range entries {
		entries[i].plan = make([][]float64, 2+i)
		entries[i].plan[0] = []float64{float64(i)}
	}
	for _, c := range []struct {
		at   []float64
		self int
		k    int
		want []int
	}{{[]float64{0, 99, 2}, -1, 9, []int{0, 3, 4, 1, 2}}, {[]float64{0, 99, 2}, 0, 3, []int{3, 4, 1}}, {[]float64{9, 5, 3}, 1, 1, []int{3}}, {[]float64{4, 5, 5.5}, -1, 2, []int{2, 4}}} {
		if got := l.nearest(c.at, c.self, c.k); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	var firsts []float64
	for _, plan := range l.plans([]float64{0}, []float64{99, 2}, 5) {
		if len(plan) != 5 {
			t.Errorf("a plan of %d steps", len(plan))
		}
		firsts = append(firsts, plan[0][0])
	}
	if !slices.Equal(firsts, []float64{3, 4}) {
		t.Errorf("plans of %v", firsts)
	}
	if plans := (*library)(nil).plans(nil, nil, 1); plans != nil {
		t.Errorf("no library has %v", plans)
	}
	// Another optimum is one whose cost is less by more than a ten-thousandth.
	e, broken := entry{cost: math.Inf(1)}, errors.New("broken")
	for _, c := range []struct {
		cost float64
		err  error
		kept float64
	}{{-10, domain.ErrInfeasible, math.Inf(1)}, {-10, nil, -10}, {-10.0005, nil, -10}, {-10.002, nil, -10.002}, {-20, domain.ErrNotConverged, -10.002}, {-20, broken, -10.002}, {-9, nil, -10.002}} {
		err := e.improve(&Trajectory{Cost: c.cost, U: [][]float64{{c.cost}}}, c.err)
		if e.cost != c.kept || len(e.plan) > 0 && e.plan[0][0] != c.kept || (err != nil) != (c.err == broken) {
			t.Errorf("%+v: cost %v, %v", c, e.cost, err)
		}
	}
}

// Multipliers stay, or end within a wide factor of their barrier values: their product with a slack is within 1e10 of the parameter.
func TestMultipliersStayNearTheirBarrierValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(9001, 22))
	wide := func() float64 { return math.Pow(10, 60*rng.Float64()-30) }
	clamped := 0
	for range 2000 {
		p := &ipm{mu: math.Pow(10, -9*rng.Float64()), rho: 1e3, q: &program{nu: 1, bounded: []bool{true}}, cur: new(point)}
		p.z = []float64{min(wide(), 999)}
		p.slacks = slack{s: []float64{wide()}, v: []float64{wide()}}
		p.cur.v = []float64{2*rng.Float64() - 1}
		p.zl, p.zu = []float64{wide()}, []float64{wide()}
		z, lower, upper := p.z[0], p.zl[0], p.zu[0]
		p.slopesValid = true
		p.resetDuals()
		within := func(z, slack float64) bool {
			return z*slack >= p.mu/1e10*(1-1e-9) && z*slack <= p.mu*1e10*(1+1e-9)
		}
		v := p.cur.v[0]
		for name, c := range map[string][3]float64{"lower": {lower, p.zl[0], 1 + v}, "upper": {upper, p.zu[0], 1 - v}} {
			if want := max(p.mu/1e10/c[2], min(p.mu*1e10/c[2], c[0])); math.Abs(c[1]-want) > 1e-12*want || !within(c[1], c[2]) {
				t.Fatalf("%s multiplier %v at a distance of %v, μ %v: %v, want %v", name, c[0], c[2], p.mu, c[1], want)
			}
		}
		s, w := p.slacks.s[0], p.slacks.v[0]
		switch kept := within(z, s) && within(p.rho-z, w); {
		case kept && p.z[0] != z:
			t.Fatalf("multiplier %v is moved to %v", z, p.z[0])
		case !kept:
			clamped++
			want := max(p.mu/1e10/s, min(p.mu*1e10/s, z))
			if dual := max(p.mu/1e10/w, min(p.mu*1e10/w, p.rho-want)); dual != p.rho-want {
				want = max(p.rho-dual, p.mu/1e10/s)
			}
			if want = min(want, p.rho*(1-1e-12)); math.Abs(p.z[0]-want) > 1e-9*want {
				t.Fatalf("multiplier %v, slacks %v and %v, μ %v: %v, want %v", z, s, w, p.mu, p.z[0], want)
			}
		}
		if p.slopesValid || !(p.z[0] > 0 && p.z[0] < p.rho) {
			t.Fatalf("multiplier %v", p.z[0])
		}
	}
	if clamped < 100 || clamped > 1900 {
		t.Errorf("%d of 2000 are clamped", clamped)
	}
}

// A result is acceptable within the tolerance, and where it keeps the limits themselves by theirs though not the room before them.
func TestRoomMayBeGivenUp(t *testing.T) {
	p := &ipm{q: &program{spec: &domain.Spec{MarginTolerance: 0x1p-20}, steps: 2, nm: 2, marginSizes: []float64{1, 4}}, cur: &point{g: []float64{0.1, 0, -0.25, -0.125, -0.0625}}}
	p.opt.tolerance = 1e-3
	if !math.IsInf(p.limitViolation(), 1) {
		t.Errorf("without room limits are violated by %v", p.limitViolation())
	}
	p.q.room = []float64{0.125, 0.5} // in units of the margins: 0.125 each in their sizes
	if got := p.limitViolation(); got != 0.125 {
		t.Errorf("limits are violated by %v", got)
	}
	for _, c := range []struct {
		violation, beyond float64
		want, changed     bool
	}{{1e-3, 1, true, false}, {1.1e-3, 0, true, true}, {0.1, 0x1p-20, true, true}, {0.1, 0x1p-19, false, false}} {
		p.cur.g = []float64{0, 0, -0.125 - c.beyond, 0, 0}
		r := ipmResult{kkt: 7, elasticKKT: 5, violation: c.violation}
		if got := p.acceptable(&r); got != c.want || (r.kkt == 5) != c.changed || c.changed && r.violation != p.limitViolation() {
			t.Errorf("%+v: %v, %+v", c, got, r)
		}
	}
}

// A state nearer to a trajectory is taken until the projection finds an action: at most three halvings of the way.
func TestPerturbedStatesRetreat(t *testing.T) {
	for _, c := range []struct{ least, want float64 }{{1, 1}, {0.9, 0.5}, {0.3, 0.25}, {0.2, 0.125}, {0, 0.125}} {
		p := newFunctions(1, 1, 0, variablesOf(1), nil, nil, nil)
		s := &Solver{problem: refusing{p, c.least}}
		state, ctx, u := []float64{3}, []float64{-5}, []float64{0.5}
		if s.retreatToFeasible(state, ctx, []float64{2}, []float64{-1}, u); state[0] != 2+c.want || ctx[0] != -1-4*c.want || u[0] != 0.5 {
			t.Errorf("feasible to %v: %v, %v", c.least, state, ctx)
		}
	}
}

// refusing has feasible actions no farther than some distance from 2.
type refusing struct {
	*functions
	most float64
}

func (p refusing) Project(s, _, u []float64) bool {
	u[0] = 9
	return s[0]-2 <= p.most
}

// The optimality conditions, by hand: stationarity in actions, of a block together, and in states, dynamics, complementarity and
// violation, those with multipliers divided by their mean size beyond 100.
func TestResidualsOfTheConditions(t *testing.T) {
	for name, p := range testPrograms(dualTanks{}) {
		for _, blocks := range [][]int{nil, {1, 2}} {
			for _, size := range []float64{1, 1e4} {
				for _, mu := range []float64{0, 0.3} {
					for _, scale := range []float64{1.7, 0} {
						q := p.q
						block(q.blocked, blocks)
						q.differentiate(p.cur)
						p.objectiveScale, p.rho, p.mu, p.slopesValid = scale, 2*size, 0.3, false
						p.computeSlacks(p.cur.g, p.slacks.s, p.slacks.v)
						rng := rand.New(rand.NewPCG(9001, 23))
						sum := 0.0
						for _, b := range [][]float64{p.z, p.zl, p.zu} {
							for i := range b {
								b[i] = size * rng.Float64()
								sum += b[i]
							}
						}
						divisor := max(1, sum/float64(len(p.z)+len(p.zl)+len(p.zu))/100)
						stationary, equations, complementary, elastic, violation := 0.0, 0.0, 0.0, 0.0, 0.0
						raise := func(to *float64, v float64) { *to = max(*to, math.Abs(v)) }
						gradients := make([][]float64, q.steps)
						for k := range gradients {
							gradients[k] = make([]float64, q.d)
							q.gradient(k, scale, p.z[k*q.nm:(k+1)*q.nm], p.lambda, gradients[k])
						}
						for first := 0; first < q.steps; {
							last := first + 1
							for last < q.steps && q.blocked[last] {
								last++
							}
							for j := range q.nu {
								all := 0.0
								for k := first; k < last; k++ {
									all += gradients[k][j] - p.zl[k*q.nu+j] + p.zu[k*q.nu+j]
								}
								raise(&stationary, all)
							}
							first = last
						}
						for k := 1; k < q.steps; k++ {
							for i := range q.nX {
								raise(&stationary, gradients[k][q.nu+i]-p.lambda[k*q.nX+i])
							}
						}
						if q.tau {
							raise(&stationary, gradients[0][q.d-1]+scale*q.tauCost)
						}
						end := slices.Clone(p.lambda[q.steps*q.nX:])
						for k := range q.totals {
							for i := range end {
								end[i] += p.z[q.steps*q.nm+k] * q.totalSlopes[k*q.nX+i]
							}
						}
						for _, v := range end {
							raise(&stationary, v)
						}
						for _, v := range p.cur.defect {
							raise(&equations, v)
						}
						for i, v := range p.cur.v {
							raise(&complementary, p.zl[i]*(1+v)-mu)
							raise(&complementary, p.zu[i]*(1-v)-mu)
						}
						for i, g := range p.cur.g {
							violation = max(violation, -g)
							if mu > 0 {
								raise(&complementary, p.slacks.s[i]*p.z[i]-mu)
								raise(&complementary, p.slacks.v[i]*(p.rho-p.z[i])-mu)
							} else {
								raise(&complementary, p.z[i]*max(g, 0))
								raise(&elastic, (p.rho-p.z[i])*max(-g, 0))
							}
						}
						worst := max(equations, stationary/divisor, complementary/divisor)
						elastic = max(elastic/divisor, worst)
						want := [3]float64{max(worst, violation), elastic, violation}
						if mu > 0 {
							want = [3]float64{worst, worst, violation}
						} else if scale == 0 {
							want[0] = elastic
						}
						kkt, e, v := p.residual(mu)
						for i, got := range []float64{kkt, e, v} {
							if math.Abs(got-want[i]) > 1e-9*(1+want[i]) {
								t.Errorf("%s, blocks %v, size %v, μ %v, scale %v: residuals %v, %v and %v, want %v", name, blocks, size, mu, scale, kkt, e, v, want)
								break
							}
						}
					}
				}
			}
		}
	}
}

// The slope of a step is the derivative of the barrier function along it, and each trial lies on it.
func TestTheSlopeIsThatOfTheBarrierFunction(t *testing.T) {
	for _, problem := range []domain.Problem{dualTanks{}, stagedTanks{}} {
		for name, p := range testPrograms(problem) {
			q := p.q
			p.mu, p.rho, p.objectiveScale = 0.1, 10, 1.3
			p.computeSlacks(p.cur.g, p.slacks.s, p.slacks.v)
			for i := range p.zl {
				p.zl[i], p.zu[i] = 0.2, 0.3
			}
			q.differentiate(p.cur)
			q.hessian(p.cur, p.mu, p.objectiveScale, p.z, p.lambda)
			p.assemble()
			if !p.factor() {
				t.Fatalf("%s: no step", name)
			}
			copy(p.defect, p.cur.defect)
			primal, dual := p.solve()
			if !(primal > 0 && primal <= 1 && dual > 0 && dual <= 1) {
				t.Errorf("%s: steps of %v and %v", name, primal, dual)
			}
			// A step to the boundary leaves a hundredth of the way to it.
			for i, v := range p.cur.v {
				if next := v + primal*p.w[i/q.nu*q.d+i%q.nu]; math.Abs(next) > 1-0.00999*(1-math.Abs(v)) {
					t.Errorf("%s: action %d goes from %v to %v", name, i, v, next)
				}
			}
			for i, z := range p.z {
				if next := z + dual*p.dz[i]; next < 0.00999*z || next > p.rho-0.00999*(p.rho-z) {
					t.Errorf("%s: multiplier %d goes from %v to %v", name, i, z, next)
				}
			}
			slope := p.slope()
			value := func(alpha float64) float64 {
				if !p.evaluateStep(alpha) {
					t.Fatalf("%s: no value", name)
				}
				return p.barrier(p.trial, p.trialSlacks)
			}
			const h = 1e-5
			if want := (value(h) - value(-h)) / (2 * h); math.Abs(slope-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("%s: the slope is %v, differences say %v", name, slope, want)
			}
			// The step solves the linearised equations: along it defects fall by their share.
			p.evaluateStep(h)
			for i, d := range p.trial.defect {
				if math.Abs(d-(1-h)*p.cur.defect[i]) > 1e-7 {
					t.Errorf("%s: defect %d goes from %v to %v", name, i, p.cur.defect[i], d)
				}
			}
			// And the linearised condition of each inequality, s z = μ and v (ρ − z) = μ with s − v = g.
			for i, z := range p.z {
				s, v := p.slacks.s[i], p.slacks.v[i]
				dz, dg := p.dz[i], p.dg[i]
				ds, dv := (p.mu-s*z-s*dz)/z, (p.mu-v*(p.rho-z)+v*dz)/(p.rho-z)
				if got := ds - dv - dg; math.Abs(got) > 1e-9*(1+math.Abs(ds)+math.Abs(dv)) {
					t.Errorf("%s: inequality %d misses its linearisation by %v", name, i, got)
				}
			}
		}
	}
}

// strict wants every vector to have its own components and no more.
type strict struct {
	domain.Problem
	t *testing.T
}

func (p strict) sizes(s, c, u []float64, more ...int) {
	spec := p.Problem.Spec()
	if len(s) != len(spec.Measured) || len(c) != len(spec.Context) || u != nil && len(u) != len(spec.Action) {
		p.t.Fatalf("a function is asked with %d, %d and %d components", len(s), len(c), len(u))
	}
	for i := 0; i < len(more); i += 2 {
		if more[i] != more[i+1] {
			p.t.Fatalf("a function writes %d components of %d", more[i+1], more[i])
		}
	}
}

func (p strict) Objectives(s, u, c, j []float64) {
	p.sizes(s, c, u, len(p.Spec().Objectives), len(j))
	p.Problem.Objectives(s, u, c, j)
}

func (p strict) Gradient(s, u, c, sigma, gs, gu []float64) {
	p.sizes(s, c, u, len(p.Spec().Objectives), len(sigma), len(s), len(gs), len(u), len(gu))
	p.Problem.Gradient(s, u, c, sigma, gs, gu)
}

func (p strict) Step(s, c, u, sn, cn []float64) {
	p.sizes(s, c, u, len(s), len(sn), len(c), len(cn))
	p.Problem.Step(s, c, u, sn, cn)
}

func (p strict) Margins(s, c, u, m []float64) {
	p.sizes(s, c, u, len(p.Spec().Margins), len(m))
	p.Problem.Margins(s, c, u, m)
}

func (p strict) Indicators(s, u, c, delta []float64) {
	p.sizes(s, c, u, len(p.Spec().Objectives), len(delta))
	p.Problem.Indicators(s, u, c, delta)
}

func (p strict) Base(s, c, plan []float64) {
	p.sizes(s, c, nil, p.Spec().PlanSize(), len(plan))
	p.Problem.Base(s, c, plan)
}

func (p strict) Fallback(s, c, u []float64) { p.sizes(s, c, u); p.Problem.Fallback(s, c, u) }

// A problem's functions are asked with vectors of their sizes, whatever the solver does.
func TestFunctionsAreAskedWithTheirSizes(t *testing.T) {
	for _, opt := range []Options{{Perturbed: 1, Starts: 3, Horizon: 6}, {Blocks: []int{1, 2}, Horizon: 6, Library: 2, Perturbed: 1}, {TerminalCost: true, Horizon: 6, Keep: 2}} {
		axes := []domain.Variable{{Name: "h1", Lo: 0.3, Hi: 0.6}, {Name: "reference", Lo: 0.4, Hi: 0.6}}
		s := require.Get(New(strict{tanks{}, t}, axes, func(p, s, c []float64) {
			s[0], s[1] = p[0], 0.4
			c[0], c[1], c[2] = p[1], 0.4, 0.1
		}, opt))(t)
		for _, pref := range []domain.Preference{{Adaptive: true}, {W: []float64{0.5, 0.5}}} {
			at := []float64{0.5, 0.5}
			require.Get(s.Solve(1, at, pref, domain.WeightedSum, 1))(t)
			require.Get(s.SolveVisited(1, at, pref, domain.Lent(steady{})))(t)
			state, c := []float64{0.5, 0.4}, []float64{0.5, 0.4, 0.1}
			h, plan := s.NewHorizon(0), make([]float64, 12)
			for range 2 {
				if _, _, err := h.Solve(state, c, pref, plan); err != nil {
					t.Fatal(err)
				}
			}
			h.Linearise()
			s.Polish(state, c, pref, nil, plan, 2)
		}
	}
}

// steady pumps as it did.
type steady struct{ idle }

func (steady) Decide(_, c []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	copy(u, c[1:])
	return domain.Decided(true), nil
}
