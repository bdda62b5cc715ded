package backendtest

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/planscore"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// toyCase is Toy with a plant and a solver small enough to read.
func toyCase() domain.Case {
	p := NewToy(4, 3, 2, 2)
	return domain.Case{Problem: p, Plant: toyPlant{p}, Solver: toySolver{p}}
}

type toySolver struct{ p *Toy }

func (s toySolver) Parameters() []domain.Variable {
	return []domain.Variable{{Name: "s0", Unit: "1", Lo: -1, Hi: 1}}
}

func (s toySolver) Prepare(context.Context, uint64, func(int, int)) error { return nil }

func (s toySolver) Solve(scenario int, p []float64, pref domain.Preference, how domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	spec := s.p.Spec()
	sample := domain.Sample{Scenario: scenario, S: []float64{p[0], 0, 0, 0}, C: make([]float64, 3), Preference: pref,
		U: make([]float64, spec.PlanSize()), Target: make([]float64, spec.PlanSize()), Sigma: []float64{1, 0, 0}, J: make([]float64, 3), Margins: make([]float64, 1)}
	s.p.Margins(sample.S, sample.C, sample.U[:2], sample.Margins)
	return []domain.Sample{sample}, nil
}

type toyPlant struct{ p *Toy }

type toyEpisode struct {
	p    *Toy
	Seed float64 `json:"start"`
	s, c []float64
	t    int
}

func (p toyPlant) Params() any { return struct{}{} }

func (p toyPlant) Episode(seed uint64, index int, _ domain.EpisodeOptions) (domain.Episode, error) {
	return p.start(newRand(seed + uint64(index)).NormFloat64()), nil
}

func (p toyPlant) start(x float64) *toyEpisode {
	return &toyEpisode{p: p.p, Seed: x, s: []float64{x, -x, x / 2, 0}, c: []float64{0.5, -0.5, x}}
}

func (p toyPlant) Replay(_, scene json.RawMessage) (domain.Episode, error) {
	var e toyEpisode
	if err := json.Unmarshal(scene, &e); err != nil {
		return nil, err
	}
	return p.start(e.Seed), nil
}

func (e *toyEpisode) Scene() any             { return e }
func (e *toyEpisode) Steps() int             { return e.p.Spec().Steps }
func (e *toyEpisode) Observe(s, c []float64) { copy(s, e.s); copy(c, e.c) }
func (e *toyEpisode) State(s []float64)      { copy(s, e.s) }
func (e *toyEpisode) Done() bool             { return e.t >= e.Steps() }

func (e *toyEpisode) Oracle() (float64, [][]float64, error) { return math.NaN(), nil, nil }

func (e *toyEpisode) Apply(u []float64) (domain.Outcome, error) {
	out := domain.Outcome{S: make([]float64, 4), J: make([]float64, 3), Sigma: []float64{1, 0, 0}, Named: make([]float64, 1)}
	e.p.Margins(e.s, e.c, u, out.Named)
	e.p.Objectives(e.s, u, e.c, out.J)
	e.p.Step(e.s, e.c, u, out.S, make([]float64, 3))
	out.Cost, out.Margin = out.J[0], out.Named[0]
	copy(e.s, out.S)
	e.t++
	return out, nil
}

func TestToyKeepsTheContract(t *testing.T) {
	RunDomain(t, toyCase(), nil)
}

func TestToyWithoutPlantAndSolver(t *testing.T) {
	RunDomain(t, domain.Case{Problem: NewToy(5, 1, 3, 1)}, nil)
}

// broken is Toy with one method gone wrong.
type broken struct {
	*Toy
	gradient func(gs, gu []float64)
	batch    func(b domain.Batch)
	block    func(b domain.Block)
	step     func(sNext []float64)
	delta    func(delta []float64)
	project  func(s, u []float64) bool
	fallback func(s, u []float64)
	plans    func(b domain.PlanBatch)
	polish   func(s, plan []float64) bool
	picture  func() []domain.Shape
}

func (b broken) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{
		Derivatives:   domain.Derivatives{Rows: b.GradientBatch, Block: b.GradientBlock},
		NewPlanScorer: b.NewPlanScorer, Polish: b.Polish, Picture: b.Picture,
	}
}

