package opf

import (
	"fmt"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
)

// BenchmarkTightening prints what exact dispatch with a tightening costs against
// the oracle: the table of docs/results/dispatch.md.
func BenchmarkTightening(b *testing.B) {
	c := Thirty()
	y := c.Problem.(*System)
	pref := domain.Preference{Adaptive: true}
	for _, regime := range []string{RegimePaper, RegimeEnvelope, RegimeSwing} {
		for _, tight := range []acopf.Tightening{
			{VLoad: 0.003, Q: 0.005, S: 0.005}, {VLoad: 0.0015, Q: 0.0025, S: 0.0025}, {VLoad: 0.00075, Q: 0.00125, S: 0.00125}, {VLoad: 0.003}, {S: 0.005},
		} {
			b.Run(fmt.Sprintf("%s/V%g,Q%g,S%g", regime, tight.VLoad, tight.Q, tight.S), func(b *testing.B) {
				cost, oracle, without := 0.0, 0.0, 0
				for episode := range 3 {
					ep, err := c.Plant.Episode(991, episode, domain.EpisodeOptions{Preference: pref, Regime: regime})
					if err != nil {
						b.Fatal(err)
					}
					best, _, err := ep.Oracle()
					if err != nil {
						b.Fatal(err)
					}
					oracle += best
					s, ctx, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
					results := make([]acopf.Result, 1)
					for !ep.Done() {
						ep.Observe(s, ctx)
						problem := y.problemAt(s, ctx, pref, nil)
						problem.Tightening = tight
						if err := y.solve(b.Context(), []acopf.Problem{problem}, results); err != nil {
							b.Fatal(err)
						}
						if !usable(&results[0]) {
							without++
							problem.Tightening = acopf.Tightening{}
							if err := y.solve(b.Context(), []acopf.Problem{problem}, results); err != nil {
								b.Fatal(err)
							}
						}
						y.setPoints(&results[0], u)
						out, err := ep.Apply(u)
						if err != nil {
							b.Fatal(err)
						}
						cost += out.Cost
					}
				}
				b.ReportMetric(100*(cost-oracle)/oracle, "gap_%")
				b.ReportMetric(float64(without), "unsolved")
			})
		}
	}
}

// BenchmarkWeights prints what weights of the raw objectives cost in J_total: the
// other table of docs/results/dispatch.md.
func BenchmarkWeights(b *testing.B) {
	y := newTestSystem(b, "case30", Options{})
	for _, level := range []float64{0.70, 0.90, 0.99} {
		for _, w := range [][objectives]float64{{100, 1, 1}, {1000, 1, 1}, {1e4, 1, 1}, {1, 10, 1}, {1, 100, 1}, {1, 1000, 1}} {
			b.Run(fmt.Sprintf("%g/%g:%g:%g", level, w[0], w[1], w[2]), func(b *testing.B) {
				pd, qd := y.Network.Loads(level)
				results := make([]acopf.Result, 2)
				if err := y.solve(b.Context(), []acopf.Problem{
					y.problem(pd, qd, nil, nil, totalWeights, acopf.Tightening{}, nil), y.problem(pd, qd, nil, nil, w, acopf.Tightening{}, nil),
				}, results); err != nil {
					b.Fatal(err)
				}
				best, cost := stageCost(results[0].J[:], nil), stageCost(results[1].J[:], nil)
				b.ReportMetric(100*(cost-best)/best, "J_total_%")
			})
		}
	}
}

// BenchmarkReceding prints what steps of look-ahead and linearisations are worth to `mpc`, the
// last with its dispatch executed as it is: a table of docs/results/dispatch.md.
func BenchmarkReceding(b *testing.B) {
	c := ThirtyUncertain()
	y := c.Problem.(*System)
	pref := domain.Preference{Adaptive: true}
	for _, regime := range []string{RegimePaper, RegimeEnvelope, RegimeSwing} {
		for _, of := range []struct {
			steps, iterations int
			bare              bool
		}{{recedingSteps, recedingIterations, false}, {1, recedingIterations, false}, {2 * recedingSteps, recedingIterations, false}, {recedingSteps, 1, false}, {recedingSteps, 1, true}, {recedingSteps, 2, true}, {recedingSteps, recedingIterations, true}} {
			b.Run(fmt.Sprintf("%s/steps%d,iterations%d,bare=%t", regime, of.steps, of.iterations, of.bare), func(b *testing.B) {
				m := newRecedingDispatch(y, of.steps, of.iterations)
				cost, oracle, rounds, decisions, unsolved, broken, most := 0.0, 0.0, 0, 0, 0, 0, 0
				for episode := range 3 {
					ep, err := c.Plant.Episode(991, episode, domain.EpisodeOptions{Preference: pref, Regime: regime})
					if err != nil {
						b.Fatal(err)
					}
					best, _, err := ep.Oracle()
					if err != nil {
						b.Fatal(err)
					}
					oracle += best
					m.warm = false
					s, ctx, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
					for !ep.Done() {
						ep.Observe(s, ctx)
						solved := false
						if of.bare {
							if m.warm = m.start(s, ctx, pref); !m.warm {
								b.Fatal("no power flow to begin at")
							}
							solved = m.plan(s, u)
						} else if d, err := m.Decide(s, ctx, pref, u); err != nil {
							b.Fatal(err)
						} else {
							solved = d.Solved()
						}
						if !solved {
							unsolved++
						}
						out, err := ep.Apply(u)
						if err != nil {
							b.Fatal(err)
						}
						if !y.spec.Keeps(out.Margin) {
							broken++
						}
						cost += out.Cost
						rounds, decisions, most = rounds+m.rounds, decisions+1, max(most, m.rounds)
					}
				}
				b.ReportMetric(100*(cost-oracle)/oracle, "gap_%")
				b.ReportMetric(float64(unsolved), "unsolved")
				b.ReportMetric(float64(broken), "broken")
				b.ReportMetric(float64(rounds)/float64(decisions), "linearisations")
				b.ReportMetric(float64(most), "most")
			})
		}
	}
}
