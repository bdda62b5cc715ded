// tile.cuh: the block-tiled matrix product of training.
//
//	C(i, j) = Σ_k A(i, k) B(k, j),  i < m, j < n, kBegin ≤ k < kEnd
//
// One block of Shape::threads threads makes one BM×BN tile of C, in float32 as TM×TN
// accumulators a thread. Per k a thread reads TM + TN floats of shared memory for
// TM·TN fused multiply-adds: with 8×8 that is 4 reads of 16 bytes for 64 FMA, so
// that the FMA pipes bound it, not shared memory. Two buffers of slices of BK columns of A
// and rows of B alternate: the next ones travel from memory to registers while
// the present ones are multiplied, one barrier a step. (Registers rather than
// cp.async: operands are transposed and rounded on the way, and
// what the host shim tests is then what the device runs.)
//
// Per block and step of 128×128×16: 2·128·128·16 = 524 288 FLOP for 16 KiB read,
// 32 FLOP/byte; an H200's L2 cache feeds its FMA pipes from about 13 FLOP/byte.
//
// How a matrix lies in memory is a template parameter of each side:
//
//	outer-contiguous  element (outer, k) at data[k·ld + outer]
//	k-contiguous      element (outer, k) at data[outer·ld + k]
//
// where outer is i for A and j for B. So for row-major matrices
//
//	C = A Bᵀ   A k-contiguous,     B k-contiguous
//	C = A B    A k-contiguous,     B outer-contiguous
//	C = Aᵀ B   A outer-contiguous, B outer-contiguous
//
// Rows can be gathered through a list of row numbers, so that a minibatch is
// never copied. Every sum runs in one fixed order.
#pragma once
#include "banks.cuh"
#include "gpc.cuh"
#include "mma.cuh"

namespace gpc {

// Tile is the shape of one block's work.
template <int BM_, int BN_, int BK_, int TM_, int TN_>
struct Tile {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_;
    static constexpr int threads = (BM / TM) * (BN / TN);
    static constexpr int sharedFloats = 2 * BK * (BM + 4 + BN + 4);
    static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread's tile is made of quads");
    static_assert(BK == 16 && BM % 32 == 0 && BN % 32 == 0, "slices are laid out for 16 k and 32 rows");
};

// Matrix is an operand. With rows, row r of the row-major matrix (outer of a
// k-contiguous one, k of an outer-contiguous one) is row rows[r] of data.
struct Matrix {
    const float* __restrict__ data;
    long long ld;
    const int* __restrict__ rows; // nullptr: not gathered
};

__device__ inline Matrix matrix(const float* data, long long ld, const int* rows = nullptr) { return Matrix{data, ld, rows}; }

// slice_at is where the element (outer, k) lies in a slice of float32, [16][OUTER + 4]:
// a warp that writes four k of eight rows, one number of each at a time, so meets a bank
// twice at most.
template <int OUTER>
__device__ constexpr int slice_at(int outer, int k) { return k * (OUTER + 4) + outer; }

// Side moves one operand's slices: from memory to registers, in which kinds of sides
// differ, and from there to shared memory (store). A thread has the quads (outer +
// outer_step(r), k + k_step(r)) with outer and k from first; four k of a row where
// memory has k side by side, else four rows of one k.
template <bool KContiguous, int OUTER, int THREADS>
struct Side {
    static constexpr int floats = 16 * (OUTER + 4), rounds = 16 * OUTER / 4 / THREADS;
    static_assert(4 * THREADS * rounds == 16 * OUTER, "every thread has its quads");
    float4 held[rounds];

    __device__ static void first(int& outer, int& k) {
        if (KContiguous) {
            outer = int(threadIdx.x) / 4, k = 4 * (int(threadIdx.x) % 4);
        } else {
            k = int(threadIdx.x) / (OUTER / 4), outer = 4 * (int(threadIdx.x) % (OUTER / 4));
        }
    }
    __device__ static constexpr int outer_step(int r) { return KContiguous ? r * (THREADS / 4) : 0; }
    __device__ static constexpr int k_step(int r) { return KContiguous ? 0 : r * (THREADS / (OUTER / 4)); }

