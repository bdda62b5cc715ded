package train

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/offline"
	"github.com/gpc-engine/gpc/tensor"
)

func cpu(t testing.TB) backend.Backend {
	t.Helper()
	b, err := cpufallback.New(cpufallback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func toyOptions(be backend.Backend, scenarios int) Options {
	p := newToy()
	return Options{Backend: be, Problem: p, Data: p.data(scenarios), Seed: 5, Emphasis: 0.5}
}

// trained is the result of a run.
func trained(t testing.TB, opt Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused wants an error of a run that says so.
func refused(t testing.TB, what string, opt Options, want string) {
	t.Helper()
	if _, err := Run(t.Context(), opt, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want one with %q", what, err, want)
	}
}

// toySet is a set of the options' data with a tenth held out.
func toySet(t testing.TB, opt Options) *Set {
	t.Helper()
	s, err := NewSet(opt.Problem.Spec(), &opt.Data, Options{ValidationFraction: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func modelBytes(t testing.TB, m *model.Model) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withoutTimes drops what no two runs share.
func withoutTimes(h []EpochRecord) []EpochRecord {
	h = slices.Clone(h)
	for i := range h {
		h[i].Seconds = 0
	}
	return h
}

func sameHistory(t *testing.T, a, b []EpochRecord) {
	t.Helper()
	var x, y bytes.Buffer
	if err := errors.Join(WriteCSV(&x, withoutTimes(a)), WriteCSV(&y, withoutTimes(b))); err != nil {
		t.Fatal(err)
	}
	if x.String() != y.String() {
		t.Errorf("learning curves differ:\n%s\n%s", x.String(), y.String())
	}
}

// Interrupted after any number of updates, in either phase, in the middle of an
// epoch or at its end, and resumed: the model is bitwise the same.
func TestResumeIsBitwiseTheUninterruptedRun(t *testing.T) {
	backends := map[string]struct {
		make      func(t testing.TB) backend.Backend
		scenarios int
		stops     []int
	}{
		"cpu": {cpu, 40, []int{1, 7, 8, 20, 23, 25, 33}},
		"ref": {func(testing.TB) backend.Backend { return ref.New() }, 8, []int{2, 5}},
	}
	for name, b := range backends {
		t.Run(name, func(t *testing.T) { resumesBitwise(t, b.make(t), b.scenarios, b.stops, false) })
		t.Run(name+" along chains", func(t *testing.T) { resumesBitwise(t, b.make(t), b.scenarios, b.stops, true) })
	}
}

// resumesBitwise compares runs stopped after some updates and resumed with the one
// that was not.
func resumesBitwise(t *testing.T, be backend.Backend, scenarios int, stops []int, chain bool) {
	t.Helper()
	options := toyOptions(be, scenarios)
	options.Chain = chain
	whole := trained(t, options)
	want := modelBytes(t, whole.Model)
	for _, stop := range stops {
		opt := options
		opt.Checkpoint = filepath.Join(t.TempDir(), "run.checkpoint")
		ctx, cancel := context.WithCancel(t.Context())
		total := 0
		_, err := Run(ctx, opt, func(p Progress) {
			total = p.Steps
			if p.Step == stop {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped after %d of %d updates: error %v, want context.Canceled", stop, total, err)
		}
		opt.Resume = true
		first := 0
		resumed, err := Run(t.Context(), opt, func(p Progress) {
			if first == 0 && p.Note == "" {
				first = p.Step
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if first != stop+1 {
			t.Errorf("resumed at update %d, want %d", first, stop+1)
		}
		if !bytes.Equal(modelBytes(t, resumed.Model), want) {
			t.Errorf("resumed after %d of %d updates: another model", stop, total)
		}
		sameHistory(t, resumed.History, whole.History)
	}
}

// heavier is the toy with other parameters, which only its fingerprint tells.
type heavier struct{ toy }

func (heavier) Fingerprint() [32]byte { return [32]byte{1} }

// level is a backend that says it has another instruction set.
type level struct{ backend.Backend }

func (l level) Describe() backend.Description {
	d := l.Backend.Describe()
	d.ISA = "avx4096"
	return d
}

// Killed again and again, each time right after its first checkpoint, a run still ends,
// with the same model, on any number of threads.
func TestKillsInsideAnEpochLoseLittle(t *testing.T) {
	opt := toyOptions(cpu(t), 40)
	opt.Batch, opt.ManifoldEpochs, opt.RolloutEpochs = 32, 2, 1
	want := modelBytes(t, trained(t, opt).Model)
	opt.Checkpoint, opt.Resume = filepath.Join(t.TempDir(), "run.checkpoint"), true
	opt.CheckpointInterval = time.Nanosecond
	killed := errors.New("killed")
	runs, inside := 0, 0
	for done := false; !done; runs++ {
		if runs > 200 {
			t.Fatal("no progress")
		}
		b := must.Get(cpufallback.New(cpufallback.Options{Threads: 1 + runs%3}))(t)
		opt.Backend = b
		func() {
			defer b.Close()
			defer func() {
				if p := recover(); p != nil && p != killed {
					panic(p)
				}
			}()
			before, _ := os.Stat(opt.Checkpoint)
			r, err := Run(t.Context(), opt, func(p Progress) {
				now, err := os.Stat(opt.Checkpoint)
				if err != nil || os.SameFile(before, now) || p.Step == p.Steps {
					return
				}
				if p.Record == nil {
					inside++
				}
				panic(killed)
			})
			must.OK(t, err)
			done = true
			if !bytes.Equal(modelBytes(t, r.Model), want) {
				t.Error("another model")
			}
		}()
	}
	if runs < 10 || inside < 10 {
		t.Errorf("%d runs, %d of them killed inside an epoch", runs, inside)
	}
}

// A checkpoint has one writer.
func TestACheckpointInUseIsRefused(t *testing.T) {
	opt := toyOptions(cpu(t), 10)
	opt.Checkpoint = filepath.Join(t.TempDir(), "run.checkpoint")
	lock := must.Get(durable.Acquire(opt.Checkpoint))(t)
	refused(t, "a checkpoint in use", opt, "is being written by process")
	must.OK(t, lock.Release())
	trained(t, opt)
}

func TestResumeRefusesAnotherRun(t *testing.T) {
	be := cpu(t)
	opt := toyOptions(be, 10)
	opt.Checkpoint = filepath.Join(t.TempDir(), "run.checkpoint")
	opt.Resume = true
	notes := 0
	if _, err := Run(t.Context(), opt, func(p Progress) {
		if strings.Contains(p.Note, "no checkpoint") {
			notes++
		}
	}); err != nil {
		t.Fatal(err)
	}
	if notes != 1 {
		t.Errorf("%d notes that there is no checkpoint yet, want 1", notes)
	}
	whole, err := os.ReadFile(opt.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	initial := trained(t, toyOptions(be, 10)).Model
	for says, change := range map[string]func(*Options){
		"options.Seed is 5, this run's is 6":                 func(o *Options) { o.Seed++ },
		"options.LearningRate is 0.001, this run's is 0.002": func(o *Options) { o.LearningRate = 2e-3 },
		"its data_sha256 is":                                 func(o *Options) { o.Data.U.Data[3] += 1 },
		"its backend is cpu":                                 func(o *Options) { o.Backend = ref.New() },
		"its program is , this run's is v2":                  func(o *Options) { o.Version = "v2" },
		"its initial_sha256 is , this run's is":              func(o *Options) { o.Initial = initial },
		"its problem_sha256 is":                              func(o *Options) { o.Problem = heavier{newToy()} },
		"its backend is " + computesOn(be) + ", this run":    func(o *Options) { o.Backend = level{be} },
	} {
		other := toyOptions(be, 10)
		other.Checkpoint, other.Resume = opt.Checkpoint, true
		change(&other)
		refused(t, says, other, says)
	}
	for _, cut := range []int{0, 4, 8, 100, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(opt.Checkpoint, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		refused(t, fmt.Sprintf("cut to %d bytes", cut), opt, opt.Checkpoint)
	}
}

// From nothing to a stated accuracy: the map must reproduce the known optimum of
// unseen scenarios to 2 % of its spread.
func TestTrainFromNothing(t *testing.T) {
	opt := toyOptions(cpu(t), 500)
	opt.Latent, opt.Hidden, opt.Batch, opt.ManifoldEpochs, opt.RolloutEpochs = 6, 64, 64, 80, 10
	opt.LearningRate = 6e-3
	res := trained(t, opt)
	first, last := res.History[0], res.History[len(res.History)-1]
	t.Logf("%d samples, %.2f s of updates; mean |u−u*| %.4f → %.4f, p99 %.4f, max %.4f; tau_geom %.2g → %.2g",
		opt.Data.Rows(), res.Seconds, first.DeltaDecMean, last.DeltaDecMean, last.DeltaDecP99, last.DeltaDec, first.TauGeom, last.TauGeom)
	spread := 0.0
	for _, s := range statistics(opt.Data.U).Scale {
		spread += float64(s * s)
	}
	if limit := 0.02 * math.Sqrt(spread); !(last.DeltaDecMean < limit) {
		t.Errorf("mean action error %v, want below %v", last.DeltaDecMean, limit)
	}
	if !(last.DeltaDecMean < first.DeltaDecMean/5) || !(last.TauGeom < 0.02) {
		t.Errorf("action error %v → %v, state residual %v", first.DeltaDecMean, last.DeltaDecMean, last.TauGeom)
	}
	c := res.Model.Calibration
	if !(c.DeltaDecP99 <= c.DeltaDec) || !(c.TauGeom > 0) || !(c.LatentSpread > 0) {
		t.Errorf("calibration %+v", c)
	}
	if res.Model.Codes.Rows != 40 {
		t.Errorf("%d codes, want 40", res.Model.Codes.Rows)
	}
	var out bytes.Buffer
	if err := WriteCSV(&out, res.History); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatalf("learning curves are not CSV: %v", err)
	}
	if len(lines) != 1+90 {
		t.Errorf("%d lines of learning curves, want 91", len(lines))
	}
}

func TestDivergenceIsAnError(t *testing.T) {
	opt := toyOptions(cpu(t), 20)
	opt.LearningRate, opt.SpectralBound = 1e18, -1
	refused(t, "learning rate 1e18", opt, "learning rate")
}

func TestSplitIsByScenarioAndSuccessorsAreTrue(t *testing.T) {
	opt, err := toyOptions(cpu(t), 50).resolve()
	if err != nil {
		t.Fatal(err)
	}
	opt.ValidationFraction = 0.2
	d := &opt.Data
	s, err := NewSet(opt.Problem.Spec(), d, opt)
	if err != nil {
		t.Fatal(err)
	}
	side := map[int32]string{}
	for name, rows := range map[string][]int32{"train": s.Train, "validation": s.Validation} {
		for _, r := range rows {
			if was := side[d.Scenario[r]]; was != "" && was != name {
				t.Fatalf("scenario %d is in both halves", d.Scenario[r])
			}
			side[d.Scenario[r]] = name
		}
	}
	if n := len(s.Train) + len(s.Validation); n != d.Rows() || len(s.Validation) != d.Rows()/5 {
		t.Errorf("%d + %d rows of %d", len(s.Train), len(s.Validation), d.Rows())
	}
	pairs := 0
	for i, n := range s.Training.Next {
		if n < 0 {
			if !d.Perturbed[i] && d.Step[i] < 4 {
				t.Errorf("row %d, step %d, has no successor", i, d.Step[i])
			}
			continue
		}
		pairs++
		if d.Trajectory[i] != d.Trajectory[n] || d.Step[n] != d.Step[i]+1 || d.Perturbed[i] != d.Perturbed[n] {
			t.Errorf("row %d (trajectory %d, step %d) has the successor %d (trajectory %d, step %d)", i, d.Trajectory[i], d.Step[i], n, d.Trajectory[n], d.Step[n])
		}
		if !(s.Training.RiskWeight[i] > 0) {
			t.Errorf("row %d moves and has risk weight %v", i, s.Training.RiskWeight[i])
		}
	}
	if pairs != 50*2*4 || len(s.Pairs)+len(s.ValidationPairs) != pairs {
		t.Errorf("%d pairs, %d and %d listed", pairs, len(s.Pairs), len(s.ValidationPairs))
	}
}

func TestNormalisation(t *testing.T) {
	s := toySet(t, toyOptions(cpu(t), 50))
	x := s.Training.X
	for j := range x.Cols {
		mean, square := 0.0, 0.0
		for i := range x.Rows {
			v := float64(x.Row(i)[j])
			mean += v / float64(x.Rows)
			square += v * v / float64(x.Rows)
		}
		switch {
		case j < 3: // a, b, p
			if math.Abs(mean) > 1e-4 || math.Abs(square-1) > 1e-3 {
				t.Errorf("column %d has mean %v, mean square %v", j, mean, square)
			}
		case j == 3: // the constant context, 7 everywhere
			if square != 0 || s.NormX.Scale[j] != 7 {
				t.Errorf("constant column: mean square %v, scale %v, want 0 and 7", square, s.NormX.Scale[j])
			}
		default: // the preference slot stays as it is
			if s.NormX.Mean[j] != 0 || s.NormX.Scale[j] != 1 {
				t.Errorf("slot column %d has mean %v, scale %v", j, s.NormX.Mean[j], s.NormX.Scale[j])
			}
		}
	}
}

func TestCosineSchedule(t *testing.T) {
	if r := cosine(0.5, 0, 100); r != 0.5 {
		t.Errorf("first rate %v", r)
	}
	if r := cosine(0.5, 50, 100); math.Abs(r-0.25) > 1e-15 {
		t.Errorf("rate at half time %v, want half", r)
	}
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 1000).Draw(t, "total")
		step := rapid.IntRange(0, total-1).Draw(t, "step")
		a, b := cosine(1, step, total), cosine(1, step+1, total)
		if !(a > b) || !(b >= 0) {
			t.Fatalf("rates %v, %v at step %d of %d: want them to fall to 0", a, b, step, total)
		}
	})
}

func TestOrderIsAPermutationOfItsEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfNDistinct(rapid.Int32Range(0, 1e6), 2, 60, rapid.ID[int32]).Draw(t, "rows")
		seed := rapid.Uint64().Draw(t, "seed")
		a, b := make([]int32, len(rows)), make([]int32, len(rows))
		shuffled(a, rows, seed, streamManifoldOrder, 3)
		shuffled(b, rows, seed, streamManifoldOrder, 3)
		if !slices.Equal(a, b) {
			t.Fatal("one epoch, two orders")
		}
		slices.Sort(b)
		sorted := slices.Sorted(slices.Values(rows))
		if !slices.Equal(b, sorted) {
			t.Fatal("not a permutation")
		}
	})
}

// Half of an epoch goes to the rows that the map gets wrong, in proportion to
// their error; the other half stays spread over all rows.
func TestEmphasisDrawsByError(t *testing.T) {
	rows := make([]int32, 1000)
	errs := make([]float32, len(rows))
	for i := range rows {
		rows[i] = int32(3 * i)
	}
	errs[10], errs[500] = 3, 1
	e := &emphasis{share: 0.5, error: errs}
	count := func(order []int32) map[int32]int {
		n := map[int32]int{}
		for _, r := range order {
			n[r]++
		}
		return n
	}
	order, again := make([]int32, len(rows)), make([]int32, len(rows))
	e.order(order, rows, 1, streamManifoldOrder, 4)
	e.order(again, rows, 1, streamManifoldOrder, 4)
	if !slices.Equal(order, again) {
		t.Error("the same epoch twice in different order")
	}
	n := count(order)
	if a, b := n[30], n[1500]; a < 330 || a > 420 || a+b < 500 || a+b > 502 {
		t.Errorf("rows with errors 3 and 1 drawn %d and %d times of 1000, want about 375 and 125", a, b)
	}
	if others := len(n); others < 480 {
		t.Errorf("%d distinct rows, want about half of 1000", others)
	}
	e.error = nil
	e.order(order, rows, 1, streamManifoldOrder, 0)
	if n := count(order); len(n) != len(rows) {
		t.Errorf("before any measurement %d distinct rows of %d", len(n), len(rows))
	}
}

// Over many steps the drawn, weighted neighbours average to the whole
// neighbourhood's kernel.
func TestDrawnNeighboursAreUnbiased(t *testing.T) {
	s := toySet(t, toyOptions(cpu(t), 20))
	for _, perStep := range []int{1, 3} {
		n, err := newNeighbourhood(s.Training.X, s.Train, 5, perStep, 1)
		if err != nil {
			t.Fatal(err)
		}
		row := s.Train[11]
		sum := map[int32]float64{}
		const draws = 40000
		for step := range draws {
			ids, kernel := n.draw([]int32{row}, 9, step)
			if len(ids) != perStep {
				t.Fatalf("%d neighbours drawn, want %d", len(ids), perStep)
			}
			for j, id := range ids {
				if j > 0 && id == ids[j-1] {
					t.Fatal("one neighbour drawn twice in a step")
				}
				sum[id] += float64(kernel[j]) / draws
			}
		}
		if len(sum) != 5 {
			t.Fatalf("%d different neighbours drawn, want 5", len(sum))
		}
		from := int(n.at[row]) * 5
		for j := range 5 {
			id, want := n.index[from+j], float64(n.kernel[from+j])
			if id == row {
				t.Fatal("a row is its own neighbour")
			}
			// Standard error of the mean of κ/m·k·Bernoulli(m/κ).
			p := float64(perStep) / 5
			sigma := want / p * math.Sqrt(p*(1-p)/draws)
			if math.Abs(sum[id]-want) > 5*sigma {
				t.Errorf("%d per step: mean weight %v of neighbour %d, kernel %v ± %v", perStep, sum[id], j, want, sigma)
			}
		}
	}
}

func TestNearestWithCoincidingRows(t *testing.T) {
	points := tensor.New(6, 1)
	copy(points.Data, []float32{1, 1, 1, 1, 5, 1})
	index, dist2, err := nearest(points, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		for j := range 2 {
			id, d := index[2*i+j], dist2[2*i+j]
			if id == int32(i) || id < 0 {
				t.Errorf("row %d has the neighbour %d", i, id)
			}
			if i != 4 && d != 0 {
				t.Errorf("row %d: distance² %v to row %d", i, d, id)
			}
		}
	}
}

// Farthest-first traversal is within twice of any cover with as many centres, in
// particular of the points' own greedy lower bound: all centres are farther
// apart than the radius that is left.
func TestCoverRadius(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 80).Draw(t, "n")
		points := tensor.New(n, 2)
		for i := range points.Data {
			points.Data[i] = float32(rapid.IntRange(-8, 8).Draw(t, "x"))
		}
		count := rapid.IntRange(1, n).Draw(t, "count")
		centres := cover(points, count)
		radius := float32(0)
		for i := range n {
			best := float32(math.Inf(1))
			for _, c := range centres {
				best = min(best, squaredDistance(points.Row(i), points.Row(int(c))))
			}
			radius = max(radius, best)
		}
		if len(centres) < count && radius != 0 {
			t.Fatalf("%d of %d centres, radius² %v left", len(centres), count, radius)
		}
		for i, a := range centres {
			for _, b := range centres[:i] {
				if d := squaredDistance(points.Row(int(a)), points.Row(int(b))); d < radius {
					t.Fatalf("centres at distance² %v, radius² %v", d, radius)
				}
			}
		}
	})
}

func TestChosenCodesAreDistinctAndCounted(t *testing.T) {
	points := tensor.New(500, 3)
	for i := range points.Data {
		points.Data[i] = float32(math.Sin(float64(i * i)))
	}
	for _, count := range []int{0, 1, 37, 499, 500, 900} {
		codes := chooseCodes(points, count, 3)
		want := count
		if count == 0 || count > 500 {
			want = 500
		}
		if len(codes) != want || len(slices.Compact(slices.Clone(codes))) != want || !slices.IsSorted(codes) {
			t.Errorf("%d codes asked for, %d chosen", count, len(codes))
		}
	}
}

func TestBadOptionsAndData(t *testing.T) {
	be := cpu(t)
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no backend":   {func(o *Options) { o.Backend = nil }, "Backend"},
		"nan":          {func(o *Options) { o.Data.J.Data[5] = float32(math.NaN()) }, "column J"},
		"width":        {func(o *Options) { o.Data.C = tensor.New(o.Data.Rows(), 9) }, "column c is"},
		"rows":         {func(o *Options) { o.Data.U = o.Data.U.Slice(0, 10) }, "column u is"},
		"one scenario": {func(o *Options) { clear(o.Data.Scenario) }, "scenario"},
		"twice":        {func(o *Options) { o.Data.Step[1] = o.Data.Step[0] }, "both step"},
		"resume":       {func(o *Options) { o.Resume = true }, "Checkpoint"},
		"rate":         {func(o *Options) { o.LearningRate = math.Inf(1) }, "LearningRate"},
		"fraction":     {func(o *Options) { o.ValidationFraction = 1 }, "ValidationFraction"},
		"no manifold":  {func(o *Options) { o.ManifoldEpochs = -1 }, "rollout"},
		"full disk":    {func(o *Options) { o.Checkpoint = "/nowhere/at/all" }, "/nowhere/at/all"},
	} {
		opt := toyOptions(be, 10)
		c.change(&opt)
		refused(t, name, opt, c.want)
	}
}

func FuzzCheckpoint(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "c")
	if err := writeCheckpoint(path, saved{Version: checkpointVersion, Run: []byte(`{"case":"x"}`)}, map[string][]float32{"a": {1, 2}, "b": {3}}); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, arrays, err := parseCheckpoint(bytes.NewReader(b))
		if err != nil {
			return
		}
		total := 0
		for _, a := range arrays {
			total += 4 * len(a)
		}
		if total > len(b) || s.Version != checkpointVersion {
			t.Fatalf("%d bytes of arrays from a file of %d, version %d", total, len(b), s.Version)
		}
	})
}

