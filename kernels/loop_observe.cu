// loop_observe.cu: an observation of many closed loops in the networks' units.
//
//	x̂ = (s − mean_s)/scale_s,  input of E_x = ([s, c, slot] − mean_x)/scale_x
//
// with c as float32 beside. Grid ⌈rows·width/256⌉, block 256, a thread an entry of
// the input, width = n_s + n_c + slots. No shared memory. Bound: bytes, about
// 4·(3n_s + 4n_c + 2·slots) a row.
#include "gpc.cuh"

extern "C" __global__ void __launch_bounds__(256) gpc_loop_observe(int rows, int states, int contexts, int slots, const float* s, const double* c, const float* slot,
                                                                  const float* meanS, const float* scaleS, const float* meanX, const float* scaleX,
                                                                  float* normal, float* context, float* input) {
    const int width = states + contexts + slots;
    for (int64_t e = gpc_thread_x(); e < (int64_t)rows * width; e += gpc_threads_x()) {
        const int64_t row = e / width;
        const int j = int(e % width);
        float v;
        if (j < states) {
            v = s[row * states + j];
            normal[row * states + j] = (v - meanS[j]) / scaleS[j];
        } else if (j < states + contexts) {
            v = (float)c[row * contexts + j - states];
            context[row * contexts + j - states] = v;
        } else {
            v = slot[row * slots + j - states - contexts];
        }
        input[e] = (v - meanX[j]) / scaleX[j];
    }
}
GPC_KERNEL(gpc_loop_observe)
