package mixedinteger

import (
	"cmp"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
)

// Methods are the ways to decide of a case with switches, in the order of its tables.
func Methods(s *Solver) (all []domain.Method) {
	eachMethod(len(s.spec.Switches) < s.spec.ActionSize(), func(m domain.Method, o ControllerOptions) {
		m.Ahead, m.Candidates = o.Ahead, o.Candidates
		if o.GuessOnly {
			m.Candidates = 0
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
		all = append(all, m)
	})
	return all
}

// OptionsOf are the options of a method of Methods by its name, and whether it needs a map.
func OptionsOf(name string) (opt ControllerOptions, needsMap, ok bool) {
	eachMethod(true, func(m domain.Method, o ControllerOptions) {
		if m.Name == name {
			opt, needsMap, ok = o, m.Needs&domain.NeedsMap != 0, true
		}
	})
	return opt, needsMap, ok
}

// polished is a method that solves the actions without a switch.
func polished(m domain.Method) domain.Method {
	m.Name += "-polish"
	m.About += ", the actions without a switch solved for the best ones' switches and followed by the candidates"
	return m
}

// eachMethod calls add with every method; polished ones where there are actions without a switch.
func eachMethod(continuous bool, add func(m domain.Method, o ControllerOptions)) {
	add(domain.Method{Name: "direct", About: "the most probable plan of the map, as far as the switches allow it", Group: domain.GroupOwn, Needs: domain.NeedsMap, Brief: true}, ControllerOptions{Candidates: 2, GuessOnly: true})
	polishes := []bool{false}
	if continuous {
		polishes = append(polishes, true)
	}
	searches := func(name, format string, group domain.Group, needs domain.Needs) {
		for _, n := range []int{64, 512, 4096} {
			for _, polish := range polishes {
				for _, ahead := range []bool{false, true} {
					m := domain.Method{Name: fmt.Sprintf("%s-%d", name, n), About: fmt.Sprintf(format, n), Group: group, Needs: needs, Brief: n == 4096 && !polish}
					if polish {
						m = polished(m)
					}
					if ahead {
						m.Name, m.About = m.Name+"-ahead", m.About+", searched between decisions"
					}
					add(m, ControllerOptions{Candidates: n, Polish: polish, Ahead: ahead})
				}
			}
		}
	}
	searches("refine", "the best of %d candidates about the map's chances and the plan before", domain.GroupOwn, domain.NeedsMap)
	searches("search", "the best of %d candidates about the plan before, without a map", domain.GroupBaseline, 0)
	add(domain.Method{Name: "sum-up", About: "the relaxed problem's optimum of all remaining decisions, by sum-up rounding as far as the switches allow it", Group: domain.GroupBaseline, Brief: true}, ControllerOptions{Candidates: 2, GuessOnly: true, Relaxed: true})
	for _, polish := range polishes {
		m := domain.Method{Name: "relaxed-512", About: "the best of 512 candidates about the relaxed problem's optimum and the plan before", Group: domain.GroupBaseline, Brief: true}
		if polish {
			m = polished(m)
		}
		add(m, ControllerOptions{Candidates: 512, Relaxed: true, Polish: polish})
	}
}
