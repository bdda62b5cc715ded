// opf.cu: device functions of the dispatch problem of any network (package opf),
// with sizes at run time: base, gradient, priority and the roll-out on the strict
// plant. device.go packs the network, and names the limits of its size.
//
// A block of one warp works on a row: its lanes take branches, buses and units in
// turn, and meet where one needs what another has made.
//
//	kernel     grid              shared memory            bound
//	base       rows              none                     latency of 40 halvings
//	gradient   rows              3 float64 a rated branch  a sine and cosine a branch
//	priority   rows              none                     a sine and cosine a branch
//	rollout    rows in flight    working set of one row,  latency of the rounds of
//	                             see device_flow.cuh      elimination, ~30 kFLOP a power flow of 30 buses
//
// All arithmetic is in float64, the step's inputs and outputs are float32: the
// admittance of a short line times the rounding of a float32 voltage would be the
// size of what is above the loading threshold.
#include "gpc.cuh"
#include "domain.cuh"
#include "device_network.cuh"
#include "device_projection.cuh"

extern "C" __global__ void __launch_bounds__(32) gpc_domain_base_opf(int rows, const float* s, int lds, const float* c, int ldc, float* plan, int ldplan, const double* constants) {
    const opf::Network net(constants);
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) opf::merit(net, c + i * ldc, plan + i * ldplan);
}

