package serve_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// Requests that are at hand together are admitted together: on one processor, too, all but those
// that may wait are refused before the first is decided, not decided one behind another.
func TestWhatIsAtHandIsAdmittedFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c, setup := cart(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	s := require.Get(serve.New(c, e, serve.Options{Setup: setup, Waiting: 1, Threads: 1}))(t)
	defer s.Close()
	const asking, rounds = 20, 10
	var decided, refused atomic.Int64
	for range rounds {
		var wait sync.WaitGroup
		for i := range asking {
			wait.Go(func() {
				switch _, err := s.Decide(t.Context(), fmt.Sprint(i), serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}); {
				case err == nil:
					decided.Add(1)
				case errors.Is(err, serve.ErrBusy):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wait.Wait()
	}
	if d, r := decided.Load(), refused.Load(); d < rounds || d > rounds*asking/4 || d+r != rounds*asking {
		t.Errorf("of %d times %d at hand together %d were decided and %d refused, where one may wait", rounds, asking, d, r)
	}
}

// A server that measures how many may wait lets one in at least, decides them all when nobody
// else asks, and says how many they are.
func TestWaitingIsMeasured(t *testing.T) {
	s := server(t, serve.Options{Waiting: serve.Measured})
	for i := range 50 {
		require.Get(s.Decide(t.Context(), fmt.Sprint(i%5), serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}))(t)
	}
	if text := metrics(t, s); !strings.Contains(text, "\ngpc_waiting_max 2\n") {
		t.Errorf("metrics %s", text)
	}
	of := server(t, serve.Options{Waiting: 7})
	if text := metrics(t, of); !strings.Contains(text, "\ngpc_waiting_max 7\n") {
		t.Errorf("metrics %s", text)
	}
	c, setup := cart(t)
	if _, err := serve.New(c, cpu(t), serve.Options{Setup: setup, Waiting: -2}); err == nil || !strings.Contains(err.Error(), "-2 waiting requests") {
		t.Errorf("%v", err)
	}
}

// A body that is too large by what its head says is refused before any of it has come; what does
// not come in time has another status.
func TestALargeBodyIsNotWaitedFor(t *testing.T) {
	_, h := web(t, serve.Options{}, serve.HTTPOptions{Patience: 30 * time.Second})
	c := require.Get(net.Dial("tcp", h.Listener.Addr().String()))(t)
	defer c.Close()
	require.Get(io.WriteString(c, "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n{"))(t)
	if status, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(status, "HTTP/1.1 413 ") {
		t.Errorf("answered %q, %v", status, err)
	}
}
