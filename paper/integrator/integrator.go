// Package integrator is Case 1 of the paper: a double integrator that passes a
// moving elliptical keep-out region under an input and a slew bound, with a
// convex or a multi-basin performance objective (sections "Analytical Dynamic
// Navigation with Convex Objectives" and "… with Nonconvex Objective").
//
// The central type is System, a domain.Problem: state s = (q₁, q₂, v₁, v₂),
// context c = (u₋₁, p, ṗ, t/T) and action u = acceleration. Around it stand the
// finite-horizon optimum (horizon, interior), the library of solved scenarios
// that exchange warm starts (Library), the Pareto samples (Solver), the plant
// (Plant) and the case's own methods (controllers).
//
// The paper leaves the parameters open; Default holds the ones used here.
package integrator

import (
	"errors"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// Horizon is T: decisions in one episode, and the length of the offline
// optimum's horizon at t = 0.
const Horizon = 20

// Indices into the context vector.
const (
	contextPrevious = 0 // u₋₁, two entries
	contextP        = 2
	contextRate     = 3
	contextTime     = 4
	contextSize     = 5
)

// Constants of the urgency indicators.
//
//	δ₁ = 2/(1 + exp((ψ − 1)/psiScale))     1 on the ellipse, 0 far from it
//	δ₂ = d²/(d² + goalScale)               d = distance to the goal
//
// δ₁ is smooth through the boundary, since the offline optimum needs two
// derivatives of it, and so passes 1 inside the ellipse: up to 1.1 in the states
// an optimal trajectory visits (the ellipse moves after the position was
// checked), up to 1.7 at its centre.
const (
	psiScale  = 0.6 // half of the urgency is gone at ψ = 1.66, 0.35 m off the ellipse
	goalScale = 4.0 // m²: half urgency two metres from the goal
)

// The semantic constants k/ε of eq. iclr-semantic with ε = 1 and ρ = 1. With
// ρ = 1 the priority is a softmax: σ ∝ (exp 4δ₁, exp 2δ₂).
const (
	safetyGain = 4.0
	goalGain   = 2.0
)

// Params are the constants of the system, in the order and with the names of
// the trace header.
type Params struct {
	Dt       float64    `json:"dt"`    // control period, s
	UMax     float64    `json:"u_max"` // ‖u‖ ≤ UMax, m/s²
	RMax     float64    `json:"r_max"` // ‖u − u₋₁‖ ≤ RMax, m/s² per step
	Ellipse  Ellipse    `json:"ellipse"`
	QGoal    [2]float64 `json:"q_goal"`    // m
	QSafe0   [2]float64 `json:"q_safe0"`   // recovery location at p = 0, m; moves with Ellipse.Rho
	BetaU    float64    `json:"beta_u"`    // weight of ‖u‖² in J₂
	LambdaNC float64    `json:"lambda_nc"` // depth of the basins in J₂, 0 in the convex case
	Omega    float64    `json:"omega"`     // their wave number, 1/m
	// Lead is at what time, in periods behind that of the decision, the ellipse of the limit stands: 0, the paper's, where it is
	// as the action is decided; 1 where it is as the robot gets to the position that is tested.
	Lead float64 `json:"lead,omitempty"`
}

// Ellipse is the keep-out region: semi-axes A, B along the coordinate axes and
// centre C0 + Rho·p, in metres.
type Ellipse struct {
	A   float64    `json:"a"`
	B   float64    `json:"b"`
	C0  [2]float64 `json:"c0"`
	Rho [2]float64 `json:"rho"`
}

// Default returns the frozen parameters of the two variants. They were chosen
// once, so that obstacle, input and slew all bind on an optimal trajectory
// (about 1, 6 and 14 of 20 steps), and are not tuned to any method.
//
//	dt 0.2 s, 20 steps   4 s: long enough to pass the obstacle and settle
//	u_max 1.5            binds while accelerating towards the goal
//	r_max 0.4 per step   full reversal takes 8 steps: no last-moment evasion
//	a, b 1.2, 0.8        the straight way to the goal is blocked
//	c₀, ρ                the ellipse climbs 0.10–0.22 m a second across that way
//	q_safe               above and behind the ellipse, climbing with it
//	β 0.1                effort matters only once the goal is near
//	λ_nc 0.3, ω 3        basins 2.1 m apart, several between start and goal
func Default(nonconvex bool) Params {
	p := Params{
		Dt:      0.2,
		UMax:    1.5,
		RMax:    0.4,
		Ellipse: Ellipse{A: 1.2, B: 0.8, C0: [2]float64{0, -0.95}, Rho: [2]float64{0, 1.6}},
		QGoal:   [2]float64{3.2, 0},
		QSafe0:  [2]float64{0.5, 1.2},
		BetaU:   0.1,
		Omega:   3,
	}
	if nonconvex {
		p.LambdaNC = 0.3
	}
	return p
}

// Validate checks that the parameters describe a system this package can
// handle.
func (p *Params) Validate() error {
	positive := []struct {
		name  string
		value float64
	}{{"dt", p.Dt}, {"u_max", p.UMax}, {"r_max", p.RMax}, {"ellipse.a", p.Ellipse.A}, {"ellipse.b", p.Ellipse.B}}
	for _, v := range positive {
		if !(v.value > 0) || math.IsInf(v.value, 0) {
			return fmt.Errorf("parameter %s is %v, want a finite number > 0", v.name, v.value)
		}
	}
	for _, v := range []float64{p.Ellipse.C0[0], p.Ellipse.C0[1], p.Ellipse.Rho[0], p.Ellipse.Rho[1],
		p.QGoal[0], p.QGoal[1], p.QSafe0[0], p.QSafe0[1], p.BetaU, p.LambdaNC, p.Omega} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("a parameter is not finite")
		}
	}
	if !(p.Lead >= 0 && p.Lead <= 1) {
		return fmt.Errorf("parameter lead is %v, want 0 to 1", p.Lead)
	}
	if p.BetaU < 0 {
		return fmt.Errorf("parameter beta_u is %v, want ≥ 0", p.BetaU)
	}
	// Project follows each disc's rim from the point of largest clearance; the
	// rim crosses the ellipse at most twice if it is the more curved of the two.
	half := 0.5 * p.Dt * p.Dt
	long, short := max(p.Ellipse.A, p.Ellipse.B), min(p.Ellipse.A, p.Ellipse.B)
	if reach := half * max(p.UMax, p.RMax); 4*reach > short*short/long {
		return fmt.Errorf("one step moves the position by up to %g m, more than a quarter of the ellipse's smallest radius of curvature %g m", reach, short*short/long)
	}
	return nil
}

