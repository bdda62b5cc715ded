// Package safetensors reads and writes the safetensors format: the length of a
// JSON header in eight little-endian bytes, the header, which gives each tensor
// its type, shape and range of bytes and may carry strings as __metadata__, and
// the tensors' data without gaps (github.com/huggingface/safetensors). Its central
// type is Kind, the limits that files of one kind keep to.
package safetensors

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

	"github.com/gpc-engine/gpc/tensor"
)

// readChunk is how many elements are allocated ahead of the bytes that fill
// them, so that a header cannot ask for memory its file does not have.
const readChunk = 1 << 18

// Kind is what the files of one kind keep to, written or read. The limits bound
// what a hostile file can make a reader allocate.
type Kind struct {
	HeaderBytes int   // at most, of the header
	FileBytes   int64 // at most, of the whole file
	Tensors     int   // at most
	Align       int   // headers are written padded with spaces to a multiple of this, at least 1
}

// Tensor is one tensor of a file: one dimension (a vector) or two (a row-major
// matrix), stored as float32 or, if Half, as float16.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
	Half  bool
}

// OfMatrix is a matrix under its name. It aliases m where m is dense.
func OfMatrix(name string, m tensor.Matrix) Tensor {
	if !m.Dense() {
		m = m.Clone()
	}
	return Tensor{Name: name, Shape: []int{m.Rows, m.Cols}, Data: m.Data[:m.Rows*m.Cols]}
}

// OfVector is a vector under its name; it aliases v.
func OfVector(name string, v []float32) Tensor {
	return Tensor{Name: name, Shape: []int{len(v)}, Data: v}
}

// Element types by their names in the format, with their sizes in bytes.
const (
	float32Type = "F32"
	float16Type = "F16"
)

func (t Tensor) elementType() (string, int64) {
	if t.Half {
		return float16Type, 2
	}
	return float32Type, 4
}

func (t Tensor) size() int {
	n := 1
	for _, d := range t.Shape {
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

// Write writes metadata, its keys sorted, and the tensors in the given order. The
// bytes depend on the arguments alone.
func (k Kind) Write(w io.Writer, metadata map[string]string, tensors []Tensor) error {
	if len(tensors) > k.Tensors {
		return fmt.Errorf("%d tensors, a file holds at most %d", len(tensors), k.Tensors)
	}
	var header bytes.Buffer
	meta, err := json.Marshal(metadata) // keys sorted
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	fmt.Fprintf(&header, `{"__metadata__":%s`, meta)
	offset := int64(0)
	for _, t := range tensors {
		if t.size() != len(t.Data) {
			return fmt.Errorf("tensor %s has %d elements for the shape %v", t.Name, len(t.Data), t.Shape)
		}
		dtype, size := t.elementType()
		entry := headerEntry{DType: dtype, Offsets: []int64{offset, offset + size*int64(len(t.Data))}}
		for _, d := range t.Shape {
			entry.Shape = append(entry.Shape, int64(d))
		}
		offset = entry.Offsets[1]
		name, err := json.Marshal(t.Name)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		value, err := json.Marshal(entry)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		fmt.Fprintf(&header, ",%s:%s", name, value)
	}
	header.WriteByte('}')
	for header.Len()%k.Align != 0 {
		header.WriteByte(' ')
	}
	if header.Len() > k.HeaderBytes {
		return fmt.Errorf("the header takes %d bytes, at most %d are allowed", header.Len(), k.HeaderBytes)
	}
	if total := 8 + int64(header.Len()) + offset; total > k.FileBytes {
		return fmt.Errorf("the file would take %d bytes, at most %d are allowed", total, k.FileBytes)
	}
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(header.Len()))
	if _, err := w.Write(length[:]); err != nil {
		return fmt.Errorf("writing the header length: %w", err)
	}
	if _, err := w.Write(header.Bytes()); err != nil {
		return fmt.Errorf("writing the header: %w", err)
	}
	buf := make([]byte, 0, 4*4096)
	for _, t := range tensors {
		for chunk := range slices.Chunk(t.Data, 4096) {
			buf = buf[:0]
			for _, v := range chunk {
				if t.Half {
					buf = binary.LittleEndian.AppendUint16(buf, float16.Fromfloat32(v).Bits())
				} else {
					buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
				}
			}
			if _, err := w.Write(buf); err != nil {
				return fmt.Errorf("writing tensor %s: %w", t.Name, err)
			}
		}
	}
	return nil
}

// Read reads what Write writes, and any safetensors file of float32 or float16
// vectors and matrices within the limits, into metadata and tensors by name.
// Tensors must cover the data exactly: no gap, no overlap, nothing after the last
// one. Values may be anything, NaN included. The error of a file that ends early is
// an io.ErrUnexpectedEOF.
func (k Kind) Read(r io.Reader) (map[string]string, map[string]Tensor, error) {
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, nil, fmt.Errorf("header length: want 8 bytes: %w", truncated(err))
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n < 2 || n > uint64(k.HeaderBytes) {
		return nil, nil, fmt.Errorf("header length is %d bytes, want 2 to %d (is this a safetensors file?)", n, k.HeaderBytes)
	}
	raw, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && uint64(len(raw)) < n {
		err = io.EOF
	}
	if err != nil {
		return nil, nil, fmt.Errorf("header: want %d bytes: %w", n, truncated(err))
	}
	metadata, entries, err := k.parseHeader(raw)
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
			return nil, nil, fmt.Errorf("tensor %s: data_offsets begin at %d, want %d: tensors must follow each other without gap or overlap", name, e.Offsets[0], at)
		}
		at = e.Offsets[1]
	}
	if at > k.FileBytes-8-int64(n) {
		return nil, nil, fmt.Errorf("header of %d bytes describes %d more, a file has at most %d", n, at, k.FileBytes)
	}
	tensors := make(map[string]Tensor, len(names))
	for _, name := range names {
		t := Tensor{Name: name, Half: entries[name].DType == float16Type}
		for _, d := range entries[name].Shape {
			t.Shape = append(t.Shape, int(d))
		}
		dtype, _ := t.elementType()
		if t.Data, err = readFloats(r, t.size(), t.Half); err != nil {
			return nil, nil, fmt.Errorf("tensor %s: want %d values of type %s: %w", name, t.size(), dtype, truncated(err))
		}
		tensors[name] = t
	}
	var one [1]byte
	switch _, err := io.ReadFull(r, one[:]); err {
	case io.EOF:
		return metadata, tensors, nil
	case nil:
		return nil, nil, fmt.Errorf("bytes follow the last tensor, want the end of the file after %d bytes", 8+int64(n)+at)
	default:
		return nil, nil, fmt.Errorf("after the last tensor: %w", err)
	}
}

