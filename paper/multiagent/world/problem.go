package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// Places in the context vector: previous actions, goals and radii of all robots that
// there is room for, then centre, velocity and radius of fifteen obstacles. A radius of
// zero is a body that is not there (the paper's mask m_i), of a robot that waits to enter it is negative.
const (
	contextPrevious = 0
	obstacleSize    = 5
)

func (p *Params) contextGoal() int      { return contextPrevious + p.Room()*ActionSize }
func (p *Params) contextRadius() int    { return p.contextGoal() + p.Room()*2 }
func (p *Params) contextObstacles() int { return p.contextRadius() + p.Room() }

// ContextSize is the number of entries of a context.
func (p *Params) ContextSize() int { return p.contextObstacles() + p.Bodies()*obstacleSize }

// Constants of the urgency indicators: half urgency two metres from the goal,
// and safety's falls by e within the width of a robot.
const (
	GoalScale   = 4.0 // m²
	MarginScale = 0.5 // m
)

// System is the domain.Problem of Case 2. It is immutable and safe for
// concurrent use.
type System struct {
	Params Params
	scenes Distribution
	spec   domain.Spec
}

var _ domain.Problem = (*System)(nil)

// Abilities implements domain.Able.
func (y *System) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{
		Fingerprint: y.Fingerprint, Admit: y.Admit, Picture: y.Picture,
	}
}

// NewSystem builds the problem called name; moving chooses the scenes.
func NewSystem(name string, params Params, moving bool) (*System, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	if params.Robots == MaxRobots {
		params.Robots = 0
	}
	if params.Obstacles == MaxObstacles {
		params.Obstacles = 0
	}
	if moving && params.Sensing.Rays > 0 {
		return nil, errors.New("parameter sensing: rays are of obstacles that stand")
	}
	y := &System{Params: params, scenes: Frozen(moving)}
	if params.Room() > Few {
		y.scenes.crowd(&params)
	}
	count, robots, obstacles := "six", "unicycles", "standing"
	state := [2]domain.Variable{{Name: "theta", Unit: "rad"}, {Name: "v", Unit: "m/s"}}
	action := [ActionSize]domain.Variable{{Name: "a", Unit: "m/s²"}, {Name: "omega", Unit: "rad/s"}}
	if params.Double() {
		robots = "double integrators"
		state = [2]domain.Variable{{Name: "vx", Unit: "m/s"}, {Name: "vy", Unit: "m/s"}}
		action = [ActionSize]domain.Variable{{Name: "ax", Unit: "m/s²"}, {Name: "ay", Unit: "m/s²"}}
	}
	if params.Robots != 0 {
		count = fmt.Sprint(params.Robots)
	}
	if moving {
		obstacles = "moving"
	}
	y.spec = domain.Spec{
		Name:            name,
		Description:     fmt.Sprintf("up to %s %s to their goals among %s obstacles", count, robots, obstacles),
		Objectives:      []domain.Variable{{Name: "goal"}, {Name: "safety"}, {Name: "effort"}},
		Margins:         []domain.Variable{{Name: "ego obstacle", Unit: "m", Kind: domain.Collision}, {Name: "agent obstacle", Unit: "m", Kind: domain.Collision}, {Name: "robot pair", Unit: "m", Kind: domain.Collision}},
		Plan:            Horizon,
		Steps:           params.Steps,
		StepSeconds:     params.Dt,
		Semantic:        domain.Semantic{K: []float64{2, 4, 1}, Epsilon: []float64{1, 1, 1}, Rho: 1},
		MarginTolerance: 1e-6,
	}
	l := params.Limits
	for i := range params.Room() {
		name := func(s string) string { return fmt.Sprintf("%s%d", s, i) }
		y.spec.Measured = append(y.spec.Measured,
			domain.Variable{Name: name("x"), Unit: "m"}, domain.Variable{Name: name("y"), Unit: "m"},
			domain.Variable{Name: name(state[0].Name), Unit: state[0].Unit}, domain.Variable{Name: name(state[1].Name), Unit: state[1].Unit})
		y.spec.Action = append(y.spec.Action,
			domain.Variable{Name: name(action[0].Name), Unit: action[0].Unit, Lo: l.AMin, Hi: l.AMax},
			domain.Variable{Name: name(action[1].Name), Unit: action[1].Unit, Lo: -l.OmegaMax, Hi: l.OmegaMax})
	}
	add := func(format, unit string, i int) {
		y.spec.Context = append(y.spec.Context, domain.Variable{Name: fmt.Sprintf(format, i), Unit: unit})
	}
	for i := range params.Room() {
		for _, u := range action {
			add(u.Name+"%d_prev", u.Unit, i)
		}
	}
	for i := range params.Room() {
		add("goal%d_x", "m", i)
		add("goal%d_y", "m", i)
	}
	for i := range params.Room() {
		add("r%d", "m", i)
	}
	for j := range params.Bodies() {
		add("obstacle%d_x", "m", j)
		add("obstacle%d_y", "m", j)
		add("obstacle%d_vx", "m/s", j)
		add("obstacle%d_vy", "m/s", j)
		add("obstacle%d_r", "m", j)
	}
	return y, nil
}

