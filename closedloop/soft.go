package closedloop

import "github.com/gpc-engine/gpc/domain"

// SoftStatistics say how far a soft limit was exceeded, and how often. It makes no episode unsafe.
type SoftStatistics struct {
	Limit     string `json:"limit"`     // a soft limit; absent without one, as is all of `soft`
	Unit      string `json:"unit"`      // of its margin
	Largest   Number `json:"largest"`   // excess of all episodes, 0 where it was never exceeded
	Episode   int    `json:"episode"`   // where it was
	Decisions int    `json:"decisions"` // that exceeded it
	Share     Number `json:"share"`     // of all decisions
	Episodes  int    `json:"episodes"`  // with such a decision
}

// SoftLimit names a soft limit in a trace.
type SoftLimit struct {
	Limit string `json:"limit"`
	Unit  string `json:"unit"`
}

// softLimits counts what SoftStatistics say.
type softLimits struct{ all []SoftStatistics }

// add counts an episode.
func (l *softLimits) add(e *EpisodeRecord) {
	for len(l.all) < len(e.End.Excess) {
		l.all = append(l.all, SoftStatistics{})
	}
	for i, v := range e.End.Excess {
		s := &l.all[i]
		if v > float64(s.Largest) {
			s.Largest, s.Episode = Number(v), e.Episode
		}
		if i < len(e.End.Exceeding) && e.End.Exceeding[i] > 0 {
			s.Decisions += e.End.Exceeding[i]
			s.Episodes++
		}
	}
}

// statistics are those of all episodes of limits, nil where these are other limits.
func (l *softLimits) statistics(limits []SoftLimit, decisions int) []SoftStatistics {
	if len(limits) != len(l.all) {
		return nil
	}
	for i, v := range limits {
		s := &l.all[i]
		s.Limit, s.Unit, s.Share = v.Limit, v.Unit, ratio(s.Decisions, decisions)
	}
	return l.all
}

// softOf are a problem's soft limits.
func softOf(p domain.Problem) (list []SoftLimit) {
	if soft := domain.AbilitiesOfProblem(p).Soft; soft != nil {
		for _, v := range soft.Limits {
			list = append(list, SoftLimit{v.Name, v.Unit})
		}
	}
	return list
}
