// Command asm writes the interpreters of lane programs. It is a module of its own
// so that the generator's dependencies stay out of the project's.
//
//	go run . -isa avx512 -out ../run_avx512_amd64.s
//
// What each operation computes is written in lanes.go and
// generic.go; operations are numbered as there. Regenerate with
// `go generate` in internal/simd/lanes.
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	set := flag.String("isa", "", "instruction set: avx512, avx2 or avx2one (one lane)")
	flag.Parse()
	ConstraintExpr("!purego")
	switch *set {
	case "avx512":
		interpreter(avx512)
	case "avx2":
		interpreter(avx2)
	case "avx2one":
		interpreter(avx2one)
	default:
		fmt.Fprintf(os.Stderr, "asm: -isa %q: want avx512, avx2 or avx2one\n", *set)
		os.Exit(2)
	}
	Generate()
}
