package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
)

// DeadlineOptions say what loop is run.
type DeadlineOptions struct {
	Rate     float64       // decisions a second
	For      time.Duration // how long
	Deadline time.Duration // of a decision after its release; 0: until the next
	// Episodes whose observations are decided, again and again; 0: 4. They are of Seed.
	Episodes   int
	Seed       uint64
	Preference domain.Preference
}

// maxReleases bounds the loop, whose times are all kept.
const maxReleases = 4_000_000

// defaultRecorded are the episodes of a loop unless it is asked for others.
const defaultRecorded = 4

// Validate says what loop cannot be run.
func (o *DeadlineOptions) Validate() error {
	switch period := 1e9 / o.Rate; {
	case !(o.Rate > 0) || math.IsInf(o.Rate, 0) || period < 1e3 || period > 1e12:
		return fmt.Errorf("a rate of %v a second, want 0.001 to 1000000", o.Rate)
	case o.For <= 0:
		return fmt.Errorf("a loop for %v, want a time above 0", o.For)
	case o.Rate*o.For.Seconds() < 1 || o.Rate*o.For.Seconds() > maxReleases:
		return fmt.Errorf("%v at %v a second are %.0f decisions, want 1 to %d", o.For, o.Rate, o.Rate*o.For.Seconds(), maxReleases)
	case o.Deadline < 0:
		return fmt.Errorf("a deadline of %v, want a time above 0", o.Deadline)
	case o.Episodes < 0:
		return fmt.Errorf("%d episodes, want 0 or more", o.Episodes)
	}
	return nil
}

// Deadlines is a periodic loop as it went, under the JSON keys of `gpc bench deadline`. Times
// are µs. A release is the moment at which a decision should begin.
type Deadlines struct {
	Case     string  `json:"case"`
	Method   string  `json:"method"`
	Device   string  `json:"device"`
	Backend  string  `json:"backend"`
	ISA      string  `json:"isa"`
	Threads  int     `json:"threads"`
	Commit   string  `json:"commit"`
	Command  string  `json:"command"`
	Rate     float64 `json:"rate_hz"`
	Period   float64 `json:"period_us"`
	Deadline float64 `json:"deadline_us"`
	For      float64 `json:"for_s"`
	// Releases are those of the loop; Decisions of them were made. Skipped passed while an
	// earlier one was decided on, Late were decided behind the deadline; Missed are both.
	Releases  int `json:"releases"`
	Decisions int `json:"decisions"`
	Skipped   int `json:"skipped"`
	Late      int `json:"late"`
	Missed    int `json:"missed"`
	// LongestMiss is the most releases missed one after another.
	LongestMiss int `json:"longest_miss"`
	// Differing are decisions whose action is not that of the closed loop whose observations
	// they had.
	Differing int `json:"differing"`
	// Response is from release to action, Jitter from release to the loop's awaking, Compute the
	// decision itself, CPU what the loop's thread computed in that; NaN where it is not known.
	Response Spread `json:"response_us"`
	Jitter   Spread `json:"jitter_us"`
	Compute  Spread `json:"compute_us"`
	CPU      Spread `json:"cpu_us"`
	// Causes are of the Late decisions.
	Causes LateCauses `json:"late_causes"`
	// Switches are of the loop's thread; nil where they are not known.
	Switches *Switches `json:"switches"`
	// Collector is Go's, in the loop.
	Collector Collector `json:"collector"`
	// Load is the machine's meanwhile: what others took is named there.
	Load *machine.Load `json:"load"`
	// Histogram has as many bins a decade from the least time to the largest.
	Histogram []TimeBin `json:"histogram"`

	response, jitter []float64 // in the order of the decisions
}

// Spread are quantiles by the nearest rank.
type Spread struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// LateCauses counts what was there between release and action of late decisions; one may have
// several, or none that is known.
type LateCauses struct {
	Released  int `json:"released_late"` // the loop awoke behind half of the deadline
	Switched  int `json:"switched_out"`  // its thread lost the CPU involuntarily
	Collected int `json:"collected"`     // a cycle of the collector ended
	Computing int `json:"computing"`     // the decision's own CPU time is above the deadline
}

// Switches are context switches of a thread: Involuntary ones gave the CPU to another.
type Switches struct {
	Involuntary int `json:"involuntary"`
	Voluntary   int `json:"voluntary"`
}