func (b broken) Gradient(s, u, c, sigma, gs, gu []float64) {
	b.Toy.Gradient(s, u, c, sigma, gs, gu)
	if b.gradient != nil {
		b.gradient(gs, gu)
	}
}

func (b broken) GradientBatch(batch domain.Batch) {
	b.Toy.GradientBatch(batch)
	if b.batch != nil {
		b.batch(batch)
	}
}

// GradientBlock is Toy's own methods row by row.
func (b broken) GradientBlock(block domain.Block) {
	for r := range block.Rows {
		s, u, c := block.S[4*r:4*r+4], block.U[2*r:2*r+2], block.C[3*r:3*r+3]
		if block.J != nil {
			b.Objectives(s, u, c, block.J[3*r:3*r+3])
		}
		if block.GS != nil {
			b.Gradient(s, u, c, block.Sigma[3*r:3*r+3], block.GS[4*r:4*r+4], block.GU[2*r:2*r+2])
		}
	}
	if b.block != nil {
		b.block(block)
	}
}

func (b broken) NewPlanScorer(domain.Accelerator) (domain.PlanScorer, error) { return b, nil }

// ScorePlans is the reference's, row by row.
func (b broken) ScorePlans(ctx context.Context, p domain.PlanBatch) error {
	for r := range p.Cost {
		var plan []float64
		plan, p.Cost[r], p.Margin[r] = planscore.Plan(b, p.S, p.C, p.Preference, row64(p.Plans.Row(r)), p.Steps, !p.NoProjection)
		copy(p.Projected[r*len(plan):], plan)
	}
	if b.plans != nil {
		b.plans(p)
	}
	return ctx.Err()
}

// Polish moves every action a little towards the least cost of its own stage at s.
func (b broken) Polish(s, c []float64, pref domain.Preference, _ []domain.Bound, plan []float64, iterations int) bool {
	if b.polish != nil {
		return b.polish(s, plan)
	}
	sigma, delta := slices.Clone(pref.W), make([]float64, 3)
	if pref.Adaptive {
		sigma = make([]float64, 3)
		b.Indicators(s, plan[:2], c, delta)
		b.Spec().Semantic.Priority(delta, sigma)
	}
	gs, gu := make([]float64, 4), make([]float64, 2)
	b.Toy.Gradient(s, plan[:2], c, sigma, gs, gu)
	for j := range plan {
		plan[j] -= 1e-4 * float64(iterations) * gu[j%2]
	}
	return true
}

func (b broken) Step(s, c, u, sNext, cNext []float64) {
	b.Toy.Step(s, c, u, sNext, cNext)
	if b.step != nil {
		b.step(sNext)
	}
}

func (b broken) Indicators(s, u, c, delta []float64) {
	b.Toy.Indicators(s, u, c, delta)
	if b.delta != nil {
		b.delta(delta)
	}
}

func (b broken) Project(s, c, u []float64) bool {
	if b.project != nil {
		return b.project(s, u)
	}
	return b.Toy.Project(s, c, u)
}

func (b broken) Fallback(s, c, u []float64) {
	b.Toy.Fallback(s, c, u)
	if b.fallback != nil {
		b.fallback(s, u)
	}
}

func (b broken) Picture(s, c []float64) []domain.Shape {
	if b.picture != nil {
		return b.picture()
	}
	return nil
}

func TestDomainChecksFindMistakes(t *testing.T) {
	nan := math.NaN()
	for check, problem := range map[string]broken{
		"gradient":       {gradient: func(gs, gu []float64) { gu[1] *= 1 + 1e-4 }},
		"batch-gradient": {batch: func(b domain.Batch) { b.GS[b.GSStride] += 1e-3 }},
		"block-gradient": {block: func(b domain.Block) {
			if b.GU != nil {
				b.GU[len(b.GU)-1] += 1e-9
			}
		}},
		"dynamics":   {step: func(s []float64) { s[2] = nan }},
		"indicators": {delta: func(d []float64) { d[0] = 1.5 }},
		"projection": {project: func(s, u []float64) bool { u[0] = 3 - math.Abs(s[0]); return true }},
		"picture":    {picture: func() []domain.Shape { return []domain.Shape{domain.Disc(domain.Body, nan, 0, 1)} }},
		"fallback":   {fallback: func(s, u []float64) { u[0] = s[0] }},
		"plan-score": {plans: func(b domain.PlanBatch) { b.Cost[4] += 1e-3 }},
	} {
		problem.Toy = NewToy(4, 3, 2, 1)
		points := require.Get(domainStates(domain.Case{Problem: problem}, nil))(t)
		for _, c := range domainChecks {
			errs := c.run(problem, points)
			if c.name == check && len(errs) == 0 {
				t.Errorf("the check of the %s found nothing", check)
			}
		}
	}
}

