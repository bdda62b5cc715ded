package ptx

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

type parser struct {
	module   *Module
	tokens   []token
	position int
	source   source
}

// Parse reads a PTX text; name stands in errors and findings. What it does not know is a
// *SyntaxError.
func Parse(name string, text []byte) (m *Module, err error) {
	m = &Module{Name: name, files: map[int]string{}, variables: map[string]*variable{}, functions: map[string]*function{}, kernels: map[string]*Kernel{}}
	p := &parser{module: m, tokens: lex(string(text))}
	defer caught(&err)
	for p.position < len(p.tokens) {
		p.topLevel()
	}
	if m.Version == "" {
		return nil, &SyntaxError{name, 1, "no .version: not a PTX text"}
	}
	return m, nil
}

func (p *parser) fail(format string, a ...any) {
	panic(&SyntaxError{p.module.Name, p.line(), fmt.Sprintf(format, a...)})
}

func (p *parser) peek() string {
	if p.position >= len(p.tokens) {
		return ""
	}
	return p.tokens[p.position].text
}

func (p *parser) next() string {
	s := p.peek()
	if s == "" {
		p.fail("the text ends in the middle")
	}
	p.position++
	return s
}

func (p *parser) take(s string) bool {
	if p.peek() == s {
		p.position++
		return true
	}
	return false
}

func (p *parser) want(s string) {
	if next := p.peek(); next != s {
		p.fail("%q where %q is due", next, s)
	}
	p.position++
}

// line is that of the next token, or of the last one.
func (p *parser) line() int {
	if len(p.tokens) == 0 {
		return 0
	}
	return p.tokens[min(p.position, len(p.tokens)-1)].line
}

func (p *parser) integer() int64 {
	a := p.operand()
	if a.kind != 'i' {
		p.position--
		p.fail("%q where an integer is due", p.peek())
	}
	return int64(a.imm)
}

// size reads a number of bytes, elements, registers or threads.
func (p *parser) size() int {
	n := p.integer()
	if n < 0 || n > largest {
		p.fail("%d where 0 to %d is due", n, largest)
	}
	return int(n)
}

func (p *parser) topLevel() {
	switch s := p.next(); s {
	case ".version":
		p.module.Version = p.next()
	case ".target":
		p.module.Target = p.next()
		for p.take(",") {
			p.next()
		}
	case ".address_size":
		if n := p.integer(); n != 64 {
			p.fail(".address_size %d: only 64 is executed", n)
		}
	case ".file":
		p.file()
	case ".section":
		p.next()
		p.want("{")
		for depth := 1; depth > 0; {
			switch p.next() {
			case "{":
				depth++
			case "}":
				depth--
			}
		}
	case ".visible", ".weak", ".extern", ".common":
		if s == ".extern" && (p.peek() == ".shared" || p.peek() == ".global" || p.peek() == ".const") {
			v := p.declared(strings.TrimPrefix(p.next(), "."))
			for i := range v {
				v[i].extern = true
			}
			p.global(v)
		}
	case ".entry", ".func":
		p.function(s == ".entry")
	case ".global", ".const", ".shared":
		p.global(p.declared(s[1:]))
	case ";":
	default:
		p.position--
		p.fail("%s is not of the subset", s)
	}
}

func (p *parser) file() {
	n := p.integer()
	p.module.files[int(n)] = strings.Trim(p.next(), `"`)
	for p.take(",") {
		p.integer()
	}
}

func (p *parser) global(list []variable) {
	for i := range list {
		v := &list[i]
		if p.module.variables[v.name] == nil {
			p.module.order = append(p.module.order, v.name)
		}
		p.module.variables[v.name] = v
	}
}

// declared reads variables of a space up to the semicolon.
func (p *parser) declared(space string) []variable {
	kind := p.variable(space)
	list := []variable{p.declarator(kind)}
	for p.take(",") {
		list = append(list, p.declarator(kind))
	}
	p.want(";")
	return list
}

