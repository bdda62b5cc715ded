package world

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
)

// limitTolerance is by how much an action may leave its limits before the plant
// refuses it: rounding.
const limitTolerance = 1e-9

// Plant makes the closed-loop episodes. It is safe for concurrent use.
type Plant struct {
	System *System
	// Reference makes the method that Episode.Oracle runs, for a system with the
	// episode's constants; nil: no oracle.
	Reference func(*System) (domain.Controller, error)
}

var _ domain.Plant = (*Plant)(nil)

// Params implements domain.Plant.
func (l *Plant) Params() any { return l.System.Params }

// Episode is test scene number index of the seed. opt.Preference scores the
// episode: adaptive and the zero value are w = (1/3, 1/3, 1/3), the same for
// every method. opt.Noise is the standard deviation of the measured state, m,
// rad and m/s. The only regime is "".
func (l *Plant) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	if err := opt.NoRegime(l.System.spec.Name); err != nil {
		return nil, err
	}
	w, err := opt.Fixed(index, 3)
	if err != nil {
		return nil, err
	}
	scene, err := l.System.Draw(Test, seed, uint64(index))
	if err != nil {
		return nil, err
	}
	scene.W = w
	return l.measured(scene, opt.Noise, seed, index), nil
}

// measured is the episode of a scene whose measurements are noisy.
func (l *Plant) measured(scene Scene, noise float64, seed uint64, index int) *Episode {
	e := l.Start(scene)
	e.noise, e.rng = noise, generator("gpc multi noise", 0, seed, uint64(index))
	return e
}

// Replay rebuilds a noise-free episode from a trace's header and scene.
func (l *Plant) Replay(params, scene json.RawMessage) (domain.Episode, error) {
	system := l.System
	p := system.Params
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, fmt.Errorf("trace params: %w", err)
	}
	if p != system.Params {
		var err error
		if system, err = NewSystem(system.spec.Name, p, system.scenes.Moving); err != nil {
			return nil, fmt.Errorf("trace params: %w", err)
		}
	}
	rebuilt, err := decodeScene(scene, &system.Params)
	if err != nil {
		return nil, fmt.Errorf("trace scene: %w", err)
	}
	return (&Plant{system, l.Reference}).Start(rebuilt), nil
}

// Start is the noise-free episode of a scene, which must be valid.
func (l *Plant) Start(scene Scene) *Episode {
	e := &Episode{plant: l, scene: scene, w: Thirds, world: *scene.Prediction(&l.System.Params)}
	if scene.W != nil {
		e.w = scene.W
	}
	e.arrived, e.closest = make([]bool, e.world.Robots), make([]float64, e.world.Robots)
	e.arrivals()
	e.presence()
	return e
}

// Episode is one closed-loop run. It implements domain.Episode.
type Episode struct {
	plant *Plant
	scene Scene
	w     []float64
	noise float64
	rng   *rand.Rand

	t       int
	world   Prediction
	arrived []bool    // latched
	closest []float64 // least goal distance so far, m
	hit     string    // the first violated margin, in words
}

var _ domain.Episode = (*Episode)(nil)

// Abilities implements domain.Able.
func (e *Episode) Abilities() *domain.EpisodeAbilities {
	return &domain.EpisodeAbilities{
		Succeeded: e.Succeeded, Arrived: e.Arrived, Cause: e.Cause, Sizes: e.Sizes, Beyond: e.Beyond,
		Changes: []string{"obstacle", "goal"}, Change: e.Change,
	}
}

// Scene, Steps, Done and State implement domain.Episode.
func (e *Episode) Scene() any        { return e.scene }
func (e *Episode) Steps() int        { return e.plant.System.Params.Steps }
func (e *Episode) Done() bool        { return e.t >= e.plant.System.Params.Steps }
func (e *Episode) State(s []float64) { e.world.encodeState(s) }

// Params are the constants of the episode's plant.
func (e *Episode) Params() *Params { return &e.plant.System.Params }

// Sizes are the leading components of state and action that belong to robots of
// this scene; a trace holds only these.
func (e *Episode) Sizes() (state, action int) {
	return StateSize * e.world.Robots, ActionSize * e.world.Robots
}

// Succeeded reports whether every robot has been within the goal radius at some
// step (joint success).
func (e *Episode) Succeeded() bool {
	return !slices.Contains(e.arrived, false)
}

// Arrived reports whether every robot is within the goal radius now.
func (e *Episode) Arrived() bool {
	for i := range e.world.Robots {
		if !e.atGoal(i) {
			return false
		}
	}
	return true
}

func (e *Episode) atGoal(i int) bool {
	s, g := &e.world.State[i], &e.world.Goal[i]
	return math.Hypot(s[0]-g[0], s[1]-g[1]) <= e.plant.System.Params.GoalRadius
}

func (e *Episode) arrivals() {
	for i := range e.world.Robots {
		s, g := &e.world.State[i], &e.world.Goal[i]
		d := math.Hypot(s[0]-g[0], s[1]-g[1])
		if e.t == 0 || d < e.closest[i] {
			e.closest[i] = d
		}
		e.arrived[i] = e.arrived[i] || !e.world.Absent[i] && e.atGoal(i)
	}
}

// presence notes who may enter, and who has left.
func (e *Episode) presence() {
	now := float64(e.t)*e.plant.System.Params.Dt + limitTolerance
	for i, r := range e.scene.Robots {
		switch {
		case r.Leaves > 0 && now >= r.Leaves || r.LeavesAtGoal && e.arrived[i]:
			e.world.Absent[i], e.world.Radius[i] = true, 0
		case e.world.Absent[i] && now >= r.Enters:
			e.world.Radius[i] = r.R
		}
	}
}

