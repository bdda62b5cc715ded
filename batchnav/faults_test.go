package batchnav

import (
	"cmp"
	"errors"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

var errFault = errors.New("a fault of the backend")

// faulty is a backend whose call of number fail does its work and is an error.
type faulty struct {
	backend.Backend
	calls, fail int
}

func (b *faulty) fault(err error) error {
	if b.calls++; b.calls == b.fail {
		return cmp.Or(err, errFault)
	}
	return err
}

func (b *faulty) NewNet(m *model.MLP) (backend.Net, error) {
	n, err := b.Backend.NewNet(m)
	return faultyNet{n, b}, b.fault(err)
}

func (b *faulty) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	i, err := b.Backend.NewIndex(codes, decoded)
	return faultyIndex{i, b}, b.fault(err)
}

func (b *faulty) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	s, err := b.Backend.NewStepper(cfg)
	return faultyStepper{s, b}, b.fault(err)
}

type faultyNet struct {
	backend.Net
	of *faulty
}

func (n faultyNet) Forward(z, y tensor.Matrix) error    { return n.of.fault(n.Net.Forward(z, y)) }
func (n faultyNet) Jacobian(z, jac tensor.Matrix) error { return n.of.fault(n.Net.Jacobian(z, jac)) }

type faultyIndex struct {
	backend.Index
	of *faulty
}

func (i faultyIndex) Localize(x, z tensor.Matrix, tau []float32, neighbours int, out backend.LocalizeOutput) error {
	return i.of.fault(i.Index.Localize(x, z, tau, neighbours, out))
}

func (i faultyIndex) Nearest(z tensor.Matrix, k int, idx []int32, distance []float32) error {
	return i.of.fault(i.Index.Nearest(z, k, idx, distance))
}

type faultyStepper struct {
	backend.Stepper
	of *faulty
}

func (s faultyStepper) Step(in backend.StepInput, out backend.StepOutput) error {
	return s.of.fault(s.Stepper.Step(in, out))
}

func (s faultyStepper) Decode(z, ctx, x, u, state tensor.Matrix) error {
	return s.of.fault(s.Stepper.Decode(z, ctx, x, u, state))
}

// answered is the cart with known answers.
type answered struct{ finite }

func (p answered) Abilities() *domain.ProblemAbilities {
	may := p.finite.Abilities()
	may.Answers = func() []domain.Sample {
		return []domain.Sample{{S: []float64{0.1, 0}, C: []float64{0}, Preference: adaptively, Target: []float64{-0.1}}, {S: []float64{0.4, 0}, C: []float64{0}, Preference: adaptively, Target: []float64{-0.4}}}
	}
	return may
}

