package equations

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
)

// maxCombinations bounds the sets of values of all switches whose functions a relaxed system mixes.
const maxCombinations = 32

// Sizes of the networks of a map of whole plans, where the system says none.
const planHidden, planLatent = 128, 16

// shareSystem makes a system smooth by outer convexification (Sager, 2009). The action of a switch is the share of a
// period that each of its values has. Dynamics, objectives and margins are the means over the values by their shares. Where the switches have more than maxCombinations sets of values together, the action is the mean of the
// values instead. What was before stays as it is.
//
// A switch of n values has n − 1 shares, those of the values after the first.
type shareSystem struct {
	*switching
	shares       []int // of each action of the inner system: its first share's entry, or its own entry without a switch
	size         int   // of the action
	combinations [][]uint8
}

// relaxed is the system of the shares; plan is the number of actions of its decoded plans.
func (p *Problem) relaxed(plan int) (*Problem, error) {
	k := &shareSystem{switching: p.switching, combinations: [][]uint8{nil}}
	y := p.system // for the context
	inner := &p.switching.inner.system
	y.Action, y.Rest = nil, nil
	y.Margins, y.Solver = slices.Clip(slices.Clone(inner.Margins)), inner.Solver
	owner := map[int]*switched{}
	sets := 1
	for i := range k.switches {
		owner[k.switches[i].Action] = &k.switches[i]
		sets *= len(k.switches[i].Values)
	}
	for i, a := range inner.Action {
		d := owner[i]
		k.shares = append(k.shares, len(y.Action))
		if d == nil {
			y.Action, y.Rest = append(y.Action, a), append(y.Rest, inner.Rest[i])
			continue
		}
		rest := d.Nearest(inner.Rest[i])
		for v, value := range d.Values[1:] {
			name := a.Name
			if len(d.Values) > 2 {
				name = fmt.Sprintf("%s %v", a.Name, value)
			}
			y.Action, y.Rest = append(y.Action, domain.Variable{Name: name, Unit: "1", Hi: 1}), append(y.Rest, truth(rest == v+1))
		}
		if len(d.Values) > 2 {
			y.Margins = append(y.Margins, domain.Variable{Name: a.Name + " shares", Unit: "1"})
			if y.Solver.Room != nil {
				y.Solver.Room = append(slices.Clip(y.Solver.Room), 0)
			}
		}
	}
	k.size = len(y.Action)
	if sets > maxCombinations {
		k.combinations = nil
	} else {
		for i := range k.switches {
			var longer [][]uint8
			for _, c := range k.combinations {
				for v := range k.switches[i].Values {
					longer = append(longer, append(slices.Clone(c), uint8(v)))
				}
			}
			k.combinations = longer
		}
	}
	y.Constants = struct {
		Inner  any `json:"own"`
		Shares int `json:"shares"`
	}{y.Constants, k.size}
	y.snapAction, y.plan, y.unchecked = k.drawShares, plan, true
	y.Blocks, y.Switches, y.Measurement, y.Delay = nil, nil, nil, 0
	if plan > 1 { // a map of whole plans, which depend on what was before as well
		fill(&y.Training.Hidden, planHidden)
		fill(&y.Training.Latent, planLatent)
	}
	if y.Source != nil {
		y.Source = &Source{k}
	}
	y.Real, y.Dual = relaxedFunctions(k, inner.Real), relaxedFunctions(k, inner.Dual)
	if ode := inner.ODE; ode != nil {
		y.ODE = ode.With(mean3(k, ode.Real), mean3(k, ode.Dual))
	}
	if stiff := inner.Stiff; stiff != nil {
		y.Stiff = stiff.With(mean3(k, stiff.ODE))
	}
	relaxed, err := New(y)
	if err == nil {
		relaxed.relaxation = k
	}
	return relaxed, err
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// drawShares scales shares down whose sum is above 1.
func (k *shareSystem) drawShares(u []float64) {
	for i := range k.switches {
		d := &k.switches[i]
		shares := u[k.shares[d.Action]:][:len(d.Values)-1]
		sum := 0.0
		for _, v := range shares {
			sum += v
		}
		if sum > 1 {
			for j := range shares {
				shares[j] /= sum
			}
		}
	}
}

// mix calls f with the action of each set of values and its weight.
func mix[T any](k *shareSystem, a algebra[T], shares []T, f func(weight T, u []T)) {
	u := make([]T, len(k.shares))
	sharesOf := func(d *switched) []T { return shares[k.shares[d.Action]:][:len(d.Values)-1] }
	for i, entry := range k.shares {
		if entry < len(shares) {
			u[i] = shares[entry]
		}
	}
	if k.combinations == nil {
		for i := range k.switches {
			d := &k.switches[i]
			u[d.Action] = a.Const(d.Values[0])
			for v, share := range sharesOf(d) {
				u[d.Action] = a.Add(u[d.Action], a.Mul(share, a.Const(d.Values[v+1]-d.Values[0])))
			}
		}
		f(a.Const(1), u)
		return
	}
	for _, c := range k.combinations {
		weight := a.Const(1)
		for i := range k.switches {
			d := &k.switches[i]
			u[d.Action] = a.Const(d.Values[c[i]])
			share := a.Const(1)
			if list := sharesOf(d); c[i] > 0 {
				share = list[c[i]-1]
			} else {
				for _, s := range list {
					share = a.Sub(share, s)
				}
			}
			weight = a.Mul(weight, share)
		}
		f(weight, u)
	}
}

// mean writes the mean of what f writes for the sets of values.
func mean[T dual.Scalar](k *shareSystem, shares, out []T, f func(u, out []T)) {
	sum, one := make([]T, len(out)), make([]T, len(out))
	mix(k, numbers[T]{}, shares, func(weight T, u []T) {
		copy(one, out)
		f(u, one)
		for i, v := range one {
			sum[i] += weight * v
		}
	})
	copy(out, sum)
}

// mean3 is the mean of a function of state, context and action, which gets the inner context.
func mean3[T dual.Scalar](k *shareSystem, f func(s, c, u, out []T)) func(s, c, u, out []T) {
	nc := k.inner.spec.ContextSize()
	return func(s, c, shares, out []T) {
		mean(k, shares, out, func(u, out []T) { f(s, c[:nc], u, out) })
	}
}

func relaxedFunctions[T dual.Scalar](k *shareSystem, inner Functions[T]) Functions[T] {
	nc, ns := k.inner.spec.ContextSize(), len(k.inner.spec.Measured)
	integrated := k.inner.system.ODE != nil || k.inner.system.Stiff != nil
	y := Functions[T]{
		Step: func(s, c, shares, sNext, cNext []T) {
			if inner.Step == nil {
				return
			}
			if integrated {
				mean(k, shares, cNext[:nc], func(u, out []T) { inner.Step(s, c[:nc], u, sNext, out) })
				return
			}
			joined := append(make([]T, ns, ns+nc), c[:nc]...)
			mean(k, shares, joined, func(u, out []T) { inner.Step(s, c[:nc], u, out[:ns], out[ns:]) })
			copy(sNext, joined)
			copy(cNext[:nc], joined[ns:])
		},
		Objectives: func(s, c, shares, sNext, j []T) {
			mean(k, shares, j, func(u, out []T) { inner.Objectives(s, c[:nc], u, sNext, out) })
		},
	}
	nm := len(k.inner.system.Margins)
	if nm > 0 || k.summed() {
		y.Margins = func(s, c, shares, sNext, m []T) {
			if nm > 0 {
				mean(k, shares, m[:nm], func(u, out []T) { inner.Margins(s, c[:nc], u, sNext, out) })
			}
			next := nm
			for i := range k.switches {
				if d := &k.switches[i]; len(d.Values) > 2 {
					m[next] = dual.Const[T](1)
					for _, share := range shares[k.shares[d.Action]:][:len(d.Values)-1] {
						m[next] -= share
					}
					next++
				}
			}
		}
	}
	return y
}

// summed reports whether a switch has shares that are limited together.
func (k *shareSystem) summed() bool {
	return slices.ContainsFunc(k.switches, func(d switched) bool { return len(d.Values) > 2 })
}

// read is the program of the relaxed problem p.
func (k *shareSystem) read(p *Problem) (*program.Program, error) {
	return p.rewriteProgram(k.inner, func(read *program.Program, g signature) *program.Function {
		f := read.Function(g.name)
		if f == nil && (g.name != marginsFunction || !k.summed()) {
			return nil
		}
		w := g.rewriting(nil, k.inner.spec.ContextSize())
		b, arguments, results := w.b, w.arguments, w.results
		if shares, mixed := arguments["u"]; f != nil && !mixed {
			results = slices.Clone(b.Inline(f, w.inputs))
		} else if f != nil {
			mix(k, instructions{b}, shares, func(weight program.Value, u []program.Value) {
				one := b.Inline(f, slices.Concat(w.inputs[:w.action], u, w.inputs[w.action+len(shares):]))
				if results == nil {
					results = make([]program.Value, len(one))
					for i := range results {
						results[i] = b.Const(0)
					}
				}
				for i, v := range one {
					results[i] = b.Apply(program.Add, results[i], b.Apply(program.Mul, weight, v))
				}
			})
		}
		for i := range k.switches {
			d := &k.switches[i]
			switch g.name {
			case stepFunction:
				results = append(results, arguments["c"][d.Last:d.Ages+d.Changes()]...)
			case initialFunction:
				results = d.appendInitial(b, len(p.spec.Context), results)
			case marginsFunction:
				if len(d.Values) == 2 {
					continue
				}
				remainder := b.Const(1)
				for _, share := range arguments["u"][k.shares[d.Action]:][:len(d.Values)-1] {
					remainder = b.Apply(program.Sub, remainder, share)
				}
				results = append(results, remainder)
			}
		}
		return b.Function(w.out, results)
	})
}

// share writes the shares of an action of the system into one of the relaxed problem.
func (k *shareSystem) share(u, shares []float64) {
	for i, entry := range k.shares {
		if entry < len(shares) {
			shares[entry] = u[i]
		}
	}
	for i := range k.switches {
		d := &k.switches[i]
		list := shares[k.shares[d.Action]:][:len(d.Values)-1]
		clear(list)
		if v := d.Nearest(u[d.Action]); v > 0 {
			list[v-1] = 1
		}
	}
}
