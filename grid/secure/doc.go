// Package secure finds the cheapest dispatch of a network that survives the outage of any single branch or unit: the
// preventive security-constrained AC optimal power flow.
//
// The central type is Solver: New analyses a network and its outages, Solve finds a Result. A dispatch consists of
// set-points: P of the units and V of their buses. The problem, in per unit and polar voltages, is
//
//	min  Σ cost(P)
//	s.t. balances and limits before any outage, as in package acopf, and after each outage c:
//	     S_bus(θ_c, V_c; c) + S_D − S_G,c = 0
//	     P_c = clip(P + share·Δ_c, P_min, P_max)        units share the missing power
//	     Q_c = clip(y, Q_min, Q_max)                    by bus; V_c = V − (y − Q_c)/10
//	     |S|² ≤ (emergency·rate)² at both ends,  V_min − band ≤ V_c ≤ V_max + band
//
// Every outage has one Δ_c, and every bus with units one y. Within the reactive limits y is Q_c, and the voltage is
// at its set-point V. Beyond them the voltage leaves the set-point by a tenth of y − Q_c. Limits of angle
// differences hold before an outage only.
//
// The optimisation is a primal–dual interior point with exact second derivatives and Mehrotra's steps, as in package
// acopf. Its matrix has a block for the base state (before any outage) and one for each remembered outage. The
// blocks meet in the set-points only. The factorisation of an outage's block leaves a Schur complement, which is
// added to the base state's block. Package lanes factors the blocks of several outages at once with pivots in a
// fixed order. All of them have the network's pattern, with zeros for the missing branch or unit. Package dense
// factors the set-points that remain. The signs of the pivots give the inertia. If the inertia is wrong after a
// first shift, or a direction keeps a residual, package multifrontal factors the blocks again with pivots chosen by
// size.
//
// Limits after an outage are soft: elastic slacks with a penalty keep the problem feasible. If that does not
// converge, the solve restarts with elastic balances at a higher penalty. Penalties grow while a slack is positive.
// Slacks that remain at the highest penalty show what prevents a secure dispatch (Result.Relaxations).
//
// docs/reference/secure.md has the method: constraint generation, the sides of clip, and series of loads.
package secure
