package backend

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// NetworkNames are the prefixes of a TrainerState's arrays, in the order E_x,
// E_o, D_u, D_s. Every backend names them alike:
//
//	NETWORK.LAYER.{weight,bias}{,.m,.v}   parameters and Adam's moments
//	NETWORK.LAYER.power                   left vector of the power iteration
//
// with LAYER from 0, weights row-major [out][in].
var NetworkNames = [4]string{"encoder_x", "encoder_o", "decoder_u", "decoder_s"}

// All lists the networks in the order of NetworkNames.
func (n Networks) All() [4]*model.MLP {
	return [4]*model.MLP{n.EncoderX, n.EncoderO, n.DecoderU, n.DecoderS}
}

// ManifoldFLOPs is the work that a sample of a manifold update with κ neighbours
// cannot do without, two operations a multiply-add: of each use of a network a forward
// pass, the gradient of its weights and that of its inputs, the first layer of an
// encoder excepted. E_x is used for the sample and its neighbours, D_s for z^x and z^o.
func (n Networks) ManifoldFLOPs(kappa int) float64 {
	return 2 * float64((1+kappa)*gradientMulAdds(n.EncoderX)+gradientMulAdds(n.EncoderO)+3*n.DecoderU.MulAdds()+2*3*n.DecoderS.MulAdds())
}

// RolloutFLOPs is that of a transition of a rollout update by eq. du_obj: D_u at five
// latents, without the gradient of its inputs.
func (n Networks) RolloutFLOPs() float64 { return 2 * 5 * float64(gradientMulAdds(n.DecoderU)) }

// gradientMulAdds counts a forward and a backward pass without the gradient of the
// network's inputs.
func gradientMulAdds(m *model.MLP) int {
	first := m.Layers[0].W
	return 3*m.MulAdds() - first.Rows*first.Cols
}

// Validate says what is wrong with a trainer's configuration: widths that do not
// fit, successors out of range, data or constants that are not finite.
func (c TrainerConfig) Validate() error {
	d := c.Data
	for i, net := range c.Initial.All() {
		if net == nil {
			return fmt.Errorf("trainer: network %s is missing", NetworkNames[i])
		}
		if err := net.Validate(); err != nil {
			return fmt.Errorf("trainer: network %s: %w", NetworkNames[i], err)
		}
	}
	nets := c.Initial
	nz, rows := nets.DecoderS.In(), d.X.Rows
	if nets.EncoderX.Out() != nz || nets.EncoderO.Out() != nz || nets.DecoderU.In() != nz {
		return fmt.Errorf("trainer: latent sizes differ: E_x %d, E_o %d, D_u %d, D_s %d", nets.EncoderX.Out(), nets.EncoderO.Out(), nets.DecoderU.In(), nz)
	}
	if rows == 0 {
		return fmt.Errorf("trainer: the data set is empty")
	}
	for _, m := range []struct {
		name string
		m    tensor.Matrix
		cols int
	}{{"X", d.X, nets.EncoderX.In()}, {"O", d.O, nets.EncoderO.In()}, {"S", d.S, nets.DecoderS.Out()}, {"U", d.U, nets.DecoderU.Out()}} {
		if err := tensor.Check("trainer", "data "+m.name, m.m, rows, m.cols); err != nil {
			return err
		}
		for i := range rows {
			for j, v := range m.m.Row(i) {
				if v-v != 0 {
					return fmt.Errorf("trainer: data %s is %v at row %d, column %d, want a finite number", m.name, v, i, j)
				}
			}
		}
	}
	if d.Next != nil && (len(d.Next) != rows || len(d.RiskWeight) != rows) {
		return fmt.Errorf("trainer: %d successors and %d risk weights for %d rows", len(d.Next), len(d.RiskWeight), rows)
	}
	for i, next := range d.Next {
		if next < -1 || int(next) >= rows {
			return fmt.Errorf("trainer: successor of row %d is %d, want −1 or a row below %d", i, next, rows)
		}
		if r := float64(d.RiskWeight[i]); next >= 0 && (!(r >= 0) || math.IsInf(r, 0)) {
			return fmt.Errorf("trainer: risk weight of row %d is %v, want a finite number ≥ 0", i, r)
		}
	}
	if c.MaxBatch < 1 || c.MaxNeighbours < 0 {
		return fmt.Errorf("trainer: MaxBatch %d and MaxNeighbours %d, want at least 1 and 0", c.MaxBatch, c.MaxNeighbours)
	}
	if a := c.Adam; !(a.Beta1 >= 0 && a.Beta1 < 1 && a.Beta2 >= 0 && a.Beta2 < 1 && a.Epsilon > 0) {
		return fmt.Errorf("trainer: Adam has β₁ %v, β₂ %v, ε %v, want β in [0, 1) and ε > 0", a.Beta1, a.Beta2, a.Epsilon)
	}
	if k := c.Rollout.TopK; k < 0 || k > nz {
		return fmt.Errorf("trainer: rollout TopK is %d, want 0 to the latent size %d", k, nz)
	}
	if h := c.Rollout.Horizon; h < 0 || h > 0 && d.U.Cols%h != 0 {
		return fmt.Errorf("trainer: rollout Horizon is %d, want 0 or a divisor of the %d components of a plan", h, d.U.Cols)
	}
	if k := float64(c.SpectralBound); !(k >= 0) || math.IsInf(k, 0) {
		return fmt.Errorf("trainer: spectral bound is %v, want a finite number ≥ 0", k)
	}
	return nil
}

