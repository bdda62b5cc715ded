package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// Where a kind of file may be large, a header's own lengths are still bounded: none
// is allocated before its bytes are there, and none overflows.
func TestHostileLengths(t *testing.T) {
	k := Kind{HeaderBytes: 1 << 30, FileBytes: math.MaxInt64, Tensors: 4, Align: 1}
	file := func(header string) []byte {
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
