//go:build !purego

#include "textflag.h"

// func forwardAVX2(start, row []int32, lower, x []float64)
TEXT ·forwardAVX2(SB), NOSPLIT, $0-96
	MOVQ   start_base+0(FP), SI
	MOVQ   start_len+8(FP), CX
	MOVQ   row_base+24(FP), DI
	MOVQ   lower_base+48(FP), R8
	MOVQ   x_base+72(FP), R10
	DECQ   CX
	XORQ   AX, AX
	VXORPD X5, X5, X5

forward:
	CMPQ AX, CX
	JGE  forwardEnd
	MOVQ AX, BX
	SHLQ $4, BX
	VBROADCASTF128 (R10)(BX*1), Y2
	VCMPPD    $4, X5, X2, X3
	VMOVMSKPD X3, DX
	TESTL     DX, DX
	JZ        forwardNext
	MOVLQSX   (SI)(AX*4), R11
	MOVLQSX   4(SI)(AX*4), R12
	MOVQ      R11, R13
	SHLQ      $5, R13
	ADDQ      R8, R13

forwardBlock:
	CMPQ         R11, R12
	JGE          forwardNext
	MOVLQSX      (DI)(R11*4), BX
	SHLQ         $4, BX
	VMULPD       (R13), Y2, Y0
	VEXTRACTF128 $1, Y0, X1
	VHADDPD      X1, X0, X0
	VMOVUPD      (R10)(BX*1), X1
	VSUBPD       X0, X1, X1
	VMOVUPD      X1, (R10)(BX*1)
	ADDQ         $32, R13
	INCQ         R11
	JMP          forwardBlock

forwardNext:
	INCQ AX
	JMP  forward

forwardEnd:
	VZEROUPPER
	RET

// func backwardAVX2(start, row []int32, upper, inverse, x []float64)
TEXT ·backwardAVX2(SB), NOSPLIT, $0-120
	MOVQ start_base+0(FP), SI
	MOVQ start_len+8(FP), CX
	MOVQ row_base+24(FP), DI
	MOVQ upper_base+48(FP), R8
	MOVQ inverse_base+72(FP), R9
	MOVQ x_base+96(FP), R10
	DECQ CX

backward:
	DECQ    CX
	JLT     backwardEnd
	MOVLQSX (SI)(CX*4), R11
	MOVLQSX 4(SI)(CX*4), R12
	MOVQ    R11, R13
	SHLQ    $5, R13
	ADDQ    R8, R13
	VXORPD  Y0, Y0, Y0

backwardBlock:
	CMPQ    R11, R12
	JGE     backwardPivot
	MOVLQSX (DI)(R11*4), BX
	SHLQ    $4, BX
	VBROADCASTF128 (R10)(BX*1), Y1
	VMULPD  (R13), Y1, Y1
	VADDPD  Y1, Y0, Y0
	ADDQ    $32, R13
	INCQ    R11
	JMP     backwardBlock

backwardPivot:
	VEXTRACTF128 $1, Y0, X1
	VHADDPD      X1, X0, X0
	MOVQ         CX, BX
	SHLQ         $4, BX
	VMOVUPD      (R10)(BX*1), X2
	VSUBPD       X0, X2, X2
	VINSERTF128  $1, X2, Y2, Y2
	MOVQ         BX, AX
	SHLQ         $1, AX
	VMULPD       (R9)(AX*1), Y2, Y2
	VEXTRACTF128 $1, Y2, X1
	VHADDPD      X1, X2, X2
	VMOVUPD      X2, (R10)(BX*1)
	JMP          backward

backwardEnd:
	VZEROUPPER
	RET

// func injectAVX2(first []int32, entries []admittance, v [][2]float64, vm, gd, bd, p, q []float64)
TEXT ·injectAVX2(SB), NOSPLIT, $0-192
	MOVQ first_base+0(FP), SI
	MOVQ entries_base+24(FP), DI
	MOVQ v_base+48(FP), R8
	MOVQ vm_base+72(FP), R9
	MOVQ gd_base+96(FP), R10
	MOVQ bd_base+120(FP), R11
	MOVQ p_base+144(FP), R12
	MOVQ p_len+152(FP), CX
	MOVQ q_base+168(FP), R13
	XORQ AX, AX

inject:
	CMPQ    AX, CX
	JGE     injectEnd
	MOVLQSX 4(SI)(AX*4), DX
	MOVLQSX (SI)(AX*4), BX
	SUBQ    BX, DX
	VXORPD  X0, X0, X0
	VXORPD  X1, X1, X1

injectEntry:
	DECQ     DX
	JLT      injectBus
	MOVLQSX  (DI), BX
	SHLQ     $4, BX
	VMOVUPD  (R8)(BX*1), X4
	VMOVDDUP 8(DI), X2
	VMOVDDUP 16(DI), X3
	VMULPD   X4, X2, X2
	VMULPD   X4, X3, X3
	VADDPD   X2, X0, X0
	VADDPD   X3, X1, X1
	ADDQ     $24, DI
	JMP      injectEntry

