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
// away from zero; a non-finite value stays as it is. Half a unit is added, and the 13
// bits below, which the instruction does not look at, are left in (as CUTLASS does by
// round_half_ulp_truncate): two instructions where cvt.rna takes four.
__device__ inline unsigned int to_tf32(float v) {
    const unsigned int b = __float_as_uint(v);
    return fabsf(v) < gpc_inf() ? b + 0x1000u : b;
}

// operand is a number as a product reads it: rounded where tensor cores do.
template <bool TF32>
__device__ inline float operand(float v) {
    return TF32 ? __uint_as_float(to_tf32(v)) : v;
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
    auto cut = [](unsigned int v) { return __uint_as_float(v & 0xffffe000u); };
    A[group][member] = cut(a[0]), A[group + 8][member] = cut(a[1]), A[group][member + 4] = cut(a[2]), A[group + 8][member + 4] = cut(a[3]);
    B[member][group] = cut(b[0]), B[member + 4][group] = cut(b[1]);
    __syncwarp();
    for (int k = 0; k < 8; k++)
        for (int j = 0; j < 2; j++) {
            c[j] += A[group][k] * B[k][2 * member + j];
            c[2 + j] += A[group + 8][k] * B[k][2 * member + j];
        }
    __syncwarp();
#endif
}

// The same with a sum of its own, d = A·B + c.
__device__ inline void gpc_mma_tf32(float (&d)[4], const unsigned int (&a)[4], const unsigned int (&b)[2], const float (&c)[4]) {
#ifdef __CUDA_ARCH__
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#else
    for (int e = 0; e < 4; e++) d[e] = c[e];
    gpc_mma_tf32(d, a, b);
#endif
}
