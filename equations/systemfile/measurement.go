package systemfile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// measurement is a domain.Measurement without bounds of states. y is the function outputs, or each state without one.
type measurement struct {
	Outputs   []variable `json:"outputs"`
	Deviation []float64  `json:"deviation"`
	Process   []float64  `json:"process,omitempty"`
	Unknown   []unknown  `json:"unknown,omitempty"`
	Mean      []float64  `json:"mean,omitempty"`
	Initial   []float64  `json:"initial,omitempty"`
	Bounded   bool       `json:"bounded,omitempty"`
	Window    int        `json:"window,omitempty"`
}

// unknown is a domain.Unknown by the name of its entry of the context.
type unknown struct {
	Context   string  `json:"context"`
	Mean      float64 `json:"mean,omitempty"`
	Deviation float64 `json:"deviation,omitempty"`
	Lo        float64 `json:"lo,omitempty"`
	Hi        float64 `json:"hi,omitempty"`
	Drift     float64 `json:"drift,omitempty"`
}

const outputsFunction = "outputs"

// measurementOf is a Measurement in a file's form.
func measurementOf(m *domain.Measurement, context []domain.Variable) *measurement {
	out := &measurement{
		Outputs: variablesOf(m.Outputs), Deviation: m.Deviation, Process: m.Process, Mean: m.Mean, Initial: m.Initial, Bounded: m.Bounded, Window: m.Window,
	}
	for _, u := range m.Unknown {
		out.Unknown = append(out.Unknown, unknown{context[u.Context].Name, u.Mean, u.Deviation, u.Lo, u.Hi, u.Drift})
	}
	return out
}

// domain is the Measurement without its functions.
func (m *measurement) domain(context []variable) *domain.Measurement {
	out := &domain.Measurement{
		Outputs: domainVariables(m.Outputs), Deviation: m.Deviation, Process: m.Process, Mean: m.Mean, Initial: m.Initial, Bounded: m.Bounded, Window: m.Window,
	}
	for _, u := range m.Unknown {
		out.Unknown = append(out.Unknown, domain.Unknown{
			Context: entryOf(context, u.Context), Mean: u.Mean, Deviation: u.Deviation, Lo: u.Lo, Hi: u.Hi, Drift: u.Drift,
		})
	}
	return out
}

func entryOf(list []variable, name string) int {
	return slices.IndexFunc(list, func(v variable) bool { return v.Name == name })
}

// checkMeasurement reports faults that domain.Measurement.Validate does not see.
func (h *header) checkMeasurement() error {
	m := h.Measurement
	if m == nil {
		return nil
	}
	if err := variables("measurement.outputs", m.Outputs); err != nil {
		return err
	}
	if len(m.Outputs) == 0 {
		return errors.New("measurement.outputs is empty, want what is measured, or leave measurement out")
	}
	for i, u := range m.Unknown {
		if entryOf(h.Context, u.Context) < 0 {
			return fmt.Errorf("measurement.unknown[%d].context is %.64q, which is no entry of the context", i, u.Context)
		}
		if slices.ContainsFunc(m.Unknown[:i], func(o unknown) bool { return o.Context == u.Context }) {
			return fmt.Errorf("measurement.unknown[%d].context %q appears twice", i, u.Context)
		}
	}
	return nil
}
