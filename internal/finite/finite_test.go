package finite

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

type degrees float64

func (d degrees) MarshalJSON() ([]byte, error) { return json.Marshal(float64(d) * 2) }

type named float64

func (n *named) MarshalText() ([]byte, error) { return []byte("<a & b>"), nil }

type Inner struct {
	A float64 `json:"a"`
	B string
}

type deep struct{ Depth []float32 }

type all struct {
	Inner
	*deep
	Tagged   Inner `json:"tagged"`
	F        float64
	P        *float64           `json:"p"`
	Left     float64            `json:"left,omitempty"`
	Empty    []int              `json:"empty,omitempty"`
	Zero     Inner              `json:"zero,omitzero"`
	Nil      []float64          `json:"nil"`
	Rows     [][]float64        `json:"rows"`
	Pair     [2]float64         `json:"pair"`
	Map      map[string]float64 `json:"map"`
	Any      any                `json:"any"`
	Own      degrees            `json:"own"`
	Text     named              `json:"text"`
	Bytes    []byte             `json:"bytes"`
	N        int64              `json:"n"`
	Yes      bool               `json:"yes"`
	Hidden   float64            `json:"-"`
	internal float64
}

// Finite values are written as encoding/json writes them.
func TestFiniteValuesAreEncodingJSONs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64()
		list := rapid.SliceOf(number)
		v := all{
			Inner: Inner{number.Draw(t, "a"), rapid.String().Draw(t, "b")}, F: number.Draw(t, "f"), Left: rapid.SampledFrom([]float64{0, 1.5}).Draw(t, "left"),
			Rows: rapid.SliceOf(list).Draw(t, "rows"), Pair: [2]float64{number.Draw(t, "x"), 2}, Map: map[string]float64{"<b>": 1, "a": number.Draw(t, "m")},
			Any: []any{number.Draw(t, "any"), "x", nil, map[string]any{"k": 1}}, Own: 3, Text: 4, Bytes: []byte("bytes"), N: rapid.Int64().Draw(t, "n"), Yes: true, Hidden: 1, internal: 2,
		}
		if rapid.Bool().Draw(t, "deep") {
			v.deep, v.P, v.Zero.B = &deep{rapid.SliceOf(rapid.Float32()).Draw(t, "singles")}, &v.F, "z"
		}
		for _, value := range []any{v, &v, nil, []all{v}} {
			var want strings.Builder
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(value); err != nil {
				t.Fatal(err)
			}
			if got, err := Marshal(value); err != nil || string(got)+"\n" != want.String() {
				t.Fatalf("%v\n%s\nwant\n%s", err, got, want.String())
			}
		}
	})
}

// Numbers change their notation where encoding/json's do.
func TestNotationsAreEncodingJSONs(t *testing.T) {
	for _, v := range []float64{0, math.Copysign(0, -1), 1e-6, math.Nextafter(1e-6, 0), 1e-7, -1e-9, 1e-10, 5e-324, 1e20, math.Nextafter(1e21, 0), 1e21, -1e100, math.MaxFloat64} {
		for _, value := range []any{v, float32(v)} {
			want, err := json.Marshal(value)
			if err != nil { // an infinity
				want = []byte("null")
			}
			if got, err := Marshal(value); err != nil || string(got) != string(want) {
				t.Errorf("%v of %T is %s, want %s", v, value, got, want)
			}
		}
	}
}

func TestNumbersThatAreNoneAreNull(t *testing.T) {
	inf := math.Inf(1)
	v := all{Inner: Inner{A: math.NaN()}, deep: &deep{[]float32{float32(inf), 1}}, P: &inf, Left: -inf, Rows: [][]float64{{1, inf}}, Map: map[string]float64{"k": math.NaN()}, Any: inf}
	text := require.Get(Marshal(v))(t)
	var got map[string]any
	require.OK(t, json.Unmarshal(text, &got))
	for key, want := range map[string]any{
		"a": nil, "Depth": []any{nil, 1.0}, "p": nil, "left": nil, "rows": []any{[]any{1.0, nil}}, "map": map[string]any{"k": nil}, "any": nil,
	} {
		if has, ok := got[key]; !ok || !reflect.DeepEqual(has, want) {
			t.Errorf("%s is %v, want %v in %s", key, has, want, text)
		}
	}
}

// Names are those of JSON: a field of an embedded struct stands where Go's name of the struct hides it, the least embedded
// stands for its name, and of several equally deep the one with a tag, or none.
func TestNamesOfEmbeddedFieldsAreEncodingJSONs(t *testing.T) {
	type Limit struct {
		Limit string `json:"limit"`
		Value float64
	}
	type Other struct {
		Value float64 `json:"Value"`
		Twice int     `json:"twice"`
	}
	type Third struct {
		Twice int `json:"twice"`
		Deep  int
	}
	for _, v := range []any{
		struct {
			Limit
			By float64
		}{Limit{"vmin", 1}, 2},
		struct {
			Limit
			Other
			*Third
			Deep string
		}{Limit{"vmax", 1}, Other{2, 3}, &Third{4, 5}, "x"},
	} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Marshal(v); err != nil || string(got) != string(want) {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	}
}
