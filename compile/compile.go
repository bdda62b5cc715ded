// Package compile makes a map from a case's equations until it meets a target for its extra cost. In rounds it solves
// scenarios, trains a map, and drives it in closed loop from held-out starts. Where the mean or the largest extra
// cost misses the target, it adds data or epochs, until the time budget is spent.
//
// The central function is Run. A folder next to the model holds all intermediate files, so that an interrupted run
// continues.
package compile

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/model"
)

// Options of Run.
type Options struct {
	// Out is the model file; Out + ".compile" is the folder of data, maps and the
	// journal of all rounds.
	Out string
	// Target is the mean regret, %, and Tail the largest, that held-out starts may have; all of them must be safe. 0:
	// 0.5, and twenty times the target.
	Target, Tail float64
	// Budget is the time of the whole run; 0: 15 minutes. Time of earlier, interrupted runs counts. Choice and test
	// keep their estimated time, at most half of the budget: a round that would use it is made smaller or left out.
	Budget time.Duration
	// BudgetCPU counts the CPU time of the process over its threads instead of wall time: in the budget, its
	// estimates and the times of decisions. It is for busy machines, and for runs that are stopped and continued.
	BudgetCPU bool
	// Plain also trains a plain network on the map's data, after all decisions and outside the budget; see
	// Report.Plain.
	Plain bool
	// Rounds is the most rounds; 0: as many as the budget allows.
	Rounds int
	// Scenarios of the first round; 0: the case's.
	Scenarios int
	// Starts is the number of held-out starts for the decisions between rounds, and of those probed for the worst. 0:
	// 200, or down to 20 where their references would take a large share of the budget. TestStarts are for the report
	// alone; 0: 1000, or down to 20 where time is short. Both end with fewer where the time is up.
	Starts, TestStarts int
	Seed               uint64
	Threads            int // 0: all
	Command            string
	// Progress, if set, is called from one goroutine. Round is set when one is finished.
	Progress func(Progress)
}

// Progress is a report of Run.
type Progress struct {
	Stage       string
	Done, Total int           // both 0 where the stage begins with what counts nothing
	Left        time.Duration // of the budget, 0 where it is spent
	Round       *Round
	Number      int // of Round, from 1
}

// Kind of a round.
type Kind string

const (
	First  Kind = "first"
	Data   Kind = "data"   // more scenarios, some of them near the worst starts and at the states visited from there
	Epochs Kind = "epochs" // the same data for longer
)

// Round is one turn of data, training and closed loops.
type Round struct {
	Kind      Kind   `json:"kind"`                // what the round added
	Why       string `json:"why"`                 // its reason
	From      int    `json:"from"`                // number of the round whose map it went on from, from 0
	Wanted    int    `json:"wanted"`              // scenarios that it was to add
	Scenarios int    `json:"scenarios"`           // solved anew before the time was up
	Focused   int    `json:"focused"`             // of them near starts that the map before did worst from
	Solves    int    `json:"solves,omitempty"`    // that gave samples of these scenarios, where `kept_off` is there
	NoRoom    int    `json:"no_room,omitempty"`   // of these solves, those that keep off the limits by less than `kept_off`: no plan from their start keeps off so much; absent: 0
	Samples   int    `json:"samples"`             // the size of the map's training data
	Epochs    int    `json:"epochs"`              // of the training
	Training  Score  `json:"training"`            // of the map without a guard from starts of its own data
	Probed    Score  `json:"probed"`              // likewise from new starts
	HeldOut   Score  `json:"held_out"`            // of `direct` as it is used
	Confirmed *Score `json:"confirmed,omitempty"` // from 5 to 25 times as many starts, where the target is met
	// Worst are the probed starts to solve around in a round that continues from this map.
	Worst   [][]float64 `json:"worst,omitempty"`
	Seconds Seconds     `json:"seconds"`
}

// Seconds by the clock of the budget.
type Seconds struct {
	Solve    float64 `json:"solve"`    // time of solving
	Train    float64 `json:"train"`    // of training
	Evaluate float64 `json:"evaluate"` // of closed loops
}

