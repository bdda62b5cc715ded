package compile

import (
	"context"
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
	all := []candidate{{"direct", r.opt.Starts}, {"navigator", r.opt.Starts}, {"refine-64-ahead", (r.opt.Starts + 3) / 4}}
	return slices.DeleteFunc(all, func(c candidate) bool { return c.method != "direct" && !r.has(c.method) })
}

// choose compares the methods of a map from the held-out starts; the first of the scores is
// the chosen one's: the fastest but for those that beat it.
func (r *run) choose(ctx context.Context, m *model.Model) (scores []Score, err error) {
	best, ended := 0, [][]outcome(nil)
	for i, candidate := range r.candidates() {
		if i > 0 && scores[0].meets(&r.opt) {
			break // nothing is as fast
		}
		of := make([]outcome, candidate.starts)
		score, err := r.drive(ctx, loops{
			of: r.c, model: m, method: candidate.method, purpose: heldOut, episodes: candidate.starts, threads: 1,
			visit: func(e *closedloop.EpisodeRecord) { of[e.Episode] = r.outcome(e) },
		})
		if err != nil {
			return nil, err
		}
		scores, ended = append(scores, score), append(ended, of)
		if beats(of, ended[best]) {
			best = i
		}
	}
	scores[0], scores[best] = scores[best], scores[0]
	return scores, nil
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
	var less []float64
	lost := 0
	for i := range min(len(slower), len(other)) {
		a, b := slower[i], other[i]
		lost += count(a.lost) - count(b.lost)
		if d := a.regret - b.regret; !math.IsNaN(d) {
			less = append(less, d)
		}
	}
	mean, half := closedloop.MeanAndInterval(less)
	return lost < 0 || lost == 0 && mean+half < 0
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
