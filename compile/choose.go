package compile

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/model"
)

// candidate is a method that may be chosen, with its number of held-out starts.
type candidate struct {
	method string
	starts int
}

// candidates are in the order of their time per decision.
func (r *run) candidates() []candidate {
	list := []candidate{{"direct", r.opt.Starts}, {"navigator", r.opt.Starts}, {"polish-ahead", r.opt.Starts}, {r.searchMethod(r.searches()[0]), r.searchStarts()}}
	return slices.DeleteFunc(list, func(c candidate) bool { return c.method != "direct" && !r.has(c.method) })
}

// searches are the roll-outs between decisions of the candidates. 128 is left out: it has twice the rounds of 64,
// equally small, while 256 and 512 have larger ones. In several basins it is no better.
var searches = []int{64, 256, 512}

// switchedSearches are those of a case with switches, whose roll-outs ask no network; mixedSearches where other actions follow a solved plan.
var switchedSearches, mixedSearches = []int{512, 4096}, []int{64, 512}

func (r *run) searches() []int {
	switch spec := r.c.Spec(); {
	case len(spec.Switches) == 0:
		return searches
	case len(spec.Switches) < spec.ActionSize():
		return mixedSearches
	}
	return switchedSearches
}

// searchMethod is the method with the given number of roll-outs between decisions; the problem's solver polishes the
// best, where it can.
func (r *run) searchMethod(rollouts int) string {
	if name := fmt.Sprintf("refine-%d-polish-ahead", rollouts); r.has(name) {
		return name
	}
	return fmt.Sprintf("refine-%d-ahead", rollouts)
}

// searchStarts is the number of held-out starts of a search: a quarter, or all where actions are switched. A
// reference takes longer than a search there, so there are few.
func (r *run) searchStarts() int {
	if len(r.c.Spec().Switches) > 0 {
		return r.opt.Starts
	}
	return (r.opt.Starts + 3) / 4
}

// comparison holds the scores of methods from the held-out starts; the first is the chosen one's.
type comparison struct {
	scores []Score
	best   []outcome // of the first
}

// choose compares the methods of a map from the held-out starts; the first score is that of the chosen one. It takes
// the fastest, unless a slower one beats it, or meets the target that it misses: a few dear starts leave the difference open. Of searches it takes the largest that costs less than the previous one.
func (r *run) choose(ctx context.Context, file string, m *model.Model) ([]Score, error) {
	var t comparison
	r.trialShare = max(1-maxOverrun, r.spent()/r.opt.Budget.Seconds()+maxOverrun/2)
	for i, c := range r.candidates() {
		if i > 0 && (len(t.scores) == 0 || t.scores[0].meets(&r.opt)) {
			break // the others are slower
		}
		c.starts = min(c.starts, r.journal.Rounds[r.best()].HeldOut.Episodes) // whose references are solved
		if c.starts = r.choiceStarts(c); c.starts == 0 {
			continue
		}
		d, outcomes, err := r.driveHeldOut(ctx, file, m, c)
		if err != nil {
			return nil, err
		}
		t.add(d.Score, outcomes, i == 0 || !d.Score.TooSlow && beats(outcomes, t.best, d.Score.meets(&r.opt)))
	}
	if len(t.scores) == 0 { // no loop of direct ended in the budget
		return []Score{{Method: "direct"}}, nil
	}
	err := r.tryLargerSearches(ctx, file, m, &t)
	return t.scores, err
}

// tryLargerSearches tries larger searches where the chosen search misses the target, while each costs less than the
// previous one. They only use time that nothing else needs.
func (r *run) tryLargerSearches(ctx context.Context, file string, m *model.Model, t *comparison) error {
	for i, rollouts := range r.searches()[1:] {
		smaller, times := &t.scores[0], float64(rollouts)/float64(r.searches()[i])
		if smaller.Method != r.searchMethod(r.searches()[i]) || smaller.meets(&r.opt) || !r.has(r.searchMethod(rollouts)) || !r.affords(smaller, times) {
			return nil
		}
		if ok, err := r.hasRoom(ctx, file, m, smaller, times); err != nil || !ok {
			return err
		}
		d, outcomes, err := r.driveHeldOut(ctx, file, m, candidate{r.searchMethod(rollouts), r.searchStarts()})
		if err != nil {
			return err
		}
		r.journal.Pace.Episodes[d.Score.Method] = d.Seconds / float64(d.Score.Episodes)
		t.add(d.Score, outcomes, !d.Score.TooSlow && beats(outcomes, t.best, true))
	}
	return nil
}

