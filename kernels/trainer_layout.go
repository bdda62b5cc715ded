package kernels

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// trainLayer is where one affine layer lies in the trainer's arenas. Parameters
// and both moments have one layout, in floats from offset on: out rows of weights
// of step ld, then out biases, then zeros to size. The left vector of the power
// iteration lies in an arena of its own.
type trainLayer struct {
	in, out, ld         int
	offset, size, power int
	gradient            int // of its partial sums, in floats, with room for every split
}

// trainNet is one network in training.
type trainNet []trainLayer

func (n trainNet) inputSize() int  { return n[0].in }
func (n trainNet) outputSize() int { return n[len(n)-1].out }

// trainLayout is where all four networks lie, in the order of
// backend.NetworkNames.
type trainLayout struct {
	nets         [4]trainNet
	size, powers int // floats of each arena
	horizon      int // of the chains of rollout training; 0: transitions
}

func newTrainLayout(cfg backend.TrainerConfig) trainLayout {
	t := trainLayout{horizon: cfg.Rollout.Horizon}
	for n, mlp := range cfg.Initial.All() {
		for _, l := range mlp.Layers {
			layer := trainLayer{in: l.W.Cols, out: l.W.Rows, ld: quads(l.W.Cols), offset: t.size, power: t.powers}
			layer.size = layer.out*layer.ld + quads(layer.out)
			t.size += layer.size
			t.powers += quads(layer.out)
			t.nets[n] = append(t.nets[n], layer)
		}
	}
	return t
}

// trainArrays are the arenas on the host, each of the layout's length.
type trainArrays struct {
	parameters, first, second, power []float32
}

func (t trainLayout) arrays() trainArrays {
	return trainArrays{make([]float32, t.size), make([]float32, t.size), make([]float32, t.size), make([]float32, t.powers)}
}

// begin fills the arenas as training starts: the initial parameters, moments 0
// and the power iteration's start.
func (t trainLayout) begin(initial backend.Networks) trainArrays {
	a := t.arrays()
	for n, mlp := range initial.All() {
		for i, l := range t.nets[n] {
			for o := range l.out {
				copy(a.parameters[l.offset+o*l.ld:], mlp.Layers[i].W.Row(o))
			}
			copy(a.parameters[l.offset+l.out*l.ld:], mlp.Layers[i].B)
			for o := range l.out {
				a.power[l.power+o] = float32(1 / math.Sqrt(float64(l.out)))
			}
		}
	}
	return a
}

// networks copies the parameters out of an arena.
func (t trainLayout) networks(parameters []float32) backend.Networks {
	var all [4]*model.MLP
	for n, net := range t.nets {
		all[n] = &model.MLP{}
		for _, l := range net {
			layer := model.Layer{W: tensor.New(l.out, l.in), B: make([]float32, l.out)}
			l.weights(parameters, layer.W.Data, false)
			l.biases(parameters, layer.B, false)
			all[n].Layers = append(all[n].Layers, layer)
		}
	}
	return backend.Networks{EncoderX: all[0], EncoderO: all[1], DecoderU: all[2], DecoderS: all[3]}
}

// weights copies between the layer's part of an arena and a dense [out][in]
// array, to the arena if set.
func (l trainLayer) weights(arena, dense []float32, set bool) {
	for o := range l.out {
		exchange(arena[l.offset+o*l.ld:][:l.in], dense[o*l.in:], set)
	}
}

// biases is weights for the biases.
func (l trainLayer) biases(arena, dense []float32, set bool) {
	exchange(arena[l.offset+l.out*l.ld:][:l.out], dense, set)
}

// exchange copies a part of an arena to the beginning of dense, or the other way if set.
func exchange(part, dense []float32, set bool) {
	if dense = dense[:len(part)]; set {
		part, dense = dense, part
	}
	copy(dense, part)
}

// storedArray is one array of a backend.TrainerState and how it is moved between
// the arenas and the state.
type storedArray struct {
	name string
	size int
	move func(a trainArrays, dense []float32, set bool)
}

// stored lists the arrays of a state (backend.TrainerState).
func (t trainLayout) stored() []storedArray {
	arenas := []struct {
		suffix string
		arena  func(trainArrays) []float32
	}{
		{"", func(a trainArrays) []float32 { return a.parameters }},
		{".m", func(a trainArrays) []float32 { return a.first }},
		{".v", func(a trainArrays) []float32 { return a.second }},
	}
	var list []storedArray
	for n, net := range t.nets {
		for i, l := range net {
			prefix := fmt.Sprintf("%s.%d.", backend.NetworkNames[n], i)
			for _, arena := range arenas {
				list = append(list,
					storedArray{prefix + "weight" + arena.suffix, l.out * l.in, func(a trainArrays, dense []float32, set bool) { l.weights(arena.arena(a), dense, set) }},
					storedArray{prefix + "bias" + arena.suffix, l.out, func(a trainArrays, dense []float32, set bool) { l.biases(arena.arena(a), dense, set) }})
			}
			list = append(list, storedArray{prefix + "power", l.out, func(a trainArrays, dense []float32, set bool) {
				exchange(a.power[l.power:][:l.out], dense, set)
			}})
		}
	}
	return list
}
