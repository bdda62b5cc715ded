// domain.cuh: what a control problem's device functions look like, and the
// kernels made from them.
//
// A domain writes one struct of static functions over its constants and lists it
// with GPC_DOMAIN(name, Struct) at the end of its .cu file. Sizes are compile-time
// constants of the struct. Functions in T = float serve the step, in T = double the
// roll-out; `constants` is the array of float64 that domain.Device packs.
//
//	struct Example {
//	    static constexpr int states = 4, contexts = 5, actions = 2, plan = 1, objectives = 2, margins = 3;
//	    template <class T> static void base(const double* constants, const T* s, const T* c, T* plan);
//	    template <class T> static void objective(const double* constants, const T* s, const T* u, const T* c, T* J);
//	    template <class T> static void gradient(const double* constants, const T* s, const T* u, const T* c, const T* sigma, T* gs, T* gu);
//	    static void indicators(const double* constants, const double* s, const double* u, const double* c, double* delta);
//	    static void step(const double* constants, const double* s, const double* c, const double* u, double* sNext, double* cNext);
//	    static void margin(const double* constants, const double* s, const double* c, const double* u, double* m);
//	    static bool project(const double* constants, const double* s, const double* c, double* u);
//	};
//
// each a __device__ function with the meaning of domain.Problem's method.
//
// With `static constexpr int lanes = 8` (2, 4, …, 32; DeviceCode.Lanes says so too) as
// many lanes of a warp work on a row of the roll-out, and project has one argument more:
//
//	    static bool project(const double* constants, const double* s, const double* c, double* u, bool active);
//
// All threads of the block, 256, call it at once, those of a row with the same numbers, and
// return the same; a row that is not active, as of lanes that have none, stays as it is. What is
// done together is done by shuffles and votes of whole warps, and behind barriers.
//
// A struct may also have
//
//	    static bool failed(const double* constants, const double* s, const double* c);
//	    static void evaluate(const double* constants, const double* s, const double* c, const double* u, double* J, double* m, double* sNext, double* cNext);
//
// with the meaning of domain.ProblemAbilities.Failed, and objective, margin and step in one, at the cost of one evaluation of the dynamics. One
// with lanes may have, in the place of project and evaluate, both in one:
//
//	    static void act(const double* constants, const double* s, const double* c, double* u, bool active, double* J, double* m, double* sNext, double* cNext);
//
// A row that is not active is not projected. The results, all but u, are the row's first lane's. In the place of gradient lanes may share one, as many as
// `static constexpr int gradient_lanes` (DeviceCode.GradientLanes says so too), of which each writes its own entries:
//
//	    template <class T> static void gradient_share(const double* constants, const T* s, const T* u, const T* c, const T* sigma, int lane, T* gs, T* gu);
#pragma once
#include "gpc.cuh"

// gpc_domain_batch is domain.Batch: rows `ld…` elements apart, 0 repeats one row.
struct gpc_domain_batch {
    const float* s;
    const float* u;
    const float* c;
    const float* sigma;
    float* J; // nullptr: not wanted
    float* gs;
    float* gu;
    int lds, ldu, ldc, ldsigma, ldJ, ldgs, ldgu;
    int rows;
};

// gpc_domain_preference is what the decision optimises, and how E_x reads it:
// normalised to (v − mean)/scale.
struct gpc_domain_preference {
    const double* weights; // [objectives] of a fixed preference; adaptive: not read
    const float* slot;     // [1 + objectives] as E_x reads the preference
    const double* semantic; // k/ε of each objective, then ρ
    const float* mean;     // [states + contexts + 1 + objectives]
    const float* scale;
    const double* behind; // domain.Quadratic: at, scale, slope [states + contexts each], curvature; nullptr: nothing comes behind a plan
    int adaptive, pad;
};

// gpc_domain_steering is the priority of many latents. With `how` each row says what
// happens to its σ: 0 it stays as it is, 1 eq. iclr-semantic replaces it, 2 it takes
// a step `gain` of the low-pass filter towards that; indicators that are not finite
// leave it. Without `how` it is the preference's.
struct gpc_domain_steering {
    const float* state;       // [rows, states] decoded ŝ, physical
    const float* plan;        // [rows, ldplan] decoded, of which the first action is read
    const double* c;          // [rows, contexts]
    const unsigned char* how; // [rows] or nullptr
    double* sigma;            // [rows, objectives]
    float* weights;           // [rows, objectives] σ ⊙ inverseRange
    unsigned char* flags;     // [rows] 2 where σ is new; nullptr without how
    double gain;
    int rows, ldplan;
};

