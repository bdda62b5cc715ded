// step.cuh: the two halves of RK2 in a latent step, a warp for each row, as kernels of
// their own (step_middle.cu, step_end.cu) and, for one row, at the head of the pass
// that follows (step_one.cu).
#pragma once
#include "flow.cuh"
#include "gpc.cuh"

// The launcher packs these structures byte for byte (kernels/stepper_flow.go).
struct gpc_middle {
    const float* z;       // [rows, n]
    const float* zbarS;   // [rows, n]
    const float* zbarU;   // [rows, n] or nullptr: no problem
    float* f;             // [rows, n] the field, or nullptr
    float* k1;            // [rows, n], nullptr: only the field is wanted
    float* mid;           // [rows, n] or nullptr
    unsigned char* flags; // [rows], with k1
    float* energy;        // [rows] or nullptr
    const float* x;       // [rows, ldx]
    const float* y;       // [rows, ns] D_s(z)
    const float* mean;    // [ns]
    const float* scale;
    const float* objectives; // [rows, m]
    const float* weights;    // [rows, ldweights]
    float dt, vmax, epsilon;
    int n, ns, ldx, m, ldweights;
};

struct gpc_end {
    const float* z;     // [rows, n]
    const float* zbarS; // [rows, n] at the midpoint
    const float* zbarU; // [rows, n] or nullptr
    const float* k1;    // [rows, n]
    const float* values;  // [rows, k]
    const float* vectors; // [rows, n, k]
    const unsigned char* before; // [rows] flags of the first half
    unsigned char* flags;        // [rows] of both; may be `before`
    float* next;                 // [rows, n]
    float dt, vmax, gain, angle; // angle: s_L Δt
    int n, k, blocks, pad;
};

namespace gpc {

// middle_row is the first half of one row, and gives its midpoint (where k1 is wanted).
// Only with `writes` does it leave anything.
__device__ inline Pair middle_row(const gpc_middle& job, long long row, bool writes) {
    const int lane = threadIdx.x % 32, n = job.n;
    if (job.energy && writes) {
        float sum = 0.0f;
        for (int i = lane; i < job.ns; i += 32) {
            const float r = (job.x[row * job.ldx + i] - job.mean[i]) / job.scale[i] - job.y[row * job.ns + i];
            sum = __fmaf_rn(r, r, sum);
        }
        sum = warp_sum(sum) / job.epsilon;
        for (int i = 0; i < job.m; i++) sum = __fmaf_rn(job.weights[row * job.ldweights + i], job.objectives[row * job.m + i], sum);
        if (lane == 0) job.energy[row] = sum;
    }
    const Pair slope = field(job.zbarS + row * n, job.zbarU ? job.zbarU + row * n : nullptr, n);
    if (job.f && writes) store_pair(job.f + row * n, n, slope);
    if (!job.k1) return slope;
    const Pair start = load_pair(job.z + row * n, n), k = cap(slope, job.vmax);
    Pair to = start;
    unsigned char flag = 0;
    if (!all_finite(k)) {
        flag = fallbackNoStep;
    } else {
        to = Pair{__fmaf_rn(0.5f * job.dt, k.a, start.a), __fmaf_rn(0.5f * job.dt, k.b, start.b)};
        if (!all_finite(to)) to = start, flag = fallbackMidpoint;
    }
    if (writes) {
        store_pair(job.k1 + row * n, n, k);
        if (job.mid) store_pair(job.mid + row * n, n, to);
        if (lane == 0) job.flags[row] = flag;
    }
    return to;
}

// end_row is the second half of one row, whose new latent goes to `next` [n]; mine is
// the warp's own shared memory.
__device__ inline void end_row(const gpc_end& job, long long row, float (*mine)[64], float* next) {
    const int lane = threadIdx.x % 32, n = job.n, k = job.k;
    const Pair start = load_pair(job.z + row * n, n);
    unsigned char flag = job.before[row];
    Pair step = Pair{0.0f, 0.0f};
    if (!(flag & fallbackNoStep)) {
        Pair slope = field(job.zbarS + row * n, job.zbarU ? job.zbarU + row * n : nullptr, n);
        if (all_finite(slope)) {
            slope = cap(slope, job.vmax);
        } else {
            slope = load_pair(job.k1 + row * n, n);
            flag |= fallbackSecondSlope;
        }
        step = Pair{job.dt * slope.a, job.dt * slope.b};
        if (k > 0) {
            store_pair(mine[0], n, step);
            store_pair(mine[1], n, slope);
            __syncwarp();
            const float* basis = job.vectors + row * n * k;
            for (int j = lane; j < k; j += 32) {
                float local = 0.0f, angle = 0.0f;
                for (int i = 0; i < n; i++) {
                    const float b = basis[i * k + j];
                    local = __fmaf_rn(b, mine[0][i], local), angle = __fmaf_rn(b, mine[1][i], angle);
                }
                mine[2][j] = local, mine[3][j] = angle * (job.angle / sqrtf(job.values[row * k + j]));
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
                step.a = __fmaf_rn(job.gain, residual.a, step.a), step.b = __fmaf_rn(job.gain, residual.b, step.b);
            } else {
                flag |= fallbackLie;
            }
        }
    }
    if (lane == 0) job.flags[row] = flag;
    store_pair(next, n, Pair{start.a + step.a, start.b + step.b});
    if (job.blocks > 0) {
        __syncwarp();
        store_pair(mine[0], n, start);
        store_pair(mine[1], n, step);
        __syncwarp();
        for (int b = lane; b < job.blocks; b += 32) {
            float out[3];
            compose_block(mine[0] + 3 * b, mine[1] + 3 * b, out);
            for (int c = 0; c < 3; c++) next[3 * b + c] = out[c];
        }
    }
}

} // namespace gpc
