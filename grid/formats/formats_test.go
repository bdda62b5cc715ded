package formats_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/formats"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func file(t testing.TB, name string) string {
	return string(require.Get(os.ReadFile("testdata/" + name))(t))
}

func read(t *testing.T, name, text string) *matpower.Case {
	t.Helper()
	return require.Get(formats.Read(name, strings.NewReader(text)))(t)
}

func solve(t *testing.T, c *matpower.Case) *powerflow.Solution {
	t.Helper()
	s := require.Get(powerflow.New(require.Get(network.New(c))(t)))(t)
	sol := s.NewSolution()
	require.OK(t, s.Solve(powerflow.Input{}, powerflow.Options{}, sol))
	if !sol.Converged() {
		t.Fatal(s.Reason(sol))
	}
	return sol
}

// newer rewrites a file of version 33 in the fields of version 34 or 35.
func newer(text, version string) string {
	text = strings.Replace(text, "100.00, 33", "100.00, "+version, 1)
	text = strings.Replace(text, "FIGURE 2.18\n", "FIGURE 2.18\nGENERAL, THRSHZ=0.0001\n0 / END OF SYSTEM-WIDE DATA, BEGIN BUS DATA\n@! I,'NAME',BASKV\n", 1)
	section, lines := "", []string{}
	for _, line := range strings.Split(text, "\n") {
		if _, next, ok := strings.Cut(line, "BEGIN "); ok {
			if section = next; strings.HasPrefix(next, "TRANSFORMER") {
				lines = append(lines, "0 / END OF BRANCH DATA, BEGIN SYSTEM SWITCHING DEVICE DATA")
			}
		}
		f := strings.Split(line, ",")
		switch {
		case strings.HasPrefix(section, "BRANCH") && len(f) > 13:
			ratings := append(slices.Clone(f[6:9]), slices.Repeat([]string{""}, 9)...)
			f = slices.Concat(f[:6], []string{"'LINE " + f[0] + "'"}, ratings, f[9:])
		case strings.HasPrefix(section, "TRANSFORMER") && len(f) == 6:
			f = append(f, slices.Repeat([]string{"0"}, 9)...)
		case strings.HasPrefix(section, "GENERATOR") && len(f) > 13 && version == "35":
			f = slices.Insert(f, 8, "0")
		case strings.HasPrefix(section, "SWITCHED SHUNT") && len(f) > 9 && version == "35":
			f = slices.Insert(slices.Insert(f, 7, "0"), 1, "'1'")
		}
		lines = append(lines, strings.Join(f, ","))
	}
	return strings.Join(lines, "\n")
}

// The nine-bus network of every version has the voltages of the book (Anderson and Fouad, figure 2.19), and those of a
// MATPOWER file with the same impedances.
func TestRAWHasThePublishedSolution(t *testing.T) {
	raw := file(t, "wscc9.raw")
	blanks := strings.Replace(raw, "7 8 '1' 8.5D-3 0.0720 0.1490 250 250 250 0 0 0 0 1 1 0 /", "7,8,'1',0.0085,0.0720,0.1490,250,250,250,0,0,0,0,1,1,0 /", 1)
	for version, text := range map[string]string{"33": raw, "34": newer(blanks, "34"), "35": newer(blanks, "35")} {
		c := read(t, "wscc9.raw", text)
		if len(c.Bus) != 9 || len(c.Gen) != 3 || len(c.Branch) != 10 || c.Name != "wscc9" || c.Bus[4].Name != "STATION A" || c.Branch[7].Name != "T1" {
			t.Fatalf("version %s: %d buses, %d units, %d branches, %q, %q", version, len(c.Bus), len(c.Gen), len(c.Branch), c.Bus[4].Name, c.Branch[7].Name)
		}
		if b := c.Branch[1]; b.To != 6 || b.RateA != 250 || c.Bus[0].VMax != 1.05 || c.Bus[4].Pd != 125 || c.Bus[4].Bs != 5 || c.Bus[7].Bs != 0 || c.Gen[2].MBase != 128 {
			t.Errorf("version %s: %+v, %+v", version, b, c.Bus)
		}
		sol := solve(t, c)
		for b, want := range []struct{ vm, va float64 }{{1.04, 0}, {1.025, 9.3}, {1.025, 4.7}, {1.026, -2.2}, {0.996, -4.0}, {1.013, -3.7}, {1.026, 3.7}, {1.016, 0.7}, {1.032, 2.0}} {
			if math.Abs(sol.Vm[b]-want.vm) > 6e-4 || math.Abs(sol.Va[b]*180/math.Pi-want.va) > 0.06 {
				t.Errorf("version %s, bus %d: %.4f pu at %.2f°, want %.3f at %.1f", version, b+1, sol.Vm[b], sol.Va[b]*180/math.Pi, want.vm, want.va)
			}
		}
		if math.Abs(100*sol.Pg[0]-71.641) > 1e-3 || math.Abs(100*sol.Qg[0]-27.046) > 1e-3 {
			t.Errorf("version %s: unit 1 gives %.4f MW and %.4f MVAr", version, 100*sol.Pg[0], 100*sol.Qg[0])
		}
	}
	// Version 30 has shunts in the record of a bus, and no section for them.
	old := strings.Replace(raw, "100.00, 33", "100.00, 30", 1)
	head, body, _ := strings.Cut(old, "0 / END OF BUS DATA")
	for i := 1; i <= 9; i++ {
		for _, kind := range []string{",1,", ",2,", ",3,"} {
			head = strings.Replace(head, kind+"1,1,1,", kind+"0,0,1,1,", 1)
		}
	}
	shunts := strings.Index(body, "8,'1',1,0.0,7.0")
	gens := strings.Index(body, "1,'1',71.641")
	body = strings.Replace(body[:shunts], "FIXED SHUNT", "GENERATOR", 1) + body[gens:strings.Index(body, "0 / END OF AREA")]
	c := read(t, "wscc9.raw", head+"0 / END OF BUS DATA"+body+"Q\n")
	if sol := solve(t, c); math.Abs(c.Bus[7].Bs) > 0 || math.Abs(100*sol.Qg[0]-27.046) > 1e-3 {
		t.Errorf("version 30: %+v, %v", c.Bus, sol.Qg)
	}
}

