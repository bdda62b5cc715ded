package train

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

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
		"no manifold":  {func(o *Options) { o.ManifoldEpochs = -1 }, "rollout"},
		"full disk":    {func(o *Options) { o.Checkpoint = "/nowhere/at/all" }, "/nowhere/at/all"},
	} {
		opt := toyOptions(be, 10)
		c.change(&opt)
		refused(t, name, opt, c.want)
	}
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
