// net.cuh: how a network lies on the device, and the block product from which
// its forward pass, its backward pass and its Jacobian are made.
//
// A layer is kept twice, row-major [out][ldw] and transposed [in][ldt], each row
// padded with zeros to a multiple of 4 floats and beginning on 16 bytes, so that
// either pass reads weights along their contiguous side; for tensor cores, besides, in the
// order of their fragments, [⌈columns/32⌉][⌈depth/16⌉][4 tiles of 8 columns][lane][4 of
// the depth] with zeros beyond, and for the Jacobian, which chooses among the rows, each
// row in that order by itself.
#pragma once
#include "banks.cuh"
#include "gpc.cuh"
#include "tile.cuh"

// The launcher packs these structures byte for byte (kernels/pack.go).
struct gpc_layer {
    const float* weight;     // [out][ldw]
    const float* transposed; // [in][ldt]
    const float* chosen;     // of a Jacobian, rounded: [in][⌈out/32⌉·32], of the first layer [out][⌈in/32⌉·32], in the
                             // order of column32; nullptr, as what follows, where tensor cores are not used
    const float* fragments;  // of a forward pass, as they are
    const float* roundedFragments;
    const float* backward;   // of a backward pass, rounded
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
    int width;      // widest input or hidden layer, rounded up to a multiple of 16
    int pad;
};

namespace gpc {

constexpr int rowsThreads = 256; // threads of every kernel made of rows_product
constexpr int rowsWarps = rowsThreads / 32;
// Two stages of weights in transit: 16 k of 256 columns, and for fewer columns as many
// k more.
constexpr int rowsStage = 2 * 16 * 256;

// rows_ld is the distance between the k of an activation buffer [k][rows_ld].
template <int ROWS>
__device__ constexpr int rows_ld() { return ROWS < 16 ? ROWS : ROWS + 4; }

// Order is how activations lie in a buffer, and whether they are rounded.
enum class Order {
    FLOAT32, // [k][rows_ld]
    SLICES,  // rounded, in slices of 16 k, in the order of tensor cores' fragments of weights
    SPLIT,   // as SLICES, not rounded: every product is three
};

__device__ constexpr bool on_tensor_cores(Order order) { return order != Order::FLOAT32; }

// rows_padded is a number of activations that a product reads, of which those beyond
// the layer are 0: tensor cores take 16 at a time.
template <Order ORDER>
__device__ constexpr int rows_padded(int k) { return ORDER == Order::FLOAT32 ? k : (k + 15) & ~15; }

// rows_at is where activation k of a row lies in a buffer. For tensor cores it is the
// order of their fragments of A, 16 rows × 8 k, so that a lane reads its four numbers
// as 16 bytes and a warp 512 bytes in a row.
template <int ROWS, Order ORDER>
__device__ constexpr int rows_at(int k, int row) {
    if (ORDER == Order::FLOAT32) return k * rows_ld<ROWS>() + row;
    return ((k / 16 * 2 + k % 4 / 2) * (ROWS / 16) + row / 16) * 128 + (row % 8 * 4 + k % 16 / 4) * 4 + row % 16 / 8 + k % 2 * 2;
}

// activation is a number as a buffer has it.
template <Order ORDER>
__device__ inline float activation(float v) { return operand<ORDER == Order::SLICES>(v); }

// rows_put writes a run of one activation, as a product gives it.
template <int ROWS, Order ORDER>
__device__ inline void rows_put(float* act, int k, int row, int step, const float* v, int count) {
    if (ORDER == Order::FLOAT32 && count % 4 == 0 && step == 1) {
#pragma unroll
        for (int i = 0; i < count; i += 4) *reinterpret_cast<float4*>(act + rows_at<ROWS, ORDER>(k, row + i)) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
    } else {
#pragma unroll
        for (int i = 0; i < count; i++) act[rows_at<ROWS, ORDER>(k, row + i * step)] = activation<ORDER>(v[i]);
    }
}

// RowsShape is what the sums of a product of ROWS rows and CT columns share. The
// block's 8 warps are `across` side by side and `groups` of these one behind the
// other, which take parts of K; DEPTH is the k of a stage, EACH of them a group's.
template <int ROWS, int CT, int ACROSS, int DEPTH, int LDW_>
struct RowsShape {
    static constexpr int across = ACROSS, groups = rowsWarps / ACROSS, depth = DEPTH, each = DEPTH / groups, LDW = LDW_;
    static_assert(across * groups == rowsWarps && each * groups == depth && 2 * depth * LDW <= rowsStage, "warps share the product");
    // A pass of at most 32 rows of all groups' sums lies in the stage.
    static constexpr int passRows = ROWS < 32 ? ROWS : 32, passes = ROWS / passRows, own = passRows * CT / rowsThreads;
    static_assert(groups * passRows * CT <= rowsStage && own >= 1, "partial sums fit into the stage");

