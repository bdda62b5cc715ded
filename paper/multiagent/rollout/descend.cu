// descend.cu: a whole descent of one block of plans along the derivatives of their costs
// (plan.Search.Slide), every iterate scored and kept:
//
//	m ← 0.8 m + 0.2 g,  v ← 0.95 v + 0.05 g²,
//	u_{i+1} = limit(u_i − factor_i·rate_l·m/(√v + 10⁻⁶))
//
// with g the derivatives at u_i, m and v from 0, the limits of limit.cu and one rate a
// candidate. No multiplication is fused with an addition here, so that from the same
// derivatives a step is that of the CPU.
//
// Grid 1, block 256 and shared memory as gradient.cu, whose roll-out each iterate is:
// a chain of some 10 µs, and so latency. What it saves is the way to the host and back
// at every iterate. out: the derivatives, then m, then v, a block of plans each.
#include "evaluate.cuh"

// pace: the rates of the candidates, then the factors of the steps.
extern "C" __global__ void __launch_bounds__(256) gpc_multiagent_descend(const float* problem, const float* grid, const float* bounds, const float* pace, float* plans,
                                                                        float* results, float* out, int robots, int steps, int count, int ends, int iterates) {
    using namespace rollout;
    const int words = robots * steps * PLAN_FIELDS * LANES;
    float* first = out + words;
    float* second = first + words;
    for (int e = threadIdx.x; e < words; e += THREADS) first[e] = second[e] = 0.0f;
    for (int i = 0;; i++) {
        evaluate<true>(problem, grid, plans, results, out, robots, steps, count, ends != 0);
        if (i + 1 == iterates) return;
        __syncthreads();
        const float factor = pace[LANES + i];
        float* next = plans + words;
        for (int e = threadIdx.x; e < words; e += THREADS) {
            const float g = out[e];
            const float m = __fadd_rn(__fmul_rn(0.8f, first[e]), __fmul_rn(0.2f, g));
            const float v = __fadd_rn(__fmul_rn(0.95f, second[e]), __fmul_rn(__fmul_rn(0.05f, g), g));
            first[e] = m, second[e] = v;
            const float step = __fmul_rn(__fmul_rn(factor, pace[e % LANES]), m);
            next[e] = __fsub_rn(plans[e], __fdiv_rn(step, __fadd_rn(__fsqrt_rn(v), 1e-6f)));
        }
        __syncthreads();
        for (int chain = threadIdx.x; chain < robots * PLAN_FIELDS * LANES; chain += THREADS) {
            const int lane = chain % LANES, field = chain / LANES % PLAN_FIELDS, robot = chain / (LANES * PLAN_FIELDS);
            limit(bounds + robot * BOUND_FIELDS + field, next + (robot * steps * PLAN_FIELDS + field) * LANES + lane, steps);
        }
        __syncthreads();
        plans = next, results += RESULT_FIELDS * LANES;
    }
}
GPC_KERNEL(gpc_multiagent_descend)
