//go:build !purego

#include "textflag.h"

// TRANSPOSE8 transposes Z0 to Z7, eight numbers each, and uses Z8 to Z15.
#define TRANSPOSE8 \
	VUNPCKLPD  Z1, Z0, Z8           \
	VUNPCKHPD  Z1, Z0, Z9           \
	VUNPCKLPD  Z3, Z2, Z10          \
	VUNPCKHPD  Z3, Z2, Z11          \
	VUNPCKLPD  Z5, Z4, Z12          \
	VUNPCKHPD  Z5, Z4, Z13          \
	VUNPCKLPD  Z7, Z6, Z14          \
	VUNPCKHPD  Z7, Z6, Z15          \
	VSHUFF64X2 $0x88, Z10, Z8, Z0   \
	VSHUFF64X2 $0x88, Z11, Z9, Z1   \
	VSHUFF64X2 $0xdd, Z10, Z8, Z2   \
	VSHUFF64X2 $0xdd, Z11, Z9, Z3   \
	VSHUFF64X2 $0x88, Z14, Z12, Z4  \
	VSHUFF64X2 $0x88, Z15, Z13, Z5  \
	VSHUFF64X2 $0xdd, Z14, Z12, Z6  \
	VSHUFF64X2 $0xdd, Z15, Z13, Z7  \
	VSHUFF64X2 $0x88, Z4, Z0, Z8    \
	VSHUFF64X2 $0x88, Z5, Z1, Z9    \
	VSHUFF64X2 $0x88, Z6, Z2, Z10   \
	VSHUFF64X2 $0x88, Z7, Z3, Z11   \
	VSHUFF64X2 $0xdd, Z4, Z0, Z12   \
	VSHUFF64X2 $0xdd, Z5, Z1, Z13   \
	VSHUFF64X2 $0xdd, Z6, Z2, Z14   \
	VSHUFF64X2 $0xdd, Z7, Z3, Z15

// FIRST has in K1 the columns of a block that there are, of CX.
#define FIRST \
	MOVL    $8, DX     \
	CMPQ    CX, DX     \
	CMOVQLT CX, DX     \
	MOVL    $-1, AX    \
	BZHIL   DX, AX, AX \
	KMOVW   AX, K1

// func scatterRows(cells, rows *float64, stride uintptr, columns int)
TEXT ·scatterRows(SB), NOSPLIT, $0-32
	MOVQ cells+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ stride+16(FP), R8
	MOVQ columns+24(FP), CX
	LEAQ (R8)(R8*2), R9

block:
	FIRST
	LEAQ      (SI)(R8*4), R10
	VMOVUPD.Z (SI), K1, Z0
	VMOVUPD.Z (SI)(R8*1), K1, Z1
	VMOVUPD.Z (SI)(R8*2), K1, Z2
	VMOVUPD.Z (SI)(R9*1), K1, Z3
	VMOVUPD.Z (R10), K1, Z4
	VMOVUPD.Z (R10)(R8*1), K1, Z5
	VMOVUPD.Z (R10)(R8*2), K1, Z6
	VMOVUPD.Z (R10)(R9*1), K1, Z7
	TRANSPOSE8
	VMOVUPD   Z8, (DI)
	SUBQ      $1, CX
	JZ        end
	VMOVUPD   Z9, 64(DI)
	SUBQ      $1, CX
	JZ        end
	VMOVUPD   Z10, 128(DI)
	SUBQ      $1, CX
	JZ        end
	VMOVUPD   Z11, 192(DI)
	SUBQ      $1, CX
	JZ        end
	VMOVUPD   Z12, 256(DI)
	SUBQ      $1, CX
	JZ        end
	VMOVUPD   Z13, 320(DI)
	SUBQ      $1, CX
	JZ        end
	VMOVUPD   Z14, 384(DI)
	SUBQ      $1, CX
	JZ        end
	VMOVUPD   Z15, 448(DI)
	ADDQ      $64, SI
	ADDQ      $512, DI
	SUBQ      $1, CX
	JNZ       block

end:
	VZEROUPPER
	RET

// func gatherRows(rows *float64, stride uintptr, n int, cells *float64, columns int)
TEXT ·gatherRows(SB), NOSPLIT, $0-40
	MOVQ rows+0(FP), DI
	MOVQ stride+8(FP), R8
	MOVQ n+16(FP), R11
	MOVQ cells+24(FP), SI
	MOVQ columns+32(FP), CX
	LEAQ (R8)(R8*2), R9

block:
	FIRST
	VMOVUPD (SI), Z0
	CMPQ    CX, $1
	JEQ     loaded
	VMOVUPD 64(SI), Z1
	CMPQ    CX, $2
	JEQ     loaded
	VMOVUPD 128(SI), Z2
	CMPQ    CX, $3
	JEQ     loaded
	VMOVUPD 192(SI), Z3
	CMPQ    CX, $4
	JEQ     loaded
	VMOVUPD 256(SI), Z4
	CMPQ    CX, $5
	JEQ     loaded
	VMOVUPD 320(SI), Z5
	CMPQ    CX, $6
	JEQ     loaded
	VMOVUPD 384(SI), Z6
	CMPQ    CX, $7
	JEQ     loaded
	VMOVUPD 448(SI), Z7

loaded:
	TRANSPOSE8
	LEAQ    (DI)(R8*4), R10
	VMOVUPD Z8, K1, (DI)
	CMPQ    R11, $2
	JLT     stored
	VMOVUPD Z9, K1, (DI)(R8*1)
	JEQ     stored
	VMOVUPD Z10, K1, (DI)(R8*2)
	CMPQ    R11, $4
	JLT     stored
	VMOVUPD Z11, K1, (DI)(R9*1)
	JEQ     stored
	VMOVUPD Z12, K1, (R10)
	CMPQ    R11, $6
	JLT     stored
	VMOVUPD Z13, K1, (R10)(R8*1)
	JEQ     stored
	VMOVUPD Z14, K1, (R10)(R8*2)
	CMPQ    R11, $8
	JLT     stored
	VMOVUPD Z15, K1, (R10)(R9*1)

stored:
	ADDQ $512, SI
	ADDQ $64, DI
	SUBQ $8, CX
	JGT  block
	VZEROUPPER
	RET
