// Training: gradients of all weights and biases of a step, in one launch.
//
//   G = Dᵀ H,  g = Dᵀ 1,  D [k][m] deltas, H [k][n] inputs (row r at gather[r])
//
// The sum over the k samples is cut into splits; each writes its own partial sums,
// which gpc_train_adam adds up in their order.
//
// grid    Σ tiles · splits over the entries; block 128 threads
// shared  25 KiB: two slices of 16 of both operands
// bound   FLOPs: 2mnk; 4mn bytes are written per split of some 512 samples, 256
//         FLOP per byte
#include "gpc.cuh"
#include "train.cuh"

namespace gpc {

template <class Shape, bool TF32>
__device__ inline void train_gradient_tile(const TrainProduct& p, const TrainAt& at, float* shared) {
    const long long split = at.split * p.splitStep;
    int from, to;
    split_range(p.k, p.splits, at.split, Shape::BK, from, to);
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    train_product<Shape, false, false, TF32>(matrix(p.a, p.lda), matrix(p.b, p.ldb, p.gather), p.m, p.n, from, to, at.m, at.n, shared, sum,
                            [&](int i, int j, const float* tile, int count) {
                                float* c0 = p.c + split + (long long)i * p.ldc + j;
                                float v[4];
#pragma unroll
                                for (int c = 0; c < 4; c++) {
                                    v[c] = 0.0f;
                                    if (c < count) v[c] = p.accumulate ? c0[c] + tile[c] : tile[c];
                                }
                                store4(c0, v, count);
                            });
    if (at.n > 0) return; // the first tile of a row of tiles has the biases
    constexpr int quads = Shape::BM / 4, parts = Shape::threads / quads;
#pragma unroll
    for (int i = 0; i < 4; i++) shared[4 * (int)threadIdx.x + i] = sum[i];
    __syncthreads();
    const int o = (int)threadIdx.x;
    if (o < Shape::BM && at.m + o < p.m) {
        float* column = p.column + split + at.m + o;
        float total = p.accumulate ? *column : 0.0f;
        for (int part = 0; part < parts; part++) total += shared[4 * (part * quads + o / 4) + o % 4];
        *column = total;
    }
}

template <bool TF32>
__device__ inline void train_gradient(const TrainProduct* products, int count, float* shared) {
    TrainAt at;
    const TrainProduct& p = *train_find(products, count, at);
    if (p.shape == TRAIN_WIDE) {
        train_gradient_tile<TrainWide, TF32>(p, at, shared);
    } else if (p.shape == TRAIN_FLAT) {
        train_gradient_tile<TrainFlat, TF32>(p, at, shared);
    } else if (p.shape == TRAIN_QUARTER) {
        train_gradient_tile<TrainQuarter, TF32>(p, at, shared);
    } else if (p.shape == TRAIN_HALF) {
        train_gradient_tile<TrainHalf, TF32>(p, at, shared);
    } else if (p.n - at.n <= TrainNarrow::BN) {
        train_gradient_tile<TrainNarrow, TF32>(p, at, shared);
    } else {
        train_gradient_tile<TrainTall, TF32>(p, at, shared);
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(gpc::trainThreads, gpc::trainBlocks) gpc_train_gradient(const gpc::TrainProduct* products, int count) {
    __shared__ float4 slices[gpc::trainSharedQuads];
    gpc::train_gradient<false>(products, count, reinterpret_cast<float*>(slices));
}
GPC_KERNEL(gpc_train_gradient)

// The same with the products on the tensor cores, operands rounded to TF32; the
// sums of the biases are of the numbers as they are.
extern "C" __global__ void __launch_bounds__(gpc::trainThreads, gpc::trainBlocks) gpc_train_gradient_tf32(const gpc::TrainProduct* products, int count) {
    __shared__ float4 slices[gpc::trainSharedQuads];
    gpc::train_gradient<true>(products, count, reinterpret_cast<float*>(slices));
}
GPC_KERNEL(gpc_train_gradient_tf32)
