package pages

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// Section is a part of a page of JSON keys: its heading, and a value of the type that is printed. The first name in
// backquotes of the heading stands for this type in other sections.
type Section struct {
	Title, Note string // Note stands before the table; "": nothing does
	Value       any
	Elsewhere   bool // another part of the page has it
}

// module is the path of this module.
const module = "github.com/gpc-engine/gpc"

// commented writes tables of keys whose meanings are the comments of fields.
type commented struct {
	root     string                              // folder of the module
	sections map[reflect.Type]string             // names of the sections that describe types
	structs  map[string]map[string]*ast.TypeSpec // of the packages read so far
	text     strings.Builder
	missing  []string
}

// WriteKeys writes sections of a page of JSON keys. The meaning of a key is the comment behind its field or, without one, above it.
// A field without a comment is an error.
func WriteKeys(root string, sections []Section) (string, error) {
	w := &commented{root: root, sections: map[reflect.Type]string{}, structs: map[string]map[string]*ast.TypeSpec{}}
	for _, s := range sections {
		w.sections[element(reflect.TypeOf(s.Value))] = keysHeading.FindStringSubmatch(s.Title)[1]
	}
	for _, s := range sections {
		if s.Elsewhere {
			continue
		}
		fmt.Fprintf(&w.text, "\n## %s\n\n", s.Title)
		if s.Note != "" {
			fmt.Fprintf(&w.text, "%s\n\n", s.Note)
		}
		w.text.WriteString("| key | meaning |\n|---|---|\n")
		if err := w.fields("", element(reflect.TypeOf(s.Value)), nil); err != nil {
			return "", err
		}
	}
	if len(w.missing) > 0 {
		return "", fmt.Errorf("fields without a comment: %s", strings.Join(w.missing, ", "))
	}
	return w.text.String() + "\n", nil
}

// element is the type behind pointers.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// fields writes the rows of a struct at a path; written is its type as a field has it that gives it no name.
func (w *commented) fields(path string, t reflect.Type, written ast.Expr) error {
	source, err := w.source(t, written)
	if err != nil {
		return err
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := declaration(source, f.Name)
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case of == nil:
			return fmt.Errorf("%v: no field %s in its source", t, f.Name)
		case f.Anonymous && name == "" && path != "" && w.sections[element(f.Type)] != "": // a row of the whole has it
		case f.Anonymous && name == "":
			err = w.fields(path, element(f.Type), of.Type)
		default:
			if name == "" {
				name = f.Name
			}
			err = w.field(strings.TrimPrefix(path+"."+name, "."), fmt.Sprintf("%v.%s", t, f.Name), f.Type, of)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// field writes the rows of a field: one of a value or of what another section describes, otherwise those of its fields.
func (w *commented) field(path, name string, t reflect.Type, of *ast.Field) error {
	whole, written := path, of.Type
	for !writesItself(t) && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer) {
		switch t.Kind() {
		case reflect.Map:
			path += "{}"
		case reflect.Slice, reflect.Array:
			path += "[]"
		}
		t, written = t.Elem(), elementOf(written)
	}
	if writesItself(t) || t.Kind() != reflect.Struct {
		meaning := comment(of)
		if meaning == "" {
			w.missing = append(w.missing, name)
		}
		fmt.Fprintf(&w.text, "| `%s` | %s |\n", whole, meaning)
		return nil
	}
	if section := w.sections[t]; section != "" {
		w.reference(path, section, of)
		return nil
	}
	for i := range t.NumField() {
		if section := w.sections[element(t.Field(i).Type)]; t.Field(i).Anonymous && section != "" {
			w.reference(path, section, of)
		}
	}
	return w.fields(path, t, written)
}

// reference writes the row of a key that another section describes.
func (w *commented) reference(path, section string, of *ast.Field) {
	fmt.Fprintf(&w.text, "| `%s` | %s |\n", path, strings.TrimSuffix("as `"+section+"`: "+comment(of), ": "))
}

// source is the declaration of a struct: by its name, or as a field writes it.
func (w *commented) source(t reflect.Type, written ast.Expr) (*ast.StructType, error) {
	if t.Name() != "" {
		spec, err := w.spec(t)
		if err != nil {
			return nil, err
		}
		written = spec.Type
	}
	if s, ok := written.(*ast.StructType); ok {
		return s, nil
	}
	return nil, fmt.Errorf("%v is not written as a struct", t)
}

// spec is the declaration of a type of this module.
func (w *commented) spec(t reflect.Type) (*ast.TypeSpec, error) {
	if w.structs[t.PkgPath()] == nil {
		all := map[string]*ast.TypeSpec{}
		w.structs[t.PkgPath()] = all
		if err := w.read(all, filepath.Join(w.root, strings.TrimPrefix(t.PkgPath(), module), "*.go")); err != nil {
			return nil, err
		}
	}
	name, _, _ := strings.Cut(t.Name(), "[")
	if s := w.structs[t.PkgPath()][name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%v is not declared in %s", t, t.PkgPath())
}

// read adds the types of a package's files, by their names.
func (w *commented) read(all map[string]*ast.TypeSpec, pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if strings.HasSuffix(file.Name.Name, "_test") { // another package
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				all[s.Name.Name] = s
			}
			return true
		})
	}
	return nil
}

// declaration is the field of a name, or the embedded one of a type of this name.
func declaration(of *ast.StructType, name string) *ast.Field {
	for _, f := range of.Fields.List {
		for _, n := range f.Names {
			if n.Name == name {
				return f
			}
		}
		if len(f.Names) == 0 && baseName(f.Type) == name {
			return f
		}
	}
	return nil
}

// baseName is the name of an embedded type.
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return baseName(e.X)
	}
	return ""
}

// elementOf is what a pointer, a list or a map of an expression has.
func elementOf(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.StarExpr:
		return e.X
	case *ast.ArrayType:
		return e.Elt
	case *ast.MapType:
		return e.Value
	}
	return e
}

// subject opens a comment above a field: its name and the verb.
var subject = regexp.MustCompile(`^[A-Z]\w*(:| is| are| says) `)

// comment is the meaning of a field, "" without one.
func comment(f *ast.Field) string {
	text := f.Comment.Text()
	if text == "" {
		text = subject.ReplaceAllString(f.Doc.Text(), "")
	}
	text = strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
	return strings.ReplaceAll(text, "|", `\|`)
}
