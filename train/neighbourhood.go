package train

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

// neighbourhood holds N_κ(k) of L_local for every training row: its κ nearest
// training rows in parameter space and their Gaussian kernel weights. Parameter
// space is what E_x reads, normalised: state, context and preference slot. The
// slot belongs to it because samples of one state under different preferences
// must not be drawn together, or steering by preference would be trained away.
type neighbourhood struct {
	k       int
	at      []int32 // row → position in the lists, −1 for rows outside training
	index   []int32 // [positions·k] row numbers
	kernel  []float32
	perStep int
	// Scratch of draw: the drawn lists and a permutation of 0…k−1.
	rows    []int32
	weights []float32
	perm    []int
}

// newNeighbourhood searches the κ nearest neighbours of every row; nil when κ is
// 0 or there are not more than κ rows.
func newNeighbourhood(x tensor.Matrix, train []int32, k, perStep, batch int) (*neighbourhood, error) {
	if k == 0 || len(train) <= k {
		return nil, nil
	}
	points := tensor.New(len(train), x.Cols)
	gather(points, x, train)
	index, dist2, err := nearest(points, k)
	if err != nil {
		return nil, err
	}
	n := &neighbourhood{
		k: k, perStep: perStep, index: index, kernel: dist2,
		at: slices.Repeat([]int32{-1}, x.Rows), rows: make([]int32, batch*perStep), weights: make([]float32, batch*perStep), perm: make([]int, k),
	}
	for i, r := range train {
		n.at[r] = int32(i)
	}
	for i, p := range index {
		index[i] = train[p]
	}
	width := kernelWidth(dist2, k)
	for i, d := range dist2 {
		n.kernel[i] = float32(math.Exp(-float64(d) / width))
	}
	return n, nil
}

// kernelWidth is σ_p²: the median over samples of the squared distance to the
// κ-th neighbour, so that the kernel falls to 1/e at the edge of a typical
// neighbourhood whatever the density of the data.
func kernelWidth(dist2 []float32, k int) float64 {
	last := make([]float32, 0, len(dist2)/k)
	for i := k - 1; i < len(dist2); i += k {
		last = append(last, dist2[i])
	}
	slices.Sort(last)
	if w := float64(last[len(last)/2]); w > 0 {
		return w
	}
	return 1
}

// draw picks perStep of each row's neighbours uniformly without replacement,
// weighted by κ/perStep, so that the expectation of the drawn sum is the sum
// over all κ. Its result depends on the seed and the step alone and is valid
// until the next call.
func (n *neighbourhood) draw(rows []int32, seed uint64, step int) (neighbours []int32, kernel []float32) {
	rng := rand.New(rand.NewPCG(seed, streamNeighbours|uint64(uint32(step))))
	scale := float32(n.k) / float32(n.perStep)
	for i := range n.perm {
		n.perm[i] = i
	}
	for b, r := range rows {
		from := int(n.at[r]) * n.k
		for j := range n.perStep {
			// A partial shuffle of any permutation is a uniform draw.
			swap := j + rng.IntN(n.k-j)
			n.perm[j], n.perm[swap] = n.perm[swap], n.perm[j]
			o := b*n.perStep + j
			n.rows[o] = n.index[from+n.perm[j]]
			n.weights[o] = scale * n.kernel[from+n.perm[j]]
		}
	}
	used := len(rows) * n.perStep
	return n.rows[:used], n.weights[:used]
}