// Transformers off nominal, with a phase shift, three windings, magnetising losses and a table of factors, by the circuit.
func TestRAWTransformers(t *testing.T) {
	head := "0,100,33 /\n\n\n1,'A',230,3,1,1,1,1.02,0\n2,'B',115,1,1,1,1,1,0\n3,'C',13.8,1,1,1,1,1,0\n0/\n0/\n0/\n1,'1',0,0\n0/\n0/\n"
	two := read(t, "two.raw", head+"1,2,0,'1',2,3,2,200000,0.01,2,'T',1\n400000,0.10,50\n241.5,225,30,100\n118,115\n1,3,0,'1',1,1,1,0,0,2,'U',1,,\n0,0.1,100\n1,0,0,90,,,0,0,1.1,0.9,1.1,0.9,33,7\n1.05,0\n0 /\n0/\n0/\n0/\n7,0.9,0.8,1.1,1.6\n0/\nQ\n")
	b := two.Branch[0]
	r := 400000 / 50e6 * 2 * math.Pow(225.0/230, 2)
	x := math.Sqrt(0.01-math.Pow(400000/50e6, 2)) * 2 * math.Pow(225.0/230, 2)
	tap2 := math.Pow(118.0/115, 2)
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("tap", b.Tap, 241.5/230/(118.0/115))
	near("r", b.R, r*tap2)
	near("x", b.X, x*tap2)
	near("shift", b.ShiftDeg, 30)
	near("no-load loss", two.Bus[0].Gs, 0.2*math.Pow(230.0/225, 2))
	near("excitation", two.Bus[0].Bs, -math.Sqrt(0.25-0.04)*math.Pow(230.0/225, 2))
	near("corrected x", two.Branch[1].X, 0.1*1.2*1.05*1.05)
	three := read(t, "three.raw", strings.TrimSuffix(head, "0/\n")+"1,3,'1',0,0.1,0\n0/\n1,2,3,'1',1,2,1,0.001,-0.002,2,'W',3\n0.01,0.10,50,0.02,0.20,40,0.03,0.30,30,1.01,-3\n1.02,0,0,100\n1,0,-30,80\n0.98,0,0,60\n0 /\nQ\n")
	z12, z23, z31 := 0.10*2, 0.20*2.5, 0.30/0.3
	for i, want := range []float64{(z12 + z31 - z23) / 2, (z12 + z23 - z31) / 2, (z31 + z23 - z12) / 2} {
		near("arm", three.Branch[i+1].X, want)
		near("resistance of the arm", three.Branch[i+1].R, want/10)
	}
	if s := three.Bus[3]; s.ID != 4 || s.Vm != 1.01 || s.Va != -3 || s.Name != "W star" || three.Branch[1].Tap != 1.02 || three.Branch[2].ShiftDeg != -30 || three.Branch[3].InService || !three.Branch[2].InService {
		t.Errorf("%+v, %+v", s, three.Branch)
	}
	near("shunt", three.Bus[0].Bs, -0.2)
	// The ratio of a table is of the bus's voltage, whatever the record's is of; from version 34 on a table goes on over lines.
	table := func(lines string) string {
		return strings.NewReplacer("0,100,33", "0,100,34", "\n1,'A'", "\n0 / BEGIN BUS DATA\n1,'A'").Replace(head) + "0/\n1,2,0,'1',2,1,1,0,0,2,'T',1\n0,0.1,100\n241.5,230,0" + strings.Repeat(",", 20) + "33,7\n115,115\n0 / BEGIN IMPEDANCE CORRECTION DATA\n" + lines + "0/\nQ\n"
	}
	more := read(t, "more.raw", table("7,0.9,0.8,0,1,1,0\n1.1,1.6,0,0,0,0\n"))
	near("x in further lines", more.Branch[0].X, 0.1*1.3)
	if _, err := formats.Read("complex.raw", strings.NewReader(table("7,0.9,0.8,0.1,1,1,0,0,0,0\n"))); err == nil || !strings.Contains(err.Error(), "complex factor") {
		t.Errorf("a complex factor: %v", err)
	}
}

