package backendtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/tensor"
)

func checkSolver(c domain.Case) (samples []domain.Sample, errs []error) {
	spec := c.Problem.Spec()
	if err := c.Solver.Prepare(context.Background(), domainSeed, nil); err != nil {
		return nil, []error{fmt.Errorf("solver.Prepare: %w", err)}
	}
	rng := newRand(domainSeed + 3)
	fixed := domain.Preference{W: simplex(rng, spec.ObjectiveSize())}
	const scenarios = 6
	unsolved, failed := 0, 0
	var example error
	for scenario := range scenarios {
		parameters := diagnosis.Draw(rng, c.Solver.Parameters())
		pref := domain.Preference{Adaptive: true}
		if scenario%2 == 1 {
			pref = fixed
		}
		got, err := c.Solver.Solve(scenario, parameters, pref, domain.WeightedSum, domainSeed)
		if err != nil {
			if unsolved++; !errors.Is(err, domain.ErrInfeasible) {
				failed, example = failed+1, err
			}
			continue
		}
		again, err := c.Solver.Solve(scenario, parameters, pref, domain.WeightedSum, domainSeed)
		if err != nil || len(again) != len(got) {
			errs = append(errs, fmt.Errorf("scenario %d: solved again it gives %d samples, error %v, first %d", scenario, len(again), err, len(got)))
		}
		for i, s := range got {
			what := fmt.Sprintf("scenario %d, sample %d", scenario, i)
			for _, v := range []struct {
				name string
				got  []float64
				want int
			}{{"S", s.S, spec.MeasuredSize()}, {"C", s.C, spec.ContextSize()}, {"U", s.U, spec.PlanSize()}, {"Target", s.Target, spec.PlanSize()},
				{"Sigma", s.Sigma, spec.ObjectiveSize()}, {"J", s.J, spec.ObjectiveSize()}, {"Margins", s.Margins, len(spec.Margins)}} {
				if len(v.got) != v.want || !tensor.Finite(v.got) {
					errs = append(errs, fmt.Errorf("%s: %s is %v, want %d finite numbers", what, v.name, v.got, v.want))
				}
			}
			if len(s.U) != spec.PlanSize() || len(s.S) != spec.MeasuredSize() || len(s.C) != spec.ContextSize() {
				continue
			}
			if i < len(again) && !slices.Equal(s.U, again[i].U) {
				errs = append(errs, fmt.Errorf("%s: solved again the plan differs", what))
			}
			if !isFinite(s.KKT) || s.KKT < 0 {
				errs = append(errs, fmt.Errorf("%s: KKT residual %v", what, s.KKT))
			}
			errs = append(errs, boxErrors(what, spec, s.U)...)
			margins := make([]float64, len(spec.Margins))
			c.Problem.Margins(s.S, s.C, s.U[:spec.ActionSize()], margins)
			for j := range margins {
				for _, m := range []float64{margins[j], s.Margins[j]} {
					if !spec.Keeps(m) {
						errs = append(errs, fmt.Errorf("%s: margin %s is %v", what, spec.Margins[j].Name, m))
					}
				}
			}
			samples = append(samples, s)
		}
	}
	if failed == 0 && len(samples) > 0 {
		return samples, errs
	}
	errs = append(errs, fmt.Errorf("%d of %d scenarios have no solution, in %d the solver failed: %w", unsolved, scenarios, failed, cmp.Or(example, domain.ErrInfeasible)))
	if c.Plant != nil {
		at, err := diagnosis.Starts(&c)
		if err != nil {
			return samples, append(errs, err)
		}
		errs = append(errs, errorsOf(diagnosis.Hints(c.Problem, at))...)
	}
	return samples, errs
}

// Constants of checkHorizon.
const (
	horizonSteps     = 5    // decisions at most
	horizonTolerance = 1e-6 // of a cost against that of the plan's roll-out, relative
	horizonMargin    = 1e-4 // how far a solver's plan may be beyond a margin, which projection takes back
)

