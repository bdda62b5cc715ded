// refine_scatter.cu: the start latents of a refinement and the states of its
// roll-outs.
//
//	row 0: E_x; row 1: the localized code; then, where there is one, the latent of the
//	last decision and the same + σ_i·N(0, I); then the codes of refine_neighbours; then
//	E_x under other preferences; then the localized code + σ_i·N(0, I)
//
// with σ_i = perAxis·scales[(i − first) mod count] for row i of one kind of noise. Also
// the inputs of E_x for the preference rows, from the observation's own.
//
// Grid ⌈rows/128⌉, block 128: a thread a row. No shared memory. Bound: bytes, about
// 4·(n + n_s + n_c)·3 a row.
#include "gpc.cuh"
#include "normal.cuh"

enum { LOCALIZED, NEIGHBOUR, PREFERENCE, NOISE, PREVIOUS }; // domain.Source

struct gpc_scatter {
    const float* localized; // [n]
    const float* observed;  // [n]
    const float* previous;  // [n], nullptr: none
    const float* codes;     // [·, ldcodes]
    const int* chosen;      // [found]
    const int* found;       // [1]
    const float* preferences; // [sweep, n]
    const double* table;    // of normal_at
    const unsigned long long* seed;
    const double* scales;   // [scale_count], times perAxis
    const double* s;        // [states] the observation
    const double* c;        // [contexts]
    float* z;               // [rows, n]
    unsigned char* source;  // [rows]
    double* rollS;          // [rows, states]
    double* rollC;          // [rows, contexts]
    int rows, n, around;    // around: rows of noise around the previous latent
    unsigned int stream;
    short ldcodes, states, contexts, scale_count;
};

extern "C" __global__ void __launch_bounds__(128) gpc_refine_scatter(gpc_scatter job, int sweep) {
    for (int64_t i = gpc_thread_x(); i < job.rows; i += gpc_threads_x()) {
        const int alone = job.previous ? 3 : 2, near = alone + job.around, swept = near + (job.found ? *job.found : 0), noise = swept + sweep;
        float* z = job.z + i * job.n;
        const float* from = job.localized;
        int scale = -1, source = LOCALIZED; // scale −1: no noise
        if (i < 2) from = i == 0 ? job.observed : job.localized;
        else if (i < near) from = job.previous, source = PREVIOUS, scale = i < alone ? -1 : (int)i - alone;
        else if (i < swept) from = job.codes + (int64_t)job.chosen[i - near] * job.ldcodes, source = NEIGHBOUR;
        else if (i < noise) from = job.preferences + (i - swept) * job.n, source = PREFERENCE;
        else source = NOISE, scale = (int)i - noise;
        const double std = scale < 0 ? 0.0 : job.scales[scale % job.scale_count];
        for (int j = 0; j < job.n; j++) z[j] = scale < 0 ? from[j] : from[j] + (float)(std * gpc::normal_at(job.table, *job.seed, (unsigned int)i, 0, job.stream, j));
        job.source[i] = (unsigned char)source;
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
