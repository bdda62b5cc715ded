package acopf

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/grid/network"
)

// Status says how a solve ended.
type Status int

// Everything but Optimal leaves a Result whose point must not be used.
const (
	NotSolved      Status = iota // not attempted, or interrupted
	Optimal                      // the KKT conditions hold within the tolerances
	Infeasible                   // limits contradict one another, or the balance residual has a local minimum above zero
	IterationLimit               // neither of these within Options.MaxIterations
	Numerical                    // the KKT system could not be solved to a usable direction
)

func (s Status) String() string {
	return [...]string{"not solved", "optimal", "infeasible", "iteration limit", "numerical"}[s]
}

// Objective is the objective of a Problem: the file's cost, or the weighted sum
//
//	Σ_m Weights[m]·(J_m − Ideal[m])/(Nadir[m] − Ideal[m])
//
// of the paper's three objectives: J₁ = Σ max(0, |S_f|/S^max − 0.85)⁴ over the
// from ends of branches with a limit, J₂ = Σ max(0, |V − 1| − 0.05)² over buses,
// J₃ the file's cost in $/h.
type Objective struct {
	// Weights are nonnegative; all zero is the file's cost.
	Weights [3]float64
	// Ideal and Nadir scale the objectives; all zero leaves them as they are.
	Ideal, Nadir [3]float64
}

// FileCost reports whether the file's cost alone is minimised.
func (o Objective) FileCost() bool { return o.Weights == [3]float64{} }

func (o Objective) validate() error {
	for m, w := range o.Weights {
		if !(w >= 0) || math.IsInf(w, 1) {
			return fmt.Errorf("weight %d is %g: want a finite number, not negative", m+1, w)
		}
	}
	if o.FileCost() || o.Ideal == [3]float64{} && o.Nadir == [3]float64{} {
		return nil
	}
	for m := range o.Ideal {
		if d := o.Nadir[m] - o.Ideal[m]; !(d > 0) || math.IsInf(d, 1) || math.IsNaN(o.Ideal[m]) {
			return fmt.Errorf("objective %d has ideal %g and nadir %g: want nadir above ideal", m+1, o.Ideal[m], o.Nadir[m])
		}
	}
	return nil
}

// coefficients are the factors of J₁, J₂, J₃ in the objective, and its constant.
func (o Objective) coefficients() (c [3]float64, constant float64) {
	if o.FileCost() {
		return [3]float64{0, 0, 1}, 0
	}
	for m, w := range o.Weights {
		scale := 1.0
		if o.Ideal != [3]float64{} || o.Nadir != [3]float64{} {
			scale = 1 / (o.Nadir[m] - o.Ideal[m])
		}
		c[m] = w * scale
		constant -= c[m] * o.Ideal[m]
	}
	return c, constant
}

// Value is the objective at J.
func (o Objective) Value(j [3]float64) float64 {
	c, v := o.coefficients()
	for m := range j {
		v += c[m] * j[m]
	}
	return v
}

// Tightening is the interior tightening η of the paper, pu, by kind of limit:
// how far inside the network's limits the solution has to stay.
type Tightening struct {
	VLoad float64 // |V| at buses without a generator
	VGen  float64 // |V| at buses with one
	P     float64 // active power of generators
	Q     float64 // reactive power of generators, see Reactive
	S     float64 // |S| of branches, both ends
	Angle float64 // angle differences of branches, rad
}

// Reactive is the tightening of a generator's reactive limits [lo, hi], pu: Q, but at
// most a quarter of their width, because units with hardly any reactive power are
// common and would have no optimum at all.
func (t Tightening) Reactive(lo, hi float64) float64 { return min(t.Q, (hi-lo)/4) }

// Out lists what is out of service in a problem: branches carry nothing, units generate nothing and cost nothing.
// The solver's analysis stays valid, so that problems with different outages are solved together. Outages that leave
// load without a source leave no optimum.
type Out struct {
	Branches, Units []int // numbers in the network
}

// Problem is one scenario on a solver's network. Slices are read during the
// solve and not kept; nil slices stand for the network's own data. Powers are pu.
type Problem struct {
	Pd, Qd    []float64 // load, one a bus
	Objective Objective
	// BranchFactors multiply the branches' series admittances, one a branch; see
	// network.ScaleBranches.
	BranchFactors []float64
	// Previous is the active power before the ramp, one a generator, slack units included; nil for no ramp limits.
	// |P − Previous| ≤ Ramp holds together with the generators' own limits.
	Previous, Ramp []float64
	Tightening     Tightening
	// Out is what is out of service.
	Out Out
	// Start is the result of a warm start; nil is the flat start. It must be Optimal and of the same solver, and is
	// read when the solve starts. A NotSolved one without Multipliers is a point: voltages and generation.
	Start *Result
	// Feasible starts the flat start with the feasibility phase: another way to an optimum, and, where there are
	// several, to another one.
	Feasible  bool
	penalties []float64 // of each soft limit; nil for a solver without them
	// Limit, if it is not 0, ends the solve after that many iterations, with IterationLimit and the last point. No
	// other attempt follows.
	Limit int
}

// KKT are the residuals of the optimality conditions at a result, as MATPOWER's
// MIPS defines them, with g the balances, h ≤ 0 the limits with slacks s and
// multipliers z, λ the multipliers of g, and L the Lagrangian:
//
//	Feasibility     max(‖g‖∞, max h) / (1 + max(‖x‖∞, ‖s‖∞))     feascond
//	Gradient        ‖∇L‖∞ / (1 + max(‖λ‖∞, ‖z‖∞))                gradcond
//	Complementarity sᵀz / (1 + ‖x‖∞)                              compcond
//	Cost            |f − f₋₁| / (1 + |f₋₁|) over the last step    costcond
//
// The objective in them is the one that the solver scales to have a gradient of
// order one. Mismatch is ‖g‖∞ in pu as it is, Violation max(0, max h).
type KKT struct {
	Feasibility, Gradient, Complementarity, Cost float64
	Mismatch, Violation                          float64
}

