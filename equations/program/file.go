package program

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/gpc-engine/gpc/internal/jsonin"
)

// Format and version of a file.
const (
	format  = "gpc-program"
	version = 1
)

// Marshal is the program's canonical form in bytes, of which Identity is the hash; docs/reference/program.md
// describes every field.
func (p *Program) Marshal() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("program %.64q: %w", p.Name, err)
	}
	var w writer
	w.raw(`{"format":"` + format + `","version":` + strconv.Itoa(version) + `,"name":`)
	w.text(p.Name)
	w.raw(`,"vectors":`)
	list(&w, p.Vectors, func(v Vector) {
		w.raw(`{"name":`)
		w.text(v.Name)
		w.raw(`,"entries":`)
		list(&w, v.Entries, w.text)
		w.raw(`}`)
	})
	w.raw(`,"functions":`)
	list(&w, p.Functions, func(f *Function) {
		w.raw(`{"name":`)
		w.text(f.name)
		w.raw(`,"inputs":`)
		list(&w, f.in, w.argument)
		w.raw(`,"outputs":`)
		list(&w, f.out, w.argument)
		w.raw(`,"code":`)
		list(&w, f.nodes, func(n node) {
			w.raw(`["` + n.op.String() + `"`)
			if n.op == Const {
				w.raw(`,`)
				w.number(n.value)
			}
			for k := range n.op.Arity() {
				w.raw(`,` + strconv.Itoa(int(n.arg[k])))
			}
			w.raw(`]`)
		})
		w.raw(`,"results":`)
		list(&w, f.results, func(v Value) { w.raw(strconv.Itoa(int(v))) })
		w.raw(`}`)
	})
	w.raw(`}`)
	if w.Len() > maxBytes {
		return nil, fmt.Errorf("program %.64q: it takes %d bytes, want at most %d", p.Name, w.Len(), maxBytes)
	}
	return w.Bytes(), nil
}

// Identity is the SHA-256 of Marshal.
func (p *Program) Identity() ([32]byte, error) {
	text, err := p.Marshal()
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(text), nil
}

// writer writes JSON without spaces.
type writer struct{ bytes.Buffer }

func (w *writer) raw(s string) { w.WriteString(s) }

// text writes a string. Names are printable, so it escapes only quotes and backslashes.
func (w *writer) text(s string) {
	w.WriteByte('"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			w.WriteByte('\\')
		}
		w.WriteByte(s[i])
	}
	w.WriteByte('"')
}

// number writes the shortest decimal that reads back as v, as ECMAScript does; −0 and non-finite numbers become
// strings.
func (w *writer) number(v float64) {
	for name, special := range specials {
		if sameNumber(v, special) {
			w.text(name)
			return
		}
	}
	text, _ := json.Marshal(v)
	w.Write(text)
}

// specials are the numbers without JSON digits.
var specials = map[string]float64{"-0": math.Copysign(0, -1), "NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}

// sameNumber compares bits; all NaNs are equal.
func sameNumber(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

func (w *writer) argument(a Argument) {
	w.raw(`{"name":`)
	w.text(a.Name)
	w.raw(`,"size":` + strconv.Itoa(a.Size))
	if a.Vector != "" {
		w.raw(`,"of":`)
		w.text(a.Vector)
	}
	w.raw(`}`)
}

func list[T any](w *writer, items []T, write func(T)) {
	w.WriteByte('[')
	for i, v := range items {
		if i > 0 {
			w.WriteByte(',')
		}
		write(v)
	}
	w.WriteByte(']')
}

// Unmarshal is the program of a file's bytes. Every field must be there exactly once, no other, and every list within its bound.
// An error names the place, such as functions[1].code[17]. The bytes may have spaces and another order of fields than Marshal.
func Unmarshal(text []byte) (*Program, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("program: more than %d bytes", maxBytes)
	}
	// Valid JSON in UTF-8, and an object, comes first.
	fields, err := jsonin.Object(text, "program", `{"format": "`+format+`", …}`)
	if err != nil {
		return nil, err
	}
	var p Program
	d := reader{fields}
	var kind string
	var number int
	err = errors.Join(d.text("format", &kind), d.count("version", &number, math.MaxInt32))
	if err == nil && kind != format {
		err = fmt.Errorf("format is %.64q, want %q", kind, format)
	}
	if err == nil && number != version {
		err = fmt.Errorf("version is %d, this program reads %d", number, version)
	}
	if err == nil {
		err = d.text("name", &p.Name)
	}
	items(&err, d, "vectors", maxVectors, &p.Vectors, readVector)
	items(&err, d, "functions", maxFunctions, &p.Functions, readFunction)
	if err == nil {
		err = d.end("")
	}
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("program: %w", err)
	}
	return &p, nil
}