// A DC line takes its power at its rectifier and gives it at its inverter; converters with their losses by hand. Bus 2 holds
// the voltage of the converter there, which a line with thyristors does not.
func TestRAWDCLines(t *testing.T) {
	head := "0,100,33 /\n\n\n1,'A',230,3,1,1,1,1,0\n2,'B',230,2,1,1,1,1,0\n0/\n0/\n0/\n1,'1',0,0\n2,'1',0,0\n0/\n1,2,'1',0.01,0.1,0\n0/\n0/\n0/\n"
	c := read(t, "dc.raw", head+"'DC',1,5,400,500,0,0,0,'I'\n1,2,20,10,0,4,230,1,1,1.1,0.9,0.01\n2,2,20,10,0,4,230,1,1,1.1,0.9,0.01\n0/\n'V',1,0.71\n1,2,2,-209,0.95,100,0.1,50,400,1200,0.1,100,-110\n2,1,1,100,0.99,90,0.15,40,350,1200,0.15,150,-140\n0/\nQ\n")
	current := (-500 + math.Sqrt(500*500+4*5*400)) / 10
	// An inverter of 2 bridges: the overlap's angles by the equations of the converter.
	dc := 500.0 / 2
	cosα := (dc + 3/math.Pi*4*current) * math.Pi / (3 * math.Sqrt2 * 230)
	cosβ := cosα - math.Sqrt2*4*current/230
	fundamental := (cosα + cosβ) / 2
	d := c.DCLine[0]
	if loss := 1 - 500*current/400; d.From != 1 || d.To != 2 || d.Pf != 400 || d.PMax != 400 || d.Vf != 0 || d.Vt != 0 || math.Abs(d.Loss1-loss) > 1e-12 || math.Abs(c.Gen[3].Pg-500*current) > 1e-9 || c.Gen[3].Name != "DC/2" {
		t.Errorf("%+v, %v kA, %+v", d, current, c.Gen)
	}
	if q, rough := -d.Qt, 500*current*math.Sqrt(1-fundamental*fundamental)/fundamental; math.Abs(q/rough-1) > 0.03 {
		t.Errorf("%v MVAr, about %v", q, rough)
	}
	// PSS/E's own solution of this line gives 205.29 MW at the inverter, and 68.69 MVAr go with 209 MW.
	v := c.DCLine[1]
	if g := c.Gen[5]; len(c.Gen) != 6 || g.Bus != 2 || math.Abs(g.Pg-205.29) > 0.02 || g.Vg != 0.99 || g.QMin != -140 || v.Pf != 209 || v.Loss0 != 0.19 || v.PMax != 350 || math.Abs(v.Qf+68.69) > 0.01 || v.QMinF != v.Qf {
		t.Errorf("%+v, %+v", v, c.Gen)
	}
	if text := strings.Join(c.Notes, " "); !strings.Contains(text, "DC lines carry") {
		t.Errorf("notes %q", text)
	}
	// Converters without power lose what their constant losses and the current for these cost.
	idle := read(t, "idle.raw", head+"0/\n\"CSC-VSC\",1,1.58,99,1.0\n1,2,1,0.00,1.02,1600,3.4,1110,360,1032,0.5,-20,-70,0,100\n2,1,1,300,1.0208,1600,3.4,1110,360,1085,0.5,-11,-70,0,100\n0/\nQ\n")
	amperes := 0.0
	for range 30 {
		amperes = (1600 + 3.4*amperes) / (300 - 1.58e-3*amperes)
	}
	if lost := 3.2 + 2*3.4e-3*amperes + 1.58e-6*amperes*amperes; math.Abs(idle.Gen[3].Pg+lost) > 1e-9 || idle.Gen[2].Pg != 0 {
		t.Errorf("%v A, %v MW, %+v", amperes, lost, idle.Gen)
	}
	// The power flow has what loads in place of the line leave of it, in voltages too, as the thyristors' end holds none.
	bus3 := "2,'B',230,1,1,1,1,0.97,0\n"
	text := strings.Replace(head, "2,'B',230,2,1,1,1,1,0\n", bus3, 1)
	line := read(t, "line.raw", strings.Replace(text, "2,'1',0,0\n", "", 1)+"'DC',1,5,150,500,0,0,0,'I'\n1,2,20,10,0,4,230,1,1,1.1,0.9,0.01\n2,2,20,10,0,4,230,1,1,1.1,0.9,0.01\n0/\nQ\n")
	loads := *line
	loads.Bus, loads.Gen, loads.DCLine = slices.Clone(line.Bus), line.Gen[:1], nil
	for i, end := range line.Gen[1:] {
		loads.Bus[i].Pd -= end.Pg
		loads.Bus[i].Qd -= end.Qg
	}
	got, want := solve(t, line), solve(t, &loads)
	if math.Abs(got.Vm[1]-want.Vm[1]) > 1e-9 || math.Abs(got.Va[1]-want.Va[1]) > 1e-9 || got.Vm[1] > 0.9999 && got.Vm[1] < 1.0001 {
		t.Errorf("%v at %v, want %v at %v", got.Vm, got.Va, want.Vm, want.Va)
	}
}

