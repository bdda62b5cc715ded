package training

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

func dot(a, b []float64) float64 {
	s := 0.0
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

// axpy is y += a x.
func axpy(y []float64, a float64, x []float64) {
	for i, v := range x {
		y[i] += a * v
	}
}

func sub(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

func scaled(a float64, x []float64) []float64 {
	y := make([]float64, len(x))
	axpy(y, a, x)
	return y
}

func squaredNorm(a []float64) float64 { return dot(a, a) }

func norm(a []float64) float64 { return math.Sqrt(dot(a, a)) }

// wide copies one float32 row into float64.
func wide(row []float32) []float64 {
	v := make([]float64, len(row))
	tensor.Widen(v, row)
	return v
}
