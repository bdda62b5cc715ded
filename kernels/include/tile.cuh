// tile.cuh: the block-tiled matrix product that inference and training share.
//
//	C(i, j) = Σ_k A(i, k) B(k, j),  i < m, j < n, kBegin ≤ k < kEnd
//
// One block of Shape::threads threads makes one BM×BN tile of C, as TM×TN
// accumulators a thread. Per k a thread reads TM + TN floats of shared memory for
// TM·TN fused multiply-adds: with 8×8 that is 4 reads of 16 bytes for 64 FMA, so
// that the FMA pipes bound it, not shared memory. Two buffers of BK columns of A
// and rows of B alternate: the next ones travel from memory to registers while
// the present ones are multiplied, one barrier a step. (Registers rather than
// cp.async: a prologue may change a value on its way, A and B may need transposing,
// and what the host shim tests is then what the device runs.)
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
//	NN  C = A B    A k-contiguous,     B outer-contiguous   (product_nn)
//	NT  C = A Bᵀ   A k-contiguous,     B k-contiguous       (product_nt)
//	TN  C = Aᵀ B   A outer-contiguous, B outer-contiguous   (product_tn)
//
// Rows can be gathered through a list of row numbers, so that a minibatch is
// never copied. Edges are checked; any sizes and leading dimensions are right,
// rows that begin on 16 bytes are faster. Every sum runs in one fixed order.
#pragma once
#include "banks.cuh"
#include "gpc.cuh"
#include "mma.cuh"

namespace gpc {

// Tile is the shape of one block's work. BK·BM and BK·BN are multiples of 4 ·
// threads or the loaders' last round is partial; TM and TN are multiples of 4.
template <int BM_, int BN_, int BK_, int TM_, int TN_>
struct Tile {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_;
    static constexpr int threads = (BM / TM) * (BN / TN);
    // Rows of the shared tiles are padded by 8 floats: 16-byte aligned, and the
    // tensor-core fragments of four neighbouring k fall in different banks.
    static constexpr int lda = BM + 8, ldb = BN + 8;
    static constexpr int sharedFloats = 2 * BK * (lda + ldb);
    static constexpr int quadsA = (BM * BK / 4 + threads - 1) / threads;
    static constexpr int quadsB = (BN * BK / 4 + threads - 1) / threads;
    static_assert(TM % 4 == 0 && TN % 4 == 0 && BK % 8 == 0, "a thread's tile is made of quads");
};

// Tile128 (256 threads, 34 KiB) is for large products; Tile64 (256 threads,
// 18 KiB) where 128×128 tiles are too few to fill the device.
using Tile128 = Tile<128, 128, 16, 8, 8>;
using Tile64 = Tile<64, 64, 16, 4, 4>;

// Matrix is an operand. With rows, row r of the row-major matrix (outer of a
// k-contiguous one, k of an outer-contiguous one) is row rows[r] of data.
struct Matrix {
    const float* __restrict__ data;
    long long ld;
    const int* __restrict__ rows; // nullptr: not gathered
};

__device__ inline Matrix matrix(const float* data, long long ld, const int* rows = nullptr) { return Matrix{data, ld, rows}; }

// Same is the prologue that changes nothing. A prologue is called once for every
// element on its way to shared memory, with its absolute outer and k.
struct Same {
    __device__ float operator()(float v, int, int) const { return v; }
};

// load_quad reads four neighbours of an operand, zeros beyond its edges.
template <bool KContiguous, class Prologue>
__device__ inline float4 load_quad(const Matrix& m, bool vector, int outer, int k, int outers, int kEnd, const Prologue& prologue) {
    float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const int row = KContiguous ? outer : k, rowCount = KContiguous ? outers : kEnd;
    const int column = KContiguous ? k : outer, columnCount = KContiguous ? kEnd : outers;
    if (row < rowCount) {
        const float* at = m.data + (long long)(m.rows ? m.rows[row] : row) * m.ld + column;
        if (vector && column + 4 <= columnCount) {
            const float4 q = *reinterpret_cast<const float4*>(at);
            v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
#pragma unroll
            for (int i = 0; i < 4; i++) v[i] = KContiguous ? prologue(v[i], outer, k + i) : prologue(v[i], outer + i, k);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (column + i < columnCount) v[i] = KContiguous ? prologue(at[i], outer, k + i) : prologue(at[i], outer + i, k);
        }
    }
    return make_float4(v[0], v[1], v[2], v[3]);
}

// Side moves one operand's tiles: OUTER × BK elements from memory to registers
// (fetch) and from there to shared memory as [BK][LD] (store).
template <bool KContiguous, int OUTER, int BK, int LD, int THREADS>
struct Side {
    static constexpr int quads = OUTER * BK / 4, rounds = (quads + THREADS - 1) / THREADS;
    float4 held[rounds];

