package batchnav

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Rows are observations one after another, in physical units: measured states [n, n_s],
// contexts [n, n_c] and weights on the simplex [n, M]. Nil weights are the adaptive priority.
type Rows struct{ S, C, W []float64 }

// Check says what is wrong with the lengths of n rows of a case.
func (r Rows) Check(spec *domain.Spec, n int) error {
	for _, w := range []struct {
		name          string
		length, width int
	}{{"states have", len(r.S), spec.MeasuredSize()}, {"contexts have", len(r.C), spec.ContextSize()}, {"weights have", len(r.W), spec.ObjectiveSize()}} {
		if w.length != n*w.width && (w.length > 0 || w.name != "weights have") {
			return fmt.Errorf("the %s %d entries, want %d rows of case %q with %d each", w.name, w.length, n, spec.Name, w.width)
		}
	}
	return nil
}

// At is row i of rows that have been checked. It is a view.
func (r Rows) At(spec *domain.Spec, i int) Observation {
	o := Observation{S: row(r.S, i, spec.MeasuredSize()), C: row(r.C, i, spec.ContextSize()), Preference: domain.Preference{Adaptive: true}}
	if len(r.W) > 0 {
		o.Preference = domain.Preference{W: row(r.W, i, spec.ObjectiveSize())}
	}
	return o
}

// Latents are the operations of a decision, one by one and for batches. A caller reads and moves the latents of a map
// with them.
type Latents struct {
	anchors
	nets      [2]backend.Net // by Decoder; nil until they are differentiated
	questions []domain.Question
}

// Decoder is one of a map's two.
type Decoder int

const (
	DecoderU Decoder = iota // plans
	DecoderS                // states
)

// latentsAtOnce is the batch that a step of Latents has its workspace for; larger ones are
// taken in parts.
const latentsAtOnce = 4096

// NewLatents prepares the operations of a map; see NewNavigator.
func NewLatents(b backend.Backend, m *model.Model, p domain.Problem, opt Options) (*Latents, error) {
	l, err := load(b, m, p, &opt)
	if err != nil {
		return nil, err
	}
	if err := l.makeStepper(latentsAtOnce); err != nil {
		return nil, err
	}
	return &Latents{anchors: newAnchors(l)}, nil
}

// Parts are what the operations of a map are made of.
type Parts struct {
	Backend      backend.Backend
	Model        *model.Model
	Problem      domain.Problem
	Navigation   domain.Navigation
	Index        backend.Index // of the codes; nil for a map without
	Stepper      backend.Stepper
	InverseRange []float64 // 1/(nadir − ideal) of each objective, by which its priority is its weight
}

// Parts are those of these operations. They are not copies.
func (a *Latents) Parts() Parts {
	return Parts{a.backend, a.model, a.problem, a.nav, a.index, a.stepper, a.inverseRange}
}

// Size is n_z.
func (a *Latents) Size() int { return a.model.Latent() }

// ask takes n observations, each of them finite.
func (a *Latents) ask(op string, rows Rows, n int) ([]domain.Question, error) {
	if err := rows.Check(a.spec, n); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	a.questions = slices.Grow(a.questions[:0], n)[:n]
	for i := range a.questions {
		o := rows.At(a.spec, i)
		if err := a.spec.CheckObservation(o.S, o.C, o.Preference); err != nil {
			return nil, fmt.Errorf("%s: observation %d %w", op, i, err)
		}
		a.questions[i] = domain.Question{S: o.S, C: o.C, Preference: o.Preference}
	}
	a.grow(n)
	return a.questions, nil
}

// checkLatents checks latents that are read.
func (a *Latents) checkLatents(op string, z tensor.Matrix) error {
	if err := tensor.Check(op, "z", z, z.Rows, a.Size()); err != nil {
		return err
	}
	for i := range z.Rows {
		if !tensor.Finite(z.Row(i)) {
			return fmt.Errorf("%s: latent %d is not finite: %v", op, i, z.Row(i))
		}
	}
	return nil
}

// Encode writes z_obs = E_x of the observations, or, localized, their places on M*:
// Algorithm 2, step 1, under exact measurements.
func (a *Latents) Encode(rows Rows, localized bool, z tensor.Matrix) error {
	questions, err := a.ask("encode", rows, z.Rows)
	if err != nil {
		return err
	}
	if err := backend.CheckOutput("encode", "z", z, z.Rows, a.Size()); err != nil || z.Rows == 0 {
		return err
	}
	if !localized {
		if err := a.encode(questions); err != nil {
			return err
		}
		return z.CopyFrom(a.observed.Slice(0, z.Rows))
	}
	if err := a.localize(questions); err != nil {
		return err
	}
	return z.CopyFrom(a.spot.Slice(0, z.Rows))
}

