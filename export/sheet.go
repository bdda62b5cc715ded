package export

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"reflect"
	"text/template/parse"
)

// A sheet executes the templates of C. It is text/template's language without its executor, which finds methods by their names: the
// linker keeps every exported method of a program that can. Functions and methods are the named ones alone, and a variable is one in
// all of a template.
type sheet struct {
	trees     map[string]*parse.Tree
	functions map[string]any
	methods   map[string]question
}

// question is a method of some values; ok where v is one of them.
type question func(v any) (answer any, ok bool)

// operators are the language's own functions. Of and and or operand looks no further than it must.
var operators = map[string]any{
	"and": true, "or": true, "printf": fmt.Sprintf,
	"not":   func(v any) bool { return !truth(reflect.ValueOf(v)) },
	"eq":    func(a, b any) bool { return a == b },
	"gt":    func(a, b int) bool { return a > b },
	"len":   func(v any) int { return reflect.ValueOf(v).Len() },
	"index": func(v any, i int) any { return reflect.ValueOf(v).Index(i).Interface() },
}

// parse reads the files of a folder.
func (s *sheet) parse(files fs.FS, folder string) error {
	s.trees = map[string]*parse.Tree{}
	entries, err := fs.ReadDir(files, folder)
	for _, e := range entries {
		text, failed := fs.ReadFile(files, folder+"/"+e.Name())
		if failed == nil {
			_, failed = parse.New(e.Name()).Parse(string(text), "", "", s.trees, s.functions, operators)
		}
		err = cmp.Or(err, failed)
	}
	return err
}

// execute writes a template of data.
func (s *sheet) execute(name string, data any) (text []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("template %s: %v", name, p)
		}
	}()
	var out bytes.Buffer
	s.template(&out, name, reflect.ValueOf(data))
	return out.Bytes(), nil
}

func (s *sheet) template(out *bytes.Buffer, name string, dot reflect.Value) {
	e := &execution{s, out, map[string]reflect.Value{"$": dot}}
	e.list(s.trees[name].Root, dot)
}

// execution is that of one template.
type execution struct {
	*sheet
	out       *bytes.Buffer
	variables map[string]reflect.Value
}

func (e *execution) list(l *parse.ListNode, dot reflect.Value) {
	if l != nil {
		for _, n := range l.Nodes {
			e.node(n, dot)
		}
	}
}

func (e *execution) node(n parse.Node, dot reflect.Value) {
	switch n := n.(type) {
	case *parse.TextNode:
		e.out.Write(n.Text)
	case *parse.ActionNode:
		v := e.pipe(n.Pipe, dot)
		for _, d := range n.Pipe.Decl {
			e.variables[d.Ident[0]] = v
		}
		if len(n.Pipe.Decl) == 0 {
			fmt.Fprint(e.out, v.Interface())
		}
	case *parse.TemplateNode:
		e.template(e.out, n.Name, e.pipe(n.Pipe, dot))
	case *parse.IfNode:
		if truth(e.pipe(n.Pipe, dot)) {
			e.list(n.List, dot)
		} else {
			e.list(n.ElseList, dot)
		}
	case *parse.RangeNode:
		for i, v := range e.pipe(n.Pipe, dot).Seq2() {
			for k, d := range n.Pipe.Decl {
				e.variables[d.Ident[0]] = []reflect.Value{i, v}[2-len(n.Pipe.Decl)+k]
			}
			e.list(n.List, v)
		}
	default:
		panic(fmt.Sprintf("%s: there is no such action", n))
	}
}

// pipe is the value of commands, each of which has that of the one before as its last operand.
func (e *execution) pipe(p *parse.PipeNode, dot reflect.Value) (v reflect.Value) {
	for i, c := range p.Cmds {
		if name, ok := c.Args[0].(*parse.IdentifierNode); !ok {
			v = e.operand(c.Args[0], dot)
		} else if i == 0 {
			v = e.call(name.Ident, c.Args[1:], dot)
		} else {
			v = e.call(name.Ident, c.Args[1:], dot, v)
		}
	}
	return v
}

// call calls a function with operands and what else it has.
func (e *execution) call(name string, args []parse.Node, dot reflect.Value, more ...reflect.Value) (v reflect.Value) {
	var operands []reflect.Value
	for _, a := range args {
		v = e.operand(a, dot)
		if (name == "and" || name == "or") && truth(v) == (name == "or") {
			return v
		}
		operands = append(operands, v)
	}
	if name == "and" || name == "or" {
		return v
	}
	f, ok := e.functions[name]
	if !ok {
		f = operators[name]
	}
	return concrete(reflect.ValueOf(f).Call(append(operands, more...))[0])
}

func (e *execution) operand(n parse.Node, dot reflect.Value) reflect.Value {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return e.fields(dot, n.Ident)
	case *parse.VariableNode:
		return e.fields(e.variables[n.Ident[0]], n.Ident[1:])
	case *parse.PipeNode:
		return e.pipe(n, dot)
	case *parse.StringNode:
		return reflect.ValueOf(n.Text)
	case *parse.NumberNode:
		return reflect.ValueOf(int(n.Int64))
	}
	panic(fmt.Sprintf("%s: there is no such operand", n))
}

// fields follows names of fields and methods.
func (e *execution) fields(v reflect.Value, names []string) reflect.Value {
	for _, name := range names {
		if m := e.methods[name]; m != nil {
			if answer, ok := m(v.Interface()); ok {
				v = reflect.ValueOf(answer)
				continue
			}
		}
		field := reflect.Indirect(v).FieldByName(name)
		if !field.IsValid() {
			panic(fmt.Sprintf("%s of %s: there is no such field", name, v.Type()))
		}
		v = concrete(field)
	}
	return v
}

// concrete is what an interface holds.
func concrete(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		return v.Elem()
	}
	return v
}

// truth is that of a condition: a value that is not empty.
func truth(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.String:
		return v.Len() > 0
	case reflect.Struct:
		return true
	}
	return v.IsValid() && !v.IsZero()
}
