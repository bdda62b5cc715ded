// view.cu: device functions of one robot's view of a scene (package view): the plan
// home, objectives with gradients, indicators, and the roll-out of a plan with all
// that a view says of it.
//
// A block is one warp. In gradient and roll-out it works on a row and its lane b
// holds body b; in base and priority each lane has a row, so that most blocks of the
// grid find none.
//
//	kernel     grid   shared memory   bound
//	base       rows   none            latency of 40 steps of feedback, two roots and two divisions each
//	gradient   rows   none            latency of three roots, seven divisions and four sums over the warp
//	priority   rows   none            bytes
//	rollout    rows   16.9 KiB        latency of 27 roots and some fifty divisions: five positions a body are
//	                                  expanded, moved and compressed; with encode of 9000 operations more:
//	                                  the way home and a fan of twelve manoeuvres, a lane each, are driven
//	                                  among ten bodies, 100 kFLOP a row
//
// With Δ = Δt·v̄·(cos ωΔt/2, sin ωΔt/2) the way of one step in the robot's frame, t the
// direction and d the length of the way home, h_b the margin to body b after it,
//
//	J_goal   = λ_g·share²·‖d·t − Δ‖² + J
//	J_safety = 3·share·stiffness·Σ_b huber(buffer − h_b) + J
//	J_effort = λ_e·crowd·(a² + ω²) + J
//	J        = λ_v·Σ_b min(h_b, 0)² + λ_Δ/H·‖u − u_prev‖²
//
// Arithmetic is in float64, the step's inputs and outputs are float32: the penalty of
// a body multiplies the rounding of a position by 3600, and the feedback switches at
// thresholds, behind which a path in float32 would be another one.
#include "gpc.cuh"
#include "domain.cuh"
#include "warp.cuh"

namespace view {

constexpr int STEPS = 40, WAYS = 4, BODIES = 10, KNOTS = 5, FAN = 12;

// Places in the constants, as device.go packs them: at KNOT_STEPS the step of each
// knot, at MANOEUVRES the fan and behind it the way home, which is none.
enum {
    DT, V_MIN, V_MAX, A_MIN, A_MAX, OMEGA_MAX, DU_A, DU_OMEGA, L_GOAL, L_EFFORT, L_VIOLATION, L_SMOOTH, STIFFNESS, BUFFER, KNEE,
    APPROACH_GAIN, TURN_GAIN, WAY_REACHED, CLOSE_TO_GOAL, POSITION_SCALE, REACH, INTRUSION_REACH, FAN_REACH, FAN_LOW, GOAL_SCALE, MARGIN_SCALE,
    NO_MARGIN, KNOT_STEPS, MANOEUVRES = KNOT_STEPS + KNOTS
};

// Places in a manoeuvre, in the measured state, in the context and in one of its bodies.
enum { HOLD, COS, SIN, SHARE_OF_SPEED, MANOEUVRE_SIZE };
enum { SPEED, ROOT_DISTANCE, GOAL, WAY = GOAL + 2, CLEARANCE = WAY + 2, AHEAD, STATES };
enum { RADIUS, KNOT, FEATURES = KNOT + 2 * KNOTS, BODY_SIZE = FEATURES + 3 };
enum { PREVIOUS, OWN_RADIUS = PREVIOUS + 2, SHARE, CROWD, WAY_POINTS, OUTCOMES = WAY_POINTS + 2 * WAYS, BODY = OUTCOMES + 2 * FAN, CONTEXTS = BODY + BODIES * BODY_SIZE };
constexpr int KNOWN = (int)STATES + (int)CONTEXTS;

__device__ inline int lane() { return (int)threadIdx.x; }
__device__ inline double clip(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }
// smaller keeps a NaN.
__device__ inline double smaller(double a, double b) { return a != a || a < b ? a : b; }
__device__ inline double warp_smallest(double v) {
    for (int m = 16; m > 0; m /= 2) v = smaller(v, __shfl_xor_sync(GPC_FULL_MASK, v, m));
    return v;
}

struct Point {
    double x, y;

