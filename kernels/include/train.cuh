// train.cuh: what an entry of a grouped launch of training says.
//
// A step of training is a chain of small products. Each launch takes a list of
// them (gpc_train_product), one for every network that has reached that point, so
// that one launch fills the device and a step is eighteen nodes of a graph instead
// of a hundred. A block finds its entry by its number and makes one tile of it
// with tile.cuh. Every number of a result is one thread's sum in order of depth,
// and what is split over blocks is added up in order of the splits by the next
// kernel: no atomics, and the same bits in every run.
#pragma once
#include "tile.cuh"

namespace gpc {

// TrainProduct is C = A·B of an m × n result over depth k, and what is done to C
// before it is stored. kernels/trainer_product.go writes the same struct.
struct TrainProduct {
    const float* a;
    const float* b;
    const float* bias;        // [n]: added
    const float* mask;        // [m][ldmask] activations of the ReLU whose slope multiplies C; null: none
    const float* target;      // [·][ldtarget]: C becomes scale·(C − target), its squares go to partial; null: none
    const int* gather;        // rows of the data set: of A forward, of B of a gradient; null: as they lie
    const int* targetRows;    // [m] rows of target
    float* c;                 // [m][ldc], of split s at c + s·splitStep
    float* partial;           // one number per tile
    float* column;            // [m], of split s at column + s·splitStep: sums of A's columns
    long long splitStep;
    int m, n, k;
    int lda, ldb, ldc, ldmask, ldtarget;
    int first;                // number of the entry's first block
    int tilesM, tilesN, splits;
    int shape;                // of the tile, see TrainShape
    int relu;                 // C is max(C, 0)
    int accumulate;           // C and column are added to what is there
    float scale;
};

// The tiles of training, 128 threads each and 26.6 KiB of shared memory. Products
// over samples are tall: 128 × 64, and 128 × 32 where no more columns are left. A
// gradient of few outputs is wide: 64 × 128 or 32 × 128.
using TrainTall = Tile<128, 64, 16, 8, 8>;
using TrainNarrow = Tile<128, 32, 16, 8, 4>;
using TrainWide = Tile<64, 128, 16, 8, 8>;
using TrainFlat = Tile<32, 128, 16, 4, 8>;

enum TrainShape { TRAIN_TALL = 0, TRAIN_WIDE = 1, TRAIN_FLAT = 2 };

constexpr int trainThreads = TrainTall::threads;
constexpr int trainBlocks = 3; // on a multiprocessor: at most 168 registers a thread
constexpr int trainSharedQuads = TrainTall::sharedFloats / 4;
static_assert(TrainNarrow::threads == trainThreads && TrainWide::threads == trainThreads && TrainFlat::threads == trainThreads,
              "one block size");
static_assert(TrainNarrow::sharedFloats <= 4 * trainSharedQuads && TrainWide::sharedFloats <= 4 * trainSharedQuads &&
                  TrainFlat::sharedFloats <= 4 * trainSharedQuads,
              "one shared memory");

// TrainAt is where a block stands in its entry.
struct TrainAt {
    int m, n;     // first row and column of the tile
    int tile;     // number of the tile within its split
    int split;
};

// train_find returns the entry of this block, the last whose first block is not
// beyond it.
__device__ inline const TrainProduct* train_find(const TrainProduct* products, int count, int bm, int bn, TrainAt& at) {
    int i = 0;
    const int block = (int)blockIdx.x;
    while (i + 1 < count && products[i + 1].first <= block) i++;
    const TrainProduct* p = products + i;
    if (p->shape == TRAIN_WIDE) bm = TrainWide::BM, bn = TrainWide::BN;
    if (p->shape == TRAIN_FLAT) bm = TrainFlat::BM, bn = TrainFlat::BN;
    const int tiles = p->tilesM * p->tilesN;
    at.split = (block - p->first) / tiles;
    at.tile = (block - p->first) % tiles;
    at.m = at.tile / p->tilesN * bm;
    at.n = at.tile % p->tilesN * bn;
    return p;
}

// train_warp_sum adds v over the lanes; every lane has the sum.
__device__ inline float train_warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(GPC_FULL_MASK, v, step);
    return v;
}

// train_block_sum adds over the block what lane 0 of every warp holds, in order of
// the warps; thread 0 has the sum. scratch has a number for each warp.
__device__ inline float train_block_sum(float v, float* scratch) {
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    float sum = 0.0f;
    if (threadIdx.x == 0) {
        for (int w = 0; w < (int)blockDim.x / 32; w++) sum += scratch[w];
    }
    __syncthreads();
    return sum;
}

// TrainLayer is one affine layer in the arena of parameters: out rows of step ld,
// then out biases, padded to a multiple of four. Moments have the same layout.
// kernels/trainer_product.go writes the same struct.
struct TrainLayer {
    float *w, *m, *v;
    const float* partial; // gradient of split s at partial + s·size
    float* power;         // [out] left vector of the power iteration
    int splits;
    int size;             // numbers of the layer
    int first;            // number of its first block
    int in, out, ld;
};

} // namespace gpc
