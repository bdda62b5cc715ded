package batchnav

import (
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/normal"
	"github.com/gpc-engine/gpc/tensor"
)

// NoiseScales are the standard deviations of the noise candidates, as fractions of the codes' spread. They are half a
// decade apart, from a fine local search to the width of M* itself.
var NoiseScales = []float64{0.01, 0.03, 0.1, 0.3, 1}

// candidateStream separates the preferences' random numbers from every other
// use of the same seed.
const candidateStream = 0x67706372656669 // "gpcrefi"

// shares splits the plans of a question after the first few, which are fixed. They are the codes of M_t, the swept
// preferences, and noise around the previous latent.
func shares(q *domain.Question, mix Mixture) (neighbours, preferences, previous int) {
	fixed := 2
	if q.Previous != nil {
		fixed = 3
	}
	rest := max(0, q.Count-fixed)
	part := func(share float64) int { return min(int(math.Floor(share*float64(rest)+shareRounding)), rest) }
	neighbours = part(mix.Neighbours)
	preferences = min(part(mix.Preference), rest-neighbours)
	if q.Previous != nil {
		previous = min(part(mix.Previous), rest-neighbours-preferences)
	}
	return neighbours, preferences, previous
}

// shareRounding keeps a share that is a whole number of plans whole.
const shareRounding = 1e-9

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

// draws gives the preferences of any seed, without allocation.
type draws struct {
	source *rand.PCG
	rng    *rand.Rand
}

func newDraws() *draws {
	source := rand.NewPCG(0, 0)
	return &draws{source, rand.New(source)}
}

// perturb writes a latent with a candidate's noise of standard deviation std;
// normals is scratch.
func perturb(latent []float32, std float64, seed uint64, candidate int, normals []float64, z []float32) {
	normal.Fill(normals, seed, normal.Place{Number: uint32(candidate), Stream: backend.CandidateStream})
	for j := range z {
		z[j] = latent[j] + float32(std*normals[j])
	}
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
		tensor.Fill(w, 1/float64(m))
	default:
		d.source.Seed(seed, candidateStream^uint64(i)<<32^1)
		domain.DrawWeights(d.rng, w)
	}
}
