// Training: the losses of eq. du_obj over a batch of transitions and the deltas of
// D_u's outputs. With y the outputs at z_t, z_{t+1}, ẑ^α, ẑ^{α_f}, z̃, Δu = u_{t+1} − u_t and
// w the trajectory risk over its batch mean (eq. traj_weight):
//
//   act      ‖y_t − u_t‖²             next       ‖y_{t+1} − u_{t+1}‖²
//   delta    ‖y_{t+1} − y_t − Δu‖²    roll       w‖y_α − u_{t+1}‖²
//   flow     w‖y_f − (u_t + α_f Δu)‖²
//   lieAct   w‖y_z̃ − u_{t+1}‖²        lieDelta   w‖y_z̃ − y_t − Δu‖²
//   anchor   w‖z̃ − ẑ^α‖²              reg        w‖Δz_Lie‖²        (reported only)
//
// grid    ⌈rows/8⌉; block 256 threads, a warp per transition
// shared  32 bytes
// bound   bytes: 4·7·n_u read and 4·5·n_u written per transition
#include "gpc.cuh"
#include "train.cuh"

// y has latent l of transition r at row l·rows + r and becomes the deltas. risk is
// null or the data set's numerators, factors[2] one over their batch mean, or 0
// where every weight is 1. share is one over the number of transitions of the whole
// batch. partial has nine runs of gridDim.x sums.
extern "C" __global__ void __launch_bounds__(256)
    gpc_train_rollout_loss(int rows, int nu, int ldy, float* y, const int* index, const int* next, const float* u, int ldu,
                           const float* risk, const float* anchor, const float* reg, const float* factors, float share,
                           float lambdaDelta, float lambdaRoll, float lambdaFlow, float lambdaLie, float flow, float* partial) {
    __shared__ float scratch[8];
    const int r = (int)blockIdx.x * 8 + (int)threadIdx.x / GPC_WARP, lane = (int)threadIdx.x % GPC_WARP;
    float loss[9] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (r < rows) {
        const int row = index[r];
        const float w = factors[2] > 0.0f ? risk[row] * factors[2] : 1.0f;
        const float f = 2.0f * share, g = 2.0f * share * w;
        const float *now = u + (long long)row * ldu, *then = u + (long long)next[row] * ldu;
        const long long plane = (long long)rows * ldy;
        float* at = y + (long long)r * ldy;
        for (int i = lane; i < nu; i += GPC_WARP) {
            const float a = now[i], b = then[i], move = b - a;
            const float y0 = at[i], y1 = at[plane + i];
            const float act = y0 - a, actNext = y1 - b, delta = y1 - y0 - move;
            const float rolled = at[2 * plane + i] - b, flowed = at[3 * plane + i] - (a + flow * move);
            const float lieAct = at[4 * plane + i] - b, lieDelta = at[4 * plane + i] - y0 - move;
            loss[0] += act * act;
            loss[1] += actNext * actNext;
            loss[2] += delta * delta;
            loss[3] += rolled * rolled;
            loss[4] += flowed * flowed;
            loss[5] += lieAct * lieAct;
            loss[6] += lieDelta * lieDelta;
            at[i] = f * (act - lambdaDelta * delta) - g * lambdaLie * lambdaDelta * lieDelta;
            at[plane + i] = f * (actNext + lambdaDelta * delta);
            at[2 * plane + i] = g * lambdaRoll * rolled;
            at[3 * plane + i] = g * lambdaFlow * flowed;
            at[4 * plane + i] = g * lambdaLie * (lieAct + lambdaDelta * lieDelta);
        }
#pragma unroll
        for (int l = 0; l < 7; l++) loss[l] = gpc::train_warp_sum(loss[l]) * (l < 3 ? 1.0f : w);
        loss[7] = w * anchor[row];
        loss[8] = w * reg[row];
    }
#pragma unroll
    for (int l = 0; l < 9; l++) {
        const float sum = gpc::train_block_sum(loss[l], scratch);
        if (threadIdx.x == 0) partial[l * gridDim.x + blockIdx.x] = sum;
    }
}
GPC_KERNEL(gpc_train_rollout_loss)
