package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpc-engine/gpc/internal/names"
)

// WeightDesign is a way to choose the fixed preferences of a scenario.
type WeightDesign string

const (
	// RandomWeights draws from the uniform (Dirichlet) distribution on the
	// simplex, anew for every scenario.
	RandomWeights WeightDesign = "random"
	// UniformWeights takes the weights of a Das–Dennis lattice with its edges in turn: each scenario takes the next
	// ones.
	UniformWeights WeightDesign = "uniform"
	// LogarithmicWeights draws ratios to one reference objective uniformly in
	// log10, anew for every scenario; for objectives of different scales.
	LogarithmicWeights WeightDesign = "logarithmic"
	// MixedWeights takes half of the weights from UniformWeights, rounded up, and
	// the rest from LogarithmicWeights.
	MixedWeights WeightDesign = "mixed"
	// CentredWeights takes the centre of the simplex, then the next weight of a Das–Dennis lattice of
	// centredDivisions with its edges, then random ones.
	CentredWeights WeightDesign = "centred"
)

// designs lists all designs.
var designs = []WeightDesign{RandomWeights, UniformWeights, LogarithmicWeights, MixedWeights, CentredWeights}

// centredDivisions is the lattice of CentredWeights: 28 weights of three objectives.
const centredDivisions = 6

// Weights describes the fixed preferences of every scenario.
type Weights struct {
	// Count is the number of fixed preferences per scenario.
	Count int
	// Design is the way to choose them; "" is RandomWeights.
	Design WeightDesign
	// Reference, LogLo and LogHi belong to LogarithmicWeights and MixedWeights: log10 of
	// w_j/w_Reference is drawn from [LogLo, LogHi] for every other j. Negative
	// bounds stay near the reference's corner of the simplex, positive ones leave
	// it.
	Reference    int
	LogLo, LogHi float64
}

// Validate checks the plan for m objectives.
func (w Weights) Validate(m int) error {
	if w.Count < 0 || w.Count > maxWeights {
		return fmt.Errorf("dataset: %d weights per scenario, want 0 to %d", w.Count, maxWeights)
	}
	switch w.Design {
	case "", RandomWeights, UniformWeights, CentredWeights:
	case LogarithmicWeights, MixedWeights:
		if w.Reference < 0 || w.Reference >= m {
			return fmt.Errorf("dataset: logarithmic weights refer to objective %d, the case has %d", w.Reference, m)
		}
		if !(w.LogLo < w.LogHi) || math.Abs(w.LogLo) > 12 || math.Abs(w.LogHi) > 12 {
			return fmt.Errorf("dataset: logarithmic weights have the range [%v, %v] decades, want LogLo < LogHi within ±12", w.LogLo, w.LogHi)
		}
	default:
		return fmt.Errorf("dataset: unknown weight design %q%s (want one of %s)", w.Design, names.Meant(w.Design, designs), names.List(designs))
	}
	return nil
}

// Of returns the fixed preferences of one scenario with m objectives. They
// depend on the arguments alone.
func (w Weights) Of(scenario, m int, seed uint64) [][]float64 {
	rng := stream(seed, streamWeights, uint64(scenario))
	switch w.Design {
	case UniformWeights:
		lattice := DasDennis(m, divisions(m, w.Count))
		out := make([][]float64, w.Count)
		for i := range out {
			out[i] = lattice[(scenario*w.Count+i)%len(lattice)]
		}
		return out
	case MixedWeights:
		uniform, rest := w, w
		uniform.Design, uniform.Count = UniformWeights, (w.Count+1)/2
		rest.Design, rest.Count = LogarithmicWeights, w.Count/2
		return append(uniform.Of(scenario, m, seed), rest.Of(scenario, m, seed)...)
	case CentredWeights:
		centre, lattice := make([]float64, m), DasDennis(m, centredDivisions)
		for i := range centre {
			centre[i] = 1 / float64(m)
		}
		out := [][]float64{centre, lattice[scenario%len(lattice)]}
		if w.Count <= len(out) {
			return out[:w.Count]
		}
		return append(out, Dirichlet(rng, m, w.Count-len(out), 1)...)
	case LogarithmicWeights:
		return Logarithmic(rng, m, w.Count, w.Reference, w.LogLo, w.LogHi)
	default:
		return Dirichlet(rng, m, w.Count, 1)
	}
}

