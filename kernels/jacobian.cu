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
// Grid (rows, ⌈n/C⌉), block 256: one block one row of the batch and C = 8, 32 or
// 64 columns of J (n ≤ C where the metric is wanted). Shared memory: two buffers of
// T [width][C + 4], 33 KiB of weights in transit and the lists; 107 KiB at C = 32,
// width 256, and 127 registers: two blocks to a multiprocessor; one at C = 64 (167
// registers). No spills. The last tiles of J lie in the buffer that T_{L−2} has
// left.
//
// Bound: FMA; a gathered weight row of 1 KiB feeds 256·32 FMA, 16 FLOP/byte.
#include "gpc.cuh"
#include "net.cuh"

struct gpc_jacobian {
    const gpc_net* net;
    const unsigned int* mask; // [rows, mask_words]
    float* jac;               // [rows, out·n] or nullptr
    float* metric;            // [rows, n·n] or nullptr
    float lambda;
    int ldjac, ldmetric;
    int pad;
};

namespace gpc {

// active_units lists the units whose slope is 1, ascending, and gives each its
// rank in that list (0xffff: none). The first warp does it.
__device__ inline int active_units(const unsigned int* mask, int units, unsigned short* list, unsigned short* rank, int* count) {
    if (threadIdx.x < 32) {
        const int lane = threadIdx.x;
        int total = 0;
        for (int word0 = 0; 32 * word0 < units; word0 += 32) {
            const int word = word0 + lane;
            const unsigned int bits = 32 * word < units ? mask[word] : 0u;
            int before = __popc(bits);
            const int own = before;
            for (int step = 1; step < 32; step *= 2) {
                const int other = __shfl_sync(0xffffffffu, before, lane - step < 0 ? 0 : lane - step);
                if (lane >= step) before += other;
            }
            int at = total + before - own;
            for (int b = 0; b < 32 && 32 * word + b < units; b++) {
                const bool on = (bits >> b) & 1u;
                rank[32 * word + b] = on ? (unsigned short)at : (unsigned short)0xffff;
                if (on) list[at++] = (unsigned short)(32 * word + b);
            }
            total += __shfl_sync(0xffffffffu, before, 31);
        }
        if (lane == 0) *count = total;
    }
    __syncthreads();
    const int n = *count;
    __syncthreads();
    return n;
}

// GramTile holds a thread's entries of JᵀJ: quads of one row each.
template <int COLUMNS>
struct GramTile {
    static constexpr int quads = COLUMNS * COLUMNS / 4, held = (quads + rowsThreads - 1) / rowsThreads;
    float sum[held][4];

    __device__ void clear() {
#pragma unroll
        for (int q = 0; q < held; q++) sum[q][0] = sum[q][1] = sum[q][2] = sum[q][3] = 0.0f;
    }

    // add takes rows of J, [count][LD].
    __device__ void add(const float* j, int count) {
        constexpr int LD = rows_ld<COLUMNS>();
#pragma unroll
        for (int q = 0; q < held; q++) {
            const int e = int(threadIdx.x) + q * rowsThreads;
            if (e >= quads) continue;
            const int a = e / (COLUMNS / 4), b = 4 * (e % (COLUMNS / 4));
            for (int i = 0; i < count; i++) {
                const float x = j[i * LD + a];
                const float4 y = *reinterpret_cast<const float4*>(j + i * LD + b);
                sum[q][0] = __fmaf_rn(x, y.x, sum[q][0]), sum[q][1] = __fmaf_rn(x, y.y, sum[q][1]);
                sum[q][2] = __fmaf_rn(x, y.z, sum[q][2]), sum[q][3] = __fmaf_rn(x, y.w, sum[q][3]);
            }
        }
    }