    __device__ double square() const { return x * x + y * y; }
    __device__ Point from(Point q) const { return Point{x - q.x, y - q.y}; }
    __device__ Point toward(Point q, double t) const { return Point{x + t * (q.x - x), y + t * (q.y - y)}; }
    // seen is its components along and across a direction, turned it by the angle of one.
    __device__ Point seen(Point h) const { return Point{h.x * x + h.y * y, h.x * y - h.y * x}; }
    __device__ Point turned(Point h) const { return Point{h.x * x - h.y * y, h.y * x + h.x * y}; }
};

template <class T>
__device__ inline Point expand(const double* k, const T* p) {
    const double x = p[0], y = p[1], f = 1.0 / fmax(1.0 - sqrt(x * x + y * y) / k[POSITION_SCALE], 0.01);
    return Point{f * x, f * y};
}

__device__ inline void compress(const double* k, Point p, double* to) {
    const double f = 1.0 / (1.0 + sqrt(p.square()) / k[POSITION_SCALE]);
    to[0] = f * p.x, to[1] = f * p.y;
}

__device__ inline void bearing(Point p, double* to) {
    const double d = sqrt(p.square());
    to[0] = d < 1e-9 ? 1.0 : p.x / d, to[1] = d < 1e-9 ? 0.0 : p.y / d;
}

// bodies counts those of a view; the warp calls it.
template <class T>
__device__ inline int bodies(const T* c) {
    return __ffs(~__ballot_sync(GPC_FULL_MASK, lane() < BODIES && !(c[BODY + lane() * BODY_SIZE + RADIUS] <= T(0)))) - 1;
}

// position is where a body on its knots is at a step.
__device__ inline Point position(const double* k, const Point* knots, int step) {
    const double* at = k + KNOT_STEPS;
    int i = 0;
    while (i < KNOTS - 2 && step > at[i + 1]) i++;
    return knots[i].toward(knots[i + 1], (step - at[i]) / (at[i + 1] - at[i]));
}

// Robot is a place, a heading (cosine and sine) and a speed.
struct Robot {
    Point at, heading;
    double speed;

    __device__ explicit Robot(double v) : at{0.0, 0.0}, heading{1.0, 0.0}, speed(v) {}

    // drive is Unicycle.Step: the heading turns by half before the way and by half after
    // it. It returns the mean heading and sets the mean speed. Half a turn is at most
    // 0.25 rad: its series are exact to 1e-12.
    __device__ Point drive(const double* k, double a, double omega, double& mean) {
        const double x = 0.5 * k[DT] * omega, q = x * x, before = speed;
        const Point half{1.0 - q * (1.0 / 2.0) * (1.0 - q * (1.0 / 12.0) * (1.0 - q * (1.0 / 30.0) * (1.0 - q * (1.0 / 56.0)))),
                         x * (1.0 - q * (1.0 / 6.0) * (1.0 - q * (1.0 / 20.0) * (1.0 - q * (1.0 / 42.0))))};
        speed = clip(before + k[DT] * a, k[V_MIN], k[V_MAX]), mean = 0.5 * (before + speed);
        const Point way = heading.turned(half);
        at = Point{at.x + k[DT] * mean * way.x, at.y + k[DT] * mean * way.y}, heading = way.turned(half);
        return way;
    }
};

// limit moves an action to the nearest in the box and in the slew bound around the one
// before (Limits.Nearest).
__device__ inline void limit(const double* k, const double* before, double* u) {
    const double lo[2] = {k[A_MIN], -k[OMEGA_MAX]}, hi[2] = {k[A_MAX], k[OMEGA_MAX]};
    for (int i = 0; i < 2; i++) u[i] = fmin(fmax(u[i], fmax(lo[i], before[i] - k[DU_A + i])), fmin(hi[i], before[i] + k[DU_A + i]));
}

// Sight is what a robot steers by.
struct Sight {
    double speed, previous[2];
    Point goal, ways[WAYS];

