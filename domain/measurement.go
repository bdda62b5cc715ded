package domain

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Measurement says what a plant shows of itself, how well, and what acts on it that its model does not
// say: one description for the plant, for the estimator and for the limits that are to hold in spite of
// it. A case without one is measured whole and exactly, but for the noise that an evaluation asks for.
type Measurement struct {
	// Outputs name y, [outputs], with units; Deviation is the standard deviation of each, in its unit,
	// above 0.
	Outputs   []Variable
	Deviation []float64
	// Real writes y = h(s, c, u), u being the action before, the problem's Fallback at first; Dual is the
	// same function at dual numbers (see DualStep). Both nil: y are the States.
	Real func(s, c, u, y []float64)
	Dual func(s, c, u, y []complex128)
	// States are the states that y is, by index; nil: every state, where there is no function.
	States []int
	// Process is the standard deviation of what acts on each state between two decisions; nil: nothing.
	Process []float64
	// Unknown are entries of the context that are not known: parameters and disturbances of the plant. Their
	// estimates stand in the context that a method is given.
	Unknown []Unknown
	// Initial is the standard deviation of each state about Mean before anything is measured. Both nil: of the
	// scenario's starts.
	Initial, Mean []float64
	// Lo and Hi bound the estimate of each state, −Inf and +Inf where there is no bound; both nil: none has one.
	Lo, Hi []float64
	// Bounded says that Deviation, Process, Initial and, of each Unknown, Deviation and Drift are bounds, which no value exceeds. The plant
	// draws uniformly within them. The filter takes the deviation of a uniform value for each, and what is kept off a limit at a level
	// of 1 is the most that values within the bounds can take from it, to first order.
	Bounded bool
	// Window is of how many of the last decisions what was measured is estimated from at once: a moving-horizon estimate, which
	// keeps the bounds of states and parameters at each of them. 0: one decision after the other, by an extended Kalman filter.
	Window int
}

// UniformBound is that of a uniform value whose deviation is 1.
const UniformBound = 1.7320508075688772

// Deviations is the Measurement with standard deviations in the place of bounds: itself where it has none.
func (m *Measurement) Deviations() *Measurement {
	if !m.Bounded {
		return m
	}
	clone := *m
	scaled := func(bounds []float64) []float64 {
		out := slices.Clone(bounds)
		for i := range out {
			out[i] /= UniformBound
		}
		return out
	}
	clone.Deviation, clone.Process, clone.Initial = scaled(m.Deviation), scaled(m.Process), scaled(m.Initial)
	clone.Unknown = slices.Clone(m.Unknown)
	for i := range clone.Unknown {
		clone.Unknown[i].Deviation /= UniformBound
		clone.Unknown[i].Drift /= UniformBound
	}
	return &clone
}

// Acts reports whether something acts on the plant that nobody knows in advance: on its states, or on what is unknown of it.
func (m *Measurement) Acts() bool {
	return slices.ContainsFunc(m.Process, func(v float64) bool { return v > 0 }) || slices.ContainsFunc(m.Unknown, func(p Unknown) bool { return p.Drift > 0 })
}

// With is the Measurement with more unknown entries of the context, which are given by standard deviations; of one that is
// unknown already nothing is taken.
func (m *Measurement) With(more []Unknown) *Measurement {
	clone := *m
	clone.Unknown = slices.Clone(m.Unknown)
	for _, v := range more {
		if slices.ContainsFunc(m.Unknown, func(u Unknown) bool { return u.Context == v.Context }) {
			continue
		}
		if m.Bounded {
			v.Deviation *= UniformBound
			v.Drift *= UniformBound
		}
		clone.Unknown = append(clone.Unknown, v)
	}
	return &clone
}

// MaxWindow bounds Measurement.Window.
const MaxWindow = 1000

// Bounds are those of estimated entry i of a problem with so many states: the states, then Unknown.
func (m *Measurement) Bounds(i, states int) (lo, hi float64) {
	switch {
	case i < states && m.Lo != nil:
		return m.Lo[i], m.Hi[i]
	case i >= states && m.Unknown[i-states].Lo < m.Unknown[i-states].Hi:
		return m.Unknown[i-states].Lo, m.Unknown[i-states].Hi
	}
	return math.Inf(-1), math.Inf(1)
}

// Unknown is an entry of the context that is estimated.
type Unknown struct {
	Context int // its index
	// Mean and Deviation are what is known of it at first, whatever a scenario draws; Lo and Hi bound its estimate where Lo < Hi.
	Mean, Deviation, Lo, Hi float64
	// Drift is the standard deviation of its change from one decision to the next; 0: it is constant.
	Drift float64
}

// Whole is the Measurement of every state by itself, with normal noise of a standard deviation in units
// of each state's scale (Variable.Scale).
func Whole(spec *Spec, noise float64) *Measurement {
	m := &Measurement{Outputs: spec.Measured}
	for _, v := range spec.Measured {
		m.Deviation = append(m.Deviation, noise*v.Scale())
	}
	return m
}

// Partly is Whole of the states of these names alone.
func Partly(spec *Spec, noise float64, states []string) (*Measurement, error) {
	m, all := &Measurement{}, Names(spec.Measured)
	for _, name := range states {
		i := slices.Index(all, name)
		switch {
		case i < 0:
			return nil, fmt.Errorf("measurement: %s has no state %q, want some of %s", spec.Name, name, strings.Join(all, ", "))
		case slices.Contains(m.States, i):
			return nil, fmt.Errorf("measurement: state %q is named twice", name)
		}
		v := spec.Measured[i]
		m.States, m.Outputs, m.Deviation = append(m.States, i), append(m.Outputs, v), append(m.Deviation, noise*v.Scale())
	}
	return m, nil
}

