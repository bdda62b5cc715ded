// jacobian.cu: the exact Jacobian of a network, and the pullback metric JᵀJ + λI
// without J leaving the multiprocessor (eq. iclr-lie-residual).
//
//	T_1 = D_1 W_1,  T_l = D_l W_l T_{l−1},  J = W_L T_{L−1},  G = JᵀJ + λI
//
// with D_l the 0/1 slopes of hidden layer l, from mlp_forward's masks. Rows of T
// whose slope is 0 are neither stored nor multiplied: the product runs over the
// list of active units only, gathering the rows of the transposed weights, and so
// costs about half of the dense 2 Σ in·out·n FLOP (5.3 MFLOP a row for
// 32 → 256 → 256 → 60, half of it with half of the units active).
//
// Grid (rows, ⌈n/C⌉), block 256: one block one row of the batch and C = 8, 16, 32 or
// 64 columns of J (n ≤ C where the metric is wanted). Shared memory: two buffers of
// T [width][C + 4], 32 KiB of weights in transit and the lists; 106 KiB at C = 32,
// width 256, and 128 registers: two blocks to a multiprocessor; one at C = 64 (231
// registers). No spills. The last tiles of J lie in the buffer that T_{L−2} has
// left.
//
// Bound: FMA; a gathered weight row of 1 KiB feeds 256·32 FMA, 16 FLOP/byte.
#include "gpc.cuh"
#include "jacobian.cuh"
#include "net.cuh"

namespace gpc {

// Gram holds a thread's entries of JᵀJ, added up a tile of J at a time: the block's
// warps share the rows, and a thread the columns, as in any product.
template <int COLUMNS>
struct Gram {
    using Sums = RowsSums<COLUMNS, COLUMNS>;
    static constexpr int held = Sums::own * Sums::passes;
    float sum[held];

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < held; i++) sum[i] = 0.0f;
    }

    // add takes rows of J, [count][rows_ld], at most 64. All threads call it.
    __device__ void add(const float* j, int count, float* stage) {
        constexpr int LD = rows_ld<COLUMNS>();
        Sums part(COLUMNS);
        part.template add<LD, 64 / Sums::groups>(j, j, count);
        int at = 0;
        part.finish(stage, [&](int, int, int, const float* v, int many) {
#pragma unroll
            for (int i = 0; i < many; i++) sum[at++] += v[i];
        });
    }

    __device__ void write(float* g, int n, float lambda, float poison) const {
        const int b = threadIdx.x % COLUMNS;
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int a = threadIdx.x / COLUMNS + i * (rowsThreads / COLUMNS);
            if (a < n && b < n) g[a * n + b] = sum[i] + (a == b ? lambda : 0.0f) + poison;
        }
    }
};

// Of 8 columns a thread has one entry.
template <>
struct Gram<8> {
    float sum;

    __device__ void clear() { sum = 0.0f; }

    __device__ void add(const float* j, int count, float*) {
        if (threadIdx.x < 64)
            for (int i = 0; i < count; i++) sum = __fmaf_rn(j[8 * i + threadIdx.x / 8], j[8 * i + threadIdx.x % 8], sum);
        __syncthreads();
    }

    __device__ void write(float* g, int n, float lambda, float poison) const {
        const int a = threadIdx.x / 8, b = threadIdx.x % 8;
        if (a < n && b < n) g[a * n + b] = sum + (a == b ? lambda : 0.0f) + poison;
    }
};

