package certificate

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// Verdict is what a condition comes to.
type Verdict string

const (
	Holds      Verdict = "holds"
	DoesNot    Verdict = "does not hold"
	SaysNought Verdict = "says nothing" // the bound is infinite or undefined
	Unmeasured Verdict = "not measured"
)

// Condition is one inequality left ≤ right of the paper with its two sides as
// estimated or measured.
type Condition struct {
	Name     string  `json:"name"`           // of a condition
	Equation string  `json:"equation"`       // label in the paper
	Claim    string  `json:"claim"`          // the inequality
	Left     Number  `json:"left"`           // its left side
	Right    Number  `json:"right"`          // its right side
	Verdict  Verdict `json:"verdict"`        // holds, does not hold, or why neither
	Note     string  `json:"note,omitempty"` // what to know of it
}

// Certificate is the paper's theory applied to one map: constants, their bounds, the measurements in closed loop, and
// every condition with its verdict.
type Certificate struct {
	Case string `json:"case"` // its name
	// Method is the controller whose closed loop was measured; absent from older records.
	Method    string    `json:"method,omitempty"`
	Constants Constants `json:"constants"`
	// Contraction is e^{−μ_PL Δt/ε}, the factor of Φ in one step by eq.
	// snap-contraction before ε absorbs μ_PL.
	Contraction     Number      `json:"contraction"`
	DriftBound      Number      `json:"drift_bound"`            // steady bound of Φ (eq. iclr-drift-bound)
	DriftBoundRow   Number      `json:"drift_bound_row_space"`  // the same with σ_0 of the row space
	ActionBound     Number      `json:"action_bound"`           // bound of the action error (eq. iclr-action-error-main), physical units
	ActionBoundRow  Number      `json:"action_bound_row_space"` // the same with σ_0 of the row space
	ClosedLoopBound Number      `json:"closed_loop_bound"`      // eq. closed-loop-bound
	Measured        *Measured   `json:"measured,omitempty"`
	Conditions      []Condition `json:"conditions"`
}

// Certified is a certificate with the recovery from perturbations off M*, and where it
// was estimated: the record of `gpc-lab certify`.
type Certified struct {
	Certificate   *Certificate `json:"certificate"`
	Recovery      *Recovery    `json:"recovery"`
	Commit        string       `json:"commit"`                   // of the program
	Device        string       `json:"device"`                   // that computed
	ProblemSHA256 string       `json:"problem_sha256,omitempty"` // of the map's problem; absent from older records, as are the next three
	ModelSHA256   string       `json:"model_sha256,omitempty"`   // of the map
	Backend       string       `json:"backend,omitempty"`        // that computed
	ISA           string       `json:"isa,omitempty"`            // instruction set
}

// Judge evaluates the paper's conditions and bounds on constants, and compares
// the bounds with what was measured in closed loop; measured may be nil.
func Judge(caseName string, k Constants, measured *Measured) *Certificate {
	c := &Certificate{Case: caseName, Constants: k, Measured: measured}
	kdu, kds := float64(k.KDu), float64(k.KDs)
	dt, vmax := k.Dt, k.VMax
	sigma0, row, loc := float64(k.Sigma0), float64(k.SigmaRowSpace), float64(k.DeltaLoc)
	f, feas := float64(k.FDelta), float64(k.DeltaFeas)
	rho := math.Exp(-float64(k.MuPL) * dt / k.Epsilon)
	steady := func(s float64) float64 { return (f + s*s*loc*loc) / (1 - rho) }
	action := func(s float64) float64 { return kdu/s*math.Sqrt(2*steady(s)) + float64(k.DeltaDec) }
	uniform := kdu*(loc+0.5*float64(k.KappaMax)*vmax*vmax*dt*dt) + float64(k.DeltaDec)
	c.Contraction = Number(rho)
	c.DriftBound, c.DriftBoundRow = Number(steady(sigma0)), Number(steady(row))
	c.ActionBound, c.ActionBoundRow, c.ClosedLoopBound = Number(action(sigma0)), Number(action(row)), Number(uniform)

	eta := dt / k.Epsilon
	c.positive("positive margin", "prop:feasibility (iii)", "0 < γ_min", float64(k.GammaMin),
		"the unprojected action's least margin; where a constraint binds at the optimum it is 0 by nature")
	c.positive("identifiability", "ass:injectivity", "0 < σ_0 = min σ_{n_z}(J_Ds)", sigma0,
		"0 whenever the latent has more dimensions than the measured state")
	c.require("Polyak–Łojasiewicz", "ass:pl", "4σ_0² ≤ μ_PL (row space)", 4*row*row*(1-estimateRounding), float64(k.MuPL), "implied where the residual lies in the column space of J_Ds; to 0.1 % for float32's rounding of Φ")
	c.require("snap step size", "eq. snap-contraction", "Δt/ε ≤ 1/(2L_Φ), L_Φ = 2K_Ds²", eta, 1/(4*kds*kds), "")
	c.require("small step", "prop:drift", "V_max Δt ≤ 1", vmax*dt, 1, "")
	c.require("curvature", "ass:curvature", "κ_max δ_feas ≤ 1/4", float64(k.KappaMax)*feas, 0.25, "")
	if feas == 0 { // a tube of no radius
		c.Conditions[len(c.Conditions)-1].Verdict = SaysNought
	}
	c.require("velocity cap", "prop:feasibility", "V_max Δt ≤ δ_feas/2", vmax*dt, feas/2, "")
	c.require("localization", "prop:feasibility", "δ_loc ≤ δ_feas/2", loc, feas/2, "")
	c.require("feasible step", "eq. iclr-feasible-step-condition", "δ_loc + V_max Δt ≤ δ_feas", loc+vmax*dt, feas,
		"sufficient for feasibility without projection; where it fails, the projection and not this theorem keeps the margins")
	c.compare(measured, steady, action, uniform)
	return c
}

