package train

import (
	"math"
	"slices"
	"testing"
)

// A plain network learns actions as it would without D_s, which learns states beside it; E_o stays as it was drawn.
func TestPlain(t *testing.T) {
	opt := toyOptions(cpu(t), 40)
	opt.Plain, opt.ManifoldEpochs = true, 20
	got := trained(t, opt)
	opt.ManifoldEpochs = 1
	drawn := trained(t, opt)
	for i, layer := range got.Model.EncoderO.Layers {
		if !slices.Equal(layer.W.Data, drawn.Model.EncoderO.Layers[i].W.Data) {
			t.Errorf("E_o has learnt in layer %d", i+1)
		}
	}
	first, last := got.History[0], got.History[len(got.History)-1]
	if of := last.Manifold; len(got.History) != 20 || last.Phase != Manifold || math.Abs(of.Total-10*of.Action-plainReconstruction*of.ReconX) > 1e-6*of.Total || !(last.DeltaDecMean < 0.6*first.DeltaDecMean) {
		t.Errorf("%d epochs, the first %+v, the last %+v with losses %+v", len(got.History), first, last, *of)
	}
	if !(last.TauGeom < 0.8*first.TauGeom) {
		t.Errorf("τ_geom goes from %g to %g", first.TauGeom, last.TauGeom)
	}
}
