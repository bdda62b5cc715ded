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

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/version"
)

// rounds makes one round after the other, and says why there is no further one.
func (r *run) rounds(ctx context.Context) (ended string, err error) {
	for {
		next, ended := r.next()
		if ended != "" {
			return ended, nil
		}
		round, err := r.round(ctx, len(r.journal.Rounds), next)
		if err != nil {
			r.save() // the time is spent
			return "", err
		}
		r.journal.Rounds = append(r.journal.Rounds, *round)
		if err := r.save(); err != nil {
			return "", err
		}
		r.opt.Progress(Progress{Round: round, Number: len(r.journal.Rounds)})
	}
}

// work is what a round is to do.
type work struct {
	kind              Kind
	why               string
	from              int // the round whose map it goes on from
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
	// What a round may take of what is left, for evaluation has its time too.
	usable = 0.9
)

// noRoom is why there is no further round where the time that is left is too short for one.
const noRoom = "the budget has no room for another"

// next decides on the evidence of the rounds so far, or says why there is no further one.
func (r *run) next() (work, string) {
	rounds, t := r.journal.Rounds, r.c.MapSpec().Training
	if len(rounds) == 0 {
		return work{First, "the case's own size", 0, r.opt.Scenarios, t.ManifoldEpochs}, ""
	}
	if r.confirmed(&rounds[len(rounds)-1]) {
		return work{}, "target met"
	}
	if len(rounds) == r.opt.Rounds {
		return work{}, fmt.Sprintf("%d rounds", len(rounds))
	}
	w, ended := r.fit(r.wantedRound())
	if ended == "" && w.from < len(rounds)-1 {
		w.why += fmt.Sprintf("; on from the map of round %d, which is better than that of round %d", w.from+1, len(rounds))
	}
	return w, ended
}

// confirmed tells whether more starts than the held-out ones met the target.
func (r *run) confirmed(x *Round) bool { return x.Confirmed != nil && x.Confirmed.meets(&r.opt) }

// best is the round whose map is to be used and gone on from: one that is confirmed, else the one
// that does best from the held-out starts.
func (r *run) best() (best int) {
	for i := range r.journal.Rounds {
		x, than := &r.journal.Rounds[i], &r.journal.Rounds[best]
		if a, b := r.confirmed(x), r.confirmed(than); a != b && a || a == b && x.HeldOut.better(&than.HeldOut) {
			best = i
		}
	}
	return best
}

// exhausted tells whether the last round were epochs that gained little or nothing.
func (r *run) exhausted() bool {
	last := &r.journal.Rounds[len(r.journal.Rounds)-1]
	if last.Kind != Epochs {
		return false
	}
	return !(float64(last.HeldOut.Capped) <= (1-worthwhile)*float64(r.journal.Rounds[last.From].HeldOut.Capped))
}

// lacksVisitedStates tells whether the map's own actions reach its next observation through the context,
// and no data show what then happens: longer training on optimal actions does not.
func (r *run) lacksVisitedStates() bool {
	return r.remembers && !slices.ContainsFunc(r.journal.Rounds, func(x Round) bool { return x.Focused > 0 })
}

// wantedRound is the next round were there time without end.
func (r *run) wantedRound() work {
	from := r.best()
	now := &r.journal.Rounds[from]
	gap := ratio(now.Probed.Capped, now.Training.Capped)
	learnt := now.Training.Episodes == 0 || now.Training.meets(&r.opt) || now.Confirmed != nil || r.exhausted() || r.lacksVisitedStates()
	if !learnt && gap < overfit && now.Probed.rate() <= now.Training.rate() {
		return work{Epochs, fmt.Sprintf("its own starts cost %s, others %.2g times that", r.typical(&now.Training), gap), from, 0, 2 * now.Epochs}
	}
	total := r.scenarios()
	why := fmt.Sprintf("other starts cost %.2g times its own", gap)
	switch {
	case now.Confirmed != nil:
		c := now.Confirmed
		why = fmt.Sprintf("%d starts more cost %.2g %%, the worst %.2g %%, %d of them unsafe", c.Episodes, float64(c.Mean), float64(c.Max), c.Unsafe-c.NoWay)
	case now.Probed.rate() > 0:
		why = fmt.Sprintf("%d of %d other starts are not safe without a guard", now.Probed.Unsafe-now.Probed.NoWay, now.Probed.Episodes)
	case float64(now.HeldOut.Mean) <= r.opt.Target:
		why = fmt.Sprintf("the worst start costs %.2g %%", float64(now.HeldOut.Max))
	case now.Training.Episodes == 0:
		why = "the target is missed"
	case r.lacksVisitedStates() && gap < overfit:
		why = "the context remembers actions, and nothing is known of those that the map takes"
	}
	if now.Confirmed != nil && float64(now.Confirmed.Mean) <= r.opt.Target {
		return work{Data, why, from, total, now.Epochs} // a tail wants the right starts more than many
	}
	return work{Data, why, from, (growth - 1) * total, now.Epochs}
}