// A run that starts from an earlier map begins where that map ended: its first
// losses are of the order of that run's last, not of random networks; and a map
// of other sizes is refused.
func TestInitialMap(t *testing.T) {
	be := cpu(t)
	opt := toyOptions(be, 40)
	opt.RolloutEpochs = -1
	first := trained(t, opt)
	again := toyOptions(be, 40)
	again.RolloutEpochs, again.Initial, again.LearningRate, again.ManifoldEpochs = -1, first.Model, 1e-5, 1
	second := trained(t, again)
	begin, end := first.History[0].Manifold.Total, first.History[len(first.History)-1].Manifold.Total
	if got := second.History[0].Manifold.Total; !(got < 0.5*(begin+end)) {
		t.Errorf("the second run begins at a loss of %g; the first began at %g and ended at %g", got, begin, end)
	}
	if !slices.Equal(second.Model.NormU.Scale, first.Model.NormU.Scale) {
		t.Error("the second map has another normalisation than the first")
	}
	again.Latent = first.Model.Latent() + 1
	refused(t, "another latent size than the initial map's", again, "initial map")
}

// E_x can be wider than the other networks, and a map that goes on keeps its widths.
func TestEncoderWidth(t *testing.T) {
	be := cpu(t)
	opt := toyOptions(be, 40)
	opt.RolloutEpochs, opt.ManifoldEpochs, opt.Hidden, opt.Encoder = -1, 1, 16, 48
	first := trained(t, opt)
	width := func(m *model.MLP) int { return m.Layers[0].W.Rows }
	if m := first.Model; width(m.EncoderX) != opt.Encoder || width(m.EncoderO) != opt.Hidden || width(m.DecoderU) != opt.Hidden || width(m.DecoderS) != opt.Hidden {
		t.Errorf("widths %d, %d, %d and %d, want %d of E_x and %d of the others", width(m.EncoderX), width(m.EncoderO), width(m.DecoderU), width(m.DecoderS), opt.Encoder, opt.Hidden)
	}
	again := opt
	again.Initial, again.Hidden, again.Encoder = first.Model, 0, 0
	second := trained(t, again)
	if width(second.Model.EncoderX) != opt.Encoder {
		t.Errorf("E_x is %d wide after going on from %d", width(second.Model.EncoderX), opt.Encoder)
	}
	again.Encoder = opt.Hidden
	refused(t, "another width than the initial map's", again, "Encoder")
}

