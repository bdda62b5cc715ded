package main

/*
#include <stdint.h>
*/
import "C"

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/formats"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/ppc"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
)

// optima is a network whose optimal power flows are solved many at a time.
type optima struct {
	n    *network.Network
	c    *matpower.Case
	s    *acopf.Solver // nil: noOptimum says why
	grid *ppc.Grid     // of arrays with admittances; nil
	o    *networkOptions
	// noOptimum is what an optimal power flow lacks, such as costs; power flows do without.
	noOptimum error
	// One call at a time: results serve again.
	mu      sync.Mutex
	results []acopf.Result
}

// networkOptions are those of gpc_network and gpc_network_of.
type networkOptions struct {
	Name          string  `json:"name"`
	Text          string  `json:"text"` // of the file; "" for the network that comes with the library
	File          bool    `json:"file"` // whether the name is that of a file to be read
	Dispatchable  string  `json:"dispatchable"`
	Threads       int     `json:"threads"`
	MaxIterations int     `json:"max_iterations"`
	Feasibility   float64 `json:"feasibility"`
	Optimality    float64 `json:"optimality"`
	CurrentLimits bool    `json:"current_limits"`
	NoOptimum     string  `json:"no_optimum"` // why the tables pose no optimal power flow; "" where they do
}

// newOptima analyses a case, or a grid of arrays.
func newOptima(c *matpower.Case, g *ppc.Grid, o *networkOptions) (_ *optima, err error) {
	var n *network.Network
	if g != nil {
		c, n = g.Case(), g.Network()
	} else if n, err = network.New(c); err != nil {
		return nil, gpc.BadInput(err)
	}
	opt := acopf.Options{Threads: o.Threads, MaxIterations: o.MaxIterations, Feasibility: o.Feasibility, Optimality: o.Optimality, CurrentLimits: o.CurrentLimits}
	if o.Dispatchable != "" {
		if opt.Dispatchable, err = network.ParseDispatchable(o.Dispatchable); err != nil {
			return nil, wrongf("dispatchable %w", err)
		}
	}
	if err := opt.Validate(); err != nil {
		return nil, gpc.BadInput(err)
	}
	y := &optima{n: n, c: c, o: o, grid: g}
	if o.NoOptimum != "" {
		y.noOptimum = errors.New(o.NoOptimum)
		return y, nil
	}
	y.s, y.noOptimum = acopf.New(n, opt)
	return y, nil
}

// gpc_network makes a network of a file, of a text, or of the name of one that comes with the library. The name's ending is
// that of the format (package formats).
//
//export gpc_network
func gpc_network(opt *C.char, out *C.uintptr_t, err **C.char) C.int32_t {
	return withOptions(opt, err, func(o *networkOptions) error {
		var c *matpower.Case
		var err error
		switch {
		case o.File:
			c, err = formats.ReadFile(o.Name)
		case o.Text == "":
			c, err = cases.Read(o.Name)
		default:
			c, err = formats.Read(o.Name, strings.NewReader(o.Text))
		}
		if err != nil {
			return gpc.BadInput(err)
		}
		y, err := newOptima(c, nil, o)
		if err == nil {
			hand(out, y)
		}
		return err
	})
}

