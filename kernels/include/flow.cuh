// flow.cuh: the vector operations of a latent step, one warp a row: lane i holds
// coordinates i and i + 32, so that n ≤ 64.
#pragma once
#include "gpc.cuh"
#include "warp.cuh"

namespace gpc {

constexpr int flowWarps = 4; // rows of a block of 128 threads

// Pair is a lane's two coordinates; beyond n they are 0.
struct Pair {
    float a, b;
};

__device__ inline Pair load_pair(const float* row, int n) {
    const int lane = threadIdx.x % 32;
    return Pair{lane < n ? row[lane] : 0.0f, lane + 32 < n ? row[lane + 32] : 0.0f};
}

__device__ inline void store_pair(float* row, int n, Pair v) {
    const int lane = threadIdx.x % 32;
    if (lane < n) row[lane] = v.a;
    if (lane + 32 < n) row[lane + 32] = v.b;
}

__device__ inline bool all_finite(Pair v) { return !warp_any(!gpc_finite(v.a) || !gpc_finite(v.b)); }

// field is F = −(z̄_s + z̄_u), the gradients by way of the two decoders.
__device__ inline Pair field(const float* zbarS, const float* zbarU, int n) {
    const Pair s = load_pair(zbarS, n);
    if (!zbarU) return Pair{-s.a, -s.b};
    const Pair u = load_pair(zbarU, n);
    return Pair{-(s.a + u.a), -(s.b + u.b)};
}

// capDelta is δ_v of eq. rk2-cap.
constexpr float capDelta = 1e-12f;

// cap is v min{1, vmax/(‖v‖ + δ_v)} (eq. rk2-cap); the norm is taken relative to
// the largest entry, so that it does not overflow.
__device__ inline Pair cap(Pair v, float vmax) {
    const float largest = warp_max(fmaxf(fabsf(v.a), fabsf(v.b)));
    if (warp_any(v.a != v.a || v.b != v.b)) return Pair{gpc_nan(), gpc_nan()};
    if (largest == 0.0f) return v;
    const float a = v.a / largest, b = v.b / largest;
    const float norm = largest * sqrtf(warp_sum(__fmaf_rn(a, a, b * b)));
    const float scale = fminf(1.0f, vmax / (norm + capDelta));
    // An infinite entry gives scale 0 and so NaN.
    if (!gpc_finite(largest)) return Pair{scale * v.a, scale * v.b};
    // Of a norm beyond float32 the quotient is made in two steps.
    if (!gpc_finite(norm)) {
        const float unit = sqrtf(warp_sum(__fmaf_rn(a, a, b * b)));
        return Pair{a / unit * vmax, b / unit * vmax};
    }
    return Pair{scale * v.a, scale * v.b};
}

// rotate turns v by the rotation vector w (Rodrigues):
// v cos θ + (w×v) sin θ/θ + w (w·v)(1 − cos θ)/θ².
__device__ inline void rotate(const float* w, const float* v, float* out) {
    const float theta2 = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], theta = sqrtf(theta2);
    float sinc, cosc;
    if (theta < 1e-3f) {
        sinc = 1.0f - theta2 / 6.0f, cosc = 0.5f - theta2 / 24.0f;
    } else {
        sinc = sinf(theta) / theta;
        const float half = sinf(0.5f * theta) / theta;
        cosc = 2.0f * half * half;
    }
    const float c = cosf(theta), wv = w[0] * v[0] + w[1] * v[1] + w[2] * v[2];
    out[0] = c * v[0] + sinc * (w[1] * v[2] - w[2] * v[1]) + cosc * wv * w[0];
    out[1] = c * v[1] + sinc * (w[2] * v[0] - w[0] * v[2]) + cosc * wv * w[1];
    out[2] = c * v[2] + sinc * (w[0] * v[1] - w[1] * v[0]) + cosc * wv * w[2];
}

// exp_so3 is the unit quaternion (w, x, y, z) of a rotation vector.
__device__ inline void exp_so3(const float* r, float* q) {
    const float theta2 = r[0] * r[0] + r[1] * r[1] + r[2] * r[2], theta = sqrtf(theta2);
    const float half = theta < 1e-3f ? 0.5f - theta2 / 48.0f : sinf(0.5f * theta) / theta;
    q[0] = cosf(0.5f * theta), q[1] = half * r[0], q[2] = half * r[1], q[3] = half * r[2];
}

// log_so3 is the rotation vector, of length ≤ π, of a unit quaternion.
__device__ inline void log_so3(const float* quaternion, float* r) {
    const float sign = quaternion[0] < 0.0f ? -1.0f : 1.0f;
    const float q[4] = {sign * quaternion[0], sign * quaternion[1], sign * quaternion[2], sign * quaternion[3]};
    const float length = sqrtf(q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    const float factor = length > 0.0f ? 2.0f * atan2f(length, q[0]) / length : 2.0f / q[0];
    r[0] = factor * q[1], r[1] = factor * q[2], r[2] = factor * q[3];
}

// compose_block is log(exp(a) exp(b)) of two rotation vectors.
__device__ inline void compose_block(const float* a, const float* b, float* out) {
    float p[4], q[4];
    exp_so3(a, p);
    exp_so3(b, q);
    const float product[4] = {
        p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
        p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
        p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
        p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
    };
    log_so3(product, out);
}

// The bits of backend.Fallback.
constexpr unsigned char fallbackMidpoint = 1, fallbackSecondSlope = 2, fallbackNoStep = 4, fallbackLie = 8;

} // namespace gpc
