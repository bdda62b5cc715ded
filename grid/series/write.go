package series

import (
	"cmp"
	"io"
	"math"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/durable"
)

// Files are the tables that Write makes in a folder.
var Files = []string{"steps.parquet", "bus.parquet", "gen.parquet", "branch.parquet"}

// The rows of the tables: MW, MVAr, MVA, pu, degrees, $/h, prices in $/MWh and $/MVArh,
// multipliers in $/h by what is limited. Bus numbers are the file's, gen and branch the rows of
// its tables, from 1. Of a step without an optimum there is a row in steps alone.
type (
	// StepRow is a row of steps.parquet.
	StepRow struct {
		Step         int32   `parquet:"step"`
		Time         string  `parquet:"time"`
		Status       string  `parquet:"status"`
		Reason       string  `parquet:"reason"`
		Objective    float64 `parquet:"objective"`
		Iterations   int32   `parquet:"iterations"`
		LoadMW       float64 `parquet:"load_mw"`
		GenerationMW float64 `parquet:"generation_mw"`
		LossMW       float64 `parquet:"loss_mw"`
		Mismatch     float64 `parquet:"max_mismatch_pu"`
		Violation    float64 `parquet:"max_violation_pu"`
	}
	// BusRow is a row of bus.parquet.
	BusRow struct {
		Step   int32   `parquet:"step"`
		Bus    int32   `parquet:"bus"`
		Vm     float64 `parquet:"vm_pu"`
		Va     float64 `parquet:"va_degree"`
		Pd     float64 `parquet:"pd_mw"`
		Qd     float64 `parquet:"qd_mvar"`
		PriceP float64 `parquet:"price_p"`
		PriceQ float64 `parquet:"price_q"`
		MuVMin float64 `parquet:"mu_vmin"`
		MuVMax float64 `parquet:"mu_vmax"`
	}
	// GenRow is a row of gen.parquet.
	GenRow struct {
		Step   int32   `parquet:"step"`
		Gen    int32   `parquet:"gen"`
		Bus    int32   `parquet:"bus"`
		Pg     float64 `parquet:"pg_mw"`
		Qg     float64 `parquet:"qg_mvar"`
		MuPMin float64 `parquet:"mu_pmin"`
		MuPMax float64 `parquet:"mu_pmax"`
		MuQMin float64 `parquet:"mu_qmin"`
		MuQMax float64 `parquet:"mu_qmax"`
	}
	// BranchRow is a row of branch.parquet. Loading is the larger |S| of the two ends over the
	// rating, 0 without one.
	BranchRow struct {
		Step    int32   `parquet:"step"`
		Branch  int32   `parquet:"branch"`
		From    int32   `parquet:"from"`
		To      int32   `parquet:"to"`
		Pf      float64 `parquet:"pf_mw"`
		Qf      float64 `parquet:"qf_mvar"`
		Pt      float64 `parquet:"pt_mw"`
		Qt      float64 `parquet:"qt_mvar"`
		Loading float64 `parquet:"loading"`
		MuFrom  float64 `parquet:"mu_from"`
		MuTo    float64 `parquet:"mu_to"`
	}
)

// Sink takes the results of steps, in order.
type Sink struct {
	n      *network.Network
	s      *acopf.Solver
	flows  *network.Flows
	steps  *parquet.GenericWriter[StepRow]
	bus    *parquet.GenericWriter[BusRow]
	gen    *parquet.GenericWriter[GenRow]
	branch *parquet.GenericWriter[BranchRow]
	rows   struct {
		bus    []BusRow
		gen    []GenRow
		branch []BranchRow
	}
}

