// one_metric.cu: the pullback metric JᵀJ + λI of one row, shared out among
// multiprocessors, of which jacobian.cu would use one.
//
// gpc_one_jacobian_* makes four columns of J a block,
//
//	T_1 = D_1 W_1,  T_l = D_l W_l T_{l−1},  J = W_L T_{L−1}
//
// with the active units alone on the inner side; gpc_one_metric_* is JᵀJ + λI. Every
// sum runs in the order of jacobian.cu with as many columns (RowsSums): the metric of a
// row alone is bitwise that of the row in a batch.
//
// Grid ⌈n/4⌉ and 1, block 256. Shared memory: two buffers of T [width][4], 8 KiB of
// partial sums and the lists, 17.5 KiB at width 256; and a tile of J, 64 rows.
// Bound: the weights' way from the second-level cache, half of the rows of W_l for each
// block, and latency.
#include "gpc.cuh"
#include "net.cuh"

namespace gpc {

constexpr int oneTile = 64; // outputs of a product, as in jacobian.cu

// add4 adds w·x to four columns.
__device__ inline void add4(float4& sum, const float4& x, float w) {
    sum.x = __fmaf_rn(x.x, w, sum.x), sum.y = __fmaf_rn(x.y, w, sum.y);
    sum.z = __fmaf_rn(x.z, w, sum.z), sum.w = __fmaf_rn(x.w, w, sum.w);
}

__device__ inline float4 plus(const float4& a, const float4& b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// one_units makes T of a hidden layer: a thread has a unit of 256, and reads its weights
// 16 k ahead of their use.
template <int COLUMNS>
__device__ inline void one_units(const gpc_layer& l, const float4* t, int K, const unsigned short* list, const unsigned short* rank, float4* next) {
    using Sums = RowsSums<COLUMNS, 256>;
    for (int unit0 = 0; unit0 < l.out; unit0 += rowsThreads) {
        const int unit = unit0 + int(threadIdx.x);
        const float* weights = l.transposed + min(unit, l.out - 1);
        float held[Sums::depth];
        float4 sum[Sums::groups];
#pragma unroll
        for (int g = 0; g < Sums::groups; g++) sum[g] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < Sums::depth; i++) held[i] = i < K ? weights[list[i] * l.ldt] : 0.0f;
        int k0 = 0;
        for (; k0 + 2 * Sums::depth <= K; k0 += Sums::depth) {
#pragma unroll
            for (int i = 0; i < Sums::depth; i++) {
                add4(sum[i / Sums::each], t[k0 + i], held[i]);
                held[i] = weights[list[k0 + Sums::depth + i] * l.ldt];
            }
        }
        for (; k0 < K; k0 += Sums::depth) {
#pragma unroll
            for (int i = 0; i < Sums::depth; i++) {
                if (k0 + i >= K) break;
                add4(sum[i / Sums::each], t[k0 + i], held[i]);
                if (k0 + Sums::depth + i < K) held[i] = weights[list[k0 + Sums::depth + i] * l.ldt];
            }
        }
#pragma unroll
        for (int g = 1; g < Sums::groups; g++) sum[0] = plus(sum[0], sum[g]);
        if (unit < l.out && rank[unit] != 0xffff) next[rank[unit]] = sum[0];
    }
}

template <int COLUMNS>
__device__ inline void one_jacobian(const gpc_net& net, const unsigned int* mask, float* jac, float* shared) {
    using Sums = RowsSums<COLUMNS, oneTile>;
    static_assert(rowsThreads % oneTile == 0 && Sums::groups <= 8, "a thread has an output and a part of K");
    const int width = net.width > oneTile ? net.width : oneTile, column = 4 * blockIdx.x;
    float4* t = reinterpret_cast<float4*>(shared);
    float4* next = t + width;
    float4* part = next + width; // [group][output]
    unsigned short* list = reinterpret_cast<unsigned short*>(part + 8 * oneTile);
    unsigned short* nextList = list + width;
    unsigned short* rank = nextList + width;
    const gpc_layer& first = net.layer[0];
    int active = active_units(mask + first.mask, first.out, list, rank);
    __syncthreads();
    for (int a = threadIdx.x; a < active; a += rowsThreads) t[a] = *reinterpret_cast<const float4*>(first.weight + list[a] * first.ldw + column);
    for (int layer = 1; layer + 1 < net.layers; layer++) {
        const gpc_layer& l = net.layer[layer];
        const int nextActive = active_units(mask + l.mask, l.out, nextList, rank);
        __syncthreads();
        one_units<COLUMNS>(l, t, active, list, rank, next);
        __syncthreads();
        float4* swap = t;
        t = next, next = swap;
        unsigned short* swapList = list;
        list = nextList, nextList = swapList;
        active = nextActive;
    }
    __syncthreads();
    const gpc_layer& last = net.layer[net.layers - 1];
    const int out = threadIdx.x % oneTile;
    for (int out0 = 0; out0 < last.out; out0 += oneTile) {
        const float* weights = last.transposed + min(out0 + out, last.out - 1);
        for (int g = threadIdx.x / oneTile; g < Sums::groups; g += rowsThreads / oneTile) {
            float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            for (int k0 = g * Sums::each; k0 < active; k0 += Sums::depth) {
                float w[Sums::each];
#pragma unroll
                for (int i = 0; i < Sums::each; i++) w[i] = k0 + i < active ? weights[list[k0 + i] * last.ldt] : 0.0f;
#pragma unroll
                for (int i = 0; i < Sums::each; i++)
                    if (k0 + i < active) add4(sum, t[k0 + i], w[i]);
            }
            part[g * oneTile + out] = sum;
        }
        __syncthreads();
        if (int(threadIdx.x) < oneTile && out0 + out < last.out) {
            float4 sum = part[out];
            for (int g = 1; g < Sums::groups; g++) sum = plus(sum, part[g * oneTile + out]);
            *reinterpret_cast<float4*>(jac + (out0 + out) * COLUMNS + column) = sum;
        }
        __syncthreads();
    }
}

// one_metric is JᵀJ + λI of J [outs][COLUMNS].
template <int COLUMNS>
__device__ inline void one_metric(const float* jac, const unsigned int* mask, int outs, int n, float lambda, float* metric) {
    using Sums = RowsSums<COLUMNS, COLUMNS>;
    constexpr int own = COLUMNS * COLUMNS / rowsThreads, each = oneTile / Sums::groups;
    __shared__ float tile[oneTile][COLUMNS];
    const float poison = mask[0] ? gpc_nan() : 0.0f;
    const int b = threadIdx.x % COLUMNS, a0 = threadIdx.x / COLUMNS;
    float sum[own];
#pragma unroll
    for (int i = 0; i < own; i++) sum[i] = 0.0f;
    for (int out0 = 0; out0 < outs; out0 += oneTile) {
        const int count = min(oneTile, outs - out0);
        for (int e = threadIdx.x; e < count * COLUMNS; e += rowsThreads) tile[e / COLUMNS][e % COLUMNS] = jac[out0 * COLUMNS + e];
        __syncthreads();
        float added[own];
        for (int g = 0; g < Sums::groups; g++) {
            float of[own];
#pragma unroll
            for (int i = 0; i < own; i++) of[i] = 0.0f;
            for (int r = g * each; r < min(g * each + each, count); r++)
#pragma unroll
                for (int i = 0; i < own; i++) of[i] = __fmaf_rn(tile[r][a0 + i * (rowsThreads / COLUMNS)], tile[r][b], of[i]);
#pragma unroll
            for (int i = 0; i < own; i++) added[i] = g == 0 ? of[i] : added[i] + of[i];
        }
#pragma unroll
        for (int i = 0; i < own; i++) sum[i] += added[i];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < own; i++) {
        const int a = a0 + i * (rowsThreads / COLUMNS);
        if (a < n && b < n) metric[a * n + b] = sum[i] + (a == b ? lambda : 0.0f) + poison;
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256) gpc_one_jacobian_16(const gpc_net* net, const unsigned int* mask, float* jac) {
    GPC_SHARED(float, shared);
    gpc::one_jacobian<16>(*net, mask, jac, shared);
}
GPC_KERNEL(gpc_one_jacobian_16)

extern "C" __global__ void __launch_bounds__(256) gpc_one_jacobian_32(const gpc_net* net, const unsigned int* mask, float* jac) {
    GPC_SHARED(float, shared);
    gpc::one_jacobian<32>(*net, mask, jac, shared);
}
GPC_KERNEL(gpc_one_jacobian_32)

extern "C" __global__ void __launch_bounds__(256) gpc_one_metric_16(const float* jac, const unsigned int* mask, int outs, int n, float lambda, float* metric) {
    gpc::one_metric<16>(jac, mask, outs, n, lambda, metric);
}
GPC_KERNEL(gpc_one_metric_16)

extern "C" __global__ void __launch_bounds__(256) gpc_one_metric_32(const float* jac, const unsigned int* mask, int outs, int n, float lambda, float* metric) {
    gpc::one_metric<32>(jac, mask, outs, n, lambda, metric);
}
GPC_KERNEL(gpc_one_metric_32)
