package systemfile

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/ocp"
)

// header is a file without its program, field by field in the order of its canonical bytes.
type header struct {
	Format          string          `json:"format"`
	Version         int             `json:"version"`
	Name            string          `json:"name"`
	Description     string          `json:"description,omitempty"`
	State           []variable      `json:"state"`
	Context         []variable      `json:"context,omitempty"`
	Action          []variable      `json:"action"`
	Objectives      []variable      `json:"objectives"`
	Margins         []variable      `json:"margins,omitempty"`
	Scenario        []variable      `json:"scenario"`
	Steps           int             `json:"steps"`
	StepSeconds     float64         `json:"step_s"`
	Horizon         int             `json:"horizon,omitempty"`
	Delay           float64         `json:"delay,omitempty"`
	Measurement     *measurement    `json:"measurement,omitempty"`
	Integrator      *integrator     `json:"integrator,omitempty"`
	EscapeSteps     int             `json:"escape_steps,omitempty"`
	Soft            []soft          `json:"soft,omitempty"`
	Rates           []float64       `json:"rates,omitempty"`
	Blocks          []int           `json:"blocks,omitempty"`
	Switches        []switched      `json:"switches,omitempty"`
	Rest            []float64       `json:"rest,omitempty"`
	StateScale      []float64       `json:"state_scale,omitempty"`
	ObjectiveScale  []float64       `json:"objective_scale,omitempty"`
	MarginTolerance float64         `json:"margin_tolerance,omitempty"`
	Semantic        semantic        `json:"semantic,omitzero"`
	Solver          solver          `json:"solver,omitzero"`
	Training        training        `json:"training,omitzero"`
	WeightDesign    weightDesign    `json:"weight_design,omitzero"`
	Navigation      navigation      `json:"navigation,omitzero"`
	Picture         []shape         `json:"picture,omitempty"`
	Constants       json.RawMessage `json:"constants,omitempty"`
}

// variable is a domain.Variable; one without lo and hi is not bounded.
type variable struct {
	Name      string   `json:"name"`
	Unit      string   `json:"unit,omitempty"`
	Lo        *float64 `json:"lo,omitempty"`
	Hi        *float64 `json:"hi,omitempty"`
	Tolerance float64  `json:"tolerance,omitempty"`
	Kind      string   `json:"kind,omitempty"`
	Limit     string   `json:"limit,omitempty"`
}

// collision is the kind of a margin that is a distance; others have none.
const collision = "collision"

// soft is an equations.Soft.
type soft struct {
	Margin    string  `json:"margin"`
	Linear    float64 `json:"linear,omitempty"`
	Quadratic float64 `json:"quadratic,omitempty"`
	Priority  int     `json:"priority,omitempty"`
}

// switched is an equations.Switch; one without before has that of rest.
type switched struct {
	Action    string    `json:"action"`
	Values    []float64 `json:"values"`
	Least     []int     `json:"least,omitempty"`
	Most      int       `json:"most,omitempty"`
	Window    int       `json:"window,omitempty"`
	Cost      float64   `json:"cost,omitempty"`
	Objective string    `json:"objective,omitempty"`
	Initial   *float64  `json:"before,omitempty"`
}

func switchedOf(w equations.Switch) switched {
	s := switched{Action: w.Action, Values: w.Values, Least: w.Least, Most: w.Most, Window: w.Window, Cost: w.Cost, Objective: w.Objective}
	if !math.IsNaN(w.Initial) {
		s.Initial = &w.Initial
	}
	return s
}

func (s *switched) equations() equations.Switch {
	w := equations.OneOf(s.Action, s.Values...)
	w.Least, w.Most, w.Window = s.Least, s.Most, s.Window
	w.Cost, w.Objective = s.Cost, s.Objective
	if s.Initial != nil {
		w.Initial = *s.Initial
	}
	return w
}

// integrator makes the state after an action of the function ode.
type integrator struct {
	Method   string   `json:"method"`
	Span     float64  `json:"span_s"`
	Substeps substeps `json:"substeps"`
	Error    float64  `json:"error,omitempty"`
}

// substeps is a number, or "auto" for dual.Auto.
type substeps int

func (n substeps) MarshalJSON() ([]byte, error) {
	if n == dual.Auto {
		return []byte(`"auto"`), nil
	}
	return json.Marshal(int(n))
}

