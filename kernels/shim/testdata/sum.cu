// sum.cu: what the shim's own tests launch.
#include "gpc.cuh"

// gpc_test_sum: out[block] = Σ over the block's threads of a[i] + b[i], by shuffles
// within a warp and dynamic shared memory between warps.
extern "C" __global__ void __launch_bounds__(1024) gpc_test_sum(float *out, const float *__restrict__ a, const float *__restrict__ b, int n) {
    GPC_SHARED(float, partial);
    int64_t i = gpc_thread_x();
    float v = i < n ? __ldg(a + i) + b[i] : 0.0f;
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(GPC_FULL_MASK, v, offset);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        float s = 0.0f;
        for (int w = 0; w < (int)(blockDim.x + 31) / 32; w++) s += partial[w];
        out[blockIdx.x] = s;
    }
}
GPC_KERNEL(gpc_test_sum)

// gpc_test_transpose: out = inᵀ for an n×n matrix through a static tile.
extern "C" __global__ void gpc_test_transpose(float *out, const float *in, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    if (x < n && y < n) out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
GPC_KERNEL(gpc_test_transpose)

// gpc_test_lanes: what each warp operation gives, one row of out per operation.
extern "C" __global__ void gpc_test_lanes(int *out) {
    int lane = threadIdx.x & 31, row = blockDim.x;
    out[0 * row + threadIdx.x] = __shfl_sync(GPC_FULL_MASK, lane, 5);
    out[1 * row + threadIdx.x] = __shfl_xor_sync(GPC_FULL_MASK, lane, 3);
    out[2 * row + threadIdx.x] = __shfl_down_sync(GPC_FULL_MASK, lane, 4);
    out[3 * row + threadIdx.x] = __shfl_up_sync(GPC_FULL_MASK, lane, 4);
    out[4 * row + threadIdx.x] = __shfl_sync(GPC_FULL_MASK, lane, 9, 8);
    out[5 * row + threadIdx.x] = (int)__ballot_sync(GPC_FULL_MASK, lane % 3 == 0);
    // Two halves of the warp at operations of their own.
    if (lane < 16) out[6 * row + threadIdx.x] = __shfl_xor_sync(0x0000ffffu, lane, 1);
    else out[6 * row + threadIdx.x] = __shfl_down_sync(0xffff0000u, lane, 1, 16);
    __syncwarp();
    out[7 * row + threadIdx.x] = __any_sync(GPC_FULL_MASK, lane == 7) + 2 * __all_sync(GPC_FULL_MASK, lane < 31);
}
GPC_KERNEL(gpc_test_lanes)

// gpc_test_count: integer atomics over several blocks.
extern "C" __global__ void gpc_test_count(unsigned *counter, unsigned long long *least, float scale) {
    atomicAdd(counter, 2u);
    atomicMin(least, (unsigned long long)(1000 - gpc_thread_x() * scale));
}
GPC_KERNEL(gpc_test_count)

struct TestPair { float a; int b; };

// gpc_test_fault: one mistake for each value of `which`, 0 for none.
extern "C" __global__ void gpc_test_fault(float *p, int n, int which, TestPair pair) {
    GPC_SHARED(float, s);
    __shared__ float fixed[4];
    int i = threadIdx.x;
    switch (which) {
    case 0: p[i] = pair.a * pair.b; break;
    case 1: if (i == 0) p[n] = 1.0f; break;              // past the allocation
    case 2: if (i == 0) p[-1] = 1.0f; break;             // before it
    case 3: if (i == 0) s[n] = 1.0f; break;              // past the shared memory
    case 4: if (i < 16) __shfl_sync(GPC_FULL_MASK, i, 0); else __syncthreads(); break; // lanes never meet
    case 5: if (i == 0) *reinterpret_cast<float4 *>(p + 1) = make_float4(1, 2, 3, 4); break; // misaligned
    case 6: fixed[i + 1 + n] = 1.0f; break;              // past a static array
    case 7: p[i] = s[i]; break;                          // shared memory never written: NaN
    case 9: p[i] = 1.0f; break;                          // every block writes the same
    case 10: atomicAdd((unsigned*)p + i, 1u); break;     // atomics of several blocks are none
    case 8: __shared__ float turn; turn = i; __syncwarp(); p[i] = turn; break; // a race
    }
}
GPC_KERNEL(gpc_test_fault)
