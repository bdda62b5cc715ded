package batchnav

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/gpc-engine/gpc/domain"
)

// Options choose the navigation constants and switch parts of Algorithm 2 off.
// The zero value is the whole of GPC with the problem's own constants.
type Options struct {
	// Navigation replaces the problem's Spec.Navigation; nil keeps it.
	Navigation *domain.Navigation
	// Direct leaves localization and flow out: encode, decode, project.
	Direct bool
	// NoSemantic fixes the priority at 1/M, in the encoder's slot and in the flow.
	NoSemantic bool
	// NoLie sets γ_L = 0.
	NoLie bool
	// NoRetraction sets μ_R = 0.
	NoRetraction bool
	// NoRollout decodes with the D_u that rollout-aware refinement began with, which
	// the model file holds too.
	NoRollout bool
	// NoProjection executes the decoded and clipped action as it is.
	NoProjection bool
	// NoFallback executes the map's action whatever the fallback trigger says; the
	// trigger is recorded.
	NoFallback bool
	// NoiseFree states that measurements are exact: σ̂² = 0, so that α = 1. The
	// default estimates σ̂² from the innovations, see NoiseEstimator.
	NoiseFree bool
	// Observer replaces the smoothing of z_t, while σ̂² > 0, by a first-order observer
	// of the state with the same gain. The loop works on (1−α) F(ŝ_{t−1}, u_{t−1}) +
	// α s_t in place of s_t. The paper's smoothing mixes z_t with the latent of
	// another time and lags by it; the observer does not, as far as F is known. It
	// enters projection and margins too.
	Observer bool
	// Latents writes Decision.Latent. Where latents stay on a device they cross for
	// it at each decision.
	Latents bool
	// Search makes each decision the best of many roll-outs. It sets Direct.
	Search SearchOptions
	// ResidualLimit is the multiple of τ_t above which the residual at the
	// localized latent triggers the fallback; 0 is DefaultResidualLimit, +Inf
	// never triggers.
	ResidualLimit float64
	// Solver, if set, is asked for an action when the fallback is triggered by a
	// margin or by the residual, before Problem.Fallback is.
	Solver domain.Optimal
	// NoGuard leaves Guard out.
	NoGuard bool
	// NoRescue keeps the guard from searching and from asking a solver. It compares a plan that is not safe with the last
	// accepted one, with the problem's escape (domain.ProblemAbilities.Escape), and with Problem.Fallback. The time of a
	// decision is then bounded, as package export needs for C.
	NoRescue bool
	// Guard rolls every decision out before it is executed and replaces the ones that fail;
	// nil: none. Plans must be of one action. It searches, and Rescue goes on from what is
	// found; where that is nil it asks Solver, where that is set.
	Guard  *domain.Guard
	Rescue domain.Receding
	// Context ends a search, a rescue's too; nil: none does.
	Context context.Context
}

// DefaultResidualLimit in τ_t, which covers the reconstruction error and the spacing of
// the codes. A residual of 10 τ_t puts the observation about three spacings outside the
// states that the map was made for.
const DefaultResidualLimit = 10

// variant is a method of the navigator with the options that it sets.
type variant struct {
	domain.Method
	set func(*Options)
}

