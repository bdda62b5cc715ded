package cpufallback

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/ceiling"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// BenchmarkNet measures each operation of a decoder and its fraction of the
// ceiling of the same run. Jacobian and metric have two counts: with every unit
// (dense) and with the active ones only, which are those multiplied; the latter
// is the fraction to judge the kernels by.
func BenchmarkNet(b *testing.B) {
	for _, level := range isa.Available()[min(1, len(isa.Available())-1):] {
		for _, widths := range [][]int{{32, 256, 256, 60}, {8, 256, 256, 4}} {
			for _, threads := range []int{1, 0} {
				for _, batch := range []int{1, 64, 4096} {
					benchmarkNet(b, level, widths, threads, batch)
				}
			}
		}
	}
}

func benchmarkNet(b *testing.B, level isa.Level, widths []int, threads, batch int) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := testdomain.Network(rng, 0.3, widths...)
	be := open(b, level, threads)
	net := require.Get(be.newNet(m))(b)
	in, out := m.In(), m.Out()
	z, ybar := randomRows(rng, batch, in, in), randomRows(rng, batch, out, out)
	y, zbar := tensor.New(batch, out), tensor.New(batch, in)
	jac, g := tensor.New(batch, out*in), tensor.New(batch, in*in)
	share := activeShare(net, z)
	active := ActiveJacobianFLOPs(m, share)
	square := MetricFLOPs(m) - JacobianFLOPs(m)
	for _, op := range []struct {
		name          string
		dense, active float64
		run           func(backend.Net) error
	}{
		{"forward", ForwardFLOPs(m), ForwardFLOPs(m), func(n backend.Net) error { return n.Forward(z, y) }},
		{"vjp", VJPFLOPs(m), VJPFLOPs(m), func(n backend.Net) error { return n.VJP(z, ybar, zbar) }},
		{"jacobian", JacobianFLOPs(m), active, func(n backend.Net) error { return n.Jacobian(z, jac) }},
		{"metric", MetricFLOPs(m), active + square, func(n backend.Net) error { return n.Metric(z, 1e-3, g) }},
	} {
		b.Run(fmt.Sprintf("%s/%v/threads=%d/batch=%d/%s", level, widths, be.pool.Threads(), batch, op.name), func(b *testing.B) {
			peak := ceiling.FMA(be.pool, level)
			best := time.Hour // the ceiling is a best, so is what is compared
			b.ResetTimer()
			for b.Loop() {
				start := time.Now()
				require.OK(b, op.run(net))
				best = min(best, time.Since(start))
			}
			rows := float64(batch) / best.Seconds()
			peak = max(peak, ceiling.FMA(be.pool, level))
			b.ReportMetric(float64(best.Nanoseconds()), "best-ns")
			b.ReportMetric(rows*op.dense/1e9, "dense-GFLOP/s")
			b.ReportMetric(100*rows*op.dense/peak, "dense-%ofFMA")
			b.ReportMetric(100*rows*op.active/peak, "active-%ofFMA")
		})
	}
}

// activeShare is the mean share of active units of each hidden layer over z.
func activeShare(n *net, z tensor.Matrix) []float64 {
	share := make([]float64, len(n.layers)-1)
	c := n.newChunk(1)
	for i := range z.Rows {
		n.hiddenChunk(c, z.Slice(i, i+1))
		for l := range share {
			for _, h := range c.hidden[l][:n.layers[l].out] {
				if h > 0 {
					share[l] += 1 / float64(n.layers[l].out*z.Rows)
				}
			}
		}
	}
	return share
}

// The counts of JacobianFLOPs are those of the paper's power-flow decoder.
func TestFLOPCounts(t *testing.T) {
	m := require.Get(model.NewMLP(rand.New(rand.NewPCG(1, 1)), 32, 256, 256, 60))(t)
	for name, c := range map[string][2]float64{
		"forward":           {ForwardFLOPs(m), 2 * (32*256 + 256*256 + 256*60)},
		"VJP":               {VJPFLOPs(m), 2*(32*256+256*256+256*60) + 2*(32*256+256*256)},
		"Jacobian, forward": {JacobianFLOPs(m), 2*32*(256*256+256*60) + 2*(32*256+256*256)},
		"half active":       {ActiveJacobianFLOPs(m, []float64{0.5, 0.5}), 2*32*(128*128+128*60) + 2*(32*256+256*256)},
		"metric":            {MetricFLOPs(m), JacobianFLOPs(m) + 2*32*32*60},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %v, want %v", name, c[0], c[1])
		}
	}
	m = require.Get(model.NewMLP(rand.New(rand.NewPCG(1, 1)), 8, 256, 128, 4))(t)
	if got, want := JacobianFLOPs(m), float64(2*4*(128*256+256*8)+2*(8*256+256*128)); got != want {
		t.Errorf("Jacobian, reverse: %v, want %v", got, want)
	}
}
