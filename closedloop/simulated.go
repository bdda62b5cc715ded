package closedloop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// testStream separates test scenes from every training scenario of the same
// seed, and noiseStream the measurement noise from the scenes.
const (
	testStream  = 0x7465737473636e65 // "testscne"
	noiseStream = 0x6d6561736e6f6973 // "measnois"
	// priorStream draws the starts that the estimate begins with, which are of no episode.
	priorStream = 0x7072696f72737473 // "priorsts"
)

// Simulation is a plant for a problem that brings none: its own dynamics F from
// scenes whose parameters are uniform in their ranges. Stage cost is σᵀJ with σ
// of the true state, or the fixed preference of the episode.
type Simulation struct {
	Problem    domain.Problem
	Parameters []domain.Variable
	// Starts are the parameters of the episodes by their index, instead of draws; nil: drawn.
	Starts [][]float64
	// Initial writes the initial state and context of a scenario.
	Initial func(p, s, c []float64)
	// Measurement says what an episode shows of itself and what acts on it; nil: its state, with the noise
	// that an evaluation asks for.
	Measurement *domain.Measurement
	// Delay is the time from a measurement to the action that is decided by it. An episode takes the same number of
	// actions as without; its last ones do not act in it any more.
	Delay domain.Delay
	// Steps are the decisions of an episode of a plant that runs on; 0: the problem's.
	Steps int
	// Oracle, if set, solves an episode from its initial state for its least cost
	// and the plan [steps][action] that attains it.
	Oracle func(ctx context.Context, s, c []float64, steps int, pref domain.Preference) (cost float64, plan [][]float64, err error)
	// Solver solves this plant where it is another than the model of its case (gpc.Case.On): a method that is given the truth decides by
	// it. nil: the case's.
	Solver domain.Solver
	// System, optional, is the file of the system that the problem was made of: traces hold it.
	System json.RawMessage
}

// Simulated returns the generic plant of a problem. parameters are the axes of
// its scenarios; initial writes state and context for one.
func Simulated(problem domain.Problem, parameters []domain.Variable, initial func(p, s, c []float64)) *Simulation {
	return &Simulation{Problem: problem, Parameters: parameters, Initial: initial}
}

// steps are the decisions of an episode.
func (m *Simulation) steps() int { return cmp.Or(m.Steps, m.Problem.Spec().Steps) }

// simulationParams are the header constants. Without System the dynamics are the
// problem's code: such a trace is re-simulated by a program that has it.
type simulationParams struct {
	Problem    string            `json:"problem"`
	Steps      int               `json:"steps"`
	Dt         float64           `json:"dt"`
	Tolerance  float64           `json:"margin_tolerance"`
	Parameters []domain.Variable `json:"parameters"`
	System     json.RawMessage   `json:"system,omitempty"`
}

// simulationScene is a scene: parameters and the initial state they gave.
type simulationScene struct {
	P          []float64         `json:"p"`
	S          []float64         `json:"s"`
	C          []float64         `json:"c"`
	Preference domain.Preference `json:"preference"`
	// Process seeds what acts on the plant (domain.Measurement), 0 where nothing does.
	Process uint64 `json:"process,omitempty"`
	// Delay of the plant in periods.
	Delay float64 `json:"delay,omitempty"`
}

// Params implements domain.Plant.
func (m *Simulation) Params() any {
	spec := m.Problem.Spec()
	return simulationParams{spec.Name, m.steps(), spec.StepSeconds, spec.MarginTolerance, m.Parameters, m.System}
}

// Episode implements domain.Plant. There are no regimes. Noise is in units of
// each measured variable's range, or of 1 where it has none.
func (m *Simulation) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	spec := m.Problem.Spec()
	if err := m.check(index, opt); err != nil {
		return nil, err
	}
	scene := simulationScene{
		P: m.Start(seed, index), S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize()),
		Preference: opt.Preference, Delay: m.Delay.Periods,
	}
	if scene.P == nil {
		return nil, fmt.Errorf("episode index is %d, want 0 to the last of the %d given starts", index, len(m.Starts))
	}
	m.Initial(scene.P, scene.S, scene.C)
	return m.measured(scene, seed, index, opt)
}

