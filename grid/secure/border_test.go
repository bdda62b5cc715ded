package secure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"gonum.org/v1/gonum/mat"
)

// bordered is an interior point over a network and five of its outages, more than maxScalarStates, at a random iterate whose matrix is
// evaluated.
func bordered(t *testing.T, name string, elastic bool) *interior {
	t.Helper()
	n := load(t, name)
	sys, err := newSystem(n, DefaultOptions().withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	p := &interior{sys: sys, threads: 1, smoothing: 0.1, elastic: elastic}
	p.states = []*state{newState(sys, Outage{Branch: -1, Unit: -1}, false, n.Pd, n.Qd, nil)}
	for _, o := range []Outage{{2, -1, false}, {-1, 1, false}, {4, -1, false}, {5, -1, false}, {-1, 2, false}} {
		p.states = append(p.states, newState(sys, o, true, n.Pd, n.Qd, nil))
		if elastic {
			p.states[len(p.states)-1].elastic = newElastic(p.states[len(p.states)-1])
		}
	}
	r := rand.New(rand.NewPCG(7, 9))
	for _, st := range p.states {
		for v := range st.x {
			st.x[v] = 0.3 * r.NormFloat64()
		}
		for b, at := range st.bus {
			st.x[at+magnitudeOffset] = n.Vm0[b]
		}
		for g, k := range sys.setP {
			if k >= 0 && !st.after {
				st.x[st.setPoints[k]] = (n.PMin[g]+2*n.PMax[g])/3 + 0.05*r.NormFloat64() // inside corners: Δ is determined
			}
		}
	}
	p.begin(coldStart)
	return p
}

// whole is the matrix of all states: the variables before any outage, then those of each outage without
// its border, which are the set-points before it. place gives each state's variables theirs.
func (p *interior) whole() (a *mat.SymDense, place [][]int) {
	size := 0
	for k, t := range p.states {
		at := make([]int, t.variables)
		for v := range at {
			at[v] = -1
		}
		if k > 0 {
			for i, v := range t.setPoints {
				at[v] = place[0][p.states[0].setPoints[i]]
			}
		}
		for v := range at {
			if at[v] < 0 && !t.omit[v] {
				at[v] = size
				size++
			}
		}
		place = append(place, at)
	}
	a = mat.NewSymDense(size, nil)
	for k, t := range p.states {
		for e, i := range t.row {
			x, y := place[k][i], place[k][t.col[e]]
			if x >= 0 && y >= 0 {
				a.SetSym(x, y, a.At(x, y)+t.values[e])
			}
		}
	}
	return a, place
}

// The Schur complement that an outage's block leaves is the dense C − B·K⁻¹·Bᵀ.
func TestBorderIsTheDenseComplement(t *testing.T) {
	for _, name := range []string{"case9", "case14", "case39", everyFeature} {
		for k := range 4 {
			elastic, pivoted := k%2 == 1, k >= 2
			p := bordered(t, name, elastic)
			p.pivoted = pivoted
			p.factorWith(1e-2, 1e-4) // at random points blocks may be singular without
			for at, st := range p.states[1:] {
				if !pivoted {
					st.schur = p.borderInLanes(at)
				}
				var inner []int
				border := map[int]bool{}
				for _, v := range st.setPoints {
					border[v] = true
				}
				for v := range st.variables {
					if !border[v] && !st.omit[v] {
						inner = append(inner, v)
					}
				}
				dense := make([][]float64, st.variables)
				for v := range dense {
					dense[v] = make([]float64, st.variables)
				}
				for e, i := range st.row {
					dense[i][st.col[e]], dense[st.col[e]][i] = st.values[e], st.values[e]
				}
				k := mat.NewDense(len(inner), len(inner), nil)
				b := mat.NewDense(len(inner), len(st.setPoints), nil)
				for x, i := range inner {
					for y, j := range inner {
						k.Set(x, y, dense[i][j])
					}
					for y, j := range st.setPoints {
						b.Set(x, y, dense[i][j])
					}
				}
				var solved, product mat.Dense
				if err := solved.Solve(k, b); err != nil {
					t.Fatal(err)
				}
				product.Mul(b.T(), &solved)
				schur, n, first := st.schur, len(st.setPoints), st.variables-len(st.setPoints)
				scale := 0.0
				for i, v := range st.setPoints {
					for j, w := range st.setPoints {
						scale = max(scale, math.Abs(dense[v][w]), math.Abs(product.At(i, j)))
					}
				}
				for i, v := range st.setPoints {
					for j, w := range st.setPoints {
						x, y := v-first, w-first
						got, want := schur[min(x, y)*n+max(x, y)], dense[v][w]-product.At(i, j)
						if !(math.Abs(got-want) <= 1e-8*scale) {
							t.Fatalf("%s, outage %v, elastic %v: pivots chosen %v: entry (%d, %d) of the border is %g, dense %g", name, st.outage, elastic, pivoted, i, j, got, want)
						}
					}
				}
			}
		}
	}
}

// borderInLanes is the Schur complement of a state after an outage as a lane finds it.
func (p *interior) borderInLanes(at int) []float64 {
	g := p.sys.lanesAfter(p.states[at+1].part.reference, 1).group()
	defer g.release()
	g.states = p.states[at+1 : at+2]
	g.factor()
	g.complements()
	n, next := len(g.f.borderVariables), 0
	out := make([]float64, n*n)
	for j := range n {
		next += copy(out[j*n+j:(j+1)*n], g.schur[next:])
	}
	return out
}

// The direction that blocks and border give solves the dense matrix of all states, and the inertia that the
// factorisation proves is that of its eigenvalues.
func TestDirectionAndInertiaAreThoseOfTheWholeMatrix(t *testing.T) {
	for _, name := range []string{"case9", "case14", everyFeature} {
		for k := range 4 {
			elastic, pivoted := k%2 == 1, k >= 2
			p := bordered(t, name, elastic)
			if !p.factorise() {
				t.Fatalf("%s: no shift gives the inertia", name)
			}
			if p.pivoted = pivoted; pivoted {
				p.factorWith(0, 0)
			}
			a, place := p.whole()
			var eigen mat.EigenSym
			if !eigen.Factorize(a, false) {
				t.Fatal("no eigenvalues")
			}
			negative, want := 0, 0
			for _, v := range eigen.Values(nil) {
				if v < 0 {
					negative++
				}
			}
			for _, st := range p.states {
				for v, dual := range st.dual {
					if dual && !st.omit[v] {
						want++
					}
				}
			}
			if negative != want {
				t.Errorf("%s, elastic %v: %d negative eigenvalues for %d equations", name, elastic, negative, want)
			}
			p.direction(1, false)
			if p.pivoted != pivoted {
				t.Errorf("%s, elastic %v: lanes do not come to the direction", name, elastic)
			}
			n, _ := a.Dims()
			d, rhs := mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
			for k, st := range p.states {
				for v, at := range place[k] {
					if at >= 0 {
						d.SetVec(at, st.d[v])
						rhs.SetVec(at, rhs.AtVec(at)+st.rhs[v])
					}
				}
			}
			var product mat.VecDense
			product.MulVec(a, d)
			for i := range n {
				if off := math.Abs(product.AtVec(i) - rhs.AtVec(i)); !(off <= 1e-7*mat.Norm(rhs, math.Inf(1))) {
					t.Fatalf("%s, elastic %v: row %d of the direction is off by %g", name, elastic, i, off)
				}
			}
		}
	}
}

// Where the pivots of lanes break down, pivots chosen by size take over, and nothing of it stays in the lanes.
func TestLanesThatBreakDown(t *testing.T) {
	p := bordered(t, "case14", false)
	if !p.factorise() || p.pivoted {
		t.Fatalf("lanes do not give the inertia")
	}
	p.groups[0].factorInterior(func(st *state) []float64 { return make([]float64, len(st.values)) })
	finite := func() bool {
		p.direction(1, false)
		worst, size := p.residual()
		return worst <= laneTolerance*size
	}
	if !finite() || !p.pivoted {
		t.Errorf("pivots chosen: %v, the direction is off", p.pivoted)
	}
	p.evaluate()
	if !p.factorise() || !finite() || p.pivoted {
		t.Errorf("after that, pivots chosen: %v", p.pivoted)
	}
}

// Pivots have every variable of a state once, four at most; the border has set-points alone. The power with the balance of a reference is
// of a free unit of its island, at its bus where there is one, and no end of a DC line.
func TestPivotsOfLanes(t *testing.T) {
	for _, name := range []string{"case9", "case39", everyFeature, "islands"} {
		n := (*network.Network)(nil)
		if name == "islands" {
			n = networktest.Of(t, twice(t))
		} else {
			n = load(t, name)
		}
		sys := require.Get(newSystem(n, DefaultOptions().withDefaults()))(t)
		island, terminals := n.Islands(), n.Terminals()
		for _, before := range []bool{true, false} {
			l, list, border := sys.base, [][]int(nil), 0
			if before {
				list, border = sys.nodesBefore()
			} else {
				l = sys.after
				list, border = sys.nodesAfter(n.Slack)
			}
			count, units, alone := make([]int, l.variables), map[int]int{}, 0
			for g, k := range sys.setP {
				if k >= 0 {
					units[l.setPoints[k]] = g
				}
			}
			for k, node := range list {
				if len(node) > 4 || len(node) == 0 {
					t.Errorf("%s: node %d has %d variables", name, k, len(node))
				}
				for i, v := range node {
					if v < 0 {
						continue
					}
					if count[v]++; k >= len(list)-border && !slices.Contains(l.setPoints, v) {
						t.Errorf("%s: variable %d is in the border", name, v)
					}
					b := l.busOf(v - activeDualOffset)
					if !before || i%2 == 0 || b < 0 || !slices.Contains(n.References, b) {
						continue
					}
					power := node[i-1]
					g, ok := units[power]
					if alone++; power < 0 || !ok || terminals[g] || island[n.GenBus[g]] != island[b] {
						t.Errorf("%s: the balance of reference %d is with variable %d of unit %d", name, b, power, g)
						continue
					}
					for other, at := range n.GenBus {
						if at == b && sys.free[other] && !terminals[other] && n.GenBus[g] != b {
							t.Errorf("%s: reference %d has unit %d, its balance is with that of unit %d", name, b, other, g)
						}
					}
				}
			}
			if slices.Min(count) != 1 || slices.Max(count) != 1 || before && alone != len(n.References) || !before && border != (len(l.setPoints)+3)/4 {
				t.Errorf("%s: variables are in %d to %d nodes; %d references of %d, a border of %d", name, slices.Min(count), slices.Max(count), alone, len(n.References), border)
			}
		}
	}
}

// Where lanes cannot be made, pivots are chosen by size.
func TestWithoutLanes(t *testing.T) {
	p := bordered(t, "case9", false)
	f := p.sys.lanesBefore()
	if f == nil || f.forLanes(isa.Generic, 0) != nil {
		t.Error("there are programs of no lanes")
	}
	list, border := p.sys.nodesBefore()
	if newLaneFactor(p.sys.base, list, border, isa.Generic, 0) != nil {
		t.Error("there are programs of no lanes")
	}
	before, after := p.sys.lanesBefore, p.sys.lanesAfter
	for k := range 3 {
		p.sys.lanesBefore, p.sys.lanesAfter = before, after
		switch k {
		case 1:
			p.sys.lanesBefore = func() *laneFactor { return nil }
		case 2:
			p.sys.lanesAfter = func(int, int) *laneFactor { return nil }
		}
		p.evaluate()
		if !p.factorise() || p.pivoted != (k > 0) {
			t.Fatalf("lanes missing %d: pivots chosen by size %v", k, p.pivoted)
		}
		p.direction(1, false)
		if worst, size := p.residual(); !(worst <= laneTolerance*size) || p.pivoted != (k > 0) {
			t.Errorf("lanes missing %d: the direction is off by %g of %g", k, worst, size)
		}
	}
}
