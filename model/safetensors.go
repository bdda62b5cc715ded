package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/x448/float16"
)

// Limits of the container. They bound what a hostile file can make a reader
// allocate, and are far above what a map of this kind needs.
const (
	maxHeaderBytes = 1 << 20
	maxTensors     = 64
	maxCodes       = 1_000_000
	maxFileBytes   = 1 << 30
	// readChunk is how many elements are allocated ahead of the bytes that fill
	// them, so that a header cannot ask for memory its file does not have.
	readChunk = 1 << 18
)

// storedTensor is one tensor of a safetensors container: one dimension (a
// vector) or two (a row-major matrix), as float32 or, if half, as float16.
type storedTensor struct {
	name  string
	shape []int
	data  []float32
	half  bool
}

// Element types by their names in the format, with their sizes in bytes.
const (
	float32Type = "F32"
	float16Type = "F16"
)

func (t storedTensor) elementType() (string, int64) {
	if t.half {
		return float16Type, 2
	}
	return float32Type, 4
}

// RoundHalf rounds values to the nearest float16 in place; they must be within
// its range.
func RoundHalf(values []float32) {
	for i, v := range values {
		values[i] = float16.Fromfloat32(v).Float32()
	}
}

// fitsHalf reports whether float16 holds every value exactly.
func fitsHalf(values []float32) bool {
	for _, v := range values {
		if float16.Fromfloat32(v).Float32() != v {
			return false
		}
	}
	return true
}

func (t storedTensor) size() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// headerEntry is the description of one tensor in the JSON header.
type headerEntry struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// writeContainer writes the safetensors format: the length of the header in
// eight little-endian bytes, a JSON header padded with spaces to a multiple of
// eight, and the tensors' data in the given order without gaps. The bytes
// depend on the arguments alone.
func writeContainer(w io.Writer, metadata map[string]string, tensors []storedTensor) error {
	if len(tensors) > maxTensors {
		return fmt.Errorf("model: %d tensors, a file holds at most %d", len(tensors), maxTensors)
	}
	var header bytes.Buffer
	meta, err := json.Marshal(metadata) // keys sorted
	if err != nil {
		return fmt.Errorf("model: metadata: %w", err)
	}
	fmt.Fprintf(&header, `{"__metadata__":%s`, meta)
	offset := int64(0)
	for _, t := range tensors {
		if t.size() != len(t.data) {
			return fmt.Errorf("model: tensor %s has %d elements for the shape %v", t.name, len(t.data), t.shape)
		}
		dtype, size := t.elementType()
		entry := headerEntry{DType: dtype, Offsets: []int64{offset, offset + size*int64(len(t.data))}}
		for _, d := range t.shape {
			entry.Shape = append(entry.Shape, int64(d))
		}
		offset = entry.Offsets[1]
		name, err := json.Marshal(t.name)
		if err != nil {
			return fmt.Errorf("model: tensor %s: %w", t.name, err)
		}
		value, err := json.Marshal(entry)
		if err != nil {
			return fmt.Errorf("model: tensor %s: %w", t.name, err)
		}
		fmt.Fprintf(&header, ",%s:%s", name, value)
	}
	header.WriteByte('}')
	for header.Len()%8 != 0 {
		header.WriteByte(' ')
	}
	if header.Len() > maxHeaderBytes {
		return fmt.Errorf("model: the header takes %d bytes, at most %d are allowed", header.Len(), maxHeaderBytes)
	}
	if total := 8 + int64(header.Len()) + offset; total > maxFileBytes {
		return fmt.Errorf("model: the file would take %d bytes, at most %d are allowed", total, maxFileBytes)
	}
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(header.Len()))
	if _, err := w.Write(length[:]); err != nil {
		return fmt.Errorf("model: writing the header length: %w", err)
	}
	if _, err := w.Write(header.Bytes()); err != nil {
		return fmt.Errorf("model: writing the header: %w", err)
	}
	buf := make([]byte, 0, 4*4096)
	for _, t := range tensors {
		for chunk := range slices.Chunk(t.data, 4096) {
			buf = buf[:0]
			for _, v := range chunk {
				if t.half {
					buf = binary.LittleEndian.AppendUint16(buf, float16.Fromfloat32(v).Bits())
				} else {
					buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
				}
			}
			if _, err := w.Write(buf); err != nil {
				return fmt.Errorf("model: writing tensor %s: %w", t.name, err)
			}
		}
	}
	return nil
}

