package kernels

import (
	"slices"
	"unsafe"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// Entries of grouped launches, as kernels/include/train.cuh declares them: fields
// in the same order.

// address is a place in the device's memory; 0 is null.
type address = driver.Pointer

// floats is the address n float32 (or int32) after a.
func floats(a address, n int) address { return a.Offset(4 * n) }

// Tiles of training (train.cuh): rows × columns of the result that one block
// makes.
const (
	shapeTall    = iota // 128 × 64, 128 × 32 at the right edge
	shapeHalf           // 64 × 64, 64 × 32 at the right edge
	shapeWide           // 64 × 128
	shapeFlat           // 32 × 128
	shapeQuarter        // 32 × 64
)

var tileSizes = [...][2]int{shapeTall: {128, 64}, shapeHalf: {64, 64}, shapeWide: {64, 128}, shapeFlat: {32, 128}, shapeQuarter: {32, 64}}

const productThreads = 128

// trainProduct is gpc::TrainProduct.
type trainProduct struct {
	a, b, bias, mask, target        address
	gather, targetRows              address
	c, partial, column              address
	splitStep                       int64
	m, n, k                         int32
	lda, ldb, ldc, ldmask, ldtarget int32
	first                           int32
	tilesM, tilesN, splits          int32
	shape, relu, accumulate         int32
	scale                           float32
}

// layerEntry is gpc::TrainLayer.
type layerEntry struct {
	w, m, v, partial, power address
	splits, size, first     int32
	in, out, ld             int32
}

// tiled chooses the tile.
func (p *trainProduct) tiled(shape, splits int) {
	size := tileSizes[shape]
	p.shape, p.splits = int32(shape), int32(splits)
	p.tilesM, p.tilesN = int32(ceil(int(p.m), size[0])), int32(ceil(int(p.n), size[1]))
}

// work is what the product needs: a tile's rows and columns cross once for each block, and
// a thread of the float32 path reads 8 floats of shared memory in 16-byte pieces for 16
// multiply-adds at least.
func (p *trainProduct) work(tf32 bool) work {
	size := tileSizes[p.shape]
	fma := float64(p.m) * float64(p.n) * float64(p.k)
	w := work{fma: fma, tensor: tf32, bytes: 4 * float64(p.k) * float64(int(p.tilesM*p.tilesN)*(size[0]+size[1])), requests: fma / 32 / 8}
	if tf32 {
		w.requests = fma / (16 * 8 * 8) * requestsMMA
	}
	return w
}

// blocks is how many blocks the product takes.
func (p *trainProduct) blocks() int { return int(p.tilesM * p.tilesN * p.splits) }

// tiledOverSamples chooses the tile of a group of products over samples: tall ones,
// or halves or quarters where larger ones would leave less than two blocks to a multiprocessor. Tensor cores have no quarters,
// and of few columns a quarter would be half empty.
func tiledOverSamples(group []trainProduct, multiprocessors int, tf32 bool) {
	halved := tf32 || !slices.ContainsFunc(group, func(p trainProduct) bool { return p.n > 32 })
	for _, shape := range []int{shapeTall, shapeHalf, shapeQuarter}[:3-flag(halved)] {
		blocks := 0
		for i := range group {
			group[i].tiled(shape, 1)
			blocks += group[i].blocks()
		}
		if blocks >= 2*multiprocessors {
			return
		}
	}
}

const (
	// splitDepth is how many samples a split of a weight gradient adds up at least, until
	// there are fewSplits: small batches keep a device busy too. Larger ones are cut into
	// splits of longDepth, until there are maxSplits: enough blocks at a batch of a few
	// thousand, and few enough partial sums to stay in the second-level cache.
	splitDepth = 128
	fewSplits  = 8
	longDepth  = 512
	maxSplits  = 16
	// Up to this depth a tile is half of its size or less: few splits are few blocks.
	halfDepth, quarterDepth = 1024, 256
	// enoughBlocks need not be split further.
	enoughBlocks = 1024
	// adamBlock is how many numbers a block of gpc_train_adam updates.
	adamBlock = 1024
)

// shape is the tile that wastes least on the layer's gradient.
func (l trainLayer) shape() int {
	switch {
	case l.out <= tileSizes[shapeFlat][0]:
		return shapeFlat
	case l.out <= tileSizes[shapeWide][0]:
		return shapeWide
	}
	return shapeTall
}

// shapeOver is the tile over k samples, the same on every device: sums of biases depend on it.
func (l trainLayer) shapeOver(k int) int {
	switch shape := l.shape(); {
	case k > halfDepth:
		return shape
	case k <= quarterDepth || shape == shapeFlat:
		return shapeQuarter
	}
	return shapeHalf
}

// splits of the layer's gradient over k samples.
func (l trainLayer) splits(k int) int {
	size := tileSizes[l.shape()]
	tiles := ceil(l.out, size[0]) * ceil(l.in, size[1])
	return min(max(fewSplits, min(maxSplits, ceil(k, longDepth))), ceil(k, splitDepth), max(1, enoughBlocks/tiles))
}

// bytesOf views entries as the bytes that the device reads.
func bytesOf[T trainProduct | layerEntry | int32](list []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), len(list)*int(unsafe.Sizeof(list[0])))
}
