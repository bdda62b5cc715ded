package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/paper/models"
	"github.com/gpc-engine/gpc/tensor"
)

// small is a valid model with 3 measured, 2 context, 2 objective and 2 action
// components and every field set.
func small(t testing.TB, seed uint64) *Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	const ns, nc, no, nu, nz, hidden = 3, 2, 2, 2, 4, 5
	m := &Model{
		Case:  "toy",
		Codes: tensor.New(6, nz),
		Calibration: Calibration{TauGeom: 1e-3, DeltaDec: 0.1 + rng.Float64(), DeltaDecP99: 1.0 / 3,
			ObjectiveIdeal: []float64{0, -1}, ObjectiveNadir: []float64{math.Pi, 1e-300}, LatentSpread: 2, ContextRange: [][2]float64{{-1, 1}, {0, 1.0 / 3}}},
		Provenance: Provenance{Command: "gpc train toy", Seed: math.MaxUint64, Version: "v0", Backend: "cpu", Samples: 7, ProblemSHA256: "01", DatasetSHA256: "ab", InitialSHA256: "23", Method: "direct", Choices: []string{"round 1", "no more"},
			Rounds: []Round{{SamplesSHA256: "cd", Samples: 7, Seed: 3, Scenarios: 2, Policy: Policy{"direct", "ef", "cpu"}, Distilled: true, Program: "v0", ISA: "x"}}},
		Navigation: json.RawMessage(`{"LatentStep": 0.10, "TopK":3}`),
	}
	for _, n := range []struct {
		net     **MLP
		norm    *Normalizer
		in, out int
		outputs bool
	}{
		{&m.EncoderX, &m.NormX, ns + nc + 1 + no, nz, false},
		{&m.EncoderO, &m.NormO, ns + 2*no, nz, false},
		{&m.DecoderS, &m.NormS, nz, ns, true},
		{&m.DecoderU, &m.NormU, nz, nu, true},
	} {
		net, err := NewMLP(rng, n.in, hidden, n.out)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range net.Layers {
			for i := range l.B {
				l.B[i] = float32(rng.NormFloat64())
			}
		}
		*n.net = net
		size := n.in
		if n.outputs {
			size = n.out
		}
		for range size {
			n.norm.Mean = append(n.norm.Mean, float32(rng.NormFloat64()))
			n.norm.Scale = append(n.norm.Scale, float32(rng.ExpFloat64())+0.01)
		}
	}
	for i := range m.Codes.Data {
		m.Codes.Data[i] = float32(rng.NormFloat64())
	}
	m.Codes.Data[0] = float32(math.Copysign(0, -1))
	m.Codes.Data[1] = math.SmallestNonzeroFloat32
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

