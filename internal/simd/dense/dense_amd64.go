//go:build !purego

package dense

import "github.com/gpc-engine/gpc/internal/simd/isa"

//go:generate -command asm go run -C _asm . -pkg dense
//go:generate asm -isa avx512 -out ../add_avx512_amd64.s -stubs ../add_avx512_amd64.go
//go:generate asm -isa avx2 -out ../add_avx2_amd64.s -stubs ../add_avx2_amd64.go

// level is that of the kernels. GPC_CPU with a name that is none is refused where a backend is opened.
var level = func() isa.Level {
	level, err := isa.Choose()
	if err != nil {
		return isa.Generic
	}
	return level
}()

func run(p *Product, c, d, a, b []float64) {
	switch level {
	case isa.AVX512:
		addAVX512(&p.sizes[0], &c[0], &d[0], &a[0], &b[0])
	case isa.AVX2:
		addAVX2(&p.sizes[0], &c[0], &d[0], &a[0], &b[0])
	default:
		p.add(c, d, a, b)
	}
}
