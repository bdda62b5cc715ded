// Package offline makes Pareto datasets: it samples scenarios by Latin
// hypercube, sweeps preferences over the simplex by scalarization, has a
// domain.Solver solve each pair, and keeps the optimal decisions on disk as
// parquet (paper, "Offline Pareto Dataset", eq. iclr-dataset).
//
// The central type is Dataset, a folder of parts. Generate fills one, chunk of
// scenarios by chunk of scenarios; the content depends on case, seed and
// options alone, not on threads, shards or interruptions. Merge joins shards, Load
// also datasets of different seeds and policies.
package offline