    // partial is where the sum of a group at (row of a pass, column) lies there: quads
    // are exchanged within a row so that warps write and read in different banks.
    __device__ static int partial(int group, int row, int column) {
        constexpr int mask = CT / 4 < 8 ? CT / 4 - 1 : 7;
        return (group * passRows + row) * CT + (((column / 4) ^ ((row ^ row / 4) & mask)) * 4 + column % 4);
    }

    // gather adds what the groups hold, in their order, and calls f(column, first row,
    // step of rows, values, count).
    template <class F>
    __device__ static void gather(const float* stage, int pass, F&& f) {
        const int column = threadIdx.x % CT, row = threadIdx.x / CT;
        constexpr int step = rowsThreads / CT;
        float v[own];
#pragma unroll
        for (int i = 0; i < own; i++) {
            v[i] = stage[partial(0, row + i * step, column)];
#pragma unroll
            for (int g = 1; g < groups; g++) v[i] += stage[partial(g, row + i * step, column)];
        }
        f(column, pass * passRows + row, step, v, own);
    }
};

template <int ROWS, int CT>
struct RowsLanes {
    using Places = Lanes<(ROWS < 32 ? 4 : 8)>;
    static constexpr int neighbours = CT < 4 * Places::columns ? CT / Places::columns : 4; // columns side by side
    static constexpr int slabs = CT >= 8 * Places::columns ? 2 : 1;
    static constexpr int across = CT / (Places::columns * neighbours * slabs);
};

// Sums of the float32 path: a thread holds 4 neighbouring rows (of 64 rows, 4 more 32
// below), and 4 neighbouring columns of each of two slabs, of which a warp leaves out
// those without columns. So 32 FMA take 3 reads of 16 bytes, 6 requests of shared
// memory where the multiply-adds take 8 cycles.
template <int ROWS, int CT>
struct RowsSums : RowsShape<ROWS, CT, RowsLanes<ROWS, CT>::across, 4096 / CT, CT> {
    using Shape = RowsShape<ROWS, CT, RowsLanes<ROWS, CT>::across, 4096 / CT, CT>;
    using Places = typename RowsLanes<ROWS, CT>::Places;
    static constexpr int TR = ROWS / Places::rows, LD = rows_ld<ROWS>();
    static constexpr int neighbours = RowsLanes<ROWS, CT>::neighbours, slabs = RowsLanes<ROWS, CT>::slabs, TN = neighbours * slabs;
    static_assert(TR % 4 == 0 && (neighbours == 4 || neighbours == 2), "reads of 16 or 8 bytes");
    static_assert(requests(Places::by_rows(4), 4, true) + slabs * requests(Places::by_columns(neighbours), neighbours, true) <= 2 + 2 * slabs, "reads merge");
    float sum[TR][TN];
    int row, column, group;
    int busy; // slabs with columns

    __device__ explicit RowsSums(int columns) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, at = warp % Shape::across * Places::columns * neighbours;
        group = warp / Shape::across;
        row = 4 * Places::row(lane), column = at + neighbours * Places::column(lane);
        busy = slabs == 2 && columns > CT / 2 + at ? 2 : (columns > at ? 1 : 0);
#pragma unroll
        for (int i = 0; i < TR; i++)
#pragma unroll
            for (int j = 0; j < TN; j++) sum[i][j] = 0.0f;
    }

    __device__ static int at(int k) { return k * LD; }

