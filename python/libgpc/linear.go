package main

/*
#include <stdint.h>
*/
import "C"

import (
	"cmp"
	"strings"
	"unsafe"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/dcopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// solveLinear solves scenarios of the DC model.
func (y *optima) solveLinear(r *run, problems []acopf.Problem, dst []unsafe.Pointer, out **C.char) error {
	s, err := dcopf.New(y.n)
	if err != nil {
		return gpc.BadInput(err)
	}
	errs, optimal := make([]error, len(problems)), make([]int, len(problems))
	parallel.Each(min(y.threads(), len(problems)), len(problems), func(_, k int) {
		if len(problems[k].Out.Branches)+len(problems[k].Out.Units) > 0 {
			errs[k] = wrongf("scenario %d has an outage: a linear optimum is of the network as it is", k)
			return
		}
		result, m, err := s.Solve(r, problems[k].Pd)
		var flows *network.Flows
		if errs[k] = err; err == nil {
			if m != nil {
				optimal[k], flows = 1, results.LinearPoint(y.n, s.DC(), result.Va, result.Pg).Flows
			}
			y.write(k, result, m, flows, dst)
		}
	})
	total := 0
	for _, v := range optimal {
		total += v
	}
	return cmp.Or(cmp.Or(errs...), answer(out, map[string]any{"optimal": total}))
}

// solveSoft solves scenarios whose limits give at prices, and answers what gives in each.
func (y *optima) solveSoft(r *run, problems []acopf.Problem, prices map[string]float64, dst []unsafe.Pointer, out **C.char) error {
	soft, err := results.SoftPrices(y.n, prices)
	if err != nil {
		return gpc.BadInput(err)
	}
	limits, flows := [][]results.Broken{}, network.NewFlows(y.n.Branches())
	for k, pr := range problems {
		if len(pr.Out.Branches)+len(pr.Out.Units) > 0 {
			return wrongf("scenario %d has an outage: soft limits are of the network as it is", k)
		}
		result, err := acopf.SolveSoft(r, y.n, pr.Pd, pr.Qd, y.s.Options(), soft)
		if err != nil {
			return asBadInput(r, err)
		}
		if limits = append(limits, []results.Broken{}); result.Limits == nil {
			y.write(k, &result.Result, nil, nil, dst)
			continue
		}
		limits[k] = results.Relaxed(y.n, &result.Gives)
		y.n.BranchFlows(&y.n.Admittance, result.Vm, result.Va, flows)
		y.write(k, &result.Result, result.Limits, flows, dst)
		r.progress(k+1, len(problems))
	}
	return answer(out, map[string]any{"soft": limits})
}

// controls are those of lines. Branches with admittances that are not their table's have no ratio to set.
func (y *optima) controls(lines string) ([]results.Control, error) {
	if lines == "" {
		return nil, nil
	}
	for i, part := range y.n.Adjusted(nil, nil, nil).Parts() {
		if !floats.EqualApprox(part, y.n.Parts()[i], 1e-9) {
			return nil, wrongf("controls: branches of network %s are no π equivalents with a ratio to set", y.n.Name)
		}
	}
	list, err := results.ReadControls(y.n, "controls", strings.NewReader(lines))
	return list, gpc.BadInput(err)
}

// settled is the network, and the solver, of an optimum with controls, those in steps rounded and the rest solved again.
func (y *optima) settled(r *run, s *acopf.Solver, controls []results.Control, pr []acopf.Problem, end []acopf.Result) (*network.Network, *acopf.Solver, error) {
	opt, discrete := s.Options(), false
	if end[0].Status == acopf.Optimal {
		if opt.Ranges, discrete = results.Rounded(controls, opt.Ranges, end[0].Settings); discrete {
			var err error
			if s, err = acopf.New(y.n, opt); err == nil {
				err = s.Solve(r, pr, end)
			}
			if err != nil {
				return nil, nil, err
			}
		}
	}
	return acopf.Settled(y.n, opt.Ranges, end[0].Settings), s, nil
}

// gpc_network_factors writes distribution factors of the DC model, a row for each of count numbers in service. Kind 0 is of
// branches by bus, 1 of buses by branch, 2 of outages of branches by branch.
//
//export gpc_network_factors
func gpc_network_factors(h C.uintptr_t, kind C.int64_t, numbers unsafe.Pointer, count C.int64_t, dst unsafe.Pointer, entries C.int64_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(y *optima) error {
		dc, err := network.NewDC(y.n)
		if err != nil {
			return gpc.BadInput(err)
		}
		nb, nl := y.n.Buses(), y.n.Branches()
		if kind < 0 || kind > 2 {
			return wrongf("factors of kind %d: want 0, 1 or 2", int64(kind))
		}
		row, most, width := dc.BranchFactors, nl, nb
		switch kind {
		case 1:
			row, most, width = dc.BusFactors, nb, nl
		case 2:
			row, width = dc.OutageFactors, nl
		}
		var v views
		list := viewed[int32](&v, "numbers", numbers, count, int(count))
		factors := viewed[float64](&v, "factors", dst, entries, int(count)*width)
		if v.err != nil {
			return v.err
		}
		for _, k := range list {
			if k < 0 || int(k) >= most {
				return wrongf("number %d: want 0 to %d", k, most-1)
			}
		}
		parallel.Each(max(1, min(y.threads(), len(list))), len(list), func(_, i int) { copy(factors[i*width:], row(int(list[i]))) })
		return nil
	})
}

// gpc_network_least finds the least relaxation of limits with which an optimal power flow at loads by bus (MW, MVAr; NULL for
// the case's) has a solution. It answers what gpc opf --json prints of why there is none.
//
//export gpc_network_least
func gpc_network_least(h C.uintptr_t, pd unsafe.Pointer, pds C.int64_t, qd unsafe.Pointer, qds C.int64_t, out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(y *optima) error {
		var v views
		active, reactive := viewed[float64](&v, "pd", pd, pds, y.n.Buses()), viewed[float64](&v, "qd", qd, qds, y.n.Buses())
		if v.err != nil {
			return v.err
		}
		r, err := runOf(cancel)
		if err != nil {
			return err
		}
		rule, err := network.ParseDispatchable(cmp.Or(y.o.Dispatchable, network.DispatchableByFile.String()))
		if err != nil {
			return wrongf("dispatchable %w", err)
		}
		least, err := results.Least(r, y.n, scaled(active, 1/y.n.BaseMVA), scaled(reactive, 1/y.n.BaseMVA), acopf.Options{Threads: y.threads(), Dispatchable: rule, CurrentLimits: y.o.CurrentLimits})
		if err != nil {
			return asBadInput(r, err)
		}
		return answer(out, least)
	})
}
