package stages

import "github.com/gpc-engine/gpc/equations/program"

// Moving are the entries of (s, c) that an action moves, at once or through others, in their order. It follows from which inputs the
// functions have derivatives by, whatever their values are.
func (y System) Moving() ([]int, error) {
	f, err := functionsOf(y)
	if err != nil {
		return nil, err
	}
	n := f.sizes
	moves := make([]bool, n.S+n.C)
	for grows := true; grows; {
		grows = false
		// From the inputs (s, c, u, sNext) of a function to its rows, which are entries of (s, c) from first on.
		follow := func(j *program.Sparse, first int) {
			for k, r := range j.Rows {
				column := j.Cols[k]
				if column >= n.S+n.C+n.U {
					column -= n.S + n.C + n.U
				}
				if r += first; !moves[r] && (column >= n.S+n.C || moves[column]) {
					moves[r], grows = true, true
				}
			}
		}
		if f.ode != nil {
			follow(f.ode.Jacobian(f.ode.Own()), 0)
			follow(f.step.Jacobian(f.step.Own()), n.S)
		} else {
			follow(f.step.Jacobian(f.step.Own()), 0)
		}
	}
	var list []int
	for a, moves := range moves {
		if moves {
			list = append(list, a)
		}
	}
	return list, nil
}

// Limiting lists the entries of the context that the states, the margins or the escape depend on, at once or through other entries, ascending.
func (y System) Limiting() ([]int, error) {
	f, err := functionsOf(y)
	if err != nil {
		return nil, err
	}
	n := f.sizes
	reads := make([]bool, n.C)
	// follow notes what the rows of a function read, those of the context, from first on, where they are read themselves.
	follow := func(function *program.Function, first int) (grows bool) {
		j := function.Jacobian(nil)
		for k, r := range j.Rows {
			c := j.Cols[k] - n.S
			if c < 0 || c >= n.C || reads[c] || r >= first && !reads[r-first] {
				continue
			}
			reads[c], grows = true, true
		}
		return grows
	}
	rest := f.step.Results() - n.C // rows of a step before the context's
	for grows := true; grows; {
		grows = follow(f.step, rest)
		if f.ode != nil {
			grows = follow(f.ode, n.S) || grows
		}
		margins := n.M / (1 + y.EscapeSteps)
		grows = follow(f.escaping, margins) || grows
		if f.escape != nil {
			grows = follow(f.escape, n.U) || grows
		}
	}
	var list []int
	for c, read := range reads {
		if read {
			list = append(list, c)
		}
	}
	return list, nil
}
