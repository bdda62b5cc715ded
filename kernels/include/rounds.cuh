// rounds.cuh: the rounds of a search along roll-outs (package internal/crossentropy) as they lie on the device: what
// gpc_rounds_draw, the roll-outs, gpc_rounds_select and gpc_rounds_result hand on.
#pragma once
#include "gpc.cuh"

// gpc_rounds_begin is what a decision begins with; it crosses.
struct gpc_rounds_begin {
    unsigned long long seed;
    unsigned int number; // of the decision
    int given;           // candidates of the first round that are not drawn
    int limit;           // most rounds
    int kept, rounds, done; // of the rounds so far: elites, rounds made, and whether another would gain nothing
};

struct gpc_rounds {
    gpc_rounds_begin* state;
    const double* table; // of normal_at
    const double* unit;  // [width] of the spread
    const double* ranks; // [3, most + 1]: crossentropy.Ranks
    const float* given;  // [·, steps·width] the first candidates
    const float* share;  // [steps] of the way from one knot to the next
    const int* from;     // [steps] the knot before
    const int* beside;   // [knots] the step next to each
    double* mean;        // [steps·width]
    double* spread;      // [knots·width]
    float* candidates;   // [all, steps·width], round after round
    double* cost;        // [all]
    double* margin;      // [all]
    const int* kept;     // [all] steps before a state was lost; nullptr: none is
    int* elites;         // [most] candidates, best first
    double* report;      // [rounds, 5]: cost and margin of the best so far; of the round, how many are feasible, their cost in all, the least
    double tolerance, beyond; // beyond: more than any margin is broken by
    double wideWidth, heldWidth, heldSpread, floor, learn, keep; // keep: 1 − learn
    int width, steps, knots, most;
    int kinds, wide, held;
    unsigned int stream;
};
