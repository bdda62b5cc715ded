package serve_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
	"github.com/gpc-engine/gpc/serve"
)

// heldSolver is a solver whose solves are counted, and held before they begin.
type heldSolver struct {
	domain.Solver
	receding domain.Receding
	hold     func(ctx context.Context) // until a solve may begin, which ctx ends
	solves   *atomic.Int64
	ctx      context.Context
}

func (s heldSolver) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{Until: func(ctx context.Context) domain.Solver {
		s.ctx = ctx
		return s
	}}
}

func (s heldSolver) NewHorizon(n int) domain.Horizon { return heldHorizon{s.receding.NewHorizon(n), s} }

func (s heldSolver) Tightened([]float64) domain.Receding { return nil }

type heldHorizon struct {
	domain.Horizon
	solver heldSolver
}

func (h heldHorizon) Solve(s, c []float64, pref domain.Preference, plan []float64) (float64, bool, error) {
	h.solver.solves.Add(1)
	h.solver.hold(h.solver.ctx)
	return h.Horizon.Solve(s, c, pref, plan)
}

// heldServer is a server of carts whose solves are held.
func heldServer(t testing.TB, method string, hold func(context.Context)) (*serve.Server, *atomic.Int64) {
	t.Helper()
	p := testdomain.NewCart(8)
	solver := require.Get(ocp.New(p, testdomain.Starts, testdomain.Start, ocp.Options{}))(t)
	count := &atomic.Int64{}
	c := require.Get(gpc.NewCase(domain.Case{Problem: p, Solver: heldSolver{solver, solver, hold, count, t.Context()}, Guard: domain.Guard{Off: true}}))(t)
	setup := gpc.Setup{Method: method}
	if method != "nmpc" {
		setup.Model = testdomain.Map(p, 9, true)
	}
	s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: setup}))(t)
	t.Cleanup(s.Close)
	return s, count
}

var position = serve.Request{S: []float64{0.3, 0.2}, C: []float64{0}}

// An exact front has the map's of the same weightings beside it, which costs no less under any of them; a method without a map has the exact one alone.
func TestAnExactFrontIsServed(t *testing.T) {
	for _, method := range []string{"direct", "nmpc"} {
		s, _ := heldServer(t, method, func(context.Context) {})
		a := require.Get(s.ExactFront(t.Context(), position, 12, batchnav.FrontOptions{}))(t)
		if len(a.Exact.Points) != 12 || a.Exact.Incomplete || (a.Same == nil) != (method == "nmpc") || a.Front != nil {
			t.Fatalf("%s: %d points, incomplete %v", method, len(a.Exact.Points), a.Exact.Incomplete)
		}
		if a.Same == nil {
			continue
		}
		for i, p := range a.Exact.Points {
			own := a.Same.Points[i]
			if own.W[0] != p.W[0] || own.Feasible && p.W[0]*p.J[0]+p.W[1]*p.J[1] > own.W[0]*own.J[0]+own.W[1]*own.J[1]+1e-6 {
				t.Errorf("under %v the optimum has %v, the map under %v %v", p.W, p.J, own.W, own.J)
			}
		}
		if r := float64(*a.HypervolumeRatio); !(r > 0 && r < 1.02) {
			t.Errorf("hypervolume ratio %v", r)
		}
	}
}

