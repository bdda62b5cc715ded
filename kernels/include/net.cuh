// net.cuh: how a network lies on the device, and the block product from which
// its forward pass, its backward pass and its Jacobian are made.
//
// A layer is kept twice, row-major [out][ldw] and transposed [in][ldt], each row
// padded with zeros to a multiple of 4 floats and beginning on 16 bytes, so that
// either pass reads weights along their contiguous side.
#pragma once
#include "gpc.cuh"
#include "tile.cuh"

// The launcher packs these structures byte for byte (kernels/pack.go).
struct gpc_layer {
    const float* weight;     // [out][ldw]
    const float* transposed; // [in][ldt]
    const float* bias;       // [out]
    int in, out, ldw, ldt;
    int mask;  // first word of this hidden layer in a row of masks; −1: the last layer of a
               // network that another one continues, with no ReLU behind it
    int words; // (out + 31) / 32
};

constexpr int gpc_max_layers = 16;

// A row of masks is one word that is 1 if a hidden activation was NaN, then for
// each hidden layer a bit per unit: whether relu's slope is 1 there.
struct gpc_net {
    gpc_layer layer[gpc_max_layers];
    int layers, in, out;
    int mask_words; // words of one row of masks
    int width;      // widest input or hidden layer
    int pad;
};

namespace gpc {

constexpr int rowsThreads = 256; // threads of every kernel made of RowsProduct
constexpr int rowsDepth = 16;    // k of one stage
// A stage's rows are 8 floats longer than its columns, so that the tensor cores'
// fragments of four neighbouring k lie in different banks.
constexpr int rowsStage = 2 * rowsDepth * (256 + 8);

// rows_ld is the distance between the k of an activation buffer [k][rows_ld].
template <int ROWS>
__device__ constexpr int rows_ld() { return ROWS < 32 ? ROWS : ROWS + 4; }

// Sums of the float32 path: a thread holds ROWS/8 neighbouring rows, and TN columns
// as quads 128 apart (TN = 8) or a pair (TN = 2). A warp is 4 × 8 threads, so that
// one of its reads is 64 or 128 distinct bytes.
template <int ROWS, int TN>
struct RowsSums {
    static constexpr int TR = ROWS / 8, LD = rows_ld<ROWS>(), CT = 32 * TN, LDW = CT + 8;
    float sum[TR][TN];
    int row, column;

    __device__ RowsSums() {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        row = ((warp / 4) * 4 + lane / 8) * TR, column = ((warp % 4) * 8 + lane % 8) * (TN < 4 ? TN : 4);
#pragma unroll
        for (int i = 0; i < TR; i++)
#pragma unroll
            for (int j = 0; j < TN; j++) sum[i][j] = 0.0f;
    }

    __device__ static float staged(float v) { return v; }

    __device__ void one(const float* x, const float* w) {
        float a[TR], b[TN];
        if (TR >= 4) {
#pragma unroll
            for (int i = 0; i < TR; i += 4) {
                const float4 q = *reinterpret_cast<const float4*>(x + row + i);
                a[i] = q.x, a[(i + 1) % TR] = q.y, a[(i + 2) % TR] = q.z, a[(i + 3) % TR] = q.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < TR; i++) a[i] = x[row + i];
        }
        if (TN >= 4) {
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const float4 q = *reinterpret_cast<const float4*>(w + column + (j / 4) * 128);
                b[j] = q.x, b[(j + 1) % TN] = q.y, b[(j + 2) % TN] = q.z, b[(j + 3) % TN] = q.w;
            }
        } else {
#pragma unroll
            for (int j = 0; j < TN; j++) b[j] = w[column + j];
        }
#pragma unroll
        for (int i = 0; i < TR; i++)
#pragma unroll
            for (int j = 0; j < TN; j++) sum[i][j] = __fmaf_rn(a[i], b[j], sum[i][j]);
    }

    // add takes `depth` k of a stage.
    __device__ void add(const float* x, const float* w, int depth) {
        if (depth >= rowsDepth) {
#pragma unroll
            for (int k = 0; k < rowsDepth; k++) one(x + k * LD, w + k * LDW);
        } else {
#pragma unroll 1
            for (int k = 0; k < depth; k++) one(x + k * LD, w + k * LDW);
        }
    }

    // each calls f(column, first row, step of rows, values, count) for every run of a
    // thread's sums in one column.
    template <class F>
    __device__ void each(F&& f) const {
#pragma unroll
        for (int j = 0; j < TN; j++) {
            float v[TR];
#pragma unroll
            for (int i = 0; i < TR; i++) v[i] = sum[i][j];
            f(TN < 4 ? column + j : column + (j / 4) * 128 + j % 4, row, 1, v, TR);
        }
    }
};

