package gpc

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/internal/policy"
	"github.com/gpc-engine/gpc/model"
)

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
	var known []string
	for _, m := range c.Methods() {
		if m.Called(name) {
			return m, nil
		}
		known = append(known, m.Name)
	}
	if m, ok := closedloop.Row(&c.def, name); ok { // mpc-N
		return m, nil
	}
	return domain.Method{}, badInputf("case %s has no method %q%s (it has %s)", c.Name(), name, names.Meant(name, known), names.List(known))
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

func (c *Case) read(file string) (*model.Model, error) {
	if file != "" {
		m, err := model.ReadFile(file)
		return m, BadInput(err)
	}
	if !c.Bundled() {
		without := "a method that needs none"
		if slices.ContainsFunc(c.Methods(), func(m domain.Method) bool { return m.Called(exactMethod) }) {
			without += ", such as {Method} " + exactMethod
		}
		return nil, badOptionf("case %s has no bundled map: make one with compile and give its file with {Model}, or decide by %s", c.Name(), without)
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
	if own := durable.Sum(domain.FingerprintOf(c.mapped())); m.Provenance.ProblemSHA256 != own {
		return fmt.Errorf("%s was trained on other equations than those of case %s, though name and sizes are the same: its problem_sha256 is %s, that of the case is %s; train or compile the map again",
			name, c.Name(), cmp.Or(m.Provenance.ProblemSHA256, "missing"), own)
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
