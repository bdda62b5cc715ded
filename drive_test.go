package gpc_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/tensor"
)

// driven is a case of the paper with n first observations, every other with weights of its own.
func driven(t *testing.T, name string, n int) (*gpc.Case, *gpc.Engine, batchnav.Rows) {
	t.Helper()
	cases := paper.Cases()
	c := require.Get(cases.Find(name))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	t.Cleanup(func() { e.Close() })
	var in batchnav.Rows
	m := c.Spec().ObjectiveSize()
	for i := range n {
		o := require.Get(c.Observe(1, i, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		in.S, in.C = append(in.S, o.S...), append(in.C, o.C...)
		w := make([]float64, m)
		w[0], w[m-1] = 0.25, 0.75
		if i%2 == 1 {
			w[0], w[m-1] = 0.5, 0.5
		}
		in.W = append(in.W, w...)
	}
	return c, e, in
}

// room is a Driven with every slice.
func room(spec *domain.Spec, n int) gpc.Driven {
	return gpc.Driven{
		U: make([]float64, n*spec.ActionSize()), Sigma: make([]float64, n*spec.ObjectiveSize()), Margins: make([]float64, n*len(spec.Margins)),
		Margin: make([]float64, n), Residual: make([]float64, n), Limit: make([]float64, n), Displacement: make([]float64, n),
		Fallback: make([]domain.Fallback, n), Times: make([]domain.Times, n),
	}
}

// Rows are decided as Case.Loops decides the same observations, bit for bit.
func TestADriveDecidesAsItsLoops(t *testing.T) {
	const n = 5
	c, e, in := driven(t, "integrator-convex", n)
	spec := c.Spec()
	batch := require.Get(c.Loops(e, gpc.Setup{}, n))(t)
	d := require.Get(c.Drive(e, gpc.Setup{}, n))(t)
	out, want, observations := room(spec, n), make([]batchnav.Decision, n), make([]batchnav.Observation, n)
	for range 2 {
		for i := range observations {
			observations[i] = in.At(spec, i)
		}
		require.OK(t, batch.Decide(observations, want))
		require.OK(t, d.Decide(in, out))
		for i, w := range want {
			nu, m, nm := spec.ActionSize(), spec.ObjectiveSize(), len(spec.Margins)
			if !slices.Equal(out.U[i*nu:(i+1)*nu], w.U) || !slices.Equal(out.Sigma[i*m:(i+1)*m], w.Sigma) || !slices.Equal(out.Margins[i*nm:(i+1)*nm], w.Margins) ||
				out.Margin[i] != w.Margin || out.Residual[i] != w.Residual || out.Limit[i] != w.Limit || out.Displacement[i] != w.Displacement || out.Fallback[i] != w.Fallback {
				t.Errorf("row %d is %v and %v, want %+v", i, out.U[i*nu:(i+1)*nu], out.Margin[i], w)
			}
		}
		in.W = nil // the second decision of the same loops, adaptive
	}
}

// A method that is not the navigator's decides in every row as in a loop of its own.
func TestADriveOfAnyMethod(t *testing.T) {
	const n = 3
	c, e, in := driven(t, "integrator-convex", n)
	spec, setup := c.Spec(), gpc.Setup{Method: "mpc"}
	d := require.Get(c.Drive(e, setup, n))(t)
	out := room(spec, n)
	require.OK(t, d.Decide(in, out))
	for i := range n {
		alone := require.Get(c.Controller(e, setup))(t)
		require.OK(t, alone.Reset(nil))
		o, u := in.At(spec, i), make([]float64, spec.ActionSize())
		require.Get(alone.Decide(o.S, o.C, o.Preference, u))(t)
		margins := make([]float64, len(spec.Margins))
		c.Definition().Problem.Margins(o.S, o.C, u, margins)
		if !slices.Equal(out.U[i*len(u):(i+1)*len(u)], u) || out.Margin[i] != slices.Min(margins) || !math.IsNaN(out.Sigma[i]) {
			t.Errorf("row %d is %v with margin %g, alone %v with %g", i, out.U[i*len(u):(i+1)*len(u)], out.Margin[i], u, slices.Min(margins))
		}
	}
}

// What cannot be driven, or does not fit, is refused by its name.
func TestADriveRefuses(t *testing.T) {
	c, e, in := driven(t, "integrator-convex", 2)
	d := require.Get(c.Drive(e, gpc.Setup{}, 2))(t)
	wrong := in
	wrong.W = slices.Clone(in.W)
	wrong.W[3] = -1
	for text, err := range map[string]error{
		"oracle":        second(c.Drive(e, gpc.Setup{Method: "oracle"}, 1)),
		"closed loops":  second(c.Drive(e, gpc.Setup{}, 0)),
		"loop 2":        d.ResetLoop(2),
		"states have":   d.Decide(batchnav.Rows{S: in.S[1:], C: in.C}, gpc.Driven{}),
		"observation 1": d.Decide(wrong, gpc.Driven{}),
		"Margin has":    d.Decide(in, gpc.Driven{Margin: make([]float64, 3)}),
		"episode":       second(c.Observe(1, -1, domain.EpisodeOptions{})),
	} {
		var input gpc.InputError
		if err == nil || !strings.Contains(err.Error(), text) || !errors.As(err, &input) {
			t.Errorf("error %v, want one of input with %q", err, text)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// The operations of a map one by one: a decision of the ablation without search, smoothing and
// retraction is encode, localize, step.
func TestLatentsAreTheStepsOfADecision(t *testing.T) {
	const n = 4
	c, e, in := driven(t, "integrator-convex", n)
	spec := c.Spec()
	l := require.Get(c.Latents(e, gpc.Setup{Method: "navigator-no-retraction"}))(t)
	z, moved, u := tensor.New(n, l.Size()), tensor.New(n, l.Size()), tensor.New(n, spec.PlanSize())
	require.OK(t, l.Encode(in, true, z))
	sigma := make([]float64, n*spec.ObjectiveSize())
	require.OK(t, l.Step(z, in, batchnav.Moved{Z: moved, U: u, Sigma: sigma}))
	batch := require.Get(c.Loops(e, gpc.Setup{Method: "navigator-no-retraction"}, n))(t)
	observations, want := make([]batchnav.Observation, n), make([]batchnav.Decision, n)
	for i := range observations {
		observations[i] = in.At(spec, i)
	}
	require.OK(t, batch.Decide(observations, want))
	for i, w := range want {
		if !slices.Equal(u.Row(i), w.Decoded) || !slices.Equal(sigma[i*spec.ObjectiveSize():(i+1)*spec.ObjectiveSize()], w.Sigma) {
			t.Errorf("row %d: plan %v, want the decision's %v", i, u.Row(i), w.Decoded)
		}
	}
	decoded := tensor.New(n, spec.PlanSize())
	require.OK(t, l.Decode(moved, in, decoded, tensor.Matrix{}))
	for i := range n {
		if !slices.Equal(decoded.Row(i), u.Row(i)) {
			t.Errorf("row %d: the moved latent decodes to %v, the step says %v", i, decoded.Row(i), u.Row(i))
		}
	}
}
