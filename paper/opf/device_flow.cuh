// device_flow.cuh: the power flow of one dispatch by a warp, as package powerflow
// has it: Newton in polar form with factors kept where they are good enough and
// steps of bounded length, then what the units give and all margins.
//
// Unknowns are the angle of every bus but the reference and the voltage of every bus
// without a unit. Their Jacobian has one pattern for all rows. device_program.go writes its LU factorisation and the solves as
// rounds of tasks once, a task a lane: run executes them.
#pragma once
#include "device_network.cuh"

namespace opf {

// WorkOf is where a warp computes: the fast part in shared memory where it fits, the
// rest in device memory. Which of them is known when it is compiled: addresses of shared memory are
// half as long and need no translation.
template <bool inShared>
struct WorkOf {
    Network net;
    int buses, gens, branches, unknowns;
    double *vm, *va;        // the solution; together a state
    double *p, *q;          // net injections there
    double *own_g, *own_b;  // the diagonal of the bus admittance matrix
    double* branch;         // [branches, 4]: V_f·V_t times along and across at the from end, and at the to end
    double *values, *rhs;   // rhs is a part of the values
    double *pg, *qg;        // what the units give
    double* u;
    double *e, *f, *ps, *qs; // voltages in rectangular form; injections that are wanted
    double* margin;
    double* response; // [UNKNOWNS + 1 + gens, CONTROLS] of the voltages to the set-points; may take the place of e to margin
    double* slow;     // of the least change, device_change.cuh

    __device__ WorkOf(const double* constants, double* shared, double* workspace) : net(constants) {
        buses = net.size(BUSES), gens = net.size(GENS), branches = net.size(BRANCHES), unknowns = net.size(UNKNOWNS);
        double* at = inShared ? shared : workspace;
        auto take = [&](int n) {
            double* start = at;
            at += n;
            return start;
        };
        vm = take(buses), va = take(buses), p = take(buses), q = take(buses), own_g = take(buses), own_b = take(buses);
        branch = take(4 * branches), values = take(net.size(VALUES)), rhs = values + net.size(INVERSE) + unknowns;
        pg = take(gens), qg = take(gens), u = take(2 * gens);
        response = at;
        e = take(buses), f = take(buses), ps = take(buses), qs = take(buses), margin = take(margins());
        slow = inShared ? workspace : at;
        if (!net.size(RESPONSE_SHARED)) response = slow, slow += responses() * net.size(CONTROLS);
    }

    __device__ int responses() const { return unknowns + 1 + gens; }

