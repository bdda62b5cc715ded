package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/training"
	"github.com/gpc-engine/gpc/model"
)

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
		create    func(t testing.TB) backend.Backend
		scenarios int
		stops     []int
	}{
		"cpu": {cpu, 40, []int{1, 7, 8, 20, 23, 25, 33}},
		"ref": {func(testing.TB) backend.Backend { return training.New() }, 8, []int{2, 5}},
	}
	for name, b := range backends {
		t.Run(name, func(t *testing.T) { resumesBitwise(t, b.create(t), b.scenarios, b.stops, false) })
		t.Run(name+" along chains", func(t *testing.T) { resumesBitwise(t, b.create(t), b.scenarios, b.stops, true) })
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
		// A backend that makes several updates in one call ends that call first.
		if first <= stop || first > stop+backend.MostTogether || first != stop+1 && be.Describe().Name != "cuda" {
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

func (p heavier) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Fingerprint: p.Fingerprint}
}

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
	opt.interval = time.Nanosecond
	killed := errors.New("killed")
	runs, inside := 0, 0
	for done := false; !done; runs++ {
		if runs > 200 {
			t.Fatal("no progress")
		}
		b := require.Get(cpufallback.New(cpufallback.Options{Threads: 1 + runs%3}))(t)
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
			require.OK(t, err)
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
	lock := require.Get(durable.Acquire(opt.Checkpoint))(t)
	refused(t, "a checkpoint in use", opt, "is being written by process")
	require.OK(t, lock.Release())
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
		"options.Seed is 5, this run's is 6":                   func(o *Options) { o.Seed++ },
		"options.LearningRate is 0.001, this run's is 0.002":   func(o *Options) { o.LearningRate = 2e-3 },
		"its data_sha256 is":                                   func(o *Options) { o.Data.U.Data[3] += 1 },
		"its backend is cpu":                                   func(o *Options) { o.Backend = training.New() },
		"its program is , this run's is v2":                    func(o *Options) { o.Version = "v2" },
		"its initial_sha256 is , this run's is":                func(o *Options) { o.Initial = initial },
		"its problem_sha256 is":                                func(o *Options) { o.Problem = heavier{newToy()} },
		"its backend is " + numericIdentity(be) + ", this run": func(o *Options) { o.Backend = level{be} },
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

func FuzzCheckpoint(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "c")
	if err := writeCheckpoint(path, checkpoint{Version: checkpointVersion, Run: []byte(`{"case":"x"}`)}, map[string][]float32{"a": {1, 2}, "b": {3}}); err != nil {
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

// A checkpoint comes back as it was written, and no bit of it can be another.
func TestAFlippedBitOfACheckpointIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c")
	s := checkpoint{Version: checkpointVersion, Run: []byte(`{"case":"a\u003cb"}`), History: []EpochRecord{}, ManifoldSteps: 2}
	arrays := map[string][]float32{"m.b": {3}, "m.a": {1, -2}, "none": {}}
	require.OK(t, writeCheckpoint(path, s, arrays))
	if got, again, err := readCheckpoint(path); err != nil || !reflect.DeepEqual(got, s) || !maps.EqualFunc(again, arrays, slices.Equal) {
		t.Errorf("read %+v and %v, %v", got, again, err)
	}
	whole := require.Get(os.ReadFile(path))(t)
	for bit := range 8 * len(whole) {
		flipped := bytes.Clone(whole)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, _, err := parseCheckpoint(bytes.NewReader(flipped)); err == nil {
			t.Fatalf("bit %d of %d is not missed", bit, 8*len(whole))
		}
	}
}