// add puts a better method first, another one last.
func (t *comparison) add(score Score, outcomes []outcome, better bool) {
	t.scores = append(t.scores, score)
	if last := len(t.scores) - 1; better {
		t.scores[0], t.scores[last], t.best = t.scores[last], t.scores[0], outcomes
	}
}

// driveHeldOut drives a method from the held-out starts.
func (r *run) driveHeldOut(ctx context.Context, file string, m *model.Model, c candidate) (drive, []outcome, error) {
	d, err := r.driveSingle(ctx, loops{name: file + " choice", gpcCase: r.c, model: m, method: c.method, purpose: heldOut, episodes: c.starts, deadline: r.deadline(r.trialShare)})
	d.Score.TooSlow = !r.fits(&d.Score)
	var outcomes []outcome
	for _, s := range d.Starts {
		d.Score.LateStarts += indicator(s.Late > 0)
		outcomes = append(outcomes, r.outcome(s))
	}
	return d, outcomes, err
}

// period is the time between two decisions, µs.
func (r *run) period() closedloop.Number { return closedloop.Number(1e6 * r.c.Spec().StepSeconds) }

// fits reports whether a method's work between decisions fits into a period in 99 % of them.
func (r *run) fits(s *Score) bool { return s.Prepare == nil || s.Prepare.P99 <= r.period() }

// hasRoom reports whether a multiple of a method's work between decisions fits into a period, by CPU time where it does
// not by wall time. Other work of the machine is no reason to leave out a search.
func (r *run) hasRoom(ctx context.Context, file string, m *model.Model, s *Score, times float64) (bool, error) {
	if s.Prepare == nil || times*float64(s.Prepare.P99) <= float64(r.period()) || r.opt.BudgetCPU || s.Clock != "" || machine.CPUTime() == 0 {
		return s.Prepare != nil && times*float64(s.Prepare.P99) <= float64(r.period()), nil
	}
	d, err := r.drive(ctx, loops{name: file + " choice", gpcCase: r.c, model: m, method: s.Method, purpose: heldOut, episodes: s.Episodes, threads: 1, clock: "cpu", deadline: r.deadline(r.trialShare)})
	return err == nil && d.Score.Prepare != nil && times*float64(d.Score.Prepare.P99) <= float64(r.period()), err
}

// affords reports whether the trial and the test of a search with a multiple of a method's work fit into the budget.
func (r *run) affords(s *Score, times float64) bool {
	seconds := times * r.journal.Pace.Episodes[s.Method]
	total := float64(r.searchStarts())*seconds + r.testSeconds(cmp.Or(r.opt.TestStarts, minTests), seconds)
	return total <= r.opt.Budget.Seconds()-r.spent()
}

// outcome is the result of an episode.
type outcome struct {
	// failed: unsafe although the reference finds a safe way, or a decision took longer than a period: a plant does
	// not wait.
	failed bool
	regret float64 // at most the cap, %; NaN if unknown
}

func (r *run) outcome(s start) outcome {
	return outcome{failed: s.Unsafe || s.Late > 0, regret: min(float64(s.Regret), r.journal.Cap)}
}

// beats reports whether a slower method did better from the common starts: it failed from fewer, or from as many and
// cost less by more than the 95 % interval of the difference. The mean is enough of one that is preferred, as it meets
// the target that the faster misses. A few starts that cost most make such an interval wide.
func beats(slower, faster []outcome, preferred bool) bool {
	lostMore, costMore, half := compareOutcomes(slower, faster)
	if preferred {
		half = 0
	}
	return lostMore < 0 || lostMore == 0 && costMore+half < 0
}

// compareOutcomes compares two methods over their common starts: how many more the first failed from, and how much
// more it cost in the mean, %, with its 95 % interval.
func compareOutcomes(one, two []outcome) (lostMore int, costMore, half closedloop.Number) {
	var costs []float64
	for i := range min(len(one), len(two)) {
		a, b := one[i], two[i]
		lostMore += indicator(a.failed) - indicator(b.failed)
		if d := a.regret - b.regret; !math.IsNaN(d) {
			costs = append(costs, d)
		}
	}
	costMore, half = closedloop.MeanAndInterval(costs)
	return lostMore, costMore, half
}

// indicator is 1 where a condition holds, else 0.
func indicator(condition bool) int {
	if condition {
		return 1
	}
	return 0
}
