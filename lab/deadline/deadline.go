// Package deadline runs decisions in a loop at a rate and records their responses, what was late, and why. The central type
// is Deadlines, the record of gpc-lab bench deadline.
package deadline

import (
	"fmt"
	"math"
	"time"

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
	Case        string  `json:"case"`         // its name
	Method      string  `json:"method"`       // that decided
	Device      string  `json:"device"`       // that was measured
	Backend     string  `json:"backend"`      // cpu, cuda or ref
	ISA         string  `json:"isa"`          // of its kernels
	Threads     int     `json:"threads"`      // of the engine
	Commit      string  `json:"commit"`       // of the program
	Command     string  `json:"command"`      // as typed
	Rate        float64 `json:"rate_hz"`      // releases a second
	Period      float64 `json:"period_us"`    // between two
	Deadline    float64 `json:"deadline_us"`  // of an action after its release
	For         float64 `json:"for_s"`        // how long
	Releases    int     `json:"releases"`     // of the loop
	Decisions   int     `json:"decisions"`    // of these, made
	Skipped     int     `json:"skipped"`      // passed while an earlier one was decided on
	Late        int     `json:"late"`         // decisions behind the deadline
	Missed      int     `json:"missed"`       // both together
	LongestMiss int     `json:"longest_miss"` // missed one after another, at most
	// Differing are decisions whose action is not that of the closed loop whose observations
	// they had.
	Differing int    `json:"differing"`
	Response  Spread `json:"response_us"` // from release to action
	Jitter    Spread `json:"jitter_us"`   // from release to the loop's awaking
	Compute   Spread `json:"compute_us"`  // of the decision
	CPU       Spread `json:"cpu_us"`      // of the loop's thread in it; null where it is not known
	// Causes are of the Late decisions.
	Causes LateCauses `json:"late_causes"`
	// Switches are of the loop's thread; nil where they are not known.
	Switches *Switches `json:"switches"`
	// Collector is Go's, in the loop.
	Collector Collector     `json:"collector"`
	Load      *machine.Load `json:"load"` // what others took of the machine
	// Histogram has as many bins a decade from the least time to the largest.
	Histogram []TimeBin `json:"histogram"`

	response, jitter []float64 // in the order of the decisions
}

// Spread are quantiles by the nearest rank.
type Spread struct {
	P50  float64 `json:"p50"`  // median, by the nearest rank
	P90  float64 `json:"p90"`  // 90 % quantile
	P99  float64 `json:"p99"`  // 99 %
	P999 float64 `json:"p999"` // 99.9 %
	Max  float64 `json:"max"`  // largest
}

// LateCauses counts what was there between release and action of late decisions; one may have
// several, or none that is known.
type LateCauses struct {
	Released  int `json:"released_late"` // late decisions whose loop awoke behind half of the deadline; one may have several causes, or none
	Switched  int `json:"switched_out"`  // whose thread lost the processor involuntarily
	Collected int `json:"collected"`     // with the end of a cycle of the collector
	Computing int `json:"computing"`     // whose own CPU time is above the deadline
}

// Switches are context switches of a thread: Involuntary ones gave the CPU to another.
type Switches struct {
	Involuntary int `json:"involuntary"` // context switches of the loop's thread in favour of another; `switches` is null where they are not known
	Voluntary   int `json:"voluntary"`   // by its own waiting
}

// Collector is what Go's garbage collector did.
type Collector struct {
	Cycles       int     `json:"cycles"`           // of Go's garbage collector in the loop
	Pauses       int     `json:"pauses"`           // of all goroutines
	LongestPause float64 `json:"longest_pause_us"` // upper end of its bin
	Allocated    float64 `json:"allocated_bytes"`  // by the whole program
}

// TimeBin counts the decisions whose times are in [Lo, Hi).
type TimeBin struct {
	Lo       float64 `json:"lo_us"`    // bins of equal ratio, ten a decade; the first takes what is shorter
	Hi       float64 `json:"hi_us"`    // its end
	Response int     `json:"response"` // decisions with such a response
	Jitter   int     `json:"jitter"`   // with such a jitter
}

// Times are response and jitter of every decision, µs, in their order; not to be changed.
func (d *Deadlines) Times() (response, jitter []float64) { return d.response, d.jitter }

// Rows lays the loop's times out as a table, the header first, µs.
func (d *Deadlines) Rows() [][]string {
	rows := [][]string{{"µs", "p50", "p90", "p99", "p99.9", "max"}}
	for _, quantity := range []struct {
		name string
		s    Spread
	}{{"response", d.Response}, {"release jitter", d.Jitter}, {"decision", d.Compute}, {"its CPU time", d.CPU}} {
		row := []string{quantity.name}
		for _, v := range []float64{quantity.s.P50, quantity.s.P90, quantity.s.P99, quantity.s.P999, quantity.s.Max} {
			row = append(row, Positive("%.1f", v))
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

// Micros is a time in µs to four digits, or all before the point; a dash for NaN.
func Micros(us float64) string {
	switch {
	case math.IsNaN(us):
		return "–"
	case us >= 1e4:
		return fmt.Sprintf("%.0f", us)
	}
	return fmt.Sprintf("%.4g", us)
}

// Positive is a number where there is one.
func Positive(format string, v float64) string {
	if !(v > 0) {
		return "–"
	}
	return fmt.Sprintf(format, v)
}
