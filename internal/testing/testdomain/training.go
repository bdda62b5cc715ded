package testdomain

import (
	"math/rand/v2"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// Matrix draws independent standard normal numbers.
func Matrix(rng *rand.Rand, rows, cols int) tensor.Matrix {
	m := tensor.New(rows, cols)
	for i := range m.Data {
		m.Data[i] = float32(rng.NormFloat64())
	}
	return m
}

// TrainingRun is a run over rows of normal data in chains of ten, of networks with
// these widths, with every loss at a weight of its own and neither spectral bound nor
// neighbours.
//
// γ_L is small and λ_m large: a small gap between eigenvalues leaves the Lie
// residual's frame undetermined, and training rows cannot be left out.
func TrainingRun(rng *rand.Rand, rows int, bias float64, ex, eo, du, ds []int) backend.TrainerConfig {
	cfg := backend.TrainerConfig{
		Data: backend.TrainingSet{
			X: Matrix(rng, rows, ex[0]), O: Matrix(rng, rows, eo[0]), S: Matrix(rng, rows, ds[len(ds)-1]), U: Matrix(rng, rows, du[len(du)-1]),
			Next: make([]int32, rows), RiskWeight: make([]float32, rows),
		},
		Initial: backend.Networks{
			EncoderX: Network(rng, bias, ex...), EncoderO: Network(rng, bias, eo...), DecoderU: Network(rng, bias, du...), DecoderS: Network(rng, bias, ds...),
		},
		Manifold: backend.ManifoldLoss{ReconX: 1, Action: 0.875, ReconO: 0.5, Consistency: 0.25, ConsistencyBeta: 0.5, Locality: 0.125, IsometryAlpha: 0.75},
		Rollout: backend.RolloutLoss{Delta: 0.5, Roll: 0.75, Flow: 0.25, Lie: 0.5, RollFraction: 0.875, FlowFraction: 0.5,
			MetricLambda: 1, TopK: min(3, ds[0]), LieGain: 0.125, LieScale: 0.5, LieDt: 0.25},
		Adam: backend.Adam{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-3}, MaxBatch: rows,
	}
	for i := range cfg.Data.Next {
		cfg.Data.Next[i], cfg.Data.RiskWeight[i] = int32(i+1), rng.Float32()
		if i%10 == 9 || i == rows-1 {
			cfg.Data.Next[i] = -1
		}
	}
	return cfg
}

// ManifoldBatch draws the arguments of a manifold update of a TrainingRun.
func ManifoldBatch(rng *rand.Rand, rows, batch, kappa int) (samples, neighbours []int32, kernel []float32) {
	for range batch {
		samples = append(samples, int32(rng.IntN(rows)))
		for range kappa {
			neighbours, kernel = append(neighbours, int32(rng.IntN(rows))), append(kernel, rng.Float32())
		}
	}
	return samples, neighbours, kernel
}

// RolloutBatch draws rows of a TrainingRun that have a successor.
func RolloutBatch(rng *rand.Rand, rows, batch int) (samples []int32) {
	for range batch {
		samples = append(samples, int32(10*rng.IntN(rows/10)+rng.IntN(9)))
	}
	return samples
}
