package domain

// ManyValues is what ProblemAbilities.ManyValues makes, for one goroutine at a time. It is of n decisions, rows without gaps, x being
// (s, c) and next (sNext, cNext). Results agree to rounding with those of Problem's methods, and do not depend on one another.
type ManyValues struct {
	// Evaluate writes next, J and margins.
	Evaluate func(n int, x, u, next, j, margins []float64)
	// Project moves the actions whose margins, as Evaluate has written them, break a limit, in place, to the nearest that keep it, or
	// break it about least. It leaves those of switches; in a system with switches it takes the first action within the limits. Of an
	// action that it moves next, J and margins are written anew.
	Project func(n int, x, u, next, j, margins []float64)
	// Priorities writes the adaptive priorities, [n][objectives].
	Priorities func(n int, x, u, sigma []float64)
}

// ValuesOf are those of a problem for one goroutine. One without the ability computes them decision by decision.
func ValuesOf(p Problem) (ManyValues, error) {
	spec := p.Spec()
	if many := AbilitiesOfProblem(p).ManyValues; many != nil {
		if values, err := many(); err != nil || values != nil {
			if err != nil {
				return ManyValues{}, err
			}
			return values(), nil
		}
	}
	ns, nu, nj := spec.MeasuredSize(), spec.ActionSize(), spec.ObjectiveSize()
	nx, nm := ns+spec.ContextSize(), len(spec.Margins)
	row := func(v []float64, i, width int) []float64 { return v[i*width : (i+1)*width] }
	delta := make([]float64, nj)
	evaluate := func(i int, x, u, next, j, m []float64) {
		x, u, next = row(x, i, nx), row(u, i, nu), row(next, i, nx)
		p.Objectives(x[:ns], u, x[ns:], row(j, i, nj))
		p.Margins(x[:ns], x[ns:], u, row(m, i, nm))
		p.Step(x[:ns], x[ns:], u, next[:ns], next[ns:])
	}
	return ManyValues{
		Evaluate: func(n int, x, u, next, j, m []float64) {
			for i := range n {
				evaluate(i, x, u, next, j, m)
			}
		},
		Project: func(n int, x, u, next, j, m []float64) {
			for i := range n {
				if at := row(x, i, nx); !spec.Keeps(Smallest(row(m, i, nm))) {
					p.Project(at[:ns], at[ns:], row(u, i, nu))
					evaluate(i, x, u, next, j, m)
				}
			}
		},
		Priorities: func(n int, x, u, sigma []float64) {
			for i := range n {
				at := row(x, i, nx)
				p.Indicators(at[:ns], row(u, i, nu), at[ns:], delta)
				spec.Semantic.Priority(delta, row(sigma, i, nj))
			}
		},
	}, nil
}
