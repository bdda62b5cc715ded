package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/version"
)

// rounds times references, makes one round after another, and returns the reason for stopping.
func (r *run) rounds(ctx context.Context) (reason string, err error) {
	if err := r.timeReferences(ctx); err != nil {
		return "", err
	}
	if err := r.holdOut(); err != nil {
		return "", err
	}
	for {
		task, reason := r.nextRound()
		if reason != "" {
			return reason, nil
		}
		r.journal.Current = &task
		if err := r.makeRound(ctx, len(r.journal.Rounds)); err != nil {
			r.save() // for the spent time
			return "", err
		}
		round := r.journal.Current
		r.journal.Rounds, r.journal.Current = append(r.journal.Rounds, *round), nil
		if err := r.commit(); err != nil {
			return "", err
		}
		r.opt.Progress(Progress{Round: round, Number: len(r.journal.Rounds)})
	}
}

const (
	// A round of data multiplies the scenarios by growth.
	growth = 4
	// Held-out starts ask for data where they cost overfit times the data's own starts. Otherwise the data are not
	// learnt yet.
	overfit = 1.5
	// A round of epochs that gains less than this share is the last of its kind.
	minGain = 0.2
	// A round may use this share of the remaining time; evaluation needs the rest.
	usableShare = 0.9
)

// noTimeLeft is the reason for stopping where the remaining time is too short for a round.
const noTimeLeft = "the budget has no room for another"

// nextRound is the round in progress, else one that the rounds so far suggest, or the reason for stopping.
func (r *run) nextRound() (Round, string) {
	rounds, t := r.journal.Rounds, r.c.MapSpec().Training
	switch n := len(rounds); {
	case n > 0 && r.confirmed(&rounds[n-1]):
		return Round{}, "held-out starts meet the target"
	case n > 0 && r.opt.Rounds > 0 && n >= r.opt.Rounds:
		return Round{}, fmt.Sprintf("%d rounds", n)
	case r.journal.Current != nil:
		return *r.journal.Current, ""
	case n == 0:
		return Round{Kind: First, Why: "the case's own size", From: 0, Wanted: r.opt.Scenarios, Epochs: t.ManifoldEpochs}, ""
	}
	w, reason := r.fitBudget(r.idealRound())
	if reason == "" && w.From < len(rounds)-1 {
		w.Why += fmt.Sprintf("; on from the map of round %d, which is better than that of round %d", w.From+1, len(rounds))
	}
	return w, reason
}

// confirmed reports whether a confirmation met the target.
func (r *run) confirmed(x *Round) bool { return x.Confirmed != nil && x.Confirmed.meets(&r.opt) }

// best is the round whose map is used and continued from: a confirmed one, else the best from the held-out starts.
func (r *run) best() (index int) {
	for i := range r.journal.Rounds {
		x, leader := &r.journal.Rounds[i], &r.journal.Rounds[index]
		if a, b := r.confirmed(x), r.confirmed(leader); a != b && a || a == b && x.HeldOut.better(&leader.HeldOut) {
			index = i
		}
	}
	return index
}

// exhausted reports whether the last round added epochs and gained little.
func (r *run) exhausted() bool {
	last := &r.journal.Rounds[len(r.journal.Rounds)-1]
	if last.Kind != Epochs {
		return false
	}
	return !(float64(last.HeldOut.Capped) <= (1-minGain)*float64(r.journal.Rounds[last.From].HeldOut.Capped))
}

// lacksVisitedStates reports whether the map's own actions reach its next observation through the context, without
// data of such states. Longer training on optimal actions does not help then.
func (r *run) lacksVisitedStates() bool {
	return r.contextHasActions && !slices.ContainsFunc(r.journal.Rounds, func(x Round) bool { return x.Focused > 0 })
}

// idealRound is the next round without a time limit.
func (r *run) idealRound() Round {
	from := r.best()
	current := &r.journal.Rounds[from]
	gap := ratio(current.Probed.Capped, current.Training.Capped)
	learnt := current.Training.Episodes == 0 || current.Training.meets(&r.opt) || current.Confirmed != nil || r.exhausted() || r.lacksVisitedStates()
	if !learnt && gap < overfit && current.Probed.rate() <= current.Training.rate() {
		return Round{Kind: Epochs, Why: fmt.Sprintf("its own starts cost %s, others %.2g times that", r.typical(&current.Training), gap), From: from, Epochs: 2 * current.Epochs}
	}
	total := r.scenarios()
	reason := fmt.Sprintf("other starts cost %.2g times its own", gap)
	switch {
	case current.Confirmed != nil:
		c := current.Confirmed
		reason = fmt.Sprintf("%d starts more cost %.2g %%, the worst %.2g %%, %d of them unsafe", c.Episodes, float64(c.Mean), float64(c.Max), c.Unsafe-c.NoWay)
	case current.Probed.rate() > 0:
		reason = fmt.Sprintf("%d of %d other starts are not safe without a guard", current.Probed.Unsafe-current.Probed.NoWay, current.Probed.Episodes)
	case float64(current.HeldOut.Mean) <= r.opt.Target:
		reason = fmt.Sprintf("the worst start costs %.2g %%", float64(current.HeldOut.Max))
	case current.Training.Episodes == 0:
		reason = "the target is missed"
	case r.lacksVisitedStates() && gap < overfit:
		reason = "the context remembers actions, and nothing is known of those that the map takes"
	}
	if current.Confirmed != nil && float64(current.Confirmed.Mean) <= r.opt.Target {
		return Round{Kind: Data, Why: reason, From: from, Wanted: total, Epochs: current.Epochs} // a tail needs the right starts rather than many
	}
	return Round{Kind: Data, Why: reason, From: from, Wanted: (growth - 1) * total, Epochs: current.Epochs}
}

