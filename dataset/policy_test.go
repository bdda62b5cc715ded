package dataset

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// followed is a solver that also samples where a policy leads: one row, at what
// the policy decides.
type followed struct{ *toySolver }

func (s followed) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{SolveVisited: s.SolveVisited}
}

func (s followed) SolveVisited(scenario int, p []float64, pref domain.Preference, policy domain.Lender) (samples []domain.Sample, err error) {
	err = policy(func(c domain.Controller) error {
		samples, err = s.solveVisited(scenario, p, pref, c)
		return err
	})
	return samples, err
}

func (s followed) solveVisited(scenario int, p []float64, pref domain.Preference, policy domain.Controller) ([]domain.Sample, error) {
	samples, err := s.Solve(scenario, p, pref, domain.WeightedSum, 0)
	if err != nil {
		return nil, err
	}
	row := samples[0]
	row.Perturbed, row.Trajectory = true, 1<<40
	u := make([]float64, len(row.U))
	if _, err := policy.Decide(row.S, row.C, pref, u); err != nil {
		return nil, err
	}
	row.U = u
	return []domain.Sample{row}, nil
}

type constant float64

func (constant) Reset(domain.Episode) error { return nil }
func (v constant) Decide(_, _ []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	for i := range u {
		u[i] = float64(v)
	}
	return domain.Decided(true), nil
}

// Visited states add their samples, whatever the number of threads, and the
// policy's name is part of what a dataset is.
func TestSamplesWhereAPolicyLeads(t *testing.T) {
	plain, _ := generate(t, options(t.TempDir()))
	var hashes [2]string
	for i, threads := range []int{1, 3} {
		opt := options(t.TempDir())
		opt.Threads, opt.Visiting.Method = threads, "constant"
		opt.Policy = func() (domain.Controller, error) { return constant(0.25), nil }
		c := domain.Case{Problem: toy{}, Solver: followed{&toySolver{}}}
		got, err := Generate(context.Background(), c, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if solved := got.Solves - got.Infeasible - got.NotConverged; got.Samples != plain.Samples+solved {
			t.Errorf("%d samples, want %d and one for each of %d solves", got.Samples, plain.Samples, solved)
		}
		d, _ := load(t, opt.OutDir)
		hashes[i] = fmt.Sprint(d.Hash())
		opt.Visiting.Method = "another"
		if _, err := Generate(context.Background(), c, opt, nil); err == nil || !strings.Contains(err.Error(), "policy is another of") {
			t.Errorf("continuing with another policy: %v", err)
		}
	}
	if hashes[0] != hashes[1] {
		t.Error("the data depend on the threads")
	}
}

// drivable is the toy with dynamics x ← x + a between walls at ±1.
type drivable struct{ toy }

func (drivable) Base(s, _, plan []float64) { plan[0], plan[1] = s[0]/4, 0 }
func (drivable) Objectives(s, u, _, J []float64) {
	J[0], J[1] = s[0]*s[0], u[0]*u[0]
}
func (drivable) Margins(s, _, u, m []float64) { m[0] = 1 - math.Abs(s[0]+u[0]) }

// drive is its plant: three steps from x₀ of the seed and the index.
type drive struct{ domain.Plant }

func (drive) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	if opt.Regime != "" && opt.Regime != "ice" {
		return nil, fmt.Errorf("no regime %q", opt.Regime)
	}
	return &ride{x: rand.New(rand.NewPCG(seed, uint64(index))).Float64()}, nil
}

type ride struct {
	domain.Episode
	x float64
	t int
}

func (r *ride) Observe(s, c []float64) { s[0], s[1], c[0] = r.x, 0, float64(r.t) }
func (r *ride) Done() bool             { return r.t == 3 }
func (r *ride) Apply(u []float64) (domain.Outcome, error) {
	r.x, r.t = r.x+u[0], r.t+1
	return domain.Outcome{}, nil
}

// half decodes −x and executes half of it; its second decision is not its own where
// slips is set.
type half struct {
	slips bool
	t     int
}

func (h *half) Reset(domain.Episode) error { h.t = 0; return nil }
func (h *half) Decide(s, _ []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	d := domain.Decided(true)
	d.Decoded, u[0] = []float32{float32(-s[0]), 7}, -s[0]/2
	if h.t++; h.slips && h.t == 2 {
		d.Fallback = domain.FallbackConservative
	}
	return d, nil
}