// While an exact front is solved, decisions, refinements and fronts of the map are answered, and a second exact front is refused. Its solves end when
// who asked is gone.
func TestAnExactFrontHoldsNothingUp(t *testing.T) {
	held := newGate()
	s, solves := heldServer(t, "direct", func(context.Context) { held.pass() })
	t.Cleanup(held.open)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := s.ExactFront(ctx, position, 50, batchnav.FrontOptions{})
		gone <- err
	}()
	<-held.arrived
	require.Get(s.Decide(t.Context(), "a", position))(t)
	require.Get(s.Refine(t.Context(), "a", position, batchnav.RefineOptions{Candidates: 16}))(t)
	require.Get(s.Front(t.Context(), position, batchnav.FrontOptions{Points: 11}))(t)
	require.Get(s.Aside().Front(t.Context(), position, batchnav.FrontOptions{Points: 11}))(t)
	if _, err := s.ExactFront(t.Context(), position, 12, batchnav.FrontOptions{}); !errors.Is(err, serve.ErrBusy) {
		t.Errorf("a second exact front: %v", err)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("whoever has left is answered %v", err)
	}
	held.open()
	for { // as soon as the solve in progress ends
		_, err := s.ExactFront(t.Context(), position, 2, batchnav.FrontOptions{})
		if err == nil {
			break
		}
		if !errors.Is(err, serve.ErrBusy) {
			t.Fatal(err)
		}
	}
	if n := solves.Load(); n > 50 {
		t.Errorf("%d solves, want that in progress and those of two weightings", n)
	}
}

// A front of the map and a refinement end, too, when who asked is gone: what is not begun is not rolled out.
func TestASearchEndsWithItsClient(t *testing.T) {
	far := serve.Request{S: []float64{slow, 0.2}, C: []float64{0}}
	for name, ask := range map[string]func(ctx context.Context, s *serve.Server) error{
		"front": func(ctx context.Context, s *serve.Server) error {
			_, err := s.Front(ctx, far, batchnav.FrontOptions{Points: 1000})
			return err
		},
		"refinement": func(ctx context.Context, s *serve.Server) error {
			_, err := s.Refine(ctx, "", far, batchnav.RefineOptions{Candidates: 1000})
			return err
		},
	} {
		held := newGate()
		s := server(t, serve.Options{}, held)
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- ask(ctx, s) }()
		<-held.arrived
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: whoever has left is answered %v", name, err)
		}
		held.open()
		require.Get(s.Front(t.Context(), position, batchnav.FrontOptions{Points: 11}))(t) // behind the other
		if n := len(held.arrived); n > 500 {
			t.Errorf("%s: %d of 1000 were rolled out", name, n)
		}
	}
}

// What is not solved in time is left out, and the front says so.
func TestAnExactFrontEndsInTime(t *testing.T) {
	s, _ := heldServer(t, "direct", func(ctx context.Context) { <-ctx.Done() })
	a := require.Get(s.ExactFront(t.Context(), position, 50, batchnav.FrontOptions{TimeLimit: 10 * time.Millisecond}))(t)
	if !a.Exact.Incomplete || len(a.Exact.Points) > 1 || len(a.Same.Points) != 50 {
		t.Errorf("%d of 50 points, incomplete %v", len(a.Exact.Points), a.Exact.Incomplete)
	}
}

func TestExactFrontsThatCannotBe(t *testing.T) {
	_, h := web(t, serve.Options{}, serve.HTTPOptions{})
	for body, want := range map[string]string{
		`{"s":[0.1,0.2],"c":[0],"exact":1}`:                   "exact: field \"exact\" is 1, want a whole number from 2 to 1000",
		`{"s":[0.1,0.2],"c":[0],"exact":1001}`:                "exact: field \"exact\" is 1001",
		`{"s":[0.1,0.2],"c":[0],"exact":2.5}`:                 "exact: ",
		`{"s":[0.1,0.2],"c":[0],"exact":5,"deadline_ms":1e5}`: "deadline_ms: field \"deadline_ms\" is 100000, want milliseconds above 0, at most 10000",
		`{"s":[0.1,0.2],"c":[0],"exact":5,"deadline_ms":-1}`:  "deadline_ms: ",
		`{"s":[0.1,0.2],"c":[0],"deadline_ms":5}`:             "deadline_ms: a map's front has no deadline",
		`{"s":[0.1,null],"c":[0],"exact":5}`:                  "s: ",
	} {
		status, a, _ := exchange(t, "POST", h.URL+"/v1/front", body)
		if field, text := a["field"], a["error"]; status != http.StatusBadRequest || !strings.HasPrefix(field.(string)+": "+text.(string), want) {
			t.Errorf("%s: %d %v: %v", body, status, field, text)
		}
	}
}
