package backendtest

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

// checkThreads runs every operation with one and with two threads and compares
// bit for bit.
func checkThreads(t testing.TB, open Open) {
	var results [2]map[string][]float32
	for i := range results {
		results[i] = everything(t, opened(t, open, i+1))
	}
	for name, one := range results[0] {
		if err := identical(results[1][name], one); err != nil {
			t.Errorf("%s: two threads against one: %v", name, err)
		}
	}
}

// everything is one result of each operation, by name.
func everything(t testing.TB, b backend.Backend) map[string][]float32 {
	t.Helper()
	results := map[string][]float32{}
	check := func(err error) {
		t.Helper()
		require.OK(t, err)
	}
	for name, widths := range map[string][]int{"narrow net": {3, 7, 7, 2}, "wide net": {33, 256, 256, 12}} {
		for _, batch := range []int{33, 67} {
			rng := newRand(1500)
			mlp := testdomain.Network(rng, 0.2, widths...)
			r, err := runNet(b, mlp, testdomain.Matrix(rng, batch, mlp.In()), testdomain.Matrix(rng, batch, mlp.Out()))
			check(err)
			results[name] = append(results[name], r.joined()...)
		}
	}
	g := metrics(1501, 131, 16)
	values, vectors, err := runEig(b, g, 16, 3)
	check(err)
	results["eig"] = all(values.Data, vectors.Data)

	for name, s := range map[string]stepShape{"step": {3, 33, 4, 9, 2, 1, 3, 131}, "wide step": {16, 256, 4, 9, 2, 1, 3, 67}} {
		rng := newRand(1502)
		cfg, in := s.config(rng), s.input(rng, s.batch)
		r, err := runStep(b, cfg, in)
		check(err)
		results[name] = r.joined()
	}

	set := newCodeSet(1503, 3000, 5, 4)
	index, err := b.NewIndex(set.codes, set.decoded)
	check(err)
	x, z := set.queries(1504, 131)
	tau := make([]float32, 131)
	for r := range tau {
		tau[r] = 0.05
	}
	l, err := runLocalize(index, x, z, tau, 12)
	check(err)
	asFloat := tensor.New(1, len(l.nearest))
	for i, v := range l.nearest {
		asFloat.Data[i] = float32(v)
	}
	results["localize"] = all(l.z.Data, asFloat.Data, l.residual)

	for _, c := range []trainerCase{trainerCases[1], trainerCases[4]} {
		for _, chained := range []bool{false, true} {
			cfg, chain := c.config(1505), backend.Chain{}
			name := "training, " + c.name
			if chained {
				cfg, chain = c.chained(cfg, 1506)
				name += ", along chains"
			}
			trainer, err := b.NewTrainer(cfg)
			check(err)
			for step := range 2 {
				rows, neighbours, kernel := c.manifoldArguments(step)
				loss, err := trainer.ManifoldStep(rows, neighbours, kernel, trainerRate)
				check(err)
				results[name] = append(results[name], float32(loss.Total))
			}
			check(trainer.PrepareRollout())
			if chained {
				check(trainer.SetChain(chain))
			}
			for step := range 2 {
				loss, err := trainer.RolloutStep(c.rolloutRows(step), trainerRate)
				check(err)
				results[name] = append(results[name], float32(loss.Total))
			}
			results[name] = append(results[name], networkParameters(t, trainer)...)
		}
	}
	return results
}
