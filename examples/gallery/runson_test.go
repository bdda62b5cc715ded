package gallery

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/systemfile"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Plants that run on keep the contract, as files too: they have no clock, and always the same horizon.
func TestRunningOnContract(t *testing.T) {
	for _, y := range RunningOn() {
		t.Run(y.Name, func(t *testing.T) {
			c := require.Get(y.Case())(t)
			spec := c.Problem.Spec()
			if spec.Clock != 0 || spec.ContextSize() != len(y.Context) {
				t.Errorf("a clock %d, context %v", spec.Clock, spec.Context)
			}
			ctx := make([]float64, spec.ContextSize())
			if got := domain.AbilitiesOfProblem(c.Problem).Remaining(ctx); got != y.Horizon {
				t.Errorf("%d decisions remain, want always %d", got, y.Horizon)
			}
			c.Solver = nil
			domaintest.Run(t, c)
			p := require.Get(equations.New(y))(t)
			text := require.Get(require.Get(systemfile.Of(p))(t).Marshal())(t)
			if !bytes.Contains(text, []byte(`"horizon":`)) {
				t.Errorf("the file does not say that it runs on: %.400s", text)
			}
			file := require.Get(systemfile.Unmarshal(text))(t)
			again := require.Get(file.Case())(t)
			if got, want := domain.FingerprintOf(again.Problem), p.Fingerprint(); got != want {
				t.Error("the file is another problem")
			}
			// How long a test drives is not the problem's, whether it runs on is.
			for _, other := range []struct {
				change func(y *equations.System)
				same   bool
			}{{func(y *equations.System) { y.Steps *= 3 }, true}, {func(y *equations.System) { y.Horizon++ }, false}} {
				changed := y
				other.change(&changed)
				if same := require.Get(equations.New(changed))(t).Fingerprint() == p.Fingerprint(); same != other.same {
					t.Errorf("a system of %d steps and a horizon of %d is the same: %t, want %t", changed.Steps, changed.Horizon, same, other.same)
				}
			}
			if testing.Short() {
				return
			}
			y.Horizon, y.Steps, y.Solver.Perturbed = 3, 3, 1
			domaintest.Run(t, require.Get(y.Case())(t))
		})
	}
}

// evaluated is a method's evaluation on a case without a map.
func evaluated(t *testing.T, c domain.Case, name string, episodes int) *closedloop.Result {
	t.Helper()
	m, ok := closedloop.Row(&c, name)
	if !ok {
		t.Fatalf("no method %s", name)
	}
	return require.Get(closedloop.Evaluate(context.Background(), &c, func() (domain.Controller, error) { return m.New(domain.Means{}) },
		closedloop.Options{Method: name, Episodes: episodes, Seed: 7, Preference: domain.Preference{Adaptive: true}}))(t)
}

// The loop that looks one horizon ahead costs over ten of them what the optimum of all ten does, to a hundredth, and keeps
// every limit; that optimum counts what comes behind it, too.
func TestRunningOnCostsWhatTheLongReferenceDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("ten long optima")
	}
	for _, y := range RunningOn() {
		got := evaluated(t, require.Get(y.Case())(t), "nmpc", 6)
		if r := float64(got.RegretPct); got.Safe != 1 || got.RegretN < 5 || !(r > -0.1 && r < 1) {
			t.Errorf("%s: %v safe, %v %% above the optimum of %d steps, of %d of 6 episodes", y.Name, got.Safe, r, y.Steps, got.RegretN)
		}
	}
}

// A plant that runs on is driven for ten thousand decisions: it stays where it rests.
func TestTenThousandDecisions(t *testing.T) {
	y := RunningOn()[0]
	y.Steps = 10_000
	c := require.Get(y.Case())(t)
	m, _ := closedloop.Row(&c, "nmpc")
	method := require.Get(m.New(domain.Means{}))(t)
	ep := require.Get(c.Plant.Episode(7, 0, adaptive))(t)
	require.OK(t, method.Reset(ep))
	spec := c.Problem.Spec()
	s, ctx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	n, unsafe := 0, 0
	for ; !ep.Done(); n++ {
		ep.Observe(s, ctx)
		if d, err := method.Decide(s, ctx, adaptive.Preference, u); err != nil || !d.Solved() {
			t.Fatalf("decision %d is not solved: %v", n, err)
		}
		if out := require.Get(ep.Apply(u))(t); out.Failed || !spec.Keeps(out.Margin) {
			unsafe++
		}
	}
	ep.State(s)
	if n != 10_000 || unsafe > 0 || math.Abs(s[0]-ctx[0]) > 1e-3 || math.Abs(s[2]) > 1e-3 {
		t.Errorf("%d decisions, %d unsafe; the cart ends at %v, its reference is %v", n, unsafe, s, ctx)
	}
}

// A plan may end where the regulator goes on for another horizon: at rest and beside it, and not where the pole falls or the
// cart is too fast, however well the plan has kept its limits to there.
func TestWhereAPlanMayEnd(t *testing.T) {
	c := require.Get(RunningOn()[0].Case())(t)
	p := c.Problem.(*equations.Problem)
	for _, test := range []struct {
		s    []float64
		ends bool
	}{{[]float64{0.5, 0, 0, 0}, true}, {[]float64{0.2, 0.3, -0.05, 0.1}, true}, {[]float64{0.5, 0, 1.2, 2}, false}, {[]float64{0.5, 1.9, 0.4, 0.5}, false}} {
		if got := p.TerminalMargin(test.s, []float64{0.5}); (got >= 0) != test.ends {
			t.Errorf("a plan that ends at %v: a margin of %v, may it end there: want %t", test.s, got, test.ends)
		}
	}
	ends := require.Get(Systems()[0].Case())(t).Problem.(*equations.Problem)
	if got := ends.TerminalMargin([]float64{0.5, 0, 1.2, 2}, []float64{0.5, 0.9}); !math.IsInf(got, 1) {
		t.Errorf("behind the end of an episode is nothing: its margin is %v", got)
	}
}

// RunningOn are plants of these that do not end: the cart stays on its rail, and the reactor goes on producing. Their plans look
// a second and twelve minutes ahead, and a test drives ten times as long.
func RunningOn() []equations.System { return made(onward) }

// Foreseeing are plants of these that know what comes: their context has knots of it (dual.Along).
func Foreseeing() []equations.System { return made(knowing) }