    template <class T>
    __device__ Sight(const double* k, const T* s, const T* c) {
        const double root = s[ROOT_DISTANCE], d = root * root;
        speed = s[SPEED], previous[0] = c[PREVIOUS], previous[1] = c[PREVIOUS + 1];
        goal = Point{d * s[GOAL], d * s[GOAL + 1]};
        for (int w = 0; w < WAYS; w++) ways[w] = expand(k, c + WAY_POINTS + 2 * w);
    }
};

// pursue is View.pursue: home along the way points by feedback, after manoeuvre m.
// visit(step, robot, action) is called after each step, from 1.
template <class Visit>
__device__ inline void pursue(const double* k, const Sight& e, const double* m, Visit visit) {
    Robot p(e.speed);
    double mean, before[2] = {e.previous[0], e.previous[1]};
    int way = 0;
    for (int step = 0; step < STEPS; step++) {
        Point to = e.goal.from(p.at);
        const double home = sqrt(to.square());
        double square = home * home;
        for (; way < WAYS; way++) {
            const Point w = e.ways[way].from(p.at);
            const double s = w.square();
            if (s > k[WAY_REACHED] * k[WAY_REACHED] && s < square) {
                to = w, square = s;
                break;
            }
        }
        const double f = 1.0 / sqrt(square);
        to = square > 1e-6 ? Point{f * to.x, f * to.y} : p.heading;
        double top = k[V_MAX];
        if (step < m[HOLD]) to = to.turned(Point{m[COS], m[SIN]}), top *= m[SHARE_OF_SPEED];
        to = to.seen(p.heading);
        const double along = to.x, across = to.y;
        double want = fmin(top, k[APPROACH_GAIN] * home), turn = across;
        if (along >= 0.0)
            want *= 0.3 + 0.7 * along;
        else if (home < k[CLOSE_TO_GOAL])
            want = -fmin(-k[V_MIN], want), turn = -across;
        else
            want *= 0.3, turn = (across < 0.0 ? -2.0 : 2.0) - across;
        double u[2] = {(want - p.speed) / k[DT], k[TURN_GAIN] * turn};
        limit(k, before, u);
        // The first action before may lie outside the box.
        before[0] = u[0] = clip(u[0], k[A_MIN], k[A_MAX]), before[1] = u[1] = clip(u[1], -k[OMEGA_MAX], k[OMEGA_MAX]);
        p.drive(k, u[0], u[1], mean);
        visit(step + 1, p, u);
    }
}

// Stage is the objectives of one action and the derivatives of σᵀJ.
struct Stage {
    double J[3], speed, root, wayCos, waySin, a, omega;
};

// stage is View.stage; the warp calls it.
template <class T>
__device__ inline Stage stage(const double* k, const T* s, const T* u, const T* c, const T* sigma) {
    const double root = s[ROOT_DISTANCE], distance = root * root, wayCos = s[WAY], waySin = s[WAY + 1];
    const double a = u[0], omega = u[1], share = c[SHARE], dt = k[DT], s0 = sigma[0], s1 = sigma[1], s2 = sigma[2], total = s0 + s1 + s2;
    Robot moved(s[SPEED]);
    double mean;
    const Point way = moved.drive(k, a, omega, mean);
    const double stiffness = 3.0 * share * k[STIFFNESS];
    // Of the lane's body; px, py is the slope in the place reached.
    double penalty = 0.0, violation = 0.0, px = 0.0, py = 0.0;
    if (lane() < bodies(c)) {
        const T* f = c + BODY + lane() * BODY_SIZE;
        const Point d = moved.at.from(expand(k, f + KNOT).toward(expand(k, f + KNOT + 2), 1.0 / k[KNOT_STEPS + 1]));
        const double r = f[RADIUS], square = d.square();
        if (square < (r + k[BUFFER]) * (r + k[BUFFER])) {
            const double length = sqrt(square) + 1e-9, h = length - r, depth = k[BUFFER] - h, m = fmin(depth, k[KNEE]);
            penalty = m * (2.0 * depth - m);
            double slope = -2.0 * m * s1 * stiffness;
            if (h < 0.0) violation = h * h, slope += 2.0 * h * total * k[L_VIOLATION];
            px = slope * d.x / length, py = slope * d.y / length;
        }
    }
    penalty = gpc::warp_sum64(penalty), violation = gpc::warp_sum64(violation), px = gpc::warp_sum64(px), py = gpc::warp_sum64(py);
    const double weight = k[L_GOAL] * share * share, goal = 2.0 * s0 * weight, effort = k[L_EFFORT] * c[CROWD], smooth = k[L_SMOOTH];
    const Point rest{distance * wayCos - moved.at.x, distance * waySin - moved.at.y};
    const double da = a - c[PREVIOUS], dw = omega - c[PREVIOUS + 1], always = k[L_VIOLATION] * violation + smooth * (da * da + dw * dw);
    px -= goal * rest.x, py -= goal * rest.y;
    const double through = 0.5 * dt * (px * way.x + py * way.y); // to each of the two speeds of the mean
    const bool free = moved.speed > k[V_MIN] && moved.speed < k[V_MAX];
    Stage g;
    g.J[0] = weight * rest.square() + always, g.J[1] = stiffness * penalty + always, g.J[2] = effort * (a * a + omega * omega) + always;
    g.speed = through + (free ? through : 0.0);
    g.root = 2.0 * root * goal * (rest.x * wayCos + rest.y * waySin);
    g.wayCos = goal * rest.x * distance, g.waySin = goal * rest.y * distance;
    g.a = 2.0 * (s2 * effort * a + total * smooth * da) + (free ? dt * through : 0.0);
    g.omega = 2.0 * (s2 * effort * omega + total * smooth * dw) + 0.5 * dt * dt * mean * (py * way.x - px * way.y);
    return g;
}

// Problem is what a thread does with a row.
struct Problem {
    static constexpr int states = STATES, contexts = CONTEXTS, actions = 2, plan = 2 * STEPS, objectives = 3;