// Score is a method in closed loop. Regrets are over safe episodes, in %.
type Score struct {
	Method   string            `json:"method"`            // that drove
	Episodes int               `json:"episodes"`          // driven
	Unsafe   int               `json:"unsafe"`            // of them
	NoWay    int               `json:"no_way"`            // of the unsafe: begin where the reference finds no way to keep the limits either
	NoRoom   int               `json:"no_room,omitempty"` // episodes whose first plan keeps off the limits by less than `kept_off`, of a method that plans to the end; absent: 0
	Mean     closedloop.Number `json:"mean_pct"`          // mean regret
	// Floored is the mean with negative regrets counted as zero. It is compared with the target: a reference that was
	// no optimum is not the map's gain.
	Floored closedloop.Number `json:"floored_pct"` // mean with no episode counted as less than nothing, which the target is held to
	// Capped also counts no episode above the largest regret asked for. Decisions between rounds and maps use it.
	Capped      closedloop.Number             `json:"capped_pct"`             // that with no episode counted as more than the largest regret that was asked for
	Median      closedloop.Number             `json:"median_pct"`             // median regret
	P90         closedloop.Number             `json:"p90_pct"`                // 90 % quantile
	Max         closedloop.Number             `json:"max_pct"`                // largest
	Min         closedloop.Number             `json:"min_pct"`                // least: below zero where the reference was no optimum
	Unsolved    int                           `json:"unsolved"`               // episodes without a reference
	BestKnown   int                           `json:"best_known,omitempty"`   // episodes in which no reference costs as little as the method, whose own cost then counts as the best known; absent: none
	Referenced  int                           `json:"referenced"`             // safe episodes with a reference above zero, which the regrets are of
	NoReference []closedloop.MissingReference `json:"no_reference,omitempty"` // why episodes have none, a reason each; absent: all have
	Rescued     closedloop.Number             `json:"rescued_pct"`            // decisions for which the guard asked a solver
	Replaced    closedloop.Number             `json:"replaced_pct"`           // decisions in which something else than the method's own action was executed
	Late        closedloop.Number             `json:"late_pct"`               // the decisions that took longer than a period
	LateStarts  int                           `json:"late_starts,omitempty"`  // held-out episodes with such a decision, which count as unsafe in the choice; absent: 0
	TooSlow     bool                          `json:"too_slow,omitempty"`     // whether the work between decisions takes longer than a period in more than one of 100, so that the method was not chosen; absent: it does not
	Clock       string                        `json:"clock,omitempty"`        // `cpu` where decisions were late by wall time: the times, and what follows from them, are then of CPU time; absent: by the clock of the run
	P50         closedloop.Number             `json:"p50_us"`                 // median time of a decision behind an episode's first
	P99         closedloop.Number             `json:"p99_us"`                 // its 99 % quantile
	Cold        *closedloop.Quantiles         `json:"cold_us,omitempty"`      // of the first decisions of episodes; absent where the times above are of all
	Prepare     *closedloop.Quantiles         `json:"prepare_us,omitempty"`   // the times of a method's work between decisions
}

const (
	// maxRescued and maxReplaced bound the decisions, %, that a map may leave to its guard. A rescue takes the time
	// of a solver; following its plan has the solver's regret.
	maxRescued  = 1
	maxReplaced = 5
)

func (s *Score) meets(o *Options) bool {
	return s.Unsafe == s.NoWay && s.mean() <= o.Target && float64(s.Max) <= o.Tail && !s.reliesOnGuard()
}

// mean is the value compared with the target; reports of earlier programs have no floored one.
func (s *Score) mean() float64 { return float64(max(s.Mean, s.Floored)) }

// reliesOnGuard reports whether the guard decided too often.
func (s *Score) reliesOnGuard() bool { return s.Rescued > maxRescued || s.Replaced > maxReplaced }

// lacksReferences reports whether more than one episode in twenty has nothing to compare with.
func (s *Score) lacksReferences() bool {
	missing := 0
	for _, m := range s.NoReference {
		missing += m.Episodes
	}
	return 20*missing > s.Episodes
}

// skewed reports whether a few episodes make nearly all of the mean.
func (s *Score) skewed() bool { return s.Median > 0 && s.Mean > skewness*s.Median }

