// Command asm generates the AVX2 and AVX-512 kernels of package rollout. Each
// function below states the loop it emits; twin.go has the same loops in Go. An
// AVX2 kernel works on eight of a block's sixteen lanes and is called twice.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// row is the size of one number per lane, in bytes, whatever the register holds.
const row = 64

// Sizes and places fixed by twin.go.
const (
	planBytes = 2 * row
	pathBytes = 6 * row
	gradBytes = 2 * row
	discBytes = 3 * 4

	pathX, pathY, pathCos, pathSin, pathSpeed, pathFree = 0, row, 2 * row, 3 * row, 4 * row, 5 * row

	motionX, motionY, motionCos, motionSin, motionV = 0, row, 2 * row, 3 * row, 4 * row
	motionA, motionOmega                            = 5 * row, 6 * row
	motionDt, motionVLo, motionVHi                  = 7 * row, 8 * row, 9 * row
	motionGoalX, motionGoalY                        = 10 * row, 11 * row
	motionEffort, motionSmooth                      = 12 * row, 13 * row

	penaltyExp, penaltySquare, penaltyBuffer, penaltyKnee, penaltyHard = 0, row, 2 * row, 3 * row, 4 * row
)

// Rows of the table of constants, see constants.go.
const (
	half = iota * row
	one
	two
	sin3
	sin5
	cos2
	cos4
	cos6
	tiny
	minusThree
	three
	minusLog2E
	exp1
	exp2
	exp3
	exp4
	exp5
	exp6
	reachConstant
	expReach
)

// vectors is an instruction set.
type vectors struct {
	suffix string
	wide   bool
	reg    func() reg.VecVirtual
}

var sets = []vectors{{"512", true, ZMM}, {"256", false, YMM}}

func main() {
	ConstraintExpr("amd64,!purego")
	for _, v := range sets {
		v.limit()
		v.track()
		for _, exp := range []bool{false, true} {
			for _, grad := range []bool{false, true} {
				v.discs(exp, grad)
				if exp { // pairs are of a Joint
					v.pair(exp, grad)
				}
			}
		}
		v.back()
	}
	Generate()
}

func at(base reg.Register, offset int) Mem { return Mem{Base: base, Disp: offset} }

func (v vectors) begin(name, signature, twin string) {
	TEXT(name+v.suffix, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + v.suffix + " is " + twin + ".")
}

func end() {
	VZEROUPPER()
	RET()
}

func (v vectors) load(m Mem) reg.VecVirtual {
	r := v.reg()
	VMOVUPS(m, r)
	return r
}

func (v vectors) broadcast(m Mem) reg.VecVirtual {
	r := v.reg()
	VBROADCASTSS(m, r)
	return r
}

func (v vectors) zero() reg.VecVirtual {
	r := v.reg()
	if v.wide {
		VPXORD(r, r, r)
	} else {
		VXORPS(r, r, r)
	}
	return r
}

// copyOf is a second register with the same content.
func (v vectors) copyOf(a reg.VecVirtual) reg.VecVirtual {
	r := v.reg()
	VMOVAPS(a, r)
	return r
}

// where leaves in dst its lanes whose comparison of a with b (predicate of
// VCMPPS, a ? b) holds, and zero elsewhere.
func (v vectors) where(predicate uint8, a, b Op, dst reg.VecVirtual) {
	if v.wide {
		k := K()
		VCMPPS(U8(predicate), b, a, k)
		VMOVAPS_Z(dst, k, dst)
		return
	}
	m := v.reg()
	VCMPPS(U8(predicate), b, a, m)
	VANDPS(m, dst, dst)
}

// Predicates of VCMPPS, ordered and quiet: false for NaN.
const (
	equal        = 0x00
	less         = 0x11
	greaterEqual = 0x1d
	greater      = 0x1e
)

func pointer(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }
