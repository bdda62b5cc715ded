package opf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
)

// methods are the case's own. All but the oracle see only what Decide is given. A
// method is not solved where its dispatch breaks a limit as far as it can tell.
func methods(y *System) []domain.Method {
	library := sync.OnceValues(func() (*sampleLibrary, error) { return newSampleLibrary(y) })
	return []domain.Method{
		{Name: "oracle", About: "the exact chain of the trajectory", Group: domain.GroupExact,
			New: func(domain.Means) (domain.Controller, error) { return new(domain.Oracle), nil }},
		baseline("mo-opf", "the exact optimum of every step, warm-started from the last, without tightening",
			func() (domain.Controller, error) { return newExactController(y, nil, acopf.Tightening{}) }),
		baseline("mo-opf-tightened", "mo-opf within limits tightened as those of a map's samples are, where there is such a dispatch",
			func() (domain.Controller, error) { return newExactController(y, nil, DatasetTightening) }),
		baseline("mpc", fmt.Sprintf("%d steps of the AC-OPF, coupled by the ramps, linearised again and again; the loads held, the plan before shifted; projected", recedingSteps),
			func() (domain.Controller, error) {
				return newRecedingDispatch(y, recedingSteps, recedingIterations), nil
			}),
		baseline("runopf", "the exact dispatch of least cost in every step, warm-started from the last: MATPOWER's runopf within the ramp",
			func() (domain.Controller, error) {
				return newExactController(y, &[objectives]float64{economic: 1}, acopf.Tightening{})
			}),
		baseline("hold", "the last dispatch, projected",
			func() (domain.Controller, error) { return &holdController{system: y}, nil }),
		baseline("merit", "the merit order (what the decoder corrects), projected",
			func() (domain.Controller, error) { return meritController{y}, nil }),
		baseline("nearest", "the dispatch of the nearest training sample, projected; adaptive priority only",
			func() (domain.Controller, error) {
				l, err := library()
				return nearestController{l}, err
			}),
	}
}

// baseline is a method that is compared with, and that needs nothing but the system.
func baseline(name, description string, create func() (domain.Controller, error)) domain.Method {
	return domain.Method{Name: name, About: description, Group: domain.GroupBaseline, Brief: true,
		New: func(domain.Means) (domain.Controller, error) { return create() }}
}

// exactController solves every step.
type exactController struct {
	system  *System
	weights *[objectives]float64 // of the raw objectives; nil: what the episode is scored by
	// tighten keeps the dispatch inside the limits; a step that has none is solved without it.
	tighten acopf.Tightening
	results []acopf.Result
	step    int
	warm    bool
}

func newExactController(y *System, weights *[objectives]float64, tighten acopf.Tightening) (*exactController, error) {
	_, err := y.exact()
	return &exactController{system: y, weights: weights, tighten: tighten, results: make([]acopf.Result, 2)}, err
}

func (m *exactController) Reset(domain.Episode) error {
	m.warm = false
	return nil
}

func (m *exactController) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	y := m.system
	m.step++
	now, last := m.results[m.step%2:][:1], &m.results[(m.step+1)%2]
	if !m.warm {
		last = nil
	}
	problem := y.problemAt(s, c, pref, last)
	if m.weights != nil {
		problem.Objective.Weights = *m.weights
	} else {
		y.Weigh(pref, problem.Objective.Weights[:])
	}
	var err error
	problem.Tightening = m.tighten
	if m.warm, err = y.solveOne(context.Background(), problem, now); err != nil {
		return domain.Decision{}, err
	}
	if !m.warm && m.tighten != (acopf.Tightening{}) {
		problem.Tightening = acopf.Tightening{}
		if m.warm, err = y.solveOne(context.Background(), problem, now); err != nil {
			return domain.Decision{}, err
		}
	}
	if !m.warm {
		y.Fallback(s, c, u)
		return domain.Decided(false), nil
	}
	y.setPoints(&now[0], u)
	return domain.Decided(true), nil
}

// holdController repeats the last dispatch.
type holdController struct {
	system *System
	last   []float64
}

func (h *holdController) Reset(domain.Episode) error {
	h.last = nil
	return nil
}

func (h *holdController) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	h.begin(s, c, u)
	ok := h.system.Project(s, c, u)
	h.last = append(h.last[:0], u...)
	return domain.Decided(ok), nil
}

// begin writes the last dispatch; before there is one, what is in force.
func (h *holdController) begin(s, c, u []float64) {
	y := h.system
	if h.last == nil {
		copy(u, c[y.layout.previous:y.layout.previous+y.layout.gens])
		for g, b := range y.Network.GenBus {
			u[y.layout.gens+g] = s[b]
		}
	} else {
		copy(u, h.last)
	}
}

// meritController dispatches by the merit order.
type meritController struct{ system *System }

func (meritController) Reset(domain.Episode) error { return nil }

func (m meritController) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	m.system.Base(s, c, u)
	return domain.Decided(m.system.Project(s, c, u)), nil
}

// sampleLibrary holds samples of the adaptive priority for lookup by context.
type sampleLibrary struct {
	system        *System
	scale         []float64
	context, plan [][]float64
}

// The library of `nearest`: scenarios of the training distribution.
const (
	libraryScenarios = 400
	librarySeed      = 0x6e65_6172 // "near"
)

// newSampleLibrary solves the library's scenarios.
func newSampleLibrary(y *System) (*sampleLibrary, error) {
	v := newSolver(y)
	l := &sampleLibrary{system: y, scale: make([]float64, y.layout.context)}
	rng := rand.New(rand.NewPCG(librarySeed, 1))
	axes := v.Parameters()
	for scenario := range libraryScenarios {
		p := make([]float64, len(axes))
		domain.DrawScenario(rng, axes, p)
		p[0] = levelLo + (1.05-levelLo)*rng.Float64()
		samples, err := v.Solve(scenario, p, domain.Preference{Adaptive: true}, domain.WeightedSum, rng.Uint64())
		if err != nil && !errors.Is(err, domain.ErrInfeasible) && !errors.Is(err, domain.ErrNotConverged) {
			return nil, err
		}
		for i := range samples {
			l.context, l.plan = append(l.context, samples[i].C), append(l.plan, samples[i].U)
		}
	}
	if len(l.context) == 0 {
		return nil, errors.New("opf: method nearest: none of its stored scenarios has a solution")
	}
	for j := range l.scale {
		mean, square := 0.0, 0.0
		for _, c := range l.context {
			mean += c[j] / float64(len(l.context))
		}
		for _, c := range l.context {
			square += (c[j] - mean) * (c[j] - mean) / float64(len(l.context))
		}
		if square > 0 {
			l.scale[j] = 1 / math.Sqrt(square)
		}
	}
	return l, nil
}

// nearestController looks its dispatch up.
type nearestController struct{ library *sampleLibrary }

func (nearestController) Reset(domain.Episode) error { return nil }

func (n nearestController) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	l := n.library
	if !pref.Adaptive {
		return domain.Decision{}, errors.New("opf: method nearest has samples for the adaptive priority only: leave the preference out")
	}
	best, index := math.Inf(1), 0
	for k, other := range l.context {
		d := 0.0
		for j, v := range other {
			e := (v - c[j]) * l.scale[j]
			d += e * e
		}
		if d < best {
			best, index = d, k
		}
	}
	copy(u, l.plan[index])
	return domain.Decided(l.system.Project(s, c, u)), nil
}
