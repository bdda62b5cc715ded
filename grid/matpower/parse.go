package matpower

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// parsed is the result of a file's statements.
type parsed struct {
	function     string
	functionLine int
	structName   string // the name of the struct: "mpc"
	version      string
	versionLine  int
	baseMVA      float64
	baseLine     int
	tables       map[string]*matrix
	ignored      []Field
	names        map[string][]string // of the rows of bus, gen and branch, by field
}

// The tables the package uses; the rest is refused by name or ignored.
var used = []string{"bus", "gen", "branch", "gencost", "dcline", "dclinecost"}

// refused are the fields that change the problem in a way Case has no place
// for. Empty ones are let through.
var refused = map[string]string{
	"A":            "user-defined linear constraints",
	"l":            "user-defined linear constraints",
	"u":            "user-defined linear constraints",
	"N":            "user-defined costs",
	"H":            "user-defined costs",
	"Cw":           "user-defined costs",
	"fparm":        "user-defined costs",
	"z0":           "user-defined variables",
	"zl":           "user-defined variables",
	"zu":           "user-defined variables",
	"if":           "interface flow limits",
	"reserves":     "reserve requirements",
	"softlims":     "soft limits",
	"userfcn":      "user callback functions",
	"uav":          "user-defined variables",
	"user_vars":    "user-defined variables",
	"user_constrs": "user-defined constraints",
	"user_costs":   "user-defined costs",
	"trans3w":      "three-winding transformers",
	"svc":          "static var compensators",
	"facts":        "FACTS devices",
	"storage":      "storage units",
	"switch":       "switches",
	"busdc":        "DC grids",
	"branchdc":     "DC grids",
	"convdc":       "DC converters",
	"dc_line":      "DC lines",
	"ne_branch":    "branches to be built",
	"bus3p":        "three-phase networks",
	"line3p":       "three-phase networks",
	"gen3p":        "three-phase networks",
	"load3p":       "three-phase networks",
	"buslink":      "three-phase networks",
	"xfmr3p":       "three-phase networks",
}

// Refused is what a field stands for that a Case cannot hold; "" for another.
func Refused(field string) string { return refused[field] }

const (
	maxNesting = 64
	maxColumns = 1 << 12
)

type parser struct {
	s    *scanner
	name string // for errors before the function's name is known
	tok  token
	vars map[string]value
	last int // what "end" is in an index; 0 outside
	open int // blocks of "if" whose statements are taken
	load int // how many files lead here by loadcase
	out  parsed
}

// fail is panicked with by the parser's methods and recovered in parse: the
// grammar is recursive and every level would otherwise hand the same error on.
type fail struct{ *Error }

func (p *parser) failf(line int, format string, args ...any) {
	panic(fail{&Error{Name: p.name, Line: line, Reason: fmt.Sprintf(format, args...)}})
}

func (p *parser) advance() {
	t, reason := p.s.next()
	if reason != "" {
		p.failf(p.s.line, "%s", reason)
	}
	p.tok = t
}

func (p *parser) expect(kind tokenKind, wanted string) token {
	if p.tok.kind != kind {
		p.failf(p.tok.line, "found %s where %s should be", p.tok.describe(), wanted)
	}
	t := p.tok
	p.advance()
	return t
}

// parse runs the statements of a case file.
func parse(name string, src []byte) (*parsed, error) { return parseLoaded(name, src, 0) }

func parseLoaded(name string, src []byte, load int) (out *parsed, err error) {
	p := &parser{s: newScanner(src), name: name, vars: map[string]value{}, load: load}
	p.out.tables, p.out.names = map[string]*matrix{}, map[string][]string{}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fail:
			out, err = nil, r.Error
		default:
			panic(r)
		}
	}()
	p.advance()
	for p.tok.kind != tokenEnd {
		if !p.statement() {
			break
		}
	}
	return &p.out, nil
}

// separators are what may stand between two statements.
func (p *parser) endsStatement() bool {
	switch p.tok.kind {
	case ';', ',', tokenLine, tokenEnd:
		return true
	}
	return false
}

// statement parses one and says whether to go on.
func (p *parser) statement() bool {
	first := p.tok
	switch {
	case p.endsStatement():
		p.advance()
		return true
	case first.kind == '[':
		p.columnNames()
	case first.kind != tokenName:
		p.failf(first.line, "found %s where a statement should begin", first.describe())
	case first.text == "function":
		p.header()
	case first.text == "return":
		return false
	case first.text == "if":
		p.branch()
	case p.open > 0 && (first.text == "else" || first.text == "elseif"):
		p.advance()
		for p.skipBranch(first.line) != "end" {
		}
		p.open--
	case first.text == "end" || first.text == "endif" || first.text == "endfunction":
		p.open = max(p.open-1, 0)
		p.advance()
	case first.text == "define_constants":
		p.advance()
		for _, names := range columnNames {
			p.nameColumns(names, nil)
		}
	case slices.Contains([]string{"for", "while", "switch", "try", "parfor", "do", "global", "persistent", "clear", "load", "eval"}, first.text):
		p.failf(first.line, "%q is a statement of a program: a case file gives its data as numbers", first.text)
	default:
		p.advance()
		p.assignment(first)
	}
	if !p.endsStatement() {
		p.failf(p.tok.line, "found %s after the end of a statement", p.tok.describe())
	}
	return true
}

