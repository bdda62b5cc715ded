package closedloop

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
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

// validate reports a list that is not as long as the others.
func (o *Outcomes) validate() error {
	if n := len(o.Episode); len(o.Safe) != n || len(o.Cost) != n || len(o.Oracle) != n {
		return fmt.Errorf("outcomes of %d episodes with %d verdicts, %d costs and %d optimal costs: want one of each for every episode", n, len(o.Safe), len(o.Cost), len(o.Oracle))
	}
	return nil
}

// sameOracle is the relative difference that the oracle's costs of two records of one scene may have. More than
// rounding is another scene, or another oracle, but where the method of the lesser one beat the other (optimum.improved).
const sameOracle = 1e-6

// Less describes by how much, in %, episodes cost more under r than under other: 100 (cost − other's)/other's. It takes
// the episodes that both have, in which both are safe and the other's cost is above 0. An error says why the two
// records are of different scenes. A record without Outcomes has no scenes, and one that names no problem may be of
// any.
func (r *Result) Less(other *Result) (RegretStatistics, error) {
	for _, v := range []struct {
		name string
		a, b any
	}{
		{"case", r.Case, other.Case}, {"problem_sha256", cmp.Or(r.ProblemSHA256, other.ProblemSHA256), cmp.Or(other.ProblemSHA256, r.ProblemSHA256)}, {"seed", r.Seed, other.Seed}, {"regime", r.Regime, other.Regime}, {"noise", r.Noise, other.Noise}, {"bias", r.Bias, other.Bias}, {"shift", r.Shift, other.Shift},
	} {
		if !reflect.DeepEqual(v.a, v.b) {
			return RegretStatistics{}, fmt.Errorf("closedloop: %s %v of %s beside %v of %s: not the same episodes", v.name, v.a, r.Method, v.b, other.Method)
		}
	}
	if r.Outcomes == nil || other.Outcomes == nil {
		return regretStatistics(nil), nil
	}
	if err := cmp.Or(r.Outcomes.validate(), other.Outcomes.validate()); err != nil {
		return RegretStatistics{}, fmt.Errorf("closedloop: %w", err)
	}
	peers := map[int]outcome{}
	for _, e := range other.Outcomes.list() {
		peers[e.episode] = e
	}
	var difference []float64
	for _, e := range r.Outcomes.list() {
		o, ok := peers[e.episode]
		if !ok {
			continue
		}
		less, more := e, o
		if o.oracle < e.oracle {
			less, more = o, e
		}
		if more.oracle-less.oracle > sameOracle*math.Abs(o.oracle) && !(less.safe && less.cost < more.oracle) {
			return RegretStatistics{}, fmt.Errorf("closedloop: the oracle's cost of episode %d is %v beside %s and %v beside %s: not the same scene", e.episode, e.oracle, r.Method, o.oracle, other.Method)
		}
		if e.safe && o.safe && o.cost > 0 {
			difference = append(difference, 100*(e.cost-o.cost)/o.cost)
		}
	}
	return regretStatistics(difference), nil
}

// On is the result over the episodes that keep holds for: gap, regret and the distribution of the regret, with their
// numbers. All else is of all episodes. A result without Outcomes stays as it is.
func (r *Result) On(keep func(episode int) bool) Result {
	out := *r
	if r.Outcomes == nil || r.Outcomes.validate() != nil {
		return out
	}
	var regret, costs, oracles []float64
	for _, e := range r.Outcomes.list() {
		if !keep(e.episode) || !e.compared() {
			continue
		}
		regret = append(regret, 100*(e.cost-e.oracle)/e.oracle)
		costs, oracles = append(costs, e.cost), append(oracles, e.oracle)
	}
	gap, gapSEM := ratioAndError(costs, oracles)
	mean, sem := meanAndError(regret)
	out.GapPct, out.GapSEM = Number(100*(gap-1)), Number(100*gapSEM)
	out.RegretPct, out.RegretSEM = Number(mean), Number(sem)
	out.RegretN, out.RegretMin = len(regret), Number(math.NaN())
	if len(regret) > 0 {
		out.RegretMin = Number(slices.Min(regret))
	}
	out.Regret = regretStatistics(regret)
	return out
}

// compared tells whether an episode counts in a regret, as of EpisodeRecord.Regret.
func (e *outcome) compared() bool { return e.safe && e.oracle > 0 && !math.IsInf(e.oracle, 0) }

// Compared are the episodes that count in its regret: safe, with an optimum. nil without Outcomes.
func (r *Result) Compared() map[int]bool {
	if r.Outcomes == nil || r.Outcomes.validate() != nil {
		return nil
	}
	episodes := map[int]bool{}
	for _, e := range r.Outcomes.list() {
		if e.compared() {
			episodes[e.episode] = true
		}
	}
	return episodes
}
