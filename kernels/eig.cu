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
// Grid ⌈matrices/W⌉, block 32 W, a warp a matrix: W = 4 where there are many, since
// inverse iteration has work for k lanes of a matrix and the first warp makes that of
// all four; what comes out does not depend on W. Up to n = 32 (gpc_eig_32) a lane holds
// a row of the matrix in registers while it is reduced; what lanes need of each other
// passes through shared memory as one vector of 32, read 16 bytes at a time. Larger ones
// (gpc_eig, W = 1) lie there whole. Shared memory per matrix: Place, of which eigShared of
// the launcher computes the same: 6.2 KiB at n = 32, k = 3, so that with 64 registers a
// thread 32 matrices share a multiprocessor, all of 4096 those of an H200 at once.
//
// Bound: instructions of a batch, some 14 000 a matrix, half of them for the reduction
// (4/3 n³ FLOP); the latency of a warp's dependent steps where there are few.
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
        below += (__float_as_uint(next) ^ __float_as_uint(p)) >> 31;
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
    const int lane = threadIdx.x % 32;
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
    const int lane = threadIdx.x % 32;
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
    // A column c whose quad is that many fours: of no use to it are the quads before, which
    // is known when this is compiled.
#pragma unroll
    for (int quad = 0; quad < 32; quad += 4)
        for (int c = quad; c < min(quad + 4, n - 2); c++) {
            float* column = to.reflect + c * 32;
            // The lane's entry at the head, c + 1.
            float at = quad + 4 < 32 ? a[(quad + 4) % 32] : 0.0f;
#pragma unroll
            for (int i = 1; i < 4; i++) at = c + 1 == quad + i ? a[quad + i] : at;
            if (lane == c) {
                float diagonal = a[quad];
#pragma unroll
                for (int i = 1; i < 4; i++) diagonal = c == quad + i ? a[quad + i] : diagonal;
                to.d[c] = diagonal, vector[0] = at;
                // What is below the head.
#pragma unroll
                for (int s = quad; s < 32; s += 4) {
                    float y[4];
#pragma unroll
                    for (int i = 0; i < 4; i++) y[i] = s + i < quad + 5 && s + i <= c + 1 ? 0.0f : a[s + i];
                    *reinterpret_cast<float4*>(column + s) = make_float4(y[0], y[1], y[2], y[3]);
                }
            }
            __syncwarp();
            const float x = column[lane], head = vector[0];
            // Of what is below the head: xᵀx, and A x of the lane's row, which is all of A v
            // but a scale and the entry at the head.
            float square[4] = {0.0f, 0.0f, 0.0f, 0.0f}, part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int s = quad; s < 32; s += 4) {
                const float4 q = *reinterpret_cast<const float4*>(column + s);
                const float y[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
                for (int i = 0; i < 4; i++) square[i] = __fmaf_rn(y[i], y[i], square[i]), part[i] = __fmaf_rn(a[s + i], y[i], part[i]);
            }
            const float below = (square[0] + square[1]) + (square[2] + square[3]);
            __syncwarp();
            // Beside the largest entry, 1 to 2, what is below is nothing.
            if (below < 1e-30f) {
                column[lane] = 0.0f;
                if (lane == 0) to.tau[c] = 0.0f, to.e[c] = head;
                continue;
            }
            // v = (x − alpha e)/(x0 − alpha), so that v_0 = 1, with alpha of x0's other sign
            // and of length r⁻¹, and tau = (alpha − x0)/alpha = 1 + |x0| r.
            const float both = __fmaf_rn(head, head, below), guess = rsqrtf(both), r = guess * __fmaf_rn(-0.5f * both * guess, guess, 1.5f);
            const float t = __fmaf_rn(fabsf(head), r, 1.0f), scale = copysignf(__fdividef(r, t), head);
            const float v = lane <= c || lane >= n ? 0.0f : (lane == c + 1 ? 1.0f : x * scale);
            column[lane] = v;
            if (lane == 0) to.tau[c] = t, to.e[c] = -copysignf(both * r, head);
            // p = tau A v, then w = p − (tau/2)(pᵀv) v.
            const float p = lane > c ? t * __fmaf_rn(scale, (part[0] + part[1]) + (part[2] + part[3]), at) : 0.0f;
            const float w = __fmaf_rn(-0.5f * t * warp_sum(p * v), v, p);
            vector[lane] = w;
            __syncwarp();
#pragma unroll
            for (int s = quad; s < 32; s += 4) {
                const float4 q = *reinterpret_cast<const float4*>(column + s), z = *reinterpret_cast<const float4*>(vector + s);
                a[s] = __fmaf_rn(-v, z.x, __fmaf_rn(-w, q.x, a[s])), a[s + 1] = __fmaf_rn(-v, z.y, __fmaf_rn(-w, q.y, a[s + 1]));
                a[s + 2] = __fmaf_rn(-v, z.z, __fmaf_rn(-w, q.z, a[s + 2])), a[s + 3] = __fmaf_rn(-v, z.w, __fmaf_rn(-w, q.w, a[s + 3]));
            }
            __syncwarp();
        }
    // What is left: the last two rows.
    if (lane < n && lane + 2 >= n)