// variants are in the order of the tables.
var variants = []variant{
	{domain.Method{Name: "navigator", Formerly: "gpc", About: "Algorithm 2, whole", Group: domain.GroupOwn, Brief: true}, func(*Options) {}},
	{domain.Method{Name: "direct", About: "encode, decode, project: no localization, no flow", Group: domain.GroupOwn, Brief: true}, func(o *Options) { o.Direct = true }},
	{domain.Method{Name: "navigator-observer", Formerly: "gpc-observer", About: "a state observer in place of the latent smoothing", Group: domain.GroupOwn}, func(o *Options) { o.Observer = true }},
	refine(64, "", domain.GroupOwn, SearchOptions{}),
	refine(512, "", domain.GroupOwn, SearchOptions{}),
	refine(4096, "", domain.GroupOwn, SearchOptions{}),
	refine(64, "-ahead", domain.GroupOwn, SearchOptions{Ahead: true}),
	refine(256, "-ahead", domain.GroupOwn, SearchOptions{Ahead: true}),
	refine(512, "-ahead", domain.GroupOwn, SearchOptions{Ahead: true}),
	refine(64, "-polish", domain.GroupOwn, SearchOptions{Polish: polishIterations}),
	refine(512, "-polish", domain.GroupOwn, SearchOptions{Polish: polishIterations}),
	refine(64, "-polish-ahead", domain.GroupOwn, SearchOptions{Polish: polishIterations, Ahead: true}),
	refine(256, "-polish-ahead", domain.GroupOwn, SearchOptions{Polish: polishIterations, Ahead: true}),
	refine(512, "-polish-ahead", domain.GroupOwn, SearchOptions{Polish: polishIterations, Ahead: true}),
	{domain.Method{Name: "polish", Formerly: "gpc-polish", About: "direct's roll-out, improved by the problem's own iterations", Group: domain.GroupOwn}, func(o *Options) {
		o.Search = SearchOptions{Candidates: 1, Polish: polishIterations}
	}},
	{domain.Method{Name: "polish-ahead", About: "the same, between decisions where the last one leads", Group: domain.GroupOwn, Ahead: true}, func(o *Options) {
		o.Search = SearchOptions{Candidates: 1, Polish: polishIterations, Ahead: true}
	}},
	{domain.Method{Name: "navigator-no-semantic", Formerly: "gpc-no-semantic", About: "the priority fixed at 1/M", Group: domain.GroupAblation}, func(o *Options) { o.NoSemantic = true }},
	{domain.Method{Name: "navigator-no-rollout", Formerly: "gpc-no-rollout", About: "D_u as it was before rollout-aware refinement", Group: domain.GroupAblation}, func(o *Options) { o.NoRollout = true }},
	{domain.Method{Name: "navigator-no-lie", Formerly: "gpc-no-lie", About: "no Lie residual", Group: domain.GroupAblation}, func(o *Options) { o.NoLie = true }},
	{domain.Method{Name: "navigator-no-retraction", Formerly: "gpc-no-retraction", About: "no retraction to M*", Group: domain.GroupAblation}, func(o *Options) { o.NoRetraction = true }},
	{domain.Method{Name: "navigator-no-projection", Formerly: "gpc-no-projection", About: "the decoded action as it is", Group: domain.GroupAblation}, func(o *Options) { o.NoProjection = true }},
	{domain.Method{Name: "navigator-no-fallback", Formerly: "gpc-no-fallback", About: "nothing replaces the map's action", Group: domain.GroupAblation}, func(o *Options) { o.NoFallback = true }},
	{domain.Method{Name: "navigator-no-guard", Formerly: "gpc-no-guard", About: "nothing is rolled out before it is executed", Group: domain.GroupAblation}, func(o *Options) { o.NoGuard = true }},
	{domain.Method{Name: "direct-no-guard", About: "direct, nothing rolled out before it is executed", Group: domain.GroupAblation}, func(o *Options) { o.Direct, o.NoGuard = true, true }},
	{domain.Method{Name: "direct-no-rescue", About: "direct as it is exported to C: the guard falls back to the plan before, the escape and the rest", Group: domain.GroupAblation}, func(o *Options) {
		o.Direct, o.NoRescue, o.NoiseFree = true, true, true
	}},
	refine(64, "", domain.GroupAblation, SearchOptions{}).derive("-no-rollout", "D_u as it was before rollout-aware refinement", func(o *Options) { o.NoRollout = true }),
}

// derive is a variant with one more part changed.
func (v variant) derive(suffix, description string, change func(*Options)) variant {
	set := v.set
	v.Name, v.Formerly, v.About = v.Name+suffix, v.Formerly+suffix, v.About+", "+description
	v.set = func(o *Options) {
		set(o)
		change(o)
	}
	return v
}