// Validate says what of a Measurement does not fit a problem.
func (m *Measurement) Validate(spec *Spec) error {
	positive := func(field string, values []float64, want int, least bool) error {
		if len(values) != want {
			return fmt.Errorf("measurement: %s has %d entries, want %d", field, len(values), want)
		}
		for i, v := range values {
			if !(v >= 0) || math.IsInf(v, 0) || least && v == 0 {
				return fmt.Errorf("measurement: %s[%d] is %v, want a finite standard deviation%s", field, i, v, map[bool]string{true: " above 0"}[least])
			}
		}
		return nil
	}
	if (m.Real == nil) != (m.Dual == nil) {
		return fmt.Errorf("measurement: Real is given: %t, Dual is given: %t, want both or neither", m.Real != nil, m.Dual != nil)
	}
	if err := m.validateStates(spec); err != nil {
		return err
	}
	if err := positive("Deviation", m.Deviation, len(m.Outputs), true); err != nil {
		return err
	}
	for _, f := range []struct {
		name   string
		values []float64
	}{{"Process", m.Process}, {"Initial", m.Initial}} {
		if f.values == nil {
			continue
		}
		if err := positive(f.name, f.values, spec.MeasuredSize(), false); err != nil {
			return err
		}
	}
	if (m.Mean == nil) != (m.Initial == nil) || m.Mean != nil && len(m.Mean) != spec.MeasuredSize() {
		return fmt.Errorf("measurement: Mean has %d entries and Initial %d, want one in each for every one of the %d states, or none", len(m.Mean), len(m.Initial), spec.MeasuredSize())
	}
	if (m.Lo == nil) != (m.Hi == nil) || m.Lo != nil && (len(m.Lo) != spec.MeasuredSize() || len(m.Hi) != spec.MeasuredSize()) {
		return fmt.Errorf("measurement: Lo has %d entries and Hi %d, want one in each for every one of the %d states, or none", len(m.Lo), len(m.Hi), spec.MeasuredSize())
	}
	for i, lo := range m.Lo {
		if !(lo < m.Hi[i]) {
			return fmt.Errorf("measurement: state %d is bounded from %v to %v, want Lo < Hi", i, lo, m.Hi[i])
		}
	}
	if m.Window < 0 || m.Window > MaxWindow {
		return fmt.Errorf("measurement: a window of %d decisions, want 1 to %d, or 0 for a Kalman filter", m.Window, MaxWindow)
	}
	if m.Bounded && m.Window > 0 {
		return fmt.Errorf("measurement: Bounded with a window of %d decisions, want a Kalman filter (Window 0), whose gains move the bounds", m.Window)
	}
	for i, p := range m.Unknown {
		switch {
		case p.Context < 0 || p.Context >= spec.ContextSize() || p.Context == spec.Clock-1:
			return fmt.Errorf("measurement: Unknown[%d].Context is %d, want an entry of the %d of the context that is not the clock", i, p.Context, spec.ContextSize())
		case !(p.Deviation >= 0 && p.Drift >= 0) || math.IsInf(p.Deviation+p.Drift, 0) || math.IsNaN(p.Mean) || math.IsInf(p.Mean, 0):
			return fmt.Errorf("measurement: Unknown[%d] has mean %v, deviation %v and drift %v, want finite numbers, deviation and drift ≥ 0", i, p.Mean, p.Deviation, p.Drift)
		case p.Lo > p.Hi:
			return fmt.Errorf("measurement: Unknown[%d] is bounded from %v to %v, want Lo ≤ Hi", i, p.Lo, p.Hi)
		}
	}
	return nil
}

// validateStates says what of the states that are measured without a function does not fit.
func (m *Measurement) validateStates(spec *Spec) error {
	states := spec.MeasuredSize()
	switch {
	case m.Real != nil && m.States != nil:
		return fmt.Errorf("measurement: States and Real are both given, want one of them")
	case m.Real == nil && m.States == nil && len(m.Outputs) != states:
		return fmt.Errorf("measurement: Outputs has %d entries and Real is nil: without a function or States want one entry for each of the %d states", len(m.Outputs), states)
	case m.States != nil && (len(m.States) == 0 || len(m.States) != len(m.Outputs)):
		return fmt.Errorf("measurement: Outputs has %d entries and States %d, want as many, and at least one", len(m.Outputs), len(m.States))
	}
	for i, s := range m.States {
		if s < 0 || s >= states || slices.Contains(m.States[:i], s) {
			return fmt.Errorf("measurement: States[%d] is %d, want different states from 0 to %d", i, s, states-1)
		}
	}
	return nil
}

// State is the state that output i is by itself where no function says what is measured.
func (m *Measurement) State(i int) int {
	if m.States == nil {
		return i
	}
	return m.States[i]
}

// Output is y of a true state: what would be measured without noise.
func (m *Measurement) Output(s, c, u, y []float64) {
	if m.Real == nil {
		for i := range y {
			y[i] = s[m.State(i)]
		}
		return
	}
	m.Real(s, c, u, y)
}