injectBus:
	VPERMILPD $1, X1, X1
	VADDSUBPD X1, X0, X0
	MOVQ      AX, BX
	SHLQ      $4, BX
	VMOVUPD   (R8)(BX*1), X4
	VMULPD    X0, X4, X5
	VPERMILPD $1, X4, X6
	VMULPD    X0, X6, X6
	VHADDPD   X5, X5, X5
	VHSUBPD   X6, X6, X6
	VMOVSD    (R9)(AX*8), X7
	VMULSD    X7, X7, X7
	VMULSD    (R10)(AX*8), X7, X8
	VMULSD    (R11)(AX*8), X7, X7
	VADDSD    X5, X8, X8
	VSUBSD    X7, X6, X6
	VMOVSD    X8, (R12)(AX*8)
	VMOVSD    X6, (R13)(AX*8)
	INCQ      AX
	JMP       inject

injectEnd:
	RET

// func mismatchAVX2(position []int32, kind []network.Kind, ps, qs, p, q, x []float64, size float64) (worst, sum float64)
TEXT ·mismatchAVX2(SB), NOSPLIT, $0-192
	MOVQ     position_base+0(FP), SI
	MOVQ     position_len+8(FP), CX
	MOVQ     kind_base+24(FP), DI
	MOVQ     ps_base+48(FP), R8
	MOVQ     qs_base+72(FP), R9
	MOVQ     p_base+96(FP), R10
	MOVQ     q_base+120(FP), R11
	MOVQ     x_base+144(FP), R12
	VMOVDDUP size+168(FP), X11
	VPCMPEQQ X9, X9, X9
	VPSRLQ   $1, X9, X10
	VXORPD   X12, X12, X12
	VXORPD   X13, X13, X13
	XORQ     AX, AX

mismatch:
	CMPQ      AX, CX
	JGE       mismatchEnd
	MOVLQSX   (SI)(AX*4), BX
	TESTQ     BX, BX
	JLT       mismatchNext
	VMOVSD    (R8)(AX*8), X0
	VMOVHPD   (R9)(AX*8), X0, X0
	VMOVSD    (R10)(AX*8), X1
	VMOVHPD   (R11)(AX*8), X1, X1
	VSUBPD    X1, X0, X0
	MOVBLZX   (DI)(AX*1), DX
	NEGQ      DX
	SBBQ      DX, DX
	NOTQ      DX
	VPINSRQ   $1, DX, X9, X2
	VANDPD    X2, X0, X0
	VANDPD    X10, X0, X3
	VCMPPD    $6, X11, X3, X4
	VPERMILPD $1, X4, X5
	VORPD     X5, X4, X4
	VANDPD    X4, X0, X0
	VANDPD    X4, X3, X3
	SHLQ      $4, BX
	VMOVUPD   X0, (R12)(BX*1)
	VMAXPD    X12, X3, X12
	VADDPD    X3, X13, X13

mismatchNext:
	INCQ AX
	JMP  mismatch

mismatchEnd:
	VPERMILPD $1, X12, X0
	VMAXSD    X0, X12, X12
	VHADDPD   X13, X13, X13
	VMOVSD    X12, worst+176(FP)
	VMOVSD    X13, sum+184(FP)
	RET

// func moveAVX2(position []int32, x, vm, va []float64, v [][2]float64, terms *[6][2]float64, scale float64)
TEXT ·moveAVX2(SB), NOSPLIT, $0-136
	MOVQ     position_base+0(FP), SI
	MOVQ     position_len+8(FP), CX
	MOVQ     x_base+24(FP), R10
	MOVQ     vm_base+48(FP), R11
	MOVQ     va_base+72(FP), R12
	MOVQ     v_base+96(FP), R13
	MOVQ     terms+120(FP), DI
	VMOVDDUP scale+128(FP), X14
	VMOVUPD  (DI), X8
	VMOVUPD  16(DI), X9
	VMOVUPD  32(DI), X10
	VMOVUPD  48(DI), X11
	VMOVUPD  64(DI), X12
	VMOVUPD  80(DI), X13
	XORQ     AX, AX

