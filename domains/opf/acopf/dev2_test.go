package acopf

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/internal/isa"
)

func TestEdgeDev(t *testing.T) {
	if os.Getenv("DEV2") == "" {
		t.Skip()
	}
	net := load(t, "case39")
	s, _ := newSolver(net, Options{Threads: 1}, []kernel{{isa.Generic, 1}})
	fast := newTestSolver(t, net, Options{Threads: 1})
	rng := rand.New(rand.NewPCG(3, 9))
	shown := 0
	for range 1500 {
		pr := scenario(rng, net, 0.85+0.3*rng.Float64())
		r := solveOne(t, fast, pr)
		if r.Status != IterationLimit {
			continue
		}
		shown++
		fmt.Println("----")
		w := s.teams[0].workers.New().(*worker)
		results := make([]Result, 1)
		w.own = queue{ctx: context.Background(), problems: []Problem{pr}, results: results}
		p, m := w.plan, w.m
		pb := &probe{worker: w}
		for range 40 {
			if !w.fill(&w.own) {
				break
			}
			m.Run(programEvaluate)
			if w.lane[0].pending {
				w.begin(0)
			}
			m.Run(programGradient)
			w.judge(0)
			w.factorise()
			m.Run(programPredictor)
			m.Run(programExpand)
			w.centre()
			m.Run(programCorrector)
			rhs := mat.NewVecDense(4*p.nb, pb.get(p.rhs))
			m.Run(programResidual)
			res0 := m.Get(p.maxRes[0], 0)
			w.improve()
			m.Run(programResidual)
			res1 := m.Get(p.maxRes[0], 0)
			if w.lane[0].iteration > 14 && w.lane[0].iteration%2 == 0 {
				k := pb.dense()
				var x, rr mat.VecDense
				err := x.SolveVec(k, rhs)
				rr.MulVec(k, &x)
				rr.SubVec(rhs, &rr)
				d := 0.0
				for i, v := range pb.get(p.sol) {
					d = max(d, math.Abs(v-x.AtVec(i)))
				}
				_ = err
				fmt.Printf("%3d m%d shift %.1e neg %v/%d grad %.1e g %.1e comp %.1e  res %.1e → %.1e rhs %.1e  LU res %.1e |x| %.1e diff %.1e cond %.1e Z %.1e\n", w.lane[0].iteration, w.lane[0].mode, w.lane[0].shift, m.Get(p.negative[0], 0), 2*p.nb, m.Get(p.maxGrad[0], 0), m.Get(p.maxG[0], 0), m.Get(p.comp[0], 0),
					res0, res1, m.Get(p.maxRhs[0], 0), mat.Norm(&rr, math.Inf(1)), mat.Norm(&x, math.Inf(1)), d, mat.Cond(k, 1), m.Get(p.maxZ[0], 0))
			}
			m.Run(programExpand)
			w.lengths()
			m.Run(programSave)
			m.Run(programMovePrimal)
			m.Run(programMoveDual)
		}
		if shown == 4 {
			break
		}
	}
}
