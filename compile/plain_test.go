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

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestAPlainNetworkDisturbsNothing: with a plain network beside it a run makes the same map by the same rounds in the same
// time, and the network is another of the map's sizes from as many starts by the same method. What was
// interrupted in its training goes on, to the same network.
func TestAPlainNetworkDisturbsNothing(t *testing.T) {
	c := sled(t)
	alone := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	var elapsed atomic.Int64 // on a clock of its own, in ms: an update takes 1
	ticking := func(opt Options) (*Report, error) {
		elapsed.Store(0)
		told := opt.Progress
		opt.Progress = func(p Progress) {
			if p.Stage == "train" || p.Stage == "train plain" {
				elapsed.Add(1)
			}
			if told != nil {
				told(p)
			}
		}
		return compile(context.Background(), c, opt, func() time.Time { return time.UnixMilli(elapsed.Load()) })
	}
	want := require.Get(ticking(alone))(t)
	beside := alone
	beside.Out, beside.Plain = filepath.Join(t.TempDir(), "sled.safetensors"), true
	plain := 0
	beside.Progress = func(p Progress) { plain += indicator(p.Stage == "train plain") }
	got := require.Get(ticking(beside))(t)
	if a, b := require.Get(os.ReadFile(alone.Out))(t), require.Get(os.ReadFile(beside.Out))(t); !bytes.Equal(a, b) {
		t.Error("the map is another with a plain network beside it")
	}
	if want.Plain != nil || got.Seconds != want.Seconds || got.Seconds == 0 || plain == 0 {
		t.Errorf("alone %+v in %v s, beside a plain network of %d updates in %v s", want.Plain, want.Seconds, plain, got.Seconds)
	}
	p := got.Plain
	if p == nil || p.Method != got.Test.Method || p.Episodes != got.Test.Episodes || p.Direct.Method != "direct" || p.Map.Method != "direct" || p.Direct.Episodes != got.Test.Episodes || p.Map.Episodes != got.Test.Episodes || p.Direct.Mean == p.Map.Mean {
		t.Errorf("plain %+v beside %+v", p, got.Test)
	}
	folder := beside.Out + ".compile"
	files := require.Get(filepath.Glob(folder + "/plain-*"))(t)
	network, m := require.Get(c.Model(files[len(files)-1]))(t), require.Get(c.Model(beside.Out))(t)
	if network.Latent() != m.Latent() || len(network.EncoderX.Layers[0].W.Data) != len(m.EncoderX.Layers[0].W.Data) || !(network.Calibration.TauGeom > 0) {
		t.Errorf("a plain network of a latent of %d, want %d, and τ_geom %g", network.Latent(), m.Latent(), network.Calibration.TauGeom)
	}
	var kept journal
	if require.OK(t, durable.ReadSealed(filepath.Join(folder, journalName), &kept, maxJournal)); kept.Seconds != got.Seconds {
		t.Errorf("the journal counts %v s, the report %v", kept.Seconds, got.Seconds)
	}

	beside.Out = filepath.Join(t.TempDir(), "sled.safetensors")
	ctx, cancel := context.WithCancel(context.Background())
	beside.Progress = func(p Progress) {
		if p.Stage == "train plain" && p.Done > 1 {
			cancel()
		}
	}
	if _, err := Run(ctx, c, beside); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	beside.Progress = nil
	if again := require.Get(Run(context.Background(), c, beside))(t); again.Plain.Mean != p.Mean || again.Plain.Direct.Mean != p.Direct.Mean {
		t.Errorf("interrupted: plain %+v, want %+v", again.Plain, p)
	}
}

// TestABudgetOfCPUTime: a report says which clock its times are of, by the CPU's they are no more than what the process has computed
// over its threads, and a folder goes on by the clock that it was begun with.
func TestABudgetOfCPUTime(t *testing.T) {
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.BudgetCPU, opt.Rounds = true, 1
	before := machine.CPUTime()
	got := require.Get(Run(context.Background(), sled(t), opt))(t)
	computed := (machine.CPUTime() - before).Seconds() / float64(opt.Threads)
	const late = 0.02 // s by which a system may count what threads on other cores have computed later
	if got.Clock != "cpu" || got.Seed != opt.Seed || !(got.Seconds > 0) || !(got.Seconds <= computed+late) {
		t.Errorf("clock %q, seed %d, %v s of %v s that were computed", got.Clock, got.Seed, got.Seconds, computed)
	}
	opt.BudgetCPU = false
	if _, err := Run(context.Background(), sled(t), opt); err == nil || !strings.Contains(err.Error(), "field clock is cpu, want wall") {
		t.Errorf("a folder of CPU times goes on by wall time: %v", err)
	}
	opt.Out = filepath.Join(t.TempDir(), "sled.safetensors")
	if got = require.Get(Run(context.Background(), sled(t), opt))(t); got.Clock != "wall" {
		t.Errorf("clock %q", got.Clock)
	}
}
