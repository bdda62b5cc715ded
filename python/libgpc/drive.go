package main

/*
#include <stdint.h>
*/
import "C"

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
)

// drive is closed loops of a session.
type drive struct {
	mu      sync.Mutex
	session *session
	loops   *gpc.Drive
	out     gpc.Driven // what a record is made of
	// unknown are entries of the context that are not read, as they are estimated; estimates says that there is an estimator.
	unknown   []domain.Unknown
	estimates bool
}

func (d *drive) Close() error { return d.session.Close() }

//export gpc_drive_new
func gpc_drive_new(h C.uintptr_t, opt *C.char, n C.int64_t, loops *C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, 0, err, func(s *session, o *struct {
		Method     string `json:"method"`
		Candidates int    `json:"candidates"`
		measured
	}, _ *run) error {
		setup, err := s.setupOf(o.Method)
		if err != nil {
			return err
		}
		setup.Candidates = o.Candidates
		sensors := o.measured.or(s.measured)
		c, err := sensors.apply(s.staged, false)
		if err != nil {
			return err
		}
		d := &drive{session: s}
		if d.loops, err = c.Drive(s.engine, setup, int(n)); err != nil {
			return err
		}
		rows, spec := d.loops.Size(), s.staged.Spec()
		if m := c.Definition().Measurement; m != nil {
			d.estimates, d.unknown = true, m.Unknown
			d.out.S, d.out.C = make([]float64, rows*spec.MeasuredSize()), make([]float64, rows*spec.ContextSize())
			d.out.Faults = make([]string, rows*len(m.Outputs))
		}
		out := &d.out
		out.Sigma, out.Margins = make([]float64, rows*spec.ObjectiveSize()), make([]float64, rows*len(spec.Margins))
		out.Margin, out.Residual = make([]float64, rows), make([]float64, rows)
		out.Limit, out.Displacement = make([]float64, rows), make([]float64, rows)
		out.Fallback, out.Times = make([]domain.Fallback, rows), make([]domain.Times, rows)
		s.use()
		hand(loops, d)
		return nil
	})
}

// gpc_drive_executed says that a loop executed another action than it decided.
//
//export gpc_drive_executed
func gpc_drive_executed(h C.uintptr_t, loop C.int64_t, action *C.double, actions C.int64_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(d *drive) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		u, err := view[float64]("action", unsafe.Pointer(action), actions, d.session.staged.Spec().ActionSize())
		if err != nil {
			return err
		}
		return d.loops.Executed(int(loop), u)
	})
}

// gpc_drive_goal gives every loop goals, as a JSON text, in place of the adaptive priority; an empty text takes them away.
//
//export gpc_drive_goal
func gpc_drive_goal(h C.uintptr_t, text *C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(d *drive) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		text := C.GoString(text)
		if text == "" {
			return d.loops.SetGoal(nil)
		}
		goal, err := d.session.staged.Spec().Goals([]byte(text))
		if err != nil {
			return gpc.BadInput(err)
		}
		return d.loops.SetGoal(goal)
	})
}

// gpc_drive_reset starts an episode in one loop, or in all for −1.
//
//export gpc_drive_reset
func gpc_drive_reset(h C.uintptr_t, loop C.int64_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(d *drive) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if loop == -1 {
			return d.loops.Reset()
		}
		return d.loops.ResetLoop(int(loop))
	})
}

// gpc_drive_prepare lets every loop look for its next decision, of a method that does so
// between decisions.
//
//export gpc_drive_prepare
func gpc_drive_prepare(h C.uintptr_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(d *drive) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.loops.Prepare()
	})
}

// recorded are the entries of a record behind σ and the margins: margin, residual, limit,
// displacement, fallback, and the seconds of localization, step and projection. Behind them a loop with an estimator has the
// estimates of state and context, and the fault of each output.
const recorded = 8

// width is that of a record.
func (d *drive) width() int {
	spec := d.session.staged.Spec()
	n := spec.ObjectiveSize() + len(spec.Margins) + recorded
	if d.estimates {
		n += spec.MeasuredSize() + spec.ContextSize() + d.loops.Shown().MeasuredSize()
	}
	return n
}

// estimated writes what the estimator of loop i says.
func (d *drive) estimated(i int, row []float64) {
	spec, ny := d.session.staged.Spec(), d.loops.Shown().MeasuredSize()
	ns, nc := spec.MeasuredSize(), spec.ContextSize()
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
	return onHandle(h, err, func(d *drive) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		spec, n := d.session.staged.Spec(), d.loops.Size()
		m, nm := spec.ObjectiveSize(), len(spec.Margins)
		var a views
		in := a.rows(d.loops.Shown(), n, state, states, ctx, contexts, weights, nweights)
		u := viewed[float64](&a, "action", unsafe.Pointer(action), actions, n*spec.ActionSize())
		width := d.width()
		r := viewed[float64](&a, "record", unsafe.Pointer(record), records, n*width)
		if a.err != nil {
			return a.err
		}
		if flags&flagFaults == 0 {
			if err := check(d.loops.Shown(), in, n, d.estimates, d.unknown...); err != nil {
				return err
			}
		}
		if flags&flagReset != 0 {
			if err := d.loops.Reset(); err != nil {
				return err
			}
		}
		out := gpc.Driven{U: u}
		if r != nil {
			out = d.out
			out.U = u
		}
		if err := d.loops.Decide(in, out); err != nil || r == nil {
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
