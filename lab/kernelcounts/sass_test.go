package main

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// disassembly is what nvdisasm -c prints of a kernel with a product in a loop, cut short.
const disassembly = `
	.section	.nv.info,"",@"SHT_CUDA_INFO"
	.section	.text.gpc_try,"ax",@progbits
	.sectioninfo	@"SHI_REGISTERS=40"
gpc_try:
.text.gpc_try:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA ` + "`(.L_x_1)" + ` ;
.L_x_0:
        /*0020*/                   LDS.128 R4, [R2] ;
        /*0030*/                   LDS.64 R8, [R3+UR4] ;
FFMAS        /*0240*/                   STS [R5], R6 ;
        /*0250*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0260*/               @P1 BRA ` + "`(.L_x_0)" + ` ;
.L_x_1:
        /*0270*/                   EXIT ;
.L_x_2:
        /*0280*/                   BRA ` + "`(.L_x_2)" + `;
        /*0290*/                   NOP;
	.section	.text.gpc_other,"ax",@progbits
.text.gpc_other:
        /*0000*/                   STL.128 [R1], R4 ;
        /*0010*/                   EXIT ;
`

func TestProductsOfMachineCode(t *testing.T) {
	var ffma strings.Builder
	for at := 0x40; at < 0x240; at += 0x10 {
		ffma.WriteString("        /*0" + string("0123456789abcdef"[at>>8]) + string("0123456789abcdef"[at>>4&15]) + "0*/                   FFMA.FTZ R9, R4, R8, R9 ;\n")
	}
	kernels := require.Get(parseSASS(strings.Replace(disassembly, "FFMAS", ffma.String(), 1)))(t)
	if len(kernels) != 2 || kernels[0].name != "gpc_try" || kernels[1].name != "gpc_other" {
		t.Fatalf("kernels %v", kernels)
	}
	if n := len(kernels[0].loops()); n != 1 {
		t.Errorf("%d loops, want one: the branch to itself ends the kernel", n)
	}
	products := kernels[0].products()
	if len(products) != 1 {
		t.Fatalf("%d products, want 1", len(products))
	}
	p := products[0]
	if p.ffma != 32 || p.loads != (access{0, 1, 1}) || p.stores != (access{1, 0, 0}) || p.instructions != 37 || p.overhead != 0 {
		t.Errorf("product %+v", p)
	}
	// 32 FFMA: 8 cycles of the multiply-add pipes, 37/4 to issue, 3 to 6 requests.
	if l := p.limits(); l != (productLimits{unit: 32, arithmetic: 8, issue: 9.25, least: 3, most: 6}) {
		t.Errorf("limits %+v", l)
	}
	if n := len(kernels[1].products()); n != 0 {
		t.Errorf("a kernel without a loop has %d products", n)
	}
}

// A multiprocessor holds what threads, registers and shared memory leave room for.
func TestBlocksOfAMultiprocessor(t *testing.T) {
	for _, c := range []struct {
		k       kernelCode
		dynamic int
		want    int
	}{
		{kernelCode{threads: 256, registers: 128}, 107520, 2},
		{kernelCode{threads: 256, registers: 129}, 0, 1},
		{kernelCode{threads: 256, registers: 32}, 0, 8},
		{kernelCode{threads: 32, registers: 72}, 10752, 19},
		{kernelCode{threads: 32, registers: 16}, 0, 32},
		{kernelCode{threads: 256, registers: 80, shared: 1024}, 75776, 3},
	} {
		if got := blocksOf(c.k, c.dynamic); got != c.want {
			t.Errorf("%+v with %d bytes: %d blocks, want %d", c.k, c.dynamic, got, c.want)
		}
	}
}
