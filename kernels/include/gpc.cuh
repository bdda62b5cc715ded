// gpc.cuh: the dialect in which every kernel of the project is written. A .cu
// file includes it first. nvcc sees CUDA as it is; with GPC_SHIM defined a C++20
// compiler sees the same file as host code (kernels/shim), so that every kernel
// runs in tests without a GPU.
//
// What a .cu file may use stands in docs/contribute/cuda.md, "The dialect".
#pragma once

#ifdef GPC_SHIM
#include "shim.h"
#else
#ifdef __CUDACC_RTC__ // the run-time compiler has no C library
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
#else
#include <stdint.h>
#endif

// GPC_KERNEL(name) follows every entry point. CUDA needs nothing here; the shim
// registers the name and the types of the arguments.
#define GPC_KERNEL(name)

// GPC_SHARED(type, name) declares `type *name`, the start of the dynamic shared
// memory of the block, aligned to 16 bytes.
#define GPC_SHARED(type, name)                                        \
    extern __shared__ __align__(16) unsigned char gpc_shared_bytes[]; \
    type *name = reinterpret_cast<type *>(gpc_shared_bytes)
#endif

// Lanes of a warp, and the mask that names all of them.
constexpr int GPC_WARP = 32;
constexpr unsigned GPC_FULL_MASK = 0xffffffffu;

// The quiet NaN and the infinity of float32.
__device__ __forceinline__ float gpc_nan() { return __uint_as_float(0x7fc00000u); }
__device__ __forceinline__ float gpc_inf() { return __uint_as_float(0x7f800000u); }

// gpc_finite(x) is false for NaN and both infinities, under every compiler flag.
__device__ __forceinline__ bool gpc_finite(float x) {
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

// gpc_thread_x() and gpc_threads_x() number the threads of a one-dimensional
// launch in 64 bits: the loop over n items with any grid is
//   for (int64_t i = gpc_thread_x(); i < n; i += gpc_threads_x())
__device__ __forceinline__ int64_t gpc_thread_x() {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t gpc_threads_x() { return (int64_t)gridDim.x * blockDim.x; }
