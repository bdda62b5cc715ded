package matpower

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/grid/internal/unionfind"
)

// Error is a fault of a case and its line.
type Error struct {
	Name   string // the case or the file
	Line   int    // 1-based; 0 when the case was not read from a file
	Reason string
}

// Error is "NAME:LINE: reason".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Name, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Reason)
}

// Check says whether the case describes a network that can be computed on. Bus numbers are positive and unique; equipment
// is at buses that exist; numbers are numbers. No limits of voltages and angles in service contradict one another. A bus is
// a reference, and every island with load has one or a generator. Every generator has a cost, or none has; costs are
// complete. The error is an *Error.
func (c *Case) Check() error { return c.CheckFile(c.Name) }

// CheckFile is Check of a case that was read from a file, whose name errors have.
func (c *Case) CheckFile(name string) error { return c.check(name) }

// Contradiction names the first generator in service whose limits leave no value between them; nil for none. A power
// flow does not ask for limits.
func (c *Case) Contradiction() error {
	k := &checker{file: c.Name}
	for i, g := range c.Gen {
		if g.InService && (g.PMin > g.PMax || g.QMin > g.QMax) {
			k.limits(g.Line, c.owner(i), quantity{"Pmin", g.PMin}, quantity{"Pmax", g.PMax})
			k.limits(g.Line, c.owner(i), quantity{"Qmin", g.QMin}, quantity{"Qmax", g.QMax})
		}
	}
	return k.err
}

// owner names a row of Gen.
func (c *Case) owner(i int) string {
	g := c.Gen[i]
	if g.DCLine > 0 {
		return fmt.Sprintf("DC line %d, the end at bus %d", g.DCLine, g.Bus)
	}
	return fmt.Sprintf("generator %d at bus %d", i+1, g.Bus)
}

// checker keeps the first thing found wrong.
type checker struct {
	file string
	err  error
}

func (k *checker) fail(line int, format string, args ...any) {
	if k.err == nil {
		k.err = &Error{Name: k.file, Line: line, Reason: fmt.Sprintf(format, args...)}
	}
}

// quantity is a number with its name in the format.
type quantity struct {
	name  string
	value float64
}

func (k *checker) finite(line int, owner string, qs ...quantity) {
	for _, q := range qs {
		if math.IsNaN(q.value) || math.IsInf(q.value, 0) {
			k.fail(line, "%s: %s is %g: want a finite number", owner, q.name, q.value)
		}
	}
}

func (k *checker) notNaN(line int, owner string, qs ...quantity) {
	for _, q := range qs {
		if math.IsNaN(q.value) {
			k.fail(line, "%s: %s is NaN", owner, q.name)
		}
	}
}

// limits refuses a NaN and a lower limit above its upper one; infinite limits
// that leave room are none.
func (k *checker) limits(line int, owner string, lo, hi quantity) {
	k.notNaN(line, owner, lo, hi)
	if lo.value > hi.value || math.IsInf(lo.value, 1) || math.IsInf(hi.value, -1) {
		k.fail(line, "%s: %s = %g and %s = %g leave no value between them", owner, lo.name, lo.value, hi.name, hi.value)
	}
}

func (c *Case) check(file string) error {
	k := &checker{file: file}
	if !(c.BaseMVA > 0) || math.IsInf(c.BaseMVA, 1) {
		k.fail(0, "the MVA base is %g: want a positive number", c.BaseMVA)
	}
	index := k.buses(c)
	for i, d := range c.DCLine {
		owner := fmt.Sprintf("DC line %d", i+1)
		k.finite(d.Line, owner, quantity{"loss0", d.Loss0}, quantity{"loss1", d.Loss1})
		if d.Loss1 >= 1 {
			k.fail(d.Line, "%s: loss1 is %g: want less than 1", owner, d.Loss1)
		}
	}
	k.gens(c, index)
	k.branches(c, index)
	if k.err == nil {
		k.islands(c)
	}
	return k.err
}