// A distilled policy's samples are its own decisions: what it decoded is the target,
// what it executed the action, and a decision that was not its own ends a trajectory.
func TestPolicyIsDistilled(t *testing.T) {
	spec := drivable{}.Spec()
	c := domain.Case{Problem: drivable{}, Plant: drive{}}
	distil := func(threads int, slips bool) Options {
		opt := Options{Scenarios: 7, Weights: Weights{Count: 2}, Seed: 3, OutDir: t.TempDir(), Chunk: 3, Threads: threads, Visiting: Policy{Method: "half"}, Distil: true}
		opt.Policy = func() (domain.Controller, error) { return &half{slips: slips}, nil }
		return opt
	}
	var hashes []string
	for _, threads := range []int{1, 3} {
		opt := distil(threads, false)
		counters, err := Generate(context.Background(), c, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if counters.Samples != 7*2*int64(spec.Steps) || counters.Retained != 7 {
			t.Errorf("counters %+v, want 3 samples of 2 preferences in each of 7 episodes", counters)
		}
		d, all := load(t, opt.OutDir)
		hashes = append(hashes, d.Hash())
		for i := range all.Rows() {
			x := all.S.Row(i)[0]
			if u, target := all.U.Row(i), all.Target.Row(i); u[0] != -x/2 || u[1] != 7 || math.Abs(float64(target[0]+x+x/4)) > 1e-6 || target[1] != 7 {
				t.Fatalf("row %d at x = %v: plan %v with target %v", i, x, u, target)
			}
			if math.Abs(float64(all.J.Row(i)[0]-x*x)) > 1e-6 || all.Sigma.Row(i)[0] != all.Preference.Row(i)[1] || math.Abs(float64(all.Margins.Row(i)[0]-1+x/2)) > 1e-6 {
				t.Fatalf("row %d at x = %v: J %v, σ %v, margin %v", i, x, all.J.Row(i), all.Sigma.Row(i), all.Margins.Row(i))
			}
			if step := all.Step[i]; step > 0 && (x != all.S.Row(i - 1)[0]/2 || all.Trajectory[i] != all.Trajectory[i-1]) {
				t.Fatalf("row %d does not follow row %d", i, i-1)
			}
		}
		opt.Regime = "ice"
		if _, err := Generate(context.Background(), c, opt, nil); err == nil || !strings.Contains(err.Error(), "regime is") {
			t.Errorf("continuing in another regime: %v", err)
		}
	}
	if hashes[0] != hashes[1] {
		t.Error("the data depend on the threads")
	}

	opt := distil(2, true)
	if _, err := Generate(context.Background(), c, opt, nil); err != nil {
		t.Fatal(err)
	}
	_, all := load(t, opt.OutDir)
	for i := range all.Rows() {
		if all.Step[i] == 1 || all.Step[i] == 2 && all.Trajectory[i] == all.Trajectory[i-1] {
			t.Fatalf("row %d is step %d of trajectory %d", i, all.Step[i], all.Trajectory[i])
		}
	}

	for name, bad := range map[string]struct {
		change func(*Options, *domain.Case)
		want   string
	}{
		"no plant":        {func(_ *Options, c *domain.Case) { c.Plant = nil }, "no plant"},
		"no policy":       {func(o *Options, _ *domain.Case) { o.Policy, o.Visiting = nil, Policy{} }, "needs a policy"},
		"scalarization":   {func(o *Options, _ *domain.Case) { o.Scalarization = domain.Chebyshev }, "weighted sums"},
		"another problem": {func(_ *Options, c *domain.Case) { c.Learned = toy{} }, "so that its policy cannot be distilled"},
		"no plans": {func(o *Options, _ *domain.Case) {
			o.Policy = func() (domain.Controller, error) { return constant(0), nil }
		}, "decodes no plans"},
		"regime": {func(o *Options, _ *domain.Case) { o.Distil, o.Regime = false, "ice" }, "needs a policy to distil"},
	} {
		opt, other := distil(1, false), c
		if name == "regime" {
			other.Solver = &toySolver{}
		}
		bad.change(&opt, &other)
		if _, err := Generate(context.Background(), other, opt, nil); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v, want %q", name, err, bad.want)
		}
	}
}
