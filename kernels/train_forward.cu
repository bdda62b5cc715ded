// Training: the affine layers of all networks that have reached the same point.
//
//   C = relu?(A Wᵀ + bias),  A [m][k] activations (row r at gather[r]), W [n][k]
//
// or, of a decoder's last layer, with the loss in the epilogue:
//
//   e = A Wᵀ + bias − target,  partial[tile] = Σ e²,  C = scale·e = ∂L/∂output
//
// grid    Σ ⌈m/128⌉·⌈n/64⌉ (⌈m/64⌉·⌈n/64⌉, ⌈m/32⌉·⌈n/64⌉ of small batches) over the entries; block 128
//         threads
// shared  25 KiB: two slices of 16 of both operands
// bound   FLOPs: 2mnk; a tile reads 4·(128 + 64)·k bytes for 2·128·64·k FLOP, 21
//         FLOP per byte of the second-level cache
//
// A sample's inputs are gathered from the resident data set by the row numbers of
// A: no copy of the batch is made.
#include "gpc.cuh"
#include "train.cuh"

namespace gpc {

template <class Shape, bool TF32>
__device__ inline void train_forward_tile(const TrainProduct& p, const TrainAt& at, float* shared) {
    float squares = 0.0f;
    train_product<Shape, true, true, TF32>(
        matrix(p.a, p.lda, p.gather), matrix(p.b, p.ldb), p.m, p.n, 0, p.k, at.m, at.n, shared, nullptr,
        [&](int i, int j, const float* sum, int count) {
            const float* target = p.target ? p.target + (long long)p.targetRows[i] * p.ldtarget + j : nullptr;
            float v[4];
#pragma unroll
            for (int c = 0; c < 4; c++) {
                v[c] = 0.0f;
                if (c >= count) continue;
                v[c] = sum[c] + p.bias[j + c];
                if (p.relu) v[c] = relu(v[c]);
                if (target) {
                    const float e = v[c] - target[c];
                    squares += e * e;
                    v[c] = p.scale * e;
                }
            }
            store4(p.c + (long long)i * p.ldc + j, v, count);
        });
    if (p.partial) {
        squares = train_block_sum(train_warp_sum(squares), shared);
        if (threadIdx.x == 0) p.partial[at.tile] = squares;
    }
}

template <bool TF32>
__device__ inline void train_forward(const TrainProduct* products, int count, float* shared) {
    TrainAt at;
    const TrainProduct& p = *train_find(products, count, at);
    const bool narrow = p.n - at.n <= TrainNarrow::BN;
    if (p.shape == TRAIN_TALL) {
        if (narrow) {
            train_forward_tile<TrainNarrow, TF32>(p, at, shared);
        } else {
            train_forward_tile<TrainTall, TF32>(p, at, shared);
        }
    } else if (!TF32 && p.shape == TRAIN_QUARTER) {
        train_forward_tile<TrainQuarter, false>(p, at, shared);
    } else if (narrow) {
        train_forward_tile<TrainHalfNarrow, TF32>(p, at, shared);
    } else {
        train_forward_tile<TrainHalf, TF32>(p, at, shared);
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(gpc::trainThreads, gpc::trainBlocks) gpc_train_forward(const gpc::TrainProduct* products, int count) {
    __shared__ float4 slices[gpc::trainSharedQuads];
    gpc::train_forward<false>(products, count, reinterpret_cast<float*>(slices));
}
GPC_KERNEL(gpc_train_forward)

// The same with the products on the tensor cores, operands rounded to TF32.
extern "C" __global__ void __launch_bounds__(gpc::trainThreads, gpc::trainBlocks) gpc_train_forward_tf32(const gpc::TrainProduct* products, int count) {
    __shared__ float4 slices[gpc::trainSharedQuads];
    gpc::train_forward<true>(products, count, reinterpret_cast<float*>(slices));
}
GPC_KERNEL(gpc_train_forward_tf32)
