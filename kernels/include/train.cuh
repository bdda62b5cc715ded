// train.cuh: what an entry of a grouped launch of training says.
//
// A step of training is a chain of small products. Each launch takes a list of
// them (gpc_train_product), one for every network that has reached that point, so
// that one launch fills the device and a step is eighteen nodes of a graph instead
// of a hundred. A block finds its entry by its number and makes one tile of it,
// with the accumulators of tile.cuh. Every number of a result is one thread's sum in order of depth,
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

// The tiles of training, 128 threads each and up to 25 KiB of shared memory.
// Products are tall: 128 × 64, and 128 × 32 where no more columns are left. Half of
// that, 64 × 64 and 64 × 32, is for products over samples that would leave
// multiprocessors without work, and a quarter, 32 × 64, for those that still do, and
// for gradients over few samples. A gradient of few outputs is wide: 64 × 128 or 32 × 128.
using TrainTall = Tile<128, 64, 16, 8, 8>;
using TrainNarrow = Tile<128, 32, 16, 8, 4>;
using TrainHalf = Tile<64, 64, 16, 8, 4>;
using TrainHalfNarrow = Tile<64, 32, 16, 4, 4>;
using TrainQuarter = Tile<32, 64, 16, 4, 4>;
using TrainWide = Tile<64, 128, 16, 8, 8>;
using TrainFlat = Tile<32, 128, 16, 4, 8>;

enum TrainShape { TRAIN_TALL = 0, TRAIN_HALF = 1, TRAIN_WIDE = 2, TRAIN_FLAT = 3, TRAIN_QUARTER = 4 };

constexpr int trainThreads = TrainTall::threads;
constexpr int trainBlocks = 3; // on a multiprocessor: at most 168 registers a thread
constexpr int trainSharedQuads = TrainTall::sharedFloats / 4;
template <class Shape>
constexpr bool trainFits = Shape::threads == trainThreads && Shape::sharedFloats <= 4 * trainSharedQuads;
static_assert(trainFits<TrainNarrow> && trainFits<TrainHalf> && trainFits<TrainHalfNarrow> && trainFits<TrainQuarter> && trainFits<TrainWide> && trainFits<TrainFlat>,
              "one block size and one shared memory");

// TrainAt is where a block stands in its entry.
struct TrainAt {
    int m, n;     // first row and column of the tile
    int tile;     // number of the tile within its split
    int split;
};

// train_entry returns the entry of a list, ordered by its first block, that this
// block belongs to. The lanes look at 32 entries at once; every warp calls it.
template <class Entry>
__device__ inline const Entry* train_entry(const Entry* list, int count) {
    const int lane = (int)threadIdx.x % GPC_WARP;
    int begun = 0;
    for (int i = 0; i < count; i += GPC_WARP) {
        begun += __popc(__ballot_sync(GPC_FULL_MASK, i + lane < count && list[i + lane].first <= (int)blockIdx.x));
    }
    return list + begun - 1;
}

// train_find returns the entry of this block and its place in it.
__device__ inline const TrainProduct* train_find(const TrainProduct* products, int count, TrainAt& at) {
    const TrainProduct* p = train_entry(products, count);
    const int bm = p->shape == TRAIN_TALL ? TrainTall::BM : p->shape == TRAIN_FLAT || p->shape == TRAIN_QUARTER ? TrainFlat::BM : TrainHalf::BM;
    const int bn = p->shape == TRAIN_WIDE || p->shape == TRAIN_FLAT ? TrainWide::BN : TrainTall::BN;
    static_assert(TrainWide::BM == TrainHalf::BM && TrainQuarter::BM == TrainFlat::BM && TrainHalf::BN == TrainTall::BN && TrainQuarter::BN == TrainTall::BN && TrainFlat::BN == TrainWide::BN, "as above");
    const int tiles = p->tilesM * p->tilesN;
    at.split = ((int)blockIdx.x - p->first) / tiles;
    at.tile = ((int)blockIdx.x - p->first) % tiles;
    at.m = at.tile / p->tilesN * bm;
    at.n = at.tile % p->tilesN * bn;
    return p;
}

