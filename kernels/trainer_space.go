package kernels

import "github.com/gpc-engine/gpc/internal/backend"

// A batch is worked through in micro-batches, whose activations and deltas are
// kept from the forward pass to the weight gradients; gradients add up over them
// in order. How many samples a micro-batch has depends on sizes only, unless
// memory is short.
const (
	microRows  = 16384   // at most
	spaceBytes = 1 << 30 // of activations, as a rule
	microStep  = 128     // a micro-batch is a multiple of a tile's rows
)

// activationSpace is one network's hidden activations and the deltas of its
// hidden layers, [rows][quads(width)] each, of every layer but the last.
type activationSpace struct {
	hidden, delta []address
}

// manifoldSpace is the workspace of manifold training. Codes stand in the order of
// gpc_train_latent: κ·rows neighbours, rows samples, rows oracles.
type manifoldSpace struct {
	z, zbar  address // [(κ+2)·rows]
	byU, byS address // [rows] and [2·rows], gradients with respect to the codes by the decoders
	u, s     address // [rows] and [2·rows], deltas of the decoders' outputs
	partial  address
	nets     [4]activationSpace
}

// rolloutSpace is the workspace of rollout training: five latents of each transition,
// or those of a row and its chain, latent l of transition r at row l·rows + r.
type rolloutSpace struct {
	in, out address
	partial address
	action  activationSpace
}

const (
	latentBlock       = 8 // samples of a block of gpc_train_latent and gpc_train_rollout_loss
	rolloutLatents    = 5
	rolloutLossCount  = 9
	chainLossCount    = 2
	manifoldLossCount = 5
)

// carver hands out pieces of one allocation, on 256 bytes.
type carver struct {
	base address
	size int // floats
}

func (c *carver) take(n int) address {
	place := floats(c.base, c.size)
	c.size += (n + 63) / 64 * 64
	return place
}

func (c *carver) activations(net trainNet, rows int) activationSpace {
	var a activationSpace
	for _, l := range net[:len(net)-1] {
		a.hidden = append(a.hidden, c.take(rows*quads(l.out)))
		a.delta = append(a.delta, c.take(rows*quads(l.out)))
	}
	return a
}

// manifoldSpace lays out the workspace of a micro-batch.
func (t trainLayout) manifoldSpace(c *carver, rows, kappa int) manifoldSpace {
	nz := quads(t.nets[0].outputSize())
	nu, ns := quads(t.nets[2].outputSize()), quads(t.nets[3].outputSize())
	s := manifoldSpace{
		z: c.take((kappa + 2) * rows * nz), zbar: c.take((kappa + 2) * rows * nz),
		byU: c.take(rows * nz), byS: c.take(2 * rows * nz),
		u: c.take(rows * nu), s: c.take(2 * rows * ns),
		partial: c.take(manifoldPartials(rows, t.nets[2].outputSize(), t.nets[3].outputSize())),
	}
	for i, n := range []int{(kappa + 1) * rows, rows, rows, 2 * rows} {
		s.nets[i] = c.activations(t.nets[i], n)
	}
	return s
}

func (t trainLayout) rolloutSpace(c *carver, rows int) rolloutSpace {
	latents := t.rolloutLatents()
	return rolloutSpace{
		in: c.take(latents * rows * quads(t.nets[2].inputSize())), out: c.take(latents * rows * quads(t.nets[2].outputSize())),
		partial: c.take(rolloutLossCount * ceil(rows, latentBlock)),
		action:  c.activations(t.nets[2], latents*rows),
	}
}

// rolloutLatents is how many latents a row of rollout training has.
func (t trainLayout) rolloutLatents() int {
	if t.horizon > 0 {
		return 1 + t.horizon
	}
	return rolloutLatents
}

// manifoldPartials is how many partial sums the losses of a micro-batch have at
// most.
func manifoldPartials(rows, nu, ns int) int {
	tiles := func(n int) int { return ceil(rows, tileSizes[shapeQuarter][0]) * ceil(n, tileSizes[shapeQuarter][1]) }
	return tiles(nu) + 2*tiles(ns) + 2*ceil(rows, latentBlock)
}

// spaceFloats is the workspace of a micro-batch of either kind.
func (t trainLayout) spaceFloats(rows, kappa int) int {
	var manifold, rollout carver
	t.manifoldSpace(&manifold, rows, kappa)
	t.rolloutSpace(&rollout, rows)
	return max(manifold.size, rollout.size)
}

// microBatch chooses the rows of a micro-batch.
func (t trainLayout) microBatch(cfg backend.TrainerConfig) int {
	rows := min(microRows, ceil(cfg.MaxBatch, microStep)*microStep)
	for rows > microStep && 4*t.spaceFloats(rows, cfg.MaxNeighbours) > spaceBytes {
		rows -= microStep
	}
	return rows
}

// placeGradients lays out the partial sums of the weight gradients of any step
// with micro-batches of at most rows, and returns their number. Every layer has
// its own room, so that what lies between its rows stays zero.
func (t *trainLayout) placeGradients(rows, kappa int) int {
	total := 0
	for n, most := range []int{(kappa + 1) * rows, rows, t.rolloutLatents() * rows, 2 * rows} {
		for i := range t.nets[n] {
			l := &t.nets[n][i]
			l.gradient = total
			total += l.size * l.splits(most)
		}
	}
	return total
}