move:
	CMPQ      AX, CX
	JGE       moveEnd
	MOVLQSX   (SI)(AX*4), BX
	TESTQ     BX, BX
	JLT       moveNext
	SHLQ      $4, BX
	VMULPD    (R10)(BX*1), X14, X0
	VADDSD    (R12)(AX*8), X0, X1
	VMOVSD    X1, (R12)(AX*8)
	VPERMILPD $1, X0, X2
	VMOVSD    (R11)(AX*8), X3
	VMULSD    X2, X3, X4
	VADDSD    X4, X3, X3
	VMOVSD    X3, (R11)(AX*8)
	VADDSD    X13, X2, X2
	VMOVDDUP  X2, X2
	MOVQ      AX, DX
	SHLQ      $4, DX
	VMULPD    (R13)(DX*1), X2, X2
	VMOVDDUP  X0, X1
	VMULPD    X1, X1, X3
	VMULPD    X3, X8, X4
	VADDPD    X9, X4, X4
	VMULPD    X3, X4, X4
	VADDPD    X10, X4, X4
	VMULPD    X3, X4, X4
	VADDPD    X11, X4, X4
	VMULPD    X3, X4, X4
	VADDPD    X12, X4, X4
	VMULPD    X3, X4, X4
	VADDPD    X13, X4, X4
	VMULSD    X1, X4, X5
	VPERMILPD $3, X5, X6
	VMOVDDUP  X5, X7
	VPERMILPD $1, X2, X3
	VMULPD    X6, X2, X2
	VMULPD    X7, X3, X3
	VADDSUBPD X3, X2, X2
	VMOVUPD   X2, (R13)(DX*1)

moveNext:
	INCQ AX
	JMP  move

moveEnd:
	RET

// func lengthsAVX2(x []float64, largest, squares *[4]float64)
TEXT ·lengthsAVX2(SB), NOSPLIT, $0-40
	MOVQ     x_base+0(FP), SI
	MOVQ     x_len+8(FP), CX
	MOVQ     largest+24(FP), R8
	MOVQ     squares+32(FP), R9
	VPCMPEQQ Y9, Y9, Y9
	VPSRLQ   $1, Y9, Y9
	VXORPD   Y1, Y1, Y1
	VXORPD   Y2, Y2, Y2

lengths:
	SUBQ    $4, CX
	JLT     lengthsEnd
	VMOVUPD (SI), Y0
	VANDPD  Y9, Y0, Y3
	VMAXPD  Y1, Y3, Y1
	VMULPD  Y0, Y0, Y0
	VADDPD  Y0, Y2, Y2
	ADDQ    $32, SI
	JMP     lengths

lengthsEnd:
	VMOVUPD Y1, (R8)
	VMOVUPD Y2, (R9)
	VZEROUPPER
	RET

// func addDotAVX2(x []float64, factor float64, a []float64, sums *[4]float64)
TEXT ·addDotAVX2(SB), NOSPLIT, $0-64
	MOVQ         x_base+0(FP), SI
	MOVQ         x_len+8(FP), CX
	VBROADCASTSD factor+24(FP), Y4
	MOVQ         a_base+32(FP), DI
	MOVQ         sums+56(FP), R8
	VXORPD       Y2, Y2, Y2

addDot:
	SUBQ    $4, CX
	JLT     addDotEnd
	VMOVUPD (DI), Y1
	VMULPD  Y1, Y4, Y3
	VADDPD  (SI), Y3, Y3
	VMOVUPD Y3, (SI)
	VMULPD  Y3, Y1, Y1
	VADDPD  Y1, Y2, Y2
	ADDQ    $32, SI
	ADDQ    $32, DI
	JMP     addDot

addDotEnd:
	VMOVUPD Y2, (R8)
	VZEROUPPER
	RET

// SUBTRACT subtracts a block at DX times two halves from those at BX; second and third are the offsets of its entries (0, 1) and
// (1, 0), which are the other way round for its transpose.
#define SUBTRACT(blocks, second, third, y0, y1, to) \
	VBROADCASTSD (blocks)(DX*8), Y4       \
	VBROADCASTSD second(blocks)(DX*8), Y5 \
	VBROADCASTSD third(blocks)(DX*8), Y6  \
	VBROADCASTSD 24(blocks)(DX*8), Y7     \
	VMULPD       y0, Y4, Y4               \
	VMULPD       y1, Y5, Y5               \
	VMULPD       y0, Y6, Y6               \
	VMULPD       y1, Y7, Y7               \
	VADDPD       Y5, Y4, Y4               \
	VADDPD       Y7, Y6, Y6               \
	VMOVUPD      (to)(BX*1), Y5           \
	VMOVUPD      32(to)(BX*1), Y7         \
	VSUBPD       Y4, Y5, Y5               \
	VSUBPD       Y6, Y7, Y7               \
	VMOVUPD      Y5, (to)(BX*1)           \
	VMOVUPD      Y7, 32(to)(BX*1)

// func halvesAVX2(lowerHalves, upperHalves []half, path, start, row []int32, upper, lower, inverse []float64)
TEXT ·halvesAVX2(SB), NOSPLIT, $0-192
	MOVQ lowerHalves_base+0(FP), R12
	MOVQ upperHalves_base+24(FP), R13
	MOVQ path_base+48(FP), SI
	MOVQ path_len+56(FP), CX
	MOVQ start_base+72(FP), DI
	MOVQ row_base+96(FP), R8
	MOVQ upper_base+120(FP), R9
	MOVQ lower_base+144(FP), R10
	MOVQ inverse_base+168(FP), R11

