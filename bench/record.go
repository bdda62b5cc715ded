package bench

import (
	"bytes"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/safetensors"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// records are read by other programs alone, so nothing but the format limits them.
var records = safetensors.Kind{HeaderBytes: 1 << 20, FileBytes: math.MaxInt64, Tensors: 1 << 10, Align: 8}

// record writes a step as a safetensors file: DECODER.LAYER.{weight,bias} with
// DECODER one of decoder_s and decoder_u, weights [out][in]; inputs z, x and weights;
// results z_next and u. Its constants are metadata.
func record(path string, cfg backend.StepperConfig, in backend.StepInput, out backend.StepOutput) error {
	p := cfg.Params
	constants := map[string]string{
		"dt": fmt.Sprint(p.Dt), "vmax": fmt.Sprint(p.VMax), "epsilon": fmt.Sprint(p.Epsilon), "lambda": fmt.Sprint(p.MetricLambda),
		"top_k": fmt.Sprint(p.TopK), "lie_gain": fmt.Sprint(p.LieGain), "lie_scale": fmt.Sprint(p.LieScale),
	}
	var tensors []safetensors.Tensor
	for _, d := range []struct {
		name string
		mlp  *model.MLP
	}{{"decoder_s", cfg.DecoderS}, {"decoder_u", cfg.DecoderU}} {
		for i, l := range d.mlp.Layers {
			tensors = append(tensors,
				safetensors.OfMatrix(fmt.Sprintf("%s.%d.weight", d.name, i), l.W),
				safetensors.OfMatrix(fmt.Sprintf("%s.%d.bias", d.name, i), tensor.Broadcast(l.B, 1)))
		}
	}
	tensors = append(tensors,
		safetensors.OfMatrix("z", in.Z), safetensors.OfMatrix("x", in.X), safetensors.OfMatrix("weights", in.Weights),
		safetensors.OfMatrix("z_next", out.Z), safetensors.OfMatrix("u", out.U))
	var file bytes.Buffer
	if err := records.Write(&file, constants, tensors); err != nil {
		return err
	}
	return durable.WriteFile(path, file.Bytes(), 0o644)
}