func (c *TrainerConfig) checkRows(op string, rows []int32) error {
	if len(rows) == 0 || len(rows) > c.MaxBatch {
		return fmt.Errorf("%s: %d rows, want 1 to MaxBatch = %d", op, len(rows), c.MaxBatch)
	}
	return c.checkRowNumbers(op, "rows", rows)
}

// CheckManifold says what is wrong with the rows of a manifold update and their
// neighbours.
func (c *TrainerConfig) CheckManifold(op string, rows, neighbours []int32, kernel []float32) error {
	if err := c.checkRows(op, rows); err != nil {
		return err
	}
	kappa := len(neighbours) / len(rows)
	if len(neighbours) != kappa*len(rows) || kappa > c.MaxNeighbours {
		return fmt.Errorf("%s: %d neighbours for %d rows, want a multiple, at most MaxNeighbours = %d each", op, len(neighbours), len(rows), c.MaxNeighbours)
	}
	if !(c.Manifold.Isometry && kernel == nil) && len(kernel) != len(neighbours) {
		return fmt.Errorf("%s: %d kernel weights for %d neighbours", op, len(kernel), len(neighbours))
	}
	return c.checkRowNumbers(op, "neighbours", neighbours)
}

// CheckRollout says what is wrong with the rows of a rollout update, of a trainer
// that is prepared for it or not, and has a chain or not.
func (c *TrainerConfig) CheckRollout(op string, prepared, chained bool, rows []int32) error {
	if !prepared {
		return fmt.Errorf("%s: call PrepareRollout first", op)
	}
	if !chained && c.Rollout.Horizon > 0 {
		return fmt.Errorf("%s: call SetChain first", op)
	}
	if err := c.checkRows(op, rows); err != nil {
		return err
	}
	if c.Rollout.Horizon > 0 {
		return nil
	}
	for i, r := range rows {
		if c.Data.Next[r] < 0 {
			return fmt.Errorf("%s: rows[%d] = %d has no successor", op, i, r)
		}
	}
	return nil
}

func (c *TrainerConfig) checkRowNumbers(op, name string, rows []int32) error {
	for i, r := range rows {
		if r < 0 || int(r) >= c.Data.X.Rows {
			return fmt.Errorf("%s: %s[%d] is %d, the data set has %d rows", op, name, i, r, c.Data.X.Rows)
		}
	}
	return nil
}

// CheckRate says what is wrong with a learning rate.
func CheckRate(op string, lr float32) error {
	if f := float64(lr); !(f >= 0) || math.IsInf(f, 0) {
		return fmt.Errorf("%s: learning rate is %v, want a finite number ≥ 0", op, lr)
	}
	return nil
}

