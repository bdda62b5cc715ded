// rounds.cuh: the rounds of a search along roll-outs (package internal/crossentropy) as they lie on the device: what
// gpc_rounds_draw, the roll-outs, gpc_rounds_rank, gpc_rounds_adapt and gpc_rounds_result hand on.
#pragma once
#include "gpc.cuh"

// gpc_rounds_begin is what a decision begins with; it crosses.
struct gpc_rounds_begin {
    unsigned long long seed;
    unsigned int number; // of the decision
    int given;           // candidates of the first round that are not drawn
    int limit;           // most rounds
    int pad[3];
};

// gpc_rounds_state is what a round begins with: elites so far, whether there is nothing more to gain, and rounds made. Round r reads
// state r and makes r + 1; state 0 crosses, all zero.
struct gpc_rounds_state {
    int kept, done, made, pad;
};

// Elites and means are two, of rounds with even and odd numbers: a round reads one and writes the other.
struct gpc_rounds {
    const gpc_rounds_begin* begin;
    gpc_rounds_state* state; // [rounds + 1]
    const double* table; // of normal_at
    const double* unit;  // [width] of the spread
    const double* ranks; // [3, most + 1]: crossentropy.Ranks
    const float* given;  // [·, steps·width] the first candidates
    const float* share;  // [steps] of the way from one knot to the next
    const int* from;     // [steps] the knot before
    const int* beside;   // [knots] the step next to each
    double* mean[2];     // [steps·width] each
    double* spread;      // [knots·width]
    float* candidates;   // [all, steps·width], round after round
    const double* cost;  // [all]
    const double* margin; // [all]
    const int* kept;     // [all] steps before a state was lost; nullptr: none is
    int* elites;         // [2, most] candidates, best first
    int* standing;       // how many are elites behind the round
    double* report;      // [rounds, 5]: cost and margin of the best so far; of the round, how many are feasible, their cost in all, the least
    double tolerance, beyond; // beyond: more than any margin is broken by
    double wideWidth, heldWidth, heldSpread, floor, learn, keep; // keep: 1 − learn
    int width, steps, knots, most;
    int kinds, wide, held;
    unsigned int stream;
};

namespace gpc {

constexpr int roundsKnots = 5; // crossentropy.MostKnots

// margin_of a candidate: one that loses the state is below all others, and above one that loses it earlier.
__device__ inline double margin_of(const gpc_rounds& of, int candidate) {
    const double margin = of.margin[candidate];
    return of.kept && of.kept[candidate] < of.steps && margin == -(double)gpc_inf() ? -of.beyond * (double)(of.steps - of.kept[candidate]) : margin;
}

} // namespace gpc
