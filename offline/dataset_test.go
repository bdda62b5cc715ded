package offline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/must"
)

// toy is a problem of 2 measured, 1 context, 1 action and 2 objective
// components; the dataset only asks for its Spec.
type toy struct{ domain.Problem }

func (toy) Spec() *domain.Spec {
	return &domain.Spec{
		Name:       "toy",
		Measured:   []domain.Variable{{Name: "x", Unit: "m"}, {Name: "v", Unit: "m/s"}},
		Context:    []domain.Variable{{Name: "t", Unit: "s"}},
		Action:     []domain.Variable{{Name: "a", Unit: "m/s²", Lo: -1, Hi: 1}},
		Objectives: []domain.Variable{{Name: "near", Unit: "m²"}, {Name: "effort", Unit: "m²/s⁴"}},
		Margins:    []domain.Variable{{Name: "wall", Unit: "m"}},
		Plan:       2, Steps: 3,
	}
}

// toySolver has the front (w₁², w₀²) and no feasible point at p[0] < 0.
type toySolver struct {
	solves, prepared atomic.Int64
	failAt           float64 // p[0] at which Solve fails, 0: nowhere
}

func (*toySolver) Parameters() []domain.Variable {
	return []domain.Variable{{Name: "x0", Unit: "m", Lo: -0.2, Hi: 1}, {Name: "v0", Unit: "m/s", Lo: -1, Hi: 1}}
}

func (s *toySolver) Prepare(_ context.Context, _ uint64, progress func(done, total int)) error {
	s.prepared.Add(1)
	progress(1, 1)
	return nil
}

