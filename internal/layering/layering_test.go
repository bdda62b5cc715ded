// Package layering holds the test that keeps imports running one way.
package layering

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gpc-engine/gpc/"

// allowed maps a folder to the folders of this module it may import outside its
// tests. A folder not listed, or an import not allowed, fails the test, so a new
// package has to say where it belongs.
var allowed = map[string][]string{
	"tensor":                               {},
	"domain":                               {"internal/names", "tensor"},
	"domain/diagnosis":                     {"domain", "internal/machine", "tensor"},
	"equations/program":                    {"internal/jsonin"},
	"equations/gorgoniagrad":               {"domain"},
	"equations/dual":                       {"tensor"},
	"internal/simd/dense":                  {"internal/simd/isa"},
	"internal/simd/lanes":                  {"internal/simd/isa"},
	"internal/simd/stages":                 {"internal/simd/isa", "internal/simd/lanes", "internal/simd/lanes/programs", "equations/program"},
	"internal/simd/lanes/programs":         {"internal/simd/lanes", "equations/program"},
	"internal/gotrace":                     {"equations/program"},
	"internal/testing/constructs":          {"equations/dual"},
	"equations":                            {"internal/gotrace", "internal/simd/isa", "internal/simd/lanes", "internal/simd/stages", "equations/program", "tensor", "equations/dual", "domain", "ocp", "ocp/mixedinteger", "closedloop"},
	"equations/systemfile":                 {"internal/jsonin", "equations/program", "equations/dual", "domain", "equations", "ocp", "closedloop"},
	"internal/durable":                     {},
	"internal/safetensors":                 {"tensor"},
	"model":                                {"internal/durable", "internal/jsonin", "internal/safetensors", "tensor"},
	"internal/policy":                      {"internal/durable", "internal/safetensors", "model", "domain", "tensor"},
	"internal/version":                     {},
	"internal/option":                      {},
	"internal/machine":                     {},
	"internal/simd/isa":                    {},
	"internal/simd/parallel":               {},
	"internal/simd/neighbours":             {"internal/simd/isa", "internal/simd/parallel", "tensor"},
	"internal/backend":                     {"internal/crossentropy", "domain", "model", "tensor"},
	"internal/ref":                         {"internal/backend", "domain", "model", "tensor"},
	"internal/testing/backendtest":         {"domain/diagnosis", "internal/testing/require", "internal/testing/testdomain", "internal/testing/planscore", "internal/testing/training", "internal/ref", "internal/backend", "domain", "model", "tensor"},
	"cpu_fallback":                         {"cpu_fallback/*", "internal/simd/isa", "internal/simd/parallel", "internal/simd/neighbours", "internal/backend", "domain", "model", "tensor"},
	"cpu_fallback/*":                       {"internal/simd/isa", "internal/simd/parallel", "tensor"},
	"kernels":                              {"kernels/driver", "kernels/images", "kernels/nvrtc", "export", "internal/durable", "internal/simd/parallel", "internal/crossentropy", "internal/normal", "internal/backend", "model", "domain", "tensor"},
	"kernels/driver":                       {},
	"kernels/nvrtc":                        {},
	"kernels/ptx":                          {},
	"kernels/ptx/device":                   {"kernels/driver", "kernels/ptx"},
	"kernels/shim":                         {"kernels/driver", "kernels/images", "kernels/ptx/device"},
	"kernels/build":                        {"internal/durable", "internal/simd/parallel", "kernels/shim", "kernels/images", "kernels/nvrtc"},
	"kernels/images":                       {"internal/durable", "kernels/driver"},
	"grid/matpower":                        {"grid/internal/unionfind"},
	"grid/matpower/cases":                  {"internal/names", "grid/matpower"},
	"paper/*":                              {"internal/jsonin", "internal/simd/parallel", "domain", "tensor"},
	"paper/opf":                            {"paper/opf/*", "grid/*", "internal/jsonin", "domain", "tensor"},
	"grid":                                 {},
	"grid/network":                         {"grid/internal/*", "grid/matpower"},
	"grid/networktest":                     {"grid/network", "grid/matpower", "grid/matpower/cases"},
	"paper/opf/internal/dots":              {"internal/simd/isa", "tensor"},
	"grid/powerflow":                       {"grid/internal/elimination", "grid/network", "internal/simd/dense", "internal/simd/isa"},
	"grid/acopf":                           {"grid/network", "grid/internal/*", "internal/simd/lanes", "internal/simd/isa", "internal/simd/parallel"},
	"grid/internal/multifrontal":           {},
	"grid/internal/elimination":            {},
	"grid/secure":                          {"grid/acopf", "grid/acopf/laneflow", "grid/internal/elimination", "grid/internal/multifrontal", "grid/network", "grid/powerflow", "internal/simd/dense", "internal/simd/isa", "internal/simd/lanes", "internal/simd/parallel"},
	"grid/acopf/laneflow":                  {"internal/simd/lanes", "grid/network", "grid/powerflow", "internal/simd/isa"},
	"grid/command":                         {".", "cli", "bench", "internal/interrupt", "internal/machine", "paper/opf", "grid/network", "grid/powerflow", "grid/acopf", "grid/matpower", "grid/matpower/cases", "grid/formats", "grid/dcopf", "grid/results", "grid/secure", "grid/series", "domain", "internal/durable", "internal/finite", "grid/optima", "internal/simd/parallel", "internal/version", "engine"},
	"grid/formats":                         {"grid/matpower"},
	"grid/dcopf":                           {"grid/acopf", "grid/internal/*", "grid/network"},
	"grid/results":                         {"internal/durable", "internal/finite", "grid/matpower", "grid/acopf", "grid/acopf/laneflow", "grid/network", "grid/powerflow", "grid/secure", "internal/simd/parallel"},
	"grid/series":                          {"grid/acopf", "grid/network", "internal/durable"},
	"grid/ppc":                             {"grid/network", "grid/powerflow", "grid/acopf", "grid/matpower"},
	"paper/multiagent":                     {"paper/multiagent/*", "internal/jsonin", "domain"},
	"paper/multiagent/world":               {"paper/multiagent/rollout", "internal/jsonin", "domain"},
	"paper/multiagent/view":                {"internal/simd/parallel", "paper/multiagent/world", "paper/multiagent/rollout", "domain", "tensor"},
	"paper/multiagent/plan":                {"paper/multiagent/view", "paper/multiagent/world", "paper/multiagent/rollout", "domain", "tensor"},
	"paper/multiagent/dataset":             {"paper/multiagent/plan", "paper/multiagent/view", "paper/multiagent/world", "paper/multiagent/rollout", "domain"},
	"paper/multiagent/rollout":             {"internal/simd/isa", "domain"},
	"paper/multiagent/rollout/rollouttest": {"paper/multiagent/rollout"},
	"internal/testing/require":             {},
	"grid/internal/unionfind":              {},
	"internal/names":                       {},
	"internal/graphlayout":                 {"domain"},
	"internal/recording":                   {"internal/graphlayout", "closedloop", "domain"},
	"internal/interrupt":                   {},
	"internal/finite":                      {},
	"internal/jsonin":                      {"internal/names"},
	"internal/web":                         {},
	"internal/testing/docsection":          {"internal/durable"},
	"internal/testing/testcart":            {"domain", "equations", "equations/dual"},
	"internal/testing/planscore":           {"domain", "tensor"},
	"internal/testing/thread":              {},
	"internal/testing/training":            {"internal/ref", "internal/backend", "model", "tensor"},
	"internal/testing/testdomain":          {"internal/durable", "internal/backend", "domain", "model", "tensor"},
	"internal/normal":                      {},
	"internal/crossentropy":                {"internal/normal", "tensor"},
	"batchnav":                             {"dataset", "internal/crossentropy", "internal/normal", "internal/simd/parallel", "internal/backend", "model", "domain", "tensor", "internal/machine"},
	"engine":                               {"internal/option", "internal/names", "kernels", "kernels/driver", "cpu_fallback", "internal/ref", "internal/backend", "model", "domain", "tensor"},
	"dataset":                              {"internal/names", "internal/durable", "internal/simd/isa", "internal/simd/parallel", "model", "domain", "tensor"},
	"ocp/mixedinteger":                     {"domain", "ocp", "tensor"},
	"ocp":                                  {"internal/simd/dense", "internal/simd/parallel", "domain", "tensor"},
	"train":                                {"internal/jsonin", "internal/safetensors", "batchnav", "dataset", "internal/simd/neighbours", "internal/simd/parallel", "internal/backend", "model", "domain", "tensor", "internal/durable"},
	"closedloop":                           {"domain/diagnosis", "internal/option", "internal/jsonin", "internal/simd/parallel", "internal/interrupt", "batchnav", "domain", "tensor", "internal/durable", "internal/machine"},
	"closedloop/environment":               {"internal/simd/parallel", "domain", "tensor"},
	"bench":                                {"internal/names", "internal/safetensors", "cpu_fallback", "batchnav", "dataset", "kernels/images", "internal/ref", "internal/backend", "internal/simd/parallel", "model", "domain", "tensor", "internal/durable", "internal/machine"},
	"closedloop/estimate":                  {"internal/simd/dense", "domain", "tensor", "ocp"},
	"domain/domaintest":                    {"domain", "internal/testing/require", "kernels", "kernels/driver", "kernels/images", "kernels/shim", "internal/backend", "internal/testing/backendtest"},
	"export/ccode":                         {"equations/program"},
	"export":                               {"export/ccode", "closedloop/estimate", "equations/program", "ocp/mixedinteger", "internal/durable", "model", "domain", "tensor", "internal/version"},
	".":                                    {"domain/diagnosis", "internal/option", "internal/names", "internal/durable", "bench", "closedloop/estimate", "export", "engine", "batchnav", "dataset", "ocp", "ocp/mixedinteger", "train", "closedloop", "model", "domain", "tensor", "internal/simd/isa", "internal/version", "internal/policy", "internal/interrupt", "internal/recording", "internal/machine", "equations", "equations/systemfile"},
	"serve":                                {"internal/option", ".", "dataset", "tensor", "internal/names", "internal/durable", "internal/finite", "internal/interrupt", "internal/jsonin", "internal/web", "internal/version", "batchnav", "closedloop", "domain", "internal/machine", "internal/simd/parallel"},
	"view":                                 {"internal/option", ".", "serve", "internal/machine", "internal/jsonin", "internal/graphlayout", "internal/web", "batchnav", "closedloop", "dataset", "domain", "internal/finite", "internal/version"},
	"compile":                              {"domain/diagnosis", "internal/option", "internal/durable", "internal/simd/isa", "internal/machine", "internal/simd/parallel", "internal/version", ".", "dataset", "train", "closedloop", "model", "domain", "engine"},
	"paper":                                {".", "paper/models", "domain", "paper/*"},
	"cli":                                  {"domain/diagnosis", "internal/option", ".", "export", "tensor", "internal/names", "serve", "view", "compile", "bench", "engine", "batchnav", "dataset", "train", "closedloop", "model", "domain", "internal/finite", "internal/interrupt", "internal/version", "internal/durable", "internal/machine"},
	"paper/models":                         {},
	"internal/bundled":                     {".", "domain", "paper", "examples/gallery", "examples/gallery/models"},
	"grid/optima":                          {"internal/durable", "internal/machine"},
	"internal/bundled/program":             {"cli", "grid/command", "grid/matpower/cases", "internal/bundled"},
	"cmd/gpc":                              {"cli", "internal/bundled/program"},
	"python/libgpc":                        {"domain/diagnosis", "internal/option", ".", "internal/jsonin", "compile", "serve", "internal/bundled", "batchnav", "closedloop", "closedloop/environment", "closedloop/estimate", "domain", "tensor", "internal/durable", "internal/finite", "internal/version", "grid/dcopf", "grid/formats", "internal/simd/parallel", "grid/ppc", "grid/results", "grid/secure", "model", "dataset", "grid/acopf", "grid/powerflow", "grid/matpower", "grid/matpower/cases", "grid/network", "engine"},
	"examples/*":                           {".", "serve", "examples/*", "cli", "domain", "equations/dual", "equations", "equations/gorgoniagrad", "ocp", "closedloop"},
	"internal/layering":                    {},
	"internal/testing/pages":               {},
}