extern "C" __global__ void __launch_bounds__(32) gpc_domain_gradient_opf(gpc_domain_batch b, const double* constants) {
    using namespace opf;
    GPC_SHARED(double, slope); // [rated, 3] of σ₁J₁ in V_f, V_t and θ_f − θ_t
    const Network net(constants);
    const int buses = net.size(BUSES), gens = net.size(GENS), rated = net.size(RATED);
    const int *start = net.indices(NEAR_START), *near = net.indices(NEAR), *place = net.indices(RATED_OF);
    for (int64_t row = blockIdx.x; row < b.rows; row += gridDim.x) {
        const float *s = b.s + row * b.lds, *u = b.u + row * b.ldu, *c = b.c + row * b.ldc, *sigma = b.sigma + row * b.ldsigma;
        float *gs = b.gs + row * b.ldgs, *gu = b.gu + row * b.ldgu;
        double j[objectives] = {0.0, 0.0, 0.0};
        for (int r = lane(); r < rated; r += 32) {
            const Flow flow = from_flow(net, r, s, c);
            const double over = overload(net, flow), cube = over * over * over, weight = 4.0 * (double)sigma[thermal] * cube;
            j[thermal] += over * cube;
            slope[3 * r] = weight * flow.vf, slope[3 * r + 1] = weight * flow.vt, slope[3 * r + 2] = weight * flow.angle;
        }
        __syncwarp();
        for (int i = lane(); i < buses; i += 32) {
            double size = 0.0, angle = 0.0;
            for (int e = start[i]; e < start[i + 1]; e++) {
                const int r = place[near[e] >> 1], to = near[e] & 1;
                if (r < 0) continue;
                size += slope[3 * r + to], angle += to ? -slope[3 * r + 2] : slope[3 * r + 2];
            }
            const double v = (double)s[i], d = deviation(net, v);
            j[voltage] += d * d;
            if (d != 0.0) size += copysign(2.0 * (double)sigma[voltage] * d, v - 1.0);
            gs[i] = (float)size, gs[buses + i] = (float)angle;
        }
        for (int g = lane(); g < gens; g += 32) {
            double marginal;
            j[economic] += cost(net, g, (double)u[g], &marginal);
            gu[g] = (float)((double)sigma[economic] * marginal), gu[gens + g] = 0.0f;
        }
        for (int i = 0; i < objectives; i++) {
            const double sum = warp_sum(j[i]);
            if (b.J && lane() == i) b.J[row * b.ldJ + i] = (float)sum;
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(32) gpc_domain_priority_opf(gpc_domain_steering job, gpc_domain_preference p, const double* constants, const double* inverseRange) {
    using namespace opf;
    const Network net(constants);
    const int states = 2 * net.size(BUSES), contexts = net.size(CONTEXT);
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const float* s = job.state + row * states;
        const double* c = job.c + row * contexts;
        double sigma[objectives];
        if (!job.how) {
            priority(net, p, s, c, sigma);
        } else {
            bool steered = false;
            for (int j = 0; j < objectives; j++) sigma[j] = job.sigma[row * objectives + j];
            const int how = job.how[row];
            if (how) {
                double delta[objectives], fresh[objectives];
                indicators(net, s, c, delta);
                steered = gpc::finite64(delta[thermal]) && gpc::finite64(delta[voltage]);
                if (steered) {
                    gpc::priority<objectives>(p.semantic, delta, fresh);
                    for (int j = 0; j < objectives; j++) sigma[j] = how == 1 ? fresh[j] : sigma[j] + job.gain * (fresh[j] - sigma[j]);
                }
            }
            if (lane() == 0) job.flags[row] = steered ? 2 : 0;
        }
        __syncwarp();
        if (lane() == 0)
            for (int j = 0; j < objectives; j++) {
                job.sigma[row * objectives + j] = sigma[j];
                job.weights[row * objectives + j] = (float)(sigma[j] * inverseRange[j]);
            }
    }
}

// A row is one candidate: projection, power flow, Score, priority, Step. Without a
// solution the state stays, the margins are −1 and the objectives those of (s, u).
namespace opf {

template <class Work>
__device__ inline void rollout(const Work& w, const gpc_domain_rollout& r, const gpc_domain_preference& p) {
    const Network& net = w.net;
    const int states = 2 * w.buses, contexts = net.size(CONTEXT), actions = 2 * w.gens, width = states + contexts + 1 + objectives;
    const double infinity = (double)gpc_inf();
    for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
        double *s = r.s + row * states, *c = r.c + row * contexts, sigma[objectives], J[objectives];
        bool sound = true, solved;
        for (int j = lane(); j < states; j += 32) sound = sound && gpc::finite64(s[j]);
        for (int j = lane(); j < actions; j += 32) {
            w.u[j] = (double)r.plan[row * actions + j];
            sound = sound && gpc::finite64(w.u[j]);
        }
        sound = __all_sync(GPC_FULL_MASK, sound);
        double margin = r.h == 0 ? infinity : r.margin[row], low;
        if (!sound) {
            margin = -infinity;
            for (int j = lane(); j < actions; j += 32) w.u[j] = 0.0;
        }
        prepare(w, c);
        low = project(w, s, c, sound && r.project, &solved);
        if (r.h == 0)
            for (int j = lane(); j < actions; j += 32) r.best[row * actions + j] = w.u[j];
        for (int j = lane(); r.margins && j < w.margins(); j += 32) r.margins[row * w.margins() + j] = w.margin[j];
        priority(net, p, s, c, sigma);
        objective(net, solved ? w.vm : s, solved ? w.pg : w.u, c, J);
        double total = r.h == 0 ? 0.0 : r.cost[row];
        for (int j = 0; j < objectives; j++) total += sigma[j] * J[j];
        margin = margin == -infinity ? margin : smaller(margin, low);
        bool stays = true;
        for (int j = lane(); j < states; j += 32) stays = stays && gpc::finite64(solved ? w.vm[j] : s[j]);
        for (int g = lane(); g < w.gens; g += 32) stays = stays && gpc::finite64(solved ? w.pg[g] : 0.0);
        stays = __all_sync(GPC_FULL_MASK, stays);
        if (!stays) margin = -infinity;
        __syncwarp(); // every lane has read the cost, the state and the context that are written now
        if (lane() == 0) r.cost[row] = total, r.margin[row] = margin;
        if (solved && stays) {
            for (int j = lane(); j < states; j += 32) s[j] = w.vm[j];
            for (int g = lane(); g < w.gens; g += 32) c[net.size(PREVIOUS) + g] = w.pg[g];
        }
        __syncwarp();
        if (r.encode) {
            float* in = r.input + row * width;
            for (int j = lane(); j < states; j += 32) {
                const float v = (float)s[j];
                r.stateOut[row * states + j] = v, in[j] = (v - p.mean[j]) / p.scale[j];
            }
            for (int j = lane(); j < contexts; j += 32) {
                const float v = (float)c[j];
                r.contextOut[row * contexts + j] = v, in[states + j] = (v - p.mean[states + j]) / p.scale[states + j];
            }
            for (int j = lane(); j < 1 + objectives; j += 32) {
                const int k = states + contexts + j;
                in[k] = (p.slot[j] - p.mean[k]) / p.scale[k];
            }
        }
        __syncwarp();
    }
}

} // namespace opf

// Sixteen blocks a multiprocessor, by registers: 4096 candidates are two rounds of 132.
extern "C" __global__ void __launch_bounds__(32, 16) gpc_domain_rollout_opf(gpc_domain_rollout r, gpc_domain_preference p, const double* constants) {
    using namespace opf;
    GPC_SHARED(double, shared);
    const Network net(constants);
    double* workspace = r.workspace + (int64_t)blockIdx.x * net.size(WORKSPACE);
    if (net.size(FAST_SHARED))
        rollout(WorkOf<true>(constants, shared, workspace), r, p);
    else
        rollout(WorkOf<false>(constants, shared, workspace), r, p);
}

GPC_KERNEL(gpc_domain_base_opf)
GPC_KERNEL(gpc_domain_gradient_opf)
GPC_KERNEL(gpc_domain_priority_opf)
GPC_KERNEL(gpc_domain_rollout_opf)
