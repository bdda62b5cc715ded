// device_flow.cuh: the power flow of one dispatch by a warp, as package powerflow
// has it: Newton in polar form with factors kept where they are good enough and
// steps of bounded length, then what the units give and all margins.
//
// Unknowns are the angle of every bus but the reference and the voltage of every bus
// without a unit, in the order of elimination of package powerflow. Their Jacobian has
// one pattern for all rows. device_program.go writes its LU factorisation as a program
// once: the entries of the factors, level by level of what they depend on, each with
// the list of its products l·u. The lanes take the entries of a level, one each. A
// triangular solve runs through levels of rows alike.
#pragma once
#include "device_network.cuh"

namespace opf {

// Work is where a warp computes: the fast part in shared memory where it fits, the
// rest in device memory.
struct Work {
    Network net;
    int buses, gens, branches, unknowns;
    double *vm, *va;             // the solution; together a state
    double *p, *q;               // net injections there
    double* branch;              // [branches, 4]: along, across, back, reverse
    double *values, *inverse, *rhs;
    double *pg, *qg;             // what the units give
    double *margin, *u, *direct; // direct: a limit's gradient in the V_G
    double* slow;                // of the least change, device_change.cuh

    __device__ Work(const double* constants, double* shared, double* workspace) : net(constants) {
        buses = net.size(BUSES), gens = net.size(GENS), branches = net.size(BRANCHES), unknowns = net.size(UNKNOWNS);
        double* at = net.size(FAST_SHARED) ? shared : workspace;
        auto take = [&](int n) {
            double* start = at;
            at += n;
            return start;
        };
        vm = take(buses), va = take(buses), p = take(buses), q = take(buses), branch = take(4 * branches);
        values = take(net.size(VALUES)), inverse = take(unknowns), rhs = take(unknowns);
        pg = take(gens), qg = take(gens), u = take(2 * gens), direct = take(gens);
        margin = take(3 * gens + buses + net.size(RATED));
        slow = net.size(FAST_SHARED) ? workspace : at;
    }

