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
	for grown := true; grown; {
		grown = false
		// From the inputs (s, c, u, sNext) of a function to its rows, which are entries of (s, c) from first on.
		follow := func(j *program.Sparse, first int) {
			for k, r := range j.Rows {
				from := j.Cols[k]
				if from >= n.S+n.C+n.U {
					from -= n.S + n.C + n.U
				}
				if r += first; !moves[r] && (from >= n.S+n.C || moves[from]) {
					moves[r], grown = true, true
				}
			}
		}
		if f.ode != nil {
			follow(f.ode.Jacobian(nil), 0)
			follow(f.step.Jacobian(nil), n.S)
		} else {
			follow(f.step.Jacobian(nil), 0)
		}
	}
	var list []int
	for a, moved := range moves {
		if moved {
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
	follow := func(of *program.Function, first int) (grown bool) {
		j := of.Jacobian(nil)
		for k, r := range j.Rows {
			c := j.Cols[k] - n.S
			if c < 0 || c >= n.C || reads[c] || r >= first && !reads[r-first] {
				continue
			}
			reads[c], grown = true, true
		}
		return grown
	}
	rest := f.step.Results() - n.C // rows of a step before the context's
	for grown := true; grown; {
		grown = follow(f.step, rest)
		if f.ode != nil {
			grown = follow(f.ode, n.S) || grown
		}
		each := n.M / (1 + y.EscapeSteps)
		grown = follow(f.escaping, each) || grown
		if f.escape != nil {
			grown = follow(f.escape, n.U) || grown
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