halves:
	DECQ         CX
	JLT          halvesEnd
	MOVLQSX      (SI), AX
	ADDQ         $4, SI
	MOVQ         AX, BX
	SHLQ         $6, BX
	VMOVUPD      (R12)(BX*1), Y0
	VMOVUPD      32(R12)(BX*1), Y1
	VMOVUPD      (R13)(BX*1), Y2
	VMOVUPD      32(R13)(BX*1), Y3
	MOVQ         AX, DX
	SHLQ         $5, DX
	VBROADCASTSD (R11)(DX*1), Y4
	VBROADCASTSD 8(R11)(DX*1), Y5
	VBROADCASTSD 16(R11)(DX*1), Y6
	VBROADCASTSD 24(R11)(DX*1), Y7
	VMULPD       Y2, Y4, Y4
	VMULPD       Y3, Y6, Y6
	VMULPD       Y2, Y5, Y5
	VMULPD       Y3, Y7, Y7
	VADDPD       Y6, Y4, Y2
	VADDPD       Y7, Y5, Y3
	VMOVUPD      Y2, (R13)(BX*1)
	VMOVUPD      Y3, 32(R13)(BX*1)
	MOVLQSX      (DI)(AX*4), DX
	SHLQ         $2, DX

halvesEntry:
	MOVLQSX      4(DI)(AX*4), BX
	SHLQ         $2, BX
	CMPQ         DX, BX
	JGE          halves
	MOVLQSX      (R8)(DX*1), BX
	SHLQ         $6, BX
	SUBTRACT(R10, 8, 16, Y0, Y1, R12)
	SUBTRACT(R9, 16, 8, Y2, Y3, R13)
	ADDQ         $4, DX
	JMP          halvesEntry

halvesEnd:
	VZEROUPPER
	RET

// func eliminateAVX2(column, right, data []float64, target []int32, inverse *[4]float64)
TEXT ·eliminateAVX2(SB), NOSPLIT, $0-104
	MOVQ column_base+0(FP), SI
	MOVQ column_len+8(FP), CX
	MOVQ right_base+24(FP), DI
	MOVQ data_base+48(FP), R8
	MOVQ target_base+72(FP), R9
	MOVQ inverse+96(FP), R10
	SHRQ $2, CX
	MOVQ CX, R12
	VBROADCASTF128 (R10), Y8
	VBROADCASTF128 16(R10), Y9

eliminate:
	DECQ      R12
	JLT       eliminateEnd
	VMOVUPD   (SI), Y0
	VPERMILPD $0, Y0, Y1
	VPERMILPD $15, Y0, Y2
	VMULPD    Y8, Y1, Y1
	VMULPD    Y9, Y2, Y2
	VADDPD    Y2, Y1, Y0
	VMOVUPD   Y0, (SI)
	VPERMILPD $0, Y0, Y1
	VPERMILPD $15, Y0, Y2
	ADDQ      $32, SI
	MOVQ      DI, R11
	MOVQ      CX, DX

eliminateBlock:
	DECQ    DX
	JLT     eliminate
	VBROADCASTF128 (R11), Y3
	VBROADCASTF128 16(R11), Y4
	VMULPD  Y3, Y1, Y3
	VMULPD  Y4, Y2, Y4
	VADDPD  Y4, Y3, Y3
	MOVLQSX (R9), BX
	SHLQ    $5, BX
	VMOVUPD (R8)(BX*1), Y5
	VSUBPD  Y3, Y5, Y5
	VMOVUPD Y5, (R8)(BX*1)
	ADDQ    $32, R11
	ADDQ    $4, R9
	JMP     eliminateBlock

eliminateEnd:
	VZEROUPPER
	RET

// BROADCAST broadcasts the four numbers of a block.
#define BROADCAST(block) \
	VBROADCASTSD (block), Y4   \
	VBROADCASTSD 8(block), Y5  \
	VBROADCASTSD 16(block), Y6 \
	VBROADCASTSD 24(block), Y7

// func forwardLanesAVX2(start, row []int32, lower, x []float64)
TEXT ·forwardLanesAVX2(SB), NOSPLIT, $0-96
	MOVQ start_base+0(FP), SI
	MOVQ start_len+8(FP), CX
	MOVQ row_base+24(FP), DI
	MOVQ lower_base+48(FP), R8
	MOVQ x_base+72(FP), R10
	DECQ CX
	XORQ AX, AX

forwardLanes:
	CMPQ    AX, CX
	JGE     forwardLanesEnd
	MOVQ    AX, BX
	SHLQ    $6, BX
	VMOVUPD (R10)(BX*1), Y0
	VMOVUPD 32(R10)(BX*1), Y1
	VORPD   Y1, Y0, Y2
	VPTEST  Y2, Y2
	JEQ     forwardLanesNext
	MOVLQSX (SI)(AX*4), R11
	MOVLQSX 4(SI)(AX*4), R12
	MOVQ    R11, R13
	SHLQ    $5, R13
	ADDQ    R8, R13

