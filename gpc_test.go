package gpc_test

import (
	"encoding/json"
	"errors"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/closedloop/environment"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/train"
)

// Nothing that this package exports names a type that its users cannot name.
func TestNoExportedSignatureNamesAnInternalType(t *testing.T) {
	list, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "github.com/gpc-engine/gpc").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(list)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	pkg, err := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }).Import("github.com/gpc-engine/gpc")
	if err != nil {
		t.Fatal(err)
	}
	var check func(where string, of types.Type)
	check = func(where string, of types.Type) {
		switch v := types.Unalias(of).(type) {
		case *types.Named:
			if p := v.Obj().Pkg(); p != nil && strings.Contains(p.Path(), "/internal/") {
				t.Errorf("%s names %s", where, v)
			}
			for i := range v.TypeArgs().Len() {
				check(where, v.TypeArgs().At(i))
			}
		case *types.Pointer:
			check(where, v.Elem())
		case *types.Slice:
			check(where, v.Elem())
		case *types.Array:
			check(where, v.Elem())
		case *types.Map:
			check(where, v.Key())
			check(where, v.Elem())
		case *types.Chan:
			check(where, v.Elem())
		case *types.Signature:
			for _, tuple := range []*types.Tuple{v.Params(), v.Results()} {
				for i := range tuple.Len() {
					check(where, tuple.At(i).Type())
				}
			}
		case *types.Struct:
			for i := range v.NumFields() {
				if f := v.Field(i); f.Exported() {
					check(where+"."+f.Name(), f.Type())
				}
			}
		}
	}
	exported := 0
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		exported++
		check(name, o.Type())
		if named, ok := types.Unalias(o.Type()).(*types.Named); ok && named.Obj().Pkg() == pkg {
			check(name, named.Underlying())
			for i := range named.NumMethods() {
				if m := named.Method(i); m.Exported() {
					check(name+"."+m.Name(), m.Type())
				}
			}
		}
	}
	if exported < 10 {
		t.Fatalf("found %d exported names", exported)
	}
}

// learned is a method that brings weights of its own.
type learned struct{ gain byte }

func (learned) Reset(domain.Episode) error { return nil }

func (l learned) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	u[0] = float64(l.gain)
	return domain.Decided(true), nil
}

// A method with weights of its own is one entry of its case's list.
func TestADescriptionHasTheSwitches(t *testing.T) {
	spec := domain.Spec{
		Action:   []domain.Variable{{Name: "valve", Hi: 1}, {Name: "pump", Hi: 1}},
		Switches: []domain.Switch{{Action: 1, Values: []float64{0, 1}, Least: []int{2, 3}, Most: 2, Window: 6, Last: 4, Ages: 5}},
	}
	text := string(require.Get(json.Marshal(gpc.DescribeSpec(&spec)))(t))
	if want := `"switches":[{"action":1,"values":[0,1],"least":[2,3],"most":2,"window":6,"last":4,"ages":5}]`; !strings.Contains(text, want) {
		t.Errorf("the description is %s, want it to have %s", text, want)
	}
	spec.Switches = nil
	if text := string(require.Get(json.Marshal(gpc.DescribeSpec(&spec)))(t)); !strings.Contains(text, `"switches":[]`) {
		t.Errorf("without switches the description is %s", text)
	}
}

