package formats

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// matValue is a MATLAB array: numbers by columns, a text, cells, or the fields of a struct.
type matValue struct {
	name          string
	rows, columns int
	numbers       []float64
	text          string
	cells         []matValue
	fields        map[string]matValue
}

// matReader walks the elements of a MAT file of level 5.
type matReader struct {
	order binary.ByteOrder
	data  []byte
	depth int
}

// maxNested is how deep elements may stand in one another.
const maxNested = 32

// element takes the next element: its type and content.
func (r *matReader) element() (kind uint32, content []byte) {
	if len(r.data) < 8 {
		failf(0, "a MAT file that ends within an element")
	}
	kind = r.order.Uint32(r.data)
	if small := kind >> 16; small != 0 { // up to four bytes in the tag
		if small > 4 {
			failf(0, "an element of %d bytes in a tag", small)
		}
		content = r.data[4 : 4+small]
		r.data = r.data[8:]
		return kind & 0xffff, content
	}
	size := uint64(r.order.Uint32(r.data[4:]))
	if size > uint64(len(r.data)-8) {
		failf(0, "an element of %d bytes, of which %d are left", size, len(r.data)-8)
	}
	content = r.data[8 : 8+size]
	next := 8 + size
	if kind != 15 { // compressed ones are not padded
		next = min((next+7)/8*8, uint64(len(r.data)))
	}
	r.data = r.data[next:]
	return kind, content
}

// number converts the numbers of an element.
func (r *matReader) numbers(kind uint32, content []byte) []float64 {
	size := map[uint32]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2}[kind]
	if size == 0 {
		failf(0, "numbers of type %d, which cannot be read", kind)
	}
	out := make([]float64, len(content)/size)
	for i := range out {
		b := content[i*size:]
		switch kind {
		case 1:
			out[i] = float64(int8(b[0]))
		case 2, 16:
			out[i] = float64(b[0])
		case 3:
			out[i] = float64(int16(r.order.Uint16(b)))
		case 4, 17:
			out[i] = float64(r.order.Uint16(b))
		case 5:
			out[i] = float64(int32(r.order.Uint32(b)))
		case 6:
			out[i] = float64(r.order.Uint32(b))
		case 7:
			out[i] = float64(math.Float32frombits(r.order.Uint32(b)))
		case 9:
			out[i] = math.Float64frombits(r.order.Uint64(b))
		case 12:
			out[i] = float64(int64(r.order.Uint64(b)))
		case 13:
			out[i] = float64(r.order.Uint64(b))
		}
	}
	return out
}

// array reads an array from the content of its element.
func (r *matReader) array(content []byte) (v matValue) {
	inner := &matReader{r.order, content, r.depth + 1}
	if inner.depth > maxNested {
		failf(0, "arrays within %d others", maxNested)
	}
	if len(content) == 0 {
		return v
	}
	_, flags := inner.element()
	kind, dimensions := inner.element()
	size := inner.numbers(kind, dimensions)
	if len(flags) < 4 || len(size) != 2 || size[0] < 0 || size[1] < 0 || size[0]*size[1] > matpower.MaxBytes {
		failf(0, "an array of %d dimensions: want matrices", len(size))
	}
	v.rows, v.columns = int(size[0]), int(size[1])
	_, name := inner.element()
	v.name = string(name)
	switch class := r.order.Uint32(flags) & 0xff; {
	case class == 1: // cells
		for range v.rows * v.columns {
			_, cell := inner.element()
			v.cells = append(v.cells, inner.array(cell))
		}
	case class == 2: // a struct
		kind, length := inner.element()
		width := inner.numbers(kind, length)
		_, names := inner.element()
		if len(width) != 1 || width[0] < 1 || v.rows*v.columns != 1 {
			failf(0, "a list of structs: want one")
		}
		v.fields = map[string]matValue{}
		for names := range slices.Chunk(names, int(width[0])) {
			_, field := inner.element()
			v.fields[string(bytes.TrimRight(names, "\x00"))] = inner.array(field)
		}
	case class == 4: // a text
		kind, text := inner.element()
		for _, u := range inner.numbers(kind, text) {
			v.text += string(rune(int32(u)))
		}
	case class >= 6 && class <= 15:
		kind, real := inner.element()
		v.numbers = inner.numbers(kind, real)
		if len(v.numbers) != v.rows*v.columns {
			failf(0, "a matrix of %d rows and %d columns with %d numbers", v.rows, v.columns, len(v.numbers))
		}
	}
	return v
}

// readMAT reads a MATPOWER case that MATLAB saved (level 5, also compressed): a struct with version, bus, gen and branch.
func readMAT(name string, text []byte) (*matpower.Case, error) {
	if len(text) < 128 {
		failf(0, "%d bytes: a MAT file begins with 128", len(text))
	}
	r := &matReader{order: binary.LittleEndian, data: text[128:]}
	switch string(text[126:128]) {
	case "IM":
	case "MI":
		r.order = binary.BigEndian
	default:
		failf(0, "no MAT file of level 5: save it with -v7 or -v6")
	}
	for len(r.data) >= 8 {
		kind, content := r.element()
		inner := r
		if kind == 15 {
			z, err := zlib.NewReader(bytes.NewReader(content))
			if err == nil {
				content, err = io.ReadAll(io.LimitReader(z, matpower.MaxBytes))
			}
			if err != nil {
				failf(0, "a compressed element: %v", err)
			}
			inner = &matReader{order: r.order, data: content}
			kind, content = inner.element()
		}
		if kind != 14 {
			continue
		}
		v := inner.array(content)
		if v.fields["bus"].numbers == nil {
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(v.fields)) {
			if meaning := matpower.Refused(field); meaning != "" && v.fields[field].rows*v.fields[field].columns > 0 {
				failf(0, "%s.%s (%s) cannot be honoured", v.name, field, meaning)
			}
		}
		table := func(field string) matpower.Table { // by rows
			m := v.fields[field]
			if len(m.numbers) != m.rows*m.columns {
				failf(0, "%s.%s is no full matrix of numbers", v.name, field)
			}
			t := matpower.Table{Columns: max(m.columns, 1), Data: make([]float64, len(m.numbers))}
			for i, x := range m.numbers {
				t.Data[i%m.rows*m.columns+i/m.rows] = x
			}
			return t
		}
		base := v.fields["baseMVA"].numbers
		if len(base) != 1 {
			failf(0, "%s.baseMVA is missing", v.name)
		}
		c, err := matpower.New(name, base[0], table("bus"), table("gen"), table("branch"), table("gencost"), table("dcline"), table("dclinecost"))
		if err != nil {
			return nil, err
		}
		c.Name = ""
		names := func(field string, count int, name func(row int) *string) {
			for i, cell := range v.fields[field].cells {
				if i < count {
					*name(i) = strings.TrimSpace(cell.text)
				}
			}
		}
		names("bus_name", len(c.Bus), func(row int) *string { return &c.Bus[row].Name })
		names("gen_name", len(c.Gen), func(row int) *string { return &c.Gen[row].Name })
		names("branch_name", len(c.Branch), func(row int) *string { return &c.Branch[row].Name })
		return c, nil
	}
	failf(0, "no case here: want a struct with baseMVA, bus, gen and branch")
	return nil, nil
}