// refine is a method that searches n roll-outs.
func refine(n int, suffix string, group domain.Group, s SearchOptions) variant {
	description := fmt.Sprintf("the best of %d roll-outs, by offsets of their latents", n)
	if s.Polish > 0 {
		description += ", improved by the problem's own iterations"
	}
	if s.Ahead {
		description += ", searched between decisions where the last one leads"
	}
	s.Candidates = n
	name := fmt.Sprintf("refine-%d%s", n, suffix)
	m := domain.Method{Name: name, Formerly: "gpc-" + name, About: description, Group: group, Candidates: n, Ahead: s.Ahead}
	return variant{m, func(o *Options) { o.Search = s }}
}

// Methods are the navigator's variants for a problem, in the order of the tables. Plans of several actions have no
// search along roll-outs, only a problem with Polish polishes, and only a guarded method has a variant without guard.
// They have no New: NewNavigator makes them, with the options of OptionsFor.
func Methods(p domain.Problem, guarded bool) (all []domain.Method) {
	polishes := domain.AbilitiesOfProblem(p).Polish != nil
	for _, v := range variants {
		var o Options
		v.set(&o)
		if (o.Search.Candidates == 0 || p.Spec().Plan == 1) && (o.Search.Polish == 0 || polishes) && (guarded || !o.NoGuard && !o.NoRescue) {
			v.Needs = domain.NeedsMap
			all = append(all, v.Method)
		}
	}
	return all
}

// Named are all variants, whatever the problem.
func Named() (all []domain.Method) {
	for _, v := range variants {
		v.Needs = domain.NeedsMap
		all = append(all, v.Method)
	}
	return all
}

// OptionsFor returns the options of a method by its `--method` name.
func OptionsFor(method string) (Options, error) {
	var names []string
	for _, v := range variants {
		if v.Called(method) {
			var o Options
			v.set(&o)
			return o, nil
		}
		names = append(names, v.Name)
	}
	return Options{}, fmt.Errorf("unknown method of the map %q (want one of %s)", method, strings.Join(names, ", "))
}

// resolve returns the constants of the flow with the ablations applied.
func (o *Options) resolve(spec *domain.Spec) (domain.Navigation, error) {
	nav := spec.Navigation
	if o.Navigation != nil {
		nav = *o.Navigation
	}
	if o.NoLie {
		nav.LieGain = 0
	}
	if o.NoRetraction {
		nav.RetractionMix = 0
	}
	nav.Smoothing = cmp.Or(nav.Smoothing, 1)
	nav.PriorityFilter = cmp.Or(nav.PriorityFilter, 1)
	if o.ResidualLimit < 0 || math.IsNaN(o.ResidualLimit) {
		return nav, fmt.Errorf("ResidualLimit is %v, want a number ≥ 0", o.ResidualLimit)
	}
	for _, r := range []struct {
		name   string
		v      float64
		lo, hi float64
	}{
		{"LatentStep Δt", nav.LatentStep, 0, math.MaxFloat32},
		{"VMax", nav.VMax, 0, math.MaxFloat32},
		{"Epsilon", nav.Epsilon, math.SmallestNonzeroFloat32, math.MaxFloat32},
		{"MetricLambda", nav.MetricLambda, 0, math.MaxFloat32},
		{"TopK", float64(nav.TopK), 0, math.MaxInt32},
		{"LieGain γ_L", nav.LieGain, 0, math.MaxFloat32},
		{"LieScale s_L", nav.LieScale, -math.MaxFloat32, math.MaxFloat32},
		{"RetractionMix μ_R", nav.RetractionMix, 0, 1},
		{"Smoothing α", nav.Smoothing, math.SmallestNonzeroFloat32, 1},
		{"PriorityFilter", nav.PriorityFilter, math.SmallestNonzeroFloat32, 1},
		{"Neighbours", float64(nav.Neighbours), 0, math.MaxInt32},
		{"RotationBlocks", float64(nav.RotationBlocks), 0, math.MaxInt32},
	} {
		if !(r.v >= r.lo && r.v <= r.hi) {
			return nav, fmt.Errorf("%s: navigation %s is %v, want it in [%g, %g]", spec.Name, r.name, r.v, r.lo, r.hi)
		}
	}
	return nav, nil
}
