package ref

import (
	"errors"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Backend computes every operation of backend.Backend row by row in float64.
// Inputs are widened, results rounded once to float32.
type Backend struct{}

// New returns the reference backend.
func New() *Backend { return &Backend{} }

// Describe implements backend.Backend.
func (b *Backend) Describe() backend.Description {
	return backend.Description{Name: "ref", ISA: "float64", Device: "CPU", Threads: 1}
}

// NewTrainer implements backend.Backend.
func (b *Backend) NewTrainer(backend.TrainerConfig) (backend.Trainer, error) {
	return nil, errors.New("the backend ref decides in float64 and does not train: want auto, cuda or cpu")
}

// Close implements backend.Backend; there is nothing to release.
func (b *Backend) Close() error { return nil }

type net struct{ mlp *MLP }

// NewNet implements backend.Backend.
func (b *Backend) NewNet(mlp *model.MLP) (backend.Net, error) {
	if err := mlp.Validate(); err != nil {
		return nil, err
	}
	return net{Widen(mlp)}, nil
}

func (n net) Forward(z, y tensor.Matrix) error {
	if err := backend.CheckNet("Forward", z, n.mlp.In(), "y", y, n.mlp.Out()); err != nil {
		return err
	}
	for i := range z.Rows {
		tensor.Narrow(y.Row(i), n.mlp.Forward(wide(z.Row(i))))
	}
	return nil
}

func (n net) VJP(z, ybar, zbar tensor.Matrix) error {
	if err := backend.CheckNet("VJP", z, n.mlp.In(), "zbar", zbar, n.mlp.In()); err != nil {
		return err
	}
	if err := tensor.Check("VJP", "ybar", ybar, z.Rows, n.mlp.Out()); err != nil {
		return err
	}
	for i := range z.Rows {
		tensor.Narrow(zbar.Row(i), n.mlp.VJP(wide(z.Row(i)), wide(ybar.Row(i))))
	}
	return nil
}

func (n net) Jacobian(z, jac tensor.Matrix) error {
	if err := backend.CheckNet("Jacobian", z, n.mlp.In(), "jac", jac, n.mlp.Out()*n.mlp.In()); err != nil {
		return err
	}
	for i := range z.Rows {
		tensor.Narrow(jac.Row(i), n.mlp.Jacobian(wide(z.Row(i))))
	}
	return nil
}

func (n net) Metric(z tensor.Matrix, lambda float32, g tensor.Matrix) error {
	if err := backend.CheckNet("Metric", z, n.mlp.In(), "g", g, n.mlp.In()*n.mlp.In()); err != nil {
		return err
	}
	for i := range z.Rows {
		tensor.Narrow(g.Row(i), n.mlp.Metric(wide(z.Row(i)), float64(lambda)))
	}
	return nil
}

// EigTopK implements backend.Backend.
func (b *Backend) EigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	if err := backend.CheckEigTopK(g, n, k, values, vectors); err != nil {
		return err
	}
	for i := range g.Rows {
		w, v := EigTopK(wide(g.Row(i)), n, k)
		tensor.Narrow(values.Row(i), w)
		tensor.Narrow(vectors.Row(i), v)
	}
	return nil
}
