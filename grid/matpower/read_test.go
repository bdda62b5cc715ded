package matpower_test

import (
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// written is a case as people write them: every liberty the format allows.
const written = `%WRITTEN  A case by hand.
function [s] = written(unused, ~)
%{
A block comment with mpc.bus = [ in it,
%{
and another in it.
%}
%}
# a comment of Octave
s.version = "2"; s.baseMVA = 50*2;   % two statements a line
Sbase = s.baseMVA * 1e6; kv = 12.66;
s.bus = [ % comment after the bracket
	10, 3, 0, 0, 0, 0, 1, 1.0, 0, 135, 1, 1.05, .95, 9, 9, 9, 9   % a comma style, multipliers too
	7	1	2.17E1	1.27d+1	0	19	1	1	-5	kv	1	Inf	0.9	0 0 0 0; 300 2 -1 +2 3 ...
	-4 1 1.02 -0.5 135 1 1.1 (1 - 0.1) 0 0 0 0


	4 4 NaN-NaN*0+1 0 0 0 1 0 0 1 1 0 0 0 0 0 0;
];
s.gen = [
	10	23.54	0	Inf	-Inf	1	100	1	80	0	0	0	0	0	0	0	0	7	0	0	0
	300	10	0	60	-20	1	100	1	50 -3 0	0	0	0	0	0	0	0	0	0	0
	300	10	0	60	-20	1	100	1	1e2	100/4	0	0	0	0	0	0	0	0	0	0	0
	7	1	0	0	5	0	100	0	-1	1	0	0	0	0	0	0	0	0	0	0	0
];
s.branch = [
	10 7 0.02 0.06 0.03 130 0 0 0 0 1 -360 360; 7 300 1e-2 2^-4 0 0 0 0 0.978 -30 1 -pi*10 0
	7 10 0.02 0.06 0.03 Inf 0 0 0 0 1 0 0;
	4 10 0 0.5 0 0 0 0 0 0 1 0 0;
	10 300 0 0 0 0 0 0 0 0 0 -360 360;
];
s.gencost = [
	2 1500 0 4 0.001 0.11 5 150 0 0
	1 0 0 3 -3 10 20 30 50 120
	2 0 0 2 4 1 0 0 0 0
	2 0 0 1 4 1 0 0 0 0
	2 0 0 3 0.5 0 0 0 0 0
	2 0 0 1 0 0 0 0 0 0
	2 0 0 1 0 0 0 0 0 0
	2 0 0 1 0 0 0 0 0 0
];
s.dcline = [
	1 2 0 10 8.9 99.9 -9.9 1 1 1 10 -10 10 -10 10 1 0;
];
s.A = [ ]; s.N = [];
s.bus_name = {
	'Bus 1 % no comment', "it's";
	'a ]; s.bus = [ ''quoted''', { 'nested' }
};
s.extra.deep = struct('a', [1 2 3]);
s.gentype{2} = 'x'; s.gen_name = {'north', 'south', 'west', 'out'};
`

func read(t *testing.T, text string) *matpower.Case {
	t.Helper()
	c, err := matpower.Read("x.m", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAFileAsPeopleWriteIt, with its last statements after a NaN that must be
// refused taken away.
func TestAFileAsPeopleWriteIt(t *testing.T) {
	c := read(t, strings.Replace(written, "NaN-NaN*0+1", "1+0*2", 1))
	if c.Name != "written" || c.BaseMVA != 100 || !c.HasCost || !c.HasReactiveCost {
		t.Errorf("name %q, base %g, costs %v, %v", c.Name, c.BaseMVA, c.HasCost, c.HasReactiveCost)
	}
	if len(c.Bus) != 4 || len(c.Gen) != 6 || len(c.DCLine) != 1 || len(c.Branch) != 5 {
		t.Fatalf("%d buses, %d generators, %d branches", len(c.Bus), len(c.Gen), len(c.Branch))
	}
	want := []matpower.Bus{
		{ID: 10, Name: "Bus 1 % no comment", Type: matpower.Reference, Area: 1, Vm: 1, BaseKV: 135, Zone: 1, VMax: 1.05, VMin: 0.95, LamP: 9, LamQ: 9, MuVMax: 9, MuVMin: 9, Line: 13},
		{ID: 7, Name: "it's", Type: matpower.PQ, Pd: 21.7, Qd: 12.7, Bs: 19, Area: 1, Vm: 1, Va: -5, BaseKV: 12.66, Zone: 1, VMax: math.Inf(1), VMin: 0.9, Line: 14},
		{ID: 300, Name: "a ]; s.bus = [ 'quoted'", Type: matpower.PV, Pd: -1, Qd: 2, Gs: 3, Bs: -4, Area: 1, Vm: 1.02, Va: -0.5, BaseKV: 135, Zone: 1, VMax: 1.1, VMin: 0.9, Line: 14},
		{ID: 4, Name: "nested", Type: matpower.Isolated, Pd: 1, Area: 1, BaseKV: 1, Zone: 1, Line: 18},
	}
	if !slices.Equal(c.Bus, want) {
		t.Errorf("buses\n%+v, want\n%+v", c.Bus, want)
	}
	g := c.Gen
	if g[0].Name != "north" || !math.IsInf(g[0].QMax, 1) || !math.IsInf(g[0].QMin, -1) || g[0].Ramp10 != 7 || g[1].PMin != -3 || g[2].PMax != 100 || g[2].PMin != 25 || g[3].InService {
		t.Errorf("generators %+v", g)
	}
	if x := c.Branch[1]; x.X != 0.0625 || x.Tap != 0.978 || x.ShiftDeg != -30 || x.AngMin != -10*math.Pi || x.Line != 27 || !math.IsInf(c.Branch[2].RateA, 1) || c.Branch[4].InService {
		t.Errorf("branches %+v", c.Branch)
	}
	if v := g[0].Cost.Value(10); math.Abs(v-(1+11+50+150)) > 1e-12 || g[0].Cost.Startup != 1500 {
		t.Errorf("a cubic cost of %g at 10 MW, start-up %g", v, g[0].Cost.Startup)
	}
	for power, cost := range map[float64]float64{-3: 10, 20: 30, 35: 75, 50: 120, 60: 150, -26: -10} {
		if v := g[1].Cost.Value(power); math.Abs(v-cost) > 1e-12 {
			t.Errorf("a piecewise linear cost of %g at %g MW, want %g", v, power, cost)
		}
	}
	if v := g[0].ReactiveCost.Value(4); v != 8 {
		t.Errorf("a reactive cost of %g", v)
	}
	var ignored []string
	for _, f := range c.Ignored {
		ignored = append(ignored, f.Name)
	}
	if !slices.Equal(ignored, []string{"extra.deep", "gentype"}) || c.Ignored[0].Line != 50 {
		t.Errorf("ignored %v", c.Ignored)
	}
	if !math.IsNaN(matpower.Cost{}.Value(1)) {
		t.Error("no cost has a value")
	}
}

// TestBlanksSeparateNumbers the way MATLAB has it.
func TestBlanksSeparateNumbers(t *testing.T) {
	for text, want := range map[string][]float64{
		"1 -2":      {1, -2},
		"1 - 2":     {-1},
		"1-2":       {-1},
		"1, -2":     {1, -2},
		"1 + 2 -3":  {3, -3},
		"-2^2":      {-4},
		"2^-1 (3)":  {0.5, 3},
		"1 * -2":    {-2},
		"--2 -+3":   {2, -3},
		"2*3^2/9":   {2},
		"1./4 2.^2": {0.25, 4},
		"5 sqrt(4)": {5, 2},
	} {
		c, err := matpower.Read("x.m", strings.NewReader(small(len(want), text)))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := c.Gen[0].Cost.Coefficients; !slices.Equal(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

// small is a case of one bus whose cost is a polynomial with these coefficients.
func small(count int, cost string) string {
	return "mpc.version='2';mpc.baseMVA=1;mpc.bus=[1 3 0 0 0 0 1 1 0 1 1 1 1];mpc.gen=[1 0 0 0 0 1 1 1 1 0];" +
		"mpc.branch=[1 1 0 1 0 0 0 0 0 0 0];mpc.gencost=[2 0 0 " + strconv.Itoa(count) + " " + cost + "];"
}

// TestConversionsAtTheEnd: files of distribution networks give ohms and
// kilowatts and convert them.
func TestConversionsAtTheEnd(t *testing.T) {
	c := read(t, `function mpc = feeder
mpc.version = '2';
mpc.baseMVA = 10;
mpc.bus = [
	1 3 0 0 0 0 1 1 0 12.66 1 1 1
	2 1 100 60 0 0 1 1 0 12.66 1 1.1 .9
	3 1 90 40 0 0 1 1 0 12.66 1 1.1 .9
];
mpc.gen = [ 1 0 0 10 -10 1 100 1 10 0 ];
mpc.branch = [
	1 2 0.0922 0.0470 0 0 0 0 0 0 1
	2 3 0.4930 0.2511 0 0 0 0 0 0 1
];
[PQ, PV, REF, NONE, BUS_I, BUS_TYPE, PD, QD, GS, BS, BUS_AREA, VM, ...
    VA, BASE_KV] = idx_bus;
[F_BUS, T_BUS, R, X] = idx_brch;
Vbase = mpc.bus(1, BASE_KV) * 1e3;
Sbase = mpc.baseMVA * 1e6;
mpc.branch(:, [R X]) = mpc.branch(:, [R X]) / (Vbase^2 / Sbase);
mpc.bus(:, [PD, QD]) = mpc.bus(:, [PD, QD]) / 1e3;
pf = 0.85;
mpc.bus(3, QD) = mpc.bus(3, PD) * sin(acos(pf));
mpc.bus([2 3], VM) = 1.01;
`)
	z := 12.66 * 12.66 / 10
	if b := c.Branch[1]; math.Abs(b.R-0.4930/z) > 1e-15 || math.Abs(b.X-0.2511/z) > 1e-15 {
		t.Errorf("impedance %g + j%g", b.R, b.X)
	}
	if b := c.Bus[1]; b.Pd != 0.1 || b.Qd != 0.06 || b.Vm != 1.01 {
		t.Errorf("bus 2 %+v", b)
	}
	if b := c.Bus[2]; math.Abs(b.Qd-0.09*math.Sqrt(1-0.85*0.85)) > 1e-15 {
		t.Errorf("bus 3 %+v", b)
	}
	if c.HasCost {
		t.Error("a file without gencost has costs")
	}
}

// TestNamesAndLineEnds: a file with Windows line ends and a byte order mark, and
// one without a function line, which takes the name it is read under.
func TestNamesAndLineEnds(t *testing.T) {
	text := small(3, "3 4 5")
	c := read(t, "\xef\xbb\xbf% c\r\n"+strings.ReplaceAll(text, ";mpc", ";\r\nmpc")+"\r\n")
	if c.Name != "x.m" || len(c.Gen[0].Cost.Coefficients) != 3 || c.Bus[0].Line != 4 {
		t.Errorf("name %q, line %d, %+v", c.Name, c.Bus[0].Line, c.Gen[0].Cost)
	}
}

// TestReadErrorsAreHandedOn and are no *Error.
func TestReadErrorsAreHandedOn(t *testing.T) {
	_, err := matpower.Read("x.m", iotest.ErrReader(io.ErrClosedPipe))
	var bad *matpower.Error
	if !errors.Is(err, io.ErrClosedPipe) || errors.As(err, &bad) {
		t.Errorf("error %v", err)
	}
}

// TestCheckOfACaseMadeByHand has no line to give and says so by leaving it out.
func TestCheckOfACaseMadeByHand(t *testing.T) {
	c := &matpower.Case{Name: "mine", BaseMVA: 100,
		Bus:    []matpower.Bus{{ID: 1, Type: matpower.Reference, Vm: 1, VMax: 1, VMin: 1}},
		Gen:    []matpower.Gen{{Bus: 1, Vg: 1, InService: true}},
		Branch: nil,
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	c.Gen[0].PMin = 3
	if err := c.Check(); err != nil {
		t.Errorf("a power flow does not ask for limits: %v", err)
	}
	if err := c.Contradiction(); err == nil || !strings.HasPrefix(err.Error(), "mine: generator 1 at bus 1: Pmin = 3") {
		t.Errorf("error %v", err)
	}
	c.Gen[0].PMin = 0
	c.HasCost = true
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("error %v", err)
	}
}