// devices is a file of version 33 with records in sections by name.
func devices(sections map[string]string) string {
	text := "0,100,33 /\n\n\n"
	for _, name := range strings.Split("BUS|LOAD|FIXED SHUNT|GENERATOR|BRANCH|TRANSFORMER|AREA|TWO-TERMINAL DC|VOLTAGE SOURCE CONVERTER|IMPEDANCE CORRECTION|MULTI-TERMINAL DC|MULTI-SECTION LINE|ZONE|INTER-AREA TRANSFER|OWNER|FACTS|SWITCHED SHUNT|GNE|INDUCTION MACHINE", "|") {
		text += sections[name] + "0 / END OF " + name + " DATA\n"
	}
	return text + "Q\n"
}

// A static compensator holds its voltage by what the circuit says, within its limits; one that is out, or further lines of what is
// out, change nothing. A series element is refused.
func TestRAWCompensators(t *testing.T) {
	text := map[string]string{"BUS": "1,'A',230,3,1,1,1,1.02,0\n2,'B',230,1,1,1,1,0.97,0\n", "LOAD": "2,'1',1,1,1,80,30\n", "GENERATOR": "1,'1',0,0,99,-99,1.02\n", "BRANCH": "1,2,'1',0,0.2,0\n",
		"FACTS": "'SVC',2,0,1,0,0,0.99,75\n'OUT',1,0,0\n", "GNE": "'G','M',2,1,2,11,1,0,0\n1,2,3,4,5,6,7,8,9,10\n11\n4\n", "MULTI-TERMINAL DC": "'M',1,1,1,0,1,0,0\n1,2,20,10,3.88,4,230,1\n1,1,1,1\n1,2,1,1\n"}
	c := read(t, "svc.raw", devices(text))
	angle := math.Asin(0.8 * 0.2 / (1.02 * 0.99))
	want := 0.3 + (0.99*0.99-1.02*0.99*math.Cos(angle))/0.2
	if sol := solve(t, c); len(c.Gen) != 2 || math.Abs(sol.Vm[1]-0.99) > 1e-10 || math.Abs(sol.Va[1]+angle) > 1e-9 || math.Abs(sol.Qg[1]-want) > 1e-8 {
		t.Errorf("%v at %v, %v, want 0.99 at %v and %v", sol.Vm, sol.Va, sol.Qg, angle, want)
	}
	if g := c.Gen[1]; g.QMax != 75 || g.QMin != -75 || g.PMax != 0 || g.PMin != 0 || g.Name != "SVC" || !strings.Contains(strings.Join(c.Notes, ";"), "facts SVC is a unit of -75 to 75 MVAr") {
		t.Errorf("%+v, %q", g, c.Notes)
	}
	for section, record := range map[string]string{"FACTS": "'UPFC',1,2,1\n", "GNE": "'G','M',1,2,0,0,0,1\n", "MULTI-TERMINAL DC": "'M',0,0,0,1,1,0,0\n"} {
		replaced := maps.Clone(text)
		replaced[section] = record
		if _, err := formats.Read("series.raw", strings.NewReader(devices(replaced))); err == nil || !strings.Contains(err.Error(), "in service") {
			t.Errorf("%s: %v", section, err)
		}
	}
}

