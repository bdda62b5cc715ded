// device_change.cuh: the smallest change of the set-points that keeps linear limits, by
// a warp: the problem of quadratic.go with every row at hand, one constraint a pivot (D.
// Goldfarb, A. Idnani, Math. Program. 27, 1983).
//
//	minimise xᵀW⁻¹x   subject to   lo ≤ x ≤ hi,   a_k·x ≥ b_k at the price s²/ε of breaking it by s
//
// Constraints are numbered: x_j ≥ lo_j is j, x_j ≤ hi_j is n+j, row k is 2n+k.
// Lanes take constraints where the most violated one is sought, and entries of vectors
// elsewhere. The factor of the active constraints' Gram matrix is solved with a few
// registers a lane, one shuffle a column.
#pragma once
#include "device_network.cuh"

namespace opf {

constexpr int mostActive = 126; // deviceActive of device.go
constexpr int perLane = 4;      // entries of a vector over them

__device__ inline int triangle(int i) { return i * (i + 1) / 2; }

// inner is Σ a(j)·b(j) over n entries in the order of quadratic.go's dot.
template <class A, class B>
__device__ inline double inner(int n, A a, B b) {
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    int i = 0;
    for (; i + 4 <= n; i += 4) s0 += a(i) * b(i), s1 += a(i + 1) * b(i + 1), s2 += a(i + 2) * b(i + 2), s3 += a(i + 3) * b(i + 3);
    for (; i < n; i++) s0 += a(i) * b(i);
    return (s0 + s1) + (s2 + s3);
}

struct LeastChange {
    int n, most, rows; // variables, room for rows, rows
    const double* metric; // W, [n, n]
    double price;         // ε of every row
    double *x, *lo, *hi, *change;
    double* a;     // [n, most]: row k is a column, so that lanes read neighbours
    double *bound, *edge, *guard; // b, and of what limit with what room
    double *multiplier, *coupling, *r;
    double* scaled;        // [active, n] W times the gradient of each
    double *gram, *factor; // NᵀWN + diag(ε) and its Cholesky factor with the inverse of its diagonal, packed lower triangles
    int *active, *isActive;
    int* of;   // limit of a row, device_projection.cuh
    int count; // of the active ones

    __device__ LeastChange(const Network& net, double* at) {
        n = net.size(CONTROLS), most = net.size(LIMITS), rows = 0, count = 0;
        metric = net.numbers(METRIC), price = net.k[ELASTICITY];
        auto take = [&](int size) {
            double* start = at;
            at += size;
            return start;
        };
        x = take(n), lo = take(n), hi = take(n), change = take(n), a = take(n * most), bound = take(most), edge = take(most), guard = take(most);
        multiplier = take(mostActive), coupling = take(mostActive), r = take(mostActive);
        scaled = take(mostActive * n), gram = take(triangle(mostActive)), factor = take(triangle(mostActive));
        active = reinterpret_cast<int*>(at), isActive = active + mostActive, of = isActive + 2 * n + most;
    }

    // along is the product of constraint c's gradient with v.
    __device__ double along(int c, const double* v) const {
        if (c < n) return v[c];
        if (c < 2 * n) return -v[c - n];
        const double* row = a + (c - 2 * n);
        return inner(n, [&](int j) { return row[j * most]; }, [&](int j) { return v[j]; });
    }

    __device__ double violation(int c) const {
        if (c < n) return lo[c] - x[c];
        if (c < 2 * n) return x[c - n] - hi[c - n];
        return bound[c - 2 * n] - along(c, x);
    }

    __device__ double elasticity(int c) const { return c < 2 * n ? 0.0 : price; }

    // Over has the entries l, l + 32, … of a vector over the active constraints.
    struct Over {
        double v[perLane];
    };

    __device__ static Over over(int q, const double* from) {
        Over y;
        for (int i = 0; i < perLane; i++) y.v[i] = lane() + 32 * i < q ? from[lane() + 32 * i] : 0.0;
        return y;
    }

    // entry is entry k, in every lane.
    __device__ static double entry(const Over& y, int k) {
        double own = y.v[0];
        for (int i = 1; i < perLane && 32 * i <= k; i++) own = i == k / 32 ? y.v[i] : own;
        return __shfl_sync(GPC_FULL_MASK, own, k & 31);
    }

    // lower solves L y = b for the first q rows of the factor, upper Lᵀ y = b.
    __device__ void lower(int q, Over& y) const {
        for (int k = 0; k < q; k++) {
            const double v = entry(y, k) * factor[triangle(k) + k];
            for (int i = 0; i < perLane && 32 * i < q; i++) {
                const int l = lane() + 32 * i;
                if (l == k) y.v[i] = v;
                if (l > k && l < q) y.v[i] -= factor[triangle(l) + k] * v;
            }
        }
    }
    __device__ void upper(int q, Over& y) const {
        for (int k = q - 1; k >= 0; k--) {
            const double v = entry(y, k) * factor[triangle(k) + k];
            for (int i = 0; i < perLane && 32 * i <= k; i++) {
                const int l = lane() + 32 * i;
                if (l == k) y.v[i] = v;
                if (l < k) y.v[i] -= factor[triangle(k) + l] * v;
            }
        }
    }

    // close writes row q of the factor from L⁻¹ of its Gram entries, in registers, and
    // the Gram entry on the diagonal.
    __device__ void close(int q, const Over& y, double diagonal) {
        double* row = factor + triangle(q);
        double squares = 0.0;
        for (int i = 0; i < perLane; i++)
            if (lane() + 32 * i < q) row[lane() + 32 * i] = y.v[i], squares += y.v[i] * y.v[i];
        squares = warp_sum(squares);
        if (lane() == 0) row[q] = 1.0 / sqrt(larger(diagonal - squares, 1e-300));
        __syncwarp();
    }

