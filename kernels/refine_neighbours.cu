// refine_neighbours.cu: the codes of M_t near E_x from which a refinement starts:
// of the k codes nearest to the query, by distance, then index, the first `want`
// whose residual is at most τ (batchnav, SourceNeighbour).
//
// gpc_refine_distances: grid ⌈count/256⌉, block 256, a thread a code; bound: bytes,
// 4·(n + n_s) a code.
// gpc_refine_collect: one block of 1024. The k-th smallest distance is found by
// counting its bits' leading 12, next 12 and last 8 digits; the codes up to it are
// collected. Shared memory 16 KiB, the counts. Bound: latency, five looks at all codes.
// gpc_refine_neighbours: any grid, block 256: a warp ranks a collected code, whose
// rivals its lanes share. Bound: latency; the square of how many there are in comparisons.
#include "gpc.cuh"

namespace gpc {

// Collected is what a block knows of the k-th smallest key, in whole quads as the dynamic memory behind it begins: its leading digits, how many
// keys lie below them, how many codes are collected.
struct Collected {
    unsigned int prefix, before, length, pad;
};

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256) gpc_refine_distances(const float* codes, int ld, int n, const float* decoded, int lddecoded, int states, int count, const float* query,
                                                                      const float* x, const double* tau, float* distance, unsigned char* consistent) {
    for (int64_t i = gpc_thread_x(); i < count; i += gpc_threads_x()) {
        double d = 0.0, r = 0.0;
        for (int j = 0; j < n; j++) {
            const double e = (double)codes[i * ld + j] - (double)query[j];
            d += e * e;
        }
        for (int j = 0; j < states; j++) {
            const double e = (double)x[j] - (double)decoded[i * lddecoded + j];
            r += e * e;
        }
        distance[i] = (float)d;
        consistent[i] = r <= *tau;
    }
}
GPC_KERNEL(gpc_refine_distances)

extern "C" __global__ void __launch_bounds__(1024) gpc_refine_collect(const float* distance, int count, int k, int* list, int* collected, int* found) {
    GPC_SHARED(unsigned int, counts);
    __shared__ gpc::Collected so;
    const int thread = threadIdx.x, threads = blockDim.x;
    if (thread == 0) so = gpc::Collected{0, 0, 0, 0};
    __syncthreads();
    // A query that is not finite has no neighbours; its distances are all NaN.
    if (!(distance[0] == distance[0])) {
        if (thread == 0) *collected = 0, *found = 0;
        return;
    }
    for (int level = 0; level < 3; level++) {
        const int shift = level == 0 ? 20 : (level == 1 ? 8 : 0), digits = level == 2 ? 256 : 4096;
        for (int b = thread; b < digits; b += threads) counts[b] = 0;
        __syncthreads();
        const unsigned int known = so.prefix;
        for (int i = thread; i < count; i += threads) {
            const unsigned int key = __float_as_uint(distance[i]);
            if (level == 0 || key >> (level == 1 ? 20 : 8) == known) atomicAdd(&counts[(key >> shift) & (unsigned int)(digits - 1)], 1u);
        }
        __syncthreads();
        if (thread < 32) {
            // Each lane adds a part of the counts; the lane in whose part the k-th
            // falls looks for its digit.
            const int part = digits / 32;
            unsigned int own = 0;
            for (int b = 0; b < part; b++) own += counts[thread * part + b];
            unsigned int sum = own;
            for (int step = 1; step < 32; step *= 2) {
                const unsigned int other = __shfl_sync(GPC_FULL_MASK, sum, max(thread - step, 0));
                if (thread >= step) sum += other;
            }
            const unsigned int start = so.before + sum - own;
            const unsigned int reached = __ballot_sync(GPC_FULL_MASK, start + own >= (unsigned int)k);
            __syncwarp(); // every lane has read before, which one of them writes: a ballot orders no memory
            if (reached != 0 && thread == __ffs((int)reached) - 1) {
                unsigned int passed = start;
                int digit = thread * part;
                while (passed + counts[digit] < (unsigned int)k) passed += counts[digit++];
                so.before = passed, so.prefix = known << (level == 2 ? 8 : 12) | (unsigned int)digit;
            }
        }
        __syncthreads();
    }
    // so.prefix is now the k-th smallest key. Codes with that key beyond the k-th drop
    // out by their rank.
    const unsigned int last = so.prefix;
    for (int i = thread; i < count; i += threads)
        if (__float_as_uint(distance[i]) <= last) list[atomicAdd(&so.length, 1u)] = i;
    __syncthreads();
    if (thread == 0) *collected = (int)so.length, *found = 0;
}
GPC_KERNEL(gpc_refine_collect)

extern "C" __global__ void __launch_bounds__(256) gpc_refine_neighbours(const float* distance, const unsigned char* consistent, int k, int want, const int* list, const int* collected, int* chosen,
                                                                       int* found) {
    constexpr int room = 1024; // rivals at once
    __shared__ unsigned int keys[room], marks[room]; // of distance; the code, with its consistency in bit 31
    const int all = *collected, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int first = (int)blockIdx.x * 8; first < all; first += (int)gridDim.x * 8) {
        const int i = list[min(first + warp, all - 1)];
        const unsigned int key = __float_as_uint(distance[i]);
        int rank = 0, place = 0;
        for (int from = 0; from < all; from += room) {
            const int some = min(all - from, room);
            __syncthreads();
            for (int b = threadIdx.x; b < some; b += 256) {
                const int other = list[from + b];
                keys[b] = __float_as_uint(distance[other]), marks[b] = (unsigned int)other | (consistent[other] ? 0x80000000u : 0u);
            }
            __syncthreads();
            for (int b = lane; b < some; b += 32) {
                const bool earlier = keys[b] < key || (keys[b] == key && (marks[b] & 0x7fffffffu) < (unsigned int)i);
                rank += earlier, place += earlier && (marks[b] >> 31);
            }
        }
        for (int m = 16; m > 0; m /= 2) rank += __shfl_xor_sync(GPC_FULL_MASK, rank, m), place += __shfl_xor_sync(GPC_FULL_MASK, place, m);
        if (lane == 0 && first + warp < all && consistent[i] && rank < k && place < want) {
            chosen[place] = i;
            atomicAdd(found, 1);
        }
    }
}
GPC_KERNEL(gpc_refine_neighbours)
