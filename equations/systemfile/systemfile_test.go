package systemfile_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/systemfile"
	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/examples/gallery/chain"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp"
)

// written are the gallery's systems as files, read back.
func written(t *testing.T, y equations.System) (*equations.Problem, *systemfile.File) {
	t.Helper()
	p := require.Get(equations.New(y))(t)
	f := require.Get(systemfile.Of(p))(t)
	return p, require.Get(systemfile.Unmarshal(require.Get(f.Marshal())(t)))(t)
}

// The file's problem is the Go one: objectives, margins and steps to the bit where Go does not fuse, the same
// derivatives, and the same fingerprint, so that one's maps are the other's.
func TestAFileIsItsSystem(t *testing.T) {
	for _, y := range gallery.Systems() {
		t.Run(y.Name, func(t *testing.T) {
			own, f := written(t, y)
			read := require.Get(equations.New(f.System()))(t)
			if own.Fingerprint() != read.Fingerprint() {
				t.Error("the fingerprints differ")
			}
			rng := rand.New(rand.NewPCG(8, 9))
			for range 50 {
				s, c, u := point(y, rng)
				sameAt(t, own, read, s, c, u)
			}
			if a, b := require.Get(f.Identity())(t), require.Get(require.Get(systemfile.Of(read))(t).Identity())(t); a != b {
				t.Error("a file that is read and written is another one")
			}
		})
	}
}

// Soft limits, rates and blocks are fields of the file, and the program of both has them as the functions have.
func TestAFileDeclaresSoftLimitsRatesAndBlocks(t *testing.T) {
	y := chain.System(1)
	y.Soft = []equations.Soft{{Margin: y.Margins[0].Name, Linear: 3, Quadratic: 1, Priority: 2}}
	y.Rates = []float64{0.5, 0, 0.2}
	y.Blocks = []int{1, 2, 4}
	own, f := written(t, y)
	if z := f.System(); !slices.Equal(z.Soft, y.Soft) || !slices.Equal(z.Rates, y.Rates) || !slices.Equal(z.Blocks, y.Blocks) || len(z.Margins) != len(y.Margins) {
		t.Errorf("the file says %v, %v, %v and %d margins", z.Soft, z.Rates, z.Blocks, len(z.Margins))
	}
	read := require.Get(equations.New(f.System()))(t)
	if own.Fingerprint() != read.Fingerprint() {
		t.Error("the fingerprints differ")
	}
	for _, p := range []*equations.Problem{own, read} {
		whole := require.Get(p.Program())(t) // which is held to the functions
		if n := whole.Function("margins").Results(); n != len(y.Margins)-1+4 {
			t.Errorf("the program has %d margins", n)
		}
	}
	rng := rand.New(rand.NewPCG(8, 9))
	for range 50 {
		s, c, u := point(y, rng)
		sameAt(t, own, read, s, append(c, rng.Float64(), rng.Float64()), u)
	}
	for _, test := range []struct {
		change func(z *equations.System)
		says   string
	}{
		{func(z *equations.System) { z.Rates = append(z.Rates, 1) }, "rates has 4 entries"},
		{func(z *equations.System) { z.Blocks = make([]int, 5000) }, "blocks has 5000 entries"},
		{func(z *equations.System) { z.Soft = slices.Repeat(z.Soft, 9) }, "soft has 9 entries"},
	} {
		text := require.Get(f.Marshal())(t)
		z := f.System()
		test.change(&z)
		var fields map[string]any
		require.OK(t, json.Unmarshal(text, &fields))
		fields["rates"], fields["soft"], fields["blocks"] = z.Rates, softFields(z.Soft), z.Blocks
		if _, err := systemfile.Unmarshal(require.Get(json.Marshal(fields))(t)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v, want %q", err, test.says)
		}
	}
}