// Collector is what Go's garbage collector did.
type Collector struct {
	Cycles int `json:"cycles"`
	Pauses int `json:"pauses"`
	// LongestPause is at most this long, µs: the end of its bin in runtime/metrics.
	LongestPause float64 `json:"longest_pause_us"`
	Allocated    float64 `json:"allocated_bytes"` // by the whole program
}

// TimeBin counts the decisions whose times are in [Lo, Hi).
type TimeBin struct {
	Lo       float64 `json:"lo_us"`
	Hi       float64 `json:"hi_us"`
	Response int     `json:"response"`
	Jitter   int     `json:"jitter"`
}

// Times are response and jitter of every decision, µs, in their order; not to be changed.
func (d *Deadlines) Times() (response, jitter []float64) { return d.response, d.jitter }

// decided is one decision of a closed loop, with the episode that it begins, if any.
type decided struct {
	begins  domain.Episode
	s, c, u []float64
}

// drive records a closed loop of the controller on some episodes.
func drive(ctx context.Context, c *domain.Case, k domain.Controller, opt DeadlineOptions) (all []decided, err error) {
	if c.Plant == nil {
		return nil, errors.New("the case has no plant to decide for")
	}
	spec, episodes := c.Problem.Spec(), opt.Episodes
	if episodes == 0 {
		episodes = defaultRecorded
	}
	for e := range episodes {
		ep, err := c.Plant.Episode(opt.Seed, e, domain.EpisodeOptions{Preference: opt.Preference, Context: ctx})
		if err != nil {
			return nil, fmt.Errorf("test episode %d: %w", e, err)
		}
		if err := k.Reset(ep); err != nil {
			return nil, fmt.Errorf("test episode %d: %w", e, err)
		}
		begins := ep
		for !ep.Done() {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			d := decided{begins, make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())}
			begins = nil
			ep.Observe(d.s, d.c)
			if _, err := k.Decide(d.s, d.c, opt.Preference, d.u); err != nil {
				return nil, fmt.Errorf("test episode %d: %w", e, err)
			}
			if _, err := ep.Apply(d.u); err != nil {
				return nil, fmt.Errorf("test episode %d: %w", e, err)
			}
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the episodes have no decision")
	}
	return all, nil
}

// KeepDeadlines runs a method at a rate, on a thread of its own that sleeps until the next
// release by an absolute time. The observations are those of closed loops recorded before, so
// that the plant takes no time in the loop; the decisions are made again, and compared. The
// releases that pass while a decision is made are skipped but for the last, which begins late.
func KeepDeadlines(ctx context.Context, c *domain.Case, k domain.Controller, opt DeadlineOptions) (*Deadlines, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	recorded, err := drive(ctx, c, k, opt)
	if err != nil {
		return nil, err
	}
	period := time.Duration(math.Round(1e9 / opt.Rate))
	deadline := opt.Deadline
	if deadline == 0 {
		deadline = period
	}
	releases := int(opt.For / period)
	l := newLoop(max(1, releases), period, deadline)
	u := make([]float64, c.Problem.Spec().ActionSize())
	runtime.GC()
	err = l.run(ctx, func(n int) error {
		if begins := recorded[n%len(recorded)].begins; begins != nil {
			return k.Reset(begins)
		}
		return nil
	}, func(n int) error {
		d := &recorded[n%len(recorded)]
		_, err := k.Decide(d.s, d.c, opt.Preference, u)
		return err
	}, func(n int) bool { return slices.Equal(u, recorded[n%len(recorded)].u) })
	if err != nil {
		return nil, err
	}
	d := l.result()
	d.Case, d.Rate, d.For = c.Problem.Spec().Name, opt.Rate, opt.For.Seconds()
	return d, nil
}

// loop is a periodic loop with what it keeps of every decision, µs.
type loop struct {
	releases         int
	period, deadline time.Duration

	response, jitter, compute, cpu []float64
	skipped, late, differing       int
	missedNow, longest             int
	causes                         LateCauses
	known                          bool // whether the system says what a thread uses
	used                           machine.Usage
	collector                      Collector
}

func newLoop(releases int, period, deadline time.Duration) *loop {
	room := func() []float64 { return make([]float64, 0, releases) }
	return &loop{releases: releases, period: period, deadline: deadline, response: room(), jitter: room(), compute: room(), cpu: room()}
}

