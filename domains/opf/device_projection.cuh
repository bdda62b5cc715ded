// device_projection.cuh: the projection of a dispatch by a warp, as projection.go has
// it: clip to box and ramp, power flow, and where a limit is broken the smallest
// change of the set-points that keeps the limits near it as the power flow
// linearised there predicts them.
#pragma once
#include "device_change.cuh"
#include "device_flow.cuh"

namespace opf {

// clip moves set-points into the box and P_G into the ramp window. The warp calls it.
__device__ inline void clip(const Work& w, const double* c) {
    const Network& net = w.net;
    const double* previous = c + net.size(PREVIOUS);
    for (int g = lane(); g < w.gens; g += 32) {
        const int b = net.indices(GEN_BUS)[g];
        double lo, hi;
        window(net, g, previous[g], &lo, &hi);
        w.u[g] = smaller(larger(w.u[g], lo), hi);
        w.u[w.gens + g] = smaller(larger(w.u[w.gens + g], net.numbers(V_MIN)[b]), net.numbers(V_MAX)[b]);
    }
    __syncwarp();
}

// What a limit bounds, as quantity of projection.go.
enum { slack_power, reactive_power, magnitude, flow_from, flow_to, quantities };

// Limits adds linearised limits to a least change.
struct Limits {
    const Work& w;
    const double* c;
    LeastChange& program;
    double others; // of the gradient begun: in the P_G of the reference bus's other units

    // begin starts the gradient of a quantity, in the unknowns (rhs) and in the units'
    // voltages (direct). The warp calls it.
    __device__ void begin() {
        for (int i = lane(); i < w.unknowns; i += 32) w.rhs[i] = 0.0;
        for (int g = lane(); g < w.gens; g += 32) w.direct[g] = 0.0;
        others = 0.0;
        __syncwarp();
    }

    __device__ void add_angle(int i, double v) const {
        const int r = w.net.indices(ANGLE)[i];
        if (r >= 0) w.rhs[r] += v;
    }
    __device__ void add_size(int i, double v) const {
        const int r = w.net.indices(SIZE)[i];
        if (r >= 0)
            w.rhs[r] += v;
        else
            w.direct[w.net.indices(UNIT)[i]] += v;
    }

    // add_flow adds a·dP + b·dQ of the flow into branch k at one of its ends. One lane
    // calls it.
    __device__ void add_flow(int k, bool from, double a, double b) const {
        const int f = w.net.indices(FROM)[k], t = w.net.indices(TO)[k];
        const Admittance y = admittance(w.net, k, factor(w.net, k, c, true));
        const double vf = w.vm[f], vt = w.vm[t];
        const double* s = w.branch + 4 * k;
        double angle, sizeF, sizeT;
        if (from) {
            angle = vf * vt * (b * s[0] - a * s[1]);
            sizeF = a * (2.0 * vf * y.gff + vt * s[0]) + b * (vt * s[1] - 2.0 * vf * y.bff);
            sizeT = vf * (a * s[0] + b * s[1]);
        } else {
            angle = -vf * vt * (a * s[3] + b * s[2]);
            sizeF = vt * (a * s[2] - b * s[3]);
            sizeT = a * (2.0 * vt * y.gtt + vf * s[2]) - b * (2.0 * vt * y.btt + vf * s[3]);
        }
        add_angle(f, angle), add_angle(t, -angle);
        add_size(f, sizeF), add_size(t, sizeT);
    }

    // add_injection adds the gradient of the net P or Q that a bus sends out. One lane
    // calls it.
    __device__ void add_injection(int b, bool reactive) const {
        const int *start = w.net.indices(NEAR_START), *near = w.net.indices(NEAR);
        add_size(b, reactive ? -2.0 * w.vm[b] * w.net.numbers(SHUNT_B)[b] : 2.0 * w.vm[b] * w.net.numbers(SHUNT_G)[b]);
        for (int e = start[b]; e < start[b + 1]; e++) add_flow(near[e] >> 1, !(near[e] & 1), reactive ? 0.0 : 1.0, reactive ? 1.0 : 0.0);
    }

