// metric.cu: G = JᵀJ + λI of Jacobians in memory, for networks too wide for
// jacobian.cu to hold all columns of J at once.
//
// Grid rows, block 256; shared memory 32·65 floats: 32 rows of J at a time. n ≤ 64,
// so that a thread holds at most 16 entries of G. Bound: bytes, 4·m·n a row of the
// batch read once.
#include "gpc.cuh"

extern "C" __global__ void __launch_bounds__(256) gpc_metric(const float* __restrict__ jac, long long ldjac, int m, int n, float lambda, float* __restrict__ metric, long long ldmetric) {
    constexpr int chunk = 32, held = 16;
    __shared__ float tile[chunk * 65];
    const float* j = jac + blockIdx.x * ldjac;
    float sum[held];
#pragma unroll
    for (int q = 0; q < held; q++) sum[q] = 0.0f;
    for (int i0 = 0; i0 < m; i0 += chunk) {
        const int count = min(chunk, m - i0);
        for (int e = threadIdx.x; e < count * n; e += 256) tile[(e / n) * 65 + e % n] = j[(long long)i0 * n + e];
        __syncthreads();
#pragma unroll
        for (int q = 0; q < held; q++) {
            const int e = int(threadIdx.x) + 256 * q;
            if (e < n * n)
                for (int i = 0; i < count; i++) sum[q] = __fmaf_rn(tile[i * 65 + e / n], tile[i * 65 + e % n], sum[q]);
        }
        __syncthreads();
    }
    float* g = metric + blockIdx.x * ldmetric;
#pragma unroll
    for (int q = 0; q < held; q++) {
        const int e = int(threadIdx.x) + 256 * q;
        if (e < n * n) g[e] = sum[q] + (e / n == e % n ? lambda : 0.0f);
    }
}
GPC_KERNEL(gpc_metric)
