// search.cu: the k nearest codes of each query among those whose residual is small
// enough, over one part of the codes (eq. iclr-measurement-consistent,
// iclr-localization; Algorithm 2, step 1).
//
// A block takes 64 queries through its part of the codes, 128 at a time, as a
// matrix product: ‖z − c‖² = ‖z‖² + ‖c‖² − 2 zᵀc, in float32 or on tensor cores.
// That only sieves. A code that may be nearer than a query's k-th so far, by a
// bound γ(‖z‖² + ‖c‖²) on the product's rounding, is marked; its distance is then
// taken again from differences in float64, its residual ‖x − D_s(c)‖² likewise, and
// it enters the query's list, ordered by distance, then index. So the result is
// exact whatever the sieve lets through, and does not depend on the order of work.
// While many codes pass, as for queries with fewer than k consistent codes so far,
// the residuals are sieved by a second product alike. A block none of whose queries takes
// part looks at no code.
//
// Grid (⌈queries/64⌉, parts), block 256. In float32 a thread tile of 4×8, with 25 KiB of
// slices; on tensor cores a warp has 32 queries × 32 codes: its queries stay in
// registers, 32 coordinates at a time, and codes, rounded when they were uploaded, come
// from memory in the order of its fragments, without shared memory or a barrier. Besides 2 KiB of
// marks and 12 bytes for each of 64·k list entries. Bound: 2·n_z FLOP a pair of query and code (65
// GFLOP for 250 000 × 4096 × 32), 2·(n_z + n_s) where the residuals are sieved too.
#include "gpc.cuh"
#include "tile.cuh"
#include "warp.cuh"

struct gpc_search {
    const float* codes;   // [count, ldcode]
    const float* norms;   // [count] squared, zeros to a multiple of 128; codes begin on 16 bytes
    const float* decoded; // [count, lddecoded], with x
    const float* decodedNorms; // [count] squared
    const float* z;       // [rows, ldz] queries
    const float* x;       // [rows, ldx] or nullptr: no residual filter
    const float* tau;     // [rows]
    double* distance;     // [parts, rows, k]
    int* index;           // −1: fewer found
    const double* afterDistance; // [rows] only codes beyond this (distance, index); nullptr: all
    const int* afterIndex;
    const int* state;     // [rows] only rows with state 1; nullptr: all
    const float* rounded; // codes as tensor cores read them, nullptr where they are not used:
    const float* decodedRounded; // [⌈count/32⌉][⌈n/16⌉][4 tiles of 8 codes][lane][4 k], zeros to a multiple of 128
    int count, rows, k;
    short ldcode, n, states, lddecoded, ldz, ldx;
};

namespace gpc {

using SearchTile = Tile<64, 128, 16, 4, 8>;
constexpr int searchQuads = SearchTile::BN / 4; // of codes, of which a mark has a bit each

constexpr int searchCrowd = 512; // marks of a tile above which residuals are sieved

// sieve_gamma bounds the rounding of ‖a‖² + ‖b‖² − 2aᵀb over n terms, relative to
// ‖a‖² + ‖b‖²: sums of n products, and two roundings to 11 bits in each on tensor
// cores, both twice over.
template <bool TF32>
__device__ inline float sieve_gamma(int n) { return float(n + 8) / 4194304.0f + (TF32 ? 1.0f / 512.0f : 0.0f); }

__device__ inline bool before(double d, int i, double e, int j) { return d < e || (d == e && i < j); }

// squared_distance is ‖a − b‖² in float64.
__device__ inline double squared_distance(const float* a, const float* b, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        sum += d * d;
    }
    return sum;
}

