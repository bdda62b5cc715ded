package main

/*
#include <stdint.h>
*/
import "C"

import (
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

//export gpc_cases
func gpc_cases(out **C.char, err **C.char) C.int32_t {
	return try(err, func() error {
		k, err := catalogue()
		if err != nil {
			return err
		}
		var all []gpc.Description
		for _, c := range k.All() {
			all = append(all, c.Describe())
		}
		return answer(out, all)
	})
}

// about is what a session is.
type about struct {
	Case    string   `json:"case"`
	Method  string   `json:"method"`
	Model   string   `json:"model"` // its file, "" for the bundled one
	Backend string   `json:"backend"`
	ISA     string   `json:"isa"`
	Device  string   `json:"device"`
	Threads int      `json:"threads"`
	Reason  string   `json:"reason"`
	Notices []string `json:"notices"` // of a GPU that was left, of scenes that maps are not made for
}

//export gpc_about
func gpc_about(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return on(h, err, func(s *session) error {
		a := s.engine.About()
		return answer(out, about{s.of.Name(), s.setup.Method, s.file, a.Backend, a.ISA, a.Device, a.Threads, a.Reason, s.notices.all()})
	})
}

//export gpc_methods
func gpc_methods(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return on(h, err, func(s *session) error {
		return answer(out, s.of.DescribeMethods())
	})
}

// described is a spec with the latent dimension of the session's own map, 0 for a method without one.
func (s *session) described(of *domain.Spec) gpc.SpecDescription {
	d := gpc.DescribeSpec(of)
	d.Latent = 0
	if s.setup.Model != nil {
		d.Latent = s.setup.Model.Latent()
	}
	return d
}

func fallbacks() (names []string) {
	for f := domain.Fallback(1); f.Known(); f <<= 1 {
		names = append(names, f.String())
	}
	return names
}

//export gpc_spec
func gpc_spec(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return on(h, err, func(s *session) error {
		return answer(out, struct {
			Spec gpc.SpecDescription `json:"spec"`
			Map  gpc.SpecDescription `json:"map_spec"` // of what the map is about
			// Fallbacks are the names of the bits of a fallback, from bit 0.
			Fallbacks []string `json:"fallbacks"`
			// Outputs is how many values are measured for loops that do not say otherwise, 0 where they have no estimator.
			Outputs int `json:"outputs"`
		}{s.described(s.of.Spec()), s.described(s.of.MapSpec()), fallbacks(), s.outputs()})
	})
}

func (s *session) outputs() int {
	m := s.of.Definition().Measurement
	switch {
	case s.measured.Estimate != nil:
		return s.of.Spec().MeasuredSize()
	case m != nil:
		return len(m.Outputs)
	}
	return 0
}

// scene is how test episodes are drawn.
type scene struct {
	Seed       uint64             `json:"seed"`
	Regime     string             `json:"regime"`
	Noise      float64            `json:"noise"`
	Bias       float64            `json:"bias"`
	Preference []float64          `json:"preference"` // null: adaptive
	Shift      map[string]float64 `json:"shift"`
}

// preference is a list of weights as those of the command line, null for the adaptive mode.
func preference(weights []float64, of *domain.Spec) (domain.Preference, error) {
	if weights == nil {
		return domain.Preference{Adaptive: true}, nil
	}
	p := domain.Preference{W: weights}
	return p, gpc.BadInput(p.Validate(of.ObjectiveSize()))
}

//export gpc_observe
func gpc_observe(h C.uintptr_t, opt *C.char, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, err **C.char) C.int32_t {
	return on(h, err, func(s *session) error {
		var o struct {
			scene
			Episode int `json:"episode"`
		}
		if err := options(opt, &o); err != nil {
			return err
		}
		of := s.of.Spec()
		into, err := view[float64]("state", unsafe.Pointer(state), states, of.MeasuredSize())
		if err != nil {
			return err
		}
		with, err := view[float64]("context", unsafe.Pointer(ctx), contexts, of.ContextSize())
		if err != nil {
			return err
		}
		pref, err := preference(o.Preference, of)
		if err != nil {
			return err
		}
		var first batchnav.Observation
		if s.scenes != nil {
			first, err = s.begun(o.Episode, o.scene, pref)
		} else {
			var c *gpc.Case
			if c, err = s.of.Shifted(o.Shift); err == nil {
				first, err = c.Observe(o.Seed, o.Episode, domain.EpisodeOptions{Noise: o.Noise, Regime: o.Regime, Preference: pref})
			}
		}
		if err != nil {
			return err
		}
		copy(into, first.S)
		copy(with, first.C)
		return nil
	})
}

// drive is closed loops of a session.
type drive struct {
	mu   sync.Mutex
	of   *session
	with *gpc.Drive
	out  gpc.Driven // what a record is made of
	// unknown are entries of the context that are not read, as they are estimated; estimates says that there is an estimator.
	unknown   []domain.Unknown
	estimates bool
}

func (d *drive) Close() error { return d.of.Close() }

//export gpc_drive_new
func gpc_drive_new(h C.uintptr_t, opt *C.char, n C.int64_t, to *C.uintptr_t, err **C.char) C.int32_t {
	return on(h, err, func(s *session) error {
		var o struct {
			Method     string `json:"method"`
			Candidates int    `json:"candidates"`
			measured
		}
		if err := options(opt, &o); err != nil {
			return err
		}
		setup, err := s.made(o.Method)
		if err != nil {
			return err
		}
		setup.Candidates = o.Candidates
		how := o.measured.or(s.measured)
		c, err := how.of(s.of, false)
		if err != nil {
			return err
		}
		d := &drive{of: s}
		if d.with, err = c.Drive(s.engine, setup, int(n)); err != nil {
			return err
		}
		rows, of := d.with.Size(), s.of.Spec()
		if m := c.Definition().Measurement; m != nil {
			d.estimates, d.unknown = true, m.Unknown
			d.out.S, d.out.C = make([]float64, rows*of.MeasuredSize()), make([]float64, rows*of.ContextSize())
			d.out.Faults = make([]string, rows*len(m.Outputs))
		}
		out := &d.out
		out.Sigma, out.Margins = make([]float64, rows*of.ObjectiveSize()), make([]float64, rows*len(of.Margins))
		out.Margin, out.Residual, out.Limit, out.Displacement = make([]float64, rows), make([]float64, rows), make([]float64, rows), make([]float64, rows)
		out.Fallback, out.Times = make([]domain.Fallback, rows), make([]domain.Times, rows)
		s.use()
		hand(to, d)
		return nil
	})
}

// gpc_drive_executed says that a loop executed another action than it decided.
//
//export gpc_drive_executed
func gpc_drive_executed(h C.uintptr_t, loop C.int64_t, action *C.double, actions C.int64_t, err **C.char) C.int32_t {
	return on(h, err, func(d *drive) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		u, err := view[float64]("action", unsafe.Pointer(action), actions, d.of.of.Spec().ActionSize())
		if err != nil {
			return err
		}
		return d.with.Executed(int(loop), u)
	})
}

