// Package acopf solves AC optimal power flows: one, or hundreds of thousands on one network. It is a primal–dual
// interior point with exact second derivatives. The structure is analysed once per network. The arithmetic runs on
// the lanes of vectors: each lane is a scenario (loads, objective weights, branch admittance factors, ramp limits)
// that converges by itself.
//
// The central type is Solver: New analyses a network, Solve and SolveChains solve Problems on it. Every Result ends
// with a Status and the residuals of the KKT conditions.
//
// The problem, in per unit and polar voltages, is
//
//	min  f(x)   x = (θ, V, P_G, Q_G)
//	s.t. S_bus(θ, V) + S_D − C_G S_G = 0,   θ_ref given,
//	     |S_from|², |S_to|² ≤ (S^max − η)²,  limits on θ_from − θ_to,
//	     boxes on V, P_G (its ramp limits included) and Q_G
//
// with f the file's cost (polynomials of any degree, convex piecewise linear functions by an extra variable) or the
// paper's scalarised objectives (Supplementary Benchmark Definitions, MO-OPF); see Objective. The algorithm is
// Mehrotra's predictor–corrector in the slack form of MATPOWER's MIPS (R. D. Zimmerman, H. Wang, "MATPOWER Interior
// Point Solver", TN 2) with inertia correction as in IPOPT (A. Wächter, L. T. Biegler, Math. Program. 106, 2006). A
// feasibility phase finds a feasible point or a local minimum of the balance residual. docs/reference/acopf.md has
// the formulas.
package acopf
