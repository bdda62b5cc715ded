// Package environment simulates a case's plant for reinforcement learning: thousands of closed-loop episodes
// side by side, each reset when it ends.
//
// The central type is Fleet, which steps all of them in one call, in parallel, and reads and
// writes arrays of the caller's. Everything in it is the case's own. The episodes are those
// of closedloop.Evaluate for a seed and number, and an observation is what a controller sees
// there. A step is Episode.Apply. The reward is minus the stage cost, the cost is how far
// margins are broken. The output does not depend on the number of threads.
package environment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
)

// Float is the type of observations and actions.
type Float interface{ float32 | float64 }

// Autoreset says when an environment whose episode has ended begins its next. The three are
// those of Gymnasium's vector environments.
type Autoreset string

const (
	// NextStep: in the step after the last, whose action is not looked at; the default.
	NextStep Autoreset = "next-step"
	// SameStep: in the last step itself; Rows.Final has what was observed before.
	SameStep Autoreset = "same-step"
	// Disabled: when Reset is called.
	Disabled Autoreset = "disabled"
)

// Options of a Fleet.
type Options struct {
	Environments int    // how many, at least 1
	Seed         uint64 // of the episodes
	// Cycle, where it is not 0, is the number of different episodes: after Cycle − 1 follows
	// 0 again.
	Cycle int
	// Preference of scoring, and so of the reward; Noise and Regime are those of
	// domain.EpisodeOptions.
	Preference domain.Preference
	Noise      float64
	Regime     string
	// Safeguard has each action before the plant does: domain.Safeguard.
	Safeguard bool
	// Past: an episode goes on to its last step also after its goal has been met, as an
	// evaluation does; otherwise it terminates there. For a case without goals they are the same.
	Past bool
	// FailureCost is the cost of each step that is not taken after a failure. 0 is twice the largest
	// stage cost, in absolute value, of episode 0 of seed 0 under Problem.Fallback.
	FailureCost float64
	Autoreset   Autoreset // "": NextStep
	Threads     int       // 0: the number of processors
}

// validate says what cannot be.
func (o *Options) validate(spec *domain.Spec) error {
	switch {
	case o.Environments < 1 || o.Environments > maxEnvironments:
		return fmt.Errorf("environment: %d environments, want 1 to %d", o.Environments, maxEnvironments)
	case o.Cycle < 0 || o.Threads < 0:
		return fmt.Errorf("environment: a cycle of %d episodes and %d threads, want numbers ≥ 0", o.Cycle, o.Threads)
	case !(o.FailureCost >= 0) || math.IsInf(o.FailureCost, 0):
		return fmt.Errorf("environment: the cost of a failure is %v a step, want a finite number ≥ 0", o.FailureCost)
	case !slices.Contains([]Autoreset{NextStep, SameStep, Disabled}, o.Autoreset):
		return fmt.Errorf("environment: autoreset %q, want %s, %s or %s", o.Autoreset, NextStep, SameStep, Disabled)
	}
	return o.Preference.Validate(spec.ObjectiveSize())
}

// maxEnvironments bounds what a request can ask for.
const maxEnvironments = 1 << 20

// Rows are what a step reads and writes, one row an environment, without gaps. All but
// Action may be nil: not wanted. A row of an environment that was reset and not stepped is
// zero but for Observation and Episode.
type Rows[T Float] struct {
	Action      []T // [n][action] in [−1, 1]; see domain.Unit
	Observation []T // [n][measured state, context], in their units: of what comes next
	// Final is, under SameStep and where an episode ended, what was observed at its end; other
	// rows are left as they are.
	Final  []T
	Reward []float64 // [n]: −σᵀJ of the step as the plant counts it
	// Cost is Σ max(0, −m) over the margins m that are violated, in their units, and Violated whether any is.
	Cost     []float64 // [n]
	Violated []bool    // [n]
	// Terminated: the goal was met, the state lost, or the action refused by the plant.
	// Truncated: the last step was taken.
	Terminated, Truncated      []bool    // [n]
	IsStep                     []bool    // [n]: whether the row is of a step
	Objectives, Margins, Sigma []float64 // [n][J], [n][margins], [n][J], as domain.Outcome's
	Episode                    []int64   // [n]: the number of the episode that is observed
}

// Fleet is many environments of one case. It is used by one goroutine.
type Fleet[T Float] struct {
	plant          domain.Plant
	problem        domain.Problem
	spec           *domain.Spec
	unit           *domain.Unit
	opt            Options
	ns, nc, nu, nj int
	nm             int
	slots          []slot
	workers        []*worker
	active         bool
	probe          sync.Once // of failure and unknown
	failure        failure
	unknown        error // why failure is not known
}

