// Training: the inputs of D_u for a batch of transitions, five latents each, in the
// order z_t, z_{t+1}, ẑ^α, ẑ^{α_f}, z̃ (ref.RolloutLatents), latent l of transition r
// at row l·rows + r:
//
//   ẑ^f = z_t + f (z_{t+1} − z_t)
//
// grid    ⌈rows·n_z/256⌉ (at most 4096, then strided); block 256 threads
// shared  none
// bound   bytes: 12·n_z read and 20·n_z written per transition
#include "gpc.cuh"
#include "train.cuh"

// index has the data set's rows, next the successor of each of its rows; z and lie
// have the codes and the Lie rollout latents of the whole data set.
extern "C" __global__ void __launch_bounds__(256)
    gpc_train_rollout_latents(int rows, int nz, int ldz, const int* index, const int* next, const float* z, const float* lie,
                              float alpha, float flow, float* out) {
    const long long plane = (long long)rows * ldz;
    for (int64_t at = gpc_thread_x(); at < (int64_t)rows * nz; at += gpc_threads_x()) {
        const int r = (int)(at / nz), i = (int)(at % nz), row = index[r];
        const float now = z[(long long)row * ldz + i], then = z[(long long)next[row] * ldz + i], move = then - now;
        float* o = out + (long long)r * ldz + i;
        o[0] = now;
        o[plane] = then;
        o[2 * plane] = now + alpha * move;
        o[3 * plane] = now + flow * move;
        o[4 * plane] = lie[(long long)row * ldz + i];
    }
}
GPC_KERNEL(gpc_train_rollout_latents)
