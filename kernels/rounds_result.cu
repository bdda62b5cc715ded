// rounds_result.cu: what the rounds of a search have come to, in one block that crosses at once: the state, the report of the
// rounds, the spread, what the best roll-out executes, and of every elite its number, cost, margin, first action and offsets.
//
// Grid most blocks of 128: a block an elite. No shared memory. Bound: bytes, 8·steps·width an elite.
#include "gpc.cuh"
#include "rounds.cuh"

struct gpc_rounds_out {
    gpc_rounds_state* state;
    double* report;
    double* spread;
    double* executed; // [steps, actions]; nullptr: not wanted
    double* cost;     // [most]
    double* margin;   // [most]
    int* number;      // [most]
    float* payload;   // [most, actions]
    float* offsets;   // [most, steps·width]
    const double* acted; // [all, steps, actions]
    const float* first;  // [all, actions]
    int rounds, actions;
};

extern "C" __global__ void __launch_bounds__(128) gpc_rounds_result(gpc_rounds of, gpc_rounds_out to) {
    const gpc_rounds_state& end = of.state[to.rounds];
    const int i = blockIdx.x, kept = end.kept, size = of.steps * of.width, thread = threadIdx.x, threads = blockDim.x;
    if (i == 0) {
        if (thread == 0) *to.state = end;
        for (int e = thread; e < 5 * end.made; e += threads) to.report[e] = of.report[e];
        for (int e = thread; e < of.knots * of.width; e += threads) to.spread[e] = of.spread[e];
    }
    if (i >= kept) return;
    const int64_t best = of.elites[end.made % 2 * of.most + i];
    if (i == 0 && to.executed)
        for (int e = thread; e < of.steps * to.actions; e += threads) to.executed[e] = to.acted[best * of.steps * to.actions + e];
    if (thread == 0) to.cost[i] = of.cost[best], to.margin[i] = gpc::margin_of(of, (int)best), to.number[i] = (int)best;
    for (int e = thread; e < to.actions; e += threads) to.payload[i * to.actions + e] = to.first[best * to.actions + e];
    for (int e = thread; e < size; e += threads) to.offsets[(int64_t)i * size + e] = of.candidates[best * size + e];
}
GPC_KERNEL(gpc_rounds_result)
