package train

import (
	"bytes"
	"encoding/csv"
	"math"
	"testing"
)

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
