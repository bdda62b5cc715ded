// integrator.cu: device functions of the double integrator (package integrator):
// dynamics, objectives with gradients, indicators, margins and the projection with
// its look-ahead, as in dynamics.go, problem.go, projection.go and viability.go.
//
// A thread works on one row, a warp on one of the roll-out: rows do not wait for one another. Of a
// projection the lanes take the candidates of a search, the escapes, and several shares of a
// detour at once. Bound: the gradient by bytes (about 100 a row), the roll-out by the latency of
// float64: a few hundred cycles where the action is feasible and leaves, 450 a step of an escape, a
// search 3 000, a detour four to five times an escape.
#include "gpc.cuh"
#include "domain.cuh"
#include "policy.cuh"

namespace integrator {

// Places in the constants, as device.go packs them.
enum {
    DT, HALF, GOAL_X, GOAL_Y, SAFE_X, SAFE_Y, RHO_X, RHO_Y, BETA, LAMBDA, OMEGA, U_MAX, R_MAX, A, B, C0_X, C0_Y, HORIZON, PSI_SCALE, GOAL_SCALE, ESCAPE_STEPS, ESCAPE_TRIMS
};

// Places in the context.
enum { PREVIOUS = 0, P = 2, RATE = 3, TIME = 4, CONTEXTS = 5 };

constexpr double discTolerance = 1e-12;

template <class T>
__device__ inline T get(const double* k, int i) { return (T)k[i]; }

__device__ inline float sine(float x) { return sinf(x); }
__device__ inline double sine(double x) { return sin(x); }
__device__ inline float cosine(float x) { return cosf(x); }
__device__ inline double cosine(double x) { return cos(x); }

template <class T>
__device__ inline void next(const double* k, const T* s, T u1, T u2, T* out) {
    const T dt = get<T>(k, DT), half = get<T>(k, HALF);
    out[0] = s[0] + dt * s[2] + half * u1, out[1] = s[1] + dt * s[3] + half * u2;
    out[2] = s[2] + dt * u1, out[3] = s[3] + dt * u2;
}

// stage is both objectives at the next position, and their derivatives there.
template <class T>
struct Stage {
    T j1, j2, g1x, g1y, g2x, g2y;
};

template <class T>
__device__ inline Stage<T> stage(const double* k, T x, T y, T u1, T u2, T p) {
    Stage<T> o;
    const T dx = x - (get<T>(k, SAFE_X) + get<T>(k, RHO_X) * p), dy = y - (get<T>(k, SAFE_Y) + get<T>(k, RHO_Y) * p);
    const T ex = x - get<T>(k, GOAL_X), ey = y - get<T>(k, GOAL_Y);
    o.j1 = dx * dx + dy * dy;
    o.g1x = T(2) * dx, o.g1y = T(2) * dy;
    o.j2 = ex * ex + ey * ey + get<T>(k, BETA) * (u1 * u1 + u2 * u2);
    o.g2x = T(2) * ex, o.g2y = T(2) * ey;
    const T lambda = get<T>(k, LAMBDA), omega = get<T>(k, OMEGA);
    if (lambda != T(0)) {
        const T slope = (T)(k[LAMBDA] * k[OMEGA]);
        o.j2 += lambda * (T(2) - cosine(omega * ex) - cosine(omega * ey));
        o.g2x += slope * sine(omega * ex), o.g2y += slope * sine(omega * ey);
    }
    return o;
}

// clearance is ψ of a position.
__device__ inline double clearance(const double* k, double x, double y, double p) {
    const double dx = (x - k[C0_X] - k[RHO_X] * p) / k[A], dy = (y - k[C0_Y] - k[RHO_Y] * p) / k[B];
    return dx * dx + dy * dy;
}

struct Point {
    double x, y;
};

__device__ inline double squared(Point a, Point b) {
    const double dx = a.x - b.x, dy = a.y - b.y;
    return dx * dx + dy * dy;
}

// within is hypot(x, y) <= radius, whose root is taken only where squares do not tell.
__device__ inline bool within(double x, double y, double radius) {
    const double q = x * x + y * y, r = radius * radius;
    if (fabs(q - r) > 1e-12 * r) return q < r;
    return sqrt(q) <= radius;
}

__device__ inline Point to_disc(Point u, Point centre, double radius) {
    const double dx = u.x - centre.x, dy = u.y - centre.y, q = dx * dx + dy * dy;
    if (q <= radius * radius) return u;
    const double scale = radius / sqrt(q);
    return Point{centre.x + dx * scale, centre.y + dy * scale};
}

// inverse_root is 1/√q of q between 1e-30 and 1e30, by its series from float32: what is left out
// is the cube of that rounding. A root and a division take twice as long.
__device__ inline double inverse_root(double q) {
    const double r = (double)rsqrtf((float)q), e = 1.0 - q * r * r;
    return r + r * (e * (0.5 + 0.375 * e));
}

// turned is a unit vector turned by an angle of at most half a radian.
__device__ inline Point turned(Point v, double angle) {
    const double q = angle * angle;
    const double sn = angle * (1.0 + q * (-1.0 / 6 + q * (1.0 / 120 + q * (-1.0 / 5040 + q * (1.0 / 362880 + q * (-1.0 / 39916800 + q * (1.0 / 6227020800.0)))))));
    const double cs = 1.0 + q * (-0.5 + q * (1.0 / 24 + q * (-1.0 / 720 + q * (1.0 / 40320 + q * (-1.0 / 3628800 + q * (1.0 / 479001600.0))))));
    return Point{v.x * cs - v.y * sn, v.y * cs + v.x * sn};
}
constexpr double mostTurned = 0.5;

// Discs is the intersection of the input disc around 0 and the slew disc around
// the previous action.
struct Discs {
    double input, slew;
    Point previous;

