// jacobian_tf32.cu: jacobian.cu on tensor cores, for networks with a hidden layer.
//
//	T_1 = D_1 W_1,  T_l = D_l W_l T_{l−1},  J = W_L T_{L−1},  G = JᵀJ + λI
//
// A block takes one row of the batch and C = 16 or 32 columns of J. T has a row for each
// active unit, and lies in shared memory; a product runs over these and over all units
// of the next layer, of which the inactive ones are dropped at the end, when T is made
// anew in place. Nothing else is staged: a warp has 64 units and all columns in
// registers, and reads the weights of its units in the order of fragments, whichever the
// active units of the layer below are, since a fragment's depth may be of any rows.
//
// Products are turned: a warp's sums are of columns × units, so that an accumulator's
// lanes have two columns of a unit, 8 bytes of T, and the accumulators of J are, as
// they lie, both operands of JᵀJ. Each warp adds JᵀJ up over its outputs, and the warps'
// sums are added in order at the end.
//
// Grid (rows, ⌈n/C⌉), block 32⌈width/64⌉ (n ≤ C where the metric is wanted). Shared
// memory: T [units][C + 8] and the list of its units, 41 KiB at C = 32, width 256: four
// blocks to a multiprocessor, of 4 warps each.
//
// Bound: reads of T and of weights, 8 and 16 requests for 16 products of 16×8×8 at C = 32:
// 1536 cycles for a layer of 256 × 256 of whose inputs half are active, where tensor cores
// take 1024, and 2048 for its weights from the second-level cache at 64 bytes a cycle.
#include "banks.cuh"
#include "gpc.cuh"
#include "jacobian.cuh"
#include "net.cuh"

namespace gpc {

// column32 is which of 32 columns, of weights or of T, is number `part` of lane group
// `group`: so that columns 2 member and 2 member + 1 of an accumulator, which are of the
// groups of that number, are four apart, and those of a lane's four members side by side.
__device__ constexpr int column32(int group, int part) { return 8 * part + group % 2 * 4 + group / 2; }

// slot is where unit `rank` stands in a list, so that the two of a lane's member in a
// slice of 8 are side by side.
__device__ constexpr int slot(int rank) { return (rank & ~7) + rank % 4 * 2 + rank % 8 / 4; }

// Turned is T: a row for each active unit, of COLUMNS columns, of which a lane group has
// two side by side of each 16.
template <int COLUMNS>
struct Turned {
    static constexpr int tiles = COLUMNS / 16, step = COLUMNS + 8;
    float* at;          // [rows][step]
    unsigned int* list; // where the weights of the rows' units are
    int slices;         // of 8 rows, the last filled up with zeros

    // The lanes' reads and writes, 8 bytes each: four units side by side, eight groups.
    __device__ static constexpr Words words() {
        Words w = {};
        for (int l = 0; l < GPC_WARP; l++) w.at[l] = l % 4 * step + 2 * (l / 4);
        return w;
    }
    static_assert(requests(words(), 2, true) == 2 && requests(words(), 2, false) == 2, "lanes meet T in different banks");
};

// Active are the active units of a hidden layer of at most 1024, as a warp sees them.
struct Active {
    unsigned int on[2]; // of its 64 units
    int before[2], count; // units active: of the words before, of all

    __device__ Active(const unsigned int* mask, const gpc_layer& l) {
        const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * 2;
        const unsigned int word = lane < l.words ? mask[l.mask + lane] : 0u;
        int upTo = __popc(word);
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const int below = __shfl_up_sync(GPC_FULL_MASK, upTo, d);
            if (lane >= d) upTo += below;
        }
        count = __shfl_sync(GPC_FULL_MASK, upTo, 31);
#pragma unroll
        for (int w = 0; w < 2; w++) {
            on[w] = __shfl_sync(GPC_FULL_MASK, word, own + w);
            before[w] = __shfl_sync(GPC_FULL_MASK, upTo, own + w) - __popc(on[w]);
        }
    }

    __device__ bool any() const { return (on[0] | on[1]) != 0; }
    __device__ int rank(int w, int unit) const { return before[w] + __popc(on[w] & ((1u << unit) - 1u)); }

    // lay lists the units that T has, `weights` floats of each, and clears what fills T up.
    template <int COLUMNS>
    __device__ void lay(Turned<COLUMNS>& t, int weights) const {
        const int lane = threadIdx.x % 32, last = (count + 7) & ~7;
#pragma unroll
        for (int w = 0; w < 2; w++)
            if (on[w] >> lane & 1) t.list[slot(rank(w, lane))] = (threadIdx.x / 32 * 64 + 32 * w + lane) * weights;
        if (count + int(threadIdx.x) < last) t.list[slot(count + threadIdx.x)] = 0;
        for (int e = threadIdx.x; e < (last - count) * COLUMNS; e += blockDim.x) t.at[(count + e / COLUMNS) * t.step + e % COLUMNS] = 0.0f;
        t.slices = last / 8;
    }