// A file says every field of a switch, and its problem is the Go one, projections included.
func TestAFileDeclaresSwitches(t *testing.T) {
	y := cstr.System()
	y.Soft = []equations.Soft{{Margin: y.Margins[0].Name, Linear: 3}}
	feed, cooling := y.Action[0], y.Action[1]
	y.Rest = []float64{feed.Lo, cooling.Lo / 2}
	y.Switches = []equations.Switch{
		{Action: cooling.Name, Values: []float64{cooling.Lo, cooling.Lo / 2, cooling.Hi}, Least: []int{2, 1, 3}, Most: 2, Window: 8, Cost: 0.5, Objective: y.Objectives[0].Name, Initial: cooling.Hi},
		equations.OneOf(feed.Name, feed.Lo, feed.Hi),
	}
	own, f := written(t, y)
	z := f.System()
	if got := z.Switches; len(got) != 2 || !reflect.DeepEqual(got[0], y.Switches[0]) || !slices.Equal(got[1].Values, y.Switches[1].Values) || !math.IsNaN(got[1].Initial) || got[1].Least != nil {
		t.Errorf("the file says %+v", got)
	}
	read := require.Get(equations.New(z))(t)
	if own.Fingerprint() != read.Fingerprint() {
		t.Error("the fingerprints differ")
	}
	if !reflect.DeepEqual(own.Spec().Switches, read.Spec().Switches) {
		t.Errorf("the file's switches are %+v, want %+v", read.Spec().Switches, own.Spec().Switches)
	}
	rng := rand.New(rand.NewPCG(9055, 1))
	for range 50 {
		s, c, u := point(y, rng)
		// Last value and age of the feed's change, last value and ages of two of the cooling.
		c = append(c, feed.Lo, 1, y.Switches[0].Values[rng.IntN(3)], float64(1+rng.IntN(8)), 8)
		v := slices.Clone(u)
		if own.Project(s, c, u) != read.Project(s, c, v) || !slices.Equal(u, v) {
			t.Fatalf("the projections are %v and %v", u, v)
		}
		sameAt(t, own, read, s, c, u)
	}
}

func TestWrongSwitchesOfAFileAreRefusedByPlace(t *testing.T) {
	good := string(crane(t))
	for _, c := range []struct{ switches, want string }{
		{`{"action":"trolly","values":[-5,5]}`, `switches[0].action "trolly" is not an entry of action`},
		{`{"action":"pull"}`, "switches[0].values is missing"},
		{`{"action":"pull","values":[-5,5],"lest":[1,1]}`, "lest"},
		{`{"action":"pull","values":[-5,5,5]}`, "switches[0].values[2] is 5 after 5"},
		{`{"action":"pull","values":[5,-5]}`, "switches[0].values[1] is -5 after 5"},
		{`{"action":"pull","values":[-5,5],"least":[1]}`, "switches[0].least has 1 entries"},
		{`{"action":"pull","values":[-5,5],"least":[1,1.5]}`, "switches.least is a number 1.5"},
		{`{"action":"pull","values":[-5,5],"cost":1,"objective":"noise"}`, `switches[0].objective "noise" is not`},
		{`{"action":"pull","values":[-5,5],"before":0}`, "switches[0].before is 0"},
		{`{"action":"pull","values":[-5,5]},{"action":"pull","values":[-5,5]}`, "switches has 2 entries"},
	} {
		text := strings.Replace(good, `"steps":50`, `"switches":[`+c.switches+`],"steps":50`, 1)
		_, err := systemfile.Unmarshal([]byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", c.switches, err, c.want)
		}
	}
}

func softFields(list []equations.Soft) (out []map[string]any) {
	for _, s := range list {
		out = append(out, map[string]any{"margin": s.Margin, "linear": s.Linear})
	}
	return out
}

func point(y equations.System, rng *rand.Rand) (s, c, u []float64) {
	p := make([]float64, len(y.Scenario))
	for i, v := range y.Scenario {
		p[i] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
	}
	s, c, u = make([]float64, len(y.State)), make([]float64, len(y.Context)+1), make([]float64, len(y.Action))
	y.Initial(p, s, c)
	for i := range s {
		s[i] += 0.02 * rng.NormFloat64()
	}
	c[len(c)-1] = rng.Float64()
	for i, v := range y.Action {
		u[i] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
	}
	return s, c, u
}

func sameAt(t *testing.T, own, read *equations.Problem, s, c, u []float64) {
	t.Helper()
	spec := own.Spec()
	of := func(p *equations.Problem) map[string][]float64 {
		j, m, sn, cn := make([]float64, len(spec.Objectives)), make([]float64, len(spec.Margins)), make([]float64, len(s)), make([]float64, len(c))
		p.Objectives(s, u, c, j)
		p.Margins(s, c, u, m)
		p.Step(s, c, u, sn, cn)
		gs, gu, delta := make([]float64, len(s)), make([]float64, len(u)), make([]float64, len(j))
		sigma := make([]float64, len(j))
		for i := range sigma {
			sigma[i] = 1 / float64(len(j))
		}
		p.Gradient(s, u, c, sigma, gs, gu)
		p.Indicators(s, u, c, delta)
		return map[string][]float64{"objectives": j, "margins": m, "state": sn, "context": cn, "gradient s": gs, "gradient u": gu, "urgency": delta}
	}
	want, got := of(own), of(read)
	for name, list := range want {
		for i, v := range list {
			w := got[name][i]
			same := math.Float64bits(v) == math.Float64bits(w) || v == 0 && w == 0
			if strings.HasPrefix(name, "gradient") || runtime.GOARCH != "amd64" {
				same = math.Abs(v-w) <= 1e-10*(1+math.Abs(v))
			}
			if !same {
				t.Fatalf("%s[%d] is %v by Go and %v by the file, at s %v, c %v, u %v", name, i, v, w, s, c, u)
			}
		}
	}
}

