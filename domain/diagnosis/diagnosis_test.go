package diagnosis_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// lift is a cabin on a rope that stops at floors, with the functions that a test spoils.
// Its action is the rope's force per mass, its second one opens a door.
type lift struct {
	step, objectives, margins func(s, c, u, n, out []complex128)
	change                    func(y *equations.System)
}

func (l lift) system() equations.System {
	v := func(name string, lo, hi float64) domain.Variable {
		return domain.Variable{Name: name, Unit: "m", Lo: lo, Hi: hi}
	}
	of := equations.Functions[complex128]{
		Step: func(s, c, u, n, after []complex128) {
			n[1] = s[1] + 0.2*(u[0]-9.81)
			n[0] = s[0] + 0.2*n[1]
			if l.step != nil {
				l.step(s, c, u, n, n)
			}
		},
		Objectives: func(s, c, u, n, j []complex128) {
			j[0], j[1] = (n[0]-c[0])*(n[0]-c[0]), n[1]*n[1]+0.01*u[1]*u[1]
			if l.objectives != nil {
				l.objectives(s, c, u, n, j)
			}
		},
		Margins: func(s, c, u, n, m []complex128) {
			m[0], m[1] = 3-n[1], 3+n[1]
			if l.margins != nil {
				l.margins(s, c, u, n, m)
			}
		},
	}
	y := equations.System{
		Name: "lift", State: []domain.Variable{v("height", 0, 10), v("speed", -2, 2)}, Context: []domain.Variable{v("floor", 0, 0)},
		Action:     []domain.Variable{v("pull", 4, 16), v("door", -1, 1)},
		Objectives: []domain.Variable{v("way", 0, 0), v("calm", 0, 0)}, Margins: []domain.Variable{v("up", 0, 0), v("down", 0, 0)},
		Scenario: []domain.Variable{v("height", 1, 9), v("speed", -1, 1), v("floor", 1, 9)},
		Initial:  func(p, s, c []float64) { copy(s, p[:2]); c[0] = p[2] },
		Steps:    20, StepSeconds: 0.2, Dual: of,
		Real: equations.Functions[float64]{Step: values(of.Step), Objectives: values(of.Objectives), Margins: values(of.Margins)},
	}
	if l.change != nil {
		l.change(&y)
	}
	return y
}

// values is a function of dual numbers at numbers that do not vary.
func values(f func(s, c, u, n, out []complex128)) func(s, c, u, n, out []float64) {
	return func(s, c, u, n, out []float64) {
		args := [5][]complex128{}
		for i, x := range [5][]float64{s, c, u, n, out} {
			for _, v := range x {
				args[i] = append(args[i], complex(v, 0))
			}
		}
		f(args[0], args[1], args[2], args[3], args[4])
		for i, x := range [2][]float64{n, out} {
			for k := range x {
				x[k] = real(args[3+i][k])
			}
		}
	}
}

// found are the findings on a lift.
func found(t *testing.T, l lift) diagnosis.Findings {
	c := require.Get(l.system().Case())(t)
	return diagnosis.Case(&c)
}

