package opf

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domains/opf/acopf"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/matpower/cases"
)

// BenchmarkNetworks measures, on decisions along exact chains of test loads (stream 991),
// the exact solver cold and warm beside the projection of three dispatches: the merit
// order, the last one held, and the optimum with errors of a map's size (0.01 pu of P_G,
// 0.0025 pu of V_G). closed is the share that the projection brings within the limits,
// gap_% the cost above the optimum, cpu-µs/op the time that a processor was at it, on all
// threads, where others compute too. Networks that do not come with the program are
// those of `make matpower`.
func BenchmarkNetworks(b *testing.B) {
	for _, network := range []struct {
		name, regime  string
		steps, chains int
	}{
		{"case30", "envelope", 20, 3}, {"case118", "envelope:0.7:1", 20, 3}, {"pglib_opf_case118_ieee", "envelope:0.75:0.98", 20, 3},
		{"case300", "envelope:0.9:1", 20, 3}, {"pglib_opf_case300_ieee", "envelope:0.92:1", 20, 3}, {"case1354pegase", "envelope:0.9:1", 6, 3},
	} {
		b.Run(network.name, func(b *testing.B) {
			text, err := cases.Text(network.name)
			if err != nil {
				if text, err = os.ReadFile("../../build/matpower/matpower/data/" + network.name + ".m"); errors.Is(err, fs.ErrNotExist) {
					b.Skip("make matpower brings it")
				}
			}
			must.OK(b, err)
			y := must.Get(FromText(network.name, network.name, bytes.Clone(text), Options{}))(b).Problem.(*System)
			points := decisions(b, y, network.regime, network.steps, network.chains)
			y.metric()
			x := must.Get(newExact(y))(b)
			results := make([]acopf.Result, 1)
			for _, warm := range []bool{false, true} {
				name := "exact-cold"
				if warm {
					name = "exact-warm"
				}
				b.Run(name, func(b *testing.B) {
					solved, count, before := 0, 0, machine.CPUTime()
					for b.Loop() {
						at := &points[count%len(points)]
						problem := at.problem
						if !warm {
							problem.Start = nil
						}
						if must.OK(b, x.solve(b.Context(), []acopf.Problem{problem}, results)); usable(&results[0]) {
							solved++
						}
						count++
					}
					b.ReportMetric(float64((machine.CPUTime()-before).Microseconds())/float64(count), "cpu-µs/op")
					b.ReportMetric(float64(solved)/float64(count), "closed")
				})
			}
			u, J, m := make([]float64, 2*y.layout.gens), make([]float64, objectives), make([]float64, y.layout.margins)
			for kind, name := range []string{"merit", "hold", "map"} {
				b.Run(name, func(b *testing.B) {
					count, before := 0, machine.CPUTime()
					for b.Loop() {
						at := &points[count%len(points)]
						copy(u, at.dispatch[kind])
						y.Project(at.s, at.c, u)
						count++
					}
					b.ReportMetric(float64((machine.CPUTime()-before).Microseconds())/float64(count), "cpu-µs/op")
					closed, cost, optimum := 0, 0.0, 0.0
					for i := range points {
						at := &points[i]
						copy(u, at.dispatch[kind])
						if y.Project(at.s, at.c, u) {
							closed++
						}
						y.Score(at.s, at.c, u, J, m)
						cost, optimum = cost+stageCost(J, nil), optimum+at.cost
					}
					b.ReportMetric(float64(closed)/float64(len(points)), "closed")
					b.ReportMetric(100*(cost-optimum)/optimum, "gap_%")
				})
			}
		})
	}
}

// decision is a step of an exact chain.
type decision struct {
	s, c     []float64
	problem  acopf.Problem // started from the optimum of the step before
	cost     float64
	dispatch [3][]float64
}

// decisions are those along the first steps of exact chains of a regime; trajectories
// without an exact chain are drawn anew.
func decisions(b testing.TB, y *System, text string, steps, chains int) (all []decision) {
	n, l := y.Network, &y.layout
	r := must.Get(parseRegime(text))(b)
	for k := range chains {
		for attempt := range maxRedraws {
			pd, qd := loadPaths(rand.New(rand.NewPCG(991, uint64(k*maxRedraws+attempt))), n, r, Steps)
			if chain := chainOf(b, y, pd[:steps+1], qd[:steps+1], uint64(k)); chain != nil {
				all = append(all, chain...)
				break
			}
		}
	}
	if len(all) != steps*chains {
		b.Fatalf("%d decisions of %s, %d buses", len(all), text, l.buses)
	}
	return all
}

func chainOf(b testing.TB, y *System, pd, qd [][]float64, seed uint64) (all []decision) {
	n, l := y.Network, &y.layout
	rng := rand.New(rand.NewPCG(992, seed))
	x := must.Get(newExact(y))(b)
	w := newWorkspace(y)
	s, c := slices.Concat(ones(l.buses), make([]float64, l.buses)), make([]float64, l.context)
	var last *acopf.Result
	var previous, applied []float64
	for t := range pd {
		results := make([]acopf.Result, 1)
		problem := y.problem(pd[t], qd[t], nil, previous, totalWeights, acopf.Tightening{}, last)
		if ok := must.Get(x.solveOne(b.Context(), problem, results))(b); !ok {
			return nil
		}
		optimum := make([]float64, 2*l.gens)
		y.setPoints(&results[0], optimum)
		if t > 0 {
			y.context(c, pd[t], qd[t], previous, nil)
			if !w.dispatch(s, c, applied) {
				return nil
			}
			w.state(s)
			at := decision{s: slices.Clone(s), c: slices.Clone(c), problem: problem, cost: stageCost(results[0].J[:], nil)}
			at.dispatch = [3][]float64{make([]float64, 2*l.gens), slices.Clone(applied), slices.Clone(optimum)}
			y.Base(s, c, at.dispatch[0])
			for g := range l.gens {
				if n.PMin[g] < n.PMax[g] {
					at.dispatch[2][g] += 0.01 * min(1, n.PMax[g]) * rng.NormFloat64()
				}
				at.dispatch[2][l.gens+g] += 0.0025 * rng.NormFloat64()
			}
			all = append(all, at)
		}
		y.context(c, pd[t], qd[t], results[0].Pg, nil)
		if !w.dispatch(s, c, optimum) {
			return nil
		}
		w.state(s)
		last, previous, applied = &results[0], slices.Clone(w.solution.Pg), optimum
	}
	return all
}