func encode(t testing.TB, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readBack writes a model and reads the same again.
func readBack(t *testing.T, m *Model) *Model {
	t.Helper()
	got, err := Read(bytes.NewReader(encode(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Fatalf("read %+v, wrote %+v", got, m)
	}
	return got
}

func TestRoundTripIsBitwise(t *testing.T) {
	for seed := range uint64(5) {
		m := small(t, seed)
		first, got := encode(t, m), readBack(t, m)
		if math.Float32bits(got.Codes.Data[0]) != 1<<31 {
			t.Error("the sign of −0 is lost")
		}
		if !bytes.Equal(first, encode(t, got)) {
			t.Errorf("seed %d: writing what was read gives other bytes", seed)
		}
		if n := binary.LittleEndian.Uint64(first); n%8 != 0 {
			t.Errorf("header takes %d bytes, want a multiple of 8", n)
		}
	}
}

// Maps written before are the same bytes as those written now.
func TestBundledBytes(t *testing.T) {
	names, err := fs.Glob(models.Bundled, "*.safetensors")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d bundled maps: %v", len(names), err)
	}
	for _, name := range names {
		want, err := models.Bundled.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Read(bytes.NewReader(want))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(encode(t, m), want) {
			t.Errorf("%s: writing what was read gives other bytes", name)
		}
	}
}

func TestWithoutCodesAndNavigation(t *testing.T) {
	m := small(t, 1)
	m.Codes, m.Navigation = tensor.Matrix{}, nil
	readBack(t, m)
}

// Codes that float16 holds exactly take half the bytes and come back the same; D_u
// from before rollout-aware refinement comes back with the rest.
func TestHalfCodesAndManifoldDecoder(t *testing.T) {
	m := small(t, 3)
	whole := len(encode(t, m))
	RoundHalf(m.Codes.Data)
	if saved := whole - len(encode(t, m)); saved < 2*len(m.Codes.Data)-16 {
		t.Errorf("%d rounded codes save %d bytes", len(m.Codes.Data), saved)
	}
	m.DecoderUManifold = small(t, 4).DecoderU
	got := readBack(t, m)
	before, err := got.WithoutRollout()
	if err != nil {
		t.Fatal(err)
	}
	if before.DecoderU != got.DecoderUManifold || before.DecoderUManifold != nil || before.EncoderX != got.EncoderX {
		t.Error("the map without refinement has other networks")
	}
	if _, err := before.WithoutRollout(); err == nil {
		t.Error("no error where the earlier D_u was not kept")
	}
	m.DecoderUManifold = small(t, 4).EncoderX
	if err := m.Write(&bytes.Buffer{}); err == nil {
		t.Error("a D_u of other widths was written")
	}
}

func TestWriteFileReplacesWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.safetensors")
	m := small(t, 2)
	if err := m.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := small(t, 3)
	bad.Codes.Data[5] = float32(math.NaN())
	if err := bad.WriteFile(path); err == nil {
		t.Fatal("a model with a NaN code was written")
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("a failed write changed the file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("the folder holds %v, want the model alone", entries)
	}
	got, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Error("the file holds another model")
	}
}

// fullDisk takes room bytes and then fails.
type fullDisk struct{ room int }

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		n := d.room
		d.room = 0
		return n, errFull
	}
	d.room -= len(p)
	return len(p), nil
}

func TestWriteSurfacesAFullDisk(t *testing.T) {
	m := small(t, 1)
	size := len(encode(t, m))
	for room := 0; room < size; room += 13 {
		if err := m.Write(&fullDisk{room}); !errors.Is(err, errFull) {
			t.Fatalf("with room for %d of %d bytes: %v", room, size, err)
		}
	}
	if err := m.Write(&fullDisk{size}); err != nil {
		t.Fatal(err)
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	whole := encode(t, small(t, 1))
	for n := range whole {
		_, err := Read(bytes.NewReader(whole[:n]))
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("first %d of %d bytes: %v", n, len(whole), err)
		}
	}
	path := filepath.Join(t.TempDir(), "short.safetensors")
	if err := os.WriteFile(path, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadFile(path)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "codes") {
		t.Errorf("error %v names neither file nor tensor", err)
	}
}

var seal = regexp.MustCompile(`"sha256":"[0-9a-f]{64}"`)

// withHeader replaces the header of a container by edit(header), with a checksum that
// holds.
func withHeader(whole []byte, edit func(string) string) []byte {
	n := binary.LittleEndian.Uint64(whole)
	const unsealed = `"sha256":"0000000000000000000000000000000000000000000000000000000000000000"`
	header := seal.ReplaceAllString(edit(string(whole[8:8+n])), unsealed)
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	out = append(out, header...)
	out = bytes.Replace(out, []byte(unsealed), fmt.Appendf(nil, `"sha256":"%x"`, sha256.Sum256(out)), 1)
	return append(out, whole[8+n:]...)
}

// withTensors replaces the data of a container, with checksums that hold.
func withTensors(whole []byte, edit func(data []byte)) []byte {
	n := binary.LittleEndian.Uint64(whole)
	out := bytes.Clone(whole)
	data := out[8+n:]
	edit(data)
	var header map[string]struct {
		Offsets []int `json:"data_offsets"`
	}
	if err := json.Unmarshal(whole[8:8+n], &header); err != nil {
		panic(err)
	}
	delete(header, "__metadata__")
	spans := slices.Collect(maps.Values(header))
	sums := ""
	slices.SortFunc(spans, func(a, b struct {
		Offsets []int `json:"data_offsets"`
	}) int {
		return slices.Compare(a.Offsets, b.Offsets)
	})
	for _, s := range spans {
		sums += fmt.Sprintf("%x", sha256.Sum256(data[s.Offsets[0]:s.Offsets[1]]))
	}
	return withHeader(out, func(h string) string {
		return regexp.MustCompile(`"tensors_sha256":"[0-9a-f]*"`).ReplaceAllString(h, `"tensors_sha256":"`+sums+`"`)
	})
}

