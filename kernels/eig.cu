// eig.cu: the k largest eigenpairs of symmetric matrices, one warp each, n ≤ 64.
//
// Householder reduction to a tridiagonal T, the wanted eigenvalues of T by
// multisection of Sturm counts, eigenvectors by inverse iteration with partial
// pivoting and re-orthogonalisation against all vectors before (so that repeated
// eigenvalues get an orthonormal basis), then the reflections in reverse. (Golub &
// Van Loan, Matrix Computations, 8.3 to 8.5; Barlow & Demmel on what float32
// determines.) The matrix is scaled by its largest entry, and the symmetric part
// is taken. Vectors have unit length and their largest-magnitude entry, the first
// on a tie, positive. A non-finite entry gives NaN values and zero vectors.
//
// Grid matrices, block 32. Shared memory per matrix, floats: the matrix n·(n|1),
// vectors n·k, T and reflections 4·64, one group of factorisations 5·n·8 (eigShared
// of the launcher computes the same): 10.5 KiB at n = 32, k = 3.
//
// 72 registers, no spills. Bound: latency of a warp's dependent steps, about
// 4/3 n³ FLOP for the reduction, n steps of 2 divisions for each of about 9 rounds of
// multisection; the matrices of a batch hide each other's latency, some 20 warps to
// a multiprocessor.
#include "gpc.cuh"
#include "warp.cuh"

