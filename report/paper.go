package report

// paperRow is one row of the paper's Table "Analytical dynamic navigation:
// optimality and feasibility comparison" (tab:analytical), n = 100.
type paperRow struct {
	Regret, SEM    float64 // R_T, %
	Obstacle, Slew float64 // violations, %
	Fail           float64 // %
	Milliseconds   float64 // NaN: offline
	Offline        bool
}

// paperAnalytical is tab:analytical by case and by our name of the method. The
// paper's MPC has no stated horizon; it stands beside our N = 5.
var paperAnalytical = map[string]map[string]paperRow{
	"integrator-convex": {
		"oracle": {Offline: true},
		"td3":    {8.95, 0.40, 0.08, 52.5, 99, 0.11, false},
		"cpo":    {382.5, 9.91, 0, 0, 0, 0.10, false},
		"mpc":    {9.93, 0.51, 0, 0, 0, 1025, false},
		"online": {7.90, 0.35, 0, 0, 67, 0.03, false},
		"gpc":    {0.043, 0.011, 0, 0, 0, 0.78, false},
	},
	"integrator-nonconvex": {
		"oracle": {Offline: true},
		"td3":    {15.11, 0.68, 0.07, 75.6, 100, 0.21, false},
		"cpo":    {370.6, 9.59, 0, 0, 0, 0.24, false},
		"mpc":    {9.43, 0.52, 0, 0, 0, 1230, false},
		"online": {7.90, 0.38, 0, 0, 79, 14.65, false},
		"gpc":    {0.050, 0.011, 0, 0, 0, 0.97, false},
	},
}

// paperNavigation are the paper's own figures for Case 2 (tab.
// multiagent-navigation and multiagent-navigation-margins), 100 episodes.
var paperNavigation = map[string]string{
	"multiagent-static": "Paper: GPC safe 100 %, collision-free 100 %, gap 0.28 %, scene margin 0.301; reference safe 60 %.",
	"multiagent-moving": "Paper: GPC safe 99 % (one unreachable scene left out), collision-free 100 %, gap −3.43 %, scene margin 0.203; reference safe 35 %.",
}
