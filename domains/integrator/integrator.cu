// integrator.cu: device functions of the double integrator (package integrator):
// dynamics, objectives with gradients, indicators, margins and the projection with
// its look-ahead, as in dynamics.go, problem.go, projection.go and viability.go.
//
// A thread works on one row, eight lanes of a warp on one of the roll-out: of the searches
// that a projection makes each takes one, and detours are the whole block's. Bound: the
// gradient by bytes (about 100 a row), the roll-out by the latency of float64, a few
// hundred operations where the action is feasible as it is, else those of one search on a
// rim and one escape, and three to nine times as many for a detour.
#include "gpc.cuh"
#include "domain.cuh"
#include "policy.cuh"
#include "warp.cuh"

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

// within is hypot(x, y) <= radius, which is asked only where squares do not tell.
__device__ inline bool within(double x, double y, double radius) {
    const double q = x * x + y * y, r = radius * radius;
    if (fabs(q - r) > 1e-12 * r) return q < r;
    return hypot(x, y) <= radius;
}

__device__ inline Point to_disc(Point u, Point centre, double radius) {
    const double dx = u.x - centre.x, dy = u.y - centre.y;
    if (within(dx, dy, radius)) return u;
    const double d = hypot(dx, dy);
    return Point{centre.x + dx * radius / d, centre.y + dy * radius / d};
}

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
        const double distance = hypot(previous.x, previous.y);
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

__device__ inline Discs discs(const double* k, const double* c) {
    return Discs{k[U_MAX], k[R_MAX], Point{c[PREVIOUS], c[PREVIOUS + 1]}};
}

// Motion is the next position relative to the ellipse's centre, (x, y) + half·u.
struct Motion {
    double x, y, half, a, b;

    __device__ double clearance(Point u) const {
        const double dx = (x + half * u.x) / a, dy = (y + half * u.y) / b;
        return dx * dx + dy * dy;
    }

    __device__ Point on_rim(Point centre, double radius, double angle) const {
        double sn, cs;
        sincos(angle, &sn, &cs);
        return Point{centre.x + radius * cs, centre.y + radius * sn};
    }

    __device__ double psi(Point centre, double radius, double angle) const { return clearance(on_rim(centre, radius, angle)) - 1.0; }

    // root is where psi changes sign between two angles, on the side with psi ≥ 0
    // (false position, Illinois variant).
    __device__ double root(Point centre, double radius, double inside, double outside, double fInside, double fOutside) const {
        int side = 0;
        for (int round = 0; round < 60; round++) {
            if (fInside == 0.0 || fabs(inside - outside) <= 1e-15 * (1.0 + fabs(inside))) break;
            const double middle = (inside * fOutside - outside * fInside) / (fOutside - fInside);
            const double value = psi(centre, radius, middle);
            if (value >= 0.0) {
                if (middle == inside) break;
                inside = middle, fInside = value;
                if (side == 1) fOutside /= 2.0;
                side = 1;
            } else {
                if (middle == outside) break;
                outside = middle, fOutside = value;
                if (side == -1) fInside /= 2.0;
                side = -1;
            }
            if (fabs(value) <= 1e-15 && value >= 0.0) break;
        }
        return inside;
    }

    // extreme is the angle of the circle's largest or smallest psi near a guess.
    __device__ double extreme(Point centre, double radius, double angle) const {
        const double ia = half / (a * a), ib = half / (b * b);
        const double gx = (x + half * centre.x) * ia, gy = (y + half * centre.y) * ib;
        for (int round = 0; round < 6; round++) {
            double s, c;
            sincos(angle, &s, &c);
            const double hx = gx + ia * half * radius * c, hy = gy + ib * half * radius * s;
            const double bend = -hx * c - hy * s + radius * half * (ia * s * s + ib * c * c);
            if (bend == 0.0) break;
            const double from = angle;
            angle -= (-hx * s + hy * c) / bend;
            if (angle == from) break;
        }
        return angle;
    }

