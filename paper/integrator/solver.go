package integrator

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
)

// Constants of the dataset.
const (
	perturbedTails  = 4   // per trajectory
	perturbAttempts = 8   // draws until a perturbed state has a certified optimum
	perturbScale    = 0.1 // largest standard deviation, m, m/s and m/s²; drawn uniformly below it
	tailNeighbours  = 4   // library plans whose tails a perturbed state starts from

	// Constants of the lifted target, see lift.
	liftGain  = 0.02 // c, m/s² per unit of multiplier force
	LiftReach = 0.12 // L, m/s²: the target is never farther out than this
)

// Solver makes the Pareto samples of Case 1: every tail of a scenario's optimal
// trajectory, and tails from perturbed states along it. It is safe for
// concurrent use once Prepare has returned.
type Solver struct {
	system    *System
	size      int
	clearance float64     // ψ that its optima keep
	inward    *System     // of Inward: the case's own, whose margins a sample states; nil: system is it
	lib       [2]*Library // adaptive, fixed
	seed      uint64      // of lib
}

// NewSolver returns a solver whose libraries will hold size scenarios each.
func NewSolver(y *System, size int) *Solver {
	return &Solver{system: y, size: size, clearance: DatasetClearance}
}

// Abilities implements domain.Able.
func (v *Solver) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{SolveVisited: v.SolveVisited, Inward: v.Inward, Optimal: v.Optimal}
}

// Inward is domain.SolverAbilities.Inward: the same problem with u_max and r_max less the slack and
// ψ ≥ 1 + slack, in each margin's own unit.
func (v *Solver) Inward(slack float64) (domain.Solver, error) {
	y := cmp.Or(v.inward, v.system)
	p := y.Params
	p.UMax, p.RMax = p.UMax-slack, p.RMax-slack
	if !(slack > 0 && p.UMax > 0 && p.RMax > 0) {
		return nil, fmt.Errorf("a slack of %v in every margin, want it above 0 and below the bounds %v and %v", slack, y.Params.UMax, y.Params.RMax)
	}
	tight, err := NewSystem(y.spec.Name, p)
	if err != nil {
		return nil, err
	}
	return &Solver{system: tight, size: v.size, clearance: 1 + slack, inward: y}, nil
}

// appendTrajectory is System's for what is solved here. Inward, the target is the optimum itself
// and the margins are the case's.
func (v *Solver) appendTrajectory(samples []domain.Sample, first domain.Sample, h *horizonProblem, rate float64, sol *solution) []domain.Sample {
	start := len(samples)
	samples = v.system.appendTrajectory(samples, first, h, rate, sol)
	if v.inward == nil {
		return samples
	}
	for i := range samples[start:] {
		row := &samples[start+i]
		row.Target[0], row.Target[1] = row.U[0]-row.C[contextPrevious], row.U[1]-row.C[contextPrevious+1]
		v.inward.Margins(row.S, row.C, row.U, row.Margins)
	}
	return samples
}

// Parameters are the axes of a scenario: initial position and velocity,
// operating parameter and its rate, the test box widened by 15 %. u₋₁ is 0.
func (v *Solver) Parameters() []domain.Variable { return trainingRange() }

// Prepare builds the two libraries, for the adaptive priority and for fixed
// weights, unless they are those of this seed already.
func (v *Solver) Prepare(ctx context.Context, seed uint64, progress func(done, total int)) error {
	if v.lib[0] != nil && v.lib[1] != nil && v.seed == seed {
		return nil
	}
	v.lib, v.seed = [2]*Library{}, seed
	for kind := range v.lib {
		var report func(done, total int)
		if progress != nil {
			report = func(done, total int) { progress(kind*total+done, len(v.lib)*total) }
		}
		l, err := buildLibrary(ctx, v.system, kind == 1, v.clearance, v.size, seed, report)
		if err != nil {
			return err
		}
		v.lib[kind] = l
	}
	return nil
}

