// Training: the losses between codes and the gradient of a step with respect to
// the codes. With z^x, z^o of a sample, z_j of its κ neighbours:
//
//   consistency  1 − cos(z^x, z^o) + β‖z^x − z^o‖², and as 1 − cos = ½‖ẑ^x − ẑ^o‖²,
//                which does not cancel when the codes nearly agree
//   locality     k_j ‖z^x − z_j‖²
//   isometry     | ‖z^x − z_j‖ − α‖u − u_j‖ |   (eq. iclr-training-loss)
//
// The gradient with respect to z^x is the sum of both decoders' and of these.
//
// grid    ⌈rows/8⌉; block 256 threads, a warp per sample
// shared  32 bytes
// bound   bytes: 4·n_z·(6 + 2κ) read and 4·n_z·(2 + κ) written per sample
#include "gpc.cuh"
#include "train.cuh"

namespace gpc {

// A code shorter than this has no direction (ref.CosineFloor).
constexpr float cosineFloor = 1e-6f;

// train_consistency returns the term of one sample and writes the gradients bx
// and bo: those by the decoders plus weight times the term's.
__device__ inline float train_consistency(int lane, int nz, const float* zx, const float* zo, const float* byU, const float* byS,
                                          const float* byOracle, float beta, float weight, float* bx, float* bo) {
    float xx = 0.0f, oo = 0.0f, dd = 0.0f;
    for (int i = lane; i < nz; i += GPC_WARP) {
        const float x = zx[i], o = zo[i], d = x - o;
        xx += x * x;
        oo += o * o;
        dd += d * d;
    }
    const float nx = sqrtf(train_warp_sum(xx)), no = sqrtf(train_warp_sum(oo));
    // A NaN does not pass for a short code.
    const bool directed = !(nx < cosineFloor) && !(no < cosineFloor);
    float gap = 1.0f;
    if (directed) {
        gap = 0.0f;
        for (int i = lane; i < nz; i += GPC_WARP) {
            const float e = zx[i] / nx - zo[i] / no;
            gap += e * e;
        }
        gap = train_warp_sum(gap) / 2.0f;
    }
    const float pull = 2.0f * beta * weight;
    for (int i = lane; i < nz; i += GPC_WARP) {
        const float x = zx[i], o = zo[i];
        float gx = byU[i] + byS[i], go = byOracle[i];
        if (directed) {
            // −(ẑ^o − cos ẑ^x) = (ẑ^x − ẑ^o) − gap·ẑ^x with cos = 1 − gap.
            const float ux = x / nx, uo = o / no;
            gx += weight * ((ux - uo) - gap * ux) / nx;
            go += weight * ((uo - ux) - gap * uo) / no;
        }
        bx[i] = gx + pull * (x - o);
        bo[i] = go - pull * (x - o);
    }
    return gap + beta * train_warp_sum(dd);
}

// train_distance returns the squared distance of two rows.
__device__ inline float train_distance(int lane, int n, const float* a, const float* b) {
    float sum = 0.0f;
    for (int i = lane; i < n; i += GPC_WARP) {
        const float d = a[i] - b[i];
        sum += d * d;
    }
    return train_warp_sum(sum);
}

} // namespace gpc

// z and zbar have, with row step ldz, κ·rows codes of neighbours (j of sample b at
// b·κ + j), rows codes of samples, rows of oracles. byU is the gradient by D_u (rows of
// z^x), byS that by D_s (rows of z^x, then of z^o). index has the data set's rows
// of the neighbours, then of the samples. kernel is null for the isometry form.
// The weights are the terms' over the number of rows of the whole batch. partial
// has the blocks' sums of consistency, then of locality.
extern "C" __global__ void __launch_bounds__(256)
    gpc_train_latent(int rows, int kappa, int nz, int ldz, const float* z, float* zbar, const float* byU, const float* byS,
                     const int* index, const float* kernel, const float* u, int nu, int ldu, float consistency, float beta,
                     float locality, float alpha, float* partial) {
    __shared__ float scratch[8];
    const int b = (int)blockIdx.x * 8 + (int)threadIdx.x / GPC_WARP, lane = (int)threadIdx.x % GPC_WARP;
    float consistent = 0.0f, local = 0.0f;
    if (b < rows) {
        const long long own = (long long)(rows * kappa + b) * ldz, other = own + (long long)rows * ldz;
        consistent = gpc::train_consistency(lane, nz, z + own, z + other, byU + (long long)b * ldz, byS + (long long)b * ldz,
                                            byS + (long long)(rows + b) * ldz, beta, consistency, zbar + own, zbar + other);
        for (int j = b * kappa; j < (b + 1) * kappa; j++) {
            const long long near = (long long)j * ldz;
            const float squared = gpc::train_distance(lane, nz, z + own, z + near);
            float slope = 0.0f;
            if (kernel) {
                local += kernel[j] * squared;
                slope = 2.0f * kernel[j] * locality;
            } else {
                const float actions =
                    gpc::train_distance(lane, nu, u + (long long)index[rows * kappa + b] * ldu, u + (long long)index[j] * ldu);
                const float length = sqrtf(squared), over = length - alpha * sqrtf(actions);
                local += over < 0.0f ? -over : over;
                if (length > 0.0f && over != 0.0f) slope = (over > 0.0f ? locality : -locality) / length;
            }
            for (int i = lane; i < nz; i += GPC_WARP) {
                const float e = slope * (z[own + i] - z[near + i]);
                zbar[own + i] += e;
                zbar[near + i] = -e;
            }
        }
    }
    const float first = gpc::train_block_sum(consistent, scratch), second = gpc::train_block_sum(local, scratch);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = first;
        partial[gridDim.x + blockIdx.x] = second;
    }
}
GPC_KERNEL(gpc_train_latent)
