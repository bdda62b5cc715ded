package ref

import (
	"fmt"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Backend computes every operation of backend.Backend row by row in float64.
// Inputs are widened, results rounded once to float32.
type Backend struct{}

var _ backend.Backend = (*Backend)(nil)

// New returns the reference backend.
func New() *Backend { return &Backend{} }

// Describe implements backend.Backend.
func (b *Backend) Describe() backend.Description {
	return backend.Description{Name: "ref", ISA: "float64", Device: "CPU", Threads: 1}
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
	if err := n.check("Forward", z, "y", y, n.mlp.Out()); err != nil {
		return err
	}
	for i := range z.Rows {
		tensor.Narrow(y.Row(i), n.mlp.Forward(wide(z.Row(i))))
	}
	return nil
}

func (n net) VJP(z, ybar, zbar tensor.Matrix) error {
	if err := n.check("VJP", z, "zbar", zbar, n.mlp.In()); err != nil {
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
	if err := n.check("Jacobian", z, "jac", jac, n.mlp.Out()*n.mlp.In()); err != nil {
		return err
	}
	for i := range z.Rows {
		tensor.Narrow(jac.Row(i), n.mlp.Jacobian(wide(z.Row(i))))
	}
	return nil
}

func (n net) Metric(z tensor.Matrix, lambda float32, g tensor.Matrix) error {
	if err := n.check("Metric", z, "g", g, n.mlp.In()*n.mlp.In()); err != nil {
		return err
	}
	for i := range z.Rows {
		tensor.Narrow(g.Row(i), n.mlp.Metric(wide(z.Row(i)), float64(lambda)))
	}
	return nil
}

// check checks the input z and one output of cols columns.
func (n net) check(op string, z tensor.Matrix, what string, out tensor.Matrix, cols int) error {
	if err := tensor.Check(op, "z", z, z.Rows, n.mlp.In()); err != nil {
		return err
	}
	return checkOutput(op, what, out, z.Rows, cols)
}

// checkOutput is tensor.Check of a matrix that is written: its rows must not
// be one and the same.
func checkOutput(op, what string, m tensor.Matrix, rows, cols int) error {
	if err := tensor.Check(op, what, m, rows, cols); err != nil {
		return err
	}
	if rows > 1 && cols > 0 && m.Stride == 0 {
		return fmt.Errorf("%s: %s is written and has stride 0, want rows of their own", op, what)
	}
	return nil
}

// EigTopK implements backend.Backend.
func (b *Backend) EigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	if n < 1 || k < 1 || k > n {
		return fmt.Errorf("EigTopK: k = %d of n = %d, want 1 ≤ k ≤ n", k, n)
	}
	if err := tensor.Check("EigTopK", "g", g, g.Rows, n*n); err != nil {
		return err
	}
	if err := checkOutput("EigTopK", "values", values, g.Rows, k); err != nil {
		return err
	}
	if err := checkOutput("EigTopK", "vectors", vectors, g.Rows, n*k); err != nil {
		return err
	}
	for i := range g.Rows {
		w, v := EigTopK(wide(g.Row(i)), n, k)
		tensor.Narrow(values.Row(i), w)
		tensor.Narrow(vectors.Row(i), v)
	}
	return nil
}