    // outward is the angle of psi's gradient at a circle's centre.
    __device__ double outward(Point centre) const { return atan2((y + half * centre.y) * (half / (b * b)), (x + half * centre.x) * (half / (a * a))); }

    // nearest_on_ellipse is the action whose next position is the point of the
    // ellipse nearest to that of u, which must be inside (Eberly).
    __device__ Point nearest_on_ellipse(Point u) const {
        const double px = x + half * u.x, py = y + half * u.y;
        double e0 = a, e1 = b, y0 = fabs(px), y1 = fabs(py);
        if (a < b) e0 = b, e1 = a, y0 = fabs(py), y1 = fabs(px);
        double x0 = 0.0, x1 = e1;
        if (y1 > 0.0) {
            // (e0 y0/(t + e0²))² + (e1 y1/(t + e1²))² = 1 by Newton's method for the root of
            // the reciprocal, which is nearly linear; by bisection where that leaves the bracket.
            double low = -e1 * e1 + e1 * y1, high = 0.0, t = low;
            for (int round = 0; round < 200; round++) {
                const double d0 = t + e0 * e0, d1 = t + e1 * e1, r0 = e0 * y0 / d0, r1 = e1 * y1 / d1, h = r0 * r0 + r1 * r1;
                if (h > 1.0)
                    low = t;
                else
                    high = t;
                double to = t + h * (sqrt(h) - 1.0) / (r0 * r0 / d0 + r1 * r1 / d1);
                if (!(to > low && to < high)) {
                    if (fabs(to - t) <= 1e-16 * (e1 * e1 + fabs(t))) break;
                    to = 0.5 * (low + high);
                    if (to <= low || to >= high) break;
                }
                if (fabs(to - t) <= 1e-16 * (e1 * e1 + fabs(t))) break;
                t = to;
            }
            high = t;
            x0 = e0 * e0 * y0 / (high + e0 * e0), x1 = e1 * e1 * y1 / (high + e1 * e1);
        } else if (e0 * y0 < e0 * e0 - e1 * e1) {
            x0 = e0 * e0 * y0 / (e0 * e0 - e1 * e1);
            x1 = e1 * sqrt(fmax(0.0, 1.0 - x0 * x0 / (e0 * e0)));
        } else {
            x0 = e0, x1 = 0.0;
        }
        // Outward by a few units in the last place, so that ψ ≥ 1 survives rounding.
        const double scale = (1.0 + 1e-15) / hypot(x0 / e0, x1 / e1);
        x0 *= scale, x1 *= scale;
        const double ex = copysign(a < b ? x1 : x0, px), ey = copysign(a < b ? x0 : x1, py);
        return Point{(ex - x) / half, (ey - y) / half};
    }
};

__device__ inline Motion motion(const double* k, const double* s, const double* c) {
    double at[4];
    next<double>(k, s, 0.0, 0.0, at);
    return Motion{at[0] - k[C0_X] - k[RHO_X] * c[P], at[1] - k[C0_Y] - k[RHO_Y] * c[P], k[HALF], k[A], k[B]};
}

constexpr int lanes = 8; // of a warp, that work on a row

// What the lanes of a row do, numbered as the row's own.
enum Role { ON_ELLIPSE = 0, CORNERS = 1, INPUT_RIM = 2, SLEW_RIM = 4, NONE = 6 };

// All lanes of a warp call what follows, those of a row with the same numbers; a row that
// is not active stays as it is.