// typical describes a score as decisions use it.
func (r *run) typical(s *Score) string {
	text := fmt.Sprintf("%.2g %%", float64(s.Capped))
	if float64(s.Max) > r.journal.Cap {
		text += fmt.Sprintf(" with none counted above %.3g %%", r.journal.Cap)
	}
	return text
}

// scenarios is the number of scenarios of all rounds so far.
func (r *run) scenarios() (total int) {
	for i := range r.journal.Rounds {
		total += r.journal.Rounds[i].Scenarios
	}
	return total
}

// fitBudget shrinks a round to the remaining time.
func (r *run) fitBudget(w Round) (Round, string) {
	rounds := r.journal.Rounds
	last := &rounds[len(rounds)-1]
	var scenarios, solve float64
	for i := range rounds {
		if x := &rounds[i]; x.Kind != Epochs {
			scenarios, solve = float64(x.Scenarios), x.Seconds.Solve // those of the last such round: visited states cost extra
		}
	}
	perScenario, perSample := solve/scenarios, r.perSample()
	remaining := usableShare*r.secondsLeft() - last.Seconds.Evaluate
	base := float64(last.Samples) * float64(w.Epochs) * perSample
	if w.Kind == Data {
		total := r.scenarios()
		perNew := perScenario + float64(last.Samples)/float64(total)*float64(w.Epochs)*perSample
		if room := int((remaining - base) / perNew); room < w.Wanted {
			w.Wanted = room
		}
		if w.Wanted >= max(1, total/4) {
			return w, ""
		}
		if r.exhausted() {
			return Round{}, noTimeLeft
		}
		w.Kind, w.Wanted = Epochs, 0
	}
	if base > remaining {
		w.Epochs = int(math.Floor(float64(w.Epochs) * remaining / base))
	}
	if w.Epochs < rounds[w.From].Epochs/2 || w.Epochs < 1 || remaining <= 0 {
		return Round{}, noTimeLeft
	}
	return w, ""
}

// perSample is the time of training on one sample for an epoch, s.
func (r *run) perSample() float64 {
	var trained, train float64
	for i := range r.journal.Rounds {
		x := &r.journal.Rounds[i]
		trained, train = trained+float64(x.Samples)*float64(x.Epochs), train+x.Seconds.Train
	}
	return train / trained
}

const (
	journalName    = "compile.json"
	journalVersion = 6
	maxJournal     = 64 << 20 // bytes
)

// journal is the record of a run; the next run of the same options continues from it.
type journal struct {
	Version       int     `json:"version"`
	Case          string  `json:"case"`
	ProblemSHA256 string  `json:"problem_sha256"`
	Program       string  `json:"program"`
	ISA           string  `json:"isa"`
	Training      string  `json:"training"`        // domain.Training in words
	Plant         string  `json:"plant,omitempty"` // what of it is not the model's, in words
	Seed          uint64  `json:"seed"`
	Scenarios     int     `json:"scenarios"`
	Starts        int     `json:"starts"`
	Clock         string  `json:"clock,omitempty"` // absent of an earlier program: wall
	Cap           float64 `json:"cap_pct"`         // of Score.Capped: the largest regret that the first run asked for
	Rounds        []Round `json:"rounds"`
	Current       *Round  `json:"current,omitempty"` // in progress; Samples is 0 until its map is trained
	Pace          pace    `json:"pace"`
	Seconds       float64 `json:"seconds"` // of all runs so far
	durable.Seal
}

