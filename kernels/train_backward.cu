// Training: deltas of a layer's inputs from the deltas of its outputs, of all
// networks that have reached the same point.
//
//   C = (D W) ⊙ relu'(mask),  D [m][k] deltas, W [k][n], mask [m][n] activations
//
// Without a mask C is the gradient with respect to a latent.
//
// grid    Σ ⌈m/128⌉·⌈n/64⌉ (⌈m/64⌉·⌈n/64⌉, ⌈m/32⌉·⌈n/64⌉ of small batches) over the entries; block 128
//         threads
// shared  25 KiB: two slices of 16 of both operands
// bound   FLOPs: 2mnk, as train_forward.cu
#include "gpc.cuh"
#include "train.cuh"

namespace gpc {

template <class Shape, bool TF32>
__device__ inline void train_backward_tile(const TrainProduct& p, const TrainAt& at, float* shared) {
    train_product<Shape, true, false, TF32>(matrix(p.a, p.lda), matrix(p.b, p.ldb), p.m, p.n, 0, p.k, at.m, at.n, shared, nullptr,
                            [&](int i, int j, const float* sum, int count) {
                                const float* mask = p.mask ? p.mask + (long long)i * p.ldmask + j : nullptr;
                                float v[4];
#pragma unroll
                                for (int c = 0; c < 4; c++) {
                                    v[c] = 0.0f;
                                    if (c < count) v[c] = mask ? sum[c] * slope(mask[c]) : sum[c];
                                }
                                store4(p.c + (long long)i * p.ldc + j, v, count);
                            });
}

template <bool TF32>
__device__ inline void train_backward(const TrainProduct* products, int count, float* shared) {
    TrainAt at;
    const TrainProduct& p = *train_find(products, count, at);
    const bool narrow = p.n - at.n <= TrainNarrow::BN;
    if (p.shape == TRAIN_TALL) {
        if (narrow) {
            train_backward_tile<TrainNarrow, TF32>(p, at, shared);
        } else {
            train_backward_tile<TrainTall, TF32>(p, at, shared);
        }
    } else if (!TF32 && p.shape == TRAIN_QUARTER) {
        train_backward_tile<TrainQuarter, false>(p, at, shared);
    } else if (narrow) {
        train_backward_tile<TrainHalfNarrow, TF32>(p, at, shared);
    } else {
        train_backward_tile<TrainHalf, TF32>(p, at, shared);
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(gpc::trainThreads, gpc::trainBlocks) gpc_train_backward(const gpc::TrainProduct* products, int count) {
    __shared__ float4 slices[gpc::trainSharedQuads];
    gpc::train_backward<false>(products, count, reinterpret_cast<float*>(slices));
}
GPC_KERNEL(gpc_train_backward)

// The same with the products on the tensor cores, operands rounded to TF32.
extern "C" __global__ void __launch_bounds__(gpc::trainThreads, gpc::trainBlocks) gpc_train_backward_tf32(const gpc::TrainProduct* products, int count) {
    __shared__ float4 slices[gpc::trainSharedQuads];
    gpc::train_backward<true>(products, count, reinterpret_cast<float*>(slices));
}
GPC_KERNEL(gpc_train_backward_tf32)
