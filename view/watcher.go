package view

import (
	"slices"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/internal/web"
)

// window is how many bytes a page is sent beyond what it says that it has. More would wait on the way, and be old where
// the link is slow.
const window = 64 << 10

// clockStart is when the clock began. A step of the system's clock does not move it.
var clockStart = time.Now()

// clock is the server's time, Unix ms.
func clock() int { return int(clockStart.UnixMilli() + time.Since(clockStart).Milliseconds()) }

// event is one of a stream; its id is the time at which it was made.
type event struct {
	kind string
	id   int
	text []byte
}

// watcher is a page. Of each kind of event it is sent the latest: what a slow link could not take is left out.
type watcher struct {
	page  string // its name; "": it does not say what it has, and is sent what its connection takes
	awake chan struct{}

	mutex  sync.Mutex
	queue  []event // one of a kind
	flight []event // sent, and not confirmed
}

// wake has the stream look again.
func (w *watcher) wake() {
	select {
	case w.awake <- struct{}{}:
	default:
	}
}

// offer has an event sent in place of one of its kind that waits. A state keeps the place: frames of another run come behind
// the state that says so.
func (w *watcher) offer(e event) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	defer w.wake()
	k := slices.IndexFunc(w.queue, func(o event) bool { return o.kind == e.kind })
	if k >= 0 && e.kind == "state" {
		w.queue[k] = e
		return
	}
	if k >= 0 {
		w.queue = slices.Delete(w.queue, k, k+1)
	}
	w.queue = append(w.queue, e)
}

// next is the event to send now, if any.
func (w *watcher) next() (e event, ok bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	bytes := 0
	for _, e := range w.flight {
		bytes += len(e.text)
	}
	if len(w.queue) == 0 || bytes >= window {
		return e, false
	}
	e, w.queue = w.queue[0], w.queue[1:]
	return e, true
}

// send sends an event, and reports whether the page still takes it.
func (w *watcher) send(stream *web.Stream, e event) bool {
	if w.page != "" {
		w.mutex.Lock()
		w.flight = append(w.flight, e)
		w.mutex.Unlock()
	}
	return stream.Send(web.Event(e.kind, uint64(e.id), e.text))
}

// confirm says that the page has all events up to one.
func (w *watcher) confirm(id int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.flight = slices.DeleteFunc(w.flight, func(e event) bool { return e.id <= id })
	w.wake()
}