// branch parses the condition of "if" and of what follows it, up to where statements are taken.
func (p *parser) branch() {
	line := p.tok.line
	for {
		p.advance()
		if p.expression(false, 0).holds() {
			p.open++
			return
		}
		switch p.skipBranch(line) {
		case "end":
			return
		case "else":
			p.open++
			return
		}
	}
}

// skipBranch passes statements up to the next "elseif", or past the "else" or "end" of their block, and returns which. An
// "elseif" is the present token then.
func (p *parser) skipBranch(line int) string {
	for depth, field := 0, false; ; p.advance() {
		word := ""
		if p.tok.kind == tokenEnd {
			p.failf(line, "the \"if\" here has no \"end\"")
		}
		if p.tok.kind == tokenName && len(p.s.nesting) == 0 && !field {
			word = p.tok.text
		}
		field = p.tok.kind == '.'
		switch word {
		case "if", "for", "while", "switch", "try":
			depth++
		case "else", "elseif", "end", "endif":
			switch {
			case depth > 0 && word[:2] == "en":
				depth--
			case depth == 0 && word == "elseif":
				return word
			case depth == 0:
				p.advance()
				return strings.TrimSuffix(word, "if")
			}
		}
	}
}

// Library is the text of a network that a file may load by its name where no file next to it has this name. Package
// cases sets it.
var Library func(name string) ([]byte, error)

// maxLoads bounds files that load files.
const maxLoads = 8

// loaded parses "loadcase('name')" or "name" after "mpc =", and takes the tables of that file.
func (p *parser) loaded(structName token) bool {
	call, name := p.tok, p.tok.text
	if call.kind != tokenName || name == "struct" {
		return false
	}
	p.advance()
	if p.tok.kind == '(' {
		p.advance()
		if name != "loadcase" && p.tok.kind != ')' {
			p.failf(call.line, "%s(…) cannot be evaluated: a case file gives its data as numbers", name)
		}
		if name == "loadcase" {
			name = strings.TrimSuffix(p.expect(tokenText, "the name of a case in quotes").text, ".m")
		}
		p.expect(')', "\")\"")
	}
	var src []byte
	path, err := filepath.Join(filepath.Dir(p.name), name+".m"), fs.ErrNotExist
	if filepath.Base(name) == name {
		src, err = os.ReadFile(path)
		if err != nil && Library != nil {
			src, err = Library(name)
		}
	}
	if err != nil {
		p.failf(call.line, "no case %q: there is no such file next to this one, and no network of the program has this name", name)
	}
	if p.load == maxLoads {
		p.failf(call.line, "more than %d files load one another", maxLoads)
	}
	file, err := parseLoaded(path, src, p.load+1)
	if err != nil {
		p.failf(call.line, "%v", err)
	}
	p.out.structName, p.out.tables = structName.text, file.tables
	p.out.version, p.out.versionLine = file.version, call.line
	p.out.baseMVA, p.out.baseLine = file.baseMVA, -1
	for _, m := range file.tables {
		m.line = 0
		for i := range m.rowLine {
			m.rowLine[i] = call.line
		}
	}
	return true
}

// header parses "function mpc = name".
func (p *parser) header() {
	line := p.tok.line
	if p.out.functionLine != 0 || p.out.structName != "" {
		p.failf(line, "a second function: a case file holds one")
	}
	p.out.functionLine = line
	p.advance()
	var results []string
	if p.tok.kind == '[' {
		for p.advance(); p.tok.kind != ']'; p.advance() {
			switch p.tok.kind {
			case tokenName:
				results = append(results, p.tok.text)
			case ',':
			default:
				p.failf(line, "found %s in the list of results of the function", p.tok.describe())
			}
		}
		p.advance()
	} else {
		results = []string{p.expect(tokenName, "the function's result").text}
	}
	if len(results) > 1 {
		p.failf(line, "this is a version 1 case file: its function returns the matrices %s one by one; "+
			"only version 2, which returns one struct, can be read (MATPOWER's savecase writes it)", strings.Join(results, ", "))
	}
	if p.tok.kind != '=' {
		p.failf(line, "the function has no result: a case file begins with \"function mpc = name\"")
	}
	p.advance()
	p.out.function = p.expect(tokenName, "the function's name").text
	if len(results) == 1 {
		p.out.structName = results[0]
	}
	if p.tok.kind == '(' {
		for p.tok.kind != ')' {
			if p.tok.kind == tokenLine || p.tok.kind == tokenEnd {
				p.failf(line, "the list of arguments is not closed")
			}
			p.advance()
		}
		p.advance()
	}
}

