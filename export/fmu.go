package export

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// Functional mock-up units (FMI 2.0, co-simulation) of the controller and of the plant: sources, a description, and a binary of this
// machine where it has a C compiler. A period of the controller reads what is measured and gives the action that is executed from its
// start: a master steps the controller, then the plant.

// mockup is a unit: what fmu.c and fmu.xml read.
type mockup struct {
	*whole
	Controls          bool // it is the controller's
	Title, About      string
	ModelName         string
	Identifier, GUID  string
	Sources           []string
	Reals             []reals
	RealCount         int
	Equally           float64 // each weight of an even preference
	Scenario          []float64
	Duration          float64
	Variables         []scalar
	Outputs           []int // numbers of Variables, from 1
	description, code []byte
}

// reals are a vector's place among the real values.
type reals struct {
	Macro string
	At    int
}

// scalar is a variable of a unit.
type scalar struct {
	Name, About, Type               string
	Causality, Variability, Initial string
	Start                           string
	Reference                       int
}

func newMockup(w *whole, controls bool) (*mockup, error) {
	m := &mockup{whole: w, Controls: controls, Equally: 1 / float64(w.NJ), Duration: float64(w.Spec.Steps) * w.Spec.StepSeconds}
	part := "plant"
	m.Title, m.About = "The plant of "+w.Symbol, w.Spec.Description
	m.Sources = []string{"fmu.c", "gpc_" + w.Symbol + "_system.c"}
	if controls {
		part = "controller"
		m.Title, m.About = "The controller of "+w.Symbol, w.ControllerInfo()
		m.Sources = append(m.Sources, "gpc_"+w.Symbol+"_controller.c")
		if w.SHA256 != "" {
			m.Sources = append(m.Sources, "gpc_"+w.Symbol+".c")
		}
		if w.Observer != nil {
			m.Sources = append(m.Sources, "gpc_"+w.Symbol+"_measured.c")
		}
	}
	m.ModelName, m.Identifier = w.Spec.Name+" "+part, "gpc_"+w.Symbol+"_"+part
	m.describe()
	sum := sha256.Sum256([]byte(m.Identifier + w.SHA256 + w.Version + w.Build + w.Functions))
	m.GUID = "{" + hex.EncodeToString(sum[:16]) + "}"
	var err error
	if m.description, err = templates().execute("fmu.xml", m); err == nil {
		m.code, err = templates().execute("fmu.c", m)
	}
	return m, err
}

// describe lists the variables.
func (m *mockup) describe() {
	spec := m.Spec
	input := scalar{Causality: "input", Variability: "discrete", Start: "0"}
	output := scalar{Causality: "output", Variability: "discrete", Initial: "calculated"}
	if m.Controls {
		if m.Observer != nil {
			m.vector("y", m.Observer.Outputs, input, nil)
		} else {
			m.vector("s", spec.Measured, input, nil)
		}
		m.vector("c", spec.Context, input, nil)
		m.vector("w", spec.Objectives, scalar{Causality: "parameter", Variability: "tunable", Start: strconv.FormatFloat(m.Equally, 'g', -1, 64)}, nil)
		m.vector("u", spec.Action, output, nil)
		if m.Observer != nil { // the state that the action was decided for
			m.vector("estimate", spec.Measured, output, nil)
		}
		m.add(scalar{Name: "status", About: "what the decision says, bit by bit; see gpc_" + m.Symbol + "_controller.h", Type: "Integer", Causality: "output", Variability: "discrete", Initial: "calculated"})
		m.add(scalar{Name: "adaptive", About: "the preference follows the state; else it is w", Type: "Boolean", Causality: "parameter", Variability: "tunable", Start: "true"})
		return
	}
	for _, p := range m.parameters() {
		m.Scenario = append(m.Scenario, p.Middle())
	}
	m.vector("u", spec.Action, input, nil)
	m.vector("p", m.parameters(), scalar{Causality: "parameter", Variability: "fixed"}, m.Scenario)
	if m.Filtered() {
		m.vector("noise", m.Observer.Outputs, input, nil)
		m.vector("acts", m.disturbed(), input, nil)
	}
	if m.Observer != nil {
		m.vector("y", m.Observer.Outputs, output, nil)
	}
	m.vector("s", spec.Measured, output, nil)
	m.vector("c", spec.Context, output, nil)
	m.vector("m", spec.Margins, output, nil)
	m.vector("cost", []domain.Variable{{Name: "adaptive"}}, output, nil)
	m.add(scalar{Name: "failed", About: "a state was lost", Type: "Boolean", Causality: "output", Variability: "discrete", Initial: "calculated"})
}

