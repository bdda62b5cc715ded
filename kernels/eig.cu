// eig.cu: the k largest eigenpairs of symmetric matrices, one warp each, n ≤ 64.
//
// Householder reduction to a tridiagonal T, the wanted eigenvalues of T by
// multisection of Sturm counts, eigenvectors by inverse iteration with partial
// pivoting, those of close eigenvalues made orthogonal between iterations (so that
// repeated ones get an orthonormal basis), then the reflections in reverse. (Golub &
// Van Loan, Matrix Computations, 8.3 to 8.5; Barlow & Demmel on what float32
// determines.) The matrix is scaled by its largest entry, and the symmetric part
// is taken. Vectors have unit length and their largest-magnitude entry, the first
// on a tie, positive. A non-finite entry gives NaN values and zero vectors.
//
// Grid matrices, block 32. Up to n = 32 (gpc_eig_32) a lane holds a row of the matrix
// in registers while it is reduced; what lanes need of each other passes through
// shared memory as one vector of 32, read 16 bytes at a time. Larger ones (gpc_eig)
// lie there whole. Shared memory per matrix, floats: reflections 32·32, or the matrix
// n·(n|1) and T 2·64; vectors n·k, eigenvalues and scales 2·32 or 2·64, factorisations
// 4·n·min(k, 8) (eigShared of the launcher computes the same): 6.1 KiB at n = 32,
// k = 3, so that with 64 registers a thread 32 matrices share a multiprocessor, all of
// 4096 those of an H200 at once.
//
// Bound: latency of a warp's dependent steps, about 4/3 n³ FLOP for the reduction, n
// multiply-adds for each of about 9 rounds of multisection; the matrices of a batch
// hide each other's latency.
#include "gpc.cuh"
#include "warp.cuh"

namespace gpc {

constexpr int eigGroup = 8;  // eigenvectors iterated together, one lane each
constexpr int eigRounds = 3; // of inverse iteration
constexpr float eigTiny = 1.2e-7f;

// power_of_two is the one next below a positive x, or its inverse; both are normal
// numbers whatever x is.
__device__ inline float power_of_two(float x, bool inverse) {
    unsigned int exponent = __float_as_uint(x) & 0x7f800000u;
    exponent = exponent < 0x00800000u ? 0x00800000u : (exponent > 0x7e800000u ? 0x7e800000u : exponent);
    return __uint_as_float(inverse ? 0x7f000000u - exponent : exponent);
}

// sturm is the number of eigenvalues of T (diagonal d, squares of the off-diagonal
// before it e2, both on 16 bytes) below x: the sign changes of
// p_i = (d_i − x) p_{i−1} − e²_{i−1} p_{i−2}, which needs no division. One that is
// nothing beside the one before it, x being an eigenvalue of a leading block, counts as
// of the other sign. Every four steps, in which they shrink to 1e-36 or grow to 1e11 at
// most, both are scaled by a power of two.
__device__ inline int sturm(const float* d, const float* e2, int n, float x) {
    int below = 0;
    float before = 0.0f, p = 1.0f;
    auto step = [&](float diagonal, float square) {
        float next = __fmaf_rn(diagonal - x, p, -square * before);
        const float least = -1e-9f * p;
        if (fabsf(next) < fabsf(least)) next = least;
        below += (next < 0.0f) != (p < 0.0f);
        before = p, p = next;
    };
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        const float4 a = *reinterpret_cast<const float4*>(d + i), b = *reinterpret_cast<const float4*>(e2 + i);
        step(a.x, b.x), step(a.y, b.y), step(a.z, b.z), step(a.w, b.w);
        const float scale = power_of_two(fmaxf(fabsf(before), fabsf(p)), true);
        before *= scale, p *= scale;
    }
    for (; i < n; i++) step(d[i], e2[i]);
    return below;
}

// Factors are T − λI = P L U of `group` shifts, one lane each; entry i of a lane's
// array lies at [i·group], and the arrays one behind the other. Of the diagonal they keep the inverse, and of P a bit a row,
// which factor returns.
struct Factors {
    float *multiplier, *inverse, *above, *above2;
    int group;
};