forwardLanesBlock:
	CMPQ         R11, R12
	JGE          forwardLanesNext
	MOVLQSX      (DI)(R11*4), BX
	SHLQ         $6, BX
	BROADCAST(R13)
	VMOVUPD      (R10)(BX*1), Y2
	VMOVUPD      32(R10)(BX*1), Y3
	VFNMADD231PD Y0, Y4, Y2
	VFNMADD231PD Y0, Y6, Y3
	VFNMADD231PD Y1, Y5, Y2
	VFNMADD231PD Y1, Y7, Y3
	VMOVUPD      Y2, (R10)(BX*1)
	VMOVUPD      Y3, 32(R10)(BX*1)
	ADDQ         $32, R13
	INCQ         R11
	JMP          forwardLanesBlock

forwardLanesNext:
	INCQ AX
	JMP  forwardLanes

forwardLanesEnd:
	VZEROUPPER
	RET

// func backwardLanesAVX2(start, row []int32, upper, inverse, x []float64)
TEXT ·backwardLanesAVX2(SB), NOSPLIT, $0-120
	MOVQ start_base+0(FP), SI
	MOVQ start_len+8(FP), CX
	MOVQ row_base+24(FP), DI
	MOVQ upper_base+48(FP), R8
	MOVQ inverse_base+72(FP), R9
	MOVQ x_base+96(FP), R10
	DECQ CX

backwardLanes:
	DECQ    CX
	JLT     backwardLanesEnd
	MOVLQSX (SI)(CX*4), R11
	MOVLQSX 4(SI)(CX*4), R12
	MOVQ    R11, R13
	SHLQ    $5, R13
	ADDQ    R8, R13
	MOVQ    CX, AX
	SHLQ    $6, AX
	VMOVUPD (R10)(AX*1), Y2
	VMOVUPD 32(R10)(AX*1), Y3
	VXORPD  Y8, Y8, Y8
	VXORPD  Y9, Y9, Y9

backwardLanesBlock:
	CMPQ         R11, R12
	JGE          backwardLanesPivot
	MOVLQSX      (DI)(R11*4), BX
	SHLQ         $6, BX
	BROADCAST(R13)
	VMOVUPD      (R10)(BX*1), Y0
	VMOVUPD      32(R10)(BX*1), Y1
	VFNMADD231PD Y0, Y4, Y2
	VFNMADD231PD Y0, Y6, Y3
	VFNMADD231PD Y1, Y5, Y8
	VFNMADD231PD Y1, Y7, Y9
	ADDQ         $32, R13
	INCQ         R11
	JMP          backwardLanesBlock

backwardLanesPivot:
	VADDPD      Y8, Y2, Y2
	VADDPD      Y9, Y3, Y3
	MOVQ        CX, BX
	SHLQ        $5, BX
	ADDQ        R9, BX
	BROADCAST(BX)
	VMULPD      Y2, Y4, Y4
	VMULPD      Y2, Y6, Y6
	VFMADD231PD Y3, Y5, Y4
	VFMADD231PD Y3, Y7, Y6
	VMOVUPD     Y4, (R10)(AX*1)
	VMOVUPD     Y6, 32(R10)(AX*1)
	JMP         backwardLanes

backwardLanesEnd:
	VZEROUPPER
	RET

// func injectLanesAVX2(first []int32, entries []admittance, v, voltages []quad, gd, bd []float64, injections []quad)
TEXT ·injectLanesAVX2(SB), NOSPLIT, $0-168
	MOVQ first_base+0(FP), SI
	MOVQ entries_base+24(FP), DI
	MOVQ v_base+48(FP), R8
	MOVQ voltages_base+72(FP), R9
	MOVQ gd_base+96(FP), R10
	MOVQ bd_base+120(FP), R11
	MOVQ injections_base+144(FP), R12
	MOVQ injections_len+152(FP), CX
	XORQ AX, AX

injectLanes:
	CMPQ    AX, CX
	JGE     injectLanesEnd
	MOVLQSX 4(SI)(AX*4), DX
	MOVLQSX (SI)(AX*4), BX
	SUBQ    BX, DX
	VXORPD  Y0, Y0, Y0
	VXORPD  Y1, Y1, Y1
	VXORPD  Y2, Y2, Y2
	VXORPD  Y3, Y3, Y3

