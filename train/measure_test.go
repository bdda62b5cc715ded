package train

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// Columns that are spread over cores have the mean and deviation of each alone, to the bit.
func TestStatisticsAreThoseOfEachColumn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := tensor.New(301, 2*statisticsColumns+5)
	for i := range m.Data {
		m.Data[i] = float32(rng.NormFloat64() * float64(1+i%m.Cols))
	}
	got := statistics(m)
	for j := range m.Cols {
		column := tensor.New(m.Rows, 1)
		for i := range m.Rows {
			column.Data[i] = m.Row(i)[j]
		}
		if want := statistics(column); got.Mean[j] != want.Mean[0] || got.Scale[j] != want.Scale[0] {
			t.Errorf("column %d: %v ± %v, alone %v ± %v", j, got.Mean[j], got.Scale[j], want.Mean[0], want.Scale[0])
		}
	}
}

// Rows measured together on many cores err as each does alone.
func TestDecodingIsMeasuredRowByRow(t *testing.T) {
	opt := toyOptions(cpu(t), 30)
	set := toySet(t, opt)
	m := trained(t, opt).Model
	nets := networksOf(m)
	rows := set.Train[:200]
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
	got := require.Get(evaluate(opt.Backend, opt.Problem, &opt.Data, set, nets, rows))(t)
	var deltas []float64
	sum, residual := 0.0, 0.0
	for i := range rows {
		one := require.Get(evaluate(opt.Backend, opt.Problem, &opt.Data, set, nets, rows[i:i+1]))(t)
		deltas = append(deltas, one.delta)
		sum += one.delta
		residual += one.tauGeom
	}
	if !slices.Equal(got.deltas, deltas) || got.deltaMax != slices.Max(deltas) {
		t.Error("errors of rows measured together are others than alone")
	}
	if n := float64(len(rows)); math.Abs(got.delta-sum/n) > 1e-12 || math.Abs(got.tauGeom-residual/n) > 1e-12 {
		t.Errorf("means %v and %v, want %v and %v", got.delta, got.tauGeom, sum/n, residual/n)
	}
}
