// gradient.cu: evaluate.cu with the exact derivatives of the cost in the plans, by
// reverse mode through the dynamics.
//
// Grid, block and bound as there. A pair's slope is taken at both of its robots, so
// that no thread adds to another's sum: 240 pair slopes instead of 120, 24 kFLOP a
// candidate with the reverse mode (48 steps of 40 operations), 792 bytes.
#include "evaluate.cuh"

extern "C" __global__ void __launch_bounds__(256) gpc_multiagent_gradient(const float* problem, const float* grid, const float* plans, float* results, float* out, int robots,
                                                                         int steps, int count, int ends) {
    rollout::evaluate_blocks<true>(problem, grid, plans, results, out, robots, steps, count, ends != 0);
}
GPC_KERNEL(gpc_multiagent_gradient)
