package serve

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
)

const (
	// MaxWatchers may watch at once.
	MaxWatchers = 64
	// events of a session wait for a watcher before it is dropped.
	events = 256
)

// Event is one decision of a session as those who watch it are told.
type Event struct {
	Number  uint64            `json:"number"` // of the server's decisions that somebody watched, from 1
	AtMs    float64           `json:"at_ms"`  // when it was answered, Unix time
	Session string            `json:"session"`
	S       closedloop.Vector `json:"s"` // what it was asked about, physical units; NaN: not measured
	C       closedloop.Vector `json:"c"`
	*Decision
}

// Watch is a subscription to a session's decisions. It is used by one goroutine.
type Watch struct {
	// Events ends when the watcher was too slow, or the watch is closed.
	Events <-chan Event
	to     chan Event
	of     *Server
	name   string
}

// watchers are those of every session.
type watchers struct {
	sync.Mutex
	of      map[string][]*Watch
	count   atomic.Int64
	number  uint64
	dropped *atomic.Int64
}

// Watch tells of a session's decisions from now on, also of one that has not begun. Beyond
// MaxWatchers it is ErrBusy.
func (s *Server) Watch(session string) (*Watch, error) {
	w := &s.watchers
	w.Lock()
	defer w.Unlock()
	if w.count.Load() >= MaxWatchers {
		return nil, ErrBusy
	}
	to := make(chan Event, events)
	watch := &Watch{Events: to, to: to, of: s, name: session}
	if w.of == nil {
		w.of, w.dropped = map[string][]*Watch{}, &s.metrics.dropped
	}
	w.of[session] = append(w.of[session], watch)
	w.count.Add(1)
	return watch, nil
}

// Close ends the watch.
func (w *Watch) Close() {
	all := &w.of.watchers
	all.Lock()
	defer all.Unlock()
	all.remove(w)
}

// remove ends a watch once.
func (w *watchers) remove(watch *Watch) {
	at := slices.Index(w.of[watch.name], watch)
	if at < 0 {
		return
	}
	if w.of[watch.name] = slices.Delete(w.of[watch.name], at, at+1); len(w.of[watch.name]) == 0 {
		delete(w.of, watch.name)
	}
	w.count.Add(-1)
	close(watch.to)
}

// tell tells the watchers of a job's session of its decision.
func (w *watchers) tell(j *job) {
	if j.answer.Decision == nil || w.count.Load() == 0 {
		return
	}
	w.Lock()
	defer w.Unlock()
	of := w.of[j.session]
	if len(of) == 0 {
		return
	}
	w.number++
	e := Event{
		Number: w.number, AtMs: float64(time.Now().UnixMicro()) / 1e3, Session: j.session,
		S: slices.Clone(j.request.S), C: slices.Clone(j.request.C), Decision: j.answer.Decision,
	}
	if known := e.Decision.Estimate; known != nil {
		e.S, e.C = slices.Clone(known.S), slices.Clone(known.C)
	}
	for _, watch := range slices.Clone(of) {
		select {
		case watch.to <- e:
		default:
			w.remove(watch)
			w.dropped.Add(1)
		}
	}
}
