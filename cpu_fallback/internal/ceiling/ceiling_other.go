//go:build !amd64 || purego

package ceiling

import "github.com/gpc-engine/gpc/internal/simd/isa"

func flopsPerRound(isa.Level) int                     { return 2 * genericChains }
func peak(_ isa.Level, rounds int)                    { sink(peakGeneric(rounds)) }
func triad(_ isa.Level, a, b, c []float32, s float32) { triadGeneric(a, b, c, s) }