__device__ inline unsigned long long factor(const Factors& f, const float* d, const float* e, int n, float shift, int lane) {
    unsigned long long swapped = 0;
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
        const int at = i * f.group + lane;
        f.multiplier[at] = m;
        swapped |= (unsigned long long)swap << i;
        f.inverse[at] = 1.0f / top, f.above[at] = topRight, f.above2[at] = topRight2;
        pivot = bottomRight - m * topRight, right = bottomRight2 - m * topRight2, right2 = 0.0f;
    }
    if (fabsf(pivot) < eigTiny) pivot = pivot < 0.0f ? -eigTiny : eigTiny;
    f.inverse[(n - 1) * f.group + lane] = 1.0f / pivot;
    return swapped;
}

// solve replaces x (stride apart) by the solution, scaled to a largest entry of
// about 1. It is rescaled on the way so that it cannot overflow. Without `lower` x is
// taken for what the factor L leaves of a right side. What a step reads is read in the
// one before, since a store to x might change it, for all the compiler knows; the last
// one reads an entry more of each array, which lies in shared memory too.
__device__ inline void solve(const Factors& f, unsigned long long swapped, int n, float* x, int stride, int lane, bool lower) {
    if (lower) {
        const float* row = f.multiplier + lane;
        float* to = x;
        float upper = x[0], below = x[stride], m = *row;
        for (int i = 1; i < n; i++) {
            row += f.group;
            const float belowNext = to[2 * stride], mNext = *row;
            const bool swap = swapped & 1;
            const float kept = swap ? below : upper, rest = swap ? upper : below;
            *to = kept, upper = rest - m * kept;
            swapped >>= 1, below = belowNext, m = mNext, to += stride;
        }
        *to = upper;
    }
    const int part = n * f.group;
    const float* row = f.inverse + (n - 1) * f.group + lane;
    float* to = x + (n - 1) * stride;
    float one = 0.0f, two = 0.0f, largest = 0.0f, right = *to, inverse = *row, above = 0.0f, above2 = 0.0f;
    for (int i = 0; i < n; i++) {
        row -= f.group;
        float rightNext = to[-stride];
        const float inverseNext = row[0], aboveNext = row[part], above2Next = row[2 * part];
        float v = (right - above2 * two - above * one) * inverse;
        *to = v;
        if (fabsf(v) > 1e12f) {
            for (int j = 0; j < n; j++) x[j * stride] *= 1e-12f;
            v *= 1e-12f, one *= 1e-12f, largest *= 1e-12f, rightNext *= 1e-12f;
        }
        two = one, one = v;
        largest = fmaxf(largest, fabsf(v));
        right = rightNext, inverse = inverseNext, above = aboveNext, above2 = above2Next, to -= stride;
    }
    const float scale = largest > 0.0f ? 1.0f / largest : 0.0f;
    for (int i = 0; i < n; i++) x[i * stride] *= scale;
}

// unit_after makes column j of the n×k vectors, whose entries are at most about 1,
// orthogonal to columns `first` to j − 1, twice, and of length 1.
__device__ inline void unit_after(float* v, int n, int k, int first, int j) {
    const int lane = threadIdx.x;
    for (int round = 0; round < 2; round++)
        for (int i = first; i < j; i += 2) {
            const int other = min(i + 1, j - 1); // of the last, alone, the second is nothing
            float dot = 0.0f, dotOther = 0.0f;
            for (int r = lane; r < n; r += 32) {
                const float x = v[r * k + j];
                dot = __fmaf_rn(v[r * k + i], x, dot), dotOther = __fmaf_rn(v[r * k + other], x, dotOther);
            }
            for (int m = 16; m > 0; m /= 2) {
                dot += __shfl_xor_sync(GPC_FULL_MASK, dot, m), dotOther += __shfl_xor_sync(GPC_FULL_MASK, dotOther, m);
            }
            if (other == i) dotOther = 0.0f;
            for (int r = lane; r < n; r += 32) v[r * k + j] = __fmaf_rn(-dotOther, v[r * k + other], __fmaf_rn(-dot, v[r * k + i], v[r * k + j]));
        }
    float sum = 0.0f;
    for (int r = lane; r < n; r += 32) sum = __fmaf_rn(v[r * k + j], v[r * k + j], sum);
    sum = warp_sum(sum);
    const float scale = sum > 0.0f ? 1.0f / sqrtf(sum) : 0.0f;
    for (int r = lane; r < n; r += 32) v[r * k + j] *= scale;
    __syncwarp();
}

// Reduced is T and how it was made: reflection c is I − tau[c] v vᵀ with entry r of v at
// reflect[r·down + c·along].
struct Reduced {
    float *reflect, *d, *e, *tau;
    int down, along;
};