    template <int BUSY>
    __device__ void one(const float* x, const float* w) {
        float a[TR], b[TN];
#pragma unroll
        for (int i = 0; i < TR; i += 4) {
            const float4 q = *reinterpret_cast<const float4*>(x + row + 8 * i);
            a[i] = q.x, a[i + 1] = q.y, a[i + 2] = q.z, a[i + 3] = q.w;
        }
#pragma unroll
        for (int j = 0; j < BUSY; j++) {
            const float* from = w + column + j * (CT / 2);
            if (neighbours == 4) {
                const float4 q = *reinterpret_cast<const float4*>(from);
                b[4 * j] = q.x, b[4 * j + 1] = q.y, b[(4 * j + 2) % TN] = q.z, b[(4 * j + 3) % TN] = q.w;
            } else {
                const float2 q = *reinterpret_cast<const float2*>(from);
                b[0] = q.x, b[1] = q.y;
            }
        }
#pragma unroll
        for (int i = 0; i < TR; i++)
#pragma unroll
            for (int j = 0; j < BUSY * neighbours; j++) sum[i][j] = __fmaf_rn(a[i], b[j], sum[i][j]);
    }

    template <int BUSY, int LDX, int EACH>
    __device__ void run(const float* x, const float* w, int count) {
        if (count >= EACH) {
#pragma unroll(EACH < 16 ? EACH : 16)
            for (int k = 0; k < EACH; k++) one<BUSY>(x + k * LD, w + k * LDX);
        } else {
#pragma unroll 1
            for (int k = 0; k < count; k++) one<BUSY>(x + k * LD, w + k * LDX);
        }
    }

    // add takes the group's part of `count` k, EACH of a group: rows x [k][LD] and
    // columns w [k][LDX].
    template <int LDX = Shape::LDW, int EACH = Shape::each>
    __device__ void add(const float* x, const float* w, int count) {
        x += group * EACH * LD, w += group * EACH * LDX, count -= group * EACH;
        if (busy == 2)
            run<slabs, LDX, EACH>(x, w, count);
        else if (busy == 1)
            run<1, LDX, EACH>(x, w, count);
    }

    // finish calls f(column, first row, step of rows, values, count) for all sums. All threads
    // of the block call it, behind a barrier; the stage is free when it returns.
    template <class F>
    __device__ void finish(float* stage, F&& f) const {
        if constexpr (Shape::groups == 1) {
#pragma unroll
            for (int j = 0; j < TN; j++)
#pragma unroll
                for (int i = 0; i < TR; i += 4) {
                    float v[4] = {sum[i][j], sum[i + 1][j], sum[i + 2][j], sum[i + 3][j]};
                    f(column + j / 4 * (CT / 2) + j % 4, row + 8 * i, 1, v, 4);
                }
        } else {
#pragma unroll
            for (int pass = 0; pass < Shape::passes; pass++) {
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < TN; j += neighbours) {
                        float* to = stage + Shape::partial(group, row + i, column + j / 4 * (CT / 2));
                        const float* v = sum[4 * pass + i] + j;
                        if (neighbours == 4)
                            *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[neighbours - 2], v[neighbours - 1]);
                        else
                            *reinterpret_cast<float2*>(to) = make_float2(v[0], v[1]);
                    }
                __syncthreads();
                Shape::gather(stage, pass, f);
                __syncthreads();
            }
        }
    }
};

// Weights are the columns of a product, from column 0 of `at`, rows of ld floats.
// Chosen ones take row list[k] for k. Packed ones leave out columns, too: column j
// becomes rank[j] − before, and is left out where rank[j] is 0xffff.
struct Weights {
    static constexpr bool chosen = false, packed = false;
    const float* __restrict__ at;
    int ld;
    int inside; // columns there are
    const unsigned short* list;
    const unsigned short* rank;
    int before;

    // weights are those from column0 on.
    __device__ Weights(const float* all, int step, int column0, const unsigned short* rows = nullptr, const unsigned short* ranks = nullptr, int first = 0)
        : at(all + column0), ld(step), inside(step - column0), list(rows), rank(ranks), before(first) {}
};
struct ChosenWeights : Weights {
    static constexpr bool chosen = true;
    using Weights::Weights;
};
struct PackedWeights : ChosenWeights {
    static constexpr bool packed = true;
    using ChosenWeights::ChosenWeights;
};

