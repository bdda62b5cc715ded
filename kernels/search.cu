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
// the residuals are sieved by a second product alike.
//
// Grid (⌈queries/64⌉, parts), block 256: thread tile 4×8. Shared memory 26.6 KiB of
// tiles, 4 KiB of marks, 12 bytes for each of 64·k list entries: three blocks to a
// multiprocessor at k = 32 (80 registers, 40 bytes spilt; the TF32 variant two
// blocks, 127 registers, no spill). Bound: 2·n_z FLOP a pair of query and code (65
// GFLOP for 250 000 × 4096 × 32), 2·(n_z + n_s) where the residuals are sieved too.
#include "gpc.cuh"
#include "tile.cuh"
#include "warp.cuh"

struct gpc_search {
    const float* codes;   // [count, ldcode]
    const float* norms;   // [count] squared
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
    int count, rows, k;
    short ldcode, n, states, lddecoded, ldz, ldx;
};

namespace gpc {

using SearchTile = Tile<64, 128, 16, 4, 8>;

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

template <bool TF32>
__device__ inline void search(const gpc_search& job, float* shared) {
    using T = SearchTile;
    constexpr int queries = T::BM, tile = T::BN;
    float* tiles = shared;
    double* listDistance = reinterpret_cast<double*>(tiles + T::sharedFloats);
    int* listIndex = reinterpret_cast<int*>(listDistance + queries * job.k);
    unsigned char* marks = reinterpret_cast<unsigned char*>(listIndex + queries * job.k);
    __shared__ float norm[queries], limit[queries], normX[queries];
    __shared__ int crowd[T::threads / 32];
    const float keep = 1.0f - sieve_gamma<TF32>(job.n), keepX = 1.0f - sieve_gamma<TF32>(job.states);
    __shared__ int held[queries]; // entries of a list; −1: the query takes no part
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = T::threads / 32;
    const int row0 = blockIdx.x * queries;

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
        if (lane == 0) norm[q] = sum * keep, normX[q] = sumX * keepX, held[q] = bad ? -1 : 0, limit[q] = bad ? -gpc_inf() : gpc_inf();
    }
    __syncthreads();

    const int steps = (job.count + tile - 1) / tile;
    const int first = (int)((long long)steps * blockIdx.y / gridDim.y) * tile;
    const int last = min(job.count, (int)((long long)steps * (blockIdx.y + 1) / gridDim.y) * tile);
    const Matrix a = matrix(job.z, job.ldz), b = matrix(job.codes, job.ldcode);
    for (int code0 = first; code0 < last; code0 += tile) {
        for (int i = threadIdx.x; i < queries * tile / 8; i += T::threads) reinterpret_cast<unsigned int*>(marks)[i] = 0u;
        __syncthreads();
        product<T, true, true, TF32>(a, b, job.rows, last, 0, job.n, row0, code0, tiles, Same{}, Same{}, [&](int row, int column, const float* v, int count) {
            const int q = row - row0;
            const float base = norm[q], most = limit[q];
            unsigned char mark[2] = {0, 0};
            for (int j = 0; j < count; j++) {
                const float sieve = __fmaf_rn(-2.0f, v[j], base + job.norms[column + j] * keep);
                // A NaN of an overflow is let through; −∞ marks a row that takes no part.
                if (!(sieve > most) && most > -gpc_inf()) mark[j / 2] |= (unsigned char)(1 << (j % 2));
            }
            const int at = q * (tile / 2) + (column - code0) / 2;
            if (mark[0]) marks[at] = mark[0];
            if (mark[1]) marks[at + 1] = mark[1];
        });
        __syncthreads();
        if (job.x) {
            int marked = 0;
            for (int i = threadIdx.x; i < queries * tile / 8; i += T::threads) marked += __popc(reinterpret_cast<const unsigned int*>(marks)[i]);
            for (int m = 16; m > 0; m /= 2) marked += __shfl_xor_sync(GPC_FULL_MASK, marked, m);
            if (lane == 0) crowd[warp] = marked;
            __syncthreads();
            marked = 0;
            for (int w = 0; w < warps; w++) marked += crowd[w];
            if (marked > searchCrowd) {
                product<T, true, true, TF32>(matrix(job.x, job.ldx), matrix(job.decoded, job.lddecoded), job.rows, last, 0, job.states, row0, code0, tiles, Same{}, Same{},
                                             [&](int row, int column, const float* v, int count) {
                                                 const int q = row - row0;
                                                 const float base = normX[q], most = job.tau[row];
                                                 for (int j = 0; j < count; j++) {
                                                     const float sieve = __fmaf_rn(-2.0f, v[j], base + job.decodedNorms[column + j] * keepX);
                                                     if (sieve > most) marks[q * (tile / 2) + (column - code0 + j) / 2] &= (unsigned char)~(1 << (j % 2));
                                                 }
                                             });
                __syncthreads();
            }
        }
        for (int q = warp; q < queries; q += warps) {
            const unsigned int mine = reinterpret_cast<const unsigned short*>(marks + q * (tile / 2))[lane];
            if (!warp_any(mine != 0)) continue;
            const long long row = row0 + q;
            double* distances = listDistance + q * job.k;
            int* indices = listIndex + q * job.k;
            for (int bit = 0; bit < 4; bit++) {
                const int code = code0 + 4 * lane + bit;
                bool wanted = (mine >> (bit / 2 * 8 + bit % 2)) & 1u;
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
                        if (lane == 0 && held[q] == job.k) limit[q] = (float)distances[job.k - 1] * (1.0f + 2.4e-7f) + 1e-37f;
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
