// evaluate.cuh: the roll-out of a block of sixteen candidates by a block of
// threads; see evaluate.cu.
#pragma once
#include "rollout.cuh"

namespace rollout {

// Numbers a lane in shared memory: of each robot and step the action, the position
// and, for the reverse mode, the rest of the step and the derivatives in the
// position; and what each row of threads has added up.
enum { S_X, S_Y, S_COS, S_SIN, S_SPEED, S_FREE };
constexpr int PARTIALS = 6; // cost, first unsafe step, smallest margin of each kind, cost of one robot's path

// track rolls one robot's plan out and returns what it pays on the way (trackTwin).
template <bool GRADIENT>
__device__ inline float track(const Motion& m, const float* plan, float* path, const float* goal, int steps) {
    constexpr int fields = GRADIENT ? 6 : 2;
    float x = m.x, y = m.y, c = m.c, s = m.s, v = m.v, a0 = m.a, w0 = m.w, sum = 0.0f;
    for (int k = 0; k < steps; k++) {
        const float a = plan[(k * PLAN_FIELDS) * LANES], w = plan[(k * PLAN_FIELDS + 1) * LANES];
        const float raw = __fmaf_rn(m.dt, a, v), next = clampf(raw, m.vLo, m.vHi), mean = 0.5f * (v + next);
        v = next;
        const float half = 0.5f * m.dt * w, h2 = half * half;
        const float sn = half * __fmaf_rn(h2, __fmaf_rn(h2, 1.0f / 120, -1.0f / 6), 1.0f);
        const float cs = __fmaf_rn(h2, __fmaf_rn(h2, __fmaf_rn(h2, -1.0f / 720, 1.0f / 24), -0.5f), 1.0f);
        const float cb = __fmaf_rn(-s, sn, c * cs), sb = __fmaf_rn(c, sn, s * cs);
        c = __fmaf_rn(-sb, sn, cb * cs), s = __fmaf_rn(cb, sn, sb * cs);
        const float way = m.dt * mean;
        x = __fmaf_rn(way, cb, x), y = __fmaf_rn(way, sb, y);
        float* at = path + k * fields * LANES;
        at[S_X * LANES] = x, at[S_Y * LANES] = y;
        if (GRADIENT) at[S_COS * LANES] = cb, at[S_SIN * LANES] = sb, at[S_SPEED * LANES] = mean, at[S_FREE * LANES] = raw > m.vLo && raw < m.vHi ? 1.0f : 0.0f;
        const float dx = x - m.goalX, dy = y - m.goalY, da = a - a0, dw = w - w0;
        a0 = a, w0 = w;
        sum = __fmaf_rn(goal[k], __fmaf_rn(dx, dx, dy * dy), sum);
        sum = __fmaf_rn(m.smooth, __fmaf_rn(da, da, dw * dw), sum);
        sum = __fmaf_rn(m.effort, __fmaf_rn(a, a, w * w), sum);
    }
    return sum;
}

// back is the reverse mode of track (backTwin).
__device__ inline void back(const Motion& m, const float* plan, const float* path, const float* grad, const float* goal, int steps, float* out) {
    float px = 0.0f, py = 0.0f, heading = 0.0f, speed = 0.0f, nextA = 0.0f, nextW = 0.0f;
    for (int k = steps - 1; k >= 0; k--) {
        const float* at = path + k * 6 * LANES;
        const float twice = 2.0f * goal[k];
        px += __fmaf_rn(twice, at[S_X * LANES] - m.goalX, grad[(k * 2) * LANES]);
        py += __fmaf_rn(twice, at[S_Y * LANES] - m.goalY, grad[(k * 2 + 1) * LANES]);
        const float c = at[S_COS * LANES], s = at[S_SIN * LANES];
        const float gh = m.dt * at[S_SPEED * LANES] * __fmaf_rn(-s, px, c * py);
        const float gv = 0.5f * m.dt * __fmaf_rn(s, py, c * px);
        const float through = at[S_FREE * LANES] * (speed + gv);
        const float a = plan[(k * PLAN_FIELDS) * LANES], w = plan[(k * PLAN_FIELDS + 1) * LANES];
        const float a0 = k > 0 ? plan[((k - 1) * PLAN_FIELDS) * LANES] : m.a, w0 = k > 0 ? plan[((k - 1) * PLAN_FIELDS + 1) * LANES] : m.w;
        const float changeA = 2.0f * m.smooth * (a - a0), changeW = 2.0f * m.smooth * (w - w0);
        out[(k * PLAN_FIELDS) * LANES] = __fmaf_rn(m.dt, through, __fmaf_rn(2.0f * m.effort, a, changeA - nextA));
        out[(k * PLAN_FIELDS + 1) * LANES] = __fmaf_rn(m.dt, __fmaf_rn(0.5f, gh, heading), __fmaf_rn(2.0f * m.effort, w, changeW - nextW));
        nextA = changeA, nextW = changeW;
        heading += gh;
        speed = through + gv;
    }
}

// evaluate takes the candidates of a block of plans through all of it; results and out
// are that block's.
template <bool GRADIENT>
__device__ inline void evaluate(const float* problem, const float* grid, const float* from, float* results, float* out, int robots, int steps, int count, bool ends) {
    constexpr int fields = GRADIENT ? 6 : 2;
    GPC_SHARED(float, shared);
    const Problem p(problem, robots, steps);
    const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES, items = robots * steps, words = items * PLAN_FIELDS * LANES;
    float* plan = shared;                                      // [robot][step][field][lane]
    float* path = plan + words;                                // [robot][step][fields][lane]
    float* partial = path + items * fields * LANES;            // [row][PARTIALS][lane]
    float* grad = partial + ROWS * PARTIALS * LANES;           // [robot][step][x, y][lane]
    for (int i = threadIdx.x; i < words; i += THREADS) plan[i] = from[i];
    __syncthreads();

    float paid = 0.0f;
    if (row < robots)
        paid = track<GRADIENT>(Motion(p.motion + row * MOTION_FIELDS * LANES, lane), plan + row * steps * PLAN_FIELDS * LANES + lane,
                               path + row * steps * fields * LANES + lane, p.goal + row * steps, steps);
    __syncthreads();

    const Penalty penalty(p.penalty, lane);
    float cost = 0.0f, safe = (float)steps, ego = REACH, others = REACH, pairs = REACH;
    for (int item = row; item < items; item += ROWS) {
        const int robot = item / steps, step = item - robot * steps;
        const float *at = path + item * fields * LANES + lane, x = at[S_X * LANES], y = at[S_Y * LANES];
        Score o{0.0f, REACH, 0.0f, 0.0f, true};
        const float* disc = p.discs + (int64_t)item * count * DISC_FIELDS;
        for (int j = 0; j < count; j++, disc += DISC_FIELDS) margin<true, GRADIENT>(penalty, x - __ldg(disc), y - __ldg(disc + 1), __ldg(disc + 2), o);
        if (robot == 0)
            ego = fminf(ego, o.low);
        else
            others = fminf(others, o.low);
        o.low = REACH;
        // A pair is scored at its later robot; the earlier one takes its slope alone.
        for (int k = 0; k < robots; k++) {
            if (k == robot || (!GRADIENT && k > robot)) continue;
            const float* other = path + (k * steps + step) * fields * LANES + lane;
            const float dx = x - other[S_X * LANES], dy = y - other[S_Y * LANES], radii = p.pair[robot * robots + k];
            if (k < robot)
                margin<true, GRADIENT>(penalty, dx, dy, radii, o);
            else
                margin<false, GRADIENT>(penalty, dx, dy, radii, o);
        }
        pairs = fminf(pairs, o.low);
        if (ends && item == steps - 1) {
            const Ending e = ending(p.ending, grid, x, y);
            o.cost += e.cost, o.gx += e.gx, o.gy += e.gy;
        }
        cost += o.cost;
        if (!o.kept) safe = fminf(safe, (float)step);
        if (GRADIENT) grad[(item * 2) * LANES + lane] = o.gx, grad[(item * 2 + 1) * LANES + lane] = o.gy;
    }
    float* mine = partial + row * PARTIALS * LANES + lane;
    mine[0] = cost, mine[LANES] = safe, mine[2 * LANES] = ego, mine[3 * LANES] = others, mine[4 * LANES] = pairs, mine[5 * LANES] = paid;
    __syncthreads();

    if (row == ROWS - 1) { // rows 0 on go on with the reverse mode
        float paths = 0.0f, margins = 0.0f;
        for (int r = 0; r < ROWS; r++) {
            const float* at = partial + r * PARTIALS * LANES + lane;
            paths += at[5 * LANES], margins += at[0];
            safe = fminf(safe, at[LANES]);
            ego = fminf(ego, at[2 * LANES]), others = fminf(others, at[3 * LANES]), pairs = fminf(pairs, at[4 * LANES]);
        }
        cost = paths + margins;
        float low = fminf(ego, fminf(others, pairs));
        if (!gpc_finite(cost)) cost = low = ego = others = pairs = gpc_nan(), safe = 0.0f;
        float* to = results + lane;
        to[R_COST * LANES] = cost, to[R_LOW * LANES] = low, to[R_SAFE * LANES] = safe;
        to[R_EGO * LANES] = ego, to[R_OTHERS * LANES] = others, to[R_PAIRS * LANES] = pairs;
    }
    if (GRADIENT && row < robots)
        back(Motion(p.motion + row * MOTION_FIELDS * LANES, lane), plan + row * steps * PLAN_FIELDS * LANES + lane, path + row * steps * fields * LANES + lane,
             grad + row * steps * 2 * LANES + lane, p.goal + row * steps, steps, out + row * steps * PLAN_FIELDS * LANES + lane);
}

// evaluate_blocks is evaluate of each block of the grid.
template <bool GRADIENT>
__device__ inline void evaluate_blocks(const float* problem, const float* grid, const float* plans, float* results, float* out, int robots, int steps, int count, bool ends) {
    const int64_t block = blockIdx.x, words = robots * steps * PLAN_FIELDS * LANES;
    evaluate<GRADIENT>(problem, grid, plans + block * words, results + block * RESULT_FIELDS * LANES, GRADIENT ? out + block * words : nullptr, robots, steps, count, ends);
}

} // namespace rollout
