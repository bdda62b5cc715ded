package report

// WarmSolver is the exact solver that a compiled map is set beside.
const WarmSolver = "nmpc"
