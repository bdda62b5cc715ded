package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
)

// Undisturbed pairings are of the case as it is, and of whole methods.
func Undisturbed(p *closedloop.Pairing) bool { return UndisturbedPlant(p) && !ablates(p) }

func UndisturbedPlant(p *closedloop.Pairing) bool {
	return len(p.Shift) == 0 && p.Noise == 0 && p.Bias == 0 && p.ScenesSHA256 == ""
}

// ablates tells whether a pairing sets a method beside itself without a part.
func ablates(p *closedloop.Pairing) bool {
	return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool {
		_, is := WholeOf(m.Method)
		return is
	})
}

func ShiftText(shift map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(shift)) {
		parts = append(parts, fmt.Sprintf("%s × %g", name, shift[name]))
	}
	return strings.Join(parts, ", ")
}

// PairingsWhere returns the pairings of a case that are wanted: those of larger maps first, then
// by shift, noise and bias.
func (r *Records) PairingsWhere(name string, wanted func(p *closedloop.Pairing) bool) (out []closedloop.Pairing) {
	for _, p := range r.Pairings {
		if p.Case == name && p.ScenesSHA256 == "" && !byCandidates(&p) && !ByConstants(&p) && !retrained(&p) && wanted(&p) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b closedloop.Pairing) int {
		return cmp.Or(
			cmp.Compare(b.Map.Samples, a.Map.Samples), cmp.Compare(a.Noise, b.Noise), cmp.Compare(a.Bias, b.Bias),
			slices.Compare(slices.Sorted(maps.Keys(a.Shift)), slices.Sorted(maps.Keys(b.Shift))), compareFactors(a.Shift, b.Shift))
	})
	return out
}

// compareFactors orders shifts of the same parameters.
func compareFactors(a, b map[string]float64) int {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if c := cmp.Compare(a[name], b[name]); c != 0 {
			return c
		}
	}
	return 0
}

// pairedCases are the cases with pairings, by name.
func (r *Records) pairedCases() (names []string) {
	for _, p := range r.Pairings {
		names = append(names, p.Case)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// PairedCases are those of them that the program has.
func (r *Records) PairedCases() []string {
	return slices.DeleteFunc(r.pairedCases(), func(name string) bool {
		_, has := r.Cases[name]
		return !has
	})
}

// BundledMap is what tables call the map of a pairing without a file.
const BundledMap = "bundled"

// PairedRow is the i-th method of a pairing, behind what its first cells say.
func PairedRow(first []string, i int, m *closedloop.Paired) []string {
	return slices.Concat(first, []string{"`" + m.Method + "`"}, pairedCells(i, m), []string{Milliseconds("%.3f", &m.Latency)})
}

// pairedCells are how many of its episodes were safe, its regret, the median, 90 % quantile and
// largest of it, and by how much it differs from the first method's, over how many episodes.
func pairedCells(i int, m *closedloop.Paired) []string {
	difference, n := "–", "–"
	if i > 0 {
		difference, n = Estimate("%.5f", m.DifferencePct, m.DifferenceCI95), fmt.Sprint(m.Compared)
	}
	return slices.Concat([]string{fmt.Sprintf("%d/%d", m.Safe, m.Episodes), Estimate("%.5f", m.RegretPct, m.RegretCI95)}, Spread("%.5f", &m.Regret),
		[]string{m.RegretWorst.Text("%.4f"), difference, n})
}