// gpc_drive_reset starts an episode in one loop, or in all for −1.
//
//export gpc_drive_reset
func gpc_drive_reset(h C.uintptr_t, loop C.int64_t, err **C.char) C.int32_t {
	return on(h, err, func(d *drive) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if loop == -1 {
			return d.with.Reset()
		}
		return d.with.ResetLoop(int(loop))
	})
}

// gpc_drive_prepare lets every loop look for its next decision, of a method that does so
// between decisions.
//
//export gpc_drive_prepare
func gpc_drive_prepare(h C.uintptr_t, err **C.char) C.int32_t {
	return on(h, err, func(d *drive) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.with.Prepare()
	})
}

// recorded are the entries of a record behind σ and the margins: margin, residual, limit,
// displacement, fallback, and the seconds of localization, step and projection. Behind them a loop with an estimator has the
// estimates of state and context, and the fault of each output.
const recorded = 8

// width is that of a record.
func (d *drive) width() int {
	of := d.of.of.Spec()
	n := of.ObjectiveSize() + len(of.Margins) + recorded
	if d.estimates {
		n += of.MeasuredSize() + of.ContextSize() + d.with.Shown().MeasuredSize()
	}
	return n
}

// estimated writes what the estimator of loop i says.
func (d *drive) estimated(i int, row []float64) {
	of, ny := d.of.of.Spec(), d.with.Shown().MeasuredSize()
	ns, nc := of.MeasuredSize(), of.ContextSize()
	copy(row, d.out.S[i*ns:(i+1)*ns])
	copy(row[ns:], d.out.C[i*nc:(i+1)*nc])
	for k, fault := range d.out.Faults[i*ny : (i+1)*ny] {
		row[ns+nc+k] = float64(slices.Index(estimate.FaultNames[:], fault))
	}
}

