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
    int mask;  // first word of this hidden layer in a row of masks
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

constexpr int rowsThreads = 256; // threads of every kernel made of rows_product
constexpr int rowsDepth = 16;    // k of one stage
constexpr int rowsStage = 2 * rowsDepth * 256;

// rows_ld is the distance between the k of an activation buffer [k][rows_ld].
template <int ROWS>
__device__ constexpr int rows_ld() { return ROWS < 32 ? ROWS : ROWS + 4; }

// Place is which rows and columns of a ROWS × 32·TN tile a thread holds: ROWS/8
// neighbouring rows, and TN columns as quads 128 apart (TN = 8) or a pair
// (TN = 2). A warp is 4 × 8 threads, so that one of its reads is 64 or 128
// distinct bytes.
struct Place {
    int row, column;
};

template <int ROWS, int TN>
__device__ inline Place place() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int tx = (warp % 4) * 8 + lane % 8, ty = (warp / 4) * 4 + lane / 8;
    return Place{ty * (ROWS / 8), tx * (TN < 4 ? TN : 4)};
}

// column_of is column j < TN of the thread whose Place has the given column.
template <int TN>
__device__ inline int column_of(int column, int j) { return TN < 4 ? column + j : column + (j / 4) * 128 + j % 4; }

// rows_product adds, for the ROWS rows in act and 32·TN columns from column0,
//
//	sum(row, column) += Σ_{k < K} act[k][row] · weight[list[k]][column]
//
// with list the identity where it is nullptr. weight has rows of ld floats. The
// stage is rowsStage floats of shared memory; weights stream through it, 16 k at
// a time, the next 16 already in registers. All threads of the block call it; act
// must be ready (a barrier before), and is free when it returns.
//
// Per k a thread reads ROWS/8 + TN floats of shared memory in 16-byte pieces for
// ROWS/8·TN FMA: 3 pieces for 32 FMA at ROWS = 32, TN = 8. A block of 32 rows
// reads a weight once for 32 FMA: 16 FLOP/byte of L2 traffic.
template <int ROWS, int TN>
__device__ inline void rows_product(const float* act, int K, const unsigned short* list, const float* __restrict__ weight, int ld, int column0,
                                    float* stage, float (&sum)[ROWS / 8][TN]) {
    constexpr int LD = rows_ld<ROWS>(), TR = ROWS / 8, CT = 32 * TN;
    constexpr int quads = rowsDepth * CT / 4, rounds = (quads + rowsThreads - 1) / rowsThreads;
    const Place at = place<ROWS, TN>();
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
            if (q < quads) *reinterpret_cast<float4*>(to + (q / (CT / 4)) * CT + 4 * (q % (CT / 4))) = held[r];
        }
    };
    auto add = [&](const float* x, const float* w) {
        float a[TR], b[TN];
        if (TR >= 4) {
#pragma unroll
            for (int i = 0; i < TR; i += 4) {
                const float4 q = *reinterpret_cast<const float4*>(x + at.row + i);
                a[i] = q.x, a[(i + 1) % TR] = q.y, a[(i + 2) % TR] = q.z, a[(i + 3) % TR] = q.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < TR; i++) a[i] = x[at.row + i];
        }
        if (TN >= 4) {
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const float4 q = *reinterpret_cast<const float4*>(w + at.column + (j / 4) * 128);
                b[j] = q.x, b[(j + 1) % TN] = q.y, b[(j + 2) % TN] = q.z, b[(j + 3) % TN] = q.w;
            }
        } else {
#pragma unroll
            for (int j = 0; j < TN; j++) b[j] = w[at.column + j];
        }
#pragma unroll
        for (int i = 0; i < TR; i++)
#pragma unroll
            for (int j = 0; j < TN; j++) sum[i][j] = __fmaf_rn(a[i], b[j], sum[i][j]);
    };
    if (K <= 0) {
        __syncthreads();
        return;
    }
    fetch(0);
    store(stage);
    __syncthreads();
    int buffer = 0;
    for (int k0 = 0; k0 < K; k0 += rowsDepth) {
        const bool more = k0 + rowsDepth < K;
        if (more) fetch(k0 + rowsDepth);
        const float* w = stage + buffer * rowsDepth * CT;
        const float* x = act + k0 * LD;
        if (K - k0 >= rowsDepth) {
#pragma unroll
            for (int k = 0; k < rowsDepth; k++) add(x + k * LD, w + k * CT);
        } else {
#pragma unroll 1
            for (int k = 0; k < K - k0; k++) add(x + k * LD, w + k * CT);
        }
        if (more) store(stage + (buffer ^ 1) * rowsDepth * CT);
        __syncthreads();
        buffer ^= 1;
    }
}

// clear sets a thread's sums to zero.
template <int TR, int TN>
__device__ inline void clear(float (&sum)[TR][TN]) {
#pragma unroll
    for (int i = 0; i < TR; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sum[i][j] = 0.0f;
}

} // namespace gpc
