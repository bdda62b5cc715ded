// Package safetensors reads and writes the safetensors format: the length of a
// JSON header in eight little-endian bytes, the header, which gives each tensor
// its type, shape and range of bytes and may carry strings as __metadata__, and
// the tensors' data without gaps (github.com/huggingface/safetensors). Its central
// type is Kind, the limits that files of one kind keep to.
//
// Every byte is covered by a checksum that reading verifies. Two entries of __metadata__
// are this package's: tensors_sha256, the SHA-256 of each tensor's bytes in the order of
// the file, one behind the other in hexadecimal, and sha256, that of the header with its
// length in front and zeros in place of these 64 digits. A file is identified by it.
package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

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

// The entries of __metadata__ that this package adds.
const (
	keyHeader  = "sha256"
	keyTensors = "tensors_sha256"
)

// unsealed stands for the header's checksum in what it is taken of.
var unsealed = strings.Repeat("0", 2*sha256.Size)

// sealOf is the checksum of a header, whose own place in it holds unsealed.
func sealOf(header []byte) string {
	sum := sha256.New()
	sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	sum.Write(header)
	return hex.EncodeToString(sum.Sum(nil))
}

// Write writes metadata, its keys sorted, and the tensors in the given order, with their
// checksums. The bytes depend on the arguments alone.
func (k Kind) Write(w io.Writer, metadata map[string]string, tensors []Tensor) error {
	if len(tensors) > k.Tensors {
		return fmt.Errorf("%d tensors, a file holds at most %d", len(tensors), k.Tensors)
	}
	room := 0
	for _, t := range tensors {
		_, size := t.elementType()
		room += int(size) * len(t.Data)
	}
	var entries, header bytes.Buffer
	payload, sums := make([]byte, 0, room), []byte(nil)
	for _, t := range tensors {
		if t.size() != len(t.Data) {
			return fmt.Errorf("tensor %s has %d elements for the shape %v", t.Name, len(t.Data), t.Shape)
		}
		from := len(payload)
		payload = t.appendTo(payload)
		sum := sha256.Sum256(payload[from:])
		sums = hex.AppendEncode(sums, sum[:])
		dtype, _ := t.elementType()
		entry := headerEntry{DType: dtype, Offsets: []int64{int64(from), int64(len(payload))}}
		for _, d := range t.Shape {
			entry.Shape = append(entry.Shape, int64(d))
		}
		name, err := json.Marshal(t.Name)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		value, err := json.Marshal(entry)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		fmt.Fprintf(&entries, ",%s:%s", name, value)
	}
	whole := maps.Clone(metadata)
	if whole == nil {
		whole = map[string]string{}
	}
	whole[keyTensors], whole[keyHeader] = string(sums), unsealed
	meta, err := json.Marshal(whole) // keys sorted
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	fmt.Fprintf(&header, `{"__metadata__":%s%s}`, meta, entries.Bytes())
	for header.Len()%k.Align != 0 {
		header.WriteByte(' ')
	}
	if header.Len() > k.HeaderBytes {
		return fmt.Errorf("the header takes %d bytes, at most %d are allowed", header.Len(), k.HeaderBytes)
	}
	if total := 8 + int64(header.Len()) + int64(len(payload)); total > k.FileBytes {
		return fmt.Errorf("the file would take %d bytes, at most %d are allowed", total, k.FileBytes)
	}
	raw := header.Bytes()
	if bytes.Count(raw, []byte(unsealed)) != 1 {
		return fmt.Errorf("metadata holds %s, which stands for the header's checksum", unsealed)
	}
	raw = bytes.Replace(raw, []byte(unsealed), []byte(sealOf(raw)), 1)
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(raw)))); err != nil {
		return fmt.Errorf("writing the header length: %w", err)
	}
	if _, err := w.Write(raw); err != nil {
		return fmt.Errorf("writing the header: %w", err)
	}
	if _, err := w.Write(payload); err != nil {
		return fmt.Errorf("writing the tensors: %w", err)
	}
	return nil
}

// appendTo appends the elements as they are stored.
func (t Tensor) appendTo(b []byte) []byte {
	for _, v := range t.Data {
		if t.Half {
			b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(v).Bits())
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}

// Read reads what Write writes, within the limits, into metadata without the checksums
// and tensors by name. Tensors must cover the data exactly: no gap, no overlap, nothing
// after the last one. Values may be anything, NaN included. The error of a file that ends
// early is an io.ErrUnexpectedEOF; what a checksum does not hold for is named.
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
	sums, err := checkSeal(raw, metadata, len(entries))
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
	for i, name := range names {
		t := Tensor{Name: name, Half: entries[name].DType == float16Type}
		for _, d := range entries[name].Shape {
			t.Shape = append(t.Shape, int(d))
		}
		dtype, _ := t.elementType()
		sum := sha256.New()
		if t.Data, err = readFloats(io.TeeReader(r, sum), t.size(), t.Half); err != nil {
			return nil, nil, fmt.Errorf("tensor %s: want %d values of type %s: %w", name, t.size(), dtype, truncated(err))
		}
		if got, want := hex.EncodeToString(sum.Sum(nil)), sums[64*i:64*i+64]; got != want {
			return nil, nil, fmt.Errorf("tensor %s: damaged or edited: the SHA-256 of its bytes is %s, the header says %s", name, got, want)
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

// checkSeal verifies the checksum of a header, takes this package's entries out of its
// metadata, and returns the checksums of its tensors.
func checkSeal(raw []byte, metadata map[string]string, tensors int) (sums string, err error) {
	said, sealed := metadata[keyHeader]
	sums, summed := metadata[keyTensors]
	if !sealed || !summed {
		return "", fmt.Errorf("header: __metadata__ has no %s and %s: another program, or an earlier version, wrote the file", keyHeader, keyTensors)
	}
	if len(said) != len(unsealed) || bytes.Count(raw, []byte(said)) != 1 {
		return "", fmt.Errorf("header: %s is %.64q, want 64 hexadecimal digits that occur once", keyHeader, said)
	}
	if got := sealOf(bytes.Replace(raw, []byte(said), []byte(unsealed), 1)); got != said {
		return "", fmt.Errorf("header: damaged or edited: its SHA-256 is %s, it says %s", got, said)
	}
	if len(sums) != len(unsealed)*tensors {
		return "", fmt.Errorf("header: %s has %d digits, want %d for each of %d tensors", keyTensors, len(sums), len(unsealed), tensors)
	}
	delete(metadata, keyHeader)
	delete(metadata, keyTensors)
	return sums, nil
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
		at := len(out)
		out = slices.Grow(out, len(b)/size)[:at+len(b)/size]
		for i := range out[at:] {
			if half {
				out[at+i] = float16.Frombits(binary.LittleEndian.Uint16(b[2*i:])).Float32()
			} else {
				out[at+i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
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
