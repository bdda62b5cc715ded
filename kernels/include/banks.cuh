// banks.cuh: what one access of a warp to shared memory costs, at compile time, so
// that a kernel can assert it of its own address pattern.
//
// Shared memory has 32 banks of 4 bytes and moves 128 bytes a cycle and
// multiprocessor. Accesses of 8 or 16 bytes a lane are served for half a warp or a
// quarter of one at a time; two of these together where a load's lanes l and l ^ 1,
// or l and l ^ 2, read the same address throughout (NVIDIA's answer of how requests
// of LDS.64 and LDS.128 merge, from compute capability 7.0 on; not measured here on
// an H200). Different words of one bank take a cycle each.
#pragma once
#include "gpc.cuh"

namespace gpc {

// Words is where each lane of a warp begins to read or write, in floats.
struct Words {
    int at[GPC_WARP];
};

// requests is the cycles that an access of `width` floats a lane (1, 2 or 4, aligned
// to as many) takes.
__device__ constexpr int requests(const Words& w, int width, bool load) {
    bool one = load, two = load;
    for (int lane = 0; lane < GPC_WARP; lane++) {
        one = one && w.at[lane] == w.at[lane ^ 1];
        two = two && w.at[lane] == w.at[lane ^ 2];
    }
    int together = GPC_WARP / width, cycles = 0;
    if (width > 1 && (one || two)) together *= 2;
    for (int first = 0; first < GPC_WARP; first += together) {
        int inBank[GPC_WARP] = {}, most = 0;
        for (int lane = first; lane < first + together; lane++) {
            bool fresh = true;
            for (int other = first; other < lane; other++) fresh = fresh && w.at[other] != w.at[lane];
            if (!fresh) continue;
            int& n = inBank[w.at[lane] / width % (GPC_WARP / width)];
            n++;
            most = n > most ? n : most;
        }
        cycles += most;
    }
    return cycles;
}

// Lanes lays the 32 lanes of a warp out as ROWS × 32/ROWS, 4 × 8 or 8 × 4, so that
// reads along either side merge: lanes l and l ^ 1 are in one row, l and l ^ 2 in one
// column.
template <int ROWS>
struct Lanes {
    static_assert(ROWS == 4 || ROWS == 8, "4 × 8 or 8 × 4 lanes");
    static constexpr int rows = ROWS, columns = GPC_WARP / ROWS;
    __device__ static constexpr int row(int lane) { return ROWS == 8 ? lane >> 1 & 7 : (lane >> 1 & 1) | lane >> 4 << 1; }
    __device__ static constexpr int column(int lane) { return ROWS == 8 ? (lane & 1) | lane >> 4 << 1 : (lane & 1) | (lane >> 2 & 3) << 1; }

    // by_rows and by_columns are where the lanes read `width` floats each, side by side
    // along rows or along columns.
    __device__ static constexpr Words by_rows(int width) {
        Words w = {};
        for (int lane = 0; lane < GPC_WARP; lane++) w.at[lane] = width * row(lane);
        return w;
    }
    __device__ static constexpr Words by_columns(int width) {
        Words w = {};
        for (int lane = 0; lane < GPC_WARP; lane++) w.at[lane] = width * column(lane);
        return w;
    }
};

static_assert(requests(Lanes<4>::by_rows(4), 4, true) == 2 && requests(Lanes<4>::by_columns(4), 4, true) == 2, "16-byte reads of 4 × 8 lanes merge");
static_assert(requests(Lanes<8>::by_rows(4), 4, true) == 2 && requests(Lanes<8>::by_columns(4), 4, true) == 2, "16-byte reads of 8 × 4 lanes merge");
static_assert(requests(Lanes<4>::by_columns(2), 2, true) == 1, "8-byte reads merge");

} // namespace gpc