    __device__ static void place(int q, int& outer, int& k) {
        if (KContiguous) {
            outer = q / (BK / 4), k = 4 * (q % (BK / 4));
        } else {
            k = q / (OUTER / 4), outer = 4 * (q % (OUTER / 4));
        }
    }

    template <class Prologue>
    __device__ void fetch(const Matrix& m, bool vector, int outer0, int k0, int outers, int kEnd, const Prologue& prologue) {
#pragma unroll
        for (int r = 0; r < rounds; r++) {
            const int q = int(threadIdx.x) + r * THREADS;
            int outer, k;
            place(q, outer, k);
            held[r] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (q < quads) held[r] = load_quad<KContiguous>(m, vector, outer0 + outer, k0 + k, outers, kEnd, prologue);
        }
    }

    // store rounds for tensor cores on the way, once for all who read.
    template <bool TF32>
    __device__ void store(float* tile) const {
#pragma unroll
        for (int r = 0; r < rounds; r++) {
            const int q = int(threadIdx.x) + r * THREADS;
            if (q >= quads) continue;
            int outer, k;
            place(q, outer, k);
            const float4 v = make_float4(operand<TF32>(held[r].x), operand<TF32>(held[r].y), operand<TF32>(held[r].z), operand<TF32>(held[r].w));
            if (KContiguous) {
                tile[(k + 0) * LD + outer] = v.x;
                tile[(k + 1) * LD + outer] = v.y;
                tile[(k + 2) * LD + outer] = v.z;
                tile[(k + 3) * LD + outer] = v.w;
            } else {
                *reinterpret_cast<float4*>(tile + k * LD + outer) = v;
            }
        }
    }
};

// aligned reports whether quads of a matrix may be read as 16 bytes, given the
// first contiguous index a tile starts at (a multiple of 4).
__device__ inline bool aligned(const float* data, long long ld, int start) {
    return ld % 4 == 0 && start % 4 == 0 && reinterpret_cast<unsigned long long>(data) % 16 == 0;
}

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

