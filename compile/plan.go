package compile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// work is what a round is to do.
type work struct {
	kind              Kind
	why               string
	scenarios, epochs int
}

const (
	// A round of data makes them growth times as many.
	growth = 4
	// Held-out starts that cost so many times what the data's own do ask for data;
	// otherwise the data are not yet learnt.
	overfit = 1.5
	// A round of epochs that gains less than this share is not followed by another.
	worthwhile = 0.2
	// What a round may take of what is left, for evaluation and the end have their time too.
	usable = 0.9
)

// next decides on the evidence of the rounds so far, or says why there is no further one.
func (r *run) next() (work, string) {
	rounds, t := r.journal.Rounds, r.c.MapSpec().Training
	if len(rounds) == 0 {
		return work{First, "the case's own size", r.opt.Scenarios, t.ManifoldEpochs}, ""
	}
	last := &rounds[len(rounds)-1]
	if last.Confirmed != nil && last.Confirmed.meets(&r.opt) {
		return work{}, "target met"
	}
	if len(rounds) == r.opt.Rounds {
		return work{}, fmt.Sprintf("%d rounds", len(rounds))
	}
	return r.fit(r.wish())
}

// wish is the next round were there time without end.
func (r *run) wish() work {
	rounds := r.journal.Rounds
	last := &rounds[len(rounds)-1]
	gap := ratio(last.Probed.Mean, last.Training.Mean)
	learnt := last.Training.Episodes == 0 || last.Training.meets(&r.opt) || last.Confirmed != nil
	if last.Kind == Epochs {
		before := &rounds[len(rounds)-2]
		learnt = learnt || float64(last.HeldOut.Mean) > (1-worthwhile)*float64(before.HeldOut.Mean)
	}
	if !learnt && gap < overfit && last.Probed.rate() <= last.Training.rate() {
		return work{Epochs, fmt.Sprintf("its own starts cost %.2g %%, others %.2g times that", float64(last.Training.Mean), gap), 0, 2 * last.Epochs}
	}
	total := r.scenarios()
	why := fmt.Sprintf("other starts cost %.2g times its own", gap)
	switch {
	case last.Confirmed != nil:
		c := last.Confirmed
		why = fmt.Sprintf("%d starts more cost %.2g %%, the worst %.2g %%, %d of them unsafe", c.Episodes, float64(c.Mean), float64(c.Max), c.Unsafe-c.NoWay)
	case last.Probed.rate() > 0:
		why = fmt.Sprintf("%d of %d other starts are not safe without a guard", last.Probed.Unsafe-last.Probed.NoWay, last.Probed.Episodes)
	case float64(last.HeldOut.Mean) <= r.opt.Target:
		why = fmt.Sprintf("the worst start costs %.2g %%", float64(last.HeldOut.Max))
	case last.Training.Episodes == 0:
		why = "the target is missed"
	}
	if last.Confirmed != nil && float64(last.Confirmed.Mean) <= r.opt.Target {
		return work{Data, why, total, last.Epochs} // a tail wants the right starts more than many
	}
	return work{Data, why, (growth - 1) * total, last.Epochs}
}

// scenarios are those of all rounds so far.
func (r *run) scenarios() (total int) {
	for i := range r.journal.Rounds {
		total += r.journal.Rounds[i].Scenarios
	}
	return total
}

// fit makes a round small enough for the time that is left.
func (r *run) fit(w work) (work, string) {
	rounds := r.journal.Rounds
	last := &rounds[len(rounds)-1]
	var scenarios, solve, trained, train float64
	for i := range rounds {
		x := &rounds[i]
		if x.Kind != Epochs {
			scenarios, solve = float64(x.Scenarios), x.Seconds.Solve // of the last: visited states cost more than none
		}
		trained, train = trained+float64(x.Samples)*float64(x.Epochs), train+x.Seconds.Train
	}
	perScenario, perSample := solve/scenarios, train/trained
	left := usable*(r.opt.Budget.Seconds()-r.spent()) - last.Seconds.Evaluate
	base := float64(last.Samples) * float64(w.epochs) * perSample
	if w.kind == Data {
		total := r.scenarios()
		perNew := perScenario + float64(last.Samples)/float64(total)*float64(w.epochs)*perSample
		if room := int((left - base) / perNew); room < w.scenarios {
			w.scenarios = room
		}
		if w.scenarios >= total/4 {
			return w, ""
		}
		w.kind, w.scenarios = Epochs, 0
	}
	if base > left {
		w.epochs = int(math.Floor(float64(w.epochs) * left / base))
	}
	if w.epochs < last.Epochs/2 || w.epochs < 1 || left <= 0 {
		return work{}, "budget spent"
	}
	return w, ""
}

// focus are the starts that a probe did worst from: those that were not safe, then the
// dearest, a tenth of all.
func focus(points [][]float64, regret []float64) [][]float64 {
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(regret[b], regret[a]) })
	var worst [][]float64
	for _, i := range order[:(len(order)+9)/10] {
		worst = append(worst, points[i])
	}
	return worst
}
