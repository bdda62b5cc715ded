// policy.cuh: whole roll-outs of the base policy in one kernel. At each of H steps, for every candidate,
//
//	z = E_x([s, c, slot]) + o_h,  u = Project(s, c, clip(Base + D_u(z))),  cost += σᵀJ,  margin = min(margin, m),  (s, c) = Step(s, c, u)
//
// A block of 256 threads has 8 or 16 candidates to their end, so that no candidate waits for those of another block. Its networks
// are products of half-precision numbers on tensor cores, units by candidates: as much of the weights as fits stays in shared
// memory, the rest comes from the second-level cache at every step. In one part weights and activations are
// rounded to 11 bits; in two parts each is a sum of two such numbers and a product is three, which leaves float32's accuracy. The problem's
// functions are in float64, as many lanes a candidate as it asks for. What is scored is what was executed, whatever the networks
// were rounded to.
//
// Bound, of 1024 candidates of two networks of 256 × 256: reading 0.3 MB of weights a block and step, one part, a third of them from the
// second-level cache.
#pragma once
#include "domain.cuh"
#include "half.cuh"

// gpc_policy_layer is one layer of E_x or D_u: tiles of 16 units by 16 of the depth, depth first, each part after the other.
struct gpc_policy_layer {
    const uint4* tiles; // [depth, units, parts, 32]
    const float* bias;  // [16 units]
    int depth, units;   // in tiles
    int resident, at;   // so many of the depth lie in shared memory, from fragment `at` on
    int across, pad;    // 2^across warps make as many tiles of units, or fewer, side by side: at most 8
    int kind, biases;   // 0 hidden, 1 the latent, 2 the plan; biases: where they lie in shared memory, in numbers
};

constexpr int gpc_policy_layers = 32;

struct gpc_policy {
    gpc_policy_layer layer[gpc_policy_layers];
    int layers, decoder; // the decoder's first
    int stride;          // of a row of activations, in numbers
    int fragments;       // resident, of 16 bytes
};

struct gpc_policy_job {
    const gpc_policy* net;
    const double* s;      // [states] where all begin
    const double* c;      // [contexts]
    const float* latent;  // [n] z_0
    const float* offsets; // [rows, steps·n]; nullptr: nothing bends the policy
    const float* plan;    // [rows, plan] the first actions, decoded; nullptr: they are decoded here
    const float* mean;    // of the plan, [plan]
    const float* scale;
    const float* lo;
    const float* hi;
    double* cost;     // [rows]
    double* margin;   // [rows]
    int* kept;        // [rows] steps before the state was lost; nullptr: not wanted
    float* first;     // [rows, plan] the first actions, decoded; nullptr: not wanted
    double* best;     // [rows, plan] the same, projected; nullptr: not wanted
    double* executed; // [rows, steps, actions]; nullptr: not wanted
    const int* done;  // nothing to do where that is not 0; nullptr: there is
    int rows, steps, n, project, last;
    int pad;
};

namespace gpc {

constexpr int policyThreads = 256, policyWarps = policyThreads / 32;

// PolicyRows are R candidates in shared memory, with what every step reads of the networks.
template <class P, int R>
struct PolicyRows {
    static constexpr int observed = P::states + P::contexts + 1 + P::objectives, latents = 64;
    double s[R][P::states], c[R][P::contexts], cost[R], margin[R];
    gpc_policy_layer layer[gpc_policy_layers];
    float base[R][P::plan], plan[R][P::plan], offset[R][latents];
    float partial[policyWarps * 16 * R];
    float mean[observed], scale[observed], slot[1 + P::objectives];
    float planMean[P::plan], planScale[P::plan], lo[P::plan], hi[P::plan];
    int kept[R];
};

// Halves are activations of R rows, part after part.
struct Halves {
    unsigned short* at;
    int stride, plane; // from row to row, from part to part
    template <int PARTS>
    __device__ void put(int row, int k, float v) const {
        const unsigned short h = half_of(v);
        at[row * stride + k] = h;
        if (PARTS == 2) at[plane + row * stride + k] = rest_of(v, h);
    }
};

// PolicySums are a warp's sums of two tiles of units for R = 8·NT rows: of the products of the first parts, and of the rest.
template <int NT, int PARTS>
struct PolicySums {
    float sum[2][NT][4], rest[2][NT][4];

    __device__ PolicySums() {
#pragma unroll
        for (int e = 0; e < 8 * NT; e++) sum[e / (4 * NT)][e / 4 % NT][e % 4] = rest[e / (4 * NT)][e / 4 % NT][e % 4] = 0.0f;
    }

