package compile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// counted is a case whose plant counts the optima that are solved for.
func counted(t *testing.T, solves *atomic.Int64) *gpc.Case {
	def := *sled(t).Definition()
	plant := *def.Plant.(*closedloop.Simulation)
	solve := plant.Oracle
	plant.Oracle = func(ctx context.Context, s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
		solves.Add(1)
		return solve(ctx, s, c, steps, pref)
	}
	def.Plant = &plant
	return require.Get(gpc.NewCase(def))(t)
}

// A run that is stopped in every part is done after as many runs as there are parts: each finishes one. No optimum
// is solved for again, and model and choice are those of a run that was not stopped.
func TestEveryRunFinishesAPart(t *testing.T) {
	var solves, again atomic.Int64
	whole := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	want := require.Get(Run(context.Background(), counted(t, &solves), whole))(t)

	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	c := counted(t, &again)
	stops := map[string]int{}
	for runs := 1; ; runs++ {
		ctx, cancel := context.WithCancel(context.Background())
		current, began := "", 0
		opt.Progress = func(p Progress) {
			if p.Stage == "" || p.Stage == current {
				return
			}
			if current = p.Stage; strings.HasPrefix(p.Stage, "drive") || p.Stage == "train" {
				if began++; began == 2 { // the second part that is worked at
					stops[p.Stage]++
					cancel()
				}
			}
		}
		got, err := Run(ctx, c, opt)
		if cancel(); err == nil {
			if len(got.Rounds) != len(want.Rounds) || got.Choice[0].Method != want.Choice[0].Method || got.Test.Mean != want.Test.Mean || got.Solver.Own != want.Solver.Own {
				t.Errorf("%d rounds, %s at %v; undisturbed %d, %s at %v", len(got.Rounds), got.Choice[0].Method, got.Test.Mean, len(want.Rounds), want.Choice[0].Method, want.Test.Mean)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if runs == 40 {
			t.Fatalf("no end after %d runs, stopped at %v", runs, stops)
		}
	}
	if len(stops) < 5 {
		t.Errorf("stopped at %v alone", stops)
	}
	if a, b := require.Get(os.ReadFile(whole.Out))(t), require.Get(os.ReadFile(opt.Out))(t); !bytes.Equal(a, b) {
		t.Error("the stopped runs made another model")
	}
	if again.Load() != solves.Load() {
		t.Errorf("%d optima were solved for, undisturbed %d", again.Load(), solves.Load())
	}
	if left := require.Get(filepath.Glob(opt.Out + ".compile/drive-*"))(t); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// copied is the folder of a run as a process that is killed leaves it.
func copied(t *testing.T, out string) string {
	other := filepath.Join(t.TempDir(), filepath.Base(out))
	require.OK(t, os.CopyFS(other+".compile", os.DirFS(out+".compile")))
	return other
}

// A run that is killed behind a training has its map, and its time is counted.
func TestAKilledRunKeepsItsTrainingAndItsTime(t *testing.T) {
	var elapsed atomic.Int64
	now := func() time.Time { return time.Unix(0, elapsed.Load()) }
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	left := ""
	opt.Progress = func(p Progress) {
		elapsed.Add(int64(100 * time.Millisecond))
		if left == "" && strings.HasPrefix(p.Stage, "drive direct from its own") && p.Done > 1 {
			left = copied(t, opt.Out)
			killed := &run{dir: left + ".compile", opt: opt, c: sled(t)}
			killed.opt.Scenarios = 12
			require.Get(killed.open())(t)
			if lost := now().Sub(time.Unix(0, 0)).Seconds() - killed.journal.Seconds; lost < 0 || lost > saveSeconds+0.2 {
				t.Errorf("%v s are lost of %v", lost, elapsed.Load())
			}
			if s := killed.journal.Current; s == nil || s.Samples == 0 || s.Seconds.Train < 0.1 {
				t.Errorf("the round is %+v", s)
			}
		}
	}
	require.Get(compile(context.Background(), sled(t), opt, now))(t)
	whole := opt.Out
	opt.Out = left
	first := true
	opt.Progress = func(p Progress) {
		if p.Round != nil {
			first = false
		}
		if first && (p.Stage == "train" || p.Stage == "solve" || p.Stage == "time references") {
			t.Errorf("it goes on with %q", p.Stage)
		}
	}
	require.Get(Run(context.Background(), sled(t), opt))(t)
	if a, b := require.Get(os.ReadFile(whole))(t), require.Get(os.ReadFile(left))(t); !bytes.Equal(a, b) {
		t.Error("the killed run made another model")
	}
}

// A run that asks for no more rounds than there are ends where another round was begun.
func TestARunEndsBeforeARoundThatWasInterrupted(t *testing.T) {
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Target, opt.Rounds = 1e-9, 2
	ctx, cancel := context.WithCancel(context.Background())
	rounds := 0
	opt.Progress = func(p Progress) {
		if p.Round != nil {
			rounds++
		} else if rounds == 1 {
			cancel()
		}
	}
	if _, err := Run(ctx, sled(t), opt); !errors.Is(err, context.Canceled) || rounds != 1 {
		t.Fatalf("interrupted in round %d: %v", rounds+1, err)
	}
	opt.Progress = func(p Progress) {
		if p.Round != nil {
			t.Errorf("round %d was made", p.Number)
		}
	}
	opt.Rounds = 1
	if got := require.Get(Run(context.Background(), sled(t), opt))(t); got.Ended != "1 rounds" || len(got.Rounds) != 1 {
		t.Errorf("%d rounds, ended by %q", len(got.Rounds), got.Ended)
	}
}

// A file of optima that a process was killed in is read to its last whole line.
func TestOptimaSurviveATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "optima.jsonl")
	open := func(solve func() (float64, error)) *optima {
		o := &optima{cache: map[string]optimum{}, part: func(ctx context.Context) context.Context { return ctx }, solve: func(context.Context, []float64, []float64, int, domain.Preference) (float64, [][]float64, error) {
			cost, err := solve()
			return cost, nil, err
		}}
		require.OK(t, o.open(path))
		return o
	}
	look := func(o *optima, s float64) (float64, error) {
		cost, _, err := o.lookUp(t.Context(), []float64{s}, nil, 3, adaptive)
		return cost, err
	}
	o := open(func() (float64, error) { return 1.0 / 3, nil })
	require.Get(look(o, 1))(t)
	o.solve = func(context.Context, []float64, []float64, int, domain.Preference) (float64, [][]float64, error) {
		return 0, nil, errors.New("no way")
	}
	if _, err := look(o, 2); err == nil {
		t.Error("a failure is an optimum")
	}
	require.OK(t, o.file.Close())
	text := require.Get(os.ReadFile(path))(t)
	for _, cut := range []int{len(text), len(text) - 1, len(text) - 30, bytes.IndexByte(text, '\n') + 1, 10, 0} {
		require.OK(t, os.WriteFile(path, text[:cut], 0o644))
		solved := 0
		o := open(func() (float64, error) { solved++; return 5, nil })
		a, _ := look(o, 1)
		_, err := look(o, 2)
		lines := bytes.Count(text[:cut], []byte{'\n'})
		if solved != 2-lines || lines > 0 && a != 1.0/3 || lines > 1 && (err == nil || err.Error() != "no way") {
			t.Errorf("of %d bytes: %v and %v, %d solved", cut, a, err, solved)
		}
		require.OK(t, o.file.Close())
		if got := bytes.Count(require.Get(os.ReadFile(path))(t), []byte{'\n'}); got != 2 {
			t.Errorf("of %d bytes: %d lines are left", cut, got)
		}
	}
}

// slowly is a problem whose polish does something else too, in one decision of eight.
type slowly struct {
	domain.Problem
	wait  func()
	calls *atomic.Int64
}

func (p slowly) Abilities() *domain.ProblemAbilities {
	abilities := *domain.AbilitiesOfProblem(p.Problem)
	polish := abilities.Polish
	abilities.Polish = func(s, c []float64, pref domain.Preference, bounds []domain.Bound, plan []float64, iterations int) bool {
		if p.calls.Add(1)%8 == 0 {
			p.wait()
		}
		return polish(s, c, pref, bounds, plan, iterations)
	}
	return &abilities
}

// A method that waits for a busy machine is chosen as on a quiet one. One that computes for longer than a period is not,
// and the report says so.
func TestLateByWallTimeAloneIsNotLate(t *testing.T) {
	const period = 40 * time.Millisecond
	for name, v := range map[string]struct {
		wait   func()
		chosen bool
	}{
		"waiting": {func() { time.Sleep(period + period/8) }, true},
		"computing": {func() {
			for start := machine.CPUTime(); machine.CPUTime() < start+period+period/8; {
			}
		}, false},
	} {
		if machine.CPUTime() == 0 {
			t.Skip("this system does not say what a process has computed")
		}
		y := system()
		y.StepSeconds = period.Seconds()
		def := require.Get(y.Case())(t)
		def.Problem = slowly{def.Problem, v.wait, new(atomic.Int64)}
		opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
		opt.Rounds, opt.Starts, opt.Target = 1, 20, 0.1
		got := require.Get(Run(context.Background(), require.Get(gpc.NewCase(def))(t), opt))(t)
		var polish *Score
		for i := range got.Choice {
			if got.Choice[i].Method == "polish-ahead" {
				polish = &got.Choice[i]
			}
		}
		if polish == nil || polish.Clock != "cpu" || (got.Test.Method == "polish-ahead") != v.chosen || polish.TooSlow == v.chosen {
			t.Errorf("%s: %s is chosen, polish-ahead is %+v", name, got.Test.Method, polish)
		}
		if slow := strings.Contains(got.Advice, "longer than a period"); slow == v.chosen || got.Met != v.chosen {
			t.Errorf("%s: met %v, advice %q", name, got.Met, got.Advice)
		}
	}
}
