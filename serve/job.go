package serve

import (
	"context"
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
	opFront
	opPreference
	opClear
	opReset
	opHealth
	opInside // of the server's own: nobody can ask for it
)

// ops are the operations by their names.
var ops = []string{"", "decide", "refine", "front", "preference", "clear", "reset", "health"}

func (o op) String() string { return ops[o] }

// job is a request on its way to its answer, which it gets once.
type job struct {
	op             op
	session        string
	request        Request
	refine         batchnav.RefineOptions
	front          batchnav.FrontOptions
	exact          int // weightings that a front is solved under too; 0: none
	start          time.Time
	run            context.Context // of a refinement or a front, until it has its answer
	end            func()
	searchDeadline time.Time                  // when a search is to have its best; zero: whenever
	timer          atomic.Pointer[time.Timer] // of its deadline; nil: none
	task           func()                     // what the dispatcher does for opInside

	admitted   bool  // it is counted among those that wait
	background bool  // nobody's plant waits for it: see Aside
	asides     int64 // slices that had begun when it was queued

	// The dispatcher's.
	sess       *session
	preference domain.Preference

	expires   atomic.Bool // its deadline has come
	hasAnswer atomic.Bool
	ready     chan struct{} // closed when answer and err are there
	answer    Answer
	err       error
}

// finished reports whether the request is answered; then the answer is there.
func (j *job) finished() bool {
	if !j.hasAnswer.Load() {
		return false
	}
	<-j.ready
	return true
}

// overdue reports whether its deadline has passed, whether or not its clock has rung.
func (j *job) overdue() bool {
	return j.timer.Load() != nil && !time.Now().Before(j.request.Deadline)
}

// stop stops its clock and its search.
func (j *job) stop() {
	if j.end != nil {
		j.end()
	}
	if t := j.timer.Load(); t != nil {
		t.Stop()
	}
}
