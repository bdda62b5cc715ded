// step_one.cu: what a step of one row has of its own, so that it takes few launches and
// no copies.
//
// gpc_one_take brings what the host observed from pinned memory, which every thread
// waits for at the same time, to where later kernels read it. gpc_one_forward is the
// first half of RK2 and the forward passes at the midpoint, which it keeps to itself;
// gpc_one_decode the second half and the decoded action. What the host asks for
// (energy, flags, latent, action) they write to pinned memory themselves.
//
// Grid: gpc_one_take a block of 128 for each of 4 pieces; gpc_one_forward (1, jobs),
// gpc_one_decode 1, block 256, shared memory as mlp_forward.cu for one row. Each block's
// first warp makes the half step, while the others already read weights. Bound: latency,
// and the weights' way from the second-level cache.
#include "gpc.cuh"
#include "pass.cuh"
#include "step.cuh"

struct gpc_take {
    const float* from[4]; // pinned
    float* to[4];
    int count[4];
};

extern "C" __global__ void __launch_bounds__(128) gpc_one_take(gpc_take job) {
    // Chosen so that the arguments stay where they are, which an index would copy.
    const int piece = blockIdx.x;
    const float* from = piece == 0 ? job.from[0] : piece == 1 ? job.from[1] : piece == 2 ? job.from[2] : job.from[3];
    float* to = piece == 0 ? job.to[0] : piece == 1 ? job.to[1] : piece == 2 ? job.to[2] : job.to[3];
    const int count = piece == 0 ? job.count[0] : piece == 1 ? job.count[1] : piece == 2 ? job.count[2] : job.count[3];
    for (int i = threadIdx.x; i < count; i += 128) to[i] = from[i];
}
GPC_KERNEL(gpc_one_take)

extern "C" __global__ void __launch_bounds__(256) gpc_one_forward(gpc_middle middle, gpc_forward first, gpc_forward second) {
    GPC_SHARED(float, shared);
    const gpc_forward job = blockIdx.y == 0 ? first : second;
    gpc::one_forward(job, shared, [&](float* act) {
        if (threadIdx.x < 32) gpc::store_pair(act, middle.n, gpc::middle_row(middle, 0, blockIdx.y == 0));
    });
}
GPC_KERNEL(gpc_one_forward)

extern "C" __global__ void __launch_bounds__(256) gpc_one_decode(gpc_end end, gpc_forward job) {
    GPC_SHARED(float, shared);
    gpc::one_forward(job, shared, [&](float* act) {
        if (threadIdx.x >= 32) return;
        gpc::end_row(end, 0, reinterpret_cast<float(*)[64]>(shared), act);
        __syncwarp();
        for (int i = threadIdx.x; i < end.n; i += 32) end.next[i] = act[i];
    });
}
GPC_KERNEL(gpc_one_decode)