// A checkpoint comes back as it was written, and no bit of it can be another.
func TestAFlippedBitOfACheckpointIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c")
	s := saved{Version: checkpointVersion, Run: []byte(`{"case":"a\u003cb"}`), History: []EpochRecord{}, ManifoldSteps: 2}
	arrays := map[string][]float32{"m.b": {3}, "m.a": {1, -2}, "none": {}}
	must.OK(t, writeCheckpoint(path, s, arrays))
	if got, again, err := readCheckpoint(path); err != nil || !reflect.DeepEqual(got, s) || !maps.EqualFunc(again, arrays, slices.Equal) {
		t.Errorf("read %+v and %v, %v", got, again, err)
	}
	whole := must.Get(os.ReadFile(path))(t)
	for bit := range 8 * len(whole) {
		flipped := bytes.Clone(whole)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, _, err := parseCheckpoint(bytes.NewReader(flipped)); err == nil {
			t.Fatalf("bit %d of %d is not missed", bit, 8*len(whole))
		}
	}
}

// Risk weights have mean 1, grow as the smallest margin shrinks, whatever its unit, within
// bounds, and leave out what is not finite.
func TestRiskWeightsGrowAsMarginsShrink(t *testing.T) {
	// Two margins a latent, the second in a smaller unit.
	margins := []float64{1, 200, 0.5, 100, 0, 100, -9, 100, 2, 20, 0, 0, 0.5, 80}
	finite := []bool{true, true, true, true, true, false, true}
	weight := make([]float32, len(finite))
	riskWeights(weight, margins, finite)
	sum := float32(0)
	for _, w := range weight {
		sum += w
	}
	if math.Abs(float64(sum)-6) > 1e-5 {
		t.Errorf("weights %v of six latents sum to %v", weight, sum)
	}
	if weight[5] != 0 {
		t.Errorf("a latent that is not finite weighs %v", weight[5])
	}
	if !(weight[0] < weight[1] && weight[1] < weight[2] && weight[2] < weight[3] && weight[4] > weight[1]) {
		t.Errorf("weights %v, want them to grow from wide to broken margins", weight)
	}
	if r := float64(weight[3] / weight[0]); r > math.Exp(2*riskReach)*1.001 {
		t.Errorf("weights %v differ by %v", weight, r)
	}
	again := make([]float32, len(finite))
	for i := range margins {
		if i%2 == 1 {
			margins[i] *= 1000
		}
	}
	riskWeights(again, margins, finite)
	for i := range again {
		if math.Abs(float64(again[i]-weight[i])) > 1e-6 {
			t.Errorf("in another unit the weights are %v, want %v", again, weight)
		}
	}
}

