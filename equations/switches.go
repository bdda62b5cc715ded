package equations

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
)

// Switch makes an action take one of a few values: a pump that is on or off, a gear, a number of stages. The equations
// of the system read the value as they read any action. OnOff, OneOf and Integer make one; the other fields are
// optional.
type Switch struct {
	Action string    // its name in System.Action
	Values []float64 // ascending, at least two
	// Least is the number of periods for which each value stays at least; nil: 1 for all.
	Least []int
	// Most bounds the changes in any Window periods; 0: any number.
	Most, Window int
	// Cost is what a change costs in the objective of that name.
	Cost      float64
	Objective string
	// Initial is the value before an episode, which has stayed for long; NaN: that of Rest.
	Initial float64
}

// OnOff is an action that is 0 or 1.
func OnOff(action string) Switch { return OneOf(action, 0, 1) }

// OneOf is an action that is one of these numbers.
func OneOf(action string, values ...float64) Switch {
	return Switch{Action: action, Values: values, Initial: math.NaN()}
}

// Integer is an action that is a whole number from lo to hi.
func Integer(action string, lo, hi int) Switch {
	w := Switch{Action: action, Initial: math.NaN()}
	for v := lo; v <= hi; v++ {
		w.Values = append(w.Values, float64(v))
	}
	return w
}

const (
	maxValues   = 64 // of a switch
	maxChanges  = 64 // of a switch in a window
	maxSwitches = 16
)

// check says what is wrong with a switch of y, "" where nothing is.
func (w *Switch) check(y *System) (wrong string) {
	index := slices.IndexFunc(y.Action, func(v domain.Variable) bool { return v.Name == w.Action })
	if index < 0 {
		return fmt.Sprintf("Action is %q, which is none of Action: want one of %q", w.Action, domain.Names(y.Action))
	}
	if len(w.Values) < 2 || len(w.Values) > maxValues {
		return fmt.Sprintf("Values has %d entries, want 2 to %d", len(w.Values), maxValues)
	}
	for i, v := range w.Values {
		if !isFinite(v) || i > 0 && !(w.Values[i-1] < v) {
			return fmt.Sprintf("Values are %v, want finite numbers in ascending order, each once", w.Values)
		}
	}
	if a := y.Action[index]; a.Bounded() && (a.Lo != w.Values[0] || a.Hi != w.Values[len(w.Values)-1]) {
		return fmt.Sprintf("Values run from %v to %v and the box of the action from %v to %v: leave the box out", w.Values[0], w.Values[len(w.Values)-1], a.Lo, a.Hi)
	}
	horizon := y.Steps
	if y.Horizon > 0 {
		horizon = y.Horizon
	}
	if w.Least != nil && len(w.Least) != len(w.Values) {
		return fmt.Sprintf("Least has %d entries, want one for each of the %d Values", len(w.Least), len(w.Values))
	}
	for i, n := range w.Least {
		if n < 1 || n > horizon {
			return fmt.Sprintf("Least[%d] is %d periods, want 1 to the %d that a plan looks ahead", i, n, horizon)
		}
	}
	if w.Most < 0 || w.Most > maxChanges || w.Window < 0 || w.Window > horizon || (w.Most == 0) != (w.Window == 0) {
		return fmt.Sprintf("Most is %d changes in a Window of %d periods, want neither, or 1 to %d in 1 to %d", w.Most, w.Window, maxChanges, horizon)
	}
	if w.Most > 0 && w.Most >= w.Window {
		return fmt.Sprintf("Most is %d changes in a Window of %d periods, in which there are no more: want fewer changes than periods", w.Most, w.Window)
	}
	if !(w.Cost >= 0) || math.IsInf(w.Cost, 0) || (w.Cost > 0) != (w.Objective != "") {
		return fmt.Sprintf("Cost is %v in the objective %q, want a finite number above 0 with the name of an objective, or neither", w.Cost, w.Objective)
	}
	if names := domain.Names(y.Objectives); w.Objective != "" && !slices.Contains(names, w.Objective) {
		return fmt.Sprintf("Objective is %q, want one of %q", w.Objective, names)
	}
	if !math.IsNaN(w.Initial) && !slices.Contains(w.Values, w.Initial) {
		return fmt.Sprintf("Initial is %v, which is none of Values, %v", w.Initial, w.Values)
	}
	return ""
}