const microsecond = float64(time.Microsecond)

// run makes the decisions: before each what prepares it and is not timed, then the decision,
// then whether it is what it should be. It keeps one thread, of which it says what was used.
func (l *loop) run(ctx context.Context, prepare, decide func(n int) error, same func(n int) bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	probe := newProbe()
	before := probe.read()
	begun, known := machine.ThreadUsage()
	l.known = known
	cycles := before.cycles
	start := machine.Now() + l.period
	for at, n := 0, 0; at < l.releases; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := prepare(n); err != nil {
			return err
		}
		release := start + time.Duration(at)*l.period
		if err := machine.SleepUntil(release); err != nil {
			return fmt.Errorf("sleeping: %w", err)
		}
		awake := machine.Now()
		from, _ := machine.ThreadUsage()
		began := machine.Now()
		if err := decide(n); err != nil {
			return fmt.Errorf("decision %d: %w", n, err)
		}
		done := machine.Now()
		to, _ := machine.ThreadUsage()
		used := to.Since(from)
		l.response = append(l.response, float64(done-release)/microsecond)
		l.jitter = append(l.jitter, float64(awake-release)/microsecond)
		l.compute = append(l.compute, float64(done-began)/microsecond)
		l.cpu = append(l.cpu, float64(used.CPU)/microsecond)
		if !same(n) {
			l.differing++
		}
		now := probe.cycles()
		l.judge(done-release, awake-release, used, now > cycles)
		cycles = now
		// The last release that has passed is the next to be decided on.
		next := max(at+1, int((machine.Now()-start)/l.period))
		next = min(next, l.releases)
		for range next - at - 1 {
			l.skipped++
			l.miss()
		}
		at = next
	}
	ended, _ := machine.ThreadUsage()
	l.used = ended.Since(begun)
	l.collector = probe.read().since(before)
	return nil
}

func (l *loop) miss() {
	l.missedNow++
	l.longest = max(l.longest, l.missedNow)
}

// judge counts a decision that was late, with what may have made it so.
func (l *loop) judge(response, jitter time.Duration, used machine.Usage, collected bool) {
	if response <= l.deadline {
		l.missedNow = 0
		return
	}
	l.late++
	l.miss()
	for _, cause := range []struct {
		of *int
		is bool
	}{
		{&l.causes.Released, jitter > l.deadline/2}, {&l.causes.Switched, used.Involuntary > 0},
		{&l.causes.Collected, collected}, {&l.causes.Computing, used.CPU > l.deadline},
	} {
		if cause.is {
			*cause.of++
		}
	}
}

func (l *loop) result() *Deadlines {
	d := &Deadlines{
		Period: float64(l.period) / microsecond, Deadline: float64(l.deadline) / microsecond,
		Releases: l.releases, Decisions: len(l.response), Skipped: l.skipped, Late: l.late, Missed: l.skipped + l.late, LongestMiss: l.longest, Differing: l.differing,
		Response: spreadOf(l.response), Jitter: spreadOf(l.jitter), Compute: spreadOf(l.compute), CPU: spreadOf(nil),
		Causes: l.causes, Collector: l.collector, Histogram: binned(l.response, l.jitter),
		response: l.response, jitter: l.jitter,
	}
	if l.known {
		d.CPU, d.Switches = spreadOf(l.cpu), &Switches{l.used.Involuntary, l.used.Voluntary}
	}
	return d
}

// spreadOf are the quantiles of times; NaN of none.
func spreadOf(us []float64) Spread {
	if len(us) == 0 {
		none := math.NaN()
		return Spread{none, none, none, none, none}
	}
	us = slices.Sorted(slices.Values(us))
	q := func(p float64) float64 { return stat.Quantile(p, stat.Empirical, us, nil) }
	return Spread{q(0.5), q(0.9), q(0.99), q(0.999), us[len(us)-1]}
}

// binsPerDecade of the recorded histogram, whose first bin takes what is shorter than leastBin,
// µs.
const (
	binsPerDecade = 10
	leastBin      = 0.1
)

