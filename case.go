// Package gpc is Geometric Pareto Control for Go programs: open a case, a map and an
// engine, then decide, refine, evaluate, train or steer.
//
// The central type is Case, one control problem of a Catalogue (package paper has the
// paper's four cases with their maps; a domain of one's own is NewCase). Its methods
// are all that the command line does, without flags and printing:
//
//	Loop, Loops     one closed loop of the navigator, or thousands that decide together
//	Refiner         thousands of latent candidates of one observation
//	Evaluate        a method in closed loop on unseen episodes
//	Steer           one map under a sweep of preferences
//	Dataset, Train  Pareto samples, and a map from them
//	Export          a map as C99
//
// An InputError is the caller's mistake; any other error is of the run.
package gpc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/systemfile"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/internal/policy"
	"github.com/gpc-engine/gpc/model"
)

// Case is one control problem with its methods and, where it has one, its bundled map.
// It is immutable and safe for concurrent use.
type Case struct {
	def    domain.Case
	models fs.FS
	// unshifted is the problem that its maps are made for where the plant is another one;
	// nil: the definition's own.
	unshifted domain.Problem
	remade    bool             // the plant is another one by its params; see Staged
	system    *systemfile.File // that it was made of; nil: of a program's own functions
	// findings are of a system of equations of one's own, made once; nil: of a program's case, which tests check.
	findings func() diagnosis.Findings
	context  context.Context // ends searches and solves; nil: none does
}

// NewCase validates a case of one's own.
func NewCase(c domain.Case) (*Case, error) {
	if err := c.Validate(); err != nil {
		return nil, BadInput(err)
	}
	cs := &Case{def: c}
	if _, ok := c.Problem.(*equations.Problem); ok {
		cs.diagnose()
	}
	visited := map[string]bool{}
	for _, m := range cs.Methods() {
		if visited[m.Name] {
			return nil, badInputf("case %q: one of its own methods is named %q, which is the name of a method that every case has: give it another", cs.Name(), m.Name)
		}
		visited[m.Name] = true
	}
	return cs, nil
}

// Remarks say what of the case's system is accepted and may not be meant, such as an integrator that is not accurate.
func (c *Case) Remarks() []string {
	p, ok := c.def.Problem.(*equations.Problem)
	if !ok {
		return nil
	}
	all := p.Remarks()
	if text := closedloop.SteadyStateRemark(&c.def, 0, 8, domain.Preference{Adaptive: true}); text != "" {
		all = append(all, text)
	}
	return all
}

// Check finds what of the case's system is wrong, or accepted and may not be meant, Remarks among them. It solves nothing
// but, for these, a few steady states of a plant that runs on.
func (c *Case) Check() diagnosis.Findings {
	findings := diagnosis.Case(&c.def)
	for _, text := range c.Remarks() {
		f := diagnosis.Finding{Severity: diagnosis.Remark, Message: text}
		if message, fix, ok := strings.Cut(text, "): "); ok { // on the integrator
			f.Function, f.Message, f.Fix = "ode", message+")", fix
		}
		findings = append(findings, f)
	}
	return findings
}

func (c *Case) diagnose() {
	c.findings = sync.OnceValue(func() diagnosis.Findings { return diagnosis.Case(&c.def) })
}

// Findings are those of Check, without Remarks, for a system of equations of one's own. Of a program's cases, which
// are those of a Catalogue with maps, there are none.
func (c *Case) Findings() diagnosis.Findings {
	if c.findings == nil {
		return nil
	}
	return c.findings()
}

// Definition is what the case was made of.
func (c *Case) Definition() *domain.Case { return &c.def }

// Shifted is the case on another plant: parameters of its plant times factors, by name.
// Controllers know that plant, the map is still the case's.
func (c *Case) Shifted(factors map[string]float64) (*Case, error) {
	if len(factors) == 0 {
		return c, nil
	}
	def, err := c.def.Shifted(factors)
	if err != nil {
		return nil, BadInput(err)
	}
	return c.onPlant(def, c.remade), nil
}