    template <class T>
    __device__ static void base(const double* k, const T* s, const T* c, T* out) {
        pursue(k, Sight(k, s, c), k + MANOEUVRES + FAN * MANOEUVRE_SIZE, [&](int step, const Robot&, const double* u) { out[2 * step - 2] = (T)u[0], out[2 * step - 1] = (T)u[1]; });
    }

    __device__ static void indicators(const double* k, const double* s, const double*, const double* c, double* delta) {
        const double d = s[ROOT_DISTANCE] * s[ROOT_DISTANCE], a = c[PREVIOUS] / fmax(k[A_MAX], -k[A_MIN]), omega = c[PREVIOUS + 1] / k[OMEGA_MAX];
        delta[0] = d * d / (d * d + k[GOAL_SCALE]);
        delta[1] = exp(-(s[CLEARANCE] < 0.0 ? 0.0 : s[CLEARANCE]) / k[MARGIN_SCALE]);
        delta[2] = smaller(0.5 * (a * a + omega * omega), 1.0);
    }
};

// Room is what a warp shares about its row: state and context after the step and, in
// the robot's frame there, the bodies, their order by urgency, and the paths of the fan
// and of the way home.
struct Room {
    double next[KNOWN], radius[BODIES];
    int order[BODIES];
    Point bodies[BODIES][STEPS + 1], paths[FAN + 1][STEPS + 1], headings[STEPS + 1];
};

// survey is View.order and View.try, for E_x: what lane b's body leaves in the view, and
// what becomes of its manoeuvre, the last of which is the way home. It returns the
// body's place by urgency. The warp calls it.
__device__ inline int survey(const double* k, const Sight& e, int count, double radius, const Point* knots, double* features, Room& room) {
    const int b = lane();
    if (b < count) {
        for (int at = 0; at <= STEPS; at++) room.bodies[b][at] = position(k, knots, at);
        room.radius[b] = radius;
    }
    if (b <= FAN) {
        room.paths[b][0] = Point{0.0, 0.0};
        if (b == FAN) room.headings[0] = Point{1.0, 0.0};
        pursue(k, e, k + MANOEUVRES + b * MANOEUVRE_SIZE, [&](int at, const Robot& p, const double*) {
            room.paths[b][at] = p.at;
            if (b == FAN) room.headings[at] = p.heading;
        });
    }
    __syncwarp();
    double closest = (double)gpc_inf(), when = 0.0, side = 0.0;
    for (int at = 0; b < count && at <= STEPS; at++) {
        const Point off = room.bodies[b][at].from(room.paths[FAN][at]);
        const double d = sqrt(off.square()), h = d - radius;
        if (h < closest) closest = h, when = (double)at / STEPS, side = off.seen(room.headings[at]).y / fmax(d, 1e-9);
    }
    const double in = k[INTRUSION_REACH] - closest, fade = fmin(in, 1.0), ahead = warp_smallest(smaller(closest, k[REACH]));
    if (in > 0.0) features[0] = in, features[1] = fade * when, features[2] = fade * side;
    int place = 0;
    for (int n = 0; n < count; n++) {
        const double other = __shfl_sync(GPC_FULL_MASK, closest, n);
        place += other < closest || (other == closest && n < b);
    }
    if (b < count) room.order[place] = b;
    if (b == 0) room.next[AHEAD] = ahead;
    __syncwarp();
    if (b < FAN) {
        double low = k[FAN_REACH], *to = room.next + STATES + OUTCOMES + 2 * b;
        int free = STEPS;
        for (int n = 0; n < count; n++) {
            const int other = room.order[n];
            const double r = room.radius[other], near = r + k[FAN_LOW];
            for (int at = 1; at <= STEPS; at++) {
                const double square = room.bodies[other][at].from(room.paths[b][at]).square();
                if (square < (r + low) * (r + low)) low = sqrt(square) - r;
                if (square < near * near) free = min(free, at);
            }
        }
        to[0] = fmax(low, -k[FAN_REACH]), to[1] = (double)free / STEPS;
    }
    return place;
}

// step is View.Step into room.next; it returns the smallest margin after the action.
// What E_x alone reads (order and traces of the bodies, outcomes of the fan) is new only
// if it is asked for. The warp calls it: lane b has body b.
__device__ inline double step(const double* k, const double* s, const double* c, const double* u, bool observed, Room& room) {
    const int b = lane(), count = bodies(c);
    for (int j = b; j < KNOWN; j += 32) room.next[j] = j < STATES ? s[j] : c[j - STATES];
    Sight e(k, s, c);
    Robot own(e.speed);
    double mean, margin = k[NO_MARGIN], clearance = k[REACH], radius = 0.0, features[3] = {0.0, 0.0, 0.0};
    own.drive(k, u[0], u[1], mean);
    auto move = [&](Point q) { return q.from(own.at).seen(own.heading); };
    e.speed = own.speed, e.previous[0] = u[0], e.previous[1] = u[1], e.goal = move(e.goal);
    for (int w = 0; w < WAYS; w++) e.ways[w] = move(e.ways[w]);
    Point knots[KNOTS];
    if (b < count) {
        const double* f = c + BODY + b * BODY_SIZE;
        Point before[KNOTS];
        for (int i = 0; i < KNOTS; i++) before[i] = expand(k, f + KNOT + 2 * i);
        for (int i = 0; i < KNOTS; i++) {
            // Beyond what is known it goes on as it does before.
            const int j = min(i, KNOTS - 2);
            const double t = 1.0 / (k[KNOT_STEPS + j + 1] - k[KNOT_STEPS + j]);
            const Point way = before[j + 1].from(before[j]);
            knots[i] = Point{before[i].x + t * way.x, before[i].y + t * way.y};
        }
        radius = f[RADIUS], margin = sqrt(knots[0].from(own.at).square()) - radius;
        for (int i = 0; i < KNOTS; i++) knots[i] = move(knots[i]);
        // The heading is a unit vector to the series' rounding.
        clearance = smaller(clearance, sqrt(knots[0].square()) - radius);
    }
    margin = warp_smallest(margin), clearance = warp_smallest(clearance);
    __syncwarp();
    const int place = observed ? survey(k, e, count, radius, knots, features, room) : b;
    double *sNext = room.next, *cNext = room.next + STATES;
    if (b < BODIES) { // those that are not there come behind all, as zeros
        double* f = cNext + BODY + (b < count ? place : b) * BODY_SIZE;
        for (int i = 0; i < BODY_SIZE; i++) f[i] = 0.0;
        if (b < count) {
            f[RADIUS] = radius;
            for (int i = 0; i < KNOTS; i++) compress(k, knots[i], f + KNOT + 2 * i);
            for (int i = 0; i < 3; i++) f[FEATURES + i] = features[i];
        }
    }
    if (b == 0) {
        sNext[SPEED] = e.speed, sNext[ROOT_DISTANCE] = sqrt(sqrt(e.goal.square())), sNext[CLEARANCE] = clearance;
        bearing(e.goal, sNext + GOAL), bearing(e.ways[0], sNext + WAY);
        cNext[PREVIOUS] = u[0], cNext[PREVIOUS + 1] = u[1];
        for (int w = 0; w < WAYS; w++) compress(k, e.ways[w], cNext + WAY_POINTS + 2 * w);
    }
    __syncwarp();
    return margin;
}

} // namespace view