func replace(from, to string) func(string) string {
	return func(h string) string {
		if !strings.Contains(h, from) {
			panic("the header has no " + from)
		}
		return strings.Replace(h, from, to, 1)
	}
}

func TestRefusals(t *testing.T) {
	whole := encode(t, small(t, 1))
	header := func(from, to string) []byte { return withHeader(whole, replace(from, to)) }
	huge := binary.LittleEndian.AppendUint64(nil, 1<<40)
	infinite := withTensors(whole, func(data []byte) {
		binary.LittleEndian.PutUint32(data[len(data)-4:], math.Float32bits(float32(math.Inf(1))))
	})
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"huge header", huge, "header length is 1099511627776"},
		{"not JSON", withHeader(whole, func(string) string { return "hello" }), "not a JSON object"},
		{"trailing header bytes", withHeader(whole, func(h string) string { return h + "{}" }), "only spaces"},
		{"trailing data", append(bytes.Clone(whole), 0), "follow the last tensor"},
		{"other format", header(`"format":"gpc-model"`, `"format":"pt"`), `format is "pt"`},
		{"other version", header(`"version":"2"`, `"version":"3"`), `version is "3"`},
		{"no version", header(`"version":"2"`, `"other":"2"`), `version is ""`},
		{"unknown metadata", header(`"version":"2"`, `"version":"2","x":""`), `unknown key "x"`},
		{"unknown tensor", header(`"encoder_x.1.bias"`, `"encoder_x.9.bias"`), "encoder_x.1.bias is missing"},
		{"extra tensor", withTensors(withHeader(whole, replace(`{"__metadata__"`, `{"extra":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"__metadata__"`)), func([]byte) {}), `unknown tensor "extra"`},
		{"extra tensor without a checksum", header(`{"__metadata__"`, `{"extra":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"__metadata__"`), "digits, want 64"},
		{"no checksums", header(`"tensors_sha256"`, `"tensors_crc"`), "an earlier version"},
		{"duplicate tensor", header(`"encoder_x.1.bias"`, `"encoder_x.0.bias"`), "twice"},
		{"other dtype", header(`"F32"`, `"I32"`), `dtype is "I32"`},
		{"other shape", header(`"shape":[5,8]`, `"shape":[5,9]`), "needs 180"},
		{"swapped shape", header(`"shape":[5,8]`, `"shape":[8,5]`), "E_x"},
		{"huge shape", header(`"shape":[5,8]`, `"shape":[1000000,4096]`), "needs 16384000000"},
		{"overflowing shape", header(`"shape":[5,8]`, `"shape":[4611686018427387904,8]`), "not in"},
		{"negative shape", header(`"shape":[5,8]`, `"shape":[-5,-8]`), "not in"},
		{"three dimensions", header(`"shape":[5,8]`, `"shape":[5,8,1]`), "3 dimensions"},
		{"overlap", header(`"data_offsets":[160,180]`, `"data_offsets":[140,160]`), "without gap or overlap"},
		{"gap", header(`"data_offsets":[0,160]`, `"data_offsets":[4,164]`), "without gap or overlap"},
		{"one offset", header(`"data_offsets":[0,160]`, `"data_offsets":[160]`), "1 entries"},
		{"infinite parameter", infinite, "codes"},
		{"unknown calibration", header(`{\"tau_geom\"`, `{\"tau\"`), "calibration"},
		{"empty case", header(`"case":"toy"`, `"case":""`), "case is empty"},
		{"calibration of another context", header(`[[-1,1],`, `[`), "context_range"},
		{"calibration of other objectives", header(`[0,-1]`, `[0]`), "objective_ideal"},
		{"navigation not JSON", header(`"navigation":"{`, `"navigation":"`), "navigation"},
	} {
		m, err := Read(bytes.NewReader(c.bytes))
		if err == nil {
			t.Errorf("%s: read %+v", c.name, m)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %q does not say %q", c.name, err, c.want)
		}
	}
}

