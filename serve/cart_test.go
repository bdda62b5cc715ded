package serve_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
	"github.com/gpc-engine/gpc/serve"
)

// Positions at which a fragile cart does not decide as it should.
const (
	panics = 0.4375
	slow   = 0.3125
)

// fragile is a cart whose projection panics in one state, and in another is held at a gate.
type fragile struct {
	*testdomain.Cart
	held *gate
}

func (f fragile) Project(s, c, u []float64) bool {
	switch s[0] {
	case panics:
		panic("no way out")
	case slow:
		f.held.pass()
	}
	return f.Cart.Project(s, c, u)
}

// gate holds decisions until a test lets them go: what is answered meanwhile is answered before
// they are made, however fast or slow the machine is.
type gate struct {
	arrived chan struct{} // has one of each decision that came to the gate
	opened  chan struct{}
	open    func()
}

func newGate() *gate {
	g := &gate{arrived: make(chan struct{}, 1024), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	return g
}

// pass waits until the gate is open. Nothing is held where there is none.
func (g *gate) pass() {
	if g != nil {
		g.arrived <- struct{}{}
		<-g.opened
	}
}

// cart is a case of fragile carts with its map, held at the gate where one is given.
func cart(t testing.TB, held ...*gate) (*gpc.Case, gpc.Setup) {
	t.Helper()
	p := fragile{Cart: testdomain.NewCart(8)}
	for _, g := range held {
		p.held = g
	}
	solver := require.Get(ocp.New(p, testdomain.Starts, testdomain.Start, ocp.Options{}))(t)
	c := require.Get(gpc.NewCase(domain.Case{Problem: p, Solver: solver, Plant: closedloop.Simulated(p, testdomain.Starts, testdomain.Start), Guard: domain.Guard{Off: true}}))(t)
	return c, gpc.Setup{Method: "navigator", Model: testdomain.Map(p.Cart, 9, true)}
}

func cpu(t testing.TB) *gpc.Engine {
	t.Helper()
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 2}))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

// server is one of fragile carts. Its gate is open when it is closed.
func server(t testing.TB, opt serve.Options, held ...*gate) *serve.Server {
	t.Helper()
	c, setup := cart(t, held...)
	if opt.Setup.Method == "" {
		opt.Setup = setup
	}
	s := require.Get(serve.New(c, cpu(t), opt))(t)
	t.Cleanup(s.Close)
	for _, g := range held {
		t.Cleanup(g.open)
	}
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