// DasDennis returns every weight of m objectives whose entries are multiples of
// 1/divisions, edges and corners included, in lexicographic order (Das and
// Dennis 1998): C(divisions+m−1, m−1) of them. m and divisions are at least 1.
func DasDennis(m, divisions int) [][]float64 {
	var out [][]float64
	w := make([]int, m)
	var fill func(objective, left int)
	fill = func(objective, left int) {
		if objective == m-1 {
			w[objective] = left
			row := make([]float64, m)
			for i, v := range w {
				row[i] = float64(v) / float64(divisions)
			}
			out = append(out, row)
			return
		}
		for v := 0; v <= left; v++ {
			w[objective] = v
			fill(objective+1, left-v)
		}
	}
	fill(0, divisions)
	return out
}

// Lattice returns the weights of the largest Das–Dennis lattice with at most that many, of one with its corners alone otherwise.
func Lattice(m, most int) [][]float64 {
	d := 1
	for m > 1 && latticeSize(m, d+1) <= float64(most)+0.5 {
		d++
	}
	return DasDennis(m, d)
}

// Proper is that lattice with every weight at least a hundredth. Where an objective has no weight its optimum may let it go as far as
// limits allow.
func Proper(m, most int) [][]float64 {
	const least = 0.01
	lattice := Lattice(m, most)
	for _, w := range lattice {
		for j, v := range w {
			w[j] = least + (1-float64(m)*least)*v
		}
	}
	return lattice
}

// Neighbours are the pairs of a Das–Dennis lattice's weights that differ by one division between two objectives.
func Neighbours(lattice [][]float64) (pairs [][2]int) {
	least := 1.0
	for _, w := range lattice {
		for _, v := range w {
			if v > 0 {
				least = min(least, v)
			}
		}
	}
	divisions := math.Round(1 / least)
	key := func(w []float64, from, to int) (k uint64) {
		for j, v := range w {
			n := uint64(math.Round(v * divisions))
			switch j {
			case from:
				n--
			case to:
				n++
			}
			k = k*uint64(divisions+1) + n
		}
		return k
	}
	index := make(map[uint64]int, len(lattice))
	for i, w := range lattice {
		index[key(w, -1, -1)] = i
	}
	for i, w := range lattice {
		for from, v := range w {
			for to := range w[:from] {
				if v == 0 {
					continue
				}
				if k, ok := index[key(w, from, to)]; ok {
					pairs = append(pairs, [2]int{i, k})
				}
			}
		}
	}
	return pairs
}

// divisions is the smallest lattice with at least count weights.
func divisions(m, count int) int {
	d := 1
	for m > 1 && latticeSize(m, d) < float64(count)-0.5 {
		d++
	}
	return d
}

// latticeSize is C(d+m−1, m−1), the number of weights of a lattice.
func latticeSize(m, d int) float64 {
	n := 1.0
	for i := 1; i < m; i++ {
		n = n * float64(d+i) / float64(i)
	}
	return n
}

// Logarithmic returns n weights of m objectives whose log10 ratios to the
// reference objective's weight fill [lo, hi] evenly: one per stratum and
// objective, a Latin hypercube.
func Logarithmic(rng *rand.Rand, m, n, reference int, lo, hi float64) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, m)
		out[i][reference] = 1
	}
	for j := range m {
		if j == reference {
			continue
		}
		for i, stratum := range rng.Perm(n) {
			out[i][j] = math.Pow(10, lo+(float64(stratum)+rng.Float64())/float64(n)*(hi-lo))
		}
	}
	for _, w := range out {
		sum := 0.0
		for _, v := range w {
			sum += v
		}
		for j := range w {
			w[j] /= sum
		}
	}
	return out
}

// Dirichlet returns n random weights of m objectives from the symmetric
// Dirichlet distribution: concentration 1 is uniform on the simplex, below 1
// prefers its edges, above 1 its centre.
func Dirichlet(rng *rand.Rand, m, n int, concentration float64) [][]float64 {
	gamma := distuv.Gamma{Alpha: concentration, Beta: 1, Src: rng}
	out := make([][]float64, n)
	for i := range out {
		w := make([]float64, m)
		sum := 0.0
		for sum == 0 { // every draw may underflow at a small concentration
			for j := range w {
				w[j] = gamma.Rand()
				sum += w[j]
			}
		}
		for j := range w {
			w[j] /= sum
		}
		out[i] = w
	}
	return out
}