// slot is one environment.
type slot struct {
	episode   domain.Episode
	arrived   func() bool // whether its goal is met now; nil: it has none
	number    int64       // of its episode
	next      int64       // of the episode that follows
	remaining int         // steps
	finished  bool        // and not begun anew
	reset     bool        // in this step
	s, c, u   []float64
}

// worker is what one thread computes in.
type worker struct {
	stepper  domain.Stepper    // nil: one by one
	guard    *domain.Safeguard // nil: none
	a        []float64
	margins  []float64
	index    []int // environments that are stepped, with the same of each in what follows
	episodes []domain.Episode
	u        [][]float64
	outcomes []domain.Outcome
	errs     []error
}

// failure is what a step that is not taken costs.
type failure struct {
	cost float64
	j    []float64
}

// New makes environments of a case. Nothing is drawn before Reset.
func New[T Float](c *domain.Case, opt Options) (*Fleet[T], error) {
	spec := c.Problem.Spec()
	opt.Autoreset = cmp.Or(opt.Autoreset, NextStep)
	if err := opt.validate(spec); err != nil {
		return nil, err
	}
	if c.Plant == nil {
		return nil, fmt.Errorf("environment: case %q has no plant to simulate; closedloop.Simulated makes one of its dynamics", spec.Name)
	}
	domain.Prepare(c.Problem)
	unit, err := domain.NewUnit(c.Problem)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	n := opt.Environments
	f := &Fleet[T]{
		plant: c.Plant, problem: c.Problem, spec: spec, unit: unit, opt: opt,
		ns: spec.MeasuredSize(), nc: spec.ContextSize(), nu: spec.ActionSize(), nj: spec.ObjectiveSize(), nm: len(spec.Margins),
		slots: make([]slot, n),
	}
	threads := cmp.Or(opt.Threads, runtime.GOMAXPROCS(0))
	for range min(threads, n) {
		w := &worker{a: make([]float64, f.nu), margins: make([]float64, f.nm)}
		if newStepper := domain.AbilitiesOfPlant(c.Plant).NewStepper; newStepper != nil {
			w.stepper = newStepper()
		}
		if opt.Safeguard {
			w.guard = domain.NewSafeguard(c)
		}
		f.workers = append(f.workers, w)
	}
	width := f.ns + f.nc + f.nu
	all := make([]float64, n*width)
	for i := range f.slots {
		row := all[i*width : (i+1)*width : (i+1)*width]
		f.slots[i].s, f.slots[i].c, f.slots[i].u = row[:f.ns:f.ns], row[f.ns:f.ns+f.nc:f.ns+f.nc], row[f.ns+f.nc:]
	}
	f.Seed(opt.Seed)
	return f, nil
}

// Seed makes the next Reset, which is to be of all, begin with the first episodes of a seed:
// number i in environment i.
func (f *Fleet[T]) Seed(seed uint64) {
	f.opt.Seed = seed
	for i := range f.slots {
		f.slots[i].next = int64(i)
	}
	f.active = false
}

// Reset begins an episode in every environment, or in those that mask marks, and writes
// Observation and Episode of them. numbers are those of the episodes; nil: each environment's
// next. After episode e follows e + n, with n environments. Drawing some cases' episodes takes
// long; ctx ends it with its error.
func (f *Fleet[T]) Reset(ctx context.Context, mask []bool, numbers []int64, rows *Rows[T]) error {
	n := len(f.slots)
	if mask != nil && len(mask) != n || numbers != nil && len(numbers) != n {
		return fmt.Errorf("environment: a reset with %d marks and %d episode numbers, want %d of each, or none", len(mask), len(numbers), n)
	}
	if err := f.check(rows, false); err != nil {
		return err
	}
	if mask != nil && !f.active && slices.Contains(mask, false) {
		return fmt.Errorf("environment: the first reset has to reset all environments")
	}
	var list []int
	for i := range f.slots {
		if mask != nil && !mask[i] {
			continue
		}
		if numbers != nil {
			if numbers[i] < 0 {
				return fmt.Errorf("environment: environment %d shall begin episode %d, want an episode ≥ 0", i, numbers[i])
			}
			f.slots[i].next = numbers[i]
		}
		list = append(list, i)
	}
	if err := f.begin(ctx, list, rows); err != nil {
		return err
	}
	f.active = true
	return nil
}

// Sizes are the numbers of entries of one row.
func (f *Fleet[T]) Sizes() (observation, action, objectives, margins int) {
	return f.ns + f.nc, f.nu, f.nj, f.nm
}

// Environments is how many there are.
func (f *Fleet[T]) Environments() int { return len(f.slots) }

// Threads is on how many a step runs at most.
func (f *Fleet[T]) Threads() int { return len(f.workers) }

// Physical writes the action that a of [−1, 1]ⁿ stands for in environment i now, as the plant
// would be given it, the safeguard included.
func (f *Fleet[T]) Physical(i int, a, u []float64) {
	f.act(f.workers[0], &f.slots[i], a, u)
}