namespace gpc {

constexpr int eigGroup = 8; // eigenvectors iterated together, one lane each
constexpr float eigTiny = 1.2e-7f;

// sturm is the number of eigenvalues of T (diagonal d, off-diagonal e) below x.
__device__ inline int sturm(const float* d, const float* e, int n, float x) {
    int below = 0;
    float q = 1.0f;
    for (int i = 0; i < n; i++) {
        const float off = i > 0 ? e[i - 1] * e[i - 1] / q : 0.0f;
        q = d[i] - x - off;
        if (fabsf(q) < 1e-30f) q = -1e-30f;
        below += q < 0.0f;
    }
    return below;
}

// Factors are T − λI = P L U of up to eigGroup shifts, one lane each; entry i of a
// lane's array lies at [i·eigGroup].
struct Factors {
    float *multiplier, *diagonal, *above, *above2, *swapped;
};

__device__ inline void factor(const Factors& f, const float* d, const float* e, int n, float shift, int lane) {
    // (pivot, right, right2) is the row being eliminated with.
    float pivot = d[0] - shift, right = n > 1 ? e[0] : 0.0f, right2 = 0.0f;
    for (int i = 0; i + 1 < n; i++) {
        const float low = e[i], lowDiagonal = d[i + 1] - shift, lowRight = i + 2 < n ? e[i + 1] : 0.0f;
        const bool swap = fabsf(low) > fabsf(pivot);
        float top, topRight, topRight2, bottom, bottomRight, bottomRight2;
        if (swap) {
            top = low, topRight = lowDiagonal, topRight2 = lowRight;
            bottom = pivot, bottomRight = right, bottomRight2 = right2;
        } else {
            top = pivot, topRight = right, topRight2 = right2;
            bottom = low, bottomRight = lowDiagonal, bottomRight2 = lowRight;
        }
        if (fabsf(top) < eigTiny) top = top < 0.0f ? -eigTiny : eigTiny;
        const float m = bottom / top;
        const int at = i * eigGroup + lane;
        f.multiplier[at] = m, f.swapped[at] = swap ? 1.0f : 0.0f;
        f.diagonal[at] = top, f.above[at] = topRight, f.above2[at] = topRight2;
        pivot = bottomRight - m * topRight, right = bottomRight2 - m * topRight2, right2 = 0.0f;
    }
    if (fabsf(pivot) < eigTiny) pivot = pivot < 0.0f ? -eigTiny : eigTiny;
    f.diagonal[(n - 1) * eigGroup + lane] = pivot;
}

// solve replaces x (stride apart) by the solution, scaled to a largest entry of
// about 1. It is rescaled on the way so that it cannot overflow.
__device__ inline void solve(const Factors& f, int n, float* x, int stride, int lane) {
    for (int i = 0; i + 1 < n; i++) {
        const int at = i * eigGroup + lane;
        float upper = x[i * stride], lower = x[(i + 1) * stride];
        if (f.swapped[at] != 0.0f) {
            const float t = upper;
            upper = lower, lower = t;
        }
        x[i * stride] = upper, x[(i + 1) * stride] = lower - f.multiplier[at] * upper;
    }
    float one = 0.0f, two = 0.0f, largest = 0.0f;
    for (int i = n - 1; i >= 0; i--) {
        const int at = i * eigGroup + lane;
        float v = x[i * stride];
        if (i + 1 < n) v -= f.above[at] * one;
        if (i + 2 < n) v -= f.above2[at] * two;
        v /= f.diagonal[at];
        x[i * stride] = v;
        if (fabsf(v) > 1e12f) {
            for (int j = 0; j < n; j++) x[j * stride] *= 1e-12f;
            v *= 1e-12f, one *= 1e-12f, largest *= 1e-12f;
        }
        two = one, one = v;
        largest = fmaxf(largest, fabsf(v));
    }
    const float scale = largest > 0.0f ? 1.0f / largest : 0.0f;
    for (int i = 0; i < n; i++) x[i * stride] *= scale;
}

// unit_after makes column j of the n×k vectors orthogonal to those before it,
// twice, and of length 1.
__device__ inline void unit_after(float* v, int n, int k, int j) {
    const int lane = threadIdx.x;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < j; i++) {
            float dot = 0.0f;
            for (int r = lane; r < n; r += 32) dot = __fmaf_rn(v[r * k + i], v[r * k + j], dot);
            dot = warp_sum(dot);
            for (int r = lane; r < n; r += 32) v[r * k + j] = __fmaf_rn(-dot, v[r * k + i], v[r * k + j]);
        }
        float largest = 0.0f;
        for (int r = lane; r < n; r += 32) largest = fmaxf(largest, fabsf(v[r * k + j]));
        largest = warp_max(largest);
        float sum = 0.0f;
        for (int r = lane; r < n; r += 32) {
            const float x = largest > 0.0f ? v[r * k + j] / largest : 0.0f;
            v[r * k + j] = x;
            sum = __fmaf_rn(x, x, sum);
        }
        sum = warp_sum(sum);
        const float scale = sum > 0.0f ? 1.0f / sqrtf(sum) : 0.0f;
        for (int r = lane; r < n; r += 32) v[r * k + j] *= scale;
    }
    __syncwarp();
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(32) gpc_eig(const float* __restrict__ g, long long ldg, int n, int k, float* __restrict__ values, long long ldvalues, float* __restrict__ vectors, long long ldvectors) {
    using namespace gpc;
    GPC_SHARED(float, shared);
    const int lane = threadIdx.x, ld = n | 1;
    float* a = shared;
    float* v = a + n * ld;
    float* d = v + n * k;
    float* e = d + 64;
    float* tau = e + 64;
    float* lambda = tau + 64;
    float* work = lambda + 64;
    const float* in = g + blockIdx.x * ldg;
    float* outValues = values + blockIdx.x * ldvalues;
    float* outVectors = vectors + blockIdx.x * ldvectors;

    float largest = 0.0f;
    bool broken = false;
    for (int i = lane; i < n * n; i += 32) {
        const float x = in[i];
        broken |= !gpc_finite(x);
        largest = fmaxf(largest, fabsf(x));
    }
    if (warp_any(broken)) {
        for (int j = lane; j < k; j += 32) outValues[j] = gpc_nan();
        for (int i = lane; i < n * k; i += 32) outVectors[i] = 0.0f;
        return;
    }
    largest = warp_max(largest);
    const float unit = largest > 0.0f ? largest : 1.0f;
    for (int i = lane; i < n * n; i += 32) a[(i / n) * ld + i % n] = 0.5f * (in[i] / unit + in[(i % n) * n + i / n] / unit);
    __syncwarp();

    // Reduction. Column c below the diagonal becomes the reflector, scaled so that
    // H = I − tau v vᵀ; tau is 0 where the column is already zero.
    for (int c = 0; c + 2 < n; c++) {
        float most = 0.0f;
        for (int r = c + 1 + lane; r < n; r += 32) most = fmaxf(most, fabsf(a[r * ld + c]));
        const float head = a[(c + 1) * ld + c]; // read before a lane replaces it
        most = warp_max(most);
        float below = 0.0f;
        for (int r = c + 2 + lane; r < n; r += 32) {
            const float x = most > 0.0f ? a[r * ld + c] / most : 0.0f;
            below = __fmaf_rn(x, x, below);
        }
        below = warp_sum(below);
        __syncwarp();
        if (below == 0.0f) {
            if (lane == 0) tau[c] = 0.0f, e[c] = head, d[c] = a[c * ld + c];
            __syncwarp();
            continue;
        }
        const float x0 = head / most, length = sqrtf(x0 * x0 + below), alpha = x0 > 0.0f ? -length : length;
        // v = (x − alpha e)/(x0 − alpha), so that v_0 = 1 and tau = (alpha − x0)/alpha.
        const float scale = 1.0f / (x0 - alpha), t = (alpha - x0) / alpha;
        for (int r = c + 1 + lane; r < n; r += 32) {
            const float x = a[r * ld + c] / most;
            a[r * ld + c] = r == c + 1 ? 1.0f : x * scale;
        }
        if (lane == 0) tau[c] = t, e[c] = alpha * most, d[c] = a[c * ld + c];
        __syncwarp();
        // p = tau A v, then w = p − (tau/2)(pᵀv) v, kept in work.
        float pv = 0.0f;
        for (int r = c + 1 + lane; r < n; r += 32) {
            float p = 0.0f;
            for (int s = c + 1; s < n; s++) p = __fmaf_rn(a[r * ld + s], a[s * ld + c], p);
            p *= t;
            work[r] = p;
            pv = __fmaf_rn(p, a[r * ld + c], pv);
        }
        pv = 0.5f * t * warp_sum(pv);
        for (int r = c + 1 + lane; r < n; r += 32) work[r] -= pv * a[r * ld + c];
        __syncwarp();
        for (int r = c + 1 + lane; r < n; r += 32) {
            const float vr = a[r * ld + c], wr = work[r];
            for (int s = c + 1; s < n; s++) a[r * ld + s] -= vr * work[s] + wr * a[s * ld + c];
        }
        __syncwarp();
    }
    if (lane == 0) {
        if (n > 1) d[n - 2] = a[(n - 2) * ld + n - 2], e[n - 2] = a[(n - 1) * ld + n - 2];
        d[n - 1] = a[(n - 1) * ld + n - 1];
    }
    __syncwarp();

    // Gershgorin's interval of T.
    float low = d[0], high = d[0];
    for (int i = 0; i < n; i++) {
        const float radius = (i > 0 ? fabsf(e[i - 1]) : 0.0f) + (i + 1 < n ? fabsf(e[i]) : 0.0f);
        low = fminf(low, d[i] - radius), high = fmaxf(high, d[i] + radius);
    }
    const float norm = fmaxf(fabsf(low), fabsf(high));
    low -= 1e-6f * norm + 1e-30f, high += 1e-6f * norm + 1e-30f;

    // Multisection: groups of lanes share one eigenvalue each.
    int members = 32;
    while (members > 1 && members * k > 32) members /= 2;
    const int together = 32 / members;
    for (int j0 = 0; j0 < k; j0 += together) {
        const int j = j0 + lane / members, member = lane % members;
        const int wanted = n - 1 - (j < k ? j : k - 1); // eigenvalues below it
        float lo = low, hi = high;
        for (int round = 0; round < 40; round++) {
            const float x = lo + (hi - lo) * (float(member + 1) / float(members + 1));
            const bool under = sturm(d, e, n, x) <= wanted; // x ≤ the eigenvalue
            const unsigned int bits = __ballot_sync(GPC_FULL_MASK, under) >> (lane / members * members);
            const unsigned int mine = members == 32 ? bits : bits & ((1u << members) - 1u);
            const int passed = __popc(mine); // counts are monotone in x
            const float width = hi - lo, base = lo;
            if (passed > 0) lo = base + width * (float(passed) / float(members + 1));
            if (passed < members) hi = base + width * (float(passed + 1) / float(members + 1));
            if (!warp_any(hi - lo > 6e-8f * fmaxf(norm * 0.25f, fmaxf(fabsf(lo), fabsf(hi))))) break;
        }
        if (j < k && member == 0) lambda[j] = norm > 0.0f ? 0.5f * (lo + hi) : 0.0f;
    }
    __syncwarp();
    if (lane == 0)
        for (int j = 1; j < k; j++) lambda[j] = fminf(lambda[j], lambda[j - 1]);
    __syncwarp();

    // Inverse iteration, from deterministic pseudo-random vectors.
    const Factors f{work, work + n * eigGroup, work + 2 * n * eigGroup, work + 3 * n * eigGroup, work + 4 * n * eigGroup};
    for (int i = lane; i < n * k; i += 32) {
        unsigned int h = (unsigned int)(i + 1) * 2654435761u;
        h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
        v[i] = 0.5f + float(h & 0xffffu) / 65536.0f * ((h & 0x10000u) ? -1.0f : 1.0f);
    }
    __syncwarp();
    for (int j0 = 0; j0 < k; j0 += eigGroup) {
        const int j = j0 + lane;
        const bool works = lane < eigGroup && j < k;
        if (works) factor(f, d, e, n, lambda[j], lane);
        for (int round = 0; round < 4; round++) {
            if (works) solve(f, n, v + j, k, lane);
            __syncwarp();
            for (int i = j0; i < min(j0 + eigGroup, k); i++) unit_after(v, n, k, i);
        }
    }

    // The reflections in reverse: x −= tau v (vᵀx), groups of lanes share a vector.
    for (int j0 = 0; j0 < k; j0 += together) {
        const int j = j0 + lane / members, member = lane % members;
        for (int c = n - 3; c >= 0; c--) {
            if (tau[c] == 0.0f) continue;
            float dot = 0.0f;
            if (j < k)
                for (int r = c + 1 + member; r < n; r += members) dot = __fmaf_rn(a[r * ld + c], v[r * k + j], dot);
            for (int m = members / 2; m > 0; m /= 2) dot += __shfl_xor_sync(GPC_FULL_MASK, dot, m);
            dot *= tau[c];
            if (j < k)
                for (int r = c + 1 + member; r < n; r += members) v[r * k + j] = __fmaf_rn(-dot, a[r * ld + c], v[r * k + j]);
            __syncwarp();
        }
    }
    for (int j = 0; j < k; j++) unit_after(v, n, k, j);
    for (int j = 0; j < k; j++) {
        float top = 0.0f;
        for (int r = lane; r < n; r += 32) top = fmaxf(top, fabsf(v[r * k + j]));
        top = warp_max(top);
        int at = n;
        for (int r = lane; r < n; r += 32)
            if (fabsf(v[r * k + j]) == top) at = min(at, r);
        for (int m = 16; m > 0; m /= 2) at = min(at, __shfl_xor_sync(GPC_FULL_MASK, at, m));
        const float sign = v[min(at, n - 1) * k + j] < 0.0f ? -1.0f : 1.0f;
        for (int r = lane; r < n; r += 32) outVectors[r * k + j] = sign * v[r * k + j];
        if (lane == 0) outValues[j] = lambda[j] * unit;
    }
}
GPC_KERNEL(gpc_eig)
