package batchnav

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// Source says where a candidate latent came from.
type Source = domain.Source

const (
	SourceLocalized  = domain.SourceLocalized
	SourceNeighbour  = domain.SourceNeighbour
	SourcePreference = domain.SourcePreference
	SourceNoise      = domain.SourceNoise
	SourcePrevious   = domain.SourcePrevious
)

// NoiseScales are the standard deviations of the noise candidates, as fractions
// of the codes' spread: half a decade apart, from a fine local search to the
// width of M* itself.
var NoiseScales = []float64{0.01, 0.03, 0.1, 0.3, 1}

// candidateStream separates the refinement's random numbers from every other
// use of the same seed.
const candidateStream = 0x67706372656669 // "gpcrefi"

// quotas splits B candidates: two of SourceLocalized where B allows, the rest by
// shares, of which noise takes what rounding and empty M_t leave.
func quotas(total int, mix Mixture) (neighbours, preferences int) {
	rest := max(0, total-2)
	neighbours = int(mix.Neighbours * float64(rest))
	preferences = int(mix.Preference * float64(rest))
	return neighbours, min(preferences, rest-neighbours)
}

// scatter fills z with the start latents and source with their origin. observed
// is E_x of the observation, localized the refined code.
func (r *Refiner) scatter(obs *Observation, localized []float32, tau float64, opt *RefineOptions, z tensor.Matrix, source []Source) error {
	total := z.Rows
	copy(z.Row(0), localized)
	source[0] = SourceLocalized
	at := 1
	if total > 1 {
		copy(z.Row(1), r.observed.Row(0))
		source[1] = SourceLocalized
		at = 2
	}
	neighbours, preferences := quotas(total, opt.Mixture)
	found, err := r.consistent(tau, neighbours, z.Slice(at, at+neighbours))
	if err != nil {
		return err
	}
	for range found {
		source[at] = SourceNeighbour
		at++
	}
	if preferences > 0 {
		if err := r.sweep(obs, opt.Seed, z.Slice(at, at+preferences)); err != nil {
			return err
		}
		for range preferences {
			source[at] = SourcePreference
			at++
		}
	}
	scales, draw, normals := r.noiseScales(), newDraws(), make([]float64, z.Cols)
	for i := at; i < total; i++ {
		draw.around(localized, scales[(i-at)%len(scales)], opt.Seed, i, normals, z.Row(i))
		source[i] = SourceNoise
	}
	return nil
}

// noiseScales are the standard deviations of the noise candidates in turn, per
// latent coordinate.
func (l *loaded) noiseScales() []float64 {
	perAxis := l.model.Calibration.LatentSpread / math.Sqrt(float64(l.model.Latent()))
	scales := make([]float64, len(NoiseScales))
	for i, s := range NoiseScales {
		scales[i] = perAxis * s
	}
	return scales
}

// draws gives the random numbers of any candidate of any seed, without
// allocation.
type draws struct {
	source *rand.PCG
	rng    *rand.Rand
}

func newDraws() *draws {
	source := rand.NewPCG(0, 0)
	return &draws{source, rand.New(source)}
}

// noise writes the standard normal numbers of a candidate.
func (d *draws) noise(seed uint64, candidate int, normals []float64) {
	d.source.Seed(seed, candidateStream^uint64(candidate)<<32)
	for j := range normals {
		normals[j] = d.rng.NormFloat64()
	}
}

// around writes a latent with a candidate's noise of standard deviation std;
// normals is scratch.
func (d *draws) around(latent []float32, std float64, seed uint64, candidate int, normals []float64, z []float32) {
	d.noise(seed, candidate, normals)
	for j := range z {
		z[j] = latent[j] + float32(std*normals[j])
	}
}

