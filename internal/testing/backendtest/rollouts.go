package backendtest

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/planscore"
	"github.com/gpc-engine/gpc/tensor"
)

// Rollouts are the roll-outs of backend.Rollouts: from (s, c), for H steps h = 0 … H−1,
//
//	z_h = E_x([s_h, c_h, slot]) + o_h,  u_h = Project(s_h, c_h, Clip(Base(s_h, c_h) + D_u(z_h)))
//	(s_{h+1}, c_{h+1}) = Step(s_h, c_h, u_h)
type Rollouts struct {
	energy   ref.Energy
	encoderX *ref.MLP
	normX    ref.Normalizer
	floor    float64
	width    int
}

// NewRollouts widens a map.
func NewRollouts(cfg backend.RolloutsConfig) *Rollouts {
	return &Rollouts{energy: ref.NewEnergy(cfg.Step), encoderX: ref.Widen(cfg.EncoderX), normX: ref.WidenNormalizer(cfg.NormX), floor: cfg.PreferenceFloor, width: cfg.Width()}
}

// Score rolls out the candidate of these offsets, [steps·width]. Where all is a number
// it returns Σ σᵀJ with what comes behind (ProblemAbilities.TerminalCost) and the smallest margin over the steps, and the decoded first action;
// the margin is −Inf of one whose state, context or action is not, or that meets a state
// which is lost (ProblemAbilities.Failed): kept are then the steps before. Where the last step leads is asked only of a problem
// without Score, which knows, or of one with something behind.
func (r *Rollouts) Score(s, c []float64, pref domain.Preference, offsets []float64, steps int, project bool) (first []float64, cost, margin float64, kept int) {
	p := r.energy.Problem
	may := domain.AbilitiesOfProblem(p)
	ends := backend.Ends(p)
	margin = math.Inf(1)
	for h := range steps {
		u := r.action(s, c, pref, offsets[h*r.width:(h+1)*r.width])
		if h == 0 {
			first = append(first, u...)
		}
		if !tensor.Finite(u) {
			return first, cost, math.Inf(-1), steps
		}
		added, low := planscore.Action(p, may, s, c, pref, u, project)
		cost, margin = cost+added, math.Min(margin, low)
		if h == steps-1 && may.Score != nil && !ends {
			return first, cost, margin, steps
		}
		switch s, c = planscore.Next(p, s, c, u); {
		case !tensor.Finite(s) || !tensor.Finite(c):
			return first, cost, math.Inf(-1), steps
		case may.Lost(s, c):
			return first, cost, math.Inf(-1), h
		}
	}
	if ends {
		cost += may.TerminalCost(s, c, pref)
	}
	return first, cost, margin, steps
}

// action is the decoded action in a state, bent by an offset.
func (r *Rollouts) action(s, c []float64, pref domain.Preference, o []float64) []float64 {
	slot := make([]float64, r.energy.Problem.Spec().PreferenceSize())
	pref.Slot(slot, r.floor)
	z := r.encoderX.Forward(r.normX.Apply(append(append(append([]float64(nil), s...), c...), slot...)))
	for i, v := range o {
		z[i] += v
	}
	return r.energy.DecodeAction(z, s, c)
}
