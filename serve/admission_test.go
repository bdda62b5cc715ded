package serve

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// The server says that it is busy exactly where it refuses the next request of that kind.
func TestBusyIsWhatAdmissionRefuses(t *testing.T) {
	for _, o := range []op{opDecide, opRefine, opFront, opReset} {
		s := &Server{opt: Options{Waiting: 3}}
		most := map[op]int{opDecide: 3, opRefine: refinements, opFront: refinements, opReset: 3}[o]
		var let []*job
		for range most {
			j := &job{op: o}
			if busy, err := s.busy(o), s.admit(j); busy || err != nil {
				t.Fatalf("%v with %d of %d: busy %t, admitted: %v", o, len(let), most, busy, err)
			}
			let = append(let, j)
		}
		if busy, err := s.busy(o), s.admit(&job{op: o}); !busy || !errors.Is(err, ErrBusy) {
			t.Errorf("%v with %d of %d: busy %t, admitted: %v", o, most, most, busy, err)
		}
		s.release(let[0])
		if busy, err := s.busy(o), s.admit(let[0]); busy || err != nil {
			t.Errorf("%v when one is answered: busy %t, admitted: %v", o, busy, err)
		}
	}
}

// prepared is a request that a server of the cart has prepared.
func prepared(t *testing.T, deadline time.Duration, o op, stated time.Duration) *job {
	t.Helper()
	cart := testdomain.NewCart(8)
	c := require.Get(gpc.NewCase(domain.Case{Problem: cart}))(t)
	s := &Server{controlCase: c, spec: c.Spec(), opt: Options{Deadline: deadline}}
	j := &job{op: o, request: Request{S: []float64{0, 0}, C: []float64{0}}}
	if o == opRefine {
		s.refiner = new(gpc.Refiner)
	}
	began := time.Now()
	if stated > 0 {
		j.request.Deadline = began.Add(stated)
	}
	require.OK(t, s.prepare(j, began))
	j.stop()
	return j
}

// Before a deadline time is kept for the answer's way out, and before that as much for the answer: a tenth,
// but no more than the reserve.
func TestADeadlineKeepsTimeForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes while a request is prepared
		for stated, way := range map[time.Duration]time.Duration{time.Second: reserve, 10 * reserve: reserve, time.Millisecond: 100 * time.Microsecond} {
			for name, j := range map[string]*job{"a request's": prepared(t, 0, opDecide, stated), "the server's": prepared(t, stated, opDecide, 0)} {
				if out, best := j.request.Deadline.Sub(j.start), j.searchDeadline.Sub(j.start); out != stated-way || best != stated-2*way {
					t.Errorf("%s deadline of %v: an answer after %v, the best of a search after %v, want %v before", name, stated, out, best, way)
				}
			}
		}
	})
}

// The period of a case is the deadline of its decisions. A refinement has one where it states one, or where the
// server has one of its own.
func TestThePeriodIsNoDeadlineOfRefinements(t *testing.T) {
	if j := prepared(t, Period, opRefine, 0); !j.request.Deadline.IsZero() || !j.searchDeadline.IsZero() || j.timer.Load() != nil {
		t.Errorf("a refinement of a server whose deadline is the period ends at %v", j.request.Deadline)
	}
	for name, j := range map[string]*job{
		"a decision": prepared(t, Period, opDecide, 0), "one that states it": prepared(t, Period, opRefine, time.Hour),
		"one of a server with a deadline": prepared(t, time.Hour, opRefine, 0),
	} {
		if j.request.Deadline.IsZero() {
			t.Errorf("%s has no deadline", name)
		}
	}
}
