// Training: the spectral bound. One power iteration on every weight matrix with
// its persistent left vector p, and the scaling of a matrix whose estimated norm
// is above the bound K (ref.SpectralBound):
//
//   r = Wᵀp/‖Wᵀp‖,  p ← Wr/‖Wr‖,  σ = ‖Wr‖,  W ← W·K/σ if σ > K
//
// If Wᵀp = 0 or Wr = 0, p and W are left. Biases are not scaled.
//
// grid    one block per layer; block 256 or, of large layers, 1024 threads
// shared  4 bytes per column dynamic, 16.3 KiB static; widths to 4096
// bound   bytes: three passes over the matrix from the second-level cache by one
//         multiprocessor; 256 × 256 is 0.8 MB
#include "gpc.cuh"
#include "train.cuh"

namespace gpc {

// train_length returns ‖v‖ of n numbers in shared memory to every thread. sums has
// 32 numbers.
__device__ inline double train_length(const float* v, int n, double* sums) {
    double sum = 0.0;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) sum += (double)v[i] * (double)v[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(GPC_FULL_MASK, sum, step);
    if (threadIdx.x % GPC_WARP == 0) sums[threadIdx.x / GPC_WARP] = sum;
    __syncthreads();
    sum = 0.0;
    for (int w = 0; w < (int)blockDim.x / GPC_WARP; w++) sum += sums[w];
    __syncthreads();
    return sqrt(sum);
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(1024) gpc_train_spectral(const gpc::TrainLayer* layers, float bound) {
    constexpr int mostWarps = 32, columns = 4 * GPC_WARP;
    __shared__ float4 parts[mostWarps][GPC_WARP];
    __shared__ double sums[mostWarps];
    const int warps = (int)blockDim.x / GPC_WARP;
    GPC_SHARED(float, vectors);
    const gpc::TrainLayer l = layers[blockIdx.x];
    float *right = vectors, *left = reinterpret_cast<float*>(&parts[0][0]); // parts are done with by then
    const int t = (int)threadIdx.x, warp = t / GPC_WARP, lane = t % GPC_WARP;

    // right = Wᵀp, 128 columns at a time: each warp adds every so-many-th row, then
    // the warps' sums are added in their order. Row ends are padded with zeros.
    for (int from = 0; from < l.ld; from += columns) {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (from + 4 * lane < l.ld) {
#pragma unroll 8
            for (int o = warp; o < l.out; o += warps) {
                const float p = l.power[o];
                const float4 w = *reinterpret_cast<const float4*>(l.w + (long long)o * l.ld + from + 4 * lane);
                sum = make_float4(sum.x + p * w.x, sum.y + p * w.y, sum.z + p * w.z, sum.w + p * w.w);
            }
        }
        parts[warp][lane] = sum;
        __syncthreads();
        if (t < columns && from + t < l.ld) {
            float total = 0.0f;
            for (int w = 0; w < warps; w++) total += left[w * columns + t];
            right[from + t] = total;
        }
        __syncthreads();
    }
    const double length = gpc::train_length(right, l.in, sums);
    if (length == 0.0) return;
    const float shorten = (float)(1.0 / length);
    for (int i = t; i < l.ld; i += (int)blockDim.x) right[i] *= shorten;
    __syncthreads();

    // left = W right, four rows of a warp at a time.
    constexpr int rows = 4;
    for (int from = warp; from < l.out; from += rows * warps) {
        float sum[rows] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int i = 4 * lane; i < l.ld; i += columns) {
            const float4 r = *reinterpret_cast<const float4*>(right + i);
#pragma unroll
            for (int k = 0; k < rows; k++) {
                const int o = min(from + k * warps, l.out - 1);
                const float4 w = *reinterpret_cast<const float4*>(l.w + (long long)o * l.ld + i);
                sum[k] += w.x * r.x + w.y * r.y + w.z * r.z + w.w * r.w;
            }
        }
#pragma unroll
        for (int k = 0; k < rows; k++) {
            const float total = gpc::train_warp_sum(sum[k]);
            if (lane == 0 && from + k * warps < l.out) left[from + k * warps] = total;
        }
    }
    __syncthreads();
    const double sigma = gpc::train_length(left, l.out, sums);
    if (sigma == 0.0) return;
    for (int o = t; o < l.out; o += (int)blockDim.x) l.power[o] = (float)((double)left[o] / sigma);
    // Not of a NaN either.
    if (!(sigma > (double)bound)) return;
    const float factor = (float)((double)bound / sigma);
    for (int i = 4 * t; i < l.out * l.ld; i += 4 * (int)blockDim.x) {
        float4* at = reinterpret_cast<float4*>(l.w + i);
        const float4 w = *at;
        *at = make_float4(factor * w.x, factor * w.y, factor * w.z, factor * w.w);
    }
}
GPC_KERNEL(gpc_train_spectral)