// typical is a score as decisions see it.
func (r *run) typical(s *Score) string {
	text := fmt.Sprintf("%.2g %%", float64(s.Capped))
	if float64(s.Max) > r.journal.Cap {
		text += fmt.Sprintf(" with none counted above %.3g %%", r.journal.Cap)
	}
	return text
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
	var scenarios, solve float64
	for i := range rounds {
		if x := &rounds[i]; x.Kind != Epochs {
			scenarios, solve = float64(x.Scenarios), x.Seconds.Solve // of the last: visited states cost more than none
		}
	}
	perScenario, perSample := solve/scenarios, r.perSample()
	left := usable*r.left() - last.Seconds.Evaluate
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
		if r.exhausted() {
			return work{}, noRoom
		}
		w.kind, w.scenarios = Epochs, 0
	}
	if base > left {
		w.epochs = int(math.Floor(float64(w.epochs) * left / base))
	}
	if w.epochs < rounds[w.from].Epochs/2 || w.epochs < 1 || left <= 0 {
		return work{}, noRoom
	}
	return w, ""
}

// perSample is the time of training on a sample for an epoch, s.
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

// journal is what a run has done: with it the next run of the same options goes on.
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
	Pace          pace    `json:"pace"`
	Seconds       float64 `json:"seconds"` // of all runs so far
	durable.Seal
}

// open makes this run the one writer of its folder, which the returned function ends, and
// reads the journal of an earlier run there, or begins one.
func (r *run) open() (release func() error, err error) {
	level, err := isa.Name()
	if err != nil {
		return nil, gpc.BadInput(fmt.Errorf("compile: %w", err))
	}
	want := journal{
		Version: journalVersion, Case: r.c.Name(), ProblemSHA256: durable.Sum(domain.FingerprintOf(r.c.Definition().MapProblem())),
		Program: version.Version + " " + version.Build(), ISA: level, Training: fmt.Sprintf("%+v", r.c.MapSpec().Training), Seed: r.opt.Seed, Scenarios: r.opt.Scenarios, Starts: r.opt.Starts,
		Clock: r.opt.clock(), Cap: r.opt.Tail, Plant: plantOf(r.c.Definition()),
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, gpc.BadInput(fmt.Errorf("compile: %w", err))
	}
	lock, err := durable.Acquire(r.dir)
	if err != nil {
		return nil, gpc.BadInput(fmt.Errorf("compile: %w", err))
	}
	defer func() {
		if err != nil {
			lock.Release()
		}
	}()
	path := filepath.Join(r.dir, journalName)
	err = durable.ReadSealed(path, &r.journal, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		r.journal = want
		return lock.Release, r.save()
	}
	if err != nil {
		return nil, gpc.BadInput(fmt.Errorf("compile: %w", err))
	}
	if r.journal.Version == want.Version && r.journal.Case == want.Case && r.journal.ProblemSHA256 != want.ProblemSHA256 {
		return nil, gpc.BadInput(option.Errorf("compile: %s belongs to system %s before it was edited: field problem_sha256 is %s, want %s; choose another {Out}, or remove the folder", path, want.Case, r.journal.ProblemSHA256, want.ProblemSHA256))
	}
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"version", r.journal.Version, want.Version}, {"case", r.journal.Case, want.Case},
		{"program", r.journal.Program, want.Program}, {"isa", r.journal.ISA, want.ISA}, {"training", r.journal.Training, want.Training}, {"plant", differing(r.journal.Plant, want.Plant), differing(want.Plant, r.journal.Plant)}, {"seed", r.journal.Seed, want.Seed},
		{"scenarios", r.journal.Scenarios, want.Scenarios}, {"starts", r.journal.Starts, want.Starts}, {"clock", cmp.Or(r.journal.Clock, "wall"), want.Clock},
	} {
		if f.got != f.want {
			return nil, gpc.BadInput(option.Errorf("compile: %s belongs to another run: field %s is %v, want %v; choose another {Out}, or remove the folder", path, f.name, f.got, f.want))
		}
	}
	r.continued = true
	return lock.Release, nil
}

func (r *run) save() error {
	r.journal.Seconds = r.spent()
	if err := durable.WriteSealed(filepath.Join(r.dir, journalName), &r.journal); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return nil
}

// plantOf says in words what of the plant is not that of the model, measured exactly and at once.
func plantOf(c *domain.Case) string {
	words := slices.Clone(c.Altered)
	if m := c.Measurement; m != nil {
		for i, y := range m.Outputs {
			words = append(words, fmt.Sprintf("measured: %s ± %g %s", y.Name, m.Deviation[i], y.Unit))
		}
		for i, by := range m.Process {
			words = append(words, fmt.Sprintf("process: ± %g on state %d", by, i+1))
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

// differing are the words of a plant that another does not have.
func differing(plant, other string) string {
	words, others := strings.Split(plant, "; "), strings.Split(other, "; ")
	words = slices.DeleteFunc(words, func(word string) bool { return slices.Contains(others, word) })
	return cmp.Or(strings.Join(words, "; "), "no more than this")
}