// A unit at a bus of type 1 is out of service, one of a fixed power factor is a load of both signs that holds no voltage, and one
// within a factor has the limits of its power. Version 35 has two fields more.
func TestRAWUnitsAsPSSEHasThem(t *testing.T) {
	const rest = "0,100,0,1,0,0,1,1,100,99,-99,1,1,0,1,0,1,0,1," // from IREG to F4
	text := map[string]string{"BUS": "1,'A',230,3,1,1,1,1.02,0\n2,'B',230,2,1,1,1,1,0\n3,'C',230,1,1,1,1,1,0\n4,'D',230,2,1,1,1,1,0\n", "BRANCH": "1,2,'1',0.01,0.1,0\n2,3,'1',0.01,0.1,0\n3,4,'1',0.01,0.1,0\n",
		"LOAD": "3,'1',1,1,1,50,20\n", "GENERATOR": "1,'1',0,0\n2,'W',40,0,99,-99,1.05," + rest + "3,-0.8\n3,'1',50,10,99,-99,1.05\n4,'X',-30,0,99,-99,1.01," + rest + "2,0.6\n"}
	c := read(t, "wind.raw", devices(text))
	text["LOAD"] += "2,'1',1,1,1,-40,30\n"
	text["GENERATOR"] = "1,'1',0,0\n4,'X',-30,0,40,-40,1.01\n"
	got, want := solve(t, c), solve(t, read(t, "loads.raw", devices(text)))
	for b := range want.Vm {
		if math.Abs(got.Vm[b]-want.Vm[b]) > 1e-9 || math.Abs(got.Va[b]-want.Va[b]) > 1e-9 {
			t.Errorf("bus %d: %v at %v, want %v at %v", b+1, got.Vm[b], got.Va[b], want.Vm[b], want.Va[b])
		}
	}
	if g := c.Gen; math.Abs(g[1].Qg+30) > 1e-12 || g[1].QMax != g[1].QMin || g[2].InService || math.Abs(g[3].QMax-40) > 1e-12 || g[3].QMin != -g[3].QMax || !strings.Contains(strings.Join(c.Notes, ";"), "unit 3-1 is out of service, as PSS/E has those") {
		t.Errorf("%+v, %q", g, c.Notes)
	}
	text["GENERATOR"] = "1,'1',0,0\n2,'W',40,0,99,-99,1.05,0," + strings.Replace(rest, "-99,", "-99,0,", 1) + "3,0.8\n"
	newest := strings.NewReplacer("0,100,33 /\n\n\n", "0,100,35 /\n\n\n0\n", "0 / END OF TRANSFORMER", "0\n0 / END OF TRANSFORMER").Replace(devices(text))
	if g := read(t, "newest.raw", newest).Gen[1]; math.Abs(g.Qg-30) > 1e-12 || g.PMin != -99 {
		t.Errorf("version 35: %+v", g)
	}
	text["GENERATOR"] = "1,'1',0,0\n2,'W',40,0,99,-99,1.05," + rest + "3,0\n"
	if _, err := formats.Read("factor.raw", strings.NewReader(devices(text))); err == nil || !strings.Contains(err.Error(), "a power factor of 0") {
		t.Errorf("%v", err)
	}
}

// A line without resistance of at most the threshold makes one bus of two, whatever its reactance; a star's arm without reactance
// has PSS/E's.
func TestRAWWithoutImpedance(t *testing.T) {
	text := map[string]string{"BUS": "1,'A',230,3,1,1,1,1.02,0\n2,'B',230,1,1,1,1,1,0\n3,'C',230,1,1,1,1,1,0\n", "BRANCH": "1,2,'1',0,9e-5,0\n2,3,'1',0,0.1,0\n1,2,'@1',1e-4,1e-5,0\n", "LOAD": "3,'1',1,1,1,80,20\n", "GENERATOR": "1,'1',0,0,99,-99,1.02\n"}
	c := read(t, "joined.raw", devices(text))
	if sol := solve(t, c); math.Abs(sol.Vm[1]-1.02) > 2e-8 || c.Branch[2].R != 1e-4 || !strings.Contains(strings.Join(c.Notes, ";"), "join their buses: 1") {
		t.Errorf("%v, %+v, %q", sol.Vm, c.Branch, c.Notes)
	}
	newer := strings.NewReplacer("0,100,33 /\n\n\n", "0,100,34 /\n\n\nGENERAL, THRSHZ=0.00001\n0\n", "0 / END OF TRANSFORMER", "0\n0 / END OF TRANSFORMER").Replace(devices(text))
	if c := read(t, "apart.raw", newer); c.Branch[0].X != 9e-5 {
		t.Errorf("%+v", c.Branch)
	}
	text["TRANSFORMER"] = "1,2,3,'1',1,1,1,0,0,2,'W',1\n0.01,0.1,100,0.01,0.1,100,0.02,0.2,100\n1\n1\n1\n"
	if b := read(t, "star.raw", devices(text)).Branch; b[4].X != 1e-4 || math.Abs(b[3].X-0.1) > 1e-12 || math.Abs(b[5].X-0.1) > 1e-12 {
		t.Errorf("%+v", b)
	}
}

