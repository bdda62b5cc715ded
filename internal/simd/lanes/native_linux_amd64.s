//go:build !purego

#include "textflag.h"

// func callAVX512(code uintptr, cells *float64)
TEXT ·callAVX512(SB), NOSPLIT, $8-16
	MOVQ         code+0(FP), BX
	MOVQ         cells+8(FP), DI
	VXORPD       Z14, Z14, Z14
	MOVQ         $0x3ff0000000000000, AX
	MOVQ         AX, X13
	VPBROADCASTQ X13, Z13
	MOVQ         $0x8000000000000000, AX
	MOVQ         AX, X15
	VPBROADCASTQ X15, Z15
	CALL         BX
	RET

// func callAVX2(code uintptr, cells *float64)
TEXT ·callAVX2(SB), NOSPLIT, $8-16
	MOVQ         code+0(FP), BX
	MOVQ         cells+8(FP), DI
	VXORPD       Y14, Y14, Y14
	MOVQ         $0x3ff0000000000000, AX
	MOVQ         AX, X13
	VPBROADCASTQ X13, Y13
	MOVQ         $0x8000000000000000, AX
	MOVQ         AX, X15
	VPBROADCASTQ X15, Y15
	CALL         BX
	RET
