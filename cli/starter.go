package cli

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gpc-engine/gpc/internal/durable"
)

// starter is the module that a system of one's own begins as: a small control problem in equations that tests, compiles and
// runs before it is edited.
type starter struct {
	// Name is that of the case and of the program; the module is example.com/Name.
	Name string
	// Version of gpc that go.mod requires, such as v0.1.0.
	Version string
	// Source is the folder of a checkout of gpc that go.mod replaces that version by; "":
	// nothing is replaced.
	Source string
}

// path is the module's own, and modulePath gpc's.
func (m starter) path() string { return "example.com/" + m.Name }

const modulePath = "github.com/gpc-engine/gpc"

// goVersion and toolchain are what gpc's go.mod asks for.
const goVersion, toolchain = "1.26", "go1.26.8"

//go:embed template
var starterFiles embed.FS

// starterNames are those of a case, a program and the last element of a module path at once.
var starterNames = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// validate says what of a module cannot be. It makes Source absolute.
func (m *starter) validate() error {
	if !starterNames.MatchString(m.Name) || len(m.Name) > 64 {
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
		return fmt.Errorf("%s is no checkout of %s: %w", m.Source, modulePath, err)
	}
	if first, _, _ := strings.Cut(string(text), "\n"); strings.TrimSpace(first) != "module "+modulePath {
		return fmt.Errorf("%s is no checkout of %s: its go.mod begins with %q", m.Source, modulePath, first)
	}
	m.Source = source
	return nil
}

// write writes the module into dir and returns the names of its files. A dir that does not
// exist appears whole or not at all; of one that exists and is empty, every file does.
func (m starter) write(dir string) (names []string, err error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	contents, err := m.render()
	for _, f := range contents {
		names = append(names, f.Name)
	}
	if err != nil {
		return nil, err
	}
	return names, durable.WriteFolder(dir, contents)
}

// render are the files of the folder template, with what stands between << and >> in them.
func (m starter) render() (out []durable.Text, err error) {
	replace := ""
	if m.Source != "" {
		replace = fmt.Sprintf("\nreplace %s => %q\n", modulePath, m.Source)
	}
	words := strings.NewReplacer("<<name>>", m.Name, "<<path>>", m.path(), "<<go>>", goVersion, "<<toolchain>>", toolchain, "<<version>>", m.Version, "<<replace>>\n", replace)
	entries, err := starterFiles.ReadDir("template")
	for _, e := range entries {
		text, err := starterFiles.ReadFile("template/" + e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, durable.Text{Name: strings.TrimSuffix(e.Name(), ".tmpl"), Text: []byte(words.Replace(string(text)))})
	}
	return out, err
}