    // margin holds P_G, Q_G, V, S and ramp, in this order.
    __device__ double* margin_q() const { return margin + gens; }
    __device__ double* margin_v() const { return margin + 2 * gens; }
    __device__ double* margin_s() const { return margin + 2 * gens + buses; }
    __device__ double* margin_ramp() const { return margin_s() + net.size(RATED); }
    __device__ int margins() const { return 3 * gens + buses + net.size(RATED); }
};

// load_p and load_q are the loads of a bus.
__device__ inline double load_p(const Work& w, const double* c, int i) {
    const int at = w.net.indices(LOAD_P)[i];
    return at < 0 ? 0.0 : c[at];
}
__device__ inline double load_q(const Work& w, const double* c, int i) {
    const int at = w.net.indices(LOAD_Q)[i];
    return at < 0 ? 0.0 : c[at];
}

// branch_power is the flow into branch k at one of its ends.
__device__ inline void branch_power(const Work& w, const double* c, int k, bool to, double* p, double* q) {
    const int f = w.net.indices(FROM)[k], t = w.net.indices(TO)[k];
    const Admittance y = admittance(w.net, k, factor(w.net, k, c, true));
    const double vf = w.vm[f], vt = w.vm[t], vv = vf * vt;
    const double *s = w.branch + 4 * k;
    if (!to)
        *p = vf * vf * y.gff + vv * s[0], *q = -vf * vf * y.bff + vv * s[1];
    else
        *p = vt * vt * y.gtt + vv * s[2], *q = -vt * vt * y.btt - vv * s[3];
}

__device__ inline void put(double* values, int at, double v) {
    if (at >= 0) values[at] = v;
}

// evaluate computes branches and injections at vm, va and what the equations lack,
// into rhs. It returns the largest mismatch. The warp calls it.
__device__ inline double evaluate(const Work& w, const double* c) {
    const Network& net = w.net;
    const int *from = net.indices(FROM), *to = net.indices(TO);
    for (int k = lane(); k < w.branches; k += 32) {
        const Admittance y = admittance(net, k, factor(net, k, c, true));
        double sn, cs;
        sincos(w.va[from[k]] - w.va[to[k]], &sn, &cs);
        double* s = w.branch + 4 * k;
        s[0] = y.gft * cs + y.bft * sn, s[1] = y.gft * sn - y.bft * cs;
        s[2] = y.gtf * cs - y.btf * sn, s[3] = y.gtf * sn + y.btf * cs;
    }
    __syncwarp();
    const int *start = net.indices(NEAR_START), *near = net.indices(NEAR), *angle = net.indices(ANGLE), *size = net.indices(SIZE);
    const int *unitStart = net.indices(BUS_GEN_START), *unit = net.indices(BUS_GEN);
    const double *shuntG = net.numbers(SHUNT_G), *shuntB = net.numbers(SHUNT_B);
    double worst = 0.0;
    for (int i = lane(); i < w.buses; i += 32) {
        const double v = w.vm[i];
        double p = v * v * shuntG[i], q = -v * v * shuntB[i];
        for (int e = start[i]; e < start[i + 1]; e++) {
            double pk, qk;
            branch_power(w, c, near[e] >> 1, near[e] & 1, &pk, &qk);
            p += pk, q += qk;
        }
        w.p[i] = p, w.q[i] = q;
        if (angle[i] >= 0) {
            double injected = 0.0;
            for (int e = unitStart[i]; e < unitStart[i + 1]; e++) injected += w.u[unit[e]];
            const double lack = injected - load_p(w, c, i) - p;
            w.rhs[angle[i]] = lack, worst = larger(worst, fabs(lack));
        }
        if (size[i] >= 0) {
            const double lack = -load_q(w, c, i) - q;
            w.rhs[size[i]] = lack, worst = larger(worst, fabs(lack));
        }
    }
    worst = warp_largest(worst);
    __syncwarp();
    return worst;
}

// jacobian writes ∂(P, Q)/∂(θ, V) of the state last evaluated. The warp calls it.
__device__ inline void jacobian(const Work& w, const double* c) {
    const Network& net = w.net;
    const int *from = net.indices(FROM), *to = net.indices(TO), *start = net.indices(NEAR_START), *near = net.indices(NEAR);
    const double *shuntG = net.numbers(SHUNT_G), *shuntB = net.numbers(SHUNT_B);
    for (int i = lane(); i < net.size(VALUES); i += 32) w.values[i] = 0.0;
    __syncwarp();
    for (int i = lane(); i < w.buses; i += 32) {
        // With the diagonal G + jB of the bus admittance matrix: ∂P/∂θ = −Q − BV²,
        // V·∂P/∂V = P + GV², ∂Q/∂θ = P − GV², V·∂Q/∂V = Q − BV².
        double g = shuntG[i], b = shuntB[i];
        for (int e = start[i]; e < start[i + 1]; e++) {
            const int k = near[e] >> 1;
            const Admittance y = admittance(net, k, factor(net, k, c, true));
            g += near[e] & 1 ? y.gtt : y.gff, b += near[e] & 1 ? y.btt : y.bff;
        }
        const double v = w.vm[i], vv = v * v, p = w.p[i], q = w.q[i];
        const int* own = net.indices(OWN) + 4 * i;
        put(w.values, own[0], -q - b * vv), put(w.values, own[1], (p + g * vv) / v);
        put(w.values, own[2], p - g * vv), put(w.values, own[3], (q - b * vv) / v);
    }
    // Branches between the same two buses share their entries.
    const int *pairStart = net.indices(PAIR_START), *pair = net.indices(PAIR);
    for (int g = lane(); g < net.size(PAIRS); g += 32) {
        double a[4] = {0.0, 0.0, 0.0, 0.0}, b[4] = {0.0, 0.0, 0.0, 0.0};
        for (int e = pairStart[g]; e < pairStart[g + 1]; e++) {
            const int k = pair[e] >> 1;
            const double vf = w.vm[from[k]], vt = w.vm[to[k]], vv = vf * vt;
            const double* s = w.branch + 4 * k;
            const double ahead[4] = {vv * s[1], vf * s[0], -(vv * s[0]), vf * s[1]}, behind[4] = {-(vv * s[3]), vt * s[2], -(vv * s[2]), -(vt * s[3])};
            const bool turned = pair[e] & 1;
            for (int i = 0; i < 4; i++) a[i] += turned ? behind[i] : ahead[i], b[i] += turned ? ahead[i] : behind[i];
        }
        const int* at = net.indices(PAIR_AT) + 8 * g;
        for (int i = 0; i < 4; i++) put(w.values, at[i], a[i]), put(w.values, at[4 + i], b[i]);
    }
    __syncwarp();
}

// factorise replaces the matrix by its factors; false at a pivot that is zero or not
// finite. The warp calls it.
__device__ inline bool factorise(const Work& w) {
    const Network& net = w.net;
    const int *levels = net.indices(LEVEL_START), *entry = net.indices(ENTRY), *of = net.indices(ENTRY_OF), *start = net.indices(PRODUCT_START), *product = net.indices(PRODUCT);
    double* v = w.values;
    bool sound = true;
    for (int l = 0; l < net.size(LEVELS); l++) {
        for (int e = levels[l] + lane(); e < levels[l + 1]; e += 32) {
            double sum = v[entry[e]];
            for (int i = start[e]; i < start[e + 1]; i++) {
                const unsigned both = (unsigned)product[i];
                sum -= v[both & 0xffffu] * v[both >> 16];
            }
            if (of[e] < 0) {
                sound = sound && gpc::finite64(sum) && sum != 0.0;
                w.inverse[-1 - of[e]] = 1.0 / sum;
            } else if (of[e] != above) {
                sum *= w.inverse[of[e]];
            }
            v[entry[e]] = sum;
        }
        __syncwarp();
    }
    return __all_sync(GPC_FULL_MASK, sound);
}

// solve replaces rhs by the solution of the system, or of the transposed one. The
// warp calls it.
__device__ inline void solve(const Work& w, bool transposed) {
    const Network& net = w.net;
    const int *rows = net.indices(ROW_START), *column = net.indices(COLUMN), *diagonal = net.indices(DIAGONAL), *other = net.indices(TRANSPOSE);
    double *v = w.values, *b = w.rhs;
    const int *level = net.indices(SOLVE_START), *row = net.indices(SOLVE_ROW);
    for (int l = 0; l < net.size(SOLVE_LEVELS); l++) {
        for (int at = level[l] + lane(); at < level[l + 1]; at += 32) {
            const int i = row[at];
            double sum = b[i];
            for (int e = rows[i]; e < diagonal[i]; e++) sum -= v[transposed ? other[e] : e] * b[column[e]];
            b[i] = transposed ? sum * w.inverse[i] : sum;
        }
        __syncwarp();
    }
    level = net.indices(BACK_START), row = net.indices(BACK_ROW);
    for (int l = 0; l < net.size(BACK_LEVELS); l++) {
        for (int at = level[l] + lane(); at < level[l + 1]; at += 32) {
            const int i = row[at];
            double sum = b[i];
            if (transposed) {
                for (int e = rows[i + 1] - 1; e > diagonal[i]; e--) sum -= v[other[e]] * b[column[e]];
                b[i] = sum;
            } else {
                for (int e = diagonal[i] + 1; e < rows[i + 1]; e++) sum -= v[e] * b[column[e]];
                b[i] = sum * w.inverse[i];
            }
        }
        __syncwarp();
    }
}

// newton solves the power flow of the set-points from the voltages in vm, va. It
// ends after FLOW_ITERATIONS steps, or where the mismatch runs away. The warp calls
// it.
__device__ inline bool newton(const Work& w, const double* c) {
    const Network& net = w.net;
    const int *genBus = net.indices(GEN_BUS), *unitOf = net.indices(UNIT), *angle = net.indices(ANGLE), *size = net.indices(SIZE);
    for (int g = lane(); g < w.gens; g += 32) w.vm[genBus[g]] = w.u[w.gens + unitOf[genBus[g]]];
    if (lane() == 0) w.va[net.size(SLACK)] = 0.0;
    __syncwarp();
    const double infinity = (double)gpc_inf();
    double made = infinity, last = infinity; // the mismatch that the factors were made at, and the last
    for (int i = 0;; i++) {
        const double worst = evaluate(w, c);
        if (worst <= net.k[FLOW_TOLERANCE]) return true;
        if (!(worst < net.k[HOPELESS]) || i == (int)net.k[FLOW_ITERATIONS]) return false;
        if (made > net.k[KEEP_FACTORS] || worst > last / 2.0) {
            jacobian(w, c);
            if (!factorise(w)) return false;
            made = worst;
        }
        last = worst;
        solve(w, false);
        double turn = 0.0, grow = 0.0;
        for (int b = lane(); b < w.buses; b += 32) {
            if (angle[b] >= 0) turn = larger(turn, fabs(w.rhs[angle[b]]));
            if (size[b] >= 0) grow = larger(grow, fabs(w.rhs[size[b]] / w.vm[b]));
        }
        turn = warp_largest(turn), grow = warp_largest(grow);
        double scale = 1.0;
        if (turn > net.k[ANGLE_STEP]) scale = net.k[ANGLE_STEP] / turn;
        if (grow * scale > net.k[MAGNITUDE_STEP]) scale = net.k[MAGNITUDE_STEP] / grow;
        for (int b = lane(); b < w.buses; b += 32) {
            if (angle[b] >= 0) w.va[b] += scale * w.rhs[angle[b]];
            if (size[b] >= 0) w.vm[b] += scale * w.rhs[size[b]];
        }
        __syncwarp();
    }
}

// output fills in what the units give at the solution (powerflow, share). The warp calls it.
__device__ inline void output(const Work& w, const double* c) {
    const Network& net = w.net;
    const int *genBus = net.indices(GEN_BUS), *start = net.indices(BUS_GEN_START), *unit = net.indices(BUS_GEN);
    const double *low = net.numbers(Q_MIN), *high = net.numbers(Q_MAX), infinity = (double)gpc_inf();
    const int slack = net.size(SLACK), slackGen = net.size(SLACK_GEN);
    for (int g = lane(); g < w.gens; g += 32) {
        const int b = genBus[g];
        double pg = w.u[g];
        if (g == slackGen) {
            pg = w.p[slack] + load_p(w, c, slack);
            for (int e = start[slack]; e < start[slack + 1]; e++)
                if (unit[e] != slackGen) pg -= w.u[unit[e]];
        }
        const double total = w.q[b] + load_q(w, c, b);
        double lowest = 0.0, highest = 0.0; // units at one bus share Q in proportion to their ranges
        for (int e = start[b]; e < start[b + 1]; e++) lowest += low[unit[e]], highest += high[unit[e]];
        const double span = highest - lowest;
        const double qg = span > 0.0 && span < infinity ? low[g] + (total - lowest) / span * (high[g] - low[g]) : total / (double)(start[b + 1] - start[b]);
        w.pg[g] = pg, w.qg[g] = qg;
    }
    __syncwarp();
}

__device__ inline double inside(double v, double lo, double hi) { return smaller(v - lo, hi - v); }

// measure fills in the margins at the solution and returns the smallest. The warp
// calls it.
__device__ inline double measure(const Work& w, const double* c) {
    const Network& net = w.net;
    const double* previous = c + net.size(PREVIOUS);
    double low = (double)gpc_inf();
    auto keep = [&](double* at, double m) {
        *at = m;
        low = smaller(low, m);
    };
    for (int g = lane(); g < w.gens; g += 32) {
        keep(w.margin + g, inside(w.pg[g], net.numbers(P_MIN)[g], net.numbers(P_MAX)[g]));
        keep(w.margin_q() + g, smaller(inside(w.qg[g], net.numbers(Q_MIN)[g], net.numbers(Q_MAX)[g]), net.k[MARGIN_BOUND]));
        keep(w.margin_ramp() + g, net.numbers(RAMP)[g] - fabs(w.pg[g] - previous[g]));
    }
    for (int i = lane(); i < w.buses; i += 32) keep(w.margin_v() + i, inside(w.vm[i], net.numbers(V_MIN)[i], net.numbers(V_MAX)[i]));
    for (int r = lane(); r < net.size(RATED); r += 32) {
        const int k = net.indices(RATED_BRANCH)[r];
        double p, q;
        branch_power(w, c, k, false, &p, &q);
        const double from = sqrt(p * p + q * q);
        branch_power(w, c, k, true, &p, &q);
        keep(w.margin_s() + r, net.numbers(RATE)[r] - larger(from, sqrt(p * p + q * q)));
    }
    low = warp_smallest(low);
    __syncwarp();
    return low;
}

// dispatch solves the power flow of the set-points under context c from the state s,
// or from a flat start where that fails, and fills in outputs and margins. solved is
// false where there is no solution; the margins are then −1. It returns the
// smallest. The warp calls it.
__device__ inline double dispatch(const Work& w, const double* s, const double* c, bool* solved) {
    // A start or set-points that no power flow has: not finite, a magnitude of zero.
    const double reference = s[w.buses + w.net.size(SLACK)];
    bool started = true, possible = true;
    for (int i = lane(); i < w.buses; i += 32) {
        w.vm[i] = s[i], w.va[i] = s[w.buses + i] - reference;
        started = started && s[i] > 0.0 && gpc::finite64(s[i]) && gpc::finite64(w.va[i]);
    }
    for (int g = lane(); g < w.gens; g += 32) {
        const double v = w.u[w.gens + w.net.indices(UNIT)[w.net.indices(GEN_BUS)[g]]];
        possible = possible && gpc::finite64(w.u[g]) && gpc::finite64(v) && v > 0.0;
    }
    for (int i = lane(); i < w.net.size(PREVIOUS); i += 32) possible = possible && gpc::finite64(c[i]);
    started = __all_sync(GPC_FULL_MASK, started), possible = __all_sync(GPC_FULL_MASK, possible);
    __syncwarp(); // newton sets magnitudes that other lanes have set here: a vote orders no memory
    *solved = possible && started && newton(w, c);
    if (!*solved && possible) {
        __syncwarp();
        for (int i = lane(); i < w.buses; i += 32) w.vm[i] = 1.0, w.va[i] = 0.0;
        __syncwarp();
        *solved = newton(w, c);
    }
    if (!*solved) {
        for (int i = lane(); i < w.margins(); i += 32) w.margin[i] = -1.0;
        __syncwarp();
        return -1.0;
    }
    output(w, c);
    return measure(w, c);
}

} // namespace opf