// Guarded is the case with another guard over the navigator's decisions, such as none.
func (c *Case) Guarded(g domain.Guard) (*Case, error) {
	if spec := c.Spec(); !g.Off && (spec.Plan != 1 || c.def.Learned != nil) {
		return nil, badInputf("case %s cannot have a guard: a guard needs plans of one action, and a map of the case's own problem", spec.Name)
	}
	if err := g.Validate(); err != nil {
		return nil, badInputf("case %s: %w", c.Name(), err)
	}
	def := c.def
	def.Guard = g
	return c.defined(def), nil
}

// mapped is the problem that the case's maps are made for.
func (c *Case) mapped() domain.Problem {
	if c.unshifted != nil {
		return c.unshifted
	}
	return c.def.MapProblem()
}

// Spec says what the vectors of the case's problem are; MapSpec those of the problem
// that its map is about, which is the same unless the case has a Learned one.
func (c *Case) Spec() *domain.Spec    { return c.def.Problem.Spec() }
func (c *Case) MapSpec() *domain.Spec { return c.def.MapProblem().Spec() }

// Name is the case's.
func (c *Case) Name() string { return c.Spec().Name }

// Bundled reports whether the case has a bundled map.
func (c *Case) Bundled() bool {
	if c.models == nil {
		return false
	}
	_, err := fs.Stat(c.models, c.Name()+".safetensors")
	return err == nil
}

// Setup says how a controller of a case is made.
type Setup struct {
	Method string // "" is the case's DefaultMethod
	// Model is the map of a method that needs one; nil: the bundled one.
	Model *model.Model
	// Weights is the content of the file of a method that brings weights of its own.
	Weights []byte
	// Candidates per decision; 0: the method's own number, if it has one.
	Candidates int
	// Navigation are constants of the online step; nil: the method's own.
	Navigation *domain.Navigation
}

// Methods are all ways to decide in the case, in the order of its tables: the
// navigator's variants where the case has a map about its own problem, then the
// case's own, then those of closedloop.Rows and policy.Methods with names that are not
// among them.
func (c *Case) Methods() []domain.Method {
	var all []domain.Method
	if c.def.Learned == nil && (c.def.Solver != nil || c.Spec().Training.Latent > 0) {
		all = batchnav.Methods(c.def.Problem, c.guarded())
	}
	all = append(all, c.def.Methods...)
	for _, m := range slices.Concat(closedloop.Rows(&c.def), policy.Methods(&c.def, c.trained())) {
		if !slices.ContainsFunc(all, func(o domain.Method) bool { return o.Name == m.Name }) {
			all = append(all, m)
		}
	}
	return all
}

// DefaultMethod is the first of Methods: Algorithm 2 whole, or what the case has in its place; ""
// where there is no method at all.
func (c *Case) DefaultMethod() string {
	if all := c.Methods(); len(all) > 0 {
		return all[0].Name
	}
	return ""
}

// MethodName is the present name of a method by any that it had, "" for DefaultMethod; what no
// method of the case is called stays as it is.
func (c *Case) MethodName(name string) string {
	if m, err := c.method(name); err == nil {
		return m.Name
	}
	return name
}

// trained is the problem that the case's policies are made for, nil where it is not at hand.
func (c *Case) trained() domain.Problem {
	switch {
	case len(c.def.Shift) == 0 && !c.remade:
		return c.def.Problem
	case c.def.Learned == nil:
		return c.unshifted // nil: a trace embeds the shifted plant
	}
	return nil
}

// Setup reads what a method needs from a file: the map, the bundled one for "", or the
// weights of a method that brings its own. A method without either ignores the file. For
// no method it is the one that the map was compiled for, or else DefaultMethod. The Setup has
// the method's present name.
func (c *Case) Setup(method, file string) (Setup, error) {
	m, err := c.method(method)
	s := Setup{Method: m.Name}
	switch {
	case err != nil:
	case mapped(m):
		if s.Model, err = c.Model(file); err == nil && method == "" && s.Model.Provenance.Method != "" {
			m, err = c.method(s.Model.Provenance.Method)
			s.Method = m.Name
		}
	case m.Needs&domain.NeedsWeights != 0 && file != "":
		s.Weights, err = readWeights(file)
	}
	return s, err
}

