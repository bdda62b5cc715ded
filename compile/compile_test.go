package compile

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func step[T dual.Scalar](s, _, u, sNext, _ []T) {
	sNext[0], sNext[1] = s[0]+0.2*s[1]+0.02*u[0], s[1]+0.2*u[0]
}

func objectives[T dual.Scalar](_, _, u, n, j []T) {
	j[0], j[1] = n[0]*n[0]+0.1*n[1]*n[1], u[0]*u[0]
}

func margins[T dual.Scalar](_, _, _, n, m []T) { m[0] = 1 - n[1] }

func functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Step: step[T], Objectives: objectives[T], Margins: margins[T]}
}

// sled is a mass with a speed limit, and a training of a moment.
func sled(t *testing.T) *gpc.Case {
	return require.Get(gpc.NewCase(require.Get(system().Case())(t)))(t)
}

func system() equations.System {
	return equations.System{
		Name: "sled", Description: "a mass with a speed limit",
		State:      []domain.Variable{{Name: "q", Unit: "m"}, {Name: "v", Unit: "m/s"}},
		Action:     []domain.Variable{{Name: "u", Unit: "m/s²", Lo: -2, Hi: 2}},
		Objectives: []domain.Variable{{Name: "position", Unit: "m²"}, {Name: "effort", Unit: "1"}},
		Margins:    []domain.Variable{{Name: "speed", Unit: "m/s"}},
		Scenario:   []domain.Variable{{Name: "q", Unit: "m", Lo: -1, Hi: 1}, {Name: "v", Unit: "m/s", Lo: -0.5, Hi: 0.5}},
		Initial:    func(p, s, _ []float64) { copy(s, p) },
		Steps:      8, StepSeconds: 20, // so that no search is late on a busy machine
		Real: functions[float64](), Dual: functions[complex128](),
		Training: domain.Training{
			Latent: 4, Hidden: 16, Scenarios: 12, Weights: 1, ManifoldEpochs: 4, Batch: 32, LearningRate: 4e-3, SpectralBound: 20, Codes: 200, LocalNeighbours: 4,
		},
	}
}

func small(out string) Options {
	return Options{Out: out, Target: 1e-15, Tail: 1e9, Budget: time.Hour, Rounds: 2, Starts: 8, TestStarts: 6, Seed: 3, Threads: 2}
}