// crane is a whole file by hand, as a user would find it in the document.
func crane(t testing.TB) []byte {
	return require.Get(os.ReadFile(filepath.Join("testdata", "crane.json")))(t)
}

func TestAFileByHand(t *testing.T) {
	f := require.Get(systemfile.Unmarshal(crane(t)))(t)
	c := require.Get(f.Case())(t)
	picture := domain.AbilitiesOfProblem(c.Problem).Picture
	if picture == nil {
		t.Fatal("the case has no picture")
	}
	shapes := picture([]float64{1, 0, 0, 0}, []float64{0, 0})
	if len(shapes) != 2 || shapes[0].Path[1] != [2]float64{1, -2} || shapes[1].Radius != 0.2 {
		t.Errorf("the shapes are %v", shapes)
	}
	for _, s := range shapes {
		require.OK(t, s.Validate())
	}
	var spaced bytes.Buffer
	require.OK(t, json.Indent(&spaced, crane(t), " ", "  "))
	if a, b := require.Get(f.Identity())(t), require.Get(require.Get(systemfile.Unmarshal(spaced.Bytes()))(t).Identity())(t); a != b {
		t.Error("spaces made another system of it")
	}
}

// What is wrong with a file is said with its place.
func TestWrongFilesAreRefusedByPlace(t *testing.T) {
	good := string(crane(t))
	for _, c := range []struct{ from, to, want string }{
		{`"gpc-system"`, `"gpc-program"`, `format is "gpc-program", want "gpc-system"`},
		{`"version":1,"name":"crane","description"`, `"version":2,"name":"crane","description"`, "version is 2"},
		{`"steps":50`, `"steps":0`, "steps is 0"},
		{`"steps":50`, `"steps":40`, "step moves the clock by 0.02, want 1/steps, 0.025"},
		{`"steps":50`, `"steps":50,"stepz":1`, "stepz"},
		{`"steps":50`, `"steps":null`, "steps is null"},
		{`"steps":50`, `"steps":50,"steps":50`, "twice"},
		{`"lo":-5,"hi":5`, `"lo":-5`, "action[0] has only one of lo and hi"},
		{`"lo":-5,"hi":5`, `"lo":5,"hi":-5`, "action[0] ranges from 5 to -5"},
		{`"lo":-5,"hi":5`, `"lo":-5,"hi":1e999`, "1e999"},
		{`"name":"swing","unit":"rad"`, `"name":"x","unit":"rad"`, `state[2].name "x" appears twice`},
		{`"name":"crane","description"`, `"name":"../crane","description"`, "slash"},
		{`"method":"rk4"`, `"method":"euler"`, `integrator.method is "euler"`},
		{`"substeps":2`, `"substeps":60000`, "the margins of one decision take"},
		{`"role":"body"`, `"role":"ghost"`, `picture[0].role is "ghost"`},
		{`"name":"margins","inputs"`, `"name":"marges","inputs"`, `program has no function "margins"`},
		{`"name":"urgency","inputs"`, `"name":"urge","inputs"`, `"urge" is not a function that a system has`},
		{`"steps":50`, `"steps":50,"escape_steps":3`, `program has no function "escape"`},
		{`["cos",2]`, `["cos",200]`, "operand 1 is value 200"},
		{`["cos",2]`, `["cosine",2]`, "unknown operation"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("the file has no %s", c.from)
		}
		_, err := systemfile.Unmarshal([]byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", c.to, err, c.want)
		}
	}
}