// assignment parses what follows a name at the beginning of a statement.
func (p *parser) assignment(name token) {
	if p.tok.kind == '.' {
		p.field(name)
		return
	}
	if p.tok.kind != '=' {
		p.failf(name.line, "%q is not an assignment: a case file gives its data as numbers", name.text)
	}
	p.advance()
	if p.out.structName == name.text || p.out.structName == "" && p.tok.text == "loadcase" {
		if p.loaded(name) {
			return
		}
	}
	if p.tok.kind == '[' && (slices.Contains(used, name.text) || name.text == "areas") {
		p.failf(name.line, "this is a version 1 case file: it assigns the matrix %s itself; only version 2, "+
			"which assigns fields of one struct (mpc.%s), can be read", name.text, name.text)
	}
	if name.text == p.out.structName {
		// "mpc = struct();" and the like begin an empty struct.
		p.skipValue()
		return
	}
	switch p.tok.kind {
	case tokenText, '[', '{':
		p.skipValue()
	default:
		p.vars[name.text] = p.expression(false, 0)
	}
}

// field parses "mpc.name = value".
func (p *parser) field(structName token) {
	p.out.structName = cmp.Or(p.out.structName, structName.text)
	if structName.text != p.out.structName {
		p.failf(structName.line, "a field of %q: the case is in %q", structName.text, p.out.structName)
	}
	p.advance()
	field := p.expect(tokenName, "the name of a field").text
	path := field
	for p.tok.kind == '.' {
		p.advance()
		path += "." + p.expect(tokenName, "the name of a field").text
	}
	fullName := structName.text + "." + path
	if p.tok.kind == '(' && slices.Contains(used, path) {
		p.change(fullName, path)
		return
	}
	if p.tok.kind == '(' || p.tok.kind == '{' {
		if field == "baseMVA" || field == "version" || refused[field] != "" {
			p.failf(structName.line, "an assignment to a part of %s", fullName)
		}
		p.balanced()
	}
	p.expect('=', "\"=\"")
	line := p.tok.line
	switch {
	case path == "version":
		p.out.versionLine = line
		if p.tok.kind == tokenText {
			p.out.version = p.tok.text
			p.advance()
		} else {
			p.out.version = strconv.FormatFloat(p.number(false), 'g', -1, 64)
		}
	case path == "baseMVA":
		p.once(p.out.baseLine, line, fullName)
		p.out.baseMVA = p.number(false)
		p.out.baseLine = line
	case slices.Contains(used, path):
		if m := p.out.tables[path]; m != nil {
			p.once(m.line, line, fullName)
		}
		p.out.tables[path] = p.matrix(fullName)
	case refused[field] != "":
		p.mustBeEmpty(fullName, refused[field], structName.line)
	case slices.Contains(nameFields, path) && p.tok.kind == '{':
		p.out.ignored = append(p.out.ignored, Field{Name: path, Line: structName.line})
		p.out.names[path] = p.texts()
	default:
		p.out.ignored = append(p.out.ignored, Field{Name: path, Line: structName.line})
		p.skipValue()
	}
}

// nameFields are the fields with the names of rows of bus, gen and branch.
var nameFields = []string{"bus_name", "gen_name", "branch_name"}

// texts passes cells and returns the texts in them.
func (p *parser) texts() (list []string) {
	depth := len(p.s.nesting) - 1
	for p.advance(); len(p.s.nesting) > depth && p.tok.kind != tokenEnd; p.advance() {
		if p.tok.kind == tokenText {
			list = append(list, strings.TrimSpace(p.tok.text))
		}
	}
	p.advance()
	return list
}

func (p *parser) once(before, line int, name string) {
	if before > 0 {
		p.failf(line, "%s is given a second time; it was on line %d already", name, before)
	}
}

// mustBeEmpty passes [] or {} and refuses anything else.
func (p *parser) mustBeEmpty(name, meaning string, line int) {
	if p.tok.kind == '[' || p.tok.kind == '{' {
		for p.advance(); p.tok.kind == tokenLine || p.tok.kind == ';'; p.advance() {
		}
		if p.tok.kind == ']' || p.tok.kind == '}' {
			p.advance()
			return
		}
	}
	p.failf(line, "%s: %s cannot be honoured", name, meaning)
}

// balanced passes a bracket and all it holds.
func (p *parser) balanced() {
	line, depth := p.tok.line, len(p.s.nesting)-1
	for len(p.s.nesting) > depth {
		p.advance()
		if p.tok.kind == tokenEnd {
			p.failf(line, "the bracket opened here is not closed")
		}
	}
	p.advance()
}

// skipValue passes a value nothing is taken from.
func (p *parser) skipValue() {
	if p.endsStatement() {
		p.failf(p.tok.line, "found %s where a value should be", p.tok.describe())
	}
	for !p.endsStatement() {
		switch p.tok.kind {
		case '(', '[', '{':
			p.balanced()
		default:
			p.advance()
		}
	}
}
