package bench

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// coarse is a backend whose networks round their results as TF32 rounds inputs.
type coarse struct{ backend.Backend }

func (c coarse) Describe() backend.Description {
	d := c.Backend.Describe()
	d.Precision = "tf32"
	return d
}

func (c coarse) NewNet(mlp *model.MLP) (backend.Net, error) {
	n, err := c.Backend.NewNet(mlp)
	return coarseNet{n}, err
}

type coarseNet struct{ backend.Net }

func (n coarseNet) Forward(z, y tensor.Matrix) error {
	err := n.Net.Forward(z, y)
	for i := range y.Rows {
		for j, v := range y.Row(i) {
			y.Row(i)[j] = math.Float32frombits(math.Float32bits(v) &^ 0x1fff)
		}
	}
	return err
}

func open(t *testing.T) backend.Backend {
	t.Helper()
	b := require.Get(cpufallback.New(cpufallback.Options{Threads: 1}))(t)
	t.Cleanup(func() { b.Close() })
	return b
}

func run(t *testing.T, b backend.Backend, opt Options) []Result {
	t.Helper()
	opt.Budget = Budget{Time: time.Millisecond, MinCalls: 2}
	results := require.Get(Run(context.Background(), b, func() float64 { return 1e11 }, opt))(t)
	return results
}

// The error that is printed is that of the precision that was timed, float32's beside
// it from the same run; a training, which the reference has none of, prints none.
func TestErrorsOfARun(t *testing.T) {
	b := open(t)
	for _, r := range run(t, b, Options{Ops: []string{"gemm", "metric", "step", "train"}, Case: "size:integrator", Batches: []int{3}}) {
		if r.Op == "train" {
			if r.Error != nil {
				t.Errorf("%s: error %+v", r.Op, r.Error)
			}
		} else if r.Error == nil || !(r.Error.Max > 0 && r.Error.Max < 1e-4 && r.Error.RMS <= r.Error.Max) || r.Error.Float32Max != 0 {
			t.Errorf("%s in float32: error %+v", r.Op, r.Error)
		}
		if !(r.GFlop > 0) || math.Abs(r.Fraction-r.GFlop/(r.P50*1e-6)/100) > 1e-9 || r.Min > r.P50 {
			t.Errorf("%s: %+v", r.Op, r)
		}
	}
	r := run(t, coarse{b}, Options{Ops: []string{"gemm"}, Batches: []int{3}, Float32: b})[0]
	if r.Precision != "tf32" || r.Error == nil || !(r.Error.Max > 20*r.Error.Float32Max && r.Error.Float32Max > 0) {
		t.Errorf("in TF32: %s, %+v", r.Precision, r.Error)
	}
}

// A training that is really run takes its epochs; one that is extrapolated says so.
func TestWholeTrainings(t *testing.T) {
	b := open(t)
	opt := Options{Ops: []string{"train-epochs"}, Case: "size:integrator", Batches: []int{16}, Samples: 40, Epochs: 3}
	r := run(t, b, opt)[0]
	if r.Extrapolated || r.Epochs != 3 || r.Samples != 40 || !(r.GFlop > 0) {
		t.Errorf("run: %+v", r)
	}
	work := r.GFlop / 3
	opt.Epochs = 0
	r = run(t, b, opt)[0]
	if !r.Extrapolated || r.Epochs != defaultEpochs || math.Abs(r.GFlop/float64(defaultEpochs)-work) > 1e-9*work {
		t.Errorf("extrapolated: %+v, %g GFLOP an epoch", r, work)
	}
}

// Launches are a device's: elsewhere their times are refused with what to ask for.
func TestLaunchesAreADevices(t *testing.T) {
	_, err := Run(context.Background(), open(t), nil, Options{Ops: []string{"kernels"}, Case: "size:integrator", Batches: []int{2}})
	if err == nil || !strings.Contains(err.Error(), "--backend cuda") {
		t.Errorf("launches of the CPU: %v", err)
	}
	launch := Launch{Of: "step", Place: 2, Kernel: "gpc_eig", Grid: [2]int{64, 1}, Block: 32, Limit: 15.2, By: "latency", Latency: 15.2}
	rows := Rows([]Result{{Op: "kernels", Case: "opf30", Batch: 64, Launch: &launch}, {Op: "kernels", Case: "opf30", Batch: 64, P50: 30.4, Calls: 20, Launch: &launch}})
	if without, with := rows[1], rows[2]; without[13] != "–" || without[7] != "15.2" || with[13] != "30.4" || with[14] != "0.50" {
		t.Errorf("%q", rows)
	}
}