// What a file regulates is in lines of controls, with ranges in the units of the branch and the bus: kV of winding 1 over the bus's,
// a phase shifter's angles, susceptance with what else is at the bus. What is none of them is said.
func TestRAWControls(t *testing.T) {
	text := file(t, "controls.raw")
	want := []string{"tap 3 bus 2 1 1.01 0.9 1.1 16", "shift 4 flow 30 32 -20 20", "tap 7 bus 3 0.99 1 0.9 1.1 32", "shunt 4 bus 5 1 1.012 -4 46 5", "shunt 2 bus 2 1.02 1.02 0 30", "shunt 3 bus 3 1.02 1.02 0 35"}
	c := read(t, "controls.raw", text)
	if !slices.Equal(c.Controls, want) {
		t.Errorf("%q", c.Controls)
	}
	if notes := strings.Join(c.Notes, "; "); !strings.Contains(notes, "transformer Q, bus 1 to bus 4: its control of mode 2") || !strings.Contains(notes, "the switched shunt at bus 3 has blocks of several sizes") {
		t.Errorf("notes %q", notes)
	}
	// Version 35 has a node behind the bus, and a status before each block.
	newest := strings.NewReplacer("0,100,33", "0,100,35", "0 / BEGIN SWITCHED", "0\n0\n0 / BEGIN SWITCHED",
		"230,230,0,0,0,0,1,2,253,207,", "230,230,0,0,0,0,,,,,,,,,,1,2,0,253,207,", "1,0,2,0,0,0,3,0,20", "1,0,2,0,0,0,,,,,,,,,,3,0,0,20", "1,13.8,0,0,0,0,1,3,1.1", "1,13.8,0,0,0,0,,,,,,,,,,1,3,0,1.1", "1,0,0,0,0,0,2,4,1.1", "1,0,0,0,0,0,,,,,,,,,,2,4,0,1.1",
		"4,1,0,1,1.012,1.0,5,100,'',10,4,10,1,-10", "4,'1',1,0,1,1.012,1.0,5,0,100,'',10,1,4,10,1,1,-10,0,7,3", "2,2,0,1,1.02,1.02,0,100,'',0,2,15", "2,'1',2,0,1,1.02,1.02,0,0,100,'',0,1,2,15",
		"3,1,0,1,1.02,1.02,0,100,'',0,2,15,1,5", "3,'1',1,0,1,1.02,1.02,0,0,100,'',0,1,2,15,1,1,5", "5,0,0,1,1.02,1.02,0,100,'',3,2,15", "5,'1',0,0,1,1.02,1.02,0,0,100,'',3,1,2,15").Replace(text)
	newest = strings.Replace(newest, "\n1,'A',230", "\n0 / END OF SYSTEM-WIDE DATA, BEGIN BUS DATA\n1,'A',230", 1)
	newest = strings.Replace(newest, "0/\n1,2,0,'1',2", "0/\n0 / BEGIN TRANSFORMER DATA\n1,2,0,'1',2", 1)
	if c := read(t, "controls.raw", newest); !slices.Equal(c.Controls, want) {
		t.Errorf("version 35: %q", c.Controls)
	}
}

// Faults of files, with their lines.
func TestFaultsHaveTheirLines(t *testing.T) {
	raw := file(t, "wscc9.raw")
	cdf := file(t, "three.cdf")
	for _, f := range []struct {
		name, text string
		line       int
		reason     string
	}{
		{"a.raw", strings.Replace(raw, "2,'1',163.0", "22,'1',163.0", 1), 24, "no bus 22"},
		{"a.raw", strings.Replace(raw, "8,9,'1',0.0119", "8,9,'1',0.01l9", 1), 32, `field 4 is "0.01l9"`},
		{"a.raw", strings.Replace(raw, "100.00, 33", "100.00, 22", 1), 1, "version 22"},
		{"a.raw", strings.Replace(raw, "'GEN 2'", "'GEN 2", 1), 5, "not closed"},
		{"a.raw", strings.Replace(raw, "1.0,230.0\n2,7", "1.0,230.0\n2,77", 1), 39, "no bus 77"},
		{"a.raw", strings.Replace(raw, "0 / END OF FACTS", "1,5,6,1\n0 / END OF FACTS", 1), 57, "facts 1 has a series element"},
		{"a.raw", strings.Replace(raw, "'T2',1", "'T2',1\nx", 1), 40, `field 1 is "x"`},
		{"a.raw", strings.Replace(raw, "8,9,'1',0.0119,", "8,9,'1',0.0119 /", 1), 32, `field 5 is ""`},
		{"a.raw", "0,100,33\n", 1, "three"},
		{"a.cdf", strings.Replace(cdf, "1.060", "1.x60", 1), 3, `columns 28 to 33 are "1.x60"`},
		{"a.cdf", strings.Replace(cdf, "END OF DATA", "", 1), 1, "END OF DATA"},
		{"a.json", "{\n\n\"baseMVA\": x}", 3, "invalid character"},
		{"a.json", `{"baseMVA": 100, "bus": {"1": {"bus_i": 1, "bus_type": 3}, "2": {"bus_i": 2}}, "gen": {"1": {"gen_bus": 1}}, "branch": {"7": {"f_bus": 1, "t_bus": 2}}}`, 0, "branch 7 of PowerModels' data has no br_x"},
		{"a.json", `{"baseMVA": 100, "bus": {"1": {"bus_i": 1, "bus_type": 3}}, "load": {"3": {"load_bus": 1, "qd": 1}}}`, 0, "load 3 of PowerModels' data has no pd"},
		{"a.mat", "MATLAB", 0, "128"},
	} {
		_, err := formats.Read(f.name, strings.NewReader(f.text))
		var e *matpower.Error
		if !errors.As(err, &e) || e.Line != f.line || !strings.Contains(e.Reason, f.reason) || e.Name != f.name {
			t.Errorf("%v, want line %d and %q", err, f.line, f.reason)
		}
	}
}

