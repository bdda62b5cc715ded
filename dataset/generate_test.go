package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func TestSameDataForThreadsAndChunks(t *testing.T) {
	whole := t.TempDir()
	generate(t, options(whole))
	d, want := load(t, whole)
	for _, edit := range []func(*Options){func(o *Options) { o.Threads = 1 }, func(o *Options) { o.Threads = 7 }, func(o *Options) { o.Chunk = 100 }, func(o *Options) { o.Chunk = 1 }} {
		opt := options(t.TempDir())
		edit(&opt)
		generate(t, opt)
		other, got := load(t, opt.OutDir)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v gives other samples", opt)
		}
		if other.Hash() != d.Hash() {
			t.Errorf("%+v gives the hash %s, want %s", opt, other.Hash(), d.Hash())
		}
	}
	opt := options(t.TempDir())
	opt.Seed = 6
	generate(t, opt)
	if other, _ := load(t, opt.OutDir); other.Hash() == d.Hash() {
		t.Error("another seed gives the same hash")
	}
}

func TestAnInterruptedDatasetIsContinued(t *testing.T) {
	whole := t.TempDir()
	generate(t, options(whole))
	d, want := load(t, whole)
	opt := options(t.TempDir())
	runs, solves := 0, int64(0)
	for done := false; !done; runs++ {
		ctx, cancel := context.WithCancel(context.Background())
		solver := &toySolver{}
		_, err := Generate(ctx, domain.Case{Problem: toy{}, Solver: solver}, opt, func(p Progress) {
			if p.Stage == "solve" {
				cancel() // in the middle of the first chunk of this run
			}
		})
		cancel()
		solves += solver.solves.Load()
		switch {
		case err == nil:
			done = true
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		default:
			if _, err := Open(opt.OutDir); runs < 4 && (err == nil || !strings.Contains(err.Error(), "interrupted")) {
				t.Fatalf("an interrupted dataset opens: %v", err)
			}
		}
		for _, e := range entries(t, opt.OutDir) {
			if strings.HasPrefix(e, ".") {
				t.Fatalf("a temporary file %s was left", e)
			}
		}
	}
	if runs < 5 {
		t.Errorf("%d runs completed 6 chunks that were interrupted one by one", runs)
	}
	other, got := load(t, opt.OutDir)
	if !reflect.DeepEqual(got, want) || other.Hash() != d.Hash() {
		t.Error("an interrupted and resumed dataset holds other samples")
	}
	if solves != other.Counters.Solves {
		t.Errorf("%d solves were made for %d: a finished chunk was solved again", solves, other.Counters.Solves)
	}
	// Complete: nothing is prepared or solved again.
	counters, solver := generate(t, opt)
	if solver.solves.Load() != 0 || solver.prepared.Load() != 0 || counters.Samples != int64(got.Rows()) || counters.SolvesPerSecond != 0 {
		t.Errorf("a complete dataset was worked on: %+v", counters)
	}
	// A part without manifest, as a crash leaves it, is made again.
	if err := os.Remove(filepath.Join(opt.OutDir, manifestName(2))); err != nil {
		t.Fatal(err)
	}
	generate(t, opt)
	if _, again := load(t, opt.OutDir); !reflect.DeepEqual(again, want) {
		t.Error("the re-made part differs")
	}
}

