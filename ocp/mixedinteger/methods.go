package mixedinteger

import (
	"cmp"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
)

// Methods are the ways to decide of a case with switches, in the order of its tables.
func Methods(s *Solver) (all []domain.Method) {
	add := func(m domain.Method, o ControllerOptions) {
		m.Ahead, m.Candidates = o.Ahead, o.Candidates
		if o.Alone {
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
	}
	add(domain.Method{Name: "direct", About: "the most probable plan of the map, as far as the switches allow it", Group: domain.GroupOwn, Needs: domain.NeedsMap, Brief: true}, ControllerOptions{Candidates: 2, Alone: true})
	for _, n := range []int{64, 512, 4096} {
		for _, ahead := range []bool{false, true} {
			name, about := fmt.Sprintf("refine-%d", n), fmt.Sprintf("the best of %d candidates about the map's chances and the plan before", n)
			if ahead {
				name, about = name+"-ahead", about+", searched between decisions"
			}
			add(domain.Method{Name: name, About: about, Group: domain.GroupOwn, Needs: domain.NeedsMap, Brief: n == 4096}, ControllerOptions{Candidates: n, Ahead: ahead})
		}
	}
	for _, n := range []int{64, 512, 4096} {
		for _, ahead := range []bool{false, true} {
			name, about := fmt.Sprintf("search-%d", n), fmt.Sprintf("the best of %d candidates about the plan before, without a map", n)
			if ahead {
				name, about = name+"-ahead", about+", searched between decisions"
			}
			add(domain.Method{Name: name, About: about, Group: domain.GroupBaseline, Brief: n == 4096}, ControllerOptions{Candidates: n, Ahead: ahead})
		}
	}
	add(domain.Method{Name: "sum-up", About: "the relaxed problem's optimum of all remaining decisions, by sum-up rounding as far as the switches allow it", Group: domain.GroupBaseline, Brief: true}, ControllerOptions{Candidates: 2, Alone: true, Relaxed: true})
	add(domain.Method{Name: "relaxed-512", About: "the best of 512 candidates about the relaxed problem's optimum and the plan before", Group: domain.GroupBaseline}, ControllerOptions{Candidates: 512, Relaxed: true})
	return all
}
