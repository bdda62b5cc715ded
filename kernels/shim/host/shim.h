// shim.h: the device side of CUDA for a host compiler, as far as the dialect of
// gpc.cuh goes. The threads of a block are fibers of one OS thread (block.cpp);
// blocks run one after another. It is a test double for correctness only: its
// speed says nothing about a GPU.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// One block runs at a time, so that static storage is the block's own. What it
// held in the block before is still there: a kernel may not rely on that.
#define __shared__ static

struct float2 { float x, y; } __attribute__((aligned(8)));
struct float3 { float x, y, z; };
struct float4 { float x, y, z, w; } __attribute__((aligned(16)));
struct int2 { int x, y; } __attribute__((aligned(8)));
struct int4 { int x, y, z, w; } __attribute__((aligned(16)));
struct uint2 { unsigned x, y; } __attribute__((aligned(8)));
struct uint3 { unsigned x, y, z; };
struct uint4 { unsigned x, y, z, w; } __attribute__((aligned(16)));
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace gpc_shim {

// What the running thread sees of itself. block.cpp changes it at every switch.
struct Position {
    uint3 index;
};
extern Position *current;
extern uint3 block, block_size, grid_size;
extern unsigned char *dynamic_shared;

enum Operation : int { SYNC, SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, BALLOT };

// barrier waits for every thread of the block that has not returned.
void barrier();
// exchange waits for the lanes named by mask, all of which must be at the same
// operation with the same mask, and returns the value that lane `source` gave
// (BALLOT: the mask of the lanes whose value is not 0). A lane that did not take
// part gives all bits set, a NaN.
uint64_t exchange(unsigned mask, Operation operation, uint64_t value, int source);

unsigned lane();

// A kernel as the driver's side sees it.
struct Kernel {
    const char *name;
    void (*call)(void (*function)(), void **arguments);
    void (*function)();
    int parameters;
    const uint8_t *sizes;
    const char *kinds;
};
void add(const Kernel &);

// kind: p pointer, f floating point, i signed, u unsigned, s structure.
template <class T> constexpr char kind() {
    using V = std::remove_cv_t<T>;
    if (std::is_pointer_v<V>) return 'p';
    if (std::is_floating_point_v<V>) return 'f';
    if (std::is_integral_v<V>) return std::is_signed_v<V> ? 'i' : 'u';
    return 's';
}

template <class... A> struct Registration {
    static constexpr uint8_t sizes[] = {sizeof(A)..., 0};
    static constexpr char kinds[] = {kind<A>()..., 0};
    static_assert(((sizeof(A) < 256) && ...), "a kernel argument of 256 bytes or more");
    static_assert((std::is_trivially_copyable_v<A> && ...), "kernel arguments are plain values");

    template <size_t... I>
    static void call_indexed(void (*function)(), void **arguments, std::index_sequence<I...>) {
        reinterpret_cast<void (*)(A...)>(function)(*static_cast<std::remove_cv_t<A> *>(arguments[I])...);
    }
    static void call(void (*function)(), void **arguments) {
        call_indexed(function, arguments, std::index_sequence_for<A...>{});
    }
    Registration(const char *name, void (*function)(A...)) {
        add({name, call, reinterpret_cast<void (*)()>(function), int(sizeof...(A)), sizes, kinds});
    }
};
template <class... A> Registration(const char *, void (*)(A...)) -> Registration<A...>;

template <class T> uint64_t bits(T v) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "shuffles move at most 8 bytes");
    uint64_t b = 0;
    std::memcpy(&b, &v, sizeof(T));
    return b;
}
template <class T> T value(uint64_t b) {
    T v;
    std::memcpy(&v, &b, sizeof(T));
    return v;
}

} // namespace gpc_shim

#define threadIdx (::gpc_shim::current->index)
#define blockIdx (::gpc_shim::block)
#define blockDim (::gpc_shim::block_size)
#define gridDim (::gpc_shim::grid_size)
constexpr int warpSize = 32;

#define GPC_KERNEL(name) \
    static const ::gpc_shim::Registration gpc_registration_##name{#name, &name};
#define GPC_SHARED(type, name) type *name = reinterpret_cast<type *>(::gpc_shim::dynamic_shared)

