// choose.cu: the best of the candidates that evaluate.cu has scored: most leading
// safe steps first, then the least cost, then the lower index. A candidate without
// a cost takes no part. (gpc_refine_choose ranks by margin, in float64
// and rows of plans, and so is another operation.)
//
// One block of 256. Shared memory 4 KiB. Bound: bytes, 8 a candidate, by one
// multiprocessor; 4096 candidates are 16 a thread.
#include "rollout.cuh"

// What is written, in float32 words: CHOSEN_PLAN, then the plan [robot][step][a, ω].
// Index and counts are int32.
enum { CHOSEN_INDEX, CHOSEN_SAFE, CHOSEN_COST, CHOSEN_LOW, CHOSEN_COUNT, CHOSEN_PLAN = 8 };

extern "C" __global__ void __launch_bounds__(256) gpc_multiagent_choose(const float* results, const float* plans, float* chosen, int robots, int steps, int candidates) {
    using namespace rollout;
    __shared__ float bestCost[256], bestSafe[256];
    __shared__ int bestAt[256], wholes[256];
    const int thread = threadIdx.x;
    float cost = 0.0f, safe = -1.0f;
    int at = -1, whole = 0;
    for (int i = thread; i < candidates; i += 256) {
        const float* r = results + (int64_t)(i / LANES) * RESULT_FIELDS * LANES + i % LANES;
        const float c = r[R_COST * LANES], s = r[R_SAFE * LANES];
        if (c != c) continue;
        if (s >= (float)steps) whole++;
        if (s > safe || (s == safe && c < cost)) cost = c, safe = s, at = i;
    }
    bestCost[thread] = cost, bestSafe[thread] = safe, bestAt[thread] = at, wholes[thread] = whole;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (thread < half) {
            const int other = thread + half, b = bestAt[other], a = bestAt[thread];
            wholes[thread] += wholes[other];
            const bool ahead = bestSafe[other] > bestSafe[thread] ||
                               (bestSafe[other] == bestSafe[thread] && (bestCost[other] < bestCost[thread] || (bestCost[other] == bestCost[thread] && b < a)));
            if (b >= 0 && (a < 0 || ahead)) bestCost[thread] = bestCost[other], bestSafe[thread] = bestSafe[other], bestAt[thread] = b;
        }
        __syncthreads();
    }
    const int winner = bestAt[0], from = winner < 0 ? 0 : winner;
    if (thread == 0) {
        const float* r = results + (int64_t)(from / LANES) * RESULT_FIELDS * LANES + from % LANES;
        chosen[CHOSEN_INDEX] = __int_as_float(winner), chosen[CHOSEN_COUNT] = __int_as_float(wholes[0]);
        chosen[CHOSEN_SAFE] = r[R_SAFE * LANES], chosen[CHOSEN_COST] = r[R_COST * LANES], chosen[CHOSEN_LOW] = r[R_LOW * LANES];
    }
    const int words = robots * steps * PLAN_FIELDS;
    for (int j = thread; j < words; j += 256) chosen[CHOSEN_PLAN + j] = plans[((int64_t)(from / LANES) * words + j) * LANES + from % LANES];
}
GPC_KERNEL(gpc_multiagent_choose)
