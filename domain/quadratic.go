package domain

// Quadratic is a function of a state and a context, x = (s, c): with δ_i = (x_i − At_i)/Scale_i,
//
//	Slopeᵀδ + ½ δᵀ Curvature δ.
//
// Nobody changes one that is made.
type Quadratic struct {
	At, Scale, Slope []float64 // [n], n entries of s and c together
	Curvature        []float64 // [n][n]
}

// QuadraticSize is how many numbers a Quadratic of n entries has.
func QuadraticSize(n int) int { return n * (3 + n) }

// Pack writes all numbers, one field behind the other, [QuadraticSize].
func (q *Quadratic) Pack(out []float64) {
	for _, values := range [][]float64{q.At, q.Scale, q.Slope, q.Curvature} {
		out = out[copy(out, values):]
	}
}

// Away is entry i of δ.
func (q *Quadratic) Away(s, c []float64, i int) float64 {
	if i < len(s) {
		return (s[i] - q.At[i]) / q.Scale[i]
	}
	return (c[i-len(s)] - q.At[i]) / q.Scale[i]
}

// Row is entry i of Curvature δ.
func (q *Quadratic) Row(s, c []float64, i int) (sum float64) {
	n := len(q.At)
	for k, v := range q.Curvature[i*n : (i+1)*n] {
		if v != 0 {
			sum += v * q.Away(s, c, k)
		}
	}
	return sum
}

// Value is the function at a state and context.
func (q *Quadratic) Value(s, c []float64) (sum float64) {
	for i, slope := range q.Slope {
		sum += (slope + q.Row(s, c, i)/2) * q.Away(s, c, i)
	}
	return sum
}
