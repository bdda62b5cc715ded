package integrator

import (
	"encoding/json"
	"math"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// System is the domain.Problem of Case 1. It is immutable and safe for
// concurrent use.
type System struct {
	Params Params
	spec   domain.Spec
	k64    constants[float64]
	k32    constants[float32]

	interiors sync.Pool              // *interior
	answers   func() []domain.Sample // made on first use
}

// Abilities implements domain.Able.
func (y *System) Abilities() *domain.ProblemAbilities {
	a := &domain.ProblemAbilities{
		Derivatives: domain.Derivatives{Rows: y.GradientBatch}, Fingerprint: y.Fingerprint, Remaining: y.Remaining,
		Answers: y.Answers, Polish: y.Polish, Picture: y.Picture, Device: y.Device,
	}
	if y.Params.Lead != 0 {
		a.Device = nil // the kernels have the paper's limit alone
	}
	return a
}

// NewSystem builds the problem called name; the parameters must be valid.
func NewSystem(name string, params Params) (*System, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	y := &System{Params: params, k64: newConstants[float64](&params), k32: newConstants[float32](&params)}
	y.interiors.New = func() any { return newInterior(y) }
	y.answers = sync.OnceValue(y.answerSamples)
	description := "double integrator past a moving ellipse, convex objectives"
	if params.LambdaNC != 0 {
		description = "double integrator past a moving ellipse, multi-basin performance objective"
	}
	y.spec = domain.Spec{
		Name:        name,
		Description: description,
		Measured: []domain.Variable{
			// Tolerances are about the spread of what episodes measure.
			{Name: "q1", Unit: "m", Tolerance: 2}, {Name: "q2", Unit: "m", Tolerance: 0.6},
			{Name: "v1", Unit: "m/s", Tolerance: 0.7}, {Name: "v2", Unit: "m/s", Tolerance: 0.4},
		},
		Context: []domain.Variable{
			{Name: "u_prev1", Unit: "m/s²"}, {Name: "u_prev2", Unit: "m/s²"},
			{Name: "p"}, {Name: "p_rate", Unit: "1/s"}, {Name: "t/T"},
		},
		Action: []domain.Variable{
			{Name: "u1", Unit: "m/s²", Lo: -params.UMax, Hi: params.UMax},
			{Name: "u2", Unit: "m/s²", Lo: -params.UMax, Hi: params.UMax},
		},
		Objectives: []domain.Variable{
			{Name: "safety", Unit: "m²"}, {Name: "performance", Unit: "m²"},
		},
		Margins: []domain.Variable{
			{Name: "obstacle", Kind: domain.Collision}, {Name: "input", Unit: "m/s²"}, {Name: "slew", Unit: "m/s²"},
		},
		Plan:            1,
		Steps:           Horizon,
		StepSeconds:     params.Dt,
		Semantic:        domain.Semantic{K: []float64{safetyGain, goalGain}, Epsilon: []float64{1, 1}, Rho: 1},
		MarginTolerance: 1e-6,
		Navigation: domain.Navigation{
			// Small: the tangential field is the myopic gradient, and the decoder
			// is already optimal over the horizon.
			LatentStep:     0.005,
			VMax:           1,
			Epsilon:        0.1,
			MetricLambda:   1e-3,
			TopK:           4,
			LieGain:        0.1,
			LieScale:       0.1,
			RetractionMix:  0.5,
			Smoothing:      0.3,
			PriorityFilter: 1,
			Neighbours:     20, // spans the latent: 12 cost 0.006 % regret, the nearest code alone 0.05–0.13 %
		},
		Training: domain.Training{
			Latent:          16,
			Hidden:          256,
			Scenarios:       9500,
			Weights:         1,
			ManifoldEpochs:  36,
			RolloutEpochs:   4,
			Batch:           128,
			Emphasis:        0.5, // 0.048 % regret without (convex, 500 episodes), 0.026 % with
			LearningRate:    1e-3,
			ActionWeight:    30,
			SpectralBound:   20, // a bound of 1 per layer costs 2.1 % regret
			Codes:           20000,
			LocalNeighbours: 12,
		},
	}
	return y, nil
}

// Fingerprint is domain.ProblemAbilities.Fingerprint.
func (y *System) Fingerprint() [32]byte {
	text, err := json.Marshal(traceParams{y.Params, semantic})
	if err != nil {
		panic(err) // Validate wants finite numbers
	}
	return y.spec.Fingerprint(text)
}

// Spec implements domain.Problem.
func (y *System) Spec() *domain.Spec { return &y.spec }

// Base writes u₋₁: the decoder learns the change of the action, which the slew
// bound keeps small.
func (y *System) Base(s, c, plan []float64) {
	plan[0], plan[1] = c[contextPrevious], c[contextPrevious+1]
}

// Objectives writes J₁ and J₂, m², of the propagated next position.
func (y *System) Objectives(s, u, c, J []float64) {
	m := y.k64.next(motionOf(s), u[0], u[1])
	o := y.k64.objectives(m.q1, m.q2, u[0], u[1], c[contextP])
	J[0], J[1] = o.j1, o.j2
}

// Gradient writes the derivatives of σᵀJ in s and u, σ held constant.
func (y *System) Gradient(s, u, c, sigma, gs, gu []float64) {
	m := y.k64.next(motionOf(s), u[0], u[1])
	o := y.k64.objectives(m.q1, m.q2, u[0], u[1], c[contextP])
	pullBack(&y.k64, &o, u, sigma, gs, gu)
}

// pullBack turns the derivatives in q′ into those in s and u.
func pullBack[T real](k *constants[T], o *stage[T], u, sigma, gs, gu []T) {
	gx := sigma[0]*o.g1x + sigma[1]*o.g2x
	gy := sigma[0]*o.g1y + sigma[1]*o.g2y
	gs[0], gs[1] = gx, gy
	gs[2], gs[3] = k.dt*gx, k.dt*gy
	effort := 2 * k.beta * sigma[1]
	gu[0], gu[1] = k.half*gx+effort*u[0], k.half*gy+effort*u[1]
}

// GradientBatch is domain.Derivatives.Rows with the same formulas in
// float32.
func (y *System) GradientBatch(b domain.Batch) {
	k := &y.k32
	for i := range b.Rows {
		s := b.S[i*b.SStride:][:4]
		u := b.U[i*b.UStride:][:2]
		c := b.C[i*b.CStride:][:contextSize]
		m := k.next(motionOf(s), u[0], u[1])
		o := k.objectives(m.q1, m.q2, u[0], u[1], c[contextP])
		pullBack(k, &o, u, b.Sigma[i*b.SigmaStride:][:2], b.GS[i*b.GSStride:][:4], b.GU[i*b.GUStride:][:2])
		if b.J != nil {
			J := b.J[i*b.JStride:][:2]
			J[0], J[1] = o.j1, o.j2
		}
	}
}

// Indicators writes δ₁ (ellipse) and δ₂ (goal) at the current position; see
// psiScale for their ranges. The action does not enter.
func (y *System) Indicators(s, u, c, delta []float64) {
	delta[0], delta[1] = y.Params.indicators(s[0], s[1], c[contextP])
}

// Step is the plant's own step, exact: the parameter p moves at its known rate.
func (y *System) Step(s, c, u, sNext, cNext []float64) {
	u1, u2 := u[0], u[1]
	p := c[contextP] + c[contextRate]*y.Params.Dt
	y.k64.next(motionOf(s), u1, u2).write(sNext)
	cNext[contextTime] = c[contextTime] + 1.0/Horizon
	cNext[contextRate] = c[contextRate]
	cNext[contextP] = p
	cNext[contextPrevious], cNext[contextPrevious+1] = u1, u2
}

// Margins writes ψ − 1 of the next position against the ellipse at this step's
// p, or later by Params.Lead, u_max − ‖u‖ and r_max − ‖u − u₋₁‖.
func (y *System) Margins(s, c, u, m []float64) {
	next := y.k64.next(motionOf(s), u[0], u[1])
	m[0] = y.Params.Ellipse.clearance(next.q1, next.q2, y.Params.limitAt(c[contextP], c[contextRate])) - 1
	m[1] = y.Params.UMax - math.Hypot(u[0], u[1])
	m[2] = y.Params.RMax - math.Hypot(u[0]-c[contextPrevious], u[1]-c[contextPrevious+1])
}

// Fallback brakes: the largest step towards −v/Δt (a stop in one period) that
// input, slew and obstacle bounds allow; if the measured state is not finite,
// the largest step towards no input.
func (y *System) Fallback(s, c, u []float64) {
	if tensor.Finite(s) {
		u[0], u[1] = -s[2]/y.Params.Dt, -s[3]/y.Params.Dt
		y.Project(s, c, u)
	} else {
		u[0], u[1] = 0, 0
		y.discs(c).project(u)
	}
	if !tensor.Finite(u) { // the action before is none
		clear(u)
	}
}

// Remaining is the number of decisions left at a context, at least 1; see
// domain.ProblemAbilities.Remaining.
func (y *System) Remaining(c []float64) int {
	return max(1, Horizon-int(math.Round(c[contextTime]*Horizon)))
}

// Polish is domain.ProblemAbilities.Polish by iterations of the interior point over the plan's
// steps, σ along the prediction. It knows no bounds.
func (y *System) Polish(s, c []float64, pref domain.Preference, bounds []domain.Bound, plan []float64, iterations int) bool {
	steps := len(plan) / 2
	if steps > Horizon-stepOf(c) || len(bounds) > 0 {
		return false
	}
	w := y.interiors.Get().(*interior)
	defer y.interiors.Put(w)
	var h horizonProblem
	var sol solution
	y.remaining(&h, s, c, pref, steps, false)
	w.iterate(&h, plan, iterations, &sol)
	if !tensor.Finite(sol.plan[:len(plan)]) {
		return false
	}
	copy(plan, sol.plan[:])
	return true
}
