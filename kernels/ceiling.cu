// ceiling.cu: what the device can do at most, measured: the ceilings that rates of
// other kernels are fractions of.
#include "gpc.cuh"

// gpc_peak_fma: out[i] = the sum of 8 chains of x ← x·a + b, iterations·16 deep.
// grid: some blocks on every multiprocessor; block: 256; shared memory: none;
// bound: 2·8·16·iterations FLOP a thread, all multiply-adds, nothing from memory.
extern "C" __global__ void __launch_bounds__(256) gpc_peak_fma(float *out, int iterations, float a, float b) {
    float x[8];
#pragma unroll
    for (int j = 0; j < 8; j++) x[j] = (float)(threadIdx.x + j);
    for (int i = 0; i < iterations; i++) {
#pragma unroll
        for (int r = 0; r < 16; r++) {
#pragma unroll
            for (int j = 0; j < 8; j++) x[j] = __fmaf_rn(x[j], a, b);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; j++) sum += x[j];
    out[gpc_thread_x()] = sum;
}
GPC_KERNEL(gpc_peak_fma)

// gpc_peak_triad: a = b + s·c over n groups of four floats.
// grid: strided; block: 256; shared memory: none; bound: 48 bytes a group.
extern "C" __global__ void __launch_bounds__(256) gpc_peak_triad(float4 *__restrict__ a, const float4 *__restrict__ b,
                                                                  const float4 *__restrict__ c, float s, int64_t n) {
    for (int64_t i = gpc_thread_x(); i < n; i += gpc_threads_x()) {
        float4 x = b[i], y = c[i];
        a[i] = make_float4(x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w);
    }
}
GPC_KERNEL(gpc_peak_triad)
