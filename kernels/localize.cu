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
// Grid rows, block 32: a warp a query. Shared memory (k + 1)(k | 1) + 9k doubles: C and,
// as a last row, y; differences of eight coordinates. Bound: latency of the factorisation, a
// root and a division a column, and k divisions of the substitution.
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
#pragma unroll 1
    for (int i = lane; i < n; i += 32) z[i] = code[i];
    if (k <= 1) return;

    // C has odd rows, so that lanes which read a column each meet no bank twice.
    constexpr int part = 8;
    const float* q = job.q + row * job.ldq;
    const int ld = k | 1;
    double *y = gram + k * ld, *part_of = y + ld;
    for (int i0 = 0; i0 < n; i0 += part) {
        __syncwarp();
        const int at = lane % part, i = i0 + at;
        const double own = i < n ? (double)q[i] : 0.0;
#pragma unroll 4
        for (int j = lane / part; j < k; j += 32 / part) part_of[j * (part + 1) + at] = i < n ? (double)job.codes[(long long)list[j] * job.ldcode + i] - own : 0.0;
        __syncwarp();
        for (int a = 0, b = lane;; b += 32) { // entry b of row a, or of one below
            while (b > a && a < k) a++, b -= a;
            if (a >= k) break;
            double dot = i0 > 0 ? gram[a * ld + b] : 0.0;
#pragma unroll
            for (int i = 0; i < part; i++) dot += part_of[a * (part + 1) + i] * part_of[b * (part + 1) + i];
            gram[a * ld + b] = dot;
        }
    }
    __syncwarp();
    double trace = 0.0;
#pragma unroll 1
    for (int j = lane; j < k; j += 32) trace += gram[j * ld + j];
    const double ridge = 1e-6 * gpc::warp_sum64(trace) / k;
#pragma unroll 1
    for (int j = lane; j < k; j += 32) gram[j * ld + j] += ridge, y[j] = 1.0;
    // Cholesky column by column; y, the row behind the last, is substituted on the way.
    for (int j = 0; j < k; j++) {
        double inverse = 0.0; // of the root, which stands in its place
        __syncwarp();
        for (int i0 = j; i0 <= k; i0 += 32) {
            const int i = i0 + lane;
            double sum = 0.0;
            if (i <= k) {
                sum = gram[i * ld + j];
#pragma unroll 4
                for (int c = 0; c < j; c++) sum -= gram[i * ld + c] * gram[j * ld + c];
            }
            if (i0 == j) {
                const double pivot = __shfl_sync(GPC_FULL_MASK, sum, 0);
                if (!(pivot > 0.0)) return;
                inverse = 1.0 / sqrt(pivot);
            }
            if (i <= k) gram[i * ld + j] = i == j ? inverse : sum * inverse;
        }
    }
    double total = 0.0;
    for (int j = k - 1; j >= 0; j--) {
        __syncwarp();
        const double v = y[j] * gram[j * ld + j];
        total += v;
        __syncwarp();
#pragma unroll 1
        for (int i = lane; i <= j; i += 32) y[i] = i == j ? v : y[i] - gram[j * ld + i] * v;
    }
    __syncwarp();
#pragma unroll 1
    for (int j = lane; j < k; j += 32) y[j] /= total;
    __syncwarp();
    bool finite = true;
#pragma unroll 1
    for (int i = lane; i < n; i += 32) {
        double p = 0.0;
#pragma unroll 4
        for (int j = 0; j < k; j++) p += y[j] * (double)job.codes[(long long)list[j] * job.ldcode + i];
        z[i] = (float)p;
        finite = finite && gpc_finite(z[i]);
    }
    if (gpc::warp_any(!finite))
        for (int i = lane; i < n; i += 32) z[i] = code[i];
}
GPC_KERNEL(gpc_localize_point)
