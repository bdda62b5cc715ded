package closedloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/option"
)

// Options say what is run.
type Options struct {
	Method   string // the name in header and result
	Episodes int    // of the whole evaluation, over all shards
	Seed     uint64
	// ShardIndex of ShardCount: this run takes the episodes e with e mod ShardCount =
	// ShardIndex. ShardCount 0 is 1.
	ShardIndex, ShardCount int
	// Noise is the standard deviation of the measurement noise in units of each
	// state's own scale; Regime the case's word, "" its default.
	Noise  float64
	Regime string
	// Bias is the size of a constant error of every measured value, in its own unit. Its sign
	// is drawn for each value and episode.
	Bias float64
	// Computing are the declared times of decisions; nil: they take none.
	Computing *Computing
	// Preference of decisions and of scoring.
	Preference domain.Preference
	// Threads run episodes side by side; 0 or 1 is one, which is what latencies
	// should be measured with. Everything but the latencies is the same.
	Threads int
	// TracePath is the file to write, "" for none. Resume continues it after its
	// last complete episode; otherwise a file that is there is refused. One process at a
	// time writes it.
	TracePath string
	Resume    bool
	// Commit, Device, Backend, ISA, ModelSHA256 and Candidates are recorded; see Header.
	Commit, Device, Backend, ISA, ModelSHA256 string
	Candidates                                int
	// Interval is the period of an episode's observations; one that is due before the last is decided
	// about waits for that. 0: none.
	Interval time.Duration
	// Clock times decisions and what is done between them; nil: the wall's.
	Clock func() time.Time
	// Budget is the time of the whole evaluation, which then has the episodes that it was driven for; 0: no limit.
	Budget time.Duration
	// Limit is the load of the machine above which nothing is run, or returned.
	Limit LoadLimit
	// Progress, if set, is called before the first episode and after each, Visit with each that was run.
	Progress func(done, total int)
	Visit    func(e *EpisodeRecord)
	// Scenes are run instead of drawn ones, each an episode; the case is on their plant (see
	// Remade). nil: episodes are drawn.
	Scenes *Scenes
	// WithoutOptima leaves out what takes the longest: episodes have no regret.
	WithoutOptima bool
	// CheckIntegration adds Integration to the result of a case that package gpc evaluates.
	CheckIntegration bool
	// Finer is what CheckIntegration stands for, which package gpc fills in.
	Finer *Finer

	optima  *optima // known of the same episodes already; nil: each is asked
	bounded bool    // a context ends with the budget
}

// Load is the machine's during a run, LoadLimit the one above which latencies are not
// worth recording.
type (
	Load      = machine.Load
	LoadLimit = machine.Limit
)

// errBudget ends an evaluation whose budget is spent.
var errBudget = errors.New("the budget is spent")

// Within is a context that ends with the budget, from the first call on.
func (o *Options) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Budget <= 0 || o.bounded {
		return ctx, func() {}
	}
	o.bounded = true
	return context.WithTimeoutCause(ctx, o.Budget, errBudget)
}

// maxEpisodes bounds what a request can ask for.
const maxEpisodes = 10_000_000

// Validate says what in options for a case cannot be, and sets the default of ShardCount.
func (o *Options) Validate(spec *domain.Spec) error {
	o.ShardCount = cmp.Or(o.ShardCount, 1)
	switch {
	case o.Episodes < 1 || o.Episodes > maxEpisodes:
		return option.Errorf("{Episodes} %d: want 1 to %d", o.Episodes, maxEpisodes)
	case o.ShardIndex < 0 || o.ShardIndex >= o.ShardCount:
		return fmt.Errorf("shard %d/%d, want 0 ≤ i < n", o.ShardIndex, o.ShardCount)
	case !(o.Noise >= 0) || math.IsInf(o.Noise, 0):
		return option.Errorf("{Noise} %v: want a finite standard deviation ≥ 0", o.Noise)
	case !(o.Bias >= 0) || math.IsInf(o.Bias, 0):
		return option.Errorf("{Bias} %v: want a finite number ≥ 0", o.Bias)
	case o.Interval < 0 || o.Budget < 0:
		return option.Errorf("observations every %v, {Budget} %v: want times ≥ 0", o.Interval, o.Budget)
	case o.Scenes != nil && (o.Episodes != len(o.Scenes.Files) || o.Regime != ""):
		return fmt.Errorf("%d episodes of regime %q and %d given scenes: want one episode for each scene, and no regime", o.Episodes, o.Regime, len(o.Scenes.Files))
	case o.Resume && o.TracePath == "":
		return option.Errorf("{Resume} needs {TracePath}, the trace of the interrupted run")
	}
	if o.Computing != nil {
		if err := o.Computing.Validate(); err != nil {
			return err
		}
	}
	return o.Preference.Validate(spec.ObjectiveSize())
}