    __device__ bool holds(Point u) const {
        return within(u.x, u.y, input + discTolerance) && within(u.x - previous.x, u.y - previous.y, slew + discTolerance);
    }

    // corners are the two points common to both rims.
    __device__ bool corners(Point* at) const {
        const double distance = sqrt(previous.x * previous.x + previous.y * previous.y);
        if (distance == 0.0) return false;
        const double along = (distance * distance + input * input - slew * slew) / (2.0 * distance);
        const double across2 = input * input - along * along;
        if (across2 < -discTolerance) return false;
        const double across = sqrt(fmax(across2, 0.0)), ex = previous.x / distance, ey = previous.y / distance;
        at[0] = Point{along * ex - across * ey, along * ey + across * ex};
        at[1] = Point{along * ex + across * ey, along * ey - across * ex};
        return true;
    }

    // project moves u to the nearest point of the set; without one to the point of
    // the input disc nearest to the previous action, and false.
    __device__ bool project(Point& u) const {
        if (holds(u)) return true;
        const Point inDisc = to_disc(u, Point{0.0, 0.0}, input);
        if (holds(inDisc)) {
            u = inDisc;
            return true;
        }
        const Point inSlew = to_disc(u, previous, slew);
        if (holds(inSlew)) {
            u = inSlew;
            return true;
        }
        Point at[2];
        if (!corners(at)) {
            u = to_disc(previous, Point{0.0, 0.0}, input);
            return false;
        }
        u = squared(at[1], u) < squared(at[0], u) ? at[1] : at[0];
        return true;
    }
};

// Motion is the next position relative to the ellipse's centre, (x, y) + half·u.
struct Motion {
    double x, y, half, a, b, ia, ib; // semi-axes and their inverses

    __device__ double clearance(Point u) const {
        const double dx = (x + half * u.x) * ia, dy = (y + half * u.y) * ib;
        return dx * dx + dy * dy;
    }

    // A point of a circle of actions is its centre and a unit vector from there.
    struct Rim {
        Point centre;
        double radius;

        __device__ Point at(Point v) const { return Point{centre.x + radius * v.x, centre.y + radius * v.y}; }
    };

