//go:build !amd64 || purego

package powerflow

import "github.com/gpc-engine/gpc/grid/network"

var vectors = false

func forwardAVX2(_, _ []int32, _, _ []float64)                                           {}
func backwardAVX2(_, _ []int32, _, _, _ []float64)                                       {}
func injectAVX2(_ []int32, _ []admittance, _ [][2]float64, _, _, _, _, _ []float64)      {}
func eliminateAVX2(_, _, _ []float64, _ []int32, _ *[4]float64)                          {}
func halvesAVX2(_, _ []half, _, _, _ []int32, _, _, _ []float64)                         {}
func moveAVX2(_ []int32, _, _, _ []float64, _ [][2]float64, _ *[6][2]float64, _ float64) {}
func lengthsAVX2(_ []float64, _, _ *[4]float64)                                          {}
func addDotAVX2(_ []float64, _ float64, _ []float64, _ *[4]float64)                      {}
func mismatchAVX2(_ []int32, _ []network.Kind, _, _, _, _, _ []float64, _ float64) (worst, sum float64) {
	return 0, 0
}

func forwardLanesAVX2(_, _ []int32, _, _ []float64)                                    {}
func backwardLanesAVX2(_, _ []int32, _, _, _ []float64)                                {}
func injectLanesAVX2(_ []int32, _ []admittance, _, _ []quad, _, _ []float64, _ []quad) {}
func timesLanesAVX2(_ []int32, _, _ []float64, _ *[lanes]float64)                      {}
func addLanesAVX2(_ []int32, _, _ []float64, _ *[lanes]float64)                        {}
func addDotLanesAVX2(_ []float64, _ *[lanes]float64, _ []float64, _ *[lanes]float64)   {}
func mismatchLanesAVX2(_ []int32, _ [][lanes]int64, _, _ []quad, _ []float64, _ float64, _, _ *[lanes]float64) {
}
func moveLanesAVX2(_ []int32, _ []float64, _ *[lanes]float64, _, _ []quad, _ *[18][lanes]float64, _ *quad, _ *[lanes]float64) {
}
func loadingAVX2(_ [][2]int32, _ [][3][lanes]float64, _ [][2]float64, _, _, _ []float64, _ float64, _ []int32) int {
	return 0
}
