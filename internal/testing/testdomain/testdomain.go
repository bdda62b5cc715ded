// Package testdomain is the smallest control problem with everything that a
// navigator needs, and a trained map that is exact by construction, so that
// tests of the online part can state what must come out.
//
// The central type is Cart: a unit mass on a line, state (q, v), action u,
// objectives ½q² + ½v² and ½u², a wall at q = Wall and the box |u| ≤ 1.
package testdomain

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

const (
	// Dt is the control period, s.
	Dt = 0.1
	// Wall is the position that the cart must not pass, m.
	Wall = 2.0
)

// Cart implements domain.Problem.
type Cart struct{ spec domain.Spec }

// NewCart returns the problem with episodes of steps decisions.
func NewCart(steps int) *Cart {
	return &Cart{spec: domain.Spec{
		Name:       "cart",
		Measured:   []domain.Variable{{Name: "q", Unit: "m", Lo: -3, Hi: 3}, {Name: "v", Unit: "m/s", Lo: -2, Hi: 2}},
		Context:    []domain.Variable{{Name: "progress", Unit: "1"}},
		Action:     []domain.Variable{{Name: "u", Unit: "m/s²", Lo: -1, Hi: 1}},
		Objectives: []domain.Variable{{Name: "regulation", Unit: "1"}, {Name: "effort", Unit: "1"}},
		Margins:    []domain.Variable{{Name: "clearance", Unit: "m", Kind: domain.Collision}, {Name: "input", Unit: "m/s²"}},
		Plan:       1, Steps: steps, StepSeconds: Dt,
		Semantic:        domain.Semantic{K: []float64{2, 2}, Epsilon: []float64{1, 1}, Rho: 1},
		MarginTolerance: 1e-6,
		Navigation: domain.Navigation{
			LatentStep: 0.01, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 2, LieGain: 0.1, LieScale: 1,
			RetractionMix: 0.2, Smoothing: 0.3, PriorityFilter: 0.5, Neighbours: 4,
		},
	}}
}

// Starts are the axes of a cart's scenarios, where it is and how fast at first.
var Starts = []domain.Variable{{Name: "q", Lo: -1, Hi: 1}, {Name: "v", Lo: -0.5, Hi: 0.5}}

// Start writes the state and the context that a scenario of Starts begins with.
func Start(p, s, c []float64) {
	copy(s, p)
	clear(c)
}

// NewPlanCart returns the problem with decoded plans of length actions.
func NewPlanCart(steps, length int) *Cart {
	p := NewCart(steps)
	p.spec.Plan = length
	return p
}

func (p *Cart) Spec() *domain.Spec         { return &p.spec }
func (p *Cart) Base(s, c, plan []float64)  { clear(plan) }
func (p *Cart) Fallback(s, c, u []float64) { u[0] = -1 }
func (p *Cart) Objectives(s, u, c, J []float64) {
	J[0], J[1] = 0.5*(s[0]*s[0]+s[1]*s[1]), 0.5*u[0]*u[0]
}

func (p *Cart) Gradient(s, u, c, sigma, gs, gu []float64) {
	gs[0], gs[1], gu[0] = sigma[0]*s[0], sigma[0]*s[1], sigma[1]*u[0]
}

func (p *Cart) Indicators(s, u, c, delta []float64) {
	delta[0] = math.Min(1, math.Abs(s[0])/Wall)
	delta[1] = math.Min(1, math.Abs(u[0]))
}

func (p *Cart) Step(s, c, u, sNext, cNext []float64) {
	q, v, a := s[0], s[1], u[0]
	sNext[0], sNext[1] = q+Dt*v+0.5*Dt*Dt*a, v+Dt*a
	cNext[0] = c[0] + 1/float64(p.spec.Steps)
}

func (p *Cart) Margins(s, c, u, m []float64) {
	m[0] = Wall - (s[0] + Dt*s[1] + 0.5*Dt*Dt*u[0])
	m[1] = 1 - math.Abs(u[0])
}

func (p *Cart) Project(s, c, u []float64) bool {
	u[0] = math.Max(-1, math.Min(1, u[0]))
	limit := (Wall - s[0] - Dt*s[1]) / (0.5 * Dt * Dt)
	u[0] = math.Max(-1, math.Min(u[0], limit))
	return u[0] <= limit
}

// Feedback is the action of the exact map: u = −q − 1.5 v, before the clip.
var Feedback = [2]float64{-1, -1.5}

// Decay is the ratio of one action of a decoded plan to the one before.
const Decay = 0.9

// Linear returns the one-hidden-layer ReLU network that computes W x exactly,
// as W·relu(x) − W·relu(−x). W is [out][in].
func Linear(w [][]float64) *model.MLP {
	out, in := len(w), len(w[0])
	hidden := model.Layer{W: tensor.New(2*in, in), B: make([]float32, 2*in)}
	last := model.Layer{W: tensor.New(out, 2*in), B: make([]float32, out)}
	for i := range in {
		hidden.W.Row(i)[i] = 1
		hidden.W.Row(in + i)[i] = -1
		for o := range out {
			last.W.Row(o)[i] = float32(w[o][i])
			last.W.Row(o)[in+i] = float32(-w[o][i])
		}
	}
	return &model.MLP{Layers: []model.Layer{hidden, last}}
}

// Map returns a map of the cart: z = (q, v, w₂) with D_s exact, D_u the Feedback
// plus 0.2 z₃ (Decay times the one before for every further action of a plan),
// and codes on a grid of side points per state axis. With
// identifiable set, z = (q, v) alone and D_s is injective.
func Map(p *Cart, side int, identifiable bool) *model.Model {
	// E_x reads [q, v, progress, flag, w₁, w₂].
	ex := [][]float64{{1, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 1}}
	ds := [][]float64{{1, 0, 0}, {0, 1, 0}}
	du := [][]float64{{Feedback[0], Feedback[1], 0.2}}
	// E_o reads [q, v, σ₁, σ₂, J₁, J₂].
	eo := [][]float64{{1, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0}, {0, 0, 0, 1, 0, 0}}
	if identifiable {
		ex, eo = ex[:2], eo[:2]
		ds = [][]float64{{1, 0}, {0, 1}}
		du = [][]float64{Feedback[:]}
	}
	m := &model.Model{
		Case:       p.spec.Name,
		Provenance: model.Provenance{ProblemSHA256: durable.Sum(domain.FingerprintOf(p))},
		EncoderX:   Linear(ex), EncoderO: Linear(eo), DecoderS: Linear(ds),
		NormX: Scaled(6, 1), NormO: Scaled(6, 1), NormS: Scaled(2, 1),
		Calibration: model.Calibration{
			TauGeom: 1e-2, ObjectiveIdeal: []float64{0, 0}, ObjectiveNadir: []float64{6.5, 0.5}, LatentSpread: 2,
		},
	}
	for h := 1; h < p.spec.Plan; h++ {
		row := make([]float64, len(du[0]))
		for i, v := range du[h-1] {
			row[i] = Decay * v
		}
		du = append(du, row)
	}
	m.DecoderU, m.NormU = Linear(du), Scaled(p.spec.Plan, 1)
	nz := m.Latent()
	m.Codes, m.CodesDecoded = tensor.New(side*side, nz), tensor.New(side*side, 2)
	for i := range side {
		for j := range side {
			row := m.Codes.Row(i*side + j)
			row[0] = float32(-3 + 6*float64(i)/float64(side-1))
			row[1] = float32(-2 + 4*float64(j)/float64(side-1))
			copy(m.CodesDecoded.Row(i*side+j), row[:2])
		}
	}
	return m
}
