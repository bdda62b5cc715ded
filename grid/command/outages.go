package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/grid/secure"
)

// outageWords are what --outages takes, in pf and in opf.
const outageWords = "branches, units, all, or a `FILE` of lines such as \"branch 7\" and \"unit 2\", rows of mpc.branch and mpc.gen from 1"

// namedOutages are those that an argument names: by a word, or those of a file.
func namedOutages(n *network.Network, what string) (list []secure.Outage, word bool, err error) {
	if list, word = secure.Named(n, what); word {
		return list, true, nil
	}
	f, err := os.Open(what)
	if err != nil {
		return nil, false, cli.BadInputf("--outages: %w: want branches, units, all or a file of lines such as \"branch 7\" and \"unit 2\"", err)
	}
	defer f.Close()
	if list, err = secure.ReadOutages(n, what, f); err != nil {
		err = cli.BadInputf("--outages: %w", err)
	}
	return list, false, err
}

// analysing are the flags of gpc pf --outages.
type analysing struct {
	outages         string
	participation   string
	emergency, band float64
}

func (y *analysing) flags(f *pflag.FlagSet) {
	f.StringVar(&y.outages, "outages", "", "single outages to analyse: "+outageWords)
	f.Float64Var(&y.emergency, "emergency", 1, "with --outages: factor on every rating after an outage, 1 or more")
	f.StringVar(&y.participation, "participation", "", "with --outages and --enforce-q: "+participationWords+" (default: the reference takes it up)")
	f.Float64Var(&y.band, "voltage-band", 0, "with --outages: how far voltages may exceed their limits after an outage, pu")
}

// only refuses flags that have no meaning with --outages, or without it.
func (y *analysing) only(f *pflag.FlagSet) error {
	if f.Changed("outages") && y.outages == "" {
		return cli.BadInputf("--outages is empty: want branches, units, all or a file of lines such as \"branch 7\" and \"unit 2\"")
	}
	if y.outages == "" {
		for _, name := range []string{"emergency", "voltage-band", "participation"} {
			if f.Changed(name) {
				return cli.BadInputf("--%s needs --outages", name)
			}
		}
		return nil
	}
	if f.Changed("out") || f.Changed("csv") {
		return cli.BadInputf("--outages solves many power flows: leave out --out and --csv, which write one")
	}
	if enforced, _ := f.GetBool("enforce-q"); f.Changed("participation") && !enforced {
		return cli.BadInputf("--participation needs --enforce-q: units that share missing power are held within their reactive limits")
	}
	return checkAfter(f, y.emergency, y.band)
}

// checkAfter refuses limits after an outage that are none.
func checkAfter(f *pflag.FlagSet, emergency, band float64) error {
	if f.Changed("emergency") && !(emergency >= 1 && emergency <= 100) {
		return cli.BadInputf("--emergency %g: want a factor of 1 to 100", emergency)
	}
	if f.Changed("voltage-band") && !(band >= 0 && band <= 1) {
		return cli.BadInputf("--voltage-band %g: want 0 to 1 pu", band)
	}
	return nil
}

// dispatchHint is what to do where a file of PGLib has no power flow.
func dispatchHint(n *network.Network) string {
	if !n.PGLib() {
		return ""
	}
	return "; a file of PGLib holds no dispatch of its own: gpc opf FILE --out solved.m writes one"
}

// run solves the base and every outage, side by side.
func (y *analysing) run(ctx context.Context, n *network.Network, opt powerflow.Options, scale float64, a *cli.App) (*results.Security, error) {
	list, _, err := namedOutages(n, y.outages)
	if err != nil {
		return nil, err
	}
	pr := results.FlowProblem{Options: opt}
	pr.Pd, pr.Qd = n.Loads(scale)
	var shares []float64
	if y.participation != "" {
		if shares, err = participation(n, y.participation); err != nil {
			return nil, gpc.BadInput(err)
		}
	}
	r, err := results.After(ctx, n, pr, results.SecurityOptions{Emergency: y.emergency, Band: y.band, Shared: y.participation != "", Participation: shares, Threads: a.Threads(), Progress: a.Progress("outages")}, list)
	if errors.As(err, new(results.NoBaseError)) {
		err = fmt.Errorf("%w%s", err, dispatchHint(n))
	}
	return r, err
}

// printedOutages is how many outages a table lists.
const printedOutages = 40

// inShort is a reason in a table: what happened, without the numbers and hints behind a colon, which --json has.
func inShort(reason string) string {
	what, _, _ := strings.Cut(reason, ":")
	return what
}

func printSecurity(w io.Writer, y *results.Security) {
	breaking := 0
	for _, r := range y.Outages {
		breaking += bit(len(r.Violations) > 0)
	}
	fmt.Fprintf(w, "%s: %s in %.3f ms: %d secure; %s a limit, %s off load, %d without a power flow\n", y.Case, count(len(y.Outages), "outage"), y.WallMS,
		y.Secure, countOf(breaking, "breaks", "break"), countOf(y.CutOff, "cuts", "cut"), y.Unsolved)
	if y.Emergency != 1 || y.Band != 0 {
		fmt.Fprintf(w, "after an outage ratings are %g times as large, and voltage limits %g pu wider\n", y.Emergency, y.Band)
	}
	if len(y.Violations) > 0 {
		printBroken(w, "broken before any outage", y.Violations)
		fmt.Fprintln(w)
	}
	rows, more := [][]string{{"outage", "row", "at", "severity", "worst", "by", "unit", "limits broken", "buses cut off", "load lost MW"}}, 0
	for _, r := range y.Outages {
		if r.Converged && len(r.Violations) == 0 && len(r.Islanded) == 0 {
			continue
		}
		if len(rows) > printedOutages {
			more++
			continue
		}
		rows = append(rows, outageRow(&r))
	}
	if len(rows) == 1 {
		return
	}
	cli.Table(w, rows)
	printMore(w, more)
}

// outageRow is an outage in the table.
func outageRow(r *results.AfterOutage) []string {
	at, severity := fmt.Sprintf("bus %d", r.From), ""
	if r.Kind == "branch" {
		at = fmt.Sprintf("%d to %d", r.From, r.To)
	}
	worst, by, unit := "", "", ""
	switch {
	case !r.Converged:
		worst = inShort(r.Reason)
	case len(r.Violations) > 0:
		l := r.Violations[0]
		worst, by, unit = l.Kind+" at "+l.Where(), fmt.Sprintf("%.4f", l.By), l.Unit
	}
	if r.Severity != nil {
		severity = fmt.Sprintf("%.3f", *r.Severity)
	}
	return []string{r.Kind, strconv.Itoa(r.Row), at, severity, worst, by, unit,
		strconv.Itoa(len(r.Violations)), strconv.Itoa(len(r.Islanded)), fmt.Sprintf("%.1f", r.LostMW)}
}

// printMore says how many rows a table has not.
func printMore(w io.Writer, more int) {
	if more > 0 {
		fmt.Fprintf(w, "and %d more, which --json lists\n", more)
	}
}
