package serve_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// A server that drains answers what it was asked, by the fallback where it takes too long, and
// refuses the rest; then nothing of it is left. It does not wait for what it gave up.
func TestDraining(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	held := newGate()
	defer held.open()
	c, setup := cart(t, held)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	s := require.Get(serve.New(c, e, serve.Options{Setup: setup}))(t)
	on, stop := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0"}, serve.HTTPOptions{}, 100*time.Millisecond)
	url := "http://" + on[0].Addr().String()
	client := require.Get(serve.Dial(url, serve.ClientOptions{}))(t)
	defer client.Close()
	defer http.DefaultClient.CloseIdleConnections()
	require.Get(client.Health(t.Context()))(t)
	events := stream(t, url+"/v1/stream?session=a")
	type answer struct {
		d   *serve.Decision
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		d, err := client.Decide(t.Context(), "a", serve.Request{S: []float64{slow, 0.1}, C: []float64{0}})
		answers <- answer{d, err}
	}()
	idle := require.Get(net.Dial("tcp", on[0].Addr().String()))(t) // half open
	defer idle.Close()
	<-held.arrived
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	require.Until(t, "it drains", s.Draining)
	if _, err := s.Decide(t.Context(), "b", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}); !errors.Is(err, serve.ErrClosed) {
		t.Errorf("asked while it drains: %v", err)
	}
	var status *serve.StatusError
	if _, err := client.Decide(t.Context(), "b", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}); err == nil || errors.As(err, &status) && status.Status != 503 {
		t.Errorf("asked over HTTP while it drains: %v", err)
	}
	if a := <-answers; a.err != nil || !a.d.Late || a.d.U[0] != -1 {
		t.Errorf("what it was asked is answered %+v, %v", a.d, a.err)
	}
	require.OK(t, <-ended)
	for kind, _ := events.next(); kind != ""; kind, _ = events.next() {
	}
	held.open()
	s.Close()
}

// A server that nobody waits for ends at once, whatever connections are open, not when the time is
// over that it would have had.
func TestAnIdleServerDrainsAtOnce(t *testing.T) {
	s := server(t, serve.Options{})
	on, stop := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0"}, serve.HTTPOptions{}, 24*time.Hour)
	for _, says := range []string{"", "POST /v1/decide HTTP/1.1\r\nHost: loc", "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		c := require.Get(net.Dial("tcp", on[0].Addr().String()))(t)
		defer c.Close()
		require.Get(io.WriteString(c, says))(t)
		if strings.HasSuffix(says, "\r\n\r\n") {
			require.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
		}
	}
	require.OK(t, stop())
	if c, err := net.Dial("tcp", on[0].Addr().String()); err == nil {
		c.Close()
		t.Error("it still listens")
	}
}
