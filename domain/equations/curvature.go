package equations

import "github.com/gpc-engine/gpc/domain/dual"

// curved is what Linearise and Curvature compute in. What follows the implicit step,
// objectives, margins and context, is a function of (s, c, u, sNext) that costs little, and the
// step a function of (s, c, u) of which package dual knows the derivatives.
type curved struct {
	p             *Problem
	x             []complex128 // s, c, u, sNext
	cNext, j, m   []complex128
	after         dual.Curvature
	w, lambda, z  []float64 // of the present call
	next          []float64
	vary          []int
	slopes, sizes []float64
	weights       []float64
	directions    []float64 // of x by the inputs: those themselves, then sNext
}

func (p *Problem) newCurved() *curved {
	ns, nc, nu, nm := len(p.spec.Measured), len(p.spec.Context), len(p.spec.Action), len(p.spec.Margins)
	inputs := ns + nc + nu
	all := inputs + ns
	k := &curved{
		p: p, x: make([]complex128, all), cNext: make([]complex128, nc), j: make([]complex128, len(p.spec.Objectives)), m: make([]complex128, nm),
		next: make([]float64, ns), slopes: make([]float64, all), weights: make([]float64, ns), directions: make([]float64, all*inputs),
	}
	k.after.F = func(x []complex128) float64 {
		k.follow(x)
		sum := 0.0
		for i, v := range k.j {
			sum += k.w[i] * imag(v)
		}
		for i, v := range k.m {
			sum -= k.z[i] * imag(v)
		}
		for i, v := range k.cNext {
			sum += k.lambda[ns+i] * imag(v)
		}
		return sum
	}
	return k
}

// follow evaluates what follows the implicit step.
func (k *curved) follow(x []complex128) {
	p, of := k.p, &k.p.system.Dual
	s, c, u := split(p, x[:len(x)-len(k.next)])
	next := x[len(x)-len(k.next):]
	copy(k.cNext, c)
	if of.Step != nil {
		of.Step(s, c, u, next, k.cNext)
		k.cNext[p.clock] = c[p.clock]
	}
	of.Objectives(s, c, u, next, k.j)
	if len(k.m) > 0 {
		of.Margins(s, c, u, next, k.m)
	}
}

// stand makes x the point, and its directions those of a unit of each input: the n inputs by,
// then ns entries of sNext that follow.
func (k *curved) stand(s, c, u []float64, by []int, size []float64) (directions []float64) {
	ns, inputs, n := len(s), len(s)+len(c)+len(u), len(by)
	directions = k.directions[:(n+ns)*n]
	k.p.system.Stiff.Jacobian(s, c, u, by, k.next, directions[n*n:])
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
			directions[(n+i)*n+q] *= size[b]
		}
	}
	for i := range ns {
		k.vary, k.sizes = append(k.vary, inputs+i), append(k.sizes, size[i])
	}
	return directions
}

// Linearise implements domain.Curved where the system has Stiff and no Escape.
func (p *Problem) Linearise(s, c, u []float64, by []int, size, next, j, margins []float64) bool {
	work := p.borrow()
	defer p.works.Put(work)
	k := work.curved
	if k == nil {
		return false
	}
	ns, n := len(s), len(by)
	directions := k.stand(s, c, u, by, size)
	copy(next[:ns*n], directions[n*n:])
	outputs := [3]struct {
		from []complex128
		to   []float64
	}{{k.cNext, next[ns*n : (ns+len(c))*n]}, {k.j, j[:len(k.j)*n]}, {k.m, margins[:len(k.m)*n]}}
	for _, o := range outputs {
		clear(o.to)
	}
	for i, a := range k.vary {
		at := k.x[a]
		k.x[a] = complex(real(at), dual.Step)
		k.follow(k.x)
		k.x[a] = at
		for _, o := range outputs {
			for r, v := range o.from {
				if v := dual.Derivative(v); v != 0 {
					row := o.to[r*n : (r+1)*n]
					for q, d := range directions[i*n : (i+1)*n] {
						row[q] += v * d
					}
				}
			}
		}
	}
	return true
}

// Curvature implements domain.Curved where Linearise does.
func (p *Problem) Curvature(s, c, u []float64, by []int, size, w, lambda, z, h []float64) bool {
	work := p.borrow()
	defer p.works.Put(work)
	k := work.curved
	if k == nil {
		return false
	}
	ns, n := len(s), len(by)
	k.w, k.lambda, k.z = w, lambda, z
	directions := k.stand(s, c, u, by, size)
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