// skewness is a ratio of mean to median that a map's usual errors do not explain: maps of the gallery have 1 to 5, a
// chain of masses at its wall had 400.
const skewness = 40

// better orders scores: safe before cheap.
func (s *Score) better(o *Score) bool {
	if a, b := s.rate(), o.rate(); a != b && min(s.Episodes, o.Episodes) > 0 {
		return a < b
	}
	return s.Capped < o.Capped || math.IsNaN(float64(o.Capped)) && !math.IsNaN(float64(s.Capped))
}

func (s *Score) rate() float64 { return float64(s.Unsafe-s.NoWay) / float64(max(1, s.Episodes)) }

// Report describes a run and its model.
type Report struct {
	Case     string             `json:"case"`               // its name
	Model    string             `json:"model"`              // file written, without its folder: the report lies beside it
	Device   string             `json:"device"`             // that it ran on
	Commit   string             `json:"commit"`             // of the program
	Seed     uint64             `json:"seed"`               // of all that was drawn
	Findings diagnosis.Findings `json:"findings,omitempty"` // of a check of the system (`gpc check`); absent: nothing, or a case of the program's own
	Clock    string             `json:"clock"`              // what times and the budget are of: `wall`, or `cpu`, the CPU time of the process over its threads (`--budget-cpu`)
	Rounds   []Round            `json:"rounds"`
	Best     int                `json:"best"`   // number of the round whose map it is, from 0
	Choice   []Score            `json:"choice"` // of the methods compared on held-out starts; the first is chosen
	// Test is the chosen method from starts that no decision has used. Its times are those of the first tenth, one
	// after another.
	Test        Score                   `json:"test"`                           // of the chosen method from starts that no decision has looked at
	Solver      *ExactSolver            `json:"solver,omitempty"`               // of the warm exact solver between decisions (`nmpc-ahead`) from the first starts of the test, on one thread; absent where the case has none, or it takes too long for the budget
	Plain       *Plain                  `json:"plain,omitempty"`                // of a plain network in the map's place (`--plain`); absent elsewhere
	Disturbed   bool                    `json:"disturbed,omitempty"`            // whether something acts on the plant that nobody knows in advance, the reference neither: regret may be below zero; absent: nothing does
	Measured    bool                    `json:"measured,omitempty"`             // whether every method was given estimates of what is measured, in the plant as it is declared; absent where the state is measured exactly. Then `solver.own_mean_pct` less `solver.informed_mean_pct` is what not knowing the state costs, and `solver.map_mean_pct` less `solver.own_mean_pct` is what the map adds
	KeptOff     float64                 `json:"kept_off,omitempty"`             // standard deviations of the closed loop that samples, map and solver keep off every limit; absent: 0
	Plant       string                  `json:"plant,omitempty"`                // in a line what was driven where it is another plant than the model (`--plant`); absent elsewhere
	Delay       float64                 `json:"delay,omitempty"`                // of the plant's actions behind what they are decided by, in periods; absent: 0
	SteadyState string                  `json:"steady_state_outside,omitempty"` // of a plant that runs on, what state's range the optimal steady state at the end of a plan lies outside of, or that there is none; absent: neither
	Integration *closedloop.Integration `json:"integration,omitempty"`          // a few of the test's episodes in a plant of finer steps of integration; absent where the plant is not the model, or its system has no ODE
	Met         bool                    `json:"met"`                            // whether the test meets target and tail
	Target      struct {
		Mean float64 `json:"mean_pct"` // mean regret asked for
		Max  float64 `json:"max_pct"`  // largest regret asked for
	} `json:"target"`
	Ended      string           `json:"ended"`                // why there is no further round
	Advice     string           `json:"advice"`               // what is left to do where the target is not met; ""
	Seconds    float64          `json:"seconds"`              // time by the clock, earlier runs of the folder included
	EndSeconds float64          `json:"end_seconds"`          // of these, choice and test of this run
	Load       *closedloop.Load `json:"load,omitempty"`       // of the machine; absent where it is not known
	TimesLoad  *closedloop.Load `json:"times_load,omitempty"` // while the times of `test` were taken
}