extern "C" __global__ void __launch_bounds__(32) gpc_domain_base_view(int rows, const float* s, int lds, const float* c, int ldc, float* plan, int ldplan, const double* constants) {
    gpc::domain_base<view::Problem>(rows, s, lds, c, ldc, plan, ldplan, constants);
}

extern "C" __global__ void __launch_bounds__(32) gpc_domain_gradient_view(gpc_domain_batch b, const double* constants) {
    using namespace view;
    for (int64_t row = blockIdx.x; row < b.rows; row += gridDim.x) {
        const float* s = b.s + row * b.lds;
        const Stage g = stage(constants, s, b.u + row * b.ldu, b.c + row * b.ldc, b.sigma + row * b.ldsigma);
        if (lane() != 0) continue;
        float *gs = b.gs + row * b.ldgs, *gu = b.gu + row * b.ldgu;
        for (int i = 0; i < STATES; i++) gs[i] = 0.0f;
        gs[SPEED] = (float)g.speed, gs[ROOT_DISTANCE] = (float)g.root;
        gs[WAY] = (float)g.wayCos, gs[WAY + 1] = (float)g.waySin, gu[0] = (float)g.a, gu[1] = (float)g.omega;
        for (int i = 0; b.J && i < 3; i++) b.J[row * b.ldJ + i] = (float)g.J[i];
    }
}