// gpc_domain_rollout is one step of many roll-outs. State and context are replaced
// by the next ones, cost and margin accumulate.
struct gpc_domain_rollout {
    double* s;       // [rows, states]
    double* c;       // [rows, contexts]
    double* cost;    // [rows]
    double* margin;  // [rows] smallest so far
    const float* plan; // [rows, plan] decoded, physical
    double* best;    // [rows, plan] projected actions, written at step 0 or of a longer plan
    float* input;    // [rows, states + contexts + 1 + objectives] of E_x, for the base policy
    float* stateOut; // [rows, states] float32 copies, for Base
    float* contextOut; // [rows, contexts]
    float* base;       // [rows, plan] Base of the next state where encode is set; nullptr: taken apart
    double* workspace; // DeviceCode.Workspace bytes for each block; unset where it is 0
    double* margins;   // [rows, margins] of this step's action, each; nullptr: not wanted
    int* kept;         // [rows] steps before the state was lost; nullptr: not wanted
    int rows, h;     // h: the step, from 0
    int project;     // 0: actions are left as they are
    int encode;      // 1: the base policy acts next
    int last;        // 1: of a roll-out's last step; 2: and nobody asks where it leads
    int pad;
};

namespace gpc {

__device__ inline bool finite64(double v) { return v - v == 0.0; }

// priority is eq. iclr-semantic (domain.Semantic.Priority).
template <int M>
__device__ inline void priority(const double* semantic, const double* delta, double* sigma) {
    double top = 0.0;
    for (int i = 0; i < M; i++) top = fmax(top, semantic[i] * delta[i]);
    const double scale = exp(-top), rho = semantic[M];
    double sum = 0.0;
    for (int i = 0; i < M; i++) {
        sigma[i] = exp(semantic[i] * delta[i] - top) - scale + rho * scale;
        sum += sigma[i];
    }
    for (int i = 0; i < M; i++) sigma[i] /= sum;
}

// sigma_of is the priority at (s, u, c): the user's fixed weights, or the semantic
// one.
template <class P>
__device__ inline void sigma_of(const double* constants, const gpc_domain_preference& p, const double* s, const double* u, const double* c, double* sigma) {
    if (!p.adaptive) {
        for (int i = 0; i < P::objectives; i++) sigma[i] = p.weights[i];
        return;
    }
    double delta[P::objectives];
    P::indicators(constants, s, u, c, delta);
    priority<P::objectives>(p.semantic, delta, sigma);
}

template <class P>
__device__ inline void domain_priority(const gpc_domain_steering& job, const gpc_domain_preference& p, const double* constants, const double* inverseRange) {
    for (int64_t i = gpc_thread_x(); i < job.rows; i += gpc_threads_x()) {
        double s[P::states], u[P::actions], sigma[P::objectives];
        const double* c = job.c + i * P::contexts;
        for (int j = 0; j < P::states; j++) s[j] = (double)job.state[i * P::states + j];
        for (int j = 0; j < P::actions; j++) u[j] = (double)job.plan[i * job.ldplan + j];
        if (!job.how) {
            sigma_of<P>(constants, p, s, u, c, sigma);
        } else {
            bool steered = false;
            for (int j = 0; j < P::objectives; j++) sigma[j] = job.sigma[i * P::objectives + j];
            if (job.how[i]) {
                double delta[P::objectives], fresh[P::objectives];
                P::indicators(constants, s, u, c, delta);
                steered = true;
                for (int j = 0; j < P::objectives; j++) steered = steered && finite64(delta[j]);
                if (steered) {
                    priority<P::objectives>(p.semantic, delta, fresh);
                    for (int j = 0; j < P::objectives; j++) sigma[j] = job.how[i] == 1 ? fresh[j] : sigma[j] + job.gain * (fresh[j] - sigma[j]);
                }
            }
            job.flags[i] = steered ? 2 : 0;
        }
        for (int j = 0; j < P::objectives; j++) {
            job.sigma[i * P::objectives + j] = sigma[j];
            job.weights[i * P::objectives + j] = (float)(sigma[j] * inverseRange[j]);
        }
    }
}

template <class P>
__device__ inline void domain_base(int rows, const float* s, int lds, const float* c, int ldc, float* plan, int ldplan, const double* constants) {
    for (int64_t i = gpc_thread_x(); i < rows; i += gpc_threads_x()) {
        float out[P::plan];
        P::base(constants, s + i * lds, c + i * ldc, out);
        for (int j = 0; j < P::plan; j++) plan[i * ldplan + j] = out[j];
    }
}

// gradient_lanes_of is P::gradient_lanes, or one; gradient_of has a lane's entries from P::gradient_share, or all from P::gradient.
template <class P>
__device__ constexpr auto gradient_lanes_of(int) -> decltype(P::gradient_lanes) { return P::gradient_lanes; }
template <class P>
__device__ constexpr int gradient_lanes_of(long) { return 1; }
template <class P>
__device__ inline auto gradient_of(const double* k, const float* s, const float* u, const float* c, const float* sigma, int lane, float* gs, float* gu, int)
    -> decltype(P::gradient_share(k, s, u, c, sigma, lane, gs, gu)) {
    P::gradient_share(k, s, u, c, sigma, lane, gs, gu);
}
template <class P>
__device__ inline void gradient_of(const double* k, const float* s, const float* u, const float* c, const float* sigma, int, float* gs, float* gu, long) {
    float state[P::states], action[P::actions];
    P::gradient(k, s, u, c, sigma, state, action);
    for (int j = 0; j < P::states; j++) gs[j] = state[j];
    for (int j = 0; j < P::actions; j++) gu[j] = action[j];
}

template <class P>
__device__ inline void domain_gradient(const gpc_domain_batch& b, const double* constants) {
    constexpr int lanes = gradient_lanes_of<P>(0);
    const int lane = (int)gpc_thread_x() % lanes;
    for (int64_t i = gpc_thread_x() / lanes; i < b.rows; i += gpc_threads_x() / lanes) {
        const float *s = b.s + i * b.lds, *u = b.u + i * b.ldu, *c = b.c + i * b.ldc;
        gradient_of<P>(constants, s, u, c, b.sigma + i * b.ldsigma, lane, b.gs + i * b.ldgs, b.gu + i * b.ldgu, 0);
        if (b.J && lane == 0) {
            float J[P::objectives];
            P::objective(constants, s, u, c, J);
            for (int j = 0; j < P::objectives; j++) b.J[i * b.ldJ + j] = J[j];
        }
    }
}

// lanes_of is P::lanes, or one.
template <class P>
__device__ constexpr auto lanes_of(int) -> decltype(P::lanes) { return P::lanes; }
template <class P>
__device__ constexpr int lanes_of(long) { return 1; }
template <class P>
constexpr int rollout_threads = lanes_of<P>(0) > 1 ? 256 : 128;

// failed_of is P::failed, or never; evaluate_of is P::evaluate, or its three parts.
template <class P>
__device__ inline auto failed_of(const double* k, const double* s, const double* c, int) -> decltype(P::failed(k, s, c)) { return P::failed(k, s, c); }
template <class P>
__device__ inline bool failed_of(const double*, const double*, const double*, long) { return false; }
template <class P>
__device__ inline auto evaluate_of(const double* k, const double* s, const double* c, const double* u, double* J, double* m, double* sNext, double* cNext, bool, int)
    -> decltype(P::evaluate(k, s, c, u, J, m, sNext, cNext)) {
    return P::evaluate(k, s, c, u, J, m, sNext, cNext);
}
template <class P>
__device__ inline void evaluate_of(const double* k, const double* s, const double* c, const double* u, double* J, double* m, double* sNext, double* cNext, bool steps, long) {
    P::objective(k, s, u, c, J);
    P::margin(k, s, c, u, m);
    if (steps) P::step(k, s, c, u, sNext, cNext);
}

// behind_of is a domain.Quadratic at (s, c): with delta the way from its place in units of its scale, slope·delta + ½ deltaᵀ curvature delta.
template <class P>
__device__ inline double behind_of(const double* q, const double* s, const double* c) {
    constexpr int n = P::states + P::contexts;
    double delta[n], sum = 0.0;
    for (int i = 0; i < n; i++) delta[i] = ((i < P::states ? s[i] : c[i - P::states]) - q[i]) / q[n + i];
    for (int i = 0; i < n; i++) {
        double row = 0.0;
        for (int k = 0; k < n; k++) row += q[(3 + i) * n + k] * delta[k];
        sum += (q[2 * n + i] + row / 2) * delta[i];
    }
    return sum;
}

// Outcome is what an action leads to.
template <class P>
struct Outcome {
    double J[P::objectives], m[P::margins], s[P::states], c[P::contexts];
};

// acts_of says whether there is a P::act.
template <class P>
__device__ constexpr auto acts_of(int) -> decltype(&P::act, true) { return true; }
template <class P>
__device__ constexpr bool acts_of(long) { return false; }

// act_of projects u where project and active are true; P::act writes its outcome too. All threads of a block whose rows have several lanes call it;
// meet is the barrier behind which one may replace what all read.
template <class P, class F>
__device__ inline void act_of(const double* k, const double* s, const double* c, double* u, bool project, bool active, Outcome<P>& to, F&& meet) {
    if constexpr (acts_of<P>(0)) {
        P::act(k, s, c, u, project && active, to.J, to.m, to.s, to.c);
    } else if constexpr (lanes_of<P>(0) > 1) {
        if (project) P::project(k, s, c, u, active);
    } else if (active && project) {
        P::project(k, s, c, u);
    }
    if (lanes_of<P>(0) > 1) meet();
}

// roll takes the projected action u in (s, c), which become the next state and context, and adds up cost and
// margin. A roll-out that leaves the numbers stays where it is. It returns whether the state is lost (failed_of). last is
// gpc_domain_rollout's; acted: what P::act wrote; margins: those of this action, nullptr: not wanted.
template <class P>
__device__ inline bool roll(const double* constants, const gpc_domain_preference& p, double* s, double* c, const double* u, const Outcome<P>& acted, int last, double& cost, double& margin, double* margins) {
    const double infinity = (double)gpc_inf();
    double sigma[P::objectives];
    Outcome<P> own;
    sigma_of<P>(constants, p, s, u, c, sigma);
    if constexpr (!acts_of<P>(0)) evaluate_of<P>(constants, s, c, u, own.J, own.m, own.s, own.c, last != 2, 0);
    const Outcome<P>& to = acts_of<P>(0) ? acted : own;
    for (int j = 0; j < P::margins && margins; j++) margins[j] = to.m[j];
    for (int j = 0; j < P::objectives; j++) cost += sigma[j] * to.J[j];
    // The smallest margin; a NaN among them stays NaN.
    double low = infinity;
    for (int j = 0; j < P::margins; j++) low = to.m[j] != to.m[j] || to.m[j] < low ? to.m[j] : low;
    for (int j = 0; j < P::margins; j++) low = to.m[j] != to.m[j] ? to.m[j] : low;
    margin = low != low || margin != margin ? low + margin : (low < margin ? low : margin);
    if (last == 2) return false;
    bool stays = true;
    for (int j = 0; j < P::states; j++) stays = stays && finite64(to.s[j]);
    for (int j = 0; j < P::contexts; j++) stays = stays && finite64(to.c[j]);
    for (int j = 0; stays && j < P::states; j++) s[j] = to.s[j];
    for (int j = 0; stays && j < P::contexts; j++) c[j] = to.c[j];
    const bool lost = failed_of<P>(constants, s, c, 0);
    if (!stays || lost) margin = -infinity;
    if (last && p.behind) cost += behind_of<P>(p.behind, s, c);
    return lost;
}

template <class P>
__device__ inline void domain_rollout(const gpc_domain_rollout& r, const gpc_domain_preference& p, const double* constants) {
    const double infinity = (double)gpc_inf();
    constexpr int lanes = lanes_of<P>(0);
    // Where lanes share a row, blocks have rows side by side, as few as there are blocks for,
    // and their threads stay together: those that have none take the last one, and write nothing.
    const int64_t rows = lanes > 1 ? (r.rows + gridDim.x - 1) / (int)gridDim.x : 1;
    const int64_t begin = lanes > 1 ? blockIdx.x * rows : gpc_thread_x();
    const int64_t end = lanes > 1 ? (begin + rows < r.rows ? begin + rows : r.rows) : r.rows;
    for (int64_t row = begin; row < end; row += lanes > 1 ? blockDim.x / lanes : gpc_threads_x()) {
        const bool has = lanes == 1 || row + threadIdx.x / lanes < end;
        const int64_t i = lanes == 1 ? row : (has ? row + threadIdx.x / lanes : end - 1);
        double s[P::states], c[P::contexts], u[P::actions];
        Outcome<P> to;
        const int at = P::plan > P::actions ? r.h * P::actions : 0;
        bool sound = true;
        for (int j = 0; j < P::states; j++) s[j] = r.s[i * P::states + j], sound = sound && finite64(s[j]);
        for (int j = 0; j < P::contexts; j++) c[j] = r.c[i * P::contexts + j];
        for (int j = 0; j < P::actions; j++) u[j] = (double)r.plan[i * P::plan + at + j], sound = sound && finite64(u[j]);
        double margin = r.h == 0 ? infinity : r.margin[i];
        if (!sound) {
            margin = -infinity;
            for (int j = 0; j < P::actions; j++) u[j] = 0.0;
        }
        act_of<P>(constants, s, c, u, r.project, sound && has, to, [] { __syncthreads(); }); // all have read what one replaces
        if (!has || threadIdx.x % lanes) continue;
        // What lies beyond the look-ahead stays as it was decoded.
        if (r.h == 0)
            for (int j = P::actions; j < P::plan; j++) r.best[i * P::plan + j] = (double)r.plan[i * P::plan + j];
        if (r.h == 0 || P::plan > P::actions)
            for (int j = 0; j < P::actions; j++) r.best[i * P::plan + at + j] = u[j];
        double cost = r.h == 0 ? 0.0 : r.cost[i];
        const bool lost = roll<P>(constants, p, s, c, u, to, r.last, cost, margin, r.margins ? r.margins + i * P::margins : nullptr);
        // Of a state that was lost before it stays as it is, less than h.
        if (r.kept && (r.h == 0 || r.kept[i] == r.h)) r.kept[i] = lost ? r.h : r.h + 1;
        for (int j = 0; j < P::states; j++) r.s[i * P::states + j] = s[j];
        for (int j = 0; j < P::contexts; j++) r.c[i * P::contexts + j] = c[j];
        r.cost[i] = cost, r.margin[i] = margin;
        if (r.encode) {
            constexpr int width = P::states + P::contexts + 1 + P::objectives;
            float* in = r.input + i * width;
            for (int j = 0; j < P::states; j++) {
                const float v = (float)s[j];
                r.stateOut[i * P::states + j] = v, in[j] = (v - p.mean[j]) / p.scale[j];
            }
            for (int j = 0; j < P::contexts; j++) {
                const float v = (float)c[j];
                const int k = P::states + j;
                r.contextOut[i * P::contexts + j] = v, in[k] = (v - p.mean[k]) / p.scale[k];
            }
            if (r.base) P::base(constants, r.stateOut + i * P::states, r.contextOut + i * P::contexts, r.base + i * P::plan);
            for (int j = 0; j < 1 + P::objectives; j++) {
                const int k = P::states + P::contexts + j;
                in[k] = (p.slot[j] - p.mean[k]) / p.scale[k];
            }
        }
    }
}

} // namespace gpc

