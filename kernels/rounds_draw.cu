// rounds_draw.cu: the candidates of one round of a search along roll-outs,
//
//	o_h = mean_h + (1 − f)·e_from + f·e_to,   e_k = width·spread_k ⊙ N(0, I)
//
// linear between knots, as crossentropy.Sampler.Ask draws them. The first round begins with those that were given, a later one
// with the mean.
//
// Grid ⌈rows·width/128⌉, block 128: a thread a candidate and coordinate. No shared memory. Bound: bytes, 4·steps a thread, and
// the ten rounds of Philox for each knot.
#include "gpc.cuh"
#include "normal.cuh"
#include "rounds.cuh"

extern "C" __global__ void __launch_bounds__(128) gpc_rounds_draw(gpc_rounds of, int round, int first, int rows) {
    const gpc_rounds_begin& state = *of.state;
    if (state.done || round >= state.limit) return;
    const int given = round == 0 ? state.given : (state.kept > 0 ? 1 : 0), size = of.steps * of.width;
    for (int64_t at = gpc_thread_x(); at < (int64_t)rows * of.width; at += gpc_threads_x()) {
        const int i = (int)(at / of.width), j = (int)(at % of.width);
        float* o = of.candidates + (int64_t)(first + i) * size + j;
        if (i < given) {
            for (int h = 0; h < of.steps; h++) o[h * of.width] = round == 0 ? of.given[i * size + h * of.width + j] : (float)of.mean[h * of.width + j];
            continue;
        }
        const int kind = (i - given) % of.kinds;
        auto drawn = [&](int k) {
            const double spread = of.spread[k * of.width + j];
            const double width = kind == of.held ? fmax(__dmul_rn(of.heldWidth, spread), __dmul_rn(of.heldSpread, of.unit[j])) : (kind == of.wide ? __dmul_rn(of.wideWidth, spread) : spread);
            return __dmul_rn(width, gpc::normal_at(of.table, state.seed, (unsigned int)(first + i), state.number, of.stream, k * of.width + j));
        };
        // Knots come one after another: two are held at a time.
        int k = 0;
        double e = drawn(0), next = kind == of.held || of.knots == 1 ? e : drawn(1);
        for (int h = 0; h < of.steps; h++) {
            for (; k < of.from[h]; k++) {
                e = next;
                if (kind != of.held && k + 2 < of.knots) next = drawn(k + 2);
            }
            const double f = (double)of.share[h];
            o[h * of.width] = (float)__dadd_rn(__dadd_rn(of.mean[h * of.width + j], __dmul_rn(1.0 - f, e)), __dmul_rn(f, next));
        }
    }
}
GPC_KERNEL(gpc_rounds_draw)
