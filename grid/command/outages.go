package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/grid/series"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/version"
)

// outageWords are what --outages takes, in pf and in opf.
const outageWords = "branches, units, all, or a `FILE` of lines such as \"branch 7\" and \"unit 2\", rows of mpc.branch and mpc.gen from 1"

// namedOutages are the outages of an argument: a word or a file that is read.
func namedOutages(n *network.Network, argument string, read func(*network.Network, string, io.Reader) ([]secure.Outage, error)) (list []secure.Outage, word bool, err error) {
	if list, word = secure.Named(n, argument); word {
		return list, true, nil
	}
	f, err := os.Open(argument)
	if err != nil {
		return nil, false, cli.BadInputf("--outages: %w: want branches, units, all or a file of lines such as \"branch 7\" and \"unit 2\"", err)
	}
	defer f.Close()
	if list, err = read(n, argument, f); err != nil {
		err = cli.BadInputf("--outages: %w", err)
	}
	return list, false, err
}

// outageFlags are the flags of gpc pf outages.
type outageFlags struct {
	flowFlags
	outages         string
	emergency, band float64
	worst           int
	record, shard   string
	scenarios       string
}

// outagesCommand is gpc pf outages.
func outagesCommand(a *cli.App) *cobra.Command {
	var y outageFlags
	var files outputs
	cmd := &cobra.Command{
		Use:   "outages FILE.m",
		Short: "AC power flows after each outage of a branch or unit, and the limits that they break",
		Long: `Takes out one branch or unit at a time: every branch in service (branches), every
unit (units), both (all), or those of a file. Each outage is a power flow that starts
from the solution without outage. The reference takes up the power of a unit. A part that
loses its reference gets another one: its bus with the most P_max. Without a unit, or
without load, the part is left without supply.

The table lists limits of voltages, ratings and units that are exceeded further than
without outage. With --enforce-q units keep their reactive limits. Outages without a power flow stand first. The others are sorted by lost
load, by generation lost with a part, and by severity. An overload counts as its share of
the rating, or of the unit's larger limit, and 0.01 pu of voltage as a tenth. A second
table has the branches with the highest loading after any outage.

--csv writes outages.csv, violations.csv and elements.csv. The last has the highest
loading of each limit, and the outage after which it is. --out writes all outages to
FILE.csv, or everything to FILE.json; to FILE.m it writes the case with the solution
without outage.

--record keeps the results of every 1024 outages in a folder: run the same command to
continue. With --shard i/n it solves every n-th of these parts, from i on, and prints its
own. When all are in the folder, the command without --shard prints the whole.

--scenarios reads a table of loads: every outage of each row is solved. It prints the
probability that an outage breaks a limit, with its interval of 95 %. Tables have the
outages and limits by how often. Lost load counts for nothing, in the exit code too.

--emergency and --voltage-band widen the limits after an outage, and with --participation
units share the missing power, as in gpc opf secure.

Exit code 1 says that an outage breaks a limit, cuts off load or has no power flow.`,
		Example: "  " + a.Name + " pf outages secure.m --emergency 1.3 --voltage-band 0.05 --enforce-q --participation range",
		Args:    cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(y.check(cmd.Context()), checkAfter(y.emergency, y.band)); err != nil {
				return err
			}
			if y.participation != "" && !y.opt.EnforceQ {
				return cli.BadInputf("--participation needs --enforce-q: units that share missing power are held within their reactive limits")
			}
			ending := filepath.Ext(files.out)
			switch {
			case !slices.Contains([]string{"", ".csv", ".json", ".m"}, ending):
				return cli.BadInputf("--out %s: want a file that ends in .csv, .json or .m", files.out)
			case ending == ".json" && y.record != "" && filepath.Clean(y.record) == filepath.Dir(files.out):
				return cli.BadInputf("--out %s is in the folder of --record: give it another", files.out)
			}
			if err := files.check(cmd, args[0], "outages.csv", "violations.csv", "elements.csv"); err != nil {
				return err
			}
			if y.record != "" {
				if err := cli.MakeFolder("--record", y.record); err != nil {
					return err
				}
			}
			c, n, err := readNetwork(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			pr, opt, err := y.problem(n, a)
			if err != nil {
				return err
			}
			if y.scenarios != "" {
				return y.sample(cmd, n, a, &files, pr, opt)
			}
			r, err := results.After(cmd.Context(), n, pr, opt)
			if errors.As(err, new(results.NoBaseError)) {
				err = fmt.Errorf("%w%s", err, dispatchHint(n))
			}
			if err != nil {
				return err
			}
			switch ending {
			case ".csv":
				err = writeCSV(files.out, cells(r.Outages))
			case ".json":
				var text []byte
				if text, err = finite.Marshal(r); err == nil {
					err = durable.WriteFile(files.out, append(text, '\n'), 0o644)
				}
			default:
				solved := solvedCase(c, n, y.scale, results.NewPoint(n, r.Base.Vm, r.Base.Va, r.Base.Pg, r.Base.Qg))
				err = (&outputs{out: files.out}).write(solved, origin(c, "AC power flow"))
			}
			if err := cmp.Or(err, writeSecurity(files.csv, r)); err != nil {
				return err
			}
			if worst := len(r.Outages); worst < r.Count {
				fmt.Fprintf(a.Stderr, "%d outages are counted, the %d worst of them listed: --worst 0 lists all\n", r.Count, worst)
			}
			return a.PrintChecked(r.Secure >= r.Count, r, func(w io.Writer) { printSecurity(w, r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&y.outages, "outages", "all", "the outages to analyse: "+outageWords+". A line may have several, such as \"branch 5, unit 2\", a busbar (\"bus 7\"), names of the case, and a label before a colon")
	f.Float64Var(&y.emergency, "emergency", 1, "factor on every rating after an outage, 1 or more")
	f.StringVar(&y.participation, "participation", "", "with --enforce-q, units share the balance, before an outage and after it: "+slackWords+" (default: the reference takes it up)")
	f.Float64Var(&y.band, "voltage-band", 0, "how far voltages may exceed their limits after an outage, pu")
	f.IntVar(&y.worst, "worst", results.DefaultWorst, "outages that are ranked and printed, the worst; all are counted, and 0 prints all")
	f.StringVar(&y.record, "record", "", "`folder` to keep the results in; what is in it is not solved again")
	f.StringVar(&y.shard, "shard", "", "i/n: with --record, solve part i (from 0) of n"+cli.ShardUsage)
	f.StringVar(&y.scenarios, "scenarios", "", "`FILE` (.csv or .parquet) of loads, a row a scenario, as in gpc opf series: how often outages break limits")
	y.flags(f)
	files.flags(f)
	f.Lookup("out").Usage = "`FILE` for all outages (.csv), everything (.json), or the case with the solution without outage (.m)"
	f.Lookup("csv").Usage = "`folder` to write outages.csv, violations.csv and elements.csv to"
	cli.Bound(cmd, "worst", 0, 10_000_000)
	return cmd
}

// checkAfter refuses invalid limits after an outage.
func checkAfter(emergency, band float64) error {
	if !(emergency >= 1 && emergency <= 100) {
		return cli.BadInputf("--emergency %g: want a factor of 1 to 100", emergency)
	}
	if !(band >= 0 && band <= 1) {
		return cli.BadInputf("--voltage-band %g: want 0 to 1 pu", band)
	}
	return nil
}

// dispatchHint suggests a remedy where a file of PGLib has no power flow.
func dispatchHint(n *network.Network) string {
	if !n.PGLib() {
		return ""
	}
	return "; a file of PGLib holds no dispatch of its own: gpc opf FILE --out solved.m writes one"
}

// problem is the power flow with its outages.
func (y *outageFlags) problem(n *network.Network, a *cli.App) (pr results.FlowProblem, opt results.SecurityOptions, err error) {
	opt.List, _, err = namedOutages(n, y.outages, func(n *network.Network, name string, source io.Reader) (list []secure.Outage, err error) {
		list, opt.Groups, err = results.ReadOutages(n, name, source)
		return list, err
	})
	if err != nil {
		return pr, opt, err
	}
	if opt.Participation, err = y.slack(n); err != nil {
		return pr, opt, err
	}
	part, err := a.Shard(y.shard)
	if err != nil {
		return pr, opt, err
	}
	switch {
	case y.record != "":
		opt.Record = &results.Record{Folder: y.record, Build: version.Build(), Index: part.Index, Count: part.Count}
	case part.Count > 0:
		return pr, opt, cli.BadInputf("--shard needs --record: the folder that the parts are joined in")
	}
	pr.Options = y.opt
	pr.Pd, pr.Qd = n.Loads(y.scale)
	opt.Worst, opt.Emergency, opt.Band = y.worst, y.emergency, y.band
	opt.ShareMissing, opt.Threads, opt.Progress = y.participation != "", a.Threads(), a.Progress("outages")
	return pr, opt, nil
}

// sample prints and writes how often outages break limits over the scenarios of a table.
func (y *outageFlags) sample(cmd *cobra.Command, n *network.Network, a *cli.App, files *outputs, pr results.FlowProblem, opt results.SecurityOptions) error {
	if f := cmd.Flags(); f.Changed("record") || f.Changed("out") || f.Changed("scale") || f.Changed("worst") {
		return cli.BadInputf("--scenarios takes no --record, --out, --scale and --worst: --csv and --json write all its results, and its table has a column scale")
	}
	source, err := series.Open(y.scenarios, n)
	if err != nil {
		return cli.BadInputf("--scenarios: %w", err)
	}
	defer source.Close()
	r, err := results.AfterScenarios(cmd.Context(), n, pr, opt, func(limit int) (results.Samples, error) {
		steps, err := source.Next(limit)
		if err != nil {
			return results.Samples{}, cli.BadInputf("--scenarios: %w", err)
		}
		return results.Samples{Pd: steps.Pd, Qd: steps.Qd, Names: steps.Time}, nil
	})
	if err == nil && r.Scenarios == 0 {
		err = cli.BadInputf("--scenarios: %s has no row with loads", y.scenarios)
	}
	if err != nil {
		return err
	}
	if files.csv != "" {
		if err := cmp.Or(writeCSV(filepath.Join(files.csv, "outages.csv"), cells(r.Outages)), writeCSV(filepath.Join(files.csv, "elements.csv"), cells(r.Elements))); err != nil {
			return err
		}
	}
	return a.PrintChecked(r.Before.Scenarios+r.After.Scenarios == 0, r, func(w io.Writer) { printScenarios(w, r) })
}

// percent is a probability with its interval.
func percent(r results.Risk) string {
	return fmt.Sprintf("%.2f %% [%.2f, %.2f]", 100*r.Probability, 100*r.Low, 100*r.High)
}

// printScenarios writes the probabilities, and tables of the outages and limits that are broken most often.
func printScenarios(w io.Writer, y *results.Scenarios) {
	fmt.Fprintf(w, "%s: %s of %s each in %.3f ms\n", y.Case, count(y.Scenarios, "scenario"), count(y.Count, "outage"), y.WallMS)
	fmt.Fprintf(w, "a limit is broken after an outage in %d: %s, without any outage in %d: %s\n", y.After.Scenarios, percent(y.After), y.Before.Scenarios, percent(y.Before))
	rows := [][]string{{"outage", "scenarios", "probability [95 %]", "no power flow", "largest severity"}}
	for _, r := range y.Outages[:min(len(y.Outages), printedOutages)] {
		rows = append(rows, []string{r.Where(), strconv.Itoa(r.Scenarios), percent(r.Risk), strconv.Itoa(r.Unsolved), fmt.Sprintf("%.3f", r.Severity)})
	}
	limits := [][]string{{"limit", "at", "scenarios", "probability [95 %]", "by at most", "unit", "after", "in scenario"}}
	for _, r := range y.Elements[:min(len(y.Elements), printedOutages)] {
		limits = append(limits, []string{r.Kind, r.Limit.Where(), strconv.Itoa(r.Scenarios), percent(r.Risk), fmt.Sprintf("%.4f", r.Excess), r.Unit, r.Extreme.Outage.Where(), r.Scenario})
	}
	for _, table := range [][][]string{rows, limits} {
		if len(table) > 1 {
			fmt.Fprintln(w)
			cli.Table(w, table)
		}
	}
	printMore(w, max(len(y.Outages), len(y.Elements))-printedOutages)
}

// printedOutages is how many outages a table lists.
const printedOutages = 40

// shortReason is a reason in a table, without the numbers and hints after a colon, which --json has.
func shortReason(reason string) string {
	short, _, _ := strings.Cut(reason, ":")
	return short
}

func printSecurity(w io.Writer, y *results.Security) {
	fmt.Fprintf(w, "%s: %s in %.3f ms: %d secure; %s a limit, %s off load, %d without a power flow\n", y.Case, count(y.Count, "outage"), y.WallMS,
		y.Secure, countOf(y.Breaking, "breaks", "break"), countOf(y.CutOff, "cuts", "cut"), y.Unsolved)
	fmt.Fprintf(w, "solved: %d by the factors of the base, %d by their own\n", y.SolvedBy.BaseFactors, y.SolvedBy.OwnFactors)
	if y.Shard[1] > 1 {
		fmt.Fprintf(w, "these are part %d of %d, counted from 0\n", y.Shard[0], y.Shard[1])
	}
	if y.Emergency != 1 || y.Band != 0 {
		fmt.Fprintf(w, "after an outage ratings are %g times as large, and voltage limits %g pu wider\n", y.Emergency, y.Band)
	}
	if len(y.Violations) > 0 {
		printBroken(w, "broken before any outage", y.Violations)
		fmt.Fprintln(w)
	}
	rows, hidden := [][]string{{"outage", "row", "at", "load lost MW", "generation lost MW", "severity", "worst", "by", "unit", "limits broken", "buses cut off"}}, 0
	for _, r := range y.Outages {
		if r.Converged && len(r.Violations) == 0 && len(r.Islanded) == 0 {
			continue
		}
		if len(rows) > printedOutages {
			hidden++
			continue
		}
		rows = append(rows, outageRow(&r))
	}
	if len(rows) > 1 {
		cli.Table(w, rows)
		printMore(w, hidden)
	}
	printLoadings(w, y.Elements)
}

// outageRow is an outage in the table.
func outageRow(r *results.AfterOutage) []string {
	place, severity := cmp.Or(r.Label, fmt.Sprintf("bus %d", r.From)), ""
	if r.Kind == "branch" {
		place = fmt.Sprintf("%d to %d", r.From, r.To)
	}
	worst, excess, unit := "", "", ""
	switch {
	case !r.Converged:
		worst = shortReason(r.Reason)
	case len(r.Violations) > 0:
		l := r.Violations[0]
		worst, excess, unit = l.Kind+" at "+l.Where(), fmt.Sprintf("%.4f", l.Excess), l.Unit
	}
	if r.Severity != nil {
		severity = fmt.Sprintf("%.3f", *r.Severity)
	}
	return []string{r.Kind, strconv.Itoa(r.Row), place, fmt.Sprintf("%.1f", r.LostMW), fmt.Sprintf("%.1f", r.LostUnitsMW), severity, worst, excess, unit,
		strconv.Itoa(len(r.Violations)), strconv.Itoa(len(r.Islanded))}
}

// printLoadings lists the ten branches with the highest loading after any outage.
func printLoadings(w io.Writer, elements []results.Extreme) {
	loading := func(e results.Extreme) float64 { return 100 * e.Value / e.Bound }
	rated := slices.DeleteFunc(slices.Clone(elements), func(e results.Extreme) bool { return e.Branch == 0 })
	slices.SortStableFunc(rated, func(a, b results.Extreme) int { return cmp.Compare(loading(b), loading(a)) })
	rows := [][]string{{"loaded most after any outage", "MVA", "rating", "%", "after"}}
	for _, e := range rated[:min(len(rated), 10)] {
		rows = append(rows, []string{e.Where(), fmt.Sprintf("%.2f", e.Value), fmt.Sprintf("%.2f", e.Bound), fmt.Sprintf("%.1f", loading(e)), e.Outage.Where()})
	}
	if len(rated) > 0 {
		fmt.Fprintln(w)
		cli.Table(w, rows)
	}
}

// writeSecurity writes the tables of --csv.
func writeSecurity(folder string, y *results.Security) error {
	if folder == "" {
		return nil
	}
	violations := []results.Extreme{}
	for _, r := range y.Outages {
		for _, v := range r.Violations {
			violations = append(violations, results.Extreme{Broken: v, Outage: r.Outage})
		}
	}
	return cmp.Or(writeCSV(filepath.Join(folder, "outages.csv"), cells(y.Outages)), writeCSV(filepath.Join(folder, "violations.csv"), cells(violations)),
		writeCSV(filepath.Join(folder, "elements.csv"), cells(y.Elements)))
}

// cells is a table of structs under their keys of JSON: a struct in one has its columns behind its key, a list of numbers
// stands in one cell, and of a list of structs its length.
func cells[T any](list []T) [][]string {
	rows := [][]string{nil}
	var flatten func(key string, v reflect.Value, header bool) []string
	flatten = func(key string, v reflect.Value, header bool) (row []string) {
		switch {
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				field, name := v.Type().Field(i), key
				if !field.IsExported() {
					continue
				}
				if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); !field.Anonymous {
					name = strings.TrimPrefix(key+"_"+tag, "_")
				}
				row = append(row, flatten(name, v.Field(i), header)...)
			}
			return row
		case header:
			return []string{key}
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
			return []string{strconv.Itoa(v.Len())}
		case v.Kind() == reflect.Slice:
			return []string{strings.Trim(fmt.Sprint(v), "[]")}
		case v.Kind() == reflect.Pointer && v.IsNil():
			return []string{""}
		}
		return []string{fmt.Sprint(reflect.Indirect(v))}
	}
	rows[0] = flatten("", reflect.ValueOf(*new(T)), true)
	for _, x := range list {
		rows = append(rows, flatten("", reflect.ValueOf(x), false))
	}
	return rows
}

// printMore counts the rows that a table leaves out.
func printMore(w io.Writer, hidden int) {
	if hidden > 0 {
		fmt.Fprintf(w, "and %d more, which --json lists\n", hidden)
	}
}
