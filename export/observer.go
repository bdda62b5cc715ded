package export

import (
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/tensor"
)

// Observed are the options of a controller that decides by what its plant shows, or late: its estimator and the prediction along
// the actions under way.
type Observed struct {
	Measurement *domain.Measurement // nil: the state is measured, exactly
	// Of a Measurement: Outputs writes y from (s, c, u), as the Measurement's Real does; Filter is the estimator that was driven.
	Outputs *program.Function
	Filter  *estimate.Filter
	// Level, of a Measurement, is how many standard deviations of the closed loop are kept off every margin (estimate.Margin); 0: none.
	Level float64
	// Foreseen are the entries of the context that the limits depend on and that are not estimated (estimate.Margin.Foreseen).
	Foreseen []int
	// Delay is that of the case, Part the integration of its equations over a share of their span.
	Delay domain.Delay
	// Replay, of a Measurement, is an episode with faults of its sensors, for the written test.
	Replay []Replayed
}

// Observable is implemented by an Equated problem that knows what a Measurement measures as a function, such as equations.Problem.
type Observable interface {
	Equated
	Outputs(measurement *domain.Measurement) (*program.Function, error)
}

// Replayed is a decision as this module has made it.
type Replayed struct {
	Y, C   []float64 // given; NaN is missing
	Faults []estimate.Fault
	S, U   []float64 // the state that it was made for, and the action
}

// observer is what the templates read of it.
type observer struct {
	Filtered            bool
	NY, Size            int
	Outputs             []domain.Variable
	Deviation           []float64
	Mean, Spread, Noise []float64 // of each estimated entry
	Unknown             []int     // entries of the context
	Lo, Hi              []float64
	Periods, Share      float64
	Ahead               int
	Into, Remainder     []float64 // substeps to where a measurement is made, and from there, as whole_period in system.c
	Gate                float64
	Persistent, Still   int
	Replay              []Replayed
	Disturbed           bool
	Level               float64
	Foreseen            []int
	StateHalf           []float64 // of the states and of the actions, which weigh the feedback
	ActionHalf          []float64
	outputs             *program.Function
}

// observe completes a controller by what comes before it.
func (w *whole) observe(observed *Observed) error {
	if observed == nil {
		return nil
	}
	o := &observer{
		NY: w.NS, Outputs: w.Spec.Measured, Periods: observed.Delay.Periods, Share: observed.Delay.Share(), Ahead: observed.Delay.Ahead(),
		Gate: estimate.Gate, Persistent: estimate.Persistent, Still: estimate.Still, Replay: observed.Replay,
	}
	switch {
	case o.Share > 0 && w.Y.Integrator == program.NoIntegrator:
		return fmt.Errorf("export: a delay of %g periods, and the equations of case %s say nothing of the state within a period", o.Periods, w.Spec.Name)
	case o.Ahead >= w.Spec.Steps:
		return fmt.Errorf("export: a delay of %g periods in episodes of %d decisions", o.Periods, w.Spec.Steps)
	}
	period := func(share float64) []float64 {
		h := share * w.Y.Span / float64(w.Y.Substeps)
		return []float64{h, h / 2, h / 6}
	}
	o.Into, o.Remainder = period(o.Share), period(1-o.Share)
	if m := observed.Measurement; m != nil {
		if observed.Outputs == nil || observed.Filter == nil {
			return errors.New("export: a Measurement without its function and its filter")
		}
		if n := w.NS + w.NC + w.NU; observed.Outputs.Entries() != n || observed.Outputs.Results() != len(m.Outputs) {
			return fmt.Errorf("export: what is measured of case %s is a function of %d numbers that writes %d, want %d and %d",
				w.Spec.Name, observed.Outputs.Entries(), observed.Outputs.Results(), n, len(m.Outputs))
		}
		o.Filtered, o.NY, o.Size = true, len(m.Outputs), observed.Filter.Size()
		o.Outputs, o.Deviation, o.outputs = m.Outputs, m.Deviation, observed.Outputs
		o.Mean, o.Spread = observed.Filter.Prior()
		o.Noise = observed.Filter.Process()
		for _, p := range m.Unknown {
			o.Unknown, o.Lo, o.Hi = append(o.Unknown, p.Context), append(o.Lo, p.Lo), append(o.Hi, p.Hi)
		}
		o.keepOff(observed, w.Spec)
		for i := range w.Episodes {
			o.Disturbed = o.Disturbed || len(w.Episodes[i].Acts) > 0
		}
	}
	w.Observer = o
	return nil
}

