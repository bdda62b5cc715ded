package multiagent

import (
	"cmp"
	"fmt"
	"slices"
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
		if suffix, ok := strings.CutPrefix(m.Name, "planner"); ok {
			m.Formerly = "gpc" + suffix
		}
		m.New = func(means domain.Means) (domain.Controller, error) {
			return plan.New(y, options(cmp.Or(means.Candidates, n)), means)
		}
		all = append(all, m)
	}
	guided := func(n int) plan.Options { return plan.Guided(moving, n) }
	viewed := view.New(y).Spec().Navigation
	noLie, noRetraction := viewed, viewed
	noLie.LieGain, noRetraction.RetractionMix = 0, 0
	// Without the map the latents' share goes to the primitives, to which it falls by itself, or to
	// the descents; nothing else changes.
	primitives := func(n int) plan.Options { return plan.Blind(moving, n, false) }
	descents := func(n int) plan.Options { return plan.Blind(moving, n, true) }
	ablation := func(name, description string, set func(*plan.Options)) {
		add(domain.Method{Name: name, About: description, Group: domain.GroupAblation, Needs: domain.NeedsMap, Brief: name == "raw"}, plan.Budget,
			func(n int) plan.Options {
				o := guided(n)
				set(&o)
				return o
			})
	}
	planner := func(name string, n int) {
		description := fmt.Sprintf("look-ahead and commitment, %d candidates, a share of them latents", n)
		add(domain.Method{Name: name, About: description, Group: domain.GroupOwn, Needs: domain.NeedsMap, Brief: n == plan.Budget, Candidates: n}, n, guided)
	}
	planner("planner", plan.Budget)
	planner("planner-384", smallBudget)
	description := fmt.Sprintf("look-ahead and commitment, %d candidates, without the map: the latents' share goes to the ", plan.Budget)
	add(domain.Method{Name: "planner-no-latent-primitives", About: description + "primitives", Group: domain.GroupAblation, Brief: true, Candidates: plan.Budget}, plan.Budget, primitives)
	add(domain.Method{Name: "planner-no-latent-descents", About: description + "descents", Group: domain.GroupAblation, Brief: true, Candidates: plan.Budget}, plan.Budget, descents)
	for _, x := range []struct {
		name, description string
		plan.Exchange
	}{
		{"distributed", "messages within the period", plan.Exchange{}},
		{"distributed-1", "messages take a period", plan.Exchange{Delay: 1}},
		{"distributed-3", "messages take three periods", plan.Exchange{Delay: 3}},
		{"distributed-3-lossy", "messages take three periods, and one in twenty is lost", plan.Exchange{Delay: 3, Loss: 0.05}},
	} {
		m := domain.Method{
			Name: x.name, About: fmt.Sprintf("look-ahead and commitment without the map, %d candidates; robots plan all at once: %s", plan.Budget, x.description),
			Group: domain.GroupOwn, Candidates: plan.Budget,
		}
		add(m, plan.Budget, func(n int) plan.Options {
			o := descents(n)
			o.Exchange = &x.Exchange
			return o
		})
	}
	part := func(m domain.Method) {
		m.Group, m.Needs = domain.GroupAblation, domain.NeedsMap
		add(m, plan.Budget, guided)
	}
	part(domain.Method{Name: "planner-no-rollout", About: "D_u as it was before rollout-aware refinement", NoRollout: true})
	part(domain.Method{Name: "planner-no-lie", About: "no Lie residual in the latents' step", Navigation: &noLie})
	ablation("planner-no-semantic", "the map is asked under the preference (1/3, 1/3, 1/3)", func(o *plan.Options) { o.Uniform = true })
	ablation("planner-no-lookahead", "plans of H = 8 steps, and nobody commits to one", func(o *plan.Options) { o.LookAhead, o.Forgetful = world.Horizon, true })
	ablation("raw", "the decoded plan of E_x, without a search", func(o *plan.Options) { o.Raw, o.Propose = true, domain.ProposeOptions{} })
	navigator := domain.Method{
		Name: "navigator", About: "Algorithm 2 for each robot on its own view, without a search", Group: domain.GroupOwn, Needs: domain.NeedsMap,
		New: func(means domain.Means) (domain.Controller, error) { return plan.NewNavigator(y, means) },
	}
	all = append(all, navigator)
	navigator.Group = domain.GroupAblation
	navigator.Name, navigator.About, navigator.Navigation = "navigator-no-lie", "navigator without the Lie residual", &noLie
	all = append(all, navigator)
	navigator.Name, navigator.About, navigator.Navigation = "navigator-no-retraction", "navigator without the retraction to M*", &noRetraction
	all = append(all, navigator)
	navigator.Name, navigator.About = "navigator-no-rollout", "navigator with D_u as it was before rollout-aware refinement"
	navigator.Navigation, navigator.NoRollout = nil, true
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
	if y.Params.Double() { // of which there is no map
		all = slices.DeleteFunc(all, func(m domain.Method) bool { return m.Needs == domain.NeedsMap })
	}
	if y.Params.Sensing.Rays > 0 { // others know all obstacles
		all = slices.DeleteFunc(all, func(m domain.Method) bool { return !strings.HasPrefix(m.Name, "distributed") })
	}
	return all
}
