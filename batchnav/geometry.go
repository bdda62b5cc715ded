package batchnav

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// metricRidge is what is added to the eigenvalues of a metric, of their mean: directions
// that change nothing decoded are drawn at most this much wider.
const metricRidge = 0.3

// geometry is the pullback metric of D_u, of mean eigenvalue 1 with its ridge, at the
// latent of a decision: drawn under it, a step changes what is decoded alike in every
// direction.
type geometry struct {
	net    backend.Net
	metric tensor.Matrix
	factor []float64
}

func newGeometry(l *loaded) (*geometry, error) {
	net, err := l.backend.NewNet(l.model.DecoderU)
	if err != nil {
		return nil, fmt.Errorf("batchnav: D_u: %w", err)
	}
	n := l.model.Latent()
	return &geometry{net, tensor.New(1, n*n), make([]float64, n*n)}, nil
}

// at factorises the metric at z; nil where it is zero or not a number.
func (g *geometry) at(z []float32) (factor []float64, err error) {
	n := len(z)
	if err := g.net.Metric(tensor.Matrix{Rows: 1, Cols: n, Stride: n, Data: z}, 0, g.metric); err != nil {
		return nil, err
	}
	tensor.Widen(g.factor, g.metric.Row(0))
	mean := 0.0
	for i := range n {
		mean += g.factor[i*n+i] / float64(n)
	}
	if !(mean > 0) || math.IsInf(mean, 0) {
		return nil, nil
	}
	l := g.factor
	for i := range n { // Cholesky, in place
		for j := range i + 1 {
			v := l[i*n+j] / (mean * (1 + metricRidge))
			if i == j {
				v += metricRidge / (1 + metricRidge)
			}
			for k := range j {
				v -= l[i*n+k] * l[j*n+k]
			}
			if i == j {
				l[i*n+i] = math.Sqrt(v)
			} else {
				l[i*n+j] = v / l[j*n+j]
			}
		}
	}
	return l, nil
}
