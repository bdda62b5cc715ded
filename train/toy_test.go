package train

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
)

// toy is a problem whose optimum is a known smooth function of state, context and
// preference, so that what a map should have learned can be said exactly.
type toy struct{ spec *domain.Spec }

func newToy() toy {
	return toy{&domain.Spec{
		Name:       "toy",
		Measured:   []domain.Variable{{Name: "a"}, {Name: "b"}},
		Context:    []domain.Variable{{Name: "p"}, {Name: "constant"}},
		Action:     []domain.Variable{{Name: "u1", Lo: -3, Hi: 3}, {Name: "u2", Lo: -3, Hi: 3}},
		Objectives: []domain.Variable{{Name: "J1"}, {Name: "J2"}},
		Margins:    []domain.Variable{{Name: "inside"}},
		Plan:       1, Steps: 5, StepSeconds: 1,
		Semantic:   domain.Semantic{K: []float64{1, 1}, Epsilon: []float64{1, 1}, Rho: 1},
		Navigation: domain.Navigation{LatentStep: 0.1, MetricLambda: 1e-3, TopK: 3, LieGain: 0.5, LieScale: 1, Epsilon: 0.1, VMax: 1, RetractionMix: 0.1, Neighbours: 3},
		Training: domain.Training{
			Latent: 4, Hidden: 32, ManifoldEpochs: 3, RolloutEpochs: 2, Batch: 64,
			LearningRate: 1e-3, SpectralBound: 20, Codes: 40, LocalNeighbours: 4,
		},
	}}
}

func (t toy) optimum(s, c []float64, pref domain.Preference, u []float64) {
	w := 0.3 + 0.2*s[0]
	if !pref.Adaptive {
		w = pref.W[0]
	}
	u[0] = w*math.Sin(s[0]+c[0]) + (1-w)*s[1]
	u[1] = math.Cos(s[1]) * (0.5 + w*c[0])
}

func (t toy) Spec() *domain.Spec        { return t.spec }
func (t toy) Base(s, c, plan []float64) { plan[0], plan[1] = 0.1*s[0], 0 }
func (t toy) Objectives(s, u, c, J []float64) {
	J[0], J[1] = (u[0]-s[1])*(u[0]-s[1]), u[0]*u[0]+u[1]*u[1]
}
func (t toy) Indicators(s, u, c, d []float64) { d[0], d[1] = math.Abs(math.Sin(s[0])), 0.2 }
func (t toy) Step(s, c, u, sn, cn []float64) {
	copy(sn, s)
	sn[0], sn[1] = s[0]+0.1*u[0], s[1]+0.1*u[1]
	copy(cn, c)
}
func (t toy) Margins(s, c, u, m []float64)   { m[0] = 3 - math.Abs(u[0]) }
func (t toy) Project(s, c, u []float64) bool { return true }
func (t toy) Fallback(s, c, u []float64)     { clear(u) }
func (t toy) Gradient(s, u, c, sigma, gs, gu []float64) {
	gs[0], gs[1] = 0, -2*sigma[0]*(u[0]-s[1])
	gu[0], gu[1] = 2*sigma[0]*(u[0]-s[1])+2*sigma[1]*u[0], 2*sigma[1]*u[1]
}

// data are samples as training takes them.
func (t toy) data(scenarios int) Data {
	columns, err := dataset.ColumnsOf(dataset.LayoutOf(t.spec), t.samples(scenarios, 1))
	if err != nil {
		panic(err)
	}
	return Data{Columns: columns}
}

// samples solves trajectories of five steps, alternating between the adaptive
// mode and fixed preferences, and one perturbed sample, a trajectory of its own,
// beside each.
func (t toy) samples(scenarios int, seed uint64) []domain.Sample {
	rng := rand.New(rand.NewPCG(seed, 7))
	var out []domain.Sample
	for sc := range scenarios {
		for k := range 2 {
			pref := domain.Preference{Adaptive: true}
			if k == 1 {
				w := rng.Float64()
				pref = domain.Preference{W: []float64{w, 1 - w}}
			}
			s := make([]float64, t.spec.MeasuredSize())
			for i := range s {
				s[i] = 2*rng.Float64() - 1
			}
			c := []float64{rng.Float64(), 7}
			for step := range 6 {
				x := domain.Sample{
					Scenario: sc, Trajectory: int64(2*sc + k), Step: step, Perturbed: step == 5,
					S: append([]float64(nil), s...), C: append([]float64(nil), c...), Preference: pref,
					U: make([]float64, 2), Target: make([]float64, 2), Sigma: make([]float64, 2), J: make([]float64, 2), Margins: make([]float64, 1),
				}
				if x.Perturbed {
					x.Trajectory, x.Step = int64(1e6+2*sc+k), 2
					x.S[0] += 0.05
				}
				t.optimum(x.S, x.C, pref, x.U)
				base, delta := make([]float64, 2), make([]float64, 2)
				t.Base(x.S, x.C, base)
				for i := range base {
					x.Target[i] = x.U[i] - base[i]
				}
				t.Indicators(x.S, x.U, x.C, delta)
				t.spec.Semantic.Priority(delta, x.Sigma)
				t.Objectives(x.S, x.U, x.C, x.J)
				out = append(out, x)
				sn, cn := make([]float64, len(s)), make([]float64, 2)
				t.Step(s, c, x.U, sn, cn)
				copy(s, sn)
				c[0] += 0.02
			}
		}
	}
	return out
}

// cpu is the backend of a test.
func cpu(t testing.TB) backend.Backend {
	t.Helper()
	b, err := cpufallback.New(cpufallback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// toyOptions are of a run on so many of the toy's scenarios.
func toyOptions(be backend.Backend, scenarios int) Options {
	p := newToy()
	return Options{Backend: be, Problem: p, Data: p.data(scenarios), Seed: 5, Emphasis: 0.5}
}

// trained is the result of a run.
func trained(t testing.TB, opt Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused wants an error of a run that says so.
func refused(t testing.TB, what string, opt Options, want string) {
	t.Helper()
	if _, err := Run(t.Context(), opt, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want one with %q", what, err, want)
	}
}

// toySet is a set of the options' data with a tenth held out.
func toySet(t testing.TB, opt Options) *trainingSet {
	t.Helper()
	s, err := newTrainingSet(opt.Problem.Spec(), &opt.Data, Options{validation: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