// gpc_network_of makes a network of MATPOWER's tables, with so many columns each; costs and DC lines with theirs may be
// empty. With admittances, 8 to a branch, they are PYPOWER's internal arrays (package ppc).
//
//export gpc_network_of
func gpc_network_of(opt *C.char, base C.double, bus unsafe.Pointer, buses, busColumns C.int64_t, gen unsafe.Pointer, gens, genColumns C.int64_t,
	branch unsafe.Pointer, branches, branchColumns C.int64_t, cost unsafe.Pointer, costs, costColumns C.int64_t,
	dc unsafe.Pointer, dcs, dcColumns C.int64_t, dcCost unsafe.Pointer, dcCosts, dcCostColumns C.int64_t, admittance unsafe.Pointer, out *C.uintptr_t, err **C.char) C.int32_t {
	return withOptions(opt, err, func(o *networkOptions) error {
		var tables [7]matpower.Table
		admittances := branches
		if admittance == nil {
			admittances = 0
		}
		var err error
		for i, t := range []struct {
			name          string
			p             unsafe.Pointer
			rows, columns C.int64_t
		}{{"bus", bus, buses, busColumns}, {"gen", gen, gens, genColumns}, {"branch", branch, branches, branchColumns}, {"gencost", cost, costs, costColumns},
			{"dcline", dc, dcs, dcColumns}, {"dclinecost", dcCost, dcCosts, dcCostColumns}, {"admittance", admittance, admittances, ppc.AdmittanceColumns}} {
			data, err := table(t.name, t.p, t.rows, int(t.columns))
			if err != nil {
				return err
			}
			tables[i] = matpower.Table{Columns: max(int(t.columns), 1), Data: data}
		}
		var c *matpower.Case
		var g *ppc.Grid
		if admittance == nil {
			c, err = matpower.New(o.Name, float64(base), tables[0], tables[1], tables[2], tables[3], tables[4], tables[5])
		} else {
			g, err = ppc.New(o.Name, float64(base), tables[0].Data, tables[1].Data, tables[2].Data, tables[3].Data, tables[3].Columns, tables[6].Data, tables[4].Data)
		}
		if err != nil {
			return gpc.BadInput(err)
		}
		y, err := newOptima(c, g, o)
		if err == nil {
			hand(out, y)
		}
		return err
	})
}

// gpc_network_about answers what is in service: numbers of buses, rows of the tables, from 0.
//
//export gpc_network_about
func gpc_network_about(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(y *optima) error {
		n, isa, lanes := y.n, "", 0
		if y.noOptimum == nil {
			isa, lanes = y.s.ISA(), y.s.Lanes()
		}
		ids := func(numbers []int) (list []int) {
			for _, b := range numbers {
				list = append(list, n.BusID[b])
			}
			return list
		}
		return answer(out, map[string]any{
			"name": n.Name, "base_mva": n.BaseMVA, "bus": n.BusID, "bus_row": n.BusRow, "gen_row": n.GenRow, "gen_bus": ids(n.GenBus),
			"ramp_10": scaled(n.Ramp, n.BaseMVA), "bus_name": n.BusName, "gen_name": n.GenName, "branch_name": n.BranchName, "notes": n.Notes(), "controls": n.Controls, "branch_row": n.BranchRow, "bridge": n.Bridges(), "from": ids(n.From), "to": ids(n.To), "reference": ids(n.References), "isa": isa, "lanes": lanes, "beyond": y.extras(),
		})
	})
}

// extras are what optima depend on that MATPOWER's tables of buses, units, branches and polynomials do not hold.
func (y *optima) extras() []string {
	all, fixed := []string{}, []network.PowerFactor(nil)
	if y.noOptimum == nil {
		fixed, _, _ = y.n.PowerFactors(y.s.Options().Dispatchable)
	}
	for name, ok := range map[string]bool{
		"limits of currents": y.o.CurrentLimits, "DC lines": len(y.n.DCLines) > 0, "costs of reactive power": y.n.ReactiveCost != nil,
		"capability curves": len(y.n.Curves) > 0, "loads of constant power factor among its units": len(fixed) > 0,
	} {
		if ok {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// gpc_network_case writes MATPOWER's tables of the whole case: bus with 13 columns, gen with 10,
// branch with 13, and the polynomials of gencost with 3, the highest power first. All may be left out.
//
//export gpc_network_case
func gpc_network_case(h C.uintptr_t, bus, gen, branch, cost unsafe.Pointer, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(y *optima) error {
		c := y.c
		fill := func(dst unsafe.Pointer, rows [][]float64, width int) {
			if dst == nil {
				return
			}
			for i, row := range rows {
				copy(unsafe.Slice((*float64)(dst), width*len(rows))[width*i:], row[:width])
			}
		}
		m, quadratic, costs := c.Matrices(), true, make([][]float64, len(c.Gen))
		fill(bus, m[0].Rows, 13)
		fill(gen, m[1].Rows, 10)
		fill(branch, m[2].Rows, 13)
		for i, g := range c.Gen {
			costs[i] = make([]float64, 3)
			k := g.Cost.Coefficients
			if len(k) <= 3 {
				copy(costs[i][3-len(k):], k)
			}
			quadratic = quadratic && g.Cost.Model == matpower.Polynomial && len(k) <= 3
		}
		fill(cost, costs, 3)
		return answer(out, map[string]any{"buses": len(c.Bus), "gens": len(c.Gen), "branches": len(c.Branch), "quadratic": quadratic})
	})
}

// gpc_network_text answers the whole case as a MATPOWER case file of a function name.
//
//export gpc_network_text
func gpc_network_text(h C.uintptr_t, name *C.char, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(y *optima) error {
		var text strings.Builder
		if err := matpower.Write(&text, matpower.FunctionName(C.GoString(name)), y.c.Name, y.c); err != nil {
			return gpc.BadInput(err)
		}
		return answer(out, text.String())
	})
}

// gpc_network_sum answers the SHA-256 of all that optimal power flows depend on but the network's name.
//
//export gpc_network_sum
func gpc_network_sum(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(y *optima) error {
		if y.noOptimum != nil {
			return gpc.BadInput(y.noOptimum)
		}
		n, opt := *y.n, y.s.Options()
		n.Name, opt.Threads = "", 0
		text, err := finite.Marshal(&n)
		return answer(out, durable.Sum(sha256.Sum256(fmt.Appendf(text, "%+v", opt))), err)
	})
}

