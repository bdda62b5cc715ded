package ptx

import (
	"strconv"
	"strings"
)

// typ is a type of an instruction or variable: its kind (u, s, f, b or p) and bytes.
type typ struct {
	kind byte
	size int
}

func (t typ) String() string { return string(t.kind) + strconv.Itoa(8*t.size) }

func typeOf(s string) (typ, bool) {
	switch s {
	case "pred":
		return typ{'p', 1}, true
	case "f16x2", "bf16x2":
		return typ{'b', 4}, true
	}
	if len(s) < 2 || strings.IndexByte("usfb", s[0]) < 0 {
		return typ{}, false
	}
	bits, err := strconv.Atoi(s[1:])
	if err != nil || bits%8 != 0 || bits == 0 || bits > 64 {
		return typ{}, false
	}
	return typ{s[0], bits / 8}, true
}

// variable is something with an address: of the module, of a function or of a scope.
type variable struct {
	name   string
	space  string // global, const, shared, local, param
	align  int
	bytes  int
	extern bool
	typ    typ
	init   []byte
	refs   []reference // addresses of other variables in init
	line   int
}

type reference struct {
	position int
	symbol   string
	offset   int64
}

// argument is an operand as written.
type argument struct {
	kind    byte // 'r' name of a register, variable or label, 'i' integer, 'd' float64, 'f' float32 bits, 'a' address, 'v' vector, '_' sink
	name    string
	negated bool
	imm     uint64
	offset  int64
	list    []argument
	pair    string // of d|p
}

// statement is an instruction, a label, a scope's bound or a declaration in a body.
type statement struct {
	line    int
	source  source
	label   string
	guard   string
	negated bool
	op      string
	parts   []string
	args    []argument
	scope   int // +1 opens, −1 closes
	vars    []variable
	regs    []register
}

type register struct {
	name  string
	count int // 0: one of that very name
	typ   typ
}

// source is a place in a file that .loc names.
type source struct{ file, line int }

// function is an entry or a device function.
type function struct {
	name    string
	entry   bool
	params  []variable
	results []variable
	body    []statement
	maxTid  [3]int
	line    int
}

// Module is a parsed text.
type Module struct {
	Name    string
	Version string
	Target  string

	files     map[int]string
	variables map[string]*variable
	order     []string // of the variables
	functions map[string]*function
	entries   []string
	kernels   map[string]*Kernel
	segment   []byte // of its variables
	address   map[string]uint64
}