func (n *substeps) UnmarshalJSON(text []byte) error {
	if string(text) == `"auto"` {
		*n = dual.Auto
		return nil
	}
	return json.Unmarshal(text, (*int)(n))
}

// Methods of an integrator.
const (
	explicit = "rk4"   // dual.RK4
	implicit = "radau" // dual.Radau, for stiff equations
)

// shape is a domain.Shape, whose numbers the function picture writes: the coordinates of its points, then the
// radius of a disc, then the heading.
type shape struct {
	Role    string `json:"role"`
	Points  int    `json:"points"`
	Disc    bool   `json:"disc,omitempty"`
	Heading bool   `json:"heading,omitempty"`
	Body    int    `json:"of,omitempty"`
}

var roles = []string{domain.Body: "body", domain.Obstacle: "obstacle", domain.Goal: "goal", domain.Ground: "ground"}

// numbers is how many of the function's entries are the shape's.
func (s *shape) numbers() int {
	n := 2 * s.Points
	if s.Disc {
		n++
	}
	if s.Heading {
		n++
	}
	return n
}

// The types below are those of other packages under the names of fields in a file: a conversion that does not compile
// says that a field was added there.

type semantic struct {
	K       []float64 `json:"k,omitempty"`
	Epsilon []float64 `json:"epsilon,omitempty"`
	Rho     float64   `json:"rho,omitempty"`
}

type solver struct {
	Horizon      int       `json:"horizon,omitempty"`
	Keep         int       `json:"keep,omitempty"`
	Starts       int       `json:"starts,omitempty"`
	Tolerance    float64   `json:"tolerance,omitempty"`
	Iterations   int       `json:"iterations,omitempty"`
	StateScale   []float64 `json:"-"` // the system's
	Perturbed    int       `json:"perturbed,omitempty"`
	PerturbScale float64   `json:"perturb_scale,omitempty"`
	Follow       int       `json:"follow,omitempty"`
	Room         []float64 `json:"room,omitempty"`
	Blocks       []int     `json:"-"` // the system's
	Library      int       `json:"library,omitempty"`
	TerminalCost bool      `json:"-"` // the system's horizon
}

type training struct {
	Latent          int                 `json:"latent,omitempty"`
	Hidden          int                 `json:"hidden,omitempty"`
	Encoder         int                 `json:"encoder,omitempty"`
	Scenarios       int                 `json:"scenarios,omitempty"`
	Weights         int                 `json:"weights,omitempty"`
	Design          domain.WeightDesign `json:"-"` // weight_design
	ManifoldEpochs  int                 `json:"manifold_epochs,omitempty"`
	RolloutEpochs   int                 `json:"rollout_epochs,omitempty"`
	Batch           int                 `json:"batch,omitempty"`
	LearningRate    float64             `json:"learning_rate,omitempty"`
	ActionWeight    float64             `json:"action_weight,omitempty"`
	Emphasis        float64             `json:"emphasis,omitempty"`
	SpectralBound   float64             `json:"spectral_bound,omitempty"`
	Codes           int                 `json:"codes,omitempty"`
	LocalNeighbours int                 `json:"local_neighbours,omitempty"`
	PreferenceFloor float64             `json:"preference_floor,omitempty"`
	ActionTolerance []float64           `json:"action_tolerance,omitempty"`
	Fade            float64             `json:"fade,omitempty"`
}

type weightDesign struct {
	Name      string  `json:"name,omitempty"`
	Reference int     `json:"reference,omitempty"`
	LogLo     float64 `json:"log_lo,omitempty"`
	LogHi     float64 `json:"log_hi,omitempty"`
}

type navigation struct {
	LatentStep     float64 `json:"latent_step,omitempty"`
	VMax           float64 `json:"v_max,omitempty"`
	Epsilon        float64 `json:"epsilon,omitempty"`
	MetricLambda   float64 `json:"metric_lambda,omitempty"`
	TopK           int     `json:"top_k,omitempty"`
	LieGain        float64 `json:"lie_gain,omitempty"`
	LieScale       float64 `json:"lie_scale,omitempty"`
	RetractionMix  float64 `json:"retraction_mix,omitempty"`
	Smoothing      float64 `json:"smoothing,omitempty"`
	PriorityFilter float64 `json:"priority_filter,omitempty"`
	Neighbours     int     `json:"neighbours,omitempty"`
	RotationBlocks int     `json:"rotation_blocks,omitempty"`
	RawWeights     bool    `json:"raw_weights,omitempty"`
}

