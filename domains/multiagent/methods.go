package multiagent

import (
	"cmp"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/multiagent/plan"
	"github.com/gpc-engine/gpc/domains/multiagent/view"
	"github.com/gpc-engine/gpc/domains/multiagent/world"
)

// smallBudget is the paper's for the reference, candidates per decision.
const smallBudget = 384

// budgets are the candidates per decision at which the planner is compared with
// and without a map, beside the largest, which needs no number in its name.
var budgets = []int{96, 192, smallBudget, 768, 1536}

// methods are the case's own. Those without a map search among primitives,
// perturbations and iterates of the descent alone.
func methods(y *world.System) []domain.Method {
	moving := y.Moving()
	var all []domain.Method
	// A number of candidates in Means replaces the method's own, n.
	add := func(m domain.Method, n int, options func(candidates int) plan.Options) {
		m.New = func(means domain.Means) (domain.Controller, error) {
			return plan.New(y, options(cmp.Or(means.Candidates, n)), means)
		}
		all = append(all, m)
	}
	guided := func(n int) plan.Options { return plan.Guided(moving, n) }
	along := plan.PlanEnergy(view.New(y).Spec().Navigation)
	blind := func(n int) plan.Options {
		o := plan.Default(moving)
		o.Candidates = n
		return o
	}
	ablation := func(name, about string, set func(*plan.Options)) {
		add(domain.Method{Name: name, About: about, Group: domain.GroupAblation, Needs: domain.NeedsMap, Brief: name == "raw"}, plan.Budget,
			func(n int) plan.Options {
				o := guided(n)
				set(&o)
				return o
			})
	}
	for _, n := range append([]int{plan.Budget}, budgets...) {
		suffix := ""
		if n != plan.Budget {
			suffix = fmt.Sprintf("-%d", n)
		}
		brief := n == plan.Budget || n == smallBudget
		about := fmt.Sprintf("look-ahead and commitment, %d candidates", n)
		add(domain.Method{Name: "gpc" + suffix, About: about + ", a share of them latents", Group: domain.GroupOwn, Needs: domain.NeedsMap, Brief: brief, Candidates: n}, n, guided)
		add(domain.Method{Name: "gpc-latent-search" + suffix, About: about + ", most latents by a cross-entropy search", Group: domain.GroupAblation, Needs: domain.NeedsMap, Candidates: n}, n,
			func(n int) plan.Options { return plan.Searching(moving, n) })
		add(domain.Method{Name: "gpc-plan-energy" + suffix, About: about + ", a share of them latents that step down the cost of their whole plans", Group: domain.GroupAblation, Needs: domain.NeedsMap, Navigation: &along, Candidates: n}, n, guided)
		add(domain.Method{Name: "gpc-no-latent" + suffix, About: about + ", without the map", Group: domain.GroupAblation, Brief: brief, Candidates: n}, n, blind)
	}
	ablation("gpc-all-latent", "all candidates are latents: no primitives, perturbations or descent", func(o *plan.Options) {
		o.Latent, o.Descent, o.Noise = 1, 0, 0
	})
	ablation("gpc-no-semantic", "the map is asked under the preference (1/3, 1/3, 1/3)", func(o *plan.Options) { o.Uniform = true })
	ablation("gpc-no-lookahead", "plans of H = 8 steps, and nobody commits to one", func(o *plan.Options) { o.LookAhead, o.Forgetful = world.Horizon, true })
	ablation("raw", "the decoded plan of E_x, without a search", func(o *plan.Options) { o.Raw, o.Propose = true, domain.ProposeOptions{} })
	navigator := domain.Method{
		Name: "navigator", About: "Algorithm 2 for each robot on its own view, without a search", Group: domain.GroupOwn, Needs: domain.NeedsMap,
		New: func(means domain.Means) (domain.Controller, error) { return plan.NewNavigator(y, means) },
	}
	all = append(all, navigator)
	navigator.Name, navigator.About = "navigator-plan-energy", "the same, with a latent step down the cost of the whole plan"
	navigator.Group, navigator.Navigation = domain.GroupAblation, &along
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

// paper is tab. multiagent-navigation, multiagent-navigation-margins and, for the learned
// policies, iclr-main-results, 100 episodes. The paper left one unreachable moving scene out.
func paper(safe, gap, margin, reference float64, learned map[string][2]float64) map[string]domain.PaperRow {
	own, other := domain.NoPaperRow(), domain.NoPaperRow()
	own.Safe, own.Collision, own.Gap, own.Margin = safe, 100, gap, margin
	other.Safe = reference
	rows := map[string]domain.PaperRow{"gpc": own, "reference": other}
	for name, v := range learned {
		r := domain.NoPaperRow()
		r.Safe, r.Collision, r.Margin = 0, v[0], v[1]
		rows[name] = r
	}
	return rows
}