extern "C" __global__ void __launch_bounds__(32) gpc_domain_priority_view(gpc_domain_steering job, gpc_domain_preference p, const double* constants, const double* inverseRange) {
    gpc::domain_priority<view::Problem>(job, p, constants, inverseRange);
}

extern "C" __global__ void __launch_bounds__(32) gpc_domain_rollout_view(gpc_domain_rollout r, gpc_domain_preference p, const double* constants) {
    using namespace view;
    constexpr int plan = Problem::plan, objectives = Problem::objectives;
    __shared__ Room room;
    const double infinity = (double)gpc_inf();
    for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
        double *s = r.s + row * STATES, *c = r.c + row * CONTEXTS, *best = r.best + row * plan, sigma[objectives];
        double u[2] = {(double)r.plan[row * plan + 2 * r.h], (double)r.plan[row * plan + 2 * r.h + 1]};
        bool sound = gpc::finite64(u[0]) && gpc::finite64(u[1]);
        for (int j = 0; j < STATES; j++) sound = sound && gpc::finite64(s[j]);
        if (!sound)
            u[0] = u[1] = 0.0;
        else if (r.project)
            limit(constants, c + PREVIOUS, u);
        // What lies beyond the look-ahead stays as it was decoded.
        for (int j = 2 + lane(); r.h == 0 && j < plan; j += 32) best[j] = (double)r.plan[row * plan + j];
        gpc::sigma_of<Problem>(constants, p, s, u, c, sigma);
        const Stage now = stage(constants, s, u, c, sigma);
        double cost = r.h == 0 ? 0.0 : r.cost[row], margin = !sound ? -infinity : r.h == 0 ? infinity : r.margin[row];
        for (int j = 0; j < objectives; j++) cost += sigma[j] * now.J[j];
        const double after = step(constants, s, c, u, r.encode, room);
        margin = smaller(margin, after);
        bool stays = true;
        for (int j = lane(); j < KNOWN; j += 32) stays = stays && gpc::finite64(room.next[j]);
        stays = __all_sync(GPC_FULL_MASK, stays);
        float* in = r.input + row * (KNOWN + 1 + objectives);
        for (int j = lane(); j < KNOWN; j += 32) {
            double& to = j < STATES ? s[j] : c[j - STATES];
            if (stays) to = room.next[j];
            if (!r.encode) continue;
            const float v = (float)to;
            (j < STATES ? r.stateOut[row * STATES + j] : r.contextOut[row * CONTEXTS + j - STATES]) = v;
            in[j] = (v - p.mean[j]) / p.scale[j];
        }
        for (int j = KNOWN + lane(); r.encode && j < KNOWN + 1 + objectives; j += 32) in[j] = (p.slot[j - KNOWN] - p.mean[j]) / p.scale[j];
        if (lane() == 0) best[2 * r.h] = u[0], best[2 * r.h + 1] = u[1], r.cost[row] = cost, r.margin[row] = stays ? margin : -infinity;
        if (lane() == 0 && r.margins) r.margins[row] = after;
        __syncwarp();
    }
}

GPC_KERNEL(gpc_domain_base_view)
GPC_KERNEL(gpc_domain_gradient_view)
GPC_KERNEL(gpc_domain_priority_view)
GPC_KERNEL(gpc_domain_rollout_view)