    __device__ void write(float* g, int n, float lambda, float poison) const {
#pragma unroll
        for (int q = 0; q < held; q++) {
            const int e = int(threadIdx.x) + q * rowsThreads;
            if (e >= quads) continue;
            const int a = e / (COLUMNS / 4), b = 4 * (e % (COLUMNS / 4));
            for (int c = 0; c < 4; c++)
                if (a < n && b + c < n) g[a * n + b + c] = sum[q][c] + (a == b + c ? lambda : 0.0f) + poison;
        }
    }
};

template <int COLUMNS, bool TF32>
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
    __shared__ int total;
    const float poison = mask[0] ? gpc_nan() : 0.0f;
    GramTile<COLUMNS> gram;
    gram.clear();

    int active = 0;
    if (net.layers > 1) {
        const gpc_layer& l = net.layer[0];
        active = active_units(mask + l.mask, l.out, list, rank, &total);
        for (int e = threadIdx.x; e < active * COLUMNS; e += rowsThreads) {
            const int a = e / COLUMNS, j = e % COLUMNS;
            t[a * LD + j] = first + j < n ? l.weight[(long long)list[a] * l.ldw + first + j] : 0.0f;
        }
        __syncthreads();
    }
    for (int layer = 1; layer + 1 < net.layers; layer++) {
        const gpc_layer& l = net.layer[layer];
        const int nextActive = active_units(mask + l.mask, l.out, nextList, rank, &total);
        for (int unit0 = 0; unit0 < l.out; unit0 += 256) {
            rows_product<COLUMNS, 8, TF32>(t, active, list, l.transposed, l.ldt, unit0, stage, [&](int unit, int column, int step, const float* v, int count) {
                unit += unit0;
                const int to = unit < l.out ? rank[unit] : 0xffff;
                if (to == 0xffff) return;
#pragma unroll
                for (int i = 0; i < count; i++) next[to * LD + column + i * step] = v[i];
            });
        }
        __syncthreads();
        float* swap = t;
        t = next, next = swap;
        unsigned short* swapList = list;
        list = nextList, nextList = swapList;
        active = nextActive;
    }
    const gpc_layer& last = net.layer[net.layers - 1];
    for (int out0 = 0; out0 < last.out; out0 += tile) {
        const int outs = min(tile, last.out - out0);
        // Without a hidden layer J is the weight itself: a product over nothing.
        rows_product<COLUMNS, 2, TF32>(t, net.layers > 1 ? active : 0, list, last.transposed, last.ldt, out0, stage, [&](int out, int from, int step, const float* v, int count) {
            if (out >= outs) return;
#pragma unroll
            for (int i = 0; i < count; i++) {
                const int held = from + i * step, column = first + held;
                const float j = net.layers > 1 ? v[i] : (column < n ? last.weight[(long long)(out0 + out) * last.ldw + column] : 0.0f);
                if (job.jac && column < n) job.jac[row * job.ldjac + (long long)(out0 + out) * n + column] = j + poison;
                if (job.metric) next[out * LD + held] = j;
            }
        });
        if (job.metric) {
            __syncthreads();
            gram.add(next, outs);
            __syncthreads();
        }
    }
    if (job.metric) gram.write(job.metric + row * job.ldmetric, n, job.lambda, poison);
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256, 2) gpc_jacobian_8(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian<8, false>(job, shared);
}
GPC_KERNEL(gpc_jacobian_8)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_jacobian_32(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian<32, false>(job, shared);
}
GPC_KERNEL(gpc_jacobian_32)

extern "C" __global__ void __launch_bounds__(256, 1) gpc_jacobian_64(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian<64, false>(job, shared);
}
GPC_KERNEL(gpc_jacobian_64)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_jacobian_32_tf32(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian<32, true>(job, shared);
}
GPC_KERNEL(gpc_jacobian_32_tf32)

extern "C" __global__ void __launch_bounds__(256, 1) gpc_jacobian_64_tf32(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian<64, true>(job, shared);
}
GPC_KERNEL(gpc_jacobian_64_tf32)
