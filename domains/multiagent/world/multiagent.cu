// multiagent.cu: device functions of Case 2 (package multiagent): dynamics,
// objectives with gradients, indicators, margins and the projection, as in
// dynamics.go, horizon.go, problem.go and projection.go. Whole plans are scored by the
// kernels of package rollout, of one step at a time by these.
//
// A thread works on one row. Bound: operations; a row of six robots and fifteen
// obstacles has 105 margins of some 20 operations, its projection up to 2·6·49·20
// margins more where bodies are in conflict.
#include "gpc.cuh"
#include "domain.cuh"

namespace multiagent {

// Places in the constants, as device.go packs them.
enum {
    DT, D_SAFE, X_MIN, X_MAX, Y_MIN, Y_MAX, V_MIN, V_MAX, A_MIN, A_MAX, OMEGA_MAX, DU_A, DU_OMEGA,
    L_GOAL, L_SAFETY, L_EFFORT, L_VIOLATION, L_TERMINAL, L_SMOOTH, ETA_G, HORIZON, GOAL_SCALE, MARGIN_SCALE
};

constexpr int ROBOTS = 6, OBSTACLES = 15, STEPS = 8, ROUNDS = 2, GRID = 7;

// Places in the context.
enum { PREVIOUS = 0, GOAL = PREVIOUS + 2 * ROBOTS, RADIUS = GOAL + 2 * ROBOTS, OBSTACLE = RADIUS + ROBOTS, CONTEXTS = OBSTACLE + 5 * OBSTACLES };

constexpr double noMargin = 1000.0;

__device__ inline void sine_cosine(float x, float& s, float& c) { sincosf(x, &s, &c); }
__device__ inline void sine_cosine(double x, double& s, double& c) { s = sin(x), c = cos(x); }
__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }
__device__ inline float power(float x) { return expf(x); }
__device__ inline double power(double x) { return exp(x); }

template <class T>
__device__ inline T get(const double* k, int i) { return (T)k[i]; }