// truncated names the end of the input as what it is.
func truncated(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the file is truncated: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// readFloats reads n float32 or float16 values, growing the result only as they
// arrive.
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
			if half {
				out = append(out, float16.Frombits(binary.LittleEndian.Uint16(b[i:])).Float32())
			} else {
				out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
			}
		}
	}
	return out, nil
}

// parseHeader decodes the JSON header, refusing duplicate names, unknown
// fields, other types than F32 and F16, and sizes beyond the limits.
func (k Kind) parseHeader(raw []byte) (map[string]string, map[string]headerEntry, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, nil, fmt.Errorf("header is not a JSON object")
	}
	var metadata map[string]string
	entries := map[string]headerEntry{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("header: %w", err)
		}
		name, ok := tok.(string)
		if !ok {
			return nil, nil, fmt.Errorf("header has the key %v, want a string", tok)
		}
		if name == "__metadata__" {
			if metadata != nil {
				return nil, nil, fmt.Errorf("header has __metadata__ twice")
			}
			if err := dec.Decode(&metadata); err != nil {
				return nil, nil, fmt.Errorf("__metadata__: want an object of strings: %w", err)
			}
			if metadata == nil {
				return nil, nil, fmt.Errorf("__metadata__ is null, want an object of strings")
			}
			continue
		}
		if _, ok := entries[name]; ok {
			return nil, nil, fmt.Errorf("header has tensor %q twice", name)
		}
		if len(entries) == k.Tensors {
			return nil, nil, fmt.Errorf("header has more than %d tensors", k.Tensors)
		}
		var e headerEntry
		if err := dec.Decode(&e); err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if err := e.check(k.FileBytes); err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		entries[name] = e
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if rest := bytes.TrimLeft(raw[dec.InputOffset():], " "); len(rest) > 0 {
		return nil, nil, fmt.Errorf("header has %d bytes after its JSON object, want only spaces", len(rest))
	}
	return metadata, entries, nil
}

func (e headerEntry) check(fileBytes int64) error {
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
		if d < 0 || d > fileBytes {
			return fmt.Errorf("dimension %d of shape %v is not in [0, %d]", i, e.Shape, fileBytes)
		}
		if n > math.MaxInt64/size/max(d, 1) {
			return fmt.Errorf("shape %v has more elements than any file", e.Shape)
		}
		n *= d
	}
	if len(e.Offsets) != 2 {
		return fmt.Errorf("data_offsets has %d entries, want 2", len(e.Offsets))
	}
	from, to := e.Offsets[0], e.Offsets[1]
	if from < 0 || to < from || to > fileBytes {
		return fmt.Errorf("data_offsets %v are not in [0, %d] in order", e.Offsets, fileBytes)
	}
	if to-from != size*n {
		return fmt.Errorf("data_offsets %v span %d bytes, shape %v needs %d", e.Offsets, to-from, e.Shape, size*n)
	}
	return nil
}
