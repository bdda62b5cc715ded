package compile

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/model"
)

const (
	// confirmations are how many times the held-out starts others confirm a target,
	// mostConfirmations where that takes no more than confirmable of the time that is left: a tail
	// that one start in a thousand is in is not seen by a thousand.
	confirmations     = 5
	mostConfirmations = 25
	confirmable       = 0.25
)

// confirming is how many starts confirm the target of a round.
func (r *run) confirming(number int) int {
	least, most := confirmations*r.opt.Starts, mostConfirmations*r.opt.Starts
	each := r.journal.Pace.Reference + r.journal.Pace.Episodes["direct"]/float64(r.threads())
	if number+1 == r.opt.Rounds { // nothing follows from it
		return least
	}
	if room := confirmable * r.left(); float64(most)*each > room {
		return max(least, int(room/each))
	}
	return most
}

// evaluate drives a round's map from starts of its data, held-out ones, and probes.
func (r *run) evaluate(ctx context.Context, number int, m *model.Model, out *Round) error {
	err := r.timeMethods(ctx, m)
	if err == nil {
		err = r.reduceHeldOut()
	}
	if err != nil {
		return err
	}
	if out.HeldOut, err = r.drive(ctx, loops{of: r.c, model: m, method: "direct", purpose: heldOut, episodes: r.opt.Starts}); err != nil {
		return err
	}
	if starts := r.confirming(number); out.HeldOut.meets(&r.opt) && float64(starts)*r.journal.Pace.Reference < r.left() { // else the test alone tells
		more, err := r.drive(ctx, loops{of: r.c, model: m, method: "direct", purpose: confirmed, round: number, episodes: starts})
		if err != nil {
			return err
		}
		out.Confirmed = &more
	}
	if r.plant == nil {
		return nil
	}
	// The map alone: where its projected action breaks a limit, no solver is asked either.
	alone := *r.c.Definition()
	alone.Guard, alone.Rescue = domain.Guard{Off: true}, nil
	bare, err := gpc.NewCase(alone)
	if err != nil {
		return err
	}
	if err := r.revisit(ctx, bare, number, m, out); err != nil {
		return err
	}
	return r.probe(ctx, bare, number, m, out)
}

// revisit drives a map without a guard from starts of its own data.
func (r *run) revisit(ctx context.Context, bare *gpc.Case, number int, m *model.Model, out *Round) error {
	var own [][]float64
	for i := range number + 1 {
		of := out
		if i < number {
			of = &r.journal.Rounds[i]
		}
		if of.Wanted > 0 {
			spread, focused, err := r.points(i, of)
			if err != nil {
				return err
			}
			own = append(append(own, spread[:of.Scenarios-of.Focused]...), focused[:of.Focused]...)
		}
	}
	rand.New(rand.NewPCG(r.seed(solved, number), 1)).Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	own = own[:min(len(own), r.opt.Starts)]
	fixed := *r.plant
	fixed.Starts = own
	def := *bare.Definition()
	def.Plant = r.driven(&fixed)
	c, err := gpc.NewCase(def)
	if err != nil {
		return err
	}
	out.Training, err = r.drive(ctx, loops{of: c, model: m, method: "direct", purpose: solved, round: number, episodes: len(own)})
	return err
}

// probe drives a map without a guard from new starts, and keeps the worst to solve around.
func (r *run) probe(ctx context.Context, bare *gpc.Case, number int, m *model.Model, out *Round) (err error) {
	probes := make([][]float64, r.opt.Starts)
	regret := make([]float64, len(probes))
	for i := range probes {
		probes[i] = r.plant.Start(r.seed(probed, number), i)
	}
	out.Probed, err = r.drive(ctx, loops{
		of: bare, model: m, method: "direct", purpose: probed, round: number, episodes: len(probes),
		visit: func(e *closedloop.EpisodeRecord) {
			pct, ok := e.Regret()
			switch {
			case ok:
				regret[e.Episode] = pct
			case lost(e): // where there is no way nothing is to be learnt
				regret[e.Episode] = math.Inf(1)
			}
		},
	})
	if err != nil {
		return err
	}
	out.Worst = focus(probes, regret)
	return nil
}

// loops are the closed loops of a method of a map, each from a start of its own.
type loops struct {
	of       *gpc.Case
	model    *model.Model
	method   string
	purpose  purpose // with the round, what the starts are drawn by
	round    int
	episodes int
	threads  int                             // 0: the run's
	visit    func(*closedloop.EpisodeRecord) // is called after each episode; nil: nothing is
}

// drive runs loops to their end and sums up.
func (r *run) drive(ctx context.Context, l loops) (Score, error) {
	out := Score{Method: l.method}
	floored, capped, known := 0.0, 0.0, 0
	period, tardy := l.of.Spec().StepSeconds, 0
	got, err := l.of.Evaluate(ctx, gpc.Setup{Method: l.method, Model: l.model}, engine.Options{}, closedloop.Options{
		Episodes: l.episodes, Seed: r.seed(l.purpose, l.round), Preference: adaptive, Threads: cmp.Or(l.threads, r.threads()),
		Visit: func(e *closedloop.EpisodeRecord) {
			if !e.End.Safe && e.End.OracleFailure != "" {
				out.NoWay++
			}
			if e.End.NoWay {
				out.NoRoom++
			}
			if pct, ok := e.Regret(); ok {
				pct = max(pct, 0)
				floored, capped, known = floored+pct, capped+min(pct, r.journal.Cap), known+1
			}
			tardy += late(e, period)
			if l.visit != nil {
				l.visit(e)
			}
		},
		Progress: func(done, total int) {
			r.opt.Progress(Progress{Stage: "drive " + l.method + " from " + startsOf[l.purpose], Done: done, Total: total})
		},
	})
	if err != nil {
		return out, err
	}
	out.Episodes, out.Unsafe, out.Unsolved = got.Episodes, len(got.Unsafe), got.OracleFailures
	out.Mean, out.Median, out.P90, out.Max, out.Min = got.Regret.Mean, got.Regret.Median, got.Regret.P90, got.Regret.Max, got.RegretMin
	out.Floored, out.Capped = closedloop.Number(floored/float64(known)), closedloop.Number(capped/float64(known))
	out.P50, out.P99, out.Prepare = got.Latency.P50, got.Latency.P99, got.Prepare
	out.Replaced = closedloop.Number(100 * float64(got.Fallback) / float64(got.Decisions))
	out.Late = closedloop.Number(100 * float64(tardy) / float64(got.Decisions))
	if got.Guard != nil {
		out.Rescued = 100 * got.Guard.RescueRate
	}
	return out, nil
}
