package serve

import (
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
)

// op is what a request asks for.
type op uint8

const (
	opNone op = iota // not known
	opDecide
	opRefine
	opPreference
	opReset
	opHealth
)

// ops are the operations by their names.
var ops = []string{"", "decide", "refine", "preference", "reset", "health"}

func (o op) String() string { return ops[o] }

// job is a request on its way to its answer, which it gets once.
type job struct {
	op      op
	session string
	request Request
	refine  batchnav.RefineOptions
	began   time.Time
	until   time.Time                  // when a search is to have its best; zero: whenever
	timer   atomic.Pointer[time.Timer] // of its deadline; nil: none

	// The dispatcher's.
	of         *session
	preference domain.Preference

	answered atomic.Bool
	done     chan struct{} // closed when answer and err are there
	answer   Answer
	err      error
}

// finish answers the request, which the counters count, and reports whether it was not
// answered yet. When it returns the answer is there.
func (j *job) finish(a Answer, err error, counters ...*atomic.Int64) bool {
	if !j.answered.CompareAndSwap(false, true) {
		<-j.done
		return false
	}
	j.answer, j.err = a, err
	for _, c := range counters {
		c.Add(1)
	}
	j.stop()
	close(j.done)
	return true
}

// finished reports whether the request is answered; then the answer is there.
func (j *job) finished() bool {
	if !j.answered.Load() {
		return false
	}
	<-j.done
	return true
}

// stop stops its clock.
func (j *job) stop() {
	if t := j.timer.Load(); t != nil {
		t.Stop()
	}
}
