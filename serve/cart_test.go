package serve_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/testdomain"
	"github.com/gpc-engine/gpc/offline/shooting"
	"github.com/gpc-engine/gpc/serve"
)

// Positions at which a fragile cart does not decide as it should.
const (
	panics = 0.4375
	slow   = 0.3125
	late   = 400 * time.Millisecond
)

// fragile is a cart whose projection panics or takes its time in two states.
type fragile struct{ *testdomain.Cart }

func (f fragile) Project(s, c, u []float64) bool {
	switch s[0] {
	case panics:
		panic("no way out")
	case slow:
		time.Sleep(late)
	}
	return f.Cart.Project(s, c, u)
}

// cart is a case of fragile carts with its map.
func cart(t testing.TB) (*gpc.Case, gpc.Setup) {
	t.Helper()
	p := fragile{testdomain.NewCart(8)}
	solver := must.Get(shooting.New(p, testdomain.Starts, testdomain.Start, shooting.Options{}))(t)
	c := must.Get(gpc.NewCase(domain.Case{Problem: p, Solver: solver, Plant: closedloop.Simulated(p, testdomain.Starts, testdomain.Start), Guard: domain.Guard{Off: true}}))(t)
	return c, gpc.Setup{Method: "gpc", Model: testdomain.Map(p.Cart, 9, true)}
}

func engine(t testing.TB) *gpc.Engine {
	t.Helper()
	e := must.Get(gpc.OpenEngine(gpc.EngineOptions{Backend: "cpu", Threads: 2}))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

// server is one of fragile carts.
func server(t testing.TB, opt serve.Options) *serve.Server {
	t.Helper()
	c, setup := cart(t)
	if opt.Setup.Method == "" {
		opt.Setup = setup
	}
	s := must.Get(serve.New(c, engine(t), opt))(t)
	t.Cleanup(s.Close)
	return s
}

// logged is what a server logs.
type logged struct {
	sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) lines() []string {
	l.Lock()
	defer l.Unlock()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
}