    __device__ void store(float* slice) const {
        int outer, k;
        first(outer, k);
#pragma unroll
        for (int r = 0; r < rounds; r++) {
            const int o = outer + outer_step(r);
            const float4 v = held[r];
            if (KContiguous) {
                slice[slice_at<OUTER>(o, k)] = v.x, slice[slice_at<OUTER>(o, k + 1)] = v.y;
                slice[slice_at<OUTER>(o, k + 2)] = v.z, slice[slice_at<OUTER>(o, k + 3)] = v.w;
            } else {
                *reinterpret_cast<float4*>(slice + slice_at<OUTER>(o, k + k_step(r))) = v;
            }
        }
    }
};

// fragment_at is where lane (group, member) finds its 16 bytes in a block of 32 such. What
// a quarter of a warp reads, two groups of four members, and what it writes, these or eight groups of one
// member, lies in different banks.
__device__ constexpr int fragment_at(int group, int member) { return 4 * (8 * member + (group ^ (2 * member))); }

__device__ constexpr Words fragment_reads() {
    Words w = {};
    for (int l = 0; l < GPC_WARP; l++) w.at[l] = fragment_at(l / 4, l % 4);
    return w;
}
__device__ constexpr Words fragment_writes() {
    Words w = {};
    for (int l = 0; l < GPC_WARP; l++) w.at[l] = fragment_at(l % 8, l / 8);
    return w;
}
static_assert(requests(fragment_reads(), 4, true) == 4 && requests(fragment_reads(), 4, false) == 4 && requests(fragment_writes(), 4, false) == 4, "no bank twice");

// FragmentSide moves slices for tensor cores, which lie in the order of the instruction's
// registers: in blocks of 16 bytes a lane, so that what a lane reads is what it hands to
// the products. Its k are taken in the order in which memory has them: member m of a
// slice's first product has k = 4m and 4m + 1, of its second 4m + 2 and 4m + 3. So are
// rows and columns, where memory has four of these side by side.
//
//	A  block 2i + p   of rows i, product p: row(i, g, 0), row(i, g, 1) of the member's first k, then of its second
//	B  block j        k side by side: column(j, g), four k
//	   block 4⌊j/4⌋ + 2p + ⌊j%4/2⌋  columns side by side: two k of column(j, g), then of column(j + 1, g)
//
// Numbers are rounded on their way, once for all who read; that puts them into this
// order too, from two quads a thread: of rows 8 apart, or of two k.
template <bool A, bool KContiguous, int OUTER, int THREADS>
struct FragmentSide {
    static constexpr int floats = 16 * OUTER, rounds = floats / 4 / THREADS;
    static constexpr bool pairs = KContiguous ? A : rounds > 1; // of quads, that are written together
    static_assert(4 * THREADS * rounds == floats && (!pairs || rounds % 2 == 0) && (pairs || !KContiguous || !A), "every thread has its quads");
    using Plain = Side<KContiguous, OUTER, THREADS>;
    float4 held[rounds];

    // row is the row of A's tile i of 16 rows at place `group` of its first half (e = 0) or second.
    __device__ static constexpr int row(int i, int group, int e) { return KContiguous ? 16 * i + group + 8 * e : 32 * (i / 2) + 4 * group + 2 * (i % 2) + e; }

    // column is the column of B's tile j of 8 columns at place c: four that lie side by side
    // are sums of one lane.
    __device__ static constexpr int column(int j, int c) { return KContiguous ? 16 * (j / 2) + 4 * (c / 2) + 2 * (j % 2) + c % 2 : 32 * (j / 4) + 4 * c + j % 4; }

    __device__ static void first(int& outer, int& k) {
        Plain::first(outer, k);
        if (KContiguous && A) outer = int(threadIdx.x) / 32 * 16 + outer % 8;
        if (!KContiguous && pairs) k *= 2;
    }
    __device__ static constexpr int outer_step(int r) { return KContiguous && A ? r / 2 * (THREADS / 2) + r % 2 * 8 : Plain::outer_step(r); }
    __device__ static constexpr int k_step(int r) { return !KContiguous && pairs ? 2 * Plain::k_step(r / 2) + r % 2 : Plain::k_step(r); }