func (k *checker) buses(c *Case) map[int]int {
	index := make(map[int]int, len(c.Bus))
	for i, b := range c.Bus {
		owner := fmt.Sprintf("bus %d", b.ID)
		if b.ID < 1 {
			k.fail(b.Line, "the bus number is %d: want 1 or more", b.ID)
		}
		if first, twice := index[b.ID]; twice {
			k.fail(b.Line, "%s is given a second time; it was on line %d already", owner, c.Bus[first].Line)
		}
		index[b.ID] = i
		if b.Type < PQ || b.Type > Isolated {
			k.fail(b.Line, "%s: the type is %d: want 1 (PQ), 2 (PV), 3 (reference) or 4 (isolated)", owner, b.Type)
		}
		k.finite(b.Line, owner, quantity{"Pd", b.Pd}, quantity{"Qd", b.Qd}, quantity{"Gs", b.Gs}, quantity{"Bs", b.Bs},
			quantity{"Vm", b.Vm}, quantity{"Va", b.Va}, quantity{"baseKV", b.BaseKV})
		if b.Type == Isolated {
			continue
		}
		k.limits(b.Line, owner, quantity{"Vmin", b.VMin}, quantity{"Vmax", b.VMax})
		if b.VMax <= 0 || b.VMin < 0 {
			k.fail(b.Line, "%s: the voltage limits are %g to %g pu: want positive ones", owner, b.VMin, b.VMax)
		}
		if b.Vm < 0 {
			k.fail(b.Line, "%s: the voltage Vm is %g pu: want a positive one, or 0 for none", owner, b.Vm)
		}
	}
	return index
}

func (k *checker) gens(c *Case, index map[int]int) {
	inService := 0
	for i, g := range c.Gen {
		owner := c.owner(i)
		bus, ok := index[g.Bus]
		if !ok && g.DCLine > 0 && !g.InService {
			continue
		}
		if !ok {
			k.fail(g.Line, "%s: there is no such bus", owner)
			continue
		}
		k.finite(g.Line, owner, quantity{"Pg", g.Pg}, quantity{"Qg", g.Qg})
		if g.InService && c.Bus[bus].Type != Isolated {
			if g.DCLine == 0 {
				inService++
			}
			k.notNaN(g.Line, owner, quantity{"Pmin", g.PMin}, quantity{"Pmax", g.PMax}, quantity{"Qmin", g.QMin}, quantity{"Qmax", g.QMax})
			k.notNaN(g.Line, owner, quantity{"Pc1", g.Pc1}, quantity{"Pc2", g.Pc2}, quantity{"Qc1min", g.Qc1Min}, quantity{"Qc1max", g.Qc1Max}, quantity{"Qc2min", g.Qc2Min}, quantity{"Qc2max", g.Qc2Max})
			if !(g.Ramp10 >= 0) {
				k.fail(g.Line, "%s: the ten-minute ramp is %g MW: want 0 (none) or more", owner, g.Ramp10)
			}
			if !(g.Vg > 0 || g.Vg == 0 && g.DCLine > 0) || math.IsInf(g.Vg, 1) {
				k.fail(g.Line, "%s: the voltage set-point Vg is %g pu: want a positive one", owner, g.Vg)
			}
		}
		if c.HasCost {
			k.cost(c, i, "cost", g.Cost)
		}
		if c.HasReactiveCost {
			k.cost(c, i, "reactive power cost", g.ReactiveCost)
		}
	}
	if inService == 0 {
		line := 0
		if len(c.Gen) > 0 {
			line = c.Gen[0].Line
		}
		k.fail(line, "no generator is in service")
	}
}

func (k *checker) cost(c *Case, gen int, kind string, cost Cost) {
	owner := kind + " of " + c.owner(gen)
	line := cmp.Or(cost.Line, c.Gen[gen].Line)
	switch cost.Model {
	case Polynomial:
		for _, a := range cost.Coefficients {
			k.finite(line, owner, quantity{"a coefficient", a})
		}
	case PiecewiseLinear:
		if len(cost.Points) < 2 {
			k.fail(line, "%s: %d point: a piecewise linear cost has two or more", owner, len(cost.Points))
		}
		for i, p := range cost.Points {
			k.finite(line, owner, quantity{"a power", p.Power}, quantity{"a cost", p.Cost})
			if i > 0 && p.Power <= cost.Points[i-1].Power {
				k.fail(line, "%s: the powers of its points do not increase: %g after %g", owner, p.Power, cost.Points[i-1].Power)
			}
		}
	default:
		k.fail(line, "%s: there is none", owner)
	}
}

