package main

/*
#include <stdint.h>
*/
import "C"

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/grid/secure"
)

// flowOptions are those of gpc_network_flow and gpc_network_outages.
type flowOptions struct {
	EnforceQ      bool    `json:"enforce_q"`
	Flat          bool    `json:"flat"`
	Linear        bool    `json:"linear"`        // of the DC model
	Participation string  `json:"participation"` // how units share the balance; "" leaves it to the reference
	Controls      string  `json:"controls"`      // lines of them
	Tolerance     float64 `json:"tolerance"`
	MaxIterations int     `json:"max_iterations"`
}

// outageOptions name outages: by a word, or by lines of so named a text.
type outageOptions struct {
	Outages string `json:"outages"`
	Name    string `json:"outages_name"`
	Lines   string `json:"outages_lines"`
}

// checkAfter refuses limits after an outage that are none.
func checkAfter(emergency, band float64) error {
	if !(emergency >= 1 && emergency <= 100) {
		return wrongf("emergency is %g, want a factor of 1 to 100", emergency)
	}
	if !(band >= 0 && band <= 1) {
		return wrongf("voltage_band is %g, want 0 to 1 pu", band)
	}
	return nil
}

// list are the outages, and whether a word names them.
func (o outageOptions) list(n *network.Network) (list []secure.Outage, word bool, err error) {
	if list, word = secure.Named(n, o.Outages); word {
		return list, true, nil
	}
	list, err = results.ReadElements(n, o.Name, strings.NewReader(o.Lines))
	return list, false, gpc.BadInput(err)
}

// flowProblem are the arrays of a power flow: loads by bus (MW, MVAr), and of a dispatch powers by unit (MW), magnitudes and angles
// by bus (pu, degrees). Any may be left out; a dispatch holds the voltage of every unit's bus.
func (y *optima) flowProblem(o flowOptions, v views, pd, qd, pg, vm, va []float64) (*network.Network, results.FlowProblem, error) {
	n, pr := y.n, results.FlowProblem{Options: powerflow.Options{EnforceQ: o.EnforceQ, Tolerance: o.Tolerance, MaxIterations: o.MaxIterations}}
	if v.err != nil {
		return nil, pr, v.err
	}
	if o.Flat {
		pr.Start = powerflow.Flat
	}
	pr.Pd, pr.Qd, pr.Pg = scaled(pd, 1/n.BaseMVA), scaled(qd, 1/n.BaseMVA), scaled(pg, 1/n.BaseMVA)
	if vm == nil {
		return n, pr, pr.Validate()
	}
	pr.Vg = make([]float64, n.Gens())
	for g, bus := range n.GenBus {
		pr.Vg[g] = vm[bus]
	}
	if va != nil {
		pr.Vm, pr.Va = vm, scaled(va, math.Pi/180)
	}
	return n.WithUnitVoltages(), pr, pr.Validate()
}

// scaled are numbers times a factor; nil stays nil.
func scaled(v []float64, factor float64) []float64 {
	if v == nil {
		return nil
	}
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = factor * x
	}
	return out
}

// gpc_network_flow solves the power flow at loads and a dispatch (optima.at) by flowOptions, and answers what
// gpc pf --json prints, its tables by columns.
//
//export gpc_network_flow
func gpc_network_flow(h C.uintptr_t, opt *C.char, pd unsafe.Pointer, pds C.int64_t, qd unsafe.Pointer, qds C.int64_t,
	pg unsafe.Pointer, pgs C.int64_t, vm unsafe.Pointer, vms C.int64_t, va unsafe.Pointer, vas C.int64_t, shares unsafe.Pointer, units C.int64_t,
	out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(y *optima, o *flowOptions, r *run) error {
		var v views
		nb, ng := y.n.Buses(), y.n.Gens()
		loads, reactive := viewed[float64](&v, "pd", pd, pds, nb), viewed[float64](&v, "qd", qd, qds, nb)
		power, magnitude, angle := viewed[float64](&v, "pg", pg, pgs, ng), viewed[float64](&v, "vm", vm, vms, nb), viewed[float64](&v, "va", va, vas, nb)
		factors := viewed[float64](&v, "participation", shares, units, ng)
		n, pr, err := y.flowProblem(*o, v, loads, reactive, power, magnitude, angle)
		if err != nil {
			return gpc.BadInput(err)
		}
		if _, err := y.slack(&pr, o.Participation, factors); err != nil {
			return err
		}
		pr.Context = r
		var flow *results.PowerFlow
		list, err := y.controls(o.Controls)
		if err != nil {
			return err
		}
		if list != nil {
			flow, _, err = results.Regulate(n, pr, list)
		} else if o.Linear {
			flow, _, err = results.LinearFlow(n, override(pr.Pd, n.Pd), override(pr.Pg, n.Pg0))
		} else {
			flow, _, err = results.Flow(n, pr)
		}
		if err != nil {
			return refusedUnless(r, err)
		}
		return answer(out, struct {
			*results.PowerFlow
			Bus    columns `json:"bus"`
			Gen    columns `json:"gen"`
			Branch columns `json:"branch"`
		}{
			flow,
			columns{"vm": column(flow.Bus, func(b *results.FlowBus) float64 { return b.Vm }), "va": column(flow.Bus, func(b *results.FlowBus) float64 { return b.Va })},
			columns{"pg": column(flow.Gen, func(g *results.GenOutput) float64 { return g.Pg }), "qg": column(flow.Gen, func(g *results.GenOutput) float64 { return g.Qg })},
			columns{
				"pf_mw": column(flow.Branch, func(b *results.BranchFlow) float64 { return b.Pf }), "qf_mvar": column(flow.Branch, func(b *results.BranchFlow) float64 { return b.Qf }),
				"pt_mw": column(flow.Branch, func(b *results.BranchFlow) float64 { return b.Pt }), "qt_mvar": column(flow.Branch, func(b *results.BranchFlow) float64 { return b.Qt }),
			},
		})
	})
}

