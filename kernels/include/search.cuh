// search.cuh: what the kernels of the search among codes share. A search is
//
//	search_bound.cu  a distance T of each query that k codes at least do not exceed
//	search_sieve.cu  marks every code that may lie within T, by a product on tensor cores
//	search_exact.cu  distances of the marked codes in float64; those within T, nearest first
//	search_scan.cu   all codes in float64, for queries that these have not answered
//
// So the result is exact whatever the products err by: with the codes less their mean, and
// γ for the rounding of a product,
//
//	|‖z − c‖² − (‖z‖² + ‖c‖² − 2 zᵀc)| ≤ γ (‖z‖² + ‖c‖²).
#pragma once
#include "gpc.cuh"
#include "mma.cuh"

struct gpc_search {
    const float* codes;     // [count, ldcode]
    const float* decoded;   // [count, lddecoded], with x
    const float4* fragments; // codes less mean, rounded: [⌈count/32⌉][slices of 16 k][4 tiles of 8 codes][lane], zeros to a multiple of 128 codes
    const float* mean;      // [n]
    const float4* upper;    // of every two codes −(1 + γ)/2 ‖c − mean‖², twice, as sums begin; −∞ to a multiple of 128 codes
    const float4* lower;    // −(1 − γ)/2 ‖c − mean‖², likewise
    const float* z;         // [rows, ldz] queries
    const float* x;         // [rows, ldx] or nullptr: no residual filter
    const float* tau;       // [rows]
    float2* bounds;         // [rows] T, and what zᵀc − (1 − γ)/2 ‖c‖² of a code within T is not below
    uint4* marks;           // [rows, ⌈count/128⌉] member m of a quad: bit 8s + 4q + j is code 32s + 16q + 4m + j
    double* distance;       // [rows, k] nearest first; NaN: not found
    int* index;             // [rows, k] −1: not found
    int* found;             // [rows]
    int* state;             // [rows] 0: a code was found, 1: none was, 2: the query is not finite, 3: not answered yet
    int* fallback;          // [rows] code of smallest residual where state is 1; nullptr without x
    int count, rows, k;
    int n, states, ldcode, lddecoded, ldz, ldx;
    int every; // of so many tiles of 32 codes one is looked at for T
    float gamma;
    int pad;
};

namespace gpc {

constexpr int searchRun = 128; // codes of a quad of marks
constexpr int searchOpen = 3;  // state of a query that is not answered yet

__device__ inline bool before(double d, int i, double e, int j) { return d < e || (d == e && i < j); }

// squared_distance is ‖a − b‖² in float64, b on 16 bytes.
__device__ inline double squared_distance(const float* a, const float* b, int n) {
    double sum = 0.0;
    auto add = [&](float x, float y) {
        const double d = (double)x - (double)y;
        sum += d * d;
    };
    int i = 0;
#pragma unroll 2
    for (; i + 4 <= n; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(b + i);
        add(a[i], v.x), add(a[i + 1], v.y), add(a[i + 2], v.z), add(a[i + 3], v.w);
    }
    for (; i < n; i++) add(a[i], b[i]);
    return sum;
}

// SieveQueries are 32 queries of a warp, as tensor cores take them: lane (group, member)
// has four coordinates of rows 16i + group + 8e in every slice of 16.
template <int SLICES>
struct SieveQueries {
    unsigned int a[SLICES][2][2][4];

    __device__ SieveQueries(const gpc_search& job, int row0) {
        const int group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
#pragma unroll
        for (int s = 0; s < SLICES; s++)
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float* row = job.z + (long long)min(row0 + 16 * i + group + 8 * e, job.rows - 1) * job.ldz;
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const int k = 16 * s + 4 * member + j;
                        a[s][i][j / 2][j % 2 * 2 + e] = k < job.n ? to_tf32(row[k] - job.mean[k]) : 0u;
                    }
                }
    }

    // products makes zᵀc + start of a tile of 32 codes: of the lane's rows, codes
    // 16q + 4·member + j are sum[i][2q + j/2][2e + j%2].
    __device__ void products(const float4* fragments, const float4* start, int tile, float (&sum)[2][4][4]) const {
        const int lane = threadIdx.x % 32;
        fragments += (long long)tile * (SLICES * 128) + lane, start += 16 * tile + 2 * (lane % 4);
#pragma unroll
        for (int s = 0; s < SLICES; s++) {
            float4 b[4];
#pragma unroll
            for (int j = 0; j < 4; j++) b[j] = __ldg(fragments + 128 * s + 32 * j);
#pragma unroll
            for (int p = 0; p < 2; p++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const unsigned int of[2] = {__float_as_uint(p ? b[j].z : b[j].x), __float_as_uint(p ? b[j].w : b[j].y)};
                    if (s == 0 && p == 0) {
                        const float4 v = __ldg(start + j / 2 * 8 + j % 2);
                        const float first[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                        for (int i = 0; i < 2; i++) gpc_mma_tf32(sum[i][j], a[0][i][0], of, first);
                    } else {
#pragma unroll
                        for (int i = 0; i < 2; i++) gpc_mma_tf32(sum[i][j], a[s][i][p], of);
                    }
                }
        }
    }
};

} // namespace gpc
