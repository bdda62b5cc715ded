package serve_test

import (
	"sync/atomic"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// stepping counts the steps that a case's problem is asked for.
type stepping struct {
	fragile
	steps *atomic.Int64
}

func (p stepping) Step(s, c, u, sNext, cNext []float64) {
	p.steps.Add(1)
	p.fragile.Step(s, c, u, sNext, cNext)
}

// A session is prepared behind its answer: a search ahead has then made the next decision's too. One
// that is answered by an error is not.
func TestSessionsArePreparedBehindTheirAnswers(t *testing.T) {
	own, setup := cart(t)
	took := map[string]int64{}
	for _, method := range []string{"refine-64", "refine-64-ahead"} {
		def, steps := *own.Definition(), new(atomic.Int64)
		def.Problem = stepping{def.Problem.(fragile), steps}
		setup.Method = method
		s := require.Get(serve.New(require.Get(gpc.NewCase(def))(t), cpu(t), serve.Options{Setup: setup}))(t)
		t.Cleanup(s.Close)
		steps.Store(0)
		said(t, s, serve.LineOptions{}, decide(t, "", []float64{0.3, 0.1}, []float64{0}), `{"op":"health"}`)
		took[method] = steps.Load()
		a := said(t, s, serve.LineOptions{}, decide(t, "", []float64{panics, 0.1}, []float64{0}), decide(t, "", []float64{0.3, 0.1}, []float64{0}), `{"op":"health"}`)
		if a[0]["error"] == nil || a[1]["u"] == nil || a[2]["health"].(map[string]any)["panics"] != 1.0 {
			t.Errorf("%s: %v", method, a)
		}
	}
	if took["refine-64-ahead"] < 3*took["refine-64"]/2 {
		t.Errorf("steps by method %v", took)
	}
}

// anticipating counts how often it is prepared.
type anticipating struct {
	domain.Controller
	prepared *atomic.Int64
}

func (a anticipating) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Prepare: func() error {
		a.prepared.Add(1)
		return nil
	}}
}

func TestControllersArePreparedBehindTheirAnswers(t *testing.T) {
	own, setup := cart(t)
	def, prepared := *own.Definition(), new(atomic.Int64)
	def.Methods = append(def.Methods[:0:0], domain.Method{Name: "anticipating", Ahead: true, New: func(domain.Means) (domain.Controller, error) {
		return anticipating{require.Get(own.Controller(nil, gpc.Setup{Method: "hold"}))(t), prepared}, nil
	}})
	setup.Method = "anticipating"
	s := require.Get(serve.New(require.Get(gpc.NewCase(def))(t), cpu(t), serve.Options{Setup: setup, Sessions: 2}))(t)
	t.Cleanup(s.Close)
	said(t, s, serve.LineOptions{}, decide(t, "a", []float64{0.3, 0.1}, []float64{0}), decide(t, "b", []float64{0.3, 0.1}, []float64{0}), `{"op":"health"}`)
	if prepared.Load() != 2 {
		t.Errorf("%d of 2 sessions were prepared", prepared.Load())
	}
}