// checkHorizon holds a receding horizon to what it says of its plans.
func checkHorizon(solver domain.Receding, p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	prefs := []domain.Preference{{Adaptive: true}, {W: simplex(newRand(domainSeed+6), spec.ObjectiveSize())}}
	nu, found := spec.ActionSize(), 0
	for i := 0; i < len(points) && i < 24; i += 6 {
		at, pref := points[i], prefs[i/6%2]
		what := fmt.Sprintf("horizon at %v, %v", at.s, at.c)
		steps := min(horizonSteps, spec.Steps)
		if left := domain.AbilitiesOfProblem(p).Remaining; left != nil {
			steps = min(steps, left(at.c))
		}
		plan, again := make([]float64, steps*nu), make([]float64, steps*nu)
		solve := func(iterations int, begin, plan []float64) (float64, bool) {
			inputs, h := at.clone(), solver.NewHorizon(iterations)
			h.Begin(begin)
			for j := range plan {
				plan[j] = math.NaN()
			}
			cost, converged, err := h.Solve(inputs.s, inputs.c, pref, plan)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
			}
			if !slices.Equal(inputs.s, at.s) || !slices.Equal(inputs.c, at.c) {
				errs = append(errs, fmt.Errorf("%s: it changes its inputs", what))
			}
			if !tensor.Finite(plan) {
				errs = append(errs, fmt.Errorf("%s: plan %v (converged %t)", what, plan, converged))
			}
			return cost, converged
		}
		solve(1, nil, plan)
		cost, converged := solve(0, nil, plan)
		if !converged {
			continue
		}
		found++
		if second, _ := solve(0, nil, again); second != cost || !slices.Equal(again, plan) {
			errs = append(errs, fmt.Errorf("%s: solved again it costs %v, first %v", what, second, cost))
		}
		if warm, ok := solve(0, plan, again); !ok || !(math.Abs(warm-cost) <= 1e-4*(1+math.Abs(cost))) {
			errs = append(errs, fmt.Errorf("%s: from its own plan it costs %v (converged %t), first %v", what, warm, ok, cost))
		}
		total, low := along(p, at, pref, plan)
		if !(math.Abs(total-cost) <= horizonTolerance*(1+math.Abs(total))) || !(low >= -horizonMargin) {
			errs = append(errs, fmt.Errorf("%s: its plan is said to cost %v and costs %v, smallest margin %v", what, cost, total, low))
		}
	}
	if found == 0 {
		errs = append(errs, errors.New("its receding horizon converges at no state"))
	}
	return errs
}

// along is the cost of a plan Σ σᵀJ by the known dynamics, and its smallest margin.
func along(p domain.Problem, at point, pref domain.Preference, plan []float64) (cost, low float64) {
	spec := p.Spec()
	nu, m := spec.ActionSize(), spec.ObjectiveSize()
	s, c := slices.Clone(at.s), slices.Clone(at.c)
	nextS, nextC := make([]float64, len(s)), make([]float64, len(c))
	sigma, delta, J, margins := make([]float64, m), make([]float64, m), make([]float64, m), make([]float64, len(spec.Margins))
	low = math.Inf(1)
	for ; len(plan) > 0; plan = plan[nu:] {
		u := plan[:nu]
		if copy(sigma, pref.W); pref.Adaptive {
			p.Indicators(s, u, c, delta)
			spec.Semantic.Priority(delta, sigma)
		}
		p.Objectives(s, u, c, J)
		for i, w := range sigma {
			cost += w * J[i]
		}
		p.Margins(s, c, u, margins)
		for _, v := range margins {
			low = math.Min(low, v)
		}
		p.Step(s, c, u, nextS, nextC)
		s, nextS, c, nextC = nextS, s, nextC, c
	}
	return cost, low
}