// scaled tells, in one warp, whether all entries it looked at are finite, and gives the
// power of two that the matrix is divided by.
__device__ inline bool scaled(bool broken, float largest, float& unit) {
    if (warp_any(broken)) return false;
    largest = warp_max(largest);
    unit = largest > 0.0f ? power_of_two(largest, false) : 1.0f;
    return true;
}

// reduce_in_registers reduces a matrix of n ≤ 32, lane r with its row r. false: an
// entry is not finite.
__device__ inline bool reduce_in_registers(const float* __restrict__ in, int n, const Reduced& to, float* vector, float& unit) {
    const int lane = threadIdx.x;
    float a[32];
    float largest = 0.0f;
    bool broken = false;
    // Column `lane` by coalesced reads; its transpose through shared memory, exchanged
    // within rows so that both ways are without bank conflicts.
#pragma unroll
    for (int s = 0; s < 32; s++) {
        a[s] = s < n && lane < n ? in[s * n + lane] : 0.0f;
        broken |= !gpc_finite(a[s]), largest = fmaxf(largest, fabsf(a[s]));
        to.reflect[s * 32 + (lane ^ s)] = a[s];
    }
    if (!scaled(broken, largest, unit)) return false;
    const float shrink = 1.0f / unit;
    __syncwarp();
#pragma unroll
    for (int s = 0; s < 32; s++) a[s] = 0.5f * (a[s] * shrink + to.reflect[lane * 32 + (s ^ lane)] * shrink);
    __syncwarp();
    auto publish = [&](float* row) {
#pragma unroll
        for (int s = 0; s < 32; s += 4) *reinterpret_cast<float4*>(row + s) = make_float4(a[s], a[s + 1], a[s + 2], a[s + 3]);
    };
    for (int c = 0; c + 2 < n; c++) {
        float* column = to.reflect + c * 32;
        if (lane == c) publish(column);
        __syncwarp();
        const float x = column[lane], head = column[c + 1], diagonal = column[c];
        // Of what is below the head: xᵀx, and A x of the lane's row, which is all of A v
        // but a scale and the entry at the head. Quads before that are nothing to it.
        float square[4] = {0.0f, 0.0f, 0.0f, 0.0f}, part[4] = {0.0f, 0.0f, 0.0f, 0.0f}, at = 0.0f;
#pragma unroll
        for (int s = 0; s < 32; s += 4) {
            if (s + 3 <= c) continue;
            const float4 q = *reinterpret_cast<const float4*>(column + s);
            float y[4] = {q.x, q.y, q.z, q.w};
            if (s <= c + 1) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if (s + i == c + 1) at = a[s + i];
                    if (s + i <= c + 1) y[i] = 0.0f;
                }
            }
#pragma unroll
            for (int i = 0; i < 4; i++) square[i] = __fmaf_rn(y[i], y[i], square[i]), part[i] = __fmaf_rn(a[s + i], y[i], part[i]);
        }
        const float below = (square[0] + square[1]) + (square[2] + square[3]);
        __syncwarp();
        // Beside the largest entry, 1 to 2, what is below is nothing.
        if (below < 1e-30f) {
            if (lane == 0) to.tau[c] = 0.0f, to.e[c] = head, to.d[c] = diagonal;
            continue;
        }
        // v = (x − alpha e)/(x0 − alpha), so that v_0 = 1 and tau = (alpha − x0)/alpha.
        const float length = sqrtf(__fmaf_rn(head, head, below)), alpha = head > 0.0f ? -length : length;
        const float scale = 1.0f / (head - alpha), t = (alpha - head) / alpha;
        const float v = lane <= c || lane >= n ? 0.0f : (lane == c + 1 ? 1.0f : x * scale);
        column[lane] = v;
        if (lane == 0) to.tau[c] = t, to.e[c] = alpha, to.d[c] = diagonal;
        // p = tau A v, then w = p − (tau/2)(pᵀv) v.
        const float p = lane > c ? t * __fmaf_rn(scale, (part[0] + part[1]) + (part[2] + part[3]), at) : 0.0f;
        const float w = __fmaf_rn(-0.5f * t * warp_sum(p * v), v, p);
        vector[lane] = w;
        __syncwarp();