func TestRunGoesOnWhereItStoppedToTheSameModel(t *testing.T) {
	c := sled(t)
	whole := filepath.Join(t.TempDir(), "sled.safetensors")
	want := require.Get(Run(context.Background(), c, small(whole)))(t)
	if len(want.Rounds) != 2 || want.Met || want.Ended != "2 rounds" || want.Advice == "" {
		t.Fatalf("%d rounds, met %v, ended by %q, advice %q", len(want.Rounds), want.Met, want.Ended, want.Advice)
	}
	second := want.Rounds[1]
	if second.Kind == Data && (second.Focused == 0 || second.Focused >= second.Scenarios || second.Samples <= want.Rounds[0].Samples) {
		t.Errorf("second round: %+v", second)
	}
	if h := second.HeldOut; math.Abs(float64(h.Capped-h.Mean)) > 1e-9*float64(h.Mean) {
		t.Errorf("no regret is beyond the cap, and of the mean %v the capped one is %v", h.Mean, h.Capped)
	}
	if want.Test.Episodes != 6 && want.Test.Method != want.Choice[0].Method {
		t.Errorf("test %+v of choice %+v", want.Test, want.Choice)
	}
	if b := want.Solver; b == nil || b.Method != "nmpc-ahead" || b.Episodes != 6 || b.Compared != 6 || !(math.Abs(float64(b.Own)) < 1e-3) || !(b.Map > 0.01) || b.Prepare == nil || b.Period != 2e7 || !b.Fits {
		t.Errorf("beside the solver: %+v", b)
	}
	m := require.Get(c.Model(whole))(t)
	if said := strings.Join(m.Provenance.Choices, "\n"); !strings.Contains(said, second.Why) || !strings.Contains(said, want.Ended) || !strings.Contains(said, want.Choice[0].Method+" ") || !strings.Contains(said, "is missed") {
		t.Errorf("the model's header says %q of %+v", said, want)
	}
	if m.Provenance.Method != want.Choice[0].Method || len(m.Provenance.Rounds) == 0 || want.Model != "sled.safetensors" {
		t.Errorf("provenance %+v", m.Provenance)
	}
	if s := require.Get(c.Setup("", whole))(t); s.Method != m.Provenance.Method {
		t.Errorf("a map compiled for %s decides by %s", m.Provenance.Method, s.Method)
	}
	if s := require.Get(c.Setup("navigator-no-lie", whole))(t); s.Method != "navigator-no-lie" {
		t.Errorf("navigator-no-lie is asked for and %s decides", s.Method)
	}

	out := filepath.Join(t.TempDir(), "sled.safetensors")
	opt := small(out)
	ctx, cancel := context.WithCancel(context.Background())
	rounds := 0
	opt.Progress = func(p Progress) {
		if p.Round != nil {
			rounds++
		}
		if rounds == 1 && p.Stage == "train" {
			cancel()
		}
	}
	if _, err := Run(ctx, c, opt); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped in the second training: %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an interrupted run has written its model")
	}
	rounds = 0
	opt.Progress = func(p Progress) {
		if p.Round != nil {
			rounds++
		}
	}
	got := require.Get(Run(context.Background(), c, opt))(t)
	if rounds != 1 {
		t.Errorf("%d rounds were made after the one that was finished", rounds)
	}
	a, b := require.Get(os.ReadFile(whole))(t), require.Get(os.ReadFile(out))(t)
	if !bytes.Equal(a, b) || got.Rounds[1].HeldOut.Mean != want.Rounds[1].HeldOut.Mean {
		t.Error("a run that was interrupted has made another model")
	}
	if runtime.GOOS == "linux" && (got.TimesLoad == nil || got.TimesLoad.Partial || want.Load == nil || want.Load.Partial || got.Load == nil || !got.Load.Partial) {
		t.Errorf("the load of the whole run is %+v, of what was left of the other %+v", want.Load, got.Load)
	}

	refused := func(what, says string, c *gpc.Case, opt Options) {
		t.Helper()
		if _, err := Run(context.Background(), c, opt); !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := opt
	other.Seed++
	refused("another seed in the same folder", "field seed", c, other)
	heavier := *c.Definition()
	heavier.Problem = weighed{heavier.Problem}
	refused("another system of the name", "before it was edited: field problem_sha256", require.Get(gpc.NewCase(heavier))(t), opt)
	wider := *c.Definition()
	wider.Problem = widened{wider.Problem}
	refused("another width of its networks", "field training", require.Get(gpc.NewCase(wider))(t), opt)
	lock := require.Get(durable.Acquire(out + ".compile"))(t)
	refused("a second process", "is being written by process", c, opt)
	require.OK(t, lock.Release())
	journal := filepath.Join(out+".compile", journalName)
	text := require.Get(os.ReadFile(journal))(t)
	require.OK(t, os.WriteFile(journal, bytes.Replace(text, []byte(`"samples": `), []byte(`"samples": 1`), 1), 0o644))
	refused("an edited journal", "damaged or edited", c, opt)
}

// widened is a problem whose networks are wider.
type widened struct{ domain.Problem }

func (p widened) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Fingerprint: p.Fingerprint}
}

func (p widened) Fingerprint() [32]byte { return domain.FingerprintOf(p.Problem) }

func (p widened) Spec() *domain.Spec {
	spec := *p.Problem.Spec()
	spec.Training.Hidden *= 2
	return &spec
}

// weighed is a problem with other constants.
type weighed struct{ domain.Problem }

func (p weighed) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Fingerprint: p.Fingerprint}
}

func (weighed) Fingerprint() [32]byte { return [32]byte{1} }

func TestRunStopsAtItsTarget(t *testing.T) {
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Target, opt.Rounds = 1e6, 0
	got := require.Get(Run(context.Background(), sled(t), opt))(t)
	if got.Ended != "held-out starts meet the target" || len(got.Rounds) != 1 || !got.Met || len(got.Choice) != 1 || got.Advice != "" {
		t.Errorf("ended by %q after %d rounds, met %v, chosen among %d, advice %q", got.Ended, len(got.Rounds), got.Met, len(got.Choice), got.Advice)
	}
}