#pragma unroll
        for (int s = 0; s < 32; s += 4) *reinterpret_cast<float4*>(vector + (n - 1 - lane) * 32 + s) = make_float4(a[s], a[s + 1], a[s + 2], a[s + 3]);
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
    const int lane = threadIdx.x % 32, ld = to.down;
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

// eigenvalues finds the k largest of T, and which of them are closer to the one before than
// a thousandth of the norm.
template <int MOST>
__device__ inline void eigenvalues(const Reduced& t, int n, int k, float* lambda, float* work, unsigned int* close) {
    const int lane = threadIdx.x % 32;
    const float *d = t.d, *e = t.e;
    // Gershgorin's interval of T.
    float low = d[0], high = d[0];
    for (int i = lane; i < n; i += 32) {
        const float radius = (i > 0 ? fabsf(e[i - 1]) : 0.0f) + (i + 1 < n ? fabsf(e[i]) : 0.0f);
        low = fminf(low, d[i] - radius), high = fmaxf(high, d[i] + radius);
    }
    low = -warp_max(-low), high = warp_max(high);
    const float norm = fmaxf(fabsf(low), fabsf(high));
    low -= 1e-6f * norm + 1e-30f, high += 1e-6f * norm + 1e-30f;

    float* e2 = work; // the square before each entry of the diagonal
    for (int i = lane; i < n; i += 32) e2[i] = i > 0 ? e[i - 1] * e[i - 1] : 0.0f;
    __syncwarp();

    // Multisection: groups of lanes share one eigenvalue each.
    const int members = max(1, 32 / k), together = 32 / members;
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
#pragma unroll
    for (int w = 0; w < MOST / 32; w++) {
        const int j = lane + 32 * w;
        const unsigned int bits = __ballot_sync(GPC_FULL_MASK, j > 0 && j < k && lambda[max(j, 1) - 1] - lambda[min(j, k - 1)] < 1e-3f * norm);
        if (lane == 0) close[w] = bits;
    }
    if (lane == 0 && MOST == 32) close[1] = 0;
}

// start gives inverse iteration its deterministic pseudo-random vectors.
__device__ inline void start(float* v, int n, int k) {
    for (int i = threadIdx.x % 32; i < n * k; i += 32) {
        unsigned int h = (unsigned int)(i + 1) * 2654435761u;
        h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
        v[i] = 0.5f + float(h & 0xffffu) / 65536.0f * ((h & 0x10000u) ? -1.0f : 1.0f);
    }
}

// anew is v, which the compiler takes for another.
__device__ inline int anew(int v) {
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(v));
#endif
    return v;
}

// Place is where a matrix has its numbers in shared memory, from its first float on.
template <bool SMALL>
struct Place {
    static constexpr int most = SMALL ? 32 : 64;
    Reduced t;
    float *v, *lambda, *work;
    unsigned int* close; // bit j: eigenvalue j is close to j − 1; and whether there is one to find
    int floats;

    // What depends on n and k comes last where the matrix is in registers.
    __device__ Place(float* at, int n, int k) {
        t.reflect = at, t.down = SMALL ? 1 : n | 1, t.along = SMALL ? 32 : 1;
        t.tau = at + (SMALL ? 32 * 32 : (n * (n | 1) + 3) / 4 * 4);
        // No reflection takes the last two columns of 32.
        t.d = SMALL ? at + 30 * 32 : t.tau + most, t.e = t.d + most;
        lambda = SMALL ? t.tau + most : t.e + most;
        close = reinterpret_cast<unsigned int*>(lambda + most);
        work = lambda + most + 4; // on 16 bytes, for vectors that are read so
        // solve reads an entry before its vector: k − 8 floats apart, no other lane has written it.
        v = work + max(4 * n * min(k, eigGroup), 64) + max(k - eigGroup, 0);
        floats = (int(v - at) + (n + 1) * k + 3) / 4 * 4; // an entry more, which solve reads
    }
};

