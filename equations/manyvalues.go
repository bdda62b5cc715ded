package equations

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
	"github.com/gpc-engine/gpc/internal/simd/stages"
)

// projectionCode is a system's program with what a projection and the priorities need.
type projectionCode struct {
	real                             []int        // actions without a switch
	slopes                           *stages.Code // by them; nil: there is nothing to project
	priority                         *stages.Function
	compiledSlopes, compiledPriority *lanes.Compiled
}

func (p *Problem) compileProjection() (*projectionCode, error) {
	read, err := p.program()
	if err != nil {
		return nil, err
	}
	values, err := p.valueCode()
	if err != nil {
		return nil, err
	}
	k := &projectionCode{priority: stages.NewFunction(p.priority(read), nil)}
	if k.compiledPriority, err = k.priority.Compile(values.level, values.width); err != nil {
		return nil, fmt.Errorf("system %q: %w", p.spec.Name, err)
	}
	var columns []int
	for i := range p.spec.Action {
		if p.spec.SwitchOf(i) < 0 {
			k.real = append(k.real, i)
			columns = append(columns, len(p.spec.Measured)+len(p.spec.Context)+i)
		}
	}
	if len(columns) == 0 || len(p.spec.Margins) == 0 {
		return k, nil
	}
	k.slopes, k.compiledSlopes, err = values.compile(stages.NewSlopes(values.system, columns))
	return k, err
}

// manyValues is domain.ProblemAbilities.ManyValues of a system with a Source. Without vector instructions the
// functions are faster; with switches beside other actions a search is to decide the same on every processor.
func (p *Problem) manyValues() func() (func() domain.ManyValues, error) {
	if p.system.Source == nil {
		return nil
	}
	return func() (func() domain.ManyValues, error) {
		code, err := p.valueCode()
		if mixed := len(p.spec.Switches) > 0 && len(p.spec.Switches) < len(p.spec.Action); err != nil || code.level == isa.Generic && !mixed {
			return nil, err
		}
		return func() domain.ManyValues {
			e := &manyValues{evaluations: p.evaluations(code)}
			return domain.ManyValues{Evaluate: e.Evaluate, Project: e.project, Priorities: e.prioritise}
		}, nil
	}
}

// manyValues is a domain.ManyValues. Machines for more than values are made when they are needed.
type manyValues struct {
	evaluations
	code       *projectionCode
	slopes     *stages.Machine
	priorities *stages.FunctionMachine
	// Of a projection: rows that are not done, those to evaluate at their best action, [n·action] and [n].
	rows, broken    []int
	requested, best []float64
	smallest        []float64
	ofMargins       []float64                            // of one row, [margins][real]
	together        struct{ x, u, next, j, m []float64 } // of rows in lanes
}

// projection is the code, which compiles wherever that of the values has.
func (e *manyValues) projection() *projectionCode {
	if e.code == nil {
		code, err := e.problem.projectionCode()
		if err != nil {
			panic(err)
		}
		if e.code = code; code.slopes != nil {
			e.slopes = code.slopes.NewMachine(code.compiledSlopes)
			e.ofMargins = make([]float64, e.nm*len(code.real))
		}
		e.priorities = code.priority.NewMachine(code.compiledPriority)
	}
	return e.code
}

func (e *manyValues) prioritise(n int, x, _, sigma []float64) {
	e.projection()
	for first := 0; first < n; first += e.priorities.Lanes() {
		some := min(n-first, e.priorities.Lanes())
		e.priorities.Set(some, x[first*e.nx:])
		e.priorities.Linearise()
		e.priorities.Values(some, sigma[first*e.nj:])
	}
}

func (e *manyValues) project(n int, x, u, next, j, margins []float64) {
	if e.projection().slopes == nil {
		return
	}
	e.rows, e.broken, e.smallest = e.rows[:0], e.broken[:0], e.smallest[:0]
	for i := range n {
		e.smallest = append(e.smallest, math.Inf(-1))
		if !e.problem.spec.Keeps(smallestMargin(row(margins, e.nm, i))) {
			domain.Clip(row(u, e.nu, i), row(u, e.nu, i), e.problem.spec.Action)
			e.rows = append(e.rows, i)
		}
	}
	if len(e.rows) == 0 {
		return
	}
	w := e.problem.borrow()
	defer e.problem.works.Put(w)
	e.requested, e.best = append(e.requested[:0], u[:n*e.nu]...), append(e.best[:0], u[:n*e.nu]...)
	for round := 0; len(e.rows) > 0; round++ {
		left := e.rows[:0]
		for group := range slices.Chunk(e.rows, e.slopes.Lanes()) {
			e.evaluateRows(e.slopes, group, x, u, next, j, margins)
			for lane, i := range group {
				action, margin := row(u, e.nu, i), smallestMargin(row(margins, e.nm, i))
				feasible := e.problem.spec.Keeps(margin)
				if feasible && len(e.problem.spec.Switches) > 0 {
					continue // a search of switches tries thousands
				}
				if margin >= e.smallest[i] || feasible { // a limit that no action keeps may hide those that this one does
					e.smallest[i] = min(margin, 0)
					copy(row(e.best, e.nu, i), action)
				}
				if round < relinearisations && e.improve(w, lane, i, u, margins) {
					left = append(left, i)
					continue
				}
				copy(action, row(e.best, e.nu, i))
				if !feasible {
					e.broken = append(e.broken, i)
				}
			}
		}
		e.rows = left
	}
	e.rescue(x, u, next, j, margins)
}