// gpc_rows answers blocks of consecutive rows of numbers as the JSON text of each.
//
//export gpc_rows
func gpc_rows(values unsafe.Pointer, rows, columns C.int64_t, blocks unsafe.Pointer, count C.int64_t, out **C.char, err **C.char) C.int32_t {
	return try(err, func() error {
		data, err := table("values", values, rows, int(columns))
		if err != nil {
			return err
		}
		sizes, err := view[int32]("blocks", blocks, count, int(count))
		if err != nil {
			return err
		}
		text, separator := []byte{'['}, `"`
		for i, size := range sizes {
			n := int(size) * int(columns)
			if n < 0 || n > len(data) {
				return wrongf("block %d has %d rows, want 0 to %d", i, size, len(data)/int(columns))
			}
			text = append(appendRows(append(text, separator...), data[:n], int(columns)), '"')
			data, separator = data[n:], `,"`
		}
		*out = C.CString(string(append(text, ']')))
		return nil
	})
}

// appendRows appends rows of numbers as JSON, in their shortest form with a point or an exponent.
func appendRows(text []byte, values []float64, columns int) []byte {
	text = append(text, '[')
	for i, v := range values {
		switch {
		case i == 0:
			text = append(text, '[')
		case i%columns == 0:
			text = append(text, "],["...)
		default:
			text = append(text, ',')
		}
		start := len(text)
		if text = strconv.AppendFloat(text, v, 'g', -1, 64); !bytes.ContainsAny(text[start:], ".e") {
			text = append(text, ".0"...)
		}
	}
	if len(values) > 0 {
		text = append(text, ']')
	}
	return append(text, ']')
}

// What gpc_network_solve writes, in the order of its pointers; [n], [n, buses], [n, gens] or
// [n, branches] float64, status and iterations of [n] int32.
const (
	intoStatus = iota
	intoIterations
	intoObjective
	intoVm
	intoVa
	intoPriceP
	intoPriceQ
	intoPg
	intoQg
	intoPf
	intoQf
	intoPt
	intoQt
	intoMuVMin
	intoMuVMax
	intoMuPMin
	intoMuPMax
	intoMuQMin
	intoMuQMax
	intoMuFrom
	intoMuTo
	intoMuAngMin
	intoMuAngMax
	intoMismatch
	intoArrays
)