    // limit turns the gradient begun, of a quantity at a bus or branch, into one in the
    // set-points and adds lo + guard ≤ value + change ≤ hi − guard for the sides within
    // reach. The warp calls it.
    __device__ void limit(int what, int at, double value, double lo, double hi, double guard, double near) {
        const Network& net = w.net;
        __syncwarp();
        solve(w, true);
        if (hi - lo < 2.0 * guard) guard = larger(0.0, (hi - lo) / 2.0);
        for (int side = 0; side < 2; side++) {
            const double gap = side ? hi - value : value - lo;
            if (!(gap < near)) continue;
            const int row = program.rows++;
            for (int j = lane(); j < program.n; j += 32) {
                const double d = sensitivity(net.indices(CONTROL)[j]);
                program.a[j * program.most + row] = side ? -d : d;
            }
            if (lane() == 0) {
                program.bound[row] = guard - gap, program.guard[row] = guard, program.edge[row] = side ? hi : lo;
                program.of[row] = 2 * (at * quantities + what) + side;
            }
        }
        __syncwarp();
    }

    // again gives the rows at hand their bounds at the present solution. The warp calls it.
    __device__ void again() const {
        for (int row = lane(); row < program.rows; row += 32) {
            const double value = present(program.of[row] / 2), edge = program.edge[row];
            const double gap = program.of[row] & 1 ? edge - value : value - edge;
            program.bound[row] = program.guard[row] - gap;
        }
        __syncwarp();
    }

    // present is the value of a limit's quantity at the solution.
    __device__ double present(int of) const {
        const int what = of % quantities, at = of / quantities;
        if (what == slack_power) return w.pg[w.net.size(SLACK_GEN)];
        if (what == reactive_power) return w.q[at] + load_q(w, c, at);
        if (what == magnitude) return w.vm[at];
        double p, q;
        branch_power(w, c, at, what == flow_to, &p, &q);
        return sqrt(p * p + q * q);
    }

    // sensitivity is the derivative in one set-point, by the adjoint in rhs.
    __device__ double sensitivity(int at) const {
        const Network& net = w.net;
        if (at < w.gens) {
            const int r = net.indices(ANGLE)[net.indices(GEN_BUS)[at]];
            return r >= 0 ? w.rhs[r] : others;
        }
        const int g = at - w.gens, *start = net.indices(COLUMN_START);
        double d = w.direct[g];
        for (int e = start[g]; e < start[g + 1]; e++) d -= w.rhs[net.indices(COLUMN_ROW)[e]] * w.values[net.indices(COLUMN_AT)[e]];
        return d;
    }

