package command

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domains/opf/network"
	"github.com/gpc-engine/gpc/domains/opf/powerflow"
	"github.com/gpc-engine/gpc/matpower/cases"
)

// powerFlow is what gpc pf prints: voltages in pu and degrees, powers in MW,
// MVAr and MVA. The lists are empty where it did not converge.
type powerFlow struct {
	Case       string            `json:"case"`
	Converged  bool              `json:"converged"`
	Status     string            `json:"status"`
	Reason     string            `json:"reason"`
	Iterations int               `json:"iterations"`
	Mismatch   *float64          `json:"max_mismatch_pu"`
	WallMS     float64           `json:"wall_ms"`
	LoadMW     float64           `json:"load_mw"`
	LossMW     *float64          `json:"loss_mw"`
	Switches   int               `json:"switches"`
	Bus        []powerFlowBus    `json:"bus"`
	Gen        []powerFlowGen    `json:"gen"`
	Branch     []powerFlowBranch `json:"branch"`
}

type powerFlowBus struct {
	ID    int     `json:"id"`
	Type  string  `json:"type"`
	Vm    float64 `json:"vm"`
	Va    float64 `json:"va"`
	Pd    float64 `json:"pd"`
	Qd    float64 `json:"qd"`
	Limit string  `json:"q_limit"`
}

type powerFlowGen struct {
	Bus int     `json:"bus"`
	Pg  float64 `json:"pg"`
	Qg  float64 `json:"qg"`
}

type powerFlowBranch struct {
	From int     `json:"from"`
	To   int     `json:"to"`
	Pf   float64 `json:"pf_mw"`
	Qf   float64 `json:"qf_mvar"`
	Pt   float64 `json:"pt_mw"`
	Qt   float64 `json:"qt_mvar"`
	Sf   float64 `json:"sf_mva"`
	St   float64 `json:"st_mva"`
	// Rate is the long-term rating, null where the file has none.
	Rate *float64 `json:"rate_mva"`
}