// prepared is a solver whose preparation has more parts than there are scenarios.
type prepared struct{ domain.Solver }

func (p prepared) Prepare(_ context.Context, _ uint64, progress func(done, total int)) error {
	progress(500, 1000)
	return nil
}

func TestNoStageStandsInForTheNext(t *testing.T) {
	def := require.Get(system().Case())(t)
	def.Solver = prepared{def.Solver}
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Rounds = 1
	said := map[string]bool{}
	opt.Progress = func(p Progress) {
		if p.Done > p.Total || p.Stage == "train" && !said["train"] && p.Total != 0 { // it begins before its data are read
			t.Errorf("%s: %d of %d", p.Stage, p.Done, p.Total)
		}
		said[p.Stage] = true
		if p.Done == 500 && (p.Stage != "prepare" || p.Total != 1000) {
			t.Errorf("the preparation is reported as %d of %d of %q", p.Done, p.Total, p.Stage)
		}
	}
	require.Get(Run(context.Background(), require.Get(gpc.NewCase(def))(t), opt))(t)
	if !said["prepare"] || !said["solve"] {
		t.Errorf("reported are %v", said)
	}
}

// A budget that ends in the first solves leaves a map of what there is.
func TestBudgetEndsSolving(t *testing.T) {
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Scenarios, opt.Rounds, opt.Budget = 4000, 0, 2*time.Second
	// On a clock of its own: a solve takes 50 ms.
	var elapsed time.Duration
	opt.Progress = func(p Progress) {
		if p.Stage == "solve" {
			elapsed = max(elapsed, time.Duration(p.Done)*50*time.Millisecond)
		}
	}
	got := require.Get(compile(context.Background(), sled(t), opt, func() time.Time { return time.Unix(0, 0).Add(elapsed) }))(t)
	first := got.Rounds[0]
	if first.Wanted != 4000 || first.Scenarios == 0 || first.Scenarios >= 4000 || first.HeldOut.Episodes != 8 || got.Choice[0].Episodes != 8 {
		t.Errorf("first round %+v", first)
	}
	if got.Ended != noTimeLeft {
		t.Errorf("ended by %q", got.Ended)
	}
}

// A part of the data whose solving was interrupted is left out where the time is up: a map is not trained on a part of it.
func TestAPartThatWasInterruptedIsLeftOut(t *testing.T) {
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Scenarios, opt.Rounds = 400, 1
	chunk := (opt.Scenarios + usualParts - 1) / usualParts
	ctx, cancel := context.WithCancel(context.Background())
	opt.Progress = func(p Progress) {
		if p.Stage == "solve" && p.Done > chunk {
			cancel()
		}
	}
	if _, err := Run(ctx, sled(t), opt); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	parts := func() int { return len(require.Get(filepath.Glob(opt.Out + ".compile/data-00-*"))(t)) }
	begun := parts()
	opt.Budget, opt.Progress = time.Nanosecond, nil
	if got := require.Get(Run(context.Background(), sled(t), opt))(t); begun < 2 || parts() != begun-1 || got.Rounds[0].Scenarios != parts()*chunk {
		t.Errorf("%d scenarios in %d of %d parts that were begun, want %d in each", got.Rounds[0].Scenarios, parts(), begun, chunk)
	}
}