// Bits of a decision's flags.
const (
	flagReset  = 1 << iota // start an episode in every loop first
	flagFaults             // an entry that is not finite is a sensor's fault, not refused
)

// gpc_drive_decide makes n decisions: of states [n, n_s], contexts [n, n_c] and weights [n, M],
// which may be left out for the adaptive priority, the actions [n, n_u] and, where it is not
// left out, a record [n, M + n_m + recorded].
//
//export gpc_drive_decide
func gpc_drive_decide(h C.uintptr_t, flags C.int64_t, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t,
	action *C.double, actions C.int64_t, record *C.double, records C.int64_t, err **C.char) C.int32_t {
	return on(h, err, func(d *drive) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		of, n := d.of.of.Spec(), d.with.Size()
		m, nm := of.ObjectiveSize(), len(of.Margins)
		in, err := rows(d.with.Shown(), n, state, states, ctx, contexts, weights, nweights)
		if err != nil {
			return err
		}
		u, err := view[float64]("action", unsafe.Pointer(action), actions, n*of.ActionSize())
		if err != nil {
			return err
		}
		width := d.width()
		r, err := view[float64]("record", unsafe.Pointer(record), records, n*width)
		if err != nil {
			return err
		}
		if flags&flagFaults == 0 {
			if err := check(d.with.Shown(), in, n, d.unknown...); err != nil {
				return err
			}
		}
		if flags&flagReset != 0 {
			if err := d.with.Reset(); err != nil {
				return err
			}
		}
		out := gpc.Driven{U: u}
		if r != nil {
			out = d.out
			out.U = u
		}
		if err := d.with.Decide(in, out); err != nil || r == nil {
			return err
		}
		for i := range n {
			row := r[i*width : (i+1)*width]
			copy(row, out.Sigma[i*m:(i+1)*m])
			copy(row[m:], out.Margins[i*nm:(i+1)*nm])
			t := out.Times[i]
			copy(row[m+nm:], []float64{out.Margin[i], out.Residual[i], out.Limit[i], out.Displacement[i], float64(out.Fallback[i]), t.Localize.Seconds(), t.Step.Seconds(), t.Project.Seconds()})
			if d.estimates {
				d.estimated(i, row[m+nm+recorded:])
			}
		}
		return nil
	})
}

// rows are n observations of the caller's.
func rows(of *domain.Spec, n int, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t) (in batchnav.Rows, err error) {
	if in.S, err = view[float64]("state", unsafe.Pointer(state), states, n*of.MeasuredSize()); err != nil {
		return in, err
	}
	if in.C, err = view[float64]("context", unsafe.Pointer(ctx), contexts, n*of.ContextSize()); err != nil {
		return in, err
	}
	in.W, err = view[float64]("preference", unsafe.Pointer(weights), nweights, n*of.ObjectiveSize())
	return in, err
}

// check names the first entry that is not finite, but for those of the context that are not read.
func check(of *domain.Spec, in batchnav.Rows, n int, unread ...domain.Unknown) error {
	for _, w := range []struct {
		name      string
		v         []float64
		variables []domain.Variable
	}{{"state", in.S, of.Measured}, {"context", in.C, of.Context}} {
		for i, x := range w.v {
			if x-x == 0 {
				continue
			}
			k := len(w.variables)
			if w.name == "context" && slices.ContainsFunc(unread, func(p domain.Unknown) bool { return p.Context == i%k }) {
				continue
			}
			if n > 1 {
				return wrongf("%s[%d, %d] (%s) is %v, want finite numbers", w.name, i/k, i%k, w.variables[i%k].Name, x)
			}
			return wrongf("%s[%d] (%s) is %v, want finite numbers", w.name, i, w.variables[i].Name, x)
		}
	}
	return nil
}

