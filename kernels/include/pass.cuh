// pass.cuh: what forward and backward passes of networks are given, and both passes
// for one row.
//
// One row takes a block of 256 threads through all layers. Nothing but latency and
// the way from the second-level cache bounds it, so weights are read 16 bytes at a
// time, 8 ahead of their use, the first of each layer before the activations that they
// meet are there. A thread has four columns and a part of K, the parts' sums are added
// in order, all as few_rows_product shares them out: a row alone is bitwise that row
// among few.
#pragma once
#include "gpc.cuh"
#include "net.cuh"

struct gpc_forward {
    const gpc_net* net;
    const float* z;    // [rows, ldz]
    float* y;          // [rows, ldy] or nullptr
    unsigned int* mask; // [rows, mask_words] or nullptr
    float* physical;   // [rows, ldp] or nullptr
    const float* mean; // [out]
    const float* scale;
    const float* base; // [rows, ldbase] or nullptr
    const float* lo;   // [out] or nullptr: not clipped
    const float* hi;
    int ldz, ldy, ldp, ldbase;
};

struct gpc_vjp {
    const gpc_net* net;
    const unsigned int* mask; // [rows, mask_words]
    float* zbar;              // [rows, ldzbar]
    const float* ybar;        // [rows, ldybar] the cotangent, or y where x is given; nullptr: 0
    const float* x;           // [rows, ldx] or nullptr
    const float* mean;        // [out], with x
    const float* scale;       // [out], with x or g
    const float* g;           // [rows, ldg] or nullptr
    int ldzbar, ldybar, ldx, ldg;
    int g_count; // columns of g
    float factor;
};

namespace gpc {

// physical_of is output y of a row in the problem's units.
__device__ inline float physical_of(const gpc_forward& job, long long row, int column, float y) {
    float p = __fmaf_rn(job.scale[column], y, job.mean[column]);
    if (job.base) p += job.base[row * job.ldbase + column];
    if (job.lo) {
        if (p < job.lo[column]) p = job.lo[column];
        if (p > job.hi[column]) p = job.hi[column];
    }
    return p;
}

// cotangent is ȳ of output k of a row (mlp_vjp.cu).
__device__ inline float cotangent(const gpc_vjp& job, long long row, int k) {
    float v = 0.0f;
    if (job.ybar) v = job.ybar[row * job.ldybar + k];
    if (job.x) v = job.factor * ((job.x[row * job.ldx + k] - job.mean[k]) / job.scale[k] - v);
    if (job.g && k < job.g_count) v = __fmaf_rn(job.scale[k], job.g[row * job.ldg + k], v);
    return v;
}

// oneStage is the partial sums of one row, a quad of columns of each thread.
constexpr int oneStage = 4 * rowsThreads;

// OneProduct is a thread's part of a product of one row with CT columns. It begins to
// read weights when it is made.
template <int CT>
struct OneProduct {
    static constexpr int across = CT / 4, parts = rowsThreads / across, ahead = 8;
    static_assert(parts * CT == oneStage, "a quad of each thread");
    const float* from; // of the thread's first k
    int ld, begin, count;
    float4 held[ahead];

    __device__ float4 at(int k) const { return *reinterpret_cast<const float4*>(from + k * ld); }

