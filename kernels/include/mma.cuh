// mma.cuh: one warp-wide tensor-core product, D = A·B + C of 16×8×8 in TF32.
//
// On the device it is mma.sync.aligned.m16n8k8 (sm_80 and later). Under the host
// shim the same fragments are multiplied by a scalar stand-in (blocks of one
// dimension), with the inputs rounded to TF32 by the same rule, so that what the
// tests see is what the option costs in accuracy: products of 11-bit significands,
// summed in float32.
//
// Fragments, with group = lane / 4 and member = lane % 4:
//
//	a[0] A(group,     member)     a[1] A(group + 8, member)
//	a[2] A(group,     member + 4) a[3] A(group + 8, member + 4)
//	b[0] B(member, group)         b[1] B(member + 4, group)
//	c[0] C(group,     2 member)   c[1] C(group,     2 member + 1)
//	c[2] C(group + 8, 2 member)   c[3] C(group + 8, 2 member + 1)
#pragma once
#include "gpc.cuh"

namespace gpc {

// to_tf32 rounds to the 10 explicit significand bits of TF32, to nearest, ties
// away from zero; a non-finite value stays as it is.
__device__ inline unsigned int to_tf32(float v) {
#ifdef __CUDA_ARCH__
    unsigned int r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
    return r;
#else
    unsigned int b = __float_as_uint(v);
    if ((b & 0x7f800000u) == 0x7f800000u) return b;
    return (b + 0x1000u) & 0xffffe000u;
#endif
}

} // namespace gpc

// gpc_mma_tf32 adds A·B to the accumulator c, in place; all 32 lanes call it.
// The operands are values that to_tf32 has rounded.
__device__ inline void gpc_mma_tf32(float (&c)[4], const unsigned int (&a)[4], const unsigned int (&b)[2]) {
#ifdef __CUDA_ARCH__
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    // The lanes lay their fragments out, 16×8 of A and 8×8 of B, and read what they
    // need of the others'.
    __shared__ float a_of[32][16][8], b_of[32][8][8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
    float(*A)[8] = a_of[warp];
    float(*B)[8] = b_of[warp];
    A[group][member] = __uint_as_float(a[0]), A[group + 8][member] = __uint_as_float(a[1]);
    A[group][member + 4] = __uint_as_float(a[2]), A[group + 8][member + 4] = __uint_as_float(a[3]);
    B[member][group] = __uint_as_float(b[0]), B[member + 4][group] = __uint_as_float(b[1]);
    __syncwarp();
    for (int k = 0; k < 8; k++)
        for (int j = 0; j < 2; j++) {
            c[j] += A[group][k] * B[k][2 * member + j];
            c[2 + j] += A[group + 8][k] * B[k][2 * member + j];
        }
    __syncwarp();
#endif
}
