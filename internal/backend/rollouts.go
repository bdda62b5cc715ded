package backend

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/tensor"
)

// RolloutsBackend is implemented by a backend that scores a round of the search along
// roll-outs by itself: from the offsets of the candidates to their costs, without the
// host between steps. Package batchnav uses it where it can and rolls out by the
// problem's own methods otherwise; backendtest.Rollouts says what a score is.
type RolloutsBackend interface {
	// NewRollouts prepares roll-outs of one map. ErrNoRollouts says that those of this
	// problem, or of a model of these sizes, are the caller's.
	NewRollouts(cfg RolloutsConfig) (Rollouts, error)
}

// ErrNoRollouts is returned by NewRollouts, and by Score of roll-outs that can no longer
// be made, where the caller has to roll out by itself.
var ErrNoRollouts = errors.New("this backend does not roll out this problem by itself")

// ErrNoSearch is returned by Search where the caller has to ask for one round after the other.
var ErrNoSearch = errors.New("this backend does not make the rounds of a search by itself")

// RolloutsConfig describes the map, its problem and what bends its policy. Plans are of
// one action; Step.MaxBatch is the most candidates of a round. Codes are not read.
type RolloutsConfig struct {
	MapConfig
	Steps  int                  // most decisions of a roll-out
	Search crossentropy.Options // of the rounds that Search makes
}

// Width is how many numbers an offset has at one step.
func (c *RolloutsConfig) Width() int { return c.Step.DecoderS.In() }

// Validate says what is wrong with a configuration.
func (c *RolloutsConfig) Validate() error {
	const op = "roll-outs"
	if err := c.validate(op); err != nil {
		return err
	}
	if spec := c.Step.Problem.Spec(); spec.Plan != 1 || c.Steps < 1 {
		return fmt.Errorf("%s: plans of %d actions and %d steps, want plans of one and at least one step", op, spec.Plan, c.Steps)
	}
	return nil
}

// RolloutsInput is a round. A candidate acts at step h by D_u(E_x(x_h) + o_h).
type RolloutsInput struct {
	S, C         []float64 // where all begin, finite
	Preference   domain.Preference
	Z            []float32         // E_x there
	Offsets      tensor.Matrix     // [B, steps·width]
	Steps        int               // decisions of a roll-out, ≥ 1
	TerminalCost *domain.Quadratic // at the state and context where a roll-out ends; nil: none
	NoProjection bool
}

// RolloutsOutput receives the candidates' costs, Σ σᵀJ with the terminal cost, their smallest margins and first
// decoded actions. A roll-out that becomes non-finite, or meets a lost state (domain.ProblemAbilities.Failed), has
// the margin −Inf and any cost.
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
	if rows < 1 || rows > c.Step.MaxBatch || in.Steps < 1 || in.Steps > c.Steps {
		return fmt.Errorf("%s: %d candidates of %d steps, want 1 to %d of 1 to %d steps", op, rows, in.Steps, c.Step.MaxBatch, c.Steps)
	}
	if n := c.Step.DecoderS.In(); len(in.Z) != n {
		return fmt.Errorf("%s: a latent of %d entries, want %d", op, len(in.Z), n)
	}
	if err := checkTerminalCost(op, in.TerminalCost, c.Step.Problem); err != nil {
		return err
	}
	return cmp.Or(
		tensor.Check(op, "Offsets", in.Offsets, rows, in.Steps*width),
		checkLength(op, "Cost", false, len(out.Cost), rows), checkLength(op, "Margin", false, len(out.Margin), rows), checkLength(op, "Kept", out.Kept == nil, len(out.Kept), rows),
		tensor.Check(op, "First", out.First, rows, spec.ActionSize()), in.Preference.Validate(spec.ObjectiveSize()),
	)
}

// Ends reports whether plans of a problem may have a terminal cost.
func Ends(p domain.Problem) bool {
	spec := p.Spec()
	return spec.Plan == 1 && spec.Horizon > 0 && domain.AbilitiesOfProblem(p).TerminalCost != nil
}

// checkTerminalCost reports a terminal cost that does not fit a problem.
func checkTerminalCost(op string, q *domain.Quadratic, p domain.Problem) error {
	if q != nil && !Ends(p) {
		return fmt.Errorf("%s: nothing comes behind the plans of %s", op, p.Spec().Name)
	}
	n := p.Spec().MeasuredSize() + p.Spec().ContextSize()
	if q == nil || len(q.At) == n && len(q.Scale) == n && len(q.Slope) == n && len(q.Curvature) == n*n {
		return nil
	}
	return fmt.Errorf("%s: what comes behind is of %d entries with %d scales, %d slopes and %d of curvature, want %d, %d, %d and %d", op, len(q.At), len(q.Scale), len(q.Slope), len(q.Curvature), n, n, n, n*n)
}

// SearchInput is a whole decision: rounds of candidates from what a sampler begins with.
type SearchInput struct {
	S, C         []float64 // where all begin, finite
	Preference   domain.Preference
	Z            []float32         // E_x there
	TerminalCost *domain.Quadratic // as of a round
	NoProjection bool
	Begin        crossentropy.Decision
	Candidates   int  // over all rounds, ≥ 1; a round has RolloutsConfig.Search.Round, the last what is left
	Rounds       int  // most of them; 0: all
	Elites       bool // whether all elites are wanted; otherwise the best alone is the outcome's
}

// CheckTerminalCost reports a TerminalCost that does not fit a problem.
func (input *SearchInput) CheckTerminalCost(p domain.Problem) error {
	return checkTerminalCost("search", input.TerminalCost, p)
}

// SearchOutput is what the rounds came to.
type SearchOutput struct {
	Rounds   []SearchRound
	Outcome  crossentropy.Outcome // which the next call replaces
	Executed []float64            // [steps·action] what the best roll-out executes; none where none has a margin
}

// SearchRound says of a round how many of its candidates are feasible, what these cost together and at least, and
// what the best so far costs, with its margin.
type SearchRound struct {
	Candidates, Feasible       int
	Total, Least, Cost, Margin float64
}

// Rollouts scores one round after another, or makes all of a decision. It is used by one goroutine.
type Rollouts interface {
	Score(in RolloutsInput, out RolloutsOutput) error
	// Search makes the rounds of a decision, until one has no new elite. ErrNoSearch says that they are the caller's.
	Search(in SearchInput, out *SearchOutput) error
	// Executes tells whether Search says what the best roll-out executes.
	Executes() bool
}
