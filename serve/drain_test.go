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
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/serve"
)

// A server that drains answers what it was asked, by the fallback where it takes too long, and
// refuses the rest; then nothing of it is left.
func TestDraining(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, setup := cart(t)
	e := must.Get(gpc.OpenEngine(gpc.EngineOptions{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	s := must.Get(serve.New(c, e, serve.Options{Setup: setup}))(t)
	on, stop := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0"}, serve.HTTPOptions{}, late/4)
	url := "http://" + on[0].Addr().String()
	client := must.Get(serve.Dial(url, serve.ClientOptions{}))(t)
	defer client.Close()
	defer http.DefaultClient.CloseIdleConnections()
	must.Get(client.Health(t.Context()))(t)
	events := stream(t, url+"/v1/stream?session=a")
	answers := make(chan *serve.Decision, 1)
	go func() {
		d, err := client.Decide(t.Context(), "a", serve.Request{S: []float64{slow, 0.1}, C: []float64{0}})
		if err != nil {
			t.Error(err)
		}
		answers <- d
	}()
	idle := must.Get(net.Dial("tcp", on[0].Addr().String()))(t) // half open
	defer idle.Close()
	time.Sleep(late / 8)
	start := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	for !s.Draining() {
		time.Sleep(time.Millisecond)
	}
	if _, err := s.Decide(t.Context(), "b", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}); !errors.Is(err, serve.ErrClosed) {
		t.Errorf("asked while it drains: %v", err)
	}
	var status *serve.StatusError
	if _, err := client.Decide(t.Context(), "b", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}); err == nil || errors.As(err, &status) && status.Status != 503 {
		t.Errorf("asked over HTTP while it drains: %v", err)
	}
	if d := <-answers; !d.Late || d.U[0] != -1 {
		t.Errorf("what it was asked is answered %+v", d)
	}
	must.OK(t, <-ended)
	if took := time.Since(start); took > late/4+time.Second {
		t.Errorf("it drained for %v", took)
	}
	for kind, _ := events.next(); kind != ""; kind, _ = events.next() {
	}
	s.Close()
}

// A server that nobody waits for ends at once, whatever connections are open.
func TestAnIdleServerDrainsAtOnce(t *testing.T) {
	s := server(t, serve.Options{})
	on, stop := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0"}, serve.HTTPOptions{}, 20*time.Second)
	for _, says := range []string{"", "POST /v1/decide HTTP/1.1\r\nHost: loc", "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		c := must.Get(net.Dial("tcp", on[0].Addr().String()))(t)
		defer c.Close()
		must.Get(io.WriteString(c, says))(t)
		if strings.HasSuffix(says, "\r\n\r\n") {
			must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
		}
	}
	start := time.Now()
	must.OK(t, stop())
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if c, err := net.Dial("tcp", on[0].Addr().String()); err == nil {
		c.Close()
		t.Error("it still listens")
	}
}