func TestAMethodWithWeightsOfItsOwn(t *testing.T) {
	c, err := gpc.NewCase(domain.Case{Problem: testdomain.NewCart(3), Methods: []domain.Method{{
		Name: "policy", Group: domain.GroupBaseline, Needs: domain.NeedsWeights,
		New: func(m domain.Means) (domain.Controller, error) { return learned{m.Weights[0]}, nil },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Controller(nil, gpc.Setup{Method: "policy"}); !errors.As(err, new(gpc.InputError)) {
		t.Errorf("without weights: %v", err)
	}
	ctrl, err := c.Controller(nil, gpc.Setup{Method: "policy", Weights: []byte{7}})
	if err != nil {
		t.Fatal(err)
	}
	u := make([]float64, 1)
	if d, err := ctrl.Decide(nil, nil, domain.Preference{}, u); !d.Solved() || err != nil || u[0] != 7 {
		t.Errorf("u %v, %+v, error %v", u, d, err)
	}
	file := filepath.Join(t.TempDir(), "weights")
	require.OK(t, os.WriteFile(file, []byte{7, 8}, 0o600))
	if s := require.Get(c.Setup("policy", file))(t); !slices.Equal(s.Weights, []byte{7, 8}) {
		t.Errorf("weights %v were read", s.Weights)
	}
	require.OK(t, os.Truncate(file, 1<<28+1))
	if _, err := c.Setup("policy", file); !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), "more than") {
		t.Errorf("weights of any size: %v", err)
	}
	if _, err := c.Controller(nil, gpc.Setup{Method: "nobody"}); err == nil || !strings.Contains(err.Error(), "policy") {
		t.Errorf("an unknown method: %v", err)
	}
}

// A method's map navigates with the method's constants.
func TestAMethodWithConstantsOfItsOwn(t *testing.T) {
	cart := testdomain.NewCart(3)
	wrong := cart.Spec().Navigation
	wrong.LieGain = -1
	c, err := gpc.NewCase(domain.Case{Problem: cart, Methods: []domain.Method{{
		Name: "wild", Group: domain.GroupOwn, Needs: domain.NeedsMap, Navigation: &wrong,
		New: func(domain.Means) (domain.Controller, error) { return learned{}, nil },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu"}))(t)
	defer e.Close()
	if _, err := c.Controller(e, gpc.Setup{Method: "wild", Model: testdomain.Map(cart, 9, true)}); err == nil || !strings.Contains(err.Error(), "LieGain") {
		t.Errorf("constants out of range: %v", err)
	}
}

// The exact solver of a case stands behind the navigator wherever it is made, not in
// evaluation alone.
func TestRescueStandsBehindEveryLoop(t *testing.T) {
	cart := testdomain.NewCart(3)
	calls := 0
	def := domain.Case{Problem: cart, Rescue: func(s, c []float64, pref domain.Preference, u []float64) bool {
		calls++
		u[0] = 0
		return true
	}}
	spec := *cart.Spec()
	spec.Training.Latent = 9
	def.Problem = far{respecified{cart, &spec}}
	c, err := gpc.NewCase(def)
	if err != nil {
		t.Fatal(err)
	}
	e, err := gpc.OpenEngine(engine.Options{Backend: "ref"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m := testdomain.Map(cart, 9, true)
	loops := map[string]func(method string) error{
		"Loop": func(method string) error {
			n, err := c.Loop(e, gpc.Setup{Method: method, Model: m})
			if err == nil {
				_, err = n.Decide(make([]float64, 2), make([]float64, cart.Spec().ContextSize()), domain.Preference{Adaptive: true})
			}
			return err
		},
		"Controller": func(method string) error {
			n, err := c.Controller(e, gpc.Setup{Method: method, Model: m})
			if err == nil {
				_, err = n.Decide(make([]float64, 2), make([]float64, cart.Spec().ContextSize()), domain.Preference{Adaptive: true}, make([]float64, 1))
			}
			return err
		},
	}
	for name, decide := range loops {
		for method, want := range map[string]int{"navigator": 1, "direct": 1, "refine-64": 1, "navigator-no-fallback": 0} {
			calls = 0
			if err := decide(method); err != nil {
				t.Fatal(err)
			}
			if calls != want {
				t.Errorf("%s of %s asked the exact solver %d times, want %d", name, method, calls, want)
			}
		}
	}
}

// Names that methods had are taken still, none is another method's, and the first method is what
// decides where none is named.
func TestFormerNamesAreTaken(t *testing.T) {
	catalogue := paper.Cases()
	for name, renamed := range map[string]map[string]string{
		"opf30": {
			"gpc": "navigator", "gpc-observer": "navigator-observer", "gpc-no-lie": "navigator-no-lie", "gpc-polish": "polish",
			"gpc-refine-64": "refine-64", "gpc-refine-64-ahead": "refine-64-ahead", "gpc-refine-64-no-rollout": "refine-64-no-rollout", "": "navigator",
		},
		"multiagent-moving": {"gpc": "planner", "gpc-384": "planner-384", "gpc-no-latent-descents": "planner-no-latent-descents", "gpc-no-lie": "planner-no-lie", "navigator": "navigator", "": "planner"},
	} {
		c := require.Get(catalogue.Find(name))(t)
		for old, now := range renamed {
			if s := require.Get(c.Setup(old, ""))(t); s.Method != now || c.MethodName(old) != now {
				t.Errorf("%s: %q is %q and %q, want %q", name, old, s.Method, c.MethodName(old), now)
			}
		}
		seen := map[string]bool{}
		for _, m := range c.DescribeMethods() {
			for _, n := range []string{m.Name, m.Formerly} {
				if n != "" && seen[n] {
					t.Errorf("%s: two methods are or were called %s", name, n)
				}
				seen[n] = true
			}
		}
		if got := c.MethodName("gcp"); got != "gcp" {
			t.Errorf("gcp is %s", got)
		}
	}
}

// A search along roll-outs is a method where a plan is one action, with as many
// candidates as its name or its setup says.
func TestSearchIsAMethodForPlansOfOneAction(t *testing.T) {
	for length, searches := range map[int]bool{1: true, 3: false} {
		cart := testdomain.NewPlanCart(3, length)
		cart.Spec().Training.Latent = 9
		c := require.Get(gpc.NewCase(domain.Case{Problem: cart}))(t)
		e := require.Get(gpc.OpenEngine(engine.Options{Backend: "ref"}))(t)
		defer e.Close()
		setup := gpc.Setup{Method: "refine-64", Model: testdomain.Map(cart, 9, true)}
		_, err := c.Loop(e, setup)
		if searches != (err == nil) || !searches && !strings.Contains(err.Error(), `no method "refine-64"`) {
			t.Errorf("plans of %d actions: %v", length, err)
		}
		setup.Candidates = -1
		if _, err = c.Controller(e, setup); !errors.As(err, new(gpc.InputError)) || searches && !strings.Contains(err.Error(), "-1 candidates") {
			t.Errorf("plans of %d actions, -1 candidates: %v", length, err)
		}
	}
}

// far is a problem whose margins are never kept.
type far struct{ respecified }

func (f far) Margins(s, c, u, m []float64) {
	for i := range m {
		m[i] = -1
	}
}

// A case that is registered wrongly is refused with the field's name.
func TestACatalogueIsChecked(t *testing.T) {
	spec := *testdomain.NewCart(3).Spec()
	spec.Semantic.K = spec.Semantic.K[:1]
	k := gpc.Catalogue{Cases: []domain.Case{{Problem: respecified{testdomain.NewCart(3), &spec}}}}
	if err := k.Validate(); err == nil || !strings.Contains(err.Error(), "Semantic") || !errors.As(err, new(gpc.InputError)) {
		t.Errorf("a Semantic.K of wrong length: %v", err)
	}
	cart := domain.Case{Problem: testdomain.NewCart(3)}
	k = gpc.Catalogue{Cases: []domain.Case{cart, cart}}
	if err := k.Validate(); err == nil || !strings.Contains(err.Error(), "two cases") {
		t.Errorf("two cases of one name: %v", err)
	}
	if _, err := k.Find(cart.Problem.Spec().Name); err == nil || !strings.Contains(err.Error(), "two cases") {
		t.Errorf("a case by the name of two: %v", err)
	}
	k.Cases = k.Cases[:1]
	spec = *testdomain.NewCart(3).Spec()
	spec.Training.Latent = 9
	own := domain.Method{Name: "direct", New: func(domain.Means) (domain.Controller, error) { return learned{}, nil }}
	if _, err := gpc.NewCase(domain.Case{Problem: respecified{testdomain.NewCart(3), &spec}, Methods: []domain.Method{own}}); err == nil || !strings.Contains(err.Error(), `"direct"`) {
		t.Errorf("a method named as the navigator's: %v", err)
	}
	if _, err := k.Find("nobody"); !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), `its file, which ends in .json, or by the program of its module (in Python: door="subprocess", program=FILE)`) {
		t.Errorf("an unknown case: %v", err)
	}
	c, err := k.Find(cart.Problem.Spec().Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Model(""); !errors.As(err, new(gpc.InputError)) || c.Bundled() {
		t.Errorf("a map that is not bundled: %v", err)
	}
}

type respecified struct {
	*testdomain.Cart
	spec *domain.Spec
}

func (r respecified) Spec() *domain.Spec { return r.spec }

// A case's own method keeps its name; the generic ones stand behind with the others'.
func TestGenericMethodsStandBehindACasesOwn(t *testing.T) {
	cart := testdomain.NewCart(8)
	solver := require.Get(ocp.New(cart, nil, func(_, s, c []float64) { clear(s); clear(c) }, ocp.Options{}))(t)
	own := domain.Method{Name: "nmpc", About: "of its own", New: func(domain.Means) (domain.Controller, error) { return nil, errors.New("the case's own") }}
	c := require.Get(gpc.NewCase(domain.Case{Problem: cart, Solver: solver, Methods: []domain.Method{own}}))(t)
	var names []string
	for _, m := range c.Methods() {
		if names = append(names, m.Name); m.Name == "nmpc" && m.About != own.About {
			t.Errorf("nmpc is %q", m.About)
		}
	}
	const policies = " td3 td3+safeguard td3-penalty td3-penalty+safeguard ppo ppo+safeguard ppo-lagrangian ppo-lagrangian+safeguard cpo cpo+safeguard ppo-shielded"
	if text := strings.Join(names, " "); !strings.HasSuffix(text, " nmpc oracle hold online mpc-5 nmpc-from-8 nmpc-ahead mppi-512 mppi-4096"+policies) || strings.Count(text+" ", "nmpc ") != 1 {
		t.Errorf("methods %v", names)
	}
	if _, err := c.Controller(nil, gpc.Setup{Method: "nmpc"}); err == nil || !strings.Contains(err.Error(), "the case's own") {
		t.Errorf("nmpc: %v", err)
	}
	for name, want := range map[string]string{"mpc-3": "", "mpc-8": "", "mpc-9": `no method "mpc-9"`, "mpc": "no method"} {
		if _, err := c.Controller(nil, gpc.Setup{Method: name}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The paper's cases bring their own, and no others.
	bundled := paper.Cases()
	for _, c := range bundled.All() {
		for _, m := range c.Methods() {
			if strings.HasPrefix(m.Name, "mpc-") {
				t.Errorf("case %s has %s", c.Name(), m.Name)
			}
		}
	}
}

// The navigator's decisions are looked after in every case that does not say otherwise,
// by its methods but for those that execute whatever is decoded.
func TestCasesAreGuarded(t *testing.T) {
	cart := testdomain.NewCart(8)
	cart.Spec().Training.Latent = 9
	calls := 0
	lost := domain.Case{Problem: falling{cart}, Rescue: func(s, c []float64, pref domain.Preference, u []float64) bool {
		calls++
		u[0] = -1
		return true
	}}
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "ref"}))(t)
	defer e.Close()
	whole := require.Get(gpc.NewCase(lost))(t)
	for _, g := range []domain.Guard{{}, {Off: true}} {
		c := require.Get(whole.Guarded(g))(t)
		for _, method := range []string{"direct", "navigator", "refine-64", "navigator-no-projection", "navigator-no-fallback", "navigator-no-guard", "direct-no-guard"} {
			without := strings.Contains(method, "-no-")
			n, err := c.Loop(e, gpc.Setup{Method: method, Model: testdomain.Map(cart, 9, true)})
			if g.Off && strings.HasSuffix(method, "-no-guard") {
				if err == nil {
					t.Errorf("%s is a method of a case without a guard", method)
				}
				continue
			}
			require.OK(t, err)
			calls = 0
			d := require.Get(n.Decide([]float64{0, 0}, []float64{0}, domain.Preference{Adaptive: true}))(t)
			if guards := !g.Off && !without; guards != (d.Fallback&domain.FallbackGuard != 0) || guards != (calls == 1) {
				t.Errorf("guard %+v, method %s: %v, asked %d times", g, method, d.Fallback, calls)
			}
		}
	}
	if _, err := whole.Guarded(domain.Guard{Steps: -1}); !errors.As(err, new(gpc.InputError)) {
		t.Errorf("a guard of -1 steps: %v", err)
	}
	lost.Guard.Iterations = -1
	if _, err := gpc.NewCase(lost); !errors.As(err, new(gpc.InputError)) {
		t.Errorf("a guard of -1 iterations: %v", err)
	}
	plans := testdomain.NewPlanCart(8, 3)
	plans.Spec().Training.Latent = 9
	c := require.Get(gpc.NewCase(domain.Case{Problem: plans}))(t)
	require.Get(c.Loop(e, gpc.Setup{Method: "direct", Model: testdomain.Map(plans, 9, true)}))(t)
	if _, err := c.Guarded(domain.Guard{}); err == nil || !strings.Contains(err.Error(), "one action") {
		t.Errorf("a guard of plans of three actions: %v", err)
	}
	for _, c := range paperCases(t) {
		if !c.Definition().Guard.Off {
			t.Errorf("case %s of the paper is guarded", c.Name())
		}
	}
}

func paperCases(t *testing.T) []*gpc.Case {
	t.Helper()
	k := paper.Cases()
	require.OK(t, k.Validate())
	return k.All()
}

// falling is a cart that is always lost.
type falling struct{ *testdomain.Cart }

func (p falling) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Failed: p.Failed}
}

func (falling) Failed(s, c []float64) bool { return true }

// Who is about to decide has the problem prepared, and who finds or checks its case has not.
func TestWhoDecidesPreparesTheProblem(t *testing.T) {
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "ref"}))(t)
	defer e.Close()
	rest := func() (domain.Controller, error) { return resting{}, nil }
	for name, way := range map[string]func(c *gpc.Case, p *preparing) error{
		"a map": func(c *gpc.Case, p *preparing) error {
			_, err := c.Loop(e, gpc.Setup{Method: "direct", Model: testdomain.Map(p.Cart, 5, false)})
			return err
		},
		"a method without a map": func(c *gpc.Case, p *preparing) error {
			_, err := c.Controller(nil, gpc.Setup{Method: "rest"})
			return err
		},
		"an evaluation of another's controllers": func(c *gpc.Case, p *preparing) error {
			_, err := c.EvaluateBy(t.Context(), rest, closedloop.Options{Method: "rest", Episodes: 1, Preference: domain.Preference{Adaptive: true}})
			return err
		},
		"environments": func(c *gpc.Case, p *preparing) error {
			_, err := environment.New[float64](c.Definition(), environment.Options{Environments: 1, Preference: domain.Preference{Adaptive: true}})
			return err
		},
	} {
		p := &preparing{Cart: testdomain.NewCart(3)}
		p.Spec().Training.Latent = 2
		k := gpc.Catalogue{Cases: []domain.Case{{Problem: p, Plant: closedloop.Simulated(p, testdomain.Starts, testdomain.Start),
			Methods: []domain.Method{{Name: "rest", New: func(domain.Means) (domain.Controller, error) { return rest() }}}}}}
		c := require.Get(k.Find(p.Spec().Name))(t)
		if p.times != 0 {
			t.Errorf("a case that was found was prepared %d times", p.times)
		}
		if err := way(c, p); err != nil || p.times == 0 {
			t.Errorf("%s: prepared %d times: %v", name, p.times, err)
		}
	}
}

// preparing counts how often it is prepared.
type preparing struct {
	*testdomain.Cart
	times int
}

func (p *preparing) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Prepare: func() { p.times++ }}
}

