package dataset

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

func system(t testing.TB, moving bool) *world.System {
	t.Helper()
	y, err := world.NewSystem("test", world.Default(moving), moving)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// driven is the solver's work on a scenario, its optimum under (1/3, 1/3, 1/3) found.
func driven(t testing.TB, r *Solver, at []float64) *work {
	t.Helper()
	x, err := r.take()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.drive(x, at); err != nil {
		t.Fatal(err)
	}
	return x
}

// solved solves a scenario that has somewhere to go.
func solved(t testing.TB, r *Solver, prefs []domain.Preference) [][]domain.Sample {
	t.Helper()
	seeds := make([]uint64, len(prefs))
	for k := range seeds {
		seeds[k] = uint64(k)
	}
	samples, errs := r.SolveAll(0, []float64{0.3, 0.2, 0.1, 0.1, 0.1}, prefs, domain.WeightedSum, seeds)
	for k, err := range errs {
		if err != nil {
			t.Fatalf("preference %+v: %v", prefs[k], err)
		}
	}
	return samples
}

// Every sample's plan keeps box, slew bound and, in the float64 roll-out among the
// others' final plans, every margin for all L steps; and no projected gradient step
// gains more than the residual it states.
func TestSamplesAreCertified(t *testing.T) {
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		v := view.New(y)
		r := NewSolver(v)
		for _, rows := range solved(t, r, []domain.Preference{{W: world.Thirds}, {Adaptive: true}}) {
			if len(rows) == 0 {
				t.Fatal("no samples")
			}
			base := make([]float64, v.Spec().PlanSize())
			for n, row := range rows {
				before := row.C[:2] // a_prev, omega_prev
				for k := 0; k < len(row.U); k += 2 {
					if over := y.Params.Limits.Excess(row.U[k:k+2], before); over > 1e-12 {
						t.Errorf("row %d, step %d: %v after %v, %g outside its limits", n, k/2, row.U[k:k+2], before, over)
					}
					before = row.U[k : k+2]
				}
				if !(row.Margins[0] >= r.options.Hard) || !(row.KKT <= stationary) {
					t.Errorf("row %d: margin %v and residual %v, want at least %v and at most %v", n, row.Margins[0], row.KKT, r.options.Hard, stationary)
				}
				v.Base(row.S, row.C, base)
				for k := range base {
					if d := math.Abs(base[k] + row.Target[k] - row.U[k]); !(d < 1e-12) {
						t.Fatalf("row %d: base and target differ from the plan by %v", n, d)
					}
				}
			}
		}
	}
}

// A plan that drives into a body has no certificate.
func TestCertificateRefusesACollision(t *testing.T) {
	y := system(t, false)
	r := NewSolver(view.New(y))
	x := driven(t, r, []float64{0.3, 0.2, 0, 0, 0})
	h := x.joint.Scene
	rows := make([]domain.Sample, h.Robots)
	pref := domain.Preference{W: world.Thirds}
	weights := r.weights(&x.joint, pref)
	if err := r.certify(x, pref, &weights, rows); err != nil {
		t.Fatalf("the optimum is refused: %v", err)
	}
	at := x.joint.Robots[0].Path[20]
	h.Obstacles = append(slices.Clone(h.Obstacles), world.Obstacle{C: [2]float64{float64(at[0]), float64(at[1])}, R: 0.4})
	if err := r.certify(x, pref, &weights, rows); !errors.Is(err, domain.ErrInfeasible) {
		t.Errorf("a plan through an obstacle gives %v, want %v", err, domain.ErrInfeasible)
	}
}

// A plan that is not optimal has a residual.
func TestResidualSeesWhatIsLeft(t *testing.T) {
	y := system(t, true)
	r := NewSolver(view.New(y))
	x := driven(t, r, []float64{0.3, 0.1, 0, 0, 0})
	at := r.residual(x, 0, world.Thirds)
	limits := y.Params.Limits
	before := x.joint.Scene.Previous[0]
	plan := x.joint.Robots[0].Plan
	for k := range plan {
		u := []float64{float64(plan[k][0]) - 0.1, float64(plan[k][1]) + 0.01}
		limits.Nearest(u, before[:])
		before = [2]float64{u[0], u[1]}
		plan[k] = [2]float32{float32(u[0]), float32(u[1])}
	}
	x.joint.Commit(0, &plan)
	if off := r.residual(x, 0, world.Thirds); !(at <= stationary) || !(off > 2*at) {
		t.Errorf("residual %v at the optimum, %v beside it", at, off)
	}
}

