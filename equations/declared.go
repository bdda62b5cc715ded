package equations

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
)

// Soft is a limit that may be violated at a penalty. Violating it is never unsafe.
type Soft struct {
	// Margin is the name of one of System.Margins. The excess is its violation.
	Margin string
	// Linear and Quadratic are the penalties of an excess e in a decision, Linear·e + Quadratic·e². Every objective
	// includes them, so that every weighting has the same penalty. The excess is smoothed up to a hundredth of the
	// margin's range, or of its mean size one decision after the starts where it has no range. A margin with more room
	// costs nothing.
	Linear, Quadratic float64
	// Priority orders soft limits: where two conflict, the higher one is satisfied. Each step multiplies the penalty
	// by 100.
	Priority int
}

const (
	priorityStep = 100
	maxPriority  = 4
	// The excess is smoothed over smoothingReach on both sides of the limit, in sizes of the margin. smoothingWidth is the
	// width of its bend, in reaches. A step of the priority narrows it by the square root of the price, so that a limit
	// that is satisfied has the same room at every priority.
	smoothingReach = 1e-2
	smoothingWidth = 0.1
)

// declared applies Soft and Rates to a system. Objectives include the penalties of soft limits, which are no margins
// any more. Changes of actions have margins. The previous actions are the last entries of the context.
type declared struct {
	inner        System                   // without Soft and Rates
	innerProblem func() (*Problem, error) // of inner, made once
	ownContext   int                      // entries of the context that inner's functions get
	hard         []int                    // margins that stay
	soft         []softLimit
	limited      []int     // actions with a rate
	rate         []float64 // of each of these
}

type softLimit struct {
	margin            int
	linear, quadratic float64
	reach, width      float64 // of the smoothing; width is in reaches
}

// applyDeclarations is y with its declarations applied to its functions; y itself where it has none.
func (y System) applyDeclarations() (System, *declared, error) {
	if len(y.Soft) == 0 && len(y.Rates) == 0 {
		return y, nil, nil
	}
	if err := y.validate(); err != nil {
		return y, nil, err
	}
	d := &declared{inner: y, ownContext: len(y.Context)}
	if y.Horizon == 0 {
		d.ownContext++
	}
	d.inner.Soft, d.inner.Rates = nil, nil
	d.innerProblem = sync.OnceValues(func() (*Problem, error) { return New(d.inner) })
	if err := d.takeSoftLimits(&y); err != nil {
		return y, nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	if err := d.addRates(&y); err != nil {
		return y, nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	y.Constants = struct {
		Inner any       `json:"own"`
		Soft  []Soft    `json:"soft,omitempty"`
		Reach float64   `json:"reach,omitempty"` // tells other smoothings apart
		Rates []float64 `json:"rates,omitempty"`
	}{y.Constants, y.Soft, smoothingReach * min(1, float64(len(y.Soft))), y.Rates}
	y.complete()
	if y.Source != nil {
		y.Source = &Source{d}
	}
	d.wrapFunctions(&y)
	y.Soft, y.Rates = nil, nil
	return y, d, nil
}

// takeSoftLimits removes the soft limits from the margins of y.
func (k *declared) takeSoftLimits(y *System) error {
	isSoft := make([]bool, len(y.Margins))
	for i, s := range y.Soft {
		index := slices.IndexFunc(y.Margins, func(v domain.Variable) bool { return v.Name == s.Margin })
		switch {
		case index < 0:
			return fmt.Errorf("System.Soft[%d].Margin is %q, which is none of Margins", i, s.Margin)
		case isSoft[index]:
			return fmt.Errorf("System.Soft[%d].Margin %q appears twice", i, s.Margin)
		case !(s.Linear >= 0) || !(s.Quadratic >= 0) || math.IsInf(s.Linear+s.Quadratic, 0) || s.Linear+s.Quadratic == 0:
			return fmt.Errorf("System.Soft[%d] (%s) has the prices %v and %v, want finite numbers ≥ 0, not both 0", i, s.Margin, s.Linear, s.Quadratic)
		case s.Priority < 0 || s.Priority > maxPriority:
			return fmt.Errorf("System.Soft[%d] (%s) has priority %d, want 0 to %d", i, s.Margin, s.Priority, maxPriority)
		}
		isSoft[index] = true
		size, err := k.marginSize(index)
		if err != nil {
			return err
		}
		weight := math.Pow(priorityStep, float64(s.Priority))
		k.soft = append(k.soft, softLimit{index, weight * s.Linear, weight * s.Quadratic, smoothingReach * size, smoothingWidth / math.Sqrt(weight)})
	}
	margins, room := []domain.Variable(nil), []float64(nil)
	for i, v := range y.Margins {
		if isSoft[i] {
			continue
		}
		k.hard, margins = append(k.hard, i), append(margins, v)
		if len(y.Solver.Room) == len(y.Margins) {
			room = append(room, y.Solver.Room[i])
		}
	}
	if y.Margins = margins; y.Solver.Room != nil {
		y.Solver.Room = room
	}
	return nil
}

// marginSize is the range of a margin, or its mean size at the trials of the inner problem.
func (k *declared) marginSize(index int) (float64, error) {
	inner, err := k.innerProblem()
	if err != nil {
		return 0, errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("system %q: ", k.inner.Name))) // which the caller says
	}
	if v := k.inner.Margins[index]; v.Bounded() {
		return v.Scale(), nil
	}
	return inner.marginSizes[index], nil
}

