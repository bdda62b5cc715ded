package view_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/view"
)

// fragile is a source that panics in its third frame.
type fragile struct {
	view.Source
	frames []view.Frame
}

func (f *fragile) Describe() *view.Description {
	return &view.Description{Kind: "live", Steers: true, Warnings: []string{}, Episodes: []view.Episode{}}
}

func (f *fragile) Range() (int, int)                                 { return 0, len(f.frames) - 1 }
func (f *fragile) Frame(k int) *view.Frame                           { return &f.frames[k] }
func (f *fragile) Preference() domain.Preference                     { return domain.Preference{Adaptive: true} }
func (f *fragile) Fan(bool) func(context.Context) (*view.Fan, error) { return nil }
func (f *fragile) Reset(context.Context, int) error                  { return nil }
func (f *fragile) Preview(context.Context) (*view.Frame, error)      { return nil, nil }
func (f *fragile) Steer(domain.Preference) error                     { panic("no way to steer") }
func (f *fragile) Advance(context.Context) error {
	if len(f.frames) == 3 {
		panic("no way on")
	}
	f.frames = append(f.frames, view.Frame{K: len(f.frames), Margin: math.NaN()})
	return nil
}

// What breaks stops the loop, says so, and leaves the page there; Close leaves nothing behind.
func TestAPanicIsTold(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	h := view.New(&fragile{frames: make([]view.Frame, 1)}, 1000, true)
	at := httptest.NewServer(h)
	p := &page{t, at, h}
	var s view.State
	require.Until(t, "the loop has stopped", func() bool {
		s = get[view.State](p, "state")
		return s.Fault != ""
	})
	if s.Playing || s.K != 2 || !strings.Contains(s.Fault, "no way on") {
		t.Errorf("it stands at %+v", s)
	}
	if status, text := p.ask("POST", "/view/preference", `{"w":null}`, nil); status != 500 || !strings.Contains(text, "no way to steer") {
		t.Errorf("a panic is answered %d %s", status, text)
	}
	if status, text := p.ask("POST", "/view/seek", `{"k":1}`, nil); status != 200 {
		t.Errorf("after it: %d %s", status, text)
	}
	h.Close()
	if status, _ := p.ask("GET", "/view/state", "", nil); status != http.StatusServiceUnavailable {
		t.Errorf("a closed page is answered %d", status)
	}
	h.Close()
	http.DefaultClient.CloseIdleConnections()
	at.Close()
}

// large is a source whose frames are large.
type large struct{ calm }

func (l *large) Advance(ctx context.Context) error {
	err := l.calm.Advance(ctx)
	l.frames[len(l.frames)-1].S = make([]float64, 4<<10)
	return err
}

// A page is sent no more than it has seen and a little: what it was too slow for is left out, and what it is sent then is
// the latest. Every event has the server's time, and a sign of life the newest frame.
func TestASlowPageIsSentTheLatest(t *testing.T) {
	p := open(t, &large{calm{fragile{frames: make([]view.Frame, 1)}}})
	next := p.read("/view/events?page=slow")
	const last = 60
	for range last {
		p.post("step", `{"by":1}`)
	}
	var k struct{ K int }
	var alive event
	for k.K != last { // it comes behind what is on the way, whatever of that is seen
		alive = next("alive")
		require.OK(t, json.Unmarshal([]byte(alive.data), &k))
	}
	if status, text := p.ask("POST", "/view/seen?page=slow&at="+alive.id, "", nil); status != http.StatusOK {
		t.Fatalf("what is seen is answered %d %s", status, text)
	}
	frame := next("frame")
	require.OK(t, json.Unmarshal([]byte(frame.data), &k))
	if k.K != last {
		t.Errorf("behind the sign of life comes frame %d, want the latest", k.K)
	}
	at := require.Get(strconv.ParseInt(frame.id, 10, 64))(t)
	if since := time.Since(time.UnixMilli(at)); since < 0 || since > time.Hour {
		t.Errorf("the frame was made %v ago", since)
	}
	p.refused("POST", "/view/seen?page=slow&at=x", "", 400, "at")
}

// hopeful looks ahead for as long as it may; each of its decisions begins an episode.
type hopeful struct {
	calm
	given chan error // up by a fan
}

func (h *hopeful) Advance(ctx context.Context) error {
	err := h.calm.Advance(ctx)
	last := &h.frames[len(h.frames)-1]
	last.Episode = last.K
	return err
}

func (h *hopeful) Fan(bool) func(context.Context) (*view.Fan, error) {
	return func(ctx context.Context) (*view.Fan, error) {
		<-ctx.Done()
		h.given <- ctx.Err()
		return nil, ctx.Err()
	}
}

// A fan whose episode has ended is given up: it would be shown beside another.
func TestAFanOfAnEpisodeThatHasEndedIsGivenUp(t *testing.T) {
	given := make(chan error, 1)
	p := open(t, &hopeful{calm{fragile{frames: make([]view.Frame, 1)}}, given})
	p.stream()("frame")
	for len(given) == 0 {
		p.post("step", `{"by":1}`)
	}
	require.Until(t, "the next is looked for", func() bool {
		p.post("step", `{"by":1}`)
		return len(given) == 1 && <-given != nil
	})
	if s := get[view.State](p, "state"); s.Fault != "" {
		t.Errorf("the page says %q", s.Fault)
	}
}

// Pages come and go; more than there is room for are refused.
func TestPagesComeAndGo(t *testing.T) {
	h := view.New(&fragile{frames: make([]view.Frame, 1)}, 1, false)
	defer h.Close()
	at := httptest.NewServer(h)
	defer at.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	watch := func() *http.Response {
		r := require.Get(http.NewRequestWithContext(ctx, "GET", at.URL+"/view/events", nil))(t)
		return require.Get(http.DefaultClient.Do(r))(t)
	}
	open := 0
	for ; open < 1000; open++ {
		resp := watch()
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			break
		}
	}
	if open < 10 || open == 1000 {
		t.Fatalf("%d pages may watch", open)
	}
	leave()
	ctx, leave = context.WithCancel(t.Context())
	defer leave()
	require.Until(t, "somebody is let in after all have left", func() bool {
		resp := watch()
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode == http.StatusOK
	})
}
