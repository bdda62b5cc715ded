package shooting

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
)

// cartpole is an inverted pendulum on a cart with a speed limit: balance and the
// cart's distance from a reference as objectives, each also of the state that an
// action leads to. Its functions are written once for float64 and dual numbers.
type cartpole struct{}

const (
	poleDt, cartMass, poleMass, poleLength, gravity = 0.05, 1.0, 0.1, 0.5, 9.81
	poleForce, poleSpeed, poleSteps                 = 10.0, 2.0, 40
)

func sincos[T float64 | complex128](x T) (sin, cos T) {
	switch v := any(x).(type) {
	case float64:
		s, c := math.Sincos(v)
		return any(s).(T), any(c).(T)
	case complex128:
		s, c := math.Sincos(real(v))
		return any(complex(s, imag(v)*c)).(T), any(complex(c, -imag(v)*s)).(T)
	}
	panic("unreachable")
}

func poleNext[T float64 | complex128](s []T, f T) (n [4]T) {
	sn, cs := sincos(s[2])
	tmp := (f + poleMass*poleLength*s[3]*s[3]*sn) * (1 / (cartMass + poleMass))
	ta := (gravity*sn - cs*tmp) / (poleLength * (4.0/3 - poleMass*cs*cs*(1/(cartMass+poleMass))))
	n[1] = s[1] + poleDt*(tmp-poleMass*poleLength*ta*cs*(1/(cartMass+poleMass)))
	n[3] = s[3] + poleDt*ta
	n[0], n[2] = s[0]+poleDt*n[1], s[2]+poleDt*n[3]
	return n
}

func poleStep[T float64 | complex128](s, c, u, sn, cn []T) {
	n := poleNext(s, u[0])
	copy(sn, n[:])
	cn[0], cn[1] = c[0], c[1]+1.0/poleSteps
}

func poleObjectives[T float64 | complex128](s, u, c, j []T) {
	n := poleNext(s, u[0])
	j[0] = n[2]*n[2] + 0.1*n[3]*n[3] + 1e-3*u[0]*u[0]
	j[1] = (n[0]-c[0])*(n[0]-c[0]) + 0.1*n[1]*n[1]
}

func poleMargins[T float64 | complex128](s, c, u, m []T) {
	n := poleNext(s, u[0])
	m[0], m[1] = n[1]+poleSpeed, poleSpeed-n[1]
}

func (cartpole) Spec() *domain.Spec { return &poleSpec }

var poleSpec = domain.Spec{
	Name:       "cartpole",
	Measured:   []domain.Variable{{Name: "x"}, {Name: "v"}, {Name: "theta"}, {Name: "omega"}},
	Context:    []domain.Variable{{Name: "ref"}, {Name: "clock"}},
	Action:     []domain.Variable{{Name: "force", Lo: -poleForce, Hi: poleForce}},
	Objectives: []domain.Variable{{Name: "balance"}, {Name: "position"}},
	Margins:    []domain.Variable{{Name: "speed-"}, {Name: "speed+"}},
	Plan:       1, Steps: poleSteps,
	Semantic: domain.Semantic{K: []float64{4, 2}, Epsilon: []float64{1, 1}, Rho: 1},
}

func (cartpole) Base(_, _, plan []float64)              { clear(plan) }
func (cartpole) Fallback(_, _, u []float64)             { clear(u) }
func (cartpole) Project(_, _, _ []float64) bool         { return true }
func (cartpole) Step(s, c, u, sn, cn []float64)         { poleStep(s, c, u, sn, cn) }
func (cartpole) Objectives(s, u, c, j []float64)        { poleObjectives(s, u, c, j) }
func (cartpole) Margins(s, c, u, m []float64)           { poleMargins(s, c, u, m) }
func (cartpole) StepDual(s, c, u, sn, cn []complex128)  { poleStep(s, c, u, sn, cn) }
func (cartpole) ObjectivesDual(s, u, c, j []complex128) { poleObjectives(s, u, c, j) }
func (cartpole) MarginsDual(s, c, u, m []complex128)    { poleMargins(s, c, u, m) }
func (p cartpole) Gradient(s, u, c, sigma, gs, gu []float64) {
	var zs [4]complex128
	var zu [1]complex128
	var zc [2]complex128
	var j [2]complex128
	for i, v := range s {
		zs[i] = complex(v, 0)
	}
	zc[0], zu[0] = complex(c[0], 0), complex(u[0], 0)
	for i := range 5 {
		at := &zu[0]
		if i < 4 {
			at = &zs[i]
		}
		*at += complex(0, domain.DualStep)
		p.ObjectivesDual(zs[:], zu[:], zc[:], j[:])
		*at = complex(real(*at), 0)
		v := (sigma[0]*imag(j[0]) + sigma[1]*imag(j[1])) / domain.DualStep
		if i < 4 {
			gs[i] = v
		} else {
			gu[0] = v
		}
	}
}
func (cartpole) Indicators(s, u, c, d []float64) {
	a := s[2]*s[2] + 0.1*s[3]*s[3]
	d[0], d[1] = a/(a+0.05), 0.2
}

