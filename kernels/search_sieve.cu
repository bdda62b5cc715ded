// search_sieve.cu: marks of every query the codes that may lie within its bound T
// (include/search.cuh): those with
//
//	zᵀc − (1 − γ)/2 ‖c‖² ≥ ((1 − γ)‖z‖² − T)/2,
//
// a bit for each pair of query and code; none of a query that is not finite. zᵀc comes from tensor cores. A warp keeps its 32
// queries in registers; codes come from memory in the order of its fragments, without shared
// memory or a barrier. No warp waits for another, and nothing depends on their order.
//
// Grid (⌈rows/64⌉, parts of the codes), block 256: two times 32 queries, four runs of 128 codes at
// a time. Bound: issue, 16 products of 16×8×8 for each 16 coordinates of a tile of 32 × 32 pairs
// and 100 instructions beside; 64 bytes of the second-level cache for 16 coordinates of a code and 64 queries.
#include "search.cuh"

namespace gpc {

template <int SLICES>
__device__ inline void search_sieve(const gpc_search& job) {
    const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
    const int row0 = 64 * blockIdx.x + warp / 4 * 32;
    if (row0 >= job.rows) return;
    const SieveQueries<SLICES> queries(job, row0);
    float bar[2][2];
#pragma unroll
    for (int r = 0; r < 4; r++) bar[r / 2][r % 2] = job.bounds[min(row0 + 16 * (r / 2) + group + 8 * (r % 2), job.rows - 1)].y;
    const int runs = (job.count + searchRun - 1) / searchRun;
    const int first = (int)((long long)runs * blockIdx.y / gridDim.y), last = (int)((long long)runs * (blockIdx.y + 1) / gridDim.y);
    for (int run = first + warp % 4; run < last; run += 4) {
        unsigned int marks[2][2] = {};
#pragma unroll
        for (int s = 0; s < searchRun / 32; s++) {
            float sum[2][4][4];
            queries.products(job.fragments, job.lower, run * (searchRun / 32) + s, sum);
#pragma unroll
            for (int v = 0; v < 32; v++) {
                const int i = v / 16, e = v / 8 % 2, c = v % 8;
                if (sum[i][c / 2][2 * e + c % 2] >= bar[i][e]) marks[i][e] |= 1u << (8 * s + c);
            }
        }
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const long long row = row0 + 16 * (r / 2) + group + 8 * (r % 2);
            if (row < job.rows) reinterpret_cast<unsigned int*>(job.marks + row * runs + run)[member] = marks[r / 2][r % 2];
        }
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256, 2) gpc_search_sieve_16(gpc_search job) { gpc::search_sieve<1>(job); }
GPC_KERNEL(gpc_search_sieve_16)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_search_sieve_32(gpc_search job) { gpc::search_sieve<2>(job); }
GPC_KERNEL(gpc_search_sieve_32)

extern "C" __global__ void __launch_bounds__(256, 1) gpc_search_sieve_64(gpc_search job) { gpc::search_sieve<4>(job); }
GPC_KERNEL(gpc_search_sieve_64)
