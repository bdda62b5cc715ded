package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// mutant is one change of a file: what was at a place is now with.
type mutant struct {
	token.Position
	was, with string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d %q for %q", filepath.Base(m.Filename), m.Line, m.Column, m.with, m.was)
}

func (m mutant) apply(text []byte) []byte {
	return slices.Concat(text[:m.Offset], []byte(m.with), text[m.Offset+len(m.was):])
}

// operators are what may stand in for an operator.
var operators = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR}, token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
}

// mutants are one change at each place of the package that can have one, of the kinds that the place allows that which
// rng draws. Files that a program writes are left out.
func (p *listed) mutants(rng *rand.Rand) (all []mutant, err error) {
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if ast.IsGenerated(file) {
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			var changes []mutant
			source := func(from, to token.Pos) string {
				return string(text[set.Position(from).Offset:set.Position(to).Offset])
			}
			change := func(from, to token.Pos, with string) {
				changes = append(changes, mutant{set.Position(from), source(from, to), with})
			}
			replace := func(at token.Pos, op token.Token) {
				for _, other := range operators[op] {
					change(at, at+token.Pos(len(op.String())), other.String())
				}
			}
			switch n := node.(type) {
			case *ast.GenDecl:
				return n.Tok != token.IMPORT
			case *ast.BinaryExpr:
				if !isNil(n.X) && !isNil(n.Y) { // whether an error is returned is a kind of its own
					replace(n.OpPos, n.Op)
				}
			case *ast.AssignStmt:
				replace(n.TokPos, n.Tok)
			case *ast.UnaryExpr:
				if n.Op == token.SUB || n.Op == token.NOT {
					change(n.Pos(), n.X.Pos(), "")
				}
			case *ast.CallExpr: // math.Abs, Max, Min and the like without the call, or without an argument
				if bounds(n.Fun) {
					for _, one := range n.Args {
						change(n.Pos(), n.End(), "("+source(one.Pos(), one.End())+")")
					}
				}
			case *ast.IfStmt: // if err != nil { return … }
				if b, ok := n.Cond.(*ast.BinaryExpr); ok && b.Op == token.NEQ && isNil(b.Y) && len(n.Body.List) == 1 {
					if _, returns := n.Body.List[0].(*ast.ReturnStmt); returns {
						change(b.Pos(), b.End(), "false && "+source(b.Pos(), b.End()))
					}
				}
			case *ast.BasicLit:
				if v, err := strconv.ParseInt(n.Value, 0, 32); err == nil && n.Kind == token.INT {
					change(n.Pos(), n.End(), fmt.Sprint(v+1))
					change(n.Pos(), n.End(), fmt.Sprintf("(%d)", v-1))
				}
			}
			if len(changes) > 0 {
				all = append(all, changes[rng.IntN(len(changes))])
			}
			return true
		})
	}
	return all, nil
}

func isNil(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "nil"
}

// bounds reports whether a function is one that bounds its arguments or takes their size.
func bounds(f ast.Expr) bool {
	if s, ok := f.(*ast.SelectorExpr); ok {
		of, _ := s.X.(*ast.Ident)
		return of != nil && of.Name == "math" && slices.Contains([]string{"Abs", "Max", "Min"}, s.Sel.Name)
	}
	name, ok := f.(*ast.Ident)
	return ok && (name.Name == "min" || name.Name == "max")
}
