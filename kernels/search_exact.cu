// search_exact.cu: the k nearest codes of each query among those that search_sieve.cu marked,
// by their distances in float64 (eq. iclr-measurement-consistent, iclr-localization;
// Algorithm 2, step 1). All codes within T are marked, so the marked ones within T, in the
// order of distance and index, are the nearest of all. From the nearest on their residuals
// ‖x − D_s(c)‖² are taken in float64, until k are at most τ.
//
// Where fewer than k are, or too many are marked, the query is left to search_scan.cu.
//
// Grid ⌈rows/4⌉, block 128: a warp a query, a lane a code. Shared memory 28 KiB. Bound: requests
// for codes, 32 for four coordinates of 32 codes, and latency.
#include "search.cuh"
#include "warp.cuh"

namespace gpc {

constexpr int exactMost = 512; // marked codes of a query

struct ExactCodes {
    double distance[exactMost];
    int index[exactMost];
    short order[exactMost];
};

// marked lists the marked codes; −1: too many.
__device__ inline int marked(const gpc_search& job, long long row, int* list) {
    const int lane = threadIdx.x % 32, runs = (job.count + searchRun - 1) / searchRun;
    int held = 0;
    for (int run0 = 0; run0 < runs; run0 += 32) {
        const int run = run0 + lane;
        const uint4 quad = run < runs ? job.marks[row * runs + run] : make_uint4(0u, 0u, 0u, 0u);
        const int own = __popc(quad.x) + __popc(quad.y) + __popc(quad.z) + __popc(quad.w);
        if (!warp_any(own > 0)) continue;
        int to = own; // of this lane and those before it
        for (int m = 1; m < 32; m *= 2) {
            const int other = __shfl_up_sync(GPC_FULL_MASK, to, m);
            if (lane >= m) to += other;
        }
        const int all = __shfl_sync(GPC_FULL_MASK, to, 31);
        if (held + all > exactMost) return -1;
        to += held - own, held += all;
#pragma unroll
        for (int member = 0; member < 4; member++) {
            unsigned int left = member == 0 ? quad.x : member == 1 ? quad.y : member == 2 ? quad.z : quad.w;
            while (left) {
                const int bit = __ffs((int)left) - 1;
                left &= left - 1;
                list[to++] = searchRun * run + bit / 8 * 32 + bit / 4 % 2 * 16 + 4 * member + bit % 4;
            }
        }
    }
    __syncwarp();
    return held;
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(128) gpc_search_exact(gpc_search job) {
    using namespace gpc;
    __shared__ ExactCodes rooms[4];
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= job.rows) return;
    ExactCodes& room = rooms[threadIdx.x / 32];
    const int most = marked(job, row, room.index);
    const double bound = job.bounds[row].x;
    const unsigned int before_me = (1u << lane) - 1;
    int held = 0; // of them within T
    for (int i0 = 0; i0 < most; i0 += 32) {
        const int i = i0 + lane;
        double d = 0.0;
        int code = -1;
        bool within = false;
        if (i < most) {
            code = room.index[i];
            d = squared_distance(job.z + row * job.ldz, job.codes + (long long)code * job.ldcode, job.n);
            within = d <= bound;
        }
        const unsigned int all = __ballot_sync(GPC_FULL_MASK, within);
        if (within) {
            const int to = held + __popc(all & before_me);
            room.distance[to] = d, room.index[to] = code;
        }
        held += __popc(all);
        __syncwarp();
    }
    int found = 0;
    if (held >= job.k) {
        for (int i = lane; i < held; i += 32) {
            const double d = room.distance[i];
            const int code = room.index[i];
            int place = 0;
            for (int j = 0; j < held; j++) place += before(room.distance[j], room.index[j], d, code);
            room.order[place] = (short)i;
        }
        __syncwarp();
        for (int next = 0; next < held && found < job.k;) {
            const int looked = min(min(32, job.k - found), held - next);
            bool kept = lane < looked;
            double d = 0.0;
            int code = -1;
            if (kept) {
                const int i = room.order[next + lane];
                d = room.distance[i], code = room.index[i];
                if (job.x) kept = squared_distance(job.x + row * job.ldx, job.decoded + (long long)code * job.lddecoded, job.states) <= (double)job.tau[row];
            }
            const unsigned int all = __ballot_sync(GPC_FULL_MASK, kept);
            if (kept) {
                const long long to = row * job.k + found + __popc(all & before_me);
                job.distance[to] = d, job.index[to] = code;
            }
            found += __popc(all), next += looked;
        }
    }
    if (lane == 0) job.found[row] = found, job.state[row] = found == job.k ? 0 : searchOpen;
}
GPC_KERNEL(gpc_search_exact)