// headerOf is a system without its functions in a file's form.
func headerOf(y *equations.System) (h header, err error) {
	h = header{
		Format: format, Version: version, Name: y.Name, Description: y.Description,
		State: variablesOf(y.State), Context: variablesOf(y.Context), Action: variablesOf(y.Action),
		Objectives: variablesOf(y.Objectives), Margins: variablesOf(y.Margins), Scenario: variablesOf(y.Scenario),
		Steps: y.Steps, StepSeconds: y.StepSeconds, Horizon: y.Horizon, Delay: y.Delay, EscapeSteps: y.EscapeSteps, Rates: y.Rates, Blocks: y.Blocks, Rest: y.Rest, StateScale: y.StateScale,
		ObjectiveScale: y.ObjectiveScale, MarginTolerance: y.MarginTolerance, Semantic: semantic(y.Semantic), Solver: solver(y.Solver),
		Training: training(y.Training), WeightDesign: weightDesign(y.Training.Design), Navigation: navigation(y.Navigation),
	}
	for _, s := range y.Soft {
		h.Soft = append(h.Soft, soft(s))
	}
	for _, w := range y.Switches {
		h.Switches = append(h.Switches, switchedOf(w))
	}
	h.Solver.StateScale, h.Solver.Blocks, h.Solver.TerminalCost = nil, nil, false
	h.Training.Design = domain.WeightDesign{}
	switch {
	case y.ODE != nil:
		h.Integrator = &integrator{explicit, y.ODE.Span, substeps(y.ODE.Substeps), 0}
	case y.Stiff != nil:
		h.Integrator = &integrator{implicit, y.Stiff.Span, substeps(y.Stiff.Substeps), 0}
	}
	if y.Constants != nil {
		if h.Constants, err = json.Marshal(y.Constants); err != nil {
			return h, fmt.Errorf("constants: %w", err)
		}
	}
	return h, nil
}

// system is the header's system, without functions.
func (h *header) system() equations.System {
	y := equations.System{
		Name: h.Name, Description: h.Description,
		State: domainVariables(h.State), Context: domainVariables(h.Context), Action: domainVariables(h.Action),
		Objectives: domainVariables(h.Objectives), Margins: domainVariables(h.Margins), Scenario: domainVariables(h.Scenario),
		Steps: h.Steps, StepSeconds: h.StepSeconds, Horizon: h.Horizon, Delay: h.Delay, EscapeSteps: h.EscapeSteps, Rates: h.Rates, Blocks: h.Blocks, Rest: h.Rest, StateScale: h.StateScale,
		ObjectiveScale: h.ObjectiveScale, MarginTolerance: h.MarginTolerance, Semantic: domain.Semantic(h.Semantic),
		Solver: ocp.Options(h.Solver), Training: domain.Training(h.Training), Navigation: domain.Navigation(h.Navigation),
	}
	for _, s := range h.Soft {
		y.Soft = append(y.Soft, equations.Soft(s))
	}
	for i := range h.Switches {
		y.Switches = append(y.Switches, h.Switches[i].equations())
	}
	y.Training.Design = domain.WeightDesign(h.WeightDesign)
	if h.Constants != nil {
		y.Constants = h.Constants
	}
	return y
}

func variablesOf(list []domain.Variable) []variable {
	var out []variable
	for _, v := range list {
		w := variable{Name: v.Name, Unit: v.Unit, Tolerance: v.Tolerance, Limit: v.Limit}
		if v.Bounded() {
			w.Lo, w.Hi = &v.Lo, &v.Hi
		}
		if v.Kind == domain.Collision {
			w.Kind = collision
		}
		out = append(out, w)
	}
	return out
}

func domainVariables(list []variable) []domain.Variable {
	var out []domain.Variable
	for _, w := range list {
		v := domain.Variable{Name: w.Name, Unit: w.Unit, Tolerance: w.Tolerance, Limit: w.Limit}
		if w.Lo != nil {
			v.Lo, v.Hi = *w.Lo, *w.Hi
		}
		if w.Kind == collision {
			v.Kind = domain.Collision
		}
		out = append(out, v)
	}
	return out
}