    // along are ψ − 1 at a point of a circle, and its first two derivatives in the angle.
    struct Along {
        double psi, slope, bend;
    };

    __device__ Along along(const Rim& rim, Point v) const {
        const double r = half * rim.radius, dx = (x + half * rim.centre.x + r * v.x) * ia, dy = (y + half * rim.centre.y + r * v.y) * ib;
        const double cx = r * v.x * ia, cy = r * v.y * ib, sx = -r * v.y * ia, sy = r * v.x * ib;
        return Along{dx * dx + dy * dy - 1.0, 2.0 * (dx * sx + dy * sy), 2.0 * (sx * sx + sy * sy - dx * cx - dy * cy)};
    }

    // outward is the direction of ψ's gradient at a circle's centre.
    __device__ Point outward(Point centre) const {
        const double gx = (x + half * centre.x) * ia * ia, gy = (y + half * centre.y) * ib * ib, q = gx * gx + gy * gy;
        if (!(q > 1e-30)) return Point{1.0, 0.0};
        const double scale = 1.0 / sqrt(q);
        return Point{gx * scale, gy * scale};
    }

    // extreme is the direction of the circle's largest or smallest ψ near a guess. A step
    // of 1e-8 leaves its square.
    __device__ Point extreme(const Rim& rim, Point v) const {
#pragma unroll 1
        for (int round = 0; round < 6; round++) {
            const Along f = along(rim, v);
            if (f.bend == 0.0) break;
            const double by = fmin(fmax(-f.slope / f.bend, -mostTurned), mostTurned);
            v = turned(v, by);
            if (fabs(by) <= 1e-8) break;
        }
        return v;
    }

    // root is the direction where ψ − 1 changes sign on the way from the top of a circle to its bottom,
    // anticlockwise or not, on the side with ψ ≥ 1: by Newton's method, from where the cosine between
    // the two has its root, halving where a step leaves the bracket.
    __device__ Point root(const Rim& rim, Point top, double high, double low, double way) const {
        if (high == 0.0) return top;
        const double cs = fmin(1.0, fmax(-1.0, (high + low) / (low - high))), sn = way * sqrt(1.0 - cs * cs);
        Point v{top.x * cs - top.y * sn, top.y * cs + top.x * sn}, inside = top;
        double angle = (double)acosf((float)cs), in = 0.0, out = 3.5; // from the top on
#pragma unroll 1
        for (int round = 0; round < 60; round++) {
            const Along f = along(rim, v);
            if (f.psi >= 0.0) {
                inside = v, in = angle;
                if (f.psi <= 1e-15) break;
            } else {
                out = angle;
            }
            if (out - in <= 1e-15) break;
            double to = angle + (5e-16 - f.psi) / (way * f.slope);
            if (!(to > in && to < out)) to = 0.5 * (in + out);
            const double by = fmin(fmax(to - angle, -mostTurned), mostTurned);
            if (angle + by == angle) break;
            v = turned(v, way * by), angle += by;
        }
        return inside;
    }