    // Of the quads v and w, the numbers that a product takes.
    __device__ static void put(float* to, float a, float b, float c, float d) {
        *reinterpret_cast<float4*>(to) = make_float4(operand<true>(a), operand<true>(b), operand<true>(c), operand<true>(d));
    }

    __device__ void store(float* slice) const {
        int outer, k;
        first(outer, k);
#pragma unroll
        for (int r = 0; r < rounds; r += pairs ? 2 : 1) {
            const int o = outer + outer_step(r), at = k + k_step(r);
            const float4 v = held[r], w = held[pairs ? r + 1 : r];
            if constexpr (KContiguous && A) {
                float* to = slice + o / 16 * 256 + fragment_at(o % 8, at / 4);
                put(to, v.x, w.x, v.y, w.y);
                put(to + 128, v.z, w.z, v.w, w.w);
            } else if constexpr (KContiguous) {
                put(slice + (o / 16 * 2 + o % 4 / 2) * 128 + fragment_at(o % 16 / 4 * 2 + o % 2, at / 4), v.x, v.y, v.z, v.w);
            } else {
                // A: tiles 2h, 2h + 1 of product p are blocks 4h + p and 4h + 2 + p; B: two tiles each are blocks 4h + 2p and 4h + 2p + 1.
                const int group = o / 4 % 8, product = at / 2 % 2;
                float* to = slice + (o / 32 * 4 + (A ? product : 2 * product)) * 128 + fragment_at(group, at / 4);
                constexpr int next = A ? 256 : 128;
                if constexpr (pairs) {
                    put(to, v.x, A ? v.y : w.x, A ? w.x : v.y, w.y);
                    put(to + next, v.z, A ? v.w : w.z, A ? w.z : v.w, w.w);
                } else {
                    const int second = at % 2; // k of the member
                    const float x = operand<true>(v.x), y = operand<true>(v.y), z = operand<true>(v.z), u = operand<true>(v.w);
                    if constexpr (A) {
                        *reinterpret_cast<float2*>(to + 2 * second) = make_float2(x, y);
                        *reinterpret_cast<float2*>(to + next + 2 * second) = make_float2(z, u);
                    } else {
                        to[second] = x, to[2 + second] = y, to[next + second] = z, to[next + 2 + second] = u;
                    }
                }
            }
        }
    }
};

// Accumulators of the float32 path: TM/4 × TN/4 quads, BM/(TM/4) rows and
// BN/(TN/4) columns apart. A warp is 4 × 8 threads, laid out so that its reads of
// either operand merge: 2 requests of shared memory for 16 bytes a lane, 6 for the 32
// FMA of 4×8, 8 for the 64 of 8×8.
template <class Shape>
struct Accumulator {
    float sum[Shape::TM][Shape::TN];
    using Places = Lanes<4>;
    static constexpr int across = Shape::BN / Shape::TN / Places::columns; // warps
    static constexpr int stepM = Shape::BM / (Shape::TM / 4), stepN = Shape::BN / (Shape::TN / 4);
    static_assert(Shape::BN % (Shape::TN * Places::columns) == 0 && Shape::BM % (Shape::TM * Places::rows) == 0, "warps cover the tile");