// Write makes the tables of Files in a folder, each whole or not at all: fill is called once and
// gives its results to the sink. An error of fill is returned as it is.
func Write(folder string, n *network.Network, s *acopf.Solver, fill func(*Sink) error) error {
	out := &Sink{n: n, s: s, flows: network.NewFlows(n.Branches())}
	create := func(i int, next func(io.Writer) error) error {
		return durable.Create(filepath.Join(folder, Files[i]), next)
	}
	return create(0, func(w io.Writer) error {
		out.steps = writer[StepRow](w)
		return create(1, func(w io.Writer) error {
			out.bus = writer[BusRow](w)
			return create(2, func(w io.Writer) error {
				out.gen = writer[GenRow](w)
				return create(3, func(w io.Writer) error {
					out.branch = writer[BranchRow](w)
					if err := fill(out); err != nil {
						return err
					}
					return cmp.Or(out.steps.Close(), out.bus.Close(), out.gen.Close(), out.branch.Close())
				})
			})
		})
	})
}

func writer[T any](w io.Writer) *parquet.GenericWriter[T] {
	return parquet.NewGenericWriter[T](w, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(1<<20), parquet.CreatedBy("gpc", "", ""))
}

// Add writes the results of steps.
func (o *Sink) Add(steps *Steps, results []acopf.Result) error {
	problems := steps.Problems()
	for k := range results {
		r, step := &results[k], int32(steps.First+k)
		row := StepRow{Step: step, Time: steps.Time[k], Status: r.Status.String(), Reason: r.Reason(), Iterations: int32(r.Iterations),
			LoadMW: steps.LoadMW(o.n, k), Objective: math.NaN(), GenerationMW: math.NaN(), LossMW: math.NaN(), Mismatch: math.NaN(), Violation: math.NaN()}
		if r.Status == acopf.Optimal {
			m := o.s.LimitMultipliers(&problems[k], r)
			o.optimum(step, steps, k, r, &m)
			row.Objective, row.Mismatch, row.Violation = r.Objective, r.KKT.Mismatch, r.KKT.Violation
			row.GenerationMW, row.LossMW = o.n.MW(r.Pg), 0
			for _, b := range o.rows.branch {
				row.LossMW += b.Pf + b.Pt
			}
			if err := o.tables(); err != nil {
				return err
			}
		}
		if _, err := o.steps.Write([]StepRow{row}); err != nil {
			return err
		}
	}
	return nil
}

// optimum fills the rows of one step.
func (o *Sink) optimum(step int32, steps *Steps, k int, r *acopf.Result, m *acopf.LimitMultipliers) {
	n, base, degree := o.n, o.n.BaseMVA, 180/math.Pi
	o.rows.bus, o.rows.gen, o.rows.branch = o.rows.bus[:0], o.rows.gen[:0], o.rows.branch[:0]
	for b, id := range n.BusID {
		o.rows.bus = append(o.rows.bus, BusRow{step, int32(id), r.Vm[b], r.Va[b] * degree, steps.Pd[k][b] * base, steps.Qd[k][b] * base,
			r.LambdaP[b] / base, r.LambdaQ[b] / base, m.VMin[b], m.VMax[b]})
	}
	for g, row := range n.GenRow {
		o.rows.gen = append(o.rows.gen, GenRow{step, int32(row + 1), int32(n.BusID[n.GenBus[g]]), r.Pg[g] * base, r.Qg[g] * base,
			m.PMin[g] / base, m.PMax[g] / base, m.QMin[g] / base, m.QMax[g] / base})
	}
	n.BranchFlows(&n.Admittance, r.Vm, r.Va, o.flows)
	f := o.flows
	for l, row := range n.BranchRow {
		loading := 0.0
		if rate := n.Rate[l]; !math.IsInf(rate, 1) {
			loading = max(math.Hypot(f.Pf[l], f.Qf[l]), math.Hypot(f.Pt[l], f.Qt[l])) / rate
		}
		o.rows.branch = append(o.rows.branch, BranchRow{step, int32(row + 1), int32(n.BusID[n.From[l]]), int32(n.BusID[n.To[l]]),
			f.Pf[l] * base, f.Qf[l] * base, f.Pt[l] * base, f.Qt[l] * base, loading, m.SFrom[l] / base, m.STo[l] / base})
	}
}

func (o *Sink) tables() error {
	_, bus := o.bus.Write(o.rows.bus)
	_, gen := o.gen.Write(o.rows.gen)
	_, branch := o.branch.Write(o.rows.branch)
	return cmp.Or(bus, gen, branch)
}
