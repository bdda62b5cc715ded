// Package batchnav is the online part of Geometric Pareto Control: Algorithm 2
// of the paper ("Online Pareto Map Navigation") for one state and for thousands
// at once, the refinement of many latent candidates, the paper's certificates,
// and the monitor of a running loop.
//
// The central type is Navigator, one closed loop of one trained map on one
// compute backend. Batch is the same for many independent loops that decide
// together. The arithmetic of a latent step is the backend's; this package
// decides what is localized, steered, projected, guarded and recorded.
//
// Sources: paper, sec. "Online Navigation" (alg:online), app:rk2, and
// appendix:theory for the certificates. Where the paper leaves a choice, the
// choice is stated at the code that makes it and in docs/explain/decision.md.
package batchnav

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Navigator is one closed loop. It is used by one goroutine. On the CPU backend
// Decide does not allocate after its first call, if the Problem does not.
type Navigator struct {
	batch       *Batch
	observation [1]Observation
	decision    [1]Decision
}

// NewNavigator checks that model and problem fit each other and prepares a loop.
// The model and problem are kept and not modified.
func NewNavigator(b backend.Backend, m *model.Model, p domain.Problem, opt Options) (*Navigator, error) {
	batch, err := NewBatch(b, m, p, opt, 1)
	if err != nil {
		return nil, err
	}
	return &Navigator{batch: batch}, nil
}

// Reset starts an episode: smoothing, priority filter and noise estimate forget
// what was.
func (n *Navigator) Reset() { n.batch.Reset() }

// Decide takes the measured state s and context c in physical units under a
// preference and returns the executed action with its monitor record. The inputs
// are not kept; the Decision's slices are valid until the next call. An entry
// of s or c that is not finite is answered by Problem.Fallback and flagged; it is
// not an error.
func (n *Navigator) Decide(s, c []float64, pref domain.Preference) (*Decision, error) {
	n.observation[0] = Observation{S: s, C: c, Preference: pref}
	if err := n.batch.Decide(n.observation[:], n.decision[:]); err != nil {
		return nil, err
	}
	return &n.decision[0], nil
}

// Prepare is Batch.Prepare.
func (n *Navigator) Prepare() error { return n.batch.Prepare() }

// AnswerError is Batch.AnswerError.
func (n *Navigator) AnswerError() float64 { return n.batch.AnswerError() }

// Controller is the navigator as evaluation takes a method.
func (n *Navigator) Controller() domain.Loop {
	c := controller{n, make([]float64, n.batch.spec.PlanSize())}
	if n.batch.Prepares() {
		return anticipating{c}
	}
	return c
}

type controller struct {
	navigator *Navigator
	decoded   []float64
}

// anticipating is the controller of a search ahead.
type anticipating struct{ controller }

var (
	_ domain.Loop         = controller{}
	_ domain.Planning     = controller{}
	_ domain.Overruled    = controller{}
	_ domain.Anticipating = anticipating{}
)

func (c anticipating) Prepare() error { return c.navigator.Prepare() }

func (c controller) Reset(domain.Episode) error {
	c.navigator.Reset()
	return nil
}

func (c controller) Decide(s, cx []float64, pref domain.Preference, u []float64) (bool, error) {
	d, err := c.navigator.Decide(s, cx, pref)
	if err != nil {
		return false, err
	}
	copy(u, d.U)
	return true, nil
}

func (c controller) Monitor() domain.Monitor {
	d := &c.navigator.decision[0]
	return domain.Monitor{Priority: d.Sigma, Residual: d.Residual, Limit: d.Limit, Displacement: d.Displacement, Gap: d.Gap, Fallback: d.Fallback, Times: d.Times}
}

// Plan implements domain.Planning by the plan that the guard has accepted, nil where there is none.
func (c controller) Plan() []float64 { return c.navigator.batch.Plan(0) }

// Executed implements domain.Overruled.
func (c controller) Executed(u []float64) { c.navigator.batch.Executed(0, u) }

// Missed implements domain.Overruled.
func (c controller) Missed(s, cx, u []float64) {
	if s == nil {
		s = []float64{math.NaN()} // as an observation that is not known
	}
	c.navigator.batch.Missed(0, Observation{S: s, C: cx}, u)
}

func (c controller) Decoded() []float64 {
	d := &c.navigator.decision[0]
	if d.Fallback&(domain.FallbackObservation|domain.FallbackAction) != 0 {
		return nil
	}
	tensor.Widen(c.decoded, d.Plan)
	return c.decoded
}