// Solve returns the samples of scenario p under pref: the 20 tails of its
// optimal trajectory, and up to four tails re-solved from states perturbed on
// it (Perturbed, each a Trajectory of its own with consecutive steps, so they
// have successors in the data). The tail of an optimum is optimal for what
// remains, since the cost is a sum over steps; only perturbed states are solved
// again.
//
// Chebyshev and ε-constraint solves need a fixed preference, and their samples
// carry the weights of the equivalent weighted sum as Preference (see
// scalarized): one priority slot then means one thing in the whole dataset.
//
// It returns domain.ErrInfeasible where no start reached CertifiedKKT.
func (v *Solver) Solve(scenario int, p []float64, pref domain.Preference, scalarization domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	if len(p) != scenarioSize {
		return nil, fmt.Errorf("scenario %d has %d parameters, want %d", scenario, len(p), scenarioSize)
	}
	if err := pref.Validate(2); err != nil {
		return nil, err
	}
	if pref.Adaptive && scalarization != domain.WeightedSum {
		return nil, fmt.Errorf("the adaptive priority is a weighted sum along the horizon; %q needs a fixed preference", scalarization)
	}
	l, h := v.problem(p, pref)
	if l == nil {
		return nil, errors.New("Solve before Prepare")
	}
	w := v.system.interiors.Get().(*interior)
	defer v.system.interiors.Put(w)
	var sol solution
	weights, err := l.scalarized(w, h, scalarization, &sol)
	if err != nil {
		return nil, err
	}
	h.weights = weights
	if !pref.Adaptive {
		pref = domain.Preference{W: []float64{weights[0], weights[1]}}
	}

	id := trajectoryBase(scenario, pref, scalarization)
	samples := make([]domain.Sample, 0, Horizon*(1+perturbedTails))
	first := domain.Sample{Scenario: scenario, Trajectory: id, Preference: pref}
	samples = v.appendTrajectory(samples, first, &h, p[5], &sol)
	var neighbours [tailNeighbours]int
	l.nearest(&h, neighbours[:])
	rng := rand.New(rand.NewPCG(seed, uint64(id)))
	for k := range perturbedTails {
		first.Trajectory, first.Perturbed = id+1+int64(k), true
		var rest horizonProblem
		var optimum solution
		for range perturbAttempts {
			rest = v.perturb(rng, &h, &sol)
			if v.resolve(w, l, neighbours[:], &rest, &sol, &optimum) {
				samples = v.appendTrajectory(samples, first, &rest, p[5], &optimum)
				break
			}
		}
	}
	return samples, nil
}

// problem is a scenario's horizon problem, and the library that its starts come from,
// nil before Prepare.
func (v *Solver) problem(p []float64, pref domain.Preference) (*Library, horizonProblem) {
	scene := v.system.scene(p)
	var h horizonProblem
	v.system.sceneProblem(&h, &scene, pref)
	h.clearance = v.clearance
	return v.lib[libraryOf(pref.Adaptive)], h
}

// visitedRows of the optimum from a visited state are kept: the state's own and
// its successor, for the losses that look at both.
const visitedRows = 2

// SolveVisited is domain.SolverAbilities.SolveVisited. The optimum from each state is
// solved from the tail of the optimum at the state before it and from those of
// the nearest library plans.
func (v *Solver) SolveVisited(scenario int, p []float64, pref domain.Preference, policy domain.Lender) (samples []domain.Sample, err error) {
	err = policy(func(c domain.Controller) error {
		samples, err = v.solveVisited(scenario, p, pref, c)
		return err
	})
	return samples, err
}

func (v *Solver) solveVisited(scenario int, p []float64, pref domain.Preference, policy domain.Controller) ([]domain.Sample, error) {
	l, h := v.problem(p, pref)
	if l == nil {
		return nil, errors.New("SolveVisited before Prepare")
	}
	if err := policy.Reset(nil); err != nil {
		return nil, err
	}
	w := v.system.interiors.Get().(*interior)
	defer v.system.interiors.Put(w)
	y := v.system
	var neighbours [tailNeighbours]int
	l.nearest(&h, neighbours[:])
	var sol solution
	if _, err := l.scalarized(w, h, domain.WeightedSum, &sol); err != nil {
		return nil, err
	}
	id := trajectoryBase(scenario, pref, "visited") &^ 31
	var samples []domain.Sample
	c, u := make([]float64, contextSize), make([]float64, 2)
	last, lastStep := sol, 0 // the last certified optimum and the step it starts at
	for k := 1; k < Horizon; k++ {
		c[contextPrevious], c[contextPrevious+1] = h.previous[0], h.previous[1]
		c[contextP], c[contextRate], c[contextTime] = h.p[0], p[5], float64(k-1)/Horizon
		if _, err := policy.Decide(h.s[:], c, pref, u); err != nil {
			return nil, fmt.Errorf("policy at step %d: %w", k-1, err)
		}
		h = h.tail(y, u, 1)
		var shifted, optimum solution
		copy(shifted.plan[2*k:], last.plan[2*(k-lastStep):])
		if !v.resolve(w, l, neighbours[:], &h, &shifted, &optimum) {
			continue
		}
		last, lastStep = optimum, k
		first := domain.Sample{Scenario: scenario, Trajectory: id + int64(k), Preference: pref, Perturbed: true}
		rows := v.appendTrajectory(nil, first, &h, p[5], &optimum)
		samples = append(samples, rows[:min(visitedRows, len(rows))]...)
	}
	return samples, nil
}

