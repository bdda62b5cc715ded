// Package gotrace turns the source of Go functions into straight-line programs: it executes the source on symbols in
// place of numbers, and records every operation.
//
// The central type is Package. Load parses and checks the files of a package, as go:embed keeps them in a binary; Run calls one of
// its functions with what is known, such as the function that makes a system; Trace calls a function that came back with
// symbols for its numbers. Loops and indices that are known are followed. A branch on a number is followed on both sides to
// where they meet, and becomes a selection. What cannot be followed is an *Error with file and line.
//
// The form that runs is that of golang.org/x/tools/go/ssa. The types of what a package imports are those of
// the file types.bundle, so that no Go toolchain is needed.
package gotrace

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/ssa"
)

// Source is a package's files, and the path it is imported by; test files are passed over.
type Source struct {
	Path  string
	Files fs.FS
}

// Package is one that was read, with those whose source it imports. It is for one goroutine at a time.
type Package struct {
	prog    *ssa.Program
	main    *ssa.Package
	sourced []*ssa.Package // with source
	// missing are functions without a body here, and why.
	missing map[string]string
}

//go:embed types.bundle
var bundle []byte

// Bundled unpacks the types of the standard library and of this module that packages may import: export data by path, those that
// others need before them.
var Bundled = sync.OnceValues(func() ([]Export, error) { return unpack(bytes.NewReader(bundle)) })

// maxFiles bounds the bytes of a package's files.
const maxFiles = 16 << 20

// Load reads a package. The others are what it imports besides packages of the bundle, each before those that
// import it. A function that uses a package that is neither can be there: it cannot be run.
func Load(main Source, dependencies ...Source) (*Package, error) {
	exports, err := Bundled()
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	imports := newImporter(fset, exports)
	p := &Package{prog: ssa.NewProgram(fset, ssa.InstantiateGenerics), missing: map[string]string{}}
	type checked struct {
		pkg   *types.Package
		files []*ast.File
		info  *types.Info
	}
	var all []checked
	for _, s := range append(slices.Clone(dependencies), main) {
		files, err := parse(fset, s)
		if err != nil {
			return nil, err
		}
		pkg, info, err := p.check(fset, imports, s.Path, files)
		if err != nil {
			return nil, err
		}
		imports.complete[s.Path] = pkg
		all = append(all, checked{pkg, files, info})
	}
	created := map[*types.Package]bool{}
	for _, c := range all {
		created[c.pkg] = true
	}
	for _, dependency := range imports.all() {
		if !created[dependency] {
			p.prog.CreatePackage(dependency, nil, nil, true)
		}
	}
	for _, c := range all {
		p.sourced = append(p.sourced, p.prog.CreatePackage(c.pkg, c.files, c.info, true))
	}
	p.prog.Build()
	p.main = p.sourced[len(p.sourced)-1]
	return p, nil
}

// parse reads the files that a build would take.
func parse(fset *token.FileSet, s Source) ([]*ast.File, error) {
	entries, err := fs.ReadDir(s.Files, ".")
	if err != nil {
		return nil, fmt.Errorf("source of %s: %w", s.Path, err)
	}
	context := build.Default
	context.BuildTags = tags()
	context.JoinPath = path.Join
	context.OpenFile = func(name string) (io.ReadCloser, error) { return s.Files.Open(name) }
	var files []*ast.File
	total := 0
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if ok, err := context.MatchFile(".", name); err != nil || !ok {
			if err != nil {
				return nil, fmt.Errorf("source of %s: %w", s.Path, err)
			}
			continue
		}
		text, err := fs.ReadFile(s.Files, name)
		if err != nil {
			return nil, fmt.Errorf("source of %s: %w", s.Path, err)
		}
		if total += len(text); total > maxFiles {
			return nil, fmt.Errorf("source of %s: more than %d bytes", s.Path, maxFiles)
		}
		f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("source of %s: it has no Go files: //go:embed *.go keeps them", s.Path)
	}
	return files, nil
}

// tags are those that this binary was built with.
var tags = sync.OnceValue(func() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return strings.Split(s.Value, ",")
		}
	}
	return nil
})

// check finds the types. Functions that use what is not known here lose their bodies, and declarations are left out.
func (p *Package) check(fset *token.FileSet, imports *importer, path string, files []*ast.File) (*types.Package, *types.Info, error) {
	for {
		info := &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{},
			Instances: map[*ast.Ident]types.Instance{}, Scopes: map[ast.Node]*types.Scope{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, FileVersions: map[*ast.File]string{},
		}
		var hard []types.Error
		config := types.Config{Importer: imports, Error: func(err error) {
			if e, ok := errors.AsType[types.Error](err); ok && !e.Soft {
				hard = append(hard, e)
			}
		}}
		pkg, _ := config.Check(path, fset, files, info)
		if len(hard) == 0 {
			return pkg, info, nil
		}
		removed := false
		for _, e := range hard {
			removed = p.leaveOut(files, e) || removed
		}
		if !removed {
			return nil, nil, hard[0]
		}
	}
}

// leaveOut removes what has an error from the files: a body, else a declaration.
func (p *Package) leaveOut(files []*ast.File, e types.Error) (removed bool) {
	for _, f := range files {
		if e.Pos < f.FileStart || e.Pos >= f.FileEnd {
			continue
		}
		for i, d := range f.Decls {
			if e.Pos < d.Pos() || e.Pos >= d.End() {
				continue
			}
			reason := fmt.Sprintf("%s: %s", e.Fset.Position(e.Pos), e.Msg)
			if name, ok := strings.CutPrefix(e.Msg, "undefined: "); ok && p.missing[name] != "" {
				reason = p.missing[name]
			}
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && e.Pos >= fn.Body.Pos() {
				fn.Body = nil
				p.missing[fn.Name.Name] = reason
				return true
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok && e.Pos >= v.Pos() && e.Pos < v.End() {
					for _, name := range v.Names {
						p.missing[name.Name] = reason
					}
				}
				return true
			})
			if g, ok := d.(*ast.GenDecl); ok && len(g.Specs) > 1 {
				k := slices.IndexFunc(g.Specs, func(s ast.Spec) bool { return e.Pos >= s.Pos() && e.Pos < s.End() })
				if k >= 0 && g.Tok != token.CONST { // iota counts
					g.Specs = slices.Delete(g.Specs, k, k+1)
					return true
				}
			}
			f.Decls = slices.Delete(f.Decls, i, i+1)
			return true
		}
	}
	return false
}
