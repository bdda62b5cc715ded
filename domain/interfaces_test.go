package domain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// TestInterfacesAreDocumented: docs/reference/interfaces.md has one row for each exported
// interface of the package and for each ability, and none for another.
func TestInterfacesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/interfaces.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[A-Za-z.`, ]+`) \\|").FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			rows[strings.Trim(name, "`")]++
		}
	}
	found := exportedInterfaces(t)
	if n := len(found); n < 10 || n > 16 {
		t.Fatalf("package domain exports %d interfaces, want 10 to 16: what few types can do is an ability: %v", n, found)
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[domain.Derivatives](), reflect.TypeFor[domain.ProblemAbilities](), reflect.TypeFor[domain.SolverAbilities](),
		reflect.TypeFor[domain.PlantAbilities](), reflect.TypeFor[domain.EpisodeAbilities](), reflect.TypeFor[domain.ControllerAbilities](),
	} {
		for _, f := range reflect.VisibleFields(of) {
			if f.Type != reflect.TypeFor[domain.Derivatives]() {
				found = append(found, of.Name()+"."+f.Name)
			}
		}
	}
	for _, name := range found {
		if rows[name] != 1 {
			t.Errorf("docs/reference/interfaces.md has %d rows for domain.%s, want 1", rows[name], name)
		}
		delete(rows, name)
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Errorf("docs/reference/interfaces.md has a row for %s, which is no interface of package domain", name)
	}
}

func exportedInterfaces(t *testing.T) (names []string) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				if _, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
					names = append(names, s.Name.Name)
				}
			}
			return true
		})
	}
	return names
}
