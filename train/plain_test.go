package train

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
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
	if of := last.Manifold; len(got.History) != 20 || last.Phase != Manifold || math.Abs(of.Total-1000*of.Action-plainReconstruction*of.ReconX) > 1e-6*of.Total || !(last.DeltaDecMean < 0.6*first.DeltaDecMean) {
		t.Errorf("%d epochs, the first %+v, the last %+v with losses %+v", len(got.History), first, last, *of)
	}
	if !(last.TauGeom < 0.8*first.TauGeom) {
		t.Errorf("τ_geom goes from %g to %g", first.TauGeom, last.TauGeom)
	}
}

// By the default weights a map decodes actions as well as a plain network of its size and training does, where its latent
// has no room for all of the state: ten of its components have no part in the optimum.
func TestTheGeometryCostsNoActions(t *testing.T) {
	sum := map[bool]float64{}
	for seed := range uint64(3) {
		for _, plain := range []bool{false, true} {
			opt, p := toyOptions(cpu(t), 1), newToy()
			for i := range 10 {
				p.spec.Measured = append(p.spec.Measured, domain.Variable{Name: fmt.Sprint("x", i)})
			}
			opt.Problem, opt.Data, opt.Plain, opt.Seed, opt.Emphasis, opt.ManifoldEpochs, opt.RolloutEpochs = p, p.data(300), plain, seed, 0, 20, -1
			history := trained(t, opt).History
			sum[plain] += history[len(history)-1].ManifoldValidation.Action
		}
	}
	if !(sum[false] < 1.08*sum[true]) {
		t.Errorf("held-out action losses add up to %g, of plain networks to %g", sum[false], sum[true])
	}
}
