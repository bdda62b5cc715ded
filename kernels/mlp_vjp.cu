// mlp_vjp.cu: z̄ = (∂net/∂z)ᵀ ȳ, from the masks that mlp_forward left.
//
//	ȳ_L = ȳ,  ȳ_{l−1} = slope_{l−1} ⊙ (W_lᵀ ȳ_l),  z̄ = ȳ_0
//
// The cotangent ȳ is given, or made on the way in as the field needs it
// (eq. iclr-energy): for D_s
//
//	ȳ = factor · ((x − mean)/scale − y) + scale ⊙ g,   factor = −2/ε, g = ∂(wᵀJ)/∂s
//
// and for D_u  ȳ = scale ⊙ g on the first action, 0 on the others. A slope of 0
// multiplies, so that a NaN cotangent stays NaN.
//
// Grid (⌈rows/R⌉, jobs), block 256, R = 32, 8 or 1 (include/pass.cuh); shared memory
// and bound as mlp_forward: 2 Σ in·out FLOP a row, 16 FLOP/byte of L2 traffic. At most
// 128 registers, no spills.
#include "gpc.cuh"
#include "net.cuh"
#include "pass.cuh"

namespace gpc {

// backward_layer makes the cotangent below layer l; with masks (the layer below
// is hidden) into next, without into the result.
template <int ROWS, int CT, Order ORDER>
__device__ inline void backward_layer(const gpc_layer& l, const gpc_layer* below, int stride, const gpc_vjp& job, int row0, int rows,
                                      const float* bar, float* next, float* stage) {
    for (int column0 = 0; column0 < l.in; column0 += CT) {
        auto put = [&](int column, int first, int step, float* v, int count) {
            column += column0;
            if (column >= (below ? rows_padded<ORDER>(l.in) : l.in)) return;
#pragma unroll
            for (int i = 0; i < count; i++) {
                const int row = row0 + first + i * step;
                if (!below) {
                    if (row < rows) job.zbar[(long long)row * job.ldzbar + column] = v[i];
                } else {
                    const unsigned int bits = row < rows && column < l.in ? job.mask[(long long)row * stride + below->mask + column / 32] : 0u;
                    v[i] = column < l.in ? v[i] * ((bits >> (column % 32)) & 1u ? 1.0f : 0.0f) : 0.0f;
                }
            }
            if (below) rows_put<ROWS, ORDER>(next, column, first, step, v, count);
        };
        const int columns = min(CT, l.in - column0);
        if constexpr (on_tensor_cores(ORDER))
            fragment_product<ROWS, CT, false>(bar, l.out, l.backward, column0, columns, stage, put);
        else
            rows_product<ROWS, CT>(bar, l.out, Weights(l.weight, l.ldw, column0), columns, stage, put);
    }
}

template <int ROWS, Order ORDER>
__device__ inline void vjp(int rows, const gpc_vjp& job, float* shared) {
    const gpc_net& net = *job.net;
    float* stage = shared;
    float* bar = shared + rowsStage;
    // The cotangent of the output may be wider than any hidden layer.
    const int out = (net.out + 15) & ~15, width = net.width > out ? net.width : out;
    float* next = bar + width * rows_ld<ROWS>();
    const int row0 = blockIdx.x * ROWS;
    const int padded = rows_padded<ORDER>(net.out);
    for (int e = threadIdx.x; e < ROWS * padded; e += rowsThreads) {
        const int r = e / padded, k = e % padded;
        bar[rows_at<ROWS, ORDER>(k, r)] = row0 + r < rows && k < net.out ? activation<ORDER>(cotangent(job, row0 + r, k)) : 0.0f;
    }
    __syncthreads();
    for (int l = net.layers - 1; l >= 0; l--) {
        const gpc_layer* below = l > 0 ? &net.layer[l - 1] : nullptr;
        if (net.layer[l].in > 64)
            backward_layer<ROWS, 256, ORDER>(net.layer[l], below, net.mask_words, job, row0, rows, bar, next, stage);
        else if (net.layer[l].in > 32)
            backward_layer<ROWS, 64, ORDER>(net.layer[l], below, net.mask_words, job, row0, rows, bar, next, stage);
        else
            backward_layer<ROWS, 32, ORDER>(net.layer[l], below, net.mask_words, job, row0, rows, bar, next, stage);
        __syncthreads();
        float* t = bar;
        bar = next, next = t;
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_vjp_32(int rows, gpc_vjp first, gpc_vjp second) {
    GPC_SHARED(float, shared);
    const gpc_vjp job = blockIdx.y == 0 ? first : second;
    gpc::vjp<32, gpc::Order::FLOAT32>(rows, job, shared);
}
GPC_KERNEL(gpc_mlp_vjp_32)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_vjp_8(int rows, gpc_vjp first, gpc_vjp second) {
    GPC_SHARED(float, shared);
    const gpc_vjp job = blockIdx.y == 0 ? first : second;
    gpc::vjp<8, gpc::Order::FLOAT32>(rows, job, shared);
}
GPC_KERNEL(gpc_mlp_vjp_8)

extern "C" __global__ void __launch_bounds__(256) gpc_mlp_vjp_1(int, gpc_vjp first, gpc_vjp second) {
    GPC_SHARED(float, shared);
    const gpc_vjp job = blockIdx.y == 0 ? first : second;
    gpc::one_vjp(job, shared);
}
GPC_KERNEL(gpc_mlp_vjp_1)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_vjp_32_tf32(int rows, gpc_vjp first, gpc_vjp second) {
    GPC_SHARED(float, shared);
    const gpc_vjp job = blockIdx.y == 0 ? first : second;
    gpc::vjp<32, gpc::Order::SLICES>(rows, job, shared);
}
GPC_KERNEL(gpc_mlp_vjp_32_tf32)