//export gpc_refine
func gpc_refine(h C.uintptr_t, opt *C.char, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t,
	out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return on(h, err, func(s *session) error {
		run, err := runOf(cancel)
		if err != nil {
			return err
		}
		var o struct {
			Candidates   int     `json:"candidates"`
			FlowSteps    int     `json:"flow_steps"`
			Seed         uint64  `json:"seed"`
			LookAhead    int     `json:"look_ahead"`
			Remaining    int     `json:"remaining"`
			NoRounds     bool    `json:"no_rounds"`
			Within       float64 `json:"within_s"`
			NoProjection bool    `json:"no_projection"`
		}
		if err := options(opt, &o); err != nil {
			return err
		}
		of := s.of.Spec()
		in, err := rows(of, 1, state, states, ctx, contexts, weights, nweights)
		if err != nil {
			return err
		}
		if err := check(of, in, 1); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refiner == nil {
			made, err := s.of.Refiner(s.engine, s.setup, o.Candidates)
			if err != nil {
				return err
			}
			s.refiner = made
		}
		threads := s.choice.Threads
		if threads == 0 {
			threads = runtime.GOMAXPROCS(0)
		}
		r, err := s.refiner.Refine(run, in.At(of, 0), batchnav.RefineOptions{
			Candidates: o.Candidates, FlowSteps: o.FlowSteps, Seed: o.Seed, LookAhead: o.LookAhead, Remaining: o.Remaining, NoRounds: o.NoRounds,
			Within: time.Duration(o.Within * float64(time.Second)), NoProjection: o.NoProjection, Threads: threads,
		})
		if err != nil && run.Err() == nil { // what Refine refuses is asked for
			return gpc.BadInput(err)
		}
		if err != nil {
			return err
		}
		return answer(out, r)
	})
}

//export gpc_evaluate
func gpc_evaluate(h C.uintptr_t, opt *C.char, out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return on(h, err, func(s *session) error {
		run, err := runOf(cancel)
		if err != nil {
			return err
		}
		var o struct {
			scene
			Method     string `json:"method"`
			Candidates int    `json:"candidates"`
			Scene      string `json:"scene"`
			Episodes   *int   `json:"episodes"` // null: as many as are usual, or as scenes
			Parallel   int    `json:"parallel"`
			Trace      string `json:"trace"`
			Resume     bool   `json:"resume"`
			plant
			measured
			Steps     *int      `json:"steps"` // null: the case's
			Computing []float64 `json:"computing_s"`
		}
		if err := options(opt, &o); err != nil {
			return err
		}
		setup, err := s.made(o.Method)
		if err != nil {
			return err
		}
		setup.Candidates = o.Candidates
		if err := written("trace", o.Trace); err != nil {
			return err
		}
		with := closedloop.Options{
			Seed: o.Seed, Noise: o.Noise, Regime: o.Regime, Bias: o.Bias, Threads: o.Parallel, TracePath: o.Trace, Resume: o.Resume, Progress: run.progress,
		}
		c, err := s.run(o.Scene, o.scene, o.Episodes, &with)
		if err != nil {
			return err
		}
		if c, err = o.drives(c, s.drawn); err != nil {
			return err
		}
		if o.Steps != nil {
			if c, err = c.Driven(*o.Steps); err != nil {
				return err
			}
		}
		how := o.measured.or(s.measured)
		if c, err = how.of(c, s.uncertain); err != nil {
			return err
		}
		if with.Computing, err = computing(o.Computing); err != nil {
			return err
		}
		if with.Preference, err = preference(o.Preference, c.Spec()); err != nil {
			return err
		}
		r, err := c.Evaluate(run, setup, s.choice, with)
		if err != nil {
			return err
		}
		return answer(out, r)
	})
}

// matrix is rows of latents, or of what is about them, of the caller's.
func matrix(name string, p *C.float, length C.int64_t, n, cols int) (tensor.Matrix, error) {
	data, err := view[float32](name, unsafe.Pointer(p), length, n*cols)
	if err != nil || data == nil {
		return tensor.Matrix{Cols: cols, Stride: cols}, err
	}
	return tensor.Matrix{Rows: n, Cols: cols, Stride: cols, Data: data}, nil
}

// operate runs an operation of a session's map.
func operate(h C.uintptr_t, err **C.char, f func(l *batchnav.Latents, of *domain.Spec) error) C.int32_t {
	return on(h, err, func(s *session) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.operations == nil {
			made, err := s.of.Latents(s.engine, s.setup)
			if err != nil {
				return err
			}
			s.operations = made
		}
		return f(s.operations, s.of.MapSpec())
	})
}

