// localize.cu: the refined point of step 1 of the online algorithm. With the
// consistent codes z_j nearest to the query q (search.cu), the point Σ w_j z_j of
// their affine hull nearest to q in the ridge-regularised sense:
//
//	C_jl = ⟨z_j − q, z_l − q⟩,  (C + ρI) y = 1,  w = y/Σy,  ρ = 1e-6 tr(C)/k
//
// by Cholesky in float64 (ref.AffineProjection). One code is returned as it is;
// so is the nearest where the factorisation fails or the point is not finite.
// Without a consistent code: the one of smallest residual.
//
// Grid rows, block 32: a warp a query. Shared memory (k² + 2k) doubles. Bound:
// latency of the factorisation, k³/3 + k² n/2 FMA.
#include "gpc.cuh"
#include "warp.cuh"

struct gpc_localize {
    const float* codes;   // [count, ldcode]
    const float* decoded; // [count, lddecoded]
    const float* q;       // [rows, ldq]
    const float* x;       // [rows, ldx]
    const int* candidates; // [rows, total] nearest first
    const int* found;     // [rows]
    const int* state;     // [rows] see search_merge.cu
    const int* fallback;  // [rows] code of smallest residual where state is 1
    float* z;             // [rows, n]
    int* nearest;         // [rows]
    float* residual;      // [rows]
    unsigned char* consistent; // [rows]
    int n, states, ldcode, lddecoded, ldq, ldx, total, rows;
};

extern "C" __global__ void __launch_bounds__(32) gpc_localize_point(gpc_localize job) {
    GPC_SHARED(double, gram);
    const long long row = blockIdx.x;
    const int lane = threadIdx.x, n = job.n, state = job.state[row];
    float* z = job.z + row * n;
    if (state == 2) {
        for (int i = lane; i < n; i += 32) z[i] = gpc_nan();
        if (lane == 0) job.nearest[row] = -1, job.residual[row] = gpc_nan(), job.consistent[row] = 0;
        return;
    }
    const int* list = job.candidates + row * job.total;
    const int k = state == 1 ? 1 : min(job.found[row], job.total);
    const int best = state == 1 ? job.fallback[row] : list[0];
    const float* code = job.codes + (long long)best * job.ldcode;
    double sum = 0.0;
    for (int i = lane; i < job.states; i += 32) {
        const double d = (double)job.x[row * job.ldx + i] - (double)job.decoded[(long long)best * job.lddecoded + i];
        sum += d * d;
    }
    sum = gpc::warp_sum64(sum);
    if (lane == 0) job.nearest[row] = best, job.residual[row] = (float)sum, job.consistent[row] = state == 0;
    for (int i = lane; i < n; i += 32) z[i] = code[i];
    if (k <= 1) return;

    const float* q = job.q + row * job.ldq;
    double* y = gram + k * k;
    for (int e = lane; e < k * k; e += 32) {
        const int a = e / k, b = e % k;
        if (b > a) continue;
        const float *za = job.codes + (long long)list[a] * job.ldcode, *zb = job.codes + (long long)list[b] * job.ldcode;
        double dot = 0.0;
        for (int i = 0; i < n; i++) dot += ((double)za[i] - (double)q[i]) * ((double)zb[i] - (double)q[i]);
        gram[e] = dot;
    }
    __syncwarp();
    double trace = 0.0;
    for (int j = lane; j < k; j += 32) trace += gram[j * k + j];
    const double ridge = 1e-6 * gpc::warp_sum64(trace) / k;
    for (int j = lane; j < k; j += 32) gram[j * k + j] += ridge, y[j] = 1.0;
    __syncwarp();
    // Cholesky of the lower triangle, and the forward substitution on the way.
    for (int j = 0; j < k; j++) {
        const double pivot = gram[j * k + j];
        if (!(pivot > 0.0)) return;
        const double root = sqrt(pivot), own = y[j] / root;
        __syncwarp();
        for (int i = j + lane; i < k; i += 32) gram[i * k + j] = i == j ? root : gram[i * k + j] / root;
        __syncwarp();
        for (int i = j + 1 + lane; i < k; i += 32) {
            const double l = gram[i * k + j];
            y[i] -= l * own;
            for (int c = j + 1; c <= i; c++) gram[i * k + c] -= l * gram[c * k + j];
        }
        if (lane == 0) y[j] = own;
        __syncwarp();
    }
    double total = 0.0;
    for (int j = k - 1; j >= 0; j--) {
        double dot = 0.0;
        for (int i = j + 1 + lane; i < k; i += 32) dot += gram[i * k + j] * y[i];
        dot = gpc::warp_sum64(dot);
        const double v = (y[j] - dot) / gram[j * k + j];
        __syncwarp();
        if (lane == 0) y[j] = v;
        total += v;
        __syncwarp();
    }
    float point[8]; // latents up to 256
    bool finite = true;
    for (int r = 0; r < 8; r++) {
        const int i = lane + 32 * r;
        if (i >= n) continue;
        double p = 0.0;
        for (int j = 0; j < k; j++) p += y[j] / total * (double)job.codes[(long long)list[j] * job.ldcode + i];
        point[r] = (float)p;
        finite = finite && gpc_finite(point[r]);
    }
    if (gpc::warp_any(!finite)) return;
    for (int r = 0; r < 8; r++)
        if (lane + 32 * r < n) z[lane + 32 * r] = point[r];
}
GPC_KERNEL(gpc_localize_point)