    // margin holds P_G, Q_G, V, S and ramp, in this order.
    __device__ double* margin_q() const { return margin + gens; }
    __device__ double* margin_v() const { return margin + 2 * gens; }
    __device__ double* margin_s() const { return margin + 2 * gens + buses; }
    __device__ double* margin_ramp() const { return margin_s() + net.size(RATED); }
    __device__ int margins() const { return 3 * gens + buses + net.size(RATED); }
};

// load_p and load_q are the loads of a bus.
template <class Work>
__device__ inline double load_p(const Work& w, const double* c, int i) {
    const int at = w.net.indices(LOAD_P)[i];
    return at < 0 ? 0.0 : c[at];
}
template <class Work>
__device__ inline double load_q(const Work& w, const double* c, int i) {
    const int at = w.net.indices(LOAD_Q)[i];
    return at < 0 ? 0.0 : c[at];
}

// prepare sums up what the context alone says of a row. The warp calls it.
template <class Work>
__device__ inline void prepare(const Work& w, const double* c) {
    const Network& net = w.net;
    const int *start = net.indices(NEAR_START), *near = net.indices(NEAR);
    for (int i = lane(); i < w.buses; i += 32) {
        double g = net.numbers(SHUNT_G)[i], b = net.numbers(SHUNT_B)[i];
        for (int e = start[i]; e < start[i + 1]; e++) {
            const int k = near[e] >> 1;
            const Admittance y = admittance(net, k, factor(net, k, c, true));
            g += near[e] & 1 ? y.gtt : y.gff, b += near[e] & 1 ? y.btt : y.bff;
        }
        w.own_g[i] = g, w.own_b[i] = b;
    }
    if (lane() < 2) w.rhs[w.unknowns + lane()] = (double)lane(); // the program's 0 and 1
    __syncwarp();
}

// branch_power is the flow into branch k at one of its ends.
template <class Work>
__device__ inline void branch_power(const Work& w, const double* c, int k, bool to, double* p, double* q) {
    const Admittance y = admittance(w.net, k, factor(w.net, k, c, true));
    const double v = w.vm[w.net.indices(to ? TO : FROM)[k]], *s = w.branch + 4 * k + (to ? 2 : 0);
    *p = v * v * (to ? y.gtt : y.gff) + s[0], *q = s[1] - v * v * (to ? y.btt : y.bff);
}

__device__ inline void put(double* values, int at, double v) {
    if (at >= 0) values[at] = v;
}

// evaluate computes branches and injections at vm, va and what the equations lack,
// into rhs. It returns the largest mismatch, rounded, and in within whether none is above the
// tolerance. The warp calls it.
template <class Work>
__device__ inline float evaluate(const Work& w, const double* c, bool* within) {
    const Network& net = w.net;
    const int *from = net.indices(FROM), *to = net.indices(TO);
    for (int i = lane(); i < w.buses; i += 32) {
        double sn, cs;
        sincos(w.va[i], &sn, &cs);
        w.e[i] = w.vm[i] * cs, w.f[i] = w.vm[i] * sn;
    }
    __syncwarp();
    for (int k = lane(); k < w.branches; k += 32) {
        const Admittance y = admittance(net, k, factor(net, k, c, true));
        const int f = from[k], t = to[k];
        const double ef = w.e[f], ff = w.f[f], et = w.e[t], ft = w.f[t];
        const double cs = ef * et + ff * ft, sn = ff * et - ef * ft; // times V_f·V_t
        double* s = w.branch + 4 * k;
        s[0] = y.gft * cs + y.bft * sn, s[1] = y.gft * sn - y.bft * cs;
        s[2] = y.gtf * cs - y.btf * sn, s[3] = -y.gtf * sn - y.btf * cs;
    }
    __syncwarp();
    const int *start = net.indices(NEAR_START), *near = net.indices(NEAR), *angle = net.indices(ANGLE), *size = net.indices(SIZE);
    double worst = 0.0;
    for (int i = lane(); i < w.buses; i += 32) {
        const double vv = w.vm[i] * w.vm[i];
        double p = vv * w.own_g[i], q = -vv * w.own_b[i];
#pragma unroll 4
        for (int e = start[i]; e < start[i + 1]; e++) {
            const double* s = w.branch + 2 * near[e]; // of the end that is here
            p += s[0], q += s[1];
        }
        w.p[i] = p, w.q[i] = q;
        const double lackP = w.ps[i] - p, lackQ = w.qs[i] - q;
        if (angle[i] >= 0) w.rhs[angle[i]] = lackP, worst = larger(worst, fabs(lackP));
        if (size[i] >= 0) w.rhs[size[i]] = lackQ, worst = larger(worst, fabs(lackQ));
    }
    *within = __all_sync(GPC_FULL_MASK, worst <= net.k[FLOW_TOLERANCE]);
    float rounded = (float)worst;
    for (int o = 16; o > 0; o /= 2) {
        const float other = __shfl_xor_sync(GPC_FULL_MASK, rounded, o);
        rounded = rounded != rounded || rounded > other ? rounded : other;
    }
    __syncwarp();
    return rounded;
}

// jacobian writes ∂(P, Q)/∂(θ, V) of the state last evaluated. The warp calls it.
template <class Work>
__device__ inline void jacobian(const Work& w) {
    const Network& net = w.net;
    const int *from = net.indices(FROM), *to = net.indices(TO);
    for (int i = lane(); i < net.size(INVERSE); i += 32) w.values[i] = 0.0;
    __syncwarp();
    for (int i = lane(); i < w.buses; i += 32) {
        // With the diagonal G + jB of the bus admittance matrix: ∂P/∂θ = −Q − BV²,
        // V·∂P/∂V = P + GV², ∂Q/∂θ = P − GV², V·∂Q/∂V = Q − BV².
        const double v = w.vm[i], inverse = 1.0 / v, g = w.own_g[i] * v * v, b = w.own_b[i] * v * v, p = w.p[i], q = w.q[i];
        const int* own = net.indices(OWN) + 4 * i;
        put(w.values, own[0], -q - b), put(w.values, own[1], (p + g) * inverse);
        put(w.values, own[2], p - g), put(w.values, own[3], (q - b) * inverse);
    }
    // Branches between the same two buses share their entries.
    const int *pairStart = net.indices(PAIR_START), *pair = net.indices(PAIR);
    for (int g = lane(); g < net.size(PAIRS); g += 32) {
        double a[4] = {0.0, 0.0, 0.0, 0.0}, b[4] = {0.0, 0.0, 0.0, 0.0};
        for (int e = pairStart[g]; e < pairStart[g + 1]; e++) {
            const int k = pair[e] >> 1;
            const double vf = 1.0 / w.vm[from[k]], vt = 1.0 / w.vm[to[k]], *s = w.branch + 4 * k;
            const double ahead[4] = {s[1], s[0] * vt, -s[0], s[1] * vt}, behind[4] = {s[3], s[2] * vf, -s[2], s[3] * vf};
            const bool turned = pair[e] & 1;
            for (int i = 0; i < 4; i++) a[i] += turned ? behind[i] : ahead[i], b[i] += turned ? ahead[i] : behind[i];
        }
        const int* at = net.indices(PAIR_AT) + 8 * g;
        for (int i = 0; i < 4; i++) put(w.values, at[i], a[i]), put(w.values, at[4 + i], b[i]);
    }
    __syncwarp();
}

// Task is one of device_program.go.
struct Task {
    int2 head, product[2];

