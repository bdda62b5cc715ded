// Package secure finds the cheapest dispatch of a network that survives the outage of any single
// branch or unit: the preventive security-constrained AC optimal power flow.
//
// The central type is Solver: New analyses a network and its outages, Solve finds a Result. A
// dispatch is the set-points P of units and V of the buses they hold. The problem, in per unit and
// polar voltages, is
//
//	min  Σ cost(P)
//	s.t. balances and limits before any outage, as in package acopf, and after each outage c:
//	     S_bus(θ_c, V_c; c) + S_D − S_G,c = 0
//	     P_c = clip(P + share·Δ_c, P_min, P_max)        units share what is missing
//	     Q_c = clip(y, Q_min, Q_max)                    by bus; V_c = V − (y − Q_c)/10
//	     |S|² ≤ (emergency·rate)² at both ends,  V_min − band ≤ V_c ≤ V_max + band
//
// Δ_c is one number an outage, and y one a bus with units: inside the reactive limits it is Q_c and the
// set-point V holds; outside, the voltage leaves the set-point by a tenth of what y is beyond. Limits of
// angle differences hold before an outage alone.
//
// Outages enter as they are found to matter (constraint generation). Power flows of package
// powerflow at the present dispatch say which outages break a limit; the worst for each limit are remembered, the
// problem with the remembered ones is solved, and the power flows look again. A result is Secure when no outage
// breaks a limit in these power flows.
//
// The optimisation is a primal–dual interior point with exact second derivatives (Mehrotra's steps, as
// package acopf). Each state, before any outage and after each one remembered, is a block of its
// matrix. A block after an outage meets the others in the set-points alone: its factorisation
// leaves their Schur complement, and the block before any outage takes in the sum. Blocks of outages are
// factored side by side in the lanes of vectors (package lanes), with pivots in a fixed order: all have the
// pattern of the network, in which what is out is zero. What is left of the set-points in the end is one dense
// matrix (package dense). The pivots' signs, added up, are the inertia. Where that
// is not the one wanted after a first shift of the diagonal, or a direction keeps a residual, the blocks are
// factored again with pivots chosen by size (package multifrontal).
//
// Limits after an outage may be exceeded at a price, so that the interior point always has a point
// inside them. Where it does not converge, it begins again with balances after an outage that give too, at a
// higher price, so that there is a point whatever an outage leaves of the network. Prices grow as long as
// something gives; what gives at the last price is what stands in the way of a secure dispatch
// (Result.Gives).
//
// Corners of clip are handled in two steps. First they are smooth, a tenth of a per unit wide, then a hundredth, and
// outages that break a limit at these dispatches are added. Then each is on the side where the power flow at the last
// one is, at its lower limit, between, or at its upper one, and what keeps it on that side is a limit like others, with a
// price. Where such a limit gives, the unit changes its side; where it binds, the other side is tried, as long as the cost
// falls. The optimum is a local one of a problem that is not convex.
//
// Chain solves a series of loads, each from the dispatch before. An outage that has meant nothing in several results
// in a row, neither by a price nor by little room, is no longer remembered.
package secure
