package model

import (
	"fmt"
	"strconv"

	"github.com/gpc-engine/gpc/internal/safetensors"
)

// Parameter is one tensor of a model's file (docs/reference/formats.md): a vector, or a row-major matrix.
type Parameter = safetensors.Tensor

// Parameters are the tensors of the model's file, in its order. They alias the model.
func (m *Model) Parameters() (tensors []Parameter) {
	networks := m.networks()
	if m.DecoderUManifold != nil {
		networks = append(networks, m.manifoldDecoder())
	}
	for _, n := range networks {
		for i, l := range (*n.net).Layers {
			prefix := n.name + "." + strconv.Itoa(i)
			tensors = append(tensors,
				safetensors.OfMatrix(prefix+".weight", l.W),
				safetensors.OfVector(prefix+".bias", l.B))
		}
		if n.norm == nil {
			continue
		}
		tensors = append(tensors,
			safetensors.OfVector("norm_"+n.name+".mean", n.norm.Mean),
			safetensors.OfVector("norm_"+n.name+".scale", n.norm.Scale))
	}
	if m.Codes.Rows > 0 {
		codes := safetensors.OfMatrix("codes", m.Codes)
		codes.Half = fitsHalf(codes.Data)
		tensors = append(tensors, codes)
	}
	return tensors
}

// Replaced is a model of these tensors, whatever Half says of them, with the case, the
// calibration and the navigation of m and the provenance given. It refuses what Read refuses:
// a tensor that is missing, unknown, there twice, or does not fit. It aliases them.
func (m *Model) Replaced(parameters []Parameter, provenance Provenance) (*Model, error) {
	tensors := map[string]Parameter{}
	for _, p := range parameters {
		if _, ok := tensors[p.Name]; ok {
			return nil, fmt.Errorf("model: tensor %s appears twice", p.Name)
		}
		tensors[p.Name] = p
	}
	result := &Model{Case: m.Case, Calibration: m.Calibration, Navigation: m.Navigation, Provenance: provenance}
	if err := result.take(tensors); err != nil {
		return nil, err
	}
	return result, nil
}