    __device__ void add(const float* tileA, const float* tileB) {
        int ty, tx;
        corner(ty, tx);
#pragma unroll
        for (int k = 0; k < Shape::BK; k++) {
            float x[Shape::TM], y[Shape::TN];
#pragma unroll
            for (int i = 0; i < Shape::TM; i += 4) {
                const float4 q = *reinterpret_cast<const float4*>(tileA + k * Shape::lda + ty + (i / 4) * stepM);
                x[i] = q.x, x[i + 1] = q.y, x[i + 2] = q.z, x[i + 3] = q.w;
            }
#pragma unroll
            for (int j = 0; j < Shape::TN; j += 4) {
                const float4 q = *reinterpret_cast<const float4*>(tileB + k * Shape::ldb + tx + (j / 4) * stepN);
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

// AccumulatorTF32 is the tensor-core path: the block's warps share the tile as
// blocks of 16×8, each warp WM×WN of them. The tile's numbers are rounded already.
template <class Shape>
struct AccumulatorTF32 {
    static constexpr int warps = Shape::threads / 32;
    static constexpr int warpsN = Shape::BN >= 64 ? 2 : 1, warpsM = warps / warpsN;
    static constexpr int WM = Shape::BM / warpsM / 16, WN = Shape::BN / warpsN / 8;
    static_assert(WM * 16 * warpsM == Shape::BM && WN * 8 * warpsN == Shape::BN, "warps cover the tile");
    float sum[WM][WN][4];

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < WM; i++)
#pragma unroll
            for (int j = 0; j < WN; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
    }

    __device__ static void corner(int& row, int& column) {
        const int warp = threadIdx.x / 32;
        row = (warp / warpsN) * WM * 16, column = (warp % warpsN) * WN * 8;
    }

    __device__ void add(const float* tileA, const float* tileB) {
        const int lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
        int row, column;
        corner(row, column);
#pragma unroll
        for (int k = 0; k < Shape::BK; k += 8) {
            unsigned int y[WN][2];
#pragma unroll
            for (int j = 0; j < WN; j++) {
                const float* at = tileB + (k + member) * Shape::ldb + column + 8 * j + group;
                y[j][0] = __float_as_uint(at[0]), y[j][1] = __float_as_uint(at[4 * Shape::ldb]);
            }
#pragma unroll
            for (int i = 0; i < WM; i++) {
                const float* at = tileA + (k + member) * Shape::lda + row + 16 * i + group;
                const unsigned int x[4] = {__float_as_uint(at[0]), __float_as_uint(at[8]), __float_as_uint(at[4 * Shape::lda]), __float_as_uint(at[4 * Shape::lda + 8])};
#pragma unroll
                for (int j = 0; j < WN; j++) gpc_mma_tf32(sum[i][j], x, y[j]);
            }
        }
    }

    template <class Epilogue>
    __device__ void finish(int m, int n, int row0, int column0, Epilogue&& epilogue) const {
        const int lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
        int row, column;
        corner(row, column);
#pragma unroll
        for (int i = 0; i < WM; i++)
#pragma unroll
            for (int j = 0; j < WN; j++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int r = row0 + row + 16 * i + group + 8 * half, c = column0 + column + 8 * j + 2 * member;
                    if (r < m && c < n) {
                        const float v[4] = {sum[i][j][2 * half], sum[i][j][2 * half + 1], 0.0f, 0.0f};
                        epilogue(r, c, v, min(2, n - c));
                    }
                }
    }
};

template <class Shape, bool TF32>
struct AccumulatorOf {
    using type = Accumulator<Shape>;
};
template <class Shape>
struct AccumulatorOf<Shape, true> {
    using type = AccumulatorTF32<Shape>;
};

// product makes the tile whose first row is row0 and first column column0.
// shared has Shape::sharedFloats floats, 16-byte aligned; all threads of the block
// call it, and the shared memory may be used again when it returns. The epilogue
// is called as epilogue(i, j, v, count) for every run of up to four neighbours
// C(i, j) … C(i, j + count − 1) that the thread holds.
template <class Shape, bool AKContiguous, bool BKContiguous, bool TF32, class PrologueA, class PrologueB, class Epilogue>
__device__ inline void product(const Matrix& a, const Matrix& b, int m, int n, int kBegin, int kEnd, int row0, int column0,
                               float* shared, const PrologueA& prologueA, const PrologueB& prologueB, Epilogue&& epilogue) {
    constexpr int sizeA = Shape::BK * Shape::lda, sizeB = Shape::BK * Shape::ldb;
    float* tileA = shared;
    float* tileB = shared + 2 * sizeA;
    Side<AKContiguous, Shape::BM, Shape::BK, Shape::lda, Shape::threads> sideA;
    Side<BKContiguous, Shape::BN, Shape::BK, Shape::ldb, Shape::threads> sideB;
    const bool vectorA = aligned(a.data, a.ld, AKContiguous ? kBegin : row0);
    const bool vectorB = aligned(b.data, b.ld, BKContiguous ? kBegin : column0);
    typename AccumulatorOf<Shape, TF32>::type accumulator;
    accumulator.clear();
    if (kBegin < kEnd) {
        sideA.fetch(a, vectorA, row0, kBegin, m, kEnd, prologueA);
        sideB.fetch(b, vectorB, column0, kBegin, n, kEnd, prologueB);
        sideA.template store<TF32>(tileA);
        sideB.template store<TF32>(tileB);
        __syncthreads();
        int buffer = 0;
        for (int k = kBegin; k < kEnd; k += Shape::BK) {
            const bool more = k + Shape::BK < kEnd;
            if (more) {
                sideA.fetch(a, vectorA, row0, k + Shape::BK, m, kEnd, prologueA);
                sideB.fetch(b, vectorB, column0, k + Shape::BK, n, kEnd, prologueB);
            }
            accumulator.add(tileA + buffer * sizeA, tileB + buffer * sizeB);
            if (more) {
                sideA.template store<TF32>(tileA + (buffer ^ 1) * sizeA);
                sideB.template store<TF32>(tileB + (buffer ^ 1) * sizeB);
            }
            __syncthreads();
            buffer ^= 1;
        }
    }
    accumulator.finish(m, n, row0, column0, epilogue);
}

// product_nn is C = A B of row-major A [m][k] and B [k][n].
template <class Shape, bool TF32 = false, class PrologueA, class PrologueB, class Epilogue>
__device__ inline void product_nn(const Matrix& a, const Matrix& b, int m, int n, int kBegin, int kEnd, int row0, int column0,
                                  float* shared, const PrologueA& prologueA, const PrologueB& prologueB, Epilogue&& epilogue) {
    product<Shape, true, false, TF32>(a, b, m, n, kBegin, kEnd, row0, column0, shared, prologueA, prologueB, epilogue);
}

// product_nt is C = A Bᵀ of row-major A [m][k] and B [n][k].
template <class Shape, bool TF32 = false, class PrologueA, class PrologueB, class Epilogue>
__device__ inline void product_nt(const Matrix& a, const Matrix& b, int m, int n, int kBegin, int kEnd, int row0, int column0,
                                  float* shared, const PrologueA& prologueA, const PrologueB& prologueB, Epilogue&& epilogue) {
    product<Shape, true, true, TF32>(a, b, m, n, kBegin, kEnd, row0, column0, shared, prologueA, prologueB, epilogue);
}

// product_tn is C = Aᵀ B of row-major A [k][m] and B [k][n].
template <class Shape, bool TF32 = false, class PrologueA, class PrologueB, class Epilogue>
__device__ inline void product_tn(const Matrix& a, const Matrix& b, int m, int n, int kBegin, int kEnd, int row0, int column0,
                                  float* shared, const PrologueA& prologueA, const PrologueB& prologueB, Epilogue&& epilogue) {
    product<Shape, false, false, TF32>(a, b, m, n, kBegin, kEnd, row0, column0, shared, prologueA, prologueB, epilogue);
}

// split_range is part s of splits of [0, k), cut at multiples of BK: the range
// depends on the sizes only, so that a split sum has one order.
__device__ inline void split_range(int k, int splits, int s, int step, int& begin, int& end) {
    const int steps = (k + step - 1) / step;
    begin = min(k, (int)((long long)steps * s / splits) * step);
    end = min(k, (int)((long long)steps * (s + 1) / splits) * step);
}

// split_sum adds the partial results partial[s·count + at], s ascending: the
// second half of a product whose k was split over blocks.
__device__ inline float split_sum(const float* partial, long long count, int splits, long long at) {
    float sum = 0.0f;
    for (int s = 0; s < splits; s++) sum += partial[s * count + at];
    return sum;
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
