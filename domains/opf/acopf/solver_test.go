package acopf

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc/domains/opf/network"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/matpower"
)

func TestDev(t *testing.T) {
	for _, name := range []string{"case9", "case14", "case30", "case_ieee30", "case39", "case118"} {
		f, err := os.Open(filepath.Join("/work/shared/cases", name+".m"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := matpower.Read(name, f)
		if err != nil {
			t.Fatal(err)
		}
		net, err := network.New(c)
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSolver(net, Options{}, isa.Generic, 1)
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("TRACE") == name {
			trace = func(w *worker, l int, aP, aD float64) {
				p, m := w.plan, w.m
				fmt.Printf("%3d mode %d f %.6f g %.2e r %.2e grad %.2e comp %.2e mu %.2e shift %.1e aP %.3f aD %.3f res %.1e/%.1e\n", w.lane[l].iteration, w.lane[l].mode, w.objective(l), m.Get(p.maxG[0], l),
					m.Get(p.sumR[0], l), m.Get(p.maxGrad[0], l), m.Get(p.comp[0], l), m.Get(p.mu[0], l), w.lane[l].shift, aP, aD, m.Get(p.maxRes[0], l), m.Get(p.maxRhs[0], l))
			}
		} else {
			trace = nil
		}
		for _, k := range []float64{1, .6, 1.1, 1.2} {
			pd, qd := make([]float64, s.plan.nb), make([]float64, s.plan.nb)
			for i := range pd {
				pd[i], qd[i] = net.Pd[i]*k, net.Qd[i]*k
			}
			res := make([]Result, 1)
			err = s.Solve(context.Background(), []Problem{{Pd: pd, Qd: qd}}, res)
			if err != nil {
				t.Fatal(err)
			}
			r := res[0]
			fmt.Printf("%-12s x%.1f %v it %d obj %.6f %+v shifts %d corr %d\n", name, k, r.Status, r.Iterations, r.Objective, r.KKT, s.stats.shifts.Load(), s.stats.corrections.Load())
		}
		for i, pr := range s.plan.programs {
			fmt.Print(" ", i, ":", pr.Operations(), "/", pr.Runs(), "/", pr.Flops())
		}
		fmt.Println(" cells", s.plan.layout.Cells())
	}
}
