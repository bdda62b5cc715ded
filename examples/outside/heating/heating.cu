// heating.cu: device functions of the heated room (package heating), as in heating.go.
#include "gpc.cuh"
#include "domain.cuh"

namespace heating {

// Places in the constants, as Device packs them.
enum { WALL, OUTSIDE, STORE, HEAT, LIMIT, URGENCY, IDLE, STEPS };

// Places in the context.
enum { SET_POINT, WEATHER, CLOCK, CONTEXTS };

// air is the air's temperature after a step without heat.
template <class T>
__device__ inline T air(const double* k, const T* s, const T* c) {
    return s[0] + (T)k[WALL] * (s[1] - s[0]) + (T)k[OUTSIDE] * (c[WEATHER] - s[0]);
}

struct Problem {
    static constexpr int states = 2, contexts = CONTEXTS, actions = 1, plan = 1, objectives = 2, margins = 1;

    template <class T>
    __device__ static void base(const double*, const T*, const T*, T* out) {
        out[0] = T(0);
    }

    template <class T>
    __device__ static void objective(const double* k, const T* s, const T* u, const T* c, T* J) {
        const T e = air<T>(k, s, c) + (T)k[HEAT] * u[0] - c[SET_POINT];
        J[0] = e * e, J[1] = u[0] * u[0];
    }

    template <class T>
    __device__ static void gradient(const double* k, const T* s, const T* u, const T* c, const T* sigma, T* gs, T* gu) {
        const T e = T(2) * sigma[0] * (air<T>(k, s, c) + (T)k[HEAT] * u[0] - c[SET_POINT]);
        gs[0] = e * (T)(1.0 - k[WALL] - k[OUTSIDE]), gs[1] = e * (T)k[WALL];
        gu[0] = e * (T)k[HEAT] + T(2) * sigma[1] * u[0];
    }

    __device__ static void indicators(const double* k, const double* s, const double*, const double* c, double* delta) {
        const double e = s[0] - c[SET_POINT];
        delta[0] = e * e / (e * e + k[URGENCY]), delta[1] = k[IDLE];
    }

    __device__ static void step(const double* k, const double* s, const double* c, const double* u, double* sNext, double* cNext) {
        sNext[0] = air<double>(k, s, c) + k[HEAT] * u[0], sNext[1] = s[1] + k[STORE] * (s[0] - s[1]);
        cNext[SET_POINT] = c[SET_POINT], cNext[WEATHER] = c[WEATHER], cNext[CLOCK] = c[CLOCK] + 1.0 / k[STEPS];
    }

    __device__ static void margin(const double* k, const double* s, const double* c, const double* u, double* m) {
        m[0] = k[LIMIT] - air<double>(k, s, c) - k[HEAT] * u[0];
    }

    __device__ static bool project(const double* k, const double* s, const double* c, double* u) {
        u[0] = fmax(0.0, fmin(fmin(1.0, fmax(0.0, u[0])), (k[LIMIT] - air<double>(k, s, c)) / k[HEAT]));
        double m;
        margin(k, s, c, u, &m);
        return m >= -1e-9;
    }
};

} // namespace heating

GPC_DOMAIN(heating, heating::Problem)
GPC_KERNEL(gpc_domain_base_heating)
GPC_KERNEL(gpc_domain_gradient_heating)
GPC_KERNEL(gpc_domain_priority_heating)
GPC_KERNEL(gpc_domain_rollout_heating)
