package command

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/results"
)

// printedBroken is the number of violated limits in a table.
const printedBroken = 40

// printBroken writes a table of violated limits under a title.
func printBroken(w io.Writer, title string, list []results.Broken) {
	rows := [][]string{{title, "at", "value", "limit", "by", "unit"}}
	for _, l := range list[:min(len(list), printedBroken)] {
		rows = append(rows, []string{l.Kind, l.Where(), fmt.Sprintf("%.4f", l.Value), fmt.Sprintf("%.4f", l.Bound), fmt.Sprintf("%.4f", l.Excess), l.Unit})
	}
	cli.Table(w, rows)
	if hidden := len(list) - printedBroken; hidden > 0 {
		fmt.Fprintf(w, "and %d more\n", hidden)
	}
}

// count is a number with its noun, whose plural ends in s.
func count(n int, noun string) string { return countOf(n, noun, noun+"s") }

// countOf is a number with the words for one or for several.
func countOf(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + several
}

// printDispatch writes tables of the buses, of the units and of the branches, each after a
// blank line.
func printDispatch(w io.Writer, d *results.Dispatch, buses [][]string) {
	gens := [][]string{{"unit", "bus", "P MW", "Q MVAr", "name"}}
	for _, g := range d.Gen {
		gens = append(gens, []string{strconv.Itoa(g.Gen), strconv.Itoa(g.Bus), fmt.Sprintf("%.2f", g.Pg), fmt.Sprintf("%.2f", g.Qg), g.Name})
	}
	branches := [][]string{{"branch", "from", "to", "P from MW", "Q from MVAr", "P to MW", "Q to MVAr", "S from MVA", "S to MVA", "rating MVA", "loaded %", "name"}}
	for _, b := range d.Branch {
		row := []string{strconv.Itoa(b.Branch), strconv.Itoa(b.From), strconv.Itoa(b.To)}
		for _, power := range []float64{b.Pf, b.Qf, b.Pt, b.Qt, b.Sf, b.St} {
			row = append(row, fmt.Sprintf("%.2f", power))
		}
		rating, loaded := "-", "-"
		if !math.IsInf(b.Rate, 1) {
			rating, loaded = fmt.Sprintf("%g", b.Rate), fmt.Sprintf("%.1f", 100*max(b.Sf, b.St)/b.Rate)
		}
		branches = append(branches, append(row, rating, loaded, b.Name))
	}
	for _, rows := range [][][]string{buses, gens, branches} {
		fmt.Fprintln(w)
		cli.Table(w, withoutNames(rows))
	}
}

// withoutNames leaves the last column of a table out where it is empty: that of the names.
func withoutNames(rows [][]string) [][]string {
	last := len(rows[0]) - 1
	if rows[0][last] != "name" || slices.ContainsFunc(rows[1:], func(r []string) bool { return r[last] != "" }) {
		return rows
	}
	for i := range rows {
		rows[i] = rows[i][:last]
	}
	return rows
}