template <class T>
__device__ inline T within(T v, T lo, T hi) {
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

__device__ inline bool is_nan(double v) { return v != v; }

// Counts are the robots and obstacles that are there.
struct Counts {
    int robots, obstacles;
};

template <class T>
__device__ inline Counts counts(const T* c) {
    Counts n{0, 0};
    while (n.robots < ROBOTS && c[RADIUS + n.robots] > T(0)) n.robots++;
    while (n.obstacles < OBSTACLES && c[OBSTACLE + 5 * n.obstacles + 4] > T(0)) n.obstacles++;
    return n;
}

// Moved is a robot after one step, and what its derivatives need.
template <class T>
struct Moved {
    T x, y, theta, v, cosine, sine, speed;
    bool free;
};

template <class T>
__device__ inline Moved<T> move(const double* k, const T* s, T a, T omega) {
    const T dt = get<T>(k, DT), half = T(0.5);
    Moved<T> m;
    const T raw = s[3] + dt * a;
    m.v = within(raw, get<T>(k, V_MIN), get<T>(k, V_MAX));
    m.free = raw > get<T>(k, V_MIN) && raw < get<T>(k, V_MAX);
    m.speed = half * (s[3] + m.v);
    sine_cosine(s[2] + half * dt * omega, m.sine, m.cosine);
    m.x = s[0] + dt * m.speed * m.cosine, m.y = s[1] + dt * m.speed * m.sine, m.theta = s[2] + dt * omega;
    return m;
}

// Disc is an obstacle.
template <class T>
struct Disc {
    T x, y, vx, vy, r;
};

template <class T>
__device__ inline Disc<T> disc(const T* c, int j) {
    const T* o = c + OBSTACLE + 5 * j;
    return Disc<T>{o[0], o[1], o[2], o[3], o[4]};
}

template <class T>
__device__ inline void mirror(T& at, T& speed, T lo, T hi) {
    if (at > hi)
        at = T(2) * hi - at, speed = -speed;
    else if (at < lo)
        at = T(2) * lo - at, speed = -speed;
}

template <class T>
__device__ inline Disc<T> advance(const double* k, Disc<T> o) {
    o.x += get<T>(k, DT) * o.vx, o.y += get<T>(k, DT) * o.vy;
    mirror(o.x, o.vx, get<T>(k, X_MIN) + o.r, get<T>(k, X_MAX) - o.r);
    mirror(o.y, o.vy, get<T>(k, Y_MIN) + o.r, get<T>(k, Y_MAX) - o.r);
    return o;
}

// pairs visits every margin between robots at (x, y) and the obstacles, moved on by
// one step where `later`: visit(kind, i, other, margin, dx, dy, distance), other −1
// for an obstacle.
template <class T, class Visit>
__device__ inline void pairs(const double* k, const T* c, Counts n, const T* x, const T* y, bool later, Visit visit) {
    const T safe = get<T>(k, D_SAFE);
    for (int j = 0; j < n.obstacles; j++) {
        Disc<T> o = disc(c, j);
        if (later) o = advance(k, o);
        for (int i = 0; i < n.robots; i++) {
            const T dx = x[i] - o.x, dy = y[i] - o.y, d = root(dx * dx + dy * dy);
            visit(i == 0 ? 0 : 1, i, -1, d - c[RADIUS + i] - o.r - safe, dx, dy, d);
        }
    }
    for (int i = 0; i < n.robots; i++)
        for (int j = 0; j < i; j++) {
            const T dx = x[i] - x[j], dy = y[i] - y[j], d = root(dx * dx + dy * dy);
            visit(2, i, j, d - c[RADIUS + i] - c[RADIUS + j] - safe, dx, dy, d);
        }
}

template <class T>
__device__ inline T goal_weight(const double* k, int i, int robots) {
    return i == 0 ? T(1) : get<T>(k, ETA_G) / (T)(robots - 1);
}

template <class T>
__device__ inline T margin_count(Counts n) {
    const int count = n.robots * n.obstacles + n.robots * (n.robots - 1) / 2;
    return (T)(count < 1 ? 1 : count);
}

struct Problem {
    static constexpr int states = 4 * ROBOTS, contexts = CONTEXTS, actions = 2 * ROBOTS, plan = STEPS * 2 * ROBOTS, objectives = 3, margins = 3;

    template <class T>
    __device__ static void base(const double*, const T*, const T*, T* out) {
        for (int i = 0; i < plan; i++) out[i] = T(0);
    }

    template <class T>
    __device__ static void objective(const double* k, const T* s, const T* u, const T* c, T* J) {
        const Counts n = counts(c);
        T x[ROBOTS], y[ROBOTS], goal = T(0), safety = T(0), effort = T(0), violation = T(0), smooth = T(0);
        for (int i = 0; i < n.robots; i++) {
            const Moved<T> m = move(k, s + 4 * i, u[2 * i], u[2 * i + 1]);
            x[i] = m.x, y[i] = m.y;
            const T dx = m.x - c[GOAL + 2 * i], dy = m.y - c[GOAL + 2 * i + 1];
            goal += goal_weight<T>(k, i, n.robots) * (dx * dx + dy * dy);
            for (int e = 2 * i; e < 2 * i + 2; e++) {
                const T change = u[e] - c[PREVIOUS + e];
                effort += u[e] * u[e] / (T)n.robots, smooth += change * change / get<T>(k, HORIZON);
            }
        }
        const T count = margin_count<T>(n);
        pairs(k, c, n, x, y, true, [&](int, int, int, T m, T, T, T) {
            safety += power(-within(m, T(-3), T(3))) / count;
            if (m < T(0)) violation += m * m;
        });
        const T always = get<T>(k, L_VIOLATION) * violation + get<T>(k, L_SMOOTH) * smooth;
        J[0] = get<T>(k, L_GOAL) * goal + always, J[1] = get<T>(k, L_SAFETY) * safety + always, J[2] = get<T>(k, L_EFFORT) * effort + always;
    }

    template <class T>
    __device__ static void gradient(const double* k, const T* s, const T* u, const T* c, const T* sigma, T* gs, T* gu) {
        const Counts n = counts(c);
        const T total = sigma[0] + sigma[1] + sigma[2], dt = get<T>(k, DT), half = T(0.5);
        const T goal = sigma[0] * get<T>(k, L_GOAL), safety = sigma[1] * get<T>(k, L_SAFETY), effort = sigma[2] * get<T>(k, L_EFFORT);
        const T violation = total * get<T>(k, L_VIOLATION), smooth = total * get<T>(k, L_SMOOTH);
        T x[ROBOTS], y[ROBOTS], px[ROBOTS], py[ROBOTS];
        Moved<T> moved[ROBOTS];
        for (int i = 0; i < states; i++) gs[i] = T(0);
        for (int i = 0; i < actions; i++) gu[i] = T(0);
        for (int i = 0; i < n.robots; i++) {
            moved[i] = move(k, s + 4 * i, u[2 * i], u[2 * i + 1]);
            x[i] = moved[i].x, y[i] = moved[i].y;
            const T weight = T(2) * goal * goal_weight<T>(k, i, n.robots);
            px[i] = weight * (x[i] - c[GOAL + 2 * i]), py[i] = weight * (y[i] - c[GOAL + 2 * i + 1]);
        }
        const T count = margin_count<T>(n);
        pairs(k, c, n, x, y, true, [&](int, int i, int other, T m, T dx, T dy, T d) {
            T slope = T(0);
            if (m > T(-3) && m < T(3)) slope -= safety * power(-m) / count;
            if (m < T(0)) slope += T(2) * violation * m;
            if (d == T(0)) return;
            const T gx = slope * dx / d, gy = slope * dy / d;
            px[i] += gx, py[i] += gy;
            if (other >= 0) px[other] -= gx, py[other] -= gy;
        });
        for (int i = 0; i < n.robots; i++) {
            const Moved<T>& m = moved[i];
            const T turn = dt * m.speed * (m.cosine * py[i] - m.sine * px[i]), gv = half * dt * (m.cosine * px[i] + m.sine * py[i]);
            const T through = m.free ? gv : T(0);
            gu[2 * i] = dt * through, gu[2 * i + 1] = dt * half * turn;
            for (int e = 2 * i; e < 2 * i + 2; e++)
                gu[e] += T(2) * effort * u[e] / (T)n.robots + T(2) * smooth * (u[e] - c[PREVIOUS + e]) / get<T>(k, HORIZON);
            gs[4 * i] = px[i], gs[4 * i + 1] = py[i], gs[4 * i + 2] = turn, gs[4 * i + 3] = through + gv;
        }
    }

    __device__ static void indicators(const double* k, const double* s, const double* u, const double* c, double* delta) {
        const Counts n = counts(c);
        double x[ROBOTS], y[ROBOTS], low = noMargin, effort = 0.0;
        const double ax = fmax(k[A_MAX], -k[A_MIN]);
        for (int i = 0; i < n.robots; i++) {
            x[i] = s[4 * i], y[i] = s[4 * i + 1];
            const double a = u[2 * i] / ax, w = u[2 * i + 1] / k[OMEGA_MAX];
            effort += (a * a + w * w) / (2.0 * n.robots);
        }
        pairs(k, c, n, x, y, false, [&](int, int, int, double m, double, double, double) { low = m < low ? m : low; });
        const double dx = s[0] - c[GOAL], dy = s[1] - c[GOAL + 1], d = dx * dx + dy * dy;
        delta[0] = d / (d + k[GOAL_SCALE]);
        delta[1] = exp(-fmax(low, 0.0) / k[MARGIN_SCALE]);
        delta[2] = effort < 1.0 ? effort : 1.0;
    }

    __device__ static void step(const double* k, const double* s, const double* c, const double* u, double* sNext, double* cNext) {
        const Counts n = counts(c);
        for (int i = 0; i < states; i++) sNext[i] = 0.0;
        for (int i = 0; i < contexts; i++) cNext[i] = 0.0;
        for (int i = 0; i < n.robots; i++) {
            const Moved<double> m = move(k, s + 4 * i, u[2 * i], u[2 * i + 1]);
            sNext[4 * i] = m.x, sNext[4 * i + 1] = m.y, sNext[4 * i + 2] = m.theta, sNext[4 * i + 3] = m.v;
            for (int e = 2 * i; e < 2 * i + 2; e++) cNext[PREVIOUS + e] = u[e], cNext[GOAL + e] = c[GOAL + e];
            cNext[RADIUS + i] = c[RADIUS + i];
        }
        for (int j = 0; j < n.obstacles; j++) {
            const Disc<double> o = advance(k, disc(c, j));
            double* to = cNext + OBSTACLE + 5 * j;
            to[0] = o.x, to[1] = o.y, to[2] = o.vx, to[3] = o.vy, to[4] = o.r;
        }
    }

    __device__ static void margin(const double* k, const double* s, const double* c, const double* u, double* m) {
        const Counts n = counts(c);
        double x[ROBOTS], y[ROBOTS];
        for (int i = 0; i < n.robots; i++) {
            const Moved<double> to = move(k, s + 4 * i, u[2 * i], u[2 * i + 1]);
            x[i] = to.x, y[i] = to.y;
        }
        m[0] = m[1] = m[2] = noMargin;
        pairs(k, c, n, x, y, true, [&](int kind, int, int, double h, double, double, double) { m[kind] = h < m[kind] || is_nan(h) ? h : m[kind]; });
    }

    __device__ static void limit(const double* k, const double* previous, double* u) {
        u[0] = fmin(fmax(u[0], fmax(k[A_MIN], previous[0] - k[DU_A])), fmin(k[A_MAX], previous[0] + k[DU_A]));
        u[1] = fmin(fmax(u[1], fmax(-k[OMEGA_MAX], previous[1] - k[DU_OMEGA])), fmin(k[OMEGA_MAX], previous[1] + k[DU_OMEGA]));
    }

    // smallest is the smallest margin of robot i at its place among the others'.
    __device__ static double smallest(const double* k, const double* c, Counts n, const double* x, const double* y, int i) {
        double low = noMargin;
        for (int j = 0; j < n.obstacles; j++) {
            const Disc<double> o = advance(k, disc(c, j));
            low = fmin(low, hypot(x[i] - o.x, y[i] - o.y) - c[RADIUS + i] - o.r - k[D_SAFE]);
        }
        for (int j = 0; j < n.robots; j++)
            if (j != i) low = fmin(low, hypot(x[i] - x[j], y[i] - y[j]) - c[RADIUS + i] - c[RADIUS + j] - k[D_SAFE]);
        return low;
    }

    __device__ static bool project(const double* k, const double* s, const double* c, double* u) {
        const Counts n = counts(c);
        double x[ROBOTS], y[ROBOTS];
        for (int e = 2 * n.robots; e < actions; e++) u[e] = 0.0;
        for (int i = 0; i < n.robots; i++) {
            for (int e = 2 * i; e < 2 * i + 2; e++)
                if (is_nan(u[e])) u[e] = 0.0;
            limit(k, c + PREVIOUS + 2 * i, u + 2 * i);
            const Moved<double> to = move(k, s + 4 * i, u[2 * i], u[2 * i + 1]);
            x[i] = to.x, y[i] = to.y;
        }
        for (int round = 0; round < ROUNDS; round++) {
            bool kept = true;
            for (int i = 0; i < n.robots; i++) {
                const double own = smallest(k, c, n, x, y, i);
                if (own >= 0.0) continue;
                kept = false;
                const double want[2] = {u[2 * i], u[2 * i + 1]}, *previous = c + PREVIOUS + 2 * i;
                double best[2] = {want[0], want[1]}, bx = x[i], by = y[i], bestMargin = own, bestDistance = (double)gpc_inf();
                for (int g = 0; g < GRID * GRID; g++) {
                    double action[2] = {previous[0] + k[DU_A] * (2.0 * (g % GRID) / (GRID - 1) - 1.0), previous[1] + k[DU_OMEGA] * (2.0 * (g / GRID) / (GRID - 1) - 1.0)};
                    limit(k, previous, action);
                    const Moved<double> to = move(k, s + 4 * i, action[0], action[1]);
                    x[i] = to.x, y[i] = to.y;
                    const double m = smallest(k, c, n, x, y, i), d = hypot(action[0] - want[0], action[1] - want[1]);
                    const bool better = m >= 0.0 && bestMargin >= 0.0 ? d < bestDistance : m > bestMargin;
                    if (better) best[0] = action[0], best[1] = action[1], bx = to.x, by = to.y, bestMargin = m, bestDistance = d;
                }
                x[i] = bx, y[i] = by;
                u[2 * i] = best[0], u[2 * i + 1] = best[1];
            }
            if (kept) break;
        }
        for (int i = 0; i < n.robots; i++)
            if (!(smallest(k, c, n, x, y, i) >= 0.0)) return false;
        return true;
    }
};

} // namespace multiagent

GPC_DOMAIN(multiagent, multiagent::Problem)
GPC_KERNEL(gpc_domain_base_multiagent)
GPC_KERNEL(gpc_domain_gradient_multiagent)
GPC_KERNEL(gpc_domain_priority_multiagent)
GPC_KERNEL(gpc_domain_rollout_multiagent)