injectLanesEntry:
	DECQ         DX
	JLT          injectLanesBus
	MOVLQSX      (DI), BX
	SHLQ         $6, BX
	VMOVUPD      (R8)(BX*1), Y4
	VMOVUPD      32(R8)(BX*1), Y5
	VBROADCASTSD 8(DI), Y6
	VBROADCASTSD 16(DI), Y7
	VFMADD231PD  Y4, Y6, Y0
	VFMADD231PD  Y5, Y6, Y1
	VFMADD231PD  Y5, Y7, Y2
	VFMADD231PD  Y4, Y7, Y3
	ADDQ         $24, DI
	JMP          injectLanesEntry

injectLanesBus:
	VSUBPD       Y2, Y0, Y0
	VADDPD       Y3, Y1, Y1
	MOVQ         AX, BX
	SHLQ         $6, BX
	VMOVUPD      (R8)(BX*1), Y4
	VMOVUPD      32(R8)(BX*1), Y5
	VMOVUPD      32(R9)(BX*1), Y6
	VMULPD       Y6, Y6, Y6
	VBROADCASTSD (R10)(AX*8), Y7
	VBROADCASTSD (R11)(AX*8), Y8
	VMULPD       Y6, Y7, Y7
	VMULPD       Y6, Y8, Y8
	VFMADD231PD  Y0, Y4, Y7
	VFMADD231PD  Y1, Y5, Y7
	VMULPD       Y0, Y5, Y9
	VFNMADD231PD Y1, Y4, Y9
	VSUBPD       Y8, Y9, Y9
	VMOVUPD      Y7, (R12)(BX*1)
	VMOVUPD      Y9, 32(R12)(BX*1)
	INCQ         AX
	JMP          injectLanes

injectLanesEnd:
	VZEROUPPER
	RET

// func mismatchLanesAVX2(position []int32, masks [][lanes]int64, specified, injections []quad, x []float64, size float64, worst, total *[lanes]float64)
TEXT ·mismatchLanesAVX2(SB), NOSPLIT, $0-144
	MOVQ         position_base+0(FP), SI
	MOVQ         position_len+8(FP), CX
	MOVQ         masks_base+24(FP), DI
	MOVQ         specified_base+48(FP), R8
	MOVQ         injections_base+72(FP), R10
	MOVQ         x_base+96(FP), R12
	VBROADCASTSD size+120(FP), Y11
	VPCMPEQQ     Y9, Y9, Y9
	VPSRLQ       $1, Y9, Y10
	VXORPD       Y12, Y12, Y12
	VXORPD       Y13, Y13, Y13
	XORQ         AX, AX

mismatchLanes:
	CMPQ         AX, CX
	JGE          mismatchLanesEnd
	MOVLQSX      (SI)(AX*4), BX
	TESTQ        BX, BX
	JLT          mismatchLanesNext
	MOVQ         AX, DX
	SHLQ         $6, DX
	VMOVUPD      (R8)(DX*1), Y0
	VMOVUPD      32(R8)(DX*1), Y1
	VSUBPD       (R10)(DX*1), Y0, Y0
	VSUBPD       32(R10)(DX*1), Y1, Y1
	SHRQ         $1, DX
	VANDPD       (DI)(DX*1), Y1, Y1
	VANDPD       Y10, Y0, Y3
	VANDPD       Y10, Y1, Y4
	VCMPPD       $6, Y11, Y3, Y5
	VCMPPD       $6, Y11, Y4, Y6
	VORPD        Y6, Y5, Y5
	VANDPD       Y5, Y0, Y0
	VANDPD       Y5, Y1, Y1
	VANDPD       Y5, Y3, Y3
	VANDPD       Y5, Y4, Y4
	SHLQ         $6, BX
	VMOVUPD      Y0, (R12)(BX*1)
	VMOVUPD      Y1, 32(R12)(BX*1)
	VMAXPD       Y12, Y3, Y12
	VMAXPD       Y12, Y4, Y12
	VADDPD       Y4, Y3, Y3
	VADDPD       Y3, Y13, Y13

mismatchLanesNext:
	INCQ AX
	JMP  mismatchLanes

mismatchLanesEnd:
	MOVQ    worst+128(FP), R8
	MOVQ    total+136(FP), R9
	VMOVUPD Y12, (R8)
	VMOVUPD Y13, (R9)
	VZEROUPPER
	RET

// func moveLanesAVX2(position []int32, x []float64, factor *[lanes]float64, voltages, v []quad, terms *[18][lanes]float64, largest *quad, squares *[lanes]float64)
TEXT ·moveLanesAVX2(SB), NOSPLIT, $0-128
	MOVQ     position_base+0(FP), SI
	MOVQ     position_len+8(FP), CX
	MOVQ     x_base+24(FP), R10
	MOVQ     factor+48(FP), BX
	MOVQ     voltages_base+56(FP), R11
	MOVQ     v_base+80(FP), R13
	MOVQ     terms+104(FP), DI
	VMOVUPD  (BX), Y12
	VPCMPEQQ Y11, Y11, Y11
	VPSRLQ   $1, Y11, Y11
	VXORPD   Y10, Y10, Y10
	VXORPD   Y13, Y13, Y13
	VXORPD   Y14, Y14, Y14
	VXORPD   Y15, Y15, Y15
	XORQ     AX, AX

