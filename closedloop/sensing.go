package closedloop

import "github.com/gpc-engine/gpc/domain"

// Sensing describes the measurements that decisions are made by, and the constraint tightening. The zero value: by the
// state itself, in time, without tightening.
type Sensing struct {
	Estimated  bool    `json:"estimated,omitempty"`       // whether decisions are made by estimates of what is measured ([real-plant.md](../how-to/real-plant.md)); absent: by the state itself
	Window     int     `json:"estimate_window,omitempty"` // decisions that each estimate is of at once; absent: 0, by a Kalman filter
	Tightening float64 `json:"kept_off,omitempty"`        // standard deviations kept off the limits; absent: 0
	// MeasuredNoise is of domain.Whole, or of domain.Partly with MeasuredStates; 0 of a measurement that a case declares otherwise.
	MeasuredNoise  float64  `json:"measured_noise,omitempty"`  // standard deviation of what is measured, in units of each state's scale, where every state is measured by itself with the same, or each of `measured_states` alone
	MeasuredStates []string `json:"measured_states,omitempty"` // that alone are measured; absent: every state, or what the case declares
	Disturbed      bool     `json:"disturbed,omitempty"`       // whether something acts on the plant that nobody knows in advance, the reference neither: regret may be below zero; absent: nothing does
	Delay          float64  `json:"delay,omitempty"`           // of actions, in periods; absent: 0
}

// SensingOf is that of the decisions of a case.
func SensingOf(c *domain.Case) Sensing {
	s := Sensing{Estimated: c.Measurement != nil, Tightening: c.Level, Delay: c.Delay.Periods}
	if m := c.Measurement; m != nil {
		spec := c.Problem.Spec()
		s.Window, s.MeasuredNoise, s.Disturbed = m.Window, ownNoise(spec, m), m.Acts()
		for _, i := range m.States {
			s.MeasuredStates = append(s.MeasuredStates, spec.Measured[i].Name)
		}
	}
	return s
}

// ownNoise is that of domain.Whole and domain.Partly; 0 of another measurement, and of one with bounds.
func ownNoise(spec *domain.Spec, m *domain.Measurement) (noise float64) {
	if m.Real != nil || m.Bounded {
		return 0
	}
	for i, deviation := range m.Deviation {
		// To that number of digits it is the number that the user wrote.
		share := rounded(deviation/spec.Measured[m.State(i)].Scale(), 12)
		if i > 0 && share != noise {
			return 0
		}
		noise = share
	}
	return noise
}