func (s *toySolver) Solve(scenario int, p []float64, pref domain.Preference, how domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	s.solves.Add(1)
	if p[0] < 0 {
		return nil, domain.ErrInfeasible
	}
	if s.failAt > 0 && p[0] > s.failAt {
		return nil, errors.New("the solver broke")
	}
	if p[1] > 0.6 && !pref.Adaptive {
		return nil, fmt.Errorf("KKT 1e-2: %w", domain.ErrNotConverged)
	}
	w := pref.W
	if pref.Adaptive {
		w = []float64{0.25, 0.75}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	var out []domain.Sample
	for t := range 3 {
		u := rng.NormFloat64()
		out = append(out, domain.Sample{
			Trajectory: 7, Step: t, S: []float64{p[0], p[1]}, C: []float64{float64(t) / 3}, U: []float64{u, u / 3}, Target: []float64{1, 2},
			Sigma: w, J: []float64{w[1] * w[1], w[0] * w[0]}, Margins: []float64{p[0]}, KKT: 1e-9,
		})
	}
	return append(out, domain.Sample{
		Trajectory: 9, Step: 1, Perturbed: true, S: []float64{0, 0}, C: []float64{0}, U: []float64{0, 0}, Target: []float64{0, 0},
		Sigma: w, J: []float64{0, 0}, Margins: []float64{0},
	}), nil
}

func options(dir string) Options {
	return Options{Scenarios: 23, Adaptive: true, Weights: Weights{Count: 2}, Seed: 5, OutDir: dir, Threads: 2, Chunk: 4, Program: "v1", Command: "gpc dataset toy"}
}

func generate(t testing.TB, opt Options) (Counters, *toySolver) {
	t.Helper()
	solver := &toySolver{}
	counters, err := Generate(context.Background(), domain.Case{Problem: toy{}, Solver: solver}, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	return counters, solver
}

func load(t testing.TB, dir string) (*Dataset, *Columns) {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(toy{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Verify(); err != nil {
		t.Fatal(err)
	}
	c, _, _, err := Load(d)
	if err != nil {
		t.Fatal(err)
	}
	return d, c
}

func TestDatasetHoldsWhatWasSolved(t *testing.T) {
	dir := t.TempDir()
	counters, solver := generate(t, options(dir))
	d, c := load(t, dir)
	if counters.Scenarios != 23 || counters.Retained+counters.Discarded != 23 || counters.Discarded == 0 || counters.NotConverged == 0 {
		t.Errorf("counters are %+v", counters)
	}
	if counters.Solves != solver.solves.Load() || counters.Samples != int64(c.Rows()) || counters.Samples != 4*(counters.Solves-counters.Infeasible-counters.NotConverged) {
		t.Errorf("counters are %+v, the solver was called %d times and %d rows were read", counters, solver.solves.Load(), c.Rows())
	}
	if counters.SolvesPerSecond <= 0 || counters.WallSeconds <= 0 {
		t.Errorf("counters are %+v", counters)
	}
	// Solve everything again without the disk and compare.
	points, err := LatinHypercube(solver.Parameters(), 23, 5)
	if err != nil {
		t.Fatal(err)
	}
	row := 0
	for scenario, p := range points {
		prefs := []domain.Preference{{Adaptive: true}}
		for _, w := range (Weights{Count: 2}).Of(scenario, 2, 5) {
			prefs = append(prefs, domain.Preference{W: w})
		}
		for k, pref := range prefs {
			number := scenario*3 + k
			want, err := solver.Solve(scenario, p, pref, domain.WeightedSum, derive(5, streamSolve, uint64(number)))
			if err != nil {
				continue
			}
			for i, s := range want {
				s.Scenario, s.Preference = scenario, pref
				s.Trajectory = int64(number)*maxLocal + int64(i/3)
				want, err := ColumnsOf(d.Header.Layout, []domain.Sample{s})
				if got := c.Select([]int{row}); err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("row %d is %+v, want %+v, %v", row, got, want, err)
				}
				row++
			}
		}
	}
	if row != c.Rows() {
		t.Errorf("%d rows, want %d", c.Rows(), row)
	}
	short := domain.Sample{Preference: domain.Preference{Adaptive: true}}
	if _, err := ColumnsOf(d.Header.Layout, []domain.Sample{short}); err == nil || !strings.Contains(err.Error(), "sample 0 has 0 values of S, want 2") {
		t.Errorf("a sample without a state: %v", err)
	}
}

func TestSameDataForThreadsShardsAndInterruptions(t *testing.T) {
	whole := t.TempDir()
	generate(t, options(whole))
	d, want := load(t, whole)

	t.Run("threads and chunks", func(t *testing.T) {
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
	})
	t.Run("shards", func(t *testing.T) {
		var dirs []string
		for i := range 3 {
			opt := options(t.TempDir())
			opt.Shard = Shard{2 - i, 3}
			generate(t, opt)
			dirs = append(dirs, opt.OutDir)
		}
		out := filepath.Join(t.TempDir(), "merged")
		merged, err := Merge(t.Context(), out, dirs...)
		if err != nil {
			t.Fatal(err)
		}
		_, got := load(t, out)
		if !reflect.DeepEqual(got, want) || merged.Hash() != d.Hash() {
			t.Error("merged shards hold other samples than the whole")
		}
		a, b := merged.Counters, d.Counters
		a.WallSeconds, b.WallSeconds = 0, 0
		if !reflect.DeepEqual(a, b) {
			t.Errorf("merged counters are %+v, want %+v", a, b)
		}
		for chunk := range d.Header.chunks() {
			if a, b := read(t, filepath.Join(out, partName(chunk))), read(t, filepath.Join(whole, partName(chunk))); !bytes.Equal(a, b) {
				t.Errorf("part %d has other bytes than that of one machine", chunk)
			}
		}
		// A second time, in another order, with a shard that was made twice: nothing changes.
		twice := options(t.TempDir())
		twice.Shard, twice.Command = Shard{1, 3}, "again"
		generate(t, twice)
		before := contents(t, out)
		for _, given := range [][]string{dirs, {dirs[1], dirs[2], dirs[0]}, append(dirs[:3:3], dirs[0], twice.OutDir), {twice.OutDir, dirs[0], dirs[2]}} {
			if again, err := Merge(t.Context(), out, given...); err != nil || again.Hash() != d.Hash() {
				t.Errorf("merging %v again: %v", given, err)
			}
			if !maps.Equal(contents(t, out), before) {
				t.Errorf("merging %v again changes the dataset", given)
			}
			fresh := filepath.Join(t.TempDir(), "m")
			if _, err := Merge(t.Context(), fresh, given...); err != nil {
				t.Errorf("merging %v: %v", given, err)
			}
			for chunk := range d.Header.chunks() {
				if !bytes.Equal(read(t, filepath.Join(fresh, partName(chunk))), read(t, filepath.Join(whole, partName(chunk)))) {
					t.Errorf("merging %v gives other bytes in part %d", given, chunk)
				}
			}
		}
		// What an interrupted merge has left is completed.
		must.OK(t, os.Remove(filepath.Join(out, headerName)))
		must.OK(t, os.Remove(filepath.Join(out, partName(3))))
		if _, err := Merge(t.Context(), out, dirs...); err != nil || !maps.Equal(contents(t, out), before) {
			t.Errorf("completing a merge: %v", err)
		}
		other := options(t.TempDir())
		other.Seed = 6
		generate(t, other)
		// The same provenance with other samples: only a solver that is not deterministic makes it.
		odd := options(t.TempDir())
		odd.Shard = Shard{1, 3}
		must.Get(Generate(t.Context(), domain.Case{Problem: toy{}, Solver: mutant{&toySolver{}, func(s []domain.Sample) { s[0].U[0] += 0.25 }}}, odd, nil))(t)
		for _, c := range []struct {
			want, target string
			dirs         []string
		}{
			{"shard 2/3 is missing", "", dirs[1:]},
			{"shards 0/3, 2/3 are missing", "", dirs[1:2]},
			{"both hold part 1 (shard 1/3), with other samples", "", append(dirs[:3:3], odd.OutDir)},
			{"part 1 has other samples than " + odd.OutDir, out, []string{dirs[0], odd.OutDir, dirs[2]}},
			{"seed is 5, want 6", other.OutDir, dirs},
			{"it is shard 1/3", twice.OutDir, dirs},
			{filepath.Join(dirs[0], "none", headerName) + ": no such file or directory\noffline: open " + filepath.Join(dirs[0], "nothing"), "", []string{filepath.Join(dirs[0], "none"), dirs[1], filepath.Join(dirs[0], "nothing")}},
		} {
			if c.target == "" {
				c.target = filepath.Join(t.TempDir(), "m")
			}
			if _, err := Merge(t.Context(), c.target, c.dirs...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		}
		opt := options(t.TempDir())
		opt.Seed, opt.Shard = 6, Shard{2, 3}
		generate(t, opt)
		if _, err := Merge(t.Context(), filepath.Join(t.TempDir(), "m"), dirs[1], dirs[2], opt.OutDir); err == nil || !strings.Contains(err.Error(), "seed is 6, want 5") {
			t.Errorf("merging another seed: %v", err)
		}
	})
	t.Run("interruption", func(t *testing.T) {
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
	})
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(path))(t)
}

// contents are the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range entries(t, dir) {
		files[name] = string(read(t, filepath.Join(dir, name)))
	}
	return files
}

func entries(t testing.TB, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	return out
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
		{"neither", func(o *Options) { o.Adaptive, o.Weights.Count = false, 0 }},
		{"policy and its name", func(o *Options) { o.Visiting.Method = "p" }},
		{"cannot solve from the states", func(o *Options) {
			o.Visiting.Method, o.Policy = "p", func() (domain.Controller, error) { return nil, nil }
		}},
		{"unknown scalarization", func(o *Options) { o.Scalarization = "x" }},
		{"unknown weight design", func(o *Options) { o.Weights.Design = "x" }},
		{"-1 threads", func(o *Options) { o.Threads = -1 }},
		{"no output folder", func(o *Options) { o.OutDir = "" }},
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

// edited copies a dataset and edits one file of it.
func edited(t *testing.T, source, file string, edit func([]byte) []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, edit(b), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readAll is what everybody does who uses a dataset's samples: training, merging, resuming.
func readAll(t *testing.T, dir string) error {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		return err
	}
	_, _, _, err = Load(d)
	_, merged := Merge(t.Context(), filepath.Join(t.TempDir(), "merged"), dir)
	if (err == nil) != (merged == nil) {
		t.Errorf("%s: loading says %v, merging %v", dir, err, merged)
	}
	return err
}

func TestOpenAndReadRefusals(t *testing.T) {
	source := t.TempDir()
	generate(t, options(source))
	part, manifest0, header := partName(0), manifestName(0), headerName
	replace := func(from, to string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(from)) {
				t.Fatalf("nothing to edit: %s", from)
			}
			return bytes.Replace(b, []byte(from), []byte(to), 1)
		}
	}
	// Forged is what somebody edits who sets the seal anew.
	forgedHeader := func(edit func(*Header)) func([]byte) []byte {
		return func(b []byte) []byte {
			var h Header
			if err := json.Unmarshal(b, &h); err != nil {
				t.Fatal(err)
			}
			edit(&h)
			path := filepath.Join(t.TempDir(), "forged")
			if err := durable.WriteSealed(path, &h); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	forgedManifest := func(edit func(*manifest)) func([]byte) []byte {
		return func(b []byte) []byte {
			var m manifest
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			edit(&m)
			path := filepath.Join(t.TempDir(), "forged")
			if err := durable.WriteSealed(path, &m); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	sum := strings.Repeat("ab", 32)
	for _, c := range []struct {
		file, want string
		edit       func([]byte) []byte
	}{
		{part, "its manifest says", func(b []byte) []byte { return b[:len(b)-1] }},
		{part, "damaged or edited", func(b []byte) []byte { b[len(b)-1] = 'X'; return b }},
		{part, "damaged or edited", func(b []byte) []byte { b[100] ^= 0x40; return b }},
		{manifest0, "unknown field", replace(`"rows"`, `"row"`)},
		{manifest0, "damaged or edited", replace(`"solves": `, `"solves": 1`)},
		{manifest0, "damaged or edited", replace(`"rows": `, `"rows":  `)},
		{manifest0, "invalid character", func([]byte) []byte { return []byte("x") }},
		{manifest0, "too many for", forgedManifest(func(m *manifest) { m.Rows *= 100 })},
		{manifest0, "field chunk", forgedManifest(func(m *manifest) { m.Chunk = 1 })},
		{manifest0, "hexadecimal", forgedManifest(func(m *manifest) { m.SamplesSHA256 = "x" + m.SamplesSHA256 })},
		{manifest0, "the samples_sha256 of its samples is", forgedManifest(func(m *manifest) { m.SamplesSHA256 = sum })},
		{manifest0, sum, forgedManifest(func(m *manifest) { m.PartSHA256 = sum })},
		{manifest0, "counters.samples", forgedManifest(func(m *manifest) { m.Counters.Samples++ })},
		{manifest0, "scenarios", forgedManifest(func(m *manifest) { m.Counters.Scenarios, m.Counters.Retained = 5, m.Counters.Retained+1 })},
		{manifest0, "reasons", forgedManifest(func(m *manifest) { m.Counters.Infeasible++ })},
		{header, "format", forgedHeader(func(h *Header) { h.Format = "x" })},
		{header, "version is 3", replace(`"version": 2`, `"version": 3`)},
		{header, "version is 1", replace(`"version": 2`, `"version": 1`)},
		{header, "damaged or edited", replace(`"seed": 5`, `"seed": 6`)},
		{header, "scenarios", forgedHeader(func(h *Header) { h.Provenance.Scenarios = -1 })},
		{header, "parts, at most", forgedHeader(func(h *Header) { h.Provenance.Scenarios = 1000000000 })},
		{header, "want 4 of both together", forgedHeader(func(h *Header) { h.Provenance.Scenarios = 25 })},
		{header, "columns, want", forgedHeader(func(h *Header) { h.Layout.C = append(h.Layout.C, Component{"u", "s"}) })},
		{header, "seed is 5, want 6", forgedHeader(func(h *Header) { h.Provenance.Seed = 6 })},
		{header, "problem_sha256", forgedHeader(func(h *Header) { h.Provenance.ProblemSHA256 = sum })},
		{header, "problem_sha256", forgedHeader(func(h *Header) { h.Provenance.ProblemSHA256 = "" })},
		{header, "is of shard 0/1", forgedHeader(func(h *Header) { h.Shard.Count = 2 })},
		{header, "program is v1, want v2", forgedHeader(func(h *Header) { h.Provenance.Program = "v2" })},
	} {
		dir := edited(t, source, c.file, c.edit)
		err := readAll(t, dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error is %v, want %q and the file", c.file, err, c.want)
		}
	}
	d, err := Open(source)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*domain.Spec){
		"s_1 is v [m/s], want v [km/h]":        func(s *domain.Spec) { s.Measured[1].Unit = "km/h" },
		"margins has 1 components, want 0":     func(s *domain.Spec) { s.Margins = nil },
		d.Header.Provenance.ProblemSHA256:      func(s *domain.Spec) { s.Action[0].Hi = 2 },
		`is a dataset of case "toy", want "b"`: func(s *domain.Spec) { s.Name = "b" },
	} {
		other := changed{spec: toy{}.Spec()}
		change(other.spec)
		if err := d.Check(other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check: %v, want %q", err, want)
		}
	}
}

// changed is the toy with another Spec.
type changed struct {
	toy
	spec *domain.Spec
}

func (c changed) Spec() *domain.Spec { return c.spec }

// One flipped bit, wherever it is in the folder, is an error that names the file.
func TestAFlippedBitIsRefused(t *testing.T) {
	source := t.TempDir()
	opt := options(source)
	opt.Scenarios, opt.Weights.Count = 6, 1
	generate(t, opt)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, file := range entries(t, source) {
		whole, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			t.Fatal(err)
		}
		dir := edited(t, source, file, func(b []byte) []byte { return b })
		path := filepath.Join(dir, file)
		for range 40 {
			bit := rng.IntN(8 * len(whole))
			b := bytes.Clone(whole)
			b[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := Open(dir)
			if err == nil {
				_, _, _, err = Load(d)
			}
			if err == nil || !strings.Contains(err.Error(), file) {
				t.Fatalf("bit %d of %s: %v", bit, file, err)
			}
		}
	}
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
	if err := encodePart(&whole, d.Header, 0, c); err != nil {
		t.Fatal(err)
	}
	for room := 0; room < whole.Len(); room += 41 {
		if err := encodePart(&fullDisk{room}, d.Header, 0, c); !errors.Is(err, errFull) {
			t.Fatalf("with room for %d of %d bytes: %v", room, whole.Len(), err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	opt := options(dir)
	opt.Scenarios, opt.Chunk = 3, 3
	generate(f, opt)
	d, err := Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, partName(0)))
	if err != nil {
		f.Fatal(err)
	}
	text, err := json.Marshal(d.parts[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, text)
	f.Add(whole[:len(whole)/2], text)
	f.Add(whole, bytes.Replace(text, []byte(`"rows":`), []byte(`"rows":9`), 1))
	for i := 0; i < len(whole); i += 61 {
		mutated := bytes.Clone(whole)
		mutated[i] ^= 0x21
		f.Add(mutated, text)
	}
	rows := d.parts[0].Rows
	header, err := os.ReadFile(filepath.Join(dir, headerName))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, part, text []byte) {
		// The part alone, with the rows it should have.
		c := newColumns(d.Header.Layout, rows)
		if _, err := decodePart(bytes.NewReader(part), int64(len(part)), d.Header.Layout, 0, rows, c, 0); err == nil {
			for _, b := range c.blocks() {
				for i, v := range b.m.Data {
					if v-v != 0 {
						t.Fatalf("block %s has %v at %d", b.name, v, i)
					}
				}
			}
		}
		// The folder, with a manifest that claims the part's size and checksum.
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, headerName), header, 0o600); err != nil {
			t.Fatal(err)
		}
		var m manifest
		if json.Unmarshal(text, &m) != nil {
			return
		}
		m.Bytes, m.PartSHA256 = int64(len(part)), durable.Sum(sha256.Sum256(part))
		if err := durable.WriteSealed(filepath.Join(dir, manifestName(0)), &m); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, partName(0)), part, 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := Open(dir)
		if err != nil {
			return
		}
		if loaded, _, _, err := Load(opened); err == nil && loaded.Rows() != opened.Rows() {
			t.Fatalf("%d rows loaded, want %d", loaded.Rows(), opened.Rows())
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	opt := options(dir)
	opt.Scenarios, opt.Chunk, opt.Weights.Count = 10000, 64, 9
	generate(b, opt)
	d, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(d.Rows()), "rows")
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(d.Rows()) * d.Header.Layout.rowBytes())
		for range b.N {
			if _, _, _, err := Load(d); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(int64(d.Rows()) * d.Header.Layout.rowBytes())
		for range b.N {
			if err := d.Verify(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// together solves a scenario's preferences in one call.
type together struct{ *toySolver }

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

// followed is a solver that also samples where a policy leads: one row, at what
// the policy decides.
type followed struct{ *toySolver }

func (s followed) SolveVisited(scenario int, p []float64, pref domain.Preference, policy domain.Controller) ([]domain.Sample, error) {
	samples, err := s.Solve(scenario, p, pref, domain.WeightedSum, 0)
	if err != nil {
		return nil, err
	}
	row := samples[0]
	row.Perturbed, row.Trajectory = true, 1<<40
	u := make([]float64, len(row.U))
	if _, err := policy.Decide(row.S, row.C, pref, u); err != nil {
		return nil, err
	}
	row.U = u
	return []domain.Sample{row}, nil
}

type constant float64

func (constant) Reset(domain.Episode) error { return nil }
func (v constant) Decide(_, _ []float64, _ domain.Preference, u []float64) (bool, error) {
	for i := range u {
		u[i] = float64(v)
	}
	return true, nil
}

// Visited states add their samples, whatever the number of threads, and the
// policy's name is part of what a dataset is.
func TestSamplesWhereAPolicyLeads(t *testing.T) {
	plain, _ := generate(t, options(t.TempDir()))
	var hashes [2]string
	for i, threads := range []int{1, 3} {
		opt := options(t.TempDir())
		opt.Threads, opt.Visiting.Method = threads, "constant"
		opt.Policy = func() (domain.Controller, error) { return constant(0.25), nil }
		c := domain.Case{Problem: toy{}, Solver: followed{&toySolver{}}}
		got, err := Generate(context.Background(), c, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if solved := got.Solves - got.Infeasible - got.NotConverged; got.Samples != plain.Samples+solved {
			t.Errorf("%d samples, want %d and one for each of %d solves", got.Samples, plain.Samples, solved)
		}
		d, _ := load(t, opt.OutDir)
		hashes[i] = fmt.Sprint(d.Hash())
		opt.Visiting.Method = "another"
		if _, err := Generate(context.Background(), c, opt, nil); err == nil || !strings.Contains(err.Error(), "policy is another of") {
			t.Errorf("continuing with another policy: %v", err)
		}
	}
	if hashes[0] != hashes[1] {
		t.Error("the data depend on the threads")
	}
}

// drivable is the toy with dynamics x ← x + a between walls at ±1.
type drivable struct{ toy }

func (drivable) Base(s, _, plan []float64) { plan[0], plan[1] = s[0]/4, 0 }
func (drivable) Objectives(s, u, _, J []float64) {
	J[0], J[1] = s[0]*s[0], u[0]*u[0]
}
func (drivable) Margins(s, _, u, m []float64) { m[0] = 1 - math.Abs(s[0]+u[0]) }

// drive is its plant: three steps from x₀ of the seed and the index.
type drive struct{ domain.Plant }

func (drive) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	if opt.Regime != "" && opt.Regime != "ice" {
		return nil, fmt.Errorf("no regime %q", opt.Regime)
	}
	return &ride{x: rand.New(rand.NewPCG(seed, uint64(index))).Float64()}, nil
}

type ride struct {
	domain.Episode
	x float64
	t int
}

func (r *ride) Observe(s, c []float64) { s[0], s[1], c[0] = r.x, 0, float64(r.t) }
func (r *ride) Done() bool             { return r.t == 3 }
func (r *ride) Apply(u []float64) (domain.Outcome, error) {
	r.x, r.t = r.x+u[0], r.t+1
	return domain.Outcome{}, nil
}

// half decodes −x and executes half of it; its second decision is not its own where
// slips is set.
type half struct {
	plan  []float64
	slips bool
	t     int
}

func (h *half) Reset(domain.Episode) error { h.t = 0; return nil }
func (h *half) Decide(s, _ []float64, _ domain.Preference, u []float64) (bool, error) {
	h.plan, u[0] = []float64{-s[0], 7}, -s[0]/2
	h.t++
	return true, nil
}

func (h *half) Decoded() []float64 { return h.plan }

func (h *half) Monitor() domain.Monitor {
	m := domain.NoMonitor()
	if h.slips && h.t == 2 {
		m.Fallback = domain.FallbackConservative
	}
	return m
}

// A distilled policy's samples are its own decisions: what it decoded is the target,
// what it executed the action, and a decision that was not its own ends a trajectory.
func TestPolicyIsDistilled(t *testing.T) {
	spec := drivable{}.Spec()
	c := domain.Case{Problem: drivable{}, Plant: drive{}}
	distil := func(threads int, slips bool) Options {
		opt := Options{Scenarios: 7, Weights: Weights{Count: 2}, Seed: 3, OutDir: t.TempDir(), Chunk: 3, Threads: threads, Visiting: Policy{Method: "half"}, Distil: true}
		opt.Policy = func() (domain.Controller, error) { return &half{slips: slips}, nil }
		return opt
	}
	var hashes []string
	for _, threads := range []int{1, 3} {
		opt := distil(threads, false)
		counters, err := Generate(context.Background(), c, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if counters.Samples != 7*2*int64(spec.Steps) || counters.Retained != 7 {
			t.Errorf("counters %+v, want 3 samples of 2 preferences in each of 7 episodes", counters)
		}
		d, all := load(t, opt.OutDir)
		hashes = append(hashes, d.Hash())
		for i := range all.Rows() {
			x := all.S.Row(i)[0]
			if u, target := all.U.Row(i), all.Target.Row(i); u[0] != -x/2 || u[1] != 7 || math.Abs(float64(target[0]+x+x/4)) > 1e-6 || target[1] != 7 {
				t.Fatalf("row %d at x = %v: plan %v with target %v", i, x, u, target)
			}
			if math.Abs(float64(all.J.Row(i)[0]-x*x)) > 1e-6 || all.Sigma.Row(i)[0] != all.Preference.Row(i)[1] || math.Abs(float64(all.Margins.Row(i)[0]-1+x/2)) > 1e-6 {
				t.Fatalf("row %d at x = %v: J %v, σ %v, margin %v", i, x, all.J.Row(i), all.Sigma.Row(i), all.Margins.Row(i))
			}
			if step := all.Step[i]; step > 0 && (x != all.S.Row(i - 1)[0]/2 || all.Trajectory[i] != all.Trajectory[i-1]) {
				t.Fatalf("row %d does not follow row %d", i, i-1)
			}
		}
		opt.Regime = "ice"
		if _, err := Generate(context.Background(), c, opt, nil); err == nil || !strings.Contains(err.Error(), "regime is") {
			t.Errorf("continuing in another regime: %v", err)
		}
	}
	if hashes[0] != hashes[1] {
		t.Error("the data depend on the threads")
	}

	opt := distil(2, true)
	if _, err := Generate(context.Background(), c, opt, nil); err != nil {
		t.Fatal(err)
	}
	_, all := load(t, opt.OutDir)
	for i := range all.Rows() {
		if all.Step[i] == 1 || all.Step[i] == 2 && all.Trajectory[i] == all.Trajectory[i-1] {
			t.Fatalf("row %d is step %d of trajectory %d", i, all.Step[i], all.Trajectory[i])
		}
	}

	for name, bad := range map[string]struct {
		change func(*Options, *domain.Case)
		want   string
	}{
		"no plant":        {func(_ *Options, c *domain.Case) { c.Plant = nil }, "no plant"},
		"no policy":       {func(o *Options, _ *domain.Case) { o.Policy, o.Visiting = nil, Policy{} }, "without a policy"},
		"scalarization":   {func(o *Options, _ *domain.Case) { o.Scalarization = domain.Chebyshev }, "weighted sums"},
		"another problem": {func(_ *Options, c *domain.Case) { c.Learned = toy{} }, "not about what its plant does"},
		"no plans": {func(o *Options, _ *domain.Case) {
			o.Policy = func() (domain.Controller, error) { return constant(0), nil }
		}, "decodes no plans"},
		"regime": {func(o *Options, _ *domain.Case) { o.Distil, o.Regime = false, "ice" }, "no policy is distilled"},
	} {
		opt, other := distil(1, false), c
		if name == "regime" {
			other.Solver = &toySolver{}
		}
		bad.change(&opt, &other)
		if _, err := Generate(context.Background(), other, opt, nil); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v, want %q", name, err, bad.want)
		}
	}
}