// PowerFlow is gpc pf.
func PowerFlow(a *cli.App) *cobra.Command {
	var opt powerflow.Options
	var flat bool
	scale := 1.0
	cmd := &cobra.Command{
		Use:   "pf FILE.m",
		Short: "AC power flow of a MATPOWER case: voltages, generation and branch flows",
		Long: `Newton's method on the AC power flow, with the case's loads, generation and voltage set-points.

` + networkArgument + strings.Join(cases.Names(), ", ") + `.

Exit code 1 when it does not converge.`,
		Args: cli.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if flat {
				opt.Start = powerflow.Flat
			}
			if err := opt.Validate(); err != nil {
				return gpc.BadInput(err)
			}
			if !(scale >= 0) || math.IsInf(scale, 1) {
				return cli.BadInputf("--scale %g: want a number of 0 or more", scale)
			}
			n, err := readNetwork(a, args[0])
			if err != nil {
				return err
			}
			result, err := runPowerFlow(n, opt, scale)
			if err != nil {
				return gpc.BadInput(err)
			}
			if err := a.Print(result, result.print); err != nil {
				return err
			}
			if !result.Converged {
				return cli.ErrCheck
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flat, "flat", false, "start from 1 pu and equal angles instead of the file's voltages")
	f.BoolVar(&opt.EnforceQ, "enforce-q", false, "hold generators within their reactive limits; the reference bus is not switched")
	f.Float64Var(&opt.Tolerance, "tolerance", 1e-9, "largest mismatch that counts as solved, pu")
	f.IntVar(&opt.MaxIterations, "max-iterations", 30, "Newton steps at most")
	f.Float64Var(&scale, "scale", 1, "factor on every load, active and reactive; the reference bus takes up the difference")
	return cmd
}

// runPowerFlow solves and puts the solution in the file's units.
func runPowerFlow(n *network.Network, opt powerflow.Options, scale float64) (*powerFlow, error) {
	s, err := powerflow.New(n)
	if err != nil {
		return nil, err
	}
	in := powerflow.Input{Pd: make([]float64, n.Buses()), Qd: make([]float64, n.Buses())}
	for b := range in.Pd {
		in.Pd[b], in.Qd[b] = scale*n.Pd[b], scale*n.Qd[b]
	}
	sol := s.NewSolution()
	start := time.Now()
	if err := s.Solve(in, opt, sol); err != nil {
		return nil, err
	}
	r := &powerFlow{
		Case: n.Name, Converged: sol.Converged(), Status: sol.Status.String(), Reason: s.Reason(sol), Iterations: sol.Iterations,
		Mismatch: finite(sol.Mismatch), WallMS: float64(time.Since(start)) / 1e6, Switches: sol.Switches,
		Bus: []powerFlowBus{}, Gen: []powerFlowGen{}, Branch: []powerFlowBranch{},
	}
	for _, p := range in.Pd {
		r.LoadMW += p * n.BaseMVA
	}
	if !r.Converged {
		return r, nil
	}
	for b, id := range n.BusID {
		limit := map[int8]string{-1: "min", 0: "", 1: "max"}[sol.AtLimit[b]]
		r.Bus = append(r.Bus, powerFlowBus{ID: id, Type: n.Kind[b].String(), Vm: sol.Vm[b], Va: sol.Va[b] * 180 / math.Pi,
			Pd: in.Pd[b] * n.BaseMVA, Qd: in.Qd[b] * n.BaseMVA, Limit: limit})
	}
	for g, b := range n.GenBus {
		r.Gen = append(r.Gen, powerFlowGen{Bus: n.BusID[b], Pg: sol.Pg[g] * n.BaseMVA, Qg: sol.Qg[g] * n.BaseMVA})
	}
	flows := network.NewFlows(n.Branches())
	s.BranchFlows(sol, flows)
	loss := 0.0
	for k, from := range n.From {
		pf, qf, pt, qt := flows.Pf[k]*n.BaseMVA, flows.Qf[k]*n.BaseMVA, flows.Pt[k]*n.BaseMVA, flows.Qt[k]*n.BaseMVA
		loss += pf + pt
		r.Branch = append(r.Branch, powerFlowBranch{From: n.BusID[from], To: n.BusID[n.To[k]], Pf: pf, Qf: qf, Pt: pt, Qt: qt,
			Sf: math.Hypot(pf, qf), St: math.Hypot(pt, qt), Rate: finite(n.Rate[k] * n.BaseMVA)})
	}
	r.LossMW = finite(loss)
	return r, nil
}

func (r *powerFlow) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s, %.3f ms\n", r.Case, r.Reason, r.WallMS)
	if !r.Converged {
		return nil
	}
	fmt.Fprintf(w, "load %.2f MW, losses in branches %.3f MW\n", r.LoadMW, *r.LossMW)
	cell := func(format string, x float64) string { return fmt.Sprintf(format, x) }
	rows := [][]string{{"bus", "type", "V pu", "angle °", "load MW", "load MVAr", "Q limit"}}
	for _, b := range r.Bus {
		rows = append(rows, []string{strconv.Itoa(b.ID), b.Type, cell("%.4f", b.Vm), cell("%.3f", b.Va), cell("%.2f", b.Pd), cell("%.2f", b.Qd), b.Limit})
	}
	fmt.Fprintln(w)
	if err := cli.Table(w, rows); err != nil {
		return err
	}
	rows = [][]string{{"generator at", "P MW", "Q MVAr"}}
	for _, g := range r.Gen {
		rows = append(rows, []string{strconv.Itoa(g.Bus), cell("%.2f", g.Pg), cell("%.2f", g.Qg)})
	}
	fmt.Fprintln(w)
	if err := cli.Table(w, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return cli.Table(w, branchRows(r.Branch))
}

// branchRows lays branch flows out as a table.
func branchRows(branches []powerFlowBranch) [][]string {
	cell := func(format string, x float64) string { return fmt.Sprintf(format, x) }
	rows := [][]string{{"from", "to", "P from MW", "Q from MVAr", "P to MW", "Q to MVAr", "S from MVA", "S to MVA", "rating MVA", "loaded %"}}
	for _, b := range branches {
		rating, loaded := "-", "-"
		if b.Rate != nil {
			rating, loaded = cell("%g", *b.Rate), cell("%.1f", 100*max(b.Sf, b.St) / *b.Rate)
		}
		rows = append(rows, []string{strconv.Itoa(b.From), strconv.Itoa(b.To), cell("%.2f", b.Pf), cell("%.2f", b.Qf), cell("%.2f", b.Pt),
			cell("%.2f", b.Qt), cell("%.2f", b.Sf), cell("%.2f", b.St), rating, loaded})
	}
	return rows
}
