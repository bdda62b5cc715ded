// quadratic.cu: device functions of a problem with objectives ½‖s‖² and ½‖u‖² and a
// third that is 0, at the sizes of the paper's cases: what package bench measures the
// engine with apart from any case's own objectives.
//
// Grid, block and bound are those of GPC_DOMAIN (include/domain.cuh).
#include "gpc.cuh"
#include "domain.cuh"

template <int S, int U, int M>
struct Quadratic {
    static constexpr int states = S, contexts = 1, actions = U, plan = U, objectives = M, margins = 1;
    template <class T>
    __device__ static void base(const double*, const T*, const T*, T* out) {
        for (int i = 0; i < U; i++) out[i] = T(0);
    }
    template <class T>
    __device__ static void objective(const double*, const T* s, const T* u, const T*, T* J) {
        for (int i = 0; i < M; i++) J[i] = T(0);
        for (int i = 0; i < S; i++) J[0] += s[i] * s[i];
        for (int i = 0; i < U; i++) J[1] += u[i] * u[i];
        J[0] /= T(2), J[1] /= T(2);
    }
    template <class T>
    __device__ static void gradient(const double*, const T* s, const T* u, const T*, const T* sigma, T* gs, T* gu) {
        for (int i = 0; i < S; i++) gs[i] = sigma[0] * s[i];
        for (int i = 0; i < U; i++) gu[i] = sigma[1] * u[i];
    }
    __device__ static void indicators(const double*, const double*, const double*, const double*, double* delta) {
        for (int i = 0; i < M; i++) delta[i] = 0.0;
    }
    __device__ static void step(const double*, const double* s, const double* c, const double*, double* sNext, double* cNext) {
        for (int i = 0; i < S; i++) sNext[i] = s[i];
        cNext[0] = c[0];
    }
    __device__ static void margin(const double*, const double*, const double*, const double*, double* m) { m[0] = 0.0; }
    __device__ static bool project(const double*, const double*, const double*, double*) { return true; }
};

using Quadratic4x2 = Quadratic<4, 2, 2>;
using Quadratic60x12 = Quadratic<60, 12, 3>;

GPC_DOMAIN(quadratic_4_2, Quadratic4x2)
GPC_KERNEL(gpc_domain_base_quadratic_4_2)
GPC_KERNEL(gpc_domain_gradient_quadratic_4_2)
GPC_KERNEL(gpc_domain_priority_quadratic_4_2)
GPC_KERNEL(gpc_domain_rollout_quadratic_4_2)

GPC_DOMAIN(quadratic_60_12, Quadratic60x12)
GPC_KERNEL(gpc_domain_base_quadratic_60_12)
GPC_KERNEL(gpc_domain_gradient_quadratic_60_12)
GPC_KERNEL(gpc_domain_priority_quadratic_60_12)
GPC_KERNEL(gpc_domain_rollout_quadratic_60_12)
