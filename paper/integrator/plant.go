package integrator

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
)

// testStream separates test scenes and their noise from every training draw:
// it is mixed into the seed of each generator here and nowhere else.
const testStream = 0x7465_7374_7363_656e // "testscen"

// Scene is the initial condition of an episode, as the trace holds it. W is
// present only where a fixed preference scores the episode.
type Scene struct {
	Q0    [2]float64       `json:"q0"`     // m
	V0    [2]float64       `json:"v0"`     // m/s
	UPrev [2]float64       `json:"u_prev"` // m/s²
	P     [Horizon]float64 `json:"p"`      // operating parameter of every step
	W     []float64        `json:"w,omitempty"`
}

// rise is by how much the operating parameter rises from a step to the next; behind the last as before it.
func (s *Scene) rise(t int) float64 {
	t = min(t, Horizon-2)
	return s.P[t+1] - s.P[t]
}

// Plant makes the closed-loop episodes. It is safe for concurrent use.
type Plant struct {
	system *System
	oracle *Oracle
}

// traceParams are the header constants of a trace: the system's, and those of
// the priority σ that stages are scored with.
type traceParams struct {
	Params
	Semantic semanticParams `json:"semantic"`
}

// semanticParams are the constants of σ, written out for whoever re-scores a
// trace without this program:
//
//	σ ∝ (exp(safety_gain·δ₁) − 1 + rho, exp(goal_gain·δ₂) − 1 + rho)
//	δ₁ = 2/(1 + exp((ψ − 1)/psi_scale)),  δ₂ = d²/(d² + goal_scale)
//
// with ψ the squared elliptic distance and d the distance to the goal of the
// state before the action.
type semanticParams struct {
	SafetyGain float64 `json:"safety_gain"`
	GoalGain   float64 `json:"goal_gain"`
	Rho        float64 `json:"rho"`
	PsiScale   float64 `json:"psi_scale"`
	GoalScale  float64 `json:"goal_scale"` // m²
}

var semantic = semanticParams{safetyGain, goalGain, 1, psiScale, goalScale}

// Params implements domain.Plant.
func (l *Plant) Params() any { return traceParams{l.system.Params, semantic} }

// Episode draws test scene number index: uniform in the test box, from a stream
// of (seed, index) that no training draw shares. opt.Noise is the standard
// deviation of the measured state, in m and m/s. opt.Preference scores the
// episode; its zero value is the adaptive priority. The only regime is "".
func (l *Plant) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	if err := opt.NoRegime(l.system.spec.Name); err != nil {
		return nil, err
	}
	w, err := opt.Fixed(index, 2)
	if err != nil {
		return nil, err
	}
	v, noise := draw(seed, index)
	scene := l.system.scene(v[:])
	scene.W = w
	return l.measured(scene, noise, opt), nil
}

// draw gives the scenario vector of an episode, and the stream that its measurement noise is
// drawn from: what follows in the stream of the vector.
func draw(seed uint64, index int) (v [scenarioSize]float64, noise *rand.Rand) {
	noise = rand.New(rand.NewPCG(seed^testStream, uint64(index)))
	domain.DrawScenario(noise, testRange(), v[:])
	return v, noise
}

// measured is the episode of a scene, its measurements noisy as opt says.
func (l *Plant) measured(scene Scene, noise *rand.Rand, opt domain.EpisodeOptions) *episode {
	ep := newEpisode(l.system, l.oracle, scene)
	ep.noise, ep.rng, ep.ctx = opt.Noise, noise, opt.Until()
	return ep
}

// scene is the initial condition of a scenario vector (the axes of testRange).
func (y *System) scene(v []float64) Scene {
	scene := Scene{Q0: [2]float64{v[0], v[1]}, V0: [2]float64{v[2], v[3]}}
	for t := range scene.P {
		scene.P[t] = v[4] + v[5]*float64(t)*y.Params.Dt
	}
	return scene
}

// Replay rebuilds a noise-free episode from a trace's header and scene.
func (l *Plant) Replay(params, scene json.RawMessage) (domain.Episode, error) {
	p := traceParams{Semantic: semantic}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, fmt.Errorf("trace params: %w", err)
	}
	if p.Semantic != semantic {
		return nil, fmt.Errorf("trace params: semantic is %+v, this program scores with %+v", p.Semantic, semantic)
	}
	system, oracle := l.system, l.oracle
	if p.Params != system.Params {
		var err error
		if system, err = NewSystem(l.system.spec.Name, p.Params); err != nil {
			return nil, fmt.Errorf("trace params: %w", err)
		}
		oracle = newOracle(system)
	}
	// Pointers tell an absent key from a zero.
	var raw struct {
		Q0    *[2]float64 `json:"q0"`
		V0    *[2]float64 `json:"v0"`
		UPrev *[2]float64 `json:"u_prev"`
		P     []float64   `json:"p"`
		W     []float64   `json:"w"`
	}
	if err := json.Unmarshal(scene, &raw); err != nil {
		return nil, fmt.Errorf("trace scene: %w", err)
	}
	if raw.Q0 == nil || raw.V0 == nil || raw.UPrev == nil {
		return nil, fmt.Errorf("trace scene lacks one of q0, v0, u_prev")
	}
	if len(raw.P) != Horizon {
		return nil, fmt.Errorf("trace scene has %d values of p, want %d, one per step", len(raw.P), Horizon)
	}
	rebuilt := Scene{Q0: *raw.Q0, V0: *raw.V0, UPrev: *raw.UPrev, W: raw.W}
	copy(rebuilt.P[:], raw.P)
	if raw.W != nil {
		if err := (domain.Preference{W: raw.W}).Validate(2); err != nil {
			return nil, fmt.Errorf("trace scene: %w", err)
		}
	}
	return newEpisode(system, oracle, rebuilt), nil
}

