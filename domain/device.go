package domain

import "io/fs"

// DeviceCode names the device functions: the kernels gpc_domain_base_NAME,
// _gradient_NAME, _priority_NAME and _rollout_NAME that kernels/include/domain.cuh
// makes of a domain's .cu file, or that the file defines with the same arguments.
type DeviceCode struct {
	// Name is empty for an instance that has none, and Reason then says why: its
	// sizes may be beyond what the functions hold.
	Name, Reason string
	// Images holds manifest.json and the compiled functions, as `make kernels`
	// writes them into the domain's folder images.
	Images fs.FS
	// Constants are what every function is given, in the order the .cu file reads;
	// Indices lie behind them in the same memory.
	Constants []float64
	Indices   []int32
	// Scored says that the roll-out scores an action as the problem's Score does;
	// one without it cannot refine a problem with Score.
	Scored bool
	// Fails says that the roll-out knows the states that are lost (ProblemAbilities.Failed);
	// one without it rolls out no problem that has such.
	Fails bool
	// Policy says that the file has GPC_POLICY(NAME) of kernels/include/policy.cuh too: whole roll-outs
	// of the base policy, for plans of one action.
	Policy bool
	// Lanes is how many threads of a block of 256 share a row of the roll-out, the
	// struct's lanes: 2, 4, 8, 16 or 32; 0 is one. GradientLanes share one of the gradient.
	// Base and priority have a thread a row.
	Lanes, GradientLanes int
	// Warp says that a block of 32 threads works on a row of base, gradient and
	// roll-out; without it a thread does, in blocks of 128. The next three are such
	// a block's: bytes of dynamic shared memory of the gradient and of the roll-out,
	// and bytes of device memory that the roll-out computes in, a multiple of 8.
	Warp                                     bool
	GradientShared, RolloutShared, Workspace int
}
