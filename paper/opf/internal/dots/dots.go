// Package dots computes the dot products of one vector with many others, and adds multiples of many vectors to one. The
// products are bitwise those of tensor.Dot, whose four partial sums are the lanes of a
// register here, and the sums those of one tensor.Axpy after another.
package dots

import "github.com/gpc-engine/gpc/tensor"

// Sums are the partial sums of four products: [k][l] sums a_i·b_i of the k-th over i = l,
// l + 4, ….
type Sums [4][4]float64

// Four writes the partial sums of the products of a, whose length is a multiple of four, with
// four rows of a matrix, stride numbers apart.
func (s *Sums) Four(a, rows []float64, stride int) {
	if len(a) == 0 {
		*s = Sums{}
		return
	}
	_ = rows[3*stride+len(a)-1]
	if wide {
		four(&a[0], &rows[0], stride, len(a), &s[0][0])
		return
	}
	for k := range s {
		s[k] = sums(a, rows[k*stride:])
	}
}

// sums is the loop of the kernel, for one row.
func sums(a, b []float64) (s [4]float64) {
	for i := 0; i < len(a); i += 4 {
		x, y := (*[4]float64)(a[i:]), (*[4]float64)(b[i:])
		s[0] += x[0] * y[0]
		s[1] += x[1] * y[1]
		s[2] += x[2] * y[2]
		s[3] += x[3] * y[3]
	}
	return s
}

// Rows writes the products of a with as many rows of a matrix, stride numbers apart, as out
// has entries.
func Rows(a, rows []float64, stride int, out []float64) {
	var s Sums
	body, k := len(a)&^3, 0
	for ; wide && k+4 <= len(out); k += 4 {
		block := rows[k*stride:]
		s.Four(a[:body], block, stride)
		for l := range s {
			for i := body; i < len(a); i++ {
				s[l][0] += a[i] * block[l*stride+i]
			}
			out[k+l] = (s[l][0] + s[l][1]) + (s[l][2] + s[l][3])
		}
	}
	for ; k < len(out); k++ {
		out[k] = tensor.Dot(a, rows[k*stride:])
	}
}

// Add adds v_k times the k-th row of a matrix, stride numbers apart, to y, for every entry of
// v.
func Add(y, v, rows []float64, stride int) {
	k, body := 0, len(y)&^3
	for ; wide && body > 0 && k+4 <= len(v); k += 4 {
		block := rows[k*stride:]
		_ = block[3*stride+len(y)-1]
		add(&y[0], &v[k], &block[0], stride, body)
		for i := body; i < len(y); i++ {
			for l := range 4 {
				y[i] += v[k+l] * block[l*stride+i]
			}
		}
	}
	for ; k < len(v); k++ {
		tensor.Axpy(v[k], rows[k*stride:k*stride+len(y)], y)
	}
}
