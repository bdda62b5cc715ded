package neighbours

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

const (
	// LeafSize is the number of points of a full leaf: small enough for tight
	// boxes, large enough that a visit's fixed cost is below its scan's.
	LeafSize = 128
	// MaxDimension keeps every integer of the quantised filter below 2³⁰.
	MaxDimension = 4096
	// MaxMagnitude bounds the points' coordinates, so that no bound overflows
	// while a distance is finite. Codes and states are normalised, of order 1.
	MaxMagnitude = 1e15
	// TileSize is the number of queries that share one pass over the leaves.
	TileSize = 16

	lanes     = 16 // partial sums of the distance; rows are padded to this
	blockSize = 32 // points of one filter mask
	// padNorm is the stored |ĉ|² of a position without a point: above every
	// threshold of the filter.
	padNorm = 1 << 30
	// maxQuery is the largest query coordinate for which the bounds hold without
	// overflow; beyond it all points are scanned.
	maxQuery = 1e17
)

// Index is an exact nearest-neighbour index. It is immutable after New, except
// for the workspaces of Nearest: one Nearest at a time; any number of Searchers
// may be used concurrently with each other and with it.
type Index struct {
	n, dim int
	stride int // dim rounded up to lanes
	groups int // quantised coordinates in groups of 4, an even number
	kernel kernels
	runner Runner
	gamma  float64 // relative slack of every bound

	// By position: points in leaf order, padded to blockSize.
	rows     []float32 // [positions][stride]
	ids      []int32   // point number
	packed   []int8    // [positions/16][groups][16][4] ĉ − 64
	norms    []int32   // |ĉ|²
	position []int32   // by point number

	leaves []leaf
	lo, hi []float32 // [leaves][stride] bounding boxes

	principal *principal
	// Bounding boxes along its axes, 16 leaves together: [leaves/16][axes][16].
	low, high []float32

	nodes []node

	batch batch
}

// leaf is a run of positions that share one quantisation grid.
type leaf struct {
	start, count int32
	step         float64 // h
	inverse      float32 // 1/h
	err          float64 // bound on e_c over the leaf's points
}

// node is an inner node of the tree: points whose coordinate along a principal axis is
// below the threshold lie left. A child below zero is the leaf ^child.
type node struct {
	threshold   float32
	axis        int32
	left, right int32
}

// New builds the index over points [N, dim], which are copied. A runner spreads a batch over threads; nil is the caller's
// goroutine alone. The kernels are those of registers of width float32: 1 Go, 8 AVX2, 16 AVX-512; 0 leaves it to
// isa.Choose: GPC_CPU, or the best of this CPU and build. Results do not depend on it. It is an error
// if there are none, or one has a coordinate that is not finite or exceeds
// MaxMagnitude. The same points give the same index.
func New(points tensor.Matrix, runner Runner, width int) (*Index, error) {
	const op = "neighbours.New"
	if points.Rows < 1 || points.Cols < 1 || points.Cols > MaxDimension || points.Rows > math.MaxInt32-blockSize {
		return nil, fmt.Errorf("%s: points are %d×%d, want at least 1 point of 1 to %d coordinates", op, points.Rows, points.Cols, MaxDimension)
	}
	if err := tensor.Check(op, "points", points, points.Rows, points.Cols); err != nil {
		return nil, err
	}
	for i := range points.Rows {
		for j, v := range points.Row(i) {
			if !(math.Abs(float64(v)) <= MaxMagnitude) {
				return nil, fmt.Errorf("%s: point %d has coordinate %d = %v, want finite and at most %g in magnitude", op, i, j, v, float64(MaxMagnitude))
			}
		}
	}
	k, err := chooseKernels(width)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	ix := &Index{
		n: points.Rows, dim: points.Cols,
		stride: roundUp(points.Cols, lanes),
		groups: 2 * ((points.Cols + 7) / 8),
		kernel: k, runner: runner,
		gamma: float64(points.Cols+16) * 0x1p-22,
	}
	if ix.runner == nil {
		ix.runner = goroutines(1)
	}
	ix.build(points)
	return ix, nil
}

// Len is the number of points.
func (ix *Index) Len() int { return ix.n }

// Dim is the number of coordinates of a point.
func (ix *Index) Dim() int { return ix.dim }

// Point returns the coordinates of point id. It aliases the index and must only
// be read.
func (ix *Index) Point(id int) []float32 {
	o := int(ix.position[id]) * ix.stride
	return ix.rows[o : o+ix.dim : o+ix.dim]
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }
