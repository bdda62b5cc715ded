// step_middle.cu: the first half of RK2 (eq. rk2-cap, rk2-step) and the energy.
//
//	F = −(z̄_s + z̄_u),  k_1 = Cap(F),  z_mid = z + ½Δt k_1
//	V = (1/ε)‖x̂ − D_s(z)‖² + Σ_i w_i J_i                       (eq. iclr-energy)
//
// Guards: a k_1 that is not finite sets FallbackNoStep and z_mid = z; a z_mid that
// is not finite becomes z, FallbackMidpoint. k1, mid and flags are nullptr where
// only the field is wanted.
//
// Grid ⌈rows/4⌉, block 128: a warp a row (include/step.cuh). No shared memory. Bound:
// bytes, about 4·(5n + 2n_s) a row.
#include "gpc.cuh"
#include "step.cuh"

extern "C" __global__ void __launch_bounds__(128) gpc_step_middle(int rows, gpc_middle job) {
    const long long row = (long long)blockIdx.x * gpc::flowWarps + threadIdx.x / 32;
    if (row < rows) gpc::middle_row(job, row, true);
}
GPC_KERNEL(gpc_step_middle)
