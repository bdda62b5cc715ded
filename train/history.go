package train

import (
	"fmt"
	"io"

	"github.com/gpc-engine/gpc/internal/backend"
)

// Phase is a part of training.
type Phase string

const (
	Manifold Phase = "manifold" // all four networks, sec:loss
	Rollout  Phase = "rollout"  // D_u alone, eq. du_obj
)

// EpochRecord is one point of the learning curves. Losses are unweighted means over the epoch's samples while the
// weights move. Validation is evaluated at the epoch's end on a fixed draw of held-out rows, without the locality
// term (neighbourhoods are of training rows). Only the losses of the record's own phase are set.
type EpochRecord struct {
	Phase        Phase   `json:"phase"`         // manifold or rollout
	Epoch        int     `json:"epoch"`         // from 1, in its phase
	LearningRate float64 `json:"learning_rate"` // of the epoch
	Seconds      float64 `json:"seconds"`       // wall time
	Samples      int     `json:"samples"`       // drawn

	Manifold           *backend.ManifoldLosses `json:"manifold,omitempty"`
	ManifoldValidation *backend.ManifoldLosses `json:"manifold_validation,omitempty"`
	Rollout            *backend.RolloutLosses  `json:"rollout,omitempty"`
	RolloutValidation  *backend.RolloutLosses  `json:"rollout_validation,omitempty"`

	// The early report, on the same held-out rows: it shows from the first epoch whether the certificates' inputs
	// converge.
	TauGeom      float64 `json:"tau_geom"`       // mean ‖s − D_s(E_x(x))‖² on held-out rows, normalised
	DeltaDec     float64 `json:"delta_dec"`      // largest ‖u − u*‖ there after projection, physical units
	DeltaDecP99  float64 `json:"delta_dec_p99"`  // its 99th percentile
	DeltaDecMean float64 `json:"delta_dec_mean"` // its mean
}

// Loss is the mean total of the epoch's updates, weighted by their samples.
func (r *EpochRecord) Loss() float64 {
	if r.Phase == Rollout {
		return r.Rollout.Total
	}
	return r.Manifold.Total
}

// Progress is reported after every update.
type Progress struct {
	Phase         Phase
	Epoch, Epochs int // epoch from 1
	Step, Steps   int // updates made and to be made, both phases together
	Samples       int // samples of this update
	Loss          float64
	// Record is set on the last update of an epoch.
	Record *EpochRecord
	// Note is a message for the log, such as where a resumed run continues; the
	// other fields are then those of the last update.
	Note string
}

// WriteCSV writes the learning curves, one line per epoch; cells of the other
// phase are empty.
func WriteCSV(w io.Writer, history []EpochRecord) error {
	if _, err := fmt.Fprintln(w, "phase,epoch,learning_rate,seconds,samples,"+
		"recon_x,action,recon_o,consistency,locality,manifold_total,"+
		"val_recon_x,val_action,val_recon_o,val_consistency,val_locality,val_manifold_total,"+
		"act,act_next,delta,roll,flow,lie_act,lie_delta,lie_anchor,lie_reg,rollout_total,"+
		"val_act,val_act_next,val_delta,val_roll,val_flow,val_lie_act,val_lie_delta,val_lie_anchor,val_lie_reg,val_rollout_total,"+
		"tau_geom,delta_dec,delta_dec_p99,delta_dec_mean"); err != nil {
		return err
	}
	for i := range history {
		r := &history[i]
		line := fmt.Sprintf("%s,%d,%g,%.3f,%d", r.Phase, r.Epoch, r.LearningRate, r.Seconds, r.Samples)
		for _, m := range []*backend.ManifoldLosses{r.Manifold, r.ManifoldValidation} {
			if m == nil {
				line += ",,,,,,"
				continue
			}
			line += fmt.Sprintf(",%g,%g,%g,%g,%g,%g", m.ReconX, m.Action, m.ReconO, m.Consistency, m.Locality, m.Total)
		}
		for _, l := range []*backend.RolloutLosses{r.Rollout, r.RolloutValidation} {
			if l == nil {
				line += ",,,,,,,,,,"
				continue
			}
			line += fmt.Sprintf(",%g,%g,%g,%g,%g,%g,%g,%g,%g,%g", l.Act, l.ActNext, l.Delta, l.Roll, l.Flow,
				l.LieAct, l.LieDelta, l.LieAnchor, l.LieReg, l.Total)
		}
		if _, err := fmt.Fprintf(w, "%s,%g,%g,%g,%g\n", line, r.TauGeom, r.DeltaDec, r.DeltaDecP99, r.DeltaDecMean); err != nil {
			return err
		}
	}
	return nil
}
