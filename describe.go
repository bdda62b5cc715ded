package gpc

import "github.com/gpc-engine/gpc/domain"

// Description is a case as lists of cases show it.
type Description struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	NX          int      `json:"nx"` // inputs of E_x
	NZ          int      `json:"nz"` // latent dimension
	NU          int      `json:"nu"` // entries of a decoded plan
	Objectives  int      `json:"objectives"`
	State       []string `json:"state"` // “name unit”, as those that follow
	Context     []string `json:"context"`
	Action      []string `json:"action"`
	Margins     []string `json:"margins"`
	Steps       int      `json:"steps"`
	StepSeconds float64  `json:"step_s"`
	Bundled     bool     `json:"bundled_model"`
	Methods     []string `json:"methods"`
	Shifts      []string `json:"shifts"` // “name: meaning”
}

// Describe describes the case.
func (c *Case) Describe() Description {
	s, learned := c.Spec(), c.MapSpec()
	d := Description{
		Name: s.Name, Description: s.Description, NX: learned.ObservationSize(), NZ: learned.Training.Latent, NU: learned.PlanSize(),
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
}

// DescribeMethods describes Methods, in their order.
func (c *Case) DescribeMethods() []MethodDescription {
	all := []MethodDescription{}
	for _, m := range c.Methods() {
		all = append(all, MethodDescription{m.Name, m.Group.String(), m.About, mapped(m), m.Needs&domain.NeedsWeights != 0, m.Candidates})
	}
	return all
}
