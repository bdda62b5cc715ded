package training

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/tensor"
)

// Trainer is the reference of backend.Trainer. Losses and gradients are
// float64; parameters, moments and power-iteration vectors are rounded to
// float32 after every update, so that a State holds them exactly.
//
// One ManifoldStep is: gradient of ManifoldLoss on the rows, Adam on all four
// networks with t = manifold steps made so far + 1, then SpectralBound on every
// weight matrix. PrepareRollout sets D_u's moments and the count of rollout
// steps to zero and freezes the encoders and D_s: ManifoldStep is an error from
// then on. One RolloutStep is: gradient of RolloutLoss, Adam on D_u with t =
// rollout steps made so far + 1, SpectralBound on D_u.
type Trainer struct {
	cfg             backend.TrainerConfig
	nets            Networks
	first, second   Networks       // Adam's moments m and v
	power           [4][][]float64 // per network and layer: left vector of the power iteration
	manifoldSteps   int64
	rolloutSteps    int64
	rolloutPrepared bool
	latents         map[int32]RolloutLatents
	chain           backend.Chain // without rows: none
}

// NewTrainer implements backend.Backend. Data and networks are copied.
func (b Backend) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Data = backend.TrainingSet{
		X: cfg.Data.X.Clone(), O: cfg.Data.O.Clone(), S: cfg.Data.S.Clone(), U: cfg.Data.U.Clone(),
		Next: slices.Clone(cfg.Data.Next), RiskWeight: slices.Clone(cfg.Data.RiskWeight),
	}
	t := &Trainer{cfg: cfg, nets: Networks{
		EncoderX: ref.Widen(cfg.Initial.EncoderX), EncoderO: ref.Widen(cfg.Initial.EncoderO),
		DecoderU: ref.Widen(cfg.Initial.DecoderU), DecoderS: ref.Widen(cfg.Initial.DecoderS),
	}}
	t.first, t.second = t.nets.ZeroLike(), t.nets.ZeroLike()
	for n, net := range t.nets.All() {
		for _, layer := range net.Layers {
			u := PowerStart(layer.Out)
			round(u)
			t.power[n] = append(t.power[n], u)
		}
	}
	return t, nil
}

func (t *Trainer) manifoldBatch(op string, rows, neighbours []int32, kernel []float32) (ManifoldBatch, error) {
	var batch ManifoldBatch
	if err := t.cfg.CheckManifold(op, rows, neighbours, kernel); err != nil {
		return batch, err
	}
	for _, j := range neighbours {
		batch.NeighbourX = append(batch.NeighbourX, wide(t.cfg.Data.X.Row(int(j))))
		batch.NeighbourU = append(batch.NeighbourU, wide(t.cfg.Data.U.Row(int(j))))
	}
	batch.Kernel = wide(kernel)
	for _, r := range rows {
		batch.X = append(batch.X, wide(t.cfg.Data.X.Row(int(r))))
		batch.O = append(batch.O, wide(t.cfg.Data.O.Row(int(r))))
		batch.S = append(batch.S, wide(t.cfg.Data.S.Row(int(r))))
		batch.U = append(batch.U, wide(t.cfg.Data.U.Row(int(r))))
	}
	return batch, nil
}

// ManifoldLoss implements backend.Trainer.
func (t *Trainer) ManifoldLoss(rows, neighbours []int32, kernel []float32) (backend.ManifoldLosses, error) {
	batch, err := t.manifoldBatch("ManifoldLoss", rows, neighbours, kernel)
	if err != nil {
		return backend.ManifoldLosses{}, err
	}
	loss, _ := ManifoldLoss(t.nets, batch, t.cfg.Manifold)
	return loss, nil
}

