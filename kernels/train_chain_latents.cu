// Training: the inputs of D_u for a batch of rows with their chains of latents
// (ref.ChainLoss), code l of row r at row l·rows + r: the code z of the row, then
// z̃_1 … z̃_H.
//
// grid    ⌈rows·n_z/256⌉ (at most 4096, then strided); block 256 threads
// shared  none
// bound   bytes: 4·(1 + H)·n_z read and as many written per row
#include "gpc.cuh"
#include "train.cuh"

// index has the data set's rows; z has their codes, chain z̃_h of row i at row
// i·horizon + h − 1.
extern "C" __global__ void __launch_bounds__(256)
    gpc_train_chain_latents(int rows, int nz, int ldz, int horizon, const int* index, const float* z, const float* chain, float* out) {
    const long long plane = (long long)rows * ldz;
    for (int64_t at = gpc_thread_x(); at < (int64_t)rows * nz; at += gpc_threads_x()) {
        const int r = (int)(at / nz), i = (int)(at % nz), row = index[r];
        float* o = out + (long long)r * ldz + i;
        o[0] = z[(long long)row * ldz + i];
        for (int h = 0; h < horizon; h++) o[(h + 1) * plane] = chain[((long long)row * horizon + h) * ldz + i];
    }
}
GPC_KERNEL(gpc_train_chain_latents)
