package equations

import "github.com/gpc-engine/gpc/domain/dual"

// curved is what Curvature computes in. What follows the implicit step, objectives, margins
// and context, is a function of (s, c, u, sNext) that costs little, and the step a function of
// (s, c, u) of which package dual knows the second derivatives.
type curved struct {
	after                  dual.Curvature
	x                      []complex128 // s, c, u, sNext
	w, lambda, z           []float64    // of the present call
	next                   []float64
	vary                   []int
	slopes, sizes, weights []float64
	jacobian, directions   []float64
}

func (p *Problem) newCurved() *curved {
	ns, nc, nu := len(p.spec.Measured), len(p.spec.Context), len(p.spec.Action)
	inputs := ns + nc + nu
	k := &curved{
		x: make([]complex128, inputs+ns), next: make([]float64, ns), vary: make([]int, 0, inputs+ns), slopes: make([]float64, inputs+ns),
		sizes: make([]float64, 0, inputs+ns), weights: make([]float64, ns), jacobian: make([]float64, ns*inputs), directions: make([]float64, (inputs+ns)*inputs),
	}
	of := &p.system.Dual
	cNext, j, m := make([]complex128, nc), make([]complex128, len(p.spec.Objectives)), make([]complex128, len(p.spec.Margins))
	k.after.F = func(x []complex128) float64 {
		s, c, u, n := x[:ns], x[ns:ns+nc], x[ns+nc:inputs], x[inputs:]
		copy(cNext, c)
		if of.Step != nil {
			of.Step(s, c, u, n, cNext)
			cNext[p.clock] = c[p.clock]
		}
		of.Objectives(s, c, u, n, j)
		if len(m) > 0 {
			of.Margins(s, c, u, n, m)
		}
		sum := 0.0
		for i, v := range j {
			sum += k.w[i] * imag(v)
		}
		for i, v := range m {
			sum -= k.z[i] * imag(v)
		}
		for i, v := range cNext {
			sum += k.lambda[ns+i] * imag(v)
		}
		return sum
	}
	return k
}

// Curvature implements domain.Curved where the system has Stiff and no Escape.
func (p *Problem) Curvature(s, c, u []float64, by []int, size, w, lambda, z, h []float64) bool {
	work := p.borrow()
	defer p.works.Put(work)
	k := work.curved
	if k == nil {
		return false
	}
	ns, inputs, n := len(s), len(s)+len(c)+len(u), len(by)
	k.w, k.lambda, k.z = w, lambda, z
	jacobian, directions := k.jacobian[:ns*n], k.directions[:(n+ns)*n]
	p.system.Stiff.Jacobian(s, c, u, by, k.next, jacobian)
	at := k.x
	for _, part := range [4][]float64{s, c, u, k.next} {
		widen(at, part)
		at = at[len(part):]
	}
	k.vary, k.sizes = k.vary[:0], k.sizes[:0]
	clear(directions[:n*n])
	for q, b := range by {
		k.vary, k.sizes = append(k.vary, b), append(k.sizes, size[b])
		directions[q*n+q] = size[b]
		for i := range ns {
			directions[(n+i)*n+q] = jacobian[i*n+q] * size[b]
		}
	}
	for i := range ns {
		k.vary, k.sizes = append(k.vary, inputs+i), append(k.sizes, size[i])
	}
	slopes := k.slopes[:n+ns]
	k.after.Slopes(k.x, k.vary, slopes)
	h = h[:n*n]
	clear(h)
	k.after.Add(k.x, k.vary, slopes, k.sizes, directions, n, h)
	for i := range ns {
		k.weights[i] = lambda[i] + slopes[n+i]/dual.Step
	}
	p.system.Stiff.AddCurvature(s, c, u, k.weights, by, size, h)
	return true
}