// poleByDifferences hides the dual numbers.
type poleByDifferences struct{ domain.Problem }

var poleAxes = []domain.Variable{
	{Name: "x", Lo: -1, Hi: 1}, {Name: "v", Lo: -0.5, Hi: 0.5}, {Name: "theta", Lo: -0.3, Hi: 0.3},
	{Name: "omega", Lo: -0.5, Hi: 0.5}, {Name: "ref", Lo: -1, Hi: 1},
}

func newPole(problem domain.Problem, opt Options) *Solver {
	opt.StateScale = []float64{1, 1, 0.3, 1}
	s, err := New(problem, poleAxes, func(p, s, c []float64) {
		copy(s, p[:4])
		c[0], c[1] = p[4], 0
	}, opt)
	if err != nil {
		panic(err)
	}
	return s
}

func poleStart(rng *rand.Rand) (s, c []float64) {
	for _, a := range poleAxes {
		s = append(s, a.Lo+(a.Hi-a.Lo)*rng.Float64())
	}
	return s[:4:4], []float64{s[4], 0}
}

func BenchmarkCartpoleCold(b *testing.B) {
	solver := newPole(cartpole{}, Options{})
	rng := rand.New(rand.NewPCG(991, 1))
	n := 0
	for b.Loop() {
		s, c := poleStart(rng)
		w := rng.Float64()
		if _, err := solver.Minimise(s, c, poleSteps, domain.Preference{W: []float64{w, 1 - w}}, domain.WeightedSum, 1); err != nil {
			b.Error(err)
		}
		n++
	}
	k := solver.Counts()
	b.ReportMetric(float64(k.Iterations)/float64(k.Starts), "iterations")
}

// BenchmarkReceding is a decision of 40 steps along closed loops with noise on both
// speeds, warm: the first of every episode is not counted.
func BenchmarkReceding(b *testing.B) {
	for _, c := range []struct {
		name    string
		problem domain.Problem
	}{{"dual", cartpole{}}, {"differences", poleByDifferences{cartpole{}}}} {
		b.Run(c.name, func(b *testing.B) {
			var times []time.Duration
			var iterations []int
			controller, err := newPole(c.problem, Options{}).Receding(RecedingOptions{})
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(991, 1))
			for b.Loop() {
				drivePole(controller, rng, 0.02, func(decision int, _ Status, took time.Duration) {
					if decision > 0 {
						times, iterations = append(times, took), append(iterations, controller.status.Iterations)
					}
				})
			}
			slices.Sort(times)
			slices.Sort(iterations)
			at := func(q float64) int { return int(q * float64(len(times)-1)) }
			b.ReportMetric(float64(times[at(0.5)].Nanoseconds())/1e3, "p50-µs")
			b.ReportMetric(float64(times[at(0.99)].Nanoseconds())/1e3, "p99-µs")
			b.ReportMetric(float64(iterations[at(0.5)]), "p50-iterations")
			b.ReportMetric(float64(iterations[at(0.99)]), "p99-iterations")
		})
	}
}

// drivePole is an episode of 40 decisions from a random start under a random
// preference.
func drivePole(controller *Receding, rng *rand.Rand, noise float64, see func(decision int, status Status, took time.Duration)) {
	s, c := poleStart(rng)
	w := rng.Float64()
	pref := domain.Preference{W: []float64{w, 1 - w}}
	controller.Reset()
	for decision := range poleSteps {
		began := time.Now()
		status, err := controller.Solve(s, c, poleSteps, pref)
		took := time.Since(began)
		if err != nil {
			panic(err)
		}
		see(decision, status, took)
		var sn [4]float64
		var cn [2]float64
		poleStep(s, c, controller.Action(0), sn[:], cn[:])
		sn[1] += noise * rng.NormFloat64()
		sn[3] += noise * rng.NormFloat64()
		copy(s, sn[:])
		copy(c, cn[:])
	}
}