#pragma unroll
        for (int s = 0; s < 32; s += 4) {
            if (s + 3 <= c) continue;
            const float4 q = *reinterpret_cast<const float4*>(column + s), r = *reinterpret_cast<const float4*>(vector + s);
            a[s] = __fmaf_rn(-v, r.x, __fmaf_rn(-w, q.x, a[s])), a[s + 1] = __fmaf_rn(-v, r.y, __fmaf_rn(-w, q.y, a[s + 1]));
            a[s + 2] = __fmaf_rn(-v, r.z, __fmaf_rn(-w, q.z, a[s + 2])), a[s + 3] = __fmaf_rn(-v, r.w, __fmaf_rn(-w, q.w, a[s + 3]));
        }
        __syncwarp();
    }
    // What is left: the last two rows.
    if (lane < n && lane + 2 >= n) publish(vector + (n - 1 - lane) * 32);
    __syncwarp();
    if (lane == 0) {
        if (n > 1) to.d[n - 2] = vector[32 + n - 2], to.e[n - 2] = vector[n - 2];
        to.d[n - 1] = vector[n - 1];
    }
    __syncwarp();
    return true;
}

// reduce_in_shared is the same for larger matrices.
__device__ inline bool reduce_in_shared(const float* __restrict__ in, int n, const Reduced& to, float* work, float& unit) {
    const int lane = threadIdx.x, ld = to.down;
    float *a = to.reflect, *d = to.d, *e = to.e, *tau = to.tau;
    float largest = 0.0f;
    bool broken = false;
    for (int i = lane; i < n * n; i += 32) {
        const float x = in[i];
        broken |= !gpc_finite(x);
        largest = fmaxf(largest, fabsf(x));
    }
    if (!scaled(broken, largest, unit)) return false;
    const float shrink = 1.0f / unit;
    for (int i = lane; i < n * n; i += 32) a[(i / n) * ld + i % n] = 0.5f * (in[i] * shrink + in[(i % n) * n + i / n] * shrink);
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

    return true;
}