    // It is read from the first of all, which a loop finds out beforehand.
    __device__ Task(const int2* first, int tasks, int at) : head(first[at]), product{first[tasks + at], first[2 * tasks + at]} {}
    __device__ static const int2* first(const Network& net) { return reinterpret_cast<const int2*>(net.indices(TASK)); }

    __device__ static int low(int both) { return (int)((unsigned)both & 0xffffu); }
    __device__ static int high(int both) { return (int)((unsigned)both >> 16); }

    __device__ int place() const { return low(head.x); }
    __device__ int out() const { return high(head.x); }
    __device__ bool inverts() const { return head.y < 0; }
    __device__ int scale() const { return head.y; }

    // minus is sum less the products of v with x.
    template <class V, class X>
    __device__ double minus(double sum, V v, X x) const {
        const double more = v(low(product[1].x)) * x(high(product[1].x)) + v(low(product[1].y)) * x(high(product[1].y));
        sum -= v(low(product[0].x)) * x(high(product[0].x));
        return sum - v(low(product[0].y)) * x(high(product[0].y)) - more;
    }
};

// run executes rounds of the program on the values; false at a pivot that is zero or not
// finite. The tasks of a round wait for no value: they are read two rounds ahead, since one is
// shorter than a read of the second-level cache. The warp calls it.
template <class Work>
__device__ inline bool run(const Work& w, int first, int rounds) {
    const Network& net = w.net;
    const int *start = net.indices(ROUND_START) + first, tasks = net.size(TASKS), last = tasks - 1;
    const int2* task = Task::first(net);
    double* v = w.values;
    const auto value = [&](int at) { return v[at]; };
    bool sound = true;
    int begin = start[0], end = start[1], then = start[min(2, rounds)];
    Task next(task, tasks, min(begin + lane(), last)), after(task, tasks, min(end + lane(), last));
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        const Task now = next;
        const bool busy = begin + lane() < end;
        next = after, after = Task(task, tasks, min(then + lane(), last));
        begin = end, end = then, then = start[min(r + 3, rounds)];
        if (busy) {
            double sum = now.minus(v[now.place()], value, value);
            if (now.inverts()) {
                sound = sound && gpc::finite64(sum) && sum != 0.0;
                sum = 1.0 / sum;
            } else {
                sum *= v[now.scale()];
            }
            v[now.out()] = sum;
        }
        __syncwarp();
    }
    return __all_sync(GPC_FULL_MASK, sound);
}

// factorise replaces the matrix by its factors, and rhs by what a solve makes of it forward;
// false where it is singular. forward does the latter with factors that are there, and backward
// ends a solve. The warp calls them.
template <class Work>
__device__ inline bool factorise(const Work& w) { return run(w, 0, w.net.size(FACTOR_ROUNDS)); }
template <class Work>
__device__ inline void forward(const Work& w) { run(w, w.net.size(FACTOR_ROUNDS), w.net.size(FORWARD_ROUNDS)); }
template <class Work>
__device__ inline void backward(const Work& w) { run(w, w.net.size(FACTOR_ROUNDS) + w.net.size(FORWARD_ROUNDS), w.net.size(BACKWARD_ROUNDS)); }