func match(pattern, dir string) bool {
	if p, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(dir, p)
	}
	return pattern == dir
}

// rule is the row of a folder, or of the longest pattern that matches it.
func rule(dir string) (may []string, known bool) {
	if r, ok := allowed[dir]; ok {
		return r, true
	}
	longest := ""
	for pattern, r := range allowed {
		if strings.HasSuffix(pattern, "/*") && match(pattern, dir) && len(pattern) > len(longest) {
			longest, may, known = pattern, r, true
		}
	}
	return may, known
}

// laboratory says whether a folder is of the module lab, which may import everything and nothing imports.
func laboratory(dir string) bool { return strings.HasPrefix(dir, "lab/") }

// inside is the folder of a package of this module, "." for its root.
func inside(path string) (dir string, ours bool) {
	if path+"/" == module {
		return ".", true
	}
	return strings.CutPrefix(path, module)
}

// packages calls f with every package of this module and what it imports.
func packages(t *testing.T, f func(dir string, imports []string)) {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	found := 0
	for ; ; found++ {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		dir, _ := inside(p.ImportPath)
		f(dir, p.Imports)
	}
	if found < 5 {
		t.Fatalf("go list found %d packages", found)
	}
}

func TestImportsRunOneWay(t *testing.T) {
	packages(t, func(dir string, imports []string) {
		if laboratory(dir) {
			return
		}
		may, known := rule(dir)
		if !known {
			t.Errorf("%s has no place in the import order", dir)
			return
		}
		for _, imp := range imports {
			if imp == "text/template" || imp == "html/template" {
				t.Errorf("%s imports %s: it finds methods by their names, for which the linker keeps every method of a program", dir, imp)
			}
			to, ours := inside(imp)
			if ours && !slices.ContainsFunc(may, func(pattern string) bool { return match(pattern, to) }) {
				t.Errorf("%s imports %s, it may import only %v", dir, to, may)
			}
		}
	})
}

