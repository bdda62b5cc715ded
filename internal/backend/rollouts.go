package backend

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// RolloutsBackend is implemented by a backend that scores a round of the search along
// roll-outs by itself: from the offsets of the candidates to their costs, without the
// host between steps. Package batchnav uses it where it can and rolls out by the
// problem's own methods otherwise; ref.Rollouts says what a score is.
type RolloutsBackend interface {
	// NewRollouts prepares roll-outs of one map. ErrNoRollouts says that those of this
	// problem, or of a model of these sizes, are the caller's.
	NewRollouts(cfg RolloutsConfig) (Rollouts, error)
}

// ErrNoRollouts is returned by NewRollouts, and by Score of roll-outs that can no longer
// be made, where the caller has to roll out by itself.
var ErrNoRollouts = errors.New("this backend does not roll out this problem by itself")

// RolloutsConfig describes the map, its problem and what bends its policy. Plans are of
// one action; Step.MaxBatch is the most candidates of a round. Codes are not read.
type RolloutsConfig struct {
	MapConfig
	Knots int // most knots of a candidate's offsets
}

// Width is how many numbers an offset has at one knot.
func (c *RolloutsConfig) Width() int { return c.Step.DecoderS.In() }

// Validate says what is wrong with a configuration.
func (c *RolloutsConfig) Validate() error {
	const op = "roll-outs"
	if err := c.validate(op); err != nil {
		return err
	}
	if spec := c.Step.Problem.Spec(); spec.Plan != 1 || c.Knots < 1 {
		return fmt.Errorf("%s: plans of %d actions and %d knots, want plans of one and at least one knot", op, spec.Plan, c.Knots)
	}
	return nil
}

// RolloutsInput is a round. A candidate acts at step h by D_u(E_x(x_h) + o_h), its offsets
// o_h linear between knots spread evenly over the steps, the last on the last step.
type RolloutsInput struct {
	S, C       []float64 // where all begin, finite
	Preference domain.Preference
	Z          []float32     // E_x there
	Offsets    tensor.Matrix // [B, knots·width], of knots at most Steps
	Steps      int           // decisions of a roll-out, ≥ 1
	// Behind is what comes behind a roll-out, at the state and context where it ends; nil: nothing.
	Behind       *domain.Quadratic
	NoProjection bool
}

// RolloutsOutput receives what the candidates cost: Σ σᵀJ with what comes behind, the smallest margin, and the
// decoded action that each begins with. A roll-out that leaves the numbers, or meets a
// state that is lost (domain.ProblemAbilities.Failed), has the margin −Inf, and its cost is any.
type RolloutsOutput struct {
	Cost, Margin []float64     // [B]
	First        tensor.Matrix // [B, action] before projection
	// Kept are the steps before one that leads to a state that is lost, Steps where none does, any of a roll-out that
	// leaves the numbers; nil: nobody asks.
	Kept []int
}

// Check says what is wrong with the shapes of a round.
func (c *RolloutsConfig) Check(in *RolloutsInput, out *RolloutsOutput) error {
	const op = "roll-outs"
	spec, rows, width := c.Step.Problem.Spec(), in.Offsets.Rows, c.Width()
	if err := spec.CheckSizes(in.S, in.C); err != nil {
		return fmt.Errorf("%s: the observation %w", op, err)
	}
	knots := in.Offsets.Cols / width
	if rows < 1 || rows > c.Step.MaxBatch || in.Steps < 1 || knots < 1 || knots > min(c.Knots, in.Steps) {
		return fmt.Errorf("%s: %d candidates of %d steps and %d knots, want 1 to %d of at least one step, and 1 to %d knots, none more than steps", op, rows, in.Steps, knots, c.Step.MaxBatch, c.Knots)
	}
	if n := c.Step.DecoderS.In(); len(in.Z) != n {
		return fmt.Errorf("%s: a latent of %d entries, want %d", op, len(in.Z), n)
	}
	if err := checkBehind(op, in.Behind, c.Step.Problem); err != nil {
		return err
	}
	return cmp.Or(
		tensor.Check(op, "Offsets", in.Offsets, rows, knots*width),
		checkLength(op, "Cost", false, len(out.Cost), rows), checkLength(op, "Margin", false, len(out.Margin), rows), checkLength(op, "Kept", out.Kept == nil, len(out.Kept), rows),
		tensor.Check(op, "First", out.First, rows, spec.ActionSize()), in.Preference.Validate(spec.ObjectiveSize()),
	)
}

// Ends reports whether something may come behind the plans of a problem.
func Ends(p domain.Problem) bool {
	spec := p.Spec()
	return spec.Plan == 1 && spec.Horizon > 0 && domain.AbilitiesOfProblem(p).Behind != nil
}

// checkBehind says what is wrong with what comes behind.
func checkBehind(op string, q *domain.Quadratic, p domain.Problem) error {
	if q != nil && !Ends(p) {
		return fmt.Errorf("%s: nothing comes behind the plans of %s", op, p.Spec().Name)
	}
	n := p.Spec().MeasuredSize() + p.Spec().ContextSize()
	if q == nil || len(q.At) == n && len(q.Scale) == n && len(q.Slope) == n && len(q.Curvature) == n*n {
		return nil
	}
	return fmt.Errorf("%s: what comes behind is of %d entries with %d scales, %d slopes and %d of curvature, want %d, %d, %d and %d", op, len(q.At), len(q.Scale), len(q.Slope), len(q.Curvature), n, n, n, n*n)
}

// Rollouts scores one round after another. It is used by one goroutine.
type Rollouts interface {
	Score(in RolloutsInput, out RolloutsOutput) error
}