// Decode writes the clipped plan [n, plan] and the state [n, n_s] of each latent, physical
// units; a matrix without rows is not written. Plans are about the observations' rows.
func (a *Latents) Decode(z tensor.Matrix, rows Rows, u, s tensor.Matrix) error {
	n := z.Rows
	if err := a.checkLatents("decode", z); err != nil {
		return err
	}
	questions, err := a.ask("decode", rows, n)
	if err != nil || n == 0 {
		return err
	}
	a.narrow(questions)
	if u.Rows == 0 {
		u = a.first.Slice(0, n)
	}
	return a.stepper.Decode(z, a.ctx.Slice(0, n), a.state.Slice(0, n), u, s)
}

// narrow writes states and contexts as a backend takes them.
func (a *Latents) narrow(questions []domain.Question) {
	for i := range questions {
		tensor.Narrow(a.state.Row(i), questions[i].S)
		tensor.Narrow(a.ctx.Row(i), questions[i].C)
	}
}

// Jacobian writes the derivatives of a decoder's output in the latent, in physical units and before the clip. They are
// [n, out·n_z], each row an out×n_z matrix, row-major.
func (a *Latents) Jacobian(decoder Decoder, z, jac tensor.Matrix) error {
	if err := a.checkLatents("jacobian", z); err != nil {
		return err
	}
	mlp, norm := a.model.DecoderU, a.model.NormU
	if decoder == DecoderS {
		mlp, norm = a.model.DecoderS, a.model.NormS
	}
	if err := backend.CheckOutput("jacobian", "jac", jac, z.Rows, mlp.Out()*a.Size()); err != nil || z.Rows == 0 {
		return err
	}
	if a.nets[decoder] == nil {
		net, err := a.backend.NewNet(mlp)
		if err != nil {
			return fmt.Errorf("jacobian: %w", err)
		}
		a.nets[decoder] = net
	}
	if err := a.nets[decoder].Jacobian(z, jac); err != nil {
		return err
	}
	for i := range jac.Rows {
		for j, v := range jac.Row(i) {
			jac.Row(i)[j] = v * norm.Scale[j/a.Size()]
		}
	}
	return nil
}

// Moved receives what Step gives; a matrix without rows, or nil, is not written.
type Moved struct {
	Z, U   tensor.Matrix // z_{t+1} [n, n_z] before retraction; its clipped plan [n, plan], physical units
	Energy []float64     // V at the latent that the step began at [n]
	Sigma  []float64     // priority that steered it [n, M]
}

// Step makes one latent step from each latent: Algorithm 2, steps 2 to 5. Retraction, smoothing and the low-pass of σ
// belong to a loop and are left out.
func (a *Latents) Step(z tensor.Matrix, rows Rows, out Moved) error {
	n, m := z.Rows, a.spec.ObjectiveSize()
	if err := a.checkLatents("step", z); err != nil {
		return err
	}
	if out.Energy != nil && len(out.Energy) != n || out.Sigma != nil && len(out.Sigma) != n*m {
		return fmt.Errorf("step: room for %d energies and %d priorities, want %d and %d", len(out.Energy), len(out.Sigma), n, n*m)
	}
	questions, err := a.ask("step", rows, n)
	if err != nil || n == 0 {
		return err
	}
	a.narrow(questions)
	if err := a.spot.Slice(0, n).CopyFrom(z); err != nil {
		return err
	}
	if err := a.steer(questions); err != nil {
		return err
	}
	energy := make([]float32, n)
	step := backend.StepInput{Z: a.spot.Slice(0, n), X: a.state.Slice(0, n), Ctx: a.ctx.Slice(0, n), Weights: a.weight.Slice(0, n)}
	if err := a.stepper.Step(step, backend.StepOutput{Z: out.Z, U: out.U, Energy: energy}); err != nil {
		return err
	}
	if out.Energy != nil {
		tensor.Widen(out.Energy, energy)
	}
	for i := range questions {
		if out.Sigma != nil {
			copy(out.Sigma[i*m:], a.sigma[i])
		}
	}
	return nil
}
