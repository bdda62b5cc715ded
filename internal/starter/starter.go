// Package starter writes the module that a system of one's own begins as: a small
// control problem in equations that tests, compiles and runs before it is edited.
//
// The central function is Write. The files are templates in the folder template, whose
// actions stand between << and >>.
package starter

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/gpc-engine/gpc/internal/durable"
)

// Module is what is written.
type Module struct {
	// Name is that of the case and of the program; the module is example.com/Name.
	Name string
	// Version of gpc that go.mod requires, such as v0.1.0.
	Version string
	// Source is the folder of a checkout of gpc that go.mod replaces that version by; "":
	// nothing is replaced.
	Source string
}

// Path is the module's own.
func (m Module) Path() string { return "example.com/" + m.Name }

// Path of gpc's own module.
const Path = "github.com/gpc-engine/gpc"

// goVersion and toolchain are what gpc's go.mod asks for.
const goVersion, toolchain = "1.26", "go1.26.8"

//go:embed template
var files embed.FS

// names are those of a case, a program and the last element of a module path at once.
var names = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Validate says what of a module cannot be. It makes Source absolute.
func (m *Module) Validate() error {
	if !names.MatchString(m.Name) || len(m.Name) > 64 {
		return fmt.Errorf("the name %q: want at most 64 lower-case letters, digits and single hyphens, a letter first, such as crane-2", m.Name)
	}
	if m.Source == "" {
		return nil
	}
	source, err := filepath.Abs(m.Source)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return fmt.Errorf("%s is no checkout of %s: %w", m.Source, Path, err)
	}
	if first, _, _ := strings.Cut(string(text), "\n"); strings.TrimSpace(first) != "module "+Path {
		return fmt.Errorf("%s is no checkout of %s: its go.mod begins with %q", m.Source, Path, first)
	}
	m.Source = source
	return nil
}

// Write writes the module into dir and returns the names of its files. A dir that does not
// exist appears whole or not at all; of one that exists and is empty, every file does.
func Write(dir string, m Module) ([]string, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	contents, err := render(m)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range contents {
		names = append(names, f.Name)
	}
	return names, durable.WriteFolder(dir, contents)
}

// render executes the templates.
func render(m Module) ([]durable.Text, error) {
	entries, err := files.ReadDir("template")
	if err != nil {
		return nil, err
	}
	var out []durable.Text
	for _, e := range entries {
		t, err := template.New(e.Name()).Delims("<<", ">>").ParseFS(files, "template/"+e.Name())
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, struct {
			Module
			Go, Toolchain string
		}{m, goVersion, toolchain}); err != nil {
			return nil, err
		}
		out = append(out, durable.Text{Name: strings.TrimSuffix(e.Name(), ".tmpl"), Text: text.Bytes()})
	}
	return out, nil
}