// check checks the options of an episode.
func (m *Simulation) check(index int, opt domain.EpisodeOptions) error {
	spec := m.Problem.Spec()
	_, err := opt.Fixed(index, spec.ObjectiveSize())
	return cmp.Or(opt.NoRegime(spec.Name), err, opt.Preference.Validate(spec.ObjectiveSize()))
}

// measured is the episode of a scene with measurement noise, which the seed and the index
// alone say.
func (m *Simulation) measured(scene simulationScene, seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	if scene.Process == 0 {
		scene.Process = m.processSeed(seed, index)
	}
	ep := m.start(scene)
	if m.Measurement != nil && opt.Noise != 0 {
		return nil, fmt.Errorf("a measurement noise of %v cannot be added: case %q declares its measurement and the noise of it", opt.Noise, m.Problem.Spec().Name)
	}
	ep.noise, ep.ctx = opt.Noise, opt.Until()
	ep.rng = rand.New(rand.NewPCG(seed^noiseStream, uint64(index)))
	return ep, nil
}

// Start is the parameters of an episode; nil where Starts has none.
func (m *Simulation) Start(seed uint64, index int) []float64 {
	p := make([]float64, len(m.Parameters))
	if m.Starts != nil {
		if index >= len(m.Starts) {
			return nil
		}
		copy(p, m.Starts[index])
		return p
	}
	rng := rand.New(rand.NewPCG(seed^testStream, uint64(index)))
	domain.DrawScenario(rng, m.Parameters, p)
	return p
}

// Replay implements domain.Plant.
func (m *Simulation) Replay(params, scene json.RawMessage) (domain.Episode, error) {
	spec := m.Problem.Spec()
	current, err := json.Marshal(m.Params())
	if err != nil {
		return nil, err
	}
	if !sameJSON(current, params) {
		return nil, fmt.Errorf("the params of the trace, %.200s, are not those of case %q in this build, %.200s", params, spec.Name, current)
	}
	var s simulationScene
	if err := json.Unmarshal(scene, &s); err != nil {
		return nil, fmt.Errorf("scene: %w", err)
	}
	if len(s.S) != spec.MeasuredSize() || len(s.C) != spec.ContextSize() {
		return nil, fmt.Errorf("scene has %d state and %d context values, case %q has %d and %d", len(s.S), len(s.C), spec.Name, spec.MeasuredSize(), spec.ContextSize())
	}
	if err := s.Preference.Validate(spec.ObjectiveSize()); err != nil {
		return nil, fmt.Errorf("scene: %w", err)
	}
	if s.Process != 0 && m.Measurement == nil {
		return nil, fmt.Errorf("scene: the seed %d of what acts on the plant, and case %q here says of nothing that it acts", s.Process, spec.Name)
	}
	delay := m.Delay
	delay.Periods = s.Delay
	if err := delay.Validate(spec); err != nil {
		return nil, fmt.Errorf("scene: %w", err)
	}
	return m.start(s), nil
}

func (m *Simulation) start(scene simulationScene) *simulated {
	ep := &simulated{
		plant: m, ctx: context.Background(), abilities: domain.AbilitiesOfProblem(m.Problem), scene: scene, s: append([]float64(nil), scene.S...), c: append([]float64(nil), scene.C...),
		nextS: make([]float64, len(scene.S)), nextC: make([]float64, len(scene.C)),
	}
	ep.delay = m.Delay
	ep.delay.Periods = scene.Delay
	ep.queue = m.queuedActions(scene.S, scene.C, ep.delay.Ahead())
	if m.Measurement != nil {
		ep.lastAction = make([]float64, m.Problem.Spec().ActionSize())
	}
	if scene.Process != 0 {
		ep.acting = rand.New(rand.NewPCG(scene.Process, processStream))
	}
	return ep
}

