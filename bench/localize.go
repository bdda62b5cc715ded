package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// index builds an index of n codes, and queries near it with their measured
// states and thresholds.
func (r *Runner) index(s Shape, n, queries int) (ix backend.Index, x, z tensor.Matrix, tau []float32, err error) {
	all, err := manifold(r.Rand(), n+queries, s.Latent)
	if err != nil {
		return nil, x, z, nil, err
	}
	_, ds, _, err := s.networks(r.Rand())
	if err != nil {
		return nil, x, z, nil, err
	}
	decoded := tensor.New(n+queries, s.State)
	if err := forward(ds, all, decoded); err != nil {
		return nil, x, z, nil, err
	}
	if ix, err = r.b.NewIndex(all.Slice(0, n), decoded.Slice(0, n)); err != nil {
		return nil, x, z, nil, err
	}
	tau = make([]float32, queries)
	for i := range tau {
		tau[i] = float32(s.State)
	}
	return ix, decoded.Slice(n, n+queries), all.Slice(n, n+queries), tau, nil
}

// forward is net(in) as net.Forward makes it, bit for bit, on all cores. Rows are many before a search is timed:
// 250 000 codes on one core take longer than what they are made for.
func forward(net *model.MLP, in, out tensor.Matrix) error {
	errs := make([]error, max(1, runtime.GOMAXPROCS(0)))
	parallel.Split(len(errs), in.Rows, func(part, from, to int) {
		errs[part] = net.Forward(in.Slice(from, to), out.Slice(from, to))
	})
	return errors.Join(errs...)
}

// neighbours of M* that a query is projected among.
const neighbours = 12

func localize(ctx context.Context, r *Runner, s Shape) error {
	for _, codes := range r.opt.Codes {
		batch := slices.Max(r.opt.Batches)
		ix, x, z, tau, err := r.index(s, codes, batch)
		if err != nil {
			return err
		}
		out := backend.LocalizeOutput{Z: tensor.New(batch, s.Latent), Nearest: make([]int32, batch), Residual: make([]float32, batch), Consistent: make([]bool, batch)}
		for _, n := range r.opt.Batches {
			at := 0
			size := fmt.Sprintf("%d codes, z %d", codes, s.Latent)
			if err := r.row(ctx, "localize", s, size, n, work{}, nil, func() error {
				// Another part of the queries each time, so that no query is served
				// from what the last call left in cache.
				if at+n > batch {
					at = 0
				}
				o := backend.LocalizeOutput{Z: out.Z.Slice(at, at+n), Nearest: out.Nearest[at : at+n], Residual: out.Residual[at : at+n], Consistent: out.Consistent[at : at+n]}
				err := ix.Localize(x.Slice(at, at+n), z.Slice(at, at+n), tau[at:at+n], neighbours, o)
				at += n
				return err
			}); err != nil {
				return err
			}
		}
		if err := r.bruteForce(ctx, s, codes); err != nil {
			return err
		}
	}
	return nil
}

// bruteForce is the time of one nearest-code query by comparing every code, on
// one thread, for the table beside the index.
func (r *Runner) bruteForce(ctx context.Context, s Shape, codes int) error {
	all, err := manifold(r.Rand(), codes+64, s.Latent)
	if err != nil {
		return err
	}
	q := 0
	return r.row(ctx, "localize-brute", s, fmt.Sprintf("%d codes, z %d", codes, s.Latent), 1, work{}, nil, func() error {
		query := all.Row(codes + q%64)
		q++
		best, least := -1, float32(math.Inf(1))
		for i := range codes {
			d := float32(0)
			for j, v := range all.Row(i) {
				e := v - query[j]
				d += e * e
			}
			if d < least {
				least, best = d, i
			}
		}
		if best < 0 {
			return fmt.Errorf("none of %d codes is at a finite distance", codes)
		}
		return nil
	})
}
