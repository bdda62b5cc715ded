package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
)

// Origin says where a section is from: the command, the commit and the machine, and the load under which times were
// taken. "" and nil are left out.
func Origin(command, commit, device string, on ...*closedloop.Load) string {
	text := fmt.Sprintf("Commit %s, %s.", commit, device)
	if command != "" {
		text = fmt.Sprintf("`%s`, commit %s, %s.", command, commit, device)
	}
	if len(on) > 0 {
		text += " " + Loads(on)
	}
	return text
}

// originOf is that of evaluations, of which the first stands for the seed, the commit and the machine.
func originOf(evals []closedloop.Result) string {
	first := &evals[0]
	return fmt.Sprintf("Seed %d. %s %s", first.Seed, Origin("", first.Commit, first.Device), loadsOf(evals))
}

// Loads says under which load of the machine times were taken, the largest of all.
func Loads(all []*closedloop.Load) string {
	var most closedloop.Load
	unknown, above, partial := 0, 0, 0
	for _, l := range all {
		if l == nil {
			unknown++
			continue
		}
		most.Start, most.Others, most.Stolen = max(most.Start, l.Start, l.End), max(most.Others, l.Others), max(most.Stolen, l.Stolen)
		if l.Above {
			above++
		}
		if l.Partial {
			partial++
		}
	}
	if unknown == len(all) {
		return "The machine's load was not recorded."
	}
	text := fmt.Sprintf("The machine's load was at most %.2f, other processes had at most %.2f CPUs in the mean of a run, other guests %.2f.", most.Start, most.Others, most.Stolen)
	if above > 0 {
		text += fmt.Sprintf(" %d runs were recorded above the limit.", above)
	}
	if partial > 0 {
		text += fmt.Sprintf(" Of %d runs it is that of their last part, after an interruption.", partial)
	}
	if unknown > 0 {
		text += fmt.Sprintf(" Of %d runs it was not recorded.", unknown)
	}
	return text
}

// loadsOf are the loads of evaluations.
func loadsOf(evals []closedloop.Result) string {
	var all []*closedloop.Load
	for i := range evals {
		all = append(all, evals[i].Load)
	}
	return Loads(all)
}

// RecordedBy says where pairings come from: seed, commit, device, load.
func RecordedBy(pairings []closedloop.Pairing) string {
	var seeds, commits, on []string
	var all []*closedloop.Load
	for _, p := range pairings {
		seeds, commits, on = append(seeds, fmt.Sprint(p.Seed)), append(commits, p.Commit), append(on, p.Device)
		all = append(all, p.Load)
	}
	of := fmt.Sprintf("Seed %s, commit %s", Distinct(seeds), Distinct(commits))
	if untimed(pairings) {
		return of + ". Recorded without times."
	}
	return fmt.Sprintf("%s, %s. %s", of, Distinct(on), Loads(all))
}

// Distinct are the different ones of some words, in order.
func Distinct(words []string) string {
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}
