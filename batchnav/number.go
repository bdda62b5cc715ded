package batchnav

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Number is a float64 whose JSON is null where it is not finite, as JSON has
// neither NaN nor infinity.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler; null is NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Text is the number for people, by a verb of fmt: "–" for what JSON has as null, and no sign on what is rounded to
// zero.
func (n Number) Text(verb string) string {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	text := fmt.Sprintf(verb, float64(n))
	if positive, ok := strings.CutPrefix(text, "-"); ok && strings.Trim(positive, "0.") == "" {
		return positive
	}
	return text
}