    // write puts the row of a unit that is active, of which a lane has two columns of each tile.
    template <int COLUMNS>
    __device__ void write(const Turned<COLUMNS>& t, int w, int unit, const float2 (&columns)[COLUMNS / 16]) const {
        if (!(on[w] >> unit & 1)) return;
        float* to = t.at + rank(w, unit) * t.step + threadIdx.x % 32 / 4 * 2;
#pragma unroll
        for (int tile = 0; tile < t.tiles; tile++) *reinterpret_cast<float2*>(to + 16 * tile) = columns[tile];
    }
};

// TurnedSums are those of a warp: all columns of T, and N tiles of 8 units, 2 or 8.
template <int COLUMNS, int N>
struct TurnedSums {
    using T = Turned<COLUMNS>;
    float at[T::tiles][N][4];

    // A lane's weights of a slice of T.
    struct Slice {
        float w[2][N];
    };
    __device__ static void fetch(Slice& s, const unsigned int* list, const float* weights) {
        const uint2 q = *reinterpret_cast<const uint2*>(list);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float* from = weights + (i ? q.y : q.x);
            if constexpr (N == 2) {
                const float2 v = __ldg(reinterpret_cast<const float2*>(from));
                s.w[i][0] = v.x, s.w[i][1] = v.y;
            } else {
#pragma unroll
                for (int w = 0; w < 2; w++) {
                    const float4 v = __ldg(reinterpret_cast<const float4*>(from + 32 * w));
                    s.w[i][4 * w] = v.x, s.w[i][4 * w + 1] = v.y, s.w[i][4 * w + 2] = v.z, s.w[i][4 * w + 3] = v.w;
                }
            }
        }
    }
    __device__ void multiply(const Slice& s, const float* t) {
        unsigned int a[T::tiles][4];
#pragma unroll
        for (int i = 0; i < T::tiles; i++) {
            const float2 x = *reinterpret_cast<const float2*>(t + 16 * i), y = *reinterpret_cast<const float2*>(t + 4 * T::step + 16 * i);
            a[i][0] = __float_as_uint(x.x), a[i][1] = __float_as_uint(x.y), a[i][2] = __float_as_uint(y.x), a[i][3] = __float_as_uint(y.y);
        }
#pragma unroll
        for (int j = 0; j < N; j++) {
            const unsigned int b[2] = {__float_as_uint(s.w[0][j]), __float_as_uint(s.w[1][j])};
#pragma unroll
            for (int i = 0; i < T::tiles; i++) gpc_mma_tf32(at[i][j], a[i], b);
        }
    }

    // make multiplies T, or nothing, with the weights of the lane's units: fetches those of
    // a slice while the one before is multiplied.
    __device__ void make(const T& turned, bool wanted, const float* weights) {
#pragma unroll
        for (int i = 0; i < T::tiles; i++)
#pragma unroll
            for (int j = 0; j < N; j++) at[i][j][0] = at[i][j][1] = at[i][j][2] = at[i][j][3] = 0.0f;
        const int member = threadIdx.x % 4, slices = wanted ? turned.slices : 0;
        const float* t = turned.at + member * T::step + threadIdx.x % 32 / 4 * 2;
        const unsigned int* list = turned.list + member * 2;
        Slice even, odd;
        if (slices > 0) fetch(even, list, weights);
        for (int slice = 0; slice < slices; slice += 2) {
            if (slice + 1 < slices) fetch(odd, list + 8, weights);
            multiply(even, t);
            if (slice + 1 == slices) break;
            list += 16;
            if (slice + 2 < slices) fetch(even, list, weights);
            multiply(odd, t + 8 * T::step);
            t += 16 * T::step;
        }
    }
};

// chosen_step is the distance between the rows of a layer's weights.
__device__ inline int chosen_step(int columns) { return (columns + 31) & ~31; }

