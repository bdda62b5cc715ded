// refine_choose.cu: the best candidate of a refinement and what each source
// contributed.
//
// The winner is the feasible candidate (margin ≥ −tolerance, cost a number) of least
// cost, ties to the lower index; without one, that of the largest smallest margin.
// Sums run in a fixed order: per thread over its stride, then a tree over the lanes of
// a warp, then over the warps.
//
// One block of 256. Shared memory 6 KiB. Bound: latency of some reads of 4096/256
// candidates and of 5 shuffles a source; bytes, 17 a candidate.
#include "gpc.cuh"
#include "warp.cuh"

// What gpc_refine_choose writes into `result`: 8 values, then 4 for each of the first
// `sources` of domain.Source. The winner's plan goes to `chosen`, its latent to `latent`.
enum { CHOSEN_INDEX, CHOSEN_SOURCE, CHOSEN_FEASIBLE, CHOSEN_COST, CHOSEN_MARGIN, CHOSEN_COUNT, CHOSEN_LOCALIZED_COST, CHOSEN_LOCALIZED_MARGIN, CHOSEN_SOURCES };

extern "C" __global__ void __launch_bounds__(256) gpc_refine_choose(int rows, int plan, int n, int sources, double tolerance, const double* cost, const double* margin,
                                                                   const unsigned char* source, const double* actions, const float* z, double* result, double* chosen,
                                                                   float* latent) {
    constexpr int warps = 8;
    __shared__ double least[256], most[256], sums[warps], lows[warps];
    __shared__ int leastAt[256], mostAt[256], candidates[warps], feasible[warps];
    const int thread = threadIdx.x;
    const double infinity = (double)gpc_inf();
    int best = -1, bestMargin = -1;
    for (int i = thread; i < rows; i += 256) {
        const double m = margin[i], c = cost[i];
        if (m == m && (bestMargin < 0 || m > margin[bestMargin])) bestMargin = i;
        if (m >= -tolerance && c == c && (best < 0 || c < cost[best])) best = i;
    }
    least[thread] = best < 0 ? infinity : cost[best], leastAt[thread] = best;
    most[thread] = bestMargin < 0 ? -infinity : margin[bestMargin], mostAt[thread] = bestMargin;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (thread < half) {
            const int a = leastAt[thread], b = leastAt[thread + half];
            if (b >= 0 && (a < 0 || least[thread + half] < least[thread] || (least[thread + half] == least[thread] && b < a)))
                least[thread] = least[thread + half], leastAt[thread] = b;
            const int p = mostAt[thread], q = mostAt[thread + half];
            if (q >= 0 && (p < 0 || most[thread + half] > most[thread] || (most[thread + half] == most[thread] && q < p)))
                most[thread] = most[thread + half], mostAt[thread] = q;
        }
        __syncthreads();
    }
    const int found = leastAt[0], clearest = mostAt[0];
    const int winner = found >= 0 ? found : (clearest >= 0 ? clearest : 0);
    int all = 0;
    for (int s = 0; s < sources; s++) {
        int count = 0, kept = 0;
        double sum = 0.0, low = infinity;
        for (int i = thread; i < rows; i += 256) {
            if (source[i] != s) continue;
            count++;
            if (!(margin[i] >= -tolerance) || cost[i] != cost[i]) continue;
            kept++, sum += cost[i], low = cost[i] < low ? cost[i] : low;
        }
        sum = gpc::warp_sum64(sum);
        for (int m = 16; m > 0; m /= 2) {
            const double other = __shfl_xor_sync(GPC_FULL_MASK, low, m);
            low = other < low ? other : low;
            count += __shfl_xor_sync(GPC_FULL_MASK, count, m), kept += __shfl_xor_sync(GPC_FULL_MASK, kept, m);
        }
        __syncthreads();
        if (thread % 32 == 0) candidates[thread / 32] = count, feasible[thread / 32] = kept, sums[thread / 32] = sum, lows[thread / 32] = low;
        __syncthreads();
        if (thread == 0) {
            for (int w = 1; w < warps; w++) {
                count += candidates[w], kept += feasible[w], sum += sums[w];
                low = lows[w] < low ? lows[w] : low;
            }
            double* to = result + CHOSEN_SOURCES + 4 * s;
            to[0] = count, to[1] = kept, to[2] = kept > 0 ? low : 0.0, to[3] = kept > 0 ? sum / kept : 0.0;
            all += kept;
        }
    }
    if (thread == 0) {
        result[CHOSEN_INDEX] = winner, result[CHOSEN_SOURCE] = source[winner], result[CHOSEN_FEASIBLE] = found >= 0 ? 1.0 : 0.0;
        result[CHOSEN_COST] = cost[winner], result[CHOSEN_MARGIN] = margin[winner], result[CHOSEN_COUNT] = all;
        const int localized = min(1, rows - 1); // the first is E_x's
        result[CHOSEN_LOCALIZED_COST] = cost[localized], result[CHOSEN_LOCALIZED_MARGIN] = margin[localized];
    }
    for (int j = thread; j < plan; j += 256) chosen[j] = actions[(int64_t)winner * plan + j];
    for (int j = thread; j < n; j += 256) latent[j] = z[(int64_t)winner * n + j];
}
GPC_KERNEL(gpc_refine_choose)
