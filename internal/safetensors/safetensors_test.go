package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// Where a kind of file may be large, a header's own lengths are still bounded: none
// is allocated before its bytes are there, and none overflows.
func TestHostileLengths(t *testing.T) {
	k := Kind{HeaderBytes: 1 << 30, FileBytes: math.MaxInt64, Tensors: 4, Align: 1}
	file := func(header string) []byte {
		header = strings.Replace(header, "{", `{"__metadata__":{"sha256":"`+unsealed+`","tensors_sha256":"`+strings.Repeat("a", 64)+`"},`, 1)
		header = strings.Replace(header, unsealed, sealOf([]byte(header)), 1)
		return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	}
	if _, _, err := k.Read(bytes.NewReader(file(`{"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,0]}}`))); err == nil || !strings.Contains(err.Error(), "more elements") {
		t.Errorf("a shape whose size overflows: %v", err)
	}
	if _, _, err := k.Read(bytes.NewReader(file(`{"a":{"dtype":"F32","shape":[2305843009213693951],"data_offsets":[0,9223372036854775804]}}`))); err == nil || !strings.Contains(err.Error(), "describes") {
		t.Errorf("a file of more bytes than any: %v", err)
	}
	claimed := binary.LittleEndian.AppendUint64(nil, uint64(k.HeaderBytes))
	allocs := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, _, err := k.Read(bytes.NewReader(claimed)); !errors.Is(err, io.ErrUnexpectedEOF) {
				b.Fatal(err)
			}
		}
	})
	if per := allocs.AllocedBytesPerOp(); per > 1<<16 {
		t.Errorf("a header that is not there allocates %d bytes", per)
	}
}

// Metadata and tensors come back without the checksums, also where there are none of them.
func TestRoundTrip(t *testing.T) {
	k := Kind{HeaderBytes: 1 << 16, FileBytes: 1 << 16, Tensors: 4, Align: 8}
	for _, c := range []struct {
		metadata map[string]string
		tensors  []Tensor
	}{
		{nil, nil},
		{map[string]string{"a": "b"}, []Tensor{OfVector("empty", nil), OfVector("v", []float32{1, 2}), OfVector("last", nil), {Name: "h", Shape: []int{1, 2}, Data: []float32{1, 0.5}, Half: true}}},
	} {
		var b bytes.Buffer
		if err := k.Write(&b, c.metadata, c.tensors); err != nil {
			t.Fatal(err)
		}
		metadata, tensors, err := k.Read(bytes.NewReader(b.Bytes()))
		if err != nil || !maps.Equal(metadata, c.metadata) || len(tensors) != len(c.tensors) {
			t.Errorf("read %v and %v, %v", metadata, tensors, err)
		}
		for _, want := range c.tensors {
			if got := tensors[want.Name]; got.Half != want.Half || !slices.Equal(got.Shape, want.Shape) || !slices.Equal(got.Data, want.Data) {
				t.Errorf("read %+v, wrote %+v", got, want)
			}
		}
	}
	if err := k.Write(io.Discard, map[string]string{"a": unsealed}, nil); err == nil {
		t.Error("metadata with the header's own mark was written")
	}
}
