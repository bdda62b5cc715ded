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
// Grid ⌈rows/4⌉, block 128: a warp a row; shared memory 4 KiB. Bound: bytes,
// 4·(5n + n·k + k) a row.
#include "gpc.cuh"
#include "flow.cuh"

extern "C" __global__ void __launch_bounds__(128) gpc_step_end(int rows, int n, int k, const float* z, const float* zbarS, const float* zbarU, const float* k1, const float* values,
                                                              const float* vectors, unsigned char* flags, float dt, float vmax, float gain, float angleScale, int blocks, float* next) {
    using namespace gpc;
    __shared__ float buffer[flowWarps][4][64];
    const long long row = (long long)blockIdx.x * flowWarps + threadIdx.x / 32;
    if (row >= rows) return;
    const int lane = threadIdx.x % 32;
    float(*mine)[64] = buffer[threadIdx.x / 32];
    const Pair start = load_pair(z + row * n, n);
    unsigned char flag = flags[row];
    Pair step = Pair{0.0f, 0.0f};
    if (!(flag & fallbackNoStep)) {
        Pair slope = field(zbarS + row * n, zbarU ? zbarU + row * n : nullptr, n);
        if (all_finite(slope)) {
            slope = cap(slope, vmax);
        } else {
            slope = load_pair(k1 + row * n, n);
            flag |= fallbackSecondSlope;
        }
        step = Pair{dt * slope.a, dt * slope.b};
        if (k > 0) {
            store_pair(mine[0], n, step);
            store_pair(mine[1], n, slope);
            __syncwarp();
            const float* basis = vectors + row * n * k;
            for (int j = lane; j < k; j += 32) {
                float local = 0.0f, angle = 0.0f;
                for (int i = 0; i < n; i++) {
                    const float b = basis[i * k + j];
                    local = __fmaf_rn(b, mine[0][i], local), angle = __fmaf_rn(b, mine[1][i], angle);
                }
                mine[2][j] = local, mine[3][j] = angle * (angleScale / sqrtf(values[row * k + j]));
            }
            __syncwarp();
            // Blocks of three and a last pair; what turned replaces the angles.
            for (int b = lane; 3 * b < k; b += 32) {
                float* local = mine[2] + 3 * b;
                float* angle = mine[3] + 3 * b;
                if (3 * b + 3 <= k) {
                    float turned[3];
                    rotate(angle, local, turned);
                    for (int c = 0; c < 3; c++) angle[c] = turned[c] - local[c];
                } else if (3 * b + 2 == k) {
                    const float sine = sinf(angle[0]), cosine = cosf(angle[0]);
                    const float x = cosine * local[0] - sine * local[1], y = sine * local[0] + cosine * local[1];
                    angle[0] = x - local[0], angle[1] = y - local[1];
                } else {
                    angle[0] = 0.0f * local[0];
                }
            }
            __syncwarp();
            Pair residual = Pair{0.0f, 0.0f};
            for (int j = 0; j < k; j++) {
                const float d = mine[3][j];
                if (lane < n) residual.a = __fmaf_rn(basis[lane * k + j], d, residual.a);
                if (lane + 32 < n) residual.b = __fmaf_rn(basis[(lane + 32) * k + j], d, residual.b);
            }
            if (all_finite(residual)) {
                step.a = __fmaf_rn(gain, residual.a, step.a), step.b = __fmaf_rn(gain, residual.b, step.b);
            } else {
                flag |= fallbackLie;
            }
        }
    }
    if (lane == 0) flags[row] = flag;
    store_pair(next + row * n, n, Pair{start.a + step.a, start.b + step.b});
    if (blocks > 0) {
        __syncwarp();
        store_pair(mine[0], n, start);
        store_pair(mine[1], n, step);
        __syncwarp();
        for (int b = lane; b < blocks; b += 32) {
            float out[3];
            compose_block(mine[0] + 3 * b, mine[1] + 3 * b, out);
            for (int c = 0; c < 3; c++) next[row * n + 3 * b + c] = out[c];
        }
    }
}
GPC_KERNEL(gpc_step_end)
