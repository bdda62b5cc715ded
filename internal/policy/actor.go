package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/safetensors"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Activations of the hidden layers, and what bounds the answer: tanh is part of the network,
// clip is what an environment does with an action beyond its space.
const (
	ReLU = "relu"
	Tanh = "tanh"
	Clip = "clip"
)

// Actor is the deterministic part of a policy: answer = output(MLP(clip((x − Mean)·Scale))),
// in float32. x is the observation and the answer lies in [−1, 1].
type Actor struct {
	Provenance
	Mean, Scale []float32 // of the observation
	Bound       float32   // of its normalised entries: ±
	Network     model.MLP
	Activation  string // between the layers: ReLU or Tanh
	Output      string // of the last: Tanh or Clip
}

// Provenance says what an actor was trained on and by what.
type Provenance struct {
	Case          string
	ProblemSHA256 string            // of the problem, see domain.FingerprintOf
	Algorithm     string            // one of Algorithms
	Library       string            // that it was trained with, and its version
	Seed          uint64            // of the training
	Interactions  int64             // decisions that it was trained on
	Preference    domain.Preference // that its reward was scored under
}

// kind is what the file of an actor keeps to.
var kind = safetensors.Kind{HeaderBytes: 1 << 16, FileBytes: 1 << 26, Tensors: 2 + 2*model.MaxLayers, Align: 8}

// Metadata of a file. The version is also that of what an actor observes and answers.
const (
	fileKind    = "gpc-actor"
	fileVersion = "1"
)

func layerName(i int) (weight, bias string) {
	return fmt.Sprintf("layer%d.weight", i), fmt.Sprintf("layer%d.bias", i)
}

// Write writes the file that Decode reads.
func (a *Actor) Write(w io.Writer) error {
	if err := a.validate(); err != nil {
		return err
	}
	metadata := map[string]string{
		"kind": fileKind, "version": fileVersion, "case": a.Case, "problem_sha256": a.ProblemSHA256, "algorithm": a.Algorithm, "library": a.Library,
		"seed": strconv.FormatUint(a.Seed, 10), "interactions": strconv.FormatInt(a.Interactions, 10),
		"preference": a.Preference.Text(), "activation": a.Activation, "output": a.Output, "bound": strconv.FormatFloat(float64(a.Bound), 'g', -1, 32),
	}
	tensors := []safetensors.Tensor{safetensors.OfVector("mean", a.Mean), safetensors.OfVector("scale", a.Scale)}
	for i, l := range a.Network.Layers {
		weight, bias := layerName(i)
		tensors = append(tensors, safetensors.OfMatrix(weight, l.W), safetensors.OfVector(bias, l.B))
	}
	return kind.Write(w, metadata, tensors)
}

// Decode reads the content of an actor's file. Anything that is not whole, of another version
// or not a finite number is an error that names it.
func Decode(data []byte) (*Actor, error) {
	metadata, tensors, err := kind.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("actor: %w", err)
	}
	if metadata["kind"] != fileKind {
		return nil, fmt.Errorf("actor: the kind of the file is %.40q, want %q: an actor that lab/baselines/common.py exports", metadata["kind"], fileKind)
	}
	if metadata["version"] != fileVersion {
		return nil, fmt.Errorf("actor: the version of the file is %.40q, this program reads version %q", metadata["version"], fileVersion)
	}
	a := &Actor{Activation: metadata["activation"], Output: metadata["output"]}
	a.Case, a.ProblemSHA256, a.Algorithm, a.Library = metadata["case"], metadata["problem_sha256"], metadata["algorithm"], metadata["library"]
	if a.Seed, err = strconv.ParseUint(metadata["seed"], 10, 64); err != nil {
		return nil, fmt.Errorf("actor: seed is %.40q, want a whole number of 64 bits", metadata["seed"])
	}
	if a.Interactions, err = strconv.ParseInt(metadata["interactions"], 10, 64); err != nil || a.Interactions < 0 {
		return nil, fmt.Errorf("actor: interactions is %.40q, want a whole number ≥ 0", metadata["interactions"])
	}
	if a.Preference, err = preference(metadata["preference"]); err != nil {
		return nil, err
	}
	bound, err := strconv.ParseFloat(metadata["bound"], 32)
	if err != nil {
		return nil, fmt.Errorf("actor: bound is %.40q, want a number", metadata["bound"])
	}
	a.Bound = float32(bound)
	if a.Mean, a.Scale = vector(tensors, "mean"), vector(tensors, "scale"); a.Mean == nil || a.Scale == nil {
		return nil, fmt.Errorf("actor: want the vectors mean and scale")
	}
	for i := 0; 2+2*i < len(tensors); i++ {
		weight, bias := layerName(i)
		w, b := tensors[weight], vector(tensors, bias)
		if len(w.Shape) != 2 || b == nil {
			return nil, fmt.Errorf("actor: want the matrix %s, of F32 or F16, and the vector %s of F32", weight, bias)
		}
		a.Network.Layers = append(a.Network.Layers, model.Layer{W: tensor.Matrix{Rows: w.Shape[0], Cols: w.Shape[1], Stride: w.Shape[1], Data: w.Data}, B: b})
	}
	if err := a.validate(); err != nil {
		return nil, err
	}
	return a, nil
}