// open locks the folder for this run and reads the journal of an earlier run there, or starts one. The returned
// function unlocks it.
func (r *run) open() (release func() error, err error) {
	level, err := isa.Name()
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	expected := journal{
		Version: journalVersion, Case: r.c.Name(), ProblemSHA256: durable.Sum(domain.FingerprintOf(r.c.Definition().MapProblem())),
		Program: version.Version + " " + version.Build(), ISA: level, Training: fmt.Sprintf("%+v", r.c.MapSpec().Training), Seed: r.opt.Seed, Scenarios: r.opt.Scenarios, Starts: r.opt.Starts,
		Clock: r.opt.clock(), Cap: r.opt.Tail, Plant: describePlant(r.c.Definition()),
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, gpc.BadInput(err)
	}
	lock, err := durable.Acquire(r.dir)
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	defer func() {
		if err != nil {
			lock.Release()
		}
	}()
	path := filepath.Join(r.dir, journalName)
	err = durable.ReadSealed(path, &r.journal, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		r.journal = expected
		return lock.Release, r.save()
	}
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	if r.journal.Version == expected.Version && r.journal.Case == expected.Case && r.journal.ProblemSHA256 != expected.ProblemSHA256 {
		return nil, gpc.BadInput(option.Errorf("compile: %s belongs to system %s before it was edited: field problem_sha256 is %s, want %s; choose another {Out}, or remove the folder", path, expected.Case, r.journal.ProblemSHA256, expected.ProblemSHA256))
	}
	for _, f := range []struct {
		name            string
		value, expected any
	}{
		{"version", r.journal.Version, expected.Version}, {"case", r.journal.Case, expected.Case},
		{"program", r.journal.Program, expected.Program}, {"isa", r.journal.ISA, expected.ISA}, {"training", r.journal.Training, expected.Training}, {"plant", describeDifference(r.journal.Plant, expected.Plant), describeDifference(expected.Plant, r.journal.Plant)}, {"seed", r.journal.Seed, expected.Seed},
		{"scenarios", r.journal.Scenarios, expected.Scenarios}, {"starts", r.journal.Starts, expected.Starts}, {"clock", cmp.Or(r.journal.Clock, "wall"), expected.Clock},
	} {
		if f.value != f.expected {
			return nil, gpc.BadInput(option.Errorf("compile: %s belongs to another run: field %s is %v, want %v; choose another {Out}, or remove the folder", path, f.name, f.value, f.expected))
		}
	}
	r.continued = true
	return lock.Release, nil
}

// commit saves the journal, and then removes what was kept of closed loops.
func (r *run) commit() error {
	err := r.save()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "drive-*.json"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

func (r *run) save() error {
	r.beginPart(r.part)
	r.journal.Seconds, r.saved = r.spent(), r.clock()
	return cmp.Or(r.optima.err, durable.WriteSealed(filepath.Join(r.dir, journalName), &r.journal))
}

// timeName is a file with the seconds of all runs so far. The journal has them where it was written later.
const timeName = "seconds.json"

// continueTime reads the time of earlier runs.
func (r *run) continueTime() error {
	seconds, err := durable.ReadJSON[float64](filepath.Join(r.dir, timeName))
	if r.earlierSeconds = r.journal.Seconds; seconds != nil {
		r.earlierSeconds = max(r.earlierSeconds, *seconds)
	}
	return err
}

// keepTime writes the time until ctx ends, so that a run that is killed counts in all that it does. It cuts data that are late.
func (r *run) keepTime(ctx context.Context) {
	for ticks := time.Tick(saveSeconds * time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			if r.excluded.Load() {
				continue
			}
			if budget := r.opt.Budget.Seconds(); r.spent() > budget+max(maxOverrun/2*budget, graceSeconds) {
				r.cut()
			}
			_ = durable.WriteJSON(filepath.Join(r.dir, timeName), r.spent(), "") // what the run keeps later reports the error
		}
	}
}

// beginPart counts the time from now on as that of a part of a round, in all runs together; nil: of none.
func (r *run) beginPart(seconds *float64) {
	if r.part != nil {
		*r.part += r.since(r.partStart)
	}
	r.part, r.partStart = seconds, r.clock()
}

// describePlant describes the plant's differences from the model with exact and immediate measurements.
func describePlant(c *domain.Case) string {
	words := slices.Clone(c.Altered)
	if m := c.Measurement; m != nil {
		for i, y := range m.Outputs {
			words = append(words, fmt.Sprintf("measured: %s ± %g %s", y.Name, m.Deviation[i], y.Unit))
		}
		for i, deviation := range m.Process {
			words = append(words, fmt.Sprintf("process: ± %g on state %d", deviation, i+1))
		}
		for _, u := range m.Unknown {
			words = append(words, fmt.Sprintf("unknown: %s, %g ± %g within %g to %g, drift %g", c.Problem.Spec().Context[u.Context].Name, u.Mean, u.Deviation, u.Lo, u.Hi, u.Drift))
		}
		words = append(words, fmt.Sprintf("kept off the limits: %g", c.Level))
		if m.Bounded {
			words = append(words, "of which all are bounds")
		}
		if m.Window > 0 || m.Lo != nil {
			words = append(words, fmt.Sprintf("estimated over %d decisions within %v to %v", m.Window, m.Lo, m.Hi))
		}
	}
	if c.Delay.Periods > 0 {
		words = append(words, fmt.Sprintf("delay: %g periods", c.Delay.Periods))
	}
	return strings.Join(words, "; ")
}

// describeDifference are the words of a plant that another lacks.
func describeDifference(plant, otherPlant string) string {
	words, otherWords := strings.Split(plant, "; "), strings.Split(otherPlant, "; ")
	words = slices.DeleteFunc(words, func(word string) bool { return slices.Contains(otherWords, word) })
	return cmp.Or(strings.Join(words, "; "), "no more than this")
}
