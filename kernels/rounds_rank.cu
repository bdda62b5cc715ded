// rounds_rank.cu: the end of one round of a search along roll-outs, as crossentropy.Sampler.Tell has it. gpc_rounds_rank finds the
// elites among those before and the round's candidates: each counts who comes before it by (feasible, cost or margin, order), and
// the first `most` are elites. gpc_rounds_adapt moves mean and spread to the elites, weighed by rank, and ends the search behind a round
// without a new one.
//
// gpc_rounds_rank: grid ⌈(most + rows)/8⌉, block 256: a warp has a candidate, whose rivals its lanes share. Shared memory 16 bytes for each
// of most + rows. Bound: latency; (most + rows)² comparisons.
//
// gpc_rounds_adapt: grid ⌈steps·width/32⌉ + ⌈knots·width/32⌉ blocks for the mean, then for the spread, block 128: four threads a column, each with
// a quarter of the elites. Bound: latency, most/4 dependent sums.
#include "gpc.cuh"
#include "rounds.cuh"

namespace gpc {

// Standing is where a candidate stands: group 0 feasible, by cost; 1 not, by margin; 2 none at all, since it has no margin.
struct Standing {
    double value;
    int group, pad;
};

__device__ inline bool before(const Standing& a, const Standing& b, bool earlier) {
    if (a.group != b.group) return a.group < b.group;
    return a.value != b.value ? a.value < b.value : earlier;
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256) gpc_rounds_rank(gpc_rounds of, int round, int first, int rows) {
    GPC_SHARED(gpc::Standing, standing);
    __shared__ double sums[3][8];
    if (of.state[round].done) return;
    const int old = of.state[round].kept, all = old + rows, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int* elites = of.elites + round % 2 * of.most;
    int* next = of.elites + (round + 1) % 2 * of.most;
    double feasible = 0.0, total = 0.0, least = (double)gpc_inf();
    auto candidate = [&](int i) { return i < old ? elites[i] : first + i - old; };
    for (int i = threadIdx.x; i < all; i += blockDim.x) {
        const int c = candidate(i);
        const double cost = of.cost[c];
        const double margin = gpc::margin_of(of, c);
        const bool holds = margin >= -of.tolerance && cost == cost;
        standing[i] = gpc::Standing{holds ? cost : -margin, holds ? 0 : (margin > -(double)gpc_inf() ? 1 : 2), 0};
        if (i >= old && holds) feasible += 1.0, total += cost, least = fmin(least, cost);
    }
    __syncthreads();
    const int i = blockIdx.x * 8 + warp;
    if (i < all && standing[i].group != 2) {
        const gpc::Standing mine = standing[i];
        int ahead = 0;
        for (int j = lane; j < all; j += 32) ahead += gpc::before(standing[j], mine, j < i);
        for (int m = 16; m > 0; m /= 2) ahead += __shfl_xor_sync(GPC_FULL_MASK, ahead, m);
        if (lane == 0 && ahead < of.most) next[ahead] = candidate(i);
    }
    if (blockIdx.x != 0) return;
    // How many are elites, and what the round's report says, in a fixed order.
    int standings = 0;
    for (int i = threadIdx.x; i < all; i += blockDim.x) standings += standing[i].group != 2;
    double counted = (double)standings;
    for (int m = 16; m > 0; m /= 2) {
        feasible += __shfl_xor_sync(GPC_FULL_MASK, feasible, m), total += __shfl_xor_sync(GPC_FULL_MASK, total, m);
        counted += __shfl_xor_sync(GPC_FULL_MASK, counted, m), least = fmin(least, __shfl_xor_sync(GPC_FULL_MASK, least, m));
    }
    __shared__ double lows[8];
    if (lane == 0) sums[0][warp] = feasible, sums[1][warp] = total, sums[2][warp] = counted, lows[warp] = least;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < 8; w++) feasible += sums[0][w], total += sums[1][w], counted += sums[2][w], least = fmin(least, lows[w]);
    double* r = of.report + 5 * round;
    r[2] = feasible, r[3] = total, r[4] = least;
    *of.standing = min((int)counted, of.most);
}
GPC_KERNEL(gpc_rounds_rank)

extern "C" __global__ void __launch_bounds__(128) gpc_rounds_adapt(gpc_rounds of, int round, int first) {
    constexpr int elitesAtOnce = 256;
    __shared__ double part[4][32], weight[elitesAtOnce];
    __shared__ int elite[elitesAtOnce];
    const gpc_rounds_state before = of.state[round];
    if (before.done) {
        if (blockIdx.x == 0 && threadIdx.x == 0) of.state[round + 1] = before;
        return;
    }
    const int kept = *of.standing, size = of.steps * of.width, column = threadIdx.x % 32, p = threadIdx.x / 32;
    const int means = (size + 31) / 32, knotted = of.knots * of.width;
    const bool spreads = (int)blockIdx.x >= means;
    const int e = (spreads ? blockIdx.x - means : blockIdx.x) * 32 + column;
    const bool has = e < (spreads ? knotted : size);
    const int* elites = of.elites + (round + 1) % 2 * of.most;
    const double *most = of.ranks, *place = most + of.most + 1, *sum = place + of.most + 1, *was = of.mean[round % 2];
    const int at = !has ? 0 : (spreads ? of.beside[e / of.width] * of.width + e % of.width : e);
    const double mean = was[at];
    double v = 0.0;
    // Elites and weights are read together, and then wait in shared memory.
    for (int from = 0; from < kept; from += elitesAtOnce) {
        const int count = min(kept - from, elitesAtOnce);
        for (int i = threadIdx.x; i < count; i += 128) elite[i] = elites[from + i], weight[i] = __ddiv_rn(__dadd_rn(most[kept], -place[from + i]), sum[kept]);
        __syncthreads();
#pragma unroll 8
        for (int i = p; i < count; i += 4) {
            const double o = (double)of.candidates[(int64_t)elite[i] * size + at], apart = __dadd_rn(o, -mean);
            v = __dadd_rn(v, spreads ? __dmul_rn(__dmul_rn(weight[i], apart), apart) : __dmul_rn(weight[i], o));
        }
        __syncthreads();
    }
    part[p][column] = v;
    bool fresh = false;
    if (blockIdx.x == 0)
        for (int i = threadIdx.x; i < kept; i += blockDim.x) fresh = fresh || elites[i] >= first;
    const bool gained = __syncthreads_or(fresh) != 0;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        of.state[round + 1] = gpc_rounds_state{kept, !gained || round + 1 >= of.begin->limit, round + 1, 0};
        double* r = of.report + 5 * round;
        r[0] = kept > 0 ? of.cost[elites[0]] : 0.0, r[1] = kept > 0 ? gpc::margin_of(of, elites[0]) : 0.0;
    }
    if (p == 0 && has) {
        v = __dadd_rn(__dadd_rn(part[0][column], part[1][column]), __dadd_rn(part[2][column], part[3][column]));
        if (!spreads) of.mean[(round + 1) % 2][e] = kept > 0 ? v : mean;
        else if (kept > 0) of.spread[e] = fmax(__dmul_rn(of.floor, of.unit[e % of.width]), __dadd_rn(__dmul_rn(of.keep, of.spread[e]), __dmul_rn(of.learn, sqrt(v))));
    }
}
GPC_KERNEL(gpc_rounds_adapt)