// RowsSumsTF32 are those of the tensor cores: each of the 8 warps holds all rows of
// an eighth of the columns, in blocks of 16×8.
template <int ROWS, int TN>
struct RowsSumsTF32 {
    static constexpr int LD = rows_ld<ROWS>(), CT = 32 * TN, LDW = CT + 8;
    static constexpr int WM = ROWS / 16, WN = CT / 8 / 8;
    static_assert(WM >= 1 && WN >= 1, "a tensor-core tile is 16×8");
    float sum[WM][WN][4];
    int group, member, column;

    __device__ RowsSumsTF32() {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        group = lane / 4, member = lane % 4, column = warp * 8 * WN;
#pragma unroll
        for (int i = 0; i < WM; i++)
#pragma unroll
            for (int j = 0; j < WN; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
    }

    // Weights are rounded once, on their way into the stage.
    __device__ static float staged(float v) { return __uint_as_float(to_tf32(v)); }

    __device__ void add(const float* x, const float* w, int depth) {
#pragma unroll
        for (int k = 0; k < rowsDepth; k += 8) {
            if (k >= depth) break;
            // Beyond the depth a stage holds zeros; activations there are not read.
            const bool low = k + member < depth, high = k + member + 4 < depth;
            unsigned int b[WN][2];
#pragma unroll
            for (int j = 0; j < WN; j++) {
                const float* at = w + (k + member) * LDW + column + 8 * j + group;
                b[j][0] = __float_as_uint(at[0]), b[j][1] = __float_as_uint(at[4 * LDW]);
            }
#pragma unroll
            for (int i = 0; i < WM; i++) {
                const float* at = x + (k + member) * LD + 16 * i + group;
                unsigned int a[4] = {0u, 0u, 0u, 0u};
                if (low) a[0] = to_tf32(at[0]), a[1] = to_tf32(at[8]);
                if (high) a[2] = to_tf32(at[4 * LD]), a[3] = to_tf32(at[4 * LD + 8]);
#pragma unroll
                for (int j = 0; j < WN; j++) gpc_mma_tf32(sum[i][j], a, b[j]);
            }
        }
    }

    template <class F>
    __device__ void each(F&& f) const {
#pragma unroll
        for (int i = 0; i < WM; i++)
#pragma unroll
            for (int j = 0; j < WN; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float v[2] = {sum[i][j][e], sum[i][j][2 + e]};
                    f(column + 8 * j + 2 * member + e, 16 * i + group, 8, v, 2);
                }
    }
};

template <int ROWS, int TN, bool TF32>
struct RowsSumsOf {
    using type = RowsSums<ROWS, TN>;
};
template <int ROWS, int TN>
struct RowsSumsOf<ROWS, TN, true> {
    using type = RowsSumsTF32<ROWS, TN>;
};

// few_rows_product is rows_product for 8 rows, where latency counts: a thread takes
// one column, reads its weights from memory 8 k ahead of their use, coalesced and
// without a barrier, and the rows' activations by broadcast. With fewer than 256
// columns the threads share K in parts, whose sums are added in order.
//
// Bound: the second-level cache's 64 bytes a cycle to one multiprocessor, 16 cycles
// for the 256 weights of a k, as many as the two broadcasts take.
template <int TN, class F>
__device__ inline void few_rows_product(const float* act, int K, const unsigned short* list, const float* __restrict__ weight, int ld, int column0, float* stage, F&& f) {
    constexpr int CT = 32 * TN, parts = rowsThreads / CT, ahead = 8;
    const int column = threadIdx.x % CT, part = threadIdx.x / CT;
    const int begin = K * part / parts, end = K * (part + 1) / parts;
    const float* from = weight + column0 + column;
    const bool inside = column0 + column < ld;
    float sum[8], next[ahead];
#pragma unroll
    for (int i = 0; i < 8; i++) sum[i] = 0.0f;
    auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < ahead; i++) {
            const int k = k0 + i;
            next[i] = inside && k < end ? from[(long long)(list ? list[k] : k) * ld] : 0.0f;
        }
    };
    fetch(begin);
    for (int k0 = begin; k0 < end; k0 += ahead) {
        float w[ahead];
#pragma unroll
        for (int i = 0; i < ahead; i++) w[i] = next[i];
        fetch(k0 + ahead);
#pragma unroll
        for (int i = 0; i < ahead; i++) {
            if (k0 + i >= end) break;
            const float4 a = *reinterpret_cast<const float4*>(act + (k0 + i) * 8), b = *reinterpret_cast<const float4*>(act + (k0 + i) * 8 + 4);
            sum[0] = __fmaf_rn(a.x, w[i], sum[0]), sum[1] = __fmaf_rn(a.y, w[i], sum[1]);
            sum[2] = __fmaf_rn(a.z, w[i], sum[2]), sum[3] = __fmaf_rn(a.w, w[i], sum[3]);
            sum[4] = __fmaf_rn(b.x, w[i], sum[4]), sum[5] = __fmaf_rn(b.y, w[i], sum[5]);
            sum[6] = __fmaf_rn(b.z, w[i], sum[6]), sum[7] = __fmaf_rn(b.w, w[i], sum[7]);
        }
    }
    if (parts > 1) {
        if (part > 0) {
#pragma unroll
            for (int i = 0; i < 8; i++) stage[((part - 1) * 8 + i) * CT + column] = sum[i];
        }
        __syncthreads();
        if (part == 0) {
            for (int p = 0; p < parts - 1; p++)
#pragma unroll
                for (int i = 0; i < 8; i++) sum[i] += stage[(p * 8 + i) * CT + column];
        }
        __syncthreads();
    }
    if (part == 0) f(column, 0, 1, sum, 8);
}

