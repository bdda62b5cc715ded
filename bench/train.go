package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/model"
)

// trainer is what training of a shape begins with: random data, the networks, every
// term of the losses but, without neighbours, locality.
func (s Shape) trainer(rng *rand.Rand, rows, batch, neighbours int) (backend.TrainerConfig, error) {
	nets, err := s.networks(rng)
	if err != nil {
		return backend.TrainerConfig{}, err
	}
	oracle := s.State + 2*s.Objectives
	eo, err := model.NewMLP(rng, oracle, s.Hidden, s.Hidden, s.Latent)
	if err != nil {
		return backend.TrainerConfig{}, err
	}
	next := make([]int32, rows)
	for i := range next {
		next[i] = -1
	}
	cfg := backend.TrainerConfig{
		Data: backend.TrainingSet{
			X: random(rng, rows, s.Observation), O: random(rng, rows, oracle), S: random(rng, rows, s.State), U: random(rng, rows, s.Action),
			Next: next, RiskWeight: make([]float32, rows),
		},
		Initial:  backend.Networks{EncoderX: nets.encoderX, EncoderO: eo, DecoderU: nets.decoderU, DecoderS: nets.decoderS},
		Manifold: backend.ManifoldLoss{ReconX: 1, Action: 1, ReconO: 1, Consistency: 1, ConsistencyBeta: 0.1},
		Adam:     backend.Adam{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}, SpectralBound: 50,
		MaxBatch: batch, MaxNeighbours: neighbours,
	}
	if neighbours > 0 {
		cfg.Manifold.Locality = 1
	}
	return cfg, nil
}

// train is one update of all four networks, by the count forward 1×, backward 2×
// of every network pass.
func train(ctx context.Context, r *Runner, s Shape) error {
	const rows = 8192
	batch := min(slices.Max(r.opt.Batches), rows)
	cfg, err := s.trainer(r.Rand(), rows, batch, 0)
	if err != nil {
		return err
	}
	t, err := r.b.NewTrainer(cfg)
	if err != nil {
		return err
	}
	order := make([]int32, rows)
	for i := range order {
		order[i] = int32(i)
	}
	nets := cfg.Initial
	flops := 3 * (cpufallback.ForwardFLOPs(nets.EncoderX) + cpufallback.ForwardFLOPs(nets.EncoderO) + 2*cpufallback.ForwardFLOPs(nets.DecoderS) + cpufallback.ForwardFLOPs(nets.DecoderU))
	offset := 0
	return r.row(ctx, "train", s, fmt.Sprintf("%s, x %d", s, s.Observation), batch, work{flops: float64(batch) * flops}, nil, func() error {
		if offset+batch > rows {
			offset = 0
		}
		_, err := t.ManifoldStep(order[offset:offset+batch], nil, nil, 1e-4)
		offset += batch
		return err
	})
}

// What train-epochs takes unless it is asked for something else: the paper's
// training.
const (
	defaultSamples = 250_000
	defaultEpochs  = 500
)

// trainEpochs is a whole manifold training, one neighbour a sample, in shuffled
// batches: run where Options.Epochs says how many, and otherwise 500 epochs
// extrapolated from some updates. Drawing the batches counts, as it does in a
// training; evaluation and rollout-aware refinement are not part of it.
func trainEpochs(ctx context.Context, r *Runner, s Shape) error {
	samples, epochs := cmp.Or(r.opt.Samples, defaultSamples), r.opt.Epochs
	batch := min(slices.Max(r.opt.Batches), samples)
	cfg, err := s.trainer(r.Rand(), samples, batch, 1)
	if err != nil {
		return err
	}
	t, err := r.b.NewTrainer(cfg)
	if err != nil {
		return err
	}
	rng := r.Rand()
	order, neighbours, kernel := make([]int32, samples), make([]int32, samples), make([]float32, samples)
	for i := range order {
		order[i], kernel[i] = int32(i), 1
	}
	losses := make([]backend.ManifoldLosses, backend.Together(t))
	// updates makes as many as a training does in one call, from row offset of an epoch on, and
	// says where the next begins.
	updates := func(offset int) (next int, err error) {
		if offset == 0 {
			rng.Shuffle(samples, func(i, j int) { order[i], order[j] = order[j], order[i] })
			for i, row := range order {
				neighbours[i] = (row + 1) % int32(samples)
			}
		}
		var list []backend.ManifoldUpdate
		for len(list) < len(losses) && offset < samples {
			end := min(offset+batch, samples)
			list = append(list, backend.ManifoldUpdate{Rows: order[offset:end], Neighbours: neighbours[offset:end], Kernel: kernel[offset:end], Rate: 1e-4})
			offset = end
		}
		return offset, backend.ManifoldSteps(t, list, losses[:len(list)])
	}
	peak := r.Peak()
	var total float64 // µs
	extrapolated := epochs == 0
	if extrapolated {
		epochs = defaultEpochs
		offset := 0
		var sizes []float64 // samples of each call
		us, err := latencies(ctx, r.opt.Budget, func() error {
			next, err := updates(offset)
			sizes = append(sizes, float64(next-offset))
			if offset = next; offset == samples {
				offset = 0
			}
			return err
		})
		if err != nil {
			return err
		}
		total = floats.Sum(us) / floats.Sum(sizes[len(sizes)-len(us):]) * float64(samples) * float64(epochs)
	} else {
		start := time.Now()
		for range epochs {
			for offset := 0; offset < samples; {
				if err := ctx.Err(); err != nil {
					return err
				}
				if offset, err = updates(offset); err != nil {
					return err
				}
			}
		}
		if _, err := t.Networks(); err != nil { // the last update is made
			return err
		}
		total = machine.Microseconds(time.Since(start))
	}
	res := r.result("train-epochs", s, fmt.Sprintf("%s, x %d, %d epochs × %d samples", s, s.Observation, epochs, samples), batch)
	res.Samples, res.Epochs, res.Extrapolated = samples, epochs, extrapolated
	r.Add(res, []float64{total}, cfg.Initial.ManifoldFLOPs(1)*float64(samples)*float64(epochs), math.Max(peak, r.Peak()))
	return nil
}