    // all adds the limits of the network within reach. The warp calls it.
    __device__ void all() {
        const Network& net = w.net;
        const double power = net.k[POWER_REACH], powerGuard = net.k[POWER_GUARD], infinity = (double)gpc_inf();
        const int slack = net.size(SLACK), slackGen = net.size(SLACK_GEN);
        double lo, hi;
        window(net, slackGen, c[net.size(PREVIOUS) + slackGen], &lo, &hi);
        const double pg = w.pg[slackGen];
        if (inside(pg, lo, hi) < power) {
            begin();
            if (lane() == 0) add_injection(slack, false);
            others = -1.0;
            limit(slack_power, slack, pg, lo, hi, powerGuard, power);
        }
        const int *start = net.indices(BUS_GEN_START), *unit = net.indices(BUS_GEN);
        for (int g = 0; g < w.gens; g++) {
            if (!net.indices(LEADS)[g] || !(w.margin_q()[g] < power)) continue;
            const int b = net.indices(GEN_BUS)[g];
            begin();
            if (lane() == 0) add_injection(b, true);
            double qmin = 0.0, qmax = 0.0;
            for (int e = start[b]; e < start[b + 1]; e++) qmin += net.numbers(Q_MIN)[unit[e]], qmax += net.numbers(Q_MAX)[unit[e]];
            limit(reactive_power, b, w.q[b] + load_q(w, c, b), qmin, qmax, powerGuard, power);
        }
        for (int i = 0; i < w.buses; i++) {
            if (net.indices(SIZE)[i] < 0 || !(w.margin_v()[i] < net.k[VOLTAGE_REACH])) continue;
            begin();
            if (lane() == 0) add_size(i, 1.0);
            limit(magnitude, i, w.vm[i], net.numbers(V_MIN)[i], net.numbers(V_MAX)[i], net.k[VOLTAGE_GUARD], net.k[VOLTAGE_REACH]);
        }
        for (int r = 0; r < net.size(RATED); r++) {
            if (!(w.margin_s()[r] < power)) continue;
            const int k = net.indices(RATED_BRANCH)[r];
            const double rate = net.numbers(RATE)[r];
            for (int end = 0; end < 2; end++) {
                double p, q;
                branch_power(w, c, k, end == 1, &p, &q);
                const double size = sqrt(p * p + q * q);
                if (rate - size >= power || size == 0.0) continue;
                begin();
                if (lane() == 0) add_flow(k, end == 0, p / size, q / size);
                limit(end ? flow_to : flow_from, k, size, -infinity, rate, powerGuard, power);
            }
        }
    }
};

// correct changes u by the program at the present solution, which breaks a limit by at
// most broken; false where its Jacobian is singular. With keep the linearisation of the
// round before serves, its rows in number; the present solution says how far away their
// limits are. The warp calls it.
__device__ inline bool correct(const Work& w, const double* c, bool keep, int* rows, double* broken) {
    const Network& net = w.net;
    LeastChange program(net, w.slow);
    Limits limits{w, c, program, 0.0};
    if (keep) {
        program.rows = *rows;
        limits.again();
    } else {
        jacobian(w, c);
        if (!factorise(w)) return false;
        limits.all();
        *rows = program.rows;
    }
    const int* control = net.indices(CONTROL);
    const double* previous = c + net.size(PREVIOUS);
    for (int j = lane(); j < program.n; j += 32) {
        const int at = control[j];
        double lo, hi;
        if (at < w.gens) {
            window(net, at, previous[at], &lo, &hi);
        } else {
            const int b = net.indices(GEN_BUS)[at - w.gens];
            lo = net.numbers(V_MIN)[b], hi = net.numbers(V_MAX)[b];
        }
        program.lo[j] = lo - w.u[at], program.hi[j] = hi - w.u[at];
    }
    __syncwarp();
    program.solve(net.k[PROGRAM_TOLERANCE], (int)net.k[PIVOTS]);
    __syncwarp();
    for (int j = lane(); j < program.n; j += 32) w.u[control[j]] += program.x[j];
    double most = 0.0;
    for (int i = lane(); i < program.count; i += 32) most = larger(most, program.elasticity(program.active[i]) * program.multiplier[i]);
    *broken = warp_largest(most);
    __syncwarp();
    return true;
}

// project moves u onto the limits. Outputs and margins are afterwards those of the
// projected dispatch; it returns the smallest margin, and in solved whether the
// power flow has a solution. The warp calls it.
__device__ inline double project(const Work& w, const double* s, const double* c, bool* solved) {
    const Network& net = w.net;
    const int slackGen = net.size(SLACK_GEN);
    clip(w, c);
    double best = -(double)gpc_inf(), last = 0.0, broken = 0.0;
    for (int round = 0, since = 0, rows = 0;; round++) {
        const double low = dispatch(w, s, c, solved);
        if (!*solved) {
            // Nothing to linearise at: the merit order is near a solution.
            if (round > 0) return low;
            merit(net, c, w.u);
            clip(w, c);
            continue;
        }
        if (lane() == 0) w.u[slackGen] = smaller(larger(w.pg[slackGen], net.numbers(P_MIN)[slackGen]), net.numbers(P_MAX)[slackGen]);
        __syncwarp();
        if (since++, low > net.k[LEAST_PROGRESS] * best) best = low, since = 0;
        const bool close = low >= -net.k[MARGIN_TOLERANCE], given_up = since >= (int)net.k[PATIENCE] || broken > net.k[CONTRADICTION];
        if (low >= -net.k[ENOUGH] || (round >= (int)net.k[ROUNDS] && (close || given_up)) || !correct(w, c, low >= larger(net.k[FROZEN] * last, -net.k[FROZEN_MOST]), &rows, &broken)) return low;
        clip(w, c);
        last = low;
    }
}

} // namespace opf
