package command

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/durable"
)

// outputs are the files that a solution is written to.
type outputs struct{ out, csv string }

func (o *outputs) flags(f *pflag.FlagSet) {
	f.StringVar(&o.out, "out", "", "`FILE.m` to write the solved case to, with MATPOWER's columns of results")
	f.StringVar(&o.csv, "csv", "", "`folder` to write bus.csv, gen.csv and branch.csv to")
}

// check refuses, before any work, outputs that cannot be written, are an input or another output. names are the files of --csv.
func (o *outputs) check(cmd *cobra.Command, network string, names ...string) error {
	flags := func(list ...string) (files []durable.File) {
		for _, name := range list {
			if f := cmd.Flags().Lookup(name); f != nil {
				files = append(files, durable.File{Name: "--" + name, Path: f.Value.String()})
			}
		}
		return files
	}
	files := flags("out", "ptdf", "lodf")
	if o.csv != "" {
		if err := cli.MakeFolder("--csv", o.csv); err != nil {
			return err
		}
		for _, name := range names {
			files = append(files, durable.File{Name: "--csv", Path: filepath.Join(o.csv, name)})
		}
	}
	return cli.CheckOutputs(files, append(flags("outages", "participation", "controls", "scenarios"), durable.File{Name: "the case", Path: network}))
}

// write writes a solved case, each file whole or not at all.
func (o *outputs) write(c *matpower.Case, comment string) error {
	if o.out != "" {
		if err := durable.Create(o.out, func(w io.Writer) error {
			return matpower.Write(w, matpower.FunctionName(o.out), comment, c)
		}); err != nil {
			return err
		}
	}
	if o.csv == "" {
		return nil
	}
	for i, rows := range tables {
		if err := writeCSV(filepath.Join(o.csv, solvedTables[i]), withoutNames(rows(c))); err != nil {
			return err
		}
	}
	return nil
}

// writeCSV writes a table, its header first.
func writeCSV(path string, rows [][]string) error {
	return durable.Create(path, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(rows) })
}

// solvedCase is a case with a solution at scale times its loads: voltages, loads, generation, flows.
// Equipment out of service generates and carries nothing.
func solvedCase(c *matpower.Case, n *network.Network, scale float64, p results.Point) *matpower.Case {
	out := *c
	out.Bus, out.Gen, out.Branch = slices.Clone(c.Bus), slices.Clone(c.Gen), slices.Clone(c.Branch)
	out.HasFlows, out.HasMultipliers = true, false
	for i := range out.Bus {
		b := &out.Bus[i]
		b.LamP, b.LamQ = 0, 0
		b.MuVMax, b.MuVMin = 0, 0
	}
	for i := range out.Gen {
		g := &out.Gen[i]
		g.Pg, g.Qg, g.MuPMax = 0, 0, 0
		g.MuPMin, g.MuQMax, g.MuQMin = 0, 0, 0
	}
	for i := range out.Branch {
		b := &out.Branch[i]
		b.Pf, b.Qf, b.Pt = 0, 0, 0
		b.Qt, b.MuSf, b.MuSt = 0, 0, 0
		b.MuAngMin, b.MuAngMax = 0, 0
	}
	for i, row := range n.BusRow {
		b := &out.Bus[row]
		b.Vm, b.Va = p.Vm[i], results.Degrees(p.Va[i])
		b.Pd, b.Qd = scale*b.Pd, scale*b.Qd
	}
	for i, row := range n.GenRow {
		g := &out.Gen[row]
		g.Pg, g.Qg = p.Pg[i]*n.BaseMVA, p.Qg[i]*n.BaseMVA
	}
	flows := p.Flows
	for k, row := range n.BranchRow {
		b := &out.Branch[row]
		b.Pf, b.Qf = flows.Pf[k]*n.BaseMVA, flows.Qf[k]*n.BaseMVA
		b.Pt, b.Qt = flows.Pt[k]*n.BaseMVA, flows.Qt[k]*n.BaseMVA
	}
	return &out
}

// withSetPoints puts an optimum's voltages in a solved case as the set-points of what holds voltages.
func withSetPoints(c *matpower.Case, n *network.Network, vm []float64) *matpower.Case {
	for i, row := range n.GenRow {
		if g := &c.Gen[row]; g.Vg > 0 {
			g.Vg = vm[n.GenBus[i]]
		}
	}
	return c
}

