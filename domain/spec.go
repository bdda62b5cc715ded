package domain

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

// Variable names one component of a vector.
type Variable struct {
	Name string
	Unit string
	// Lo and Hi are the hard box of an action component (the paper's U), the sampling range of a
	// scenario parameter, or the typical range of a state or margin. Both zero: unbounded.
	Lo, Hi float64
	// Size is the typical size of a measured component or a margin without a box, or of an entry of the context; 0: 1.
	Size float64 `json:"-"`
	// Tolerance, of a measured component, is how far, in Unit, a map of this case may decode
	// it from what is measured before the observation counts as off the map, whatever the
	// map says of itself; see batchnav.ResidualBound. 0: it states none.
	Tolerance float64
	// Kind says what a margin is about.
	Kind MarginKind
	// Limit is the kind of limit that a margin is of, such as "voltage" for every bus's; "" is
	// its Name. Margins of one kind of limit have one Unit.
	Limit string
}

// Names are those of variables.
func Names(list []Variable) []string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = v.Name
	}
	return names
}

// LimitName is the kind of limit that a margin is of.
func (v Variable) LimitName() string { return cmp.Or(v.Limit, v.Name) }

// MarginKind tells margins apart where a table counts them by what they are about.
type MarginKind uint8

const (
	// Limit: a limit of the plant or of its actuators.
	Limit MarginKind = iota
	// Collision: a distance to another body.
	Collision
)

// Bounded reports whether the variable has a box.
func (v Variable) Bounded() bool { return v.Lo != 0 || v.Hi != 0 }

// Excess is the largest distance of values from the ranges of their variables, in ranges, with the index of that one; 0
// where all are inside.
func Excess(values []float64, variables []Variable) (excess float64, index int) {
	for i, v := range variables {
		if distance := math.Max(v.Lo-values[i], values[i]-v.Hi) / (v.Hi - v.Lo); v.Bounded() && distance > excess {
			excess, index = distance, i
		}
	}
	return excess, index
}

// Clip writes values into dst, each moved into the box of its variable; one without a box stays. The two may be the same.
func Clip(dst, values []float64, variables []Variable) {
	for i, v := range values {
		if a := &variables[i]; a.Bounded() {
			v = math.Min(a.Hi, math.Max(a.Lo, v))
		}
		dst[i] = v
	}
}

// Scale is the width of the box, or Size without one: what the noise of a measured component is
// counted in (EpisodeOptions.Noise, Guard.Noise), and what a solver counts a margin in.
func (v Variable) Scale() float64 {
	if v.Bounded() {
		return v.Hi - v.Lo
	}
	return cmp.Or(v.Size, 1)
}

// Middle is the middle of the box; 0 without one.
func (v Variable) Middle() float64 { return (v.Lo + v.Hi) / 2 }

// Half is half the width of the box, 1 without one: what a solver counts an action or a state in.
func (v Variable) Half() float64 {
	if v.Bounded() {
		return (v.Hi - v.Lo) / 2
	}
	return 1
}

// Draw draws evenly from the box.
func (v Variable) Draw(rng *rand.Rand) float64 { return v.Lo + (v.Hi-v.Lo)*rng.Float64() }

// DrawScenario draws each parameter of a scenario evenly from its range.
func DrawScenario(rng *rand.Rand, parameters []Variable, p []float64) {
	for i, v := range parameters {
		p[i] = v.Draw(rng)
	}
}

// Semantic holds the constants of the urgency potential, eq. iclr-semantic:
// φ_i = exp(K_i δ_i / Epsilon_i) − 1 and σ_i = (φ_i + Rho)/Σ_j(φ_j + Rho).
type Semantic struct {
	K, Epsilon []float64
	Rho        float64
}

// Spec says what a problem's vectors are. It is constant over the life of the
// problem; callers must not modify it.
type Spec struct {
	Name        string
	Description string
	Measured    []Variable // s, what D_s decodes
	Context     []Variable // c, known exactly at every decision
	Action      []Variable // one action u; Lo/Hi are its box
	Objectives  []Variable // J
	Margins     []Variable // hard constraints, each ≥ 0 when kept
	Switches    []Switch   // actions that take one of a few values, in the order of Action; nil: none
	Plan        int        // H: actions in one decoded plan; 1 for a single action
	Steps       int        // decisions in one episode
	// Horizon is how many decisions a plan of a plant that runs on looks ahead. There is then no clock, and an episode is a
	// stretch of Steps decisions, after which the plant goes on. 0: episodes end after Steps decisions, and plans look to the end.
	Horizon int
	// Enveloped says that an observation is off a map, whatever its residual is, where a measured component is far beyond
	// the states that the map's codes decode to, or an entry of the context beyond those that it was trained on.
	Enveloped bool
	// Clock is the entry of Context that says which share of the episode has passed, counted from 1; 0:
	// there is none. A decision with no step left is refused.
	Clock       int
	StepSeconds float64 // control period, s
	Semantic    Semantic
	// MarginTolerance is how far below zero a margin may be before it counts as
	// a violation (rounding of the plant, not slack for the controller).
	MarginTolerance float64
	// Navigation holds the defaults of the online step for this problem.
	Navigation Navigation
	// Training holds the defaults of dataset and training for this problem.
	Training Training
}

