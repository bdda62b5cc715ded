package bench

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/internal/backend"
)

// Launch is one kernel of an operation, as it is launched, beside what it cannot be faster
// than on the device: the least µs by each of four things that it needs, and the largest.
type Launch struct {
	Of      string  `json:"of"`           // of `kernels`, where a row is one launch: the operation that it is a part of
	Place   int     `json:"place"`        // from 1, in the order of that
	Kernel  string  `json:"kernel"`       // entry point
	Grid    [2]int  `json:"grid"`         // blocks across and down
	Block   int     `json:"block"`        // threads of one
	Shared  int     `json:"shared_bytes"` // dynamic shared memory of one
	Limit   float64 `json:"limit_us"`     // what the launch cannot be faster than: the largest of the next four
	By      string  `json:"by"`           // which of them
	FMA     float64 `json:"fma_us"`       // by the multiply-adds of its products
	Memory  float64 `json:"shared_us"`    // by requests to shared memory
	Bytes   float64 `json:"bytes_us"`     // by bytes from and to what lies beyond a multiprocessor
	Latency float64 `json:"latency_us"`   // by the longest chain of a block
}

// kernels times every launch of a step, of a training update and, where a case has a
// plant and its map, of a refinement and, where the map is about the plant, of a decision
// of as many loops, by the device's own events. On the host shim the rows are without times.
func kernels(ctx context.Context, r *Runner, s Shape) error {
	tracer, ok := r.b.(backend.Tracer)
	if !ok {
		return fmt.Errorf("the launches of a device are asked for, and this is %s: --backend cuda", r.d.Name)
	}
	calls := int(min(max(r.opt.Budget.filled().Time/(50*time.Millisecond), 3), 20))
	trace := func(operation string, batch int, prepare, call func() error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		launches, err := tracer.Trace(calls, prepare, call)
		if err != nil {
			return fmt.Errorf("%s of %d: %w", operation, batch, err)
		}
		for i, l := range launches {
			res := r.result("kernels", s, s.String(), batch)
			row := Launch{Of: operation, Place: i + 1, Kernel: l.Kernel, Grid: l.Grid, Block: l.Block, Shared: l.Shared, FMA: l.Limits.FMA, Memory: l.Limits.Shared, Bytes: l.Limits.Bytes, Latency: l.Limits.Latency}
			row.Limit, row.By = l.Limits.Largest()
			res.Launch = &row
			if len(l.Times) > 0 {
				slices.Sort(l.Times)
				res.finish(l.Times, 0, 0)
			}
			r.add(res)
		}
		return nil
	}
	for _, n := range r.opt.Batches {
		var st repeatedStep
		if err := trace("step", n, func() (err error) { st, err = r.stepper(s, n); return err }, func() error { return st.step() }); err != nil {
			return err
		}
	}
	batch := slices.Max(r.opt.Batches)
	var t backend.Trainer
	order, neighbours, kernel := make([]int32, batch), make([]int32, batch), make([]float32, batch)
	for i := range order {
		order[i], neighbours[i], kernel[i] = int32(i), int32((i+1)%batch), 1
	}
	err := trace("train", batch, func() error {
		cfg, err := s.trainer(r.Rand(), batch, batch, 1)
		if err == nil {
			t, err = r.b.NewTrainer(cfg)
		}
		return err
	}, func() error { _, err := t.ManifoldStep(order, neighbours, kernel, 1e-4); return err })
	if err != nil || s.controlCase == nil || s.controlCase.Plant == nil {
		return err
	}
	m, err := s.model(r.Rand(), r.opt.Model)
	if err != nil {
		return err
	}
	observations, err := s.observations(r.opt.Seed)
	if err != nil {
		return err
	}
	problem := s.controlCase.MapProblem()
	var refiner *batchnav.Refiner
	if err := trace("refine", batch, func() (err error) {
		refiner, err = batchnav.NewRefiner(r.b, m, problem, batchnav.Options{}, batch)
		return err
	}, func() error {
		_, err := refiner.Refine(ctx, observations[0], batchnav.RefineOptions{Candidates: batch, FlowSteps: 1, Seed: 1, Threads: runtime.GOMAXPROCS(0)})
		return err
	}); err != nil || s.controlCase.Learned != nil {
		return err
	}
	var loops *batchnav.Batch
	all, decisions := slices.Repeat(observations[:1], batch), make([]batchnav.Decision, batch)
	return trace("decide", batch, func() (err error) {
		loops, err = batchnav.NewBatch(r.b, m, problem, batchnav.Options{}, batch)
		return err
	}, func() error { return loops.Decide(all, decisions) })
}

// LaunchRows lays launches out as a table, the header first; a dash where the device is
// the host shim, whose times say nothing.
func LaunchRows(results []Result) [][]string {
	rows := [][]string{{"of", "case", "batch", "", "kernel", "grid × block", "shared, bytes", "limit µs", "by", "FMA", "shared", "bytes", "latency", "p50 µs", "limit / p50"}}
	for _, r := range results {
		l := r.Launch
		if l == nil {
			continue
		}
		grid, median, share := fmt.Sprint(l.Grid[0]), "–", "–"
		if l.Grid[1] > 1 {
			grid = fmt.Sprintf("%d·%d", l.Grid[0], l.Grid[1])
		}
		if r.Calls > 0 {
			median, share = fmt.Sprintf("%.1f", r.P50), fmt.Sprintf("%.2f", l.Limit/r.P50)
		}
		us := func(v float64) string { return fmt.Sprintf("%.1f", v) }
		rows = append(rows, []string{l.Of, r.Case, fmt.Sprint(r.Batch), fmt.Sprint(l.Place), l.Kernel, fmt.Sprintf("%s × %d", grid, l.Block), fmt.Sprint(l.Shared),
			us(l.Limit), cmp.Or(l.By, "–"), us(l.FMA), us(l.Memory), us(l.Bytes), us(l.Latency), median, share})
	}
	return rows
}
