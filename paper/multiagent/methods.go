package multiagent

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/plan"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// smallBudget is the paper's for the reference, candidates per decision.
const smallBudget = 384

// methods are the case's own. Those without a map search among primitives,
// perturbations and iterates of the descent alone.
func methods(y *world.System) []domain.Method {
	moving := y.Moving()
	var all []domain.Method
	// A number of candidates in Means replaces the method's own, n.
	add := func(m domain.Method, n int, options func(candidates int) plan.Options) {
		if of, ok := strings.CutPrefix(m.Name, "planner"); ok {
			m.Formerly = "gpc" + of
		}
		m.New = func(means domain.Means) (domain.Controller, error) {
			return plan.New(y, options(cmp.Or(means.Candidates, n)), means)
		}
		all = append(all, m)
	}
	guided := func(n int) plan.Options { return plan.Guided(moving, n) }
	viewed := view.New(y).Spec().Navigation
	still, loose := viewed, viewed
	still.LieGain, loose.RetractionMix = 0, 0
	// Without the map the latents' share goes to the primitives, to which it falls by itself, or to
	// the descents; nothing else changes.
	primitives := func(n int) plan.Options { return plan.Blind(moving, n, false) }
	descents := func(n int) plan.Options { return plan.Blind(moving, n, true) }
	ablation := func(name, about string, set func(*plan.Options)) {
		add(domain.Method{Name: name, About: about, Group: domain.GroupAblation, Needs: domain.NeedsMap, Brief: name == "raw"}, plan.Budget,
			func(n int) plan.Options {
				o := guided(n)
				set(&o)
				return o
			})
	}
	planner := func(name string, n int) {
		about := fmt.Sprintf("look-ahead and commitment, %d candidates, a share of them latents", n)
		add(domain.Method{Name: name, About: about, Group: domain.GroupOwn, Needs: domain.NeedsMap, Brief: n == plan.Budget, Candidates: n}, n, guided)
	}
	planner("planner", plan.Budget)
	planner("planner-384", smallBudget)
	about := fmt.Sprintf("look-ahead and commitment, %d candidates, without the map: the latents' share goes to the ", plan.Budget)
	add(domain.Method{Name: "planner-no-latent-primitives", About: about + "primitives", Group: domain.GroupAblation, Brief: true, Candidates: plan.Budget}, plan.Budget, primitives)
	add(domain.Method{Name: "planner-no-latent-descents", About: about + "descents", Group: domain.GroupAblation, Brief: true, Candidates: plan.Budget}, plan.Budget, descents)
	part := func(m domain.Method) {
		m.Group, m.Needs = domain.GroupAblation, domain.NeedsMap
		add(m, plan.Budget, guided)
	}
	part(domain.Method{Name: "planner-no-rollout", About: "D_u as it was before rollout-aware refinement", NoRollout: true})
	part(domain.Method{Name: "planner-no-lie", About: "no Lie residual in the latents' step", Navigation: &still})
	ablation("planner-no-semantic", "the map is asked under the preference (1/3, 1/3, 1/3)", func(o *plan.Options) { o.Uniform = true })
	ablation("planner-no-lookahead", "plans of H = 8 steps, and nobody commits to one", func(o *plan.Options) { o.LookAhead, o.Forgetful = world.Horizon, true })
	ablation("raw", "the decoded plan of E_x, without a search", func(o *plan.Options) { o.Raw, o.Propose = true, domain.ProposeOptions{} })
	navigator := domain.Method{
		Name: "navigator", About: "Algorithm 2 for each robot on its own view, without a search", Group: domain.GroupOwn, Needs: domain.NeedsMap,
		New: func(means domain.Means) (domain.Controller, error) { return plan.NewNavigator(y, means) },
	}
	all = append(all, navigator)
	navigator.Group = domain.GroupAblation
	navigator.Name, navigator.About, navigator.Navigation = "navigator-no-lie", "navigator without the Lie residual", &still
	all = append(all, navigator)
	navigator.Name, navigator.About, navigator.Navigation = "navigator-no-retraction", "navigator without the retraction to M*", &loose
	all = append(all, navigator)
	navigator.Name, navigator.About, navigator.Navigation, navigator.NoRollout = "navigator-no-rollout", "navigator with D_u as it was before rollout-aware refinement", nil, true
	all = append(all, navigator)
	reference := func(name string, n int) {
		all = append(all, domain.Method{
			Name: name, About: fmt.Sprintf("the paper's finite-budget optimiser, %d candidates", n), Group: domain.GroupBaseline, Brief: true,
			New: func(means domain.Means) (domain.Controller, error) {
				return plan.NewReference(y, cmp.Or(means.Candidates, n))
			},
		})
	}
	reference("reference", smallBudget)
	reference("reference-4096", plan.Budget)
	return all
}

// paper is a row of tab:iclr-main-results: joint success, collision-free and safe episodes, %, the
// mean scene margin, m, the gap, %, and what stands for the time of a decision.
func paper(joint, collision, safe, margin, gap float64, time string) domain.PaperRow {
	r := domain.NoPaperRow()
	r.Joint, r.Collision, r.Safe, r.Margin, r.Gap, r.Time = joint, collision, safe, margin, gap, time
	return r
}

// withMargins adds the row of tab:multiagent-navigation-margins: ego and others to obstacles, and among
// robots, m.
func withMargins(r domain.PaperRow, ego, agent, pair float64) domain.PaperRow {
	r.EgoMargin, r.AgentMargin, r.PairMargin = ego, agent, pair
	return r
}

// failing adds what tab:multiagent-navigation says of the reference.
func failing(r domain.PaperRow, fail float64) domain.PaperRow {
	r.Fail = fail
	return r
}

// none is what a row does not give.
var none = math.NaN()

// The paper's rows, of 100 episodes. It left one unreachable moving scene out.
var (
	paperStatic = map[string]domain.PaperRow{
		"planner":   withMargins(paper(100, 100, 100, 0.301, 0.28, ""), 0.900, 0.503, 2.477),
		"reference": failing(paper(none, none, 60, none, 0, "solver"), 40),
		"ppo":       paper(0, 5, 0, -0.558, none, "policy"), "ppo-lagrangian": paper(0, 5, 0, -0.540, none, "policy"),
		"cpo": paper(0, 13, 0, -0.467, none, "policy"), "ppo-shielded": paper(0, 8, 0, -0.429, none, "policy"),
	}
	paperMoving = map[string]domain.PaperRow{
		"planner":   withMargins(paper(99, 100, 99, 0.203, -3.43, ""), 0.528, 0.253, 1.065),
		"reference": failing(paper(83, 42, 35, none, 0, "solver"), 65),
		"ppo":       paper(0, 0, 0, -0.663, none, "policy"), "ppo-lagrangian": paper(0, 0, 0, -0.672, none, "policy"),
		"cpo": paper(0, 0, 0, -0.637, none, "policy"), "ppo-shielded": paper(0, 0, 0, -0.567, none, "policy"),
	}
)
