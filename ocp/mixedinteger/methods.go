package mixedinteger

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/domain"
)

// family is a way to decide by N candidates.
type family struct {
	name, format string // format has the number
	group        domain.Group
	needs        domain.Needs
	listed       []int // numbers of the tables
	relaxed      bool
}

var families = []family{
	{"refine", "the best of %d candidates about the map's chances and the plan before", domain.GroupOwn, domain.NeedsMap, []int{64, 512, 4096}, false},
	{"search", "the best of %d candidates about the plan before, without a map", domain.GroupBaseline, 0, []int{64, 512, 4096}, false},
	{"relaxed", "the best of %d candidates about the relaxed problem's optimum and the plan before", domain.GroupBaseline, 0, []int{512}, true},
}

// Methods are the ways to decide of a case with switches, in the order of its tables. search-N, refine-N and relaxed-N
// are there for other N too, see Solver.Method.
func Methods(s *Solver) (all []domain.Method) {
	add := func(name string) {
		m, ok := s.Method(name)
		if !ok { // there is nothing to polish
			return
		}
		m.Brief = !m.Ahead && (m.Candidates == 0 || m.Name == "search-4096" || m.Name == "refine-4096" || strings.HasPrefix(m.Name, "relaxed-512"))
		all = append(all, m)
	}
	add("direct")
	for _, f := range families {
		if f.relaxed {
			add("sum-up")
		}
		for _, n := range f.listed {
			for _, suffix := range []string{"", "-ahead", "-polish", "-polish-ahead"} {
				add(fmt.Sprintf("%s-%d%s", f.name, n, suffix))
			}
		}
	}
	return all
}

// Method is the one of that name: direct, sum-up, or search-N, refine-N or relaxed-N for any N from 8 on, with -polish where
// there are actions without a switch and -ahead. False: the name is of none.
func (s *Solver) Method(name string) (domain.Method, bool) {
	m, o, ok := parse(name)
	if !ok || o.Polish && len(s.spec.Switches) == s.spec.ActionSize() {
		return m, false
	}
	m.New = func(means domain.Means) (domain.Controller, error) {
		o := o
		if m.Candidates > 0 {
			o.Candidates = cmp.Or(means.Candidates, o.Candidates)
		}
		if m.Needs&domain.NeedsMap != 0 && means.Proposer == nil {
			return nil, errNoProposer
		}
		return NewController(s, means.Proposer, o)
	}
	return m, true
}

// OptionsOf are the options of a method by its name, and whether it needs a map.
func OptionsOf(name string) (opt ControllerOptions, needsMap, ok bool) {
	m, opt, ok := parse(name)
	return opt, m.Needs&domain.NeedsMap != 0, ok
}

// parse is the method of that name, which does not make controllers yet, and their options.
func parse(name string) (domain.Method, ControllerOptions, bool) {
	switch name {
	case "direct":
		return domain.Method{Name: name, About: "the most probable plan of the map, as far as the switches allow it", Group: domain.GroupOwn, Needs: domain.NeedsMap}, ControllerOptions{Candidates: 2, GuessOnly: true}, true
	case "sum-up":
		return domain.Method{Name: name, About: "the relaxed problem's optimum of all remaining decisions, by sum-up rounding as far as the switches allow it", Group: domain.GroupBaseline}, ControllerOptions{Candidates: 2, GuessOnly: true, Relaxed: true}, true
	}
	rest, ahead := strings.CutSuffix(name, "-ahead")
	rest, polish := strings.CutSuffix(rest, "-polish")
	kind, number, _ := strings.Cut(rest, "-")
	n, err := strconv.Atoi(number)
	for _, f := range families {
		if f.name != kind || err != nil || n < 8 || n > MaxCandidates || number != strconv.Itoa(n) {
			continue
		}
		m := domain.Method{Name: name, About: fmt.Sprintf(f.format, n), Group: f.group, Needs: f.needs, Ahead: ahead, Candidates: n}
		if polish {
			m.About += ", the actions without a switch solved for the best ones' switches and followed by the candidates"
		}
		if ahead {
			m.About += ", searched between decisions"
		}
		return m, ControllerOptions{Candidates: n, Relaxed: f.relaxed, Polish: polish, Ahead: ahead}, true
	}
	return domain.Method{}, ControllerOptions{}, false
}