// variable reads what stands before a variable's name.
func (p *parser) variable(space string) variable {
	v := variable{space: space, line: p.line()}
	lanes := 1
	for strings.HasPrefix(p.peek(), ".") {
		switch s := p.next(); s {
		case ".align":
			v.align = p.size()
		case ".ptr", ".global", ".shared", ".const", ".attribute":
		case ".v2":
			lanes = 2
		case ".v4":
			lanes = 4
		default:
			t, ok := typeOf(s[1:])
			if !ok {
				p.position--
				p.fail("type %s is not of the subset", s)
			}
			v.typ = t
		}
	}
	v.bytes = v.typ.size * lanes
	v.align = max(v.align, v.bytes)
	return v
}

// declarator reads a variable's name, the bounds of an array and initial values.
func (p *parser) declarator(v variable) variable {
	v.name = p.next()
	p.extent(&v)
	return v
}

// extent reads the bounds of an array and its initial values.
func (p *parser) extent(v *variable) {
	array := false
	for p.take("[") {
		array = true
		if p.take("]") {
			v.bytes = 0
			continue
		}
		if v.bytes *= p.size(); v.bytes > largest {
			p.fail("%s has %d bytes", v.name, v.bytes)
		}
		p.want("]")
	}
	if !p.take("=") {
		return
	}
	if v.bytes == 0 && !array {
		p.fail("%s has no size", v.name)
	}
	v.init = make([]byte, v.bytes)
	position := 0
	var values func()
	values = func() {
		if p.take("{") {
			for !p.take("}") {
				values()
				p.take(",")
			}
			return
		}
		if position+v.typ.size > len(v.init) {
			p.fail("%s has more initial values than it holds", v.name)
		}
		a := p.operand()
		var bits uint64
		switch a.kind {
		case 'r':
			v.refs = append(v.refs, reference{position, a.name, a.offset})
		case 'd':
			bits = a.imm
			if v.typ.size == 4 {
				bits = uint64(math.Float32bits(float32(math.Float64frombits(a.imm))))
			}
		default:
			bits = a.imm
		}
		for i := range v.typ.size {
			v.init[position+i] = byte(bits >> (8 * i))
		}
		position += v.typ.size
	}
	values()
}

func (p *parser) parameters() []variable {
	var list []variable
	p.want("(")
	for !p.take(")") {
		switch s := p.next(); s {
		case ".param":
			list = append(list, p.declarator(p.variable("param")))
		case ".reg":
			p.fail("a function with .reg parameters is not of the subset")
		default:
			p.position--
			p.fail("%q in a list of parameters", s)
		}
		p.take(",")
	}
	return list
}

func (p *parser) function(entry bool) {
	f := &function{entry: entry, line: p.line()}
	if p.peek() == "(" {
		f.results = p.parameters()
	}
	f.name = p.next()
	if p.peek() == "(" {
		f.params = p.parameters()
	}
	for {
		switch s := p.next(); s {
		case ".maxntid", ".reqntid":
			f.maxTid = [3]int{p.size(), 1, 1}
			for i := 1; p.take(","); i++ {
				f.maxTid[min(i, 2)] = p.size()
			}
		case ".minnctapersm", ".maxnctapersm", ".maxnreg":
			p.integer()
		case ".noreturn":
		case ";": // a declaration
			return
		case "{":
			p.body(f)
			if p.module.functions[f.name] == nil && entry {
				p.module.entries = append(p.module.entries, f.name)
			}
			p.module.functions[f.name] = f
			return
		default:
			p.position--
			p.fail("%s is not of the subset", s)
		}
	}
}

