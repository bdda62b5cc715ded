package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// flagInText is a flag in a sentence. One that stands alone is an argument of another program.
var flagInText = regexp.MustCompile(`\s.*--[a-z]|--[a-z].*\s`)

// commands are packages of the command line, programs the folders of what measures with it: theirs are the flags.
var (
	commands = []string{"main", "cli", "command"}
	programs = []string{"bench", "lab"}
)

// The library speaks of fields of its options, {Field} in package option: a program that calls it has no flags.
func TestTheLibraryNamesNoFlags(t *testing.T) {
	read := 0
	packages(t, func(dir string, _ []string) {
		if slices.ContainsFunc(programs, func(of string) bool { return strings.HasPrefix(dir+"/", of+"/") }) {
			return
		}
		paths, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(path, "_test.go") || slices.Contains(commands, f.Name.Name) {
				continue
			}
			read++
			ast.Inspect(f, func(n ast.Node) bool {
				// A container's --gpus is no flag of ours.
				if s, is := n.(*ast.BasicLit); is && s.Kind == token.STRING && flagInText.MatchString(strings.ReplaceAll(s.Value, "--gpus", "")) {
					t.Errorf("%s names a flag: %s", files.Position(s.Pos()), s.Value)
				}
				return true
			})
		}
	})
	if read < 300 {
		t.Errorf("%d files: the library was not found", read)
	}
}
