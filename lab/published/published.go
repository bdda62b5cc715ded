// Package published holds the paper's own figures of its cases: the rows of its tables by case and method, and what its figures
// over time show.
package published

import "math"

// Row holds the paper's own figures for a method in a case: those of tab. analytical (Case 1),
// iclr-main-results, multiagent-navigation and multiagent-navigation-margins (Case 2),
// case2-benchmark and uncertainty-benchmark (Cases 3 and 4). What the paper does not give is NaN.
type Row struct {
	Regret, RegretSEM float64 // R_T and its standard error, %
	Obstacle, Slew    float64 // decisions that break that limit, %
	Fail              float64 // episodes that are not safe, %
	Safe              float64 // episodes that are, %, of a table that gives these
	Joint             float64 // episodes in which all reach their goals, whatever they hit, %
	Collision         float64 // collision-free episodes, %
	// Mean least margins of an episode, m: of all, of the ego and of the other robots to
	// obstacles, among robots.
	Margin, EgoMargin, AgentMargin, PairMargin float64
	Gap                                        float64 // %
	Feasible                                   float64 // decisions, %
	Violations                                 float64 // decisions that are not
	Total                                      float64 // mean Σ J_i of a decision
	StepGap                                    float64 // Δ̄, its mean excess over the oracle's
	Milliseconds                               float64 // of a decision
	Time                                       string  // said in place of Milliseconds; "" where they are given
}

// None has no figure.
func None() Row {
	n := math.NaN()
	return Row{n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, ""}
}

// SafeEpisodes is the share of safe episodes, %: Safe, or what Fail leaves.
func (p Row) SafeEpisodes() float64 {
	if math.IsNaN(p.Safe) {
		return 100 - p.Fail
	}
	return p.Safe
}

// none is what a row does not give.
var none = math.NaN()

// analytical is a row of tab:analytical, 100 trajectories: regret with its standard error, decisions that
// break obstacle and slew bound, failed trajectories, %, and the time of a decision. The paper's MPC
// has no stated horizon; it stands next to N = 5.
func analytical(regret, sem, obstacle, slew, fail, milliseconds float64) Row {
	r := None()
	r.Regret, r.RegretSEM, r.Obstacle, r.Slew, r.Fail, r.Milliseconds = regret, sem, obstacle, slew, fail, milliseconds
	return r
}

// oracle is the row of the oracle, which is solved offline.
func oracle() Row {
	r := analytical(0, none, 0, 0, 0, none)
	r.Time = "offline"
	return r
}

// dispatch is a row of tab:case2-benchmark: mean J_total, $/h, feasible dispatches and the gap, %, and
// the time of a decision; an offline solve has none, the paper says that it is far above a second.
func dispatch(total, feasible, gap, milliseconds float64) Row {
	r := None()
	r.Total, r.Feasible, r.Gap, r.Milliseconds = total, feasible, gap, milliseconds
	if math.IsNaN(milliseconds) {
		r.Time = "≫ 1000 ms"
	}
	return r
}

// stepping adds Δ̄, $/h: of tab:uncertainty-benchmark, or of the text.
func stepping(r Row, step float64) Row {
	r.StepGap = step
	return r
}

// broken adds the infeasible steps of 300 in tab:iclr-main-results, whose gaps Case 4's are.
func broken(r Row, steps float64) Row {
	r.Violations = steps
	return r
}

// robots is a row of tab:iclr-main-results: joint success, collision-free and safe episodes, %, the
// mean scene margin, m, the gap, %, and what stands for the time of a decision.
func robots(joint, collision, safe, margin, gap float64, time string) Row {
	r := None()
	r.Joint, r.Collision, r.Safe, r.Margin, r.Gap, r.Time = joint, collision, safe, margin, gap, time
	return r
}

// withMargins adds the row of tab:multiagent-navigation-margins: ego and others to obstacles, and among
// robots, m.
func withMargins(r Row, ego, agent, pair float64) Row {
	r.EgoMargin, r.AgentMargin, r.PairMargin = ego, agent, pair
	return r
}

// failing adds what tab:multiagent-navigation says of the reference.
func failing(r Row, fail float64) Row {
	r.Fail = fail
	return r
}