// CheckChain says what is wrong with a chain of latents of size nz for a trainer that is
// prepared for rollout training or not.
func (c *TrainerConfig) CheckChain(op string, prepared bool, nz int, chain Chain) error {
	rows := c.Data.X.Rows * c.Rollout.Horizon
	switch {
	case c.Rollout.Horizon == 0:
		return fmt.Errorf("%s: the rollout phase has no Horizon", op)
	case !prepared:
		return fmt.Errorf("%s: call PrepareRollout first", op)
	case len(chain.Weight) != rows:
		return fmt.Errorf("%s: %d weights for %d rows and Horizon %d", op, len(chain.Weight), c.Data.X.Rows, c.Rollout.Horizon)
	}
	if err := tensor.Check(op, "Z", chain.Z, rows, nz); err != nil {
		return err
	}
	for i, w := range chain.Weight {
		if w64 := float64(w); !(w64 >= 0) || math.IsInf(w64, 0) || !tensor.Finite(chain.Z.Row(i)) {
			return fmt.Errorf("%s: latent %d is %v with weight %v, want finite numbers and a weight ≥ 0", op, i, chain.Z.Row(i), w)
		}
	}
	return nil
}

// CheckPairs says where no row of the data set has a successor although the rollout
// phase is of transitions.
func (c *TrainerConfig) CheckPairs(op string) error {
	if c.Rollout.Horizon == 0 && !slices.ContainsFunc(c.Data.Next, func(n int32) bool { return n >= 0 }) {
		return fmt.Errorf("%s: no row of the data set has a successor", op)
	}
	return nil
}

// CheckState says why a state does not fit a trainer whose arrays have these sizes.
func (c *TrainerConfig) CheckState(op string, s TrainerState, sizes map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		array, ok := s.Arrays[name]
		if !ok || len(array) != sizes[name] {
			return fmt.Errorf("%s: array %s has %d entries, want %d", op, name, len(array), sizes[name])
		}
		for i, v := range array {
			if v-v != 0 {
				return fmt.Errorf("%s: array %s is %v at %d, want a finite number", op, name, v, i)
			}
		}
	}
	if len(s.Arrays) != len(sizes) || s.ManifoldSteps < 0 || s.RolloutSteps < 0 {
		return fmt.Errorf("%s: %d arrays after %d and %d steps, want %d arrays and counts ≥ 0", op, len(s.Arrays), s.ManifoldSteps, s.RolloutSteps, len(sizes))
	}
	if !s.RolloutPrepared {
		return nil
	}
	return c.CheckPairs(op + ": the state is of rollout training")
}

// Total is the weighted sum of the terms.
func (w ManifoldLoss) Total(l ManifoldLosses) float64 {
	return float64(w.ReconX)*l.ReconX + float64(w.Action)*l.Action + float64(w.ReconO)*l.ReconO +
		float64(w.Consistency)*l.Consistency + float64(w.Locality)*l.Locality
}

// Total is the value of eq. du_obj, the two terms without gradient included.
func (w RolloutLoss) Total(l RolloutLosses) float64 {
	delta, roll := float64(w.Delta), float64(w.Roll)
	flow, lie := float64(w.Flow), float64(w.Lie)
	return l.Act + l.ActNext + delta*l.Delta + roll*l.Roll + flow*l.Flow + lie*(l.LieAct+delta*l.LieDelta+l.LieAnchor+l.LieReg)
}

// Add adds weight times other losses.
func (l *ManifoldLosses) Add(other ManifoldLosses, weight float64) {
	l.ReconX += weight * other.ReconX
	l.Action += weight * other.Action
	l.ReconO += weight * other.ReconO
	l.Consistency += weight * other.Consistency
	l.Locality += weight * other.Locality
	l.Total += weight * other.Total
}

// Add adds weight times other losses.
func (l *RolloutLosses) Add(other RolloutLosses, weight float64) {
	l.Act += weight * other.Act
	l.ActNext += weight * other.ActNext
	l.Delta += weight * other.Delta
	l.Roll += weight * other.Roll
	l.Flow += weight * other.Flow
	l.LieAct += weight * other.LieAct
	l.LieDelta += weight * other.LieDelta
	l.LieAnchor += weight * other.LieAnchor
	l.LieReg += weight * other.LieReg
	l.Total += weight * other.Total
}