// Sizes of the vectors of a Spec.
func (s *Spec) MeasuredSize() int   { return len(s.Measured) }
func (s *Spec) ContextSize() int    { return len(s.Context) }
func (s *Spec) ActionSize() int     { return len(s.Action) }
func (s *Spec) PlanSize() int       { return len(s.Action) * s.Plan }
func (s *Spec) ObjectiveSize() int  { return len(s.Objectives) }
func (s *Spec) PreferenceSize() int { return 1 + len(s.Objectives) }

// ObservationSize is the input width of E_x: measured state, context, slot.
func (s *Spec) ObservationSize() int {
	return s.MeasuredSize() + s.ContextSize() + s.PreferenceSize()
}

// OracleSize is the input width of E_o: state, priority σ, objectives J.
func (s *Spec) OracleSize() int { return s.MeasuredSize() + 2*s.ObjectiveSize() }

// LookAhead is how many decisions a plan looks ahead at most: Horizon, or an episode.
func (s *Spec) LookAhead() int { return cmp.Or(s.Horizon, s.Steps) }

// Tail is the number of decisions that a receding loop's last plan has after an episode of that many steps. Whatever is
// compared with such a loop plans as far: a terminal cost is accurate only near the steady state.
func (s *Spec) Tail(steps int) int {
	if s.Horizon > 0 && steps > s.Horizon {
		return s.Horizon - 1
	}
	return 0
}

// Limits lists the kinds of limits of the margins, each once, in the order in which they first
// stand, and limitOf says for every margin which one it is of.
func (s *Spec) Limits() (limits []Variable, limitOf []int) {
	limitOf = make([]int, len(s.Margins))
	for i, m := range s.Margins {
		k := slices.IndexFunc(limits, func(l Variable) bool { return l.Name == m.LimitName() })
		if k < 0 {
			k = len(limits)
			limits = append(limits, Variable{Name: m.LimitName(), Unit: m.Unit, Kind: m.Kind})
		}
		limitOf[i] = k
	}
	return limits, limitOf
}

// Keeps reports whether a smallest margin counts as kept; a NaN does not.
func (s *Spec) Keeps(margin float64) bool { return margin >= -s.MarginTolerance }

// Fingerprint is the SHA-256 of the Spec, but for its description, tolerances and the defaults
// of navigation and training, and of constants that it does not say, in whatever form.
func (s *Spec) Fingerprint(constants []byte) [32]byte {
	sum := sha256.New()
	steps := s.Steps
	if s.Horizon > 0 { // how long a test drives is not the problem's
		steps = -s.Horizon
	}
	fmt.Fprintf(sum, "%q %d %d %v %v %v %v %v\n", s.Name, s.Plan, steps, s.StepSeconds, s.MarginTolerance, s.Semantic.K, s.Semantic.Epsilon, s.Semantic.Rho)
	for i, list := range [][]Variable{s.Measured, s.Context, s.Action, s.Objectives, s.Margins} {
		for _, v := range list {
			fmt.Fprintf(sum, "%d %q %q %v %v %d\n", i, v.Name, v.Unit, v.Lo, v.Hi, v.Kind)
		}
	}
	if len(s.Switches) > 0 {
		fmt.Fprintf(sum, "switches %v\n", s.Switches)
	}
	sum.Write(constants)
	return [32]byte(sum.Sum(nil))
}

// CheckSizes says what is wrong with the lengths of an observation, with its clock, or with what was before of its
// switches, in words that follow its name. An entry that is no number is a sensor's fault, which is answered.
func (s *Spec) CheckSizes(state, context []float64) error {
	if len(state) != s.MeasuredSize() || len(context) != s.ContextSize() {
		return fmt.Errorf("has %d measured values and %d of context, case %q has %d and %d", len(state), len(context), s.Name, s.MeasuredSize(), s.ContextSize())
	}
	for i := range s.Switches {
		if wrong := s.Switches[i].wrong(s, context); wrong != "" {
			return errors.New(wrong)
		}
	}
	if s.Clock == 0 {
		return nil
	}
	// Half a step of room for a clock that is counted in other arithmetic.
	index, half := s.Clock-1, 0.5/float64(s.Steps)
	if v := context[index]; v < -half || v >= 1-half {
		return fmt.Errorf("has %s %v in c[%d], want it from 0 to %.6g: the episode of case %q has %d decisions, and its limits are defined only for these; begin another episode at 0",
			s.Context[index].Name, v, index, 1-2*half, s.Name, s.Steps)
	}
	return nil
}

