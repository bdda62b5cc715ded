// rollout.cuh: what the kernels of package rollout share: the layout of a problem
// in device memory, the dynamics, the score of a margin, the cost-to-go of a field.
// Each function is a twin of the one in twin.go or field.go that its comment names.
#pragma once
#include "gpc.cuh"

namespace rollout {

constexpr int LANES = 16; // candidates of a block of plans, as everywhere in the package
constexpr int ROWS = 16;  // threads that share one candidate
constexpr int THREADS = LANES * ROWS;

constexpr float REACH = 3.0f, EXP_REACH = 0.049787068367863944f, TINY = 1e-12f;

enum { PLAN_FIELDS = 2, DISC_FIELDS = 3, MARGIN_KINDS = 3 };
enum { EGO_DISCS, OTHER_DISCS, PAIRS };

// Numbers of a robot's bounds: previous a, ω, lo a, ω, hi a, ω, slew a, ω.
enum { BOUND_FIELDS = 8 };

// Fields of a robot in the problem, one number a lane, as Motion has them.
enum { M_X, M_Y, M_COS, M_SIN, M_V, M_A, M_OMEGA, M_DT, M_VLO, M_VHI, M_GOAL_X, M_GOAL_Y, M_EFFORT, M_SMOOTH, MOTION_FIELDS };

// Fields of the penalty, one number a lane.
enum { P_EXP, P_SQUARE, P_BUFFER, P_KNEE, P_HARD, PENALTY_FIELDS };

// The ending of a plan, FIELD_WORDS numbers: what is expected to be paid after it.
enum { F_GOAL_X, F_GOAL_Y, F_STAGE, F_STRIDE, F_DETOUR, F_SCALE, F_X0, F_Y0, F_CELL, F_NX, F_NY, FIELD_WORDS = 16 };

// What is written of each block of candidates, one number a lane.
enum { R_COST, R_LOW, R_SAFE, R_EGO, R_OTHERS, R_PAIRS, RESULT_FIELDS };

// Problem is a prediction problem in device memory: the parts lie one after the
// other in the order of the members.
struct Problem {
    const float* motion;  // [robot][field][lane]
    const float* penalty; // [field][lane]
    const float* ending;  // [FIELD_WORDS]
    const float* pair;    // [robot][robot] radii and safety distance
    const float* goal;    // [robot][step]
    const float* discs;   // [robot][step][disc][x, y, radii and safety distance]

    __device__ inline Problem(const float* at, int robots, int steps) {
        motion = at, at += robots * MOTION_FIELDS * LANES;
        penalty = at, at += PENALTY_FIELDS * LANES;
        ending = at, at += FIELD_WORDS;
        pair = at, at += robots * robots;
        goal = at, at += robots * steps;
        discs = at;
    }
};

// Motion is one robot's numbers in one lane.
struct Motion {
    float x, y, c, s, v, a, w, dt, vLo, vHi, goalX, goalY, effort, smooth;

    __device__ inline Motion(const float* m, int lane) {
        m += lane;
        x = m[M_X * LANES], y = m[M_Y * LANES], c = m[M_COS * LANES], s = m[M_SIN * LANES], v = m[M_V * LANES];
        a = m[M_A * LANES], w = m[M_OMEGA * LANES], dt = m[M_DT * LANES], vLo = m[M_VLO * LANES], vHi = m[M_VHI * LANES];
        goalX = m[M_GOAL_X * LANES], goalY = m[M_GOAL_Y * LANES], effort = m[M_EFFORT * LANES], smooth = m[M_SMOOTH * LANES];
    }
};

struct Penalty {
    float exp, square, buffer, knee, hard;