template <bool SMALL>
__device__ inline void eig(const float* __restrict__ g, long long ldg, int rows, int n, int k, float* __restrict__ values, long long ldvalues, float* __restrict__ vectors, long long ldvectors, float* shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, group = min(k, eigGroup);
    const int floats = Place<SMALL>(shared, n, k).floats;
    float unit = 1.0f;
    bool fine = false;
    {
        const Place<SMALL> at(shared + warp * floats, n, k);
        const long long row = (long long)blockIdx.x * warps + warp;
        if (row < rows) fine = SMALL ? reduce_in_registers(g + row * ldg, n, at.t, at.work, unit) : reduce_in_shared(g + row * ldg, n, at.t, at.work, unit);
    }
    // Made again, so that nothing of it stays in registers while these hold the matrix.
    const Place<SMALL> own(shared + anew(warp) * floats, n, k);
    const Reduced& t = own.t;
    float *v = own.v, *lambda = own.lambda, *tau = t.tau;
    const long long row = (long long)blockIdx.x * warps + anew(warp);
    float* outValues = values + row * ldvalues;
    float* outVectors = vectors + row * ldvectors;
    if (fine) {
        eigenvalues<own.most>(t, n, k, lambda, own.work, own.close);
        start(v, n, k);
    } else if (row < rows) {
        for (int j = lane; j < k; j += 32) outValues[j] = gpc_nan();
        for (int i = lane; i < n * k; i += 32) outVectors[i] = 0.0f;
    }
    if (lane == 0) own.close[2] = fine;
    __syncthreads();
    // Inverse iteration: eight lanes of the first warp for each of four matrices.
    if (warp == 0) {
        const int mine = lane / eigGroup, member = lane % eigGroup;
        const Place<SMALL> at(shared + min(mine, warps - 1) * floats, n, k);
        const Factors f{at.work, at.work + n * group, at.work + 2 * n * group, at.work + 3 * n * group, group};
        for (int j0 = 0; j0 < k; j0 += eigGroup) {
            const int j = j0 + member;
            const bool works = mine < warps && at.close[2] && j < k;
            const unsigned long long swapped = works ? factor(f, at.t.d, at.t.e, n, at.lambda[j], member) : 0;
            for (int round = 0; round < eigRounds; round++) {
                if (works) solve(f, swapped, n, at.v + j, k, member, round > 0);
                __syncwarp();
                // Vectors of eigenvalues closer than a thousandth of the norm are made orthogonal as
                // they are iterated; those of others come out so.
                for (int m = 0; m < warps; m++) {
                    const Place<SMALL> of(shared + m * floats, n, k);
                    const unsigned long long near = of.close[2] ? of.close[0] | (unsigned long long)of.close[1] << 32 : 0;
                    if (near == 0) continue;
                    for (int i = j0; i < min(j0 + eigGroup, k); i++) {
                        int first = i;
                        while (near >> first & 1) first--;
                        if (first < i || (i + 1 < k && near >> (i + 1) & 1)) unit_after(of.v, n, k, first, i);
                    }
                }
            }
        }
    }
    __syncthreads();
    if (!fine) return;

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
        int members = 32;
        while (members > 1 && members * k > 32) members /= 2;
        const int together = 32 / members;
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

extern "C" __global__ void __launch_bounds__(128, 8) gpc_eig_32(const float* __restrict__ g, long long ldg, int rows, int n, int k, float* __restrict__ values, long long ldvalues, float* __restrict__ vectors, long long ldvectors) {
    GPC_SHARED(float, shared);
    gpc::eig<true>(g, ldg, rows, n, k, values, ldvalues, vectors, ldvectors, shared);
}
GPC_KERNEL(gpc_eig_32)

extern "C" __global__ void __launch_bounds__(32) gpc_eig(const float* __restrict__ g, long long ldg, int rows, int n, int k, float* __restrict__ values, long long ldvalues, float* __restrict__ vectors, long long ldvectors) {
    GPC_SHARED(float, shared);
    gpc::eig<false>(g, ldg, rows, n, k, values, ldvalues, vectors, ldvectors, shared);
}
GPC_KERNEL(gpc_eig)