// Max is the largest of the four conditions.
func (k KKT) Max() float64 {
	return max(k.Feasibility, k.Gradient, k.Complementarity, k.Cost)
}

// Result is the end of one solve. Solve reuses the slices of a Result that it is
// given when they are long enough. The slices are empty where limits contradict one
// another before any iteration, and where the status is Numerical.
type Result struct {
	Status     Status
	Iterations int // interior-point iterations, those of a feasibility phase included
	// Objective is the Problem's objective at J; J the raw J₁, J₂, J₃.
	Objective float64
	J         [3]float64
	Vm, Va    []float64 // one a bus, pu and rad
	Pg, Qg    []float64 // one a generator, pu
	// LambdaP and LambdaQ are the derivatives of the objective by the load of each
	// bus, per pu.
	LambdaP, LambdaQ []float64
	// Multipliers of the limits, per pu (of |S|² per pu²). Their order is V lower, V upper (a bus each); P and Q
	// lower, P and Q upper (generators with such a limit); |S|² from, |S|² to (branches with a limit); angle
	// differences lower and upper; segments of piecewise linear costs; sides of capability curves.
	Multipliers   []float64
	KKT           KKT
	Settings      []float64 // of Options.Ranges
	objective     Objective // of the problem
	restoring     bool      // it ended in the feasibility phase
	elasticSlacks []float64 // of each soft limit
}

// Reason says in a sentence why there is no optimum; "" where there is one.
func (r *Result) Reason() string {
	switch {
	case r.Status == Optimal:
		return ""
	case r.Status == NotSolved:
		return "the solve was interrupted or has not begun"
	case r.Status == Numerical:
		return fmt.Sprintf("after %d iterations from every start a direction was not finite", r.Iterations)
	case len(r.Vm) == 0:
		return "a lower limit lies above its upper one, tightening and ramps included"
	case r.Status == Infeasible:
		return fmt.Sprintf("a balance is off by %.2g pu at the best point that was found within the limits: a local minimum of the squared mismatch", r.KKT.Mismatch)
	case r.restoring:
		return fmt.Sprintf("after %d iterations no point that keeps balances and limits was found, nor that there is none: the last has a balance off by %.2g pu and a limit by %.2g", r.Iterations, r.KKT.Mismatch, r.KKT.Violation)
	}
	return fmt.Sprintf("after %d iterations the conditions of an optimum are not met: balances to %.2g pu, limits to %.2g, the gradient to %.2g and the duality gap to %.2g of what they are measured by",
		r.Iterations, r.KKT.Mismatch, r.KKT.Violation, r.KKT.Gradient, r.KKT.Complementarity)
}

// Options of New. The zero value is the default throughout.
type Options struct {
	// MaxIterations bounds one attempt, its feasibility phase included; 0 is 150. A failed attempt is followed by
	// the next start: warm, flat, the file's voltages and generation, the nearest feasible point.
	MaxIterations int
	// Threads of Solve; 0 is GOMAXPROCS.
	Threads int
	// Feasibility is the largest balance residual and limit violation of an optimal
	// result, pu; 0 is 1e-9. Where a branch has next to no impedance it is at least what
	// rounding leaves (network.Rounding).
	Feasibility float64
	// Optimality bounds the scaled gradient and the duality gap relative to the
	// objective; 0 is 1e-8. If rounding prevents that for nine iterations after the four conditions of KKT were
	// within 1e-6, a point within 1e-6 and Feasibility is optimal too.
	Optimality float64
	// CurrentLimits takes a branch's rating as one of |I| at 1 pu instead of |S|: |S| ≤ rate·|V| at both ends. It
	// excludes the thermal objective J₁.
	CurrentLimits bool
	// Ranges are settings that are variables: taps, phase shifts, shunts. They exclude CurrentLimits.
	Ranges []Range
	// Dispatchable says which units with PMin < 0 = PMax keep a constant power factor.
	Dispatchable network.Dispatchable
	// Trace, if not nil, is called with every iterate of every problem, from the goroutines that
	// solve them.
	Trace func(Iterate)
	soft  bool // limits are soft, at Problem.penalties
}

// MaxIterations is the most that may be asked for.
const MaxIterations = 10_000

// Validate checks the options.
func (o Options) Validate() error {
	if o.MaxIterations < 0 || o.MaxIterations > MaxIterations || o.Threads < 0 {
		return fmt.Errorf("acopf: MaxIterations %d and Threads %d: want 0 to %d, and 0 or more", o.MaxIterations, o.Threads, MaxIterations)
	}
	if o.Dispatchable < network.DispatchableByFile || o.Dispatchable > network.DispatchablePlain {
		return fmt.Errorf("acopf: Dispatchable %d: want one of the constants of package network", int(o.Dispatchable))
	}
	for _, t := range []struct {
		name string
		v    float64
	}{{"Feasibility", o.Feasibility}, {"Optimality", o.Optimality}} {
		if !(t.v == 0 || t.v >= 1e-12 && t.v <= 1e-3) {
			return fmt.Errorf("acopf: %s %g: want 0 or 1e-12 to 1e-3", t.name, t.v)
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.MaxIterations = cmp.Or(o.MaxIterations, 150)
	o.Feasibility = cmp.Or(o.Feasibility, 1e-9)
	o.Optimality = cmp.Or(o.Optimality, 1e-8)
	return o
}