// CheckObservation says what is wrong with an observation that is asked about, in words
// that follow its name: its lengths, an entry that is not finite, its preference.
func (s *Spec) CheckObservation(state, context []float64, pref Preference) error {
	if err := s.CheckSizes(state, context); err != nil {
		return err
	}
	if !tensor.Finite(state) || !tensor.Finite(context) {
		return fmt.Errorf("has an entry that is not finite: s %v, c %v", state, context)
	}
	if err := pref.Validate(s.ObjectiveSize()); err != nil {
		return fmt.Errorf("has a wrong preference: %w", err)
	}
	return nil
}

// Navigation holds the constants of Algorithm 2 (paper, alg. online).
type Navigation struct {
	LatentStep     float64 // Δt of the latent flow
	VMax           float64 // cap on ‖k_1‖ and ‖k_2‖, latent units per unit of Δt
	Epsilon        float64 // ε of the energy
	MetricLambda   float64 // λ_m
	TopK           int     // k, eigendirections of the Lie residual
	LieGain        float64 // γ_L ≥ 0; the paper's is in [0,1]
	LieScale       float64 // s_L
	RetractionMix  float64 // μ_R ∈ [0,1]
	Smoothing      float64 // α ∈ (0,1], used while the estimated noise is positive
	PriorityFilter float64 // low-pass gain of σ ∈ (0,1]; 1 is no filter
	Neighbours     int     // codes in the local affine refinement of localization; n_z + 1 or more span the latent
	RotationBlocks int     // leading SO(3) blocks of the latent group; 0: translation on ℝⁿ
	RawWeights     bool    // the flow weighs J by σ, and not by σ over each objective's range on the dataset
}

// Training holds the constants of dataset and training.
type Training struct {
	Latent          int // n_z
	Hidden          int // width of the hidden layers
	Encoder         int // width of E_x's, which runs once an observation where D_u runs once a latent; 0: Hidden
	Scenarios       int // scenarios of a full dataset
	Weights         int // fixed preferences per scenario, without the adaptive one
	Design          WeightDesign
	ManifoldEpochs  int
	RolloutEpochs   int
	Batch           int
	LearningRate    float64
	ActionWeight    float64 // λ_u of the action loss; 0: the trainer's default
	Emphasis        float64 // share of an epoch drawn by decoding error, [0,1)
	SpectralBound   float64 // K of each layer's spectral norm; large, as the paper says
	Codes           int     // codes a bundled model carries
	LocalNeighbours int     // κ
	// PreferenceFloor is ε of the slot in which E_x reads a user's w (Preference.Slot): about
	// the weight at which an objective begins to matter; 0: it reads w itself. Where the
	// objectives' ranges differ by decades the optimum is nearly a step of w at an edge of
	// Δ, and a network that has to make the step is wrong far beyond it.
	PreferenceFloor float64
	// ActionTolerance are the errors of the entries of a plan that weigh alike in the
	// action loss; nil: the standard deviations of the targets.
	ActionTolerance []float64
	// Fade, for a plan of H actions: where it is positive, the plan's entries are
	// normalised by one scale for each component of the action, that of all steps
	// together, which grows linearly to 1 + Fade times itself at the last: what will be
	// planned anew before it is executed weighs less in training. 0: each entry by its own.
	Fade float64
}

// WeightDesign says how the fixed preferences of a full dataset are chosen: the
// name that `--design` takes, "" for its default, with the reference objective
// and the range of log10 w_j/w_Reference of a logarithmic or mixed one.
type WeightDesign struct {
	Name         string
	Reference    int
	LogLo, LogHi float64
}

// Priority is eq. iclr-semantic: it writes σ ∈ Δ from the indicators δ,
// computed relative to the largest exponent so that it cannot overflow. Where an
// indicator is NaN or +Inf, all of σ is NaN.
func (m Semantic) Priority(delta, sigma []float64) {
	top := 0.0
	for i, d := range delta {
		top = math.Max(top, m.K[i]*d/m.Epsilon[i])
	}
	// Everything is divided by exp(top): σ is unchanged.
	scale := math.Exp(-top)
	sum := 0.0
	for i, d := range delta {
		sigma[i] = math.Exp(m.K[i]*d/m.Epsilon[i]-top) - scale + m.Rho*scale
		sum += sigma[i]
	}
	for i := range delta {
		sigma[i] /= sum
	}
}