func TestGenerateRefusals(t *testing.T) {
	dir := t.TempDir()
	generate(t, options(dir))
	run := func(edit func(*Options), solver domain.Solver) error {
		opt := options(t.TempDir())
		edit(&opt)
		_, err := Generate(context.Background(), domain.Case{Problem: toy{}, Solver: solver}, opt, nil)
		return err
	}
	for _, c := range []struct {
		want string
		edit func(*Options)
	}{
		{"seed is 9, want 5", func(o *Options) { o.OutDir, o.Seed = dir, 9 }},
		{"shard is 0/2", func(o *Options) { o.OutDir, o.Shard = dir, Shard{0, 2} }},
		{"program is v2", func(o *Options) { o.OutDir, o.Program = dir, "v2" }},
		{"weights is", func(o *Options) { o.OutDir, o.Weights.Count = dir, 3 }},
		{"scenarios is 0", func(o *Options) { o.Scenarios = 0 }},
		{"shard is 3/3", func(o *Options) { o.Shard = Shard{3, 3} }},
		{"nothing to solve for", func(o *Options) { o.Adaptive, o.Weights.Count = false, 0 }},
		{"a policy together with its name", func(o *Options) { o.Visiting.Method = "p" }},
		{"cannot solve from the states", func(o *Options) {
			o.Visiting.Method, o.Policy = "p", func() (domain.Controller, error) { return nil, nil }
		}},
		{"unknown scalarization", func(o *Options) { o.Scalarization = "x" }},
		{"unknown weight design", func(o *Options) { o.Weights.Design = "x" }},
		{"-1 threads", func(o *Options) { o.Threads = -1 }},
		{"the output folder is missing", func(o *Options) { o.OutDir = "" }},
	} {
		if err := run(c.edit, &toySolver{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %q", err, c.want)
		}
	}
	if err := run(func(*Options) {}, nil); err == nil || !strings.Contains(err.Error(), "no solver") {
		t.Errorf("no solver: %v", err)
	}
	err := run(func(*Options) {}, &toySolver{failAt: 0.5})
	if err == nil || !strings.Contains(err.Error(), "scenario") || !strings.Contains(err.Error(), "the solver broke") {
		t.Errorf("a broken solver: %v", err)
	}
	for _, c := range []struct {
		want   string
		mutate func([]domain.Sample)
	}{
		{"1 values of S, want 2", func(s []domain.Sample) { s[1].S = s[1].S[:1] }},
		{"does not follow", func(s []domain.Sample) { s[1].Step = 2 }},
		{"step -1", func(s []domain.Sample) { s[0].Step = -1 }},
	} {
		if err := run(func(*Options) {}, mutant{&toySolver{}, c.mutate}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %q", err, c.want)
		}
	}
}

// mutant spoils what a toySolver returns.
type mutant struct {
	*toySolver
	mutate func([]domain.Sample)
}

func (m mutant) Solve(scenario int, p []float64, pref domain.Preference, how domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	samples, err := m.toySolver.Solve(scenario, p, pref, how, seed)
	if err == nil {
		for i := range samples {
			samples[i].J = append([]float64(nil), samples[i].J...)
		}
		m.mutate(samples)
	}
	return samples, err
}

// A part that was damaged is not kept when the dataset is continued, and a folder takes
// one writer.
func TestResumeVerifiesWhatItKeeps(t *testing.T) {
	source := t.TempDir()
	generate(t, options(source))
	again := func(dir string) error {
		opt := options(dir)
		opt.OutDir = dir
		_, err := Generate(context.Background(), domain.Case{Problem: toy{}, Solver: &toySolver{}}, opt, nil)
		return err
	}
	dir := edited(t, source, partName(2), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	if err := again(dir); err == nil || !strings.Contains(err.Error(), partName(2)) || !strings.Contains(err.Error(), "made again") {
		t.Errorf("a damaged part is kept: %v", err)
	}
	for _, name := range []string{partName(2), manifestName(2)} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := again(dir); err != nil {
		t.Error(err)
	}
	lock, err := durable.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	var r *durable.Refusal
	for what, err := range map[string]error{"generating": again(dir), "merging": func() error {
		_, err := Merge(t.Context(), dir+"/.", source)
		return err
	}()} {
		if err == nil || what == "generating" && (!errors.As(err, &r) || !strings.Contains(err.Error(), "is being written by process")) {
			t.Errorf("%s into a folder in use: %v", what, err)
		}
	}
}

// A solve whose numbers are not finite is left out and counted, as is one without
// samples; a dataset without any sample fails and says why.
func TestUnsolvedAreCountedByReason(t *testing.T) {
	run := func(mutate func([]domain.Sample), edit func(*Options)) (Counters, error) {
		opt := options(t.TempDir())
		edit(&opt)
		return Generate(context.Background(), domain.Case{Problem: toy{}, Solver: mutant{&toySolver{}, mutate}}, opt, nil)
	}
	for what, mutate := range map[string]func([]domain.Sample){
		"NaN":     func(s []domain.Sample) { s[1].U[0] = math.NaN() },
		"1e300":   func(s []domain.Sample) { s[1].J[1] = 1e300 },
		"−∞ once": func(s []domain.Sample) { s[0].KKT = math.Inf(-1) },
	} {
		c, err := run(mutate, func(*Options) {})
		if err == nil || !strings.Contains(err.Error(), "no samples of 23 scenarios") || !strings.Contains(err.Error(), fmt.Sprintf("%d not finite", c.Reasons["not finite"])) {
			t.Errorf("%s in every sample: %v", what, err)
		}
		if c.Samples != 0 || c.Reasons["not finite"] == 0 || c.Reasons["infeasible"] != c.Infeasible || c.Discarded != 23 {
			t.Errorf("%s in every sample: %+v", what, c)
		}
	}
	// A shard may have none.
	if _, err := run(func(s []domain.Sample) { s[0].KKT = math.NaN() }, func(o *Options) { o.Shard = Shard{0, 2} }); err != nil {
		t.Error(err)
	}
	c, err := run(func(s []domain.Sample) {
		if s[0].S[0] > 0.5 {
			s[0].KKT = math.NaN()
		}
	}, func(*Options) {})
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, n := range c.Reasons {
		total += n
	}
	want := fmt.Sprintf("no sample from %d of %d solves: ", total, c.Solves)
	if len(c.Reasons) != 3 || total != c.Infeasible+c.NotConverged || !strings.HasPrefix(c.Missing(), want) {
		t.Errorf("%+v says %q, want %q", c, c.Missing(), want)
	}
}

// fullDisk takes room bytes and then fails.
type fullDisk struct{ room int }

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		return 0, errFull
	}
	d.room -= len(p)
	return len(p), nil
}