// Cause says why the episode is not safe so far: the first violated margin, or
// the robots that have not been at their goals.
func (e *Episode) Cause() string {
	if e.hit != "" {
		return e.hit
	}
	var causes []string
	for i := range e.world.Robots {
		switch {
		case e.arrived[i]:
		case e.world.Absent[i] && e.world.State[i] == e.plant.System.Params.start(&e.scene.Robots[i]):
			causes = append(causes, fmt.Sprintf("robot %d has not entered", i))
		default:
			causes = append(causes, fmt.Sprintf("robot %d came no closer to its goal than %.2f m", i, e.closest[i]))
		}
	}
	return strings.Join(causes, "; ")
}

// collision names the first pair of bodies whose margin is violated after this
// step.
func (e *Episode) collision(t *trajectory) {
	for k, states := range t.states { // of the first only who has just entered
		e.world.pairs(states, t.obstacle[k], func(kind, i, other int, margin, _, _, _ float64) {
			if e.hit != "" || e.plant.System.spec.Keeps(margin) {
				return
			}
			partner := "an obstacle"
			if kind == pairMargins {
				partner = fmt.Sprintf("robot %d", other)
			}
			e.hit = fmt.Sprintf("robot %d violates its margin to %s by %.3f m at step %d", i, partner, -margin, e.t)
		})
	}
}

// Observe writes the measured state, noisy where asked, and the exact context.
func (e *Episode) Observe(s, c []float64) {
	e.world.Encode(s, c)
	if e.noise > 0 {
		for i := range s[:StateSize*e.world.Robots] {
			s[i] += e.noise * e.rng.NormFloat64()
		}
	}
}

// Apply advances the plant. An action outside limits or slew bounds is an error
// that names the robot: nothing is clipped here.
func (e *Episode) Apply(u []float64) (domain.Outcome, error) {
	if e.Done() {
		return domain.Outcome{}, fmt.Errorf("the episode is over after %d steps", e.Steps())
	}
	room := e.plant.System.Params.Room()
	if len(u) != room*ActionSize {
		return domain.Outcome{}, fmt.Errorf("action has %d components, want %d", len(u), room*ActionSize)
	}
	for i := range room {
		a := u[2*i : 2*i+2]
		if acts := a[0] != 0 || a[1] != 0; i >= e.world.Robots || e.world.Absent[i] && (e.world.Radius[i] == 0 || !acts) {
			if acts {
				return domain.Outcome{}, fmt.Errorf("action of robot %d is %v, want 0: it is not there", i, a)
			}
			continue
		}
		if math.IsNaN(a[0]+a[1]) || math.IsInf(a[0]+a[1], 0) {
			return domain.Outcome{}, fmt.Errorf("action of robot %d is %v, want finite numbers", i, a)
		}
		if excess := e.plant.System.Params.Limits.Excess(a, e.world.Previous[i][:]); excess > limitTolerance {
			return domain.Outcome{}, fmt.Errorf("action of robot %d is %v after %v, %g outside its limits", i, a, e.world.Previous[i], excess)
		}
	}
	J := make([]float64, 3)
	margins, t := e.world.stage(u, J)
	if e.hit == "" && !e.plant.System.spec.Keeps(slices.Min(margins[:])) {
		e.collision(t)
	}
	out := domain.Outcome{
		S: make([]float64, room*StateSize), J: J, Sigma: slices.Clone(e.w),
		Named: slices.Clone(margins[:]), Margin: slices.Min(margins[:]),
	}
	for i, w := range e.w {
		out.Cost += w * out.J[i]
	}
	e.world.Apply(u)
	e.t++
	e.arrivals()
	e.world.encodeState(out.S)
	e.presence()
	return out, nil
}

// Oracle runs the plant's reference through the scene and returns its cost
// where it was safe (every robot arrived, no margin violated), with its actions;
// NaN and no plan where it was not, since an unsafe run is no yardstick (the
// paper's gap is over reference-safe episodes).
func (e *Episode) Oracle() (float64, [][]float64, error) {
	if e.plant.Reference == nil {
		return math.NaN(), nil, nil
	}
	run := e.plant.Start(e.scene)
	if slices.ContainsFunc(e.scene.Robots, func(r Robot) bool { return r.Enters > 0 || r.Leaves > 0 || r.LeavesAtGoal }) {
		return math.NaN(), nil, nil // the reference knows none that come and go
	}
	reference, err := e.plant.Reference(e.plant.System)
	if err != nil {
		return math.NaN(), nil, err
	}
	spec := e.plant.System.Spec()
	s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	pref := domain.Preference{W: e.w}
	cost := 0.0
	var plan [][]float64
	for !run.Done() {
		run.Observe(s, c)
		u := make([]float64, spec.ActionSize())
		if _, err := reference.Decide(s, c, pref, u); err != nil {
			return math.NaN(), nil, err
		}
		out, err := run.Apply(u)
		if err != nil {
			return math.NaN(), nil, err
		}
		if !e.plant.System.spec.Keeps(out.Margin) {
			return math.NaN(), nil, nil
		}
		cost += out.Cost
		plan = append(plan, u)
	}
	if !run.Succeeded() {
		return math.NaN(), nil, nil
	}
	return cost, plan, nil
}
