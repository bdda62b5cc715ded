package train

import (
	"slices"
	"testing"
)

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