// maxWeights is how many bytes the file of a method that brings weights of its own may have.
const maxWeights = 1 << 28

func readWeights(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, BadInput(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxWeights+1))
	if len(data) > maxWeights {
		return nil, badInputf("%s: more than %d bytes, which weights may have at most", file, maxWeights)
	}
	return data, BadInput(err)
}

// method finds a method by its name, or by the name that it had, "" for the default.
func (c *Case) method(name string) (domain.Method, error) {
	name = cmp.Or(name, c.DefaultMethod())
	var all []string
	for _, m := range c.Methods() {
		if m.Called(name) {
			return m, nil
		}
		all = append(all, m.Name)
	}
	for _, numbered := range []func(*domain.Case, string) (domain.Method, bool){closedloop.Row, (*domain.Case).Method} { // mpc-N, search-N
		if m, ok := numbered(&c.def, name); ok {
			return m, nil
		}
	}
	if strings.HasPrefix(name, exactMethod) && len(c.Spec().Switches) > 0 {
		return domain.Method{}, badInputf("case %s has switched actions, for which there is no exact solver %q: %q decides without a map", c.Name(), name, c.mapless())
	}
	return domain.Method{}, badInputf("case %s has no method %q%s (it has %s)", c.Name(), name, names.Meant(name, all), names.List(all))
}

// mapped reports whether a method decides by the case's map.
func mapped(m domain.Method) bool { return m.Needs&domain.NeedsMap != 0 }

// Model reads a map of the case from a file, or the bundled one where file is "". A map
// of another problem is refused, also where names and sizes are the same.
func (c *Case) Model(file string) (*model.Model, error) {
	m, err := c.read(file)
	if err != nil {
		return nil, err
	}
	return m, BadInput(c.fits(m, cmp.Or(file, "the bundled map")))
}

// exactMethod is the exact solver that is started warm, of the cases that have one.
const exactMethod = "nmpc"

// mapless is the method to name that needs no map: of cases with switched actions a search, which solves the other actions.
func (c *Case) mapless() string {
	if n := len(c.Spec().Switches); n == 0 {
		return exactMethod
	} else if n < c.Spec().ActionSize() {
		return "relaxed-512-polish"
	}
	return "search-512"
}

func (c *Case) read(file string) (*model.Model, error) {
	if file != "" {
		m, err := model.ReadFile(file)
		return m, BadInput(err)
	}
	if !c.Bundled() {
		alternative := "a method that needs none"
		if name := c.mapless(); slices.ContainsFunc(c.Methods(), func(m domain.Method) bool { return m.Called(name) }) {
			alternative += ", such as {Method} " + name
		}
		return nil, badOptionf("case %s has no bundled map: make one with compile and give its file with {Model}, or decide by %s", c.Name(), alternative)
	}
	f, err := c.models.Open(c.Name() + ".safetensors")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := model.Read(f)
	return m, BadInput(err)
}