    // corner is the first row and column of the thread's first quads.
    __device__ static void corner(int& ty, int& tx) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        ty = 4 * (warp / across * Places::rows + Places::row(lane)), tx = 4 * (warp % across * Places::columns + Places::column(lane));
    }

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < Shape::TM; i++)
#pragma unroll
            for (int j = 0; j < Shape::TN; j++) sum[i][j] = 0.0f;
    }

    __device__ void add(const float* sliceA, const float* sliceB) {
        int ty, tx;
        corner(ty, tx);
        sliceA += ty, sliceB += tx;
#pragma unroll
        for (int k = 0; k < Shape::BK; k++) {
            float x[Shape::TM], y[Shape::TN];
#pragma unroll
            for (int i = 0; i < Shape::TM; i += 4) {
                const float4 q = *reinterpret_cast<const float4*>(sliceA + slice_at<Shape::BM>(i / 4 * stepM, k));
                x[i] = q.x, x[i + 1] = q.y, x[i + 2] = q.z, x[i + 3] = q.w;
            }
#pragma unroll
            for (int j = 0; j < Shape::TN; j += 4) {
                const float4 q = *reinterpret_cast<const float4*>(sliceB + slice_at<Shape::BN>(j / 4 * stepN, k));
                y[j] = q.x, y[j + 1] = q.y, y[j + 2] = q.z, y[j + 3] = q.w;
            }
#pragma unroll
            for (int i = 0; i < Shape::TM; i++)
#pragma unroll
                for (int j = 0; j < Shape::TN; j++) sum[i][j] = __fmaf_rn(x[i], y[j], sum[i][j]);
        }
    }

    template <class Epilogue>
    __device__ void finish(int m, int n, int row0, int column0, Epilogue&& epilogue) const {
        int ty, tx;
        corner(ty, tx);
#pragma unroll
        for (int i = 0; i < Shape::TM; i++) {
            const int row = row0 + ty + (i / 4) * stepM + i % 4;
#pragma unroll
            for (int j = 0; j < Shape::TN; j += 4) {
                const int column = column0 + tx + (j / 4) * stepN;
                if (row < m && column < n) {
                    const float v[4] = {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]};
                    epilogue(row, column, v, min(4, n - column));
                }
            }
        }
    }
};

// mma_tiles adds one of a slice's products, p, of COUNT tiles of A and four of B.
template <int COUNT>
__device__ inline void mma_tiles(float (&sum)[COUNT][4][4], const unsigned int (&a)[COUNT][2][4], const unsigned int (&b)[4][2][2], int p) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) gpc_mma_tf32(sum[i][j], a[i][p], b[j][p]);
}

// AccumulatorTF32 is the tensor-core path: each of the block's warps has 32 columns of
// the tile and WM times 16 rows.
template <class Shape, class SideA, class SideB, bool BKContiguous>
struct AccumulatorTF32 {
    static constexpr int warpsN = Shape::BN / 32, warpsM = Shape::threads / 32 / warpsN, WM = Shape::BM / warpsM / 16;
    static_assert(warpsM * warpsN * 32 == Shape::threads && WM * warpsM * 16 == Shape::BM, "warps cover the tile");
    float sum[WM][4][4];

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < WM; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
    }

    __device__ static void corner(int& row, int& column) {
        const int warp = threadIdx.x / 32;
        row = warp / warpsN * WM * 16, column = warp % warpsN * 32;
    }

    __device__ void add(const float* sliceA, const float* sliceB) {
        int row, column;
        corner(row, column);
        const int lane = fragment_at(threadIdx.x % 32 / 4, threadIdx.x % 4);
        sliceA += row * 16 + lane, sliceB += column * 16 + lane;
        unsigned int a[WM][2][4], b[4][2][2];
#pragma unroll
        for (int block = 0; block < 4; block++) {
            const float4 q = *reinterpret_cast<const float4*>(sliceB + block * 128);
            if constexpr (BKContiguous) {
                b[block][0][0] = __float_as_uint(q.x), b[block][0][1] = __float_as_uint(q.y), b[block][1][0] = __float_as_uint(q.z), b[block][1][1] = __float_as_uint(q.w);
            } else {
                const int p = block / 2, j = block % 2 * 2;
                b[j][p][0] = __float_as_uint(q.x), b[j][p][1] = __float_as_uint(q.y), b[j + 1][p][0] = __float_as_uint(q.z), b[j + 1][p][1] = __float_as_uint(q.w);
            }
        }
#pragma unroll
        for (int p = 0; p < 2; p++) {
#pragma unroll
            for (int i = 0; i < WM; i++) {
                const float4 q = *reinterpret_cast<const float4*>(sliceA + (2 * i + p) * 128);
                a[i][p][0] = __float_as_uint(q.x), a[i][p][1] = __float_as_uint(q.y), a[i][p][2] = __float_as_uint(q.z), a[i][p][3] = __float_as_uint(q.w);
            }
            mma_tiles(sum, a, b, p);
        }
    }

    template <class Epilogue>
    __device__ void finish(int m, int n, int row0, int column0, Epilogue&& epilogue) const {
        const int group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
        int row, column;
        corner(row, column);
#pragma unroll
        for (int i = 0; i < WM; i++)
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll
                for (int q = 0; q < 2; q++) {
                    // Four side by side: two columns of two tiles, or one of four.
                    const int r = row0 + row + SideA::row(i, group, e);
                    const int c = column0 + column + (BKContiguous ? SideB::column(2 * q, 2 * member) : SideB::column(0, 2 * member + q));
                    if (r < m && c < n) {
                        float v[4];
#pragma unroll
                        for (int j = 0; j < 4; j++) v[j] = BKContiguous ? sum[i][2 * q + j / 2][2 * e + j % 2] : sum[i][j][2 * e + q];
                        epilogue(r, c, v, min(4, n - c));
                    }
                }
    }
};

