// search_bound.cu: for each query a distance T that k codes at least do not exceed
// (include/search.cuh). A block keeps the nearest of each of 128 groups of codes, by
//
//	‖z − c‖² ≤ (1 + γ)‖z‖² − 2 (zᵀc − (1 + γ)/2 ‖c‖²)
//
// with zᵀc from tensor cores, and takes the k-th nearest of these, rounded up to 6 bits.
// Neighbours of one code are in other groups, so that T is hardly larger than the k-th
// distance. Of many codes it looks at a part: then more are within T, and no fewer.
//
// Grid ⌈rows/32⌉, block 512, of more than 32 coordinates 256; each warp 32 queries × 32 codes at
// a time. Shared memory 17 KiB.
// Bound: issue, 16 products of 16×8×8 for each 16 coordinates of such a tile and 60 instructions beside.
#include "search.cuh"
#include "warp.cuh"

namespace gpc {

constexpr int boundQueries = 32, boundGroups = 128;
constexpr int boundLowest = 17; // bit of T

template <int SLICES, int WARPS>
__device__ inline void search_bound(const gpc_search& job) {
    constexpr int kept = boundGroups / 4 / WARPS, own = boundQueries / WARPS; // groups of a lane, queries of a warp
    __shared__ float nearest[boundQueries][boundGroups + 4];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
    const int row0 = blockIdx.x * boundQueries;
    {
        const SieveQueries<SLICES> queries(job, row0);
        float most[2][2][kept];
#pragma unroll
        for (int v = 0; v < 4 * kept; v++) most[v / kept / 2][v / kept % 2][v % kept] = -gpc_inf();
#pragma unroll 2
        for (int tile = warp * job.every; tile < (job.count + 31) / 32; tile += WARPS * job.every) {
            float sum[2][4][4];
            queries.products(job.fragments, job.upper, tile, sum);
#pragma unroll
            for (int v = 0; v < 32; v++) {
                const int i = v / 16, e = v / 8 % 2, c = v % 8;
                most[i][e][c % kept] = fmaxf(most[i][e][c % kept], sum[i][c / 2][2 * e + c % 2]);
            }
        }
#pragma unroll
        for (int v = 0; v < 4 * kept; v++) {
            const int i = v / kept / 2, e = v / kept % 2;
            nearest[16 * i + group + 8 * e][(4 * warp + member) * kept + v % kept] = most[i][e][v % kept];
        }
    }
    __syncthreads();

    float norm[own];
    unsigned int distance[own][boundGroups / 32], least[own]; // as integers, which order numbers that are not negative
#pragma unroll
    for (int q = 0; q < own; q++) {
        const long long row = min(row0 + own * warp + q, job.rows - 1);
        float sum = 0.0f;
        for (int i = lane; i < job.n; i += 32) {
            const float v = job.z[row * job.ldz + i] - job.mean[i];
            sum = __fmaf_rn(v, v, sum);
        }
        norm[q] = warp_sum(sum), least[q] = 0u;
#pragma unroll
        for (int g = 0; g < boundGroups / 32; g++)
            distance[q][g] = __float_as_uint(fmaxf(__fmaf_rn(-2.0f, nearest[own * warp + q][lane + 32 * g], norm[q] * (1.0f + job.gamma)), 0.0f));
    }
    // The k-th smallest, bit by bit.
    for (int bit = 30; bit >= boundLowest; bit--) {
#pragma unroll
        for (int q = 0; q < own; q++) {
            const unsigned int tried = least[q] | 1u << bit;
            int below = 0;
#pragma unroll
            for (int g = 0; g < boundGroups / 32; g++) below += __popc(__ballot_sync(GPC_FULL_MASK, distance[q][g] < tried));
            if (below < job.k) least[q] = tried;
        }
    }
#pragma unroll
    for (int q = 0; q < own; q++) {
        const int row = row0 + own * warp + q;
        if (lane != 0 || row >= job.rows) continue;
        const float bound = __uint_as_float(least[q] | ((1u << boundLowest) - 1)) * (1.0f + 2.4e-7f) + 1e-37f;
        // Of queries that are not finite, or whose squares are not, no code is marked.
        const bool fits = norm[q] <= 1e30f && bound <= 1e32f;
        job.bounds[row] = fits ? make_float2(bound, 0.5f * (norm[q] * (1.0f - job.gamma) - bound)) : make_float2(-1.0f, gpc_inf());
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(512) gpc_search_bound_16(gpc_search job) { gpc::search_bound<1, 16>(job); }
GPC_KERNEL(gpc_search_bound_16)

extern "C" __global__ void __launch_bounds__(512) gpc_search_bound_32(gpc_search job) { gpc::search_bound<2, 16>(job); }
GPC_KERNEL(gpc_search_bound_32)

extern "C" __global__ void __launch_bounds__(256) gpc_search_bound_64(gpc_search job) { gpc::search_bound<4, 8>(job); }
GPC_KERNEL(gpc_search_bound_64)
