// Training: the gradient's partial sums, added in order of the splits, and Adam's
// update of weights and biases (Kingma and Ba):
//
//   g = Σ_split partial,  m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²
//   w ← w − rate·m/(√(second·v) + ε),  rate = lr/(1−β₁ᵗ), second = 1/(1−β₂ᵗ)
//
// grid    Σ ⌈size/1024⌉ over the layers; block 256 threads, four numbers each
// shared  none
// bound   bytes: 4·(splits + 6) per parameter; at 380 000 parameters and 12 splits
//         27 MB, all of it in an H200's second-level cache
#include "gpc.cuh"
#include "train.cuh"

// factors is {rate, second}, new in every step.
extern "C" __global__ void __launch_bounds__(256)
    gpc_train_adam(const gpc::TrainLayer* layers, int count, const float* factors, float beta1, float beta2, float epsilon) {
    const gpc::TrainLayer l = *gpc::train_entry(layers, count);
    const int at = (((int)blockIdx.x - l.first) * 256 + (int)threadIdx.x) * 4;
    if (at >= l.size) return;
    const float rate = factors[0], second = factors[1], rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float* partial = l.partial + at;
    for (int s = 0; s < l.splits; s++) {
        const float4 q = *reinterpret_cast<const float4*>(partial + (long long)s * l.size);
        sum = make_float4(sum.x + q.x, sum.y + q.y, sum.z + q.z, sum.w + q.w);
    }
    const float4 w4 = *reinterpret_cast<const float4*>(l.w + at), m4 = *reinterpret_cast<const float4*>(l.m + at),
                 v4 = *reinterpret_cast<const float4*>(l.v + at);
    const float g[4] = {sum.x, sum.y, sum.z, sum.w};
    float w[4] = {w4.x, w4.y, w4.z, w4.w}, m[4] = {m4.x, m4.y, m4.z, m4.w}, v[4] = {v4.x, v4.y, v4.z, v4.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        m[j] = beta1 * m[j] + rest1 * g[j];
        v[j] = beta2 * v[j] + rest2 * g[j] * g[j];
        w[j] -= rate * m[j] / (sqrtf(v[j] * second) + epsilon);
    }
    *reinterpret_cast<float4*>(l.w + at) = make_float4(w[0], w[1], w[2], w[3]);
    *reinterpret_cast<float4*>(l.m + at) = make_float4(m[0], m[1], m[2], m[3]);
    *reinterpret_cast<float4*>(l.v + at) = make_float4(v[0], v[1], v[2], v[3]);
}
GPC_KERNEL(gpc_train_adam)