    // nearest_on_ellipse is the action whose next position is the point of the
    // ellipse nearest to that of u, which must be inside (Eberly).
    __device__ Point nearest_on_ellipse(Point u) const {
        const double px = x + half * u.x, py = y + half * u.y;
        double e0 = a, e1 = b, y0 = fabs(px), y1 = fabs(py);
        if (a < b) e0 = b, e1 = a, y0 = fabs(py), y1 = fabs(px);
        double x0 = 0.0, x1 = e1;
        if (y1 > 0.0) {
            // (e0 y0/(t + e0²))² + (e1 y1/(t + e1²))² = 1 by Newton's method for the root of
            // the reciprocal, which is nearly linear; by bisection where that leaves the bracket. One
            // step moves the position little, so that t is near 0.
            double low = -e1 * e1 + e1 * y1, high = 0.0, t = 0.0;
#pragma unroll 1
            for (int round = 0; round < 200; round++) {
                const double i0 = 1.0 / (t + e0 * e0), i1 = 1.0 / (t + e1 * e1), r0 = e0 * y0 * i0, r1 = e1 * y1 * i1, h = r0 * r0 + r1 * r1;
                if (h > 1.0)
                    low = t;
                else
                    high = t;
                double to = t + h * (sqrt(h) - 1.0) / (r0 * r0 * i0 + r1 * r1 * i1);
                if (!(to > low && to < high)) {
                    if (fabs(to - t) <= 1e-16 * (e1 * e1 + fabs(t))) break;
                    to = 0.5 * (low + high);
                    if (to <= low || to >= high) break;
                }
                const double by = fabs(to - t);
                t = to;
                if (by <= 1e-10 * e1 * e1) break; // what is left is its square
            }
            x0 = e0 * e0 * y0 / (t + e0 * e0), x1 = e1 * e1 * y1 / (t + e1 * e1);
        } else if (e0 * y0 < e0 * e0 - e1 * e1) {
            x0 = e0 * e0 * y0 / (e0 * e0 - e1 * e1);
            x1 = e1 * sqrt(fmax(0.0, 1.0 - x0 * x0 / (e0 * e0)));
        } else {
            x0 = e0, x1 = 0.0;
        }
        // Outward by a few units in the last place, so that ψ ≥ 1 survives rounding.
        const double w0 = x0 / e0, w1 = x1 / e1, scale = (1.0 + 1e-15) / sqrt(w0 * w0 + w1 * w1);
        x0 *= scale, x1 *= scale;
        const double ex = copysign(a < b ? x1 : x0, px), ey = copysign(a < b ? x0 : x1, py);
        return Point{(ex - x) / half, (ey - y) / half};
    }
};

constexpr int lanes = 32; // that work on a row: a warp

// Row is what the lanes of a warp know of their row: the discs, the next position, and the
// ellipse, whose frame flights are in.
struct Row {
    Discs discs;
    Motion free;
    Point centre, drift; // the ellipse's now, and how far it moves in a step
    double ia2, ib2;     // 1/a², 1/b²

