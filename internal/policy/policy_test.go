package policy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/policy"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/safetensors"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/multiagent"
	"github.com/gpc-engine/gpc/paper/opf"
	"github.com/gpc-engine/gpc/tensor"
)

var adaptive = domain.Preference{Adaptive: true}

// layer is y = W x + b with W by rows.
func layer(b []float32, rows ...[]float32) model.Layer {
	w := tensor.New(len(rows), len(rows[0]))
	for i, r := range rows {
		copy(w.Row(i), r)
	}
	return model.Layer{W: w, B: b}
}

// cartActor is an actor of the cart, small enough to compute by hand.
func cartActor(p domain.Problem) *policy.Actor {
	return &policy.Actor{
		Provenance: policy.Provenance{
			Case: p.Spec().Name, ProblemSHA256: durable.Sum(domain.FingerprintOf(p)), Algorithm: "ppo", Library: "by hand", Seed: 3, Interactions: 17, Preference: adaptive,
		},
		Mean: []float32{1, 0, 0.5}, Scale: []float32{2, 1, 4}, Bound: 2,
		Network: model.MLP{Layers: []model.Layer{
			layer([]float32{0.25, -1}, []float32{1, 0.5, 0}, []float32{0, -1, 1}),
			layer([]float32{-0.125}, []float32{0.5, -0.25}),
		}},
		Activation: policy.ReLU, Output: policy.Clip,
	}
}

func file(t testing.TB, a *policy.Actor) []byte {
	t.Helper()
	var b bytes.Buffer
	require.OK(t, a.Write(&b))
	return b.Bytes()
}