// testRange is the box of test scenes: initial position and velocity, operating
// parameter and its rate. u₋₁ is 0 at t = 0.
func testRange() []domain.Variable {
	return []domain.Variable{
		{Name: "q1_0", Unit: "m", Lo: -4, Hi: -3},
		{Name: "q2_0", Unit: "m", Lo: -1, Hi: 1},
		{Name: "v1_0", Unit: "m/s", Lo: 0, Hi: 0.5},
		{Name: "v2_0", Unit: "m/s", Lo: -0.3, Hi: 0.3},
		{Name: "p_0", Lo: 0, Hi: 0.3},
		{Name: "p_rate", Unit: "1/s", Lo: 0.06, Hi: 0.14},
	}
}

// trainingRange is the test box widened by 15 % of its width about its centre,
// so that test scenes are interpolated, not extrapolated.
func trainingRange() []domain.Variable {
	box := testRange()
	for i := range box {
		margin := 0.075 * (box[i].Hi - box[i].Lo)
		box[i].Lo -= margin
		box[i].Hi += margin
	}
	return box
}

// Convex is the case integrator-convex.
func Convex() domain.Case { return newCase("integrator-convex", Default(false)) }

// Nonconvex is the case integrator-nonconvex.
func Nonconvex() domain.Case { return newCase("integrator-nonconvex", Default(true)) }