    __device__ inline Penalty(const float* p, int lane) {
        p += lane;
        exp = p[P_EXP * LANES], square = p[P_SQUARE * LANES], buffer = p[P_BUFFER * LANES], knee = p[P_KNEE * LANES], hard = p[P_HARD * LANES];
    }
};

// Score is what margins add up to in one thread.
struct Score {
    float cost, low, gx, gy;
    bool kept; // every margin is at least Hard
};

// margin scores one pair of bodies (Penalty.margin): with COST it adds to cost, low
// and kept, with GRADIENT the derivatives in the first body's position to gx and gy.
template <bool COST, bool GRADIENT>
__device__ inline void margin(const Penalty& p, float dx, float dy, float radii, Score& o) {
    const float square = __fmaf_rn(dx, dx, __fmaf_rn(dy, dy, TINY));
    const float reach = radii + REACH;
    if (square >= reach * reach) {
        if (COST) o.cost += p.exp * EXP_REACH;
        return;
    }
    const float inverse = rsqrtf(square);
    const float full = __fmaf_rn(square, inverse, -radii);
    const float h = full > REACH ? REACH : full; // a NaN stays one
    const float t = fmaxf(p.buffer - h, 0.0f), m = fminf(t, p.knee);
    float slope = p.square * m;
    if (COST) {
        o.cost = __fmaf_rn(slope, 2.0f * t - m, o.cost);
        o.low = h < o.low ? h : o.low;
        o.kept = o.kept && h >= p.hard;
    }
    slope *= 2.0f;
    if (p.exp != 0.0f) { // the same for a whole launch, save of lanes that differ
        const float c = fmaxf(h, -REACH), e = p.exp * expf(-c);
        if (COST) o.cost += e;
        if (c == full) slope += e;
    }
    if (GRADIENT) {
        slope *= inverse;
        o.gx = __fmaf_rn(-slope, dx, o.gx), o.gy = __fmaf_rn(-slope, dy, o.gy);
    }
}

// Ending is what is expected to be paid after the last step (Field.At).
struct Ending {
    float cost, gx, gy;
};

__device__ inline bool known(float v) { return v < 1e30f; }

// slope_along is the central difference along one axis, one-sided at the edge and
// beside what is blocked, per two cells (Field.slope).
__device__ inline float slope_along(const float* value, int i, int step, bool before, bool after) {
    before = before && known(value[i - step]);
    after = after && known(value[i + step]);
    if (before && after) return value[i + step] - value[i - step];
    if (before) return 2.0f * (value[i] - value[i - step]);
    if (after) return 2.0f * (value[i + step] - value[i]);
    return 0.0f;
}

__device__ inline float clampf(float v, float lo, float hi) { return fminf(fmaxf(v, lo), hi); }

// unscaled: without a grid (nx 0) the straight way at full speed, stage·d³/(3·stride);
// with one the least over the corners of the cell of their cost-to-go and the way
// there, and where that is not known the straight way with a detour.
__device__ inline Ending unscaled(const float* f, const float* grid, float x, float y) {
    const float dx = x - f[F_GOAL_X], dy = y - f[F_GOAL_Y], stage = f[F_STAGE], stride = f[F_STRIDE];
    float d = sqrtf(__fmaf_rn(dx, dx, dy * dy));
    float rate = stage * d * d / stride;
    const int nx = (int)f[F_NX], ny = (int)f[F_NY];
    if (nx == 0) {
        if (d == 0.0f) return Ending{0.0f, 0.0f, 0.0f};
        return Ending{rate * d / 3.0f, rate * dx / d, rate * dy / d};
    }
    if (!(d < gpc_inf())) return Ending{gpc_nan(), 0.0f, 0.0f};
    const float *rates = grid, *value = grid + nx * ny;
    const float cell = f[F_CELL], x0 = f[F_X0], y0 = f[F_Y0];
    const float fx = clampf((x - x0) / cell, 0.0f, (float)(nx - 1)), fy = clampf((y - y0) / cell, 0.0f, (float)(ny - 1));
    const float ox = x - (x0 + fx * cell), oy = y - (y0 + fy * cell);
    const bool inside = x >= x0 && y >= y0 && x <= x0 + (nx - 1) * cell && y <= y0 + (ny - 1) * cell;
    const float outside = inside ? 0.0f : sqrtf(ox * ox + oy * oy);
    const int ix = min((int)fx, nx - 2), iy = min((int)fy, ny - 2);
    float best = gpc_inf();
    for (int j = 0; j < 4; j++) {
        const int cx = ix + j % 2, cy = iy + j / 2, i = cy * nx + cx;
        const float ax = fx - (float)cx, ay = fy - (float)cy;
        const float way = outside + cell * sqrtf(ax * ax + ay * ay);
        if (!known(value[i])) continue; // a blocked corner's rate may be infinite, and 0·∞ is no cost
        best = fminf(best, __fmaf_rn(way, rates[i], value[i]));
    }
    if (!known(best)) {
        d += f[F_DETOUR];
        return Ending{stage * d * d * d / (3.0f * stride), 0.0f, 0.0f};
    }
    if (d <= cell) {
        if (d == 0.0f) return Ending{best, 0.0f, 0.0f};
        return Ending{best, rate * dx / d, rate * dy / d};
    }
    const int px = (int)clampf((x - x0) / cell + 0.5f, 0.0f, (float)(nx - 1)), py = (int)clampf((y - y0) / cell + 0.5f, 0.0f, (float)(ny - 1));
    const int i = py * nx + px;
    float gx = dx / d, gy = dy / d; // up the straight way
    if (known(value[i])) {
        const float sx = slope_along(value, i, 1, px > 0, px + 1 < nx), sy = slope_along(value, i, nx, py > 0, py + 1 < ny);
        const float size = sqrtf(sx * sx + sy * sy);
        if (size != 0.0f) gx = sx / size, gy = sy / size;
    }
    if (known(rates[i])) rate = rates[i];
    return Ending{best, rate * gx, rate * gy};
}

// limit moves one component of one plan, step after step, to the nearest within box and
// slew bound around the one before it (limitTwin); b is that component of the bounds.
__device__ inline void limit(const float* b, float* at, int steps) {
    const float lo = b[2], hi = b[4], slew = b[6];
    float previous = b[0];
#pragma unroll 4
    for (int k = 0; k < steps; k++, at += PLAN_FIELDS * LANES) {
        const float u = *at;
        const float kept = clampf(u, fmaxf(lo, previous - slew), fminf(hi, previous + slew));
        previous = u != u || previous != previous ? gpc_nan() : kept;
        *at = previous;
    }
}

__device__ inline Ending ending(const float* f, const float* grid, float x, float y) {
    const Ending e = unscaled(f, grid, x, y);
    const float scale = f[F_SCALE];
    return Ending{scale * e.cost, scale * e.gx, scale * e.gy};
}

} // namespace rollout