// A Common Data Format file, in the columns of the format.
func TestCDF(t *testing.T) {
	c := read(t, "three.cdf", file(t, "three.cdf"))
	want := []matpower.Bus{
		{ID: 1, Name: "First    HV", Type: 3, Area: 1, Zone: 1, Vm: 1.06, BaseKV: 132, VMax: 1.06, VMin: 0.94, Line: 3},
		{ID: 2, Name: "Second   HV", Type: 2, Area: 1, Zone: 1, Vm: 1.045, Va: -4.98, Pd: 21.7, Qd: 12.7, BaseKV: 132, VMax: 1.06, VMin: 0.94, Line: 4},
		{ID: 3, Name: "Third    LV", Type: 1, Area: 1, Zone: 2, Vm: 1.01, Va: -12.72, Pd: 94.2, Qd: 19, Bs: 19, VMax: 1.06, VMin: 0.94, Line: 5},
	}
	if c.BaseMVA != 100 || !slices.Equal(c.Bus, want) {
		t.Errorf("%v\n%+v, want\n%+v", c.BaseMVA, c.Bus, want)
	}
	if g := c.Gen; len(g) != 2 || g[0].Pg != 232.4 || g[0].Qg != -16.9 || g[1].QMax != 50 || g[1].QMin != -40 || g[1].Vg != 1.045 {
		t.Errorf("%+v", g)
	}
	if b := c.Branch; len(b) != 2 || b[0].X != 0.05917 || b[0].B != 0.0528 || b[1].Tap != 0.978 || b[1].ShiftDeg != -30 || b[1].RateA != 120 {
		t.Errorf("%+v", b)
	}
	solve(t, c)
}

// A case that MATLAB's format holds is that of the text, with names; so is PowerModels' of one bus.
func TestBinaryCase(t *testing.T) {
	c, want := read(t, "case9.mat", file(t, "case9.mat")), require.Get(cases.Read("case9"))(t)
	got, text := solve(t, c), solve(t, want)
	if !slices.Equal(got.Vm, text.Vm) || c.Name != "case9" || c.Bus[8].Name != "Bus 9" || !slices.Equal(c.Gen[1].Cost.Coefficients, want.Gen[1].Cost.Coefficients) {
		t.Errorf("%q, %+v", c.Name, c)
	}
	// A sparse matrix of constraints is refused, and units and branches have names.
	element := func(kind uint32, content []byte) []byte {
		e := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, kind), uint32(len(content)))
		return append(append(e, content...), make([]byte, -len(content)&7)...)
	}
	words := func(values ...int32) (b []byte) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
		return b
	}
	array := func(class, rows, columns int32, name string, parts ...[]byte) []byte {
		return element(14, slices.Concat(append([][]byte{element(6, words(class, 0)), element(5, words(rows, columns)), element(1, []byte(name))}, parts...)...))
	}
	matrix := func(columns int32, values ...float64) []byte {
		rows, content := int32(len(values))/columns, []byte(nil)
		for i := range values {
			at := i%int(rows)*int(columns) + i/int(rows)
			content = binary.LittleEndian.AppendUint64(content, math.Float64bits(values[at]))
		}
		return array(6, rows, columns, "", element(9, content))
	}
	characters := func(text string) []byte { return array(4, 1, int32(len(text)), "", element(16, []byte(text))) }
	mat := func(field string, content []byte) string {
		names, fields := []byte(nil), []byte(nil)
		for _, f := range []struct {
			name  string
			value []byte
		}{{"baseMVA", matrix(1, 100)}, {"bus", matrix(13, 1, 3, 0, 0, 0, 0, 1, 1, 0, 230, 1, 1.1, 0.9, 2, 1, 50, 0, 0, 0, 1, 1, 0, 230, 1, 1.1, 0.9)}, {"gen", matrix(10, 1, 0, 0, 9, -9, 1, 100, 1, 99, 0)},
			{"branch", matrix(13, 1, 2, 0, 0.1, 0, 0, 0, 0, 0, 0, 1, -360, 360)}, {"gen_name", array(1, 1, 1, "", characters("Unit A"))}, {"branch_name", array(1, 1, 1, "", characters("Line A"))}, {field, content}} {
			names = append(names, append([]byte(f.name), make([]byte, 16-len(f.name))...)...)
			fields = append(fields, f.value...)
		}
		head := append(make([]byte, 124), 0, 1, 'I', 'M')
		return string(head) + string(array(2, 1, 1, "mpc", element(5, words(16)), element(1, names), fields))
	}
	if named := read(t, "named.mat", mat("A", array(5, 0, 0, "", element(5, nil)))); named.Gen[0].Name != "Unit A" || named.Branch[0].Name != "Line A" {
		t.Errorf("%+v, %+v", named.Gen, named.Branch)
	}
	sparse := array(5, 1, 4, "", element(5, words(0)), element(5, words(0, 1, 1, 1, 1)), element(9, make([]byte, 8)))
	for field, reason := range map[string]string{"A": "user-defined linear constraints", "dcline": "mpc.dcline is no full matrix"} {
		if _, err := formats.Read("sparse.mat", strings.NewReader(mat(field, sparse))); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("sparse %s: %v", field, err)
		}
	}
	one := read(t, "one.json", `{"baseMVA": 50, "per_unit": true, "bus": {"4": {"bus_i": 4, "bus_type": 3, "vmin": 0.9, "vmax": 1.1, "name": "N"}}, "load": {"1": {"load_bus": 4, "pd": 0.5, "qd": 0.1, "status": true}},
		"gen": {"1": {"gen_bus": 4, "pmax": 2, "model": 2, "cost": [100, 200, 3]}}, "branch": {}}`)
	if g := one.Gen[0]; one.Bus[0].Pd != 25 || one.Bus[0].Name != "N" || g.PMax != 100 || !slices.Equal(g.Cost.Coefficients, []float64{0.04, 4, 3}) {
		t.Errorf("%+v, %+v", one.Bus, g)
	}
}

