//go:build !purego

package powerflow

import (
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// vectors says whether the kernels in registers of vectors serve, in place of the loops of Go next to their calls.
var vectors = func() bool {
	level, err := isa.Choose()
	return err == nil && level >= isa.AVX2
}()

//go:noescape
func forwardAVX2(start, row []int32, lower, x []float64)

//go:noescape
func backwardAVX2(start, row []int32, upper, inverse, x []float64)

//go:noescape
func injectAVX2(first []int32, entries []admittance, v [][2]float64, vm, gd, bd, p, q []float64)

//go:noescape
func eliminateAVX2(column, right, data []float64, target []int32, inverse *[4]float64)

//go:noescape
func halvesAVX2(lowerHalves, upperHalves []half, path, start, row []int32, upper, lower, inverse []float64)

//go:noescape
func mismatchAVX2(position []int32, kind []network.Kind, ps, qs, p, q, x []float64, size float64) (worst, sum float64)

//go:noescape
func moveAVX2(position []int32, x, vm, va []float64, v [][2]float64, terms *[6][2]float64, scale float64)

//go:noescape
func lengthsAVX2(x []float64, largest, squares *[4]float64)

//go:noescape
func addDotAVX2(x []float64, factor float64, a []float64, sums *[4]float64)

//go:noescape
func forwardLanesAVX2(start, row []int32, lower, x []float64)

//go:noescape
func backwardLanesAVX2(start, row []int32, upper, inverse, x []float64)

//go:noescape
func injectLanesAVX2(first []int32, entries []admittance, v, voltages []quad, gd, bd []float64, injections []quad)

//go:noescape
func mismatchLanesAVX2(position []int32, masks [][lanes]int64, specified, injections []quad, x []float64, size float64, worst, total *[lanes]float64)

//go:noescape
func moveLanesAVX2(position []int32, x []float64, factor *[lanes]float64, voltages, v []quad, terms *[18][lanes]float64, largest *quad, squares *[lanes]float64)

//go:noescape
func addDotLanesAVX2(x []float64, factor *[lanes]float64, a []float64, sums *[lanes]float64)

//go:noescape
func timesLanesAVX2(positions []int32, values, x []float64, sums *[lanes]float64)

//go:noescape
func addLanesAVX2(positions []int32, values, x []float64, factors *[lanes]float64)

//go:noescape
func loadingAVX2(ends [][2]int32, terms [][3][lanes]float64, v [][2]float64, rate, fromFloor, toFloor []float64, rounded float64, list []int32) (n int)