func preference(text string) (p domain.Preference, err error) {
	if text == domain.AdaptiveText {
		return domain.Preference{Adaptive: true}, nil
	}
	for _, weight := range strings.Split(text, ",") {
		w, err := strconv.ParseFloat(weight, 64)
		if err != nil {
			return p, fmt.Errorf("actor: preference is %.100q, want %q or weights", text, domain.AdaptiveText)
		}
		p.W = append(p.W, w)
	}
	if err := p.Validate(len(p.W)); err != nil {
		return p, fmt.Errorf("actor: %w", err)
	}
	return p, nil
}

// vector is the tensor of that name, nil where there is no vector of float32.
func vector(tensors map[string]safetensors.Tensor, name string) []float32 {
	if t := tensors[name]; len(t.Shape) == 1 && !t.Half {
		return t.Data
	}
	return nil
}

func (a *Actor) validate() error {
	if err := a.Network.Validate(); err != nil {
		return fmt.Errorf("actor: %w", err)
	}
	n := a.Network.In()
	switch {
	case !slices.Contains(Algorithms(), a.Algorithm):
		return fmt.Errorf("actor: the algorithm is %.40q, want one of %q", a.Algorithm, Algorithms())
	case a.Activation != ReLU && a.Activation != Tanh:
		return fmt.Errorf("actor: the activation is %.40q, want %q or %q", a.Activation, ReLU, Tanh)
	case a.Output != Tanh && a.Output != Clip:
		return fmt.Errorf("actor: the output is %.40q, want %q or %q", a.Output, Tanh, Clip)
	case len(a.Mean) != n || len(a.Scale) != n:
		return fmt.Errorf("actor: mean and scale have %d and %d entries, the network reads %d", len(a.Mean), len(a.Scale), n)
	case !(a.Bound > 0) || math.IsInf(float64(a.Bound), 0):
		return fmt.Errorf("actor: bound is %v, want a finite number > 0", a.Bound)
	}
	for i := range n {
		if !(a.Scale[i] > 0) || a.Scale[i]-a.Scale[i] != 0 || a.Mean[i]-a.Mean[i] != 0 {
			return fmt.Errorf("actor: entry %d of the observation has mean %v and scale %v, want finite numbers and a scale > 0", i, a.Mean[i], a.Scale[i])
		}
	}
	return nil
}

// Fits says why the actor is none for a case of that Spec. trained is the problem that it has
// to be made for, nil where that is not at hand.
func (a *Actor) Fits(spec *domain.Spec, trained domain.Problem) error {
	if a.Case != spec.Name {
		return fmt.Errorf("the actor was trained for case %q, want %q", a.Case, spec.Name)
	}
	if in, out := spec.MeasuredSize()+spec.ContextSize(), spec.ActionSize(); a.Network.In() != in || a.Network.Out() != out {
		return fmt.Errorf("the actor takes %d values and gives %d, case %q has %d and %d", a.Network.In(), a.Network.Out(), spec.Name, in, out)
	}
	if trained == nil {
		return nil
	}
	if own := durable.Sum(domain.FingerprintOf(trained)); a.ProblemSHA256 != own {
		return fmt.Errorf("the actor was trained on other equations than those of case %s, though name and sizes are the same: its problem_sha256 is %.64s, that of the case is %s",
			spec.Name, cmp.Or(a.ProblemSHA256, "missing"), own)
	}
	return nil
}

// network is an actor with the workspace of one evaluation.
type network struct {
	*Actor
	x     []float32   // normalised
	after [][]float32 // each layer
}

func (a *Actor) network() *network {
	n := &network{Actor: a, x: make([]float32, a.Network.In())}
	for _, l := range a.Network.Layers {
		n.after = append(n.after, make([]float32, l.W.Rows))
	}
	return n
}

// forward is the answer to an observation, valid until the next call.
func (n *network) forward(observation []float32) []float32 {
	for i, v := range observation {
		n.x[i] = min(max((v-n.Mean[i])*n.Scale[i], -n.Bound), n.Bound)
	}
	x := n.x
	for i, l := range n.Network.Layers {
		y := n.after[i]
		for j := range y {
			y[j] = l.B[j] + dot(l.W.Row(j), x)
		}
		f := n.Activation
		if i == len(n.after)-1 {
			f = n.Output
		}
		activate(f, y)
		x = y
	}
	return x
}

func activate(f string, y []float32) {
	for j, v := range y {
		switch f {
		case ReLU:
			y[j] = max(v, 0)
		case Tanh:
			y[j] = float32(math.Tanh(float64(v)))
		case Clip:
			y[j] = min(max(v, -1), 1)
		}
	}
}

// dot is Σ wᵢ xᵢ in eight sums, which keeps both time and rounding low.
func dot(w, x []float32) float32 {
	var s [8]float32
	x = x[:len(w)]
	whole := len(w) &^ 7
	for i := 0; i < whole; i += 8 {
		a, b := w[i:i+8:i+8], x[i:i+8:i+8]
		s[0] += a[0] * b[0]
		s[1] += a[1] * b[1]
		s[2] += a[2] * b[2]
		s[3] += a[3] * b[3]
		s[4] += a[4] * b[4]
		s[5] += a[5] * b[5]
		s[6] += a[6] * b[6]
		s[7] += a[7] * b[7]
	}
	for i := whole; i < len(w); i++ {
		s[i-whole] += w[i] * x[i]
	}
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
}
