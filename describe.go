package gpc

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// Description is a case as lists of cases show it.
type Description struct {
	Name          string   `json:"name"`           // what `CASE` arguments take
	Description   string   `json:"description"`    // one line
	Group         string   `json:"group"`          // what lists put it under: systems, networks, the paper; "": none
	ProblemSHA256 string   `json:"problem_sha256"` // the content of its problem, as an actor's file says it ([files.md](files.md))
	NX            int      `json:"nx"`             // inputs of E_x: state, context and priority slot
	NZ            int      `json:"nz"`             // latent dimension
	NU            int      `json:"nu"`             // entries of a decoded plan
	Objectives    int      `json:"objectives"`     // number of them
	State         []string `json:"state"`          // measured values, “name unit”
	Context       []string `json:"context"`        // likewise
	Action        []string `json:"action"`         // likewise
	Margins       []string `json:"margins"`        // likewise
	Steps         int      `json:"steps"`          // decisions in an episode
	StepSeconds   float64  `json:"step_s"`         // control period
	Bundled       bool     `json:"bundled_model"`  // whether the program holds a map of it
	Methods       []string `json:"methods"`        // what `--method` takes
	Shifts        []string `json:"shifts"`         // what `--shift` takes, “name: meaning”
}

// Describe describes the case.
func (c *Case) Describe() Description {
	s, learned := c.Spec(), c.MapSpec()
	d := Description{
		Name: s.Name, Description: s.Description, Group: c.def.Group, ProblemSHA256: durable.Sum(domain.FingerprintOf(c.def.Problem)), NX: learned.ObservationSize(), NZ: learned.Training.Latent, NU: learned.PlanSize(),
		Objectives: s.ObjectiveSize(), Steps: s.Steps, StepSeconds: s.StepSeconds, Bundled: c.Bundled(),
		State: variableNames(s.Measured), Context: variableNames(s.Context), Action: variableNames(s.Action), Margins: variableNames(s.Margins),
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

// variableNames are variables by their names and units.
func variableNames(variables []domain.Variable) (names []string) {
	for _, v := range variables {
		names = append(names, v.Name+" "+v.Unit)
	}
	return names
}

// MethodDescription is a method as lists of methods show it.
type MethodDescription struct {
	Name       string `json:"name"`                 // what `--method` takes
	Group      string `json:"group"`                // exact, own, ablation or baseline
	About      string `json:"about"`                // one line
	Map        bool   `json:"map"`                  // whether it needs the case's map
	Weights    bool   `json:"weights"`              // whether `--model` names weights of its own
	Candidates int    `json:"candidates,omitempty"` // per decision, where methods are compared by it
	Formerly   string `json:"formerly,omitempty"`   // a name that it had, which is still taken
	Shown      bool   `json:"shown"`                // whether `gpc methods` lists it without `--all`: one to choose, and no ablation, learned policy, yardstick or another size of the same search
}

// DescribeMethods describes Methods, in their order.
func (c *Case) DescribeMethods() []MethodDescription {
	all := []MethodDescription{}
	searches := false
	for _, m := range c.Methods() {
		// Of the searches, which differ in their number of candidates and in when they search, the first.
		brief := (m.Group == domain.GroupOwn || m.Group == domain.GroupBaseline) && m.Needs&domain.NeedsWeights == 0 && (m.Brief || m.Candidates > 0 && !searches)
		searches = searches || m.Candidates > 0
		all = append(all, MethodDescription{m.Name, m.Group.String(), m.About, mapped(m), m.Needs&domain.NeedsWeights != 0, m.Candidates, m.Formerly, brief})
	}
	return all
}

// SpecDescription says what the vectors of a problem are.
type SpecDescription struct {
	Name            string                `json:"name"`        // of the case
	Description     string                `json:"description"` // one line
	State           []VariableDescription `json:"state"`       // measured values
	Context         []VariableDescription `json:"context"`     // what is known at every decision
	Action          []VariableDescription `json:"action"`      // one action, with its box
	Objectives      []VariableDescription `json:"objectives"`
	Margins         []VariableDescription `json:"margins"`          // hard limits, each ≥ 0 when kept
	Switches        []domain.Switch       `json:"switches"`         // actions that take one of a few values
	Plan            int                   `json:"plan"`             // actions in a decoded plan
	Steps           int                   `json:"steps"`            // decisions in an episode
	StepSeconds     float64               `json:"step_s"`           // control period
	MarginTolerance float64               `json:"margin_tolerance"` // how far below 0 a margin may be before it counts as violated
	Latent          int                   `json:"latent"`           // dimension of the latents of a map that is trained by default
}

// VariableDescription is a component of a vector; no bounds: nil.
type VariableDescription struct {
	Name string   `json:"name"` // of a component
	Unit string   `json:"unit"` // its unit; "" for none
	Lo   *float64 `json:"lo"`   // lower bound; null: none
	Hi   *float64 `json:"hi"`   // upper bound; null: none
}

// DescribeSpec describes a problem's vectors.
func DescribeSpec(s *domain.Spec) SpecDescription {
	return SpecDescription{
		Name: s.Name, Description: s.Description, State: described(s.Measured), Context: described(s.Context), Action: described(s.Action),
		Objectives: described(s.Objectives), Margins: described(s.Margins), Switches: append([]domain.Switch{}, s.Switches...), Plan: s.Plan, Steps: s.Steps, StepSeconds: s.StepSeconds,
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
