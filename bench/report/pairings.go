package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
)

// undisturbed pairings are of the case as it is, and of whole methods.
func undisturbed(p *closedloop.Pairing) bool { return undisturbedPlant(p) && !ablates(p) }

func undisturbedPlant(p *closedloop.Pairing) bool {
	return len(p.Shift) == 0 && p.Noise == 0 && p.Bias == 0 && p.ScenesSHA256 == ""
}

// ablates tells whether a pairing sets a method beside itself without a part.
func ablates(p *closedloop.Pairing) bool {
	return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool {
		_, is := wholeOf(m.Method)
		return is
	})
}

func shiftText(shift map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(shift)) {
		parts = append(parts, fmt.Sprintf("%s × %g", name, shift[name]))
	}
	return strings.Join(parts, ", ")
}

// paired returns the pairings of a case that are wanted: those of larger maps first, then
// by shift, noise and bias.
func (r *Records) paired(name string, wanted func(p *closedloop.Pairing) bool) (out []closedloop.Pairing) {
	for _, p := range r.Pairings {
		if p.Case == name && p.ScenesSHA256 == "" && !byCandidates(&p) && !byConstants(&p) && !retrained(&p) && wanted(&p) {
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

// knownPaired are those of them that the program has.
func (r *Records) knownPaired() []string {
	return slices.DeleteFunc(r.pairedCases(), func(name string) bool {
		_, has := r.cases[name]
		return !has
	})
}

// bundledMap is what tables call the map of a pairing without a file.
const bundledMap = "bundled"

// plainest are the undisturbed pairings of a case of the bundled map, and of the one of the
// fewest samples where there is another.
func plainest(r run) []closedloop.Pairing {
	all := r.paired(r.name, undisturbed)
	if len(all) > 1 {
		return []closedloop.Pairing{all[0], all[len(all)-1]}
	}
	return all
}

// pairedRow is the i-th method of a pairing, behind what its first cells say.
func pairedRow(first []string, i int, m *closedloop.Paired) []string {
	return slices.Concat(first, []string{"`" + m.Method + "`"}, pairedCells(i, m), []string{milliseconds("%.3f", &m.Latency)})
}

// pairedCells are how many of its episodes were safe, its regret, the median, 90 % quantile and
// largest of it, and by how much it differs from the first method's, over how many episodes.
func pairedCells(i int, m *closedloop.Paired) []string {
	difference, n := "–", "–"
	if i > 0 {
		difference, n = estimate("%.5f", m.DifferencePct, m.DifferenceCI95), fmt.Sprint(m.Compared)
	}
	return slices.Concat([]string{fmt.Sprintf("%d/%d", m.Safe, m.Episodes), estimate("%.5f", m.RegretPct, m.RegretCI95)}, spread("%.5f", &m.Regret),
		[]string{m.RegretWorst.Text("%.4f"), difference, n})
}

// quality is what candidates, polish and data are worth, in pairs, method by method.
func (d devices) quality() string {
	s := section{rows: [][]string{{"case", "map, samples", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "p50 / p99, ms"}}}
	var shown []closedloop.Pairing
	for _, r := range runs(d, (*Records).knownPaired) {
		for _, p := range plainest(r) {
			shown = append(shown, p)
			for i, m := range p.Pairs {
				s.rows = append(s.rows, pairedRow([]string{p.Case, cmp.Or(p.Map.File, bundledMap) + ", " + fmt.Sprint(p.Map.Samples)}, i, &m))
			}
		}
	}
	s.provenance = recordedBy(shown)
	return tables(s)
}

// shifted is the same on plants that the maps were not made for.
func (d devices) shifted() string {
	s := section{rows: [][]string{{"case", "plant", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "p50 / p99, ms"}}}
	var shown []closedloop.Pairing
	for _, r := range runs(d, (*Records).knownPaired) {
		for _, p := range r.paired(r.name, func(p *closedloop.Pairing) bool { return p.Shift["ellipse"] == 1.1 || p.Shift["obstacle-speed"] == 1.5 }) {
			shown = append(shown, p)
			for i, m := range p.Pairs {
				s.rows = append(s.rows, pairedRow([]string{p.Case, shiftText(p.Shift)}, i, &m))
			}
		}
	}
	s.provenance = recordedBy(shown)
	return tables(s)
}