// addRates adds the margins of rates and the previous actions to y.
func (k *declared) addRates(y *System) error {
	if y.Rates != nil && len(y.Rates) != len(y.Action) {
		return fmt.Errorf("System.Rates has %d entries, want one for each of the %d entries of Action", len(y.Rates), len(y.Action))
	}
	for i, rate := range y.Rates {
		if !(rate >= 0) || math.IsInf(rate, 0) {
			return fmt.Errorf("System.Rates[%d] (%s) is %v, want a finite number above 0, or 0 for no limit", i, y.Action[i].Name, rate)
		}
		if rate == 0 {
			continue
		}
		a := y.Action[i]
		k.limited, k.rate = append(k.limited, i), append(k.rate, rate)
		previous := a
		previous.Name, previous.Size = "last "+a.Name, rate
		previous.Tolerance, previous.Limit = 0, ""
		y.last = append(y.last, previous)
		for _, direction := range []string{"rising", "falling"} {
			y.Margins = append(y.Margins, domain.Variable{Name: a.Name + " " + direction, Unit: a.Unit, Size: rate, Limit: "rate of " + a.Name})
			if y.Solver.Room != nil {
				y.Solver.Room = append(y.Solver.Room, 0)
			}
		}
	}
	return nil
}

// wrapFunctions gives y the functions with soft limits and rates.
func (k *declared) wrapFunctions(y *System) {
	y.Real, y.Dual = withDeclared(k, y.Real), withDeclared(k, y.Dual)
	if len(k.limited) == 0 {
		return
	}
	inner, nc := k.inner, k.ownContext
	y.Initial = func(p, s, c []float64) {
		inner.Initial(p, s, c[:nc])
		for i, a := range k.limited {
			c[nc+i] = y.Rest[a]
		}
	}
	innerContext(y, &inner, leading[float64](nc), leading[complex128](nc))
}

// innerContext gives y the other functions of an inner system, which get its entries of the context.
func innerContext(y, inner *System, entries func(c []float64) []float64, dualEntries func(c []complex128) []complex128) {
	if ode := inner.ODE; ode != nil {
		y.ODE = ode.With(withContext(ode.Real, entries), withContext(ode.Dual, dualEntries))
	}
	if stiff := inner.Stiff; stiff != nil {
		y.Stiff = stiff.With(withContext(stiff.ODE, dualEntries))
	}
	if inner.Failed != nil {
		y.Failed = func(s, c []float64) bool { return inner.Failed(s, entries(c)) }
	}
	if inner.Urgency != nil {
		y.Urgency = func(s, c, delta []float64) { inner.Urgency(s, entries(c), delta) }
	}
	if inner.Picture != nil {
		y.Picture = func(s, c []float64) []domain.Shape { return inner.Picture(s, entries(c)) }
	}
	if y.Measurement != nil && y.Measurement.Real != nil {
		m := *y.Measurement
		m.Real, m.Dual = withContext(m.Real, entries), withContext(m.Dual, dualEntries)
		y.Measurement = &m
	}
}

// leading is the first n entries of a context.
func leading[T dual.Scalar](n int) func(c []T) []T { return func(c []T) []T { return c[:n] } }

// withContext is a function that gets some entries of the context.
func withContext[T dual.Scalar](f func(s, c, u, out []T), entries func(c []T) []T) func(s, c, u, out []T) {
	return func(s, c, u, out []T) { f(s, entries(c), u, out) }
}