// TrainSide moves one operand's slices like Side, of matrices whose rows begin on
// 16 bytes: addresses are made once, whole slices are read without looking, and
// what lies beyond the operand's last row or column is read from inside it, since
// it only reaches numbers that are not stored.
template <class Base, bool KContiguous>
struct TrainSide : Base {
    static constexpr int BK = 16;
    static constexpr int addresses = KContiguous ? Base::rounds : 1;
    const float* at[addresses];
    const int* rows;
    long long ld;
    int k0; // of the thread's first quad

    __device__ void begin(const Matrix& m, int outer0, int outers) {
        int outer;
        Base::first(outer, k0);
        rows = m.rows, ld = m.ld;
        if (KContiguous) {
#pragma unroll
            for (int r = 0; r < addresses; r++) {
                const int o = min(outer0 + outer + Base::outer_step(r), outers - 1);
                at[r] = m.data + (rows ? __ldg(rows + o) : o) * ld + k0;
            }
        } else {
            at[0] = m.data + (outer0 + outer < outers ? outer0 + outer : 0);
        }
    }

    __device__ void fetch(int k, int kEnd) {
#pragma unroll
        for (int r = 0; r < Base::rounds; r++) this->held[r] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (KContiguous) {
            if (k + k0 < kEnd) {
#pragma unroll
                for (int r = 0; r < Base::rounds; r++) this->held[r] = __ldg(reinterpret_cast<const float4*>(at[r % addresses] + k));
            }
            if (k + BK > kEnd) {
                const int left = kEnd - k - k0; // of the quad, from here on
#pragma unroll
                for (int r = 0; r < Base::rounds; r++) {
                    if (left < 4) this->held[r].w = 0.0f;
                    if (left < 3) this->held[r].z = 0.0f;
                    if (left < 2) this->held[r].y = 0.0f;
                }
            }
        } else {
            if (k + BK <= kEnd) {
#pragma unroll
                for (int r = 0; r < Base::rounds; r++) this->held[r] = quad(k + k0 + Base::k_step(r));
            } else {
#pragma unroll
                for (int r = 0; r < Base::rounds; r++)
                    if (k + k0 + Base::k_step(r) < kEnd) this->held[r] = quad(k + k0 + Base::k_step(r));
            }
        }
    }

    __device__ float4 quad(int k) const { return __ldg(reinterpret_cast<const float4*>(at[0] + (rows ? __ldg(rows + k) : k) * ld)); }
};

// TrainSides are the sides and sums of a product, in float32 or on tensor cores.
template <class Shape, bool AKContiguous, bool BKContiguous, bool TF32>
struct TrainSides {
    using A = TrainSide<Side<AKContiguous, Shape::BM, Shape::threads>, AKContiguous>;
    using B = TrainSide<Side<BKContiguous, Shape::BN, Shape::threads>, BKContiguous>;
    using Sums = Accumulator<Shape>;
};
template <class Shape, bool AKContiguous, bool BKContiguous>
struct TrainSides<Shape, AKContiguous, BKContiguous, true> {
    using A = TrainSide<FragmentSide<true, AKContiguous, Shape::BM, Shape::threads>, AKContiguous>;
    using B = TrainSide<FragmentSide<false, BKContiguous, Shape::BN, Shape::threads>, BKContiguous>;
    using Sums = AccumulatorTF32<Shape, A, B, BKContiguous>;
};

// train_product is product of tile.cuh with these sides. sums, if not null, is
// added the thread's sums over the depth of its four columns of A, whose rows are
// then the depth.
template <class Shape, bool AKContiguous, bool BKContiguous, bool TF32, class Epilogue>
__device__ inline void train_product(const Matrix& a, const Matrix& b, int m, int n, int kBegin, int kEnd, int row0, int column0,
                                     float* shared, float* sums, Epilogue&& epilogue) {
    using Sides = TrainSides<Shape, AKContiguous, BKContiguous, TF32>;
    typename Sides::A sideA;
    typename Sides::B sideB;
    sideA.begin(a, row0, m);
    sideB.begin(b, column0, n);
    auto count = [&] {
        if (!sums) return;
#pragma unroll
        for (int r = 0; r < decltype(sideA)::rounds; r++) {
            sums[0] += sideA.held[r].x, sums[1] += sideA.held[r].y;
            sums[2] += sideA.held[r].z, sums[3] += sideA.held[r].w;
        }
    };
    product<typename Sides::Sums, Shape>(sideA, sideB, m, n, kBegin, kEnd, row0, column0, shared, count, epilogue);
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
