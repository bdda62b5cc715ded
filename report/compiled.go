package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

// checkCompilation refuses a record that the tables cannot index.
func checkCompilation(c *compile.Report) error {
	if c.Case == "" || c.Best < 0 || c.Best >= len(c.Rounds) {
		return fmt.Errorf("a compilation of case %q whose map is of round %d of %d", c.Case, c.Best, len(c.Rounds))
	}
	return nil
}

// compilationSections is one table of every map that was compiled.
func (r *Records) compilationSections() []section {
	if len(r.Compilations) == 0 {
		return nil
	}
	return []section{compilations("Maps compiled from equations", r.Compilations)}
}

// compilations is what maps reach from the starts that no decision has looked at.
func compilations(title string, all []compile.Report) section {
	s := section{title: title, rows: [][]string{{"case", "target %", "scenarios, samples", "minutes", "test by", "unsafe", "of these no way", "mean %", "p90 %", "max %", "without an optimum", "rescued %", "p50 / p99, µs"}}}
	var on []*closedloop.Load
	var commits, devices []string
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b compile.Report) int { return cmp.Compare(a.Case, b.Case) })
	for _, c := range all {
		scenarios := 0
		for _, round := range c.Rounds[:c.Best+1] {
			scenarios += round.Scenarios
		}
		t := c.Test
		s.rows = append(s.rows, []string{
			"`" + c.Case + "`", fmt.Sprintf("%g", c.Target.Mean), fmt.Sprintf("%d, %d", scenarios, c.Rounds[c.Best].Samples), fmt.Sprintf("%.0f", c.Seconds/60), "`" + t.Method + "`",
			fmt.Sprintf("%d of %d", t.Unsafe, t.Episodes), fmt.Sprint(t.NoWay),
			number("%.3g", float64(t.Mean)), number("%.3g", float64(t.P90)), number("%.3g", float64(t.Max)), fmt.Sprint(t.Unsolved), number("%.2g", float64(t.Rescued)),
			number("%.3g", float64(t.P50)) + " / " + number("%.3g", float64(t.P99)),
		})
		on, commits, devices = append(on, c.Load), append(commits, c.Commit), append(devices, c.Device)
	}
	s.note = fmt.Sprintf("Commit %s, %s. %s", distinct(commits), distinct(devices), loads(on))
	return s
}

// distinct are the different ones of some words, in order.
func distinct(words []string) string {
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// horizonPeers is the record of the solvers of a receding horizon: the first whose checks
// compare optima.
func (d devices) horizonPeers() *peerrecord.Record {
	for _, r := range d {
		for i := range r.Peers {
			if len(r.Peers[i].Checks) > 0 {
				return &r.Peers[i]
			}
		}
	}
	return nil
}

// system is what a record says of one system.
type system struct {
	check  peerrecord.Check
	peers  []string // in the order of the record
	ratios []peerrecord.Ratio
}

func systemsOf(r *peerrecord.Record) (all []system) {
	for _, c := range r.Checks {
		s := system{check: c}
		for _, v := range r.Ratios {
			if name, _, _ := strings.Cut(v.Case, ","); name == c.Case {
				s.ratios = append(s.ratios, v)
				if !slices.Contains(s.peers, v.Peer) {
					s.peers = append(s.peers, v.Peer)
				}
			}
		}
		all = append(all, s)
	}
	return all
}

func (s *system) ratio(peer, op string) *peerrecord.Ratio {
	i := slices.IndexFunc(s.ratios, func(v peerrecord.Ratio) bool { return v.Peer == peer && v.Op == op })
	if i < 0 {
		return nil
	}
	return &s.ratios[i]
}

// warm is the operation that a loop repeats.
const warm = "warm p50"

// solvers compares our solver of a receding horizon with others', system by system.
func (d devices) solvers() string {
	r := d.horizonPeers()
	if r == nil {
		return ""
	}
	s := section{
		note: fmt.Sprintf("%s Commit %s, %s. %s", r.Note, r.Commit, r.Device, loads([]*closedloop.Load{r.Load})),
		rows: [][]string{{"system", "decisions", "ours warm p50 / p99 / cold, ms"}},
	}
	systems := systemsOf(r)
	var peers []string
	for _, y := range systems {
		for _, p := range y.peers {
			if y.ratio(p, warm) != nil && !slices.Contains(peers, p) {
				peers = append(peers, p)
			}
		}
	}
	for _, p := range peers {
		s.rows[0] = append(s.rows[0], strings.TrimPrefix(p, "CasADi + "))
	}
	s.rows[0] = append(s.rows[0], "unsolved, ours", "theirs", "equal", "above")
	ops := []string{warm, "warm p99", "cold p50"}
	for _, y := range systems {
		row, theirs := []string{"`" + y.check.Case + "`", fmt.Sprint(y.check.Decisions), "–"}, []string{}
		for _, p := range peers {
			var cell, ours []string
			for _, op := range ops {
				if v := y.ratio(p, op); v != nil {
					cell, ours = append(cell, times(v.Ratio)), append(ours, fmt.Sprintf("%.3g", v.OursUS/1e3))
				}
			}
			if len(cell) < len(ops) {
				row, theirs = append(row, "–"), append(theirs, "–")
				continue
			}
			row[2] = strings.Join(ours, " / ")
			row, theirs = append(row, strings.Join(cell, " / ")), append(theirs, fmt.Sprint(y.ratio(p, warm).Unsolved))
		}
		s.rows = append(s.rows, append(row, fmt.Sprint(y.check.Unsolved), strings.Join(theirs, " / "), fmt.Sprintf("%.0e", y.check.Worst), fmt.Sprintf("%.0e", y.check.Above)))
	}
	for _, m := range r.Missing {
		s.note += " Not in this run: " + m + "."
	}
	return tables(s)
}