// Names of the bounds that a closed loop is held to.
const (
	driftSteady      = "drift, steady"
	driftRowSpace    = "drift, row space"
	actionEndToEnd   = "action error, end to end"
	actionRowSpace   = "action error, row space"
	actionClosedLoop = "action error, closed loop"
	boundedStep      = "bounded step"
	marginsKept      = "margins kept"
)

// estimateRounding is allowed where both sides are estimates of one quantity.
const estimateRounding = 1e-3

// compare adds the bounds and the measured values.
func (c *Certificate) compare(m *Measured, steady, action func(float64) float64, uniform float64) {
	k := &c.Constants
	phi, err, step := math.NaN(), math.NaN(), math.NaN()
	excess, tolerance, note := math.NaN(), 0.0, ""
	if m != nil {
		phi, err, step = float64(m.ResidualMax), float64(m.ActionErrorMax), float64(m.DisplacementMax)
		excess, tolerance = -float64(m.MarginMin), m.MarginTolerance
		note = fmt.Sprintf("%d of %d decisions of the loop break a margin", m.Violations, m.Decisions)
	}
	onMap := fmt.Sprintf("the theory takes Φ = 0 on M*; the map's own mean there is τ_geom = %.3g", k.TauGeom)
	c.require(driftSteady, "eq. iclr-drift-bound", "max Φ ≤ (F_Δ + σ_0²δ_loc²)/(1 − e^{−μ_PLΔt/ε})", phi, steady(float64(k.Sigma0)), onMap)
	c.require(driftRowSpace, "eq. iclr-drift-bound", "the same with σ_0 of the row space", phi, steady(float64(k.SigmaRowSpace)), onMap)
	c.require(actionEndToEnd, "eq. iclr-action-error-main", "max ‖u − u*‖ ≤ K_Du/σ_0 √(2·drift) + δ_dec", err, action(float64(k.Sigma0)), "")
	c.require(actionRowSpace, "eq. iclr-action-error-main", "the same with σ_0 of the row space", err, action(float64(k.SigmaRowSpace)),
		"assumes that the latent error has no part in the kernel of J_Ds")
	c.require(actionClosedLoop, "eq. closed-loop-bound", "max ‖u − u*‖ ≤ K_Du(δ_loc + ½κ_max V_max²Δt²) + δ_dec", err, uniform, "")
	retraction := "flow and retraction together; retraction is not bounded by V_max Δt"
	c.require(boundedStep, "eq. rk2-cap", "max ‖z_{t+1} − z_t‖ ≤ (1 + γ_L) V_max Δt + δ_loc", step, (1+k.LieGain)*k.VMax*k.Dt+float64(k.DeltaLoc), retraction)
	c.require(marginsKept, "prop:feasibility", "−min margin ≤ its tolerance, with projection and fallback", excess, tolerance, note)
}

