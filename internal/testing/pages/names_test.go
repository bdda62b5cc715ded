package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// qualified is Go of a page: a name, exported, of a package or of a type.
var qualified = regexp.MustCompile("`(?:\\w+/)*(\\w\\w+)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?(?:[({][^`\n]*)?`")

var pythonClass = regexp.MustCompile(`(?m)^class (\w+)`)

// goNames are what the packages and types of the module have, by their last names; of a type also what it embeds, and
// of gpc the classes of Python.
func goNames(t *testing.T) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	add := func(of, name string) {
		if all[of] == nil {
			all[of] = map[string]bool{}
		}
		all[of][name] = true
	}
	require.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(path, root+"/python/gpc/") && strings.HasSuffix(path, ".py") {
			for _, m := range pythonClass.FindAllStringSubmatch(string(require.Get(os.ReadFile(path))(t)), -1) {
				add("gpc", m[1])
			}
		}
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil // of another program's tests
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					add(baseName(n.Recv.List[0].Type), n.Name.Name)
				} else {
					add(file.Name.Name, n.Name.Name)
				}
				return false
			case *ast.ValueSpec:
				for _, id := range n.Names {
					add(file.Name.Name, id.Name)
				}
			case *ast.TypeSpec:
				add(file.Name.Name, n.Name.Name)
				ast.Inspect(n.Type, func(member ast.Node) bool {
					if f, is := member.(*ast.Field); is {
						for _, id := range f.Names {
							add(n.Name.Name, id.Name)
						}
						if len(f.Names) == 0 {
							add(n.Name.Name, baseName(f.Type))
							add(n.Name.Name, "."+baseName(f.Type))
						}
					}
					return true
				})
			}
			return true
		})
		return nil
	}))
	return all
}

// Names of packages and types of the module that pages show in Go's words are there. The notebook's are of their time.
func TestNamesOfGoAreThere(t *testing.T) {
	all, checked := goNames(t), 0
	has := func(of, name string) bool {
		if all[of][name] {
			return true
		}
		for embedded := range all[of] {
			if base, is := strings.CutPrefix(embedded, "."); is && all[base][name] {
				return true
			}
		}
		return false
	}
	for page, text := range require.Get(Documents(root))(t) {
		if strings.HasPrefix(page, "docs/contribute/notebook/") {
			continue
		}
		for _, m := range qualified.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if all[m[1]] == nil {
				continue // of another module
			}
			if checked++; !has(m[1], m[2]) || m[3] != "" && !has(m[2], m[3]) {
				t.Errorf("%s names %s, which is not there", page, m[0])
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d names were found", checked)
	}
}
