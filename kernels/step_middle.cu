// step_middle.cu: the first half of RK2 (eq. rk2-cap, rk2-step) and the energy.
//
//	F = −(z̄_s + z̄_u),  k_1 = Cap(F),  z_mid = z + ½Δt k_1
//	V = (1/ε)‖x̂ − D_s(z)‖² + Σ_i w_i J_i                       (eq. iclr-energy)
//
// Guards: a k_1 that is not finite sets FallbackNoStep and z_mid = z; a z_mid that
// is not finite becomes z, FallbackMidpoint. k1, mid and flags are nullptr where
// only the field is wanted.
//
// Grid ⌈rows/4⌉, block 128: a warp a row. No shared memory. Bound: bytes, about
// 4·(5n + 2n_s) a row.
#include "gpc.cuh"
#include "flow.cuh"

extern "C" __global__ void __launch_bounds__(128) gpc_step_middle(int rows, int n, const float* z, const float* zbarS, const float* zbarU, float* f, float* k1, float* mid,
                                                                 unsigned char* flags, float dt, float vmax, float* energy, float epsilon, int ns, const float* x, int ldx,
                                                                 const float* y, const float* mean, const float* scale, int m, const float* objectives, const float* weights, int ldweights) {
    using namespace gpc;
    const long long row = (long long)blockIdx.x * flowWarps + threadIdx.x / 32;
    if (row >= rows) return;
    const int lane = threadIdx.x % 32;
    if (energy) {
        float sum = 0.0f;
        for (int i = lane; i < ns; i += 32) {
            const float r = (x[row * ldx + i] - mean[i]) / scale[i] - y[row * ns + i];
            sum = __fmaf_rn(r, r, sum);
        }
        sum = warp_sum(sum) / epsilon;
        for (int i = 0; i < m; i++) sum = __fmaf_rn(weights[row * ldweights + i], objectives[row * m + i], sum);
        if (lane == 0) energy[row] = sum;
    }
    const Pair slope = field(zbarS + row * n, zbarU ? zbarU + row * n : nullptr, n);
    if (f) store_pair(f + row * n, n, slope);
    if (!k1) return;
    const Pair start = load_pair(z + row * n, n), k = cap(slope, vmax);
    Pair to = start;
    unsigned char flag = 0;
    if (!all_finite(k)) {
        flag = fallbackNoStep;
    } else {
        to = Pair{__fmaf_rn(0.5f * dt, k.a, start.a), __fmaf_rn(0.5f * dt, k.b, start.b)};
        if (!all_finite(to)) to = start, flag = fallbackMidpoint;
    }
    store_pair(k1 + row * n, n, k);
    store_pair(mid + row * n, n, to);
    if (lane == 0) flags[row] = flag;
}
GPC_KERNEL(gpc_step_middle)