// TestCommonMistakesAreNamed spoils the lift in one way at a time: what a user reads names
// what was written and what to do.
func TestCommonMistakesAreNamed(t *testing.T) {
	for _, test := range []struct {
		severity           diagnosis.Severity // "" for a system without a mistake
		of, function, says string
		lift               lift
	}{
		{"", "", "", "", lift{}},
		{"", "", "", "", lift{ // a corner that lies beyond a limit
			margins:    func(_, _, _, n, m []complex128) { m[0], m[1] = 2-n[1], 2+n[1] },
			objectives: func(_, _, _, n, j []complex128) { j[1] += dual.Abs(n[1] - 2.3) },
		}},
		{"", "", "", "", lift{ // the price of a soft limit
			margins: func(_, _, _, n, m []complex128) { m[0] = 1.2 - n[1] },
			change:  func(y *equations.System) { y.Soft = []equations.Soft{{Margin: "up", Linear: 50, Priority: 1}} },
		}},
		{"", "", "", "", lift{ // a jump from beyond a limit to within it
			margins: func(_, _, _, n, m []complex128) { m[0], m[1] = 1.2-n[1], 1.2+n[1] },
			step: func(s, _, _, n, _ []complex128) {
				if real(s[1]) > 1.4 {
					n[1] -= 2
				}
			},
		}},
		{diagnosis.Error, "margin up", "margins", "at 32 of 32 starts no action keeps the limits for one step: margin up in 32 of them",
			lift{margins: func(_, _, _, n, m []complex128) { m[0] = n[1] - 3 }}},
		{diagnosis.Error, "", "objectives", "no objective depends on the action",
			lift{objectives: func(s, c, _, _, j []complex128) { j[0], j[1] = c[0]*c[0], 1 }}},
		{diagnosis.Remark, "action door", "step", "action door changes neither",
			lift{objectives: func(_, _, _, n, j []complex128) { j[1] = n[1] * n[1] }}},
		{diagnosis.Remark, "objective calm", "objectives", "objective way is about 3.3e+06 and objective calm about 2.3",
			lift{objectives: func(_, _, _, _, j []complex128) { j[0] *= 1e6 }}},
		{diagnosis.Remark, "objective way", "objectives", "objective way is negative at 40 of 40 states",
			lift{objectives: func(_, _, _, _, j []complex128) { j[0] -= 200 }}},
		{diagnosis.Remark, "margin down", "margins", "margin down is violated where episodes begin, at 7 of 32 starts", lift{
			margins: func(_, _, _, n, m []complex128) { m[1] = n[1] + 0.5 },
		}},
		{diagnosis.Remark, "objective way", "objectives", "objective way has no least value: it is",
			lift{objectives: func(_, _, _, n, j []complex128) { j[0] -= 20 * n[1] * n[1] }}},
		{diagnosis.Remark, "state height", "initial", "state height has the range [0, 10] m and is about 4.78e+03 at the starts",
			lift{change: func(y *equations.System) {
				y.Initial = func(p, s, c []float64) { s[0], s[1], c[0] = 1000*p[0], p[1], 1000*p[2] }
			}}},
		{diagnosis.Remark, "state height", "initial", "state height is about 4.78e+03 m at the starts and has no range",
			lift{change: func(y *equations.System) {
				y.State[0].Lo, y.State[0].Hi = 0, 0
				y.Initial = func(p, s, c []float64) { s[0], s[1], c[0] = 1000*p[0], p[1], 1000*p[2] }
			}}},
		{diagnosis.Remark, "objective way", "objectives", "objective way has a corner",
			lift{objectives: func(_, c, _, n, j []complex128) { j[0] = dual.Abs(n[0]-c[0]) + dual.Abs(n[1]) }}},
		{diagnosis.Remark, "objective way", "objectives", "objective way is not finite at",
			lift{objectives: func(_, _, _, n, j []complex128) {
				if real(n[1]) > 2.4 {
					j[0] = complex(math.NaN(), 0)
				}
			}}},
		{diagnosis.Hint, "margin up", "margins", "walks of random actions, each projected, end where no action keeps the limits",
			lift{margins: func(_, _, _, n, m []complex128) {
				if real(n[1]) > 2.4 {
					m[0], m[1] = complex(math.NaN(), 0), complex(math.NaN(), 0)
				}
			}}},
		{diagnosis.Hint, "margin up", "margins", "margin up has a corner",
			lift{margins: func(_, _, _, n, m []complex128) { m[0] = 9 - dual.Abs(n[1]) }}},
		{diagnosis.Remark, "state height", "step", "state height jumps in the next step",
			lift{step: func(s, _, _, n, _ []complex128) {
				if dual.Less(5, s[0]) {
					n[0] += 3
				}
			}}},
		{diagnosis.Remark, "objective way", "objectives", ": a division by what is 0 there",
			lift{objectives: func(_, _, _, n, j []complex128) { j[0] += 0.1 / (n[1] + 1.3) }}},
		{diagnosis.Hint, "state speed", "step", "state height is outside of its range, and there is a branch, or a division by what is 0 there",
			lift{step: func(s, _, _, n, _ []complex128) {
				if dual.Less(10.1, s[0]) {
					n[1] += 2
				}
			}}},
		{diagnosis.Hint, "state height", "step", "the action at rest, [0 0], which the solver begins with, takes state height to -",
			lift{change: func(y *equations.System) { y.Action[0].Lo, y.Solver.Iterations, y.Steps = 0, 3, 60 }}},
	} {
		var texts []string
		matches := test.says == ""
		for _, f := range found(t, test.lift) {
			texts = append(texts, f.String())
			matches = matches || f.Severity == test.severity && f.Subject == test.of && f.Function == test.function && strings.Contains(f.Message, test.says) && f.Fix != "" && strings.Contains(f.Fix, "corners") == strings.Contains(test.says, "corner")
		}
		switch {
		case test.says == "" && texts != nil:
			t.Errorf("of a system without a mistake it says: %v", texts)
		case !matches:
			t.Errorf("want %s of %s: %q, it says: %v", test.severity, test.of, test.says, texts)
		}
	}
}

// What bends because the next state does is no finding of its own.
func TestACornerOfAStateIsSaidOnce(t *testing.T) {
	bent := found(t, lift{step: func(s, _, _, n, _ []complex128) { n[1] -= 0.3*s[1] + 0.1*dual.Abs(s[1]) }})
	if len(bent) != 1 || !strings.Contains(bent[0].Message, "has a corner in the next step") {
		t.Errorf("it says: %v", bent)
	}
}