// row_quad reads four neighbours of a row of n floats, zeros beyond. The row begins on 16
// bytes and goes on with zeros to a multiple of them, or is read number by number.
__device__ inline float4 row_quad(const float* row, int k, int n, bool padded) {
    if (padded) return k < n ? __ldg(reinterpret_cast<const float4*>(row + k)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(k < n ? row[k] : 0.0f, k + 1 < n ? row[k + 1] : 0.0f, k + 2 < n ? row[k + 2] : 0.0f, k + 3 < n ? row[k + 3] : 0.0f);
}

// SearchSide moves rows of queries or codes; beyond the last it reads that one.
template <bool PADDED, int OUTER>
struct SearchSide : Side<true, OUTER, SearchTile::threads> {
    using Base = Side<true, OUTER, SearchTile::threads>;
    const float* at[Base::rounds];
    int k0;

    __device__ SearchSide(const float* data, int ld, int outer0, int outers) {
        int outer;
        Base::first(outer, k0);
#pragma unroll
        for (int r = 0; r < Base::rounds; r++) at[r] = data + (long long)min(outer0 + outer + Base::outer_step(r), outers - 1) * ld;
    }

    __device__ void fetch(int k, int n) {
#pragma unroll
        for (int r = 0; r < Base::rounds; r++) this->held[r] = row_quad(at[r], k + k0, n, PADDED);
    }
};

// SearchRows are the two matrices of a product: queries, codes, in rows of ldc numbers or in
// fragments, and half of what the codes' norms count.
struct SearchRows {
    const float *queries, *codes, *norms;
    int ldq, ldc, n;
    float half;
};

// Sieve calls f(query, code, w) for every four codes side by side of a tile, numbers
// within it, w = zᵀc − half·‖c‖². All threads of the block call it.
template <bool TF32>
struct Sieve {
    __device__ Sieve() {}

    template <class F>
    __device__ void operator()(const SearchRows& of, int row0, int rows, int code0, int count, float* tiles, F&& f) {
        SearchSide<false, SearchTile::BM> a(of.queries, of.ldq, row0, rows);
        SearchSide<true, SearchTile::BN> b(of.codes, of.ldc, code0, count);
        product<Accumulator<SearchTile>, SearchTile>(a, b, rows, count, 0, of.n, row0, code0, tiles, [] {}, [&](int row, int code, const float* v, int) {
            const float4 norm = __ldg(reinterpret_cast<const float4*>(of.norms + code));
            const float w[4] = {__fmaf_rn(-of.half, norm.x, v[0]), __fmaf_rn(-of.half, norm.y, v[1]), __fmaf_rn(-of.half, norm.z, v[2]), __fmaf_rn(-of.half, norm.w, v[3])};
            f(row - row0, code - code0, w);
        });
    }
};

// On tensor cores: 2 × 4 warps, each two tiles of 16 queries and four of 8 codes.
template <>
struct Sieve<true> {
    using Queries = FragmentSide<true, true, SearchTile::BM, 128>;
    using Codes = FragmentSide<false, true, SearchTile::BN, 128>;
    static constexpr int slices = 2;
    unsigned int a[slices][2][2][4];
    const float* held; // whose coordinates from held_k on a has
    int heldK;

    __device__ Sieve() : held(nullptr), heldK(0) {}

    __device__ void take(const SearchRows& of, int first, int rows, int k0) {
        const int group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
#pragma unroll
        for (int s = 0; s < slices; s++)
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float* row = of.queries + (long long)min(first + Queries::row(i, group, e), rows - 1) * of.ldq;
                    const float4 q = row_quad(row, k0 + 16 * s + 4 * member, of.n, false);
                    a[s][i][0][e] = to_tf32(q.x), a[s][i][0][2 + e] = to_tf32(q.y), a[s][i][1][e] = to_tf32(q.z), a[s][i][1][2 + e] = to_tf32(q.w);
                }
        held = of.queries, heldK = k0;
    }

    template <class F>
    __device__ void operator()(const SearchRows& of, int row0, int rows, int code0, int, float*, F&& f) {
        const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
        const int query = warp / 4 * 32, code = warp % 4 * 32;
        float sum[2][4][4];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const float4 norm = __ldg(reinterpret_cast<const float4*>(of.norms + code0 + code + Codes::column(2 * q, 2 * member)));
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int e = 0; e < 4; e += 2) {
                    sum[i][2 * q][e] = -of.half * norm.x, sum[i][2 * q][e + 1] = -of.half * norm.y;
                    sum[i][2 * q + 1][e] = -of.half * norm.z, sum[i][2 * q + 1][e + 1] = -of.half * norm.w;
                }
        }
        const float* at = of.codes + (long long)(code0 + code) * of.ldc + threadIdx.x % 32 * 4;
        for (int k0 = 0; k0 < of.n; k0 += 16 * slices) {
            if (held != of.queries || heldK != k0) take(of, row0 + query, rows, k0);
#pragma unroll
            for (int s = 0; s < slices; s++, at += 512) {
                if (s > 0 && k0 + 16 * s >= of.n) break;
                unsigned int b[4][2][2];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float4 q = __ldg(reinterpret_cast<const float4*>(at + 128 * j));
                    b[j][0][0] = __float_as_uint(q.x), b[j][0][1] = __float_as_uint(q.y), b[j][1][0] = __float_as_uint(q.z), b[j][1][1] = __float_as_uint(q.w);
                }
                mma_tiles(sum, a[s], b, 0);
                mma_tiles(sum, a[s], b, 1);
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll
                for (int q = 0; q < 2; q++) {
                    const float w[4] = {sum[i][2 * q][2 * e], sum[i][2 * q][2 * e + 1], sum[i][2 * q + 1][2 * e], sum[i][2 * q + 1][2 * e + 1]};
                    f(query + Queries::row(i, group, e), code + Codes::column(2 * q, 2 * member), w);
                }
    }
};