// readContainer reads what writeContainer writes, and any safetensors file of
// float32 or float16 vectors and matrices within the limits. Tensors must cover the data
// exactly: no gap, no overlap, nothing after the last one.
func readContainer(r io.Reader) (map[string]string, map[string]storedTensor, error) {
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, nil, fmt.Errorf("model: header length: want 8 bytes: %w", truncated(err))
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n < 2 || n > maxHeaderBytes {
		return nil, nil, fmt.Errorf("model: header length is %d bytes, want 2 to %d (is this a safetensors file?)", n, maxHeaderBytes)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, nil, fmt.Errorf("model: header: want %d bytes: %w", n, truncated(err))
	}
	metadata, entries, err := parseHeader(raw)
	if err != nil {
		return nil, nil, err
	}
	names := slices.Collect(maps.Keys(entries))
	// Empty tensors share an offset with their successor and come before it.
	sort.Slice(names, func(i, j int) bool {
		a, b := entries[names[i]].Offsets, entries[names[j]].Offsets
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		return a[1] < b[1]
	})
	at := int64(0)
	for _, name := range names {
		e := entries[name]
		if e.Offsets[0] != at {
			return nil, nil, fmt.Errorf("model: tensor %s: data_offsets begin at %d, want %d: tensors must follow each other without gap or overlap", name, e.Offsets[0], at)
		}
		at = e.Offsets[1]
	}
	if total := 8 + int64(n) + at; total > maxFileBytes {
		return nil, nil, fmt.Errorf("model: header describes %d bytes, at most %d are allowed", total, maxFileBytes)
	}
	tensors := make(map[string]storedTensor, len(names))
	for _, name := range names {
		t := storedTensor{name: name, half: entries[name].DType == float16Type}
		for _, d := range entries[name].Shape {
			t.shape = append(t.shape, int(d))
		}
		dtype, _ := t.elementType()
		if t.data, err = readFloats(r, t.size(), t.half); err != nil {
			return nil, nil, fmt.Errorf("model: tensor %s: want %d values of type %s: %w", name, t.size(), dtype, truncated(err))
		}
		tensors[name] = t
	}
	var one [1]byte
	switch _, err := io.ReadFull(r, one[:]); err {
	case io.EOF:
		return metadata, tensors, nil
	case nil:
		return nil, nil, fmt.Errorf("model: bytes follow the last tensor, want the end of the file after %d bytes", 8+int64(n)+at)
	default:
		return nil, nil, fmt.Errorf("model: after the last tensor: %w", err)
	}
}

// truncated names the end of the input as what it is.
func truncated(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the file is truncated: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// readFloats reads n float32 or float16 values, growing the result only as they arrive,
// and refuses values that are not finite.
func readFloats(r io.Reader, n int, half bool) ([]float32, error) {
	size := 4
	if half {
		size = 2
	}
	out := make([]float32, 0, min(n, readChunk))
	buf := make([]byte, size*min(n, readChunk))
	for len(out) < n {
		b := buf[:size*min(n-len(out), readChunk)]
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		out = slices.Grow(out, len(b)/size)
		for i := 0; i < len(b); i += size {
			var v float32
			if half {
				v = float16.Frombits(binary.LittleEndian.Uint16(b[i:])).Float32()
			} else {
				v = math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
			}
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, fmt.Errorf("value %d is %v, want a finite number", len(out), v)
			}
			out = append(out, v)
		}
	}
	return out, nil
}

// parseHeader decodes the JSON header, refusing duplicate names, unknown
// fields, other types than F32 and F16, and sizes beyond the limits.
func parseHeader(raw []byte) (map[string]string, map[string]headerEntry, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, nil, fmt.Errorf("model: header is not a JSON object")
	}
	var metadata map[string]string
	entries := map[string]headerEntry{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("model: header: %w", err)
		}
		name, ok := tok.(string)
		if !ok {
			return nil, nil, fmt.Errorf("model: header has the key %v, want a string", tok)
		}
		if name == "__metadata__" {
			if metadata != nil {
				return nil, nil, fmt.Errorf("model: header has __metadata__ twice")
			}
			if err := dec.Decode(&metadata); err != nil {
				return nil, nil, fmt.Errorf("model: __metadata__: want an object of strings: %w", err)
			}
			if metadata == nil {
				return nil, nil, fmt.Errorf("model: __metadata__ is null, want an object of strings")
			}
			continue
		}
		if _, ok := entries[name]; ok {
			return nil, nil, fmt.Errorf("model: header has tensor %q twice", name)
		}
		if len(entries) == maxTensors {
			return nil, nil, fmt.Errorf("model: header has more than %d tensors", maxTensors)
		}
		var e headerEntry
		if err := dec.Decode(&e); err != nil {
			return nil, nil, fmt.Errorf("model: tensor %q: %w", name, err)
		}
		if err := e.check(); err != nil {
			return nil, nil, fmt.Errorf("model: tensor %q: %w", name, err)
		}
		entries[name] = e
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("model: header: %w", err)
	}
	if rest := bytes.TrimLeft(raw[dec.InputOffset():], " "); len(rest) > 0 {
		return nil, nil, fmt.Errorf("model: header has %d bytes after its JSON object, want only spaces", len(rest))
	}
	return metadata, entries, nil
}

func (e headerEntry) check() error {
	size := int64(4)
	switch e.DType {
	case float32Type:
	case float16Type:
		size = 2
	default:
		return fmt.Errorf("dtype is %q, want %q or %q", e.DType, float32Type, float16Type)
	}
	if len(e.Shape) < 1 || len(e.Shape) > 2 {
		return fmt.Errorf("shape %v has %d dimensions, want 1 or 2", e.Shape, len(e.Shape))
	}
	n := int64(1)
	for i, d := range e.Shape {
		limit := int64(MaxWidth)
		if i == 0 {
			limit = maxCodes
		}
		if d < 0 || d > limit {
			return fmt.Errorf("dimension %d of shape %v is not in [0, %d]", i, e.Shape, limit)
		}
		n *= d
	}
	if len(e.Offsets) != 2 {
		return fmt.Errorf("data_offsets has %d entries, want 2", len(e.Offsets))
	}
	from, to := e.Offsets[0], e.Offsets[1]
	if from < 0 || to < from || to > maxFileBytes {
		return fmt.Errorf("data_offsets %v are not in [0, %d] in order", e.Offsets, maxFileBytes)
	}
	if to-from != size*n {
		return fmt.Errorf("data_offsets %v span %d bytes, shape %v needs %d", e.Offsets, to-from, e.Shape, size*n)
	}
	return nil
}