// keepOff completes it by what is kept off the limits.
func (o *observer) keepOff(observed *Observed, spec *domain.Spec) {
	o.Level, o.Foreseen = observed.Level, observed.Foreseen
	for _, v := range spec.Measured {
		o.StateHalf = append(o.StateHalf, v.Scale()/2)
	}
	for _, v := range spec.Action {
		o.ActionHalf = append(o.ActionHalf, v.Scale()/2)
	}
}

// Questions of the templates.
func (w *whole) Filtered() bool { return w.Observer != nil && w.Observer.Filtered }
func (w *whole) Fraction() bool { return w.Observer != nil && w.Observer.Share > 0 }

// KeepsOff reports whether something is kept off the limits.
func (w *whole) KeepsOff() bool { return w.NM > 0 && w.Observer != nil && w.Observer.Level > 0 }

// Acted reports whether something acts on a state, from which more is kept off.
func (w *whole) Acted() bool { return !tensor.AllZero(w.Observer.Noise[:w.NS]) }

// Follows reports whether a map goes on with the plan before while that keeps the limits, Rounded is how far the context may be from what the
// plan has foreseen.
func (w *whole) Follows() bool    { return w.KeepsOff() && w.Solver == nil && w.Spec.Horizon == 0 }
func (w *whole) Rounded() float64 { return estimate.Rounded }

// TakesKept, GivesKept, Margins and Onto are the parameter of functions in C that keep something off, its argument, and the beginnings of
// calls; without it they are of the limits as they are.
func (w *whole) TakesKept() string { return w.chooseText("const double (*kept)[ALL], ", "") }
func (w *whole) GivesKept() string { return w.chooseText("kept, ", "") }
func (w *whole) Margins() string {
	return w.chooseText("kept_margins(kept, ", "gpc_"+w.Symbol+"_margins(")
}
func (w *whole) Onto() string { return w.chooseText("onto(kept, ", "gpc_"+w.Symbol+"_onto_margins(") }

func (w *whole) chooseText(tightening, plain string) string {
	if w.KeepsOff() {
		return tightening
	}
	return plain
}

// Settling is how often a first decision is made, KeptStages how many stages of an episode keep off differently, Steered how many numbers
// a derivative of a stage is by.
func (w *whole) Settling() int { return estimate.Settling }
func (w *whole) MostVain() int { return estimate.MostVain }
func (w *whole) Steered() int  { return w.Observer.Size + w.NU }
func (w *whole) KeptStages() int {
	if w.Spec.Horizon > 0 {
		return 1
	}
	return w.Spec.Steps
}

// KeptBytes is the static memory of what a decision finds to keep off; what follows a plan has it in the memory of its loop.
func (w *whole) KeptBytes() int {
	if !w.KeepsOff() || w.Follows() {
		return 0
	}
	return w.stageBytes()
}

// stageBytes is the memory of a plan's stages, and of what is under way before them.
func (w *whole) stageBytes() int {
	n := w.Observer.Size
	plan, derivatives, result := w.NS+max(1, w.NC)+w.NU+w.NU*w.NS, n*w.Steered(), w.All
	if w.Follows() {
		result += w.All + (n*(n+w.All)+1)/2 // the latter of float
	}
	if w.InPlace() {
		plan += max(derivatives, result)
	} else {
		plan += derivatives + result
	}
	return 8 * (w.Observer.Ahead + w.Spec.LookAhead()) * plan
}

// InPlace reports whether what is found of a stage stands where the derivatives of its step stood: without actions under way nothing reads
// these again.
func (w *whole) InPlace() bool { return w.Observer.Ahead == 0 }