template <bool SMALL>
__device__ inline void eig(const float* __restrict__ g, long long ldg, int n, int k, float* __restrict__ values, long long ldvalues, float* __restrict__ vectors, long long ldvectors, float* shared) {
    constexpr int most = SMALL ? 32 : 64;
    const int lane = threadIdx.x, group = min(k, eigGroup);
    Reduced t;
    t.reflect = shared;
    t.down = SMALL ? 1 : n | 1, t.along = SMALL ? 32 : 1;
    float* v = shared + (SMALL ? 32 * 32 : n * (n | 1));
    float* lambda = v + n * k;
    // On 16 bytes, for a vector that is read so.
    float* work = shared + ((SMALL ? 32 * 32 : n * (n | 1)) + n * k + most + 3) / 4 * 4;
    t.tau = work + max(4 * n * group, 64);
    // No reflection takes the last two columns of 32.
    t.d = SMALL ? shared + 30 * 32 : t.tau + most, t.e = t.d + most;
    float *d = t.d, *e = t.e, *tau = t.tau;
    const float* in = g + blockIdx.x * ldg;
    float* outValues = values + blockIdx.x * ldvalues;
    float* outVectors = vectors + blockIdx.x * ldvectors;
    float unit;
    if (!(SMALL ? reduce_in_registers(in, n, t, work, unit) : reduce_in_shared(in, n, t, work, unit))) {
        for (int j = lane; j < k; j += 32) outValues[j] = gpc_nan();
        for (int i = lane; i < n * k; i += 32) outVectors[i] = 0.0f;
        return;
    }

    // Gershgorin's interval of T.
    float low = d[0], high = d[0];
    for (int i = 0; i < n; i++) {
        const float radius = (i > 0 ? fabsf(e[i - 1]) : 0.0f) + (i + 1 < n ? fabsf(e[i]) : 0.0f);
        low = fminf(low, d[i] - radius), high = fmaxf(high, d[i] + radius);
    }
    const float norm = fmaxf(fabsf(low), fabsf(high));
    low -= 1e-6f * norm + 1e-30f, high += 1e-6f * norm + 1e-30f;

    float* e2 = work; // the square before each entry of the diagonal
    for (int i = lane; i < n; i += 32) e2[i] = i > 0 ? e[i - 1] * e[i - 1] : 0.0f;
    __syncwarp();

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
            const bool under = sturm(d, e2, n, x) <= wanted; // x ≤ the eigenvalue
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
    const Factors f{work, work + n * group, work + 2 * n * group, work + 3 * n * group, group};
    for (int i = lane; i < n * k; i += 32) {
        unsigned int h = (unsigned int)(i + 1) * 2654435761u;
        h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
        v[i] = 0.5f + float(h & 0xffffu) / 65536.0f * ((h & 0x10000u) ? -1.0f : 1.0f);
    }
    __syncwarp();
    // Vectors of eigenvalues closer than a thousandth of the norm are made orthogonal as
    // they are iterated; those of others come out so.
    auto close = [&](int j) { return __ballot_sync(GPC_FULL_MASK, j > 0 && j < k && lambda[max(j, 1) - 1] - lambda[min(j, k - 1)] < 1e-3f * norm); };
    const unsigned long long near = close(lane) | (unsigned long long)close(lane + 32) << 32; // bit j: to eigenvalue j − 1
    for (int j0 = 0; j0 < k; j0 += eigGroup) {
        const int j = j0 + lane;
        const bool works = lane < eigGroup && j < k;
        const unsigned long long swapped = works ? factor(f, d, e, n, lambda[j], lane) : 0;
        for (int round = 0; round < eigRounds; round++) {
            if (works) solve(f, swapped, n, v + j, k, lane, round > 0);
            __syncwarp();
            for (int i = j0; i < min(j0 + eigGroup, k); i++) {
                int first = i;
                while (near >> first & 1) first--;
                if (first < i || (i + 1 < k && near >> (i + 1) & 1)) unit_after(v, n, k, first, i);
            }
        }
    }

    // The reflections in reverse: x −= tau v (vᵀx), groups of lanes share a vector. Of 32
    // rows eight lanes hold it in registers; a reflection without a tau takes nothing.
    if (SMALL) {
        for (int j0 = 0; j0 < k; j0 += 4) {
            const int j = j0 + lane / 8, member = lane % 8;
            float x[4];
#pragma unroll
            for (int q = 0; q < 4; q++) x[q] = j < k && member + 8 * q < n ? v[(member + 8 * q) * k + j] : 0.0f;
            for (int c = n - 3; c >= 0; c--) {
                float w[4];
#pragma unroll
                for (int q = 0; q < 4; q++) w[q] = t.reflect[c * 32 + member + 8 * q];
                float dot = __fmaf_rn(w[0], x[0], w[1] * x[1]) + __fmaf_rn(w[2], x[2], w[3] * x[3]);
                for (int m = 4; m > 0; m /= 2) dot += __shfl_xor_sync(GPC_FULL_MASK, dot, m);
                dot *= tau[c];
#pragma unroll
                for (int q = 0; q < 4; q++) x[q] = __fmaf_rn(-dot, w[q], x[q]);
            }
#pragma unroll
            for (int q = 0; q < 4; q++)
                if (j < k && member + 8 * q < n) v[(member + 8 * q) * k + j] = x[q];
        }
        __syncwarp();
    } else {
        for (int j0 = 0; j0 < k; j0 += together) {
            const int j = j0 + lane / members, member = lane % members;
            for (int c = n - 3; c >= 0; c--) {
                if (tau[c] == 0.0f) continue;
                float dot = 0.0f;
                if (j < k)
                    for (int r = c + 1 + member; r < n; r += members) dot = __fmaf_rn(t.reflect[r * t.down + c * t.along], v[r * k + j], dot);
                for (int m = members / 2; m > 0; m /= 2) dot += __shfl_xor_sync(GPC_FULL_MASK, dot, m);
                dot *= tau[c];
                if (j < k)
                    for (int r = c + 1 + member; r < n; r += members) v[r * k + j] = __fmaf_rn(-dot, t.reflect[r * t.down + c * t.along], v[r * k + j]);
                __syncwarp();
            }
        }
    }
    for (int j = 0; j < k; j++) unit_after(v, n, k, 0, j);
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

} // namespace gpc

extern "C" __global__ void __launch_bounds__(32, 32) gpc_eig_32(const float* __restrict__ g, long long ldg, int n, int k, float* __restrict__ values, long long ldvalues, float* __restrict__ vectors, long long ldvectors) {
    GPC_SHARED(float, shared);
    gpc::eig<true>(g, ldg, n, k, values, ldvalues, vectors, ldvectors, shared);
}
GPC_KERNEL(gpc_eig_32)

extern "C" __global__ void __launch_bounds__(32) gpc_eig(const float* __restrict__ g, long long ldg, int n, int k, float* __restrict__ values, long long ldvalues, float* __restrict__ vectors, long long ldvectors) {
    GPC_SHARED(float, shared);
    gpc::eig<false>(g, ldg, n, k, values, ldvalues, vectors, ldvectors, shared);
}
GPC_KERNEL(gpc_eig)
