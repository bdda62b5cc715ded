package pages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

var (
	goBlock  = regexp.MustCompile("(?ms)^ *```go\n(.*?)^ *```")
	indented = regexp.MustCompile(`(?m)(?:^ {4}.*\n)+`)
	field    = regexp.MustCompile(`^[A-Z]\w*: `)
	unused   = regexp.MustCompile(`(?m)^#.*\n|^.*(?:declared and not used|imported and not used).*\n`)
)

// declared are the variables that Go of a page takes for granted.
var declared = map[string]string{
	"docs/tutorials/your-system.md": "definition domain.Case, s, context []float64",
	"docs/how-to/real-plant.md":     "definition domain.Case, engine *gpc.Engine, preference domain.Preference, c, y, context, s, known, u []float64",
	"docs/how-to/serve.md":          "c *gpc.Case, e *gpc.Engine, ctx context.Context, state, context []float64",
}

// Go of README, tutorials and how-to pages compiles: fields of a system, and statements behind those before them.
func TestGoOfPagesCompiles(t *testing.T) {
	blocks := 0
	for page, text := range require.Get(Documents(root))(t) {
		if page != "README.md" && !strings.HasPrefix(page, "docs/tutorials/") && !strings.HasPrefix(page, "docs/how-to/") {
			continue
		}
		var fields, statements []string
		for _, b := range goBlock.FindAllStringSubmatch(text, -1) {
			if b[1] = strings.ReplaceAll(b[1], "…\n", "\n"); field.MatchString(b[1]) {
				fields = append(fields, b[1])
			} else {
				statements = append(statements, b[1])
			}
		}
		for _, b := range indented.FindAllString(fenced.ReplaceAllString(text, ""), -1) {
			if first, _, _ := strings.Cut(b, "\n"); strings.Contains(first, ":=") {
				statements = append(statements, b)
			}
		}
		if len(fields)+len(statements) == 0 {
			continue
		}
		blocks += len(fields) + len(statements)
		source := "package page\n"
		for _, name := range []string{"context", "net/http", "time", "github.com/gpc-engine/gpc", "github.com/gpc-engine/gpc/domain", "github.com/gpc-engine/gpc/engine", "github.com/gpc-engine/gpc/equations", "github.com/gpc-engine/gpc/equations/dual", "github.com/gpc-engine/gpc/serve"} {
			source += fmt.Sprintf("import %q\n", name)
		}
		for _, b := range fields {
			source += "var _ = equations.System{\n" + b + "}\n"
		}
		source += "const clock = 7\nfunc _(" + declared[page] + ") {\n" + strings.Join(statements, "{\n") + strings.Repeat("}\n", max(1, len(statements)))
		file := filepath.Join(t.TempDir(), "page.go")
		require.OK(t, os.WriteFile(file, []byte(source), 0o600))
		cmd := exec.Command("go", "build", "-gcflags=-e", "-o", os.DevNull, file)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil && strings.TrimSpace(unused.ReplaceAllString(string(out), "")) != "" {
			t.Errorf("%s: %v\n%s\n%s", page, err, out, source)
		}
	}
	if blocks < 10 {
		t.Errorf("%d blocks of Go were found", blocks)
	}
}
