package mixedinteger

import (
	"slices"
)

const (
	// mostPairs of changes are tried of one plan, those first that are near to each other in time.
	mostPairs  = 1 << 15
	mostPasses = 20
	shifts     = 2 // periods that a change of a switch moves at most
)

// change gives a switch one value in the periods from first and before end.
type change struct {
	sw, first, end int
	place          uint8
}

// tryPairs rolls out the best plan with every change and every pair of changes, in rounds of n candidates, and begins anew where
// that finds a better one.
func (s *Search) tryPairs(n int) {
	for range mostPasses {
		best := s.Best()
		if best == nil || s.cancelled() || !s.passPairs(best.clone(), n) {
			return
		}
	}
}

// passPairs reports whether a pass over the pairs of a plan has found a better one, with which it ends.
func (s *Search) passPairs(plan *Plan, n int) bool {
	all := s.changes(plan)
	s.batch = s.batch[:0]
	better := func() bool {
		if len(s.batch) > 0 {
			s.rollOut()
		}
		s.batch = s.batch[:0]
		return s.cancelled() || s.rollout.gains(s.Best(), plan, gain)
	}
	pairs := 0
	for distance := 0; distance < len(all) && pairs < mostPairs; distance++ {
		for k := 0; k+distance < len(all); k++ {
			p := s.blank()
			s.copyPlan(&p, plan)
			s.apply(&p, all[k])
			s.apply(&p, all[k+distance])
			s.rules.repair(s.start, p.Places, s.state)
			s.add(p)
			if pairs++; len(s.batch) >= n && better() {
				return true
			}
		}
	}
	return better()
}

// changes are those of single periods and of the shortest stays, and shifts of when a switch changes, by time.
func (s *Search) changes(p *Plan) (all []change) {
	ns := len(s.spec.Switches)
	for h := range s.steps {
		for i := range ns {
			w, place := &s.spec.Switches[i], p.Places[h*ns+i]
			for v := range w.Values {
				if uint8(v) == place {
					continue
				}
				all = append(all, change{i, h, h + 1, uint8(v)})
				if least := w.Least[v]; least > 1 {
					all = append(all, change{i, h, min(s.steps, h+least), uint8(v)})
				}
			}
			if h == 0 || p.Places[(h-1)*ns+i] == place {
				continue
			}
			for d := 1; d <= shifts; d++ {
				all = append(all, change{i, h, min(s.steps, h+d), p.Places[(h-1)*ns+i]}, change{i, max(0, h-d), h, place})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return a.first - b.first })
	return all
}

// variants are the plans that one change makes of a plan, best first.
func (s *Search) variants(plan *Plan) (all []Plan) {
	for _, c := range s.changes(plan) {
		p := plan.clone()
		s.apply(p, c)
		s.rules.repair(s.start, p.Places, s.state)
		s.pack(p)
		s.complete(p)
		all = append(all, *p)
	}
	s.rank(all)
	return all
}

// rank rolls plans out to their end and sorts them, best first.
func (s *Search) rank(plans []Plan) {
	if len(plans) == 0 {
		return
	}
	s.rollout.run(s.s, s.c, s.pref, s.steps, plans, worst)
	slices.SortStableFunc(plans, s.compare)
}

func (s *Search) apply(p *Plan, c change) {
	for h := c.first; h < c.end; h++ {
		p.Places[h*len(s.spec.Switches)+c.sw] = c.place
	}
}