// run is one run in progress.
type run struct {
	opt            Options
	c              *gpc.Case
	findings       diagnosis.Findings
	plant          *closedloop.Simulation // nil: a plant whose starts cannot be chosen
	optima         optima
	dir            string
	journal        journal
	clock          func() time.Time
	start          time.Time
	earlierSeconds float64      // seconds of earlier runs
	excludedTime   atomic.Int64 // outside the budget
	trialShare     float64      // of the budget, in which the trials of the choice end

	saved     time.Time // when the journal was
	part      *float64  // seconds of what is being made; nil: of nothing that is counted
	partStart time.Time
	excluded  atomic.Bool     // work that is not the budget's is in progress
	inTime    context.Context // ends with the budget; of data
	cut       func()

	continued         bool // there were some
	contextHasActions bool // the context holds previous actions
}

// saveSeconds is how often the spent time is saved. A run that is killed counts up to then.
const saveSeconds = 1

// Run compiles a case that has a solver and a plant.
func Run(ctx context.Context, c *gpc.Case, opt Options) (*Report, error) {
	if !opt.BudgetCPU {
		return compile(ctx, c, opt, time.Now)
	}
	if machine.CPUTime() == 0 {
		return nil, gpc.BadInput(option.Errorf("compile: {BudgetCPU}: this system does not say what a process has computed"))
	}
	threads := time.Duration(cmp.Or(max(opt.Threads, 0), runtime.GOMAXPROCS(0)))
	return compile(ctx, c, opt, func() time.Time { return time.Unix(0, 0).Add(machine.CPUTime() / threads) })
}

func compile(ctx context.Context, c *gpc.Case, opt Options, clock func() time.Time) (*Report, error) {
	opt.Target = cmp.Or(opt.Target, 0.5)
	opt.Tail = cmp.Or(opt.Tail, 20*opt.Target)
	opt.Budget = cmp.Or(opt.Budget, 15*time.Minute)
	opt.Scenarios = cmp.Or(opt.Scenarios, c.MapSpec().Training.Scenarios)
	if opt.Progress == nil {
		opt.Progress = func(Progress) {}
	}
	def := c.Definition()
	switch {
	case opt.Out == "":
		return nil, gpc.BadInput(option.Errorf("compile: {Out} is required, the model file to write"))
	case !(opt.Target > 0) || !(opt.Tail > 0) || math.IsInf(opt.Target+opt.Tail, 0):
		return nil, gpc.BadInput(option.Errorf("compile: a target of %v %% and a largest extra cost ({Tail}) of %v %%, want positive numbers", opt.Target, opt.Tail))
	case opt.Threads < 0:
		return nil, gpc.BadInput(option.Errorf("compile: {Threads} %d: want 0 or more", opt.Threads))
	case opt.Budget < 0 || opt.Rounds < 0 || opt.Scenarios < 1 || opt.Starts < 0 || opt.TestStarts < 0:
		return nil, gpc.BadInput(fmt.Errorf("compile: a budget of %v, %d rounds, %d scenarios, %d held-out and %d test starts: want numbers ≥ 0, and at least one scenario", opt.Budget, opt.Rounds, opt.Scenarios, opt.Starts, opt.TestStarts))
	case def.Solver == nil || def.Plant == nil:
		return nil, gpc.BadInput(fmt.Errorf("compile: case %s has no solver or no plant; ocp and closedloop.Simulated are generic ones", c.Name()))
	case def.Learned != nil && len(def.Problem.Spec().Switches) == 0:
		return nil, gpc.BadInput(fmt.Errorf("compile: the map of case %s is of another problem than its plant, which compile cannot make: use dataset and train", c.Name()))
	}
	if f := c.Findings().Fatal(); f != nil {
		return nil, gpc.BadInput(fmt.Errorf("compile: case %s: %s", c.Name(), f))
	}
	report := opt.Progress
	r := &run{opt: opt, c: c, findings: c.Findings(), dir: opt.Out + ".compile", clock: clock, start: clock()}
	if plant, ok := def.Plant.(*closedloop.Simulation); ok {
		if err := r.reuseOptima(plant); err != nil {
			return nil, err
		}
		r.contextHasActions = remembersActions(plant)
	}
	r.opt.Progress = func(p Progress) {
		p.Left = max(0, opt.Budget-time.Duration(r.spent()*float64(time.Second)))
		if r.since(r.saved) > saveSeconds && !r.excluded.Load() {
			r.save() // the next that is to be kept reports an error
		}
		report(p)
	}
	release, err := r.open()
	if err != nil {
		return nil, err
	}
	defer release()
	e, err := gpc.OpenEngine(engine.Options{Threads: opt.Threads})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	r.c = r.c.SolvedBy(e)
	if r.optima.solve != nil {
		if err := r.optima.open(filepath.Join(r.dir, "optima.jsonl")); err != nil {
			return nil, gpc.BadInput(err)
		}
		defer r.optima.file.Close()
	}
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return nil, err
	}
	if err := r.continueTime(); err != nil {
		return nil, gpc.BadInput(err)
	}
	ctx, stop := context.WithCancel(ctx)
	var ticking sync.WaitGroup
	r.inTime, r.cut = context.WithCancel(ctx)
	ticking.Go(func() { r.keepTime(ctx) })
	defer func() {
		stop()
		ticking.Wait()
	}()
	reason, err := r.rounds(ctx)
	if err != nil {
		return nil, err
	}
	return r.finish(ctx, reason, watch)
}