// method is one of a case's.
func method(t testing.TB, c *domain.Case, name string) domain.Method {
	t.Helper()
	for _, m := range policy.Methods(c, c.Problem) {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no method %s", name)
	return domain.Method{}
}

func decide(t *testing.T, c domain.Controller, s, cx []float64) float64 {
	t.Helper()
	u := make([]float64, 1)
	if d := require.Get(c.Decide(s, cx, adaptive, u))(t); !d.Solved() {
		t.Errorf("at %v: not ok", s)
	}
	return u[0]
}

// Every number of the forward pass is a fraction of powers of two, so that float32 is exact.
func TestActionsAreThoseComputedByHand(t *testing.T) {
	c := domain.Case{Problem: testdomain.NewCart(8)}
	a := cartActor(c.Problem)
	run := func() domain.Controller {
		return require.Get(method(t, &c, "ppo").New(domain.Means{Weights: file(t, a)}))(t)
	}
	for _, v := range []struct{ q, v, p, want float64 }{
		// x = (2(q−1), v, 4(p−½)); hidden = relu(x₁ + x₂/2 + ¼), relu(−x₂ + x₃ − 1); u = h₁/2 − h₂/4 − ⅛
		{1, 0.5, 0.5, 0.125},   // x = (0, ½, 0), h = (½, 0): ¼ − ⅛
		{1.5, 1, 0.5, 0.75},    // x = (1, 1, 0), h = (1¾, 0): ⅞ − ⅛
		{1, -1, 1, -0.625},     // x = (0, −1, 2), h = (0, 2): −½ − ⅛
		{1, -1, 9, -0.625},     // 34 is 2
		{9, 1, 0.5, 1},         // x = (2, 1, 0), h = (2¾, 0): 1¼, clipped
		{-9, 0, 0.5, -0.125},   // nothing but the bias
		{1, -0.5, 0.5, -0.125}, // h = (0, 0)
	} {
		if got := decide(t, run(), []float64{v.q, v.v}, []float64{v.p}); got != v.want {
			t.Errorf("at (%g, %g), p %g: %g, by hand %g", v.q, v.v, v.p, got, v.want)
		}
	}
	a.Activation, a.Output = policy.Tanh, policy.Tanh
	h := math.Tanh(1.75)*0.5 - math.Tanh(-2)*0.25
	if got, want := decide(t, run(), []float64{1.5, 1}, []float64{0.5}), math.Tanh(h-0.125); math.Abs(got-want) > 1e-7 {
		t.Errorf("with tanh %g, by hand %g", got, want)
	}
}

// wide has eleven inputs and limits that are not ±1.
type wide struct{ *testdomain.Cart }

var wideSpec = func() domain.Spec {
	s := *testdomain.NewCart(8).Spec()
	s.Name = "wide"
	s.Context = slices.Repeat(s.Context, 9)
	s.Action = []domain.Variable{{Name: "u", Lo: 2, Hi: 10}}
	return s
}()

func (wide) Spec() *domain.Spec { return &wideSpec }
func (wide) Step(s, c, u, sNext, cNext []float64) {
	copy(sNext, s)
	copy(cNext, c)
}

// A layer wider than the sums of dot, and an answer scaled to the limits of the action.
func TestWideLayersAndLimits(t *testing.T) {
	c := domain.Case{Problem: wide{testdomain.NewCart(8)}}
	a := cartActor(c.Problem)
	rng := rand.New(rand.NewPCG(1, 2))
	a.Mean, a.Scale = make([]float32, 11), slices.Repeat([]float32{1}, 11)
	a.Network = *testdomain.Network(rng, 0.1, 11, 13, 21, 1)
	a.Output = policy.Tanh
	ctrl := require.Get(method(t, &c, "ppo").New(domain.Means{Weights: file(t, a)}))(t)
	for range 50 {
		s, cx := make([]float64, 2), make([]float64, 9)
		x := make([]float64, 0, 11)
		for _, v := range [][]float64{s, cx} {
			for i := range v {
				v[i] = math.Max(-2, math.Min(float64(float32(rng.NormFloat64())), 2))
			}
			x = append(x, v...)
		}
		for i, l := range a.Network.Layers {
			y := make([]float64, l.W.Rows)
			for j := range y {
				y[j] = float64(l.B[j])
				for k, v := range x {
					y[j] += float64(l.W.Row(j)[k]) * v
				}
				if i < 2 {
					y[j] = math.Max(y[j], 0)
				}
			}
			x = y
		}
		if got, want := decide(t, ctrl, s, cx), 6+4*math.Tanh(x[0]); math.Abs(got-want) > 4e-6 {
			t.Errorf("%g, in float64 %g", got, want)
		}
	}
}

func TestFilesRoundTrip(t *testing.T) {
	a := cartActor(testdomain.NewCart(8))
	a.Preference = domain.Preference{W: []float64{0.25, 0.75}}
	data := file(t, a)
	b := require.Get(policy.Decode(data))(t)
	if again := file(t, b); !bytes.Equal(data, again) {
		t.Error("what was read is written with other bytes")
	}
	if fmt.Sprint(a.Provenance) != fmt.Sprint(b.Provenance) || b.Activation != a.Activation || b.Output != a.Output || b.Bound != a.Bound {
		t.Errorf("read %+v, wrote %+v", b, a)
	}
}

// Matrices may be in half precision, which holds these exactly; vectors may not.
func TestMatricesInHalfPrecision(t *testing.T) {
	a := cartActor(testdomain.NewCart(8))
	k := safetensors.Kind{HeaderBytes: 1 << 16, FileBytes: 1 << 16, Tensors: 8, Align: 8}
	metadata, tensors, err := k.Read(bytes.NewReader(file(t, a)))
	require.OK(t, err)
	written := func(half ...string) []byte {
		var list []safetensors.Tensor
		for _, name := range []string{"mean", "scale", "layer0.weight", "layer0.bias", "layer1.weight", "layer1.bias"} {
			of := tensors[name]
			of.Name, of.Half = name, slices.Contains(half, name)
			list = append(list, of)
		}
		var b bytes.Buffer
		require.OK(t, k.Write(&b, metadata, list))
		return b.Bytes()
	}
	b := require.Get(policy.Decode(written("layer0.weight", "layer1.weight")))(t)
	if again := file(t, b); !bytes.Equal(again, file(t, a)) {
		t.Error("an actor of matrices in half precision is another")
	}
	for _, name := range []string{"mean", "layer1.bias"} {
		if _, err := policy.Decode(written(name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s in half precision: %v", name, err)
		}
	}
}

// Every bit of a file is covered by a checksum.
func TestFlippedBitsAreFound(t *testing.T) {
	data := file(t, cartActor(testdomain.NewCart(8)))
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			if _, err := policy.Decode(data); err == nil {
				t.Errorf("byte %d, bit %d: read as if nothing had happened", i, bit)
			}
			data[i] ^= 1 << bit
		}
	}
	for n := range data {
		if _, err := policy.Decode(data[:n]); err == nil {
			t.Errorf("the first %d bytes are read as a file", n)
		}
	}
}