// reader takes the fields of an object.
type reader struct{ fields jsonin.Fields }

func readObject(place string, raw json.RawMessage) (reader, error) {
	fields, err := jsonin.Object(raw, place, `{"name": "…"}`)
	return reader{fields}, err
}

func (d reader) takeField(field string) (json.RawMessage, error) {
	raw, ok := d.fields[field]
	if !ok {
		return nil, fmt.Errorf("%s is missing", field)
	}
	delete(d.fields, field)
	return raw, nil
}

// end refuses unknown fields.
func (d reader) end(place string) error {
	for name := range d.fields {
		return fmt.Errorf("%s%.64q is not a field of a program", place, name)
	}
	return nil
}

func (d reader) text(field string, value *string) error {
	raw, err := d.takeField(field)
	if err != nil {
		return err
	}
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, value) != nil {
		return fmt.Errorf("%s is %.64s, want a string", field, raw)
	}
	return nil
}

func (d reader) count(field string, value *int, limit int) error {
	raw, err := d.takeField(field)
	if err != nil {
		return err
	}
	*value, err = integer(raw, limit)
	if err != nil {
		return fmt.Errorf("%s %w", field, err)
	}
	return nil
}

// integer reads digits alone.
func integer(raw json.RawMessage, limit int) (int, error) {
	v, err := strconv.ParseUint(string(raw), 10, 31)
	if err != nil || v > uint64(limit) {
		return 0, fmt.Errorf("is %.64s, want an integer from 0 to %d", raw, limit)
	}
	return int(v), nil
}

