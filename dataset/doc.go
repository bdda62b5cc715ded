// Package dataset makes Pareto datasets (paper, "Offline Pareto Dataset", eq. iclr-dataset). It samples scenarios by
// Latin hypercube and sweeps preferences over the simplex by scalarization. A domain.Solver solves each pair. The
// optimal decisions are stored as parquet.
//
// The central type is Dataset, a folder of parts. Generate fills one, chunk of scenarios by chunk. The content
// depends on case, seed and options alone, not on threads, shards or interruptions. Merge joins shards. Load also
// joins datasets of different seeds and policies.
package dataset
