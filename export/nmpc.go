package export

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/export/ccode"
	"github.com/gpc-engine/gpc/internal/version"
)

// Solver is the method that Optimal writes, by the name that closedloop has it under: the optimum of all remaining decisions,
// from the plan before.
const Solver = "nmpc"

// Optimised is implemented by an Equated problem that knows what a solver needs besides the equations, such as equations.Problem.
type Optimised interface {
	Equated
	Optimised() (*program.Followed, error)
}

// OptimalOptions are the options of an exact controller.
type OptimalOptions struct {
	Tolerance  float64 // of the optimality conditions, as ocp.Options has it
	Iterations int     // at most, of one solve
	// What a decision begins from without a plan before it: so many starts of its own, of which Waves are those behind the rest held
	// and rolled out, [start][action] of level, amplitudes and phase; and of a first decision the plans of the Nearest of
	// Library, in a distance with the weights Scale. The zero value: the rest held, then rolled out.
	Starts, Nearest int
	Waves           [][][4]float64
	Scale           []float64
	Library         []Planned
	// Of each step of the longest plan, whether its actions are those of the step before; nil: of none.
	Blocked []bool
	// As Whole has them.
	FMU      bool
	Start    []float64
	State    []float64 // that Start begins with
	Episodes []Episode
	Observed *Observed
}

// Planned is a state and context with the plan from there, [steps][action].
type Planned struct {
	At   []float64
	Plan [][]float64
}

// optimiser is what the solver's templates read.
type optimiser struct {
	Tolerance       float64
	Iterations      int
	Moving          []int     // entries of (s, c)
	Typical, Middle []float64 // sizes of these, middles of the actions' boxes
	Width, Inputs   int       // variables of a step; entries of (s, c)
	Third           float64   // of a substep
	// Where a search for a steady state begins: the middle of each state's range, half of it, and whether it is declared.
	StateMiddle, StateHalf, StateRanged []float64
	MarginSizes                         []float64 // nil: all 1
	// More starts than two: Own of the controller's, and the Nearest of Library.
	Several      bool
	Own, Nearest int
	Waves        [][][4]float64
	Scale        []float64
	Library      []Planned
	Blocked      []bool    // of each step; nil: none is
	Factors      []float64 // of the width of corners, the widest first; nil: there are none
	Functions    string
	hessians     map[string]*program.Sparse
}

// Optimal writes the exact controller of problem p, which must be Optimised, and its plant to the folder dir, which must be Vacant, with
// a test that drives both from where the episodes began. It needs no map.
func Optimal(ctx context.Context, dir string, p domain.Problem, opt OptimalOptions) (*Result, error) {
	w, err := newOptimal(p, &opt)
	if err != nil {
		return nil, err
	}
	packed, err := w.save(ctx, dir, opt.FMU)
	if err != nil {
		return nil, err
	}
	return w.result(dir, packed, w.solverOperations()), nil
}