// reuseOptima gives the case a plant that solves each start once.
func (r *run) reuseOptima(original *closedloop.Simulation) (err error) {
	plant := *original
	r.plant = &plant
	if plant.Oracle == nil {
		return nil
	}
	r.optima.solve, r.optima.cache = plant.Oracle, map[string]optimum{}
	r.optima.part = func(ctx context.Context) context.Context {
		start := r.clock()
		return limited{ctx, func() bool { return r.since(start) > timedReferencesShare*r.opt.Budget.Seconds() }}
	}
	plant.Oracle = r.optima.lookUp
	def := *r.c.Definition()
	def.Plant = r.plant
	r.c, err = gpc.NewCase(def)
	return err
}

// remembersActions reports whether a plant's context depends on the previous action: whether two actions at a start
// lead to two contexts.
func remembersActions(plant *closedloop.Simulation) bool {
	p, spec := plant.Problem, plant.Problem.Spec()
	s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	plant.Initial(plant.Start(0, 0), s, c)
	u, next := make([]float64, spec.ActionSize()), make([]float64, spec.MeasuredSize())
	p.Fallback(s, c, u)
	one, two := make([]float64, len(c)), make([]float64, len(c))
	p.Step(s, c, u, next, one)
	for i, a := range spec.Action {
		if middle := a.Middle(); u[i] != middle {
			u[i] = middle
		} else {
			u[i] += cmp.Or((a.Hi-a.Lo)/4, 1)
		}
	}
	p.Step(s, c, u, next, two)
	return !slices.Equal(one, two)
}

func (r *run) spent() float64 {
	return r.earlierSeconds + r.since(r.start) - time.Duration(r.excludedTime.Load()).Seconds()
}

// clock names the budget's clock.
func (o *Options) clock() string {
	if o.BudgetCPU {
		return "cpu"
	}
	return "wall"
}

// since is in seconds.
func (r *run) since(start time.Time) float64 { return r.clock().Sub(start).Seconds() }

// ownData and nearData are the folders of a round's scenarios, the latter near the worst starts; mapFile is its map.
func (r *run) ownData(round int) string { return filepath.Join(r.dir, fmt.Sprintf("data-%02d", round)) }
func (r *run) nearData(round int) string {
	return filepath.Join(r.dir, fmt.Sprintf("near-%02d", round))
}
func (r *run) mapFile(round int) string {
	return filepath.Join(r.dir, fmt.Sprintf("map-%02d.safetensors", round))
}

