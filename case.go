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
	"errors"
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
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/internal/policy"
	"github.com/gpc-engine/gpc/model"
)

// InputError is an error in what the caller gave: a name, a file, an option.
type InputError struct{ Err error }

// Error says of a path that is not there that it does not exist, in place of the system call that missed it.
func (e InputError) Error() string {
	text := e.Err.Error()
	var missing *fs.PathError
	if errors.As(e.Err, &missing) && errors.Is(missing, fs.ErrNotExist) {
		text = strings.Replace(text, missing.Error(), missing.Path+" does not exist", 1)
		return strings.TrimPrefix(text, missing.Path+": ")
	}
	return text
}

func (e InputError) Unwrap() error { return e.Err }

// BadInput marks an error as the caller's; nil stays nil.
func BadInput(err error) error {
	if err == nil {
		return nil
	}
	return InputError{err}
}

func badInputf(format string, args ...any) error { return InputError{fmt.Errorf(format, args...)} }

// badOptionf is badInputf of a text that names fields of options in braces.
func badOptionf(format string, args ...any) error { return InputError{option.Errorf(format, args...)} }

// refused marks as the caller's what a package below refused to do.
func refused(err error) error {
	var r *durable.Refusal
	if errors.As(err, &r) {
		return BadInput(err)
	}
	return err
}

// asBadInput makes an error of what the caller asked for one of input: a regime that is none, a preference
// that the method was not made for, an output that would lose or mix something.
func asBadInput(err error) error {
	var regime domain.RegimeError
	var preference domain.PreferenceError
	var scene *closedloop.SceneError
	if errors.As(err, &regime) || errors.As(err, &preference) || errors.As(err, &scene) {
		return BadInput(err)
	}
	return refused(err)
}

// Catalogue is the cases of a program with its bundled maps.
type Catalogue struct {
	Cases []domain.Case
	// Later are cases that are made when they are named or listed, before Cases in lists.
	Later []Later
	// Open, if set, makes the case of a name that is not in Cases, such as one that
	// holds a file's path; ok is false for a name that is none of its own.
	Open func(name string) (c domain.Case, ok bool, err error)
	// Embedded, if set, makes the case of a trace whose name is not in Cases of the params
	// that its header embeds (Plant.Params), opening nothing; ok as in Open.
	Embedded func(name string, params json.RawMessage) (c domain.Case, ok bool, err error)
	// Groups are those that lists show the cases in, in their order: where there are some, every case is in one.
	Groups []Group
	// Models holds CASE.safetensors for each case with a bundled map; nil for none.
	Models fs.FS
}

// Later is a case of a name that is made when it is asked for, and the same each time.
type Later struct {
	Name string
	Make func() domain.Case
}

// Group is a part of a catalogue: the cases whose domain.Case.Group is its name.
type Group struct{ Name, About string }

// Validate checks every case; see domain.Case.Validate. It calls the functions of all problems: a program whose cases are
// compiled in has a test that does, and at its start only what Find checks.
func (k *Catalogue) Validate() error {
	for _, c := range k.All() {
		if _, err := NewCase(c.def); err != nil {
			return err
		}
		if err := k.unique(c.Name()); err != nil {
			return err
		}
	}
	return nil
}

// unique is an error where two cases have the name.
func (k *Catalogue) unique(name string) error {
	if all := k.Names(); slices.Contains(all[slices.Index(all, name)+1:], name) {
		return badInputf("two cases are named %q", name)
	}
	return nil
}

// Names are those of the cases, in their order. None is made.
func (k *Catalogue) Names() (names []string) {
	for _, l := range k.Later {
		names = append(names, l.Name)
	}
	for _, c := range k.Cases {
		if c.Problem != nil { // Validate refuses it
			names = append(names, c.Problem.Spec().Name)
		}
	}
	return names
}

// All are the cases, in their order.
func (k *Catalogue) All() (all []*Case) {
	for _, l := range k.Later {
		all = append(all, &Case{def: l.Make(), models: k.Models})
	}
	for _, c := range k.Cases {
		all = append(all, &Case{def: c, models: k.Models})
	}
	return all
}

// Find returns the case of that name, or of the system in the file of that name (see SystemFile), or
// what Open makes of it: the name has to be the user's own, not one that was read. The case is checked; see
// domain.Case.Validate.
func (k *Catalogue) Find(name string) (*Case, error) {
	c, err := k.Named(name)
	if err == nil {
		if err = k.unique(name); err == nil {
			var own *Case
			if own, err = NewCase(c.def); k.Models == nil {
				return own, err
			}
		}
		return c, err
	}
	if strings.HasSuffix(name, SystemSuffix) {
		return SystemFile(name)
	}
	if k.Open == nil {
		return nil, err
	}
	if c, ok, err := k.Open(name); ok {
		if err != nil {
			return nil, BadInput(err)
		}
		return NewCase(c)
	}
	return nil, err
}

