package closedloop

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc/domain"
)

// Abilities implements domain.Able.
func (e *simulated) Abilities() *domain.EpisodeAbilities {
	return &domain.EpisodeAbilities{Beyond: e.Beyond, Measure: e.Measure}
}

// processStream separates what acts on the plant from every other draw of an episode.
const processStream = 0x70726f6365737361 // "processa"

// processSeed is that of an episode's disturbances, 0 where the plant has none.
func (m *Simulation) processSeed(seed uint64, index int) uint64 {
	if m.Measurement == nil || !m.Measurement.Acts() {
		return 0
	}
	return max(1, rand.New(rand.NewPCG(seed^processStream, uint64(index))).Uint64())
}

// disturb adds the disturbance of the plant after an action from a state, whose margins become those of the state that is reached.
func (e *simulated) disturb(s, c, u, margins []float64) {
	copy(e.lastAction, u)
	if e.acting == nil {
		return
	}
	measurement, disturbance := e.plant.Measurement, make([]float64, len(s))
	for i, v := range measurement.Process {
		disturbance[i] = v * draw(measurement, e.acting)
		e.s[i] += disturbance[i]
	}
	if f := e.abilities.Derivatives.Disturbed; f != nil && len(margins) > 0 {
		m := make([]complex128, len(margins))
		constants := func(values []float64) []complex128 { return domain.Constants(make([]complex128, len(values)), values) }
		f(constants(s), constants(c), constants(u), constants(disturbance), m)
		for i, v := range m {
			margins[i] = real(v)
		}
	}
	for _, p := range measurement.Unknown {
		c := &e.c[p.Context]
		if *c += p.Drift * draw(measurement, e.acting); p.Lo < p.Hi {
			*c = math.Min(p.Hi, math.Max(p.Lo, *c))
		}
	}
}

// draw is a value of deviation 1, or within 1 where bounds are stated.
func draw(measurement *domain.Measurement, rng *rand.Rand) float64 {
	if measurement.Bounded {
		return 2*rng.Float64() - 1
	}
	return rng.NormFloat64()
}

// Measure is domain.EpisodeAbilities.Measure of a plant with a Measurement.
func (e *simulated) Measure(y, c []float64) {
	measurement := e.plant.Measurement
	s, acts := e.s, e.lastAction
	if e.delay.Share() > 0 {
		s, acts = make([]float64, len(e.s)), e.queue[0]
		e.measuredState(s)
	}
	measurement.Output(s, e.c, acts, y)
	for i, v := range measurement.Deviation {
		y[i] += v * draw(measurement, e.rng)
	}
	copy(c, e.c)
	for _, p := range measurement.Unknown {
		c[p.Context] = p.Mean
	}
}

// priorStarts is the number of starts that the estimate begins with.
const priorStarts = 256

// Prior is the mean and the standard deviation of each state over starts of the scenario. It is the knowledge of an
// episode before anything is measured.
func (m *Simulation) Prior() (mean, deviation []float64) {
	spec := m.Problem.Spec()
	sample := *m
	sample.Starts = nil
	starts := make([][]float64, spec.MeasuredSize())
	s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	for i := range priorStarts {
		sample.Initial(sample.Start(priorStream, i), s, c)
		for j, v := range s {
			starts[j] = append(starts[j], v)
		}
	}
	for _, values := range starts {
		m, d := stat.PopMeanStdDev(values, nil) // of deviations from the mean: E[v²] − E[v]² cancels far from zero
		mean, deviation = append(mean, m), append(deviation, d)
	}
	return mean, deviation
}
