// evaluate.cu: cost, smallest margins and leading safe steps of thousands of plans,
// as Engine.Evaluate and Engine.EvaluateSingle define them; gradient.cu is the same
// with derivatives.
//
//	cost = Σ_{i,k} goal_ik‖p_ik − g_i‖² + Effort‖u_ik‖² + Smooth‖u_ik − u_ik₋₁‖²
//	     + Σ_{pairs, k} score(margin) + ending(p_0L)
//
// (eq. multiagent-unicycle, multiagent-objectives). One entry serves joint plans (6
// robots × 8 steps) and one robot's plans (1 × 40 steps, among discs that include the
// others): a problem is robots × steps items, each with its discs and its pairs.
//
// Grid: a block of sixteen plans each. Block 256: a lane is a candidate, and sixteen
// rows of threads share it. First one row a robot goes along the dynamics, which are
// a chain; then the rows share out the items, whose margins are independent; the sums
// of the rows are added in order. Shared memory: 256 bytes an item (gradient.cu: 640)
// and 6 KiB.
//
// Arithmetic for 6 robots, 15 discs, 8 steps: 48 steps of dynamics of 45 operations,
// 840 margins of 9 operations beyond reach and about 35 within. If half are within,
// 21 kFLOP a candidate, for 384 bytes of its plan and 24 of results; the problem, 10
// KiB, is the same for all and stays in the caches. 50 FLOP a byte are beyond an
// H200's 14 (67 TFLOP/s over 4.8 TB/s): bound by FMA, 1.3 µs of it for 4096
// candidates, which leaves latency to decide. A thread a candidate would make 128
// warps for 528 schedulers, each with a chain of 20 000 operations; sixteen threads
// make 2048 warps of about 1500. One robot, 40 steps, 20 discs: 800 margins, 20 kFLOP
// for 344 bytes, the same.
#include "evaluate.cuh"

extern "C" __global__ void __launch_bounds__(256) gpc_multiagent_cost(const float* problem, const float* grid, const float* plans, float* results, int robots, int steps,
                                                                     int count, int ends) {
    rollout::evaluate_blocks<false>(problem, grid, plans, results, nullptr, robots, steps, count, ends != 0);
}
GPC_KERNEL(gpc_multiagent_cost)