// Whatever the bytes, reading ends, and what is taken is written as it was read and can be evaluated.
func FuzzUnmarshal(f *testing.F) {
	good := crane(f)
	f.Add(good)
	f.Add([]byte(`{"format":"gpc-system","version":1}`))
	f.Add(bytes.Replace(good, []byte(`"substeps":2`), []byte(`"substeps":65536`), 1))
	f.Add(bytes.Replace(good, []byte(`["cos",2]`), []byte(`["const","NaN"]`), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := systemfile.Unmarshal(text)
		if err != nil {
			return
		}
		own := require.Get(file.Marshal())(t)
		again := require.Get(systemfile.Unmarshal(own))(t)
		if !bytes.Equal(own, require.Get(again.Marshal())(t)) {
			t.Fatal("canonical bytes are read as others")
		}
		y := file.System()
		y.Training, y.Navigation = domain.Training{}, domain.Navigation{}
		if y.Steps > 1000 || y.EscapeSteps > 100 {
			return
		}
		equations.New(y) // an error says what is wrong; a panic is a bug
	})
}

// What is not a regular file, such as a pipe that nobody writes to, is refused and not waited for.
func TestReadFileTakesRegularFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crane.json")
	require.OK(t, os.Mkdir(path, 0o755))
	if _, err := systemfile.ReadFile(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// A file says what is measured of its plant, and what of it is not known: it is written as it was read, its outputs have exact
// derivatives and are the program's, and the problem is the one without it, so that maps are of both.
func TestAFileSaysWhatIsMeasured(t *testing.T) {
	plain := require.Get(systemfile.Unmarshal(crane(t)))(t)
	text := measured(t, `{"outputs":[{"name":"position","unit":"m"},{"name":"sine"}],"deviation":[0.01,0.02],"process":[0,0.01,0,0.01],
		"unknown":[{"context":"goal","mean":0.1,"deviation":0.5,"lo":-2,"hi":2,"drift":0.001}],"window":3}`, true)
	f := require.Get(systemfile.Unmarshal(text))(t)
	c := require.Get(f.Case())(t)
	m := c.Measurement
	if m == nil || m.Outputs[1].Name != "sine" || m.Deviation[1] != 0.02 || m.Process[3] != 0.01 || m.Window != 3 ||
		m.Unknown[0] != (domain.Unknown{Context: 0, Mean: 0.1, Deviation: 0.5, Lo: -2, Hi: 2, Drift: 0.001}) {
		t.Fatalf("it measures %+v", m)
	}
	s, ctx, u, y, dy := []float64{1, 0, 0.3, 0}, []float64{0.5, 0}, []float64{0}, make([]float64, 2), make([]complex128, 2)
	m.Real(s, ctx, u, y)
	m.Dual([]complex128{1, 0, complex(0.3, domain.DualStep), 0}, []complex128{0.5, 0}, []complex128{0}, dy)
	if y[0] != 1 || y[1] != math.Sin(0.3) || math.Abs(imag(dy[1])/domain.DualStep-math.Cos(0.3)) > 1e-15 {
		t.Errorf("y is %v, with derivatives %v", y, dy)
	}
	p := c.Problem.(*equations.Problem)
	if got := require.Get(p.Outputs(m))(t); got != f.Program().Function("outputs") {
		t.Error("its outputs are not those of the program")
	}
	if p.Fingerprint() != domain.FingerprintOf(require.Get(plain.Case())(t).Problem) {
		t.Error("what is measured makes it another problem")
	}
	of := require.Get(systemfile.Of(p))(t)
	said := func(m domain.Measurement) domain.Measurement {
		m.Real, m.Dual = nil, nil
		return m
	}
	if again := of.System().Measurement; again == nil || !reflect.DeepEqual(said(*again), said(*m)) {
		t.Errorf("it is written as %+v", again)
	}
	whole := require.Get(systemfile.Unmarshal(measured(t, `{"outputs":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"}],"deviation":[1,1,1,1],"bounded":true}`, false)))(t)
	if m := require.Get(whole.Case())(t).Measurement; m == nil || m.Real != nil || !m.Bounded {
		t.Errorf("without a function it measures %+v, want each state within bounds", m)
	}
	for _, refused := range []struct {
		measurement string
		function    bool
		want        string
	}{
		{`{"outputs":[],"deviation":[]}`, false, "measurement.outputs is empty"},
		{`{"outputs":[{"name":"a"},{"name":"a"}],"deviation":[1,1]}`, true, `measurement.outputs[1].name "a" appears twice`},
		{`{"outputs":[{"name":"a"},{"name":"b"}],"deviation":[1,0]}`, true, "Deviation[1] is 0"},
		{`{"outputs":[{"name":"a"}],"deviation":[1]}`, true, "outputs writes y[2], want y[1]"},
		{`{"outputs":[{"name":"a"}],"deviation":[1]}`, false, "Real is nil"},
		{`{"outputs":[{"name":"a"},{"name":"b"}],"deviation":[1,1],"unknown":[{"context":"wind","deviation":1}]}`, true, `measurement.unknown[0].context is "wind"`},
		{`{"outputs":[{"name":"a"},{"name":"b"}],"deviation":[1,1],"unknown":[{"context":"goal"},{"context":"goal"}]}`, true, "appears twice"},
		{`{"outputs":[{"name":"a"},{"name":"b"}],"deviation":[1,1],"colour":1}`, true, "colour"},
		{``, true, "needs the field measurement"},
	} {
		f, err := systemfile.Unmarshal(measured(t, refused.measurement, refused.function))
		if err == nil {
			_, err = f.Case()
		}
		if err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%s with a function %t: %v, want %q", refused.measurement, refused.function, err, refused.want)
		}
	}
}

