// mlp_forward.cu: y = net(z), three layers (or 1 to 16) in one launch.
//
//	h_0 = z,  h_l = relu(W_l h_{l−1} + b_l),  y = W_L h_{L−1} + b_L      (eq. of D_s, D_u, E_x, E_o)
//
// (also of several networks in a chain, as D_u of E_x)
// and, where wanted, the masks of the hidden layers, for the backward pass and
// the Jacobian, and the physical value base + mean + scale ⊙ y, clipped to
// [lo, hi] (NaN stays NaN).
//
// gpc_mlp_bent_* add offsets where a chain's first network ends.
//
// Grid (⌈rows/R⌉, jobs), block 256, with R = 32 rows a block, 8 for wide networks
// and small batches, 1 for one row (include/pass.cuh). One or two networks that read
// the same rows run as jobs of one launch. On tensor cores weights come from memory in
// the order of fragments, and a pass that leaves masks makes three products of each.
// Activations never leave shared memory: two buffers [width][R + 4] (R = 8:
// [width][8], R = 1: [width]) and 32 KiB through which the weights stream (R = 1: 4 KiB
// of partial sums); 104 KiB at R = 32, width 256, so that two blocks share a
// multiprocessor (at most 128 registers a thread for that).
//
// Bound: 2 Σ in·out FLOP a row (0.18 MFLOP for 32 → 256 → 256 → 60) by the FMA
// pipes; weights are read once per block, 16 FLOP/byte of L2 traffic.
#include "gpc.cuh"
#include "net.cuh"
#include "pass.cuh"

struct gpc_bend {
    const float* offsets; // [rows, ld]
    int ld, pad;
};

namespace gpc {

// Straight is a pass without offsets, Bent one with.
struct Straight {
    template <int ROWS, Order ORDER>
    __device__ void joint(int, int, float*) const {}
};

struct Bent {
    gpc_bend by;
    int rows;
    // joint bends the n latents of a block that begins with row0.
    template <int ROWS, Order ORDER>
    __device__ void joint(int row0, int n, float* z) const {
        for (int e = threadIdx.x; e < ROWS * n; e += rowsThreads) {
            const int r = e / n, k = e % n;
            float& v = z[rows_at<ROWS, ORDER>(k, r)];
            if (row0 + r < rows) v = activation<ORDER>(v + by.offsets[(long long)(row0 + r) * by.ld + k]);
        }
        __syncthreads();
    }
};

// layer_product makes CT columns of a layer from column0 on, by whichever units.
template <int ROWS, int CT, Order ORDER, class F>
__device__ inline void layer_product(const gpc_layer& l, const float* act, int column0, float* stage, F&& f) {
    const int columns = min(CT, l.out - column0);
    if constexpr (on_tensor_cores(ORDER))
        fragment_product<ROWS, CT, ORDER == Order::SPLIT>(act, l.in, ORDER == Order::SPLIT ? l.fragments : l.roundedFragments, column0, columns, stage, f);
    else
        rows_product<ROWS, CT>(act, l.in, Weights(l.transposed, l.ldt, column0), columns, stage, f);
}

// hidden_layer makes the next activations from the present ones.
template <int ROWS, int CT, Order ORDER>
__device__ inline void hidden_layer(const gpc_layer& l, const float* act, float* next, float* stage) {
    for (int column0 = 0; column0 < l.out; column0 += CT) {
        layer_product<ROWS, CT, ORDER>(l, act, column0, stage, [&](int column, int row, int step, float* v, int count) {
            column += column0;
            if (column >= rows_padded<ORDER>(l.out)) return;
            const float bias = column < l.out ? l.bias[column] : 0.0f;
#pragma unroll
            for (int i = 0; i < count; i++) v[i] = column >= l.out ? 0.0f : (l.mask < 0 ? v[i] + bias : relu(v[i] + bias));
            rows_put<ROWS, ORDER>(next, column, row, step, v, count);
        });
    }
}

// output_layer writes y and the physical value.
template <int ROWS, int CT, Order ORDER, class Bend>
__device__ inline void output_layer(const gpc_layer& l, const gpc_forward& job, const Bend& bend, int row0, int rows, const float* act, float* stage) {
    for (int column0 = 0; column0 < l.out; column0 += CT) {
        layer_product<ROWS, CT, ORDER>(l, act, column0, stage, [&](int column, int first, int step, const float* v, int count) {
            column += column0;
            if (column >= l.out) return;
            const float bias = l.bias[column];
#pragma unroll
            for (int i = 0; i < count; i++) {
                const long long row = row0 + first + i * step;
                if (row >= rows) continue;
                const float y = v[i] + bias;
                if (job.y) job.y[row * job.ldy + column] = y;
                if (job.physical) job.physical[row * job.ldp + column] = physical_of(job, row, column, y);
            }
        });
    }
}

// write_masks packs the slopes of one hidden layer. A warp owns every eighth row.
template <int ROWS, Order ORDER>
__device__ inline void write_masks(const gpc_layer& l, const gpc_forward& job, int stride, bool first, int row0, int rows, const float* act) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int r = warp; r < ROWS && row0 + r < rows; r += rowsThreads / 32) {
        unsigned int* mask = job.mask + (long long)(row0 + r) * stride;
        bool poisoned = false;
        for (int word = 0; word < l.words; word++) {
            const int unit = 32 * word + lane;
            const float h = unit < l.out ? act[rows_at<ROWS, ORDER>(unit, r)] : 0.0f;
            const unsigned int bits = __ballot_sync(0xffffffffu, !(h <= 0.0f));
            poisoned |= __ballot_sync(0xffffffffu, h != h) != 0;
            if (lane == 0) mask[l.mask + word] = bits;
        }
        if (lane == 0) mask[0] = (poisoned ? 1u : 0u) | (first ? 0u : mask[0]);
    }
}