// respond computes how the voltages follow the set-points, by the factors at hand: the
// angles and magnitudes of the unknowns, a row of zeros, the magnitudes of the units' buses. All
// right-hand sides go through the rounds together, a lane each and the tasks of a round side by
// side. The warp calls it.
template <class Work>
__device__ inline void respond(const Work& w) {
    const Network& net = w.net;
    const int n = net.size(CONTROLS), rows = w.responses(), base = net.size(INVERSE) + w.unknowns;
    const int *control = net.indices(CONTROL), *columns = net.indices(COLUMN_START);
    double *x = w.response, *v = w.values;
    for (int i = lane(); i < rows * n; i += 32) x[i] = 0.0;
    __syncwarp();
    for (int j = lane(); j < n; j += 32) {
        const int at = control[j], g = at - w.gens;
        if (g < 0) {
            const int r = net.indices(ANGLE)[net.indices(GEN_BUS)[at]];
            if (r >= 0) x[r * n + j] = 1.0;
        } else {
            x[(w.unknowns + 1 + g) * n + j] = 1.0;
            for (int e = columns[g]; e < columns[g + 1]; e++) x[net.indices(COLUMN_ROW)[e] * n + j] = -v[net.indices(COLUMN_AT)[e]];
        }
    }
    __syncwarp();
    int width = 32;
    while (width / 2 >= n) width /= 2;
    const int *start = net.indices(ROUND_START) + net.size(FACTOR_ROUNDS), rounds = net.size(FORWARD_ROUNDS) + net.size(BACKWARD_ROUNDS), tasks = net.size(TASKS);
    const int2* task = Task::first(net);
    for (int r = 0; r < rounds; r++) {
        // Two tasks at once, since one waits for memory most of the time.
        const int end = start[r + 1], side = 32 / width;
        for (int at = start[r] + lane() / width; at < end; at += 2 * side) {
            const Task t[2] = {Task(task, tasks, at), Task(task, tasks, at + side < end ? at + side : at)};
            for (int j = lane() % width; j < n; j += width) {
                double sum[2];
                const auto value = [&](int at) { return v[at]; };
                const auto column = [&](int at) { return x[(at - base) * n + j]; };
                for (int k = 0; k < 2; k++) sum[k] = t[k].minus(column(t[k].place()), value, column) * v[t[k].scale()];
                for (int k = 0; k < 2; k++) x[(t[k].place() - base) * n + j] = sum[k];
            }
        }
        __syncwarp();
    }
}

// specify takes the set-points and loads as what a power flow is to give. The warp calls it.
template <class Work>
__device__ inline void specify(const Work& w, const double* c) {
    const int *start = w.net.indices(BUS_GEN_START), *unit = w.net.indices(BUS_GEN);
    for (int i = lane(); i < w.buses; i += 32) {
        double injected = 0.0;
        for (int e = start[i]; e < start[i + 1]; e++) injected += w.u[unit[e]];
        w.ps[i] = injected - load_p(w, c, i), w.qs[i] = -load_q(w, c, i);
    }
    __syncwarp();
}