// few_rows_product is rows_product for 8 rows, where latency counts: a thread takes
// four columns and a part of K, reads its weights from memory 16 bytes at a time, 4 k
// ahead of their use and without a barrier, and the rows' activations by broadcast.
// The parts' sums are added in order.
//
// Bound: issue, some 5500 cycles for a layer of 256 × 256. The multiply-adds take 4096 of
// them, the second-level cache's 64 bytes a cycle to one multiprocessor as many; 16 KiB on
// their way at a time are what its latency of some 270 cycles needs.
template <int CT, class W, class F>
__device__ inline void few_rows_product(const float* act, int K, const W& weights, float* stage, F&& f) {
    constexpr int across = CT / 4, parts = rowsThreads / across, ahead = 4;
    static_assert(parts * 8 * CT <= rowsStage, "partial sums fit into the stage");
    const int column = 4 * (threadIdx.x % across), part = threadIdx.x / across;
    const int begin = K * part / parts, end = K * (part + 1) / parts;
    const float* from = weights.at + min(column, weights.inside - 4);
    float sum[8][4];
    float4 next[ahead];
#pragma unroll
    for (int i = 0; i < 8; i++) sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0.0f;
    auto weight = [&](int k) { return *reinterpret_cast<const float4*>(from + (W::chosen ? (int)weights.list[k] : k) * weights.ld); };
    auto add = [&](int k, const float4& w) {
        const float4 a = *reinterpret_cast<const float4*>(act + k * 8), b = *reinterpret_cast<const float4*>(act + k * 8 + 4);
        const float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int r = 0; r < 8; r++) {
            sum[r][0] = __fmaf_rn(x[r], w.x, sum[r][0]), sum[r][1] = __fmaf_rn(x[r], w.y, sum[r][1]);
            sum[r][2] = __fmaf_rn(x[r], w.z, sum[r][2]), sum[r][3] = __fmaf_rn(x[r], w.w, sum[r][3]);
        }
    };
#pragma unroll
    for (int i = 0; i < ahead; i++) next[i] = begin + i < end ? weight(begin + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    int k0 = begin;
    // A round behind which another whole one lies asks for no end: 172 instructions for its
    // 128 multiply-adds.
    for (; k0 + 2 * ahead <= end; k0 += ahead) {
        float4 w[ahead];
#pragma unroll
        for (int i = 0; i < ahead; i++) w[i] = next[i], next[i] = weight(k0 + ahead + i);
#pragma unroll
        for (int i = 0; i < ahead; i++) add(k0 + i, w[i]);
    }
    for (; k0 < end; k0 += ahead) {
#pragma unroll
        for (int i = 0; i < ahead; i++) {
            if (k0 + i >= end) break;
            add(k0 + i, next[i]);
            if (k0 + ahead + i < end) next[i] = weight(k0 + ahead + i);
        }
    }
#pragma unroll
    for (int r = 0; r < 8; r++) *reinterpret_cast<float4*>(stage + (part * 8 + r) * CT + column) = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    __syncthreads();
    constexpr int own = CT < 32 ? 1 : 8 * CT / rowsThreads, step = rowsThreads / CT;
    const int mine = threadIdx.x % CT, row = threadIdx.x / CT;
    if (row < 8) {
        float v[own];
#pragma unroll
        for (int i = 0; i < own; i++) {
            v[i] = 0.0f;
#pragma unroll 8
            for (int p = 0; p < parts; p++) v[i] += stage[(p * 8 + row + i * step) * CT + mine];
        }
        if (!W::packed) {
            f(mine, row, step, v, own);
        } else if (mine < weights.inside && weights.rank[mine] != 0xffff) {
            f(weights.rank[mine] - weights.before, row, step, v, own);
        }
    }
    __syncthreads();
}