// withMultipliers puts an optimum's set-points, prices and multipliers in a solved case.
func withMultipliers(c *matpower.Case, n *network.Network, r *acopf.Result, m *acopf.LimitMultipliers) {
	withSetPoints(c, n, r.Vm).HasMultipliers = true
	for i, row := range n.BusRow {
		b := &c.Bus[row]
		b.LamP, b.LamQ = r.LambdaP[i]/n.BaseMVA, r.LambdaQ[i]/n.BaseMVA
		b.MuVMax, b.MuVMin = m.VMax[i], m.VMin[i]
	}
	for i, row := range n.GenRow {
		g := &c.Gen[row]
		g.MuPMax, g.MuPMin = m.PMax[i]/n.BaseMVA, m.PMin[i]/n.BaseMVA
		g.MuQMax, g.MuQMin = m.QMax[i]/n.BaseMVA, m.QMin[i]/n.BaseMVA
	}
	for k, row := range n.BranchRow {
		b := &c.Branch[row]
		b.MuSf, b.MuSt = m.SFrom[k]/n.BaseMVA, m.STo[k]/n.BaseMVA
		b.MuAngMin, b.MuAngMax = m.AngMin[k]/results.Degrees(1), m.AngMax[k]/results.Degrees(1)
	}
}

// tables are the files of --csv, by solvedTables.
var tables = []func(*matpower.Case) [][]string{busRows, genRows, branchRows}

var solvedTables = []string{"bus.csv", "gen.csv", "branch.csv"}

// rowOf writes integers and then numbers as text; infinite ones and NaN are empty.
func rowOf(integers []int, numbers ...float64) []string {
	var out []string
	for _, i := range integers {
		out = append(out, strconv.Itoa(i))
	}
	for _, v := range numbers {
		text := ""
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			text = strconv.FormatFloat(v, 'g', -1, 64)
		}
		out = append(out, text)
	}
	return out
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func busRows(c *matpower.Case) [][]string {
	header := []string{"bus", "type", "vm_pu", "va_deg", "pd_mw", "qd_mvar", "vmin_pu", "vmax_pu", "bs_mvar"}
	if c.HasMultipliers {
		header = append(header, "lam_p_per_mwh", "lam_q_per_mvarh", "mu_vmin_per_pu", "mu_vmax_per_pu")
	}
	rows := [][]string{append(header, "name")}
	for _, b := range c.Bus {
		numbers := []float64{b.Vm, b.Va, b.Pd, b.Qd, b.VMin, b.VMax, b.Bs}
		if c.HasMultipliers {
			numbers = append(numbers, b.LamP, b.LamQ, b.MuVMin, b.MuVMax)
		}
		rows = append(rows, append(rowOf([]int{b.ID, int(b.Type)}, numbers...), b.Name))
	}
	return rows
}

func genRows(c *matpower.Case) [][]string {
	header := []string{"gen", "bus", "in_service", "pg_mw", "qg_mvar", "vg_pu", "pmin_mw", "pmax_mw", "qmin_mvar", "qmax_mvar"}
	if c.HasMultipliers {
		header = append(header, "mu_pmin_per_mwh", "mu_pmax_per_mwh", "mu_qmin_per_mvarh", "mu_qmax_per_mvarh")
	}
	rows := [][]string{append(header, "name")}
	for i, g := range c.Gen {
		numbers := []float64{g.Pg, g.Qg, g.Vg, g.PMin, g.PMax, g.QMin, g.QMax}
		if c.HasMultipliers {
			numbers = append(numbers, g.MuPMin, g.MuPMax, g.MuQMin, g.MuQMax)
		}
		rows = append(rows, append(rowOf([]int{i + 1, g.Bus, bit(g.InService)}, numbers...), g.Name))
	}
	return rows
}

func branchRows(c *matpower.Case) [][]string {
	header := []string{"branch", "from", "to", "in_service", "pf_mw", "qf_mvar", "pt_mw", "qt_mvar", "sf_mva", "st_mva", "rate_mva", "loaded_pct", "ratio", "shift_deg"}
	if c.HasMultipliers {
		header = append(header, "mu_sf_per_mvah", "mu_st_per_mvah", "mu_angmin_per_deg", "mu_angmax_per_deg")
	}
	rows := [][]string{append(header, "name")}
	for i, b := range c.Branch {
		sf, st, rate := math.Hypot(b.Pf, b.Qf), math.Hypot(b.Pt, b.Qt), cmp.Or(b.RateA, math.Inf(1))
		numbers := []float64{b.Pf, b.Qf, b.Pt, b.Qt, sf, st, rate, 100 * max(sf, st) / rate, b.Tap, b.ShiftDeg}
		if math.IsInf(rate, 1) {
			numbers[7] = math.NaN()
		}
		if c.HasMultipliers {
			numbers = append(numbers, b.MuSf, b.MuSt, b.MuAngMin, b.MuAngMax)
		}
		rows = append(rows, append(rowOf([]int{i + 1, b.From, b.To, bit(b.InService)}, numbers...), b.Name))
	}
	return rows
}

// origin is the comment of a solved case.
func origin(c *matpower.Case, method string) string { return fmt.Sprintf("%s, %s", c.Name, method) }
