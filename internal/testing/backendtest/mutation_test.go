package backendtest

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/training"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// recorder stands in for testing.T, so that a failing check can be watched.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(f func())  {}
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any) { r.Error(args...); runtime.Goexit() }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

// failures runs one check of the suite on a backend and returns what it says.
func failures(check string, b func(threads int) backend.Backend) []string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, c := range checks {
			if c.name == check {
				c.run(r, func(_ testing.TB, threads int) backend.Backend { return b(threads) })
				return
			}
		}
		r.Fatalf("there is no check %s", check)
	}()
	<-done
	return r.errors
}

// mutant is the reference with single operations replaced.
type mutant struct {
	training.Backend
	mapNet     func(backend.Net) backend.Net
	mapIndex   func(backend.Index) backend.Index
	mapStepper func(backend.Stepper) backend.Stepper
	mapStep    func(*backend.StepperConfig)
	mapTrain   func(*backend.TrainerConfig)
	mapTrainer func(backend.Trainer) backend.Trainer
	eig        func(g, values, vectors tensor.Matrix)
}

func altered[T any](v T, err error, by func(T) T) (T, error) {
	if err == nil && by != nil {
		v = by(v)
	}
	return v, err
}

func (m mutant) NewNet(mlp *model.MLP) (backend.Net, error) {
	n, err := m.Backend.NewNet(mlp)
	return altered(n, err, m.mapNet)
}

func (m mutant) EigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	err := m.Backend.EigTopK(g, n, k, values, vectors)
	if err == nil && m.eig != nil {
		m.eig(g, values, vectors)
	}
	return err
}

func (m mutant) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	x, err := m.Backend.NewIndex(codes, decoded)
	return altered(x, err, m.mapIndex)
}

func (m mutant) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	if m.mapStep != nil {
		m.mapStep(&cfg)
	}
	s, err := m.Backend.NewStepper(cfg)
	return altered(s, err, m.mapStepper)
}

func (m mutant) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	if m.mapTrain != nil {
		m.mapTrain(&cfg)
	}
	t, err := m.Backend.NewTrainer(cfg)
	return altered(t, err, m.mapTrainer)
}

type netMutant struct {
	backend.Net
	forward func(z, y tensor.Matrix)
	jac     func(z, jac tensor.Matrix)
	lambda  float32
}

func (n netMutant) Forward(z, y tensor.Matrix) error {
	err := n.Net.Forward(z, y)
	if err == nil && n.forward != nil && z.Rows > 0 {
		n.forward(z, y)
	}
	return err
}

func (n netMutant) Jacobian(z, jac tensor.Matrix) error {
	err := n.Net.Jacobian(z, jac)
	if err == nil && n.jac != nil {
		n.jac(z, jac)
	}
	return err
}

func (n netMutant) Metric(z tensor.Matrix, lambda float32, g tensor.Matrix) error {
	return n.Net.Metric(z, lambda+n.lambda, g)
}

type indexMutant struct {
	backend.Index
	tau        float32
	neighbours int
	out        func(out backend.LocalizeOutput)
}

func (x indexMutant) Localize(s, z tensor.Matrix, tau []float32, neighbours int, out backend.LocalizeOutput) error {
	moved := make([]float32, len(tau))
	for i, v := range tau {
		moved[i] = v + x.tau
	}
	err := x.Index.Localize(s, z, moved, neighbours+x.neighbours, out)
	if err == nil && x.out != nil {
		x.out(out)
	}
	return err
}

type stepperMutant struct {
	backend.Stepper
	step func(in backend.StepInput, out backend.StepOutput)
}

func (s stepperMutant) Step(in backend.StepInput, out backend.StepOutput) error {
	err := s.Stepper.Step(in, out)
	if err == nil {
		s.step(in, out)
	}
	return err
}

type trainerMutant struct {
	backend.Trainer
	rate  float32
	state func(*backend.TrainerState)
	chain func(*backend.Chain)
}

func (t trainerMutant) ManifoldStep(rows, neighbours []int32, kernel []float32, lr float32) (backend.ManifoldLosses, error) {
	return t.Trainer.ManifoldStep(rows, neighbours, kernel, lr*(1+t.rate))
}

func (t trainerMutant) RolloutStep(rows []int32, lr float32) (backend.RolloutLosses, error) {
	return t.Trainer.RolloutStep(rows, lr*(1+t.rate))
}

