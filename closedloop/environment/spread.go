package environment

import (
	"context"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// Spread is the mean and the standard deviation of the first observations of a seed of its own, [measured state,
// context]. It is a normalisation for a case without a map. A deviation of zero is 1.
func Spread(ctx context.Context, c *domain.Case, opt Options) (mean, deviation []float64, err error) {
	const starts = 64
	opt.Environments, opt.Seed = starts, spreadSeed
	opt.Cycle, opt.Noise = 0, 0
	f, err := New[float64](c, opt)
	if err != nil {
		return nil, nil, err
	}
	width := f.ns + f.nc
	rows := &Rows[float64]{Observation: make([]float64, starts*width)}
	if err := f.Reset(ctx, nil, nil, rows); err != nil {
		return nil, nil, err
	}
	mean, deviation = make([]float64, width), make([]float64, width)
	for k := range width {
		sum, squares := 0.0, 0.0
		for i := range starts {
			sum += rows.Observation[i*width+k]
		}
		mean[k] = sum / starts
		for i := range starts {
			d := rows.Observation[i*width+k] - mean[k]
			squares += d * d
		}
		if deviation[k] = math.Sqrt(squares / starts); deviation[k] == 0 {
			deviation[k] = 1
		}
	}
	return mean, deviation, nil
}

// spreadSeed is apart from what anyone trains or tests on.
const spreadSeed = 0x7370_7265_6164 // "spread"