// nearest moves u to the nearest action that keeps input, slew and obstacle now; if
// there is none, to the one of largest ψ that keeps the first two, and false. Each role
// has the candidates of nearest in projection.go that are its own: two lanes a rim, of
// which one looks for its largest ψ and the crossing on one side, the other for the
// smallest and the crossing on the other.
__device__ inline bool nearest(const double* k, const double* s, const double* c, Point& u, bool active) {
    const Discs d = discs(k, c);
    const Motion free = motion(k, s, c);
    Point want = u;
    bool ok = true, search = false;
    if (active) {
        if (!gpc::finite64(u.x + u.y)) u = Point{0.0, 0.0}, ok = false;
        ok = d.project(u) && ok;
        search = ok && !(free.clearance(u) >= 1.0);
    }
    if (!gpc::warp_any(search)) return ok;

    const int role = search ? (int)threadIdx.x % lanes : NONE;
    const double infinity = (double)gpc_inf();
    Point best = u, clearest = u;
    double distance = infinity, psi = free.clearance(u);
    auto consider = [&](Point at) {
        if (!d.holds(at)) return;
        const double far = squared(at, want);
        if (far < distance) best = at, distance = far;
    };
    auto remember = [&](Point at) {
        const double value = free.clearance(at);
        if (d.holds(at) && value > psi) clearest = at, psi = value;
        return value;
    };
    const bool rim = role >= INPUT_RIM && role < NONE, lower = role % 2;
    const Point centre = role < SLEW_RIM ? Point{0.0, 0.0} : d.previous;
    const double radius = role < SLEW_RIM ? d.input : d.slew, pi = 3.14159265358979323846;
    double angle = 0.0, level = 0.0, guess = 0.0;
    if (role == ON_ELLIPSE) {
        if (free.clearance(want) < 1.0) consider(free.nearest_on_ellipse(want));
    } else if (role == CORNERS) {
        Point corners[2];
        if (d.corners(corners))
            for (int i = 0; i < 2; i++)
                if (remember(corners[i]) >= 1.0) consider(corners[i]);
    } else if (rim) {
        guess = free.outward(centre) + (lower ? pi : 0.0);
        angle = free.extreme(centre, radius, guess), level = free.psi(centre, radius, angle);
        const double there = free.psi(centre, radius, guess);
        if (!lower && level < there) angle = guess, level = there;
        if (!lower) remember(free.on_rim(centre, radius, angle));
    }
    const double high = __shfl_xor_sync(GPC_FULL_MASK, level, 1);
    if (rim && lower && !(level < high)) angle = guess, level = free.psi(centre, radius, guess);
    const double otherAngle = __shfl_xor_sync(GPC_FULL_MASK, angle, 1), otherLevel = __shfl_xor_sync(GPC_FULL_MASK, level, 1);
    if (rim) {
        const double top = lower ? otherAngle : angle, psiHigh = lower ? otherLevel : level, psiLow = lower ? level : otherLevel;
        const double bottom = top + remainder((lower ? angle : otherAngle) - top, 2.0 * pi);
        const double to = lower ? bottom - copysign(2.0 * pi, bottom - top) : bottom;
        if (psiHigh >= 0.0 && psiLow <= 0.0) consider(free.on_rim(centre, radius, free.root(centre, radius, top, to, psiHigh, psiLow)));
    }
    // The nearest and the clearest, of the first role that has it.
    int first = role, firstClear = role;
    for (int m = 1; m < lanes; m *= 2) {
        const double far = __shfl_xor_sync(GPC_FULL_MASK, distance, m), value = __shfl_xor_sync(GPC_FULL_MASK, psi, m);
        const Point at{__shfl_xor_sync(GPC_FULL_MASK, best.x, m), __shfl_xor_sync(GPC_FULL_MASK, best.y, m)};
        const Point clear{__shfl_xor_sync(GPC_FULL_MASK, clearest.x, m), __shfl_xor_sync(GPC_FULL_MASK, clearest.y, m)};
        const int whose = __shfl_xor_sync(GPC_FULL_MASK, first, m), whoseClear = __shfl_xor_sync(GPC_FULL_MASK, firstClear, m);
        if (far < distance || (far == distance && whose < first)) distance = far, best = at, first = whose;
        if (value > psi || (value == psi && whoseClear < firstClear)) psi = value, clearest = clear, firstClear = whoseClear;
    }
    if (!search) return ok;
    if (distance == infinity) {
        u = clearest;
        return psi >= 1.0;
    }
    u = best;
    return true;
}