// rows_product makes, for the ROWS rows in act and CT columns, of which the first
// `columns` are wanted,
//
//	sum(row, column) = Σ_{k < K} act(k, row) · weight(k, column)
//
// and calls f(column, first row, step of rows, values, count) for runs of the sums, also of
// columns beyond. The stage is rowsStage floats of shared memory; weights stream
// through it, the next ones already in registers. All threads of the block call it;
// act must be ready (a barrier before), and is free when the products are made.
//
// A block of 32 rows reads a weight once for 32 FMA: 16 FLOP/byte of L2 traffic.
template <int ROWS, int CT, class W, class F>
__device__ inline void rows_product(const float* act, int K, const W& weights, int columns, float* stage, F&& f) {
    if constexpr (ROWS == 8) {
        few_rows_product<CT>(act, K, weights, stage, f);
    } else {
        using Sums = RowsSums<ROWS, CT>;
        constexpr int across = CT / 4, step = rowsThreads / across, rounds = Sums::depth / step, size = Sums::depth * Sums::LDW;
        static_assert(rounds >= 1 && rounds * step == Sums::depth, "every thread has its quads");
        Sums sums(columns);
        float4 held[rounds];
        const int k1 = int(threadIdx.x) / across, column = 4 * (int(threadIdx.x) % across);
        unsigned short to[4] = {0, 0, 0, 0};
        if constexpr (W::packed) {
#pragma unroll
            for (int i = 0; i < 4; i++) to[i] = column < weights.inside ? weights.rank[column + i] : (unsigned short)0xffff;
        }
        // What lies beyond the last k or column is read from inside: it meets activations
        // of 0, or reaches sums that are not wanted.
        const float* from = weights.at + min(column, weights.inside - 4);
        auto fetch = [&](int k0) {
#pragma unroll
            for (int r = 0; r < rounds; r++) {
                const int k = min(k0 + k1 + r * step, K - 1);
                held[r] = *reinterpret_cast<const float4*>(from + (W::chosen ? (int)weights.list[k] : k) * weights.ld);
            }
        };
        auto store = [&](float* buffer) {
#pragma unroll
            for (int r = 0; r < rounds; r++) {
                float* row = buffer + (k1 + r * step) * Sums::LDW;
                if constexpr (W::packed) {
                    const float v[4] = {held[r].x, held[r].y, held[r].z, held[r].w};
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        if (to[i] != 0xffff) row[to[i] - weights.before] = v[i];
                } else {
                    *reinterpret_cast<float4*>(row + column) = held[r];
                }
            }
        };
        if (K > 0) {
            fetch(0);
            store(stage);
        }
        __syncthreads();
        int buffer = 0;
        for (int k0 = 0; k0 < K; k0 += Sums::depth) {
            const bool more = k0 + Sums::depth < K;
            if (more) fetch(k0 + Sums::depth);
            sums.add(act + Sums::at(k0), stage + buffer * size, K - k0);
            if (more) store(stage + (buffer ^ 1) * size);
            __syncthreads();
            buffer ^= 1;
        }
        sums.finish(stage, f);
    }
}

// FragmentSums are the sums of tensor cores whose weights come from memory in the order of
// their fragments: a warp has all rows of 32 columns, and its part of the depth where
// there are fewer columns than warps.
template <int ROWS, int CT>
struct FragmentSums : RowsShape<ROWS, CT, CT / 32, 8 * rowsWarps * 32 / CT, CT> {
    using Shape = RowsShape<ROWS, CT, CT / 32, 8 * rowsWarps * 32 / CT, CT>;
    using Side = FragmentSide<false, true, 128, 128>;
    static constexpr int WM = ROWS / 16;
    float sum[WM][4][4];
    int column, group;