// rescue gives the rows of broken whose best action keeps no limits the escape's where its margins are larger, the others their best one.
func (e *manyValues) rescue(x, u, next, j, margins []float64) {
	if escape := e.problem.system.Real.Escape; escape != nil && len(e.problem.spec.Switches) == 0 {
		for _, i := range e.broken {
			if e.problem.spec.Keeps(e.smallest[i]) {
				continue
			}
			action := row(u, e.nu, i)
			escape(row(x, e.nx, i)[:e.ns], row(x, e.nx, i)[e.ns:], action)
			domain.Clip(action, action, e.problem.spec.Action)
		}
		e.evaluateRows(e.values, e.broken, x, u, next, j, margins)
		e.broken = slices.DeleteFunc(e.broken, func(i int) bool { return smallestMargin(row(margins, e.nm, i)) > e.smallest[i] })
	}
	for _, i := range e.broken {
		copy(row(u, e.nu, i), row(e.best, e.nu, i))
	}
	e.evaluateRows(e.values, e.broken, x, u, next, j, margins)
}

// evaluateRows evaluates rows, each in a lane of m, which also has the slopes of the last where it takes them.
func (e *manyValues) evaluateRows(m *stages.Machine, rows []int, x, u, next, j, margins []float64) {
	t := &e.together
	for group := range slices.Chunk(rows, m.Lanes()) {
		t.x, t.u = t.x[:0], t.u[:0]
		for _, i := range group {
			t.x, t.u = append(t.x, row(x, e.nx, i)...), append(t.u, row(u, e.nu, i)...)
		}
		n := len(group)
		t.next, t.j, t.m = slices.Grow(t.next[:0], n*e.nx)[:n*e.nx], slices.Grow(t.j[:0], n*e.nj)[:n*e.nj], slices.Grow(t.m[:0], n*e.nm)[:n*e.nm]
		e.load(m, 0, n, t.x, t.u)
		e.store(m, 0, n, t.x, t.next, t.j, t.m)
		for lane, i := range group {
			copy(row(next, e.nx, i), row(t.next, e.nx, lane))
			copy(row(j, e.nj, i), row(t.j, e.nj, lane))
			copy(row(margins, e.nm, i), row(t.m, e.nm, lane))
		}
	}
}

// improve moves the action of row i, whose margins and their derivatives are known, and reports whether it could.
func (e *manyValues) improve(w *work, lane, i int, u, margins []float64) bool {
	e.slopes.Slopes(lane, nil, nil, e.ofMargins)
	if len(e.code.real) == 1 {
		if moved, ok := e.nearest(i, row(u, e.nu, i), row(margins, e.nm, i)); ok {
			return moved
		}
	}
	copy(w.requested, row(e.requested, e.nu, i))
	copy(w.m, row(margins, e.nm, i))
	for k := range e.nm {
		for column, action := range e.code.real {
			w.program.row(k)[action] = e.ofMargins[k*len(e.code.real)+column]
		}
	}
	action := row(u, e.nu, i)
	e.problem.constrain(w, action)
	if !w.program.solve(false) && !w.program.solve(true) {
		return false
	}
	return e.problem.follow(w, action) > converged
}

// nearest is improve for a single action: the nearest to the request in the interval that the linearised margins leave. It is not
// ok where they leave none.
func (e *manyValues) nearest(i int, u, margins []float64) (moved, ok bool) {
	a := e.code.real[0]
	lo, hi := math.Inf(-1), math.Inf(1)
	if v := &e.problem.spec.Action[a]; v.Bounded() {
		lo, hi = v.Lo, v.Hi
	}
	for k, slope := range e.ofMargins {
		switch bound := u[a] - margins[k]/slope; {
		case slope > 0:
			lo = max(lo, bound)
		case slope < 0:
			hi = min(hi, bound)
		}
	}
	v := max(lo, min(hi, row(e.requested, e.nu, i)[a]))
	if !(lo <= hi) || !isFinite(v) { // nor where one is a NaN
		return false, false
	}
	change := math.Abs(v-u[a]) / e.problem.half[a]
	u[a] = v
	return change > converged, true
}
