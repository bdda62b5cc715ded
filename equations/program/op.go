package program

import (
	"fmt"
	"math"
)

// Op is an operation.
type Op uint8

// The operations. A truth is 1 or 0.
const (
	Input  Op = iota // an entry of the inputs; not in code
	Const            // a constant
	Add              // x + y
	Sub              // x − y
	Mul              // x y
	Div              // x/y
	Neg              // −x
	Abs              // |x|
	Sqrt             // √x
	Sin              // sin x, x in radians, as all angles
	Cos              // cos x
	Tan              // tan x
	Asin             // arcsin x
	Acos             // arccos x
	Atan             // arctan x
	Sinh             // sinh x
	Cosh             // cosh x
	Tanh             // tanh x
	Exp              // eˣ
	Log              // ln x
	Floor            // the largest integer that is not above x
	Detach           // x, whose derivative is taken as 0
	Pow              // x to the power of y
	Atan2            // the angle of the point (y, x): atan2 y x
	Hypot            // √(x² + y²) without overflow
	Min              // the smaller of x and y, NaN if one is, −0 below 0
	Max              // the larger likewise
	Less             // whether x < y
	AtMost           // whether x ≤ y
	Equal            // whether x = y
	Select           // y where x is not 0, else z
	opCount
)

var ops = [opCount]struct {
	name  string
	arity int
}{
	Input: {"input", 0}, Const: {"const", 0}, Add: {"add", 2}, Sub: {"sub", 2}, Mul: {"mul", 2}, Div: {"div", 2}, Neg: {"neg", 1}, Abs: {"abs", 1},
	Sqrt: {"sqrt", 1}, Sin: {"sin", 1}, Cos: {"cos", 1}, Tan: {"tan", 1}, Asin: {"asin", 1}, Acos: {"acos", 1}, Atan: {"atan", 1},
	Sinh: {"sinh", 1}, Cosh: {"cosh", 1}, Tanh: {"tanh", 1}, Exp: {"exp", 1}, Log: {"log", 1}, Floor: {"floor", 1}, Detach: {"detach", 1},
	Pow: {"pow", 2}, Atan2: {"atan2", 2}, Hypot: {"hypot", 2}, Min: {"min", 2}, Max: {"max", 2},
	Less: {"lt", 2}, AtMost: {"le", 2}, Equal: {"eq", 2}, Select: {"select", 3},
}

// opByName finds an operation of code by its name.
var opByName = func() map[string]Op {
	m := map[string]Op{}
	for o := Const; o < opCount; o++ {
		m[ops[o].name] = o
	}
	return m
}()

// String is the name in a file.
func (o Op) String() string {
	if o >= opCount {
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return ops[o].name
}

// Arity is the number of operands.
func (o Op) Arity() int { return ops[o].arity }

// Ops are those that code may have, Const first.
func Ops() []Op {
	var list []Op
	for o := Const; o < opCount; o++ {
		list = append(list, o)
	}
	return list
}

// Compute is the operation's result, rounded as package math does; those of fewer operands leave the others out.
func (o Op) Compute(x, y, z float64) float64 { return compute(o, x, y, z) }

// elementary are the operations of one operand that are functions of package math.
var elementary = [opCount]func(float64) float64{
	Sin: math.Sin, Cos: math.Cos, Tan: math.Tan, Asin: math.Asin, Acos: math.Acos, Atan: math.Atan,
	Sinh: math.Sinh, Cosh: math.Cosh, Tanh: math.Tanh, Exp: math.Exp, Log: math.Log,
}

func compute(o Op, x, y, z float64) float64 {
	switch o {
	case Add:
		return x + y
	case Sub:
		return x - y
	case Mul:
		return x * y
	case Div:
		return x / y
	case Neg:
		return -x
	case Abs:
		return math.Abs(x)
	case Sqrt:
		return math.Sqrt(x)
	case Floor:
		return math.Floor(x)
	case Detach:
		return x
	case Min:
		return min(x, y)
	case Max:
		return max(x, y)
	case Less:
		return truth(x < y)
	case AtMost:
		return truth(x <= y)
	case Equal:
		return truth(x == y)
	case Select:
		if x != 0 {
			return y
		}
		return z
	case Pow:
		return math.Pow(x, y)
	case Atan2:
		return math.Atan2(x, y)
	case Hypot:
		return math.Hypot(x, y)
	}
	if f := elementary[o]; f != nil {
		return f(x)
	}
	panic(fmt.Sprintf("program: %s is not computed", o))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