// trajectory is what an episode shows of itself under a fixed action sequence.
func trajectory(p domain.Problem, e domain.Episode) (values []float64, err error) {
	spec := p.Spec()
	rng := newRand(domainSeed + 4)
	for step := 0; step < 2*spec.Steps+10 && !e.Done(); step++ {
		s, c, state := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.MeasuredSize())
		e.Observe(s, c)
		e.State(state)
		u := diagnosis.Draw(rng, spec.Action)
		p.Project(state, c, u)
		out, err := e.Apply(u)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step, err)
		}
		if len(out.S) != spec.MeasuredSize() || len(out.J) != spec.ObjectiveSize() || len(out.Named) != len(spec.Margins) {
			return nil, fmt.Errorf("step %d: outcome with %d states, %d objectives, %d margins, want %d, %d, %d", step, len(out.S), len(out.J), len(out.Named), spec.MeasuredSize(), spec.ObjectiveSize(), len(spec.Margins))
		}
		if len(out.Named) > 0 && out.Margin != slices.Min(out.Named) {
			return nil, fmt.Errorf("step %d: smallest margin %v, named margins %v", step, out.Margin, out.Named)
		}
		if may := domain.AbilitiesOfProblem(p); may.Failed != nil && !e.Done() {
			e.Observe(s, c)
			now := make([]float64, len(state)) // what is observed may be noisy
			e.State(now)
			if may.Failed(now, c) && !out.Failed {
				return nil, fmt.Errorf("step %d: the state %v, %v is lost, the plant does not say so", step, now, c)
			}
		}
		values = slices.Concat(values, s, c, state, out.S, out.J, out.Sigma, out.Named, []float64{out.Cost})
	}
	if len(values) == 0 || !tensor.Finite(values) {
		return nil, fmt.Errorf("the episode ends at once or shows a non-finite value")
	}
	return values, nil
}

func checkPlant(c domain.Case) (errs []error) {
	opt := domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}
	params, err := json.Marshal(c.Plant.Params())
	if err != nil {
		return []error{fmt.Errorf("params as JSON: %w", err)}
	}
	var first []float64
	for index := range 3 {
		var runs [2][]float64
		var scene json.RawMessage
		for i := range runs {
			e, err := c.Plant.Episode(domainSeed, index, opt)
			if err != nil {
				return append(errs, fmt.Errorf("episode %d: %w", index, err))
			}
			if scene, err = json.Marshal(e.Scene()); err != nil {
				return append(errs, fmt.Errorf("scene %d as JSON: %w", index, err))
			}
			if runs[i], err = trajectory(c.Problem, e); err != nil {
				return append(errs, fmt.Errorf("episode %d: %w", index, err))
			}
		}
		if !slices.Equal(runs[0], runs[1]) {
			errs = append(errs, fmt.Errorf("episode %d of one seed is not the same twice", index))
		}
		if index == 1 && slices.Equal(first, runs[0]) {
			errs = append(errs, errors.New("episodes 0 and 1 are the same"))
		}
		first = runs[0]
		e, err := c.Plant.Replay(params, scene)
		if err != nil {
			errs = append(errs, fmt.Errorf("replay of episode %d: %w", index, err))
			continue
		}
		replayed, err := trajectory(c.Problem, e)
		if err != nil {
			errs = append(errs, fmt.Errorf("replay of episode %d: %w", index, err))
		} else if !slices.Equal(replayed, runs[0]) {
			errs = append(errs, fmt.Errorf("replay of episode %d differs from the episode", index))
		}
	}
	if weigh := domain.AbilitiesOfProblem(c.Problem).Weigh; weigh != nil {
		errs = append(errs, checkWeighing(weigh, c)...)
	}
	if p := domain.AbilitiesOfPlant(c.Plant); p.Stage != nil {
		errs = append(errs, checkStaging(p, c)...)
	}
	return errs
}

