package opf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// Run level by level, with the entries of a level in any order, the program factorises
// every matrix of its pattern, and the rows by levels solve with it, transposed too.
func TestFactorProgramSolves(t *testing.T) {
	for _, name := range []string{"case9", "case30", "case118"} {
		y := newTestSystem(t, name, Options{})
		f := newDevicePattern(y)
		p := newFactorProgram(f)
		rng := rand.New(rand.NewPCG(1, 2))
		dense, v := mat.NewDense(f.n, f.n, nil), make([]float64, len(f.column))
		for i := range f.n {
			for e := f.rowStart[i]; e < f.rowStart[i+1]; e++ {
				v[e] = rng.NormFloat64()
				if e == f.diagonal[i] {
					v[e] += 20
				}
				dense.Set(i, int(f.column[e]), v[e])
			}
		}
		inverse := make([]float64, f.n)
		for l := range len(p.level) - 1 {
			count := int(p.level[l+1] - p.level[l])
			level := make([]float64, count)
			for _, k := range rng.Perm(count) { // reads what the levels before have written, nothing of its own
				e := int(p.level[l]) + k
				level[k] = v[p.entry[e]]
				for _, both := range p.product[p.productStart[e]:p.productStart[e+1]] {
					level[k] -= v[uint32(both)&0xffff] * v[uint32(both)>>16]
				}
				if of := p.of[e]; of >= 0 && of != above {
					level[k] *= inverse[of]
				}
			}
			for k, x := range level {
				e := int(p.level[l]) + k
				v[p.entry[e]] = x
				if of := p.of[e]; of < 0 {
					inverse[-1-of] = 1 / x
				}
			}
		}
		want := mat.NewVecDense(f.n, nil)
		for i := range f.n {
			want.SetVec(i, rng.NormFloat64())
		}
		for _, transposed := range []bool{false, true} {
			matrix := mat.Matrix(dense)
			place := func(e int32) int32 { return e }
			if transposed {
				matrix = dense.T()
				place = func(e int32) int32 { return p.transpose[e] }
			}
			var rhs mat.VecDense
			rhs.MulVec(matrix, want)
			b := rhs.RawVector().Data
			for l := range len(p.solveStart) - 1 {
				for _, i := range p.solveRow[p.solveStart[l]:p.solveStart[l+1]] {
					for e := f.rowStart[i]; e < f.diagonal[i]; e++ {
						b[i] -= v[place(e)] * b[f.column[e]]
					}
					if transposed {
						b[i] *= inverse[i]
					}
				}
			}
			for l := range len(p.backStart) - 1 {
				for _, i := range p.backRow[p.backStart[l]:p.backStart[l+1]] {
					for e := f.diagonal[i] + 1; e < f.rowStart[i+1]; e++ {
						b[i] -= v[place(e)] * b[f.column[e]]
					}
					if !transposed {
						b[i] *= inverse[i]
					}
				}
			}
			for i, x := range b {
				if !(math.Abs(x-want.AtVec(i)) < 1e-10) {
					t.Fatalf("%s, transposed %v: entry %d of the solution is %v, want %v", name, transposed, i, x, want.AtVec(i))
				}
			}
		}
		// inOrder is what a warp takes one after the other: the longest of every round of a level.
		inOrder := func(start []int32, length func(at int32) int32) (sum int32) {
			for l := range len(start) - 1 {
				for at := start[l]; at < start[l+1]; at += 32 {
					longest := int32(0)
					for i := at; i < min(at+32, start[l+1]); i++ {
						longest = max(longest, length(i))
					}
					sum += longest
				}
			}
			return sum
		}
		products := inOrder(p.level, func(e int32) int32 { return p.productStart[e+1] - p.productStart[e] })
		entries := inOrder(p.solveStart, func(at int32) int32 { return f.diagonal[p.solveRow[at]] - f.rowStart[p.solveRow[at]] }) +
			inOrder(p.backStart, func(at int32) int32 { return f.rowStart[p.backRow[at]+1] - f.diagonal[p.backRow[at]] - 1 })
		if all := int32(len(p.product)); products < all/32 || products > all || entries < int32(len(f.column)-f.n)/32 || entries > int32(len(f.column)-f.n) {
			t.Errorf("%s: a warp takes %d of %d products one after the other, and %d of %d entries", name, products, all, entries, len(f.column)-f.n)
		}
		code := y.Device()
		t.Logf("%s: %d products of a factorisation and %d entries of a solve one after the other", name, products, entries)
		t.Logf("%s: %d unknowns, %d places, %d products on %d levels, solves on %d and %d; a row in flight: %d bytes of shared memory, %d of device memory; %d bytes packed", name, f.n, f.values,
			len(p.product), len(p.level)-1, len(p.solveStart)-1, len(p.backStart)-1, code.RolloutShared, code.Workspace, 8*len(code.Constants)+4*len(code.Indices))
	}
}

// ring is a network of n buses in a ring, with a unit and a load at each and a rating
// on every branch.
func ring(n int) []byte {
	var buses, units, branches, costs strings.Builder
	for i := range n {
		kind := 2
		if i == 0 {
			kind = 3
		}
		fmt.Fprintf(&buses, "%d %d 10 3 0 0 1 1 0 100 1 1.1 0.9;\n", i+1, kind)
		fmt.Fprintf(&units, "%d 10 0 50 -50 1 100 1 80 0;\n", i+1)
		fmt.Fprintf(&branches, "%d %d 0.01 0.1 0 60 60 60 0 0 1 -360 360;\n", i+1, (i+1)%n+1)
		fmt.Fprintf(&costs, "2 0 0 3 0.02 %g 0;\n", 10+float64(i%7))
	}
	return fmt.Appendf(nil, "function mpc = ring\nmpc.version = '2';\nmpc.baseMVA = 100;\nmpc.bus = [\n%s];\nmpc.gen = [\n%s];\nmpc.branch = [\n%s];\nmpc.gencost = [\n%s];\n",
		buses.String(), units.String(), branches.String(), costs.String())
}

// A network that the device functions do not hold says so, and why; one that they do
// hold has them.
func TestNetworksTooLargeForTheDevice(t *testing.T) {
	for _, c := range []struct {
		buses  int
		reason string
	}{{30, ""}, {700, "set-points"}} {
		made, err := FromText("ring", "a ring", ring(c.buses), Options{})
		if err != nil {
			t.Fatal(err)
		}
		code := made.Problem.(*System).Device()
		if (code.Name == "") != (c.reason != "") || !strings.Contains(code.Reason, c.reason) {
			t.Errorf("%d buses: device functions %q, because %q; want a reason with %q", c.buses, code.Name, code.Reason, c.reason)
		}
		if c.reason != "" && (code.Constants != nil || code.Workspace != 0) {
			t.Errorf("%d buses: constants and a workspace of %d bytes without device functions", c.buses, code.Workspace)
		}
	}
}
