package train

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/model"
)

// TestPlain: a plain network learns actions, by its own loss alone, and E_o and D_s stay as they were drawn.
func TestPlain(t *testing.T) {
	be := cpu(t)
	opt := toyOptions(be, 40)
	opt.Plain, opt.ManifoldEpochs = true, 20
	got := trained(t, opt)
	opt.ManifoldEpochs = 1
	drawn := trained(t, opt).Model
	for name, nets := range map[string][2]*model.MLP{"E_o": {drawn.EncoderO, got.Model.EncoderO}, "D_s": {drawn.DecoderS, got.Model.DecoderS}} {
		for i := range nets[0].Layers {
			if !slices.Equal(nets[0].Layers[i].W.Data, nets[1].Layers[i].W.Data) {
				t.Errorf("%s has learnt in layer %d", name, i+1)
			}
		}
	}
	first, last := got.History[0], got.History[len(got.History)-1]
	if len(got.History) != 20 || last.Phase != Manifold || math.Abs(last.Manifold.Total-10*last.Manifold.Action) > 1e-9 || !(last.DeltaDecMean < 0.6*first.DeltaDecMean) {
		t.Errorf("%d epochs, the first %+v, the last %+v with losses %+v", len(got.History), first, last, *last.Manifold)
	}
}