// Moving says whether the obstacles of the system's scenes move.
func (y *System) Moving() bool { return y.scenes.Moving }

// Spec implements domain.Problem.
func (y *System) Spec() *domain.Spec { return &y.spec }

// Fingerprint is domain.ProblemAbilities.Fingerprint.
func (y *System) Fingerprint() [32]byte {
	text, err := json.Marshal(y.Params)
	if err != nil {
		panic(err) // Validate wants finite numbers
	}
	return y.spec.Fingerprint(text)
}

// Base writes zeros: the decoded plan is absolute.
func (y *System) Base(s, c, plan []float64) { clear(plan) }

// Decode reads the prediction problem from a state and a context.
func (y *System) Decode(s, c []float64) *Prediction {
	h := new(Prediction)
	h.Decode(&y.Params, s, c)
	return h
}

// Decode reads a state and a context, in the obstacles' memory where there is enough.
func (h *Prediction) Decode(p *Params, s, c []float64) {
	h.Params, h.Obstacles = p, h.Obstacles[:0]
	goals, radii, obstacles := p.contextGoal(), p.contextRadius(), p.contextObstacles()
	n := p.Room()
	for n > 0 && c[radii+n-1] == 0 {
		n--
	}
	h.hold(n)
	for i := range n {
		h.Radius[i], h.Absent[i] = math.Abs(c[radii+i]), c[radii+i] <= 0
		copy(h.State[i][:], s[StateSize*i:])
		copy(h.Previous[i][:], c[contextPrevious+ActionSize*i:])
		copy(h.Goal[i][:], c[goals+2*i:])
	}
	for j := range p.Bodies() {
		o := c[obstacles+obstacleSize*j:][:obstacleSize]
		if o[4] <= 0 {
			break
		}
		h.Obstacles = append(h.Obstacles, Obstacle{C: [2]float64{o[0], o[1]}, V: [2]float64{o[2], o[3]}, R: o[4]})
	}
}

// Encode is the inverse of Decode.
func (h *Prediction) Encode(s, c []float64) {
	h.encodeState(s)
	clear(c)
	goals, radii, obstacles := h.Params.contextGoal(), h.Params.contextRadius(), h.Params.contextObstacles()
	for i := range h.Robots {
		copy(c[contextPrevious+ActionSize*i:], h.Previous[i][:])
		copy(c[goals+2*i:], h.Goal[i][:])
		if c[radii+i] = h.Radius[i]; h.Absent[i] && h.Radius[i] > 0 {
			c[radii+i] = -h.Radius[i]
		}
	}
	for j, o := range h.Obstacles {
		copy(c[obstacles+obstacleSize*j:], []float64{o.C[0], o.C[1], o.V[0], o.V[1], o.R})
	}
}

func (h *Prediction) encodeState(s []float64) {
	clear(s)
	for i := range h.Robots {
		copy(s[StateSize*i:], h.State[i][:])
	}
}

// stage evaluates one executed step: its three objectives, the smallest margin of each
// kind after it, and where it leads. The stage of a step is its summand of the horizon cost, so J_term has no part in
// it, and since Σσ = 1 the terms that are always active are added to each:
//
//	J_i = λ_i·term_i + λ_v·violation + λ_Δ·smoothness,  σᵀJ = the stage cost.
func (h *Prediction) stage(u, J []float64) (margins [MarginKinds]float64, t *trajectory) {
	var raw [Terms]float64
	entered := h.admit(u)
	t = h.evaluate(u, 1, &raw, &margins)
	if entered { // where they begin, too
		h.pairs(h.State, h.Obstacles, func(kind, _, _ int, m, _, _, _ float64) { margins[kind] = math.Min(margins[kind], m) })
	}
	p := h.Params
	always := p.Lambda[ViolationTerm]*raw[ViolationTerm] + p.Lambda[SmoothnessTerm]*raw[SmoothnessTerm]
	for i := range 3 {
		J[i] = p.Lambda[i]*raw[i] + always
	}
	return margins, t
}

