package train

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/tensor"
)

// neighbourhood holds N_κ(k) of L_local for every training row: its κ nearest training rows in parameter space and
// their Gaussian kernel weights. Parameter space is E_x's normalised input: state, context and preference slot. The
// slot belongs to it: drawing together samples of one state under different preferences would remove steering by
// preference.
type neighbourhood struct {
	k        int
	position []int32 // row → position in the lists, −1 for rows outside training
	index    []int32 // [positions·k] row numbers
	kernel   []float32
	perStep  int
	draws    struct { // of an epoch: perStep for each row of its order
		rows    []int32
		weights []float32
	}
}

// newNeighbourhood searches the κ nearest neighbours of every row; nil when κ is
// 0 or there are not more than κ rows.
func newNeighbourhood(x tensor.Matrix, train []int32, k, perStep int) (*neighbourhood, error) {
	if k == 0 || len(train) <= k {
		return nil, nil
	}
	points := tensor.New(len(train), x.Cols)
	parallel.Split(runtime.GOMAXPROCS(0), len(train), func(_, from, to int) { gather(points.Slice(from, to), x, train[from:to]) })
	index, dist2, err := nearest(points, k)
	if err != nil {
		return nil, err
	}
	n := &neighbourhood{
		k: k, perStep: perStep, index: index, kernel: dist2,
		position: slices.Repeat([]int32{-1}, x.Rows),
	}
	for i, r := range train {
		n.position[r] = int32(i)
	}
	for i, p := range index {
		index[i] = train[p]
	}
	width := kernelWidth(dist2, k)
	parallel.Split(runtime.GOMAXPROCS(0), len(dist2), func(_, from, to int) {
		for i, d := range dist2[from:to] {
			n.kernel[from+i] = float32(math.Exp(-float64(d) / width))
		}
	})
	return n, nil
}

// kernelWidth is σ_p²: the median over samples of the squared distance to the κ-th neighbour. The kernel then falls
// to 1/e at the edge of a typical neighbourhood, whatever the density of the data.
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

// drawEpoch draws for every update of an epoch, in batches of its order; first is the number of the first update in
// its phase. All cores share the updates, so that a trainer does not wait for the scattered lists.
func (n *neighbourhood) drawEpoch(order []int32, batch int, seed uint64, first int) {
	if size := len(order) * n.perStep; len(n.draws.rows) != size {
		n.draws.rows, n.draws.weights = make([]int32, size), make([]float32, size)
	}
	parallel.Each(runtime.GOMAXPROCS(0), steps(len(order), batch), func(_, step int) {
		from, to := step*batch, min((step+1)*batch, len(order))
		n.draw(order[from:to], seed, first+step, n.draws.rows[from*n.perStep:to*n.perStep], n.draws.weights[from*n.perStep:to*n.perStep])
	})
}

// drawnFor returns the draws of rows [from, to) of the epoch's order.
func (n *neighbourhood) drawnFor(from, to int) (neighbours []int32, kernel []float32) {
	from, to = from*n.perStep, to*n.perStep
	return n.draws.rows[from:to], n.draws.weights[from:to]
}

// draw picks perStep of each row's neighbours uniformly without replacement, with weights κ/perStep. The expectation
// of the drawn sum is the sum over all κ. The result depends on the seed and the step alone.
func (n *neighbourhood) draw(rows []int32, seed uint64, step int, neighbours []int32, kernel []float32) {
	rng := rand.New(rand.NewPCG(seed, streamNeighbours|uint64(uint32(step))))
	scale := float32(n.k) / float32(n.perStep)
	perm := make([]int, n.k)
	for i := range perm {
		perm[i] = i
	}
	for b, r := range rows {
		from := int(n.position[r]) * n.k
		for j := range n.perStep {
			// A partial shuffle of any permutation is a uniform draw.
			swap := j + rng.IntN(n.k-j)
			perm[j], perm[swap] = perm[swap], perm[j]
			o := b*n.perStep + j
			neighbours[o] = n.index[from+perm[j]]
			kernel[o] = scale * n.kernel[from+perm[j]]
		}
	}
}
