package bench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/google/renameio/v2"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// record writes a step as a safetensors file: DECODER.LAYER.{weight,bias} with
// DECODER one of decoder_s and decoder_u, weights [out][in]; inputs z, x and weights;
// results z_next and u. Its constants are metadata.
func record(path string, cfg backend.StepperConfig, in backend.StepInput, out backend.StepOutput) error {
	type entry struct {
		Type    string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	p := cfg.Params
	header := map[string]any{"__metadata__": map[string]string{
		"dt": fmt.Sprint(p.Dt), "vmax": fmt.Sprint(p.VMax), "epsilon": fmt.Sprint(p.Epsilon), "lambda": fmt.Sprint(p.MetricLambda),
		"top_k": fmt.Sprint(p.TopK), "lie_gain": fmt.Sprint(p.LieGain), "lie_scale": fmt.Sprint(p.LieScale),
	}}
	var data bytes.Buffer
	add := func(name string, m tensor.Matrix) error {
		from := data.Len()
		for i := range m.Rows {
			if err := binary.Write(&data, binary.LittleEndian, m.Row(i)); err != nil {
				return err
			}
		}
		header[name] = entry{"F32", []int{m.Rows, m.Cols}, [2]int{from, data.Len()}}
		return nil
	}
	for _, d := range []struct {
		name string
		mlp  *model.MLP
	}{{"decoder_s", cfg.DecoderS}, {"decoder_u", cfg.DecoderU}} {
		for i, l := range d.mlp.Layers {
			if err := add(fmt.Sprintf("%s.%d.weight", d.name, i), l.W); err != nil {
				return err
			}
			if err := add(fmt.Sprintf("%s.%d.bias", d.name, i), tensor.Matrix{Rows: 1, Cols: len(l.B), Stride: len(l.B), Data: l.B}); err != nil {
				return err
			}
		}
	}
	for _, t := range []struct {
		name string
		m    tensor.Matrix
	}{{"z", in.Z}, {"x", in.X}, {"weights", in.Weights}, {"z_next", out.Z}, {"u", out.U}} {
		if err := add(t.name, t.m); err != nil {
			return err
		}
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	text = append(text, bytes.Repeat([]byte{' '}, (8-len(text)%8)%8)...)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return renameio.WriteFile(path, append(append(file, text...), data.Bytes()...), 0o644)
}