func TestFullDiskSurfaces(t *testing.T) {
	dir := t.TempDir()
	generate(t, options(dir))
	d, c := load(t, dir)
	var whole bytes.Buffer
	require.OK(t, encoded(&whole, d.Header, c))
	for room := 0; room < whole.Len(); room += 41 {
		if err := encoded(&fullDisk{room}, d.Header, c); !errors.Is(err, errFull) {
			t.Fatalf("with room for %d of %d bytes: %v", room, whole.Len(), err)
		}
	}
}

// together solves a scenario's preferences in one call.
type together struct{ *toySolver }

func (s together) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{SolveAll: s.SolveAll}
}

func (s together) SolveAll(scenario int, p []float64, prefs []domain.Preference, how domain.Scalarization, seeds []uint64) ([][]domain.Sample, []error) {
	samples, errs := make([][]domain.Sample, len(prefs)), make([]error, len(prefs))
	for i, pref := range prefs {
		samples[i], errs[i] = s.Solve(scenario, p, pref, how, seeds[i])
	}
	return samples, errs
}

// A solver that takes all preferences of a scenario at once gives the same data.
func TestScenariosSolvedTogether(t *testing.T) {
	one, all := t.TempDir(), t.TempDir()
	want, _ := generate(t, options(one))
	got, err := Generate(context.Background(), domain.Case{Problem: toy{}, Solver: together{&toySolver{}}}, options(all), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Samples != want.Samples || got.Retained != want.Retained || got.NotConverged != want.NotConverged {
		t.Errorf("counters are %+v, one by one %+v", got, want)
	}
	a, _ := load(t, one)
	b, _ := load(t, all)
	if a.Hash() != b.Hash() {
		t.Error("the data differ")
	}
}

// deviceSolver is the toy's solver on a device: its first solves end when there are as many as places.
type deviceSolver struct {
	*toySolver
	entered *atomic.Int64
	full    chan struct{}
}

const places = 6

func (s deviceSolver) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{Places: places}
}

func (s deviceSolver) Solve(scenario int, p []float64, pref domain.Preference, how domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	if s.entered.Add(1) == places {
		close(s.full)
	}
	<-s.full
	return s.toySolver.Solve(scenario, p, pref, how, seed)
}

// A solver on a device has a solve for each of its places at once, under all preferences, and gives the same data and counters.
func TestSolvesForEachPlaceOfADevice(t *testing.T) {
	narrow, broad := t.TempDir(), t.TempDir()
	want, _ := generate(t, options(narrow))
	opt := options(broad)
	opt.Threads = 1
	got := require.Get(Generate(t.Context(), domain.Case{Problem: toy{}, Solver: deviceSolver{&toySolver{}, new(atomic.Int64), make(chan struct{})}}, opt, nil))(t)
	got.WallSeconds, got.SolvesPerSecond = want.WallSeconds, want.SolvesPerSecond
	a, _ := load(t, narrow)
	if b, _ := load(t, broad); a.Hash() != b.Hash() || !reflect.DeepEqual(got, want) {
		t.Errorf("other data, or counters %+v, one by one %+v", got, want)
	}
}

// long is the toy's solver with more samples: as many as take longer to hold than to solve.
type long struct{ *toySolver }

const longSamples = 4000

func (s long) Solve(scenario int, _ []float64, _ domain.Preference, _ domain.Scalarization, _ uint64) ([]domain.Sample, error) {
	out := make([]domain.Sample, longSamples)
	for i := range out {
		v := float64(scenario)
		out[i] = domain.Sample{
			Trajectory: int64(i), S: []float64{v, v}, C: []float64{v}, U: []float64{v, v}, Target: []float64{v, v},
			Sigma: []float64{0.5, 0.5}, J: []float64{v, v}, Margins: []float64{v},
		}
	}
	return out, nil
}

// What is held of a dataset that is made does not grow with its samples, however they are
// divided into parts.
func TestMemoryDoesNotGrowWithTheSamples(t *testing.T) {
	const scenarios = 40
	for _, chunk := range []int{2, scenarios} {
		opt := options(t.TempDir())
		opt.Scenarios, opt.Adaptive, opt.Weights.Count, opt.Chunk, opt.Threads = scenarios, false, 1, chunk, 1
		var held []uint64 // after each scenario
		_, err := Generate(t.Context(), domain.Case{Problem: toy{}, Solver: long{&toySolver{}}}, opt, func(p Progress) {
			if p.Stage == "solve" {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				held = append(held, m.HeapAlloc)
			}
		})
		require.OK(t, err)
		if len(held) != scenarios {
			t.Fatalf("%d scenarios, want %d", len(held), scenarios)
		}
		early, late := slices.Max(held[:5]), slices.Min(held[scenarios-5:])
		if all := uint64(scenarios * longSamples * int(unsafe.Sizeof(domain.Sample{}))); late > early+all/4 {
			t.Errorf("in parts of %d scenarios %d KiB are held after the first, %d KiB after the last; all samples are more than %d KiB", chunk, early>>10, late>>10, all>>10)
		}
	}
}