// Objectives writes the stage objectives of a joint action.
func (y *System) Objectives(s, u, c, J []float64) {
	y.Decode(s, c).stage(u, J)
}

// Gradient writes the derivatives of σᵀJ in s and u, σ held constant.
func (y *System) Gradient(s, u, c, sigma, gs, gu []float64) {
	h := y.Decode(s, c)
	weights := y.Params.Weights(sigma)
	total := sigma[0] + sigma[1] + sigma[2]
	weights[ViolationTerm] *= total
	weights[SmoothnessTerm] *= total
	weights[TerminalTerm] = 0
	clear(gu)
	h.admit(u)
	gstate := make([][StateSize]float64, h.Robots)
	h.gradient(h.simulate(u, 1), u, 1, &weights, gu, gstate)
	clear(gs)
	for i := range gstate {
		copy(gs[StateSize*i:], gstate[i][:])
	}
}

// Indicators writes δ of goal (the ego's distance, half at two metres), safety
// (the smallest margin now, 1 where it is zero or less) and effort (mean square
// of the action relative to its limits).
func (y *System) Indicators(s, u, c, delta []float64) {
	h := y.Decode(s, c)
	if h.Robots == 0 {
		clear(delta)
		return
	}
	dx, dy := h.State[0][0]-h.Goal[0][0], h.State[0][1]-h.Goal[0][1]
	d := dx*dx + dy*dy
	delta[0] = d / (d + GoalScale)
	delta[1] = math.Exp(-math.Max(h.Margin(), 0) / MarginScale)
	effort := 0.0
	l := &y.Params.Limits
	for i := range h.Robots {
		a, omega := u[2*i]/math.Max(l.AMax, -l.AMin), u[2*i+1]/l.OmegaMax
		effort += (a*a + omega*omega) / (2 * float64(h.Robots))
	}
	delta[2] = math.Min(effort, 1)
}

// Step is the plant's own step, exact: robots move, obstacles move and are
// mirrored.
func (y *System) Step(s, c, u, sNext, cNext []float64) {
	h := y.Decode(s, c)
	h.Apply(u)
	h.Encode(sNext, cNext)
}

// Apply advances the problem by one step.
func (h *Prediction) Apply(u []float64) {
	h.admit(u)
	for i := range h.Present {
		h.State[i] = h.Params.Step(&h.State[i], u[2*i], u[2*i+1])
		h.Previous[i] = [2]float64{u[2*i], u[2*i+1]}
	}
	for j := range h.Obstacles {
		h.Params.advance(&h.Obstacles[j])
	}
}

// Margins writes the smallest margin of each kind after the action: ego to
// obstacles, other robots to obstacles, robot to robot.
func (y *System) Margins(s, c, u, m []float64) {
	var J [3]float64
	margins, _ := y.Decode(s, c).stage(u, J[:])
	copy(m, margins[:])
}

// Project moves a joint action into limits and slew bounds, exactly, and reports whether
// the next positions keep every margin. It does not look for another action: a plan is
// made safe by a search, which sees all of it.
func (y *System) Project(s, c, u []float64) bool {
	y.Admit(s, c, u)
	_, margin := y.Decode(s, c).Score(u, 1, Thirds)
	return margin >= 0
}

// Admit moves a joint action into limits and slew bounds, which the plant refuses to leave;
// a robot that is not there has none. It is domain.ProblemAbilities.Admit.
func (y *System) Admit(s, c, u []float64) {
	for i := range y.Params.Room() {
		switch r, a := c[y.Params.contextRadius()+i], u[ActionSize*i:][:ActionSize]; {
		case r == 0:
			clear(a)
		case r > 0 || a[0] != 0 || a[1] != 0: // who waits and does nothing stays outside
			y.Params.Limits.Nearest(a, c[contextPrevious+ActionSize*i:][:ActionSize])
		}
	}
}

// Fallback brakes every robot as hard as the slew bound allows and stops
// turning; robots whose speed is not finite let it be.
func (y *System) Fallback(s, c, u []float64) {
	clear(u)
	l := &y.Params.Limits
	for i := range y.Params.Room() {
		if c[y.Params.contextRadius()+i] <= 0 {
			continue
		}
		state := [StateSize]float64(s[StateSize*i:][:StateSize])
		for k, a := range y.Params.Brake(&state) {
			if finite(a) {
				u[2*i+k] = a
			}
		}
		l.Nearest(u[2*i:2*i+2], c[contextPrevious+2*i:][:2])
	}
}
