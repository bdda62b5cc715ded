// rounds_select.cu: the end of one round of a search along roll-outs: its candidates among the elites, and mean and spread
// moved to these, weighed by rank, as crossentropy.Sampler.Tell does. A round without a new elite is the last.
//
// One block of 1024: elites and candidates are sorted by (feasible, cost or margin, order), then a thread has a
// coordinate of the mean or of the spread. Shared memory 12 bytes for each, of the power of two that holds all. Bound: latency,
// (log₂ n)²/2 barriers and most/4 dependent multiply-adds.
#include "gpc.cuh"
#include "rounds.cuh"

namespace gpc {

// Standing is where a candidate stands: class 0 feasible, by cost; 1 not, by margin; 2 none at all. Order, in the lower bits of
// whose, tells the rest.
struct Standing {
    unsigned long long value;
    unsigned int whose;
};

// ordered is a number as an integer in the same order.
__device__ inline unsigned long long ordered(double v) {
    const unsigned long long b = (unsigned long long)__double_as_longlong(v == 0.0 ? 0.0 : v);
    return b >> 63 ? ~b : b | 1ull << 63;
}

__device__ inline bool before(const Standing& a, const Standing& b) {
    const unsigned int ca = a.whose >> 30, cb = b.whose >> 30;
    if (ca != cb) return ca < cb;
    return a.value != b.value ? a.value < b.value : a.whose < b.whose;
}

// sums of all threads, the same for all; scratch is [32].
__device__ inline double block_sum(double v, double* scratch) {
    for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(GPC_FULL_MASK, v, m);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    double sum = 0.0;
    for (int w = 0; w < (int)blockDim.x / 32; w++) sum += scratch[w];
    return sum;
}

// over_elites adds f up over the elites, in crossentropy's Parts.
template <class F>
__device__ inline double over_elites(const int* chosen, int kept, const float* column, int size, F&& f) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    int i = 0;
    for (; i + 4 <= kept; i += 4) {
        float v[4];
#pragma unroll
        for (int p = 0; p < 4; p++) v[p] = column[(int64_t)chosen[i + p] * size];
#pragma unroll
        for (int p = 0; p < 4; p++) sum[p] = __dadd_rn(sum[p], f(i + p, (double)v[p]));
    }
    for (int p = 0; i + p < kept; p++) sum[p] = __dadd_rn(sum[p], f(i + p, (double)column[(int64_t)chosen[i + p] * size]));
    return __dadd_rn(__dadd_rn(sum[0], sum[1]), __dadd_rn(sum[2], sum[3]));
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(1024) gpc_rounds_select(gpc_rounds of, int round, int first, int rows, int places) {
    GPC_SHARED(unsigned long long, value);
    unsigned int* whose = reinterpret_cast<unsigned int*>(value + places);
    __shared__ double scratch[32];
    gpc_rounds_begin& state = *of.state;
    if (state.done || round >= state.limit) return;
    const int old = state.kept, all = old + rows, size = of.steps * of.width, thread = threadIdx.x, threads = blockDim.x;
    double feasible = 0.0, total = 0.0, least = (double)gpc_inf();
    for (int i = thread; i < places; i += threads) {
        gpc::Standing at{0, 2u << 30 | (unsigned int)i};
        if (i < all) {
            const int candidate = i < old ? of.elites[i] : first + i - old;
            const double cost = of.cost[candidate];
            double margin = of.margin[candidate];
            if (i >= old && of.kept && of.kept[candidate] < of.steps && margin == -(double)gpc_inf())
                of.margin[candidate] = margin = -of.beyond * (double)(of.steps - of.kept[candidate]);
            const bool holds = margin >= -of.tolerance && cost == cost;
            if (holds) at = gpc::Standing{gpc::ordered(cost), (unsigned int)i};
            else if (margin > -(double)gpc_inf()) at = gpc::Standing{gpc::ordered(-margin), 1u << 30 | (unsigned int)i};
            if (holds && i >= old) feasible += 1.0, total += cost, least = fmin(least, cost);
        }
        value[i] = at.value, whose[i] = at.whose;
    }
    feasible = gpc::block_sum(feasible, scratch), total = gpc::block_sum(total, scratch);
    for (int m = 16; m > 0; m /= 2) least = fmin(least, __shfl_xor_sync(GPC_FULL_MASK, least, m));
    __syncthreads();
    if (thread % 32 == 0) scratch[thread / 32] = least;
    __syncthreads();
    for (int w = 0; w < threads / 32; w++) least = fmin(least, scratch[w]);
    for (int run = 2; run <= places; run *= 2)
        for (int apart = run / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (int pair = thread; pair < places / 2; pair += threads) {
                const int a = pair / apart * 2 * apart + pair % apart, b = a + apart;
                const gpc::Standing x{value[a], whose[a]}, y{value[b], whose[b]};
                if (gpc::before(y, x) == ((a & run) == 0)) value[a] = y.value, whose[a] = y.whose, value[b] = x.value, whose[b] = x.whose;
            }
        }
    __syncthreads();
    // The elites, and whether one of them is new.
    int mine = 0;
    bool fresh = false;
    const bool elite = thread < min(of.most, places) && whose[thread] >> 30 != 2u;
    if (elite) {
        const int i = (int)(whose[thread] & 0x3fffffffu);
        fresh = i >= old;
        mine = fresh ? first + i - old : of.elites[i];
    }
    const bool gained = __syncthreads_or(fresh) != 0;
    const int kept = (int)gpc::block_sum(elite ? 1.0 : 0.0, scratch);
    int* chosen = reinterpret_cast<int*>(value); // all have read what stood there
    double* weight = reinterpret_cast<double*>(value + of.most);
    if (elite) {
        const double *most = of.ranks, *place = most + of.most + 1, *sum = place + of.most + 1;
        of.elites[thread] = mine, chosen[thread] = mine;
        weight[thread] = __ddiv_rn(__dadd_rn(most[kept], -place[thread]), sum[kept]);
    }
    __syncthreads();
    const bool knotted = thread < of.knots * of.width && kept > 0; // MaxLatent is 64
    double spread = 0.0;
    if (knotted) {
        const int j = thread % of.width, at = of.beside[thread / of.width] * of.width + j;
        const double mean = of.mean[at];
        const double apart = sqrt(gpc::over_elites(chosen, kept, of.candidates + at, size, [&](int i, double v) {
            const double o = __dadd_rn(v, -mean);
            return __dmul_rn(__dmul_rn(weight[i], o), o);
        }));
        spread = fmax(__dmul_rn(of.floor, of.unit[j]), __dadd_rn(__dmul_rn(of.keep, of.spread[thread]), __dmul_rn(of.learn, apart)));
    }
    __syncthreads(); // the mean before is no longer needed
    if (knotted) of.spread[thread] = spread;
    for (int e = thread; e < size && kept > 0; e += threads)
        of.mean[e] = gpc::over_elites(chosen, kept, of.candidates + e, size, [&](int i, double v) { return __dmul_rn(weight[i], v); });
    if (thread != 0) return;
    double* r = of.report + 5 * round;
    r[0] = kept > 0 ? of.cost[chosen[0]] : 0.0, r[1] = kept > 0 ? of.margin[chosen[0]] : 0.0;
    r[2] = feasible, r[3] = total, r[4] = least;
    state.kept = kept, state.rounds = round + 1, state.done = !gained;
}
GPC_KERNEL(gpc_rounds_select)