// ManifoldStep implements backend.Trainer. The losses are those before the
// update.
func (t *Trainer) ManifoldStep(rows, neighbours []int32, kernel []float32, lr float32) (backend.ManifoldLosses, error) {
	if t.rolloutPrepared {
		return backend.ManifoldLosses{}, fmt.Errorf("ManifoldStep: PrepareRollout has frozen E_x, E_o and D_s")
	}
	batch, err := t.manifoldBatch("ManifoldStep", rows, neighbours, kernel)
	if err != nil {
		return backend.ManifoldLosses{}, err
	}
	if err := backend.CheckRate("ManifoldStep", lr); err != nil {
		return backend.ManifoldLosses{}, err
	}
	loss, grad := ManifoldLoss(t.nets, batch, t.cfg.Manifold)
	t.manifoldSteps++
	for n, g := range grad.All() {
		t.update(n, g, t.manifoldSteps, lr)
	}
	return loss, nil
}

// update makes Adam's update number step of network n and applies the spectral
// bound.
func (t *Trainer) update(n int, grad *ref.MLP, step int64, lr float32) {
	net, m, v := t.nets.All()[n], t.first.All()[n], t.second.All()[n]
	for l, g := range grad.Layers {
		layer := net.Layers[l]
		AdamUpdate(layer.W, g.W, m.Layers[l].W, v.Layers[l].W, step, float64(lr), t.cfg.Adam)
		AdamUpdate(layer.B, g.B, m.Layers[l].B, v.Layers[l].B, step, float64(lr), t.cfg.Adam)
		if t.cfg.SpectralBound > 0 {
			SpectralBound(layer, t.power[n][l], float64(t.cfg.SpectralBound))
		}
		for _, values := range [][]float64{layer.W, layer.B, m.Layers[l].W, m.Layers[l].B, v.Layers[l].W, v.Layers[l].B, t.power[n][l]} {
			round(values)
		}
	}
}

// round rounds every entry to float32.
func round(v []float64) {
	for i := range v {
		v[i] = float64(float32(v[i]))
	}
}

// PrepareRollout implements backend.Trainer.
func (t *Trainer) PrepareRollout() error {
	if err := t.computeLatents(); err != nil {
		return err
	}
	t.first.DecoderU, t.second.DecoderU = ZeroLike(t.nets.DecoderU), ZeroLike(t.nets.DecoderU)
	t.rolloutSteps, t.rolloutPrepared = 0, true
	return nil
}

// SetChain implements backend.Trainer.
func (t *Trainer) SetChain(c backend.Chain) error {
	if err := t.cfg.CheckChain("SetChain", t.rolloutPrepared, t.nets.DecoderU.In(), c); err != nil {
		return err
	}
	t.chain = backend.Chain{Z: c.Z.Clone(), Weight: slices.Clone(c.Weight)}
	return nil
}

func (t *Trainer) computeLatents() error {
	if err := t.cfg.CheckPairs("PrepareRollout"); err != nil {
		return err
	}
	t.chain = backend.Chain{}
	latents := map[int32]RolloutLatents{}
	for i, next := range t.cfg.Data.Next {
		if next < 0 || t.cfg.Rollout.Horizon > 0 {
			continue
		}
		z := t.nets.EncoderX.Forward(wide(t.cfg.Data.X.Row(i)))
		zNext := t.nets.EncoderX.Forward(wide(t.cfg.Data.X.Row(int(next))))
		latents[int32(i)] = Rollout(t.nets.DecoderS, z, zNext, t.cfg.Rollout)
	}
	t.latents = latents
	return nil
}

// rolloutLoss is the loss of the rollout phase and its gradient.
func (t *Trainer) rolloutLoss(op string, rows []int32) (loss backend.RolloutLosses, grad *ref.MLP, err error) {
	if err := t.cfg.CheckRollout(op, t.rolloutPrepared, t.chain.Z.Rows > 0, rows); err != nil {
		return loss, nil, err
	}
	if h := t.cfg.Rollout.Horizon; h > 0 {
		var batch ChainBatch
		for _, r := range rows {
			batch.Z = append(batch.Z, t.nets.EncoderX.Forward(wide(t.cfg.Data.X.Row(int(r)))))
			batch.U = append(batch.U, wide(t.cfg.Data.U.Row(int(r))))
			var chain [][]float64
			for i := int(r) * h; i < int(r+1)*h; i++ {
				chain = append(chain, wide(t.chain.Z.Row(i)))
			}
			batch.Chain, batch.Weight = append(batch.Chain, chain), append(batch.Weight, wide(t.chain.Weight[int(r)*h:int(r+1)*h]))
		}
		loss, grad = ChainLoss(t.nets.DecoderU, batch, t.cfg.Rollout)
		return loss, grad, nil
	}
	var batch RolloutBatch
	for _, r := range rows {
		next := t.cfg.Data.Next[r]
		batch.Latents = append(batch.Latents, t.latents[r])
		batch.U = append(batch.U, wide(t.cfg.Data.U.Row(int(r))))
		batch.UNext = append(batch.UNext, wide(t.cfg.Data.U.Row(int(next))))
		batch.Risk = append(batch.Risk, float64(t.cfg.Data.RiskWeight[r]))
	}
	loss, grad = RolloutLoss(t.nets.DecoderU, batch, t.cfg.Rollout)
	return loss, grad, nil
}