    __device__ OneProduct(const Weights& weights, int K) : ld(weights.ld) {
        const int part = int(threadIdx.x) / across, column = 4 * (int(threadIdx.x) % across);
        begin = K * part / parts, count = K * (part + 1) / parts - begin;
        // Columns beyond the last are read from inside: nobody wants their sums.
        from = weights.at + min(column, weights.inside - 4) + begin * ld;
#pragma unroll
        for (int i = 0; i < ahead; i++) held[i] = i < count ? at(i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    // run leaves the sums of the parts in the stage, [parts][CT].
    __device__ void run(const float* act, float* stage) {
        const float* x = act + begin;
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        auto add = [&](float a, const float4& w) {
            sum[0] = __fmaf_rn(a, w.x, sum[0]), sum[1] = __fmaf_rn(a, w.y, sum[1]);
            sum[2] = __fmaf_rn(a, w.z, sum[2]), sum[3] = __fmaf_rn(a, w.w, sum[3]);
        };
        int k0 = 0;
        for (; k0 + 2 * ahead <= count; k0 += ahead) {
#pragma unroll
            for (int i = 0; i < ahead; i++) {
                add(x[k0 + i], held[i]);
                held[i] = at(k0 + ahead + i);
            }
        }
        for (; k0 < count; k0 += ahead) {
#pragma unroll
            for (int i = 0; i < ahead; i++) {
                if (k0 + i >= count) break;
                add(x[k0 + i], held[i]);
                if (k0 + ahead + i < count) held[i] = at(k0 + ahead + i);
            }
        }
        *reinterpret_cast<float4*>(stage + 4 * threadIdx.x) = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
};

// one_product makes, for each of the first `columns` of CT columns from column0 on,
//
//	sum(column) = Σ_{k < K} act(k) · weight(k, column)
//
// before(column) gives what a column needs beside, read while the weights are on their
// way, and after(column, sum, that) takes the sum, in warps that are whole where CT is
// 32 or more, also of columns beyond. All threads of the block call it; it begins with
// a barrier behind which act must be ready, and what `after` writes is ready behind
// the next.
template <int CT, class Before, class After>
__device__ inline void one_product(const float* act, int K, const Weights& weights, float* stage, Before&& before, After&& after) {
    OneProduct<CT> product(weights, K);
    const int own = threadIdx.x;
    const auto beside = own < CT ? before(own) : before(0);
    __syncthreads();
    product.run(act, stage);
    __syncthreads();
    if (own < CT) {
        float v = 0.0f;
#pragma unroll 8
        for (int p = 0; p < OneProduct<CT>::parts; p++) v += stage[p * CT + own];
        after(own, v, beside);
    }
}

// one_hidden makes the next activations of the row and their masks, and tells whether
// one of the warp's was NaN.
template <int CT>
__device__ inline bool one_hidden(const gpc_layer& l, unsigned int* mask, const float* act, float* next, float* stage) {
    bool poisoned = false;
    for (int column0 = 0; column0 < l.out; column0 += CT) {
        one_product<CT>(
            act, l.in, Weights(l.transposed, l.ldt, column0), stage, [&](int column) { return l.bias[min(column0 + column, l.out - 1)]; },
            [&](int column, float sum, float bias) {
                column += column0;
                const float h = column >= l.out ? 0.0f : (l.mask < 0 ? sum + bias : relu(sum + bias));
                if (column < l.out) next[column] = h;
                if (!mask || l.mask < 0) return;
                const unsigned int bits = __ballot_sync(GPC_FULL_MASK, !(h <= 0.0f));
                poisoned |= __ballot_sync(GPC_FULL_MASK, h != h) != 0;
                if (column % 32 == 0 && column / 32 < l.words) mask[l.mask + column / 32] = bits;
            });
    }
    return poisoned;
}

template <int CT>
__device__ inline void one_output(const gpc_layer& l, const gpc_forward& job, const float* act, float* stage) {
    for (int column0 = 0; column0 < l.out; column0 += CT) {
        one_product<CT>(
            act, l.in, Weights(l.transposed, l.ldt, column0), stage, [&](int column) { return l.bias[min(column0 + column, l.out - 1)]; },
            [&](int column, float sum, float bias) {
                column += column0;
                if (column >= l.out) return;
                const float y = sum + bias;
                if (job.y) job.y[column] = y;
                if (job.physical) job.physical[column] = physical_of(job, 0, column, y);
            });
    }
}

// one_forward is a forward pass of one row. shared: oneStage floats, two rows of
// activations of net.width, a word for each warp. prepare(act) leaves the row's
// coordinates there, without a barrier behind it.
template <class Prepare>
__device__ inline void one_forward(const gpc_forward& job, float* shared, Prepare&& prepare) {
    const gpc_net& net = *job.net;
    float* stage = shared;
    float* act = shared + oneStage;
    float* next = act + net.width;
    unsigned int* poison = reinterpret_cast<unsigned int*>(next + net.width);
    prepare(act);
    bool poisoned = false;
    for (int l = 0; l + 1 < net.layers; l++) {
        const gpc_layer& layer = net.layer[l];
        poisoned |= layer.out > 64 ? one_hidden<256>(layer, job.mask, act, next, stage) : one_hidden<64>(layer, job.mask, act, next, stage);
        float* t = act;
        act = next, next = t;
    }
    if (threadIdx.x % 32 == 0) poison[threadIdx.x / 32] = poisoned ? 1u : 0u;
    const gpc_layer& last = net.layer[net.layers - 1];
    if (last.out > 128)
        one_output<256>(last, job, act, stage);
    else if (last.out > 16)
        one_output<64>(last, job, act, stage);
    else
        one_output<16>(last, job, act, stage);
    if (job.mask && threadIdx.x == 0) {
        unsigned int any = 0;
        for (int w = 0; w < rowsWarps; w++) any |= poison[w];
        job.mask[0] = any;
    }
}

template <int CT>
__device__ inline void one_backward(const gpc_layer& l, const gpc_layer* below, const gpc_vjp& job, const float* bar, float* next, float* stage) {
    for (int column0 = 0; column0 < l.in; column0 += CT) {
        one_product<CT>(
            bar, l.out, Weights(l.weight, l.ldw, column0), stage,
            [&](int column) {
                column += column0;
                return below && column < l.in && (job.mask[below->mask + column / 32] >> (column % 32)) & 1u ? 1.0f : 0.0f;
            },
            [&](int column, float sum, float slope) {
                column += column0;
                if (column >= l.in) return;
                if (below)
                    next[column] = sum * slope;
                else
                    job.zbar[column] = sum;
            });
    }
}

// one_vjp is a backward pass of one row. shared: oneStage floats and two rows of the
// widest layer, the output counted, rounded up to a multiple of 8.
__device__ inline void one_vjp(const gpc_vjp& job, float* shared) {
    const gpc_net& net = *job.net;
    const int out = (net.out + 7) & ~7, width = net.width > out ? net.width : out;
    float* stage = shared;
    float* bar = shared + oneStage;
    float* next = bar + width;
    for (int k = threadIdx.x; k < net.out; k += rowsThreads) bar[k] = cotangent(job, 0, k);
    for (int l = net.layers - 1; l >= 0; l--) {
        const gpc_layer* below = l > 0 ? &net.layer[l - 1] : nullptr;
        if (net.layer[l].in > 64)
            one_backward<256>(net.layer[l], below, job, bar, next, stage);
        else if (net.layer[l].in > 32)
            one_backward<64>(net.layer[l], below, job, bar, next, stage);
        else
            one_backward<32>(net.layer[l], below, job, bar, next, stage);
        float* t = bar;
        bar = next, next = t;
    }
}

} // namespace gpc
