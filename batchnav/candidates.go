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
type Source uint8

const (
	// SourceLocalized is the localized code and E_x itself.
	SourceLocalized Source = iota
	// SourceNeighbour is a measurement-consistent code near E_x.
	SourceNeighbour
	// SourcePreference is E_x under another preference.
	SourcePreference
	// SourceNoise is the localized code with Gaussian noise.
	SourceNoise
	sourceCount
)

// String is the source's name in reports.
func (s Source) String() string {
	return [sourceCount]string{"localized", "neighbour", "preference", "noise"}[s]
}

// MarshalText makes a Source readable in JSON.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

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
	scales, noise, normals := r.noiseScales(), newNoise(opt.Seed), make([]float64, z.Cols)
	for i := at; i < total; i++ {
		std := scales[(i-at)%len(scales)]
		noise(i, normals)
		row := z.Row(i)
		for j := range row {
			row[j] = localized[j] + float32(std*normals[j])
		}
		source[i] = SourceNoise
	}
	return nil
}

// noiseScales are the standard deviations of the noise candidates in turn, per
// latent coordinate.
func (r *Refiner) noiseScales() []float64 {
	perAxis := r.model.Calibration.LatentSpread / math.Sqrt(float64(r.model.Latent()))
	scales := make([]float64, len(NoiseScales))
	for i, s := range NoiseScales {
		scales[i] = perAxis * s
	}
	return scales
}

// newNoise gives the standard normal numbers of any candidate of one seed.
func newNoise(seed uint64) func(candidate int, normals []float64) {
	source := rand.NewPCG(0, 0)
	rng := rand.New(source)
	return func(candidate int, normals []float64) {
		source.Seed(seed, candidateStream^uint64(candidate)<<32)
		for j := range normals {
			normals[j] = rng.NormFloat64()
		}
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
	found := 0
	for _, code := range idx {
		if found == want {
			break
		}
		if code >= 0 && square(r.normal.Row(0), r.decoded.Row(int(code))) <= tau {
			copy(z.Row(found), r.model.Codes.Row(int(code)))
			found++
		}
	}
	return found, nil
}

// sweep encodes the observation under len(z) preferences over the simplex.
func (r *Refiner) sweep(obs *Observation, seed uint64, z tensor.Matrix) error {
	input := r.input.Slice(0, z.Rows)
	w := make([]float64, r.spec.ObjectiveSize())
	for i := range z.Rows {
		spread(seed, i, z.Rows, w)
		r.observe(obs.S, obs.C, domain.Preference{W: w}, r.slot, input.Row(i), r.state.Row(0), r.ctx.Row(0), nil)
	}
	return r.encoder.Forward(input, z)
}

// spread writes preference i of n over Δ: equally spaced for two objectives, the
// vertices, the centre and then uniform draws for more.
func spread(seed uint64, i, n int, w []float64) {
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
		rng := rand.New(rand.NewPCG(seed, candidateStream^uint64(i)<<32^1))
		sum := 0.0
		for j := range w {
			w[j] = rng.ExpFloat64()
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
	n := z.Rows
	r.weights(sigma, r.weight)
	x, ctx := tensor.Broadcast(r.state.Row(0), n), tensor.Broadcast(r.ctx.Row(0), n)
	if steps == 0 {
		return z, r.stepper.Decode(z, ctx, x, plan, tensor.Matrix{})
	}
	for i := range steps {
		in := backend.StepInput{Z: z, X: x, Ctx: ctx, Weights: tensor.Broadcast(r.weight, n)}
		out := backend.StepOutput{Z: other}
		if i == steps-1 {
			out.U = plan
		}
		if err := r.stepper.Step(in, out); err != nil {
			return z, fmt.Errorf("batchnav: flow step %d of %d: %w", i+1, steps, err)
		}
		z, other = other, z
	}
	return z, nil
}
