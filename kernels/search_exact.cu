// search_exact.cu: the k nearest codes of each query among those that search_sieve.cu marked,
// by their distances in float64 (eq. iclr-measurement-consistent, iclr-localization;
// Algorithm 2, step 1). All codes within T are marked, so the marked ones within T, in the
// order of distance and index, are the nearest of all. From the nearest on their residuals
// ‖x − D_s(c)‖² are taken in float64, until k are at most τ.
//
// Where fewer than k are, or too many are marked, the query is left to search_scan.cu.
//
// Grid ⌈rows/4⌉, block 128: a warp a query, a lane a code. Shared memory 24 KiB. Bound: requests
// for codes, 32 for four coordinates of 32 codes, and latency.
#include "search.cuh"
#include "warp.cuh"

namespace gpc {

constexpr int exactMost = 384; // marked codes of a query

struct ExactCodes {
    double distance[exactMost];
    int index[exactMost];
    int order[exactMost];
    int marked;
};

// list_marked lists the marked codes, in any order, and counts them; beyond exactMost it only counts.
__device__ inline void list_marked(const gpc_search& job, long long row, ExactCodes& room) {
    const int lane = threadIdx.x % 32, runs = (job.count + searchRun - 1) / searchRun;
    if (lane == 0) room.marked = 0;
    __syncwarp();
    for (int run = lane; run < runs; run += 32) {
        uint4 quad = job.marks[row * runs + run];
        int own = __popc(quad.x) + __popc(quad.y) + __popc(quad.z) + __popc(quad.w);
        if (own == 0) continue;
        for (int to = atomicAdd(&room.marked, own); own > 0 && to < exactMost; own--, to++) {
            const int member = quad.x ? 0 : quad.y ? 1 : quad.z ? 2 : 3;
            const unsigned int word = quad.x ? quad.x : quad.y ? quad.y : quad.z ? quad.z : quad.w, rest = word & (word - 1);
            const int bit = __ffs((int)word) - 1;
            if (member == 0) quad.x = rest;
            if (member == 1) quad.y = rest;
            if (member == 2) quad.z = rest;
            if (member == 3) quad.w = rest;
            room.index[to] = searchRun * run + bit / 8 * 32 + bit / 4 % 2 * 16 + 4 * member + bit % 4;
        }
    }
    __syncwarp();
}

// order_codes puts the codes in the order of distance and index: by distance alone, and once
// more where two are equal, which meet in one place and leave another empty.
__device__ inline void order_codes(ExactCodes& room, int held) {
    const int lane = threadIdx.x % 32;
    for (int ties = 0; ties < 2; ties++) {
        for (int i = lane; i < held; i += 32) room.order[i] = -1;
        __syncwarp();
        for (int i = lane; i < held; i += 32) {
            const double d = room.distance[i];
            int place = 0;
            if (ties) {
                for (int j = 0; j < held; j++) place += before(room.distance[j], room.index[j], d, room.index[i]);
            } else {
                for (int j = 0; j < held; j++) place += room.distance[j] < d;
            }
            atomicExch(&room.order[place], i);
        }
        __syncwarp();
        bool empty = false;
        for (int i = lane; i < held; i += 32) empty |= room.order[i] < 0;
        if (!warp_any(empty)) return;
    }
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(128, 8) gpc_search_exact(gpc_search job) {
    using namespace gpc;
    __shared__ ExactCodes rooms[4];
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= job.rows) return;
    ExactCodes& room = rooms[threadIdx.x / 32];
    list_marked(job, row, room);
    const int most = room.marked > exactMost ? 0 : room.marked;
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
        __syncwarp(); // who writes where others have read
        if (within) {
            const int to = held + __popc(all & before_me);
            room.distance[to] = d, room.index[to] = code;
        }
        held += __popc(all);
        __syncwarp();
    }
    int found = 0;
    if (held >= job.k) {
        order_codes(room, held);
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