// checkStaging holds an episode of a scene that is given to the episode that the scene was
// drawn in, noise included, and what is no scene to be refused. So are a plant's constants.
func checkStaging(plant *domain.PlantAbilities, c domain.Case) (errs []error) {
	opt := domain.EpisodeOptions{Noise: 0.01, Preference: domain.Preference{Adaptive: true}}
	var text json.RawMessage
	for index := range 2 {
		drawn, err := c.Plant.Episode(domainSeed, index, opt)
		if err != nil {
			return append(errs, fmt.Errorf("episode %d with noise: %w", index, err))
		}
		if text, err = json.Marshal(plant.Draft(drawn)); err != nil {
			return append(errs, fmt.Errorf("draft of episode %d as JSON: %w", index, err))
		}
		given, err := plant.Stage(domainSeed, index, text, opt)
		if err != nil {
			return append(errs, fmt.Errorf("the draft of episode %d is refused: %w", index, err))
		}
		own, err := json.Marshal(given.Scene())
		if err != nil {
			return append(errs, fmt.Errorf("scene of a staged episode as JSON: %w", err))
		}
		again, err := plant.Stage(domainSeed, index, own, opt)
		if err != nil {
			return append(errs, fmt.Errorf("the scene of staged episode %d, as a trace holds it, is refused: %w", index, err))
		}
		want, err := trajectory(c.Problem, drawn)
		if err != nil {
			return append(errs, fmt.Errorf("episode %d with noise: %w", index, err))
		}
		for _, ep := range []domain.Episode{given, again} {
			got, err := trajectory(c.Problem, ep)
			if err != nil {
				errs = append(errs, fmt.Errorf("staged episode %d: %w", index, err))
			} else if !slices.Equal(got, want) {
				errs = append(errs, fmt.Errorf("the episode of a draft differs from episode %d that it is of", index))
			}
		}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return append(errs, fmt.Errorf("a draft is no JSON object: %w", err))
	}
	fields["no such field"] = json.RawMessage("1")
	for name, wrong := range map[string]any{"an unknown field": fields, "a list": []int{1}} {
		text, err := json.Marshal(wrong)
		if err != nil {
			return append(errs, err)
		}
		if _, err := plant.Stage(domainSeed, 0, text, opt); err == nil {
			errs = append(errs, fmt.Errorf("a scene with %s is taken", name))
		}
	}
	if _, err := plant.Stage(domainSeed, 0, text, domain.EpisodeOptions{Regime: "no such regime", Preference: opt.Preference}); err == nil {
		errs = append(errs, errors.New("a scene is taken under a regime"))
	}
	if c.Remake == nil {
		return errs
	}
	params, err := json.Marshal(c.Plant.Params())
	if err != nil {
		return append(errs, err)
	}
	made, err := c.Remake(params)
	if err != nil {
		return append(errs, fmt.Errorf("the plant's own params are refused: %w", err))
	}
	if own, err := json.Marshal(made.Plant.Params()); err != nil || !bytes.Equal(own, params) {
		errs = append(errs, fmt.Errorf("the case of its own params has others: %s, not %s (%v)", own, params, err))
	}
	if _, err := c.Remake(json.RawMessage(`{"no such field": 1}`)); err == nil {
		errs = append(errs, errors.New("params with an unknown field are taken"))
	}
	return errs
}

// checkWeighing holds the cost of an episode under a preference to Weigh, the last
// adaptive.
func checkWeighing(weigh func(domain.Preference, []float64) bool, c domain.Case) (errs []error) {
	spec := c.Problem.Spec()
	rng := newRand(domainSeed + 5)
	for index := range 4 {
		w, weights := simplex(rng, spec.ObjectiveSize()), make([]float64, spec.ObjectiveSize())
		none := index % len(w) // an edge of the simplex
		w[(none+1)%len(w)] += w[none]
		w[none] = 0
		pref := domain.Preference{W: w}
		if index == 3 {
			pref = domain.Preference{Adaptive: true}
			if !weigh(pref, weights) {
				continue // σ counts, which changes from action to action
			}
		}
		e, err := c.Plant.Episode(domainSeed, index, domain.EpisodeOptions{Preference: pref})
		if err != nil {
			return append(errs, fmt.Errorf("episode %d under %v: %w", index, w, err))
		}
		s, x := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		e.Observe(s, x)
		u := diagnosis.Draw(rng, spec.Action)
		c.Problem.Project(s, x, u)
		out, err := e.Apply(u)
		if err != nil {
			return append(errs, fmt.Errorf("episode %d under %v: %w", index, w, err))
		}
		if !weigh(pref, weights) {
			errs = append(errs, fmt.Errorf("there are no weights for %v", w))
			continue
		}
		want := 0.0
		for i, v := range weights {
			want += v * out.J[i]
		}
		if !(math.Abs(out.Cost-want) <= 1e-9*(1+math.Abs(want))) {
			errs = append(errs, fmt.Errorf("episode %d under %v costs %v, Weigh makes %v of its objectives", index, w, out.Cost, want))
		}
	}
	return errs
}
