package domain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/names"
)

// Plant makes the closed-loop episodes of a case.
type Plant interface {
	// Params are the constants of the trace header: all that is needed to
	// re-simulate without this program.
	Params() any
	// Episode draws test scene number index of the seeded stream. The stream is
	// disjoint from every training scenario. noise is the standard deviation of
	// the measurement noise in units of each state's own scale; regime is the
	// case's own word, "" the default.
	Episode(seed uint64, index int, opt EpisodeOptions) (Episode, error)
	// Replay rebuilds an episode from a trace's header params and scene.
	Replay(params, scene json.RawMessage) (Episode, error)
}

// EpisodeOptions vary a test scene.
type EpisodeOptions struct {
	Noise      float64
	Regime     string
	Preference Preference
	// Context ends, with its error, what takes long in drawing the scene and in the episode's
	// Oracle, and shows how far it is (ProgressOf); nil: nothing does.
	Context context.Context
}

// progress is the key of a context's WithProgress.
type progress struct{}

// WithProgress is a context whose work shows how far its long parts are, such as a library of optima.
func WithProgress(ctx context.Context, show func(part string, done, total int)) context.Context {
	return context.WithValue(ctx, progress{}, show)
}

// ProgressOf shows how far a part of the work of a context is; nil where nobody looks.
func ProgressOf(ctx context.Context, part string) func(done, total int) {
	show, ok := ctx.Value(progress{}).(func(part string, done, total int))
	if !ok {
		return nil
	}
	return func(done, total int) { show(part, done, total) }
}

// RegimeError says that a plant's episodes have no such regime.
type RegimeError struct {
	Case, Regime string
	Has          []string // "" is the default alone
}

func (e RegimeError) Error() string {
	if !slices.ContainsFunc(e.Has, func(name string) bool { return name != "" }) {
		return fmt.Sprintf("case %q has no regimes: leave the regime %q out", e.Case, e.Regime)
	}
	name, _, _ := strings.Cut(e.Regime, ":") // what is behind it is the case's own
	suggestion := ""
	if !slices.Contains(e.Has, name) {
		suggestion = names.Meant(name, e.Has)
	}
	return fmt.Sprintf("case %q has no regime %q%s (it has %s)", e.Case, e.Regime, suggestion, strings.Join(e.Has, ", "))
}

// NoRegime is a RegimeError where a regime of a case that has none is asked for.
func (o EpisodeOptions) NoRegime(name string) error {
	if o.Regime == "" {
		return nil
	}
	return RegimeError{Case: name, Regime: o.Regime, Has: []string{""}}
}

// Until is Context, or one that does not end.
func (o EpisodeOptions) Until() context.Context { return cmp.Or(o.Context, context.Background()) }

// Fixed checks the options of test scene number index, except for the regime, in a case
// of m objectives. It returns a copy of the weights that score the episode, nil for the
// adaptive priority and for the zero Preference.
func (o EpisodeOptions) Fixed(index, m int) ([]float64, error) {
	if !(o.Noise >= 0) || math.IsInf(o.Noise, 0) {
		return nil, fmt.Errorf("measurement noise is %v, want a finite standard deviation ≥ 0", o.Noise)
	}
	if index < 0 {
		return nil, fmt.Errorf("episode index is %d, want ≥ 0", index)
	}
	if o.Preference.Adaptive || o.Preference.W == nil {
		return nil, nil
	}
	return slices.Clone(o.Preference.W), o.Preference.Validate(m)
}

// Outcome is what the plant says of one applied action.
type Outcome struct {
	S      []float64 // the plant's state after the action
	J      []float64 // stage objectives
	Sigma  []float64 // priority the stage was scored with
	Cost   float64   // stage cost σᵀJ
	Margin float64   // smallest hard margin of the step
	Named  []float64 // every hard margin, in the order of Spec.Margins
	// Failed: the state after the action is lost, or the episode began in one that is; see
	// ProblemAbilities.Failed.
	Failed bool
	// Soft is how far each soft limit is from being exceeded (ProblemAbilities.Soft), below zero where it is; nil: there are none.
	Soft []float64
}

// Episode is one closed-loop run. It is used by one goroutine.
type Episode interface {
	Scene() any
	Steps() int
	// Observe writes the measured (noisy where asked) state and the context.
	Observe(s, c []float64)
	// State writes the true state.
	State(s []float64)
	// Apply advances the plant by one step and scores it.
	Apply(u []float64) (Outcome, error)
	// Done reports whether the episode has ended.
	Done() bool
	// Oracle returns the cost of the reference optimum from the same initial
	// state and its plan [Steps][action]; nil plan and NaN where the case has no
	// oracle.
	Oracle() (cost float64, plan [][]float64, err error)
}
