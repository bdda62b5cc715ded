// device_projection.cuh: the projection of a dispatch by a warp, as projection.go has
// it: clip to box and ramp, power flow, and where a limit is broken the smallest
// change of the set-points that keeps the limits near it as the power flow
// linearised there predicts them.
#pragma once
#include "device_change.cuh"
#include "device_flow.cuh"

namespace opf {

// clip moves set-points into the box and P_G into the ramp window. The warp calls it.
template <class Work>
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
template <class Work>
struct Limits {
    const Work& w;
    const double* c;
    LeastChange& program;

    // Bound is a quantity with its limits; out of reach where near is 0.
    struct Bound {
        int what, at;
        double value, lo, hi, guard, near;
    };

    // bound is quantity i of all: the reference's power, what the units give, magnitudes, flows.
    __device__ Bound bound(int i) const {
        const Network& net = w.net;
        const double power = net.k[POWER_REACH];
        Bound b{slack_power, net.size(SLACK), 0.0, -(double)gpc_inf(), (double)gpc_inf(), net.k[POWER_GUARD], 0.0};
        if (i == 0) {
            const int g = net.size(SLACK_GEN);
            window(net, g, c[net.size(PREVIOUS) + g], &b.lo, &b.hi);
            b.value = w.pg[g], b.near = power;
        } else if ((i -= 1) < w.gens) {
            if (!net.indices(LEADS)[i] || !(w.margin_q()[i] < power)) return b;
            const int *start = net.indices(BUS_GEN_START), *unit = net.indices(BUS_GEN);
            b.what = reactive_power, b.at = net.indices(GEN_BUS)[i], b.near = power, b.lo = b.hi = 0.0;
            for (int e = start[b.at]; e < start[b.at + 1]; e++) b.lo += net.numbers(Q_MIN)[unit[e]], b.hi += net.numbers(Q_MAX)[unit[e]];
            b.value = w.q[b.at] + load_q(w, c, b.at);
        } else if ((i -= w.gens) < w.buses) {
            if (net.indices(SIZE)[i] < 0) return b;
            b.what = magnitude, b.at = i, b.near = net.k[VOLTAGE_REACH], b.guard = net.k[VOLTAGE_GUARD];
            b.value = w.vm[i], b.lo = net.numbers(V_MIN)[i], b.hi = net.numbers(V_MAX)[i];
        } else if ((i -= w.buses) < 2 * net.size(RATED)) {
            if (!(w.margin_s()[i / 2] < power)) return b;
            double p, q;
            b.what = i % 2 ? flow_to : flow_from, b.at = net.indices(RATED_BRANCH)[i / 2];
            branch_power(w, c, b.at, i % 2, &p, &q);
            b.value = sqrt(p * p + q * q), b.hi = net.numbers(RATE)[i / 2], b.near = b.value == 0.0 ? 0.0 : power;
        }
        return b;
    }

    // list makes rows of the sides within reach, in the order of the quantities. The warp calls it.
    __device__ void list() const {
        const int all = 1 + w.gens + w.buses + 2 * w.net.size(RATED);
        const unsigned before = (1u << lane()) - 1;
        for (int first = 0; first < all; first += 32) {
            Bound b = bound(first + lane());
            const double gap[2] = {b.value - b.lo, b.hi - b.value};
            if (b.hi - b.lo < 2.0 * b.guard) b.guard = larger(0.0, (b.hi - b.lo) / 2.0);
            const unsigned low = __ballot_sync(GPC_FULL_MASK, gap[0] < b.near), high = __ballot_sync(GPC_FULL_MASK, gap[1] < b.near);
            int row = program.rows + __popc(low & before) + __popc(high & before);
            for (int side = 0; side < 2; side++) {
                if (!(gap[side] < b.near)) continue;
                program.bound[row] = b.guard - gap[side], program.guard[row] = b.guard, program.edge[row] = side ? b.hi : b.lo;
                program.of[row] = 2 * (b.at * quantities + b.what) + side;
                row++;
            }
            program.rows += __popc(low) + __popc(high);
        }
        __syncwarp();
    }

    // row_of is the row of the response with a bus's angle or magnitude; none changes the
    // angle of the reference.
    __device__ int row_of(int bus, bool size) const {
        const int r = w.net.indices(size ? SIZE : ANGLE)[bus];
        if (r >= 0) return r;
        return size ? w.unknowns + 1 + w.net.indices(UNIT)[bus] : w.unknowns;
    }