    __device__ Row(const double* k, const double* s, const double* c) {
        discs = Discs{k[U_MAX], k[R_MAX], Point{c[PREVIOUS], c[PREVIOUS + 1]}};
        double at[4];
        next<double>(k, s, 0.0, 0.0, at);
        centre = Point{k[C0_X] + k[RHO_X] * c[P], k[C0_Y] + k[RHO_Y] * c[P]};
        drift = Point{k[RHO_X] * c[RATE] * k[DT], k[RHO_Y] * c[RATE] * k[DT]};
        const double ia = 1.0 / k[A], ib = 1.0 / k[B];
        free = Motion{at[0] - centre.x, at[1] - centre.y, k[HALF], k[A], k[B], ia, ib};
        ia2 = ia * ia, ib2 = ib * ib;
    }
};

// Lanes of a warp in threes try actions side by side, a lane an escape.
constexpr int escapes = 3, trials = lanes / escapes;
__device__ inline int lane() { return (int)threadIdx.x % lanes; }

// What the lanes of a search do.
enum Role { ON_ELLIPSE = 0, CORNERS = 1, INPUT_RIM = 2, SLEW_RIM = 4, NONE = 6, ROLES = 8 };

// search moves the trials that ask, whose next positions the obstacle holds, from want to the
// nearest action that keeps input, slew and obstacle now; if there is none, to the one of largest ψ
// that keeps the first two, and false. Eight lanes take a trial, and each has the candidates of
// nearest in projection.go that are its own: two lanes a rim, of which one looks for its
// largest ψ and the crossing on one side, the other for the smallest and the crossing on the
// other. The warp calls it.
__device__ inline bool search(const Row& row, Point want, Point& u, bool asks) {
    const Discs& d = row.discs;
    const Motion& free = row.free;
    const double infinity = (double)gpc_inf();
    const int owner = lane() - lane() % escapes;
    unsigned pending = __ballot_sync(GPC_FULL_MASK, asks && lane() == owner);
    bool ok = true;
    while (pending) {
        unsigned left = pending;
        for (int skip = lane() / ROLES; skip > 0; skip--) left &= left - 1;
        const int whose = left ? __ffs((int)left) - 1 : 0, role = left ? lane() % ROLES : (int)NONE;
        const Point goal{__shfl_sync(GPC_FULL_MASK, want.x, whose), __shfl_sync(GPC_FULL_MASK, want.y, whose)};
        const Point from{__shfl_sync(GPC_FULL_MASK, u.x, whose), __shfl_sync(GPC_FULL_MASK, u.y, whose)};
        Point best = from, clearest = from;
        double distance = infinity, psi = free.clearance(from);
        auto consider = [&](Point at) {
            if (!d.holds(at)) return;
            const double far = squared(at, goal);
            if (far < distance) best = at, distance = far;
        };
        auto remember = [&](Point at) {
            const double value = free.clearance(at);
            if (value > psi && d.holds(at)) clearest = at, psi = value;
            return value;
        };
        const bool lower = role % 2, rims = role >= INPUT_RIM && role < NONE;
        const Motion::Rim rim = role < SLEW_RIM ? Motion::Rim{Point{0.0, 0.0}, d.input} : Motion::Rim{d.previous, d.slew};
        Point end{0.0, 0.0}, guess = end;
        double level = 0.0, there = 0.0;
        if (role == ON_ELLIPSE) {
            if (free.clearance(goal) < 1.0) consider(free.nearest_on_ellipse(goal));
        } else if (role == CORNERS) {
            Point corners[2];
            if (d.corners(corners))
                for (int i = 0; i < 2; i++)
                    if (remember(corners[i]) >= 1.0) consider(corners[i]);
        } else if (rims) {
            guess = free.outward(rim.centre);
            if (lower) guess = Point{-guess.x, -guess.y};
            end = free.extreme(rim, guess);
            level = free.along(rim, end).psi, there = free.along(rim, guess).psi;
            if (!lower && level < there) end = guess, level = there;
            if (!lower) remember(rim.at(end));
        }
        const double high = __shfl_xor_sync(GPC_FULL_MASK, level, 1);
        if (rims && lower && !(level < high)) end = guess, level = there;
        const double otherLevel = __shfl_xor_sync(GPC_FULL_MASK, level, 1);
        const Point other{__shfl_xor_sync(GPC_FULL_MASK, end.x, 1), __shfl_xor_sync(GPC_FULL_MASK, end.y, 1)};
        if (rims) {
            const double psiHigh = lower ? otherLevel : level, psiLow = lower ? level : otherLevel;
            if (psiHigh >= 0.0 && psiLow <= 0.0) consider(rim.at(free.root(rim, lower ? other : end, psiHigh, psiLow, lower ? -1.0 : 1.0)));
        }
        // The nearest and the clearest, of the first role that has it.
        int first = role, firstClear = role;
#pragma unroll 1
        for (int m = 1; m < ROLES; m *= 2) {
            const double far = __shfl_xor_sync(GPC_FULL_MASK, distance, m), value = __shfl_xor_sync(GPC_FULL_MASK, psi, m);
            const Point at{__shfl_xor_sync(GPC_FULL_MASK, best.x, m), __shfl_xor_sync(GPC_FULL_MASK, best.y, m)};
            const Point clear{__shfl_xor_sync(GPC_FULL_MASK, clearest.x, m), __shfl_xor_sync(GPC_FULL_MASK, clearest.y, m)};
            const int theirs = __shfl_xor_sync(GPC_FULL_MASK, first, m), theirsClear = __shfl_xor_sync(GPC_FULL_MASK, firstClear, m);
            if (far < distance || (far == distance && theirs < first)) distance = far, best = at, first = theirs;
            if (value > psi || (value == psi && theirsClear < firstClear)) psi = value, clearest = clear, firstClear = theirsClear;
        }
        if (distance == infinity) best = clearest;
        // Back to the lanes of the trial.
        const int place = __popc(pending & ((1u << owner) - 1)), answer = place * ROLES % lanes;
        const bool mine = asks && (pending >> owner & 1) && place < lanes / ROLES;
        const Point found{__shfl_sync(GPC_FULL_MASK, best.x, answer), __shfl_sync(GPC_FULL_MASK, best.y, answer)};
        const int clear = __shfl_sync(GPC_FULL_MASK, distance < infinity || psi >= 1.0 ? 1 : 0, answer);
        if (mine) u = found, ok = clear;
        for (int i = 0; i < lanes / ROLES; i++) pending &= pending - 1;
    }
    return ok;
}

// nearest moves the trials that look as search does; from an action that is not a number towards
// none, and false. The warp calls it.
__device__ inline bool nearest(const Row& row, Point& u, bool looks) {
    const Point want = u;
    bool ok = true, inside = false;
    if (looks) {
        if (!gpc::finite64(u.x + u.y)) u = Point{0.0, 0.0}, ok = false;
        ok = row.discs.project(u) && ok;
        inside = ok && !(row.free.clearance(u) >= 1.0);
    }
    return search(row, want, u, inside) && ok;
}

// Flight is a state on its way past the ellipse, in the ellipse's frame.
struct Flight {
    const Row& row;
    Point at, speed, u;

