package gpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/interrupt"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/internal/recording"
)

// Again says what makes the decisions of a trace again.
type Again struct {
	// Model is the file of the map or the weights that the trace names by its hash, "" for the bundled map.
	Model  string
	Engine engine.Options // one thread unless it says otherwise
}

// Verify re-simulates a trace, draws its scenes, measurements and optima again, and makes every decision again where
// replay says by what, which may be nil; see closedloop.Verify. Case, Deep and ISA of opt are filled in. No file but
// the trace and replay.Model is opened: a case that is none of the catalogue's own is made of what the trace embeds.
func (k *Catalogue) Verify(ctx context.Context, file string, replay *Again, opt closedloop.VerifyOptions) (*closedloop.Verification, error) {
	set, err := instructionSet()
	if err != nil {
		return nil, err
	}
	closeAll := func() {}
	defer func() { closeAll() }()
	var cs *Case
	opt.ISA = set
	opt.Case = func(h *closedloop.Header) (_ *domain.Case, embedded bool, err error) {
		if cs, embedded, err = k.Traced(h); err != nil {
			return nil, false, err
		}
		return &cs.def, embedded, nil
	}
	if replay != nil {
		opt.Deep = func(h *closedloop.Header) (m domain.Controller, backend string, err error) {
			r, err := cs.replay(h, replay)
			closeAll = r.close
			return r.controller, r.backend, err
		}
	}
	v, err := closedloop.Verify(ctx, file, opt)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: %w", file, err)
	case err != nil:
		return nil, badInputf("%s: %w", file, err)
	}
	return v, nil
}

// Traced is the case of a trace's header, on the header's plant: one of the catalogue's own by
// its name, or what Embedded, or the system in it, makes of the header: of a system's file that has the name of one of the
// catalogue's, the file's. No file is opened.
func (k *Catalogue) Traced(h *closedloop.Header) (c *Case, embedded bool, err error) {
	model := *h
	if h.Plant != nil {
		model.Params = h.Plant.Model
	}
	if c, embedded, err = k.traced(&model); err == nil && h.Plant != nil {
		var other bool
		if c, other, err = k.onOther(c, h); other {
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
	def, ok, invalid := embeddedSystem(h.Case, h.Params)
	if err == nil && ok && c.def.Plant != nil {
		params, _ := json.Marshal(c.def.Plant.Params())
		_, system, _ := embeddedSystem(h.Case, params)
		ok = !system
	}
	if err == nil && !ok {
		def, embedded, err := h.On(&c.def)
		if err != nil {
			return nil, embedded, err
		}
		return c.onPlant(def, embedded), embedded, nil
	}
	system := ok
	if !ok && k.Embedded != nil {
		def, ok, invalid = k.Embedded(h.Case, h.Params)
	}
	if !ok {
		return nil, false, err
	}
	if invalid != nil {
		return nil, false, invalid
	}
	if system { // the file is of the system as it was
		if c, err = NewCase(def); err == nil && len(h.Shift) > 0 {
			c, err = c.Shifted(h.Shift)
		}
		return c, true, err
	}
	def.Shift = h.Shift
	c, err = NewCase(def)
	return c, true, err
}

// replayed is the method of a trace as it was, with what computes it; close closes that.
type replayed struct {
	controller domain.Controller
	backend    string
	close      func()
}

// replay makes the method of a trace's header. Also with an error its close is to be called.
func (c *Case) replay(h *closedloop.Header, source *Again) (replayed, error) {
	idle := replayed{close: func() {}}
	c = new(*c)
	if c.def.Guard.Off = true; h.Guard != nil {
		if err := h.Guard.Validate(); err != nil {
			return idle, err
		}
		c.def.Guard = *h.Guard
	}
	s, err := c.Setup(h.Method, source.Model)
	if err != nil {
		return idle, err
	}
	s.Candidates = h.Candidates
	setting, err := c.computing(s, source.Engine)
	if err != nil {
		return idle, err
	}
	if setting.sha256 != h.ModelSHA256 {
		origin := cmp.Or(source.Model, "the bundled map of "+c.Name())
		return replayed{close: setting.close}, option.Errorf("method %s decided with a model of SHA-256 %s, %s has %s: give the file of that model with {Model}", h.Method, cmp.Or(h.ModelSHA256, "none"), origin, cmp.Or(setting.sha256, "none"))
	}
	m, err := setting.controller()
	return replayed{m, setting.backend, setting.close}, err
}

// Recorded is what a trace was written as.
type Recorded struct {
	Case     string `json:"case"`     // of the trace
	Method   string `json:"method"`   // that decided
	Episodes int    `json:"episodes"` // written
	Bytes    int64  `json:"bytes"`    // of the file
}

// MCAP writes a trace as a file that Foxglove and Rerun open: scenes, frames and numbers on
// the plant's clock. The file is whole or not there.
func (k *Catalogue) MCAP(ctx context.Context, trace, out string) (*Recorded, error) {
	in, err := os.Open(trace)
	if err != nil {
		return nil, BadInput(err)
	}
	defer in.Close()
	var r Recorded
	var wrong error
	err = durable.Create(out, func(w io.Writer) error {
		size := &counter{w: w}
		h, n, err := recording.Write(size, interrupt.Reader(ctx, in), func(h *closedloop.Header) (*domain.Case, error) {
			c, _, err := k.Traced(h)
			if err != nil {
				return nil, err
			}
			return &c.def, nil
		})
		switch {
		case err == nil:
			r = Recorded{h.Case, h.Method, n, size.n}
		case size.err == nil:
			wrong = err // of the trace
		}
		return err
	})
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case wrong != nil:
		return nil, badInputf("%s: %w", trace, wrong)
	case err != nil:
		return nil, refused(err)
	}
	return &r, nil
}

// counter counts what is written, and keeps the error that ended it.
type counter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}