template <bool TF32>
__device__ inline void search(const gpc_search& job, float* shared) {
    using T = SearchTile;
    constexpr int queries = T::BM, tile = T::BN;
    double* listDistance = reinterpret_cast<double*>(shared);
    int* listIndex = reinterpret_cast<int*>(listDistance + queries * job.k);
    unsigned char* marks = reinterpret_cast<unsigned char*>(listIndex + queries * job.k); // [queries][searchQuads]
    float* tiles = reinterpret_cast<float*>(marks + queries * searchQuads);
    // A code passes where zᵀc − half·‖c‖² is not below bar.
    __shared__ float norm[queries], bar[queries], normX[queries];
    __shared__ int crowd[T::threads / 32];
    const float keep = 1.0f - sieve_gamma<TF32>(job.n), keepX = 1.0f - sieve_gamma<TF32>(job.states);
    __shared__ int held[queries]; // entries of a list; −1: the query takes no part
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = T::threads / 32;
    const int row0 = blockIdx.x * queries;
    for (int i = threadIdx.x; i < queries * searchQuads / 4; i += T::threads) reinterpret_cast<unsigned int*>(marks)[i] = 0u;

    bool part = false;
    for (int q = warp; q < queries; q += warps) {
        const long long row = row0 + q;
        float sum = 0.0f, sumX = 0.0f;
        bool bad = row >= job.rows || (job.state && job.state[row] != 1);
        if (row < job.rows) {
            for (int i = lane; i < job.n; i += 32) {
                const float v = job.z[row * job.ldz + i];
                sum = __fmaf_rn(v, v, sum), bad |= !gpc_finite(v);
            }
            if (job.x)
                for (int i = lane; i < job.states; i += 32) {
                    const float v = job.x[row * job.ldx + i];
                    sumX = __fmaf_rn(v, v, sumX), bad |= !gpc_finite(v);
                }
        }
        sum = warp_sum(sum), sumX = warp_sum(sumX), bad = warp_any(bad);
        if (lane == 0) norm[q] = sum * keep, normX[q] = sumX * keepX, held[q] = bad ? -1 : 0, bar[q] = bad ? gpc_inf() : -gpc_inf();
        part |= !bad;
    }
    part = __syncthreads_or(part);

    const int steps = (job.count + tile - 1) / tile;
    const int first = (int)((long long)steps * blockIdx.y / gridDim.y) * tile;
    const int last = part ? min(job.count, (int)((long long)steps * (blockIdx.y + 1) / gridDim.y) * tile) : first;
    const SearchRows codes{job.z, TF32 ? job.rounded : job.codes, job.norms, job.ldz, TF32 ? (job.n + 15) / 16 * 16 : job.ldcode, job.n, 0.5f * keep};
    const SearchRows states{job.x, TF32 ? job.decodedRounded : job.decoded, job.decodedNorms, job.ldx, TF32 ? (job.states + 15) / 16 * 16 : job.lddecoded, job.states, 0.5f * keepX};
    Sieve<TF32> sieve;
    for (int code0 = first; code0 < last; code0 += tile) {
        bool any = false;
        sieve(codes, row0, job.rows, code0, last, tiles, [&](int q, int code, const float* w) {
            const float most = bar[q];
            if (w[0] < most && w[1] < most && w[2] < most && w[3] < most) return;
            // A NaN of an overflow is let through, but not that of a query that takes no part.
            unsigned int mark = 0;
            for (int j = 0; j < 4; j++)
                if (!(w[j] < most) && held[q] >= 0 && code0 + code + j < last) mark |= 1u << j;
            if (mark) marks[q * searchQuads + code / 4] = (unsigned char)mark, any = true;
        });
        if (!__syncthreads_or(any)) continue;
        if (job.x) {
            int marked = 0;
            for (int i = threadIdx.x; i < queries * searchQuads / 4; i += T::threads) marked += __popc(reinterpret_cast<const unsigned int*>(marks)[i]);
            for (int m = 16; m > 0; m /= 2) marked += __shfl_xor_sync(GPC_FULL_MASK, marked, m);
            if (lane == 0) crowd[warp] = marked;
            __syncthreads();
            marked = 0;
            for (int w = 0; w < warps; w++) marked += crowd[w];
            if (marked > searchCrowd) {
                sieve(states, row0, job.rows, code0, last, tiles, [&](int q, int code, const float* w) {
                    unsigned char* mark = marks + q * searchQuads + code / 4;
                    if (*mark == 0) return;
                    const float most = 0.5f * (normX[q] - job.tau[row0 + q]);
                    for (int j = 0; j < 4; j++)
                        if (w[j] < most) *mark &= (unsigned char)~(1 << j);
                });
                __syncthreads();
            }
        }
        for (int q = warp; q < queries; q += warps) {
            unsigned char* mark = marks + q * searchQuads + lane;
            const unsigned int mine = *mark;
            if (!warp_any(mine != 0)) continue;
            *mark = 0;
            const long long row = row0 + q;
            double* distances = listDistance + q * job.k;
            int* indices = listIndex + q * job.k;
            for (int bit = 0; bit < 4; bit++) {
                const int code = code0 + 4 * lane + bit;
                bool wanted = (mine >> bit) & 1u;
                double d = 0.0;
                const int filled = held[q];
                if (wanted) {
                    d = squared_distance(job.z + row * job.ldz, job.codes + (long long)code * job.ldcode, job.n);
                    if (filled == job.k) wanted = before(d, code, distances[job.k - 1], indices[job.k - 1]);
                    if (wanted && job.afterDistance) wanted = before(job.afterDistance[row], job.afterIndex[row], d, code);
                    if (wanted && job.x)
                        wanted = squared_distance(job.x + row * job.ldx, job.decoded + (long long)code * job.lddecoded, job.states) <= (double)job.tau[row];
                }
                unsigned int left = __ballot_sync(GPC_FULL_MASK, wanted);
                while (left) {
                    const int from = __ffs((int)left) - 1;
                    left &= left - 1;
                    const double e = __shfl_sync(GPC_FULL_MASK, d, from);
                    const int c = __shfl_sync(GPC_FULL_MASK, code, from);
                    // Lane j holds entry j; the new one goes behind those before it.
                    const int n = held[q];
                    const bool holds = lane < n;
                    const double own = holds ? distances[lane] : 0.0;
                    const int ownIndex = holds ? indices[lane] : -1;
                    const int place = __popc(__ballot_sync(GPC_FULL_MASK, holds && before(own, ownIndex, e, c)));
                    if (place < job.k) {
                        __syncwarp();
                        if (holds && lane >= place && lane + 1 < job.k) distances[lane + 1] = own, indices[lane + 1] = ownIndex;
                        if (lane == place) distances[place] = e, indices[place] = c;
                        if (lane == 0) held[q] = min(n + 1, job.k);
                        __syncwarp();
                        if (lane == 0 && held[q] == job.k) bar[q] = 0.5f * (norm[q] - ((float)distances[job.k - 1] * (1.0f + 2.4e-7f) + 1e-37f));
                    }
                    __syncwarp();
                }
            }
        }
        __syncthreads();
    }
    for (int q = warp; q < queries; q += warps) {
        const long long row = row0 + q;
        if (row >= job.rows || lane >= job.k) continue;
        const long long at = ((long long)blockIdx.y * job.rows + row) * job.k + lane;
        const bool holds = lane < held[q];
        job.distance[at] = holds ? listDistance[q * job.k + lane] : (double)gpc_inf();
        job.index[at] = holds ? listIndex[q * job.k + lane] : -1;
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256, 3) gpc_search_fp32(gpc_search job) {
    GPC_SHARED(float, shared);
    gpc::search<false>(job, shared);
}
GPC_KERNEL(gpc_search_fp32)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_search_tf32(gpc_search job) {
    GPC_SHARED(float, shared);
    gpc::search<true>(job, shared);
}
GPC_KERNEL(gpc_search_tf32)