func newEpisode(system *System, oracle *Oracle, scene Scene) *episode {
	ep := &episode{system: system, oracle: oracle, scene: scene, ctx: context.Background()}
	ep.s = [4]float64{scene.Q0[0], scene.Q0[1], scene.V0[0], scene.V0[1]}
	ep.previous = scene.UPrev
	ep.preference = domain.Preference{Adaptive: scene.W == nil, W: scene.W}
	return ep
}

// episode is one closed-loop run.
type episode struct {
	system     *System
	oracle     *Oracle
	scene      Scene
	preference domain.Preference
	noise      float64
	rng        *rand.Rand
	ctx        context.Context // of the oracle

	t        int
	s        [4]float64
	previous [2]float64
}

func (e *episode) Scene() any        { return e.scene }
func (e *episode) Steps() int        { return Horizon }
func (e *episode) Done() bool        { return e.t >= Horizon }
func (e *episode) State(s []float64) { copy(s, e.s[:]) }

// Observe writes the measured state, noisy where asked, and the exact context.
// Each call draws fresh noise.
func (e *episode) Observe(s, c []float64) {
	copy(s, e.s[:])
	if e.noise > 0 {
		for i := range s[:4] {
			s[i] += e.noise * e.rng.NormFloat64()
		}
	}
	e.context(c)
}

func (e *episode) context(c []float64) {
	c[contextPrevious], c[contextPrevious+1] = e.previous[0], e.previous[1]
	c[contextRate] = e.scene.rise(0) / e.system.Params.Dt
	if e.t < Horizon {
		c[contextP] = e.scene.P[e.t]
	} else {
		c[contextP] = e.scene.P[Horizon-1] + c[contextRate]*e.system.Params.Dt
	}
	c[contextTime] = float64(e.t) / Horizon
}

// Apply advances the plant. The stage cost is σᵀJ with σ at the true state
// before the action (or the fixed preference), and the ellipse stands at
// c₀ + ρ·p[t] for step t, for the limit on its way to that at p[t+1] by Params.Lead.
func (e *episode) Apply(u []float64) (domain.Outcome, error) {
	var out domain.Outcome
	return out, e.apply(u, &out)
}

// apply is Apply into an outcome whose vectors, where there are any, are used again.
func (e *episode) apply(u []float64, out *domain.Outcome) error {
	if e.Done() {
		return fmt.Errorf("the episode is over after %d steps", Horizon)
	}
	if len(u) != 2 {
		return fmt.Errorf("action has %d components, want 2", len(u))
	}
	if math.IsNaN(u[0]+u[1]) || math.IsInf(u[0]+u[1], 0) {
		return fmt.Errorf("action (%v, %v) is not finite", u[0], u[1])
	}
	var c [contextSize]float64
	e.context(c[:])
	c[contextRate] = e.scene.rise(e.t) / e.system.Params.Dt // a given series may bend
	if out.S == nil {
		all := make([]float64, 4+2+2+3)
		out.S, out.J = all[:4:4], all[4:6:6]
		out.Sigma, out.Named = all[6:8:8], all[8:]
	}
	e.system.Margins(e.s[:], c[:], u, out.Named)
	out.Margin = min(out.Named[0], out.Named[1], out.Named[2])
	e.system.Objectives(e.s[:], u, c[:], out.J)
	e.system.priority(e.s[:], c[:], e.preference, out.Sigma)
	out.Cost = out.Sigma[0]*out.J[0] + out.Sigma[1]*out.J[1]

	e.system.k64.next(motionOf(e.s[:]), u[0], u[1]).write(e.s[:])
	copy(out.S, e.s[:])
	e.previous = [2]float64{u[0], u[1]}
	e.t++
	return nil
}

// Abilities implements domain.Able.
func (l *Plant) Abilities() *domain.PlantAbilities {
	return &domain.PlantAbilities{Draft: l.Draft, Stage: l.Stage, NewStepper: l.NewStepper}
}

// NewStepper is domain.PlantAbilities.NewStepper: a step allocates nothing.
func (l *Plant) NewStepper() domain.Stepper { return stepper{} }

// stepper implements domain.Stepper.
type stepper struct{}

// Apply implements domain.Stepper.
func (stepper) Apply(episodes []domain.Episode, u [][]float64, outcomes []domain.Outcome, errs []error) {
	for i, e := range episodes {
		errs[i] = e.(*episode).apply(u[i], &outcomes[i])
	}
}

// priority writes σ at a state, or the fixed preference.
func (y *System) priority(s, c []float64, pref domain.Preference, sigma []float64) {
	if !pref.Adaptive {
		copy(sigma, pref.W)
		return
	}
	one := y.Params.urgency(s[0], s[1], c[contextP]).sigma
	sigma[0], sigma[1] = one, 1-one
}

// Oracle returns the optimum from the scene's initial state under its
// preference, with ψ ≥ 1 and KKT residual ≤ CertifiedKKT.
func (e *episode) Oracle() (float64, [][]float64, error) {
	var problem horizonProblem
	e.system.sceneProblem(&problem, &e.scene, e.preference)
	sol, err := e.oracle.best(e.ctx, &problem)
	if err != nil {
		return math.NaN(), nil, err
	}
	plan := make([][]float64, Horizon)
	for t := range plan {
		plan[t] = []float64{sol.plan[2*t], sol.plan[2*t+1]}
	}
	return sol.cost, plan, nil
}
