// limit.cu: moves every action of the plans, in order, to the nearest within box and
// slew bound around the one before it (limitTwin):
//
//	u_k = clip(u_k, max(lo, u_{k−1} − slew), min(hi, u_{k−1} + slew))
//
// Grid ⌈blocks·robots·2·16/128⌉, block 128: a thread goes along one component of one
// plan. Bound: bytes, 8 a component, and the chain of four operations a step. A NaN
// stays one, and so does what comes after it.
#include "rollout.cuh"

// bounds: [robot][previous a, ω, lo a, ω, hi a, ω, slew a, ω]
extern "C" __global__ void __launch_bounds__(128) gpc_multiagent_limit(const float* bounds, float* plans, int robots, int steps, int blocks) {
    using namespace rollout;
    const int64_t chains = (int64_t)blocks * robots * PLAN_FIELDS * LANES;
    for (int64_t i = gpc_thread_x(); i < chains; i += gpc_threads_x()) {
        const int lane = (int)(i % LANES), field = (int)(i / LANES % PLAN_FIELDS);
        const int64_t plan = i / (LANES * PLAN_FIELDS);
        const float* b = bounds + (int)(plan % robots) * 8 + field;
        const float lo = b[2], hi = b[4], slew = b[6];
        float previous = b[0];
        float* at = plans + (plan * steps * PLAN_FIELDS + field) * LANES + lane;
#pragma unroll 4
        for (int k = 0; k < steps; k++, at += PLAN_FIELDS * LANES) {
            const float u = *at;
            const float kept = clampf(u, fmaxf(lo, previous - slew), fminf(hi, previous + slew));
            previous = u != u || previous != previous ? gpc_nan() : kept;
            *at = previous;
        }
    }
}
GPC_KERNEL(gpc_multiagent_limit)
