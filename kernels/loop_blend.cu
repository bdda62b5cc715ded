// loop_blend.cu: z ← (1 − α) from + α z for the latents of many loops: smoothing,
// with α of each row (Algorithm 2, step 1), and retraction with α = μ_R (step 5).
//
// A row with α = 1 or a mark in hold is left as it is, whatever `from` holds.
// Products and sum are rounded one by one, as the host rounds them.
//
// Grid ⌈rows·n/256⌉, block 256, a thread an entry. No shared memory. Bound: bytes,
// 12·n a row.
#include "gpc.cuh"

extern "C" __global__ void __launch_bounds__(256) gpc_loop_blend(int rows, int n, const float* from, const float* alphas, const unsigned char* hold, float alpha, float* z) {
    for (int64_t e = gpc_thread_x(); e < (int64_t)rows * n; e += gpc_threads_x()) {
        const int64_t row = e / n;
        const float a = alphas ? alphas[row] : alpha;
        if (!(a < 1.0f) || (hold && hold[row])) continue;
        z[e] = __fadd_rn(__fmul_rn(1.0f - a, from[e]), __fmul_rn(a, z[e]));
    }
}
GPC_KERNEL(gpc_loop_blend)