// binned counts times in bins of equal ratio, from the first that has any to the last.
func binned(response, jitter []float64) []TimeBin {
	const decades = 12
	bins := make([]TimeBin, decades*binsPerDecade)
	for i := range bins {
		bins[i].Lo, bins[i].Hi = leastBin*math.Pow(10, float64(i)/binsPerDecade), leastBin*math.Pow(10, float64(i+1)/binsPerDecade)
	}
	first, last := len(bins), -1
	at := func(us float64) *TimeBin {
		i := 0
		if us > leastBin {
			i = min(int(binsPerDecade*math.Log10(us/leastBin)), len(bins)-1)
		}
		first, last = min(first, i), max(last, i)
		return &bins[i]
	}
	for i := range response {
		at(response[i]).Response++
		at(jitter[i]).Jitter++
	}
	if last < first {
		return []TimeBin{}
	}
	return bins[first : last+1]
}

// probe reads what the collector has done so far, without memory of its own in the loop.
type probe struct{ all, one []metrics.Sample }

// Metrics of the collector, in the order of collected's fields.
var collectorMetrics = []string{"/gc/cycles/total:gc-cycles", "/gc/heap/allocs:bytes", "/sched/pauses/total/gc:seconds"}

func newProbe() *probe {
	p := &probe{}
	for _, name := range collectorMetrics {
		p.all = append(p.all, metrics.Sample{Name: name})
	}
	p.one = slices.Clone(p.all[:1])
	return p
}

// cycles are those that have ended.
func (p *probe) cycles() uint64 {
	metrics.Read(p.one)
	return p.one[0].Value.Uint64()
}

// collected is a reading.
type collected struct {
	cycles, allocated uint64
	pauses            *metrics.Float64Histogram
}

func (p *probe) read() collected {
	metrics.Read(p.all)
	pauses := *p.all[2].Value.Float64Histogram()
	pauses.Counts = slices.Clone(pauses.Counts)
	return collected{p.all[0].Value.Uint64(), p.all[1].Value.Uint64(), &pauses}
}

// since is what the collector did after an earlier reading.
func (c collected) since(before collected) Collector {
	k := Collector{Cycles: int(c.cycles - before.cycles), Allocated: float64(c.allocated - before.allocated)}
	for i, n := range c.pauses.Counts {
		if n -= before.pauses.Counts[i]; n > 0 {
			k.Pauses += int(n)
			k.LongestPause = 1e6 * c.pauses.Buckets[i+1]
		}
	}
	return k
}

// Rows lays the loop's times out as a table, the header first, µs.
func (d *Deadlines) Rows() [][]string {
	rows := [][]string{{"µs", "p50", "p90", "p99", "p99.9", "max"}}
	for _, of := range []struct {
		name string
		s    Spread
	}{{"response", d.Response}, {"release jitter", d.Jitter}, {"decision", d.Compute}, {"its CPU time", d.CPU}} {
		row := []string{of.name}
		for _, v := range []float64{of.s.P50, of.s.P90, of.s.P99, of.s.P999, of.s.Max} {
			row = append(row, positive("%.1f", v))
		}
		rows = append(rows, row)
	}
	return rows
}

// Lines say the rest of it, one thing each.
func (d *Deadlines) Lines() []string {
	lines := []string{
		fmt.Sprintf("%s by %s, %g times a second (period %g µs, deadline %g µs) for %g s", d.Case, d.Method, d.Rate, d.Period, d.Deadline, d.For),
		fmt.Sprintf("%d of %d deadlines missed: %d decisions late, %d releases skipped; at most %d one after another", d.Missed, d.Releases, d.Late, d.Skipped, d.LongestMiss),
	}
	if d.Late > 0 {
		lines = append(lines, fmt.Sprintf("of the late: %d awoke behind half of the deadline, %d lost the CPU to another, %d had a cycle of the collector, %d computed longer than the deadline",
			d.Causes.Released, d.Causes.Switched, d.Causes.Collected, d.Causes.Computing))
	}
	if d.Differing > 0 {
		lines = append(lines, fmt.Sprintf("%d actions differ from those of the closed loop that was recorded: the method depends on more than what it is given", d.Differing))
	}
	if s := d.Switches; s != nil {
		lines = append(lines, fmt.Sprintf("context switches of the loop's thread: %d involuntary, %d by its own sleep", s.Involuntary, s.Voluntary))
	}
	lines = append(lines, fmt.Sprintf("collector: %d cycles, %d pauses of at most %.0f µs, %.3g MB allocated", d.Collector.Cycles, d.Collector.Pauses, d.Collector.LongestPause, d.Collector.Allocated/1e6))
	return append(lines, d.Load.String())
}
