// search_scan.cu: the k nearest codes of a query among those with ‖x − D_s(c)‖² ≤ τ, or of
// all without x, by the distances of all codes in float64. It answers the queries that
// search_exact.cu left: with few consistent codes around them, with many codes at one
// distance, or not finite; and all queries where codes or k are too large for the sieve.
// Without a consistent code it finds the one of smallest residual.
//
// Grid rows, block 256: a warp keeps the nearest of its codes, a lane an entry, and the first warp
// merges the lists. More than 32 neighbours take several passes. Shared memory 3 KiB.
// Bound: issue of float64, 4 n instructions for 32 codes.
#include "search.cuh"
#include "warp.cuh"

namespace gpc {

constexpr int scanPass = 32, scanWarps = 8;

// ScanList is a warp's list of the k nearest so far: lane j has entry j.
struct ScanList {
    double distance;
    int index, held, k;

    __device__ ScanList(int k) : distance((double)gpc_inf()), index(0x7fffffff), held(0), k(k) {}

    // worst is the last entry, beyond which nothing enters.
    __device__ void worst(double& d, int& i) const { d = __shfl_sync(GPC_FULL_MASK, distance, k - 1), i = __shfl_sync(GPC_FULL_MASK, index, k - 1); }

    __device__ void insert(double d, int i) {
        const int lane = threadIdx.x % 32;
        const int place = __popc(__ballot_sync(GPC_FULL_MASK, before(distance, index, d, i)));
        const double above = __shfl_up_sync(GPC_FULL_MASK, distance, 1);
        const int aboveIndex = __shfl_up_sync(GPC_FULL_MASK, index, 1);
        if (lane == place) distance = d, index = i;
        if (lane > place) distance = above, index = aboveIndex;
        held = min(held + 1, k);
    }
};

// ScanRows are the points that a search is among.
struct ScanRows {
    const float *query, *points;
    int ld, n;
};

struct ScanShared {
    double distance[scanWarps][scanPass];
    int index[scanWarps][scanPass];
};

// scan finds the k ≤ 32 nearest of the points beyond (d, i), for the first warp; accept is
// asked for those that are near enough. All threads of the block call it.
template <class Accept>
__device__ inline ScanList scan(const ScanRows& of, int count, int k, double after, int afterIndex, ScanShared& shared, Accept&& accept) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    ScanList list(k);
    double worst = (double)gpc_inf();
    int worstIndex = 0x7fffffff;
    for (int code0 = 32 * warp; code0 < count; code0 += 32 * scanWarps) {
        const int code = code0 + lane;
        double d = 0.0;
        bool wanted = code < count;
        if (wanted) {
            d = squared_distance(of.query, of.points + (long long)code * of.ld, of.n);
            wanted = before(d, code, worst, worstIndex) && before(after, afterIndex, d, code) && accept(code);
        }
        unsigned int left = __ballot_sync(GPC_FULL_MASK, wanted);
        if (!left) continue;
        while (left) {
            const int from = __ffs((int)left) - 1;
            left &= left - 1;
            list.insert(__shfl_sync(GPC_FULL_MASK, d, from), code0 + from);
        }
        list.worst(worst, worstIndex);
    }
    __syncthreads(); // the lists of the scan before have been read
    shared.distance[warp][lane] = list.distance, shared.index[warp][lane] = list.index;
    __syncthreads();
    for (int w = 1; warp == 0 && w < scanWarps; w++)
        for (int j = 0; j < k; j++) {
            list.worst(worst, worstIndex);
            const double d = shared.distance[w][j];
            const int i = shared.index[w][j];
            if (!before(d, i, worst, worstIndex)) break;
            list.insert(d, i);
        }
    return list;
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256) gpc_search_scan(gpc_search job) {
    using namespace gpc;
    __shared__ ScanShared shared;
    __shared__ double last;
    __shared__ int lastIndex, inPass;
    const long long row = blockIdx.x;
    const int lane = threadIdx.x % 32;
    if (job.bounds && job.state[row] != searchOpen) return;
    const float *z = job.z + row * job.ldz, *x = job.x + row * job.ldx;
    bool bad = false;
    for (int i = threadIdx.x; i < job.n; i += blockDim.x) bad |= !gpc_finite(z[i]);
    for (int i = threadIdx.x; job.x && i < job.states; i += blockDim.x) bad |= !gpc_finite(x[i]);
    bad = __syncthreads_or(bad);
    int found = 0;
    double after = -1.0;
    int afterIndex = -1;
    for (int from = 0; from < job.k; from += scanPass) {
        const int k = min(scanPass, job.k - from);
        int held = 0;
        if (!bad && found == from) { // else the pass before found all there are
            const ScanList list = scan(ScanRows{z, job.codes, job.ldcode, job.n}, job.count, k, after, afterIndex, shared,
                                       [&](int code) { return !job.x || squared_distance(x, job.decoded + (long long)code * job.lddecoded, job.states) <= (double)job.tau[row]; });
            if (threadIdx.x < k && lane < list.held) job.distance[row * job.k + from + lane] = list.distance, job.index[row * job.k + from + lane] = list.index;
            if (threadIdx.x == k - 1) last = list.distance, lastIndex = list.index;
            if (threadIdx.x == 0) inPass = list.held;
            __syncthreads();
            held = inPass, after = last, afterIndex = lastIndex;
            found += held;
        }
        if (threadIdx.x < k && lane >= held) job.distance[row * job.k + from + lane] = (double)gpc_nan(), job.index[row * job.k + from + lane] = -1;
    }
    if (!bad && found == 0 && job.fallback) {
        const ScanList list = scan(ScanRows{x, job.decoded, job.lddecoded, job.states}, job.count, 1, -1.0, -1, shared, [](int) { return true; });
        if (threadIdx.x == 0) job.fallback[row] = list.index;
    }
    if (threadIdx.x == 0) job.found[row] = found, job.state[row] = bad ? 2 : found > 0 ? 0 : 1;
}
GPC_KERNEL(gpc_search_scan)
