package train

import (
	"bytes"
	"encoding/csv"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
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
func toySet(t testing.TB, opt Options) *trainingSet {
	t.Helper()
	s, err := newTrainingSet(opt.Problem.Spec(), &opt.Data, Options{ValidationFraction: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	return s
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