// gpc_network_solve solves n scenarios: loads pd and qd by bus (MW, MVAr; n rows, or NULL with 0 rows for
// the case's), branch and unit that are out (numbers in service from 0, −1 for none; NULL for none at
// all), by options {"chains"}: 0 starts each flat, otherwise every scenario begins at the one before in so
// many runs. into are intoArrays pointers, NULL where something is not wanted.
//
//export gpc_network_solve
func gpc_network_solve(h C.uintptr_t, opt *C.char, n C.int64_t, pd unsafe.Pointer, pds C.int64_t, qd unsafe.Pointer, qds C.int64_t,
	branch unsafe.Pointer, branches C.int64_t, unit unsafe.Pointer, units C.int64_t, dst unsafe.Pointer, arrays C.int64_t,
	out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(y *optima, o *struct {
		Chains int                `json:"chains"`
		Linear bool               `json:"linear"` // of the DC model
		Soft   map[string]float64 `json:"soft"`   // prices of soft limits
		// Previous are powers by unit, MW, which change by no more than units' ramps (MW) allow; null for any.
		Previous []float64 `json:"previous"`
		Ramp     []float64 `json:"ramp"`
		Controls string    `json:"controls"` // lines of settings that are variables
	}, r *run) error {
		if y.noOptimum != nil && !o.Linear {
			return gpc.BadInput(y.noOptimum)
		}
		count := int(n)
		if count < 0 || count > math.MaxInt32 || arrays != intoArrays || o.Chains < 0 {
			return wrongf("%d scenarios, %d arrays and %d chains: want 0 or more, %d, and 0 or more", count, int64(arrays), o.Chains, intoArrays)
		}
		var a views
		buses := count * y.n.Buses()
		load := [2][]float64{viewed[float64](&a, "pd", pd, pds, buses), viewed[float64](&a, "qd", qd, qds, buses)}
		outages := [2][]int32{viewed[int32](&a, "branch", branch, branches, count), viewed[int32](&a, "unit", unit, units, count)}
		if a.err != nil {
			return a.err
		}
		y.mu.Lock()
		defer y.mu.Unlock()
		problems := y.problems(count, load, outages)
		for k := range problems {
			problems[k].Previous, problems[k].Ramp = scaled(o.Previous, 1/y.n.BaseMVA), scaled(o.Ramp, 1/y.n.BaseMVA)
		}
		if len(o.Soft) > 0 {
			return y.solveSoft(r, problems, o.Soft, unsafe.Slice((*unsafe.Pointer)(dst), intoArrays), out)
		}
		if o.Linear {
			return y.solveLinear(r, problems, unsafe.Slice((*unsafe.Pointer)(dst), intoArrays), out)
		}
		controls, err := y.controls(o.Controls)
		if err != nil {
			return err
		}
		return y.solve(r, problems, o.Chains, controls, unsafe.Slice((*unsafe.Pointer)(dst), intoArrays), out)
	})
}

// problems are the scenarios in per unit.
func (y *optima) problems(count int, load [2][]float64, outages [2][]int32) []acopf.Problem {
	nb := y.n.Buses()
	problems := make([]acopf.Problem, count)
	for k := range problems {
		pr := &problems[k]
		for i, dst := range []*[]float64{&pr.Pd, &pr.Qd} {
			if load[i] == nil {
				continue
			}
			*dst = make([]float64, nb)
			for b, v := range load[i][k*nb : (k+1)*nb] {
				(*dst)[b] = v / y.n.BaseMVA
			}
		}
		for i, dst := range []*[]int{&pr.Out.Branches, &pr.Out.Units} {
			if outages[i] != nil && outages[i][k] >= 0 {
				*dst = []int{int(outages[i][k])}
			}
		}
	}
	return problems
}

// scenariosAtOnce are those that a call has in memory as results.
const scenariosAtOnce = 4096

func (y *optima) solve(r *run, problems []acopf.Problem, chains int, controls []results.Control, dst []unsafe.Pointer, out **C.char) error {
	optimal, lists, s := 0, [][]results.Control{}, y.s
	if controls != nil {
		opt := s.Options()
		opt.Ranges = results.Ranges(controls)
		var err error
		if s, err = acopf.New(y.n, opt); err != nil {
			return gpc.BadInput(err)
		}
	}
	y.results = slices.Grow(y.results[:0], min(len(problems), scenariosAtOnce))[:min(len(problems), scenariosAtOnce)]
	for start := 0; start < len(problems); start += scenariosAtOnce {
		part := problems[start:min(start+scenariosAtOnce, len(problems))]
		ends := y.results[:len(part)]
		if err := solvePart(r, s, part, ends, chains); err != nil {
			return refusedUnless(r, err)
		}
		flows := network.NewFlows(y.n.Branches())
		for k := range ends {
			n, solver, err := y.n, s, error(nil)
			if controls != nil {
				if n, solver, err = y.settled(r, s, controls, part[k:k+1], ends[k:k+1]); err != nil {
					return refusedUnless(r, err)
				}
				lists = append(lists, []results.Control{})
			}
			end := &ends[k]
			y.writeEnd(start+k, n, solver, &part[k], end, flows, dst)
			if end.Status != acopf.Optimal {
				continue
			}
			if optimal++; controls != nil {
				lists[start+k] = slices.Clone(controls)
				results.Settle(lists[start+k], end.Settings, results.NewPoint(n, end.Vm, end.Va, end.Pg, end.Qg))
			}
		}
		r.progress(start+len(part), len(problems))
	}
	return answer(out, map[string]any{"optimal": optimal, "controls": lists})
}