template <int COLUMNS>
__device__ inline void jacobian(const gpc_jacobian& job, float* shared) {
    constexpr int LD = rows_ld<COLUMNS>(), tile = 64;
    const gpc_net& net = *job.net;
    const int n = net.in, width = net.width > tile ? net.width : tile;
    const long long row = blockIdx.x;
    const int first = blockIdx.y * COLUMNS; // of the columns of J
    const unsigned int* mask = job.mask + row * net.mask_words;
    float* stage = shared;
    float* t = shared + rowsStage;
    float* next = t + width * LD;
    unsigned short* list = reinterpret_cast<unsigned short*>(next + width * LD);
    unsigned short* nextList = list + width;
    unsigned short* rank = nextList + width;
    const float poison = mask[0] ? gpc_nan() : 0.0f;
    Gram<COLUMNS> gram;
    gram.clear();

    // T has a row for each active unit.
    int active = 0;
    if (net.layers > 1) {
        const gpc_layer& l = net.layer[0];
        active = active_units(mask + l.mask, l.out, list, rank);
        __syncthreads();
        for (int e = threadIdx.x; e < active * COLUMNS; e += rowsThreads) {
            const int a = e / COLUMNS, j = e % COLUMNS;
            t[a * LD + j] = first + j < n ? l.weight[(long long)list[a] * l.ldw + first + j] : 0.0f;
        }
    }
    for (int layer = 1; layer + 1 < net.layers; layer++) {
        const gpc_layer& l = net.layer[layer];
        const int nextActive = active_units(mask + l.mask, l.out, nextList, rank);
        __syncthreads();
        // Of 256 units a product makes the active ones, side by side.
        int before = 0;
        for (int unit0 = 0; unit0 < l.out; unit0 += 256) {
            int columns = 0;
            for (int word = unit0 / 32; word < min(unit0 / 32 + 8, l.words); word++) columns += __popc(mask[l.mask + word]);
            const PackedWeights weights(l.transposed, l.ldt, unit0, list, rank + unit0, before);
            rows_product<COLUMNS, 256>(t, active, weights, columns, stage, [&](int unit, int column, int step, const float* v, int count) {
                if (unit < columns) rows_put<COLUMNS, Order::FLOAT32>(next, before + unit, column, step, v, count);
            });
            before += columns;
        }
        __syncthreads();
        float* swap = t;
        t = next, next = swap;
        unsigned short* swapList = list;
        list = nextList, nextList = swapList;
        active = nextActive;
    }
    __syncthreads();
    // Read once: stores to J might change the network, for all the compiler knows.
    const gpc_layer last = net.layer[net.layers - 1];
    const bool hidden = net.layers > 1;
    float* jac = job.jac ? job.jac + row * job.ldjac + first : nullptr;
    for (int out0 = 0; out0 < last.out; out0 += tile) {
        const int outs = min(tile, last.out - out0);
        // Without a hidden layer J is the weight itself: a product over nothing.
        const ChosenWeights weights(last.transposed, last.ldt, out0, list);
        rows_product<COLUMNS, tile>(t, hidden ? active : 0, weights, outs, stage, [&](int out, int from, int step, const float* v, int count) {
            if (out >= outs) return;
            float* to = next + out * LD + from;
            const float* direct = hidden ? nullptr : last.weight + (long long)(out0 + out) * last.ldw + first + from;
#pragma unroll
            for (int i = 0; i < count; i++) {
                const int held = i * step;
                const bool inside = first + from + held < n;
                const float j = hidden ? v[i] : (inside ? direct[held] : 0.0f);
                if (jac && inside) jac[(out0 + out) * n + from + held] = j + poison;
                if (job.metric) to[held] = j;
            }
        });
        if (job.metric) {
            __syncthreads();
            gram.add(next, outs, stage);
        }
    }
    if (job.metric) gram.write(job.metric + row * job.ldmetric, n, job.lambda, poison);
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256, 2) gpc_jacobian_8(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian<8>(job, shared);
}
GPC_KERNEL(gpc_jacobian_8)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_jacobian_16(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian<16>(job, shared);
}
GPC_KERNEL(gpc_jacobian_16)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_jacobian_32(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian<32>(job, shared);
}
GPC_KERNEL(gpc_jacobian_32)

extern "C" __global__ void __launch_bounds__(256, 1) gpc_jacobian_64(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian<64>(job, shared);
}
GPC_KERNEL(gpc_jacobian_64)