// require appends the condition left ≤ right with its verdict. A bound that is
// infinite or NaN says nothing; a left side that is NaN was not measured.
func (c *Certificate) require(name, equation, claim string, left, right float64, note string) {
	v := DoesNot
	switch {
	case math.IsNaN(right) || math.IsInf(right, 1):
		v = SaysNought
	case math.IsNaN(left):
		v = Unmeasured
	case left <= right:
		v = Holds
	}
	c.Conditions = append(c.Conditions, Condition{name, equation, claim, Number(left), Number(right), v, note})
}

// positive appends the condition 0 < value.
func (c *Certificate) positive(name, equation, claim string, value float64, note string) {
	c.require(name, equation, claim, 0, value, note)
	if last := &c.Conditions[len(c.Conditions)-1]; value == 0 {
		last.Verdict = DoesNot
	}
}

// Verdicts counts the conditions by what they come to.
func (c *Certificate) Verdicts() map[Verdict]int {
	counts := map[Verdict]int{}
	for _, d := range c.Conditions {
		counts[d.Verdict]++
	}
	return counts
}

// Broken are the bounds that the closed loop went beyond.
func (c *Certificate) Broken() (failed []Condition) {
	for _, d := range c.Conditions {
		switch d.Name {
		case driftSteady, driftRowSpace, actionEndToEnd, actionRowSpace, actionClosedLoop, boundedStep, marginsKept:
			if d.Verdict == DoesNot {
				failed = append(failed, d)
			}
		}
	}
	return failed
}

// Summary says in a line how many conditions hold and do not, and which bounds the closed
// loop broke.
func (c *Certificate) Summary() string {
	n := c.Verdicts()
	text := fmt.Sprintf("of %d conditions %d hold, %d do not, %d say nothing, %d were not measured", len(c.Conditions), n[Holds], n[DoesNot], n[SaysNought], n[Unmeasured])
	for i, d := range c.Broken() {
		if i == 0 {
			text += "; the closed loop breaks "
		} else {
			text += ", "
		}
		text += d.Beyond()
	}
	return text
}

// Beyond says of a condition that does not hold by how much.
func (d *Condition) Beyond() string {
	text := fmt.Sprintf("%s (%.3g > %.3g)", d.Name, float64(d.Left), float64(d.Right))
	if d.Name == marginsKept {
		text = fmt.Sprintf("%s (%s, by up to %.3g)", d.Name, d.Note, float64(d.Left))
	}
	return text
}

// WriteTable writes constants and conditions as text.
func (c *Certificate) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	k := &c.Constants
	fmt.Fprintf(w, "certificate of %s, %d held-out samples, closed loop of %s\n\n", c.Case, k.Samples, cmp.Or(c.Method, "an unnamed method"))
	for _, r := range []struct {
		name string
		v    Number
		note string
	}{
		{"γ_min", k.GammaMin, fmt.Sprintf("of u* %.3g, projected %.3g", float64(k.GammaMinOptimal), float64(k.GammaMinProjected))},
		{"K_Du", k.KDu, fmt.Sprintf("bound %.3g", float64(k.KDuBound))},
		{"K_Ds", k.KDs, fmt.Sprintf("bound %.3g", float64(k.KDsBound))},
		{"L_f", k.Lf, ""},
		{"σ_0", k.Sigma0, fmt.Sprintf("row space %.3g", float64(k.SigmaRowSpace))},
		{"μ_PL", k.MuPL, ""},
		{"δ_dec", k.DeltaDec, fmt.Sprintf("projected %.3g", float64(k.DeltaDecProjected))},
		{"δ_loc", k.DeltaLoc, ""},
		{"δ_feas", k.DeltaFeas, ""},
		{"F_Δ", k.FDelta, ""},
		{"κ_max", k.KappaMax, fmt.Sprintf("95 %% %.3g, tangent dimension %d", float64(k.KappaP95), k.TangentDimension)},
	} {
		fmt.Fprintf(w, "%s\t%.4g\t%s\n", r.name, float64(r.v), r.note)
	}
	fmt.Fprintf(w, "\ncondition\tleft\tright\tverdict\tclaim\n")
	for _, d := range c.Conditions {
		fmt.Fprintf(w, "%s\t%.4g\t%.4g\t%s\t%s\n", d.Name, float64(d.Left), float64(d.Right), d.Verdict, d.Claim)
	}
	return w.Flush()
}
