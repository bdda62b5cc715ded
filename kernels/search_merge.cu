// search_merge.cu: the k nearest of the parts' lists, which are sorted by distance,
// then index.
//
// state of a row becomes 0 where a code was found, 1 where none was, 2 where the
// query (or its observation) is not finite. total ≥ k entries a row are kept for
// all passes of a search; entries not found are −1 with a distance of NaN.
//
// Grid ⌈rows/4⌉, block 128: a warp a row, lane p the head of parts p, p + 32, ….
// Bound: latency; 12·parts·k bytes a row.
#include "gpc.cuh"
#include "warp.cuh"

struct gpc_merge {
    const double* distance; // [parts, rows, k]
    const int* index;
    const float* z;         // [rows, ldz]
    const float* x;         // [rows, ldx] or nullptr
    double* outDistance;    // [rows, total], from column offset on
    int* outIndex;
    double* afterDistance;  // [rows] the last entry, for the next pass
    int* afterIndex;
    int* found;             // [rows] entries found so far
    int* state;             // [rows]
    int parts, rows, k, total, offset, n, states, ldz, ldx, pad;
};

extern "C" __global__ void __launch_bounds__(128) gpc_search_merge(gpc_merge job) {
    constexpr int most = 8; // parts of a lane: 256 in all
    const long long row = (long long)blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= job.rows) return;
    const int lane = threadIdx.x % 32;
    bool bad = false;
    for (int i = lane; i < job.n; i += 32) bad |= !gpc_finite(job.z[row * job.ldz + i]);
    if (job.x)
        for (int i = lane; i < job.states; i += 32) bad |= !gpc_finite(job.x[row * job.ldx + i]);
    bad = gpc::warp_any(bad);
    unsigned char head[most];
    for (int p = 0; p < most; p++) head[p] = 0;
    // Lane 0 alone reads what it writes at the end: nothing orders memory between lanes here.
    int found = job.offset == 0 || lane > 0 ? 0 : job.found[row];
    double lastDistance = 0.0;
    int lastIndex = -1;
    for (int j = 0; j < job.k; j++) {
        double d = (double)gpc_inf();
        int index = 0x7fffffff, owner = -1;
        for (int p = 0; p < most && lane + 32 * p < job.parts; p++) {
            if (head[p] >= job.k) continue;
            const long long at = ((long long)(lane + 32 * p) * job.rows + row) * job.k + head[p];
            const int i = job.index[at];
            if (i >= 0 && (job.distance[at] < d || (job.distance[at] == d && i < index))) d = job.distance[at], index = i, owner = p;
        }
        double best = d;
        int bestIndex = index;
        for (int m = 16; m > 0; m /= 2) {
            const double e = __shfl_xor_sync(GPC_FULL_MASK, best, m);
            const int i = __shfl_xor_sync(GPC_FULL_MASK, bestIndex, m);
            if (e < best || (e == best && i < bestIndex)) best = e, bestIndex = i;
        }
        const bool any = bestIndex != 0x7fffffff && !bad;
        if (any && owner >= 0 && index == bestIndex) head[owner]++;
        if (any) found++, lastDistance = best, lastIndex = bestIndex;
        if (lane == 0 && job.offset + j < job.total) {
            const long long at = row * job.total + job.offset + j;
            job.outDistance[at] = any ? best : (double)gpc_nan();
            job.outIndex[at] = any ? bestIndex : -1;
        }
        if (!any) {
            lastDistance = (double)gpc_inf(), lastIndex = 0x7fffffff;
        }
    }
    if (lane == 0) {
        job.afterDistance[row] = lastDistance, job.afterIndex[row] = lastIndex;
        job.found[row] = found;
        job.state[row] = bad ? 2 : (found > 0 ? 0 : 1);
    }
}
GPC_KERNEL(gpc_search_merge)
