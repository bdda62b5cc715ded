package export

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"github.com/x448/float16"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/export/ccode"
)

//go:embed templates
var sources embed.FS

// templates are read where something is exported: no program's start has time for them.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"floats": floats, "halves": halves, "float": float, "double": double, "variable": variable, "title": title,
		"constant": ccode.Constant, "clock": clock, "clockLast": clockLast, "row": row, "xml": escaped,
		"row4": func(v [4]float64) string { return row(v[:]) }, "orZero": func(row string) string { return cmp.Or(row, "0.0") },
	}).ParseFS(sources, "templates/*"))
})

// clock is the index of the clock in a context; behind it are the actions before of a system with rates.
func clock(s *domain.Spec) string {
	if clockLast(s) {
		return "NC - 1"
	}
	return strconv.Itoa(s.Clock - 1)
}

func clockLast(s *domain.Spec) bool { return s.Clock == len(s.Context) }

// float is a constant of C's type float, exact.
func float(v float32) string { return strconv.FormatFloat(float64(v), 'x', -1, 32) + "f" }

// double is a constant of C's type double, exact.
func double(v float64) string { return strconv.FormatFloat(v, 'x', -1, 64) }

// floats are the elements of an initialiser.
func floats(v []float32) string { return lines(v, 8, float) }

// halves are the bits of values that float16 holds exactly.
func halves(v []float32) string {
	return lines(v, 16, func(x float32) string { return fmt.Sprintf("0x%04x", float16.Fromfloat32(x).Bits()) })
}

// row is a short initialiser of doubles.
func row(v []float64) string {
	text := make([]string, len(v))
	for i, x := range v {
		text[i] = ccode.Constant(x)
	}
	return strings.Join(text, ", ")
}

// lines are elements, a few in each line.
func lines(v []float32, width int, text func(float32) string) string {
	var b strings.Builder
	for row := range slices.Chunk(v, width) {
		b.WriteString("   ")
		for _, x := range row {
			b.WriteString(" " + text(x) + ",")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// variable is a comment's line about entry i of a vector.
func variable(vector string, i int, v domain.Variable) string {
	text := fmt.Sprintf("%s[%d] %s", vector, i, v.Name)
	if v.Unit != "" {
		text += ", " + v.Unit
	}
	if v.Bounded() && vector == "u" {
		text += fmt.Sprintf(", in [%g, %g]", v.Lo, v.Hi)
	}
	return strings.ReplaceAll(text, "*/", "* /")
}

// title is a sentence without what ends a comment of C.
func title(text string) string { return strings.ReplaceAll(text, "*/", "* /") }

// Info is what gpc_NAME_info says.
func (u *unit) Info() string {
	weights := "float32"
	if u.Half {
		weights = "float16"
	}
	return fmt.Sprintf("gpc %s (%s), case %s, %s weights, model sha256 %s", u.Version, u.Build, u.Spec.Name, weights, u.SHA256)
}

// Even reports whether layer i reads the vector x and writes y.
func (u *unit) Even(i int) bool { return i%2 == 0 }

// Last is the vector that the last layer writes.
func (u *unit) Last() string {
	if len(u.Layers)%2 == 1 {
		return "y"
	}
	return "x"
}

// AllLayers are the map's and D_s's, EncoderLayers E_x's.
func (u *unit) AllLayers() []layer     { return slices.Concat(u.Layers, u.StateLayers) }
func (u *unit) EncoderLayers() []layer { return u.Layers[:u.Encoder] }

// EvenState is Even of D_s's layers, which follow E_x's, and LastState the vector that they end in.
func (u *unit) EvenState(i int) bool { return u.Even(u.Encoder + i) }
func (u *unit) LastState() string {
	if u.EvenState(len(u.StateLayers)) {
		return "x"
	}
	return "y"
}

// AtLeastOne is the length of an array of n elements in C, which has none of no element.
func (u *unit) AtLeastOne(n int) int { return max(n, 1) }

// Row is a short initialiser, of a zero for no elements.
func (u *unit) Row(v []float32) string {
	text := make([]string, len(v))
	for i, x := range v {
		text[i] = float(x)
	}
	if len(v) == 0 {
		return "0"
	}
	return strings.Join(text, ", ")
}