// TestLibraryPage: docs/reference/library.md says of every package that can be imported whether it
// is a promise, and the examples it names are there.
func TestLibraryPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/library.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, ok := strings.Cut(string(page), "## What is promised")
	if !ok {
		t.Fatal("the page has no table of what is promised")
	}
	name := regexp.MustCompile("`([^` ]+)`")
	var patterns []string
	for line := range strings.Lines(tables) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			for _, m := range name.FindAllStringSubmatch(cells[1], -1) {
				pattern := m[1]
				if pattern == "gpc" {
					pattern = "."
				}
				patterns = append(patterns, pattern)
			}
		}
	}
	packages(t, func(dir string, _ []string) {
		if laboratory(dir) || strings.Contains("/"+dir+"/", "/internal/") {
			return
		}
		if !slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, dir) }) {
			t.Errorf("docs/reference/library.md does not say whether %s is a promise", dir)
		}
	})
	examples, err := os.ReadFile("../../example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Example[A-Za-z_]+)`").FindAllStringSubmatch(string(page), -1)
	for _, m := range named {
		if !strings.Contains(string(examples), "func "+m[1]+"()") {
			t.Errorf("docs/reference/library.md names %s, which example_test.go does not have", m[1])
		}
	}
	if len(named) != strings.Count(string(examples), "\nfunc Example") {
		t.Errorf("docs/reference/library.md names %d examples, example_test.go has %d", len(named), strings.Count(string(examples), "\nfunc Example"))
	}
}

// The library for power systems stands alone: nothing that it is built of, at any depth, belongs to
// the control engine.
func TestGridStandsAlone(t *testing.T) {
	imports := map[string][]string{}
	packages(t, func(dir string, of []string) {
		for _, path := range of {
			if next, ours := inside(path); ours {
				imports[dir] = append(imports[dir], next)
			}
		}
	})
	support := []string{"internal/simd/dense", "internal/simd/lanes", "internal/simd/isa", "internal/simd/parallel", "grid/internal/unionfind", "internal/names", "internal/durable", "internal/finite"}
	seen, reached := map[string]bool{}, 0
	var visit func(dir, by string)
	visit = func(dir, by string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		if dir != "grid" && !strings.HasPrefix(dir, "grid/") && !slices.Contains(support, dir) {
			t.Errorf("%s imports %s", by, dir)
			return
		}
		reached++
		for _, next := range imports[dir] {
			visit(next, dir)
		}
	}
	for dir := range imports {
		if strings.HasPrefix(dir, "grid/") && dir != "grid/command" && dir != "grid/optima" {
			visit(dir, "it")
		}
	}
	if reached < 8 {
		t.Errorf("%d packages: the library was not found", reached)
	}
}