// columns are those of a table, doubles in base64, little endian.
type columns map[string][]byte

func column[T any](rows []T, of func(*T) float64) []byte {
	out := make([]byte, 0, 8*len(rows))
	for i := range rows {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(of(&rows[i])))
	}
	return out
}

// override are values that are given, or the network's.
func override(values, network []float64) []float64 {
	if values != nil {
		return values
	}
	return network
}

// refusedUnless is an error of what the caller gave, unless the run was ended.
func refusedUnless(r *run, err error) error {
	if r.Err() != nil {
		return err
	}
	return gpc.BadInput(err)
}

// slack lets units share the balance of a power flow, by a word or by factors, which it returns: nil for range and headroom.
func (y *optima) slack(pr *results.FlowProblem, word string, factors []float64) (_ []float64, err error) {
	if factors == nil && word == "" {
		return nil, nil
	}
	if word != "headroom" {
		factors, err = participation(y.n, word, factors)
	}
	pr.Slack = results.NewSlack(y.n, word == "headroom", factors)
	return factors, err
}

// participation are factors by unit that are given, or those of a word of the command line.
func participation(n *network.Network, word string, factors []float64) ([]float64, error) {
	if factors != nil {
		return factors, nil
	}
	out, ok := secure.NamedParticipation(n, word)
	if !ok {
		return nil, wrongf("participation %q: want range, pmax, equal, in power flows headroom, or an array of %d factors", word, n.Gens())
	}
	return out, nil
}

// gpc_network_outages solves the power flow of every outage of outageOptions at loads and a dispatch as gpc_network_flow
// does, or of every outage at each row of loads, and answers what gpc pf outages --json prints. participation is a word of the command line, or shares are factors
// by unit; without both the reference takes up what is missing.
//
//export gpc_network_outages
func gpc_network_outages(h C.uintptr_t, opt *C.char, pd unsafe.Pointer, pds C.int64_t, qd unsafe.Pointer, qds C.int64_t,
	pg unsafe.Pointer, pgs C.int64_t, vm unsafe.Pointer, vms C.int64_t, va unsafe.Pointer, vas C.int64_t, shares unsafe.Pointer, units C.int64_t,
	out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(y *optima, o *struct {
		flowOptions
		outageOptions
		Emergency float64 `json:"emergency"`
		Band      float64 `json:"voltage_band"`
		Worst     int     `json:"worst"`
		Scenarios int     `json:"scenarios"` // rows of the loads; 0 is one power flow
	}, r *run) error {
		var v views
		nb, ng := y.n.Buses(), y.n.Gens()
		rows := max(1, o.Scenarios) * nb
		loads, reactive := viewed[float64](&v, "pd", pd, pds, rows), viewed[float64](&v, "qd", qd, qds, rows)
		power, magnitude, angle := viewed[float64](&v, "pg", pg, pgs, ng), viewed[float64](&v, "vm", vm, vms, nb), viewed[float64](&v, "va", va, vas, nb)
		if err := checkAfter(o.Emergency, o.Band); err != nil {
			return err
		}
		limits := results.SecurityOptions{Emergency: o.Emergency, Band: o.Band, Worst: o.Worst, Threads: y.threads(), Progress: r.progress}
		factors := viewed[float64](&v, "participation", shares, units, ng)
		if limits.ShareMissing = factors != nil || o.Participation != ""; limits.ShareMissing {
			if !o.EnforceQ {
				return wrongf("participation needs enforce_q: units that share missing power are held within their reactive limits")
			}
		}
		n, pr, err := y.flowProblem(o.flowOptions, v, loads, reactive, power, magnitude, angle)
		if err != nil {
			return gpc.BadInput(err)
		}
		if limits.Participation, err = y.slack(&pr, o.Participation, factors); err != nil {
			return err
		}
		var word bool
		if limits.List, word = secure.Named(n, o.Outages); !word {
			if limits.List, limits.Groups, err = results.ReadOutages(n, o.Name, strings.NewReader(o.Lines)); err != nil {
				return gpc.BadInput(err)
			}
		}
		pr.Context = r
		if o.Scenarios > 0 {
			rows := results.Rows(slices.Collect(slices.Chunk(pr.Pd, nb)), slices.Collect(slices.Chunk(pr.Qd, nb)))
			pr.Pd, pr.Qd = nil, nil
			risks, err := results.AfterScenarios(r, n, pr, limits, rows)
			if err != nil {
				return refusedUnless(r, err)
			}
			return answer(out, risks)
		}
		flows, err := results.After(r, n, pr, limits)
		if errors.As(err, new(results.NoBaseError)) {
			return err
		}
		if err != nil {
			return refusedUnless(r, err)
		}
		return answer(out, flows)
	})
}

