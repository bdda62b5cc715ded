package main

/*
#include <stdint.h>
*/
import "C"

import (
	"math"
	"unsafe"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/ppc"
)

// Columns of what the two solves write, in MATPOWER's units: pu, degrees, MW, MVAr, $/MWh,
// $/h per pu, per MVA and per degree.
const (
	busResults    = 6 // Vm, Va, lam_P, lam_Q, mu_Vmax, mu_Vmin
	genResults    = 6 // Pg, Qg, mu_Pmax, mu_Pmin, mu_Qmax, mu_Qmin
	branchResults = 4 // mu_Sf, mu_St, mu_angmin, mu_angmax
)

// table is an array of the caller's of whole rows.
func table(name string, p unsafe.Pointer, count C.int64_t, columns int) ([]float64, error) {
	if count < 0 || int64(count) > math.MaxInt32 {
		return nil, wrongf("%s has %d rows, want 0 to %d", name, int64(count), math.MaxInt32)
	}
	n := int(count) * columns
	return view[float64](name, p, C.int64_t(n), n)
}

// gpc_grid_flow solves the power flow of a network with admittances and writes Vm (pu) and Va (degrees) of every bus.
//
//export gpc_grid_flow
func gpc_grid_flow(h C.uintptr_t, opt *C.char, voltages unsafe.Pointer, buses C.int64_t, out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(y *optima, o *struct {
		GivenStart    bool      `json:"given"`
		EnforceQ      bool      `json:"enforce_q"`
		Tolerance     float64   `json:"tolerance"`
		MaxIterations int       `json:"max_iterations"`
		Shares        []float64 `json:"shares"` // of the balance, by unit; null leaves it to the reference
	}, r *run) error {
		g := y.grid
		v, err := table("voltages", voltages, buses, 2)
		if err != nil {
			return err
		}
		if len(v) != 2*y.n.Buses() {
			return wrongf("voltages has %d rows, want %d", int64(buses), y.n.Buses())
		}
		flow := powerflow.Options{EnforceQ: o.EnforceQ, Tolerance: o.Tolerance, MaxIterations: o.MaxIterations}
		if o.Shares != nil {
			flow.Slack = &powerflow.Slack{Shares: o.Shares, Unlimited: true}
		}
		sol, reason, err := g.PowerFlow(r, o.GivenStart, flow)
		if err != nil {
			return asBadInput(r, err)
		}
		atLimit := []int{}
		for b := range sol.Vm {
			v[2*b], v[2*b+1] = sol.Vm[b], sol.Va[b]*180/math.Pi
			if sol.AtLimit[b] != 0 {
				atLimit = append(atLimit, b)
			}
		}
		return answer(out, map[string]any{"converged": sol.Converged(), "reason": reason, "iterations": sol.Iterations, "held": atLimit, "max_mismatch_pu": sol.Mismatch})
	})
}

// gpc_grid_optimal solves its optimal power flow and, where there is an optimum, writes what
// busResults, genResults and branchResults say.
//
//export gpc_grid_optimal
func gpc_grid_optimal(h C.uintptr_t, opt *C.char, bus unsafe.Pointer, buses C.int64_t, gen unsafe.Pointer, gens C.int64_t, branch unsafe.Pointer, branches C.int64_t,
	out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(y *optima, o *struct {
		GivenStart    bool    `json:"given"`
		CurrentLimits bool    `json:"current_limits"`
		Feasibility   float64 `json:"feasibility"`
		Optimality    float64 `json:"optimality"`
		MaxIterations int     `json:"max_iterations"`
	}, run *run) error {
		g := y.grid
		var tables [3][]float64
		var err error
		for i, t := range []struct {
			name          string
			p             unsafe.Pointer
			rows          C.int64_t
			columns, want int
		}{{"bus", bus, buses, busResults, y.n.Buses()}, {"gen", gen, gens, genResults, y.n.Gens()}, {"branch", branch, branches, branchResults, y.n.Branches()}} {
			if tables[i], err = table(t.name, t.p, t.rows, t.columns); err != nil {
				return err
			}
			if len(tables[i]) != t.want*t.columns {
				return wrongf("%s has %d rows, want %d", t.name, int64(t.rows), t.want)
			}
		}
		r, err := g.OptimalFlow(run, o.GivenStart, acopf.Options{
			CurrentLimits: o.CurrentLimits, Feasibility: o.Feasibility, Optimality: o.Optimality, MaxIterations: o.MaxIterations,
		})
		if err != nil {
			return asBadInput(run, err)
		}
		if r.Found() {
			writeOptimum(r, g.Network().BaseMVA, tables[0], tables[1], tables[2])
		}
		return answer(out, map[string]any{"status": r.Status.String(), "objective": r.Objective, "iterations": r.Iterations, "max_mismatch_pu": r.KKT.Mismatch, "max_violation_pu": r.KKT.Violation})
	})
}

func writeOptimum(r *ppc.Optimum, base float64, bus, gen, branch []float64) {
	m := &r.Limits
	for b := range r.Vm {
		copy(bus[busResults*b:], []float64{r.Vm[b], r.Va[b] * 180 / math.Pi, r.LambdaP[b] / base, r.LambdaQ[b] / base, m.VMax[b], m.VMin[b]})
	}
	for g := range r.Pg {
		copy(gen[genResults*g:], []float64{r.Pg[g] * base, r.Qg[g] * base, m.PMax[g] / base, m.PMin[g] / base, m.QMax[g] / base, m.QMin[g] / base})
	}
	for k := range m.SFrom {
		copy(branch[branchResults*k:], []float64{m.SFrom[k] / base, m.STo[k] / base, m.AngMin[k] * math.Pi / 180, m.AngMax[k] * math.Pi / 180})
	}
}
