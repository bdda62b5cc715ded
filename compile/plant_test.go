package compile

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// slow is a sled of which each push moves less.
func slow() *gpc.Case {
	y := system()
	y.Real.Step = func(s, c, u, n, after []float64) { step(s, c, []float64{0.6 * u[0]}, n, after) }
	y.Dual.Step = func(s, c, u, n, after []complex128) { step(s, c, []complex128{0.6 * u[0]}, n, after) }
	c, err := y.Case()
	if err != nil {
		panic(err)
	}
	made, err := gpc.NewCase(c)
	if err != nil {
		panic(err)
	}
	return made
}

// A compilation drives every start in the plant as it is declared: noise, delay and another plant than the model. Its report says
// so, and tells what not knowing costs from what the map does.
func TestEveryStartIsDrivenInThePlant(t *testing.T) {
	c := require.Get(sled(t).Measured(&domain.Measurement{
		Outputs: []domain.Variable{{Name: "q"}}, Deviation: []float64{0.3},
		Real: func(s, _, _, y []float64) { y[0] = s[0] }, Dual: func(s, _, _, y []complex128) { y[0] = s[0] },
	}))(t)
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Rounds = 1
	declared := require.Get(Run(context.Background(), require.Get(c.Delayed(1))(t), opt))(t)
	if !declared.Measured || declared.Delay != 1 || declared.Plant != "" {
		t.Errorf("measured %t, delay %v, plant %q", declared.Measured, declared.Delay, declared.Plant)
	}
	if b := declared.Solver; b == nil || b.Informed == nil || !(*b.Informed < 0.1) || !(b.Own > 10**b.Informed+0.1) {
		t.Errorf("the solver is %+v: it should cost about nothing where it knows the state, and more where it measures the position with noise", b)
	}
	opt.Out = filepath.Join(t.TempDir(), "sled.safetensors")
	robust := require.Get(Run(context.Background(), require.Get(c.Robust(2))(t), opt))(t) // at once, by the prior of its scenario
	if of := robust.Rounds[0]; robust.KeptOff != 2 || !robust.Measured || of.Solves == 0 || of.NoRoom > of.Solves || declared.KeptOff != 0 || declared.Rounds[0].Solves != 0 {
		t.Errorf("kept off %v deviations: %d of %d solves have no room; kept off %v: %d solves", robust.KeptOff, of.NoRoom, of.Solves, declared.KeptOff, declared.Rounds[0].Solves)
	}
	opt.Out = filepath.Join(t.TempDir(), "sled.safetensors")
	other := require.Get(sled(t).On(slow()))(t)
	got := require.Get(Run(context.Background(), other, opt))(t)
	if !strings.Contains(got.Plant, "sled") || got.Solver == nil || !(got.Solver.Own > 0.1) {
		t.Errorf("plant %q, solver %+v: one that does not know the plant costs more than its optimum", got.Plant, got.Solver)
	}
	if _, err := Run(context.Background(), sled(t), opt); !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), "field plant") {
		t.Errorf("the run goes on in another plant: %v", err)
	}
	wide := system()
	wide.Steps = 9
	if _, err := sled(t).On(require.Get(gpc.NewCase(require.Get(wide.Case())(t)))(t)); err == nil || !strings.Contains(err.Error(), "9 decisions") {
		t.Errorf("a plant of other sizes: %v", err)
	}
}

// What differs between the plants of two runs is named, and no more.
func TestWhatDiffersBetweenPlants(t *testing.T) {
	of := func(deviation, delay float64) string {
		c := &domain.Case{Altered: []string{"mass ×1.1"}, Measurement: &domain.Measurement{
			Outputs: []domain.Variable{{Name: "x", Unit: "m"}, {Name: "v", Unit: "m/s"}}, Deviation: []float64{0.01, deviation},
		}}
		c.Delay.Periods = delay
		return describePlant(c)
	}
	one, other := of(0.1, 0), of(0.2, 1)
	if got, back := describeDifference(one, other), describeDifference(other, one); got != "measured: v ± 0.1 m/s" || back != "measured: v ± 0.2 m/s; delay: 1 periods" {
		t.Errorf("%q, and the other way %q", got, back)
	}
	if got := describeDifference(one, of(0.1, 1)); got != "no more than this" {
		t.Errorf("%q of a plant that has one thing less", got)
	}
}