// A limit of the action that the action at rest does not keep is not violated by the states that episodes begin in.
func TestALimitOfTheActionIsNoLimitOfTheState(t *testing.T) {
	for _, f := range found(t, lift{margins: func(_, _, u, _, m []complex128) { m[0] = u[0] - 5 }, change: func(y *equations.System) { y.Rest = []float64{4.5, 0} }}) {
		if f.Severity != diagnosis.Hint {
			t.Errorf("it says: %s", f.String())
		}
	}
}

// An action that reaches an objective after two steps alone is one that it depends on.
func TestALaterEffectCounts(t *testing.T) {
	slow := lift{
		step:       func(s, _, u, n, _ []complex128) { n[0], n[1] = s[0]+0.2*s[1], s[1]+0.2*(u[0]+u[1]-9.81) },
		objectives: func(_, c, _, n, j []complex128) { j[0], j[1] = (n[0]-c[0])*(n[0]-c[0]), 1 },
	}
	for _, f := range found(t, slow) {
		t.Errorf("it says: %s", f.String())
	}
}

// TestRoomToStop: a limit on the height without the way that stopping takes is lost in walks
// of projected actions, one with it is not.
func TestRoomToStop(t *testing.T) {
	for _, room := range []bool{false, true} {
		l := lift{margins: func(_, _, _, n, m []complex128) {
			m[0], m[1] = 10-n[0], n[0]
			if room {
				up, down := dual.Max(n[1], 0), dual.Max(-n[1], 0)
				m[0] -= up * up / (2 * 5.8)
				m[1] -= down * down / (2 * 6.1)
			}
		}}
		c := require.Get(l.system().Case())(t)
		if said := diagnosis.Room(c.Problem, require.Get(diagnosis.Starts(&c))(t)); (said == nil) != room {
			t.Errorf("with room %t it says %q", room, said)
		}
	}
}

// counted counts evaluations of the dynamics.
type counted struct {
	domain.Problem
	steps     int
	abilities domain.ProblemAbilities
}

func (c *counted) Abilities() *domain.ProblemAbilities { return &c.abilities }

func (c *counted) Step(s, x, u, next, after []float64) {
	c.steps++
	c.Problem.Step(s, x, u, next, after)
}

// What is curved and has no corner is not searched for one to the end: that took 117 evaluations of each curved output on each line.
func TestASmoothSystemTakesFewEvaluations(t *testing.T) {
	c := require.Get(lift{step: func(s, _, u, n, _ []complex128) {
		for range 3 {
			n[0], n[1] = n[0]+0.3*n[0]*n[1]*n[1], n[1]-0.3*n[1]*n[0]*n[0]+0.1*u[1]*u[1]*u[0]
		}
	}}.system().Case())(t)
	p := &counted{Problem: c.Problem}
	starts := require.Get(diagnosis.Starts(&c))(t)
	findings := diagnosis.Hints(p, starts)
	if strings.Contains(fmt.Sprint(findings), "corner") || p.steps < len(starts)*257 || p.steps > len(starts)*400 {
		t.Errorf("%d evaluations of the dynamics from %d starts, findings %v", p.steps, len(starts), findings)
	}
}

// A check of functions that take long looks from fewer starts, and says from how many. What all starts show it finds nevertheless.
func TestACheckOfSlowFunctionsIsBounded(t *testing.T) {
	now, steps := time.Duration(0), 0
	l := lift{step: func(s, c, u, n, after []complex128) {
		n[0], steps = n[0]+0.1*complex(math.Floor(real(u[0])), 0), steps+1
	}}
	whole := found(t, l)
	ofAll := steps
	defer diagnosis.SetCPUTime(func() time.Duration { now += time.Second; return now })()
	steps = 0
	f := found(t, l)
	jumps := func(f diagnosis.Findings) bool {
		return slices.ContainsFunc(f, func(f diagnosis.Finding) bool { return strings.Contains(f.Message, "height jumps") })
	}
	bounded := slices.ContainsFunc(f, func(f diagnosis.Finding) bool { return strings.HasSuffix(f.Message, "from 8 of 32 starts") })
	if !jumps(whole) || !jumps(f) || !bounded || steps > ofAll/2 {
		t.Errorf("%d steps of %d: %v", steps, ofAll, f)
	}
}

// Corners, walks and the action at rest are evaluated side by side: steps of single points are those of walks that a limit ends.
func TestACheckEvaluatesSideBySide(t *testing.T) {
	c := require.Get(lift{}.system().Case())(t)
	p := &counted{Problem: c.Problem}
	many := require.Get(domain.ValuesOf(c.Problem))(t)
	p.abilities.ManyValues = func() (func() domain.ManyValues, error) { return func() domain.ManyValues { return many }, nil }
	starts := require.Get(diagnosis.Starts(&c))(t)
	if f := diagnosis.Hints(p, starts); p.steps > 4*len(starts) {
		t.Errorf("%d steps of single points from %d starts: %v", p.steps, len(starts), f)
	}
}