// Named returns the case of Later and Cases of that name. Nothing is opened.
func (k *Catalogue) Named(name string) (*Case, error) {
	for _, l := range k.Later {
		if l.Name == name {
			return &Case{def: l.Make(), models: k.Models}, nil
		}
	}
	for _, c := range k.Cases {
		if c.Problem.Spec().Name == name {
			return &Case{def: c, models: k.Models}, nil
		}
	}
	all := k.Names()
	return nil, badInputf("unknown case %q%s (this program has %s); a system of your own is opened by its file, which ends in %s, or by the program of its module (in Python: door=\"subprocess\", program=FILE)", name, names.Meant(name, all), names.List(all), SystemSuffix)
}

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
}

// NewCase validates a case of one's own.
func NewCase(c domain.Case) (*Case, error) {
	if err := c.Validate(); err != nil {
		return nil, BadInput(err)
	}
	cs := &Case{def: c}
	if _, ok := c.Problem.(*equations.Problem); ok {
		cs.findings = sync.OnceValue(func() diagnosis.Findings { return diagnosis.Case(&cs.def) })
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
	def, err := c.def.Shifted(factors)
	return &Case{def: def, models: c.models, unshifted: c.mapped()}, BadInput(err)
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

// Description is a case as lists of cases show it.
type Description struct {
	Name        string `json:"name"`        // what `CASE` arguments take
	Description string `json:"description"` // one line
	Group       string `json:"group"`       // what lists put it under: systems, networks, the paper; "": none
	// ProblemSHA256 identifies the problem's content (domain.FingerprintOf), as an actor's file says it.
	ProblemSHA256 string   `json:"problem_sha256"` // the content of its problem, as an actor's file says it ([files.md](files.md))
	NX            int      `json:"nx"`             // inputs of E_x: state, context and priority slot
	NZ            int      `json:"nz"`             // latent dimension
	NU            int      `json:"nu"`             // entries of a decoded plan
	Objectives    int      `json:"objectives"`     // number of them
	State         []string `json:"state"`          // measured values, “name unit”
	Context       []string `json:"context"`        // likewise
	Action        []string `json:"action"`         // likewise
	Margins       []string `json:"margins"`        // likewise
	Steps         int      `json:"steps"`          // decisions in an episode
	StepSeconds   float64  `json:"step_s"`         // control period
	Bundled       bool     `json:"bundled_model"`  // whether the program holds a map of it
	Methods       []string `json:"methods"`        // what `--method` takes
	Shifts        []string `json:"shifts"`         // what `--shift` takes, “name: meaning”
}

// Describe describes the case.
func (c *Case) Describe() Description {
	s, learned := c.Spec(), c.MapSpec()
	d := Description{
		Name: s.Name, Description: s.Description, Group: c.def.Group, ProblemSHA256: durable.Sum(domain.FingerprintOf(c.def.Problem)), NX: learned.ObservationSize(), NZ: learned.Training.Latent, NU: learned.PlanSize(),
		Objectives: s.ObjectiveSize(), Steps: s.Steps, StepSeconds: s.StepSeconds, Bundled: c.Bundled(),
		State: variableNames(s.Measured), Context: variableNames(s.Context), Action: variableNames(s.Action), Margins: variableNames(s.Margins),
	}
	for _, m := range c.Methods() {
		d.Methods = append(d.Methods, m.Name)
	}
	if shifts := c.def.Shifts; shifts != nil {
		for _, p := range shifts.Parameters {
			d.Shifts = append(d.Shifts, p.Name+": "+p.About)
		}
	}
	return d
}

// variableNames are variables by their names and units.
func variableNames(variables []domain.Variable) (names []string) {
	for _, v := range variables {
		names = append(names, v.Name+" "+v.Unit)
	}
	return names
}

// MethodDescription is a method as lists of methods show it.
type MethodDescription struct {
	Name       string `json:"name"`                 // what `--method` takes
	Group      string `json:"group"`                // exact, own, ablation or baseline
	About      string `json:"about"`                // one line
	Map        bool   `json:"map"`                  // whether it needs the case's map
	Weights    bool   `json:"weights"`              // whether `--model` names weights of its own
	Candidates int    `json:"candidates,omitempty"` // per decision, where methods are compared by it
	Formerly   string `json:"formerly,omitempty"`   // a name that it had, which is still taken
	Shown      bool   `json:"shown"`                // whether `gpc methods` lists it without `--all`: one to choose, and no ablation, learned policy, yardstick or another size of the same search
}

// DescribeMethods describes Methods, in their order.
func (c *Case) DescribeMethods() []MethodDescription {
	all := []MethodDescription{}
	searches := false
	for _, m := range c.Methods() {
		// Of the searches, which differ in their number of candidates and in when they search, the first.
		brief := (m.Group == domain.GroupOwn || m.Group == domain.GroupBaseline) && m.Needs&domain.NeedsWeights == 0 && (m.Brief || m.Candidates > 0 && !searches)
		searches = searches || m.Candidates > 0
		all = append(all, MethodDescription{m.Name, m.Group.String(), m.About, mapped(m), m.Needs&domain.NeedsWeights != 0, m.Candidates, m.Formerly, brief})
	}
	return all
}

// SpecDescription says what the vectors of a problem are.
type SpecDescription struct {
	Name            string                `json:"name"`        // of the case
	Description     string                `json:"description"` // one line
	State           []VariableDescription `json:"state"`       // measured values
	Context         []VariableDescription `json:"context"`     // what is known at every decision
	Action          []VariableDescription `json:"action"`      // one action, with its box
	Objectives      []VariableDescription `json:"objectives"`
	Margins         []VariableDescription `json:"margins"`          // hard limits, each ≥ 0 when kept
	Switches        []domain.Switch       `json:"switches"`         // actions that take one of a few values
	Plan            int                   `json:"plan"`             // actions in a decoded plan
	Steps           int                   `json:"steps"`            // decisions in an episode
	StepSeconds     float64               `json:"step_s"`           // control period
	MarginTolerance float64               `json:"margin_tolerance"` // how far below 0 a margin may be before it counts as violated
	Latent          int                   `json:"latent"`           // dimension of the latents of a map that is trained by default
}

// VariableDescription is a component of a vector; no bounds: nil.
type VariableDescription struct {
	Name string   `json:"name"` // of a component
	Unit string   `json:"unit"` // its unit; "" for none
	Lo   *float64 `json:"lo"`   // lower bound; null: none
	Hi   *float64 `json:"hi"`   // upper bound; null: none
}

// DescribeSpec describes a problem's vectors.
func DescribeSpec(s *domain.Spec) SpecDescription {
	return SpecDescription{
		Name: s.Name, Description: s.Description, State: described(s.Measured), Context: described(s.Context), Action: described(s.Action),
		Objectives: described(s.Objectives), Margins: described(s.Margins), Switches: append([]domain.Switch{}, s.Switches...), Plan: s.Plan, Steps: s.Steps, StepSeconds: s.StepSeconds,
		MarginTolerance: s.MarginTolerance, Latent: s.Training.Latent,
	}
}

func described(variables []domain.Variable) []VariableDescription {
	all := make([]VariableDescription, len(variables))
	for i, v := range variables {
		if all[i] = (VariableDescription{Name: v.Name, Unit: v.Unit}); v.Bounded() {
			all[i].Lo, all[i].Hi = &v.Lo, &v.Hi
		}
	}
	return all
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
	info, err := f.Stat()
	if err == nil && info.Size() <= maxWeights { // a device has no size
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(f, maxWeights+1)); len(data) <= maxWeights {
			return data, BadInput(err)
		}
	}
	if err != nil {
		return nil, BadInput(err)
	}
	return nil, badInputf("%s: more than %d bytes, which weights may have at most", file, maxWeights)
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
	if name == exactMethod && len(c.def.Problem.Spec().Switches) > 0 {
		return domain.Method{}, badInputf("case %s has switched actions, for which there is no exact solver %q: %q decides without a map", c.Name(), name, searchMethod)
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

// exactMethod is the exact solver that is started warm, of the cases that have one. searchMethod needs no map either: it is
// of the cases with switched actions, which have no exact solver.
const exactMethod, searchMethod = "nmpc", "search-512"

func (c *Case) read(file string) (*model.Model, error) {
	if file != "" {
		m, err := model.ReadFile(file)
		return m, BadInput(err)
	}
	if !c.Bundled() {
		alternative := "a method that needs none"
		for _, name := range []string{exactMethod, searchMethod} {
			if slices.ContainsFunc(c.Methods(), func(m domain.Method) bool { return m.Called(name) }) {
				alternative += ", such as {Method} " + name
			}
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
	if s == nil {
		return c, nil
	}
	if domain.AbilitiesOfPlant(c.def.Plant).Stage == nil {
		return nil, badInputf("case %s cannot begin from a given scene: its plant has no domain.PlantAbilities.Stage", c.Name())
	}
	var def domain.Case
	var other bool
	for i := range s.Files {
		f := &s.Files[i]
		if f.Case != c.Name() {
			return nil, badInputf("%s: case is %q, want %q", f.Name, f.Case, c.Name())
		}
		if i > 0 {
			if !bytes.Equal(f.Params, s.Files[0].Params) {
				return nil, badInputf("%s: params differ from those of %s: all scenes of a folder need the same plant", f.Name, s.Files[0].Name)
			}
			continue
		}
		var err error
		if def, other, err = closedloop.Remade(&c.def, f.Params); err != nil {
			return nil, badInputf("%s: %w", f.Name, err)
		}
	}
	if !other {
		return c, nil
	}
	return &Case{def: def, models: c.models, unshifted: c.mapped(), remade: true}, nil
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
