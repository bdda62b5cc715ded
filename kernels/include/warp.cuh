// warp.cuh: reductions over the 32 lanes of a warp, in a fixed order.
#pragma once
#include "gpc.cuh"

namespace gpc {

__device__ inline float warp_sum(float v) {
    for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(GPC_FULL_MASK, v, m);
    return v;
}

__device__ inline double warp_sum64(double v) {
    for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(GPC_FULL_MASK, v, m);
    return v;
}

__device__ inline float warp_max(float v) {
    for (int m = 16; m > 0; m /= 2) v = fmaxf(v, __shfl_xor_sync(GPC_FULL_MASK, v, m));
    return v;
}

__device__ inline bool warp_any(bool p) { return __ballot_sync(GPC_FULL_MASK, p) != 0; }

} // namespace gpc
