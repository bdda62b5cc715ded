// rollout_begin.cu: where the roll-outs of a search begin: all in the observed state,
// each at its own latent,
//
//	z = z_0 + o_0
//
// with o_0 the offset at the first step.
//
// Grid ⌈rows·max(n_s, n_c, n)/128⌉, block 128: a thread an entry of each. No shared memory. Bound: bytes, about
// 8·n + 8·(n_s + n_c) a row.
#include "gpc.cuh"

struct gpc_rollout_start {
    const double* s;     // [states]
    const double* c;     // [contexts]
    const float* latent; // [n] z_0
    const float* offsets; // [rows, ldoffsets]
    double* rollS;       // [rows, states]
    double* rollC;       // [rows, contexts]
    float* z;            // [rows, n]
    int rows, n, states, contexts, ldoffsets, pad;
};

extern "C" __global__ void __launch_bounds__(128) gpc_rollout_begin(gpc_rollout_start job) {
    const int each = max(max(job.states, job.contexts), job.n);
    for (int64_t at = gpc_thread_x(); at < (int64_t)job.rows * each; at += gpc_threads_x()) {
        const int64_t i = at / each;
        const int j = (int)(at % each);
        if (j < job.states) job.rollS[i * job.states + j] = job.s[j];
        if (j < job.contexts) job.rollC[i * job.contexts + j] = job.c[j];
        if (j < job.n) job.z[i * job.n + j] = job.latent[j] + job.offsets[i * job.ldoffsets + j];
    }
}
GPC_KERNEL(gpc_rollout_begin)