template <int ROWS, Order ORDER, class Bend>
__device__ inline void forward(int rows, const gpc_forward& job, const Bend& bend, float* shared) {
    const gpc_net& net = *job.net;
    float* stage = shared;
    float* act = shared + rowsStage;
    float* next = act + net.width * rows_ld<ROWS>();
    const int row0 = blockIdx.x * ROWS;
    // The rows' coordinates, transposed; rows beyond the batch are zero.
    const int in = rows_padded<ORDER>(net.in);
    for (int e = threadIdx.x; e < ROWS * in; e += rowsThreads) {
        const int r = e / in, k = e % in;
        act[rows_at<ROWS, ORDER>(k, r)] = row0 + r < rows && k < net.in ? activation<ORDER>(job.z[(long long)(row0 + r) * job.ldz + k]) : 0.0f;
    }
    __syncthreads();
    if (job.mask && net.layers == 1 && threadIdx.x < ROWS && row0 + int(threadIdx.x) < rows)
        job.mask[(long long)(row0 + threadIdx.x) * net.mask_words] = 0;
    for (int l = 0; l + 1 < net.layers; l++) {
        const gpc_layer& layer = net.layer[l];
        if (layer.out > 64)
            hidden_layer<ROWS, 256, ORDER>(layer, act, next, stage);
        else
            hidden_layer<ROWS, 64, ORDER>(layer, act, next, stage);
        __syncthreads();
        if (layer.mask < 0) bend.template joint<ROWS, ORDER>(row0, layer.out, next);
        if constexpr (ORDER != Order::SLICES)
            if (job.mask) write_masks<ROWS, ORDER>(layer, job, net.mask_words, l == 0, row0, rows, next);
        float* t = act;
        act = next, next = t;
    }
    const gpc_layer& last = net.layer[net.layers - 1];
    if (last.out > 128)
        output_layer<ROWS, 256, ORDER>(last, job, bend, row0, rows, act, stage);
    else if (last.out > (on_tensor_cores(ORDER) ? 32 : 16))
        output_layer<ROWS, 64, ORDER>(last, job, bend, row0, rows, act, stage);
    else
        output_layer<ROWS, on_tensor_cores(ORDER) ? 32 : 16, ORDER>(last, job, bend, row0, rows, act, stage);
}

} // namespace gpc

extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_forward_32(int rows, gpc_forward first, gpc_forward second) {
    GPC_SHARED(float, shared);
    const gpc_forward job = blockIdx.y == 0 ? first : second;
    gpc::forward<32, gpc::Order::FLOAT32>(rows, job, gpc::Straight{}, shared);
}
GPC_KERNEL(gpc_mlp_forward_32)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_forward_8(int rows, gpc_forward first, gpc_forward second) {
    GPC_SHARED(float, shared);
    const gpc_forward job = blockIdx.y == 0 ? first : second;
    gpc::forward<8, gpc::Order::FLOAT32>(rows, job, gpc::Straight{}, shared);
}
GPC_KERNEL(gpc_mlp_forward_8)

extern "C" __global__ void __launch_bounds__(256) gpc_mlp_forward_1(int, gpc_forward first, gpc_forward second) {
    GPC_SHARED(float, shared);
    const gpc_forward job = blockIdx.y == 0 ? first : second;
    gpc::one_forward(job, shared, [&](float* act) {
        for (int k = threadIdx.x; k < job.net->in; k += gpc::rowsThreads) act[k] = job.z[k];
    });
}
GPC_KERNEL(gpc_mlp_forward_1)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_forward_32_tf32(int rows, gpc_forward first, gpc_forward second) {
    GPC_SHARED(float, shared);
    const gpc_forward job = blockIdx.y == 0 ? first : second;
    gpc::forward<32, gpc::Order::SLICES>(rows, job, gpc::Straight{}, shared);
}
GPC_KERNEL(gpc_mlp_forward_32_tf32)

// A pass that leaves masks: three products of TF32 for each, so that units stay on their
// side of their kinks.
extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_forward_32_tf32x3(int rows, gpc_forward first, gpc_forward second) {
    GPC_SHARED(float, shared);
    const gpc_forward job = blockIdx.y == 0 ? first : second;
    gpc::forward<32, gpc::Order::SPLIT>(rows, job, gpc::Straight{}, shared);
}
GPC_KERNEL(gpc_mlp_forward_32_tf32x3)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_bent_32(int rows, gpc_forward job, gpc_bend bend) {
    GPC_SHARED(float, shared);
    gpc::forward<32, gpc::Order::FLOAT32>(rows, job, gpc::Bent{bend, rows}, shared);
}
GPC_KERNEL(gpc_mlp_bent_32)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_bent_8(int rows, gpc_forward job, gpc_bend bend) {
    GPC_SHARED(float, shared);
    gpc::forward<8, gpc::Order::FLOAT32>(rows, job, gpc::Bent{bend, rows}, shared);
}
GPC_KERNEL(gpc_mlp_bent_8)

extern "C" __global__ void __launch_bounds__(256, 2) gpc_mlp_bent_32_tf32(int rows, gpc_forward job, gpc_bend bend) {
    GPC_SHARED(float, shared);
    gpc::forward<32, gpc::Order::SLICES>(rows, job, gpc::Bent{bend, rows}, shared);
}
GPC_KERNEL(gpc_mlp_bent_32_tf32)
