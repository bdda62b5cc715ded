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
	sender chan Event
	server *Server
	name   string
}

// watchers are those of every session.
type watchers struct {
	sync.Mutex
	bySession map[string][]*Watch
	count     atomic.Int64
	number    uint64
	dropped   *atomic.Int64
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
	channel := make(chan Event, events)
	watch := &Watch{Events: channel, sender: channel, server: s, name: session}
	if w.bySession == nil {
		w.bySession, w.dropped = map[string][]*Watch{}, &s.metrics.dropped
	}
	w.bySession[session] = append(w.bySession[session], watch)
	w.count.Add(1)
	return watch, nil
}

// Close ends the watch.
func (w *Watch) Close() {
	all := &w.server.watchers
	all.Lock()
	defer all.Unlock()
	all.remove(w)
}

// remove ends a watch once.
func (w *watchers) remove(watch *Watch) {
	index := slices.Index(w.bySession[watch.name], watch)
	if index < 0 {
		return
	}
	if w.bySession[watch.name] = slices.Delete(w.bySession[watch.name], index, index+1); len(w.bySession[watch.name]) == 0 {
		delete(w.bySession, watch.name)
	}
	w.count.Add(-1)
	close(watch.sender)
}

// tell tells the watchers of a job's session of its decision.
func (w *watchers) tell(j *job) {
	if j.answer.Decision == nil || w.count.Load() == 0 {
		return
	}
	w.Lock()
	defer w.Unlock()
	watches := w.bySession[j.session]
	if len(watches) == 0 {
		return
	}
	w.number++
	e := Event{
		Number: w.number, AtMs: float64(time.Now().UnixMicro()) / 1e3, Session: j.session,
		S: slices.Clone(j.request.S), C: slices.Clone(j.request.C), Decision: j.answer.Decision,
	}
	if estimate := e.Decision.Estimate; estimate != nil {
		e.S, e.C = slices.Clone(estimate.S), slices.Clone(estimate.C)
	}
	for _, watch := range slices.Clone(watches) {
		select {
		case watch.sender <- e:
		default:
			w.remove(watch)
			w.dropped.Add(1)
		}
	}
}