// forgetful is a plant whose second episode of a scene differs.
type forgetful struct {
	toyPlant
	calls *float64
}

func (f forgetful) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	*f.calls += 1e-9
	return f.start(float64(index) + *f.calls), nil
}

// deaf is a plant that does not read the scene.
type deaf struct{ toyPlant }

func (d deaf) Replay(_, _ json.RawMessage) (domain.Episode, error) { return d.start(0.1), nil }

// reckless is a solver whose plan leaves the box.
type reckless struct{ toySolver }

func (r reckless) Solve(scenario int, p []float64, pref domain.Preference, how domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	samples, err := r.toySolver.Solve(scenario, p, pref, how, seed)
	samples[0].U[3] = 0.9
	return samples, err
}

// staged is a plant that takes scenes that are given, with one thing gone wrong.
type staged struct {
	toyPlant
	wrong string
}

func (p staged) Abilities() *domain.PlantAbilities {
	return &domain.PlantAbilities{Draft: p.Draft, Stage: p.Stage}
}

func (p staged) Draft(e domain.Episode) any { return e }

func (p staged) Stage(_ uint64, _ int, scene json.RawMessage, opt domain.EpisodeOptions) (domain.Episode, error) {
	if opt.Regime != "" && p.wrong != "a regime" {
		return nil, domain.RegimeError{Case: "toy", Regime: opt.Regime}
	}
	var e toyEpisode
	dec := json.NewDecoder(bytes.NewReader(scene))
	if p.wrong != "unknown fields" {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(&e); err != nil {
		return nil, err
	}
	if p.wrong == "another start" {
		e.Seed += 1e-12
	}
	return p.start(e.Seed), nil
}

func TestStagingChecksFindMistakes(t *testing.T) {
	c := toyCase()
	for wrong, found := range map[string]bool{"": false, "a regime": true, "unknown fields": true, "another start": true} {
		plant := staged{toyPlant{c.Problem.(*Toy)}, wrong}
		c.Plant = plant
		if errs := checkStaging(plant.Abilities(), c); (len(errs) > 0) != found {
			t.Errorf("a plant with %q wrong: %v", wrong, errs)
		}
	}
	c.Remake = func(json.RawMessage) (domain.Case, error) { return c, nil }
	sound := staged{toyPlant{c.Problem.(*Toy)}, ""}
	c.Plant = sound
	if errs := checkStaging(sound.Abilities(), c); len(errs) != 1 {
		t.Errorf("a case that is remade of whatever is given: %v", errs)
	}
}

func TestPlantAndSolverChecksFindMistakes(t *testing.T) {
	c := toyCase()
	for name, plant := range map[string]domain.Plant{"forgetful": forgetful{toyPlant{c.Problem.(*Toy)}, new(float64)}, "deaf": deaf{toyPlant{c.Problem.(*Toy)}}} {
		wrong := c
		wrong.Plant = plant
		if len(checkPlant(wrong)) == 0 {
			t.Errorf("a %s plant passes", name)
		}
	}
	c.Solver = reckless{toySolver{c.Problem.(*Toy)}}
	if _, errs := checkSolver(c); len(errs) == 0 {
		t.Error("a solver that leaves the box passes")
	}
}

// still is a receding horizon about Toy that plans zeros, with one thing gone wrong.
type still struct {
	domain.Horizon
	p     *Toy
	wrong func(plan []float64, begun bool) (converged bool)
	begun bool
}

func (h still) NewHorizon(int) domain.Horizon { return &h }

func (h still) Tightened([]float64) domain.Receding { return nil }

func (h *still) Begin(plan []float64) { h.begun = plan != nil }

func (h *still) Solve(s, c []float64, pref domain.Preference, plan []float64) (float64, bool, error) {
	clear(plan)
	cost, _ := along(h.p, point{s, c, nil}, pref, plan)
	return cost, h.wrong(plan, h.begun), nil
}

func TestHorizonCheckFindsMistakes(t *testing.T) {
	toy := NewToy(4, 3, 2, 2)
	points := require.Get(domainStates(domain.Case{Problem: toy}, nil))(t)
	calls := 0.0
	for name, f := range map[string]struct {
		wrong func(plan []float64, begun bool) bool
		found bool
	}{
		"nothing":                    {func([]float64, bool) bool { return true }, false},
		"no solution anywhere":       {func([]float64, bool) bool { return false }, true},
		"a plan that is not finite":  {func(plan []float64, _ bool) bool { plan[0] = math.NaN(); return true }, true},
		"another plan than it costs": {func(plan []float64, _ bool) bool { plan[0] = 0.3; return true }, true},
		"another plan at each call":  {func(plan []float64, _ bool) bool { calls += 1e-9; plan[0] = calls; return true }, true},
		"no way from its own plan":   {func(_ []float64, begun bool) bool { return !begun }, true},
	} {
		if errs := checkHorizon(still{p: toy, wrong: f.wrong}, toy, points); (len(errs) > 0) != f.found {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// mortal is Toy with a lost state, of which its plant says nothing.
type mortal struct{ *Toy }

func (p mortal) Abilities() *domain.ProblemAbilities {
	may := p.Toy.Abilities()
	may.Failed = p.Failed
	return may
}

func (mortal) Failed(s, _ []float64) bool { return s[0] < 100 }

func TestPlantCheckFindsALostStateThatIsNotSaid(t *testing.T) {
	c := toyCase()
	c.Problem = mortal{c.Problem.(*Toy)}
	if len(checkPlant(c)) == 0 {
		t.Error("a plant that does not say that its state is lost passes")
	}
}

func TestPlanScoreCheckFindsMistakes(t *testing.T) {
	sound := broken{Toy: NewToy(4, 3, 2, 3)}
	points := require.Get(domainStates(domain.Case{Problem: sound}, nil))(t)
	if errs := checkPlanScore(sound, points); len(errs) > 0 {
		t.Fatalf("the reference's own scores: %v", errs[0])
	}
	for name, wrong := range map[string]func(b domain.PlanBatch){
		"rows in another order":      func(b domain.PlanBatch) { slices.Reverse(b.Cost) },
		"an action not projected":    func(b domain.PlanBatch) { b.Projected[1] = 2 },
		"a margin of another step":   func(b domain.PlanBatch) { b.Margin[3] += 0.01 },
		"a cost that is unknown":     func(b domain.PlanBatch) { b.Cost[2] = math.NaN() },
		"a lost plan called sound":   func(b domain.PlanBatch) { b.Margin[slices.Index(b.Margin, math.Inf(-1))] = 1 },
		"a result of thread counts":  func(b domain.PlanBatch) { b.Cost[0] += 1e-9 * float64(b.Threads) },
		"plans that are overwritten": func(b domain.PlanBatch) { b.Plans.Row(1)[0] = 0 },
	} {
		sound.plans = wrong
		if len(checkPlanScore(sound, points)) == 0 {
			t.Errorf("the check did not find %s", name)
		}
	}
}

func TestPolishCheckFindsMistakes(t *testing.T) {
	sound, calls := broken{Toy: NewToy(4, 3, 2, 1)}, new(atomic.Int64)
	points := require.Get(domainStates(domain.Case{Problem: sound}, nil))(t)
	if errs := checkPolish(sound, points); len(errs) > 0 {
		t.Fatalf("a step along the gradient: %v", errs[0])
	}
	better := sound
	for name, wrong := range map[string]func(s, plan []float64) bool{
		"what improves nothing":       func(s, plan []float64) bool { return false },
		"what is not finite":          func(s, plan []float64) bool { plan[0] = math.NaN(); return true },
		"a change that is not said":   func(s, plan []float64) bool { plan[0] -= 1e-3; return false },
		"another plan at each call":   func(s, plan []float64) bool { plan[0] -= 1e-6 * float64(calls.Add(1)); return true },
		"a state that is overwritten": func(s, plan []float64) bool { s[0] = 1 - s[0]; return true },
	} {
		better.polish = wrong
		if len(checkPolish(better, points)) == 0 {
			t.Errorf("the check did not find %s", name)
		}
	}
}