    __device__ FragmentSums() {
        const int warp = threadIdx.x / 32;
        column = warp % Shape::across * 32, group = warp / Shape::across;
#pragma unroll
        for (int i = 0; i < WM; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
    }

    // halves are what tensor cores see of a number, and what they leave, of which they see
    // the first bits again: 22 to 24 of a float32's 24. What is not finite leaves nothing.
    __device__ static void halves(float v, unsigned int& high, unsigned int& low) {
        high = __float_as_uint(v) & 0xffffe000u;
        low = fabsf(v) < gpc_inf() ? __float_as_uint(v - __uint_as_float(high)) : 0u;
    }

    // add takes the warp's part of a depth of so many slices; weights are those of its columns.
    template <bool SPLIT>
    __device__ void add(const float* act, const float* weights, int slices) {
        const int lane = threadIdx.x % 32;
        const int begin = slices * group / Shape::groups, end = slices * (group + 1) / Shape::groups;
        const float* from = weights + begin * 512 + lane * 4;
        act += begin * (2 * WM * 128) + lane * 4;
        float4 next[4];
        auto fetch = [&] {
#pragma unroll
            for (int j = 0; j < 4; j++) next[j] = __ldg(reinterpret_cast<const float4*>(from + j * 128));
            from += 512;
        };
        if (begin < end) fetch();
        for (int slice = begin; slice < end; slice++) {
            unsigned int b[4][2][2], low[4][2][2];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float v[4] = {next[j].x, next[j].y, next[j].z, next[j].w};
#pragma unroll
                for (int k = 0; k < 4; k++)
                    if constexpr (SPLIT)
                        halves(v[k], b[j][k / 2][k % 2], low[j][k / 2][k % 2]);
                    else
                        b[j][k / 2][k % 2] = __float_as_uint(v[k]);
            }
            if (slice + 1 < end) fetch();
#pragma unroll
            for (int p = 0; p < 2; p++)
#pragma unroll
                for (int i = 0; i < WM; i++) {
                    const float4 q = *reinterpret_cast<const float4*>(act + (p * WM + i) * 128);
                    unsigned int a[4] = {__float_as_uint(q.x), __float_as_uint(q.y), __float_as_uint(q.z), __float_as_uint(q.w)};
                    if constexpr (SPLIT) {
                        unsigned int rest[4];
                        const float v[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
                        for (int e = 0; e < 4; e++) halves(v[e], a[e], rest[e]);
#pragma unroll
                        for (int j = 0; j < 4; j++) gpc_mma_tf32(sum[i][j], rest, b[j][p]);
#pragma unroll
                        for (int j = 0; j < 4; j++) gpc_mma_tf32(sum[i][j], a, low[j][p]);
                    }
#pragma unroll
                    for (int j = 0; j < 4; j++) gpc_mma_tf32(sum[i][j], a, b[j][p]);
                }
            act += 2 * WM * 128;
        }
    }

    template <class F>
    __device__ void finish(float* stage, F&& f) const {
        const int group8 = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < WM; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int c = column + Side::column(j, 2 * member);
                if constexpr (Shape::groups == 1) {
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        float v[2] = {sum[i][j][e], sum[i][j][2 + e]};
                        f(c + e, 16 * i + group8, 8, v, 2);
                    }
                } else {
#pragma unroll
                    for (int e = 0; e < 4; e += 2)
                        *reinterpret_cast<float2*>(stage + Shape::partial(group, 16 * i + group8 + 4 * e, c)) = make_float2(sum[i][j][e], sum[i][j][e + 1]);
                }
            }
        if constexpr (Shape::groups > 1) {
            static_assert(Shape::passes == 1, "32 rows");
            __syncthreads();
            Shape::gather(stage, 0, f);
            __syncthreads();
        }
    }
};

// fragment_product is rows_product on tensor cores with weights in fragments, from the
// first of columns column0 to column0 + CT on. Nothing is staged but the sums of parts.
template <int ROWS, int CT, bool SPLIT, class F>
__device__ inline void fragment_product(const float* act, int K, const float* weights, int column0, int columns, float* stage, F&& f) {
    FragmentSums<ROWS, CT> sums;
    const int slices = (K + 15) / 16;
    if (columns > sums.column) sums.template add<SPLIT>(act, weights + (long long)(column0 + sums.column) / 32 * slices * 512, slices);
    sums.finish(stage, f);
}

// active_units lists the units whose slope is 1, ascending, and gives each its
// rank in that list (0xffff: none, also to the end of a quad). All threads call it;
// list and rank are ready behind the next barrier.
__device__ inline int active_units(const unsigned int* mask, int units, unsigned short* list, unsigned short* rank) {
    const int words = (units + 31) / 32;
    int total = 0;
    for (int word0 = 0; word0 < words; word0 += rowsWarps) {
        // A thread looks at one unit, and at the words before its own.
        const int own = word0 + threadIdx.x / 32, lane = threadIdx.x % 32;
        int before = total, all = total;
        unsigned int bits = 0;
#pragma unroll
        for (int w = 0; w < rowsWarps; w++) {
            const unsigned int word = word0 + w < words ? mask[word0 + w] : 0u;
            if (word0 + w < own) before += __popc(word);
            if (word0 + w == own) bits = word;
            all += __popc(word);
        }
        const int unit = 32 * own + lane, at = before + __popc(bits & ((1u << lane) - 1u));
        const bool on = (bits >> lane) & 1u;
        if (unit < ((units + 3) & ~3)) rank[unit] = on ? (unsigned short)at : (unsigned short)0xffff;
        if (on) list[at] = (unsigned short)unit;
        total = all;
    }
    return total;
}

} // namespace gpc