    // add takes 16 of the depth: the lane's fragments of two tiles, which lie at `first` and `second`, and B's of the first rows, at own.
    __device__ void add(const uint4 (&a)[2][PARTS], const uint4* first, const uint4* second, const unsigned short* own, const Halves& act) {
#pragma unroll
        for (int nt = 0; nt < NT; nt++) {
            const unsigned short* row = own + nt * 8 * act.stride;
#pragma unroll
            for (int m = 0; m < 2; m++) {
                const uint4* tile = m == 0 ? first : second;
                gpc_mma_half(sum[m][nt], a[m][0], tile, row, act.stride);
                if (PARTS == 2) {
                    gpc_mma_half(rest[m][nt], a[m][PARTS - 1], tile + 32 * (PARTS - 1), row, act.stride);
                    gpc_mma_half(rest[m][nt], a[m][0], tile, row + act.plane, act.stride);
                }
            }
        }
    }
};

// policy_layer calls put(unit, row, sum) for all units of a layer and R = 8·NT rows; those of a wide hidden layer it writes itself, to next. All
// threads call it; what is written is ready behind the next barrier. bias lies in shared memory.
template <int NT, int PARTS, class F>
__device__ inline void policy_layer(const gpc_policy_layer& layer, const uint4* shared, const float* bias, const Halves& act, const Halves& next, float* partial, F&& put) {
    constexpr int R = 8 * NT, ahead = 4 / PARTS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
    const int units = layer.units, depth = layer.depth, resident = layer.resident, step = units * PARTS * 32;
    // Few units: the depth is shared out too, in powers of two.
    const int across = 1 << layer.across, shares = policyWarps >> layer.across, share = warp >> layer.across;
    const int part = 3 - layer.across; // log₂ of the shares
    const int begin = depth * share >> part, end = depth * (share + 1) >> part, from = min(max(resident, begin), end);
    for (int unit = warp & (across - 1); unit < units; unit += 2 * across) {
        const int apart = unit + across < units ? across * PARTS * 32 : 0; // nothing: the first again
        const int place = unit * PARTS * 32 + lane;
        PolicySums<NT, PARTS> sums;
        // What does not lie here is on its way while the rest is multiplied.
        uint4 a[ahead][2][PARTS];
        const uint4* far = layer.tiles + (from * step + place);
        auto fetch = [&](int k0, uint4(&to)[ahead][2][PARTS]) {
            const uint4* at = far;
#pragma unroll
            for (int i = 0; i < ahead; i++, at += step) {
                if (k0 + i >= end) break;
#pragma unroll
                for (int part = 0; part < PARTS; part++) to[i][0][part] = __ldg(at + part * 32), to[i][1][part] = __ldg(at + apart + part * 32);
            }
        };
        fetch(from, a);
        const unsigned short* own = act.at + group * act.stride + 2 * member + begin * 16;
        const uint4* near = shared + layer.at + (begin * step + place);
#pragma unroll 4
        for (int k = begin; k < from; k++, own += 16, near += step) {
            uint4 held[2][PARTS];
#pragma unroll
            for (int part = 0; part < PARTS; part++) held[0][part] = near[part * 32], held[1][part] = near[apart + part * 32];
            sums.add(held, near, near + apart, own, act);
        }
        for (int k0 = from; k0 < end; k0 += ahead) {
            const uint4* at = far;
            far += ahead * step;
            uint4 next[ahead][2][PARTS];
            fetch(k0 + ahead, next);
#pragma unroll
            for (int i = 0; i < ahead; i++, at += step, own += 16)
                if (k0 + i < end) sums.add(a[i], at, at + apart, own, act);
#pragma unroll
            for (int i = 0; i < ahead; i++)
#pragma unroll
                for (int part = 0; part < PARTS; part++) a[i][0][part] = next[i][0][part], a[i][1][part] = next[i][1][part];
        }
        if (shares == 1 && layer.kind == 0) {
#pragma unroll
            for (int m = 0; m < 2; m++) {
                if (m == 1 && apart == 0) break;
                const int to = (unit + m * across) * 16 + group;
                const float low = bias[to], high = bias[to + 8];
#pragma unroll
                for (int nt = 0; nt < NT; nt++) {
                    const Halves own{next.at + (nt * 8 + 2 * member) * next.stride + to, next.stride, next.plane};
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const float v = (PARTS == 2 ? sums.sum[m][nt][e] + sums.rest[m][nt][e] : sums.sum[m][nt][e]) + (e < 2 ? low : high);
                        own.template put<PARTS>(e % 2, 8 * (e / 2), v <= 0.0f ? 0.0f : v);
                    }
                }
            }
            continue;
        }
#pragma unroll
        for (int m = 0; m < 2; m++) {
            if (m == 1 && apart == 0) break;
#pragma unroll
            for (int nt = 0; nt < NT; nt++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int to = (unit + m * across) * 16 + group + 8 * (e / 2), row = nt * 8 + 2 * member + e % 2;
                    const float v = PARTS == 2 ? sums.sum[m][nt][e] + sums.rest[m][nt][e] : sums.sum[m][nt][e];
                    if (shares == 1) put(to, row, v + bias[to]);
                    else partial[(share * across * 16 + to) * R + row] = v;
                }
        }
    }
    if (shares == 1) return;
    __syncthreads();
    for (int e = threadIdx.x; e < units * 16 * R; e += policyThreads) {
        float v = 0.0f;
#pragma unroll
        for (int i = 0; i < policyWarps; i++)
            if (i < shares) v += partial[i * across * 16 * R + e];
        put(e / R, e % R, v + bias[e / R]);
    }
}