    // gradients writes those of the rows in the set-points, a lane each. The warp calls it.
    __device__ void gradients() const {
        const Network& net = w.net;
        const int *start = net.indices(OUTPUT_START), *in = net.indices(OUTPUT_ROW), *place = net.indices(OUTPUT_AT), *control = net.indices(CONTROL), n = program.n;
        for (int row = lane(); row < program.rows; row += 32) {
            const int of = program.of[row] / 2, what = of % quantities, at = of / quantities;
            const double sign = program.of[row] & 1 ? -1.0 : 1.0;
            int first = 0, end = 0, rows[4] = {w.unknowns, w.unknowns, w.unknowns, w.unknowns};
            double part[4] = {0.0, 0.0, 0.0, 0.0}; // in the four voltages of a branch
            if (what == slack_power || what == reactive_power) {
                first = start[2 * at + what], end = start[2 * at + what + 1];
            } else if (what == magnitude) {
                part[0] = 1.0, rows[0] = net.indices(SIZE)[at];
            } else {
                const bool to = what == flow_to;
                const int here = net.indices(to ? TO : FROM)[at], there = net.indices(to ? FROM : TO)[at];
                double p, q;
                branch_power(w, c, at, to, &p, &q);
                const double inverse = 1.0 / sqrt(p * p + q * q), *s = w.branch + 4 * at + (to ? 2 : 0);
                p *= inverse, q *= inverse;
                // Of p·P + q·Q with P = V²G + s₀ and Q = s₁ − V²B.
                const double own = w.vm[here], turn = q * s[0] - p * s[1], along = p * s[0] + q * s[1];
                const Admittance y = admittance(net, at, factor(net, at, c, true));
                part[0] = turn, part[1] = -turn;
                part[2] = 2.0 * own * (p * (to ? y.gtt : y.gff) - q * (to ? y.btt : y.bff)) + along / own;
                part[3] = along / w.vm[there];
                rows[0] = row_of(here, false), rows[1] = row_of(there, false), rows[2] = row_of(here, true), rows[3] = row_of(there, true);
            }
            constexpr int side = 6; // set-points side by side
#pragma unroll 1
            for (int j = 0; j < n; j += side) {
                double d[side] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
                auto add = [&](double v, int r) {
                    const double* x = w.response + r * n + j;
                    for (int i = 0; i < side; i++) d[i] += j + i < n ? v * x[i] : 0.0;
                };
                for (int e = first; e < end; e++) add(w.values[place[e]], in[e]);
                if (first == end)
                    for (int i = 0; i < 4; i++) add(part[i], rows[i]);
                for (int i = 0; i < side && j + i < n; i++) {
                    // The reference's other units take from its power.
                    if (what == slack_power && control[j + i] < w.gens && net.indices(GEN_BUS)[control[j + i]] == at) d[i] -= 1.0;
                    program.a[(j + i) * program.most + row] = sign * d[i];
                }
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
};

// correct changes u by the program at the present solution, which breaks a limit by at
// most broken; false where its Jacobian is singular. With keep the linearisation of the
// round before serves, its rows in number; the present solution says how far away their
// limits are. The warp calls it.
template <class Work>
__device__ inline bool correct(const Work& w, const double* c, bool keep, int* rows, double* broken) {
    const Network& net = w.net;
    LeastChange program(net, w.slow);
    Limits<Work> limits{w, c, program};
    if (keep) {
        program.rows = *rows;
        limits.again();
    } else {
        jacobian(w);
        if (!factorise(w)) return false;
        limits.list(); // reads margins, which the response may take the place of
        respond(w);
        limits.gradients();
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

// project dispatches u and, with move, moves it onto the limits first. Outputs and margins are
// afterwards those of the dispatch; it returns the smallest margin, and in solved whether the
// power flow has a solution. A dispatch is in one place: it is most of the kernel's code, and the
// instruction cache does not hold it twice. The warp calls it.
template <class Work>
__device__ inline double project(const Work& w, const double* s, const double* c, bool move, bool* solved) {
    const Network& net = w.net;
    const int slackGen = net.size(SLACK_GEN);
    if (move) clip(w, c);
    double best = -(double)gpc_inf(), last = 0.0, broken = 0.0;
#pragma unroll 1
    for (int round = 0, since = 0, rows = 0;; round++) {
        const double low = dispatch(w, s, c, solved);
        if (!move) return low;
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
