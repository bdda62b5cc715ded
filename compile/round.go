package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/offline"
	"github.com/gpc-engine/gpc/train"
)

// purpose of a seed: what a decision has looked at is never what is reported.
type purpose uint64

const (
	solved purpose = iota + 1
	near
	heldOut
	confirmed
	probed
	tested
)

// startsOf are what closed loops of a purpose begin from, in words.
var startsOf = map[purpose]string{solved: "its own starts", heldOut: "held-out starts", confirmed: "more starts", probed: "new starts", tested: "the test's starts"}

// seed of a purpose in a round.
func (r *run) seed(p purpose, round int) uint64 {
	return rand.NewPCG(r.opt.Seed, uint64(p)<<32|uint64(round)).Uint64()
}

// round makes the data, trains on all so far, and drives the map.
func (r *run) round(ctx context.Context, number int, w work) (*Round, error) {
	out := &Round{Kind: w.kind, Why: w.why, From: w.from, Wanted: w.scenarios}
	began := r.now()
	if w.kind != Epochs {
		added, err := r.data(ctx, number, w, out)
		if err != nil {
			return nil, err
		}
		out.Seconds.Solve = r.since(began)
		began = r.now()
		if w.epochs, err = r.affordableEpochs(ctx, number, w.epochs, added); err != nil {
			return nil, err
		}
	}
	out.Epochs = w.epochs
	m, samples, err := r.train(ctx, number, w)
	if err != nil {
		return nil, err
	}
	out.Samples, out.Seconds.Train = samples, r.since(began)
	began = r.now()
	if err := r.evaluate(ctx, number, m, out); err != nil {
		return nil, err
	}
	out.Seconds.Evaluate = r.since(began)
	return out, nil
}

// data solves the scenarios of a round, those near the worst starts first, for which there is half
// of the time, and returns how many samples they give.
func (r *run) data(ctx context.Context, number int, w work, out *Round) (samples int, err error) {
	spread, focused, err := r.points(number, out)
	if err != nil {
		return 0, err
	}
	began, within, visited := r.now(), solvable*r.left(), 0
	if len(focused) > 0 {
		reached, made, err := r.solve(ctx, r.nearData(number), r.seed(near, number), focused, r.mapFile(w.from), within/2)
		if err != nil {
			return 0, err
		}
		r.room(out, &made)
		out.Focused, visited = reached, int(made.Samples)
	}
	n, made, err := r.solve(ctx, r.ownData(number), r.seed(solved, number), spread, "", within-r.since(began))
	r.room(out, &made)
	out.Scenarios = n + out.Focused
	return int(made.Samples) + visited, err
}

// room counts the solves that keep off the limits what is asked for, of a case that keeps off them.
func (r *run) room(of *Round, made *offline.Counters) {
	if r.c.Definition().Level > 0 {
		of.Solves += int(made.Solves - made.Infeasible - made.NotConverged)
		of.NoRoom += int(made.NoRoom)
	}
}

const (
	// focusShare of a later round's scenarios lie around the worst starts, at a normal
	// distance of focusWidth of each parameter's range.
	focusShare = 0.3
	focusWidth = 0.05
)

// points are the scenarios that a round wants: a Latin hypercube, and in later rounds others
// around the starts that the map it goes on from did worst from.
func (r *run) points(number int, of *Round) (spread, focused [][]float64, err error) {
	axes := r.c.Definition().Solver.Parameters()
	if number > 0 {
		if worst := r.journal.Rounds[of.From].Worst; len(worst) > 0 {
			rng := rand.New(rand.NewPCG(r.seed(near, number), 0))
			for i := range int(focusShare * float64(of.Wanted)) {
				p := make([]float64, len(axes))
				for j, a := range axes {
					p[j] = worst[i%len(worst)][j] + focusWidth*(a.Hi-a.Lo)*rng.NormFloat64()
				}
				domain.Clip(p, p, axes)
				focused = append(focused, p)
			}
		}
	}
	spread, err = offline.LatinHypercube(axes, of.Wanted-len(focused), r.seed(solved, number))
	return spread, focused, err
}

const (
	// solvable is the share of what the rounds have left of the budget that one may spend on
	// solving; training and closed loops have the rest.
	solvable = 0.5
	// parts are the most of a round's scenarios, with leastPart in each; the time is looked at
	// before each but the first, and but one that an interrupted run has begun.
	parts     = 32
	leastPart = 8
)