moveLanes:
	CMPQ         AX, CX
	JGE          moveLanesEnd
	MOVLQSX      (SI)(AX*4), BX
	TESTQ        BX, BX
	JLT          moveLanesNext
	SHLQ         $6, BX
	MOVQ         AX, DX
	SHLQ         $6, DX
	VMULPD       (R10)(BX*1), Y12, Y0
	VMULPD       32(R10)(BX*1), Y12, Y1
	VMOVUPD      Y0, (R10)(BX*1)
	VMOVUPD      Y1, 32(R10)(BX*1)
	VFMADD231PD  Y0, Y0, Y10
	VFMADD231PD  Y1, Y1, Y15
	VANDPD       Y11, Y0, Y2
	VANDPD       Y11, Y1, Y3
	VMAXPD       Y13, Y2, Y13
	VMAXPD       Y14, Y3, Y14
	VADDPD       (R11)(DX*1), Y0, Y2
	VMOVUPD      32(R11)(DX*1), Y3
	VFMADD231PD  Y1, Y3, Y3
	VMOVUPD      Y2, (R11)(DX*1)
	VMOVUPD      Y3, 32(R11)(DX*1)
	VADDPD       256(DI), Y1, Y1
	VMULPD       Y0, Y0, Y4
	VMOVUPD      (DI), Y5
	VMOVUPD      288(DI), Y6
	VFMADD213PD  32(DI), Y4, Y5
	VFMADD213PD  320(DI), Y4, Y6
	VFMADD213PD  64(DI), Y4, Y5
	VFMADD213PD  352(DI), Y4, Y6
	VFMADD213PD  96(DI), Y4, Y5
	VFMADD213PD  384(DI), Y4, Y6
	VFMADD213PD  128(DI), Y4, Y5
	VFMADD213PD  416(DI), Y4, Y6
	VFMADD213PD  160(DI), Y4, Y5
	VFMADD213PD  448(DI), Y4, Y6
	VFMADD213PD  192(DI), Y4, Y5
	VFMADD213PD  480(DI), Y4, Y6
	VFMADD213PD  224(DI), Y4, Y5
	VFMADD213PD  512(DI), Y4, Y6
	VFMADD213PD  256(DI), Y4, Y5
	VFMADD213PD  544(DI), Y4, Y6
	VMULPD       Y0, Y5, Y5
	VMULPD       (R13)(DX*1), Y1, Y7
	VMULPD       32(R13)(DX*1), Y1, Y8
	VMULPD       Y6, Y7, Y9
	VMULPD       Y6, Y8, Y6
	VFNMADD231PD Y5, Y8, Y9
	VFMADD231PD  Y5, Y7, Y6
	VMOVUPD      Y9, (R13)(DX*1)
	VMOVUPD      Y6, 32(R13)(DX*1)

moveLanesNext:
	INCQ AX
	JMP  moveLanes

moveLanesEnd:
	VADDPD  Y15, Y10, Y10
	MOVQ    largest+112(FP), R8
	MOVQ    squares+120(FP), R9
	VMOVUPD Y13, (R8)
	VMOVUPD Y14, 32(R8)
	VMOVUPD Y10, (R9)
	VZEROUPPER
	RET

// func addDotLanesAVX2(x []float64, factor *[lanes]float64, a []float64, sums *[lanes]float64)
TEXT ·addDotLanesAVX2(SB), NOSPLIT, $0-64
	MOVQ    x_base+0(FP), SI
	MOVQ    x_len+8(FP), CX
	SHRQ    $3, CX
	MOVQ    factor+24(FP), R9
	MOVQ    a_base+32(FP), DI
	MOVQ    sums+56(FP), R8
	VMOVUPD (R9), Y4
	VXORPD  Y2, Y2, Y2
	VXORPD  Y3, Y3, Y3

addDotLanes:
	DECQ        CX
	JLT         addDotLanesEnd
	VMOVUPD     (DI), Y0
	VMOVUPD     32(DI), Y1
	VMOVUPD     (SI), Y5
	VMOVUPD     32(SI), Y6
	VFMADD231PD Y0, Y4, Y5
	VFMADD231PD Y1, Y4, Y6
	VMOVUPD     Y5, (SI)
	VMOVUPD     Y6, 32(SI)
	VFMADD231PD Y0, Y5, Y2
	VFMADD231PD Y1, Y6, Y3
	ADDQ        $64, SI
	ADDQ        $64, DI
	JMP         addDotLanes

addDotLanesEnd:
	VADDPD  Y3, Y2, Y2
	VMOVUPD Y2, (R8)
	VZEROUPPER
	RET