// PowerModels has a ratio whatever it calls a branch, its reactive powers run into a DC line, and its limits of active power are
// all of the from end.
func TestPowerModelsIsMATPOWERs(t *testing.T) {
	c := read(t, "two.json", `{"baseMVA": 100, "per_unit": true, "bus": {"1": {"bus_i": 1, "bus_type": 3}, "2": {"bus_i": 2, "bus_type": 1}}, "gen": {"1": {"gen_bus": 1, "cost": [1, 2]}},
		"branch": {"1": {"f_bus": 1, "t_bus": 2, "br_x": 0.1, "tap": 0.95, "transformer": false}, "2": {"f_bus": 1, "t_bus": 2, "br_x": 0.1, "tap": 1, "transformer": false}},
		"dcline": {"1": {"f_bus": 1, "t_bus": 2, "pf": 0.1, "pt": -0.097, "qf": 0.02, "qt": -0.03, "pminf": -0.10102040816326531, "pmaxf": 0.2, "qminf": -1, "qmaxf": 1, "qmint": -1, "qmaxt": 1, "loss0": 0.001, "loss1": 0.02}}}`)
	d := c.DCLine[0]
	if _, err := formats.Read("dc.json", strings.NewReader(`{"baseMVA": 100, "bus": {"1": {"bus_i": 1, "bus_type": 3}}, "gen": {"1": {"gen_bus": 1, "cost": [1, 2]}}, "branch": {}, "convdc": {"2": {"busdc_i": 1}}}`)); err == nil || !strings.Contains(err.Error(), "convdc 2 of PowerModels' data is in service") {
		t.Errorf("a DC grid: %v", err)
	}
	if c.Branch[0].Tap != 0.95 || c.Branch[1].Tap != 0 || d.Qf != -2 || d.Qt != 3 || math.Abs(d.PMin+10) > 1e-12 || d.PMax != 20 || math.Abs(c.Gen[1].PMax-10.102040816326531) > 0 && math.Abs(c.Gen[2].PMin+10) > 1e-12 {
		t.Errorf("%+v, %+v, %+v", c.Branch, d, c.Gen)
	}
}

// A file that ends before its switched shunts do is refused, wherever it ends; a byte order mark moves no column.
func TestFilesAreWhole(t *testing.T) {
	raw := file(t, "wscc9.raw")
	end := strings.Index(raw, "0 / END OF SWITCHED SHUNT")
	for k := 0; k <= end; k += 1 + strings.IndexByte(raw[k:], '\n') {
		if c, err := formats.Read("x.raw", strings.NewReader(raw[:k])); err == nil {
			t.Errorf("the first %d bytes are a case of %d branches", k, len(c.Branch))
		}
	}
	read(t, "x.raw", raw[:end]+"Q\n")
	for _, name := range []string{"wscc9.raw", "three.cdf"} {
		if plain, marked := read(t, name, file(t, name)), read(t, name, "\ufeff"+file(t, name)); plain.BaseMVA != marked.BaseMVA || !slices.Equal(plain.Bus, marked.Bus) {
			t.Errorf("%s: %v MVA, behind a byte order mark %v", name, plain.BaseMVA, marked.BaseMVA)
		}
	}
}

// FuzzRead: no file of any format ends the program, and what is read is a case.
func FuzzRead(f *testing.F) {
	f.Add(0, []byte(file(f, "wscc9.raw")))
	f.Add(1, []byte(file(f, "three.cdf")))
	f.Add(2, []byte(file(f, "case9.mat")))
	f.Add(3, []byte(`{"baseMVA": 100, "per_unit": true, "bus": {"1": {"bus_i": 1, "bus_type": 3}}, "gen": {"1": {"gen_bus": 1, "cost": [1, 2]}}, "branch": {}}`))
	f.Fuzz(func(t *testing.T, kind int, text []byte) {
		c, err := formats.Read("x"+[]string{".raw", ".cdf", ".mat", ".json"}[kind&3], strings.NewReader(string(text)))
		var e *matpower.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("no error of a file: %v", err)
		}
		if err == nil {
			require.OK(t, c.Check())
		}
	})
}