// solve makes a part of the data, with a map also the optimum from the states that it
// visits, and returns how many of the scenarios were reached within so many seconds, in their order,
// and what they give.
func (r *run) solve(ctx context.Context, folder string, seed uint64, points [][]float64, policy string, within float64) (reached int, total offline.Counters, err error) {
	opt := r.c.DatasetDefaults()
	opt.Scenarios, opt.Points, opt.Seed, opt.Threads, opt.Command = len(points), points, seed, r.opt.Threads, r.opt.Command
	visited := policy
	if domain.AbilitiesOfSolver(r.c.Definition().Solver).SolveVisited == nil {
		visited = ""
	}
	opt.Chunk = max((len(points)+parts-1)/parts, leastPart)
	opt.Shard.Count = (len(points) + opt.Chunk - 1) / opt.Chunk
	began := r.now()
	for done := 0; done < len(points); done += opt.Chunk {
		opt.OutDir = part(folder, opt.Shard.Index)
		if k := float64(opt.Shard.Index); k > 0 && r.since(began)*(k+1)/k > within {
			if _, err := os.Stat(opt.OutDir); err != nil {
				return done, total, nil
			}
		}
		counters, err := r.c.Dataset(ctx, visited, engine.Options{}, opt, func(p offline.Progress) {
			if p.Stage == "solve" {
				p.Done, p.Total = done+p.Done, len(points)
			}
			r.opt.Progress(Progress{Stage: p.Stage, Done: p.Done, Total: p.Total})
		})
		if err != nil {
			return 0, total, err
		}
		total.Add(*counters)
		opt.Shard.Index++
	}
	if total.Samples == 0 && policy == "" {
		return 0, total, fmt.Errorf("compile: no samples of %d scenarios; %s", total.Scenarios, total.Missing())
	}
	return len(points), total, nil
}

// part is the folder of a part of a round's data.
func part(folder string, index int) string { return fmt.Sprintf("%s-%d", folder, index) }

// train goes on from an earlier round's map with all data so far, and keeps the map.
func (r *run) train(ctx context.Context, number int, w work) (*model.Model, int, error) {
	var opt train.Options
	opt.Checkpoint, opt.Resume = r.mapFile(number)+".checkpoint", true
	if number > 0 {
		var err error
		if opt.Initial, err = r.c.Model(r.mapFile(w.from)); err != nil {
			return nil, 0, err
		}
	}
	got, err := r.trained(ctx, number, w.epochs, opt, func(p train.Progress) {
		r.opt.Progress(Progress{Stage: "train", Done: p.Step, Total: p.Steps})
	})
	if err != nil {
		return nil, 0, err
	}
	if err := got.Model.WriteFile(r.mapFile(number)); err != nil {
		return nil, 0, err
	}
	return got.Model, got.Rows, os.Remove(opt.Checkpoint)
}

// trained trains for so many epochs on the data of the rounds until this one.
func (r *run) trained(ctx context.Context, number, epochs int, opt train.Options, progress func(train.Progress)) (*train.Result, error) {
	var dirs []string
	for i := range number + 1 {
		for _, folder := range [2]string{r.ownData(i), r.nearData(i)} {
			for k := range parts {
				if _, err := os.Stat(part(folder, k)); err == nil {
					dirs = append(dirs, part(folder, k))
				} else if !errors.Is(err, fs.ErrNotExist) {
					return nil, err
				}
			}
		}
	}
	e, err := gpc.OpenEngine(engine.Options{Threads: r.opt.Threads})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	opt.Seed, opt.Command = r.seed(solved, number), r.opt.Command
	opt.ManifoldEpochs, opt.RolloutEpochs = epochs, -1
	return r.c.Train(ctx, e, dirs, opt, progress)
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

// decisions is the clock that decisions are timed by; nil: the wall's.
func (r *run) decisions() func() time.Time {
	if !r.opt.BudgetCPU {
		return nil
	}
	return func() time.Time { return time.Unix(0, 0).Add(machine.CPUTime()) }
}

// drive runs loops to their end and sums up.
func (r *run) drive(ctx context.Context, l loops) (Score, error) {
	out := Score{Method: l.method}
	floored, capped, known := 0.0, 0.0, 0
	period, tardy := l.of.Spec().StepSeconds, 0
	got, err := l.of.Evaluate(ctx, gpc.Setup{Method: l.method, Model: l.model}, engine.Options{}, closedloop.Options{
		Episodes: l.episodes, Seed: r.seed(l.purpose, l.round), Preference: adaptive, Threads: cmp.Or(l.threads, r.threads()), Clock: r.decisions(),
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
	if running := got.Latency.Running; running != nil {
		out.P50, out.P99 = running.P50, running.P99
	}
	out.Cold, out.Prepare = got.Latency.Cold, got.Prepare
	out.Replaced = closedloop.Number(100 * float64(got.Fallback) / float64(got.Decisions))
	out.Late = closedloop.Number(100 * float64(tardy) / float64(got.Decisions))
	if got.Guard != nil {
		out.Rescued = 100 * got.Guard.RescueRate
	}
	return out, nil
}

// focus are the starts that a probe did worst from: those that were not safe, then the
// dearest, a tenth of all.
func focus(points [][]float64, regret []float64) [][]float64 {
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(regret[b], regret[a]) })
	var worst [][]float64
	for _, i := range order[:(len(order)+9)/10] {
		worst = append(worst, points[i])
	}
	return worst
}

// affordableEpochs is how many of so many epochs on a round's data, of which samples were added, the time
// that is left has room for.
func (r *run) affordableEpochs(ctx context.Context, number, wanted, added int) (int, error) {
	p := &r.journal.Pace
	for len(p.Epochs) <= number {
		p.Epochs = append(p.Epochs, 0)
	}
	if p.Epochs[number] > 0 {
		return min(p.Epochs[number], wanted), nil
	}
	var epoch, around float64
	if number == 0 {
		var err error
		if epoch, around, err = r.timeEpoch(ctx); err != nil {
			return 0, err
		}
		around += r.references(r.opt.Starts)
	} else {
		last := &r.journal.Rounds[number-1]
		epoch, around = float64(last.Samples+added)*r.perSample(), last.Seconds.Evaluate
	}
	fitted := wanted
	if room := (usable*r.left() - around) / epoch; epoch > 0 {
		fitted = int(max(float64((wanted+leastEpochs-1)/leastEpochs), min(float64(wanted), room)))
	}
	p.Epochs[number] = fitted
	return fitted, r.save()
}

// timeEpoch trains for one epoch on the first round's data: its time, and that around epochs, for a
// training begins by reading its data and ends by calibrating.
func (r *run) timeEpoch(ctx context.Context) (epoch, around float64, err error) {
	began := r.now()
	var first, last time.Time
	var updates, of int
	if _, err := r.trained(ctx, 0, 1, train.Options{}, func(now train.Progress) {
		r.opt.Progress(Progress{Stage: "time training", Done: now.Step, Total: now.Steps})
		if last = r.now(); first.IsZero() {
			first = last
		} else {
			updates++
		}
		of = now.Steps
	}); err != nil {
		return 0, 0, err
	}
	epoch = last.Sub(first).Seconds() * float64(of) / float64(max(1, updates))
	return epoch, max(0, r.since(began)-epoch), nil
}

// driven is a plant that takes what was driven for a start of its reference too, where that
// cost less than the optimum that the solver's own starts led to, or where they led to none:
// a map may have found another basin.
type driven struct {
	*closedloop.Simulation
	solver domain.Receding
}

// driven is the plant itself where there is nothing to solve with, where what is decided acts later, and where it is another than
// the model that would be solved.
func (r *run) driven(plant *closedloop.Simulation) domain.Plant {
	solver, ok := r.c.Definition().Solver.(domain.Receding)
	if !ok || plant.Oracle == nil || plant.Delay.Periods > 0 || plant.Problem != r.c.Definition().Problem {
		return plant
	}
	return driven{plant, solver}
}

// Episode implements domain.Plant.
func (p driven) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	ep, err := p.Simulation.Episode(seed, index, opt)
	if err != nil {
		return nil, err
	}
	spec := p.Problem.Spec()
	e := &drivenEpisode{
		Episode: ep, solver: p.solver, preference: opt.Preference, spec: spec, kept: true,
		s: make([]float64, spec.MeasuredSize()), c: make([]float64, spec.ContextSize()),
		anew: func() (domain.Episode, error) { return p.Simulation.Episode(seed, index, opt) },
	}
	ep.Observe(e.s, e.c)
	return e, nil
}