// withDeclared are the functions with soft limits and rates in one type of number.
func withDeclared[T dual.Scalar](k *declared, inner Functions[T]) Functions[T] {
	y, nc := inner, k.ownContext
	rows := sync.Pool{New: func() any {
		row := make([]T, len(k.inner.Margins))
		return &row
	}}
	y.Objectives = func(s, c, u, sNext, j []T) {
		inner.Objectives(s, c[:nc], u, sNext, j)
		if len(k.soft) == 0 {
			return
		}
		row := rows.Get().(*[]T)
		inner.Margins(s, c[:nc], u, sNext, *row)
		penalty := dual.Const[T](0)
		for _, limit := range k.soft {
			penalty += softPenalty(numbers[T]{}, limit, (*row)[limit.margin])
		}
		rows.Put(row)
		for i := range j {
			j[i] += penalty
		}
	}
	y.Margins = func(s, c, u, sNext, m []T) {
		if len(k.hard) > 0 {
			row := rows.Get().(*[]T)
			inner.Margins(s, c[:nc], u, sNext, *row)
			for i, margin := range k.hard {
				m[i] = (*row)[margin]
			}
			rows.Put(row)
		}
		for i, a := range k.limited {
			rate, change := dual.Const[T](k.rate[i]), u[a]-c[nc+i]
			m[len(k.hard)+2*i], m[len(k.hard)+2*i+1] = rate-change, rate+change
		}
	}
	if len(k.hard)+len(k.limited) == 0 {
		y.Margins = nil
	}
	if len(k.limited) == 0 {
		return y
	}
	y.Step = func(s, c, u, sNext, cNext []T) {
		if inner.Step != nil {
			inner.Step(s, c[:nc], u, sNext, cNext[:nc])
		}
		for i, a := range k.limited {
			cNext[nc+i] = u[a]
		}
	}
	if inner.Escape != nil {
		y.Escape = func(s, c, u []T) {
			inner.Escape(s, c[:nc], u)
			for i, a := range k.limited {
				rate, previous := dual.Const[T](k.rate[i]), c[nc+i]
				u[a] = dual.Max(previous-rate, dual.Min(previous+rate, u[a]))
			}
		}
	}
	return y
}

// softPenalty is the penalty of a soft limit at a margin m. With R(x) = √(x² + width²) and x = |m|/reach, the second
// derivative of the excess e is proportional to R(x)⁻³ − R(1)⁻³ within reach and zero beyond, where e is max(0, −m). A
// bend like a hyperbola's is what a solver sees ahead of a limit. Its end leaves an optimum with room as it is.
func softPenalty[T any](a algebra[T], l softLimit, m T) T {
	number, end := a.Const, math.Hypot(1, l.width)
	size := a.SmoothAbs(m)
	x := a.Min(number(1), a.Mul(size, number(1/l.reach)))
	root := a.Sqrt(a.Add(a.Mul(x, x), number(l.width*l.width)))
	slope := a.Mul(a.Add(number(end), root), a.Add(root, a.Mul(number(end), x)))
	bend := a.Sub(a.Div(a.Mul(number(end*end), a.Add(number(1), x)), slope), number(0.5))
	rest := a.Sub(number(1), x)
	e := a.Add(a.Mul(a.Mul(a.Mul(number(l.reach*l.width*l.width/2), rest), rest), bend), a.Mul(number(0.5), a.Sub(size, m)))
	return a.Add(a.Mul(number(l.linear), e), a.Mul(number(l.quadratic), a.Mul(e, e)))
}

// softLimits is domain.ProblemAbilities.Soft; nil without soft limits.
func (p *Problem) softLimits() *domain.SoftLimits {
	k := p.declared
	if k == nil || len(k.soft) == 0 {
		return nil
	}
	limits := &domain.SoftLimits{Margins: func(s, c, u, m []float64) {
		w := p.borrow()
		takeStep(p, &p.system.Real, &w.real, s, c, u)
		row := make([]float64, len(k.inner.Margins))
		k.inner.Real.Margins(s, c[:k.ownContext], u, w.real.next, row)
		p.works.Put(w)
		for i, limit := range k.soft {
			m[i] = row[limit.margin]
		}
	}}
	for _, limit := range k.soft {
		limits.Limits = append(limits.Limits, k.inner.Margins[limit.margin])
	}
	return limits
}
