// normal.cuh: standard normal numbers by their place, to the bit those of package internal/normal: Philox 4×32 with ten
// rounds, and the quantile function by cubics over an eighth of an octave each.
#pragma once
#include "gpc.cuh"

namespace gpc {

// philox is word `which` of the four at a counter, under a seed.
__device__ inline unsigned int philox(unsigned long long seed, unsigned int c0, unsigned int c1, unsigned int c2, unsigned int c3, int which) {
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (unsigned int)(p1 >> 32) ^ c1 ^ k0, c1 = (unsigned int)p1, c2 = (unsigned int)(p0 >> 32) ^ c3 ^ k1, c3 = (unsigned int)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return which == 0 ? c0 : (which == 1 ? c1 : (which == 2 ? c2 : c3));
}

// normal_at is number e of a place; table is that of internal/normal. Each product is rounded before it is added.
__device__ inline double normal_at(const double* table, unsigned long long seed, unsigned int number, unsigned int decision, unsigned int stream, int e) {
    const unsigned int x = philox(seed, (unsigned int)e / 4, number, decision, stream, e % 4);
    unsigned int v = x << 1 | 1;
    const int octave = 31 - __clz((int)v);
    v <<= 31 - octave;
    const double* c = table + (octave * 8 + (int)(v >> 28 & 7)) * 4;
    const double f = (double)(v & 0x0fffffff) * 3.7252902984619140625e-09; // 2⁻²⁸
    double z = __dadd_rn(__dmul_rn(c[3], f), c[2]);
    z = __dadd_rn(__dmul_rn(z, f), c[1]);
    z = __dadd_rn(__dmul_rn(z, f), c[0]);
    return x >> 31 ? -z : z;
}

} // namespace gpc
