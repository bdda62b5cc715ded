// Package finite writes JSON of values that may hold NaN and infinities, which JSON has
// no numbers for: they are null.
package finite

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Marshal is encoding/json's Marshal without its escapes for HTML, and with null for a
// number that is none, wherever it stands. What a json.Marshaler writes is its own.
// Values that hold themselves are not for it.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := write(&b, reflect.ValueOf(v)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// plain writes what holds no numbers of ours as encoding/json does.
func plain(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the newline
	return nil
}

func write(b *bytes.Buffer, v reflect.Value) error {
	if !v.IsValid() {
		b.WriteString("null")
		return nil
	}
	if v.Type().PkgPath() != "" || v.Kind() == reflect.Pointer || v.Kind() == reflect.Struct { // others have no methods
		if v.Kind() != reflect.Pointer && v.CanAddr() && own(v.Addr()) {
			v = v.Addr()
		}
		if own(v) {
			return plain(b, v.Interface())
		}
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		b.Write(appendFloat(b.AvailableBuffer(), v.Float(), v.Type().Bits()))
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		b.Write(strconv.AppendInt(b.AvailableBuffer(), v.Int(), 10))
		return nil
	case reflect.Bool:
		b.Write(strconv.AppendBool(b.AvailableBuffer(), v.Bool()))
		return nil
	case reflect.String:
		return plainText(b, v.String())
	case reflect.Interface, reflect.Pointer:
		return write(b, v.Elem())
	case reflect.Struct:
		return writeStruct(b, v)
	case reflect.Map:
		return dictionary(b, v)
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && (v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8) {
			return plain(b, v.Interface())
		}
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := write(b, v.Index(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	return plain(b, v.Interface())
}

// appendFloat appends a number as encoding/json writes it, the shortest that reads back, or null.
func appendFloat(b []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	least, most := 1e-6, 1e21
	if bits == 32 {
		least, most = float64(float32(least)), float64(float32(most))
	}
	if size := math.Abs(f); size == 0 || size >= least && size < most {
		return strconv.AppendFloat(b, f, 'f', -1, bits)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, bits)
	if n := len(b); b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // e-09 is e-9
		b = append(b[:n-2], b[n-1])
	}
	return b
}

// plainText writes a text, which seldom has what needs an escape.
func plainText(b *bytes.Buffer, s string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return plain(b, s)
		}
	}
	b.WriteByte('"')
	b.WriteString(s)
	b.WriteByte('"')
	return nil
}

// own reports whether a value writes itself.
func own(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer && v.IsNil() || v.Kind() == reflect.Interface {
		return false
	}
	_, writes := reflect.TypeAssert[json.Marshaler](v)
	_, spells := reflect.TypeAssert[encoding.TextMarshaler](v)
	return writes || spells
}

// dictionary writes a map, its keys in order.
func dictionary(b *bytes.Buffer, v reflect.Value) error {
	if v.IsNil() {
		b.WriteString("null")
		return nil
	}
	if v.Type().Key().Kind() != reflect.String {
		return fmt.Errorf("finite: a map by %s, want one by names", v.Type().Key())
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := plainText(b, k.String()); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := write(b, v.MapIndex(k)); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// field is one of a struct that stands in its JSON.
type field struct {
	index           []int
	name            string
	goName          string
	tagged          bool // the name is a tag's
	omitEmpty, omit bool // where it is empty, where it is zero
	text            bool // tagged to be a string
}

// known are the fields of the types that were written, in their places.
var known sync.Map

// fieldsOf are those of a struct, those embedded in it among them.
func fieldsOf(t reflect.Type) []field {
	if all, ok := known.Load(t); ok {
		return all.([]field)
	}
	all := candidates(t, nil)
	all = slices.DeleteFunc(slices.Clone(all), func(f field) bool { return !f.stands(all) })
	known.Store(t, all)
	return all
}

// candidates are the fields of a struct and of those that are embedded in it without a name, in their places.
func candidates(t reflect.Type, at []int) (all []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		index := append(slices.Clone(at), i)
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Pointer && embeds(f.Type):
			all = append(all, candidates(f.Type.Elem(), index)...)
		case f.Anonymous && name == "" && embeds(f.Type):
			all = append(all, candidates(f.Type, index)...)
		default:
			omit := strings.Split(options, ",")
			all = append(all, field{index, cmp.Or(name, f.Name), f.Name, name != "", slices.Contains(omit, "omitempty"), slices.Contains(omit, "omitzero"), slices.Contains(omit, "string")})
		}
	}
	return all
}

// stands reports whether a field is the one of its name: the least embedded, of several the only one with a tag, or none.
func (f field) stands(all []field) bool {
	for _, g := range all {
		if g.name != f.name || slices.Equal(g.index, f.index) {
			continue
		}
		if len(g.index) < len(f.index) || len(g.index) == len(f.index) && (g.tagged || !f.tagged) {
			return false
		}
	}
	return true
}

// writeStruct writes a struct, those embedded in it in their places.
func writeStruct(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('{')
	first := true
	for _, f := range fieldsOf(v.Type()) {
		value, err := v.FieldByIndexErr(f.index)
		if err != nil || !value.CanInterface() { // of an embedded nil, or not exported
			continue
		}
		if f.omitEmpty && empty(value) || f.omit && value.IsZero() {
			continue
		}
		if f.text {
			return fmt.Errorf("finite: field %s of %s is tagged to be a string", f.goName, v.Type())
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		if err := plainText(b, f.name); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := write(b, value); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// embeds reports whether the fields of an embedded type stand in place of it.
func embeds(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// empty is what omitempty leaves out.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
