// step_end.cu: the second half of RK2, the Lie residual and ⊕.
//
//	k_2 = Cap(F(z_mid)),  Δz = Δt k_2                                   (eq. rk2-step)
//	ω = (Bᵀ k_2) ⊘ √Λ · s_L Δt,  Δz_Lie = B [Rot(BᵀΔz; ω) − BᵀΔz]      (eq. iclr-lie-residual)
//	z' = z ⊕ (Δz + γ_L Δz_Lie)                                          (eq. final-update)
//
// Rot turns leading blocks of three by Rodrigues, a remaining pair in its plane.
// ⊕ composes leading blocks of three as rotation vectors, log(exp a exp b), and
// adds the rest. Guards: an F(z_mid) that is not finite is replaced by k_1
// (FallbackSecondSlope), a Lie residual that is not finite by 0 (FallbackLie); a
// row of FallbackNoStep does not move.
//
// Grid ⌈rows/4⌉, block 128: a warp a row (include/step.cuh); shared memory 4 KiB.
// Bound: bytes, 4·(5n + n·k + k) a row.
#include "gpc.cuh"
#include "step.cuh"

extern "C" __global__ void __launch_bounds__(128) gpc_step_end(int rows, gpc_end job) {
    __shared__ float buffer[gpc::flowWarps][4][64];
    const long long row = (long long)blockIdx.x * gpc::flowWarps + threadIdx.x / 32;
    if (row < rows) gpc::end_row(job, row, buffer[threadIdx.x / 32], job.next + row * job.n);
}
GPC_KERNEL(gpc_step_end)
