package secure

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// partly is case9 with a branch and a unit out of service and a DC line: rows and indices differ.
func partly(t *testing.T) *network.Network {
	c := networktest.Case(t, "case9")
	c.Branch[1].InService, c.Gen[1].InService = false, false
	c.AddDCLine(matpower.DCLine{From: 5, To: 9, InService: true, PMax: 10})
	return networktest.Of(t, c)
}

// Words and lines name the outages of rows of the file; what is out of service, the end of a DC line or no row is refused.
func TestOutagesByName(t *testing.T) {
	n := partly(t)
	counts := map[string][2]int{"branches": {8, 0}, "units": {0, 2}, "all": {8, 2}}
	for _, word := range Words {
		list, ok := Named(n, word)
		var branches, units []int
		for _, o := range list {
			b, u := o.Elements()
			if branches, units = append(branches, b...), append(units, u...); len(b)+len(u) != 1 || len(b) == 1 && o != (Outage{Branch: b[0], Unit: -1}) || len(u) == 1 && o != (Outage{Branch: -1, Unit: u[0]}) {
				t.Errorf("%s: %+v has elements %v and %v", word, o, b, u)
			}
		}
		if !ok || [2]int{len(branches), len(units)} != counts[word] || !slices.IsSorted(branches) || !slices.IsSorted(units) {
			t.Errorf("%s: branches %v, units %v, %v", word, branches, units, ok)
		}
	}
	if list, ok := Named(n, "none"); list != nil || ok {
		t.Errorf("%v, %v", list, ok)
	}
	for line, want := range map[string]Outage{"branch 1": {Branch: 0, Unit: -1}, " branch  3 ": {Branch: 1, Unit: -1}, "branch 9": {Branch: 7, Unit: -1}, "unit 1": {Branch: -1, Unit: 0}, "unit 3": {Branch: -1, Unit: 1}} {
		got, err := ParseOutage(n, line)
		if got != want || err != nil {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
		if name := got.name(n); !strings.HasPrefix(name, strings.Join(strings.Fields(line), " ")+" ") {
			t.Errorf("%q is %q", line, name)
		}
	}
	if name := (Outage{Branch: 1, Unit: -1, Remote: true}).name(n); name != "branch 3 from bus 5 to bus 6, in the part that it cuts off" {
		t.Errorf("%q", name)
	}
	for line, want := range map[string]string{"branch 2": "no branch in service is row 2", "branch 0": "is row 0", "branch 10": "is row 10", "branch x": "is row x", "unit 2": "no unit in service is row 2",
		"unit 4": "unit 4 is the end of a DC line", "unit 5": "end of a DC line", "unit 6": "no unit", "branch": "want branch ROW or unit ROW", "unit 1 2": "want branch", "branch 1 2": "want branch", "bus 1": "want branch", "": "want branch"} {
		if _, err := ParseOutage(n, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// Factors are those of a word or of lines; units without a line have none, and a line that is none is named.
func TestParticipationByNameAndLine(t *testing.T) {
	n := partly(t)
	n.PMax[1] = -0.5
	for word, want := range map[string][]float64{"range": nil, "pmax": {n.PMax[0], 0, n.PMax[2], n.PMax[3]}, "equal": {1, 1, 1, 1}} {
		n.PMax[2] = max(n.PMax[2], 0)
		if got, ok := NamedParticipation(n, word); !ok || len(got) != len(want) || word != "pmax" && !slices.Equal(got, want) || word == "pmax" && (got[0] != n.PMax[0] || got[1] != 0) {
			t.Errorf("%s: %v, %v", word, got, ok)
		}
	}
	if got, ok := NamedParticipation(n, "none"); got != nil || ok {
		t.Errorf("%v, %v", got, ok)
	}
	read := func(text string) ([]float64, error) { return ReadParticipation(n, "f", strings.NewReader(text)) }
	if got, err := read("# units\n\nunit 3 0.25\nunit 1 0 # none\n"); err != nil || !slices.Equal(got, []float64{0, 0.25, 0, 0}) {
		t.Errorf("%v, %v", got, err)
	}
	for line, want := range map[string]string{"unit 3": "want unit ROW FACTOR", "bus 3 1": "want unit", "unit 3 1 1": "want unit", "unit 2 1": "no unit in service is row 2", "unit 3 -1": "factor -1: want a number, 0 or more", "unit 3 x": "factor x", "unit 3 inf": "factor inf", "unit 3 nan": "factor nan", "unit 3 1e999": "factor 1e999"} {
		if _, err := read("unit 1 1\n" + line + "\n"); err == nil || !strings.Contains(err.Error(), "f, line 2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	broken := errors.New("broken")
	lines := 0
	err := EachLine("g", io.MultiReader(strings.NewReader("a\n#\nb\n"), iotest.ErrReader(broken)), func(string) error { lines++; return nil })
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "g, line 4: ") || lines != 2 {
		t.Errorf("%v after %d lines", err, lines)
	}
}

// Options are taken within their bounds, and zero stands for the default.
func TestBoundsOfOptions(t *testing.T) {
	for want, list := range map[string][]Options{
		"":                 {{}, {Emergency: 1}, {Emergency: 100}, {Band: 1}, {MaxIterations: MaxIterations}, {Rounds: 1, Threads: 1}},
		"emergency factor": {{Emergency: 0.999}, {Emergency: 100.1}, {Emergency: math.NaN()}, {Emergency: -1}},
		"voltage band":     {{Band: -0.1}, {Band: 1.1}, {Band: math.NaN()}},
		"rounds":           {{Rounds: -1}, {MaxIterations: -1}, {MaxIterations: MaxIterations + 1}, {Threads: -1}},
	} {
		for _, o := range list {
			if err := o.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", o, err, want)
			}
		}
	}
	if o := (Options{}).withDefaults(); o.Emergency != DefaultEmergency || o.Rounds != 100 || o.MaxIterations != 200 || o.Threads < 1 || o.Band != 0 {
		t.Errorf("defaults %+v", o)
	}
	if o := (Options{Emergency: 1.1, Rounds: 3, MaxIterations: 7, Threads: 2}).withDefaults(); o.Emergency != 1.1 || o.Rounds != 3 || o.MaxIterations != 7 || o.Threads != 2 {
		t.Errorf("given options become %+v", o)
	}
	n := partly(t)
	for want, list := range map[string][]Outage{
		"": {{0, -1, false}, {7, -1, false}, {-1, 0, false}, {-1, 1, false}}, "want one of them": {{-1, -1, false}, {0, 0, false}, {8, -1, false}, {-1, 4, false}},
		"is the end of a DC line, which is no outage": {{-1, 2, false}, {-1, 3, false}},
	} {
		for _, o := range list {
			if err := (Options{Outages: []Outage{o}}).check(n); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", o, err, want)
			}
		}
	}
	if err := (Options{Band: 2}).check(n); err == nil {
		t.Error("a band of 2 pu is taken")
	}
}

// Shares are in proportion to the factors within each island, of free units that are no ends of DC lines.
func TestSharesOfUnits(t *testing.T) {
	c := twice(t)
	c.AddDCLine(matpower.DCLine{From: 12, To: second + 21, InService: true, PMax: 20, Cost: polynomial(0, 0)})
	c.Gen[1].PMin = c.Gen[1].PMax
	n := networktest.Of(t, c)
	factors := make([]float64, n.Gens())
	for g := range factors {
		factors[g] = float64(1 + g%3)
	}
	island, terminals := n.Islands(), n.Terminals()
	for _, participation := range [][]float64{nil, factors} {
		free := make([]bool, n.Gens())
		for g := range free {
			free[g] = n.PMax[g] > n.PMin[g]
		}
		got := require.Get(Options{Participation: participation}.shares(n, free))(t)
		weight := func(g int) float64 {
			switch {
			case terminals[g] || !free[g]:
				return 0
			case participation != nil:
				return participation[g]
			}
			return n.PMax[g] - n.PMin[g]
		}
		for g, share := range got {
			sum := 0.0
			for other, b := range n.GenBus {
				if island[b] == island[n.GenBus[g]] {
					sum += weight(other)
				}
			}
			if want := weight(g) / sum; math.Abs(share-want) > 1e-15 {
				t.Errorf("unit %d shares %g, want %g", g, share, want)
			}
		}
	}
	n.PMax[2] = math.Inf(1)
	for _, p := range [][]float64{nil, {-1}, {math.Inf(1)}, {math.NaN()}} {
		if p != nil {
			p = append(p, make([]float64, n.Gens()-1)...)
		}
		if _, err := (Options{Participation: p}).shares(n, make([]bool, n.Gens())); err == nil || (p == nil) != strings.Contains(err.Error(), "unit 3 at bus 5 has no limits of active power") || (p != nil) != strings.Contains(err.Error(), "of unit 1 at bus 1: want a finite number") {
			t.Errorf("factors %v: %v", p, err)
		}
	}
}

// Costs and limits that the solver does not take are refused by the unit.
func TestNetworksThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(c *matpower.Case, g *matpower.Gen){
		"no mpc.gencost":                   func(c *matpower.Case, g *matpower.Gen) { c.HasCost = false },
		"a capability curve":               func(c *matpower.Case, g *matpower.Gen) { g.Pc2, g.Qc1Max, g.Qc2Max = 100, g.QMax, 0 },
		"generator 2 at bus 2: Qmin = 301": func(c *matpower.Case, g *matpower.Gen) { g.QMin = g.QMax + 1 },
		"generator 2 at bus 2":             func(c *matpower.Case, g *matpower.Gen) { g.PMin = g.PMax + 1 },
	} {
		c := networktest.Case(t, "case9")
		change(c, &c.Gen[1])
		if _, err := New(networktest.Of(t, c), DefaultOptions()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A problem has previous powers and ramps of every unit or neither, weights of its objective, and a start of the same solver. Loads of
// every bus are checked.
func TestShapesOfAProblem(t *testing.T) {
	n := networktest.Load(t, "case9")
	good := make([]float64, 3)
	for _, c := range []struct {
		pr Problem
		ok bool
	}{
		{Problem{}, true}, {Problem{Previous: good, Ramp: good}, true}, {Problem{Ramp: good}, false}, {Problem{Previous: good[:2], Ramp: good}, false}, {Problem{Previous: good, Ramp: good[:2]}, false},
		{Problem{Objective: acopf.Objective{Weights: [3]float64{1, 0, 2}}}, true}, {Problem{Objective: acopf.Objective{Weights: [3]float64{0, 0, math.Inf(1)}}}, false},
		{Problem{Objective: acopf.Objective{Weights: [3]float64{0, math.NaN(), 0}}}, false}, {Problem{Objective: acopf.Objective{Ideal: [3]float64{0, 1, 0}}}, false}, {Problem{Objective: acopf.Objective{Nadir: [3]float64{0, 1, 0}}}, false},
	} {
		if err := c.pr.check(n); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.pr, err)
		}
	}
	s := require.Get(New(n, Options{Outages: []Outage{{0, -1, false}}[:0]}))(t)
	ctx := context.Background()
	nine, three := make([]float64, 9), make([]float64, 3)
	for want, v := range map[string][5][]float64{
		"8 loads P": {nine[1:], nine, three, nine, nine}, "8 loads Q": {nine, nine[1:], three, nine, nine}, "2 powers": {nine, nine, three[1:], nine, nine}, "8 magnitudes": {nine, nine, three, nine[1:], nine}, "8 angles": {nine, nine, three, nine, nine[1:]},
	} {
		if _, err := s.Check(ctx, v[0], v[1], v[2], v[3], v[4]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := s.Check(ctx, nine, nine, three, nine, nine); err != nil {
		t.Error(err)
	}
	loads := slices.Clone(n.Pd)
	loads[3] = math.NaN()
	outages := require.Get(New(n, Options{}))(t)
	checks, err := outages.checkOutages(ctx, loads, n.Qd, n.Pg0, n.Vm0, n.Va0, nil, earlierChecks{})
	if err == nil || !strings.Contains(err.Error(), "is NaN: want a finite number") {
		t.Errorf("loads that are no numbers: %v, %v", err, checks)
	}
	solved := require.Get(s.Solve(ctx, Problem{}))(t)
	if sum := 0.0; len(s.Shares()) != 3 {
		t.Error("shares are not of every unit")
	} else if sum = s.Shares()[0] + s.Shares()[1] + s.Shares()[2]; math.Abs(sum-1) > 1e-15 {
		t.Errorf("shares sum to %g", sum)
	}
	other := require.Get(New(n, Options{Outages: []Outage{}}))(t)
	for _, start := range []*Result{solved, {sys: other.sys}} {
		if _, err := other.Solve(ctx, Problem{Start: start}); err == nil || !strings.Contains(err.Error(), "not a result of this solver") {
			t.Errorf("a start of another solver or without states: %v", err)
		}
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if _, err := s.Solve(ended, Problem{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
	pd, qd := n.Loads(4)
	if r := require.Get(s.Solve(ctx, Problem{Pd: pd, Qd: qd}))(t); r.Status != Insecure || !strings.HasPrefix(r.Reason, "without any outage: ") {
		t.Errorf("at four times the load: %v, %q", r.Status, r.Reason)
	}
}

// A chain ends at the first error, of a solve or of the visitor. Steps are warm where loads change by a tenth at most.
func TestChainEndsAtAnError(t *testing.T) {
	n := networktest.Load(t, "case9")
	s := require.Get(New(n, Options{Emergency: 1.3, Band: 0.05, Threads: 1}))(t)
	var steps []Problem
	for _, level := range []float64{1, 1.09, 0.97} {
		pr := Problem{Pd: scaled(n.Pd, level), Qd: scaled(n.Qd, level)}
		if level == 1 {
			pr = Problem{}
		}
		steps = append(steps, pr)
	}
	bad := Problem{Objective: acopf.Objective{Weights: [3]float64{-1, 0, 0}}}
	stop := errors.New("stop")
	var warmth []bool
	err := s.Chain(context.Background(), append(steps, bad, Problem{}), func(k int, warm bool, r *Result) error {
		if warmth = append(warmth, warm); r.Status != Secure {
			t.Errorf("step %d: %v %s", k, r.Status, r.Reason)
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "weight -1") || !slices.Equal(warmth, []bool{false, true, false}) {
		t.Errorf("%v after steps %v", err, warmth)
	}
	if err := s.Chain(context.Background(), []Problem{bad}, nil); err == nil || !strings.Contains(err.Error(), "weight -1") {
		t.Error(err)
	}
	count := 0
	if err := s.Chain(context.Background(), steps, func(int, bool, *Result) error { count++; return stop }); err != stop || count != 1 {
		t.Errorf("%v after %d steps", err, count)
	}
	for _, c := range []struct {
		from, to []float64
		want     float64
	}{{[]float64{1, -3}, []float64{2, -2}, 0.5}, {[]float64{0, 0}, []float64{0, 0}, 0}, {[]float64{0}, []float64{0.5}, math.Inf(1)}, {[]float64{2}, []float64{1}, 0.5}} {
		if got := relativeChange(c.from, c.to); got != c.want {
			t.Errorf("from %v to %v: %g, want %g", c.from, c.to, got, c.want)
		}
	}
}

// A status has its name.
func TestNamesOfStatuses(t *testing.T) {
	for status, want := range map[Status]string{NotSolved: "not solved", Secure: "secure", Insecure: "no secure point found", IterationLimit: "iteration limit", Numerical: "numerical"} {
		if status.String() != want {
			t.Errorf("%q, want %q", status, want)
		}
	}
	if k := (KKT{Feasibility: 1, Gradient: 2, Complementarity: 4, Cost: 3, Mismatch: 9, Violation: 9}); k.Max() != 4 {
		t.Errorf("the largest is %g", k.Max())
	}
}