// items appends what read makes of each entry of a list, one at a time, and its place; not after an error.
func items[T any](err *error, d reader, field string, limit int, dst *[]T, read func(place string, raw json.RawMessage) (T, error)) {
	if *err != nil {
		return
	}
	var raw, entry json.RawMessage
	if raw, *err = d.takeField(field); *err != nil {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, failed := dec.Token(); failed != nil || t != json.Delim('[') {
		*err = fmt.Errorf("%s is %.64s, want a list", field, raw)
	}
	for i := 0; *err == nil && dec.More(); i++ {
		if i == limit {
			*err = fmt.Errorf("%s has more than %d entries", field, limit)
		} else if failed := dec.Decode(&entry); failed != nil {
			*err = fmt.Errorf("%s[%d]: %w", field, i, failed)
		} else {
			var v T
			v, *err = read(fmt.Sprintf("%s[%d]", field, i), entry)
			*dst = append(*dst, v)
		}
	}
}

func readVector(place string, raw json.RawMessage) (v Vector, err error) {
	d, err := readObject(place, raw)
	if err != nil {
		return v, err
	}
	err = d.text("name", &v.Name)
	items(&err, d, "entries", maxSize, &v.Entries, func(entry string, raw json.RawMessage) (name string, err error) {
		if raw[0] != '"' || json.Unmarshal(raw, &name) != nil {
			err = fmt.Errorf("%s is %.64s, want a string", entry, raw)
		}
		return name, err
	})
	if err != nil {
		return v, fmt.Errorf("%s.%w", place, err)
	}
	return v, d.end(place + ".")
}

func readFunction(place string, raw json.RawMessage) (*Function, error) {
	d, err := readObject(place, raw)
	if err != nil {
		return nil, err
	}
	f := &Function{}
	err = d.text("name", &f.name)
	items(&err, d, "inputs", maxArguments, &f.in, readArgument)
	items(&err, d, "outputs", maxArguments, &f.out, readArgument)
	for _, a := range f.in {
		f.inputs += a.Size
	}
	items(&err, d, "code", maxNodes, &f.nodes, readNode)
	items(&err, d, "results", maxSize, &f.results, func(place string, raw json.RawMessage) (Value, error) {
		v, err := integer(raw, math.MaxInt32)
		if err != nil {
			err = fmt.Errorf("%s %w", place, err)
		}
		return Value(v), err
	})
	if err != nil {
		return nil, fmt.Errorf("%s.%w", place, err)
	}
	return f, d.end(place + ".")
}

func readArgument(place string, raw json.RawMessage) (a Argument, err error) {
	d, err := readObject(place, raw)
	if err != nil {
		return a, err
	}
	if err := errors.Join(d.text("name", &a.Name), d.count("size", &a.Size, maxSize)); err != nil {
		return a, fmt.Errorf("%s.%w", place, err)
	}
	if _, ok := d.fields["of"]; ok {
		if err := d.text("of", &a.Vector); err != nil {
			return a, fmt.Errorf("%s.%w", place, err)
		}
		if a.Vector == "" {
			return a, fmt.Errorf("%s.of is empty: leave it out", place)
		}
	}
	return a, d.end(place + ".")
}

// readNode reads an operation such as ["add",3,4], ["const",9.81] or ["const","-0"]. No valid string in it has a
// comma.
func readNode(place string, raw json.RawMessage) (n node, err error) {
	if raw[0] != '[' {
		return n, fmt.Errorf("%s is %.64s, want a list", place, raw)
	}
	body := bytes.TrimSpace(raw[1 : len(raw)-1])
	if len(body) == 0 {
		return n, fmt.Errorf("%s is empty, want an operation", place)
	}
	first, rest, hasMore := bytes.Cut(body, []byte(","))
	ok := false
	if first = bytes.TrimSpace(first); len(first) > 1 && first[0] == '"' && first[len(first)-1] == '"' {
		n.op, ok = opByName[string(first[1:len(first)-1])]
	}
	if !ok {
		return n, fmt.Errorf("%s: unknown operation %.64s", place, first)
	}
	operands := max(n.op.Arity(), 1) // that of a constant is its number
	for i := range operands {
		if !hasMore {
			return n, fmt.Errorf("%s (%s) has %d operands, want %d", place, n.op, i, operands)
		}
		var operand []byte
		operand, rest, hasMore = bytes.Cut(rest, []byte(","))
		operand = bytes.TrimSpace(operand)
		if n.op == Const {
			if n.value, err = readNumber(operand); err != nil {
				return n, fmt.Errorf("%s: %w", place, err)
			}
			continue
		}
		v, err := integer(operand, math.MaxInt32)
		if err != nil {
			return n, fmt.Errorf("%s (%s): operand %d %w", place, n.op, i+1, err)
		}
		n.arg[i] = Value(v)
	}
	if hasMore {
		return n, fmt.Errorf("%s (%s) has %d operands, want %d", place, n.op, operands+1+bytes.Count(rest, []byte(",")), operands)
	}
	return n, nil
}

func readNumber(raw json.RawMessage) (float64, error) {
	if raw[0] == '"' {
		var name string
		v, ok := 0.0, false
		if json.Unmarshal(raw, &name) == nil {
			v, ok = specials[name]
		}
		if !ok {
			return 0, fmt.Errorf(`constant %.64s, want a number, "-0", "NaN", "Infinity" or "-Infinity"`, raw)
		}
		return v, nil
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0, fmt.Errorf("constant %.64s, want a number that float64 holds", raw)
	}
	return v, nil
}
