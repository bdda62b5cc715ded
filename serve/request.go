package serve

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/names"
)

const (
	// example is the shortest request.
	example = `{"session":"a"}`
	// preferenceForm is what a preference is to be.
	preferenceForm = `a list of weights, null for the adaptive priority, {"OBJECTIVE": "<= NUMBER"}, or a list of objectives in the order of their importance`
)

// line is the request of a line that was read at a time. What it is of is filled in even
// where the rest is wrong.
func (s *Server) line(text []byte, read time.Time) (j *job, err error) {
	j = &job{}
	fields, err := jsonin.Object(text, "line", example)
	if err != nil {
		return j, err
	}
	var name string
	operations := strings.Join(ops[1:], ", ")
	present, err := jsonin.Take(fields, "op", "one of "+operations, &name)
	index := slices.Index(ops, name)
	switch {
	case err != nil:
		return j, err
	case !present:
		return j, jsonin.Missing("op", "one of "+operations)
	case index < 1:
		return j, jsonin.Errorf("op", "field \"op\" is %.64q%s (want one of %s)", name, names.Meant(name, ops[1:]), operations)
	}
	j.op = op(index)
	return j, s.parse(j, fields, read)
}

// parse fills in a request of an operation from its fields, that was read at a time.
func (s *Server) parse(j *job, fields jsonin.Fields, read time.Time) (err error) {
	if j.op == opHealth {
		return fields.Nothing(fmt.Sprintf("%q", j.op))
	}
	if _, err := jsonin.Take(fields, "session", "a name", &j.session); err != nil {
		return err
	}
	if j.op == opReset || j.op == opClear {
		return fields.Nothing(fmt.Sprintf("%q", j.op))
	}
	if j.op == opFront {
		if err := counts(fields, count{"points", &j.front.Points, s.spec.ObjectiveSize(), batchnav.MostPoints}, count{"look_ahead", &j.front.LookAhead, 0, batchnav.MaxLookAhead}, count{"exact", &j.exact, s.spec.ObjectiveSize(), MaxExact}); err != nil {
			return err
		}
		ms, _, err := milliseconds(fields, "deadline_ms", MaxExactTime.Seconds()*1e3)
		if err != nil {
			return err
		}
		j.front.TimeLimit = time.Duration(ms * float64(time.Millisecond))
		j.request.S, j.request.C, err = closedloop.State(fields, s.spec, false)
		return err
	}
	if j.request.Preference, err = preference(fields, s.spec); err != nil {
		return err
	}
	if j.op == opPreference {
		if j.request.Preference == nil {
			return jsonin.Missing("preference", preferenceForm)
		}
		return fields.Nothing(fmt.Sprintf("%q", j.op))
	}
	ms, present, err := milliseconds(fields, "deadline_ms", float64(MaxDeadline.Milliseconds()))
	if err != nil {
		return err
	}
	if present {
		j.request.Deadline = read.Add(time.Duration(math.Ceil(ms * float64(time.Millisecond))))
	}
	if j.op == opRefine {
		if err := counts(fields, count{"candidates", &j.refine.Candidates, 1, MaxCandidates}, count{"look_ahead", &j.refine.LookAhead, 0, batchnav.MaxLookAhead}); err != nil {
			return err
		}
		if _, err := jsonin.Take(fields, "seed", "a whole number from 0", &j.refine.Seed); err != nil {
			return err
		}
	} else if ms, present, err = milliseconds(fields, "observed_ms", maxObserved); err != nil {
		return err
	} else if present {
		j.request.Observed = time.Unix(0, int64(ms*float64(time.Millisecond)))
	}
	if m := s.controlCase.Definition().Measurement; m != nil && j.op == opDecide {
		j.request.Y, j.request.C, err = closedloop.Measured(fields, m, s.spec)
		return err
	}
	j.request.S, j.request.C, err = closedloop.State(fields, s.spec, j.op == opDecide)
	return err
}

// maxObserved bounds observed_ms: nanoseconds since 1970 have to fit 63 bits.
const maxObserved = 9e12

// milliseconds takes a field of a time.
func milliseconds(fields jsonin.Fields, name string, most float64) (ms float64, present bool, err error) {
	present, err = jsonin.Take(fields, name, "milliseconds above 0", &ms)
	if err == nil && present && !(ms > 0 && ms <= most) {
		err = jsonin.Errorf(name, "field %q is %v, want milliseconds above 0, at most %.0f", name, ms, most)
	}
	return ms, present, err
}

// preference is the one that fields state, nil for none.
func preference(fields jsonin.Fields, spec *domain.Spec) (*domain.Preference, error) {
	if raw := bytes.TrimLeft(fields["preference"], " \t\r\n["); len(raw) > 0 && (raw[0] == '{' || raw[0] == '"') {
		goal, err := spec.Goals(fields["preference"])
		delete(fields, "preference")
		if err != nil {
			return nil, &FieldError{Field: "preference", Err: err}
		}
		return &domain.Preference{Goal: goal}, nil
	}
	w, present, err := jsonin.Nullable[[]float64](fields, "preference", preferenceForm)
	switch {
	case err != nil || !present:
		return nil, err
	case w == nil:
		return &domain.Preference{Adaptive: true}, nil
	}
	return &domain.Preference{W: *w}, nil
}

// count is a field of a whole number, and what it may be.
type count struct {
	name     string
	dst      *int
	from, to int
}

// counts takes the fields of numbers that a request may have.
func counts(fields jsonin.Fields, all ...count) error {
	for _, f := range all {
		want := fmt.Sprintf("a whole number from %d to %d", f.from, f.to)
		present, err := jsonin.Take(fields, f.name, want, f.dst)
		if err != nil {
			return err
		}
		if present && (*f.dst < f.from || *f.dst > f.to) {
			return jsonin.Errorf(f.name, "field %q is %d, want %s", f.name, *f.dst, want)
		}
	}
	return nil
}

// FailureOf is an error as it is answered: with its field where it is a *FieldError.
func FailureOf(err error) *Failure {
	f := &Failure{Error: err.Error()}
	if field, ok := errors.AsType[*FieldError](err); ok {
		f.Field = field.Field
	}
	return f
}
