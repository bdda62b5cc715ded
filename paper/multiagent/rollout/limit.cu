// limit.cu: moves every action of the plans, in order, to the nearest within box and
// slew bound around the one before it (limitTwin):
//
//	u_k = clip(u_k, max(lo, u_{k−1} − slew), min(hi, u_{k−1} + slew))
//
// Grid ⌈blocks·robots·2·16/128⌉, block 128: a thread goes along one component of one
// plan. Bound: bytes, 8 a component, and the chain of four operations a step. A NaN
// stays one, and so does what comes after it.
#include "rollout.cuh"

// bounds: [robot][BOUND_FIELDS]
extern "C" __global__ void __launch_bounds__(128) gpc_multiagent_limit(const float* bounds, float* plans, int robots, int steps, int blocks) {
    using namespace rollout;
    const int64_t chains = (int64_t)blocks * robots * PLAN_FIELDS * LANES;
    for (int64_t i = gpc_thread_x(); i < chains; i += gpc_threads_x()) {
        const int lane = (int)(i % LANES), field = (int)(i / LANES % PLAN_FIELDS);
        const int64_t plan = i / (LANES * PLAN_FIELDS);
        limit(bounds + (int)(plan % robots) * BOUND_FIELDS + field, plans + (plan * steps * PLAN_FIELDS + field) * LANES + lane, steps);
    }
}
GPC_KERNEL(gpc_multiagent_limit)
