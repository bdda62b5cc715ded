// refine_scatter.cu: the start latents of a refinement and the states of its
// roll-outs.
//
//	row 0: the localized code; row 1: E_x; then the codes of refine_neighbours;
//	then E_x under other preferences; then the localized code + σ_i·N(0, I)
//
// with σ_i = perAxis·scales[(i − first) mod count] for noise row i. Also the inputs
// of E_x for the preference rows, from the observation's own.
//
// Grid ⌈rows/128⌉, block 128: a thread a row. No shared memory. Bound: bytes, about
// 4·(n + n_s + n_c)·3 a row.
#include "gpc.cuh"

struct gpc_scatter {
    const float* localized; // [n]
    const float* observed;  // [n]
    const float* codes;     // [·, ldcodes]
    const int* chosen;      // [found]
    const int* found;       // [1]
    const float* preferences; // [sweep, n]
    const double* normals;  // [rows, n]
    const double* scales;   // [scale_count], times perAxis
    const double* s;        // [states] the observation
    const double* c;        // [contexts]
    float* z;               // [rows, n]
    unsigned char* source;  // [rows] batchnav.Source
    double* rollS;          // [rows, states]
    double* rollC;          // [rows, contexts]
    int rows, n;
    short ldcodes, states, contexts, scale_count;
};

extern "C" __global__ void __launch_bounds__(128) gpc_refine_scatter(gpc_scatter job, int sweep) {
    for (int64_t i = gpc_thread_x(); i < job.rows; i += gpc_threads_x()) {
        const int first = min(job.rows, 2), neighbours = first + (job.found ? *job.found : 0), noise = neighbours + sweep;
        float* z = job.z + i * job.n;
        if (i < first) {
            for (int j = 0; j < job.n; j++) z[j] = i == 0 ? job.localized[j] : job.observed[j];
            job.source[i] = 0;
        } else if (i < neighbours) {
            const float* code = job.codes + (int64_t)job.chosen[i - first] * job.ldcodes;
            for (int j = 0; j < job.n; j++) z[j] = code[j];
            job.source[i] = 1;
        } else if (i < noise) {
            for (int j = 0; j < job.n; j++) z[j] = job.preferences[(i - neighbours) * job.n + j];
            job.source[i] = 2;
        } else {
            const double std = job.scales[(i - noise) % job.scale_count];
            for (int j = 0; j < job.n; j++) z[j] = job.localized[j] + (float)(std * job.normals[i * job.n + j]);
            job.source[i] = 3;
        }
        for (int j = 0; j < job.states; j++) job.rollS[i * job.states + j] = job.s[j];
        for (int j = 0; j < job.contexts; j++) job.rollC[i * job.contexts + j] = job.c[j];
    }
}
GPC_KERNEL(gpc_refine_scatter)

// gpc_refine_inputs writes the observation's input of E_x with the slot of each
// preference: (1, w) normalised.
extern "C" __global__ void __launch_bounds__(128) gpc_refine_inputs(int rows, int width, int objectives, const float* observation, const float* w, const float* mean, const float* scale,
                                                                   float* input) {
    for (int64_t i = gpc_thread_x(); i < rows; i += gpc_threads_x()) {
        const int slot = width - 1 - objectives;
        for (int j = 0; j < slot; j++) input[i * width + j] = observation[j];
        for (int j = 0; j <= objectives; j++) {
            const float v = j == 0 ? 1.0f : w[i * objectives + j - 1];
            input[i * width + slot + j] = (v - mean[slot + j]) / scale[slot + j];
        }
    }
}
GPC_KERNEL(gpc_refine_inputs)