func (t trainerMutant) SetChain(c backend.Chain) error {
	if t.chain != nil {
		t.chain(&c)
	}
	return t.Trainer.SetChain(c)
}

func (t trainerMutant) State() (backend.TrainerState, error) {
	s, err := t.Trainer.State()
	if err == nil && t.state != nil {
		t.state(&s)
	}
	return s, err
}

func net(m netMutant) func(backend.Net) backend.Net {
	return func(n backend.Net) backend.Net { m.Net = n; return m }
}

func index(m indexMutant) func(backend.Index) backend.Index {
	return func(x backend.Index) backend.Index { m.Index = x; return m }
}

func stepper(step func(in backend.StepInput, out backend.StepOutput)) func(backend.Stepper) backend.Stepper {
	return func(s backend.Stepper) backend.Stepper { return stepperMutant{s, step} }
}

func trainer(m trainerMutant) func(backend.Trainer) backend.Trainer {
	return func(t backend.Trainer) backend.Trainer { m.Trainer = t; return m }
}

// TestSuiteFindsMistakes breaks the reference in one place after another and
// expects the named check to notice.
func TestSuiteFindsMistakes(t *testing.T) {
	for _, c := range []struct {
		check, mistake string
		m              mutant
	}{
		{"net-strides", "a relative error of 10⁻⁴", mutant{mapNet: net(netMutant{forward: func(_, y tensor.Matrix) { y.Row(0)[0] *= 1.0001 }})}},
		{"net-strides", "the last row of a batch forgotten", mutant{mapNet: net(netMutant{jac: func(_, j tensor.Matrix) { j.Row(j.Rows - 1)[0] = garbage }})}},
		{"net-strides", "λ twice", mutant{mapNet: net(netMutant{lambda: testLambda})}},
		{"net-edges", "a NaN dropped", mutant{mapNet: net(netMutant{forward: func(_, y tensor.Matrix) {
			for i, v := range y.Data {
				if v != v {
					y.Data[i] = 0
				}
			}
		}})}},
		{"net-edges", "a NaN spread to the next row", mutant{mapNet: net(netMutant{forward: func(z, y tensor.Matrix) {
			for b := 1; b < z.Rows; b++ {
				y.Row(b)[0] += 0 * z.Row(b - 1)[0]
				if z.Row(b - 1)[z.Cols-1] != z.Row(b - 1)[z.Cols-1] {
					y.Row(b)[0] = float32(math.NaN())
				}
			}
		}})}},
		{"net-position", "a batch that is not its rows", mutant{mapNet: net(netMutant{forward: func(z, y tensor.Matrix) { y.Row(0)[0] += 1e-3 * float32(z.Rows) }})}},
		{"net-shapes", "no check of shapes", mutant{mapNet: func(n backend.Net) backend.Net { return trusting{n} }}},
		{"eig", "signs not fixed", mutant{eig: func(_, _, v tensor.Matrix) {
			for i := range v.Row(0) {
				v.Row(0)[i] *= -1
			}
		}}},
		{"eig", "vectors not of unit length", mutant{eig: func(_, _, v tensor.Matrix) {
			for i := range v.Row(0) {
				v.Row(0)[i] *= 1.001
			}
		}}},
		{"eig-degenerate", "NaN values given as zero", mutant{eig: func(_, w, _ tensor.Matrix) {
			for i, v := range w.Data {
				if v != v {
					w.Data[i] = 0
				}
			}
		}}},
		{"index", "tau widened", mutant{mapIndex: index(indexMutant{tau: 0.02})}},
		{"index", "one neighbour too many", mutant{mapIndex: index(indexMutant{neighbours: 1})}},
		{"index", "always consistent", mutant{mapIndex: index(indexMutant{out: func(out backend.LocalizeOutput) {
			for i := range out.Consistent {
				out.Consistent[i] = true
			}
		}})}},
		{"index-ties", "tau exclusive", mutant{mapIndex: index(indexMutant{tau: -1e-3})}},
		{"index-edges", "NaN query answered with code 0", mutant{mapIndex: index(indexMutant{out: func(out backend.LocalizeOutput) {
			for i, n := range out.Nearest {
				out.Nearest[i] = max(n, 0)
			}
		}})}},
		{"step", "no Lie residual", mutant{mapStep: func(c *backend.StepperConfig) { c.Params.LieGain = 0 }}},
		{"step", "Lie angle without Δt", mutant{mapStep: func(c *backend.StepperConfig) { c.Params.LieScale /= c.Params.Dt }}},
		{"step", "λ_m forgotten", mutant{mapStep: func(c *backend.StepperConfig) { c.Params.MetricLambda = 0 }}},
		{"step", "no objective gradient", mutant{mapStep: func(c *backend.StepperConfig) { c.Problem = flat{c.Problem.(interface{ rowwise() *Toy }).rowwise()} }}},
		{"step-plain", "cap twice as wide", mutant{mapStep: func(c *backend.StepperConfig) { c.Params.VMax *= 2 }}},
		{"step-group", "translation instead of rotation", mutant{mapStep: func(c *backend.StepperConfig) { c.Params.Group.RotationBlocks = 0 }}},
		{"step-fallbacks", "a guard not reported", mutant{mapStepper: stepper(func(_ backend.StepInput, out backend.StepOutput) { clear(out.Fallbacks) })}},
		{"trainer-manifold", "learning rate 1 % too high", mutant{mapTrainer: trainer(trainerMutant{rate: 0.01})}},
		{"trainer-manifold", "locality summed over half of the pairs", mutant{mapTrain: func(c *backend.TrainerConfig) { c.Manifold.Locality /= 2 }}},
		{"trainer-manifold", "no spectral bound", mutant{mapTrain: func(c *backend.TrainerConfig) { c.SpectralBound = 0 }}},
		{"trainer-rollout", "Lie residual left out", mutant{mapTrain: func(c *backend.TrainerConfig) { c.Rollout.LieGain = 0 }}},
		{"trainer-rollout", "risk weights left out", mutant{mapTrain: func(c *backend.TrainerConfig) { c.Data.RiskWeight = make([]float32, trainingRows) }}},
		{"trainer-chain", "weights of the chain left out", mutant{mapTrainer: trainer(trainerMutant{chain: func(c *backend.Chain) {
			c.Weight = slices.Repeat([]float32{1}, len(c.Weight))
		}})}},
		{"trainer-chain", "λ_roll left out", mutant{mapTrain: func(c *backend.TrainerConfig) { c.Rollout.Roll = 1 }}},
		{"trainer-resume", "moments not saved", mutant{mapTrainer: trainer(trainerMutant{state: func(s *backend.TrainerState) {
			for name, v := range s.Arrays {
				if strings.HasSuffix(name, ".m") {
					clear(v)
				}
			}
		}})}},
		{"trainer-resume", "power iteration not saved", mutant{mapTrainer: trainer(trainerMutant{state: func(s *backend.TrainerState) {
			for name, v := range s.Arrays {
				if strings.HasSuffix(name, ".power") {
					clear(v)
					v[0] = 1
				}
			}
		}})}},
		{"trainer-resume", "count of steps not saved", mutant{mapTrainer: trainer(trainerMutant{state: func(s *backend.TrainerState) { s.ManifoldSteps = 0 }})}},
	} {
		t.Run(c.check+"/"+c.mistake, func(t *testing.T) {
			c.m.Backend = training.New()
			if said := failures(c.check, func(int) backend.Backend { return c.m }); len(said) == 0 {
				t.Errorf("the check passes a backend with this mistake: %s", c.mistake)
			}
		})
	}
	t.Run("threads", func(t *testing.T) {
		said := failures("threads", func(threads int) backend.Backend {
			return mutant{Backend: training.New(), mapNet: net(netMutant{forward: func(_, y tensor.Matrix) {
				if threads == 2 {
					y.Row(7)[0] = math.Nextafter32(y.Row(7)[0], 9)
				}
			}})}
		})
		if len(said) == 0 {
			t.Error("one bit that depends on the threads passes")
		}
	})
}

// trusting is a Net that does not look at shapes.
type trusting struct{ backend.Net }

func (n trusting) Forward(z, y tensor.Matrix) error {
	if z.Cols == 3 && y.Cols == 2 && z.Rows == y.Rows && y.Stride != 0 {
		return n.Net.Forward(z, y)
	}
	return nil
}

func (p *Toy) rowwise() *Toy    { return p }
func (r rowwise) rowwise() *Toy { return r.Problem.(*Toy) }

// flat is Toy without a gradient.
type flat struct{ *Toy }

func (f flat) Gradient(s, u, c, sigma, gs, gu []float64) { clear(gs); clear(gu) }
