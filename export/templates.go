package export

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/x448/float16"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/export/ccode"
	"github.com/gpc-engine/gpc/model"
)

//go:embed templates
var sources embed.FS

// templates are read where something is exported: no program's start has time for them.
var templates = sync.OnceValue(func() *sheet {
	s := &sheet{functions: map[string]any{
		"floats": floats, "halves": halves, "float": float, "double": double, "variable": variable, "title": title,
		"constant": ccode.Constant, "clock": clock, "clockLast": clockLast, "row": row, "xml": escaped,
		"row4": func(v [4]float64) string { return row(v[:]) }, "orZero": func(row string) string { return cmp.Or(row, "0.0") },
		"atLeastOne": atLeastOne, "floatRow": floatRow, "even": isEven,
	}, methods: map[string]question{
		"Info": ofUnit((*unit).Info), "Last": ofUnit((*unit).Last), "AllLayers": ofUnit((*unit).AllLayers), "EncoderLayers": ofUnit((*unit).EncoderLayers),
		"EvenStates": ofUnit((*unit).EvenStates), "LastState": ofUnit((*unit).LastState),
		"OffMap": ofWhole((*whole).OffMap), "Guarded": ofWhole((*whole).Guarded), "AnyOfState": ofWhole((*whole).AnyOfState), "Navigates": ofWhole((*whole).Navigates),
		"HasCorners": ofWhole((*whole).HasCorners), "HasEscape": ofWhole((*whole).HasEscape), "HasFailed": ofWhole((*whole).HasFailed), "HasUrgency": ofWhole((*whole).HasUrgency),
		"Helpers": ofWhole((*whole).Helpers), "Integrator": ofWhole((*whole).Integrator), "Bounds": ofWhole((*whole).Bounds), "LoopBytes": ofWhole((*whole).LoopBytes),
		"Stated": ofWhole((*whole).Stated), "ControllerInfo": ofWhole((*whole).ControllerInfo), "Solves": ofWhole((*whole).Solves), "Shapes": ofWhole((*whole).Shapes),
		"DeviceName": ofWhole((*whole).DeviceName), "Lanes": ofWhole((*whole).Lanes), "Together": ofWhole((*whole).Together), "AlongTogether": ofWhole((*whole).AlongTogether), "PlanSpace": ofWhole((*whole).PlanSpace), "Steps": ofWhole((*whole).Steps), "Points": ofWhole((*whole).Points),
		"First": ofWhole((*whole).First), "Joined": ofWhole((*whole).Joined), "Meet": ofWhole((*whole).Meet), "Met": ofWhole((*whole).Met), "Lead": ofWhole((*whole).Lead), "Once": ofWhole((*whole).Once),
		"Scratch": ofWhole((*whole).Scratch), "Alone": ofWhole((*whole).Alone), "Along": ofWhole((*whole).Along),
		"AlongEstimated": ofWhole((*whole).AlongEstimated), "AlongSteered": ofWhole((*whole).AlongSteered), "Filtered": ofWhole((*whole).Filtered), "Fraction": ofWhole((*whole).Fraction),
		"KeepsOff": ofWhole((*whole).KeepsOff), "Acted": ofWhole((*whole).Acted), "Follows": ofWhole((*whole).Follows), "Rounded": ofWhole((*whole).Rounded), "TakesKept": ofWhole((*whole).TakesKept),
		"GivesKept": ofWhole((*whole).GivesKept), "Margins": ofWhole((*whole).Margins), "Onto": ofWhole((*whole).Onto), "Settling": ofWhole((*whole).Settling),
		"MostVain": ofWhole((*whole).MostVain), "Steered": ofWhole((*whole).Steered), "KeptStages": ofWhole((*whole).KeptStages), "KeptBytes": ofWhole((*whole).KeptBytes),
		"InPlace": ofWhole((*whole).InPlace), "ObserverBytes": ofWhole((*whole).ObserverBytes), "ObserverOperations": ofWhole((*whole).ObserverOperations), "Decisions": ofWhole((*whole).Decisions),
		"Piece": ofValue(shape.Piece), "Offers": ofValue((*search).Offers), "LookAhead": ofValue((*domain.Spec).LookAhead), "MeasuredSize": ofValue((*domain.Spec).MeasuredSize),
		"PlanSize": ofValue((*domain.Spec).PlanSize), "ActionSize": ofValue((*domain.Spec).ActionSize), "Size": ofValue(model.Normalizer.Size), "In": ofValue((*model.MLP).In),
	}}
	if err := s.parse(sources, "templates"); err != nil {
		panic("export: " + err.Error()) // of files that are compiled in, which tests read
	}
	return s
})

// ofValue asks a T, ofUnit and ofWhole the unit or the controller that one is made of.
func ofValue[T, R any](f func(T) R) question {
	return func(v any) (any, bool) {
		if t, ok := v.(T); ok {
			return f(t), true
		}
		return nil, false
	}
}

func ofUnit[R any](f func(*unit) R) question {
	return ofValue(func(v interface{ itsUnit() *unit }) R { return f(v.itsUnit()) })
}

func ofWhole[R any](f func(*whole) R) question {
	return ofValue(func(v interface{ itsWhole() *whole }) R { return f(v.itsWhole()) })
}

func (u *unit) itsUnit() *unit    { return u }
func (w *whole) itsWhole() *whole { return w }

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

// isEven reports whether layer i reads the vector x and writes y.
func isEven(i int) bool { return i%2 == 0 }

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

// EvenStates is even of D_s's layers, which follow E_x's, and LastState the vector that they end in.
func (u *unit) EvenStates() (all []bool) {
	for i := range u.StateLayers {
		all = append(all, isEven(u.Encoder+i))
	}
	return all
}

func (u *unit) LastState() string {
	if isEven(u.Encoder + len(u.StateLayers)) {
		return "x"
	}
	return "y"
}

// atLeastOne is the length of an array of n elements in C, which has none of no element.
func atLeastOne(n int) int { return max(n, 1) }

// floatRow is a short initialiser, of a zero for no elements.
func floatRow(v []float32) string {
	text := make([]string, len(v))
	for i, x := range v {
		text[i] = float(x)
	}
	if len(v) == 0 {
		return "0"
	}
	return strings.Join(text, ", ")
}