// product makes a tile: the sides fetch slices of 16 k and are stored in turn. shared
// has Shape::sharedFloats floats, 16-byte aligned; all threads of the block
// call it, and the shared memory may be used again when it returns. stored is called
// behind each slice that was stored. The epilogue
// is called as epilogue(i, j, v, count) for every run of up to four neighbours
// C(i, j) … C(i, j + count − 1) that the thread holds.
template <class Sums, class Shape, class SideA, class SideB, class Stored, class Epilogue>
__device__ inline void product(SideA& sideA, SideB& sideB, int m, int n, int kBegin, int kEnd, int row0, int column0, float* shared,
                               Stored&& stored, Epilogue&& epilogue) {
    constexpr int sizeA = SideA::floats, sizeB = SideB::floats;
    float *sliceA = shared, *sliceB = shared + 2 * sizeA;
    auto store = [&](int buffer) {
        sideA.store(sliceA + buffer * sizeA);
        sideB.store(sliceB + buffer * sizeB);
        stored();
    };
    Sums accumulator;
    accumulator.clear();
    if (kBegin < kEnd) {
        sideA.fetch(kBegin, kEnd);
        sideB.fetch(kBegin, kEnd);
        store(0);
        __syncthreads();
        int buffer = 0;
        for (int k = kBegin; k < kEnd; k += Shape::BK) {
            const bool more = k + Shape::BK < kEnd;
            if (more) {
                sideA.fetch(k + Shape::BK, kEnd);
                sideB.fetch(k + Shape::BK, kEnd);
            }
            accumulator.add(sliceA + buffer * sizeA, sliceB + buffer * sizeB);
            if (more) store(buffer ^ 1);
            __syncthreads();
            buffer ^= 1;
        }
    }
    accumulator.finish(m, n, row0, column0, epilogue);
}

// split_range is part s of splits of [0, k), cut at multiples of BK: the range
// depends on the sizes only, so that a split sum has one order.
__device__ inline void split_range(int k, int splits, int s, int step, int& begin, int& end) {
    const int steps = (k + step - 1) / step;
    begin = min(k, (int)((long long)steps * s / splits) * step);
    end = min(k, (int)((long long)steps * (s + 1) / splits) * step);
}

// relu is max(a, 0) and NaN of NaN, unlike fmaxf.
__device__ inline float relu(float a) { return a <= 0.0f ? 0.0f : a; }

// slope is relu's derivative at an activation h = relu(a): 0 at the kink, NaN of
// NaN when it multiplies.
__device__ inline float slope(float h) { return h > 0.0f ? 1.0f : (h <= 0.0f ? 0.0f : h); }

// store4 writes up to four neighbours, as 16 bytes where they begin on 16.
__device__ inline void store4(float* at, const float* v, int count) {
    if (count == 4 && reinterpret_cast<unsigned long long>(at) % 16 == 0) {
        *reinterpret_cast<float4*>(at) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
        for (int i = 0; i < count; i++) at[i] = v[i];
    }
}

} // namespace gpc
