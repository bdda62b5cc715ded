package equations

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/lanes"
	"github.com/gpc-engine/gpc/internal/stages"
	"github.com/gpc-engine/gpc/tensor"
)

// laned is a system's program for the lanes of vectors: its values, and its values with derivatives.
type laned struct {
	moving             []int
	values, slopes     *stages.Code
	valuesAt, slopesAt *lanes.Compiled
}

// NewStages implements domain.Staged where the system has a Source. Its error says what of the source cannot be followed.
func (p *Problem) NewStages() (domain.Stages, error) {
	if p.system.Source == nil {
		return nil, nil
	}
	code, err := p.laned()
	if err != nil {
		return nil, err
	}
	return &workspace{
		laned: code, values: code.values.NewMachine(code.valuesAt), ns: len(p.spec.Measured), nx: len(p.spec.Measured) + len(p.spec.Context),
		nu: len(p.spec.Action), nj: len(p.spec.Objectives), nm: len(p.spec.Margins), each: len(p.system.Margins),
	}, nil
}

// readLanes makes the code, which is the same for all workspaces.
func (p *Problem) readLanes() (*laned, error) {
	read, err := p.program()
	if err != nil {
		return nil, err
	}
	y := &p.system
	of := stages.System{Program: read, EscapeSteps: y.EscapeSteps}
	for _, a := range y.Action {
		if a.Bounded() {
			of.Lo, of.Hi = append(of.Lo, a.Lo), append(of.Hi, a.Hi)
		} else {
			of.Lo, of.Hi = append(of.Lo, math.Inf(-1)), append(of.Hi, math.Inf(1))
		}
	}
	switch {
	case y.ODE != nil:
		of.Span, of.Substeps = y.ODE.Span, y.ODE.Substeps
	case y.Stiff != nil:
		of.Span, of.Substeps, of.Implicit = y.Stiff.Span, y.Stiff.Substeps, true
	}
	k := &laned{}
	if k.moving, err = of.Moving(); err != nil {
		return nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	var by []int
	for i := range y.Action {
		by = append(by, len(p.spec.Measured)+len(p.spec.Context)+i)
	}
	if k.values, err = stages.NewValues(of); err != nil {
		return nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	if k.slopes, err = stages.New(of, append(by, k.moving...)); err != nil {
		return nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	level, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	width := lanes.Widths(level)[0]
	if k.valuesAt, err = k.values.Compile(level, width); err != nil {
		return nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	if k.slopesAt, err = k.slopes.Compile(level, width); err != nil {
		return nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	return k, nil
}

// workspace implements domain.Stages. Each set of lanes keeps what Linearise found of its decisions for Curvature.
type workspace struct {
	*laned
	ns, nx, nu, nj, nm, each int
	values                   *stages.Machine
	sets                     []*stages.Machine
	n                        int // decisions of the last Linearise
	z                        []float64
}

// Moving implements domain.Stages, as the methods below do.
func (w *workspace) Moving() []int { return w.moving }

func row(values []float64, n, i int) []float64 { return values[i*n : (i+1)*n] }

// load writes decisions from first on into all lanes, the last one of n into those that are left.
func (w *workspace) load(m *stages.Machine, first, n int, x, u []float64) {
	for lane := range m.Lanes() {
		i := min(first+lane, n-1)
		at := row(x, w.nx, i)
		m.Set(lane, at[:w.ns], at[w.ns:], row(u, w.nu, i))
	}
	m.Linearise()
}

func (w *workspace) Evaluate(n int, x, u, next, j, margins []float64) {
	for first := 0; first < n; first += w.values.Lanes() {
		w.load(w.values, first, n, x, u)
		for i := first; i < min(n, first+w.values.Lanes()); i++ {
			w.read(w.values, first, i, next, j, margins)
		}
	}
}

// read writes the values of decision i from the lanes of a machine whose first is that of another.
func (w *workspace) read(m *stages.Machine, first, i int, next, j, margins []float64) {
	to := row(next, w.nx, i)
	m.Values(i-first, to[:w.ns], to[w.ns:], row(j, w.nj, i), row(margins, w.nm, i))
}

func (w *workspace) Linearise(n int, x, u, next, j, margins, ofNext, ofJ, ofMargins []float64) {
	w.n = n
	k := w.nu + len(w.moving)
	for set, first := 0, 0; first < n; set++ {
		if set == len(w.sets) {
			w.sets = append(w.sets, w.slopes.NewMachine(w.slopesAt))
		}
		m := w.sets[set]
		w.load(m, first, n, x, u)
		for i := first; i < min(n, first+m.Lanes()); i++ {
			if next != nil {
				w.read(m, first, i, next, j, margins)
			}
			m.Slopes(i-first, row(ofNext, w.nx*k, i), row(ofJ, w.nj*k, i), row(ofMargins, w.nm*k, i))
		}
		first += m.Lanes()
	}
}

func (w *workspace) Curvature(weights, lambda, z []float64, far []bool, h []float64) {
	k := w.nu + len(w.moving)
	lambda = lambda[:w.n*w.nx]
	for set, first := 0, 0; first < w.n; set++ {
		m := w.sets[set]
		last := min(w.n, first+m.Lanes())
		steps := 0
		for i := first; i < last; i++ {
			w.z = append(w.z[:0], row(z, w.nm, i)...)
			steps = max(steps, w.escape(far[i]))
			m.Weigh(i-first, row(weights, w.nj, i), row(lambda, w.nx, i), w.z)
		}
		m.Curvature(steps)
		for i := first; i < last; i++ {
			m.Hessian(i-first, row(h, k*k, i))
		}
		first = last
	}
}

// escape is how many of its steps have margins that weigh anything in w.z, none where those are far, whose weights it clears.
func (w *workspace) escape(far bool) int {
	if w.each == 0 {
		return 0
	}
	if far {
		clear(w.z[w.each:])
		return 0
	}
	for steps := w.nm/w.each - 1; steps > 0; steps-- {
		if !tensor.AllZero(row(w.z, w.each, steps)) {
			return steps
		}
	}
	return 0
}
