// Training on several devices: sums of partial gradients, in the order in which they lie,
// first those of the splits of a device's own samples, then those of the devices:
//
//   to[i] = Σ_s from[s·step + i]
//
// grid    Σ ⌈size/1024⌉ over the entries; block 256 threads, four numbers each
// shared  none
// bound   bytes: 4·(terms + 1) per parameter
#include "gpc.cuh"
#include "train.cuh"

// The launcher packs this structure byte for byte (kernels/trainer_share.go).
struct gpc_train_terms {
    const float* from;
    float* to;
    long long step;
    int terms;
    int size;  // numbers, a multiple of 4
    int first; // number of its first block
    int pad;
};

extern "C" __global__ void __launch_bounds__(256) gpc_train_sum(const gpc_train_terms* list, int count) {
    const gpc_train_terms l = *gpc::train_entry(list, count);
    const int at = (((int)blockIdx.x - l.first) * 256 + (int)threadIdx.x) * 4;
    if (at >= l.size) return;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int s = 0; s < l.terms; s++) {
        const float4 q = *reinterpret_cast<const float4*>(l.from + s * l.step + at);
        sum = make_float4(sum.x + q.x, sum.y + q.y, sum.z + q.z, sum.w + q.w);
    }
    *reinterpret_cast<float4*>(l.to + at) = sum;
}
GPC_KERNEL(gpc_train_sum)