// trajectoryBase names a solve; its low three bits are left for the perturbed
// tails.
func trajectoryBase(scenario int, pref domain.Preference, scalarization domain.Scalarization) int64 {
	hash := fnv.New64a()
	var word [8]byte
	hashWord := func(v uint64) {
		binary.LittleEndian.PutUint64(word[:], v)
		hash.Write(word[:])
	}
	hashWord(uint64(scenario))
	for _, w := range pref.W {
		hashWord(math.Float64bits(w))
	}
	hash.Write([]byte(scalarization))
	return int64(hash.Sum64()>>1) &^ 7
}

// perturb is what remains of a solved problem after a random number of steps,
// from a state and a previous action with Gaussian errors of a random size.
func (v *Solver) perturb(rng *rand.Rand, h *horizonProblem, sol *solution) horizonProblem {
	rest := h.tail(v.system, sol.plan[:], 1+rng.IntN(h.steps-1))
	scale := perturbScale * rng.Float64()
	for i := range rest.s {
		rest.s[i] += scale * rng.NormFloat64()
	}
	u1, u2 := rest.previous[0]+scale*rng.NormFloat64(), rest.previous[1]+scale*rng.NormFloat64()
	rest.previous[0], rest.previous[1] = toDisc(u1, u2, 0, 0, v.system.Params.UMax)
	return rest
}

// resolve solves a perturbed remainder from the tails of its own trajectory and
// of the library plans named by index.
func (v *Solver) resolve(w *interior, l *Library, index []int, rest *horizonProblem, trajectory *solution, out *solution) bool {
	k := Horizon - rest.steps
	out.cost = math.Inf(1)
	w.improve(rest, trajectory.plan[2*k:], out)
	for _, i := range index {
		if i >= 0 {
			w.improve(rest, l.entry[i].plan[2*k:], out)
		}
	}
	return !math.IsInf(out.cost, 1)
}

// appendTrajectory appends one sample per step of a solved problem; first holds
// what they share and rate is ṗ.
func (y *System) appendTrajectory(samples []domain.Sample, first domain.Sample, h *horizonProblem, rate float64, sol *solution) []domain.Sample {
	s := h.s
	previous := h.previous
	start := Horizon - h.steps
	for t := range h.steps {
		row := first
		row.Step = start + t
		row.S = []float64{s[0], s[1], s[2], s[3]}
		row.C = []float64{previous[0], previous[1], h.p[t], rate, float64(row.Step) / Horizon}
		row.U = []float64{sol.plan[2*t], sol.plan[2*t+1]}
		row.Target = y.lift(row.U, previous, sol.multiplier[3*t+1], sol.multiplier[3*t+2])
		row.Sigma, row.J, row.Margins = make([]float64, 2), make([]float64, 2), make([]float64, 3)
		y.priority(row.S, row.C, row.Preference, row.Sigma)
		y.Objectives(row.S, row.U, row.C, row.J)
		y.Margins(row.S, row.C, row.U, row.Margins)
		row.KKT = sol.kkt
		samples = append(samples, row)
		y.k64.next(motionOf(s[:]), row.U[0], row.U[1]).write(s[:])
		previous = [2]float64{row.U[0], row.U[1]}
	}
	return samples
}

// lift is the decoder's target for an optimal action u, relative to u₋₁. Where
// input or slew binds, it lies outside the bound along the constraint force
// ℓ = 2λ_input·u + 2λ_slew·(u − u₋₁), at u + cℓ/(1 + c|ℓ|/L). The projection
// takes it back to u exactly, and a decoder error that points inwards, which
// the projection would keep, needs to exceed the lift to do any harm.
func (y *System) lift(u []float64, previous [2]float64, input, slew float64) []float64 {
	d1, d2 := u[0]-previous[0], u[1]-previous[1]
	f1, f2 := 2*input*u[0]+2*slew*d1, 2*input*u[1]+2*slew*d2
	scale := liftGain / (1 + liftGain*math.Hypot(f1, f2)/LiftReach)
	return []float64{d1 + scale*f1, d2 + scale*f2}
}
