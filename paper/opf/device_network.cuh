// device_network.cuh: the network as device.go packs it, and what its units and
// branches are made of. A warp works on a row; every function here is called by one
// lane alone unless it says that the warp calls it.
#pragma once
#include "gpc.cuh"
#include "domain.cuh"

namespace opf {

// Constants at the head of the numbers.
enum {
    NUMBERS, // how many numbers there are; the indices lie behind them
    THERMAL_THRESHOLD, VOLTAGE_DEADBAND, ECONOMIC_INDICATOR, LOSS_SHARE, FLAT_SLOPE, MERIT_HALVINGS,
    FLOW_TOLERANCE, KEEP_FACTORS, HOPELESS, ANGLE_STEP, MAGNITUDE_STEP, FLOW_ITERATIONS, MARGIN_BOUND,
    MARGIN_TOLERANCE, ROUNDS, PATIENCE, LEAST_PROGRESS, CONTRADICTION, ENOUGH, PIVOTS, VOLTAGE_GUARD, POWER_GUARD, VOLTAGE_REACH, POWER_REACH, ELASTICITY, PROGRAM_TOLERANCE,
    FROZEN, FROZEN_MOST
};

// At the head of the indices: sizes, then where each table begins, among the
// numbers or among the indices.
enum {
    BUSES, GENS, BRANCHES, RATED, CONTEXT, LOADS, PREVIOUS, FACTORS /* −1: none */, UNKNOWNS, VALUES, INVERSE, CONTROLS, PAIRS, LIMITS, SLACK, SLACK_GEN,
    FACTOR_ROUNDS, FORWARD_ROUNDS, BACKWARD_ROUNDS, TASKS, FAST_SHARED, RESPONSE_SHARED, WORKSPACE, /* numbers */
    BRANCH, RATE, SHUNT_G, SHUNT_B, V_MIN, V_MAX, P_MIN, P_MAX, Q_MIN, Q_MAX, RAMP, COST, METRIC, /* indices */
    FROM, TO, RATED_BRANCH, RATED_OF, LOAD_P, LOAD_Q, ANGLE, SIZE, NEAR_START, NEAR, OWN, PAIR_START, PAIR, PAIR_AT, GEN_BUS, LEADS, UNIT, BUS_GEN_START, BUS_GEN,
    COST_START, COST_COUNT, CONTROL, COLUMN_START, COLUMN_ROW, COLUMN_AT, OUTPUT_START, OUTPUT_ROW, OUTPUT_AT, ROUND_START, TASK
};

enum { thermal, voltage, economic, objectives };

struct Network {
    const double* k;
    const int* h;

