package dual

// Explicit is an initial value problem for RK4: ṡ = ODE(s, c, u) with constant c and u. Real and Dual are the ode in
// both types of number. Span is in its unit of time; Substeps are equal steps. Package equations chooses their number
// where it is Auto, so that the error of a span is at most Error of each state's scale; 0: 1e-3.
type Explicit struct {
	Real     func(s, c, u, ds []float64)
	Dual     func(s, c, u, ds []complex128)
	Span     float64
	Substeps int
	Error    float64
}

// With is the problem with other functions.
func (p *Explicit) With(real func(s, c, u, ds []float64), dual func(s, c, u, ds []complex128)) *Explicit {
	return &Explicit{real, dual, p.Span, p.Substeps, p.Error}
}

// Auto is a number of Substeps that package equations chooses.
const Auto = 0

// Integrate is RK4 of the problem.
func Integrate[T Scalar](p *Explicit, s, c, u, next []T) {
	switch s := any(s).(type) {
	case []float64:
		RK4(p.Real, s, any(c).([]float64), any(u).([]float64), any(next).([]float64), p.Span, p.Substeps)
	case []complex128:
		RK4(p.Dual, s, any(c).([]complex128), any(u).([]complex128), any(next).([]complex128), p.Span, p.Substeps)
	}
}
