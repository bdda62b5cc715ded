//go:build amd64 && !purego

package dots

import "github.com/gpc-engine/gpc/internal/simd/isa"

//go:generate go -C _asm run . -out ../dots_amd64.s -stubs ../stubs_amd64.go -pkg dots

// wide says that the kernel can run. GPC_CPU with a name that is none is refused where
// a backend is opened.
var wide = func() bool {
	level, err := isa.Choose()
	return err == nil && level >= isa.AVX2
}()
