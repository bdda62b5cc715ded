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

// queries are rows near the codes of an index, with their measured states and thresholds.
type queries struct {
	index backend.Index
	x, z  tensor.Matrix
	tau   []float32
}

// localize localizes n of them, from the first on.
func (q *queries) localize(first, n int, out backend.LocalizeOutput) error {
	return q.index.Localize(q.x.Slice(first, first+n), q.z.Slice(first, first+n), q.tau[first:first+n], neighbours, out)
}

// index builds an index of n codes, and queries near it.
func (r *Runner) index(s Shape, n, rows int) (q queries, err error) {
	all, err := manifold(r.Rand(), n+rows, s.Latent)
	if err != nil {
		return q, err
	}
	nets, err := s.networks(r.Rand())
	if err != nil {
		return q, err
	}
	decoded := tensor.New(n+rows, s.State)
	if err := forward(nets.decoderS, all, decoded); err != nil {
		return q, err
	}
	if q.index, err = r.b.NewIndex(all.Slice(0, n), decoded.Slice(0, n)); err != nil {
		return q, err
	}
	q.tau = make([]float32, rows)
	tensor.Fill(q.tau, float32(s.State))
	q.x, q.z = decoded.Slice(n, n+rows), all.Slice(n, n+rows)
	return q, nil
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
		q, err := r.index(s, codes, batch)
		if err != nil {
			return err
		}
		out := backend.LocalizeOutput{Z: tensor.New(batch, s.Latent), Nearest: make([]int32, batch), Residual: make([]float32, batch), Consistent: make([]bool, batch)}
		for _, n := range r.opt.Batches {
			offset := 0
			size := fmt.Sprintf("%d codes, z %d", codes, s.Latent)
			if err := r.row(ctx, "localize", s, size, n, work{}, nil, func() error {
				// Another part of the queries each time, so that no query is served
				// from what the last call left in cache.
				if offset+n > batch {
					offset = 0
				}
				o := backend.LocalizeOutput{Z: out.Z.Slice(offset, offset+n), Nearest: out.Nearest[offset : offset+n], Residual: out.Residual[offset : offset+n], Consistent: out.Consistent[offset : offset+n]}
				err := q.localize(offset, n, o)
				offset += n
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

// Localize prepares queries among codes at a shape: a call localizes n of them from the first on.
func (r *Runner) Localize(s Shape, codes, queries int) (call func(first, n int, out backend.LocalizeOutput) error, err error) {
	q, err := r.index(s, codes, queries)
	return func(first, n int, out backend.LocalizeOutput) error { return q.localize(first, n, out) }, err
}