// finish chooses map and method, tests them, and writes the model.
func (r *run) finish(ctx context.Context, reason string, watch *machine.Watch) (*Report, error) {
	rounds := r.journal.Rounds
	if len(rounds) == 0 {
		return nil, option.Errorf("compile: the budget of %v is too short for one round: give a larger {Budget}", r.opt.Budget)
	}
	best, start := r.best(), r.clock()
	out := &Report{Case: r.c.Name(), Model: filepath.Base(r.opt.Out), Device: gpc.Host(), Commit: version.Commit, Seed: r.opt.Seed, Clock: r.opt.clock(), Findings: r.findings, Rounds: rounds, Best: best, Ended: reason}
	if m := r.c.Definition().Measurement; m != nil {
		out.Disturbed = m.Acts()
	}
	out.Measured, out.Plant, out.Delay = r.c.Definition().Measurement != nil, strings.Join(r.c.Definition().Altered, "; "), r.c.Definition().Delay.Periods
	out.KeptOff = r.c.Definition().Level
	out.Target.Mean, out.Target.Max = r.opt.Target, r.opt.Tail
	m, err := r.c.Model(r.mapFile(best))
	if err != nil {
		return nil, err
	}
	if out.Choice, err = r.choose(ctx, r.mapFile(best), m); err != nil {
		return nil, err
	}
	method := out.Choice[0].Method
	r.journal.Pace.Tests = r.testStarts(method)
	if err := r.save(); err != nil {
		return nil, err
	}
	if err := r.test(ctx, m, out); err != nil {
		return nil, err
	}
	short := out.Test.Episodes < min(fewestStarts, r.journal.Pace.Tests)
	if out.Met = out.Test.meets(&r.opt) && !short; !out.Met || out.Test.lacksReferences() {
		out.Advice = advice(out, &r.opt)
		if short {
			out.Advice = fmt.Sprintf("a larger budget: there was no time to test more than %d starts, whose references take %.3g s each", out.Test.Episodes, r.journal.Pace.Reference)
		} else if c := r.candidates(); len(out.Choice) < len(c) && !out.Choice[0].meets(&r.opt) {
			out.Advice = "a larger budget, which leaves time to try " + c[len(c)-1].method
		}
	}
	m.Provenance.Command, m.Provenance.Method, m.Provenance.Choices = r.opt.Command, method, out.choices()
	if err := m.WriteFile(r.opt.Out); err != nil {
		return nil, err
	}
	out.Seconds, out.EndSeconds = r.spent(), r.since(start)
	if out.Load, err = watch.End(); err != nil {
		return nil, err
	}
	if out.Load != nil {
		out.Load.Partial = r.continued
	}
	if r.opt.Plain && out.Test.Episodes > 0 {
		if out.Plain, err = r.comparePlain(ctx, best, m, &out.Test); err != nil {
			return nil, err
		}
	}
	if err := durable.WriteJSON(r.opt.Out+".report.json", out, "  "); err != nil {
		return nil, err
	}
	if r.journal.Pace.Tests = out.Test.Episodes; out.Test.Episodes > 0 {
		r.journal.Pace.Reported = len(rounds)
	}
	return out, r.commit()
}

// test drives the chosen method, and the exact solver, from starts that no decision has used.
func (r *run) test(ctx context.Context, m *model.Model, out *Report) error {
	file := r.mapFile(out.Best)
	test := loops{name: file, gpcCase: r.c, model: m, method: out.Choice[0].Method, purpose: tested, episodes: r.journal.Pace.Tests, deadline: r.deadline(1)}
	result, err := r.drive(ctx, test)
	out.Test, out.SteadyState = result.Score, result.SteadyState
	if err != nil || len(result.Starts) == 0 {
		return err
	}
	// Times are those of a single loop; the optima of its starts are known by now.
	test.name, test.episodes, test.integration = file+" single", timedStarts(len(result.Starts)), true
	test.deadline = r.deadline(1 + maxOverrun/2)
	single, err := r.driveSingle(ctx, test)
	if err != nil {
		return err
	}
	timed := &single.Score
	out.Integration, out.TimesLoad = single.Integration, single.Load
	out.Test.Clock, out.Test.P50, out.Test.P99 = timed.Clock, timed.P50, timed.P99
	out.Test.Cold, out.Test.Late, out.Test.Prepare = timed.Cold, timed.Late, timed.Prepare
	out.Solver, err = r.driveExactSolver(ctx, file, m, result.Starts)
	return err
}

