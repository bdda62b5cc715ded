// Training: the sums of a step's losses, from the partial sums of tiles and
// blocks, added in a fixed order in double precision.
//
// grid    one block per loss; block 128 threads
// shared  1 KiB
// bound   latency: some hundred numbers
#include "gpc.cuh"
#include "train.cuh"

// out[loss] becomes the sum, added to what is there if accumulate. The partial
// sums of loss i are count[i] numbers from partial + offset[i] on; spans has these two
// for each loss.
extern "C" __global__ void __launch_bounds__(128)
    gpc_train_losses(const int* spans, const float* partial, double* out, int accumulate) {
    __shared__ double sums[128];
    const int offset = spans[2 * blockIdx.x], count = spans[2 * blockIdx.x + 1];
    const int t = (int)threadIdx.x;
    double sum = 0.0;
    for (int i = t; i < count; i += 128) sum += (double)partial[offset + i];
    sums[t] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = accumulate ? out[blockIdx.x] + sums[0] : sums[0];
}
GPC_KERNEL(gpc_train_losses)
