package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// gemm is one affine layer of 256×256, the largest product of every map.
func gemm(ctx context.Context, r *Runner, _ Shape) error {
	const width = 256
	mlp, err := model.NewMLP(r.Rand(), width, width)
	if err != nil {
		return err
	}
	size := func(n int) string { return fmt.Sprintf("%d×%d×%d", n, width, width) }
	return r.network(ctx, "gemm", Shape{Case: "-"}, size, mlp, width, cpufallback.ForwardFLOPs(mlp), backend.Net.Forward)
}

// network measures an operation on a network, with results of so many columns and so
// much work a row.
func (r *Runner) network(ctx context.Context, op string, s Shape, size func(n int) string, mlp *model.MLP, columns int, flops float64, f func(net backend.Net, z, out tensor.Matrix) error) error {
	net, err := r.b.NewNet(mlp)
	if err != nil {
		return err
	}
	for _, n := range r.opt.Batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		z, out := random(r.Rand(), n, mlp.In()), tensor.New(n, columns)
		first := min(n, deviationRows)
		deviation, err := r.deviation(first, func(b backend.Backend) ([]float32, error) {
			net, err := b.NewNet(mlp)
			if err != nil {
				return nil, err
			}
			out := tensor.New(first, columns)
			return out.Data, f(net, z.Slice(0, first), out)
		})
		if err != nil {
			return err
		}
		w := work{float64(n) * flops, weightBytes(mlp) + 4*float64(n)*float64(mlp.In()+columns)}
		if err := r.row(ctx, op, s, size(n), n, w, deviation, func() error { return f(net, z, out) }); err != nil {
			return err
		}
	}
	return nil
}

func jacobian(ctx context.Context, r *Runner, s Shape) error {
	nets, err := s.networks(r.Rand())
	if err != nil {
		return err
	}
	size := func(int) string { return s.String() }
	return r.network(ctx, "jacobian", s, size, nets.decoderS, s.State*s.Latent, cpufallback.JacobianFLOPs(nets.decoderS), backend.Net.Jacobian)
}

func metric(ctx context.Context, r *Runner, s Shape) error {
	nets, err := s.networks(r.Rand())
	if err != nil {
		return err
	}
	size := func(int) string { return s.String() }
	return r.network(ctx, "metric", s, size, nets.decoderS, s.Latent*s.Latent, cpufallback.MetricFLOPs(nets.decoderS), func(net backend.Net, z, g tensor.Matrix) error {
		return net.Metric(z, metricLambda, g)
	})
}

// Constants of the benchmark step.
const (
	metricLambda = 1e-3
	topK         = 3
)

// eig takes the metrics of a random decoder, which is what the step meets.
func eig(ctx context.Context, r *Runner, s Shape) error {
	nets, err := s.networks(r.Rand())
	if err != nil {
		return err
	}
	net, err := r.b.NewNet(nets.decoderS)
	if err != nil {
		return err
	}
	for _, n := range r.opt.Batches {
		z, g := random(r.Rand(), n, s.Latent), tensor.New(n, s.Latent*s.Latent)
		if err := net.Metric(z, metricLambda, g); err != nil {
			return err
		}
		values, vectors := tensor.New(n, topK), tensor.New(n, s.Latent*topK)
		if err := r.row(ctx, "eig", s, fmt.Sprintf("top %d of %d×%d", topK, s.Latent, s.Latent), n, work{}, nil, func() error {
			return r.b.EigTopK(g, s.Latent, topK, values, vectors)
		}); err != nil {
			return err
		}
	}
	return nil
}

// manifold returns points clustered as M* is: an 8-dimensional box mapped into
// the latent space by a random network.
func manifold(rng *rand.Rand, rows, latent int) (tensor.Matrix, error) {
	const intrinsic = 8
	chart, err := model.NewMLP(rng, intrinsic, 64, 64, latent)
	if err != nil {
		return tensor.Matrix{}, err
	}
	points := tensor.New(rows, intrinsic)
	for i := range points.Data {
		points.Data[i] = 2*rng.Float32() - 1
	}
	z := tensor.New(rows, latent)
	return z, forward(chart, points, z)
}