// gpc_encode writes latents [n, n_z] of observations of what the map is about, localized on
// the manifold or not.
//
//export gpc_encode
func gpc_encode(h C.uintptr_t, n, localized C.int64_t, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t,
	latent *C.float, latents C.int64_t, err **C.char) C.int32_t {
	return operate(h, err, func(l *batchnav.Latents, of *domain.Spec) error {
		in, err := rows(of, int(n), state, states, ctx, contexts, weights, nweights)
		if err != nil {
			return err
		}
		z, err := matrix("latent", latent, latents, int(n), l.Size())
		if err != nil {
			return err
		}
		return gpc.BadInput(l.Encode(in, localized != 0, z))
	})
}

// gpc_decode writes plans [n, plan] and states [n, n_s], either may be left out.
//
//export gpc_decode
func gpc_decode(h C.uintptr_t, n C.int64_t, latent *C.float, latents C.int64_t, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t,
	plan *C.float, plans C.int64_t, decoded *C.float, ndecoded C.int64_t, err **C.char) C.int32_t {
	return operate(h, err, func(l *batchnav.Latents, of *domain.Spec) error {
		in, err := rows(of, int(n), state, states, ctx, contexts, nil, 0)
		if err != nil {
			return err
		}
		z, err := matrix("latent", latent, latents, int(n), l.Size())
		if err != nil {
			return err
		}
		u, err := matrix("plan", plan, plans, int(n), of.PlanSize())
		if err != nil {
			return err
		}
		shat, err := matrix("decoded", decoded, ndecoded, int(n), of.MeasuredSize())
		if err != nil {
			return err
		}
		return gpc.BadInput(l.Decode(z, in, u, shat))
	})
}

// gpc_jacobian writes derivatives of plans [n, plan, n_z], or of states [n, n_s, n_z].
//
//export gpc_jacobian
func gpc_jacobian(h C.uintptr_t, n, ofStates C.int64_t, latent *C.float, latents C.int64_t, jacobian *C.float, jacobians C.int64_t, err **C.char) C.int32_t {
	return operate(h, err, func(l *batchnav.Latents, of *domain.Spec) error {
		which, size := batchnav.DecoderU, of.PlanSize()
		if ofStates != 0 {
			which, size = batchnav.DecoderS, of.MeasuredSize()
		}
		z, err := matrix("latent", latent, latents, int(n), l.Size())
		if err != nil {
			return err
		}
		jac, err := matrix("jacobian", jacobian, jacobians, int(n), size*l.Size())
		if err != nil {
			return err
		}
		return gpc.BadInput(l.Jacobian(which, z, jac))
	})
}

// gpc_step writes moved latents [n, n_z], their plans [n, plan], energies [n] and priorities
// [n, M]; any may be left out.
//
//export gpc_step
func gpc_step(h C.uintptr_t, n C.int64_t, latent *C.float, latents C.int64_t, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t,
	moved *C.float, nmoved C.int64_t, plan *C.float, plans C.int64_t, energy *C.double, energies C.int64_t, sigma *C.double, sigmas C.int64_t, err **C.char) C.int32_t {
	return operate(h, err, func(l *batchnav.Latents, of *domain.Spec) error {
		in, err := rows(of, int(n), state, states, ctx, contexts, weights, nweights)
		if err != nil {
			return err
		}
		z, err := matrix("latent", latent, latents, int(n), l.Size())
		if err != nil {
			return err
		}
		var out batchnav.Moved
		if out.Z, err = matrix("moved", moved, nmoved, int(n), l.Size()); err != nil {
			return err
		}
		if out.U, err = matrix("plan", plan, plans, int(n), of.PlanSize()); err != nil {
			return err
		}
		if out.Energy, err = view[float64]("energy", unsafe.Pointer(energy), energies, int(n)); err != nil {
			return err
		}
		if out.Sigma, err = view[float64]("sigma", unsafe.Pointer(sigma), sigmas, int(n)*of.ObjectiveSize()); err != nil {
			return err
		}
		return gpc.BadInput(l.Step(z, in, out))
	})
}
