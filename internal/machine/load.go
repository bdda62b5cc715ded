// Package machine measures how busy a machine was with other work while something was timed on it.
//
// The central type is Load. Times of a machine that had other work are not its own:
// every recorded time has a Load, and a recording with a Limit is refused above it.
package machine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Load is a machine's during a run. Start and End are its load averages over a minute:
// how many threads ran or wanted to, those of the run among them. Others and Stolen
// are means over the run, in CPUs: what other processes computed, and what another guest
// of the same host had.
type Load struct {
	CPUs   int     `json:"cpus"`       // hardware threads of the machine
	Start  float64 `json:"load_start"` // threads that ran or wanted to, a minute's average, the run's own among them
	End    float64 `json:"load_end"`   // the same at its end
	Others float64 `json:"others"`     // CPUs that other processes took, mean over the run
	Stolen float64 `json:"stolen"`     // CPUs that other guests of the host took
	// Limit is what Start and End had to stay below, 0 for none; Above that it was recorded
	// all the same.
	Limit float64 `json:"limit,omitempty"`       // of the load; absent: none
	Above bool    `json:"above_limit,omitempty"` // whether it was recorded all the same
	// Partial: of the last part of a run that was interrupted and continued.
	Partial bool `json:"partial,omitempty"`
}

// String is the load in a table's note.
func (l *Load) String() string {
	if l == nil {
		return "load not recorded"
	}
	text := fmt.Sprintf("load %.2f to %.2f on %d CPUs, %.2f of them other processes', %.2f stolen", l.Start, l.End, l.CPUs, l.Others, l.Stolen)
	if l.Above {
		text += fmt.Sprintf(", above the limit of %g", l.Limit)
	}
	if l.Partial {
		text += ", of the last part of the run"
	}
	return text
}

// Worst is the largest of what runs side by side had; nil for none, or where one does not
// say.
func Worst(loads []*Load) *Load {
	if len(loads) == 0 || slices.Contains(loads, nil) {
		return nil
	}
	w := *loads[0]
	for _, l := range loads[1:] {
		w.Start, w.End, w.Others, w.Stolen = max(w.Start, l.Start), max(w.End, l.End), max(w.Others, l.Others), max(w.Stolen, l.Stolen)
		w.Limit, w.Above, w.Partial = max(w.Limit, l.Limit), w.Above || l.Above, w.Partial || l.Partial
	}
	return &w
}

// Limit is the load average above which nothing is recorded.
type Limit struct {
	Load float64 // 0: none
	Any  bool    // recorded above it all the same
}

// ErrBusy is wrapped by the error for a load above the limit.
var ErrBusy = errors.New("the machine is too busy to record times")

// Watch is a machine under observation.
type Watch struct {
	limit Limit
	now   func() (s sample, ok bool)
	start sample
	ok    bool
}

// sample is a moment: load average, CPU seconds since boot by what they were spent on,
// and the process's own.
type sample struct {
	at                  time.Time
	load                float64
	busy, stolen, owned float64
}

// Begin starts an observation; a load above the limit is ErrBusy. Where the system does not
// say how busy it is a limit is an error.
func Begin(limit Limit) (*Watch, error) { return begin(limit, now) }

func begin(limit Limit, now func() (sample, bool)) (*Watch, error) {
	w := &Watch{limit: limit, now: now}
	w.start, w.ok = now()
	switch {
	case limit.Load > 0 && !w.ok && !limit.Any:
		return nil, errors.New("this system does not say how busy it is, so that no limit can be kept")
	case w.above(w.start.load) && !limit.Any:
		return nil, fmt.Errorf("%w: its load is %.2f, the limit %g", ErrBusy, w.start.load, limit.Load)
	}
	return w, nil
}

func (w *Watch) above(load float64) bool { return w.ok && w.limit.Load > 0 && load > w.limit.Load }

// End is the load since Begin, nil where the system does not say; above the limit the error
// is ErrBusy.
func (w *Watch) End() (*Load, error) {
	end, ok := w.now()
	if !ok || !w.ok {
		return nil, nil
	}
	l := between(w.start, end)
	l.Limit = w.limit.Load
	l.Above = w.above(l.Start) || w.above(l.End)
	if l.Above && !w.limit.Any {
		return l, fmt.Errorf("%w: its load was %.2f at the end, the limit is %g", ErrBusy, l.End, l.Limit)
	}
	return l, nil
}

// between is the load from one sample to another.
func between(a, b sample) *Load {
	l := &Load{CPUs: runtime.NumCPU(), Start: a.load, End: b.load}
	if seconds := b.at.Sub(a.at).Seconds(); seconds > 0 {
		l.Others = math.Max(0, (b.busy-a.busy)-(b.owned-a.owned)) / seconds
		l.Stolen = (b.stolen - a.stolen) / seconds
	}
	return l
}

// ticks a second, of the times in /proc/stat: Linux's USER_HZ.
const ticks = 100

// now reads a sample from /proc; ok is false where there is none.
func now() (s sample, ok bool) {
	load, errLoad := os.ReadFile("/proc/loadavg")
	stat, errStat := os.ReadFile("/proc/stat")
	if errLoad != nil || errStat != nil {
		return s, false
	}
	s.at, s.owned = time.Now(), CPUTime().Seconds()
	if s.load, ok = parseLoad(string(load)); !ok {
		return s, false
	}
	s.busy, s.stolen, ok = parseStat(string(stat))
	return s, ok
}

// parseLoad reads the first number of /proc/loadavg.
func parseLoad(text string) (float64, bool) {
	first, _, _ := strings.Cut(text, " ")
	v, err := strconv.ParseFloat(first, 64)
	return v, err == nil && v >= 0
}

// parseStat reads the first line of /proc/stat, "cpu user nice system idle iowait irq
// softirq steal …" (proc(5)), in seconds.
func parseStat(text string) (busy, stolen float64, ok bool) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, false
	}
	var spent [8]float64
	for i := range spent {
		v, err := strconv.ParseUint(fields[i+1], 10, 64)
		if err != nil {
			return 0, 0, false
		}
		spent[i] = float64(v) / ticks
	}
	return spent[0] + spent[1] + spent[2] + spent[5] + spent[6], spent[7], true
}
