package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// fieldsOf reads one JSON object, no field of which is there twice. what is what holds it: the
// line, or the body of a request.
func fieldsOf(text []byte, what string) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("the %s is not UTF-8", what)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf(`the %s is not a JSON object, such as {"session":"a"}`, what)
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("the %s is not JSON: %w", what, err)
		}
		name, _ := t.(string)
		if _, ok := fields[name]; ok {
			return nil, fieldErrorf(name, "field %.64q is there twice", name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("the %s is not JSON: field %.64q: %w", what, name, err)
		}
		fields[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("the %s is not JSON: %w", what, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the %s has more than one JSON value", what)
	}
	return fields, nil
}

// take decodes a field and takes it from the others; it reports whether it is there.
func take[T any](fields map[string]json.RawMessage, name, want string, into *T) (bool, error) {
	raw, ok := fields[name]
	if !ok {
		return false, nil
	}
	delete(fields, name)
	var v *T
	if err := json.Unmarshal(raw, &v); err != nil || v == nil {
		return true, fieldErrorf(name, "field %q is %.64s, want %s", name, raw, want)
	}
	*into = *v
	return true, nil
}

// line is the request of a line that was read at a time. What it is of is filled in even
// where the rest is wrong.
func (s *Server) line(text []byte, read time.Time) (j *job, err error) {
	j = &job{}
	fields, err := fieldsOf(text, "line")
	if err != nil {
		return j, err
	}
	var name string
	known := strings.Join(ops[1:], ", ")
	there, err := take(fields, "op", "one of "+known, &name)
	at := slices.Index(ops, name)
	switch {
	case err != nil:
		return j, err
	case !there:
		return j, fieldErrorf("op", "field \"op\" is missing, want one of %s", known)
	case at < 1:
		return j, fieldErrorf("op", "field \"op\" is %.64q, want one of %s", name, known)
	}
	j.op = op(at)
	return j, s.parse(j, fields, read)
}

// parse fills in a request of an operation from its fields, that was read at a time.
func (s *Server) parse(j *job, fields map[string]json.RawMessage, read time.Time) (err error) {
	if j.op == opHealth {
		return nothing(fields, j.op)
	}
	if _, err := take(fields, "session", "a name", &j.session); err != nil {
		return err
	}
	if j.op == opReset || j.op == opClear {
		return nothing(fields, j.op)
	}
	if j.request.Preference, err = preference(fields); err != nil {
		return err
	}
	if j.op == opPreference {
		if j.request.Preference == nil {
			return fieldErrorf("preference", "field \"preference\" is missing, want a list of weights, or null for the adaptive priority")
		}
		return nothing(fields, j.op)
	}
	ms, there, err := milliseconds(fields, "deadline_ms", float64(MaxDeadline.Milliseconds()))
	if err != nil {
		return err
	}
	if there {
		j.request.Deadline = read.Add(time.Duration(math.Ceil(ms * float64(time.Millisecond))))
	}
	if j.op == opRefine {
		if err := refinement(fields, &j.refine); err != nil {
			return err
		}
	} else if ms, there, err = milliseconds(fields, "observed_ms", maxObserved); err != nil {
		return err
	} else if there {
		j.request.Observed = time.Unix(0, int64(ms*float64(time.Millisecond)))
	}
	j.request.S, j.request.C, err = closedloop.State(fields, s.spec, j.op == opDecide)
	return err
}

// maxObserved bounds observed_ms: nanoseconds since 1970 have to fit 63 bits.
const maxObserved = 9e12

// milliseconds takes a field of a time.
func milliseconds(fields map[string]json.RawMessage, name string, most float64) (ms float64, there bool, err error) {
	there, err = take(fields, name, "milliseconds above 0", &ms)
	if err == nil && there && !(ms > 0 && ms <= most) {
		err = fieldErrorf(name, "field %q is %v, want milliseconds above 0, at most %.0f", name, ms, most)
	}
	return ms, there, err
}

// nothing refuses fields that an operation does not have.
func nothing(fields map[string]json.RawMessage, o op) error {
	for name := range fields {
		return fieldErrorf(name, "%q has no field %.64q", o, name)
	}
	return nil
}

// preference is the one that fields state, nil for none.
func preference(fields map[string]json.RawMessage) (*domain.Preference, error) {
	raw, ok := fields["preference"]
	if !ok {
		return nil, nil
	}
	delete(fields, "preference")
	var w []float64
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, fieldErrorf("preference", "field \"preference\" is %.64s, want a list of weights, or null for the adaptive priority", raw)
	}
	return &domain.Preference{Adaptive: w == nil, W: w}, nil
}

// refinement takes the options of a refinement.
func refinement(fields map[string]json.RawMessage, o *batchnav.RefineOptions) error {
	for _, f := range []struct {
		name     string
		into     *int
		from, to int
	}{{"candidates", &o.Candidates, 1, batchnav.MaxCandidates}, {"look_ahead", &o.LookAhead, 0, batchnav.MaxLookAhead}} {
		want := fmt.Sprintf("a whole number from %d to %d", f.from, f.to)
		there, err := take(fields, f.name, want, f.into)
		if err != nil {
			return err
		}
		if there && (*f.into < f.from || *f.into > f.to) {
			return fieldErrorf(f.name, "field %q is %d, want %s", f.name, *f.into, want)
		}
	}
	_, err := take(fields, "seed", "a whole number from 0", &o.Seed)
	return err
}

// failureOf is an error as it is answered.
func failureOf(err error) *Failure {
	f := &Failure{Error: err.Error()}
	var own *FieldError
	var state *closedloop.FieldError
	switch {
	case errors.As(err, &own):
		f.Field = own.Field
	case errors.As(err, &state):
		f.Field = state.Field
	}
	return f
}
