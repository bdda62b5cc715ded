package estimate

// Most is how far each entry may be off its estimate, of a filter with stated bounds.
func (f *Filter) Most() []float64 {
	most := make([]float64, f.n)
	for i := range most {
		h := make([]float64, f.n)
		h[i] = 1
		most[i] = f.set.most(h, make([]float64, f.n))
	}
	return most
}

// Follow has a margin remember the plan along which it finds what to keep off, and says whether that keeps its limits.
func (m *Margin) Follow(s, c, plan []float64, f *Filter) bool {
	m.follow()
	m.tube.renew(s, c, plan, f, nil)
	return m.tube.steps > 0
}

// Go goes on to the next decision of the plan, and Again finds the plan anew from a state on.
func (m *Margin) Go() { m.tube.stage++ }

func (m *Margin) Again(s, c []float64, f *Filter) bool {
	m.tube.renew(s, c, nil, f, nil)
	return m.tube.steps > 0
}

// Kept reports whether the plan is followed behind an action.
func (m *Margin) Kept(s, c, u []float64) bool {
	_, keeps := m.tube.keeps(s, c, u)
	return keeps
}

// Planned is stage t of the plan: its state and action, the feedback, and what is kept off now that it is the present one.
func (m *Margin) Planned(t int) (s, u, k, now []float64) {
	at := &m.stages.list[t]
	return at.s, at.u, at.k, m.tube.now[t]
}

// Held are the derivatives that stage t is followed by.
func (m *Margin) Held(t int) []float64 { return m.tube.flow[t] }

// Unsolved is how many estimates of the episode are the filter's own, as the solve of their window did not converge.
func (f *Filter) Unsolved() int {
	if f.window == nil {
		return 0
	}
	return f.window.unsolved
}