// newton solves the power flow of the set-points from the voltages in vm, va. It
// ends after FLOW_ITERATIONS steps, or where the mismatch runs away. The warp calls it.
template <class Work>
__device__ inline bool newton(const Work& w, const double* c) {
    const Network& net = w.net;
    const int *genBus = net.indices(GEN_BUS), *unitOf = net.indices(UNIT), *angle = net.indices(ANGLE), *size = net.indices(SIZE);
    for (int g = lane(); g < w.gens; g += 32) w.vm[genBus[g]] = w.u[w.gens + unitOf[genBus[g]]];
    if (lane() == 0) w.va[net.size(SLACK)] = 0.0;
    __syncwarp();
    const float infinity = gpc_inf();
    float made = infinity, last = infinity; // the mismatch that the factors were made at, and the last
#pragma unroll 1
    for (int i = 0;; i++) {
        bool within;
        const float worst = evaluate(w, c, &within);
        if (within) return true;
        if (!(worst < (float)net.k[HOPELESS]) || i == (int)net.k[FLOW_ITERATIONS]) return false;
        if (made > (float)net.k[KEEP_FACTORS] || worst > last / 2.0f) {
            jacobian(w);
            if (!factorise(w)) return false;
            made = worst;
        } else {
            forward(w);
        }
        last = worst;
        backward(w);
        bool far = false;
        for (int b = lane(); b < w.buses; b += 32) {
            if (angle[b] >= 0) far = far || !(fabs(w.rhs[angle[b]]) <= net.k[ANGLE_STEP]);
            if (size[b] >= 0) far = far || !(fabs(w.rhs[size[b]]) <= net.k[MAGNITUDE_STEP] * w.vm[b]);
        }
        double scale = 1.0;
        if (__any_sync(GPC_FULL_MASK, far)) {
            double turn = 0.0, grow = 0.0;
            for (int b = lane(); b < w.buses; b += 32) {
                if (angle[b] >= 0) turn = larger(turn, fabs(w.rhs[angle[b]]));
                if (size[b] >= 0) grow = larger(grow, fabs(w.rhs[size[b]] / w.vm[b]));
            }
            turn = warp_largest(turn), grow = warp_largest(grow);
            if (turn > net.k[ANGLE_STEP]) scale = net.k[ANGLE_STEP] / turn;
            if (grow * scale > net.k[MAGNITUDE_STEP]) scale = net.k[MAGNITUDE_STEP] / grow;
        }
        for (int b = lane(); b < w.buses; b += 32) {
            if (angle[b] >= 0) w.va[b] += scale * w.rhs[angle[b]];
            if (size[b] >= 0) w.vm[b] += scale * w.rhs[size[b]];
        }
        __syncwarp();
    }
}

// output fills in what the units give at the solution (powerflow, share). The warp calls it.
template <class Work>
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
template <class Work>
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

// begin sets the voltages of a start: those of the state s, or flat without one. It is false
// where no power flow begins there. The warp calls it.
template <class Work>
__device__ inline bool begin(const Work& w, const double* s) {
    const double reference = s ? s[w.buses + w.net.size(SLACK)] : 0.0;
    bool started = true;
    for (int i = lane(); i < w.buses; i += 32) {
        w.vm[i] = s ? s[i] : 1.0, w.va[i] = s ? s[w.buses + i] - reference : 0.0;
        started = started && w.vm[i] > 0.0 && gpc::finite64(w.vm[i]) && gpc::finite64(w.va[i]);
    }
    started = __all_sync(GPC_FULL_MASK, started);
    __syncwarp(); // newton sets magnitudes that other lanes have set here: a vote orders no memory
    return started;
}

// dispatch solves the power flow of the set-points under context c from the state s,
// or from a flat start where that fails, and fills in outputs and margins. solved is
// false where there is no solution; the margins are then −1. It returns the smallest. Later
// rounds of a projection begin at s too, as the host's do: from nearer by, a power flow to its
// tolerance ends up to 1e-9 pu elsewhere. The warp calls it.
template <class Work>
__device__ inline double dispatch(const Work& w, const double* s, const double* c, bool* solved) {
    // Set-points that no power flow has: not finite, a magnitude of zero.
    bool possible = true;
    for (int g = lane(); g < w.gens; g += 32) {
        const double v = w.u[w.gens + w.net.indices(UNIT)[w.net.indices(GEN_BUS)[g]]];
        possible = possible && gpc::finite64(w.u[g]) && gpc::finite64(v) && v > 0.0;
    }
    for (int i = lane(); i < w.net.size(PREVIOUS); i += 32) possible = possible && gpc::finite64(c[i]);
    possible = __all_sync(GPC_FULL_MASK, possible);
    specify(w, c);
    *solved = false;
#pragma unroll 1
    for (int flat = 0; possible && !*solved && flat < 2; flat++) *solved = begin(w, flat ? nullptr : s) && newton(w, c);
    if (!*solved) {
        __syncwarp();
        for (int i = lane(); i < w.margins(); i += 32) w.margin[i] = -1.0;
        __syncwarp();
        return -1.0;
    }
    output(w, c);
    return measure(w, c);
}

} // namespace opf
