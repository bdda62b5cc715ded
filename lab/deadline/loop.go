package deadline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/thread"
)

// recordedDecision is one decision of a closed loop, with the episode that it begins, if any.
type recordedDecision struct {
	begins  domain.Episode
	s, c, u []float64
}

// drive records a closed loop of the controller on some episodes.
func drive(ctx context.Context, c *domain.Case, k domain.Controller, opt DeadlineOptions) (all []recordedDecision, err error) {
	if c.Plant == nil {
		return nil, errors.New("the case has no plant to decide for")
	}
	spec, episodes := c.Problem.Spec(), cmp.Or(opt.Episodes, defaultRecorded)
	abilities := domain.AbilitiesOfController(k)
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
			d := recordedDecision{begins, make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())}
			begins = nil
			ep.Observe(d.s, d.c)
			if _, err := k.Decide(d.s, d.c, opt.Preference, d.u); err != nil {
				return nil, fmt.Errorf("test episode %d: %w", e, err)
			}
			if _, err := ep.Apply(d.u); err != nil {
				return nil, fmt.Errorf("test episode %d: %w", e, err)
			}
			all = append(all, d)
			if !ep.Done() && abilities.Prepare != nil {
				if err := abilities.Prepare(); err != nil {
					return nil, fmt.Errorf("test episode %d: %w", e, err)
				}
			}
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
// What works between its decisions (domain.ControllerAbilities.Prepare) does so before the next release.
func KeepDeadlines(ctx context.Context, c *domain.Case, k domain.Controller, opt DeadlineOptions) (*Deadlines, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	recorded, err := drive(ctx, c, k, opt)
	if err != nil {
		return nil, err
	}
	period := time.Duration(math.Round(1e9 / opt.Rate))
	releases := int(opt.For / period)
	l := newLoop(max(1, releases), period, cmp.Or(opt.Deadline, period))
	u := make([]float64, c.Problem.Spec().ActionSize())
	abilities := domain.AbilitiesOfController(k)
	runtime.GC()
	err = l.run(ctx, func(n int) error {
		if begins := recorded[n%len(recorded)].begins; begins != nil {
			return k.Reset(begins)
		}
		if abilities.Prepare == nil {
			return nil
		}
		return abilities.Prepare() // what it takes of the period is late where it takes more
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
	usageKnown                     bool // whether the system says what a thread uses
	now                            func() time.Duration
	sleepUntil                     func(time.Duration) error
	usage                          thread.Usage
	collector                      Collector
}

func newLoop(releases int, period, deadline time.Duration) *loop {
	room := func() []float64 { return make([]float64, 0, releases) }
	return &loop{releases: releases, period: period, deadline: deadline, response: room(), jitter: room(), compute: room(), cpu: room(), now: thread.Now, sleepUntil: thread.SleepUntil}
}

const microsecond = float64(time.Microsecond)

// run makes the decisions: before each what prepares it and is not timed, then the decision,
// then whether it is what it should be. It keeps one thread, of which it says what was used.
func (l *loop) run(ctx context.Context, prepare, decide func(n int) error, compare func(n int) bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	probe := newProbe()
	reading := probe.read()
	first, ok := thread.Used()
	l.usageKnown = ok
	cycles := reading.cycles
	start := l.now() + l.period
	for slot, n := 0, 0; slot < l.releases; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := prepare(n); err != nil {
			return err
		}
		release := start + time.Duration(slot)*l.period
		if err := l.sleepUntil(release); err != nil {
			return fmt.Errorf("sleeping: %w", err)
		}
		awake := l.now()
		from, _ := thread.Used()
		decisionStart := l.now()
		if err := decide(n); err != nil {
			return fmt.Errorf("decision %d: %w", n, err)
		}
		finish := l.now()
		to, _ := thread.Used()
		usage := to.Since(from)
		l.response = append(l.response, float64(finish-release)/microsecond)
		l.jitter = append(l.jitter, float64(awake-release)/microsecond)
		l.compute = append(l.compute, float64(finish-decisionStart)/microsecond)
		l.cpu = append(l.cpu, float64(usage.CPU)/microsecond)
		if !compare(n) {
			l.differing++
		}
		now := probe.cycles()
		l.judge(finish-release, awake-release, usage, now > cycles)
		cycles = now
		// The last release that has passed is the next to be decided on.
		next := max(slot+1, int((l.now()-start)/l.period))
		next = min(next, l.releases)
		for range next - slot - 1 {
			l.skipped++
			l.miss()
		}
		slot = next
	}
	last, _ := thread.Used()
	l.usage = last.Since(first)
	l.collector = probe.read().sub(reading)
	return nil
}

func (l *loop) miss() {
	l.missedNow++
	l.longest = max(l.longest, l.missedNow)
}

// judge counts a decision that was late, with what may have made it so.
func (l *loop) judge(response, jitter time.Duration, usage thread.Usage, collected bool) {
	if response <= l.deadline {
		l.missedNow = 0
		return
	}
	l.late++
	l.miss()
	for _, cause := range []struct {
		counter *int
		applies bool
	}{
		{&l.causes.Released, jitter > l.deadline/2}, {&l.causes.Switched, usage.Involuntary > 0},
		{&l.causes.Collected, collected}, {&l.causes.Computing, usage.CPU > l.deadline},
	} {
		if cause.applies {
			*cause.counter++
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
	if l.usageKnown {
		d.CPU, d.Switches = spreadOf(l.cpu), &Switches{l.usage.Involuntary, l.usage.Voluntary}
	}
	return d
}

// spreadOf are the quantiles of times; NaN of none.
func spreadOf(us []float64) Spread {
	if len(us) == 0 {
		unknown := math.NaN()
		return Spread{unknown, unknown, unknown, unknown, unknown}
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
	bin := func(us float64) *TimeBin {
		i := 0
		if us > leastBin {
			i = min(int(binsPerDecade*math.Log10(us/leastBin)), len(bins)-1)
		}
		first, last = min(first, i), max(last, i)
		return &bins[i]
	}
	for i := range response {
		bin(response[i]).Response++
		bin(jitter[i]).Jitter++
	}
	if last < first {
		return []TimeBin{}
	}
	return bins[first : last+1]
}
