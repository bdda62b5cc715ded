// Training: the Lie rollout latent of transitions (eq. du_lie_latent), from the
// top-k eigenpairs B, Λ of the pullback metric of D_s at z_t:
//
//   Δ = α (z_{t+1} − z_t),  a = BᵀΔ,  ω = s_L Δt·a ⊘ √Λ
//   Δz_Lie = B (Rot(a; ω) − a),  z̃ = z_t + Δ + γ_L Δz_Lie
//
// Blocks of three turn by Rodrigues, a last block of two in its plane by the first
// component of ω, a last block of one does not. Rot(a; ω) − a is formed directly,
// so that a small angle loses no digits. A residual that is not finite is zero.
//
// grid    ⌈rows/8⌉; block 256 threads, a warp per transition
// shared  4 KiB
// bound   bytes: 4·n_z·(k + 3) per transition, once per training run
#include "gpc.cuh"
#include "train.cuh"

namespace gpc {

constexpr int maxFrame = 64;

// train_turn replaces a by Rot(a; ω) − a of block b.
__device__ inline void train_turn(int b, int k, float* a, const float* omega) {
    const int i = 3 * b;
    if (i + 3 <= k) {
        const float wx = omega[i], wy = omega[i + 1], wz = omega[i + 2], vx = a[i], vy = a[i + 1], vz = a[i + 2];
        const float square = wx * wx + wy * wy + wz * wz, theta = sqrtf(square);
        float sine, half; // sin θ/θ and (1 − cos θ)/θ²
        if (theta < 0.05f) {
            sine = 1.0f - square * (1.0f / 6.0f) + square * square * (1.0f / 120.0f);
            half = 0.5f - square * (1.0f / 24.0f) + square * square * (1.0f / 720.0f);
        } else {
            const float h = sinf(theta / 2.0f) / theta;
            sine = sinf(theta) / theta;
            half = 2.0f * h * h;
        }
        const float cx = wy * vz - wz * vy, cy = wz * vx - wx * vz, cz = wx * vy - wy * vx;
        a[i] = sine * cx + half * (wy * cz - wz * cy);
        a[i + 1] = sine * cy + half * (wz * cx - wx * cz);
        a[i + 2] = sine * cz + half * (wx * cy - wy * cx);
    } else if (i + 2 == k) {
        const float h = sinf(omega[i] / 2.0f), sine = sinf(omega[i]), less = -2.0f * h * h; // cos − 1
        const float x = a[i], y = a[i + 1];
        a[i] = less * x - sine * y;
        a[i + 1] = sine * x + less * y;
    } else {
        a[i] = 0.0f;
    }
}

} // namespace gpc

// Works on rows of the data set from `first` on, those with a successor. vectors
// is [rows][nz·k] with row-major nz × k matrices, values [rows][k], of these rows. lie,
// anchor and reg are the whole data set's: z̃, ‖γ_L Δz_Lie‖² and ‖Δz_Lie‖².
extern "C" __global__ void __launch_bounds__(256)
    gpc_train_lie(int first, int rows, int nz, int ldz, int k, const int* next, const float* z, const float* vectors, const float* values,
                  float alpha, float angle, float gain, float* lie, float* anchor, float* reg) {
    __shared__ float frames[8][2 * gpc::maxFrame];
    const int r = (int)blockIdx.x * 8 + (int)threadIdx.x / GPC_WARP, lane = (int)threadIdx.x % GPC_WARP;
    if (r >= rows || next[first + r] < 0) return;
    float *a = frames[threadIdx.x / GPC_WARP], *omega = a + gpc::maxFrame;
    const int row = first + r;
    const float *now = z + (long long)row * ldz, *then = z + (long long)next[row] * ldz, *frame = vectors + (long long)r * nz * k;
    for (int j = 0; j < k; j++) {
        float sum = 0.0f;
        for (int i = lane; i < nz; i += GPC_WARP) sum += alpha * (then[i] - now[i]) * frame[i * k + j];
        sum = gpc::train_warp_sum(sum);
        if (lane == 0) {
            a[j] = sum;
            omega[j] = angle * sum / sqrtf(values[(long long)r * k + j]);
        }
    }
    __syncwarp();
    for (int b = lane; 3 * b < k; b += GPC_WARP) gpc::train_turn(b, k, a, omega);
    __syncwarp();
    unsigned finite = 1;
    float square = 0.0f;
    for (int i = lane; i < nz; i += GPC_WARP) {
        float residual = 0.0f;
        for (int j = 0; j < k; j++) residual += a[j] * frame[i * k + j];
        if (!gpc_finite(residual)) finite = 0;
        square += residual * residual;
    }
    const bool keep = __ballot_sync(GPC_FULL_MASK, finite == 0) == 0;
    square = gpc::train_warp_sum(square);
    for (int i = lane; i < nz; i += GPC_WARP) {
        float residual = 0.0f;
        if (keep) {
            for (int j = 0; j < k; j++) residual += a[j] * frame[i * k + j];
        }
        lie[(long long)row * ldz + i] = now[i] + (alpha * (then[i] - now[i]) + gain * residual);
    }
    if (lane == 0) {
        reg[row] = keep ? square : 0.0f;
        anchor[row] = keep ? gain * gain * square : 0.0f;
    }
}
GPC_KERNEL(gpc_train_lie)
