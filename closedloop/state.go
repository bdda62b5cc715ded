package closedloop

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// MaxStateBytes bounds a state file.
const MaxStateBytes = 16 << 20

// ReadState reads one observation as `gpc refine --state` takes it.
// It is {"s":[…],"c":[…]} in the order of the case's variables, or has every
// variable of state and context as a field of its own by name. All values are finite numbers
// in the case's units. The error names the field and what was expected; where it is of one
// field it is a *jsonin.FieldError.
func ReadState(source io.Reader, spec *domain.Spec) (s, c []float64, err error) {
	text, err := io.ReadAll(io.LimitReader(source, MaxStateBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	if len(text) > MaxStateBytes {
		return nil, nil, fmt.Errorf("state: longer than %d bytes", MaxStateBytes)
	}
	fields, err := jsonin.Object(text, "observation", fmt.Sprintf(`{"s":[%d numbers],"c":[%d numbers]}`, spec.MeasuredSize(), spec.ContextSize()))
	if err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	return State(fields, spec, false)
}

func fieldErrorf(field, format string, args ...any) error {
	return jsonin.Errorf(field, "state: "+format, args...)
}

// Measured reads the measurements of a plant from the fields "y" and "c" of a JSON object, both lists. y has gaps: a
// null is a sensor that gave no number, NaN. Unknown entries of c may be null too, and are not read.
func Measured(fields map[string]json.RawMessage, m *domain.Measurement, spec *domain.Spec) (y, c []float64, err error) {
	if y, c, err = lists(fields, "y", m.Outputs, spec.Context, true, "give the measured outputs as \"y\", and the context as \"c\""); err != nil {
		return nil, nil, err
	}
	for _, p := range m.Unknown {
		c[p.Context] = p.Mean
	}
	for i, v := range c {
		if math.IsNaN(v) {
			return nil, nil, fieldErrorf("c", "field \"c\", entry %d (%s): want a number: null is allowed only where the context is estimated", i, spec.Context[i].Name)
		}
	}
	return y, c, nil
}

// lists are two fields, which alone there are: one of a name, and "c". form says so of others.
func lists(fields map[string]json.RawMessage, name string, variables, context []domain.Variable, gaps bool, form string) (v, c []float64, err error) {
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if field != name && field != "c" {
			return nil, nil, fieldErrorf(field, "unknown field %q: %s", field, form)
		}
	}
	if v, err = list(fields[name], name, variables, gaps); err != nil {
		return nil, nil, err
	}
	c, err = list(fields["c"], "c", context, gaps)
	return v, c, err
}

// State is an observation of the fields of a JSON object, all of which are its own; see
// ReadState. With gaps a null is a sensor that gave no number, NaN.
func State(fields map[string]json.RawMessage, spec *domain.Spec, gaps bool) (s, c []float64, err error) {
	if isList(fields["y"]) {
		return nil, nil, fieldErrorf("y", "field \"y\" is of measurements, but the state of case %q is not estimated: give the state as \"s\"", spec.Name)
	}
	if isList(fields["s"]) {
		return lists(fields, "s", spec.Measured, spec.Context, gaps, "an observation by lists has \"s\" and \"c\" alone")
	}
	names := map[string]bool{}
	values := func(variables []domain.Variable) ([]float64, error) {
		v := make([]float64, len(variables))
		for i, variable := range variables {
			raw, ok := fields[variable.Name]
			if !ok {
				return nil, fieldErrorf(variable.Name, "field %q is missing (%s); or give \"s\" and \"c\" as lists", variable.Name, unit(variable))
			}
			if names[variable.Name] {
				return nil, fieldErrorf(variable.Name, "case %q has two variables %q; give \"s\" and \"c\" as lists", spec.Name, variable.Name)
			}
			names[variable.Name] = true
			x, text := number(raw, gaps)
			if text != "" {
				return nil, fieldErrorf(variable.Name, "field %q: %s", variable.Name, text)
			}
			v[i] = x
		}
		return v, nil
	}
	if s, err = values(spec.Measured); err == nil {
		c, err = values(spec.Context)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !names[name] {
			return nil, nil, fieldErrorf(name, "case %q has no variable %q", spec.Name, name)
		}
	}
	return s, c, nil
}

func unit(v domain.Variable) string {
	if v.Unit == "" {
		return "a number"
	}
	return "a number in " + v.Unit
}

func isList(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '[' }

func list(raw json.RawMessage, key string, variables []domain.Variable, gaps bool) ([]float64, error) {
	if v := numbers(raw, len(variables), gaps); v != nil {
		return v, nil
	}
	var entries []json.RawMessage // one by one, to say which is wrong
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &entries); err != nil {
			return nil, fieldErrorf(key, "field %q: want a list of numbers: %v", key, err)
		}
	}
	if n := len(entries); n > len(variables) {
		return nil, fieldErrorf(key, "field %q has %d entries, the case has %d", key, n, len(variables))
	} else if n < len(variables) {
		return nil, fieldErrorf(key, "field %q has %d entries, the case has %d: the next is %s", key, n, len(variables), variables[n].Name)
	}
	v := make([]float64, len(entries))
	for i, e := range entries {
		x, text := number(e, gaps)
		if text != "" {
			return nil, fieldErrorf(key, "field %q, entry %d (%s): %s", key, i, variables[i].Name, text)
		}
		v[i] = x
	}
	return v, nil
}

// numbers are n values at once; nil where one of them is none.
func numbers(raw json.RawMessage, n int, gaps bool) []float64 {
	var entries []*float64
	if json.Unmarshal(raw, &entries) != nil || len(entries) != n {
		return nil
	}
	v := make([]float64, n)
	for i, e := range entries {
		switch {
		case e != nil && math.Abs(*e) <= math.MaxFloat32:
			v[i] = *e
		case e == nil && gaps:
			v[i] = math.NaN()
		default:
			return nil
		}
	}
	return v
}

// number is a value, or says why it is none.
func number(raw json.RawMessage, gaps bool) (x float64, wrong string) {
	var v *float64
	err := json.Unmarshal(raw, &v)
	switch {
	case err == nil && v == nil && gaps:
		return math.NaN(), ""
	case err != nil || v == nil || !(math.Abs(*v) <= math.MaxFloat32):
		return 0, fmt.Sprintf("want a finite number, got %.40s", raw)
	}
	return *v, ""
}