// directional is what the template of derivatives reads: C's type of a number's derivatives, how many there are, and what the names of its
// functions end in.
type directional struct {
	*whole
	Type, Wide, Suffix string
}

// Along are derivatives by the action, AlongEstimated those by what is estimated.
func (w *whole) Along() directional { return directional{w, "along", "NU", ""} }
func (w *whole) AlongEstimated() directional {
	return directional{w, "estimated", "ESTIMATED", "_estimated"}
}

// AlongSteered are derivatives by that and by the action.
func (w *whole) AlongSteered() directional { return directional{w, "steered", "STEERED", "_steered"} }

// ObserverBytes are the memory of one loop besides the controller's, where an int takes 4 bytes.
func (w *whole) ObserverBytes() int {
	o := w.Observer
	bytes := 8*(w.NS+max(1, w.NC)+w.NU*(1+o.Ahead)) + 2*4
	if o.Filtered {
		bytes += 4*3*o.NY + 8*(2*o.NY+o.Size+o.Size*o.Size+max(1, w.NC)+w.NU)
		bytes += bytes % 8
	}
	if w.KeepsOff() {
		bytes += 2*4 + 8*(w.KeptStages()*w.All+w.Spec.LookAhead()*w.NU)
		if w.Solver == nil {
			bytes += 2 * 4
		}
		if w.Follows() {
			bytes += 2*4 + w.stageBytes()
		}
	}
	return bytes
}

// ObserverOperations bound the arithmetic operations that a decision takes before the controller's.
func (w *whole) ObserverOperations() int {
	o, n := w.Observer, w.Observer.Size
	step := w.step()
	total := o.Ahead * step
	if w.Fraction() {
		total += step
	}
	if !o.Filtered {
		return total
	}
	moves := 1
	if w.Fraction() {
		moves = 3 // the whole step, for the context, and two parts
	}
	root := 4*n*n*n + 16*n*n // Householder's
	total += moves*(w.stepAlong(n)+2*n*n*n) + 2*root
	return total + w.derivativeOperations("outputs", n) + o.NY*(7*n*n+12*n+root) + w.Decisions()*w.keptOperations()
}

// Decisions is how often a decision is made at most: a first one is made again along its own plan where something is kept off, and
// with less of it where there is none.
func (w *whole) Decisions() int {
	if !w.KeepsOff() {
		return 1
	}
	return 2 + 3*(w.Settling()-1)
}

// keptOperations bound those of finding what to keep off along one plan.
func (w *whole) keptOperations() int {
	if !w.KeepsOff() {
		return 0
	}
	n, ns, nu := w.Observer.Size, w.NS, w.NU
	wide := w.Steered()
	times := 1 + w.Y.EscapeSteps
	derivatives := times*(w.stepAlong(wide)+w.derivativeOperations("margins", wide)+w.derivativeOperations("escape", wide)) + w.derivativeOperations("step", wide)
	if w.Acted() {
		derivatives += derivatives + 4*w.All*ns
	}
	regulator := 4*ns*ns*(ns+nu) + 2*ns*nu*(nu+2*ns) + 2*nu*nu*(nu+2*ns) + 4*ns
	covariance := (3+w.Observer.Ahead)*(4*n*n*n+2*n) + 2*ns*ns*nu + w.derivativeOperations("outputs", n) + w.Observer.NY*(5*n*n+2*n) + 2*n*n
	keep := w.All * (6*n*n + 2*ns*nu + 4)
	return (w.Observer.Ahead+w.Spec.LookAhead())*(derivatives+regulator+covariance+keep) + 2*n*n*n
}

// decision and allBytes are what a decision and a loop take with what comes before the controller.
func (w *whole) decision(operations int) int {
	if w.Observer == nil {
		return operations
	}
	operations = w.Decisions() * min(operations, 1<<62/w.Decisions())
	return operations + min(w.ObserverOperations(), 1<<62-operations)
}

func (w *whole) allBytes() int {
	if w.Observer == nil {
		return w.LoopBytes()
	}
	return w.LoopBytes() + w.ObserverBytes()
}