// measured is the crane without its picture and with that field, and a function that writes its position and the sine of its sway.
func measured(t *testing.T, measurement string, function bool) []byte {
	t.Helper()
	var fields map[string]json.RawMessage
	require.OK(t, json.Unmarshal(crane(t), &fields))
	if measurement != "" {
		fields["measurement"] = json.RawMessage(measurement)
	}
	delete(fields, "picture")
	var program map[string]json.RawMessage
	require.OK(t, json.Unmarshal(fields["program"], &program))
	var functions []json.RawMessage
	require.OK(t, json.Unmarshal(program["functions"], &functions))
	functions = slices.DeleteFunc(functions, func(f json.RawMessage) bool { return bytes.Contains(f, []byte(`"shapes"`)) })
	if function {
		functions = append(functions, json.RawMessage(`{"name":"outputs","inputs":[{"name":"s","size":4,"of":"state"},{"name":"c","size":2,"of":"context"},{"name":"u","size":1,"of":"action"}],
			"outputs":[{"name":"y","size":2}],"code":[["sin",2]],"results":[0,7]}`))
	}
	program["functions"] = require.Get(json.Marshal(functions))(t)
	fields["program"] = require.Get(json.Marshal(program))(t)
	return require.Get(json.Marshal(fields))(t)
}

// unmoved is a system whose actions move nothing: its next state is that of a clock.
const unmoved = `{"format":"gpc-system","version":1,"name":"unmoved","state":[{"name":"x","unit":"m"}],"action":[{"name":"u","unit":"N","lo":-1,"hi":1}],
"objectives":[{"name":"a","unit":"1"},{"name":"b","unit":"1"}],"scenario":[{"name":"x","unit":"m","lo":-1,"hi":1}],"steps":3,"step_s":0.1,
"program":{"format":"gpc-program","version":1,"name":"unmoved","vectors":[{"name":"state","entries":["x"]},{"name":"context","entries":["clock"]},{"name":"action","entries":["u"]},
{"name":"objectives","entries":["a","b"]},{"name":"margins","entries":[]},{"name":"scenario","entries":["x"]}],"functions":[
{"name":"step","inputs":[{"name":"s","size":1,"of":"state"},{"name":"c","size":1,"of":"context"},{"name":"u","size":1,"of":"action"}],"outputs":[{"name":"sNext","size":1,"of":"state"},{"name":"cNext","size":1,"of":"context"}],
"code":[["const",0.3333333333333333],["add",1,3],["sin",0]],"results":[5,4]},
{"name":"objectives","inputs":[{"name":"s","size":1,"of":"state"},{"name":"c","size":1,"of":"context"},{"name":"u","size":1,"of":"action"},{"name":"sNext","size":1,"of":"state"}],"outputs":[{"name":"j","size":2,"of":"objectives"}],
"code":[["mul",3,3],["const",0.5],["sub",2,5],["mul",6,6]],"results":[4,7]},
{"name":"initial","inputs":[{"name":"p","size":1,"of":"scenario"}],"outputs":[{"name":"s","size":1,"of":"state"},{"name":"c","size":1,"of":"context"}],"code":[["const",0]],"results":[0,1]}]}}`

// Where no action moves a state, the priority has no second derivatives: a solve takes none.
func TestActionsThatMoveNothing(t *testing.T) {
	f := require.Get(systemfile.Unmarshal([]byte(unmoved)))(t)
	c := require.Get(f.Case())(t)
	plan := require.Get(c.Solver.(*ocp.Solver).Minimise([]float64{0.3}, []float64{0}, 3, domain.Preference{Adaptive: true}, domain.WeightedSum, 1))(t)
	for i, u := range plan.U {
		if math.Abs(u[0]-0.5) > 1e-4 {
			t.Errorf("action %d is %v, want the cheapest, 0.5", i, u[0])
		}
	}
}