// consistent writes up to want codes of M_t nearest to E_x, nearest first, and
// returns how many it found. It looks among the nearest 2·want codes.
func (r *Refiner) consistent(tau float64, want int, z tensor.Matrix) (int, error) {
	if r.index == nil || want == 0 {
		return 0, nil
	}
	k := min(2*want, r.index.Len())
	if cap(r.nearest) < k {
		r.nearest, r.distance = make([]int32, k), make([]float32, k)
	}
	idx := r.nearest[:k]
	if err := r.index.Nearest(r.observed, k, idx, r.distance[:k]); err != nil {
		return 0, err
	}
	return r.admitted(idx, r.normal.Row(0), tau, want, z), nil
}

// admitted copies those of the codes that the measurement x̂ admits by τ, at most
// want, and returns how many.
func (l *loaded) admitted(codes []int32, normal []float32, tau float64, want int, z tensor.Matrix) int {
	found := 0
	for _, code := range codes {
		if found == want {
			break
		}
		if code >= 0 && tensor.SquaredDistance(normal, l.decoded.Row(int(code))) <= tau {
			copy(z.Row(found), l.model.Codes.Row(int(code)))
			found++
		}
	}
	return found
}

// sweep encodes the observation under len(z) preferences over the simplex.
func (r *Refiner) sweep(obs *Observation, seed uint64, z tensor.Matrix) error {
	input := r.input.Slice(0, z.Rows)
	draw, w := newDraws(), make([]float64, r.spec.ObjectiveSize())
	for i := range z.Rows {
		draw.preference(seed, i, z.Rows, w)
		r.observe(obs.S, obs.C, domain.Preference{W: w}, r.slot, input.Row(i), r.state.Row(0), r.ctx.Row(0), nil)
	}
	return r.encoder.Forward(input, z)
}

// preference writes preference i of n over Δ: equally spaced for two objectives,
// the vertices, the centre and then uniform draws for more.
func (d *draws) preference(seed uint64, i, n int, w []float64) {
	m := len(w)
	clear(w)
	switch {
	case m == 1:
		w[0] = 1
	case m == 2:
		w[0] = 0.5
		if n > 1 {
			w[0] = float64(i) / float64(n-1)
		}
		w[1] = 1 - w[0]
	case i < m:
		w[i] = 1
	case i == m:
		for j := range w {
			w[j] = 1 / float64(m)
		}
	default:
		d.source.Seed(seed, candidateStream^uint64(i)<<32^1)
		sum := 0.0
		for j := range w {
			w[j] = d.rng.ExpFloat64()
			sum += w[j]
		}
		for j := range w {
			w[j] /= sum
		}
	}
}

// drift flows all candidates together for steps latent steps, each under the
// same observation, context and weights, and leaves the decoded plans in plan.
// It returns the matrix that holds the final latents.
func (r *Refiner) drift(z, other tensor.Matrix, steps int, sigma []float64, plan tensor.Matrix) (tensor.Matrix, error) {
	r.weights(sigma, r.weight)
	return r.flow(z, other, steps, r.state.Row(0), r.ctx.Row(0), r.weight, plan)
}

// flow moves the latents z of one observation by steps latent steps and leaves
// the decoded plans in plan; other is as large as z. It returns the one of the two
// that holds the final latents.
func (l *loaded) flow(z, other tensor.Matrix, steps int, state, context, weights []float32, plan tensor.Matrix) (tensor.Matrix, error) {
	n := z.Rows
	x, ctx := tensor.Broadcast(state, n), tensor.Broadcast(context, n)
	if steps == 0 {
		return z, l.stepper.Decode(z, ctx, x, plan, tensor.Matrix{})
	}
	for i := range steps {
		in := backend.StepInput{Z: z, X: x, Ctx: ctx, Weights: tensor.Broadcast(weights, n)}
		out := backend.StepOutput{Z: other}
		if i == steps-1 {
			out.U = plan
		}
		if err := l.stepper.Step(in, out); err != nil {
			return z, fmt.Errorf("batchnav: flow step %d of %d: %w", i+1, steps, err)
		}
		z, other = other, z
	}
	return z, nil
}