// disturbed are what may act on a plant behind its action: its states, and the unknown entries of the context.
func (m *mockup) disturbed() []domain.Variable {
	all := slices.Clone(m.Spec.Measured)
	for _, k := range m.Observer.Unknown {
		all = append(all, m.Spec.Context[k])
	}
	return all
}

// parameters are those of the scenario, in the middle of their ranges where these are known.
func (m *mockup) parameters() []domain.Variable {
	names := make([]domain.Variable, m.NP)
	for _, v := range m.Y.Vectors {
		for i := range min(m.NP, len(v.Entries)) {
			if v.Name == "scenario" {
				names[i].Name = v.Entries[i]
			}
		}
	}
	for i := range min(len(names), len(m.Start)) {
		names[i].Lo, names[i].Hi = m.Start[i], m.Start[i]
	}
	return names
}

// vector adds a vector of real values, as like; start, where it is not nil, are its entries' own.
func (m *mockup) vector(name string, variables []domain.Variable, like scalar, start []float64) {
	m.Reals = append(m.Reals, reals{strings.ToUpper(name), m.RealCount})
	for i, v := range variables {
		s := like
		s.Name, s.Type = name+"."+v.Name, "Real"
		s.Reference, s.About = m.RealCount, v.Name
		if v.Unit != "" {
			s.About += ", " + v.Unit
		}
		if start != nil {
			s.Start = strconv.FormatFloat(start[i], 'g', -1, 64)
		}
		m.add(s)
		m.RealCount++
	}
}

func (m *mockup) add(s scalar) {
	m.Variables = append(m.Variables, s)
	if s.Causality == "output" {
		m.Outputs = append(m.Outputs, len(m.Variables))
	}
}

// escaped is text within an attribute of XML.
func escaped(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // a strings.Builder takes everything
	}
	return b.String()
}

// pack is the unit as a file: the archive is the same for the same sources and compiler.
func (m *mockup) pack(ctx context.Context, sources []durable.Text) (durable.Text, error) {
	contents := []durable.Text{{Name: "modelDescription.xml", Text: m.description}, {Name: "sources/fmu.c", Text: m.code}}
	for _, f := range sources {
		system := strings.HasPrefix(f.Name, "gpc_"+m.Symbol+"_system.")
		if strings.HasPrefix(f.Name, "gpc_") && (m.Controls || system) {
			contents = append(contents, durable.Text{Name: "sources/" + f.Name, Text: f.Text})
		}
	}
	binary, err := m.compile(ctx, contents)
	if err != nil {
		return durable.Text{}, err
	}
	if binary != nil {
		contents = append(contents, durable.Text{Name: "binaries/linux64/" + m.Identifier + ".so", Text: binary})
	}
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for _, f := range contents {
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Deflate})
		if err != nil {
			return durable.Text{}, err
		}
		if _, err := entry.Write(f.Text); err != nil {
			return durable.Text{}, err
		}
	}
	if err := archive.Close(); err != nil {
		return durable.Text{}, err
	}
	return durable.Text{Name: m.Identifier + ".fmu", Text: b.Bytes()}, nil
}

// compile makes the binary on 64-bit Linux by gcc or what CC names; nil where there is none.
func (m *mockup) compile(ctx context.Context, contents []durable.Text) ([]byte, error) {
	name := os.Getenv("CC")
	name = cmp.Or(name, "gcc")
	compiler, err := exec.LookPath(name)
	if err != nil || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "gpc-fmu-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "unit.so")
	args := []string{"-std=c99", "-O2", "-ffp-contract=off", "-DGPC_SCRATCH=", "-fvisibility=hidden", "-fPIC", "-shared", "-o", binary}
	for _, f := range contents {
		path, source := strings.CutPrefix(f.Name, "sources/")
		if !source {
			continue
		}
		path = filepath.Join(dir, path)
		if err := os.WriteFile(path, f.Text, 0o600); err != nil {
			return nil, err
		}
		if strings.HasSuffix(path, ".c") {
			args = append(args, path)
		}
	}
	if out, err := exec.CommandContext(ctx, compiler, append(args, "-lm")...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s of %s: %w\n%s", name, m.Identifier, err, out)
	}
	return os.ReadFile(binary)
}

// units are both as files.
func (w *whole) units(ctx context.Context, sources []durable.Text) (all []durable.Text, err error) {
	for _, controls := range []bool{true, false} {
		m, err := newMockup(w, controls)
		if err != nil {
			return nil, err
		}
		f, err := m.pack(ctx, sources)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
