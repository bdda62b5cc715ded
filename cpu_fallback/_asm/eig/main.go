// Command eig generates the assembly of cpu_fallback/internal/eig. Every kernel
// is emitted twice by the same code, for 16 lanes (AVX-512) and 8 (AVX2). The
// loop each one computes is its Go twin in generic.go; the variables here have
// the same names.
package main

import . "github.com/mmcloughlin/avo/build"

// The constants of generic.go.
const (
	negligible    = 0x1p-60
	floorE2       = 0x1p-100
	epsilon       = 0x1p-23
	blur          = 0x1p-22
	smallestBlur  = 0x1p-40
	smallestPivot = 0x1p-100
	chunk         = 3
)

func main() {
	ConstraintExpr("amd64,!purego")
	packHalf()
	for _, k := range []kernel{{lanes: 16, name: "AVX512"}, {lanes: 8, name: "AVX2"}} {
		k.largest()
		k.scale()
		k.tridiagonalise()
		k.bound()
		k.bisect()
		k.factor()
		k.solve()
		k.normalise()
		k.reflect()
	}
	Generate()
}
