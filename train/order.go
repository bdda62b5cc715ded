package train

import (
	"math"
	"math/rand/v2"
)

// Streams of the seeded generator, one per purpose. The low 32 bits are left to
// the epoch (or network) number.
const (
	streamSplit uint64 = iota << 32
	streamWeights
	streamManifoldOrder
	streamRolloutOrder
	streamNeighbours
	streamProbe
	streamCodes
	streamEmphasis
)

// ascending are the row numbers from 0 to n − 1.
func ascending(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// shuffled writes a permutation of rows into order that depends only on the seed,
// the stream and the epoch.
func shuffled(order, rows []int32, seed, stream uint64, epoch int) {
	copy(order, rows)
	rng := rand.New(rand.NewPCG(seed, stream|uint64(uint32(epoch))))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
}

// cosine is the annealed learning rate of update number step of total:
// ½ rate (1 + cos(π step/total)), paper's "Experimental Setup".
func cosine(rate float64, step, total int) float64 {
	return 0.5 * rate * (1 + math.Cos(math.Pi*float64(step)/float64(total)))
}

// steps is the number of updates in one pass over rows, the last being as small
// as what is left: no sample is dropped.
func steps(rows, batch int) int { return (rows + batch - 1) / batch }

// sampleRows draws count of rows without replacement, keeping their order; all
// of them when there are no more.
func sampleRows(rows []int32, count int, seed, stream uint64) []int32 {
	if len(rows) <= count {
		return rows
	}
	rng := rand.New(rand.NewPCG(seed, stream))
	out := make([]int32, 0, count)
	// Selection sampling: row i is taken with probability wanted/left.
	for i, r := range rows {
		if rng.IntN(len(rows)-i) < count-len(out) {
			out = append(out, r)
		}
	}
	return out
}
