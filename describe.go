package gpc

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// Description is a case as lists of cases show it.
type Description struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// ProblemSHA256 identifies the problem's content (domain.FingerprintOf), as an actor's file says it.
	ProblemSHA256 string   `json:"problem_sha256"`
	NX            int      `json:"nx"` // inputs of E_x
	NZ            int      `json:"nz"` // latent dimension
	NU            int      `json:"nu"` // entries of a decoded plan
	Objectives    int      `json:"objectives"`
	State         []string `json:"state"` // “name unit”, as those that follow
	Context       []string `json:"context"`
	Action        []string `json:"action"`
	Margins       []string `json:"margins"`
	Steps         int      `json:"steps"`
	StepSeconds   float64  `json:"step_s"`
	Bundled       bool     `json:"bundled_model"`
	Methods       []string `json:"methods"`
	Shifts        []string `json:"shifts"` // “name: meaning”
}

// Describe describes the case.
func (c *Case) Describe() Description {
	s, learned := c.Spec(), c.MapSpec()
	d := Description{
		Name: s.Name, Description: s.Description, ProblemSHA256: durable.Sum(domain.FingerprintOf(c.def.Problem)), NX: learned.ObservationSize(), NZ: learned.Training.Latent, NU: learned.PlanSize(),
		Objectives: s.ObjectiveSize(), Steps: s.Steps, StepSeconds: s.StepSeconds, Bundled: c.Bundled(),
		State: named(s.Measured), Context: named(s.Context), Action: named(s.Action), Margins: named(s.Margins),
	}
	for _, m := range c.Methods() {
		d.Methods = append(d.Methods, m.Name)
	}
	if shifts := c.def.Shifts; shifts != nil {
		for _, p := range shifts.Parameters {
			d.Shifts = append(d.Shifts, p.Name+": "+p.About)
		}
	}
	return d
}

// named are variables by their names and units.
func named(variables []domain.Variable) (names []string) {
	for _, v := range variables {
		names = append(names, v.Name+" "+v.Unit)
	}
	return names
}

// MethodDescription is a method as lists of methods show it.
type MethodDescription struct {
	Name       string `json:"name"`
	Group      string `json:"group"`
	About      string `json:"about"`
	Map        bool   `json:"map"`
	Weights    bool   `json:"weights"`
	Candidates int    `json:"candidates,omitempty"`
	Formerly   string `json:"formerly,omitempty"` // a name that it had, which is still taken
}

// DescribeMethods describes Methods, in their order.
func (c *Case) DescribeMethods() []MethodDescription {
	all := []MethodDescription{}
	for _, m := range c.Methods() {
		all = append(all, MethodDescription{m.Name, m.Group.String(), m.About, mapped(m), m.Needs&domain.NeedsWeights != 0, m.Candidates, m.Formerly})
	}
	return all
}

// SpecDescription says what the vectors of a problem are.
type SpecDescription struct {
	Name            string                `json:"name"`
	Description     string                `json:"description"`
	State           []VariableDescription `json:"state"`
	Context         []VariableDescription `json:"context"`
	Action          []VariableDescription `json:"action"`
	Objectives      []VariableDescription `json:"objectives"`
	Margins         []VariableDescription `json:"margins"`
	Plan            int                   `json:"plan"` // actions of a decoded plan
	Steps           int                   `json:"steps"`
	StepSeconds     float64               `json:"step_s"`
	MarginTolerance float64               `json:"margin_tolerance"`
	Latent          int                   `json:"latent"` // n_z of a map that is trained by default
}

// VariableDescription is a component of a vector; no bounds: nil.
type VariableDescription struct {
	Name string   `json:"name"`
	Unit string   `json:"unit"`
	Lo   *float64 `json:"lo"`
	Hi   *float64 `json:"hi"`
}

// DescribeSpec describes a problem's vectors.
func DescribeSpec(s *domain.Spec) SpecDescription {
	return SpecDescription{
		Name: s.Name, Description: s.Description, State: described(s.Measured), Context: described(s.Context), Action: described(s.Action),
		Objectives: described(s.Objectives), Margins: described(s.Margins), Plan: s.Plan, Steps: s.Steps, StepSeconds: s.StepSeconds,
		MarginTolerance: s.MarginTolerance, Latent: s.Training.Latent,
	}
}

func described(variables []domain.Variable) []VariableDescription {
	all := make([]VariableDescription, len(variables))
	for i, v := range variables {
		if all[i] = (VariableDescription{Name: v.Name, Unit: v.Unit}); v.Bounded() {
			all[i].Lo, all[i].Hi = &v.Lo, &v.Hi
		}
	}
	return all
}