// choices says, for the model's header, what each round was and why, and what the method was
// chosen among.
func (out *Report) choices() (lines []string) {
	for i, r := range out.Rounds {
		lines = append(lines, fmt.Sprintf("round %d, %s: %s; %d scenarios, %d of them near the worst starts, %d samples, %d epochs", i+1, r.Kind, r.Why, r.Scenarios, r.Focused, r.Samples, r.Epochs))
	}
	var tried []string
	for _, s := range out.Choice {
		tried = append(tried, fmt.Sprintf("%s %.3g %%, %d of %d unsafe", s.Method, float64(s.Mean), s.Unsafe, s.Episodes))
	}
	verdict := "met"
	if !out.Met {
		verdict = "missed"
	}
	return append(lines,
		fmt.Sprintf("no further round: %s", out.Ended),
		fmt.Sprintf("the map of round %d with %s; from held-out starts: %s", out.Best+1, out.Choice[0].Method, strings.Join(tried, ", ")),
		fmt.Sprintf("the target of %g %%, largest %g %%, is %s", out.Target.Mean, out.Target.Max, verdict))
}

// has reports whether the case offers a method.
func (r *run) has(name string) bool {
	return slices.ContainsFunc(r.c.Methods(), func(m domain.Method) bool { return m.Called(name) })
}

// advice describes in a line why a map misses its target.
func advice(out *Report, o *Options) string {
	last, best := &out.Rounds[len(out.Rounds)-1], &out.Rounds[out.Best]
	slow := slices.IndexFunc(out.Choice, func(s Score) bool { return (s.TooSlow || s.LateStarts > 0) && s.meets(o) })
	switch {
	case slow >= 0:
		return fmt.Sprintf("%s meets the target from the held-out starts, and takes longer than a period on this machine: a faster machine, a longer period, or smaller networks (Training.Hidden)", out.Choice[slow].Method)
	case out.Test.lacksReferences():
		return "more than one start in twenty has no reference optimum: " + out.Test.NoReference[0].Text(out.Test.Episodes)
	case float64(out.Test.Min) < -o.Target && out.Disturbed:
		return "the reference does not know what acts on the plant (Process, Drift), which moves the cost of a start by more than the target: compare with the exact solver beside it, or choose a target above what the solver costs there"
	case float64(out.Test.Min) < -o.Target:
		return "some reference optima cost more than what the map does: several basins (a Library of the solver, more Starts), or a cost that the limits do not bound"
	case out.Test.rate() > 0 && best.Training.rate() > 0:
		return "episodes from starts of the data itself are not safe: limits that a projected action cannot keep, or starts without a solution; gpc check names them"
	case out.Test.rate() > 0:
		return "some held-out starts end unsafe: a margin that looks further ahead, or a larger budget"
	case out.Test.mean() > o.Target && best.Training.skewed() && out.Test.skewed():
		return "a few starts cost nearly all of the mean, of the data's too: samples that keep off the limits (Room of the solver), or fewer of these starts (Scenario)"
	case out.Test.reliesOnGuard():
		return "the guard asks a solver too often, or follows its plans: a larger budget, or a margin that looks further ahead"
	case best.Training.Episodes > 0 && float64(best.HeldOut.Capped) > 2*float64(best.Training.Capped):
		return "held-out starts cost more than those of the data: more scenarios, so a larger budget"
	case last.Kind == Epochs && float64(best.Training.Capped) > o.Target:
		return "starts of the data itself miss the target after more epochs: a larger Training.Hidden, or optima in several basins (a Library of the solver, more Starts)"
	case float64(out.Test.Mean) <= o.Target:
		return "the mean is met, the largest regret is not: starts near a limit, which a larger budget samples more"
	}
	return "a larger budget"
}

// epsilon keeps ratios of regrets that are nearly zero finite, %.
const epsilon = 1e-3

func ratio(a, b closedloop.Number) float64 { return (float64(a) + epsilon) / (float64(b) + epsilon) }

// adaptive is the preference of every closed loop here.
var adaptive = domain.Preference{Adaptive: true}