// writeEnd puts the end of a solve on a network, n with the settings of the result, in row k.
func (y *optima) writeEnd(k int, n *network.Network, s *acopf.Solver, pr *acopf.Problem, r *acopf.Result, flows *network.Flows, dst []unsafe.Pointer) {
	if r.Status != acopf.Optimal {
		y.write(k, r, nil, nil, dst)
		return
	}
	m := s.LimitMultipliers(pr, r)
	n.BranchFlows(&n.Admittance, r.Vm, r.Va, flows)
	for _, b := range pr.Out.Branches {
		flows.Pf[b], flows.Qf[b] = 0, 0
		flows.Pt[b], flows.Qt[b] = 0, 0
	}
	y.write(k, r, &m, flows, dst)
}

func solvePart(r *run, s *acopf.Solver, part []acopf.Problem, results []acopf.Result, chains int) error {
	if chains == 0 {
		return s.Solve(r, part, results)
	}
	var all []acopf.Chain
	for k := range chains {
		from, to := k*len(part)/chains, (k+1)*len(part)/chains
		if from < to {
			all = append(all, acopf.Chain{Problems: part[from:to], Results: results[from:to]})
		}
	}
	return s.SolveChains(r, all)
}

// write puts one result in row k of the caller's arrays, in MATPOWER's units; NaN without an optimum.
func (y *optima) write(k int, r *acopf.Result, optimum *acopf.LimitMultipliers, flows *network.Flows, dst []unsafe.Pointer) {
	n := y.n
	integer := func(i int, v int32) {
		if dst[i] != nil {
			unsafe.Slice((*int32)(dst[i]), k+1)[k] = v
		}
	}
	row := func(i int, v []float64, size int, factor float64) {
		if dst[i] == nil {
			return
		}
		entries := unsafe.Slice((*float64)(dst[i]), (k+1)*size)[k*size:]
		for j := range entries {
			if v == nil {
				entries[j] = math.NaN()
			} else {
				entries[j] = factor * v[j]
			}
		}
	}
	integer(intoStatus, int32(r.Status))
	integer(intoIterations, int32(r.Iterations))
	var m acopf.LimitMultipliers
	nb, ng, nl := n.Buses(), n.Gens(), n.Branches()
	base := n.BaseMVA
	f, one := network.Flows{}, acopf.Result{}
	var objective, mismatch []float64
	if optimum != nil {
		m, one, f = *optimum, *r, *flows
		objective, mismatch = []float64{r.Objective}, []float64{r.KKT.Mismatch}
	}
	row(intoObjective, objective, 1, 1)
	row(intoMismatch, mismatch, 1, 1)
	for _, v := range []struct {
		i      int
		v      []float64
		size   int
		factor float64
	}{
		{intoVm, one.Vm, nb, 1}, {intoVa, one.Va, nb, 180 / math.Pi}, {intoPriceP, one.LambdaP, nb, 1 / base}, {intoPriceQ, one.LambdaQ, nb, 1 / base},
		{intoPg, one.Pg, ng, base}, {intoQg, one.Qg, ng, base},
		{intoPf, f.Pf, nl, base}, {intoQf, f.Qf, nl, base}, {intoPt, f.Pt, nl, base}, {intoQt, f.Qt, nl, base},
		{intoMuVMin, m.VMin, nb, 1}, {intoMuVMax, m.VMax, nb, 1}, {intoMuPMin, m.PMin, ng, 1 / base}, {intoMuPMax, m.PMax, ng, 1 / base},
		{intoMuQMin, m.QMin, ng, 1 / base}, {intoMuQMax, m.QMax, ng, 1 / base}, {intoMuFrom, m.SFrom, nl, 1 / base}, {intoMuTo, m.STo, nl, 1 / base},
		{intoMuAngMin, m.AngMin, nl, math.Pi / 180}, {intoMuAngMax, m.AngMax, nl, math.Pi / 180},
	} {
		row(v.i, v.v, v.size, v.factor)
	}
}