func TestRunRefuses(t *testing.T) {
	c := sled(t)
	none := *c.Definition()
	none.Solver = nil
	for _, x := range []struct {
		name, says string
		c          *gpc.Case
		change     func(*Options)
	}{
		{"no file", "Out is required", c, func(o *Options) { o.Out = "" }},
		{"a target that is no number", "target", c, func(o *Options) { o.Target = math.NaN() }},
		{"a negative budget", "budget", c, func(o *Options) { o.Budget = -1 }},
		{"no starts", "starts", c, func(o *Options) { o.Starts = -1 }},
		{"no solver", "no solver", require.Get(gpc.NewCase(none))(t), func(*Options) {}},
	} {
		opt := small(filepath.Join(t.TempDir(), "m"))
		x.change(&opt)
		if _, err := Run(context.Background(), x.c, opt); !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// What a round is follows from the evidence before it.
func TestNextRound(t *testing.T) {
	c := sled(t)
	base := func() Round {
		return Round{
			Kind: First, Scenarios: 100, Samples: 1000, Epochs: 10,
			Training: Score{Episodes: 50, Mean: 2, Max: 5}, Probed: Score{Episodes: 50, Mean: 2.2, Max: 6}, HeldOut: Score{Episodes: 50, Mean: 2.2, Max: 6},
			Seconds: Seconds{Solve: 10, Train: 10, Evaluate: 1},
		}
	}
	for _, x := range []struct {
		name      string
		rounds    []func(*Round)
		budget    float64 // s
		kind      Kind
		scenarios int
		epochs    int
		ended     string
	}{
		{"its own starts miss the target too", []func(*Round){func(*Round) {}}, 1000, Epochs, 0, 20, ""},
		{"held-out starts cost more", []func(*Round){func(r *Round) { r.Probed.Mean = 8 }}, 1000, Data, 300, 10, ""},
		{"a held-out start is not safe", []func(*Round){func(r *Round) { r.Probed.Unsafe = 1 }}, 1000, Data, 300, 10, ""},
		{"less time", []func(*Round){func(r *Round) { r.Probed.Mean = 8 }}, 45, Data, 148, 10, ""},
		{"no time for data", []func(*Round){func(r *Round) { r.Probed.Mean = 8 }}, 15, Epochs, 0, 10, ""},
		{"no time", []func(*Round){func(r *Round) { r.Probed.Mean = 8 }}, 3, "", 0, 0, noTimeLeft},
		{"more epochs were worth nothing", []func(*Round){func(*Round) {}, func(r *Round) { r.Kind, r.Scenarios, r.Epochs = Epochs, 0, 20 }}, 1000, Data, 300, 10, ""},
		{"the target", []func(*Round){func(r *Round) { r.Confirmed = &Score{Episodes: 250, Mean: 0.1, Max: 0.2} }}, 1000, "", 0, 0, "held-out starts meet the target"},
		{"a target that more starts miss", []func(*Round){func(r *Round) { r.Confirmed = &Score{Episodes: 250, Mean: 0.1, Max: 20} }}, 1000, Data, 100, 10, ""},
		{"a mean that more starts miss", []func(*Round){func(r *Round) { r.Confirmed = &Score{Episodes: 250, Mean: 0.7, Max: 20} }}, 1000, Data, 300, 10, ""},
	} {
		began := time.Unix(0, 0) // and no time passes
		r := &run{c: c, opt: Options{Target: 0.5, Tail: 10, Budget: time.Duration(x.budget * 1e9)}, clock: func() time.Time { return began }, start: began, journal: journal{Cap: 10}}
		for _, change := range x.rounds {
			round := base()
			change(&round)
			for _, s := range []*Score{&round.Training, &round.Probed, &round.HeldOut} {
				s.Capped = s.Mean
			}
			r.journal.Rounds = append(r.journal.Rounds, round)
		}
		w, ended := r.nextRound()
		if ended != x.ended || w.Kind != x.kind || w.Epochs != x.epochs || math.Abs(float64(w.Wanted-x.scenarios)) > 2 {
			t.Errorf("%s: %+v, ended %q; want %s of %d scenarios and %d epochs, %q", x.name, w, ended, x.kind, x.scenarios, x.epochs, x.ended)
		}
	}
}

// TestAdvice: what keeps a map from its target is told from where it drove badly, and
// docs/how-to/fix-your-equations.md says of each advice what to do.
func TestAdvice(t *testing.T) {
	o := Options{Target: 1}
	page := string(require.Get(os.ReadFile("../docs/how-to/fix-your-equations.md"))(t))
	for says, c := range map[string]struct {
		kind     Kind
		training Score // of the best round
		heldOut  closedloop.Number
		test     Score
	}{
		"more than one start in twenty has no reference optimum":      {First, Score{}, 2, Score{NoReference: []closedloop.MissingReference{{Episodes: 6}}, Mean: 2}},
		"some reference optima cost more than what the map does":      {First, Score{}, 2, Score{Min: -1.5, Mean: 2}},
		"episodes from starts of the data itself are not safe":        {First, Score{Unsafe: 1}, 2, Score{Unsafe: 3, Mean: 2}},
		"some held-out starts end unsafe":                             {First, Score{}, 2, Score{Unsafe: 3, Mean: 2}},
		"a few starts cost nearly all of the mean":                    {First, Score{Mean: 1.5, Median: 0.02}, 4, Score{Mean: 2, Median: 0.02}},
		"held-out starts cost more than those of the data":            {First, Score{Mean: 0.5, Median: 0.001}, 2, Score{Mean: 2, Median: 1}},
		"starts of the data itself miss the target after more epochs": {Epochs, Score{Mean: 1.5, Median: 1}, 2, Score{Mean: 2}},
		"the guard asks a solver too often, or follows its plans":     {First, Score{Mean: 0.5}, 2, Score{Mean: 0.5, Replaced: 6}},
		"the mean is met, the largest regret is not":                  {First, Score{Mean: 0.5}, 0.5, Score{Mean: 0.5, Max: 90}},
	} {
		if !strings.Contains(page, "| *"+says+"* |") {
			t.Errorf("docs/how-to/fix-your-equations.md has no row of %q", says)
		}
		c.training.Episodes, c.training.Capped, c.test.Episodes = 100, c.training.Mean, 100
		out := &Report{Rounds: []Round{{Kind: c.kind, Training: c.training, HeldOut: Score{Episodes: 100, Capped: c.heldOut}}}, Test: c.test}
		if got := advice(out, &o); !strings.Contains(got, says) {
			t.Errorf("want advice with %q, it is %q", says, got)
		}
	}
	acted := &Report{Disturbed: true, Rounds: []Round{{Kind: First}}, Test: Score{Episodes: 100, Min: -1.5, Mean: 2}}
	if says := "the reference does not know what acts on the plant"; !strings.Contains(advice(acted, &o), says) || !strings.Contains(page, "| *"+says+"* |") {
		t.Errorf("where something acts on the plant the advice is %q", advice(acted, &o))
	}
	for _, training := range []Score{{Episodes: 100, Capped: 1.5}, {}} { // without a start of the data nothing stands beside the others
		missed := &Report{Rounds: []Round{{Kind: First, Training: training, HeldOut: Score{Episodes: 100, Capped: 2}}}, Test: Score{Episodes: 100, Mean: 2}}
		if got := advice(missed, &o); got != "a larger budget" {
			t.Errorf("where nothing tells what is missing the advice is %q", got)
		}
	}
}

func TestFocusIsOnTheWorst(t *testing.T) {
	points, regret := make([][]float64, 20), make([]float64, 20)
	for i := range points {
		points[i], regret[i] = []float64{float64(i)}, float64(i%7)
	}
	regret[11] = math.Inf(1)
	got := worstStarts(points, regret)
	if len(got) != 2 || got[0][0] != 11 || got[1][0] != 6 {
		t.Errorf("%v", got)
	}
}

// Starts without a known way are no failure of a map, others are.
func TestTargetsAskForWhatThereIsAWayTo(t *testing.T) {
	o := Options{Target: 0.5, Tail: 10}
	for _, x := range []struct {
		score Score
		want  bool
	}{
		{Score{Episodes: 100, Mean: 0.4, Max: 9}, true},
		{Score{Episodes: 100, Mean: 0.4, Max: 9, Unsafe: 2, NoWay: 2}, true},
		{Score{Episodes: 100, Mean: 0.4, Max: 9, Unsafe: 2, NoWay: 1}, false},
		{Score{Episodes: 100, Mean: 0.4, Max: 11}, false},
		{Score{Episodes: 100, Mean: -0.5, Floored: 0.4, Max: 9, Min: -97}, true},
		{Score{Episodes: 100, Mean: -0.5, Floored: 0.6, Max: 9, Min: -97}, false},
		{Score{Episodes: 100, Mean: 0.6, Max: 9}, false},
		{Score{Episodes: 100, Mean: 0.4, Max: 9, Rescued: 1.1}, false},
		{Score{Episodes: 100, Mean: 0.4, Max: 9, Rescued: 0.9, Replaced: 4.9}, true},
		{Score{Episodes: 100, Mean: 0.4, Max: 9, Rescued: 0.9, Replaced: 5.1}, false},
		{Score{Episodes: 100, Mean: closedloop.Number(math.NaN())}, false},
	} {
		if got := x.score.meets(&o); got != x.want {
			t.Errorf("%+v meets: %t", x.score, got)
		}
	}
}