// simulated is one episode of a Simulation.
type simulated struct {
	plant              *Simulation
	ctx                context.Context // ends the search for a reference
	abilities          *domain.ProblemAbilities
	scene              simulationScene
	s, c, nextS, nextC []float64
	t                  int
	noise              float64
	rng                *rand.Rand
	lastAction         []float64  // the last action, of a plant with a Measurement
	acting             *rand.Rand // what acts on the plant; nil: nothing does
	delay              domain.Delay
	queue              [][]float64 // actions that are decided and do not act yet, the next one first
	actions            [][]float64 // that acted
}

func (e *simulated) Scene() any        { return e.scene }
func (e *simulated) Steps() int        { return e.plant.steps() }
func (e *simulated) Done() bool        { return e.t >= e.Steps() }
func (e *simulated) State(s []float64) { copy(s, e.s) }

func (e *simulated) Observe(s, c []float64) {
	e.measuredState(s)
	copy(c, e.c)
	if e.noise == 0 {
		return
	}
	for i, v := range e.plant.Problem.Spec().Measured {
		s[i] += e.noise * v.Scale() * e.rng.NormFloat64()
	}
}

func (e *simulated) Apply(u []float64) (domain.Outcome, error) {
	p := e.plant.Problem
	spec := p.Spec()
	if e.Done() {
		return domain.Outcome{}, fmt.Errorf("the episode has ended after %d steps", e.t)
	}
	if len(u) != spec.ActionSize() {
		return domain.Outcome{}, fmt.Errorf("action has %d components, want %d", len(u), spec.ActionSize())
	}
	if !tensor.Finite(u) {
		return domain.Outcome{}, fmt.Errorf("action %v is not finite", u)
	}
	u = e.delayedAction(u)
	e.actions = append(e.actions, slices.Clone(u))
	m := spec.ObjectiveSize()
	out := domain.Outcome{
		S: make([]float64, len(e.s)), J: make([]float64, m), Sigma: make([]float64, m),
		Named: make([]float64, len(spec.Margins)),
	}
	e.scene.Preference.Priority(p, e.s, u, e.c, make([]float64, m), out.Sigma)
	p.Objectives(e.s, u, e.c, out.J)
	out.Cost = tensor.DotInOrder(out.J, out.Sigma)
	p.Margins(e.s, e.c, u, out.Named)
	if soft := e.abilities.Soft; soft != nil {
		out.Soft = make([]float64, len(soft.Limits))
		soft.Margins(e.s, e.c, u, out.Soft)
	}
	out.Failed = e.t == 0 && e.abilities.Lost(e.s, e.c)
	p.Step(e.s, e.c, u, e.nextS, e.nextC)
	e.s, e.nextS = e.nextS, e.s
	e.c, e.nextC = e.nextC, e.c
	e.disturb(e.nextS, e.nextC, u, out.Named)
	copy(out.S, e.s)
	e.t++
	out.Failed = out.Failed || e.abilities.Lost(e.s, e.c)
	if e.Done() {
		e.judgeEnd(u, out.Named)
	}
	out.Margin = domain.Smallest(out.Named)
	return out, nil
}

// judgeEnd lowers the margins of the last action u to those of the state that it leads to, where no action there
// changes them. A limit on the state in which an action is taken holds at the end too.
func (e *simulated) judgeEnd(u, margins []float64) {
	last := make([]float64, len(margins))
	domain.StateMargins(e.plant.Problem, e.abilities, e.s, e.c, append([]float64(nil), u...), last, make([]float64, len(margins)))
	for i, m := range last {
		margins[i] = math.Min(margins[i], m)
	}
}

// Oracle is the optimum of what a decision can change: the queued actions act first, then the best ones. Its plan is what
// to decide, so that its last actions do not act.
func (e *simulated) Oracle() (float64, [][]float64, error) {
	if e.plant.Oracle == nil {
		return math.NaN(), nil, nil
	}
	first, sum, err := e.beginning()
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := halfTheTime(e.ctx)
	defer cancel()
	cost, plan, err := e.plant.Oracle(ctx, first.s, first.c, e.Steps()-first.t, e.scene.Preference)
	return sum + cost, append(slices.Clone(plan), first.actions...), err
}
