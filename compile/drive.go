package compile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/model"
)

// loops are closed loops of a map's method, each from its own start.
type loops struct {
	name     string // of the file that keeps the result until the report is written, with what else tells it apart
	gpcCase  *gpc.Case
	model    *model.Model
	method   string
	purpose  purpose // with the round, the seed of the starts
	round    int
	episodes int
	threads  int    // 0: the run's
	clock    string // of decisions: "cpu", or "" for the run's
	// integration is looked at.
	integration bool
	// deadline ends them with fewer episodes, s of the run; 0: none. An episode that is in progress ends halfway from
	// there to the end of all, with its result lost.
	deadline float64
}

// drive is the result of closed loops.
type drive struct {
	Score       Score            `json:"score"`
	Starts      []start          `json:"starts"` // by episode
	Seconds     float64          `json:"seconds"`
	Load        *closedloop.Load `json:"load"` // of the machine meanwhile; nil where unknown
	SteadyState string           `json:"steady_state_outside,omitempty"`
	// Integration is that of the plant; nil where it was not looked at.
	Integration *closedloop.Integration `json:"integration,omitempty"`
	durable.Seal
}

// start is what an episode from it says of the method.
type start struct {
	Regret closedloop.Number `json:"regret_pct"`       // NaN if unknown
	Unsafe bool              `json:"unsafe,omitempty"` // although the reference finds a safe way
	Late   int               `json:"late,omitempty"`   // decisions that took longer than a period
}

func startOf(e *closedloop.EpisodeRecord, period float64) start {
	s := start{Regret: closedloop.Number(math.NaN()), Unsafe: !e.End.Safe && e.End.OracleFailure == ""}
	if pct, ok := e.Regret(); ok {
		s.Regret = closedloop.Number(pct)
	}
	for i := range e.Lines {
		s.Late += indicator(float64(e.Lines[i].Latency) > 1e6*period)
	}
	return s
}

// maxDrive is the largest file of a drive, bytes.
const maxDrive = 64 << 20

// file keeps the result of loops: of the same map by the same method from the same starts.
func (r *run) file(l *loops) string {
	hash := durable.Sum(sha256.Sum256(fmt.Append(nil, filepath.Base(l.name), l.method, l.purpose, l.round, l.episodes, l.clock)))
	return filepath.Join(r.dir, "drive-"+hash[:16]+".json")
}

// drive runs loops and sums up, or reads what an interrupted run kept of them.
func (r *run) drive(ctx context.Context, l loops) (result drive, err error) {
	if err := durable.ReadSealed(r.file(&l), &result, maxDrive); !errors.Is(err, fs.ErrNotExist) {
		return result, err
	}
	if result, err = r.driveAll(ctx, l); err == nil && len(result.Starts) > 0 {
		err = durable.WriteSealed(r.file(&l), &result)
	}
	return result, err
}

// driveSingle drives on one thread, so that the times are those of a single loop. Where decisions are late by wall time
// it drives by CPU time: other work of the machine is no reason to give up a method.
func (r *run) driveSingle(ctx context.Context, l loops) (drive, error) {
	l.threads = 1
	result, err := r.drive(ctx, l)
	if err != nil || r.opt.BudgetCPU || r.fits(&result.Score) && result.Score.Late == 0 || machine.CPUTime() == 0 {
		return result, err
	}
	l.clock = "cpu"
	return r.drive(ctx, l)
}

// decisions is the clock of decisions; nil: wall time.
func (r *run) decisions(l *loops) func() time.Time {
	if !r.opt.BudgetCPU && l.clock == "" {
		return nil
	}
	return func() time.Time { return time.Unix(0, 0).Add(machine.CPUTime()) }
}

// limited is a context that also ends when its time is up, in whatever asks it.
type limited struct {
	context.Context
	late func() bool
}

// Err implements context.Context.
func (l limited) Err() error {
	if err := l.Context.Err(); err != nil || !l.late() {
		return err
	}
	return context.Canceled
}

// cutShort reports whether an error is only that a part of the run has been cut, whose time was up.
func cutShort(ctx, part context.Context, err error) bool {
	return ctx.Err() == nil && part.Err() != nil && errors.Is(err, context.Canceled)
}

func (r *run) driveAll(ctx context.Context, l loops) (d drive, err error) {
	begin := r.clock()
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return d, err
	}
	d = drive{Score: Score{Method: l.method, Clock: l.clock}, Starts: make([]start, l.episodes)}
	out := &d.Score
	floored, capped, n := 0.0, 0.0, 0
	period, lateCount := l.gpcCase.Spec().StepSeconds, 0
	ends, cut := context.WithCancel(ctx)
	defer cut()
	inTime := limited{ends, func() bool {
		return l.deadline > 0 && r.spent() > max(l.deadline, (l.deadline+(1+maxOverrun)*r.opt.Budget.Seconds())/2)
	}}
	threads := cmp.Or(l.threads, r.threads())
	result, err := l.gpcCase.Evaluate(inTime, gpc.Setup{Method: l.method, Model: l.model}, engine.Options{}, closedloop.Options{
		Episodes: l.episodes, Seed: r.seed(l.purpose, l.round), Preference: adaptive, Threads: threads, Clock: r.decisions(&l), CheckIntegration: l.integration,
		Visit: func(e *closedloop.EpisodeRecord) {
			out.NoWay += indicator(!e.End.Safe && e.End.OracleFailure != "")
			out.NoRoom += indicator(e.End.NoWay)
			s := startOf(e, period)
			if pct := max(float64(s.Regret), 0); !math.IsNaN(pct) {
				floored, capped, n = floored+pct, capped+min(pct, r.journal.Cap), n+1
			}
			lateCount += s.Late
			d.Starts[e.Episode] = s
		},
		Progress: func(done, total int) {
			r.opt.Progress(Progress{Stage: "drive " + l.method + " from " + startsOf[l.purpose], Done: done, Total: total})
			perEpisode := r.since(begin) / float64(done)
			if l.threads == 0 { // those of single loops have known references
				perEpisode = max(perEpisode, r.journal.Pace.Reference)
			}
			if l.deadline > 0 && done > 0 && done%threads == 0 && r.spent()+perEpisode*float64(threads) > l.deadline {
				cut() // the next ones would end too late
			}
		},
	})
	if err != nil && (result == nil || !cutShort(ctx, inTime, err)) {
		return d, err
	}
	decisions := float64(max(1, result.Decisions))
	d.Starts = d.Starts[:result.Episodes]
	out.Episodes, out.Unsafe, out.Unsolved = result.Episodes, len(result.Unsafe), result.OracleFailures
	out.Referenced, out.NoReference = result.RegretN, result.NoReference
	out.BestKnown, d.SteadyState = result.BestKnown, result.SteadyState
	out.Mean, out.Median, out.P90 = result.Regret.Mean, result.Regret.Median, result.Regret.P90
	out.Max, out.Min = result.Regret.Max, result.RegretMin
	out.Floored, out.Capped = closedloop.Number(floored/float64(n)), closedloop.Number(capped/float64(n))
	if running := result.Latency.Running; running != nil {
		out.P50, out.P99 = running.P50, running.P99
	}
	out.Cold, out.Prepare = result.Latency.Cold, result.Prepare
	out.Replaced = closedloop.Number(100 * float64(result.Fallback) / decisions)
	out.Late = closedloop.Number(100 * float64(lateCount) / decisions)
	if result.Guard != nil {
		out.Rescued = 100 * result.Guard.RescueRate
	}
	d.Integration, d.Seconds = result.Integration, r.since(begin)
	d.Load, err = watch.End()
	return d, err
}