// A map refined along chains decodes better where the navigator goes than before.
func TestChainRefinesTheDecoder(t *testing.T) {
	opt := toyOptions(cpu(t), 60)
	opt.Chain = true
	res := trained(t, opt)
	var phases []*EpochRecord
	for i := range res.History {
		if res.History[i].Phase == Rollout {
			phases = append(phases, &res.History[i])
		}
	}
	first, last := phases[0], phases[len(phases)-1]
	if l := last.RolloutValidation; l == nil || !(l.Act > 0 && l.Roll > 0) || l.ActNext != 0 || l.LieAct != 0 {
		t.Fatalf("losses of the last epoch: %+v", l)
	}
	if !(last.Rollout.Roll < first.Rollout.Roll) {
		t.Errorf("the loss along chains went from %v to %v", first.Rollout.Roll, last.Rollout.Roll)
	}
}

// longToy is the toy with plans of two actions and a margin of the state.
type longToy struct{ toy }

func (t longToy) Base(s, c, plan []float64) {
	clear(plan)
	t.toy.Base(s, c, plan)
}
func (t longToy) Margins(s, c, u, m []float64) { m[0] = 1 - math.Abs(s[0]) }

// Along the chain of a plan its h-th action is that decoded at the h-th latent, in the
// state that those before it led to: the margins there decide the weights.
func TestChainOfAPlanFollowsTheDynamics(t *testing.T) {
	problem := longToy{newToy()}
	problem.spec.Plan = 2
	samples := problem.samples(12, 1)
	for i := range samples {
		x := &samples[i]
		x.U, x.Target = append(x.U, 0.5, -x.S[1]), append(x.Target, 0.5, -x.S[1])
	}
	opt := toyOptions(cpu(t), 0)
	opt.Problem, opt.Chain = problem, true
	opt.Data = Data{Columns: must.Get(offline.ColumnsOf(offline.LayoutOf(problem.spec), samples))(t)}
	opt = must.Get(opt.resolve())(t)
	r := &run{opt: opt, set: must.Get(NewSet(problem.spec, &opt.Data, opt))(t)}
	must.OK(t, r.prepare())
	nets := must.Get(r.trainer.Networks())(t)
	r.manifoldDecoder = nets.DecoderU
	chain := must.Get(r.chain())(t)
	rows := opt.Data.S.Rows
	if chain.Z.Rows != 2*rows {
		t.Fatalf("%d latents of %d rows", chain.Z.Rows, rows)
	}
	decoded := must.Get(encode(opt.Backend, nets.DecoderU, chain.Z, ascending(2*rows)))(t)
	p := newPlanner(problem)
	margins, finite := make([]float64, 2*rows), slices.Repeat([]bool{true}, 2*rows)
	for i := range rows {
		plan := p.decode(r.set.NormU, decoded.Row(2*i), opt.Data.S.Row(i), opt.Data.C.Row(i))
		s, c, next, ctx := make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 2)
		tensor.Widen(s, opt.Data.S.Row(i))
		problem.Step(s, c, plan[:2], next, ctx)
		margins[2*i], margins[2*i+1] = 1-math.Abs(s[0]), 1-math.Abs(next[0])
	}
	want := make([]float32, 2*rows)
	riskWeights(want, margins, finite)
	for i, w := range want {
		if math.Abs(float64(chain.Weight[i]-w)) > 1e-4 {
			t.Fatalf("latent %d weighs %v, want %v", i, chain.Weight[i], w)
		}
	}
	must.OK(t, r.trainer.PrepareRollout())
	must.OK(t, r.setChain())
	must.Get(r.trainer.RolloutStep(r.set.Train[:8], 1e-3))(t)
}