// rows_product makes, for the ROWS rows in act and the 32·TN columns from column0,
//
//	sum(row, column) = Σ_{k < K} act[k][row] · weight[list[k]][column]
//
// with list the identity where it is nullptr, and calls f as each of the sums does,
// with columns counted from column0. weight has rows of ld floats. The stage is
// rowsStage floats of shared memory; weights stream through it, 16 k at a time, the
// next 16 already in registers. All threads of the block call it; act must be ready
// (a barrier before), and is free when the products are made.
//
// Per k a thread reads ROWS/8 + TN floats of shared memory in 16-byte pieces for
// ROWS/8·TN FMA: 3 pieces for 32 FMA at ROWS = 32, TN = 8. A block of 32 rows
// reads a weight once for 32 FMA: 16 FLOP/byte of L2 traffic. On tensor cores a warp
// reads 16 floats a lane for 8 products of 16×8×8, 1 KFLOP a bank cycle.
template <int ROWS, int TN, bool TF32, class F>
__device__ inline void rows_product(const float* act, int K, const unsigned short* list, const float* __restrict__ weight, int ld, int column0, float* stage, F&& f) {
    if (ROWS == 8) {
        few_rows_product<TN>(act, K, list, weight, ld, column0, stage, f);
        return;
    }
    using Sums = typename RowsSumsOf<ROWS, TN, TF32>::type;
    constexpr int LD = rows_ld<ROWS>(), CT = 32 * TN, LDW = CT + 8;
    constexpr int quads = rowsDepth * CT / 4, rounds = (quads + rowsThreads - 1) / rowsThreads;
    Sums sums;
    float4 held[rounds];
    auto fetch = [&](int k0) {
#pragma unroll
        for (int r = 0; r < rounds; r++) {
            const int q = int(threadIdx.x) + r * rowsThreads, k = k0 + q / (CT / 4), column = column0 + 4 * (q % (CT / 4));
            held[r] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (q < quads && k < K && column < ld)
                held[r] = *reinterpret_cast<const float4*>(weight + (long long)(list ? list[k] : k) * ld + column);
        }
    };
    auto store = [&](float* to) {
#pragma unroll
        for (int r = 0; r < rounds; r++) {
            const int q = int(threadIdx.x) + r * rowsThreads;
            const float4 v = make_float4(Sums::staged(held[r].x), Sums::staged(held[r].y), Sums::staged(held[r].z), Sums::staged(held[r].w));
            if (q < quads) *reinterpret_cast<float4*>(to + (q / (CT / 4)) * LDW + 4 * (q % (CT / 4))) = v;
        }
    };
    if (K > 0) {
        fetch(0);
        store(stage);
    }
    __syncthreads();
    int buffer = 0;
    for (int k0 = 0; k0 < K; k0 += rowsDepth) {
        const bool more = k0 + rowsDepth < K;
        if (more) fetch(k0 + rowsDepth);
        sums.add(act + k0 * LD, stage + buffer * rowsDepth * LDW, K - k0);
        if (more) store(stage + (buffer ^ 1) * rowsDepth * LDW);
        __syncthreads();
        buffer ^= 1;
    }
    sums.each(f);
}

} // namespace gpc
