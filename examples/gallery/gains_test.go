package gallery

import (
	"context"
	"math"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/chain"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// settled are the decisions of an episode in which a reactor comes to rest, resting those that are then looked at.
const settled, resting = 100, 20

// measuredReactor is a reactor that runs on and whose states are measured with some noise.
func measuredReactor(t *testing.T) equations.System {
	t.Helper()
	y := runningOn(cstr.System(), 40)
	y.Steps = settled + resting
	y.Measurement = domain.Whole(require.Get(equations.New(y))(t).Spec(), 1e-3)
	return y
}

// restsAt is by how much the product is beside its reference at rest, in % of its range.
func restsAt(t *testing.T, c *gpc.Case) float64 {
	t.Helper()
	c.Definition().Plant.(*closedloop.Simulation).Oracle = nil // no optimum is asked for
	offset := 0.0
	opt := closedloop.Options{Episodes: 1, Seed: 3, Preference: domain.Preference{Adaptive: true}, Visit: func(e *closedloop.EpisodeRecord) {
		if e.End.Failure != "" {
			t.Fatal(e.End.Failure)
		}
		for _, l := range e.Lines[settled : settled+resting] {
			offset += (l.S[1] - l.C[0]) / resting
		}
	}}
	require.Get(c.Evaluate(context.Background(), gpc.Setup{Method: "nmpc"}, engine.Options{}, opt))(t)
	of := c.Spec().Measured[1]
	return 100 * math.Abs(offset) / (of.Hi - of.Lo)
}

// A reactor whose feed and cooling do 10 % more or less than the model says rests beside its reference. With the gains estimated
// beside the state it rests at the reference, and so it does where the solver knows them.
func TestEstimatedGainsLeaveNoOffset(t *testing.T) {
	if testing.Short() {
		t.Skip("drives a reactor for hours; the same of a heater is a test of the module's root")
	}
	y := measuredReactor(t)
	model := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
	uncertain := require.Get(y.UncertainGains(0.1))(t)
	worst, got := 0.0, 0.0
	for _, gain := range [][2]float64{{1.1, 0.9}, {0.9, 1.1}} {
		plant := require.Get(model.Shifted(map[string]float64{"feed": gain[0], "cooling": gain[1]}))(t)
		worst = math.Max(worst, restsAt(t, require.Get(model.On(plant))(t)))
		if known := restsAt(t, plant); known > 0.5 {
			t.Errorf("gains %v: where they are known the product rests %.3g %% of its range beside the reference", gain, known)
		}
		def := require.Get(uncertain.Case())(t)
		drawn := def.Plant.(*closedloop.Simulation)
		p := drawn.Start(3, 0)
		copy(p[len(p)-2:], gain[:])
		drawn.Starts = [][]float64{p}
		got = math.Max(got, restsAt(t, require.Get(gpc.NewCase(def))(t)))
	}
	t.Logf("offset at rest, %% of the range: %.3g by the model, %.3g with the gains estimated", worst, got)
	if got > 0.5 {
		t.Errorf("with the gains estimated the product rests %.3g %% of its range beside the reference, want 0.5 at most", got)
	}
	if worst < 2*got || worst < 0.5 {
		t.Errorf("by the model the product rests %.3g %% of its range beside the reference, so that nothing had to be estimated", worst)
	}
}

// A system whose actuators have gains, of a plant or of the context, keeps its program, and the solver its lanes: these write
// what the functions write.
func TestGainsKeepTheProgram(t *testing.T) {
	for _, y := range []equations.System{cartpole.Track(), quadrotor.System(), chain.System(1), runningOn(cstr.System(), 40)} {
		own := require.Get(y.Case())(t)
		factors := map[string]float64{}
		for i, a := range y.Action {
			factors[a.Name] = 0.9 + 0.05*float64(i)
		}
		with := require.Get(y.UncertainGains(0.1))(t)
		gained := require.Get(with.Case())(t)
		shifted, both := require.Get(own.Shifted(factors))(t), require.Get(gained.Shifted(factors))(t)
		for how, c := range map[string]domain.Case{"shifted": shifted, "gained": gained, "shifted and gained": both} {
			p := c.Problem.(*equations.Problem)
			if _, err := p.Program(); err != nil {
				t.Fatalf("%s %s: %v", y.Name, how, err)
			}
			spec := c.Problem.Spec()
			ns, nc, nu, nj, nm := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize(), len(spec.Margins)
			x, u := make([]float64, ns+nc), make([]float64, nu)
			plant := c.Plant.(*closedloop.Simulation)
			plant.Initial(plant.Start(2, 1), x[:ns], x[ns:])
			for i, a := range spec.Action {
				u[i] = a.Lo + 0.6*(a.Hi-a.Lo)
			}
			want, j, m := make([]float64, ns+nc), make([]float64, nj), make([]float64, nm)
			p.Step(x[:ns], x[ns:], u, want[:ns], want[ns:])
			p.Objectives(x[:ns], u, x[ns:], j)
			p.Margins(x[:ns], x[ns:], u, m)
			next, lanesJ, lanesM := make([]float64, ns+nc), make([]float64, nj), make([]float64, nm)
			lanes := require.Get(p.NewStages())(t)
			if lanes == nil {
				t.Fatalf("%s %s: no lanes", y.Name, how)
			}
			lanes.Evaluate(1, x, u, next, lanesJ, lanesM)
			for k, pair := range [][2][]float64{{next, want}, {lanesJ, j}, {lanesM, m}} {
				for i, v := range pair[0] {
					if !(math.Abs(v-pair[1][i]) <= 1e-9*(1+math.Abs(v))) {
						t.Errorf("%s %s: entry %d of result %d is %v on lanes, %v by the functions", y.Name, how, i, k, v, pair[1][i])
					}
				}
			}
		}
	}
}

// Systems with gains keep the contract, whether a step, an explicit or a stiff differential equation moves them.
func TestGainsContract(t *testing.T) {
	systems := []equations.System{cartpole.System(), quadrotor.System(), cstr.System()}
	if testing.Short() {
		systems = systems[:1]
	}
	for _, y := range systems {
		with := require.Get(y.UncertainGains(0.1))(t)
		t.Run(with.Name, func(t *testing.T) {
			c := require.Get(with.Case())(t)
			if got, want := c.Problem.Spec().ContextSize(), len(y.Context)+len(y.Action)+1; got != want {
				t.Errorf("%d context entries, want %d", got, want)
			}
			c.Solver = nil
			domaintest.Run(t, c)
		})
	}
}
