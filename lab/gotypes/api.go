package main

import (
	"bytes"
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/gcexportdata"

	"github.com/gpc-engine/gpc/internal/gotrace"
)

// describe describes what packages that import these see of them, a line each: two lists that are equal check the same programs. What is not
// exported is left out, so that it may change.
func describe(exports []gotrace.Export) ([]string, error) {
	fset, imported := token.NewFileSet(), map[string]*types.Package{}
	var lines []string
	for _, e := range exports {
		p, err := gcexportdata.Read(bytes.NewReader(e.Data), fset, imported, e.Path)
		if err != nil {
			return nil, err
		}
		for _, name := range p.Scope().Names() {
			o := p.Scope().Lookup(name)
			if !o.Exported() {
				continue
			}
			line := fmt.Sprintf("%s.%s: %T ", e.Path, name, o)
			switch o := o.(type) {
			case *types.Const:
				line += o.Type().String() + " " + o.Val().ExactString()
			case *types.TypeName:
				line += typeAPI(o.Type())
			default:
				line += o.Type().String()
			}
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// typeAPI is a type's structure and its methods.
func typeAPI(t types.Type) string {
	var parts []string
	switch u := t.Underlying().(type) {
	case *types.Struct:
		hidden := 0
		for i := range u.NumFields() {
			if f := u.Field(i); f.Exported() {
				parts = append(parts, fmt.Sprint(f.Name(), " ", f.Embedded(), " ", f.Type()))
			} else {
				hidden = 1
			}
		}
		parts = append(parts, fmt.Sprint("hidden ", hidden, " comparable ", types.Comparable(t)))
	default:
		parts = append(parts, u.String())
	}
	namedType, ok := t.(*types.Named)
	if !ok {
		return strings.Join(parts, "; ")
	}
	if namedType.TypeParams().Len() > 0 {
		for p := range namedType.TypeParams().TypeParams() {
			parts = append(parts, fmt.Sprint("parameter ", p, " ", p.Constraint()))
		}
	}
	var methods []string
	for f := range namedType.Methods() {
		if f.Exported() {
			methods = append(methods, fmt.Sprint(f.Name(), " ", f.Type(), " ", f.Signature().Recv().Type()))
		}
	}
	slices.Sort(methods)
	return strings.Join(append(parts, methods...), "; ")
}