    __device__ explicit Network(const double* constants) : k(constants), h(reinterpret_cast<const int*>(constants + (int)constants[NUMBERS])) {}
    __device__ int size(int what) const { return h[what]; }
    __device__ const double* numbers(int what) const { return k + h[what]; }
    __device__ const int* indices(int what) const { return h + h[what]; }
};

__device__ inline int lane() { return (int)threadIdx.x; }

// The larger of two, NaN where either is one, as Go's math.Max; fmax is not that.
__device__ inline double larger(double a, double b) { return a != a || a > b ? a : b; }
__device__ inline double smaller(double a, double b) { return a != a || a < b ? a : b; }

// The warp's sum, largest and smallest, in a fixed order, in every lane.
__device__ inline double warp_sum(double v) {
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(GPC_FULL_MASK, v, o);
    return v;
}
__device__ inline double warp_largest(double v) {
    for (int o = 16; o > 0; o /= 2) v = larger(v, __shfl_xor_sync(GPC_FULL_MASK, v, o));
    return v;
}
__device__ inline double warp_smallest(double v) {
    for (int o = 16; o > 0; o /= 2) v = smaller(v, __shfl_xor_sync(GPC_FULL_MASK, v, o));
    return v;
}

// Admittance is a branch's two-port admittance at its factor b (network.Admittance).
struct Admittance {
    double gff, bff, gft, bft, gtf, btf, gtt, btt;
};

// factor is b of a branch: 1 where the context holds none. What no network has is
// taken as the nearest that one could have, as flow.go does.
template <class T>
__device__ inline double factor(const Network& net, int k, const T* c, bool bounded) {
    const int at = net.size(FACTORS);
    if (at < 0) return 1.0;
    const double b = (double)c[at + k];
    if (!bounded) return b;
    return b > 0.1 ? (b < 10.0 ? b : 10.0) : 0.1;
}

__device__ inline Admittance admittance(const Network& net, int k, double b) {
    const int n = net.size(BRANCHES);
    const double* y = net.numbers(BRANCH) + k; // in columns, so that lanes read neighbours
    return Admittance{b * y[0], b * y[n] + y[2 * n], b * y[3 * n], b * y[4 * n], b * y[5 * n], b * y[6 * n], b * y[7 * n], b * y[8 * n] + y[9 * n]};
}

// cost is a unit's cost at p, $/h, and its slope (network.Cost.At).
__device__ inline double cost(const Network& net, int g, double p, double* slope) {
    const double* a = net.numbers(COST) + net.indices(COST_START)[g];
    const int n = net.indices(COST_COUNT)[g];
    double value = 0.0, first = 0.0;
    if (n >= 0) { // a polynomial, the constant first
        for (int i = n - 1; i >= 0; i--) first = first * p + value, value = value * p + a[i];
    } else { // −n corners: powers, then values
        int i = 1;
        while (i < -n - 1 && p > a[i]) i++;
        const double* v = a - n;
        first = (v[i] - v[i - 1]) / (a[i] - a[i - 1]);
        value = v[i - 1] + first * (p - a[i - 1]);
    }
    *slope = first;
    return value;
}

// window is the range of P_G of a unit after its previous output.
__device__ inline void window(const Network& net, int g, double previous, double* lo, double* hi) {
    const double low = net.numbers(P_MIN)[g], high = net.numbers(P_MAX)[g], ramp = net.numbers(RAMP)[g];
    *lo = smaller(larger(low, previous - ramp), high);
    *hi = larger(smaller(high, previous + ramp), low);
}

// supply is the output at which a unit's marginal cost is price (merit.go).
__device__ inline double supply(const Network& net, int g, double price, double previous) {
    double lo, hi;
    window(net, g, previous, &lo, &hi);
    const double flat = net.k[FLAT_SLOPE];
    const int n = net.indices(COST_COUNT)[g];
    if (n >= 0 && n <= 3) {
        const double* a = net.numbers(COST) + net.indices(COST_START)[g];
        const double linear = n > 1 ? a[1] : 0.0, slope = n > 2 ? 2.0 * a[2] + flat : flat;
        return smaller(hi, larger(lo, (price - linear + flat * lo) / slope));
    }
    double a = lo, b = hi;
    for (int i = (int)net.k[MERIT_HALVINGS]; i > 0; i--) {
        const double m = (a + b) / 2.0;
        double first;
        cost(net, g, m, &first);
        if (first + flat * (m - lo) < price)
            a = m;
        else
            b = m;
    }
    return (a + b) / 2.0;
}

// merit writes the plan that the decoder corrects (System.Base): the merit order,
// and V_G of 1 pu. The warp calls it.
template <class T, class U>
__device__ inline void merit(const Network& net, const T* c, U* plan) {
    const int gens = net.size(GENS), loads = net.size(LOADS);
    const T* previous = c + net.size(PREVIOUS);
    double demand = 0.0;
    for (int i = lane(); i < loads; i += 32) demand += (double)c[i];
    demand = warp_sum(demand) * (1.0 + net.k[LOSS_SHARE]);
    double low = (double)gpc_inf(), high = -(double)gpc_inf();
    for (int g = lane(); g < gens; g += 32) {
        double lo, hi, first, last;
        window(net, g, (double)previous[g], &lo, &hi);
        cost(net, g, lo, &first);
        cost(net, g, hi, &last);
        low = smaller(low, first), high = larger(high, last + net.k[FLAT_SLOPE] * (hi - lo));
    }
    low = warp_smallest(low), high = warp_largest(high);
    double price = 0.0;
    for (int i = (int)net.k[MERIT_HALVINGS]; i > 0; i--) {
        price = (low + high) / 2.0;
        double sum = 0.0;
        for (int g = lane(); g < gens; g += 32) sum += supply(net, g, price, (double)previous[g]);
        if (warp_sum(sum) < demand)
            low = price;
        else
            high = price;
    }
    for (int g = lane(); g < gens; g += 32) plan[g] = (U)supply(net, g, price, (double)previous[g]), plan[gens + g] = (U)1.0;
    __syncwarp();
}

// Flow is |S|/S^max at the from end of a rated branch with its derivatives
// (objectives.go, fromFlow).
struct Flow {
    double load, vf, vt, angle;
};

template <class T, class C>
__device__ inline Flow from_flow(const Network& net, int r, const T* s, const C* c) {
    const int k = net.indices(RATED_BRANCH)[r], f = net.indices(FROM)[k], t = net.indices(TO)[k], buses = net.size(BUSES);
    const Admittance y = admittance(net, k, factor(net, k, c, false));
    const double inverse = 1.0 / net.numbers(RATE)[r];
    double sn, cs;
    sincos((double)s[buses + f] - (double)s[buses + t], &sn, &cs);
    const double vf = (double)s[f], vt = (double)s[t];
    const double along = y.gft * cs + y.bft * sn, across = y.gft * sn - y.bft * cs;
    double p = vf * (vf * y.gff + vt * along), q = vf * (vt * across - vf * y.bff);
    const double size = sqrt(p * p + q * q);
    Flow out{size * inverse, 0.0, 0.0, 0.0};
    if (out.load <= net.k[THERMAL_THRESHOLD]) return out;
    const double scale = inverse / size;
    p *= scale, q *= scale;
    out.vf = p * (2.0 * vf * y.gff + vt * along) + q * (vt * across - 2.0 * vf * y.bff);
    out.vt = vf * (p * along + q * across);
    out.angle = vf * vt * (q * along - p * across);
    return out;
}

// overload is how far a branch is loaded beyond τ, 0 below.
__device__ inline double overload(const Network& net, const Flow& flow) {
    const double over = flow.load - net.k[THERMAL_THRESHOLD];
    return over <= 0.0 ? 0.0 : over;
}

// deviation is how far a voltage is beyond the deadband about 1 pu, 0 within.
__device__ inline double deviation(const Network& net, double v) {
    const double d = fabs(v - 1.0) - net.k[VOLTAGE_DEADBAND];
    return d <= 0.0 ? 0.0 : d;
}

// objective writes J of the state s and the outputs u. The warp calls it.
template <class T, class U, class C>
__device__ inline void objective(const Network& net, const T* s, const U* u, const C* c, double* J) {
    double j[objectives] = {0.0, 0.0, 0.0};
    for (int r = lane(); r < net.size(RATED); r += 32) {
        const double over = overload(net, from_flow(net, r, s, c));
        j[thermal] += over * over * over * over;
    }
    for (int i = lane(); i < net.size(BUSES); i += 32) {
        const double d = deviation(net, (double)s[i]);
        j[voltage] += d * d;
    }
    for (int g = lane(); g < net.size(GENS); g += 32) {
        double slope;
        j[economic] += cost(net, g, (double)u[g], &slope);
    }
    for (int i = 0; i < objectives; i++) J[i] = warp_sum(j[i]);
}

// indicators writes δ of the state s (System.Indicators). The warp calls it.
template <class T, class C>
__device__ inline void indicators(const Network& net, const T* s, const C* c, double* delta) {
    double load = 0.0, off = 0.0;
    for (int r = lane(); r < net.size(RATED); r += 32) load = larger(load, from_flow(net, r, s, c).load);
    const double *low = net.numbers(V_MIN), *high = net.numbers(V_MAX);
    for (int i = lane(); i < net.size(BUSES); i += 32) {
        const double half = (high[i] - low[i]) / 2.0;
        if (half > 0.0) off = larger(off, fabs((double)s[i] - (high[i] + low[i]) / 2.0) / half);
    }
    delta[thermal] = smaller(warp_largest(load), 1.0), delta[voltage] = smaller(warp_largest(off), 1.0), delta[economic] = net.k[ECONOMIC_INDICATOR];
}

// priority writes σ at the state s: the user's fixed weights, or the semantic one of
// the indicators. The warp calls it.
template <class T, class C>
__device__ inline void priority(const Network& net, const gpc_domain_preference& p, const T* s, const C* c, double* sigma) {
    if (!p.adaptive) {
        for (int i = 0; i < objectives; i++) sigma[i] = p.weights[i];
        return;
    }
    double delta[objectives];
    indicators(net, s, c, delta);
    gpc::priority<objectives>(p.semantic, delta, sigma);
}

} // namespace opf