// policy_act executes the plans' actions in the rows and looks at where they lead.
template <class P, int R>
__device__ inline void policy_act(const gpc_policy_job& job, const gpc_domain_preference& p, const double* constants, PolicyRows<P, R>& rows, int h, int row0) {
    constexpr int lanes = lanes_of<P>(0), each = lanes > 1 ? lanes : policyThreads / R;
    const int last = h == job.steps - 1 ? job.last : 0;
    for (int first = 0; first < R; first += policyThreads / each) {
        if (first + (int)(threadIdx.x / GPC_WARP * GPC_WARP) / each >= R) break; // a warp without a row
        const int own = first + (int)threadIdx.x / each, r = min(own, R - 1);
        const bool has = own < R && row0 + r < job.rows, leads = has && threadIdx.x % each == 0;
        double u[P::actions];
        bool sound = true;
        for (int j = 0; j < P::states; j++) sound = sound && finite64(rows.s[r][j]);
        for (int j = 0; j < P::actions; j++) u[j] = (double)rows.plan[r][j], sound = sound && finite64(u[j]);
        for (int j = 0; j < P::actions; j++) u[j] = sound ? u[j] : 0.0;
        Outcome<P> to;
        act_of<P>(constants, rows.s[r], rows.c[r], u, job.project, sound && (lanes > 1 ? has : leads), to, [] { __syncwarp(); });
        if (!leads) continue;
        const int64_t i = row0 + r;
        if (!sound) rows.margin[r] = -(double)gpc_inf();
        for (int j = 0; j < P::plan && h == 0; j++) {
            if (job.first) job.first[i * P::plan + j] = rows.plan[r][j];
            if (job.best) job.best[i * P::plan + j] = u[j];
        }
        for (int j = 0; j < P::actions && job.executed; j++) job.executed[(i * job.steps + h) * P::actions + j] = u[j];
        double cost = rows.cost[r], margin = rows.margin[r];
        const bool lost = roll<P>(constants, p, rows.s[r], rows.c[r], u, to, last, cost, margin, nullptr);
        rows.cost[r] = cost, rows.margin[r] = margin;
        if (rows.kept[r] == h) rows.kept[r] = lost ? h : h + 1;
    }
}

