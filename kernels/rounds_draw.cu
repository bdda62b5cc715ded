// rounds_draw.cu: the candidates of one round of a search along roll-outs,
//
//	o_h = mean_h + (1 − f)·e_from + f·e_to,   e_k = width·spread_k ⊙ N(0, I)
//
// linear between knots, as crossentropy.Sampler.Ask draws them. The first round begins with those that were given, a later one
// with the mean.
//
// Grid ⌈rows·width/128⌉, block 128: a thread a candidate and coordinate. Shared memory for five numbers a thread. Bound: bytes, 4·steps
// a thread, and the ten rounds of Philox for each knot.
#include "gpc.cuh"
#include "normal.cuh"
#include "rounds.cuh"

extern "C" __global__ void __launch_bounds__(128) gpc_rounds_draw(gpc_rounds of, int round, int first, int rows) {
    __shared__ double drawn[gpc::roundsKnots][128];
    constexpr int stepsAtOnce = 256;
    __shared__ float share[stepsAtOnce];
    __shared__ int knot[stepsAtOnce];
    if (of.state[round].done) return;
    const int given = round == 0 ? of.begin->given : (of.state[round].kept > 0 ? 1 : 0), width = of.width, size = of.steps * width;
    for (int h = threadIdx.x; h < min(of.steps, stepsAtOnce); h += blockDim.x) share[h] = of.share[h], knot[h] = of.from[h];
    __syncthreads();
    const double* means = of.mean[round % 2];
    for (int64_t at = gpc_thread_x(); at < (int64_t)rows * width; at += gpc_threads_x()) {
        const int i = (int)(at / width), j = (int)(at % width), kind = (i - given) % of.kinds;
        float* o = of.candidates + (int64_t)(first + i) * size + j;
        if (i < given) {
            for (int h = 0; h < of.steps; h++) o[h * width] = round == 0 ? of.given[i * size + h * width + j] : (float)means[h * width + j];
            continue;
        }
#pragma unroll
        for (int k = 0; k < gpc::roundsKnots; k++) {
            if (k >= of.knots) break;
            const double spread = of.spread[k * width + j];
            const double by = kind == of.held ? fmax(__dmul_rn(of.heldWidth, spread), __dmul_rn(of.heldSpread, of.unit[j])) : (kind == of.wide ? __dmul_rn(of.wideWidth, spread) : spread);
            drawn[k][threadIdx.x] = kind == of.held && k > 0
                ? drawn[0][threadIdx.x]
                : __dmul_rn(by, gpc::normal_at(of.table, of.begin->seed, (unsigned int)(first + i), of.begin->number, of.stream, k * width + j));
        }
#pragma unroll 8
        for (int h = 0; h < of.steps; h++) {
            const int from = h < stepsAtOnce ? knot[h] : of.from[h], to = min(from + 1, of.knots - 1);
            const double f = (double)(h < stepsAtOnce ? share[h] : of.share[h]);
            o[h * width] = (float)__dadd_rn(__dadd_rn(means[h * width + j], __dmul_rn(1.0 - f, drawn[from][threadIdx.x])), __dmul_rn(f, drawn[to][threadIdx.x]));
        }
    }
}
GPC_KERNEL(gpc_rounds_draw)