// resting decides nothing.
type resting struct{}

func (resting) Reset(domain.Episode) error { return nil }

func (resting) Decide(_, _ []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	clear(u)
	return domain.Decided(true), nil
}

// A map is one of its problem, whatever the names and sizes; a shifted plant is driven by
// the map of the plant as it is.
func TestAMapIsOfItsProblem(t *testing.T) {
	cart := testdomain.NewCart(3)
	cart.Spec().Training.Latent = 2
	def := domain.Case{Problem: cart, Shifts: &domain.Shifts{
		Parameters: []domain.PlantParameter{{Name: "box"}},
		New: func(f []float64) (domain.Case, error) {
			spec := *cart.Spec()
			spec.Action = slices.Clone(spec.Action)
			spec.Action[0].Hi *= f[0]
			return domain.Case{Problem: respecified{testdomain.NewCart(3), &spec}}, nil
		},
	}}
	c := require.Get(gpc.NewCase(def))(t)
	shifted := require.Get(c.Shifted(map[string]float64{"box": 2}))(t)
	guarded := require.Get(shifted.Guarded(domain.Guard{}))(t)
	own := *shifted.Definition()
	own.Shift = nil
	other := require.Get(gpc.NewCase(own))(t)
	m := testdomain.Map(cart, 5, false)
	file := filepath.Join(t.TempDir(), "map.safetensors")
	require.OK(t, m.WriteFile(file))
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "ref"}))(t)
	defer e.Close()
	for name, of := range map[string]*gpc.Case{"its own": c, "shifted": shifted, "shifted and guarded": guarded, "another": other} {
		_, fromFile := of.Model(file)
		_, inMemory := of.Loop(e, gpc.Setup{Method: "direct", Model: m})
		for _, err := range []error{fromFile, inMemory} {
			if name == "another" {
				if !errors.As(err, new(gpc.InputError)) || strings.Count(err.Error(), m.Provenance.ProblemSHA256) != 1 {
					t.Errorf("a map of another problem: %v", err)
				}
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The reference decides and does not train, and says so before it reads any data.
func TestTheReferenceDoesNotTrain(t *testing.T) {
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "ref"}))(t)
	defer e.Close()
	c := require.Get(gpc.NewCase(domain.Case{Problem: testdomain.NewCart(3)}))(t)
	if _, err := c.Train(t.Context(), e, nil, train.Options{}, nil); !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), "ref") {
		t.Errorf("training by ref: %v", err)
	}
}