// fits says why a map, called name, is not one of this case.
func (c *Case) fits(m *model.Model, name string) error {
	if err := batchnav.Fits(m, c.MapSpec()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if c.unshifted == nil && len(c.def.Shift) > 0 {
		return nil // the plant as it was, whose map it is, is not at hand: a trace embeds the shifted one
	}
	if hash := durable.Sum(domain.FingerprintOf(c.mapped())); m.Provenance.ProblemSHA256 != hash {
		return fmt.Errorf("%s was trained on other equations than those of case %s, though name and sizes are the same: its problem_sha256 is %s, that of the case is %s; train or compile the map again",
			name, c.Name(), cmp.Or(m.Provenance.ProblemSHA256, "missing"), hash)
	}
	return nil
}

// fitted is a map that is given, which must be one of the case, or else the bundled one.
func (c *Case) fitted(m *model.Model) (*model.Model, error) {
	if m == nil {
		return c.Model("")
	}
	return m, BadInput(c.fits(m, "the map"))
}

// SystemSuffix ends the names of files that hold a system; such a name is taken where a case's is.
const SystemSuffix = ".json"

// SystemFile is the case of the system in a file. It has no bundled map.
func SystemFile(path string) (*Case, error) {
	f, err := systemfile.ReadFile(path)
	if err != nil {
		return nil, BadInput(err)
	}
	return systemCase(f)
}

// SystemText is the case of a system in the bytes of a file.
func SystemText(text []byte) (*Case, error) {
	f, err := systemfile.Unmarshal(text)
	if err != nil {
		return nil, BadInput(err)
	}
	return systemCase(f)
}

func systemCase(f *systemfile.File) (*Case, error) {
	def, err := f.Case()
	if err != nil {
		return nil, BadInput(err)
	}
	c, err := NewCase(def)
	if err == nil {
		c.system = f
	}
	return c, err
}

// System is the file of the case's system, which has to be one of equations whose text is known.
func (c *Case) System() (*systemfile.File, error) {
	if c.system != nil {
		return c.system, nil
	}
	p, ok := c.def.Problem.(*equations.Problem)
	if !ok {
		return nil, badInputf("case %s is not a system of equations (equations.System): only such a system can be written as a file", c.Name())
	}
	f, err := systemfile.Of(p)
	return f, BadInput(err)
}

// embeddedSystem makes the case of a trace whose params hold the file of its system; ok is false for others.
func embeddedSystem(name string, params json.RawMessage) (c domain.Case, ok bool, err error) {
	var p struct {
		System json.RawMessage `json:"system"`
	}
	if json.Unmarshal(params, &p) != nil || p.System == nil {
		return c, false, nil
	}
	f, err := systemfile.Unmarshal(p.System)
	if err != nil {
		return c, true, fmt.Errorf("trace params: %w", err)
	}
	if f.Name() != name {
		return c, true, fmt.Errorf("trace params: they hold the system %.100q, the trace that of %.100q", f.Name(), name)
	}
	c, err = f.Case()
	return c, true, err
}

// Staged is the case on the plant of scenes that were given, which name this case and, all of
// them, the same constants; nil is the case itself. Controllers know that plant; the map is
// still the case's, and Definition().Altered says what it was not made for. Evaluate and Pair
// run Options.Scenes on it.
func (c *Case) Staged(s *closedloop.Scenes) (*Case, error) {
	if s == nil || len(s.Files) == 0 {
		return c, nil
	}
	if domain.AbilitiesOfPlant(c.def.Plant).Stage == nil {
		return nil, badInputf("case %s cannot begin from a given scene: its plant has no domain.PlantAbilities.Stage", c.Name())
	}
	first := &s.Files[0]
	for i := range s.Files {
		switch f := &s.Files[i]; {
		case f.Case != c.Name():
			return nil, badInputf("%s: case is %q, want %q", f.Name, f.Case, c.Name())
		case !bytes.Equal(f.Params, first.Params):
			return nil, badInputf("%s: params differ from those of %s: all scenes of a folder need the same plant", f.Name, first.Name)
		}
	}
	def, other, err := closedloop.Remade(&c.def, first.Params)
	if err != nil {
		return nil, badInputf("%s: %w", first.Name, err)
	}
	if !other {
		return c, nil
	}
	return c.onPlant(def, true), nil
}

// Scene is a drawn test scene as a file to begin a scene of one's own with.
func (c *Case) Scene(ctx context.Context, seed uint64, index int, regime string, pref domain.Preference) (*closedloop.SceneFile, error) {
	if domain.AbilitiesOfPlant(c.def.Plant).Stage == nil {
		return nil, badInputf("case %s cannot begin from a given scene: its plant has no domain.PlantAbilities.Stage", c.Name())
	}
	ep, err := c.def.Plant.Episode(seed, index, domain.EpisodeOptions{Regime: regime, Preference: pref, Context: ctx})
	if err != nil {
		return nil, asBadInput(err)
	}
	return closedloop.NewSceneFile(&c.def, ep)
}
