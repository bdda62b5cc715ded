package gpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/option"
)

// Again says what makes the decisions of a trace again.
type Again struct {
	// Model is the file of the map or the weights that the trace names by its hash, "" for
	// the bundled map.
	Model  string
	Engine engine.Options // one thread unless it says otherwise
}

// Verify re-simulates a trace, draws its scenes, measurements and optima again, and makes every
// decision again where again says by what, which may be nil; see closedloop.Verify. Case, Deep and ISA of
// how are filled in. No file but the trace and again.Model is opened: a case that is none of the
// catalogue's own is made of what the trace embeds.
func (k *Catalogue) Verify(ctx context.Context, file string, again *Again, how closedloop.VerifyOptions) (*closedloop.Verification, error) {
	set, err := instructionSet()
	if err != nil {
		return nil, BadInput(err)
	}
	closeAll := func() {}
	defer func() { closeAll() }()
	var of *Case
	how.ISA = set
	how.Case = func(h *closedloop.Header) (_ *domain.Case, embedded bool, err error) {
		if of, embedded, err = k.Traced(h); err != nil {
			return nil, false, err
		}
		return &of.def, embedded, nil
	}
	if again != nil {
		how.Deep = func(h *closedloop.Header) (m domain.Controller, backend string, err error) {
			m, backend, closeAll, err = of.again(h, again)
			return m, backend, err
		}
	}
	v, err := closedloop.Verify(ctx, file, how)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: %w", file, err)
	case err != nil:
		return nil, badInputf("%s: %w", file, err)
	}
	return v, nil
}

// Traced is the case of a trace's header, on the header's plant: one of the catalogue's own by
// its name, or what Embedded, or the system in it, makes of the header. No file is opened.
func (k *Catalogue) Traced(h *closedloop.Header) (c *Case, embedded bool, err error) {
	model := *h
	if h.Plant != nil {
		model.Params = h.Plant.Model
	}
	if c, embedded, err = k.traced(&model); err == nil && h.Plant != nil {
		var of bool
		if c, of, err = k.onOther(c, h); of {
			embedded = true
		}
	}
	if err == nil && h.Steps != 0 {
		c, err = c.Driven(h.Steps)
	}
	if err == nil && c.def.Delay.Periods != h.Delay {
		c, err = c.Delayed(h.Delay)
	}
	return c, embedded, err
}

// onOther is a case in the other plant of a trace's header, and whether that is made of what the trace holds.
func (k *Catalogue) onOther(c *Case, h *closedloop.Header) (*Case, bool, error) {
	plant, embedded, err := k.traced(&closedloop.Header{Case: h.Plant.Case, Params: h.Params, Shift: h.Plant.Shift})
	if err != nil {
		return nil, false, fmt.Errorf("its plant: %w", err)
	}
	c, err = c.On(plant)
	return c, embedded, err
}

// traced is Traced with the case's own delay.
func (k *Catalogue) traced(h *closedloop.Header) (c *Case, embedded bool, err error) {
	c, err = k.Named(h.Case)
	if err == nil {
		def, embedded, err := h.On(&c.def)
		if err != nil {
			return nil, embedded, err
		}
		return &Case{def: def, models: c.models, unshifted: c.mapped(), remade: embedded}, embedded, nil
	}
	def, ok, made := embeddedSystem(h.Case, h.Params)
	own := ok
	if !ok && k.Embedded != nil {
		def, ok, made = k.Embedded(h.Case, h.Params)
	}
	if !ok {
		return nil, false, err
	}
	if made != nil {
		return nil, false, made
	}
	if own { // the file is of the system as it was
		if c, err = NewCase(def); err == nil && len(h.Shift) > 0 {
			c, err = c.Shifted(h.Shift)
		}
		return c, true, err
	}
	def.Shift = h.Shift
	c, err = NewCase(def)
	return c, true, err
}

// again makes the method of a trace's header as it was, with what computes it and a function
// that closes that.
func (c *Case) again(h *closedloop.Header, by *Again) (domain.Controller, string, func(), error) {
	nothing := func() {}
	was := *c
	c = &was
	if c.def.Guard.Off = true; h.Guard != nil {
		if err := h.Guard.Validate(); err != nil {
			return nil, "", nothing, err
		}
		c.def.Guard = *h.Guard
	}
	s, err := c.Setup(h.Method, by.Model)
	if err != nil {
		return nil, "", nothing, err
	}
	s.Candidates = h.Candidates
	r, err := c.Resolve(s)
	if err != nil {
		return nil, "", nothing, err
	}
	on, err := r.computing(by.Engine)
	if err != nil {
		return nil, "", nothing, err
	}
	if on.sha256 != h.ModelSHA256 {
		from := cmp.Or(by.Model, "the bundled map of "+c.Name())
		return nil, "", on.close, option.Errorf("method %s decided with a model of SHA-256 %s, %s has %s: give the file of that model with {Model}", h.Method, cmp.Or(h.ModelSHA256, "none"), from, cmp.Or(on.sha256, "none"))
	}
	m, err := on.controller()
	return m, on.backend, on.close, err
}