// What a robot's plan costs in float64 is what the batched roll-out says.
func TestAssessAgreesWithTheRollout(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		v := view.New(y)
		r := NewSolver(v)
		x := driven(t, r, []float64{rng.Float64(), 0.5 * rng.Float64(), 0, 0, 0})
		for i := range x.joint.Scene.Robots {
			plan := &x.joint.Robots[i].Plan
			r.begin(x, i, world.Thirds)
			x.search.Problem.Ending.Scale = 0
			x.search.Problem.Penalty.Hard = rollout.Repeat(float32(r.options.Hard))
			cost, safe := worth(x.search, plan)
			actions := make([]float64, v.Spec().PlanSize())
			for k, u := range plan {
				actions[2*k], actions[2*k+1] = float64(u[0]), float64(u[1])
			}
			var look view.Outlook
			x.joint.Outlook(i, &look)
			a := v.Assess(&look, i, actions, r.options.Hard)
			want := (a.J[0] + a.J[1] + a.J[2]) / 3
			if d := math.Abs(want - cost); !(d <= 2e-3*(1+want)) {
				t.Errorf("moving %v, robot %d: %v in the roll-out, %v in float64", moving, i, cost, want)
			}
			if safe != a.Safe {
				t.Errorf("moving %v, robot %d: safe for %d steps in the roll-out, %d in float64", moving, i, safe, a.Safe)
			}
		}
	}
}

// Shards of a dataset, on other numbers of threads, hold what the whole holds.
func TestDatasetDoesNotDependOnShards(t *testing.T) {
	if testing.Short() {
		t.Skip("solves eight scenarios")
	}
	opt := dataset.Options{Scenarios: 4, Weights: dataset.Weights{Count: 1, Design: dataset.CentredWeights}, Chunk: 2, Seed: 3, Threads: 1}
	y := system(t, true)
	v := view.New(y)
	moving := domain.Case{Problem: y, Learned: v, Solver: NewSolver(v)}
	whole := opt
	whole.OutDir = t.TempDir()
	if _, err := dataset.Generate(t.Context(), moving, whole, nil); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for k := range 2 {
		part := opt
		part.OutDir, part.Shard, part.Threads = t.TempDir(), dataset.Shard{Index: k, Count: 2}, 2
		dirs = append(dirs, part.OutDir)
		if _, err := dataset.Generate(t.Context(), moving, part, nil); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := dataset.Merge(t.Context(), t.TempDir(), dirs...)
	if err != nil {
		t.Fatal(err)
	}
	want, err := dataset.Open(whole.OutDir)
	if err != nil {
		t.Fatal(err)
	}
	if want.Rows() == 0 || merged.Hash() != want.Hash() {
		t.Errorf("the shards hold %d rows with hash %s, the whole %d with %s", merged.Rows(), merged.Hash(), want.Rows(), want.Hash())
	}
	var shards []*dataset.Dataset
	for _, dir := range dirs {
		d, err := dataset.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		shards = append(shards, d)
	}
	together, _, hash, err := dataset.Load(shards...)
	if err != nil {
		t.Fatal(err)
	}
	if together.Rows() != want.Rows() || hash != want.Hash() {
		t.Errorf("loaded together the shards hold %d rows with hash %s, the whole %d with %s", together.Rows(), hash, want.Rows(), want.Hash())
	}
	if _, _, _, err := dataset.Load(shards[0], shards[0]); err == nil {
		t.Error("one shard given twice was accepted")
	}
}

func BenchmarkSolve(b *testing.B) {
	prefs := []domain.Preference{{Adaptive: true}, {W: world.Thirds}, {W: []float64{0.5, 0.5, 0}}, {W: []float64{0.2, 0.1, 0.7}}}
	for _, moving := range []bool{false, true} {
		y := system(b, moving)
		r := NewSolver(view.New(y))
		b.Run(y.Spec().Name, func(b *testing.B) {
			n, solved := 0, 0
			for b.Loop() {
				n++
				samples, errs := r.SolveAll(0, []float64{float64(n%64) / 64, float64(n%7) / 7, 0.1, 0.1, 0.1}, prefs, domain.WeightedSum, []uint64{1, 2, 3, 4})
				for k := range samples {
					if errs[k] == nil {
						solved += 2
					}
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(8*n), "ms/joint")
			b.ReportMetric(float64(solved)/float64(8*n), "kept")
		})
	}
}