    // solve leaves the answer in x; where the pivots ran out, or constraints contradict
    // each other, what was reached.
    __device__ void solve(double tolerance, int pivots) {
        const int m = 2 * n + rows;
        for (int j = lane(); j < n; j += 32) x[j] = 0.0;
        for (int c = lane(); c < m; c += 32) isActive[c] = 0;
        count = 0;
        __syncwarp();
        while (pivots > 0) {
            double worst = tolerance;
            int add = -1;
            for (int c = lane(); c < m; c += 32) {
                if (isActive[c]) continue;
                const double v = violation(c);
                if (v > worst) add = c, worst = v;
            }
            for (int o = 16; o > 0; o /= 2) { // the first of the worst
                const double v = __shfl_xor_sync(GPC_FULL_MASK, worst, o);
                const int c = __shfl_xor_sync(GPC_FULL_MASK, add, o);
                if (c >= 0 && (add < 0 || v > worst || (v == worst && c < add))) add = c, worst = v;
            }
            if (add < 0) return;
            double own = 0.0;
            for (bool full = false; !full;) {
                if (--pivots < 0 || count == mostActive) return;
                if (!pivot(add, own, full)) return;
            }
        }
    }

    // pivot moves towards constraint add as far as the multipliers stay positive: full
    // when it is reached, and then active; otherwise the active constraint in the way
    // is dropped. It is false where the active ones contradict it.
    __device__ bool pivot(int add, double& own, bool& full) {
        const int q = count;
        const double infinity = (double)gpc_inf();
        double* mine = scaled + q * n;
        for (int j = lane(); j < n; j += 32) {
            if (add < n)
                mine[j] = metric[add * n + j];
            else if (add < 2 * n)
                mine[j] = -metric[(add - n) * n + j];
            else
                mine[j] = along(add, metric + j * n);
        }
        __syncwarp();
        for (int i = lane(); i <= q; i += 32) coupling[i] = along(add, scaled + i * n);
        __syncwarp();
        const double size = coupling[q] + elasticity(add);
        Over y = over(q, coupling);
        lower(q, y);
        const Over row = y;
        upper(q, y);
        double partial = infinity;
        int drop = -1;
        double product = 0.0;
        for (int part = 0; part < perLane; part++) {
            const int i = lane() + 32 * part;
            if (i >= q) continue;
            const double share = y.v[part];
            r[i] = share, product += share * coupling[i];
            if (share > 1e-12) {
                const double t = multiplier[i] / share;
                if (t < partial) partial = t, drop = i;
            }
        }
        for (int o = 16; o > 0; o /= 2) {
            const double t = __shfl_xor_sync(GPC_FULL_MASK, partial, o);
            const int i = __shfl_xor_sync(GPC_FULL_MASK, drop, o);
            if (i >= 0 && (drop < 0 || t < partial || (t == partial && i < drop))) partial = t, drop = i;
        }
        const double curvature = size - warp_sum(product);
        __syncwarp();
        // Change of x per unit of the multiplier: W(a − N r).
        for (int j = lane(); j < n; j += 32) {
            double v = mine[j];
#pragma unroll 4
            for (int i = 0; i < q; i++) v -= r[i] * scaled[i * n + j];
            change[j] = v;
        }
        double reach = infinity;
        if (curvature > 1e-11 * size) {
            const double lacks = __shfl_sync(GPC_FULL_MASK, lane() == 0 ? violation(add) : 0.0, 0);
            reach = larger(0.0, (lacks - elasticity(add) * own) / curvature);
        }
        const double t = smaller(partial, reach);
        if (t == infinity) return false;
        __syncwarp();
        for (int i = lane(); i < q; i += 32) multiplier[i] = larger(0.0, multiplier[i] - t * r[i]);
        own += t;
        if (reach < infinity)
            for (int j = lane(); j < n; j += 32) x[j] += t * change[j];
        __syncwarp();
        full = reach <= partial;
        if (full)
            activate(add, size, own, row);
        else
            deactivate(drop);
        return true;
    }

    __device__ void activate(int c, double size, double own, const Over& own_row) {
        const int q = count;
        double* row = gram + triangle(q);
        for (int i = lane(); i < q; i += 32) row[i] = coupling[i];
        if (lane() == 0) row[q] = size, active[q] = c, multiplier[q] = own, isActive[c] = 1;
        close(q, own_row, size);
        count = q + 1;
    }

    // deactivate drops the active constraint at place i.
    __device__ void deactivate(int i) {
        const int q = count;
        if (lane() == 0) {
            isActive[active[i]] = 0;
            for (int l = i + 1; l < q; l++) active[l - 1] = active[l], multiplier[l - 1] = multiplier[l];
        }
        for (int j = lane(); j < n; j += 32)
            for (int l = i + 1; l < q; l++) scaled[(l - 1) * n + j] = scaled[l * n + j];
        for (int l = i + 1; l < q; l++) {
            for (int k = lane(); k <= l; k += 32)
                if (k != i) gram[triangle(l - 1) + (k < i ? k : k - 1)] = gram[triangle(l) + k];
            __syncwarp();
        }
        for (int l = i; l < q - 1; l++) {
            const double* row = gram + triangle(l);
            Over y = over(l, row);
            lower(l, y);
            close(l, y, row[l]);
        }
        count = q - 1;
        __syncwarp();
    }
};

} // namespace opf