// GPC_DOMAIN makes the kernels of a domain: gpc_domain_base_NAME,
// gpc_domain_gradient_NAME, gpc_domain_priority_NAME, gpc_domain_rollout_NAME. Grid
// ⌈rows/32⌉, block 32, or, of more rows than fill the multiprocessors so, ⌈rows/128⌉,
// block 128: a thread a row, no shared memory; where lanes share a gradient, as if each were
// a row. Where lanes share a row of the roll-out: any grid of ⌈lanes·rows/256⌉ blocks at least, block 256. The file lists them with GPC_KERNEL
// after it.
//
// gpc_domain_priority_NAME is σ at the decoded state and first action of each
// latent, and the effective weights σ ⊙ inverseRange of the step.
#define GPC_DOMAIN(name, P)                                                                                                                            \
    extern "C" __global__ void __launch_bounds__(128) gpc_domain_base_##name(int rows, const float* s, int lds, const float* c, int ldc, float* plan,   \
                                                                             int ldplan, const double* constants) {                                    \
        gpc::domain_base<P>(rows, s, lds, c, ldc, plan, ldplan, constants);                                                                            \
    }                                                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(128) gpc_domain_gradient_##name(gpc_domain_batch b, const double* constants) {                        \
        gpc::domain_gradient<P>(b, constants);                                                                                                         \
    }                                                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(gpc::rollout_threads<P>) gpc_domain_rollout_##name(gpc_domain_rollout r, gpc_domain_preference p, const double* constants) { \
        gpc::domain_rollout<P>(r, p, constants);                                                                                                       \
    }                                                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(128) gpc_domain_priority_##name(gpc_domain_steering job, gpc_domain_preference p, const double* constants, \
                                                                                 const double* inverseRange) {                                         \
        gpc::domain_priority<P>(job, p, constants, inverseRange);                                                                                      \
    }
