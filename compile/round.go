package compile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
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
					p[j] = math.Min(a.Hi, math.Max(a.Lo, worst[i%len(worst)][j]+focusWidth*(a.Hi-a.Lo)*rng.NormFloat64()))
				}
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
	// before each but the first.
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
		if k := float64(opt.Shard.Index); k > 0 && r.since(began)*(k+1)/k > within {
			return done, total, nil
		}
		opt.OutDir = part(folder, opt.Shard.Index)
		counters, err := r.c.Dataset(ctx, visited, engine.Options{}, opt, func(p offline.Progress) {
			r.opt.Progress(Progress{Stage: "solve", Done: done + p.Done, Total: len(points)})
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