// drivenEpisode remembers its actions and what they cost.
type drivenEpisode struct {
	domain.Episode
	solver     domain.Receding
	preference domain.Preference
	spec       *domain.Spec
	anew       func() (domain.Episode, error) // the same from its start
	s, c       []float64                      // the start
	plan       [][]float64
	cost       float64
	kept       bool // every margin, and no state lost
}

// Apply implements domain.Episode.
func (e *drivenEpisode) Apply(u []float64) (domain.Outcome, error) {
	out, err := e.Episode.Apply(u)
	if err == nil {
		e.plan, e.cost = append(e.plan, slices.Clone(u)), e.cost+out.Cost
		e.kept = e.kept && !out.Failed && e.spec.Keeps(out.Margin)
	}
	return out, err
}

// Abilities implements domain.Able: what is measured is the plant's own.
func (e *drivenEpisode) Abilities() *domain.EpisodeAbilities {
	return &domain.EpisodeAbilities{Measure: domain.AbilitiesOfEpisode(e.Episode).Measure}
}

// Oracle implements domain.Episode.
func (e *drivenEpisode) Oracle() (float64, [][]float64, error) {
	cost, plan, err := e.Episode.Oracle()
	if !e.Done() || !e.kept || err == nil && !(cost > e.cost) {
		return cost, plan, err
	}
	if own, better, ok := e.improve(); ok && !(own >= cost) {
		return own, better, nil
	}
	return cost, plan, err
}

// improve is the optimum that what was driven leads to; false where the solver does not
// converge or leads through a state that is lost.
func (e *drivenEpisode) improve() (float64, [][]float64, bool) {
	flat := slices.Concat(e.plan...)
	horizon := e.solver.NewHorizon(0)
	horizon.Begin(flat)
	cost, solved, err := horizon.Solve(e.s, e.c, e.preference, flat)
	if err != nil || !solved {
		return 0, nil, false
	}
	again, err := e.anew()
	if err != nil {
		return 0, nil, false
	}
	plan := slices.Collect(slices.Chunk(flat, len(e.plan[0])))
	for _, u := range plan {
		if out, err := again.Apply(u); err != nil || out.Failed {
			return 0, nil, false
		}
	}
	return cost, plan, true
}