// Whichever call of its backend fails, an operation ends there with that error.
func TestAFaultOfTheBackendIsTheOperations(t *testing.T) {
	cart := testdomain.NewCart(cartSteps)
	m := testdomain.Map(cart, 3, false)
	bare := *m
	bare.CodesDecoded = tensor.Matrix{}
	s, c := []float64{-1, 0.4}, []float64{0}
	obs := Observation{S: s, C: c, Preference: simplex(0.3)}
	// loop decides twice, the second time in another state than the first led to, and prepares the decision after each.
	loop := func(m *model.Model, p domain.Problem, o Options, pref domain.Preference) func(backend.Backend) error {
		return func(b backend.Backend) error {
			n, err := NewNavigator(b, m, p, o)
			for _, v := range []float64{0.4, 0.3} {
				if err == nil {
					_, err = n.Decide([]float64{-1, v}, c, pref)
				}
				if err == nil {
					err = n.Prepare()
				}
			}
			return err
		}
	}
	rescue := func() domain.Receding {
		return &solver{answer: func(_ []float64, steps int) []float64 { return make([]float64, steps) }}
	}
	half := func(_, _ []float64, _ domain.Preference, u []float64) bool {
		u[0] = -0.5
		return true
	}
	rows := Rows{S: s, C: c, W: obs.Preference.W}
	for name, op := range map[string]func(b backend.Backend) error{
		"a decision":            loop(&bare, answered{finite{cart}}, Options{}, adaptively),
		"a goal":                loop(m, finite{cart}, Options{Direct: true}, domain.Preference{Goal: &domain.Goals{First: []int{0}}}),
		"a search":              loop(m, finite{cart}, Options{Search: SearchOptions{Candidates: 20, LookAhead: 2}}, simplex(0.3)),
		"a search ahead":        loop(m, newSpeeding(2), Options{Search: SearchOptions{Candidates: 20, LookAhead: 2, Ahead: true}, Guard: &domain.Guard{Steps: 3}}, simplex(0.3)),
		"a guard":               loop(m, newSpeeding(0.5), Options{Direct: true, Guard: &domain.Guard{Steps: 6}, Rescue: rescue()}, simplex(0)),
		"a guard under noise":   loop(m, newSpeeding(0.5), Options{Direct: true, Guard: &domain.Guard{Steps: 6, Noise: 1e-3}, Rescue: rescue()}, simplex(0)),
		"a guard with a solver": loop(m, newSpeeding(0.5), Options{Direct: true, Guard: &domain.Guard{Steps: 6}, Solver: half}, simplex(0)),
		"a guard that escapes":  loop(m, braking{newSpeeding(0.5)}, Options{Direct: true, NoRescue: true, Guard: &domain.Guard{Steps: 6}}, simplex(0)),
		"a guard in vain":       loop(m, newSpeeding(-0.9), Options{Direct: true, Guard: &domain.Guard{Steps: 6}}, simplex(0)),
		"a refinement": func(b backend.Backend) error {
			r, err := NewRefiner(b, m, cart, Options{}, 20)
			if err == nil {
				_, err = r.Refine(t.Context(), obs, RefineOptions{Candidates: 20, LookAhead: 2, FlowSteps: 2})
			}
			return err
		},
		"proposals": func(b backend.Backend) error {
			r, err := NewProposer(b, m, cart, Options{}, 12)
			if err != nil {
				return err
			}
			return r.Propose(domain.ProposeOptions{FlowSteps: 2, Mixture: Mixture{Neighbours: 0.3, Preference: 0.3}}, []domain.Question{{S: s, C: c, Preference: adaptively, Count: 12}}, make([]domain.Answer, 1))
		},
		"latents": func(b backend.Backend) error {
			l, err := NewLatents(b, m, cart, Options{})
			if err != nil {
				return err
			}
			z, u := tensor.New(1, 3), tensor.New(1, 1)
			for _, f := range []func() error{
				func() error { return l.Encode(rows, false, z) }, func() error { return l.Encode(rows, true, z) }, func() error { return l.Decode(z, rows, u, tensor.Matrix{}) },
				func() error { return l.Jacobian(DecoderU, z, tensor.New(1, 3)) }, func() error { return l.Step(z, rows, Moved{U: u}) },
			} {
				if err := f(); err != nil {
					return err
				}
			}
			return nil
		},
		"a chain": func(b backend.Backend) error {
			one := tensor.New(1, 2)
			return Chain(b, m, cart, Options{}, 2, one, tensor.New(1, 1), tensor.New(1, 3), func(int, int, []float32, []float32, bool) {})
		},
		"a front": func(b backend.Backend) error {
			f, err := NewFronts(b, m, cart, Options{})
			if err == nil {
				_, err = f.Front(t.Context(), obs, FrontOptions{Points: 9, LookAhead: 2})
			}
			return err
		},
	} {
		whole := &faulty{Backend: ref.New()}
		require.OK(t, op(whole))
		for fail := 1; fail <= whole.calls; fail++ {
			b := &faulty{Backend: ref.New(), fail: fail}
			if err := op(b); !errors.Is(err, errFault) || b.calls != fail {
				t.Errorf("%s: call %d of %d fails, %d were made: %v", name, fail, whole.calls, b.calls, err)
			}
		}
	}
}
