package report

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc/closedloop"
)

// sameOracle is the relative difference that the oracle's costs of two records of one scene may have. More than
// rounding is another scene, or another oracle, but where the method of the lesser one beat the other (optimum.improved).
const sameOracle = 1e-6

// less describes by how much, in %, episodes cost more under r than under other: 100 (cost − other's)/other's. It takes
// the episodes that both have, in which both are safe and the other's cost is above 0. An error says why the two
// records are of different scenes. A record without Outcomes has no scenes, and one that names no problem may be of
// any.
func less(r, other *closedloop.Result) (closedloop.RegretStatistics, error) {
	for _, v := range []struct {
		name string
		a, b any
	}{
		{"case", r.Case, other.Case}, {"problem_sha256", cmp.Or(r.ProblemSHA256, other.ProblemSHA256), cmp.Or(other.ProblemSHA256, r.ProblemSHA256)}, {"seed", r.Seed, other.Seed}, {"regime", r.Regime, other.Regime}, {"noise", r.Noise, other.Noise}, {"bias", r.Bias, other.Bias}, {"shift", r.Shift, other.Shift},
	} {
		if !reflect.DeepEqual(v.a, v.b) {
			return closedloop.RegretStatistics{}, fmt.Errorf("report: %s %v of %s beside %v of %s: not the same episodes", v.name, v.a, r.Method, v.b, other.Method)
		}
	}
	if r.Outcomes == nil || other.Outcomes == nil {
		return closedloop.DescribeRegret(nil), nil
	}
	if err := cmp.Or(r.Outcomes.Validate(), other.Outcomes.Validate()); err != nil {
		return closedloop.RegretStatistics{}, fmt.Errorf("report: %w", err)
	}
	peers := map[int]int{}
	for i, episode := range other.Outcomes.Episode {
		peers[episode] = i
	}
	var difference []float64
	for i, episode := range r.Outcomes.Episode {
		k, ok := peers[episode]
		if !ok {
			continue
		}
		e, o := outcomeOf(r, i), outcomeOf(other, k)
		less, more := e, o
		if o.oracle < e.oracle {
			less, more = o, e
		}
		if more.oracle-less.oracle > sameOracle*math.Abs(o.oracle) && !(less.safe && less.cost < more.oracle) {
			return closedloop.RegretStatistics{}, fmt.Errorf("report: the oracle's cost of episode %d is %v beside %s and %v beside %s: not the same scene", episode, e.oracle, r.Method, o.oracle, other.Method)
		}
		if e.safe && o.safe && o.cost > 0 {
			difference = append(difference, 100*(e.cost-o.cost)/o.cost)
		}
	}
	return closedloop.DescribeRegret(difference), nil
}

// overEpisodes is the result over the episodes that keep holds for: gap, regret and the distribution of the regret, with their
// numbers. All else is of all episodes. A result without Outcomes stays as it is.
func overEpisodes(r *closedloop.Result, keep func(episode int) bool) closedloop.Result {
	out := *r
	if r.Outcomes == nil || r.Outcomes.Validate() != nil {
		return out
	}
	var regret, costs, oracles []float64
	for i, episode := range r.Outcomes.Episode {
		e := outcomeOf(r, i)
		if !keep(episode) || !e.compared() {
			continue
		}
		regret = append(regret, 100*(e.cost-e.oracle)/e.oracle)
		costs, oracles = append(costs, e.cost), append(oracles, e.oracle)
	}
	gap, gapSEM := closedloop.RatioAndError(costs, oracles)
	mean, deviation := stat.MeanStdDev(regret, nil)
	sem := stat.StdErr(deviation, float64(len(regret)))
	out.GapPct, out.GapSEM = closedloop.Number(100*(gap-1)), closedloop.Number(100*gapSEM)
	out.RegretPct, out.RegretSEM = closedloop.Number(mean), closedloop.Number(sem)
	out.RegretN, out.RegretMin = len(regret), closedloop.Number(math.NaN())
	if len(regret) > 0 {
		out.RegretMin = closedloop.Number(slices.Min(regret))
	}
	out.Regret = closedloop.DescribeRegret(regret)
	return out
}

// outcome is one episode of a result.
type outcome struct {
	safe         bool
	cost, oracle float64
}

func outcomeOf(r *closedloop.Result, i int) outcome {
	return outcome{r.Outcomes.Safe[i], r.Outcomes.Cost[i], r.Outcomes.Oracle[i]}
}

// compared tells whether an episode counts in a regret, as of EpisodeRecord.Regret.
func (e *outcome) compared() bool { return e.safe && e.oracle > 0 && !math.IsInf(e.oracle, 0) }

// compared are the episodes that count in its regret: safe, with an optimum. nil without Outcomes.
func compared(r *closedloop.Result) map[int]bool {
	if r.Outcomes == nil || r.Outcomes.Validate() != nil {
		return nil
	}
	episodes := map[int]bool{}
	for i, episode := range r.Outcomes.Episode {
		if e := outcomeOf(r, i); e.compared() {
			episodes[episode] = true
		}
	}
	return episodes
}
