// Command asm writes the assembly of the CPU backend. It is a module of its own
// so that the generator's dependencies stay out of the project's.
//
//	go run . -kernel tile-avx512 -out ../internal/gemm/tile_avx512_amd64.s
//
// The Go declarations of what is generated here are written by hand beside the
// output, each with the loop it computes. Regenerate everything with
// `go generate ./...` in cpu_fallback.
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	kernel := flag.String("kernel", "", "what to generate: tile-avx512, tile-avx2, sparse-avx512, sparse-avx2, adam, ceiling")
	flag.Parse()
	ConstraintExpr("!purego")
	switch *kernel {
	case "tile-avx512":
		tile(avx512, false)
		tile(avx512, true)
		gemv(avx512, false)
		gemv(avx512, true)
	case "tile-avx2":
		tile(avx2, false)
		tile(avx2, true)
		gemv(avx2, false)
		gemv(avx2, true)
	case "sparse-avx512":
		compressAVX512()
		activeAVX512()
	case "sparse-avx2":
		compressAVX2()
		activeAVX2()
	case "adam":
		adam(avx512)
		adam(avx2)
	case "ceiling":
		peak(avx512)
		peak(avx2)
		triad(avx512)
		triad(avx2)
	default:
		fmt.Fprintf(os.Stderr, "asm: unknown kernel %q\n", *kernel)
		os.Exit(2)
	}
	Generate()
}
