// Package neighbours is an exact nearest-neighbour index over a fixed set of
// points in Euclidean space: the codes of M* (localization and retraction,
// eq. iclr-localization), their decoded states (the least-residual code), and
// the training samples whose neighbourhoods enter the locality loss.
//
// The central type is Index. It returns, bit for bit, what a scan over all
// points returns, on every instruction set and for every number of threads.
//
// # Distance
//
// The squared distance between q and c is float32 arithmetic in one fixed
// order: sixteen partial sums, sum l taking the coordinates j ≡ l (mod 16) in
// ascending order, each (q_j − c_j)² rounded before it is added; then the
// partial sums are added in a tree, l with l+8, l+4, l+2, l+1. Results are
// ordered by (distance, point number). A query with a coordinate that is not
// finite has no neighbours.
//
// # Structure
//
// Points are split across their principal axes, the one of largest variance in each
// part, into leaves of LeafSize points. Three lower bounds prune, none of them part
// of a result, each widened by the rounding error of its own evaluation:
//
//   - the distance from q to the leaf's bounding box along the principal axes;
//   - the distance ρ from q to the leaf's bounding box in its coordinates;
//   - with q' the projection of q onto that box, which is convex and contains
//     c: ‖q − c‖² ≥ ρ² + ‖q' − c‖², and ‖q' − c‖ ≥ h·‖q̂ − ĉ‖ − e_q − e_c for
//     points rounded to a grid of 128 steps h over the leaf. ‖q̂ − ĉ‖² is exact
//     integer arithmetic on bytes, an eighth of the work of the distance itself.
//
// What survives is measured by the distance above. The construction is that of
// a principal-axis tree (McNames 2001) with the quantised filter of the
// VA-file (Weber, Schek and Blott 1998).
package neighbours
