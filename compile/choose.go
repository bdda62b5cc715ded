package compile

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/model"
)

// candidate is a method that may be chosen, by what it does from so many held-out starts.
type candidate struct {
	method string
	starts int
}

// candidates are in the order of what a decision takes.
func (r *run) candidates() []candidate {
	all := []candidate{{"direct", r.opt.Starts}, {"navigator", r.opt.Starts}, {"polish-ahead", r.opt.Starts}, {search(searches[0]), r.searched()}}
	return slices.DeleteFunc(all, func(c candidate) bool { return c.method != "direct" && !r.has(c.method) })
}

// searches are the roll-outs between decisions of those that may be chosen. 128 is none of them: it has twice the rounds of 64, as small,
// where 256 and 512 have larger ones, and in several basins it is no better.
var searches = []int{64, 256, 512}

// search is the method of so many roll-outs between decisions.
func search(rollouts int) string { return fmt.Sprintf("refine-%d-ahead", rollouts) }

// searched are the held-out starts that a search is compared from.
func (r *run) searched() int { return (r.opt.Starts + 3) / 4 }

// trial is what methods do from the held-out starts: the first of the scores is the chosen one's.
type trial struct {
	scores []Score
	chosen []outcome // of the first
}

// choose compares the methods of a map from the held-out starts; the first of the scores is
// the chosen one's: the fastest but for those that beat it, and the largest search of those that each cost less than the
// one before.
func (r *run) choose(ctx context.Context, m *model.Model) ([]Score, error) {
	var t trial
	for i, c := range r.candidates() {
		if i > 0 && t.scores[0].meets(&r.opt) {
			break // nothing behind it is as fast
		}
		score, ended, err := r.try(ctx, m, c)
		if err != nil {
			return nil, err
		}
		t.add(score, ended, i == 0 || r.fits(&score) && beats(ended, t.chosen))
	}
	err := r.enlarge(ctx, m, &t)
	return t.scores, err
}

// enlarge goes on to larger searches where a search is chosen that misses the target, for as long as each costs less than
// the one before: they cost nothing but time that nothing else uses.
func (r *run) enlarge(ctx context.Context, m *model.Model, t *trial) error {
	for i, rollouts := range searches[1:] {
		smaller, times := &t.scores[0], float64(rollouts)/float64(searches[i])
		if smaller.Method != search(searches[i]) || smaller.meets(&r.opt) || !r.has(search(rollouts)) || !r.affords(smaller, times) {
			return nil
		}
		began := r.now()
		score, ended, err := r.try(ctx, m, candidate{search(rollouts), r.searched()})
		if err != nil {
			return err
		}
		r.journal.Pace.Episodes[score.Method] = r.since(began) / float64(score.Episodes)
		lost, less, _ := compared(ended, t.chosen)
		t.add(score, ended, r.fits(&score) && (lost < 0 || lost == 0 && less < 0))
	}
	return nil
}

// add puts a method that is chosen before the others, another behind them.
func (t *trial) add(score Score, ended []outcome, chosen bool) {
	t.scores = append(t.scores, score)
	if last := len(t.scores) - 1; chosen {
		t.scores[0], t.scores[last], t.chosen = t.scores[last], t.scores[0], ended
	}
}

// try drives a method from the held-out starts.
func (r *run) try(ctx context.Context, m *model.Model, c candidate) (Score, []outcome, error) {
	ended := make([]outcome, c.starts)
	score, err := r.drive(ctx, loops{
		of: r.c, model: m, method: c.method, purpose: heldOut, episodes: c.starts, threads: 1,
		visit: func(e *closedloop.EpisodeRecord) { ended[e.Episode] = r.outcome(e) },
	})
	return score, ended, err
}

// period is the time between two decisions, µs.
func (r *run) period() closedloop.Number { return closedloop.Number(1e6 * r.c.Spec().StepSeconds) }

// fits reports whether what a method does between decisions takes at most the time between two in 99 of 100.
func (r *run) fits(s *Score) bool { return s.Prepare == nil || s.Prepare.P99 <= r.period() }

// affords reports whether so many times what a method does between decisions fits there, and whether it can be tried and
// tested in the time that is left.
func (r *run) affords(s *Score, times float64) bool {
	took := times * r.journal.Pace.Episodes[s.Method]
	needed := float64(r.searched())*took + r.testing(cmp.Or(r.opt.TestStarts, leastTests), took)
	return s.Prepare != nil && times*float64(s.Prepare.P99) <= float64(r.period()) && needed <= r.opt.Budget.Seconds()-r.spent()
}

// outcome is how an episode ended.
type outcome struct {
	// lost: unsafe although there is a way, or a decision took longer than the time between two, for
	// which a plant does not wait.
	lost   bool
	regret float64 // at most the cap, %; NaN if it is not known
}

func (r *run) outcome(e *closedloop.EpisodeRecord) outcome {
	pct, ok := e.Regret()
	if !ok {
		pct = math.NaN()
	}
	return outcome{lost: lost(e) || late(e, r.c.Spec().StepSeconds) > 0, regret: min(pct, r.journal.Cap)}
}

// lost reports whether an episode was not safe although there is a way.
func lost(e *closedloop.EpisodeRecord) bool { return !e.End.Safe && e.End.OracleFailure == "" }

// late are the decisions of an episode that took longer than a period, s.
func late(e *closedloop.EpisodeRecord, period float64) (n int) {
	for i := range e.Lines {
		n += count(float64(e.Lines[i].Latency) > 1e6*period)
	}
	return n
}

// beats reports whether a slower method did better from the starts that another had too: lost fewer,
// or as many and cost less by more than the 95 % interval of what it cost less.
func beats(slower, other []outcome) bool {
	lost, more, half := compared(slower, other)
	return lost < 0 || lost == 0 && more+half < 0
}

// compared is how many more of the starts that both had one method lost than another, and how much more it cost in the
// mean, %, with its 95 % interval.
func compared(one, other []outcome) (lost int, more, half closedloop.Number) {
	var costs []float64
	for i := range min(len(one), len(other)) {
		a, b := one[i], other[i]
		lost += count(a.lost) - count(b.lost)
		if d := a.regret - b.regret; !math.IsNaN(d) {
			costs = append(costs, d)
		}
	}
	more, half = closedloop.MeanAndInterval(costs)
	return lost, more, half
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