// Flight is a state on its way past the ellipse.
struct Flight {
    const double* k;
    double s[4];
    Point u;
    double p, rate;

    // gradient is half that of the ellipse's level function at the position; up at the
    // centre.
    __device__ Point gradient() const {
        const double n1 = (s[0] - k[C0_X] - k[RHO_X] * p) / (k[A] * k[A]), n2 = (s[1] - k[C0_Y] - k[RHO_Y] * p) / (k[B] * k[B]);
        if (n1 == 0.0 && n2 == 0.0) return Point{0.0, 1.0};
        return Point{n1, n2};
    }

    // turn is the next action of escape i: straight away from the ellipse, or past it on
    // either side, π/3 from there.
    __device__ Point turn(int i) const {
        const Point n = gradient();
        const double cs = i == 0 ? 1.0 : 0.5000000000000001, sn = i == 0 ? 0.0 : (i == 1 ? 0.8660254037844386 : -0.8660254037844386);
        const double limit = k[U_MAX] / sqrt(n.x * n.x + n.y * n.y);
        return to_disc(Point{limit * (n.x * cs - n.y * sn), limit * (n.x * sn + n.y * cs)}, u, k[R_MAX]);
    }

    __device__ bool step(Point action) {
        double to[4];
        next<double>(k, s, action.x, action.y, to);
        for (int i = 0; i < 4; i++) s[i] = to[i];
        const bool clear = clearance(k, s[0], s[1], p) >= 1.0;
        u = action;
        p += rate * k[DT];
        return clear;
    }

    __device__ bool leaving() const {
        const Point n = gradient();
        return (s[2] - k[RHO_X] * rate) * n.x + (s[3] - k[RHO_Y] * rate) * n.y >= 0.0 && u.x * n.x + u.y * n.y >= 0.0;
    }
};

__device__ inline Flight flight(const double* k, const double* s, const double* c) {
    return Flight{k, {s[0], s[1], s[2], s[3]}, Point{c[PREVIOUS], c[PREVIOUS + 1]}, c[P], c[RATE]};
}

constexpr int escapes = 3;

// escapable tells whether an escape keeps clear behind the action: a lane each.
__device__ inline bool escapable(const double* k, const double* s, const double* c, Point u, bool active) {
    const int escape = (int)threadIdx.x % lanes;
    bool clear = active && escape < escapes;
    if (clear) {
        Flight f = flight(k, s, c);
        f.step(u);
        for (int n = 0; clear && n < (int)k[ESCAPE_STEPS] && !f.leaving(); n++) clear = f.step(f.turn(escape));
    }
    const unsigned int found = __ballot_sync(GPC_FULL_MASK, clear);
    return (found >> ((int)threadIdx.x % GPC_WARP / lanes * lanes) & ((1u << lanes) - 1)) != 0;
}

// Detours are the rows of a block from which no escape leads as they are: each is moved
// towards the escape that needs the smallest change, by bisection. Eight lanes each look at
// one share of the way to one escape. Where there are lanes to spare they look at what
// the next bisections may ask for too, two or three levels at once; what comes out is the same.
struct Detours {
    static constexpr int groups = 256 / lanes;
    struct Row {
        double s[4], c[CONTEXTS];
        Point want;
    };
    // Way is the bisection on the way of a row to one escape.
    struct Way {
        double lo, hi;
        Point best;
        bool found;
    };
    Row row[groups];
    Way way[groups][escapes];
    Point tried[groups]; // by the lanes of a group
    bool held[groups], asked[groups];
};

// share is that of node j of the tree of bisections between two shares: 1 in the middle, 2 and 3
// those below and above it.
__device__ inline double share_of(double lo, double hi, int j) {
    int level = 0;
    while (j >> (level + 1)) level++;
    const int width = 1 << level;
    return lo + (hi - lo) * (double)(2 * (j - width) + 1) / (double)(2 * width);
}

