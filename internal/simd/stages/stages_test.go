package stages_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
	"github.com/gpc-engine/gpc/internal/simd/stages"
)

// systems are the gallery's, those with an escape without it as well.
func systems(t testing.TB) (list []equations.System) {
	escapes := 0
	for _, y := range gallery.Systems() {
		if y.EscapeSteps > 0 {
			list = append(list, y)
			escapes++
		}
		y.Real.Escape, y.Dual.Escape, y.EscapeSteps, y.Solver.Room = nil, nil, 0, nil
		list = append(list, y)
		if y.Stiff != nil {
			y.Stiff = &dual.Stiff{ODE: y.Stiff.ODE, Span: y.Stiff.Span, Substeps: 3}
			list = append(list, y)
		}
	}
	if len(list)-escapes < 5 || escapes < 3 {
		t.Fatalf("%d systems, %d with an escape", len(list)-escapes, escapes)
	}
	return list
}

// label tells a system with its escape from the one without.
func label(y equations.System) string {
	if y.EscapeSteps > 0 {
		return y.Name + "-with-escape"
	}
	return y.Name
}

// read is a system's program, with the escape where it has one.
func read(t testing.TB, name string) *program.Program {
	t.Helper()
	for _, y := range gallery.Systems() {
		if y.Name == name {
			p, err := y.Program()
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	t.Fatalf("no system %s", name)
	return nil
}

func systemOf(t testing.TB, y equations.System) stages.System {
	t.Helper()
	of := stages.System{Program: read(t, y.Name), EscapeSteps: y.EscapeSteps}
	for _, a := range y.Action {
		of.Lo, of.Hi = append(of.Lo, a.Lo), append(of.Hi, a.Hi)
	}
	switch {
	case y.ODE != nil:
		of.Span, of.Substeps = y.ODE.Span, y.ODE.Substeps
	case y.Stiff != nil:
		of.Span, of.Substeps, of.Implicit = y.Stiff.Span, y.Stiff.Substeps, true
	}
	return of
}

// coded is the code of a system by all of s and u.
func coded(t testing.TB, y equations.System) (*stages.Code, []int) {
	t.Helper()
	of := systemOf(t, y)
	var by []int
	for a := range len(y.State) + len(y.Context) + 1 + len(y.Action) {
		if a < len(y.State) || a > len(y.State)+len(y.Context) {
			by = append(by, a)
		}
	}
	code, err := stages.New(of, by)
	if err != nil {
		t.Fatal(err)
	}
	return code, by
}

// place is a random decision with weights.
type place struct{ s, c, u, w, lambda, z []float64 }

func pointsOf(y equations.System, k stages.Sizes, n int) (list []place) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	for range n {
		p := place{s: make([]float64, k.S), c: make([]float64, k.C), u: make([]float64, k.U), w: some(k.J), lambda: some(k.S + k.C), z: some(k.M)}
		at := make([]float64, len(y.Scenario))
		for i, v := range y.Scenario {
			at[i] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
		}
		y.Initial(at, p.s, p.c)
		for i := range p.s {
			p.s[i] += 0.1 * rng.NormFloat64()
		}
		for i, v := range y.Action {
			p.u[i] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
		}
		list = append(list, p)
	}
	return list
}

// derivatives are those of one place.
type derivatives struct{ sNext, cNext, jValue, mValue, next, j, margins, h []float64 }

func newDerivatives(k stages.Sizes) derivatives {
	row := func(n int) []float64 { return make([]float64, n) }
	return derivatives{row(k.S), row(k.C), row(k.J), row(k.M), row((k.S + k.C) * k.N), row(k.J * k.N), row(k.M * k.N), row(k.N * k.N)}
}

func set(m *stages.Machine, at []place) {
	var x, u []float64
	for _, p := range at {
		x, u = append(append(x, p.s...), p.c...), append(u, p.u...)
	}
	m.Set(len(at), x, u)
}

func values(m *stages.Machine, n int, k stages.Sizes) (next, j, margins []float64) {
	next, j, margins = make([]float64, n*(k.S+k.C)), make([]float64, n*k.J), make([]float64, n*k.M)
	m.Values(n, next, j, margins)
	return next, j, margins
}

func all(m *stages.Machine, code *stages.Code, at []place) (out []derivatives) {
	set(m, at)
	for l, p := range at {
		m.Weigh(l, p.w, p.lambda, p.z)
	}
	m.Linearise()
	m.Curvature(code.Steps())
	k := code.Sizes()
	next, j, margins := values(m, len(at), k)
	for l := range at {
		d := newDerivatives(k)
		row := next[l*(k.S+k.C):][:k.S+k.C]
		d.sNext, d.cNext, d.jValue, d.mValue = row[:k.S], row[k.S:], j[l*k.J:(l+1)*k.J], margins[l*k.M:(l+1)*k.M]
		m.Slopes(l, d.next, d.j, d.margins)
		m.Hessian(l, d.h)
		out = append(out, d)
	}
	return out
}

func (d *derivatives) parts() map[string][]float64 {
	return map[string][]float64{"sNext": d.sNext, "cNext": d.cNext, "j": d.jValue, "m": d.mValue, "slopes of next": d.next, "slopes of j": d.j, "slopes of m": d.margins, "h": d.h}
}

func machine(t testing.TB, code *stages.Code, level isa.Level, width int) *stages.Machine {
	t.Helper()
	compiled, err := code.Compile(level, width)
	if err != nil {
		t.Fatal(err)
	}
	return code.NewMachine(compiled)
}

// Values and first derivatives are those of dual numbers through the integrator; second ones those that differences of them give.
func TestDerivativesAreThoseOfTheEquations(t *testing.T) {
	for _, y := range systems(t) {
		t.Run(label(y), func(t *testing.T) {
			p, err := equations.New(y)
			if err != nil {
				t.Fatal(err)
			}
			code, by := coded(t, y)
			k := code.Sizes()
			m := machine(t, code, isa.Generic, 1)
			for _, at := range pointsOf(y, k, 10) {
				got, want := all(m, code, []place{at})[0], newDerivatives(k)
				p.Step(at.s, at.c, at.u, want.sNext, want.cNext)
				p.Score(at.s, at.c, at.u, want.jValue, want.mValue)
				differentiated(p, at, by, k, &want)
				for part, v := range got.parts() {
					tolerance := 1e-11
					if part == "h" {
						tolerance = 3e-6 // differences of exact first derivatives
					}
					largest := 1.0
					for _, w := range want.parts()[part] {
						largest = math.Max(largest, math.Abs(w))
					}
					for i, w := range want.parts()[part] {
						if part == "h" && i%k.N > i/k.N {
							continue
						}
						if !(math.Abs(v[i]-w) <= tolerance*largest) {
							t.Fatalf("%s[%d] is %v, want %v, the largest being %v", part, i, v[i], w, largest)
						}
					}
				}
			}
		})
	}
}

// differentiated is by dual numbers, and by differences of them.
func differentiated(p *equations.Problem, at place, by []int, k stages.Sizes, out *derivatives) {
	slopes := func(x []float64, next, j, m []float64) {
		for q, b := range by {
			z := make([]complex128, len(x))
			for i, v := range x {
				z[i] = complex(v, 0)
			}
			z[b] += 1e-30i
			s, c, u := z[:k.S], z[k.S:k.S+k.C], z[k.S+k.C:]
			after, jz, mz := make([]complex128, k.S+k.C), make([]complex128, k.J), make([]complex128, k.M)
			p.StepDual(s, c, u, after[:k.S], after[k.S:])
			p.ObjectivesDual(s, u, c, jz)
			p.MarginsDual(s, c, u, mz)
			for _, part := range []struct {
				from []complex128
				to   []float64
			}{{after, next}, {jz, j}, {mz, m}} {
				for r, v := range part.from {
					part.to[r*k.N+q] = imag(v) * 1e30
				}
			}
		}
	}
	x := append(append(append([]float64{}, at.s...), at.c...), at.u...)
	slopes(x, out.next, out.j, out.margins)
	for q, b := range by {
		var sides [2]derivatives
		const h = 1e-6
		for i, sign := range [2]float64{1, -1} {
			sides[i] = newDerivatives(k)
			moved := append([]float64{}, x...)
			moved[b] += sign * h
			slopes(moved, sides[i].next, sides[i].j, sides[i].margins)
		}
		for r := range k.N {
			sum := func(d derivatives) (v float64) {
				for i, w := range at.lambda {
					v += w * d.next[i*k.N+r]
				}
				for i, w := range at.w {
					v += w * d.j[i*k.N+r]
				}
				for i, w := range at.z {
					v -= w * d.margins[i*k.N+r]
				}
				return v
			}
			out.h[r*k.N+q] = (sum(sides[0]) - sum(sides[1])) / (2 * h)
		}
	}
}

// The code of values alone has the bits of the one with derivatives.
func TestValuesHaveTheBitsOfThoseWithDerivatives(t *testing.T) {
	for _, y := range systems(t) {
		of := systemOf(t, y)
		plain, err := stages.NewValues(of)
		if err != nil {
			t.Fatal(err)
		}
		code, _ := coded(t, y)
		k := code.Sizes()
		single, slopes := machine(t, plain, isa.Generic, 1), machine(t, code, isa.Generic, 1)
		for _, at := range pointsOf(y, k, 10) {
			set(single, []place{at})
			single.Linearise()
			got, want := newDerivatives(k), all(slopes, code, []place{at})[0]
			next, j, margins := values(single, 1, k)
			got.sNext, got.cNext, got.jValue, got.mValue = next[:k.S], next[k.S:], j, margins
			for _, part := range []string{"sNext", "cNext", "j", "m"} {
				for i, w := range want.parts()[part] {
					if v := got.parts()[part][i]; math.Float64bits(v) != math.Float64bits(w) {
						t.Fatalf("%s: %s[%d] is %v, want %v", label(y), part, i, v, w)
					}
				}
			}
		}
	}
}

// Weights of zero on the margins of later steps of the escape and leaving these out give the same second derivatives.
func TestStepsOfTheEscapeLeftOut(t *testing.T) {
	for _, y := range systems(t) {
		if y.EscapeSteps == 0 {
			continue
		}
		code, _ := coded(t, y)
		k := code.Sizes()
		each := k.M / (1 + code.Steps())
		m := machine(t, code, isa.Generic, 1)
		for steps, at := range pointsOf(y, k, code.Steps()) {
			clear(at.z[(1+steps)*each:])
			want := all(m, code, []place{at})[0].h
			m.Curvature(steps)
			got := make([]float64, len(want))
			m.Hessian(0, got)
			for i, w := range want {
				if !(math.Abs(got[i]-w) <= 1e-12*(1+math.Abs(w))) {
					t.Fatalf("%s after %d steps: h[%d] is %v, want %v", y.Name, steps, i, got[i], w)
				}
			}
		}
	}
}

// Every instruction set has the same bits in every lane.
func TestInstructionSetsAgreeBitwise(t *testing.T) {
	for _, y := range systems(t) {
		code, _ := coded(t, y)
		at := pointsOf(y, code.Sizes(), 8)
		single := machine(t, code, isa.Generic, 1)
		var want []derivatives
		for _, p := range at {
			want = append(want, all(single, code, []place{p})[0])
		}
		for _, level := range isa.Available() {
			for _, width := range lanes.Widths(level) {
				m := machine(t, code, level, width)
				for from := 0; from < len(at); from += width {
					for l, got := range all(m, code, at[from:from+width]) {
						for part, v := range got.parts() {
							for i, w := range want[from+l].parts()[part] {
								if math.Float64bits(v[i]) != math.Float64bits(w) {
									t.Fatalf("%s, %v, %d lanes: %s[%d] is %v, want %v", y.Name, level, width, part, i, v[i], w)
								}
							}
						}
					}
				}
			}
		}
	}
}

// Directions that are shared among lanes of one point have the derivatives of the step that a lane with all of them has, bit for bit the same
// however many lanes there are.
func TestSharedDirectionsAreThoseOfOneLane(t *testing.T) {
	for _, y := range systems(t) {
		code, by := coded(t, y)
		k := code.Sizes()
		single := machine(t, code, isa.Generic, 1)
		at := pointsOf(y, k, 3)
		first := make([][]float64, len(at))
		for _, level := range isa.Available() {
			for _, width := range lanes.Widths(level) {
				m := seeded(t, y, by, level, width)
				for point, p := range at {
					set(m, []place{p})
					m.Linearise()
					var got []float64
					for i := range (k.S + k.C) * k.N {
						got = append(got, m.Slope(i%k.N%width, i%k.N/width, i/k.N))
					}
					if first[point] == nil {
						first[point] = got
					}
					for i, w := range all(single, code, []place{p})[0].next {
						if !(math.Abs(got[i]-w) <= 1e-12*(1+math.Abs(w))) || math.Float64bits(got[i]) != math.Float64bits(first[point][i]) {
							t.Fatalf("%s, %v, %d lanes: entry %d by direction %d is %v, want %v, and with other lanes %v", y.Name, level, width, i/k.N, i%k.N, got[i], w, first[point][i])
						}
					}
				}
			}
		}
	}
}

// seeded is a machine of a system's step whose lanes share directions.
func seeded(t *testing.T, y equations.System, by []int, level isa.Level, width int) *stages.Machine {
	code, err := stages.NewSteps(systemOf(t, y), by, (len(by)+width-1)/width)
	if err != nil {
		t.Fatal(err)
	}
	m := machine(t, code, level, width)
	for i, a := range by {
		m.Seed(i%width, i/width, a)
	}
	return m
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	empty := &program.Program{Name: "p"}
	if _, err := stages.New(stages.System{Program: empty}, nil); err == nil {
		t.Error("a program without functions was taken")
	}
	if _, err := stages.New(stages.System{Program: read(t, "quadrotor")}, nil); err == nil {
		t.Error("an ode without a span was taken")
	}
	if _, err := stages.NewSteps(stages.System{Program: read(t, "cartpole")}, []int{0}, 0); err == nil {
		t.Error("lanes without a direction were taken")
	}
}

// BenchmarkStage is the time of one decision's derivatives a point, first and second, by lanes of every instruction set. All take turns, so that their ratios are of one run; each time is the least of the rounds.
func BenchmarkStage(b *testing.B) {
	for _, y := range systems(b) {
		b.Run(label(y), func(b *testing.B) {
			code, _ := coded(b, y)
			k := code.Sizes()
			at := pointsOf(y, k, 64)
			type way struct {
				name  string
				run   func()
				least time.Duration
			}
			var ways []way
			for _, level := range isa.Available() {
				width := lanes.Widths(level)[0]
				m := machine(b, code, level, width)
				ways = append(ways, way{name: level.String(), run: func() {
					for from := 0; from < len(at); from += width {
						set(m, at[from:from+width])
						for l, p := range at[from : from+width] {
							m.Weigh(l, p.w, p.lambda, p.z)
						}
						m.Linearise()
						m.Curvature(code.Steps())
					}
				}})
			}
			for i := range ways {
				ways[i].run()
			}
			b.ResetTimer()
			for range b.N {
				for i := range ways {
					w := &ways[i]
					start := time.Now()
					w.run()
					if d := time.Since(start); w.least == 0 || d < w.least {
						w.least = d
					}
				}
			}
			for _, w := range ways {
				b.ReportMetric(float64(w.least.Nanoseconds())/float64(len(at)), w.name+"-ns/point")
			}
		})
	}
}

// Entries of a context that a limit depends on are found through other entries and through the motion; what only objectives read is none of
// them.
func TestLimitingEntriesAreFoundThroughOthers(t *testing.T) {
	const before, beforeThat, sum, wind, goal, context = 0, 1, 2, 3, 4, 5
	sizes := []program.Argument{{Name: "s", Size: 1}, {Name: "c", Size: context}, {Name: "u", Size: 1}, {Name: "sNext", Size: 1}}
	function := func(name string, arguments int, write func(b *program.Builder, s, c, u []program.Value) []program.Value) *program.Function {
		b := program.NewBuilder(name, sizes[:arguments]...)
		results := write(b, b.In(0), b.In(1), b.In(2))
		return b.Function([]program.Argument{{Name: "results", Size: len(results)}}, results)
	}
	step := function("step", 3, func(b *program.Builder, s, c, u []program.Value) []program.Value {
		return []program.Value{b.Apply(program.Add, s[0], b.Apply(program.Add, u[0], c[wind])), u[0], c[before], b.Apply(program.Add, c[sum], s[0]), c[wind], c[goal]}
	})
	objectives := function("objectives", 4, func(b *program.Builder, s, c, _ []program.Value) []program.Value {
		return []program.Value{b.Apply(program.Sub, s[0], c[goal]), c[sum]}
	})
	margins := function("margins", 4, func(b *program.Builder, _, c, u []program.Value) []program.Value {
		return []program.Value{b.Apply(program.Sub, u[0], c[beforeThat])}
	})
	got, err := stages.System{Program: &program.Program{Name: "remembering", Functions: []*program.Function{step, objectives, margins}}}.Limiting()
	if want := []int{before, beforeThat, wind}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
}
