package opf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// run runs rounds of a program on values, the tasks of a round in any order, and returns
// how many rounds hold an inversion.
func (p *deviceProgram) run(rng *rand.Rand, v []float64, from, rounds int) (inversions int) {
	for r := from; r < from+rounds; r++ {
		tasks := p.tasks[p.start[r]:p.start[r+1]]
		results, inverts := make([]float64, len(tasks)), 0
		for _, k := range rng.Perm(len(tasks)) { // reads what the rounds before have written, nothing of its own
			t := &tasks[k]
			sum := v[t.place]
			for _, both := range t.products {
				sum -= v[both[0]] * v[both[1]]
			}
			if results[k] = sum * v[t.scale]; t.invert {
				results[k], inverts = 1/sum, 1
			}
		}
		for k := range tasks {
			v[tasks[k].out] = results[k]
		}
		inversions += inverts
	}
	return inversions
}

// Run round by round, with the tasks of a round in any order, the program factorises
// every matrix of its pattern and solves with it, in one run or with the factors kept.
func TestDeviceProgramSolves(t *testing.T) {
	for _, name := range []string{"case9", "case30", "case118"} {
		y := newTestSystem(t, name, Options{})
		pack := newDevicePack(y)
		f := pack.pattern
		p := newDeviceProgram(f)
		rng := rand.New(rand.NewPCG(1, 2))
		dense, v := mat.NewDense(f.n, f.n, nil), make([]float64, f.all)
		for i := range v {
			v[i] = math.NaN()
		}
		v[f.zero], v[f.one] = 0, 1
		for i := range f.n {
			for e := f.rowStart[i]; e < f.rowStart[i+1]; e++ {
				v[e] = rng.NormFloat64()
				if e == f.diagonal[i] {
					v[e] += 20
				}
				dense.Set(i, int(f.column[e]), v[e])
			}
		}
		inversions := 0
		for again := range 2 {
			want := mat.NewVecDense(f.n, nil)
			for i := range f.n {
				want.SetVec(i, rng.NormFloat64())
			}
			var rhs mat.VecDense
			rhs.MulVec(dense, want)
			copy(v[f.rhs:], rhs.RawVector().Data)
			if again == 0 {
				inversions = p.run(rng, v, 0, p.factor)
			} else {
				p.run(rng, v, p.factor, p.forward)
			}
			p.run(rng, v, p.factor+p.forward, p.backward)
			for i := range f.n {
				if x := v[int(f.rhs)+i]; !(math.Abs(x-want.AtVec(i)) < 1e-10) {
					t.Fatalf("%s, factors kept %v: entry %d of the solution is %v, want %v", name, again == 1, i, x, want.AtVec(i))
				}
			}
		}
		if rounds := p.factor + p.forward + p.backward; len(p.start) != rounds+1 || len(p.tasks) > roundTasks*rounds || int(p.start[rounds]) != len(p.tasks) {
			t.Errorf("%s: %d tasks in %d rounds, with %d starts", name, len(p.tasks), rounds, len(p.start))
		}
		code := y.Device()
		t.Logf("%s: %d unknowns, %d places, %d tasks, a factorisation of %d rounds, %d of them with an inversion, solves of %d and %d; a row in flight: %d bytes of shared memory, %d of device memory; %d bytes packed",
			name, f.n, f.all, len(p.tasks), p.factor, inversions, p.forward, p.backward, code.RolloutShared, code.Workspace, 8*len(code.Constants)+4*len(code.Indices))
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