// detour moves the rows that ask, one a group of lanes. All threads of the block call it.
__device__ inline void detour(const double* k, const double* s, const double* c, Point& u, bool asks) {
    __shared__ Detours of;
    const int group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % GPC_WARP;
    const bool leader = threadIdx.x % lanes == 0;
    if (leader) {
        of.asked[group] = asks;
        if (asks) {
            for (int j = 0; j < 4; j++) of.row[group].s[j] = s[j];
            for (int j = 0; j < CONTEXTS; j++) of.row[group].c[j] = c[j];
            of.row[group].want = u;
            for (int e = 0; e < escapes; e++) of.way[group][e] = Detours::Way{0.0, 1.0, u, true};
        }
    }
    if (!__syncthreads_or(asks)) return;
    const unsigned int rows = __ballot_sync(GPC_FULL_MASK, of.asked[lane]);
    const int ways = __popc(rows) * escapes, each = ways < Detours::groups ? Detours::groups / ways : 1;
    const int trims = (int)k[ESCAPE_TRIMS];
    // The first round asks for the whole way besides, node 0.
    for (int done = -1; done < trims;) {
        const int spare = done < 0 ? each - 1 : each, most = spare >= 7 ? 3 : (spare >= 3 ? 2 : (spare >= 1 ? 1 : 0));
        const int from = done < 0 ? 0 : 1, levels = min(most, trims - max(done, 0)), nodes = (1 << levels) - from;
        for (int first = 0; first < ways; first += Detours::groups / each) {
            // Way `mine` of all, escape by escape of the rows that asked.
            const int mine = first + group / each, node = from + group % each;
            const bool busy = mine < ways && group / each < Detours::groups / each && group % each < nodes;
            unsigned int left = rows;
            for (int skip = busy ? mine / escapes : 0; skip > 0; skip--) left &= left - 1;
            const Detours::Row& r = of.row[__ffs((int)left) - 1];
            Detours::Way& w = of.way[__ffs((int)left) - 1][busy ? mine % escapes : 0];
            const Point away = flight(k, r.s, r.c).turn(busy ? mine % escapes : 0);
            const double share = node == 0 ? 1.0 : share_of(w.lo, w.hi, node);
            Point trial{r.want.x + share * (away.x - r.want.x), r.want.y + share * (away.y - r.want.y)};
            const bool looks = busy && w.found;
            const bool now = nearest(k, r.s, r.c, trial, looks) && looks, held = escapable(k, r.s, r.c, trial, now) && now;
            if (leader) of.tried[group] = trial, of.held[group] = held;
            __syncthreads();
            if (leader && busy && group % each == 0) {
                // The way's first group follows its bisections.
                if (done < 0) w.found = of.held[group], w.best = of.tried[group];
                for (int level = 0, j = 1; w.found && level < levels; level++) {
                    const int at = group + j - from;
                    const double tried = share_of(w.lo, w.hi, 1);
                    if (of.held[at])
                        w.hi = tried, w.best = of.tried[at], j = 2 * j;
                    else
                        w.lo = tried, j = 2 * j + 1;
                }
            }
            __syncthreads();
        }
        done = max(done, 0) + levels;
        // Without lanes to spare the first round tells only which ways there are.
    }
    if (!asks) return;
    double distance = (double)gpc_inf();
    const Point want = u;
    for (int e = 0; e < escapes; e++) {
        const Detours::Way& w = of.way[group][e];
        if (!w.found) continue;
        const double far = squared(w.best, want);
        if (far < distance) u = w.best, distance = far;
    }
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
        Point at{u[0], u[1]};
        const bool ok = nearest(k, s, c, at, active);
        const bool safe = escapable(k, s, c, at, active && ok);
        detour(k, s, c, at, active && ok && !safe);
        if (active) u[0] = at.x, u[1] = at.y;
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
