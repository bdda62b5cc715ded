package closedloop

import (
	"cmp"
	"fmt"
	"slices"
)

// Outcomes are the episodes of an evaluation one by one, ascending by number: what
// records of the same episodes are compared by.
type Outcomes struct {
	Episode []int  `json:"episode"`     // number of each episode
	Safe    []bool `json:"safe"`        // whether it was
	Cost    Vector `json:"cost"`        // its cost
	Oracle  Vector `json:"oracle_cost"` // its oracle's; null without
}

// outcome is one episode of Outcomes.
type outcome struct {
	episode      int
	safe         bool
	cost, oracle float64
}

// add counts one episode.
func (o *Outcomes) add(e *EpisodeRecord) {
	o.Episode, o.Safe = append(o.Episode, e.Episode), append(o.Safe, e.End.Safe)
	o.Cost, o.Oracle = append(o.Cost, float64(e.End.Cost)), append(o.Oracle, float64(e.End.OracleCost))
}

// sorted returns the episodes ascending by number.
func (o *Outcomes) sorted() *Outcomes {
	list := o.list()
	slices.SortFunc(list, func(a, b outcome) int { return cmp.Compare(a.episode, b.episode) })
	out := &Outcomes{Episode: []int{}, Safe: []bool{}, Cost: Vector{}, Oracle: Vector{}}
	for _, e := range list {
		out.Episode, out.Safe = append(out.Episode, e.episode), append(out.Safe, e.safe)
		out.Cost, out.Oracle = append(out.Cost, e.cost), append(out.Oracle, e.oracle)
	}
	return out
}

func (o *Outcomes) list() []outcome {
	list := make([]outcome, len(o.Episode))
	for i, e := range o.Episode {
		list[i] = outcome{e, o.Safe[i], o.Cost[i], o.Oracle[i]}
	}
	return list
}

// Validate reports a list that is not as long as the others.
func (o *Outcomes) Validate() error {
	if n := len(o.Episode); len(o.Safe) != n || len(o.Cost) != n || len(o.Oracle) != n {
		return fmt.Errorf("outcomes of %d episodes with %d verdicts, %d costs and %d optimal costs: want one of each for every episode", n, len(o.Safe), len(o.Cost), len(o.Oracle))
	}
	return nil
}