// func timesLanesAVX2(positions []int32, values, x []float64, sums *[lanes]float64)
TEXT ·timesLanesAVX2(SB), NOSPLIT, $0-80
	MOVQ   positions_base+0(FP), SI
	MOVQ   positions_len+8(FP), CX
	MOVQ   values_base+24(FP), DI
	MOVQ   x_base+48(FP), R10
	MOVQ   sums+72(FP), R8
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1

timesLanes:
	DECQ         CX
	JLT          timesLanesEnd
	MOVLQSX      (SI), BX
	SHLQ         $6, BX
	VBROADCASTSD (DI), Y2
	VBROADCASTSD 8(DI), Y3
	VFMADD231PD  (R10)(BX*1), Y2, Y0
	VFMADD231PD  32(R10)(BX*1), Y3, Y1
	ADDQ         $4, SI
	ADDQ         $16, DI
	JMP          timesLanes

timesLanesEnd:
	VADDPD  Y1, Y0, Y0
	VMOVUPD Y0, (R8)
	VZEROUPPER
	RET

// func addLanesAVX2(positions []int32, values, x []float64, factors *[lanes]float64)
TEXT ·addLanesAVX2(SB), NOSPLIT, $0-80
	MOVQ    positions_base+0(FP), SI
	MOVQ    positions_len+8(FP), CX
	MOVQ    values_base+24(FP), DI
	MOVQ    x_base+48(FP), R10
	MOVQ    factors+72(FP), R8
	VMOVUPD (R8), Y0

addLanes:
	DECQ         CX
	JLT          addLanesEnd
	MOVLQSX      (SI), BX
	SHLQ         $6, BX
	VBROADCASTSD (DI), Y2
	VBROADCASTSD 8(DI), Y3
	VMOVUPD      (R10)(BX*1), Y4
	VMOVUPD      32(R10)(BX*1), Y5
	VFMADD231PD  Y0, Y2, Y4
	VFMADD231PD  Y0, Y3, Y5
	VMOVUPD      Y4, (R10)(BX*1)
	VMOVUPD      Y5, 32(R10)(BX*1)
	ADDQ         $4, SI
	ADDQ         $16, DI
	JMP          addLanes

addLanesEnd:
	VZEROUPPER
	RET

// func loadingAVX2(ends [][2]int32, terms [][3][lanes]float64, v [][2]float64, rate, fromFloor, toFloor []float64, rounded float64, list []int32) (n int)
TEXT ·loadingAVX2(SB), NOSPLIT, $0-184
	MOVQ     ends_base+0(FP), SI
	MOVQ     ends_len+8(FP), CX
	MOVQ     terms_base+24(FP), DI
	MOVQ     v_base+48(FP), R8
	MOVQ     rate_base+72(FP), R9
	MOVQ     fromFloor_base+96(FP), R10
	MOVQ     toFloor_base+120(FP), R11
	VMOVDDUP rounded+144(FP), X10
	MOVQ     list_base+152(FP), R12
	VXORPD   X11, X11, X11
	XORQ     R13, R13
	XORQ     AX, AX

loading:
	CMPQ         AX, CX
	JGE          loadingEnd
	MOVLQSX      (SI)(AX*8), BX
	MOVLQSX      4(SI)(AX*8), DX
	SHLQ         $4, BX
	SHLQ         $4, DX
	VMOVUPD      (R8)(BX*1), X0
	VMOVUPD      (R8)(DX*1), X1
	VMULPD       X1, X0, X2
	VHADDPD      X2, X2, X2
	VPERMILPD    $1, X1, X3
	VMULPD       X3, X0, X3
	VHSUBPD      X3, X3, X3
	VMULPD       X0, X0, X4
	VMULPD       X1, X1, X5
	VHADDPD      X5, X4, X4
	VPERMPD      $0x50, Y4, Y4
	VBROADCASTSD X2, Y2
	VBROADCASTSD X3, Y3
	VMULPD       (DI), Y4, Y4
	VFMADD231PD  32(DI), Y2, Y4
	VFMADD231PD  64(DI), Y3, Y4
	VMULPD       Y4, Y4, Y4
	VEXTRACTF128 $1, Y4, X5
	VHADDPD      X5, X4, X4
	VMOVSD       (R10)(AX*8), X6
	VMOVHPD      (R11)(AX*8), X6, X6
	VMOVDDUP     (R9)(AX*8), X7
	VADDPD       X7, X6, X6
	VMAXPD       X11, X6, X6
	VMULPD       X6, X6, X6
	VMULPD       X10, X6, X6
	VCMPPD       $5, X6, X4, X5
	VMOVMSKPD    X5, DX
	MOVL         AX, (R12)(R13*4)
	CMPL         DX, $1
	SBBQ         $-1, R13
	ADDQ         $96, DI
	INCQ         AX
	JMP          loading

loadingEnd:
	MOVQ R13, n+176(FP)
	VZEROUPPER
	RET
