// Training: the losses of eq. iclr-rollout-loss over a batch of rows with their chains
// of H latents, and the deltas of D_u's outputs. With y the outputs at z and at z̃_h, and
// Π_h the h-th of H equal parts of a plan:
//
//   act   ‖y_0 − u‖²          roll   Σ_h ω_h ‖Π_h (y_h − u)‖²
//
// grid    ⌈rows/8⌉; block 256 threads, a warp per row
// shared  32 bytes
// bound   bytes: 4·(2 + H)·n_u read and 4·(1 + H)·n_u written per row
#include "gpc.cuh"
#include "train.cuh"

// y has latent l of row r at row l·rows + r and becomes the deltas. weight has ω_h of
// row i at i·horizon + h − 1. share is one over the number of rows of the whole batch.
// partial has two runs of gridDim.x sums.
extern "C" __global__ void __launch_bounds__(256)
    gpc_train_chain_loss(int rows, int nu, int ldy, int horizon, float* y, const int* index, const float* u, int ldu,
                         const float* weight, float share, float lambdaRoll, float* partial) {
    __shared__ float scratch[8];
    const int r = (int)blockIdx.x * 8 + (int)threadIdx.x / GPC_WARP, lane = (int)threadIdx.x % GPC_WARP;
    float act = 0.0f, roll = 0.0f;
    if (r < rows) {
        const int row = index[r], part = nu / horizon;
        const float* target = u + (long long)row * ldu;
        const long long plane = (long long)rows * ldy;
        float* at = y + (long long)r * ldy;
        for (int i = lane; i < nu; i += GPC_WARP) {
            const float a = target[i], miss = at[i] - a;
            act += miss * miss;
            at[i] = 2.0f * share * miss;
            for (int h = 0; h < horizon; h++) {
                float* then = at + (h + 1) * plane + i;
                const float w = i / part == h ? weight[(long long)row * horizon + h] : 0.0f;
                const float e = *then - a;
                roll += w * e * e;
                *then = 2.0f * share * w * lambdaRoll * e;
            }
        }
        act = gpc::train_warp_sum(act);
        roll = gpc::train_warp_sum(roll);
    }
    act = gpc::train_block_sum(act, scratch);
    if (threadIdx.x == 0) partial[blockIdx.x] = act;
    roll = gpc::train_block_sum(roll, scratch);
    if (threadIdx.x == 0) partial[gridDim.x + blockIdx.x] = roll;
}
GPC_KERNEL(gpc_train_chain_loss)