// threads is how many the network's options allow.
func (y *optima) threads() int { return cmp.Or(y.o.Threads, runtime.GOMAXPROCS(0)) }

// gpc_network_secure finds the dispatch that survives the outages of outageOptions for n loads by bus (MW, MVAr; NULL with 0
// rows for the case's), each begun at the last, or for the first with the others as scenarios. It answers a list of what
// gpc opf secure --json prints, with "warm". participation is a word of the command line, or shares are factors by unit.
//
//export gpc_network_secure
func gpc_network_secure(h C.uintptr_t, opt *C.char, count C.int64_t, pd unsafe.Pointer, pds C.int64_t, qd unsafe.Pointer, qds C.int64_t,
	shares unsafe.Pointer, units C.int64_t, out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(y *optima, o *struct {
		outageOptions
		Emergency     float64 `json:"emergency"`
		Band          float64 `json:"voltage_band"`
		Participation string  `json:"participation"`
		MaxIterations int     `json:"max_iterations"`
		Scenarios     bool    `json:"scenarios"` // loads after the first
		Violations    float64 `json:"violations"`
	}, r *run) error {
		if err := checkAfter(o.Emergency, o.Band); err != nil {
			return err
		}
		n := y.n
		if count < 0 || count > math.MaxInt32 || y.o.CurrentLimits {
			return wrongf("%d loads, and current_limits is %v: want 0 loads or more, and limits of |S|", int64(count), y.o.CurrentLimits)
		}
		var v views
		loads, reactive := viewed[float64](&v, "pd", pd, pds, int(count)*n.Buses()), viewed[float64](&v, "qd", qd, qds, int(count)*n.Buses())
		factors := viewed[float64](&v, "participation", shares, units, n.Gens())
		if v.err != nil {
			return v.err
		}
		source, err := network.ParseDispatchable(cmp.Or(y.o.Dispatchable, network.DispatchableByFile.String()))
		if err != nil {
			return wrongf("dispatchable %w", err)
		}
		all := secure.Options{Emergency: o.Emergency, Band: o.Band, MaxIterations: o.MaxIterations, Threads: y.threads(), Dispatchable: source}
		if all.Participation, err = participation(n, o.Participation, factors); err != nil {
			return err
		}
		list, word, err := o.list(n)
		if err != nil {
			return err
		}
		var cut []secure.Outage
		if word {
			if list, cut = secure.Survivable(n, list); len(list) == 0 {
				return wrongf("outages %s: every branch of network %s cuts off a part of it: no outage is left", o.Outages, n.Name)
			}
		}
		all.Outages = list
		s, err := secure.New(n, all)
		if err != nil {
			return gpc.BadInput(err)
		}
		steps := make([]secure.Problem, count)
		for k := range steps {
			steps[k].Pd, steps[k].Qd = n.Pd, n.Qd
			if loads != nil {
				steps[k].Pd = scaled(loads[k*n.Buses():(k+1)*n.Buses()], 1/n.BaseMVA)
			}
			if reactive != nil {
				steps[k].Qd = scaled(reactive[k*n.Buses():(k+1)*n.Buses()], 1/n.BaseMVA)
			}
		}
		type secureStep struct {
			*results.SecureFlow
			Warm bool `json:"warm"`
		}
		flows := []secureStep{}
		last := time.Now()
		if o.Scenarios {
			flow, _, err := results.SecureChance(r, n, all, steps, o.Violations)
			if err != nil {
				return refusedUnless(r, err)
			}
			flow.LeftOut = results.Outages(n, cut)
			return answer(out, []secureStep{{flow, false}})
		}
		err = s.Chain(r, steps, func(k int, warm bool, one *secure.Result) error {
			flow := results.Secure(n, s, all, steps[k], one)
			flow.LeftOut, flow.WallMS = results.Outages(n, cut), float64(time.Since(last))/1e6
			last = time.Now()
			flows = append(flows, secureStep{flow, warm})
			r.progress(k+1, len(steps))
			return nil
		})
		if err != nil {
			return refusedUnless(r, err)
		}
		return answer(out, flows)
	})
}
