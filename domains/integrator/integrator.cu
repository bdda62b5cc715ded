// integrator.cu: device functions of the double integrator (package integrator):
// dynamics, objectives with gradients, indicators, margins and the projection with
// its look-ahead, as in dynamics.go, problem.go, projection.go and viability.go.
//
// A thread works on one row. Bound: the gradient by bytes (about 100 a row), the
// roll-out by float64 arithmetic, some hundred operations where the action is
// feasible as it is, up to a few thousand root-bracketing rounds where not.
#include "gpc.cuh"
#include "domain.cuh"

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

__device__ inline Point to_disc(Point u, Point centre, double radius) {
    const double dx = u.x - centre.x, dy = u.y - centre.y, d = hypot(dx, dy);
    if (d <= radius) return u;
    return Point{centre.x + dx * radius / d, centre.y + dy * radius / d};
}

// Discs is the intersection of the input disc around 0 and the slew disc around
// the previous action.
struct Discs {
    double input, slew;
    Point previous;

    __device__ bool holds(Point u) const {
        return hypot(u.x, u.y) <= input + discTolerance && hypot(u.x - previous.x, u.y - previous.y) <= slew + discTolerance;
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
        return Point{centre.x + radius * cos(angle), centre.y + radius * sin(angle)};
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
            const double s = sin(angle), c = cos(angle);
            const double hx = gx + ia * half * radius * c, hy = gy + ib * half * radius * s;
            const double bend = -hx * c - hy * s + radius * half * (ia * s * s + ib * c * c);
            if (bend == 0.0) break;
            angle -= (-hx * s + hy * c) / bend;
        }
        return angle;
    }

    // rim finds the circle's point of largest psi and where psi is 0 on it.
    __device__ int rim(Point centre, double radius, Point& top, Point* crossings) const {
        const double pi = 3.14159265358979323846;
        const double ia = half / (a * a), ib = half / (b * b);
        const double guess = atan2((y + half * centre.y) * ib, (x + half * centre.x) * ia);
        double high = extreme(centre, radius, guess);
        if (psi(centre, radius, high) < psi(centre, radius, guess)) high = guess;
        double low = extreme(centre, radius, guess + pi);
        if (!(psi(centre, radius, low) < psi(centre, radius, high))) low = guess + pi;
        top = on_rim(centre, radius, high);
        const double psiHigh = psi(centre, radius, high), psiLow = psi(centre, radius, low);
        if (!(psiHigh >= 0.0 && psiLow <= 0.0)) return 0;
        low = high + remainder(low - high, 2.0 * pi);
        const double other = low - copysign(2.0 * pi, low - high);
        crossings[0] = on_rim(centre, radius, root(centre, radius, high, low, psiHigh, psiLow));
        crossings[1] = on_rim(centre, radius, root(centre, radius, high, other, psiHigh, psiLow));
        return 2;
    }

    // nearest_on_ellipse is the action whose next position is the point of the
    // ellipse nearest to that of u, which must be inside (Eberly).
    __device__ Point nearest_on_ellipse(Point u) const {
        const double px = x + half * u.x, py = y + half * u.y;
        double e0 = a, e1 = b, y0 = fabs(px), y1 = fabs(py);
        if (a < b) e0 = b, e1 = a, y0 = fabs(py), y1 = fabs(px);
        double x0 = 0.0, x1 = e1;
        if (y1 > 0.0) {
            double low = -e1 * e1 + e1 * y1, high = 0.0;
            for (int round = 0; round < 200; round++) {
                const double t = 0.5 * (low + high);
                if (t <= low || t >= high) break;
                const double r0 = e0 * y0 / (t + e0 * e0), r1 = e1 * y1 / (t + e1 * e1);
                if (r0 * r0 + r1 * r1 > 1.0)
                    low = t;
                else
                    high = t;
            }
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

// nearest moves u to the nearest action that keeps input, slew and obstacle now; if
// there is none, to the one of largest ψ that keeps the first two, and false.
__device__ inline bool nearest(const double* k, const double* s, const double* c, Point& u) {
    const Discs d = discs(k, c);
    if (!gpc::finite64(u.x + u.y)) {
        u = Point{0.0, 0.0};
        d.project(u);
        return false;
    }
    const Point want = u;
    if (!d.project(u)) return false;
    const Motion free = motion(k, s, c);
    if (free.clearance(u) >= 1.0) return true;

    const double infinity = (double)gpc_inf();
    Point best = u, clearest = u;
    double bestDistance = infinity, clearestPsi = free.clearance(u);
    auto consider = [&](Point at) {
        if (!d.holds(at)) return;
        const double distance = squared(at, want);
        if (distance < bestDistance) best = at, bestDistance = distance;
    };
    auto remember = [&](Point at) {
        const double psi = free.clearance(at);
        if (d.holds(at) && psi > clearestPsi) clearest = at, clearestPsi = psi;
        return psi;
    };
    if (free.clearance(want) < 1.0) consider(free.nearest_on_ellipse(want));
    Point corners[2];
    if (d.corners(corners))
        for (int i = 0; i < 2; i++)
            if (remember(corners[i]) >= 1.0) consider(corners[i]);
    for (int i = 0; i < 2; i++) {
        Point top, crossings[2];
        const int n = free.rim(i == 0 ? Point{0.0, 0.0} : d.previous, i == 0 ? d.input : d.slew, top, crossings);
        remember(top);
        for (int j = 0; j < n; j++) consider(crossings[j]);
    }
    if (bestDistance == infinity) {
        u = clearest;
        return clearestPsi >= 1.0;
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

    __device__ Point normal() const {
        const double n1 = (s[0] - k[C0_X] - k[RHO_X] * p) / (k[A] * k[A]), n2 = (s[1] - k[C0_Y] - k[RHO_Y] * p) / (k[B] * k[B]);
        const double length = hypot(n1, n2);
        if (length == 0.0) return Point{0.0, 1.0};
        return Point{n1 / length, n2 / length};
    }

    __device__ Point turn(double angle) const {
        const Point n = normal();
        const double sn = sin(angle), cs = cos(angle), limit = k[U_MAX];
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
        const Point n = normal();
        return (s[2] - k[RHO_X] * rate) * n.x + (s[3] - k[RHO_Y] * rate) * n.y >= 0.0 && u.x * n.x + u.y * n.y >= 0.0;
    }
};

__device__ inline Flight flight(const double* k, const double* s, const double* c) {
    return Flight{k, {s[0], s[1], s[2], s[3]}, Point{c[PREVIOUS], c[PREVIOUS + 1]}, c[P], c[RATE]};
}

// escape is the angle of escape i from the outward normal.
__device__ inline double escape(int i) { return i == 0 ? 0.0 : (i == 1 ? 1.0 : -1.0) * 3.14159265358979323846 / 3.0; }

__device__ inline bool escapable(const double* k, const double* s, const double* c, Point u) {
    Flight after = flight(k, s, c);
    after.step(u);
    for (int i = 0; i < 3; i++) {
        Flight f = after;
        bool clear = true;
        for (int n = 0; clear && n < (int)k[ESCAPE_STEPS] && !f.leaving(); n++) clear = f.step(f.turn(escape(i)));
        if (clear) return true;
    }
    return false;
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

    __device__ static bool project(const double* k, const double* s, const double* c, double* u) {
        Point at{u[0], u[1]};
        const bool ok = nearest(k, s, c, at);
        if (ok && !escapable(k, s, c, at)) detour(k, s, c, at);
        u[0] = at.x, u[1] = at.y;
        return ok;
    }

    // detour moves an action from which no escape leads towards the escape that
    // needs the smallest change, by bisection.
    __device__ static void detour(const double* k, const double* s, const double* c, Point& u) {
        const Point want = u;
        double distance = (double)gpc_inf();
        for (int i = 0; i < 3; i++) {
            const Point away = flight(k, s, c).turn(escape(i));
            Point best{0.0, 0.0};
            auto feasible = [&](double share) {
                Point trial{want.x + share * (away.x - want.x), want.y + share * (away.y - want.y)};
                if (!nearest(k, s, c, trial) || !escapable(k, s, c, trial)) return false;
                best = trial;
                return true;
            };
            if (!feasible(1.0)) continue;
            double lo = 0.0, hi = 1.0;
            for (int trim = 0; trim < (int)k[ESCAPE_TRIMS]; trim++) {
                const double share = 0.5 * (lo + hi);
                if (feasible(share))
                    hi = share;
                else
                    lo = share;
            }
            const double d = squared(best, want);
            if (d < distance) u = best, distance = d;
        }
    }
};

} // namespace integrator

GPC_DOMAIN(integrator, integrator::Problem)
GPC_KERNEL(gpc_domain_base_integrator)
GPC_KERNEL(gpc_domain_gradient_integrator)
GPC_KERNEL(gpc_domain_priority_integrator)
GPC_KERNEL(gpc_domain_rollout_integrator)