func (k *checker) branches(c *Case, index map[int]int) {
	for i, br := range c.Branch {
		owner := fmt.Sprintf("branch %d from bus %d to bus %d", i+1, br.From, br.To)
		for _, end := range []int{br.From, br.To} {
			if _, ok := index[end]; !ok {
				k.fail(br.Line, "%s: there is no bus %d", owner, end)
			}
		}
		k.finite(br.Line, owner, quantity{"r", br.R}, quantity{"x", br.X}, quantity{"b", br.B},
			quantity{"the tap ratio", br.Tap}, quantity{"the phase shift", br.ShiftDeg})
		if !br.InService {
			continue
		}
		if br.R == 0 && br.X == 0 && (br.Tap != 0 && br.Tap != 1 || br.ShiftDeg != 0) {
			k.fail(br.Line, "%s: r and x are both 0: a transformer needs an impedance", owner)
		}
		if br.From == br.To {
			k.fail(br.Line, "%s: it joins a bus to itself", owner)
		}
		if br.Tap < 0 {
			k.fail(br.Line, "%s: the tap ratio is %g: want 0 (none) or more", owner, br.Tap)
		}
		if !(br.RateA >= 0) {
			k.fail(br.Line, "%s: the rating is %g MVA: want 0 (none) or more", owner, br.RateA)
		}
		k.limits(br.Line, owner, quantity{"angmin", br.AngMin}, quantity{"angmax", br.AngMax})
	}
}

// islands refuses a case without a reference bus, and load that neither a reference nor a generator can supply.
func (k *checker) islands(c *Case) {
	any := false
	for i, t := range c.Types() {
		b := c.Bus[i]
		any = any || b.Type == Reference
		if t == Isolated && b.Type != Isolated && (b.Pd != 0 || b.Qd != 0) {
			k.fail(b.Line, "bus %d has load, and no branch in service leads from it to a reference bus (type 3) or a generator in service; a bus that is not connected is of type 4", b.ID)
		}
	}
	if !any {
		k.err = nil
		line := 0
		if len(c.Bus) > 0 {
			line = c.Bus[0].Line
		}
		k.fail(line, "no bus is a reference bus (type 3)")
	}
}

// Types are the types of the buses in a network: those of the rows. An island without a reference bus has one, though: the
// bus whose generators in service have the most Pmax. Without any its buses are isolated. Row numbers and equipment are
// those of a case that Check takes.
func (c *Case) Types() []BusType {
	index := make(map[int]int, len(c.Bus))
	types, power := make([]BusType, len(c.Bus)), make([]float64, len(c.Bus))
	for i, b := range c.Bus {
		index[b.ID], types[i] = i, b.Type
		power[i] = math.Inf(-1)
	}
	for _, g := range c.Gen {
		if i := index[g.Bus]; g.InService && g.DCLine == 0 {
			power[i] = max(power[i], 0) + max(g.PMax, 0)
		}
	}
	parts := unionfind.New(len(c.Bus))
	for _, br := range c.Branch {
		f, t := index[br.From], index[br.To]
		if br.InService && types[f] != Isolated && types[t] != Isolated {
			parts.Join(f, t)
		}
	}
	balance := map[int]int{} // by part: a bus that balances it
	for i, t := range types {
		if t == Isolated {
			continue
		}
		best, ok := balance[parts.Root(i)]
		if t == Reference || (!ok || types[best] != Reference && power[i] > power[best]) && power[i] >= 0 {
			balance[parts.Root(i)] = i
		}
	}
	for i, t := range types {
		if best, ok := balance[parts.Root(i)]; !ok {
			types[i] = Isolated
		} else if i == best && t != Isolated {
			types[i] = Reference
		}
	}
	return types
}
