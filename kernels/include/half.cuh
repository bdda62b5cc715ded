// half.cuh: one warp-wide tensor-core product of half-precision numbers, D = A·B + C of 16×8×16 summed in float32, and the
// halves of numbers: a float32 as the sum of two half-precision ones has 22 of its 24 bits.
//
// On the device it is mma.sync.aligned.m16n8k16 (sm_80 and later). A is held as its fragments lie in memory, a lane's eight numbers
// in 16 bytes; B lies in rows of the depth. Fragments, with group = lane / 4 and member = lane % 4:
//
//	a[0] A(group, 2 member + {0, 1})      a[1] A(group + 8, the same)
//	a[2] A(group, 2 member + 8 + {0, 1})  a[3] A(group + 8, the same)
//	b[0] B(2 member + {0, 1}, group)      b[1] B(2 member + 8 + {0, 1}, group)
//	c as of mma.cuh
#pragma once
#include "gpc.cuh"

namespace gpc {

// half_of rounds to half precision, to nearest even. What is beyond its range becomes its largest number; NaN stays.
__device__ inline unsigned short half_of(float v) {
    v = v > 65504.0f ? 65504.0f : (v < -65504.0f ? -65504.0f : v);
#ifdef __CUDA_ARCH__
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
    return h;
#else
    const unsigned int b = __float_as_uint(v), sign = b >> 16 & 0x8000u, size = b & 0x7fffffffu;
    if (size > 0x7f800000u) return (unsigned short)(sign | 0x7fffu);
    if (size < 0x38800000u) // below its normal numbers: whole multiples of 2⁻²⁴
        return (unsigned short)(sign | (unsigned int)rintf(fabsf(v) * 16777216.0f));
    return (unsigned short)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
#endif
}

__device__ inline float of_half(unsigned short h) {
#ifdef __CUDA_ARCH__
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
    return v;
#else
    const unsigned int sign = (h & 0x8000u) << 16, size = h & 0x7fffu;
    if (size > 0x7c00u) return gpc_nan();
    if (size < 0x400u) return (sign ? -1.0f : 1.0f) * ((float)size / 16777216.0f);
    return __uint_as_float(sign | ((size << 13) + 0x38000000u));
#endif
}

// rest_of is what rounding to half precision leaves, rounded again.
__device__ inline unsigned short rest_of(float v, unsigned short h) { return half_of(v - of_half(h)); }

} // namespace gpc

// gpc_mma_half adds A·B to the accumulator c, in place: a is the lane's part of the fragments of A, which lies at `tile`; the lane's b are
// at `row`, which is B(·, group), from the depth 2·member on; columns of B are stride apart. All 32 lanes call it.
__device__ inline void gpc_mma_half(float (&c)[4], const uint4& a, const uint4* tile, const unsigned short* row, int stride) {
#ifdef __CUDA_ARCH__
    const unsigned int b0 = *reinterpret_cast<const unsigned int*>(row), b1 = *reinterpret_cast<const unsigned int*>(row + 8);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#else
    // Of memory: nothing is handed from lane to lane.
    const int lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
    const unsigned short *numbers = reinterpret_cast<const unsigned short*>(tile - lane), *rows = row - group * stride - 2 * member;
    for (int e = 0; e < 4; e++) {
        const unsigned short* b = rows + (2 * member + e % 2) * stride;
        for (int k = 0; k < 16; k++)
            c[e] += gpc::of_half(numbers[(group * 4 + k % 8 / 2) * 8 + 2 * (e / 2 + 2 * (k / 8)) + k % 2]) * gpc::of_half(b[k]);
    }
#endif
}
