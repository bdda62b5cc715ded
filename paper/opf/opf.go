// Package opf is multi-objective AC optimal power flow as a control problem: at
// every dispatch interval the loads change and the generators get new active
// powers and voltage set-points, with every limit of the network kept on a full
// AC power flow (paper, "Optimal power flow" and sec:opf; Cases 3 and 4).
//
// The central type is System, a domain.Problem of any network: measured state s
// = (V…, θ…) of every bus *before* the dispatch, that is under the new loads
// with the old set-points; context c = (loads P, loads Q, previous P_G, branch
// factors b in the uncertain case); action u = (P_G…, V_G…) per unit. Around it
// stand the plant with the frozen test loads (Plant), the ramp-coupled exact
// chain (Chain), the Pareto samples (Solver) and the case's own methods.
//
// The network itself, its power flow and its interior-point solver are the
// packages below: network, powerflow, acopf.
package opf

// Constants of the objectives (paper, sec:opf).
const (
	// ThermalThreshold is τ: loading above it is penalised by J₁.
	ThermalThreshold = 0.85
	// VoltageDeadband is δ_dead, pu: deviations from 1 pu beyond it are penalised
	// by J₂.
	VoltageDeadband = 0.05
)

// Constants of the benchmark.
const (
	// RampShare of the larger of P_max and −P_min is a unit's ramp limit per dispatch
	// step.
	RampShare = 0.05
	// RampFloor, pu, is the least: a unit that cannot produce would otherwise be held
	// to its last output exactly, which no solver and no power flow meets.
	RampFloor = 1e-3
	// MarginTolerance, pu, is how far below zero a margin may be on the plant.
	MarginTolerance = 1e-4
	// StepSeconds is the dispatch interval (paper, Case 3).
	StepSeconds = 5
	// Steps of an episode.
	Steps = 300
)

// The box of branch factors in the uncertain case: b = 1 + clip(N(0, BranchSigma²),
// ±BranchRange), one vector a trajectory (eq. iclr-branch-uncertainty).
const (
	BranchSigma = 0.01
	BranchRange = 0.03
)

// Objective numbers.
const (
	thermal = iota
	voltage
	economic
	objectives
)