// switched is a switch as it is applied to the functions of a system.
type switched struct {
	domain.Switch
	cost        float64
	objective   int
	initial     float64
	gap         float64 // the smallest distance of two values
	holds       bool    // a value has a least time
	firstMargin int     // of its margins
}

// switching applies Switches to a system. Their context and their margins follow those of the inner system.
type switching struct {
	inner    *Problem // without Switches
	switches []switched
}

// applySwitches is y with its switches applied to its functions, and without any; y itself where it has none.
func (y System) applySwitches() (System, *switching, error) {
	if len(y.Switches) == 0 {
		return y, nil, nil
	}
	if err := y.validate(); err != nil {
		return y, nil, err
	}
	if y.Real.Escape != nil {
		return y, nil, fmt.Errorf("system %q: Switches and Escape exclude each other: the search of plans looks to the end of each, and needs no escape", y.Name)
	}
	k := &switching{}
	if err := k.check(&y); err != nil {
		return y, nil, fmt.Errorf("system %q: %w", y.Name, err)
	}
	inner := y
	inner.Switches, inner.Action = nil, slices.Clone(y.Action)
	for i := range k.switches {
		d := &k.switches[i]
		a := &inner.Action[d.Action]
		a.Lo, a.Hi = d.Values[0], d.Values[len(d.Values)-1]
	}
	inner.snapAction = k.draw
	var err error
	if k.inner, err = New(inner); err != nil {
		return y, nil, err
	}
	y = k.inner.system
	y.Rest, y.last = slices.Clone(y.Rest), slices.Clone(y.last)
	for i := range k.switches {
		k.switches[i].extend(&y, k.inner.spec.ContextSize()+len(y.last)-len(k.inner.system.last))
	}
	y.Constants = struct {
		Inner    any      `json:"own"`
		Switches []string `json:"switches"`
	}{y.Constants, k.identities()}
	if y.Source != nil {
		y.Source = &Source{k}
	}
	k.wrapFunctions(&y)
	return y, k, nil
}

// check completes the switches of y.
func (k *switching) check(y *System) error {
	if len(y.Switches) > maxSwitches {
		return fmt.Errorf("System.Switches has %d entries, want at most %d", len(y.Switches), maxSwitches)
	}
	for i := range y.Switches {
		w := &y.Switches[i]
		if wrong := w.check(y); wrong != "" {
			return fmt.Errorf("System.Switches[%d] (%s): %s", i, w.Action, wrong)
		}
		action := slices.IndexFunc(y.Action, func(v domain.Variable) bool { return v.Name == w.Action })
		if slices.ContainsFunc(k.switches, func(o switched) bool { return o.Action == action }) {
			return fmt.Errorf("System.Switches[%d]: %s has a switch before", i, w.Action)
		}
		if len(y.Rates) > action && y.Rates[action] != 0 {
			return fmt.Errorf("System.Rates[%d]: %s is switched, which has no rate", action, w.Action)
		}
		if len(y.Rest) > action && !slices.Contains(w.Values, y.Rest[action]) {
			return fmt.Errorf("System.Rest[%d]: %s rests at %v, want one of its values %v", action, w.Action, y.Rest[action], w.Values)
		}
		k.switches = append(k.switches, w.complete(y, action))
	}
	slices.SortFunc(k.switches, func(a, b switched) int { return a.Action - b.Action })
	return nil
}

// draw makes actions drawn from the box values of their switches.
func (k *switching) draw(u []float64) {
	for i := range k.switches {
		d := &k.switches[i]
		u[d.Action] = d.Values[d.Nearest(u[d.Action])]
	}
}

// complete is the switch as it is applied.
func (w *Switch) complete(y *System, action int) switched {
	d := switched{Switch: domain.Switch{Action: action, Values: slices.Clone(w.Values), Least: slices.Clone(w.Least), Most: w.Most, Window: w.Window}, cost: w.Cost, initial: w.Initial, gap: math.Inf(1)}
	if d.Least == nil {
		d.Least = slices.Repeat([]int{1}, len(d.Values))
	}
	d.holds = slices.Max(d.Least) > 1
	for i, v := range d.Values[1:] {
		d.gap = math.Min(d.gap, v-d.Values[i])
	}
	if w.Objective != "" {
		d.objective = slices.Index(domain.Names(y.Objectives), w.Objective)
	}
	return d
}