func newOptimal(p domain.Problem, opt *OptimalOptions) (*whole, error) {
	problem, ok := p.(Optimised)
	if !ok {
		return nil, fmt.Errorf("export: case %s is not given by equations: C has no solver for it", p.Spec().Name)
	}
	y, err := equationsOf(p, opt.Episodes)
	spec := p.Spec()
	switch {
	case err != nil:
		return nil, err
	case spec.Horizon == 1:
		return nil, fmt.Errorf("export: the plant of case %s runs on with a horizon of one step: the exact controller in C needs at least 2", spec.Name)
	case !(opt.Tolerance > 0) || opt.Iterations < 1:
		return nil, fmt.Errorf("export: a solver of tolerance %g in %d iterations, want both positive", opt.Tolerance, opt.Iterations)
	}
	followed, err := problem.Optimised()
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	moving, factors := followed.Moving, followed.Factors
	y.Program = followed.Program
	if len(moving) == 0 {
		return nil, fmt.Errorf("export: no action of case %s moves anything", spec.Name)
	}
	symbol := identifier(spec.Name)
	w := wholeOf(&unit{Symbol: symbol, Macro: strings.ToUpper(symbol), Version: version.Version, Build: version.Build(), Spec: spec}, p, y, opt.Episodes)
	w.Method, w.Start = Solver, opt.Start
	s := &optimiser{Factors: factors, Tolerance: opt.Tolerance, Iterations: opt.Iterations, Moving: moving, Width: w.NU + len(moving), Inputs: w.NS + max(1, w.NC), Third: w.H / 3}
	for _, a := range moving {
		if a < w.NS {
			s.Typical = append(s.Typical, y.StateScale[a])
		} else {
			s.Typical = append(s.Typical, cmp.Or(spec.Context[a-w.NS].Size, 1))
		}
	}
	for i, v := range spec.Measured {
		middle, half, ranged := opt.State[i], y.StateScale[i], 0.0
		if v.Bounded() {
			middle, half, ranged = (v.Lo+v.Hi)/2, (v.Hi-v.Lo)/2, 1
		}
		s.StateMiddle, s.StateHalf, s.StateRanged = append(s.StateMiddle, middle), append(s.StateHalf, half), append(s.StateRanged, ranged)
	}
	if slices.ContainsFunc(spec.Margins, func(v domain.Variable) bool { return v.Scale() != 1 }) {
		for _, v := range spec.Margins {
			s.MarginSizes = append(s.MarginSizes, v.Scale())
		}
	}
	for _, a := range spec.Action {
		middle := 0.0
		if a.Bounded() {
			middle = (a.Lo + a.Hi) / 2
		}
		s.Middle = append(s.Middle, middle)
	}
	if s.Several = opt.Starts > 1 || len(opt.Library) > 0; s.Several {
		s.Own, s.Waves, s.Scale = opt.Starts, opt.Waves, opt.Scale
		s.Library = nil
		for _, l := range opt.Library {
			if len(l.Plan) >= w.Horizon {
				s.Library = append(s.Library, Planned{l.At, l.Plan[:w.Horizon]})
			}
		}
		s.Nearest = min(opt.Nearest, len(s.Library))
		w.ConstantBytes += 8 * (len(s.Library)*(w.NS+w.NC+w.Horizon*w.NU) + len(s.Scale) + 4*w.NU*len(s.Waves))
		if len(s.Waves) < s.Own {
			return nil, fmt.Errorf("export: %d starts and %d of smooth actions, want as many", s.Own, len(s.Waves))
		}
	}
	if slices.Contains(opt.Blocked, true) {
		if len(opt.Blocked) != w.Horizon {
			return nil, fmt.Errorf("export: %d steps hold their actions or do not, want the plan's %d", len(opt.Blocked), w.Horizon)
		}
		s.Blocked = opt.Blocked
		w.ConstantBytes += w.Horizon + 1
	}
	w.Solver = s
	if err := w.observe(opt.Observed); err != nil {
		return nil, err
	}
	w.generate()
	w.generateSolver(followed.Priority)
	if w.ScratchBytes = 8 * w.blockNumbers(); factors != nil {
		w.ScratchBytes += 8 * w.loopNumbers()
	}
	return w, nil
}

// generateSolver writes the functions of the solver: those of the system that it differentiates, with first and second derivatives.
func (w *whole) generateSolver(priority *program.Function) {
	var b strings.Builder
	s := w.Solver
	s.hessians = map[string]*program.Sparse{}
	var functions []*program.Function
	emit := func(f *program.Function, name string) {
		functions = append(functions, f)
		b.WriteString(ccode.Function(f, name) + "\n")
	}
	inputs := w.NS + w.NC + w.NU + w.NS
	// What moves, among the inputs (s, c, u, sNext).
	moves := make([]bool, inputs)
	for _, a := range s.Moving {
		moves[a] = true
		if a < w.NS {
			moves[w.NS+w.NC+w.NU+a] = true
		}
	}
	for i := range w.NU {
		moves[w.NS+w.NC+i] = true
	}
	derive := func(f *program.Function, name string) {
		var inputsMoved []int
		for _, a := range f.Own() {
			if moves[a] {
				inputsMoved = append(inputsMoved, a)
			}
		}
		j, h := f.Jacobian(inputsMoved), f.Hessian(inputsMoved)
		upper := strings.ToUpper(name)
		fmt.Fprintf(&b, "enum { %[1]s_COUNT = %[2]d, %[1]s_ROOM = %[3]d, %[1]s_CURVED = %[4]d, %[1]s_CURVES = %[5]d, %[1]s_BY = %[6]d };\n",
			upper, len(j.Rows), max(1, len(j.Rows)), len(h.Rows), max(1, len(h.Rows)), len(inputsMoved))
		b.WriteString(ccode.SparsityPattern(j, name))
		b.WriteString(strings.NewReplacer("_row[", "_hrow[", "_col[", "_hcol[").Replace(ccode.SparsityPattern(h, name)))
		if name != "priority" {
			fmt.Fprintf(&b, "static const unsigned short %s_by[%d] = { %s };\n", name, max(1, len(inputsMoved)), commas(inputsMoved))
		}
		emit(j.Function, name+"_jacobian")
		emit(h.Function, name+"_hessian")
		s.hessians[name] = h
	}
	if w.Y.Integrator != program.NoIntegrator {
		if w.Y.Integrator == program.Radau {
			emit(w.Y.Function("ode"), "ode")
		}
		derive(w.Y.Function("ode"), "ode")
	}
	derive(w.Y.Function("step"), "step")
	derive(w.Y.Function("objectives"), "objectives")
	if w.NM > 0 {
		derive(w.Y.Function("margins"), "margins")
	}
	if w.Y.EscapeSteps > 0 {
		derive(w.Y.Function("escape"), "escape")
	}
	derive(priority, "priority")
	s.Functions = strings.TrimRight(b.String(), "\n") + "\n"
	if w.Filtered() {
		functions = append(functions, w.Observer.outputs, w.slopes["outputs"].Function)
	}
	var more []string
	if s.Several {
		more = append(more, "sin")
	}
	w.Libm = libm(append(functions, w.Y.Functions...), slices.Concat(more, []string{"exp", "fabs", "fmax", "fmin", "hypot", "log", "pow", "round", "sqrt"})...)
}

