// loop_settle.cu: the end of a decision of many loops: what is reported of it, and
// the new latents where they are finite.
//
//	residual = ‖x̂ − (ŝ − mean)/scale‖²,  displacement = ‖z_{t+1} − z_t‖
//
// flags gets bit 1 for a finite z_{t+1} and first action, bit 4 for a consistent
// localization, beside bit 2 of gpc_domain_priority. A row with such a latent and
// no mark in hold becomes the loop's latent.
//
// Grid ⌈rows/4⌉, block 128: a warp a row. No shared memory. Bound: bytes, about
// 4·(4n + 2n_s) a row.
#include "gpc.cuh"
#include "flow.cuh"

struct gpc_settle {
    const float* z;       // [rows, n] z_t
    const float* moved;   // [rows, n] z_{t+1}
    const float* plan;    // [rows, ldplan] decoded at z_{t+1}
    const float* normal;  // [rows, states] x̂
    const float* decoded; // [rows, states] ŝ, physical
    const float* mean;
    const float* scale;
    const unsigned char* consistent; // [rows]; nullptr: all are
    const unsigned char* hold;       // [rows]
    float* latents;          // [rows, n]
    double* residual;        // [rows]
    double* displacement;    // [rows]
    unsigned char* flags;    // [rows]
    int rows, n, states, actions, ldplan, pad;
};

extern "C" __global__ void __launch_bounds__(128) gpc_loop_settle(gpc_settle job) {
    using namespace gpc;
    const long long row = (long long)blockIdx.x * flowWarps + threadIdx.x / 32;
    if (row >= job.rows) return;
    const int lane = threadIdx.x % 32;
    double residual = 0.0;
    for (int i = lane; i < job.states; i += 32) {
        const long long e = row * job.states + i;
        const double d = (double)job.normal[e] - (double)((job.decoded[e] - job.mean[i]) / job.scale[i]);
        residual += d * d;
    }
    residual = warp_sum64(residual);
    const Pair from = load_pair(job.z + row * job.n, job.n), to = load_pair(job.moved + row * job.n, job.n);
    const double a = (double)to.a - (double)from.a, b = (double)to.b - (double)from.b;
    const double moved = warp_sum64(a * a + b * b);
    bool sound = all_finite(to);
    for (int i = lane; i < job.actions; i += 32) sound = sound && gpc_finite(job.plan[row * job.ldplan + i]);
    sound = !warp_any(!sound);
    if (sound && !job.hold[row]) store_pair(job.latents + row * job.n, job.n, to);
    if (lane == 0) {
        job.residual[row] = residual, job.displacement[row] = sqrt(moved);
        job.flags[row] = (unsigned char)((job.flags[row] & 2) | (sound ? 1 : 0) | (!job.consistent || job.consistent[row] ? 4 : 0));
    }
}
GPC_KERNEL(gpc_loop_settle)