// extend adds the context and the margins of a switch to y; entry is the first of that context.
func (d *switched) extend(y *System, entry int) {
	a := y.Action[d.Action]
	y.Rest[d.Action] = d.Values[d.Nearest(y.Rest[d.Action])]
	if math.IsNaN(d.initial) {
		d.initial = y.Rest[d.Action]
	}
	d.Last, d.Ages = entry, entry+1
	last := a
	last.Name, last.Tolerance, last.Limit = "last "+a.Name, 0, ""
	y.last = append(y.last, last)
	for i := range d.Changes() {
		age := domain.Variable{Name: "age of " + a.Name, Unit: "periods", Hi: float64(d.Saturation())}
		if i > 0 {
			age.Name = fmt.Sprintf("age of %s, change %d", a.Name, i+1)
		}
		y.last = append(y.last, age)
	}
	d.firstMargin = len(y.Margins)
	y.Margins = slices.Clip(y.Margins)
	margin := func(name, unit string) {
		y.Margins = append(y.Margins, domain.Variable{Name: a.Name + " " + name, Unit: unit})
		if y.Solver.Room != nil {
			y.Solver.Room = append(slices.Clip(y.Solver.Room), 0)
		}
	}
	margin("value", a.Unit)
	if d.holds {
		margin("least time", "periods")
	}
	if d.Most > 0 {
		margin("changes", "periods")
	}
}

// begin writes the context of a switch before an episode.
func (d *switched) begin(c []float64) {
	c[d.Last] = d.initial
	for i := range d.Changes() {
		c[d.Ages+i] = float64(d.Saturation())
	}
}

// changeOf is 1 where the value is another one than before, else 0.
func changeOf[T any](a algebra[T], d *switched, c, u []T) T {
	return a.Min(a.Const(1), a.Mul(a.Abs(a.Sub(u[d.Action], c[d.Last])), a.Const(1/d.gap)))
}

// appendNext appends the context of a switch after an action, Last first.
func appendNext[T any](a algebra[T], d *switched, c, u, out []T) []T {
	change, one, younger := changeOf(a, d, c, u), a.Const(1), a.Const(0)
	out = append(out, u[d.Action])
	for i := range d.Changes() {
		age := c[d.Ages+i]
		older := a.Add(a.Add(one, age), a.Mul(change, a.Sub(younger, age)))
		out = append(out, a.Min(a.Const(float64(d.Saturation())), older))
		younger = age
	}
	return out
}

// appendMargins appends the margins of a switch.
func appendMargins[T any](a algebra[T], d *switched, c, u, out []T) []T {
	distanceOf := func(x T, v float64) T { return a.Abs(a.Sub(x, a.Const(v))) }
	distance := distanceOf(u[d.Action], d.Values[0])
	for _, v := range d.Values[1:] {
		distance = a.Min(distance, distanceOf(u[d.Action], v))
	}
	out = append(out, a.Sub(a.Const(0), distance))
	change := changeOf(a, d, c, u)
	if d.holds {
		least := a.Const(0)
		for i, v := range d.Values {
			indicator := a.Max(a.Const(0), a.Sub(a.Const(1), a.Mul(distanceOf(c[d.Last], v), a.Const(1/d.gap))))
			least = a.Add(least, a.Mul(indicator, a.Const(float64(d.Least[i]))))
		}
		out = append(out, a.Sub(c[d.Ages], a.Mul(least, change)))
	}
	if d.Most > 0 {
		out = append(out, a.Sub(c[d.Ages+d.Most-1], a.Mul(a.Const(float64(d.Window)), change)))
	}
	return out
}

// identities tell the switches apart, as text: JSON has no NaN.
func (k *switching) identities() (all []string) {
	for i := range k.switches {
		d := &k.switches[i]
		all = append(all, fmt.Sprintf("%+v %v %v %v", d.Switch, d.cost, d.objective, d.initial))
	}
	return all
}