template <class P, int NT, int PARTS>
__device__ inline void domain_policy(const gpc_policy_job& job, const gpc_domain_preference& p, const double* constants) {
    static_assert(P::plan == P::actions, "the base policy decodes one action");
    constexpr int R = 8 * NT;
    using Rows = PolicyRows<P, R>;
    GPC_SHARED(uint4, shared);
    if (job.done && *job.done) return;
    const int thread = threadIdx.x, row0 = blockIdx.x * R, layers = job.net->layers, decoder = job.net->decoder, stride = job.net->stride, plane = R * stride;
    unsigned short* halves = reinterpret_cast<unsigned short*>(shared + job.net->fragments);
    Halves act{halves, stride, plane}, next{halves + PARTS * plane, stride, plane};
    Rows& rows = *reinterpret_cast<Rows*>(halves + 2 * PARTS * plane);
    float* biases = reinterpret_cast<float*>(&rows + 1);
    for (int l = 0; l < layers; l++) {
        const gpc_policy_layer layer = job.net->layer[l];
        if (thread == 0) rows.layer[l] = layer;
        for (int e = thread; e < layer.resident * layer.units * PARTS * 32; e += policyThreads) shared[layer.at + e] = layer.tiles[e];
        for (int e = thread; e < 16 * layer.units; e += policyThreads) biases[layer.biases + e] = layer.bias[e];
    }
    for (int e = thread; e < 2 * PARTS * plane; e += policyThreads) halves[e] = 0;
    for (int e = thread; e < R * P::states; e += policyThreads) rows.s[e / P::states][e % P::states] = job.s[e % P::states];
    for (int e = thread; e < R * P::contexts; e += policyThreads) rows.c[e / P::contexts][e % P::contexts] = job.c[e % P::contexts];
    for (int e = thread; e < R; e += policyThreads) rows.cost[e] = 0.0, rows.margin[e] = (double)gpc_inf(), rows.kept[e] = 0;
    for (int e = thread; e < Rows::observed; e += policyThreads) rows.mean[e] = p.mean[e], rows.scale[e] = p.scale[e];
    for (int e = thread; e < 1 + P::objectives; e += policyThreads) rows.slot[e] = p.slot[e];
    for (int e = thread; e < P::plan; e += policyThreads) rows.planMean[e] = job.mean[e], rows.planScale[e] = job.scale[e], rows.lo[e] = job.lo[e], rows.hi[e] = job.hi[e];
    __syncthreads();
    for (int h = 0; h < job.steps; h++) {
        if (h == 0 && job.plan) {
            for (int e = thread; e < R * P::plan; e += policyThreads) rows.plan[e / P::plan][e % P::plan] = row0 + e / P::plan < job.rows ? job.plan[(int64_t)row0 * P::plan + e] : 0.0f;
        } else {
            // A warp writes a row's input and offsets.
            for (int r = thread / 32; r < R; r += policyWarps) {
                const float* offsets = job.offsets && row0 + r < job.rows ? job.offsets + ((int64_t)(row0 + r) * job.steps + h) * job.n : nullptr;
                for (int k = thread % 32; k < job.n; k += 32) {
                    const float offset = offsets ? offsets[k] : 0.0f;
                    if (h > 0) rows.offset[r][k] = offset;
                    else act.put<PARTS>(r, k, job.latent[k] + offset);
                }
                for (int k = thread % 32; k < Rows::observed && h > 0; k += 32) {
                    const float v = k < P::states ? (float)rows.s[r][k] : (k < P::states + P::contexts ? (float)rows.c[r][k - P::states] : rows.slot[k - P::states - P::contexts]);
                    act.put<PARTS>(r, k, (v - rows.mean[k]) / rows.scale[k]);
                }
            }
            if (thread % (policyThreads / R) == 0) {
                const int r = thread / (policyThreads / R);
                float s[P::states], c[P::contexts];
                for (int j = 0; j < P::states; j++) s[j] = (float)rows.s[r][j];
                for (int j = 0; j < P::contexts; j++) c[j] = (float)rows.c[r][j];
                P::base(constants, s, c, rows.base[r]);
            }
            __syncthreads();
            for (int l = h == 0 ? decoder : 0; l < layers; l++) {
                const int kind = rows.layer[l].kind;
                policy_layer<NT, PARTS>(rows.layer[l], shared, biases + rows.layer[l].biases, act, next, rows.partial, [&](int unit, int row, float v) {
                    if (kind == 0) {
                        next.put<PARTS>(row, unit, v <= 0.0f ? 0.0f : v);
                    } else if (kind == 1) {
                        next.put<PARTS>(row, unit, unit < job.n ? v + rows.offset[row][unit] : 0.0f);
                    } else if (unit < P::plan) {
                        float y = __fmaf_rn(rows.planScale[unit], v, rows.planMean[unit]) + rows.base[row][unit];
                        if (y < rows.lo[unit]) y = rows.lo[unit];
                        if (y > rows.hi[unit]) y = rows.hi[unit];
                        rows.plan[row][unit] = y;
                    }
                });
                __syncthreads();
                const Halves was = act;
                act = next, next = was;
            }
            // The next input is put where the last layer read: what it leaves behind its end has weights of 0.
        }
        __syncthreads();
        policy_act<P, R>(job, p, constants, rows, h, row0);
        __syncthreads();
    }
    for (int r = thread; r < R && row0 + r < job.rows; r += policyThreads) {
        job.cost[row0 + r] = rows.cost[r], job.margin[row0 + r] = rows.margin[r];
        if (job.kept) job.kept[row0 + r] = rows.kept[r];
    }
}

} // namespace gpc

// GPC_POLICY makes the kernels gpc_domain_policy_NAME_RxP of a domain, for R = 8 or 16 rows a block and P = 1 or 2 parts, GPC_POLICY_SHAPE the one of
// R = 8·NT and P. Grid ⌈rows/R⌉, block 256; shared memory as Go's policyShape counts it.
#define GPC_POLICY_SHAPE(name, P, shape, NT, PARTS)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(256, 1) gpc_domain_policy_##name##_##shape(gpc_policy_job job, gpc_domain_preference p, const double* constants) { \
        gpc::domain_policy<P, NT, PARTS>(job, p, constants);                                                                                           \
    }
#define GPC_POLICY(name, P)           \
    GPC_POLICY_SHAPE(name, P, 8x1, 1, 1)  \
    GPC_POLICY_SHAPE(name, P, 16x1, 2, 1) \
    GPC_POLICY_SHAPE(name, P, 8x2, 1, 2)  \
    GPC_POLICY_SHAPE(name, P, 16x2, 2, 2)