    __device__ Flight(const Row& r, const double* k, const double* s, const double* c)
        : row(r), at{s[0] - r.centre.x, s[1] - r.centre.y}, speed{s[2] - k[RHO_X] * c[RATE], s[3] - k[RHO_Y] * c[RATE]}, u(r.discs.previous) {}

    // gradient is half that of the ellipse's level function at the position; up at the
    // centre.
    __device__ Point gradient() const {
        const Point n{at.x * row.ia2, at.y * row.ib2};
        if (n.x * n.x + n.y * n.y <= 1e-30) return Point{0.0, 1.0};
        return n;
    }

    // turn is the next action of escape i along the gradient: straight away from the ellipse,
    // or past it on either side, π/3 from there.
    __device__ Point turn(int i, Point n) const {
        const double cs = i == 0 ? 1.0 : 0.5000000000000001, sn = i == 0 ? 0.0 : (i == 1 ? 0.8660254037844386 : -0.8660254037844386);
        const double limit = row.discs.input * inverse_root(n.x * n.x + n.y * n.y), slew = row.discs.slew;
        const Point to{limit * (n.x * cs - n.y * sn), limit * (n.x * sn + n.y * cs)};
        const double dx = to.x - u.x, dy = to.y - u.y, q = dx * dx + dy * dy;
        if (q <= slew * slew) return to;
        const double scale = slew * inverse_root(q);
        return Point{u.x + dx * scale, u.y + dy * scale};
    }

    // step applies an action and tells whether the next position is outside the ellipse of this step.
    __device__ bool step(Point action, double dt) {
        at.x += dt * speed.x + row.free.half * action.x, at.y += dt * speed.y + row.free.half * action.y;
        speed.x += dt * action.x, speed.y += dt * action.y;
        u = action;
        const double x = at.x + row.drift.x, y = at.y + row.drift.y;
        return x * x * row.ia2 + y * y * row.ib2 >= 1.0;
    }

