package closedloop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// MaxStateBytes bounds a state file.
const MaxStateBytes = 16 << 20

// ReadState reads one observation as `gpc refine --state` takes it: either
// {"s":[…],"c":[…]} in the order of the case's variables, or every variable of
// state and context as a field of its own by name. All values are finite numbers
// in the case's units. The error names the field and what was expected.
func ReadState(in io.Reader, spec *domain.Spec) (s, c []float64, err error) {
	text, err := io.ReadAll(io.LimitReader(in, MaxStateBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	if len(text) > MaxStateBytes {
		return nil, nil, fmt.Errorf("state: longer than %d bytes", MaxStateBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	var fields map[string]json.RawMessage
	if err := dec.Decode(&fields); err != nil {
		return nil, nil, fmt.Errorf("state: want one JSON object {\"s\":[%d numbers],\"c\":[%d numbers]}: %w", spec.MeasuredSize(), spec.ContextSize(), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("state: more than one JSON value")
	}
	if fields == nil {
		return nil, nil, fmt.Errorf("state: null, want a JSON object")
	}
	if isList(fields["s"]) && (len(fields) == 1 || (len(fields) == 2 && isList(fields["c"]))) {
		if s, err = list(fields["s"], "s", spec.Measured); err != nil {
			return nil, nil, err
		}
		if c, err = list(fields["c"], "c", spec.Context); err != nil {
			return nil, nil, err
		}
		return s, c, nil
	}
	known := map[string]bool{}
	named := func(variables []domain.Variable) ([]float64, error) {
		v := make([]float64, len(variables))
		for i, variable := range variables {
			raw, ok := fields[variable.Name]
			if !ok {
				return nil, fmt.Errorf("state: field %q is missing (%s); or give \"s\" and \"c\" as lists", variable.Name, unit(variable))
			}
			if known[variable.Name] {
				return nil, fmt.Errorf("state: case %q has two variables %q; give \"s\" and \"c\" as lists", spec.Name, variable.Name)
			}
			known[variable.Name] = true
			if v[i], err = number(raw); err != nil {
				return nil, fmt.Errorf("state: field %q: %w", variable.Name, err)
			}
		}
		return v, nil
	}
	if s, err = named(spec.Measured); err != nil {
		return nil, nil, err
	}
	if c, err = named(spec.Context); err != nil {
		return nil, nil, err
	}
	for name := range fields {
		if !known[name] {
			return nil, nil, fmt.Errorf("state: case %q has no variable %q", spec.Name, name)
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

func list(raw json.RawMessage, key string, variables []domain.Variable) ([]float64, error) {
	var entries []json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &entries); err != nil {
			return nil, fmt.Errorf("state: field %q: want a list of numbers: %w", key, err)
		}
	}
	if len(entries) != len(variables) {
		return nil, fmt.Errorf("state: field %q has %d entries, the case has %d", key, len(entries), len(variables))
	}
	v := make([]float64, len(entries))
	for i, e := range entries {
		x, err := number(e)
		if err != nil {
			return nil, fmt.Errorf("state: field %q, entry %d (%s): %w", key, i, variables[i].Name, err)
		}
		v[i] = x
	}
	return v, nil
}

func number(raw json.RawMessage) (float64, error) {
	var x *float64
	if json.Unmarshal(raw, &x) != nil || x == nil || math.IsInf(*x, 0) || math.IsNaN(*x) || math.Abs(*x) > math.MaxFloat32 {
		return 0, fmt.Errorf("want a finite number, got %.40s", raw)
	}
	return *x, nil
}