// blockNumbers are the numbers of double that the solver's static storage holds.
func (w *whole) blockNumbers() int {
	d := w.Solver.Width
	inputs := 2*w.NS + w.NC + w.NU
	stages := 0
	switch w.Y.Integrator {
	case program.RK4:
		stages = 4 * w.Y.Substeps * w.NS
	case program.Radau:
		stages = 2 * w.Y.Substeps * w.NS
	}
	block := inputs + w.NC + 2 + (inputs+w.NC+1)*d + stages*(1+d) + w.NU
	numbers := block*(1+w.Y.EscapeSteps) + (2*(w.NS+w.NC+w.NU)+2*w.NS)*d + (len(w.Solver.Moving)+d)*d
	if w.Spec.Horizon > 0 { // the search for a place to rest
		a, k, all := len(w.Solver.Moving), d+len(w.Solver.Moving), max(1, w.All)
		numbers += w.Solver.Inputs + 2*d + k + 7*all + 4*w.NU + 4*a + k*k + 2*d*d + 2*a*a + a*d + w.NU*w.NU + a*w.NU
	}
	return numbers
}

// loopNumbers are those of a loop.
func (w *whole) loopNumbers() int {
	n, a, d := w.Horizon, len(w.Solver.Moving), w.Solver.Width
	all := max(1, w.All)
	x := w.Solver.Inputs
	iterate := (n+1)*x + n*(2*w.NU+x+2*w.NJ+3*all+a) + 2
	terminal := 0
	if w.Spec.Horizon > 0 {
		terminal = 2*a + a*a + max(1, w.NC) + w.NJ + 1
	}
	return terminal + 2*iterate + n*(3*all+4*w.NU+(a+all+2*w.NJ+1+d)*d+d+a+w.NU*w.NU+a*w.NU+w.NU) + (n+1)*(3*a+a*a) + a + 128 + w.NJ + 16
}

// Solves of a decision at most: from the plan before, from each start with two more where none converges, and the best again.
func (w *whole) Solves() int {
	if s := w.Solver; s.Several {
		return 1 + s.Nearest + s.Own + 2 + 1
	}
	return 3
}

// solverOperations bound the arithmetic operations of a decision: of the derivatives, the recursion and the trials of the most
// iterations of all Solves, or 2⁶¹.
func (w *whole) solverOperations() int {
	s, d, n := w.Solver, w.Solver.Width, w.Horizon
	second := func(name string) int {
		if h := s.hessians[name]; h != nil {
			return h.Operations() + 3*d*d*len(h.Rows)
		}
		return 0
	}
	step, derivative := w.operationsOf("step"), second("step")
	solve := 16*w.NS*w.NS*w.NS/3 + 8*w.NS*w.NS
	switch w.Y.Integrator {
	case program.RK4:
		step += 4 * w.Y.Substeps * (w.operationsOf("ode") + 5*w.NS)
		derivative += 4 * w.Y.Substeps * (2*second("ode") + 5*w.NS*(1+d))
	case program.Radau:
		implicit := 40 * (4*w.operationsOf("ode") + solve)
		step += w.Y.Substeps * implicit
		derivative += w.Y.Substeps * (implicit + 2*solve + 4*second("ode") + d*8*w.NS*w.NS)
	}
	times := 1 + w.Y.EscapeSteps
	trial := n * (times*(step+w.operationsOf("margins")+w.operationsOf("escape")) + w.operationsOf("objectives") + 2*w.operationsOf("urgency") + 40*w.NJ)
	derivatives := n * (times*(2*derivative+2*second("margins")+2*second("escape")) + 2*second("objectives") + 2*second("priority"))
	recursion := 25 * n * (2*len(s.Moving)*(len(s.Moving)+d)*d + w.All*d*d)
	iteration := derivatives + recursion + 30*trial
	solves := 1 << 61
	if turn := w.Solves() * max(1, iteration); s.Iterations <= solves/turn {
		solves = s.Iterations * turn
	}
	if w.Spec.Horizon > 0 {
		return w.restOperations(2*(derivatives+25*trial)/n) + trial + solves
	}
	return solves
}

// restOperations bound a search for a place to rest, of which an iteration takes so many for derivatives and trials.
func (w *whole) restOperations(iteration int) int {
	a, d := len(w.Solver.Moving), w.Solver.Width
	k := a + d
	newton := 17*(d*d*(4*w.All+2*a)+d*d*d+4*d*(a+w.All)) + k*k*k + 3*k*k
	return 36 * (150*(iteration+newton) + 50000*(2*a*a*d+2*a*d*d+w.NU*w.NU*w.NU+4*a*a*w.NU+3*a*a))
}