func (p *parser) body(f *function) {
	p.source = source{}
	for depth := 1; depth > 0; {
		line := p.line()
		st := statement{line: line, source: p.source}
		switch s := p.next(); {
		case s == "{":
			depth++
			st.scope = 1
		case s == "}":
			depth--
			st.scope = -1
		case s == ";":
			continue
		case s == ".reg":
			st.regs = p.registers()
		case s == ".local" || s == ".shared" || s == ".param" || s == ".global" || s == ".const":
			st.vars = p.declared(s[1:])
		case s == ".pragma":
			for p.next() != ";" {
			}
			continue
		case s == ".loc":
			p.source = source{int(p.integer()), int(p.integer())}
			p.integer()
			for p.take(",") { // function_name LABEL, inlined_at FILE LINE COLUMN
				for p.peek() != "," && p.line() == line {
					p.next()
				}
			}
			continue
		case s == ".file":
			p.file()
			continue
		case s == ".callprototype" || s == ".branchtargets" || s == ".calltargets":
			p.position--
			p.fail("%s is not of the subset", s)
		case p.peek() == ":" && s[0] != '@':
			p.position++
			st.label = s
		default:
			if s == "@" {
				st.negated = p.take("!")
				st.guard = p.next()
				s = p.next()
			}
			st.op, st.parts = s, strings.Split(s, ".")
			p.arguments(&st)
		}
		f.body = append(f.body, st)
	}
}

func (p *parser) registers() []register {
	t, ok := typeOf(strings.TrimPrefix(p.next(), "."))
	if !ok {
		p.position--
		p.fail("registers of type %s are not of the subset", p.peek())
	}
	var list []register
	for {
		r := register{name: p.next(), typ: t}
		if p.take("<") {
			r.count = p.size()
			p.want(">")
		}
		list = append(list, r)
		if p.take(";") {
			return list
		}
		p.want(",")
	}
}

func (p *parser) arguments(st *statement) {
	for !p.take(";") {
		if p.take("(") {
			v := argument{kind: 'v'}
			for !p.take(")") {
				v.list = append(v.list, p.operand())
				p.take(",")
			}
			st.args = append(st.args, v)
		} else {
			st.args = append(st.args, p.operand())
		}
		if p.peek() != ";" {
			p.want(",")
		}
	}
}

func (p *parser) operand() argument {
	switch s := p.next(); {
	case s == "{":
		v := argument{kind: 'v'}
		for !p.take("}") {
			v.list = append(v.list, p.operand())
			p.take(",")
		}
		return v
	case s == "[":
		a := argument{kind: 'a'}
		if c := p.peek(); c != "" && (c == "-" || c[0] >= '0' && c[0] <= '9') {
			a.offset = p.integer()
		} else if a.name = p.next(); p.take("+") || p.peek() == "-" {
			a.offset = p.integer()
		}
		p.want("]")
		return a
	case s == "!":
		a := p.operand()
		a.negated = true
		return a
	case s == "_":
		return argument{kind: '_'}
	case s == "-" || s[0] >= '0' && s[0] <= '9':
		return p.number(s)
	case s == "(" || s == ")" || s == "," || s == ";":
		p.position--
		p.fail("%q where an operand is due", s)
		return argument{}
	default:
		a := argument{kind: 'r', name: s}
		if p.take("|") {
			a.pair = p.next()
		}
		if p.take("+") {
			a.offset = p.integer()
		}
		return a
	}
}

// number reads an integer or a floating-point number, of which s is the first token.
func (p *parser) number(s string) argument {
	negative := s == "-"
	if negative {
		s = p.next()
	}
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("fFdD", s[1]) >= 0 {
		v, err := strconv.ParseUint(s[2:], 16, 64)
		if err != nil {
			p.fail("%q is no number", s)
		}
		if s[1] == 'f' || s[1] == 'F' {
			return argument{kind: 'f', imm: v}
		}
		return argument{kind: 'd', imm: v}
	}
	if strings.ContainsAny(s, ".eE") && !strings.HasPrefix(s, "0x") {
		for _, sign := range []string{"-", "+"} { // 1e-3 comes in three tokens
			if strings.HasSuffix(strings.ToLower(s), "e") && p.take(sign) {
				s += sign + p.next()
			}
		}
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			p.fail("%q is no number", s)
		}
		if negative {
			v = -v
		}
		return argument{kind: 'd', imm: math.Float64bits(v)}
	}
	v, err := strconv.ParseUint(strings.TrimSuffix(s, "U"), 0, 64)
	if err != nil {
		p.fail("%q is no number", s)
	}
	if negative {
		v = -v
	}
	return argument{kind: 'i', imm: v}
}