    __device__ bool leaving(Point n) const { return speed.x * n.x + speed.y * n.y >= 0.0 && u.x * n.x + u.y * n.y >= 0.0; }
};

// escapes_from tells whether the lane's escape keeps clear behind the action.
__device__ inline bool escapes_from(Flight f, const double* k, Point u, int escape) {
    const double dt = k[DT];
    const int steps = (int)k[ESCAPE_STEPS];
    bool clear = true;
    f.step(u, dt);
#pragma unroll 1
    for (int n = 0; clear && n < steps; n++) {
        const Point g = f.gradient();
        if (f.leaving(g)) break;
        clear = f.step(f.turn(escape, g), dt);
    }
    return clear;
}

// share_of is that of node j of the tree of bisections between two shares: 0 all of the way, 1 in the middle, 2 and 3
// those below and above it.
__device__ inline double share_of(double lo, double hi, int j) {
    if (j == 0) return 1.0;
    int level = 0;
    while (j >> (level + 1)) level++;
    const int width = 1 << level;
    return lo + (hi - lo) * (double)(2 * (j - width) + 1) / (double)(2 * width);
}

// Way is the bisection between the action and the first of one escape.
struct Way {
    double lo, hi;
    Point best;
    int left; // bisections; 0 as well where the way is none
    bool found;
};

// move is project of a row, by a warp. Each pass tries up to ten actions: first the wanted one,
// then, where no escape leads from it, shares of the ways to the escapes, of every bisection what
// the next ones may ask for too. What comes out is that of one bisection after the other.
__device__ inline bool move(const double* k, const double* s, const double* c, Point& u) {
    const Row row(k, s, c);
    const Flight flight(row, k, s, c);
    const int escape = lane() % escapes, mine = lane() / escapes, trims = (int)k[ESCAPE_TRIMS];
    Way way[escapes];
#pragma unroll 1
    for (int pass = 0;; pass++) {
        // Trials and nodes of each way: the first looks at all of it, node 0.
        int ways = 0, which = 0, each = 1;
        if (pass > 0) {
            for (int e = 0; e < escapes; e++) ways += way[e].left > 0;
            if (ways == 0) break;
            each = trials / ways;
        }
        const int from = pass == 1 ? 0 : 1, node = from + mine % each;
        bool looks = pass == 0 ? mine == 0 : mine < ways * each;
        Point trial = u;
        if (pass > 0) {
            int skip = mine / each;
            double lo = 0.0, hi = 1.0;
            for (int e = 0; e < escapes; e++)
                if (way[e].left > 0 && skip-- == 0) which = e, lo = way[e].lo, hi = way[e].hi;
            const Point away = flight.turn(which, flight.gradient());
            const double share = share_of(lo, hi, node);
            trial = Point{u.x + share * (away.x - u.x), u.y + share * (away.y - u.y)};
        }
        looks = nearest(row, trial, looks) && looks;
        const bool clear = looks && escapes_from(flight, k, trial, escape);
        const unsigned held = __ballot_sync(GPC_FULL_MASK, clear);
        const auto holds = [&](int i) { return (held >> (escapes * i) & ((1u << escapes) - 1)) != 0; };
        if (pass == 0) {
            const bool ok = __ballot_sync(GPC_FULL_MASK, looks) & 1;
            u = Point{__shfl_sync(GPC_FULL_MASK, trial.x, 0), __shfl_sync(GPC_FULL_MASK, trial.y, 0)};
            if (!ok || holds(0)) return ok;
            for (int e = 0; e < escapes; e++) way[e] = Way{0.0, 1.0, u, 1 + trims, false};
            continue;
        }
        int begin = 0;
        for (int e = 0; e < escapes; e++) {
            Way& w = way[e];
            if (w.left == 0) continue;
            // Down the tree as far as it was looked at.
            int best = -1;
            for (int j = from; j < from + each && w.left > 0;) {
                const int at = begin + j - from;
                const double tried = share_of(w.lo, w.hi, j == 0 ? 0 : 1);
                if (holds(at))
                    best = at, w.hi = tried, w.found = true;
                else if (j > 0)
                    w.lo = tried;
                w.left = w.found ? w.left - 1 : 0;
                j = j == 0 ? 1 : 2 * j + !holds(at);
            }
            const int owner = best < 0 ? 0 : escapes * best;
            const Point at{__shfl_sync(GPC_FULL_MASK, trial.x, owner), __shfl_sync(GPC_FULL_MASK, trial.y, owner)};
            if (best >= 0) w.best = at;
            begin += each;
        }
    }
    double distance = (double)gpc_inf();
    const Point want = u;
    for (int e = 0; e < escapes; e++) {
        const double far = squared(way[e].best, want);
        if (way[e].found && far < distance) u = way[e].best, distance = far;
    }
    return true;
}

struct Problem {
    static constexpr int states = 4, contexts = CONTEXTS, actions = 2, plan = 2, objectives = 2, margins = 3;

