// Package constructs is test data for package gotrace: one function for each construct of Go that equations may use. The
// test compares the traced program of each with the function itself.
package constructs

import (
	"embed"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/equations/dual"
)

// Source is this file.
//
//go:embed constructs.go
var Source embed.FS

// Case is a function of Size numbers.
type Case struct {
	Name string
	F    func(x, y []float64)
}

// Size is how many numbers a case reads and writes.
const Size = 4

// All are the cases.
type All struct{ Cases []Case }

// Numbered returns one of the followed cases.
func Numbered(i int) Case { return cases()[i] }

// Cases are those that can be followed.
func Cases() []Case { return cases() }

type spring struct{ stiffness, damping float64 }

func (s spring) force(x, v float64) float64 { return -s.stiffness*x - s.damping*v }

func (s *spring) harden(increment float64) { s.stiffness += increment }

type law interface{ force(x, v float64) float64 }

type cubic float64

func (c cubic) force(x, _ float64) float64 { return -float64(c) * x * x * x }

var (
	gains   = map[string]float64{"p": 2, "d": 0.5}
	weights = []float64{1, 2, 3, 4}
	laws    = []law{spring{2, 0.1}, cubic(3)}
)

const (
	first = iota
	second
	third
)

func sum(x ...float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

func power(x float64, n int) float64 {
	if n == 0 {
		return 1
	}
	return x * power(x, n-1)
}

func entries(x []float64) func(func(int, float64) bool) {
	return func(yield func(int, float64) bool) {
		for i, v := range x {
			if !yield(i, v) {
				return
			}
		}
	}
}

func squares[T dual.Scalar](x []T) (s T) {
	for _, v := range x {
		s += v * v
	}
	return s
}

// sign ends early.
func sign(x float64) float64 {
	if x > 0 {
		return 1
	}
	if x < 0 {
		return -1
	}
	return 0
}

// friction has branches within branches.
func friction(v float64) (f float64) {
	switch {
	case v > 0.5:
		f = 1 + 0.1*v
	case v < -0.5:
		f = -1 + 0.1*v
	default:
		if f = 2 * v; math.Abs(v) < 0.1 {
			f = 0
		}
	}
	return f
}

func cases() []Case {
	offset := 0.25
	return []Case{
		{"loops and indices", func(x, y []float64) {
			for i := range x {
				for k := 0; k <= i; k++ {
					y[i] = x[i] + float64(k)*x[(i+1)%len(x)]
				}
			}
		}},
		{"a captured variable", func(x, y []float64) { copy(y, x); y[0] += offset }},
		{"variadic, named results, constants", func(x, y []float64) {
			y[first], y[second], y[third], y[3] = sum(x...), sum(), sum(x[0], 4.0/3), sum(x[1:3]...)
		}},
		{"methods, pointers and embedded values", func(x, y []float64) {
			s := spring{1, 0.2}
			s.harden(x[3])
			body := struct {
				spring
				mass float64
			}{s, 2}
			y[0], y[1] = body.force(x[0], x[1])/body.mass, s.stiffness
			p := &body.damping
			*p = x[2]
			y[2], y[3] = body.damping, body.spring.force(1, 1)
		}},
		{"interfaces and type switches", func(x, y []float64) {
			for i, l := range laws {
				y[i] = l.force(x[i], x[i+1])
				switch l := l.(type) {
				case spring:
					y[2] = l.damping
				case cubic:
					y[3] = float64(l)
				}
			}
		}},
		{"maps, ranged and indexed", func(x, y []float64) {
			copy(y, x)
			y[0] = gains["p"]*x[0] + gains["d"]*x[1]
			if _, ok := gains["i"]; !ok {
				y[1] = -x[1]
			}
		}},
		{"append, slices of slices, copy that overlaps", func(x, y []float64) {
			var list []float64
			for i := range x {
				list = append(list, x[i]*weights[i])
			}
			copy(list[1:], list)
			rows := [][]float64{list[:2], list[2:]}
			for i := range y {
				y[i] = rows[i/2][i%2]
			}
		}},
		{"arrays by value", func(x, y []float64) {
			a := [2][2]float64{{x[0], x[1]}, {x[2], x[3]}}
			b := a
			b[0][0] = 7
			y[0], y[1], y[2], y[3] = a[0][0], b[0][0], a[1][1], b[1][0]
		}},
		{"closures that count", func(x, y []float64) {
			n := 0
			next := func() int { n++; return n - 1 }
			for range y {
				i := next()
				y[i] = x[len(x)-1-i]
			}
		}},
		{"recursion and defer", func(x, y []float64) {
			defer func() { y[3] = y[2] + 1 }()
			for i := range y {
				y[i] = power(x[i], i)
			}
		}},
		{"range over functions and integers", func(x, y []float64) {
			for i, v := range entries(x) {
				y[i] = v
				for range i {
					y[i] += v
				}
			}
		}},
		{"generic functions", func(x, y []float64) {
			copy(y, x)
			y[0] = squares(x[1:])
		}},
		{"strings and the standard library", func(x, y []float64) {
			copy(y, slices.Repeat([]float64{1}, len(y)))
			for i, c := range fmt.Sprintf("%d%s", 12, "ab") {
				y[i] *= x[i] + float64(c-'0')
			}
		}},
		{"integrators", func(x, y []float64) {
			dual.RK4(func(s, _, u, ds []float64) { ds[0], ds[1] = s[1], u[0]-math.Sin(s[0]) }, x[:2], nil, x[2:3], y[:2], 0.1, 2)
			copy(y[2:], x[2:])
		}},
		{"a branch that writes", func(x, y []float64) {
			copy(y, x)
			if x[0] > x[1] {
				y[0], y[2] = x[1], x[2]*2
			} else if x[2] < 0 {
				y[1] = 5
			}
		}},
		{"a branch that returns", func(x, y []float64) {
			for i := range y {
				y[i] = sign(x[i])
			}
		}},
		{"branches within branches", func(x, y []float64) {
			for i := range y {
				y[i] = friction(x[i])
			}
		}},
		{"branches in a loop", func(x, y []float64) {
			best := x[0]
			for _, v := range x[1:] {
				if v > best {
					best = v
				}
			}
			copy(y, x)
			y[0] = best
		}},
		{"conditions of conditions", func(x, y []float64) {
			copy(y, x)
			bounded := x[0] > -0.5 && x[0] < 0.5 || x[1] == 0
			if !bounded {
				y[0] = 0
			}
			if bounded != (x[2] >= 0) {
				y[1] = 9
			}
		}},
		{"a loop that a branch ends", func(x, y []float64) {
			clear(y)
			for i, v := range x {
				if v < 0 {
					break
				}
				y[i] = v
			}
		}},
		{"a pointer chosen before, a struct merged", func(x, y []float64) {
			copy(y, x)
			s := spring{x[0], x[1]}
			if x[2] > 0 {
				s = spring{x[3], s.stiffness}
			}
			y[0], y[1] = s.stiffness, s.damping
		}},
		{"builtin and math functions", func(x, y []float64) {
			y[0], y[1] = min(x[0], x[1], 0.1), max(x[2], x[3])
			y[2], y[3] = math.Hypot(x[0], x[1])+math.Floor(x[2]), math.Ceil(3*x[3])
		}},
		{"a root where it is one", func(x, y []float64) {
			copy(y, x)
			for i, v := range x {
				if v > 0 {
					y[i] = math.Sqrt(v)
				}
			}
		}},
	}
}

// Refused are what cannot be followed, with what is said about them.
func Refused() []Case {
	return []Case{
		{"an index or length that is a number|integer depends on inputs", func(x, y []float64) {
			y[0] = weights[int(x[0]*x[0])%4] // REFUSED 0
		}},
		{"a loop whose end depends on a number", func(x, y []float64) {
			v := x[0]
			for math.Abs(v*v-2) > 1e-9 { // REFUSED 1
				v -= (v*v - 2) / (2 * v)
			}
			y[0] = v
		}},
		{"a panic that a branch on a number may lead to", func(x, y []float64) {
			if x[0] < 0 {
				panic("negative") // REFUSED 2
			}
			y[0] = math.Sqrt(x[0])
		}},
		{"channels and goroutines are not followed", func(x, y []float64) {
			c := make(chan float64, 1) // REFUSED 3
			c <- x[0]
			y[0] = <-c
		}},
		{"whose source is not here", func(x, y []float64) {
			copy(y, x)
			slices.Sort(y) // REFUSED 4
			y[0] *= 2
		}},
		{"a slice that depends on a branch on a number", func(x, y []float64) {
			list := x[:2]
			if x[0] > 0 { // REFUSED 5
				list = x[2:]
			}
			y[0] = 2 * list[0]
		}},
		{"index 4 of 4", func(x, y []float64) {
			for i := range 5 {
				y[i] = x[i] // REFUSED 6
			}
		}},
		{"more than 1048576 operations of a function", func(x, y []float64) {
			for i := range 2000000 {
				x[0] = x[0]*x[1] + float64(i) // REFUSED 7
			}
			y[0] = x[0]
		}},
		{"rounded to float32", func(x, y []float64) {
			y[0] = float64(float32(x[0])) // REFUSED 8
		}},
	}
}

// Refusal returns one of the refused cases.
func Refusal(i int) Case { return Refused()[i] }