inline void __syncthreads() { ::gpc_shim::barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) {
    ::gpc_shim::exchange(mask, ::gpc_shim::SYNC, 0, int(::gpc_shim::lane()));
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T> T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
    int base = int(::gpc_shim::lane()) & ~(width - 1);
    return ::gpc_shim::value<T>(
        ::gpc_shim::exchange(mask, ::gpc_shim::SHUFFLE, ::gpc_shim::bits(v), base + (source & (width - 1))));
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32) {
    int self = int(::gpc_shim::lane()), source = self ^ lanes;
    // A source in a later segment is out of reach, one in an earlier segment is read.
    if (source >= (self & ~(width - 1)) + width) source = self;
    return ::gpc_shim::value<T>(::gpc_shim::exchange(mask, ::gpc_shim::SHUFFLE_XOR, ::gpc_shim::bits(v), source));
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32) {
    int self = int(::gpc_shim::lane()), source = self + int(delta);
    if (source >= (self & ~(width - 1)) + width) source = self;
    return ::gpc_shim::value<T>(::gpc_shim::exchange(mask, ::gpc_shim::SHUFFLE_DOWN, ::gpc_shim::bits(v), source));
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32) {
    int self = int(::gpc_shim::lane()), source = self - int(delta);
    if (source < (self & ~(width - 1))) source = self;
    return ::gpc_shim::value<T>(::gpc_shim::exchange(mask, ::gpc_shim::SHUFFLE_UP, ::gpc_shim::bits(v), source));
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return unsigned(::gpc_shim::exchange(mask, ::gpc_shim::BALLOT, predicate != 0, 0));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

// Blocks and threads never run at the same time here: plain arithmetic is atomic.
// They are not recorded as accesses (access.h).
template <class T> __attribute__((noinline, no_sanitize("thread"))) T gpc_shim_value(T *p) { return *p; }
template <class T> __attribute__((noinline, no_sanitize("thread"))) T gpc_shim_replace(T *p, T v) {
    T old = *p;
    *p = v;
    return old;
}
#define GPC_SHIM_ATOMIC(T)                                                              \
    inline T atomicAdd(T *p, T v) { return gpc_shim_replace(p, gpc_shim_value(p) + v); }            \
    inline T atomicExch(T *p, T v) { return gpc_shim_replace(p, v); }
#define GPC_SHIM_ATOMIC_INTEGER(T)                                                      \
    GPC_SHIM_ATOMIC(T)                                                                  \
    inline T atomicMin(T *p, T v) { return gpc_shim_replace(p, v < gpc_shim_value(p) ? v : gpc_shim_value(p)); }      \
    inline T atomicMax(T *p, T v) { return gpc_shim_replace(p, v > gpc_shim_value(p) ? v : gpc_shim_value(p)); }      \
    inline T atomicOr(T *p, T v) { return gpc_shim_replace(p, gpc_shim_value(p) | v); }             \
    inline T atomicAnd(T *p, T v) { return gpc_shim_replace(p, gpc_shim_value(p) & v); }            \
    inline T atomicCAS(T *p, T was, T v) { return gpc_shim_replace(p, gpc_shim_value(p) == was ? v : gpc_shim_value(p)); }
GPC_SHIM_ATOMIC(float)
GPC_SHIM_ATOMIC_INTEGER(int)
GPC_SHIM_ATOMIC_INTEGER(unsigned)
GPC_SHIM_ATOMIC_INTEGER(unsigned long long)
#undef GPC_SHIM_ATOMIC
#undef GPC_SHIM_ATOMIC_INTEGER

// Between its first barrier and its second nobody reads what the last call left.
inline int gpc_shim_any;
inline int __syncthreads_or(int predicate) {
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) gpc_shim_replace(&gpc_shim_any, 0);
    __syncthreads();
    if (predicate) gpc_shim_replace(&gpc_shim_any, 1);
    __syncthreads();
    return gpc_shim_value(&gpc_shim_any);
}

template <class T> T __ldg(const T *p) { return *p; }

inline float __uint_as_float(unsigned u) { return ::gpc_shim::value<float>(u); }
inline unsigned __float_as_uint(float f) { return unsigned(::gpc_shim::bits(f)); }
inline float __int_as_float(int i) { return ::gpc_shim::value<float>(unsigned(i)); }
inline int __float_as_int(float f) { return int(__float_as_uint(f)); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(unsigned(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }

inline long long __double_as_longlong(double d) { return (long long)::gpc_shim::bits(d); }
inline double __longlong_as_double(long long b) { return ::gpc_shim::value<double>(uint64_t(b)); }
// The compiler is told not to contract (shim/build.go).
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }

inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float a) { return 1.0f / __builtin_sqrtf(a); }
using std::isfinite;
using std::isinf;
using std::isnan;

inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long min(long a, long b) { return b < a ? b : a; }
inline long max(long a, long b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