// Rows are the paper's, by case and method. Δ̄ of Case 4's MPC is of its last step, that of Case 3's GPC is in the
// text. Case 2's are of 100 episodes, without one moving scene that cannot be reached.
var Rows = map[string]map[string]Row{
	"integrator-convex": {
		"oracle": oracle(),
		"td3":    analytical(8.95, 0.40, 0.08, 52.5, 99, 0.11), "cpo": analytical(382.5, 9.91, 0, 0, 0, 0.10), "mpc": analytical(9.93, 0.51, 0, 0, 0, 1025),
		"online": analytical(7.90, 0.35, 0, 0, 67, 0.03), "navigator": analytical(0.043, 0.011, 0, 0, 0, 0.78),
	},
	"integrator-nonconvex": {
		"oracle": oracle(),
		"td3":    analytical(15.11, 0.68, 0.07, 75.6, 100, 0.21), "cpo": analytical(370.6, 9.59, 0, 0, 0, 0.24), "mpc": analytical(9.43, 0.52, 0, 0, 0, 1230),
		"online": analytical(7.90, 0.38, 0, 0, 79, 14.65), "navigator": analytical(0.050, 0.011, 0, 0, 0, 0.97),
	},
	"opf30": {
		"mo-opf": dispatch(360.00, 100, 0, none), "runopf": dispatch(360.03, 100, 0.01, none), "navigator": stepping(dispatch(361.08, 100, 0.30, 12.3), 1.08),
		"mpc": dispatch(360.99, 100, 0.28, 1193.8), "cpo": dispatch(519.78, 0, 44.4, 0.19), "td3": dispatch(743.77, 0, 106.6, 0.17),
	},
	"opf30-uncertain": {
		"mo-opf": broken(stepping(dispatch(294.55, 100, 0, none), 0), 0), "navigator": broken(stepping(dispatch(295.28, 100, 0.25, 12.6), 0.74), 0),
		"mpc": broken(stepping(dispatch(295.23, 99.67, 0.23, 1228.7), 0.67), 1),
		"cpo": broken(stepping(dispatch(383.37, 0, 30.1, 0.18), 88.8), 300), "td3": broken(stepping(dispatch(565.04, 0, 91.8, 0.16), 270.5), 300),
	},
	"multiagent-static": {
		"planner":   withMargins(robots(100, 100, 100, 0.301, 0.28, ""), 0.900, 0.503, 2.477),
		"reference": failing(robots(none, none, 60, none, 0, "solver"), 40),
		"ppo":       robots(0, 5, 0, -0.558, none, "policy"), "ppo-lagrangian": robots(0, 5, 0, -0.540, none, "policy"),
		"cpo": robots(0, 13, 0, -0.467, none, "policy"), "ppo-shielded": robots(0, 8, 0, -0.429, none, "policy"),
	},
	"multiagent-moving": {
		"planner":   withMargins(robots(99, 100, 99, 0.203, -3.43, ""), 0.528, 0.253, 1.065),
		"reference": failing(robots(83, 42, 35, none, 0, "solver"), 65),
		"ppo":       robots(0, 0, 0, -0.663, none, "policy"), "ppo-lagrangian": robots(0, 0, 0, -0.672, none, "policy"),
		"cpo": robots(0, 0, 0, -0.637, none, "policy"), "ppo-shielded": robots(0, 0, 0, -0.567, none, "policy"),
	},
}

// analyticalWeights is of both cases of the integrator.
const analyticalWeights = "The paper's (figs. analytical-convex and analytical-nonconvex, b) show the semantic coordinate move from performance to safety where the obstacle comes near."

// Figures say in a sentence what the paper's figures over time show, by case, for "total", "objective" and "weights".
var Figures = map[string]map[string]string{
	"integrator-convex":    {"weights": analyticalWeights},
	"integrator-nonconvex": {"weights": analyticalWeights},
	"opf30": {
		"total":     "The paper's (fig. case2-jtotal) is one roll-out of 300 steps: GPC stays about 1.08 $/h, 0.30 %, above MO-IPOPT from step 50 on.",
		"objective": "The paper's (fig. case2-objectives) are of one roll-out: J₁ near 0, J₂ small, J₃ along the oracles'.",
	},
	"opf30-uncertain": {
		"total":   "The paper's (fig. uncertainty-jtotal) is one roll-out of 300 steps: GPC is 0.74 $/h, 0.25 %, above MO-IPOPT in the mean.",
		"weights": "The paper's (fig. uncertainty-weights) is of one roll-out: the weights favour voltage at first and then return to economy.",
	},
}