// A header may describe a gigabyte that the file does not have: the reader must
// not allocate it.
func TestClaimedSizeIsNotAllocated(t *testing.T) {
	zeros := strings.Repeat("0", 64)
	header := `{"__metadata__":{"sha256":"` + zeros + `","tensors_sha256":"` + strings.Repeat("a", 64) + `"},"codes":{"dtype":"F32","shape":[60000,4096],"data_offsets":[0,983040000]}}`
	file := withHeader(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), func(h string) string { return h })
	allocs := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := Read(bytes.NewReader(file)); !errors.Is(err, io.ErrUnexpectedEOF) {
				b.Fatal(err)
			}
		}
	})
	if per := allocs.AllocedBytesPerOp(); per > 4<<20 {
		t.Errorf("reading an empty file with a large header allocates %d bytes", per)
	}
}

// One flipped bit, wherever it is, is an error that says where.
func TestAFlippedBitIsRefused(t *testing.T) {
	whole := encode(t, small(t, 1))
	header := 8 + int(binary.LittleEndian.Uint64(whole))
	for i := range whole {
		for bit := range 8 {
			if testing.Short() && bit != i%8 {
				continue
			}
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1 << bit
			_, err := Read(bytes.NewReader(flipped))
			if err == nil {
				t.Fatalf("bit %d of byte %d of %d: the model is read", bit, i, len(whole))
			}
			if i >= header && !strings.Contains(err.Error(), "tensor ") {
				t.Fatalf("bit %d of byte %d of %d: error %v names no tensor", bit, i, len(whole), err)
			}
		}
	}
}

func TestSHA256IsTheFiles(t *testing.T) {
	m := small(t, 1)
	if got, err := m.SHA256(); err != nil || got != fmt.Sprintf("%x", sha256.Sum256(encode(t, m))) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestForwardAgainstFloat64(t *testing.T) {
	m := small(t, 4)
	decoded := tensor.New(m.Codes.Rows, m.DecoderS.Out())
	if err := m.DecoderS.Forward(m.Codes, decoded); err != nil {
		t.Fatal(err)
	}
	for i := range m.Codes.Rows {
		x := make([]float64, m.Latent())
		tensor.Widen(x, m.Codes.Row(i))
		for l, layer := range m.DecoderS.Layers {
			y := make([]float64, layer.W.Rows)
			for r := range y {
				y[r] = float64(layer.B[r])
				for c, v := range x {
					y[r] += float64(layer.W.Row(r)[c]) * v
				}
				if l < len(m.DecoderS.Layers)-1 {
					y[r] = math.Max(0, y[r])
				}
			}
			x = y
		}
		for j, v := range decoded.Row(i) {
			// Three float32 roundings per layer of sums of order one.
			if d := math.Abs(float64(v) - x[j]); !(d < 1e-5) {
				t.Errorf("code %d, output %d: %v, float64 says %v", i, j, v, x[j])
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	whole := encode(f, small(f, 1))
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(append(bytes.Clone(whole), 1, 2, 3))
	f.Add(withHeader(whole, replace(`"shape":[5,8]`, `"shape":[1000000,4096]`)))
	f.Add(withHeader(whole, replace(`"version":"2"`, `"version":"3"`)))
	f.Add(withHeader(whole, replace(`"data_offsets":[160,180]`, `"data_offsets":[140,160]`)))
	for i := 0; i < len(whole); i += 97 {
		mutated := bytes.Clone(whole)
		mutated[i] ^= 0x41
		f.Add(mutated)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= 8 && binary.LittleEndian.Uint64(data) <= uint64(len(data)-8) {
			data = withHeader(data, func(h string) string { return h }) // behind the checksum
		}
		m, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		// What is accepted is a whole model, and survives a round trip.
		readBack(t, m)
	})
}

// BenchmarkRead reads every bundled map.
func BenchmarkRead(b *testing.B) {
	names, err := fs.Glob(models.Bundled, "*.safetensors")
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		for _, name := range names {
			data, err := models.Bundled.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := Read(bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
		}
	}
}
