// jacobian.cuh: the argument of the kernels that make Jacobians and pullback metrics.
#pragma once

struct gpc_net;

// The launcher packs it byte for byte (kernels/pack.go).
struct gpc_jacobian {
    const gpc_net* net;
    const unsigned int* mask; // [rows, mask_words]
    float* jac;               // [rows, out·n] or nullptr
    float* metric;            // [rows, n·n] or nullptr
    float lambda;
    int ldjac, ldmetric;
    int pad;
};
