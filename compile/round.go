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
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/train"
)

// purpose of a seed: reports use no starts that a decision has used.
type purpose uint64

const (
	solved purpose = iota + 1
	focusedSeed
	heldOut
	confirmed
	probed
	tested
)

// startsOf describes the starts of a purpose's closed loops.
var startsOf = map[purpose]string{solved: "its own starts", heldOut: "held-out starts", confirmed: "more starts", probed: "new starts", tested: "the test's starts"}

// seed of a purpose in a round.
func (r *run) seed(p purpose, round int) uint64 {
	return rand.NewPCG(r.opt.Seed, uint64(p)<<32|uint64(round)).Uint64()
}

// makeRound makes the data of the journal's current round, trains on all data so far, and drives the map. What an
// interrupted run finished of it is not made again.
func (r *run) makeRound(ctx context.Context, number int) error {
	out, checkpoint := r.journal.Current, r.mapFile(number)+".checkpoint"
	if out.Samples == 0 {
		if out.Kind != Epochs && out.Scenarios == 0 { // else an interrupted run has the data
			r.beginPart(&out.Seconds.Solve)
			scenarios, newSamples, err := r.makeData(ctx, number, out)
			if err != nil {
				return err
			}
			r.beginPart(&out.Seconds.Train)
			if out.Epochs, err = r.affordableEpochs(ctx, number, out.Epochs, newSamples); err != nil {
				return err
			}
			if out.Scenarios, err = scenarios, r.save(); err != nil {
				return err
			}
		}
		r.beginPart(&out.Seconds.Train)
		samples, err := r.train(ctx, number, out, checkpoint)
		if err != nil {
			return err
		}
		out.Samples = samples
		if err := r.save(); err != nil {
			return err
		}
	}
	// The journal has the map by now, so that the training does not go on from here.
	if err := os.Remove(checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.beginPart(&out.Seconds.Evaluate)
	m, err := r.c.Model(r.mapFile(number))
	if err == nil {
		err = r.evaluate(ctx, number, m, out)
	}
	r.beginPart(nil)
	return err
}

// makeData solves the scenarios of a round, first those near the worst starts, for half of the time. It returns their
// number, and that of the samples.
func (r *run) makeData(ctx context.Context, number int, out *Round) (scenarios, samples int, err error) {
	out.Focused, out.Solves, out.NoRoom = 0, 0, 0
	spread, focused, err := r.points(number, out)
	if err != nil {
		return 0, 0, err
	}
	start, limit, visited := r.clock(), solveShare*r.secondsLeft(), 0
	if len(focused) > 0 {
		solvedFocused, counters, err := r.solve(ctx, r.nearData(number), r.seed(focusedSeed, number), focused, r.mapFile(out.From), limit/2)
		if err != nil {
			return 0, 0, err
		}
		r.countRoom(out, &counters)
		out.Focused, visited = solvedFocused, int(counters.Samples)
	}
	n, counters, err := r.solve(ctx, r.ownData(number), r.seed(solved, number), spread, "", limit-r.since(start))
	r.countRoom(out, &counters)
	return n + out.Focused, int(counters.Samples) + visited, err
}

// countRoom counts the solves that keep the requested distance from the limits, where the case asks for one.
func (r *run) countRoom(round *Round, counters *dataset.Counters) {
	if r.c.Definition().Level > 0 {
		round.Solves += int(counters.Solves - counters.Infeasible - counters.NotConverged)
		round.NoRoom += int(counters.NoRoom)
	}
}

const (
	// focusShare of a later round's scenarios lie around the worst starts, at a normal distance of focusWidth of each
	// parameter's range.
	focusShare = 0.3
	focusWidth = 0.05
)

// points are the scenarios of a round: a Latin hypercube, and in later rounds others around the worst starts of the
// previous map.
func (r *run) points(number int, round *Round) (spread, focused [][]float64, err error) {
	axes := r.c.Definition().Solver.Parameters()
	if number > 0 {
		if worst := r.journal.Rounds[round.From].Worst; len(worst) > 0 {
			rng := rand.New(rand.NewPCG(r.seed(focusedSeed, number), 0))
			for i := range int(focusShare * float64(round.Wanted)) {
				p := make([]float64, len(axes))
				for j, a := range axes {
					p[j] = worst[i%len(worst)][j] + focusWidth*(a.Hi-a.Lo)*rng.NormFloat64()
				}
				domain.Clip(p, p, axes)
				focused = append(focused, p)
			}
		}
	}
	spread, err = dataset.LatinHypercube(axes, round.Wanted-len(focused), r.seed(solved, number))
	return spread, focused, err
}

const (
	// solveShare is the share of the rounds' remaining time that one may spend on solving; training and closed loops
	// have the rest.
	solveShare = 0.5
	// trainShare of the budget is the least time for training, timedEpochShare the most for timing an epoch.
	trainShare, timedEpochShare = 0.05, 0.02
	// A round's scenarios are solved in usualParts parts of at least minPart, or in smaller ones that take about as long
	// as references of partSeconds.
	usualParts  = 32
	minPart     = 8
	partSeconds = 1
)

// solve makes a part of the data, with a policy also at its visited states. It returns the number of scenarios solved
// within limit seconds, in order, and their counters. For what training needs at least, minPart are solved within the
// budget.
func (r *run) solve(ctx context.Context, folder string, seed uint64, points [][]float64, policy string, limit float64) (scenarios int, total dataset.Counters, err error) {
	opt := r.c.DatasetDefaults()
	opt.Scenarios, opt.Points, opt.Seed = len(points), points, seed
	opt.Threads, opt.Command = r.opt.Threads, r.opt.Command
	visited := policy
	if domain.AbilitiesOfSolver(r.c.Definition().Solver).SolveVisited == nil {
		visited = ""
	}
	small := max(int(partSeconds/max(r.journal.Pace.Reference, 1e-6)), r.threads())
	opt.Chunk = min(max((len(points)+usualParts-1)/usualParts, minPart), small)
	if places := domain.AbilitiesOfSolver(r.c.Definition().Solver).Places; places > 0 {
		opt.Chunk = max(opt.Chunk, min(len(points), places/(1+opt.Weights.Count)))
	}
	opt.Shard.Count = (len(points) + opt.Chunk - 1) / opt.Chunk
	start := r.clock()
	inTime, cut := context.WithCancel(ctx)
	defer cut()
	defer context.AfterFunc(r.inTime, cut)()
	for scenarios < len(points) {
		first, k := scenarios, float64(opt.Shard.Index)
		minimum := policy == "" && len(r.journal.Rounds) == 0 && first < minPart && total.Retained < leastScenarios
		opt.OutDir = part(folder, opt.Shard.Index)
		if !minimum && r.since(start)*(k+1)/max(k, 1) > limit {
			cut()
		}
		counters, err := r.c.Dataset(inTime, visited, engine.Options{}, opt, func(p dataset.Progress) {
			if p.Stage == "solve" {
				p.Done, p.Total = first+p.Done, len(points)
			}
			if r.opt.Progress(Progress{Stage: p.Stage, Done: p.Done, Total: p.Total}); !minimum && r.since(start) > limit {
				cut()
			}
		})
		if cutShort(ctx, inTime, err) {
			if err = os.RemoveAll(opt.OutDir); err == nil {
				break
			}
		}
		if err != nil {
			return 0, total, err
		}
		total.Add(*counters)
		scenarios = min(first+opt.Chunk, len(points))
		opt.Shard.Index++
	}
	if useless := total.Samples == 0 && scenarios == len(points); policy == "" && (useless || len(r.journal.Rounds) == 0 && total.Retained < leastScenarios) {
		if r.inTime.Err() != nil && ctx.Err() == nil {
			return 0, total, option.Errorf("compile: the budget of %v ended with %d of %d scenarios that training needs: give a larger {Budget}, or fewer steps", r.opt.Budget, total.Retained, leastScenarios)
		}
		return 0, total, r.unsolved(r.inTime, points[0], &total)
	}
	return scenarios, total, nil
}

// part is the folder of a part of a round's data.
func part(folder string, index int) string { return fmt.Sprintf("%s-%d", folder, index) }

// train continues from an earlier round's map with all data so far, stores the map, and returns the number of samples.
func (r *run) train(ctx context.Context, number int, out *Round, checkpoint string) (samples int, err error) {
	opt := train.Options{Checkpoint: checkpoint, Resume: true, Shorten: r.shorten(number)}
	if number > 0 {
		if opt.Initial, err = r.c.Model(r.mapFile(out.From)); err != nil {
			return 0, err
		}
	}
	result, err := r.trainRounds(ctx, number, out.Epochs, opt, "train", nil)
	if err != nil {
		return 0, err
	}
	out.Epochs = len(result.History)
	return result.Rows, result.Model.WriteFile(r.mapFile(number))
}

// trainRounds trains for the given epochs on the data of the rounds up to this one, which it reads first. onStep, if set,
// is called after each step.
func (r *run) trainRounds(ctx context.Context, number, epochs int, opt train.Options, stage string, onStep func(train.Progress)) (*train.Result, error) {
	r.opt.Progress(Progress{Stage: stage})
	var dirs []string
	for i := range number + 1 {
		for _, folder := range [2]string{r.ownData(i), r.nearData(i)} {
			for k := 0; ; k++ {
				if _, err := os.Stat(part(folder, k)); errors.Is(err, fs.ErrNotExist) {
					break
				} else if err != nil {
					return nil, err
				}
				dirs = append(dirs, part(folder, k))
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
	return r.c.Train(ctx, e, dirs, opt, func(p train.Progress) {
		if r.opt.Progress(Progress{Stage: stage, Done: p.Step, Total: p.Steps}); onStep != nil {
			onStep(p)
		}
	})
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
	file := r.mapFile(number)
	direct, err := r.drive(ctx, loops{name: file, gpcCase: r.c, model: m, method: "direct", purpose: heldOut, episodes: r.opt.Starts, deadline: r.choiceEnd()})
	if err != nil {
		return err
	}
	out.HeldOut = direct.Score
	if starts := r.confirmationStarts(number); out.HeldOut.meets(&r.opt) && float64(starts)*r.journal.Pace.Reference < r.secondsLeft() { // else only the test confirms
		confirmation, err := r.drive(ctx, loops{name: file, gpcCase: r.c, model: m, method: "direct", purpose: confirmed, round: number, episodes: starts, deadline: r.roundsEnd()})
		if err != nil {
			return err
		}
		if confirmation.Score.Episodes == starts {
			out.Confirmed = &confirmation.Score
		}
	}
	if r.plant == nil || r.secondsLeft() <= 0 {
		return nil
	}
	// The map alone: a violated limit asks no solver either.
	bareCase := *r.c.Definition()
	bareCase.Guard, bareCase.Rescue = domain.Guard{Off: true}, nil
	bare, err := gpc.NewCase(bareCase)
	if err != nil {
		return err
	}
	if err := r.driveOwnStarts(ctx, bare, number, m, out); err != nil {
		return err
	}
	return r.probe(ctx, bare, number, m, out)
}

// driveOwnStarts drives a map without a guard from starts of its own data.
func (r *run) driveOwnStarts(ctx context.Context, bare *gpc.Case, number int, m *model.Model, out *Round) error {
	var points [][]float64
	for i := range number + 1 {
		round := out
		if i < number {
			round = &r.journal.Rounds[i]
		}
		if round.Wanted > 0 {
			spread, focused, err := r.points(i, round)
			if err != nil {
				return err
			}
			points = append(append(points, spread[:round.Scenarios-round.Focused]...), focused[:round.Focused]...)
		}
	}
	rand.New(rand.NewPCG(r.seed(solved, number), 1)).Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	points = points[:min(len(points), r.opt.Starts)]
	plant := *r.plant
	plant.Starts = points
	def := *bare.Definition()
	def.Plant = &plant
	c, err := gpc.NewCase(def)
	if err != nil {
		return err
	}
	result, err := r.drive(ctx, loops{name: r.mapFile(number), gpcCase: c, model: m, method: "direct", purpose: solved, round: number, episodes: len(points), deadline: r.roundsEnd()})
	out.Training = result.Score
	return err
}

// probe drives a map without a guard from new starts, and records the worst to solve around.
func (r *run) probe(ctx context.Context, bare *gpc.Case, number int, m *model.Model, out *Round) error {
	probe, err := r.drive(ctx, loops{name: r.mapFile(number), gpcCase: bare, model: m, method: "direct", purpose: probed, round: number, episodes: r.opt.Starts, deadline: r.roundsEnd()})
	if err != nil {
		return err
	}
	out.Probed = probe.Score
	probes, regret := make([][]float64, len(probe.Starts)), make([]float64, len(probe.Starts))
	for i, s := range probe.Starts {
		probes[i] = r.plant.Start(r.seed(probed, number), i)
		switch {
		case !math.IsNaN(float64(s.Regret)):
			regret[i] = float64(s.Regret)
		case s.Unsafe: // without a safe way there is nothing to learn
			regret[i] = math.Inf(1)
		}
	}
	out.Worst = worstStarts(probes, regret)
	return nil
}

// worstStarts are the starts where a probe did worst, a tenth of all: those that were unsafe, then the most
// expensive.
func worstStarts(points [][]float64, regret []float64) [][]float64 {
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

// affordableEpochs is the number of the requested epochs on a round's data that fits into the remaining time; added
// is the number of new samples.
func (r *run) affordableEpochs(ctx context.Context, number, requested, added int) (epochs int, err error) {
	var epoch, overhead float64
	if number > 0 {
		epoch = float64(r.journal.Rounds[number-1].Samples+added) * r.perSample()
	} else if epoch, overhead, err = r.timeEpoch(ctx); err != nil {
		return 0, err
	}
	if room := (usableShare*r.trainingSeconds(number) - overhead) / epoch; epoch > 0 {
		requested = int(max(1, min(float64(requested), room)))
	}
	return requested, nil
}

// trainingSeconds is the time for a round's training before its closed loops, s: trainShare of the budget at least. The
// references of the first round's loops have half of what is left at most.
func (r *run) trainingSeconds(number int) float64 {
	loops := min(r.sets()*float64(r.opt.Starts)*r.journal.Pace.Reference, r.secondsLeft()/2)
	if number > 0 {
		loops = r.journal.Rounds[number-1].Seconds.Evaluate
	}
	return max(r.secondsLeft()-loops, trainShare*r.opt.Budget.Seconds())
}

// shorten is the number of a training's epochs for which there is time. They take longer than planned where other work
// has begun on the machine since.
func (r *run) shorten(number int) func(epochs int) int {
	start, first, limit := time.Time{}, 0, 0.0
	return func(epochs int) int {
		if start.IsZero() {
			start, first, limit = r.clock(), epochs, r.trainingSeconds(number)
			return math.MaxInt
		}
		perEpoch := r.since(start) / float64(epochs-first)
		return epochs + int(max(0, (limit-r.since(start))/max(perEpoch, 1e-9)))
	}
}

// timeEpoch trains for one epoch on the first round's data, or a part of it in timedEpochShare of the budget. It returns
// the time of an epoch, and the overhead of reading data and calibrating.
func (r *run) timeEpoch(ctx context.Context) (epoch, overhead float64, err error) {
	start := r.clock()
	var first, last time.Time
	var updates, steps int
	inTime, cut := context.WithCancel(ctx)
	defer cut()
	if _, err := r.trainRounds(inTime, 0, 1, train.Options{}, "time training", func(p train.Progress) {
		if last = r.clock(); first.IsZero() {
			first = last
		} else {
			updates++
		}
		if steps = p.Steps; last.Sub(first).Seconds() > timedEpochShare*r.opt.Budget.Seconds() {
			cut()
		}
	}); err != nil && !cutShort(ctx, inTime, err) {
		return 0, 0, err
	}
	timed := last.Sub(first).Seconds()
	return timed * float64(steps) / float64(max(1, updates)), r.since(start) - timed, nil
}
