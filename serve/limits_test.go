package serve

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The limits of a server are those that its pages state.
func TestLimitsAreThoseOfThePages(t *testing.T) {
	seconds := func(d time.Duration) string { return fmt.Sprint(d.Seconds(), " s") }
	for page, says := range map[string][]string{
		"reference/serve.md": {
			fmt.Sprintf("`candidates` (%d, at most %d %d)", DefaultCandidates, MaxCandidates/1000, MaxCandidates%1000), fmt.Sprintf("`exact` (at most %d)", MaxExact), "at most " + seconds(MaxExactTime) + ", with what is solved",
			fmt.Sprintf("`--line-bytes` (%v MiB)", DefaultLineBytes/float64(1<<20)), "did not come within " + seconds(DefaultPatience), fmt.Sprintf("; %d refinements and fronts)", refinements),
			fmt.Sprintf("A reader that is %d events behind is dropped; %d may read.", events, MaxWatchers), fmt.Sprintf("at most %v KiB and %s.", headBytes/1024.0, seconds(headPatience)),
			fmt.Sprintf("`--connections` (%d) may be open", DefaultConnections), map[bool]string{true: "An idle connection ends after a minute"}[idlePatience == time.Minute],
		},
		"how-to/serve.md": {
			fmt.Sprintf("up to %d bytes;", MaxSessionName), fmt.Sprintf("`--sessions` (%d)", DefaultSessions), fmt.Sprintf("`--session-idle` (%vh)", DefaultSessionIdle.Hours()), fmt.Sprintf("a tenth of the time, at most %v ms,", reserve.Seconds()*1e3),
			fmt.Sprintf("while %d lines are unanswered", waitingLines), fmt.Sprintf("in %v times the time of one decision", stretch), map[bool]string{true: "after a signal within a second"}[DefaultDrain == time.Second],
		},
	} {
		text := string(require.Get(os.ReadFile(filepath.Join("..", "docs", page)))(t))
		text = strings.ReplaceAll(text, "\u00a0", " ")
		for i, phrase := range says {
			if phrase == "" || !strings.Contains(text, phrase) {
				t.Errorf("%s does not say %q (%d)", page, phrase, i)
			}
		}
	}
}

// Options that are not stated are the defaults.
func TestOptionsHaveTheirDefaults(t *testing.T) {
	bareServer, _, _ := loopsOf(t, "direct", 1)
	for _, given := range []Options{{}, {Sessions: 3, SessionIdle: time.Minute, Threads: 2, Waiting: 5, Preference: []float64{1, 0}}} {
		given.Setup = bareServer.opt.Setup
		s := require.Get(New(bareServer.controlCase, bareServer.engine, given))(t)
		want := fmt.Sprint(256, time.Hour, runtime.GOMAXPROCS(0), 256, true)
		if given.Sessions > 0 {
			want = fmt.Sprint(3, time.Minute, 2, 5, false)
		}
		h := s.Health()
		if got := fmt.Sprint(s.opt.Sessions, s.opt.SessionIdle, s.opt.Threads, s.opt.Waiting, s.preference.Adaptive); got != want || h.SessionsMax != s.opt.Sessions || len(s.decider.(*loops).free) != s.opt.Sessions || h.Threads != 1 || h.Backend != "cpu" || h.Method != "direct" || len(h.ModelSHA256) != 64 || s.refiner == nil {
			t.Errorf("%s, want %s; %+v", got, want, h)
		}
		s.Close()
		s.Close()
		if h := s.Health(); h.Status != "closing" || h.Sessions != 0 || h.UptimeS < 0 {
			t.Errorf("closed: %+v", h)
		}
	}
	if h := Handler(bareServer, HTTPOptions{}).(*handler); h.o.MaxBytes != DefaultLineBytes || h.o.Patience != DefaultPatience {
		t.Errorf("%+v", h.o)
	}
	if h := Handler(bareServer, HTTPOptions{MaxBytes: 7, Patience: time.Minute}).(*handler); h.o.MaxBytes != 7 || h.o.Patience != time.Minute {
		t.Errorf("%+v", h.o)
	}
	c := require.Get(Dial("http://host", ClientOptions{Connections: 3}))(t)
	if transport := c.http.Transport.(*http.Transport); transport.MaxIdleConnsPerHost != 16 || transport.IdleConnTimeout != 30*time.Second {
		t.Errorf("%d connections are kept for %v", transport.MaxIdleConnsPerHost, transport.IdleConnTimeout)
	}
	on := require.Get(bareServer.Listen(ListenOptions{Address: "127.0.0.1:0"}))(t)
	if room := cap(on[0].(*door).room); room != 4096 {
		t.Errorf("room for %d connections", room)
	}
	require.OK(t, on[0].Close())
}