    template <class T>
    __device__ static void base(const double*, const T*, const T* c, T* out) {
        out[0] = c[PREVIOUS], out[1] = c[PREVIOUS + 1];
    }

    template <class T>
    __device__ static void objective(const double* k, const T* s, const T* u, const T* c, T* J) {
        T at[4];
        next<T>(k, s, u[0], u[1], at);
        const Stage<T> o = stage<T>(k, at[0], at[1], u[0], u[1], c[P]);
        J[0] = o.j1, J[1] = o.j2;
    }

    template <class T>
    __device__ static void gradient(const double* k, const T* s, const T* u, const T* c, const T* sigma, T* gs, T* gu) {
        T at[4];
        next<T>(k, s, u[0], u[1], at);
        const Stage<T> o = stage<T>(k, at[0], at[1], u[0], u[1], c[P]);
        const T gx = sigma[0] * o.g1x + sigma[1] * o.g2x, gy = sigma[0] * o.g1y + sigma[1] * o.g2y;
        gs[0] = gx, gs[1] = gy, gs[2] = get<T>(k, DT) * gx, gs[3] = get<T>(k, DT) * gy;
        const T effort = T(2) * get<T>(k, BETA) * sigma[1];
        gu[0] = get<T>(k, HALF) * gx + effort * u[0], gu[1] = get<T>(k, HALF) * gy + effort * u[1];
    }

    __device__ static void indicators(const double* k, const double* s, const double*, const double* c, double* delta) {
        const double psi = clearance(k, s[0], s[1], c[P]);
        const double dx = s[0] - k[GOAL_X], dy = s[1] - k[GOAL_Y], d2 = dx * dx + dy * dy;
        delta[0] = 2.0 / (1.0 + exp((psi - 1.0) / k[PSI_SCALE]));
        delta[1] = d2 / (d2 + k[GOAL_SCALE]);
    }

    __device__ static void step(const double* k, const double* s, const double* c, const double* u, double* sNext, double* cNext) {
        next<double>(k, s, u[0], u[1], sNext);
        cNext[TIME] = c[TIME] + 1.0 / k[HORIZON];
        cNext[RATE] = c[RATE];
        cNext[P] = c[P] + c[RATE] * k[DT];
        cNext[PREVIOUS] = u[0], cNext[PREVIOUS + 1] = u[1];
    }

    __device__ static void margin(const double* k, const double* s, const double* c, const double* u, double* m) {
        double at[4];
        next<double>(k, s, u[0], u[1], at);
        m[0] = clearance(k, at[0], at[1], c[P]) - 1.0;
        m[1] = k[U_MAX] - hypot(u[0], u[1]);
        m[2] = k[R_MAX] - hypot(u[0] - c[PREVIOUS], u[1] - c[PREVIOUS + 1]);
    }

    static constexpr int lanes = integrator::lanes;

    __device__ static bool project(const double* k, const double* s, const double* c, double* u, bool active) {
        if (!active) return true; // none of the warp is
        Point at{u[0], u[1]};
        const bool ok = move(k, s, c, at);
        u[0] = at.x, u[1] = at.y;
        return ok;
    }
};

} // namespace integrator

GPC_DOMAIN(integrator, integrator::Problem)
GPC_KERNEL(gpc_domain_base_integrator)
GPC_KERNEL(gpc_domain_gradient_integrator)
GPC_KERNEL(gpc_domain_priority_integrator)
GPC_KERNEL(gpc_domain_rollout_integrator)
GPC_POLICY(integrator, integrator::Problem)
GPC_KERNEL(gpc_domain_policy_integrator_8x1)
GPC_KERNEL(gpc_domain_policy_integrator_16x1)
GPC_KERNEL(gpc_domain_policy_integrator_8x2)
GPC_KERNEL(gpc_domain_policy_integrator_16x2)