func TestBadActorsAreRefusedByName(t *testing.T) {
	c := domain.Case{Problem: testdomain.NewCart(8)}
	for want, change := range map[string]func(a *policy.Actor){
		"layer 0 has the parameter NaN":                     func(a *policy.Actor) { a.Network.Layers[0].B[1] = float32(math.NaN()) },
		"layer 1 takes 2 inputs, layer 0 before it gives 1": func(a *policy.Actor) { a.Network.Layers[0] = layer([]float32{0}, []float32{1, 1, 1}) },
		"0 layers": func(a *policy.Actor) { a.Network.Layers = nil },
		"17 layers": func(a *policy.Actor) {
			a.Network.Layers = slices.Repeat([]model.Layer{layer([]float32{0}, []float32{1})}, 17)
		},
		"want one of":                         func(a *policy.Actor) { a.Algorithm = "sarsa" },
		`the activation is "elu"`:             func(a *policy.Actor) { a.Activation = "elu" },
		`the output is ""`:                    func(a *policy.Actor) { a.Output = "" },
		"bound is NaN":                        func(a *policy.Actor) { a.Bound = float32(math.NaN()) },
		"mean and scale have 2 and 3 entries": func(a *policy.Actor) { a.Mean = a.Mean[:2] },
		"entry 2 of the observation has mean 0.5 and scale 0": func(a *policy.Actor) { a.Scale[2] = 0 },
		"entry 1 of the observation has mean +Inf":            func(a *policy.Actor) { a.Mean[1] = float32(math.Inf(1)) },
	} {
		a := cartActor(c.Problem)
		change(a)
		if err := a.Write(new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	for want, change := range map[string]func(a *policy.Actor){
		`for case "trolley", want "cart"`:                func(a *policy.Actor) { a.Case = "trolley" },
		"trained on other equations":                     func(a *policy.Actor) { a.ProblemSHA256 = strings.Repeat("1", 64) },
		"problem_sha256 is missing":                      func(a *policy.Actor) { a.ProblemSHA256 = "" },
		"algorithm of the actor is cpo, the method runs": func(a *policy.Actor) { a.Algorithm = "cpo" },
		"takes 2 values and gives 1": func(a *policy.Actor) {
			a.Mean, a.Scale, a.Network.Layers[0] = a.Mean[:2], a.Scale[:2], layer([]float32{0, 0}, []float32{1, 1}, []float32{1, 1})
		},
	} {
		a := cartActor(c.Problem)
		change(a)
		if _, err := method(t, &c, "ppo").New(domain.Means{Weights: file(t, a)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	// A file of another version, of another kind, and of numbers that are none.
	good := string(file(t, cartActor(c.Problem)))
	for want, of := range map[string][2]string{
		`version of the file is "2"`:      {`"version":"1"`, `"version":"2"`},
		`kind of the file is "gpc-acton"`: {"gpc-actor", "gpc-acton"},
		`seed is "x"`:                     {`"seed":"3"`, `"seed":"x"`},
		`interactions is "-7"`:            {`"interactions":"17"`, `"interactions":"-7"`},
		`bound is "e"`:                    {`"bound":"2"`, `"bound":"e"`},
		`preference is "adaptivo"`:        {`"adaptive"`, `"adaptivo"`},
	} {
		if _, err := policy.Decode(edited(good, of[0], of[1])); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// edited is a file with a text of its header replaced and the header's checksum made good.
func edited(file, old, new string) []byte {
	end := 8 + binary.LittleEndian.Uint64([]byte(file[:8]))
	header := strings.Replace(file[8:end], old, new, 1)
	at := strings.Index(header, `"sha256":"`) + len(`"sha256":"`)
	header = header[:at] + strings.Repeat("0", 64) + header[at+64:]
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	sum := sha256.Sum256(append(slices.Clone(length), header...))
	return append(append(length, header[:at]+hex.EncodeToString(sum[:])+header[at+64:]...), file[end:]...)
}

func FuzzDecode(f *testing.F) {
	a := cartActor(testdomain.NewCart(8))
	f.Add(file(f, a))
	a.Preference = domain.Preference{W: []float64{0, 1}}
	f.Add(file(f, a))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := policy.Decode(data)
		if err != nil {
			return
		}
		if b := require.Get(policy.Decode(file(t, a)))(t); fmt.Sprint(b.Provenance) != fmt.Sprint(a.Provenance) {
			t.Errorf("%+v is read again as %+v", a.Provenance, b.Provenance)
		}
	})
}

// loose is the cart with a projection that leaves the wall out and a fallback that is not its best.
type loose struct{ *testdomain.Cart }

func (loose) Fallback(_, _, u []float64) { u[0] = -0.25 }
func (loose) Project(_, _, u []float64) bool {
	u[0] = math.Max(-1, math.Min(1, u[0]))
	return true
}

// What is executed behind the safeguard is what the navigator makes of the same decoded action,
// bit for bit, with a solver and without, and where measurements are missing.
func TestSafeguardIsTheNavigators(t *testing.T) {
	cart := loose{testdomain.NewCart(400)}
	solver := func(s, _ []float64, _ domain.Preference, u []float64) bool {
		u[0] = -0.5 - 0.25*math.Sin(9*s[0])
		return math.Sin(40*s[0]) > 0
	}
	seen := map[domain.Fallback]int{}
	for _, rescue := range []func(s, c []float64, pref domain.Preference, u []float64) bool{nil, solver} {
		nav := require.Get(batchnav.NewNavigator(ref.New(), testdomain.Map(cart.Cart, 13, false), cart, batchnav.Options{Direct: true, ResidualLimit: math.Inf(1), Solver: rescue}))(t)
		guard := domain.NewSafeguard(&domain.Case{Problem: cart, Rescue: rescue})
		rng := rand.New(rand.NewPCG(7, 7))
		for k := range 400 {
			if k%50 == 0 {
				nav.Reset()
				guard.Reset()
			}
			s, c := []float64{1 + 2*rng.Float64(), 4*rng.Float64() - 2}, []float64{rng.Float64()}
			missing := rng.IntN(8)
			if missing < 2 {
				s[missing] = math.NaN()
			}
			if missing == 2 && k%50 != 0 {
				c[0] = math.Inf(1)
			}
			d := require.Get(nav.Decide(s, c, adaptive))(t)
			u := make([]float64, 1)
			if d.Decoded != nil {
				u[0] = float64(d.Decoded[0])
			}
			var by domain.Fallback
			if missing < 2 || missing == 2 && k%50 != 0 {
				by = require.Get(guard.Refuse(s, c, adaptive, u))(t)
			} else {
				by = guard.Keep(s, c, adaptive, u)
			}
			if u[0] != d.U[0] || by != d.Fallback {
				t.Fatalf("decision %d at %v, %v: %v by %v, the navigator %v by %v", k, s, c, u, by, d.U, d.Fallback)
			}
			seen[by]++
		}
	}
	for _, by := range []domain.Fallback{
		0, domain.FallbackMargin, domain.FallbackMargin | domain.FallbackSolver, domain.FallbackMargin | domain.FallbackConservative,
		domain.FallbackObservation | domain.FallbackConservative, domain.FallbackObservation | domain.FallbackSolver,
	} {
		if seen[by] == 0 {
			t.Errorf("no decision was answered by %v: %v", by, seen)
		}
	}
}

// constant is an actor that always gives the same answer.
func constant(p domain.Problem, algorithm string, answer float32) *policy.Actor {
	spec := p.Spec()
	a := cartActor(p)
	in := spec.MeasuredSize() + spec.ContextSize()
	a.Algorithm, a.Mean, a.Scale = algorithm, make([]float32, in), slices.Repeat([]float32{1}, in)
	l := model.Layer{W: tensor.New(spec.ActionSize(), in), B: slices.Repeat([]float32{answer}, spec.ActionSize())}
	a.Network = model.MLP{Layers: []model.Layer{l}}
	return a
}

// Policies run through the same episodes and verdicts as every method, in every kind of case;
// an actor of the nominal network also where branch factors are known.
func TestPoliciesRunInEveryCase(t *testing.T) {
	uncertain, nominal, static := opf.ThirtyUncertain(), opf.Thirty(), multiagent.Static()
	for _, v := range []struct {
		on     *domain.Case
		of     domain.Problem
		name   string
		regime string
	}{
		{&nominal, nominal.Problem, "td3", opf.RegimePaper}, {&uncertain, nominal.Problem, "td3+safeguard", opf.RegimePaper}, {&uncertain, uncertain.Problem, "cpo+safeguard", opf.RegimePaper},
		{&static, static.Problem, "ppo", ""}, {&static, static.Problem, "ppo-shielded", ""},
	} {
		algorithm, _, guarded := strings.Cut(v.name, "+")
		m := method(t, v.on, v.name)
		weights := file(t, constant(v.of, algorithm, 0.75))
		r := require.Get(closedloop.Evaluate(context.Background(), v.on, func() (domain.Controller, error) { return m.New(domain.Means{Weights: weights}) },
			closedloop.Options{Method: m.Name, Episodes: 1, Seed: 991, Preference: adaptive, Regime: v.regime}))(t)
		if r.Episodes != 1 || r.Decisions == 0 || r.Failures > 0 {
			t.Errorf("%s on %s: %d decisions, failures %v", v.name, v.on.Problem.Spec().Name, r.Decisions, r.Failures)
		}
		if guarded && v.regime != "" && r.Violations != 0 {
			t.Errorf("%s on %s: %d of %d dispatches break a limit behind the safeguard", v.name, v.on.Problem.Spec().Name, r.Violations, r.Decisions)
		}
	}
	if _, err := method(t, &nominal, "td3").New(domain.Means{Weights: file(t, constant(uncertain.Problem, "td3", 0))}); err == nil {
		t.Error("an actor that reads branch factors runs where there are none")
	}
}

// A policy answers under the preference that it was trained under, and no other.
func TestPoliciesRefuseOtherPreferences(t *testing.T) {
	c := domain.Case{Problem: testdomain.NewCart(8)}
	ctrl := require.Get(method(t, &c, "ppo").New(domain.Means{Weights: file(t, cartActor(c.Problem))}))(t)
	if _, err := ctrl.Decide([]float64{1, 0}, []float64{0}, domain.Preference{W: []float64{0.5, 0.5}}, make([]float64, 1)); err == nil || !strings.Contains(err.Error(), "0.5,0.5") {
		t.Error(err)
	}
	u := []float64{math.NaN()}
	if d, err := domain.FiniteController(c.Problem, ctrl).Decide([]float64{math.NaN(), 0}, []float64{0}, adaptive, u); err != nil || d.Solved() || math.IsNaN(u[0]) {
		t.Errorf("without a state %v is executed, %+v, error %v", u, d, err)
	}
}