// RolloutLoss implements backend.Trainer.
func (t *Trainer) RolloutLoss(rows []int32) (backend.RolloutLosses, error) {
	loss, _, err := t.rolloutLoss("RolloutLoss", rows)
	return loss, err
}

// RolloutStep implements backend.Trainer. The losses are those before the
// update.
func (t *Trainer) RolloutStep(rows []int32, lr float32) (backend.RolloutLosses, error) {
	loss, grad, err := t.rolloutLoss("RolloutStep", rows)
	if err != nil {
		return backend.RolloutLosses{}, err
	}
	if err := backend.CheckRate("RolloutStep", lr); err != nil {
		return backend.RolloutLosses{}, err
	}
	t.rolloutSteps++
	t.update(2, grad, t.rolloutSteps, lr)
	return loss, nil
}

// Networks implements backend.Trainer.
func (t *Trainer) Networks() (backend.Networks, error) {
	return backend.Networks{
		EncoderX: narrow(t.nets.EncoderX), EncoderO: narrow(t.nets.EncoderO),
		DecoderU: narrow(t.nets.DecoderU), DecoderS: narrow(t.nets.DecoderS),
	}, nil
}

// arrays lists everything that a step changes under its name in a
// backend.TrainerState.
func (t *Trainer) arrays() map[string][]float64 {
	a := map[string][]float64{}
	for n, name := range backend.NetworkNames {
		net, m, v := t.nets.All()[n], t.first.All()[n], t.second.All()[n]
		for l := range net.Layers {
			prefix := fmt.Sprintf("%s.%d.", name, l)
			a[prefix+"weight"], a[prefix+"bias"] = net.Layers[l].W, net.Layers[l].B
			a[prefix+"weight.m"], a[prefix+"bias.m"] = m.Layers[l].W, m.Layers[l].B
			a[prefix+"weight.v"], a[prefix+"bias.v"] = v.Layers[l].W, v.Layers[l].B
			a[prefix+"power"] = t.power[n][l]
		}
	}
	return a
}

// State implements backend.Trainer.
func (t *Trainer) State() (backend.TrainerState, error) {
	s := backend.TrainerState{
		Arrays: map[string][]float32{}, ManifoldSteps: t.manifoldSteps, RolloutSteps: t.rolloutSteps, RolloutPrepared: t.rolloutPrepared,
	}
	for name, values := range t.arrays() {
		s.Arrays[name] = make([]float32, len(values))
		tensor.Narrow(s.Arrays[name], values)
	}
	return s, nil
}

// Restore implements backend.Trainer. The arrays must be those of a trainer of
// the same networks; on an error nothing is changed. Rollout latents are
// computed again from the frozen networks.
func (t *Trainer) Restore(s backend.TrainerState) error {
	arrays := t.arrays()
	sizes := map[string]int{}
	for name, values := range arrays {
		sizes[name] = len(values)
	}
	if err := t.cfg.CheckState("Restore", s, sizes); err != nil {
		return err
	}
	for name, values := range arrays {
		tensor.Widen(values, s.Arrays[name])
	}
	t.manifoldSteps, t.rolloutSteps, t.rolloutPrepared = s.ManifoldSteps, s.RolloutSteps, s.RolloutPrepared
	if t.rolloutPrepared {
		return t.computeLatents()
	}
	return nil
}