template <int COLUMNS>
__device__ inline void jacobian_tf32(const gpc_jacobian& job, float* shared) {
    using T = Turned<COLUMNS>;
    constexpr int across = COLUMNS / 8, ld = COLUMNS + 4, size = COLUMNS * ld;
    const gpc_net& net = *job.net;
    const int n = net.in, first = blockIdx.y * COLUMNS; // of the columns of J
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
    const long long row = blockIdx.x;
    const unsigned int* mask = job.mask + row * net.mask_words;
    const float poison = mask[0] ? gpc_nan() : 0.0f;
    const int rows = max(net.width, 32);
    T t = {shared, reinterpret_cast<unsigned int*>(shared + rows * T::step), 0};
    {
        const gpc_layer& l = net.layer[0];
        const Active active(mask, l);
        const float* weights = l.chosen + first + 4 * group;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int w = i / 8, unit = i % 8 * 4 + member;
            float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (active.on[w] >> unit & 1) v = __ldg(reinterpret_cast<const float4*>(weights + (64 * warp + 32 * w + unit) * chosen_step(n)));
            const float2 halves[2] = {make_float2(v.x, v.y), make_float2(v.z, v.w)};
            float2 columns[T::tiles];
#pragma unroll
            for (int tile = 0; tile < T::tiles; tile++) columns[tile] = halves[tile];
            active.write<COLUMNS>(t, w, unit, columns);
        }
        active.lay(t, chosen_step(net.layer[1].out));
    }
    for (int layer = 1; layer + 1 < net.layers; layer++) {
        const gpc_layer& l = net.layer[layer];
        const Active active(mask, l);
        TurnedSums<COLUMNS, 8> sums;
        __syncthreads();
        sums.make(t, active.any(), l.chosen + 64 * warp + 4 * group);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float2 columns[T::tiles];
#pragma unroll
                for (int tile = 0; tile < T::tiles; tile++) columns[tile] = make_float2(operand<true>(sums.at[tile][j][e]), operand<true>(sums.at[tile][j][2 + e]));
                active.write<COLUMNS>(t, j / 4, j % 4 * 8 + 4 * e + member, columns);
            }
        active.lay(t, chosen_step(net.layer[layer + 1].out));
    }
    __syncthreads();

    const gpc_layer last = net.layer[net.layers - 1];
    float gram[T::tiles][across][4];
#pragma unroll
    for (int i = 0; i < T::tiles; i++)
#pragma unroll
        for (int j = 0; j < across; j++) gram[i][j][0] = gram[i][j][1] = gram[i][j][2] = gram[i][j][3] = 0.0f;
    for (int out0 = 16 * warp; out0 < last.out; out0 += blockDim.x / 2) {
        TurnedSums<COLUMNS, 2> sums;
        sums.make(t, true, last.chosen + (out0 & ~31) + 4 * group + out0 % 32 / 8);
        if (job.jac) {
#pragma unroll
            for (int i = 0; i < T::tiles; i++)
#pragma unroll
                for (int j = 0; j < 2; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const int out = out0 + 8 * j + 4 * (e % 2) + member, column = first + column32(group, 2 * i + e / 2);
                        if (out < last.out && column < n) job.jac[row * job.ldjac + out * n + column] = sums.at[i][j][e] + poison;
                    }
        }
        if (job.metric) {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                unsigned int j[T::tiles][4];
#pragma unroll
                for (int i = 0; i < T::tiles; i++)
#pragma unroll
                    for (int e = 0; e < 4; e++) j[i][e] = to_tf32(sums.at[i][k][e]);
#pragma unroll
                for (int i = 0; i < T::tiles; i++) {
                    const unsigned int a[4] = {j[i][0], j[i][2], j[i][1], j[i][3]};
#pragma unroll
                    for (int tile = 0; tile < across; tile++) {
                        const unsigned int b[2] = {j[tile / 2][tile % 2 * 2], j[tile / 2][tile % 2 * 2 + 1]};
                        gpc_mma_tf32(gram[i][tile], a, b);
                    }
                }
            }
        }
    }
    if (!job.metric) return;
    __syncthreads();
    float* own = t.at + warp * size;
#pragma unroll
    for (int i = 0; i < T::tiles; i++)
#pragma unroll
        for (int j = 0; j < across; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) own[column32(group, 2 * i + e / 2) * ld + 8 * j + 4 * (e % 2) + member] = gram[i][j][e];
    __syncthreads();
    for (int e = threadIdx.x; e < COLUMNS * COLUMNS; e += blockDim.x) {
        const int a = e / COLUMNS, b = e % COLUMNS;
        if (a >= n || b >= n) continue;
        float g = t.at[a * ld + b];
        for (int w = 1; w < int(blockDim.x) / 32; w++) g += t.at[w * size + a * ld + b];
        job.metric[row * job.ldmetric + a * n + b] = g + (a == b ? job.lambda : 0.0f) + poison;
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(512, 1) gpc_jacobian_16_tf32(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian_tf32<16>(job, shared);
}
GPC_KERNEL(gpc_jacobian_16_tf32)

extern "C" __global__ void __launch_bounds__(512, 1) gpc_jacobian_32_tf32(gpc_jacobian job) {
    GPC_SHARED(float, shared);
    gpc::jacobian_tf32<32>(job, shared);
}
GPC_KERNEL(gpc_jacobian_32_tf32)