// wrapFunctions gives y the functions with switches.
func (k *switching) wrapFunctions(y *System) {
	inner, nc := &k.inner.system, k.inner.spec.ContextSize()
	innerContext(y, inner, leading[float64](nc), leading[complex128](nc))
	y.Real, y.Dual = withSwitches(k, inner.Real, nc), withSwitches(k, inner.Dual, nc)
	y.Initial = func(p, s, c []float64) {
		inner.Initial(p, s, c[:nc])
		for i := range k.switches {
			k.switches[i].begin(c)
		}
	}
}

// withSwitches are the functions with switches in one type of number.
func withSwitches[T dual.Scalar](k *switching, inner Functions[T], nc int) Functions[T] {
	y := inner
	y.Step = func(s, c, u, sNext, cNext []T) {
		if inner.Step != nil {
			inner.Step(s, c[:nc], u, sNext, cNext[:nc])
		}
		for i := range k.switches {
			appendNext(numbers[T]{}, &k.switches[i], c, u, cNext[:k.switches[i].Last])
		}
	}
	y.Objectives = func(s, c, u, sNext, j []T) {
		inner.Objectives(s, c[:nc], u, sNext, j)
		for i := range k.switches {
			if d := &k.switches[i]; d.cost > 0 {
				j[d.objective] += dual.Const[T](d.cost) * changeOf(numbers[T]{}, d, c, u)
			}
		}
	}
	nm := len(k.inner.system.Margins)
	y.Margins = func(s, c, u, sNext, m []T) {
		if nm > 0 {
			inner.Margins(s, c[:nc], u, sNext, m[:nm])
		}
		for i := range k.switches {
			appendMargins(numbers[T]{}, &k.switches[i], c, u, m[:k.switches[i].firstMargin])
		}
	}
	return y
}

// read is the program of p: that of the inner system with switches.
func (k *switching) read(p *Problem) (*program.Program, error) {
	return p.rewriteProgram(k.inner, func(read *program.Program, g signature) *program.Function {
		f := read.Function(g.name)
		if f == nil && g.name != marginsFunction {
			return nil
		}
		inner := g.rewriting(f, k.inner.spec.ContextSize())
		b, a, results := inner.b, instructions{inner.b}, inner.results
		for i := range k.switches {
			d, c, u := &k.switches[i], inner.arguments["c"], inner.arguments["u"]
			switch g.name {
			case stepFunction:
				results = appendNext(a, d, c, u, results)
			case initialFunction:
				results = d.appendInitial(b, len(p.spec.Context), results)
			case objectivesFunction:
				if d.cost > 0 {
					results[d.objective] = a.Add(results[d.objective], a.Mul(b.Const(d.cost), changeOf(a, d, c, u)))
				}
			case marginsFunction:
				results = appendMargins(a, d, c, u, results)
			}
		}
		return b.Function(inner.out, results)
	})
}

// appendInitial appends what begin writes.
func (d *switched) appendInitial(b *program.Builder, size int, out []program.Value) []program.Value {
	c := make([]float64, size)
	d.begin(c)
	for _, v := range c[d.Last : d.Ages+d.Changes()] {
		out = append(out, b.Const(v))
	}
	return out
}

// outputs is the function of the inner system's Measurement with p's context.
func (k *switching) outputs(p *Problem, _ signature) (*program.Function, error) {
	return p.outputsOf(k.inner)
}

// fixSwitched leaves out of a direction at x = (s, c, u) what is no real number: actions of switches, and what was
// before.
func (p *Problem) fixSwitched(x, direction []float64) {
	if p.system.snapAction == nil {
		return
	}
	ns, nx := len(p.spec.Measured), len(p.spec.Measured)+len(p.spec.Context)
	u := perturbed(x[nx:], direction[nx:], 1)
	p.system.snapAction(u)
	for i, v := range u {
		if v != x[nx+i]+direction[nx+i] {
			direction[nx+i] = 0
		}
	}
	if k := p.switching; k != nil {
		clear(direction[ns+k.inner.spec.ContextSize() : nx])
	}
}