// The record holds what a step is made of, and a size is asked for by its prefix.
func TestRecordOfAStep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "step.safetensors")
	run(t, open(t), Options{Ops: []string{"step"}, Case: "size:opf30", Batches: []int{2}, Record: file})
	info := require.Get(os.Stat(file))(t)
	weights := 0
	for _, out := range []int{60, 12} {
		weights += 32*256 + 256 + 256*256 + 256 + 256*out + out
	}
	want := 4 * (weights + 2*(32+60+3+32+12))
	if over := int(info.Size()) - want; over < 100 || over > 4096 {
		t.Errorf("the record has %d bytes, want %d and a header", info.Size(), want)
	}
	if _, err := shapeOf("size:cart", nil); err == nil {
		t.Error("a size that does not exist is accepted")
	}
}

// A refinement has roll-outs in a plant: asked for without one it says what it wants, and among all
// operations it is left out.
func TestRefinementsNeedAPlant(t *testing.T) {
	for _, name := range []string{"", "size:opf30"} {
		opt := Options{Ops: []string{"gemm", "refine"}, Case: name}
		if err := opt.Validate(); err == nil || !strings.Contains(err.Error(), "bench refine: a size alone has no roll-outs: --case names a case") {
			t.Errorf("case %q: %v", name, err)
		}
		opt.Ops = nil
		require.OK(t, opt.Validate())
	}
}

// Codes are decoded on all cores to the bits of one core.
func TestForwardOnAllCoresIsThatOfOne(t *testing.T) {
	net := require.Get(model.NewMLP(rand.New(rand.NewPCG(1, 2)), 5, 9, 7))(t)
	for _, rows := range []int{0, 1, 3, 257} {
		in, want, got := tensor.New(rows, 5), tensor.New(rows, 7), tensor.New(rows, 7)
		for i := range in.Data {
			in.Data[i] = float32(i%13) - 6
		}
		require.OK(t, net.Forward(in, want))
		require.OK(t, forward(net, in, got))
		if !slices.Equal(got.Data, want.Data) {
			t.Errorf("%d rows differ", rows)
		}
	}
	if err := forward(net, tensor.New(9, 4), tensor.New(9, 7)); err == nil {
		t.Error("a matrix of another width is taken")
	}
}

// The program that times others beside a recorded step takes its constants, and none of the checksums beside them.
func TestStepPyTakesTheConstantsOfARecord(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "step.safetensors")
	cfg := backend.StepperConfig{
		DecoderS: require.Get(model.NewMLP(rng, 2, 3))(t), DecoderU: require.Get(model.NewMLP(rng, 2, 1))(t),
		Params: backend.StepParams{Dt: 0.25, VMax: 2, Epsilon: 0.5, MetricLambda: 1e-3, TopK: 3, LieGain: 0.125, LieScale: 4},
	}
	in := backend.StepInput{Z: tensor.New(1, 2), X: tensor.New(1, 3), Weights: tensor.New(1, 2)}
	require.OK(t, record(path, cfg, in, backend.StepOutput{Z: tensor.New(1, 2), U: tensor.New(1, 1)}))
	file := require.Get(os.ReadFile(path))(t)
	var header struct {
		Metadata json.RawMessage `json:"__metadata__"`
	}
	require.OK(t, json.Unmarshal(file[8:8+binary.LittleEndian.Uint64(file)], &header))
	if !strings.Contains(string(header.Metadata), "sha256") {
		t.Fatalf("metadata without a checksum: %s", header.Metadata)
	}
	const program = "import json, sys; import step; print(json.dumps(step.constants(json.load(sys.stdin))))"
	command := exec.Command(python, "-B", "-c", program)
	command.Dir, command.Stdin = "../lab/peers", strings.NewReader(string(header.Metadata))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got map[string]float64
	require.OK(t, json.Unmarshal(out, &got))
	want := map[string]float64{"dt": 0.25, "vmax": 2, "epsilon": 0.5, "lambda": 1e-3, "top_k": 3, "lie_gain": 0.125, "lie_scale": 4}
	if !maps.Equal(got, want) {
		t.Errorf("constants %v, want %v", got, want)
	}
}

// The reference is measured by all that it does, which training is not.
func TestTheReferenceIsMeasuredWithoutTraining(t *testing.T) {
	var ops []string
	_, err := Run(t.Context(), ref.New(), nil, Options{Case: "size:integrator", Batches: []int{1}, Codes: []int{4}, Budget: Budget{Time: time.Microsecond, MinCalls: 2}, Report: func(r Result) { ops = append(ops, r.Op) }})
	if err != nil || len(ops) == 0 || slices.Contains(ops, "train") {
		t.Errorf("measured %v: %v", ops, err)
	}
}
