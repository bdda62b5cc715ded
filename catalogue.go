package gpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/internal/option"
)

// InputError is an error in what the caller gave: a name, a file, an option.
type InputError struct{ Err error }

// Error says of a path that is not there that it does not exist, in place of the system call that missed it.
func (e InputError) Error() string {
	text := e.Err.Error()
	if missing, ok := errors.AsType[*fs.PathError](e.Err); ok && errors.Is(missing, fs.ErrNotExist) {
		text = strings.Replace(text, missing.Error(), missing.Path+" does not exist", 1)
		return strings.TrimPrefix(text, missing.Path+": ")
	}
	return text
}

func (e InputError) Unwrap() error { return e.Err }

// BadInput marks an error as the caller's; nil stays nil.
func BadInput(err error) error {
	if err == nil {
		return nil
	}
	return InputError{err}
}

func badInputf(format string, args ...any) error { return InputError{fmt.Errorf(format, args...)} }

// badOptionf is badInputf of a text that names fields of options in braces.
func badOptionf(format string, args ...any) error { return InputError{option.Errorf(format, args...)} }

// refused marks as the caller's what a package below refused to do.
func refused(err error) error {
	if errors.As(err, new(*durable.Refusal)) {
		return BadInput(err)
	}
	return err
}

// asBadInput makes an error of what the caller asked for one of input: a regime that is none, a preference
// that the method was not made for, an output that would lose or mix something.
func asBadInput(err error) error {
	if errors.As(err, new(domain.RegimeError)) || errors.As(err, new(domain.PreferenceError)) || errors.As(err, new(*closedloop.SceneError)) {
		return BadInput(err)
	}
	return refused(err)
}

// Catalogue is the cases of a program with its bundled maps.
type Catalogue struct {
	Cases []domain.Case
	// Later are cases that are made when they are named or listed, before Cases in lists.
	Later []Later
	// Open, if set, makes the case of a name that is not in Cases, such as one that
	// holds a file's path; ok is false for a name that is none of its own.
	Open func(name string) (c domain.Case, ok bool, err error)
	// Embedded, if set, makes the case of a trace whose name is not in Cases of the params
	// that its header embeds (Plant.Params), opening nothing; ok as in Open.
	Embedded func(name string, params json.RawMessage) (c domain.Case, ok bool, err error)
	// Groups are those that lists show the cases in, in their order: where there are some, every case is in one.
	Groups []Group
	// Models holds CASE.safetensors for each case with a bundled map; nil for none.
	Models fs.FS
}

// Later is a case of a name that is made when it is asked for, and the same each time.
type Later struct {
	Name string
	Make func() domain.Case
}

// Group is a part of a catalogue: the cases whose domain.Case.Group is its name.
type Group struct{ Name, About string }

// Validate checks every case; see domain.Case.Validate. It calls the functions of all problems: a program whose cases are
// compiled in has a test that does, and at its start only what Find checks.
func (k *Catalogue) Validate() error {
	for _, c := range k.All() {
		if _, err := NewCase(c.def); err != nil {
			return err
		}
		if err := k.unique(c.Name()); err != nil {
			return err
		}
	}
	return nil
}

// unique is an error where two cases have the name.
func (k *Catalogue) unique(name string) error {
	if all := k.Names(); slices.Contains(all[slices.Index(all, name)+1:], name) {
		return badInputf("two cases are named %q", name)
	}
	return nil
}

// Names are those of the cases, in their order. None is made.
func (k *Catalogue) Names() (names []string) {
	for _, l := range k.Later {
		names = append(names, l.Name)
	}
	for _, c := range k.Cases {
		if c.Problem != nil { // Validate refuses it
			names = append(names, c.Problem.Spec().Name)
		}
	}
	return names
}

// All are the cases, in their order.
func (k *Catalogue) All() (all []*Case) {
	for _, l := range k.Later {
		all = append(all, &Case{def: l.Make(), models: k.Models})
	}
	for _, c := range k.Cases {
		all = append(all, &Case{def: c, models: k.Models})
	}
	return all
}

// Find returns the case of that name, or of the system in the file of that name (see SystemFile), or
// what Open makes of it: the name has to be the user's own, not one that was read. The case is checked; see
// domain.Case.Validate.
func (k *Catalogue) Find(name string) (*Case, error) {
	c, err := k.Named(name)
	if err == nil {
		if err = k.unique(name); err == nil {
			var own *Case
			if own, err = NewCase(c.def); k.Models == nil {
				return own, err
			}
		}
		return c, err
	}
	if strings.HasSuffix(name, SystemSuffix) {
		return SystemFile(name)
	}
	if k.Open == nil {
		return nil, err
	}
	if c, ok, err := k.Open(name); ok {
		if err != nil {
			return nil, BadInput(err)
		}
		return NewCase(c)
	}
	return nil, err
}

// Named returns the case of Later and Cases of that name. Nothing is opened.
func (k *Catalogue) Named(name string) (*Case, error) {
	for _, l := range k.Later {
		if l.Name == name {
			return &Case{def: l.Make(), models: k.Models}, nil
		}
	}
	for _, c := range k.Cases {
		if c.Problem != nil && c.Problem.Spec().Name == name {
			return &Case{def: c, models: k.Models}, nil
		}
	}
	all := k.Names()
	return nil, badInputf("unknown case %q%s (this program has %s); a system of your own is opened by its file, which ends in %s, or by the program of its module (in Python: door=\"subprocess\", program=FILE)", name, names.Meant(name, all), names.List(all), SystemSuffix)
}
