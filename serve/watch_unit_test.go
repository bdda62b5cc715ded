package serve

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A session's watchers are told of its decisions alone, of estimates where there are, until they are full or closed.
func TestWatchersAreToldOfTheirSession(t *testing.T) {
	s, _ := bare(t, Options{})
	first, second, other := require.Get(s.Watch("a"))(t), require.Get(s.Watch("a"))(t), require.Get(s.Watch("b"))(t)
	tell := func(name string, d *Decision) {
		j := asked(name)
		j.answer.Decision = d
		s.watchers.tell(j)
	}
	tell("a", &Decision{U: []float64{1}})
	tell("c", &Decision{})
	tell("a", nil)
	tell("a", &Decision{U: []float64{2}, Estimate: &Estimate{S: []float64{5}, C: []float64{6}}})
	for _, w := range []*Watch{first, second} {
		one, two := <-w.Events, <-w.Events
		if one.Number != 1 || two.Number != 2 || one.Session != "a" || fmt.Sprint(one.S, one.C, one.U) != "[0.1 0.2] [0] [1]" || fmt.Sprint(two.S, two.C, two.U) != "[5] [6] [2]" || !(one.AtMs > 1e12) || len(w.Events) != 0 {
			t.Errorf("%+v, %+v", one, two)
		}
	}
	second.Close()
	for i := range events + 1 {
		if s.watchers.count.Load() != 2 {
			t.Fatalf("after %d decisions %d watch", i, s.watchers.count.Load())
		}
		tell("a", &Decision{})
	}
	got := 0
	for range first.Events {
		got++
	}
	if got != events || s.watchers.count.Load() != 1 || s.metrics.dropped.Load() != 1 || len(other.Events) != 0 || len(s.watchers.bySession) != 1 {
		t.Errorf("%d events, %d watch, %d dropped", got, s.watchers.count.Load(), s.metrics.dropped.Load())
	}
	first.Close()
	if other.Close(); s.watchers.count.Load() != 0 || len(s.watchers.bySession) != 0 {
		t.Errorf("%d watch", s.watchers.count.Load())
	}
}

// A stream has a beat in a pause, and ends with its reader, its watch or the server.
func TestAStreamEnds(t *testing.T) {
	const beat = ":\n\n"
	for name, c := range map[string]struct {
		during func(s *Server, w *reply, leave func())
		want   string
		took   time.Duration
	}{
		"its reader leaves":        {func(_ *Server, _ *reply, leave func()) { time.Sleep(time.Minute - 1); leave() }, beat + beat + beat + beat, time.Minute - 1},
		"its reader takes no beat": {func(_ *Server, w *reply, _ func()) { w.gone.Store(true) }, beat, 15 * time.Second},
		"its reader takes no decision": {func(s *Server, w *reply, _ func()) {
			w.gone.Store(true)
			tell(s, "a")
		}, beat, 0},
		"the server drains": {func(s *Server, _ *reply, _ func()) {
			tell(s, "a")
			synctest.Wait()
			s.Drain(time.Hour)
		}, beat + "event: decision\nid: 1\ndata: DECISION\n\nevent: closing\nid: 1\ndata: {}\n\n", 0},
		"its watch ends": {func(s *Server, _ *reply, _ func()) { s.watchers.bySession["a"][0].Close() }, beat + "event: dropped\ndata: {}\n\n", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := bare(t, Options{})
			ctx, leave := contextOf(t)
			w := &reply{head: http.Header{}}
			start, ended := time.Now(), make(chan struct{})
			go func() {
				(&handler{s: s}).stream(w, (&http.Request{URL: &url.URL{RawQuery: "session=a"}}).WithContext(ctx))
				close(ended)
			}()
			synctest.Wait()
			c.during(s, w, leave)
			<-ended
			text := w.text.String()
			if before, rest, ok := strings.Cut(text, "data: {\"number\""); ok {
				_, after, _ := strings.Cut(rest, "\n")
				text = before + "data: DECISION\n" + after
			}
			if took := time.Since(start); text != c.want || took != c.took || s.watchers.count.Load() != 0 || w.status != 200 {
				t.Errorf("%s: %q after %v, want %q after %v; %d watch", name, text, took, c.want, c.took, s.watchers.count.Load())
			}
		})
	}
	s, _ := bare(t, Options{})
	for range 64 {
		require.Get(s.Watch("a"))(t)
	}
	w := &reply{head: http.Header{}}
	if (&handler{s: s}).stream(w, &http.Request{URL: &url.URL{}}); w.status != 429 || s.metrics.refused[refusedBusy].Load() != 1 {
		t.Errorf("one too many: %d", w.status)
	}
	broken := &reply{head: http.Header{}}
	broken.gone.Store(true)
	s.watchers.bySession["a"][0].Close()
	if (&handler{s: s}).stream(broken, &http.Request{URL: &url.URL{}}); s.watchers.count.Load() != 63 {
		t.Errorf("%d watch, want the others", s.watchers.count.Load())
	}
	// A reader may lag by 256 events.
	slow := require.Get(s.Watch("slow"))(t)
	for range 256 {
		tell(s, "slow")
	}
	if s.metrics.dropped.Load() != 0 || len(slow.Events) != 256 {
		t.Errorf("%d are dropped, %d events wait", s.metrics.dropped.Load(), len(slow.Events))
	}
	if tell(s, "slow"); s.metrics.dropped.Load() != 1 {
		t.Errorf("%d are dropped", s.metrics.dropped.Load())
	}
}

// tell tells the watchers of a session of a decision.
func tell(s *Server, session string) {
	j := asked(session)
	j.answer.Decision = &Decision{U: []float64{1}}
	s.watchers.tell(j)
}

// reply records an answer, and where it is flushed.
type reply struct {
	head    http.Header
	status  int
	text    bytes.Buffer
	flushes int
	gone    atomic.Bool // the reader
}

func (r *reply) Header() http.Header { return r.head }
func (r *reply) WriteHeader(n int)   { r.status = n }

func (r *reply) Write(p []byte) (int, error) {
	if r.gone.Load() {
		return 0, io.ErrClosedPipe
	}
	return r.text.Write(p)
}

func (r *reply) FlushError() error {
	if r.flushes++; r.gone.Load() {
		return io.ErrClosedPipe
	}
	return nil
}
