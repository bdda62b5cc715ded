// Package dense adds products of small dense matrices to others, in the registers of vectors: what a Riccati recursion and the
// condensing of constraints are made of. All instruction sets write the same bits. The central type is Product.
package dense

import "math"

// Product is the sizes of C += A·B, matrices in slices. The zero value adds nothing.
type Product struct {
	sizes   [count]int
	c, a, b int // entries that the slices have at least
}

// The sizes that kernels read: numbers, strides from one entry to that of the next row or column in bytes, and how many columns the
// first group of rows has.
const (
	rows = iota
	terms
	columns
	first
	cRow
	aRow
	aColumn
	bRow
	count
)

// group is how many rows a kernel computes at once; those behind a lower triangle's first group have so many columns more.
const group = 4

// bytes of an entry.
const bytes = 8

// New is C += A·B for A of [n][k] and B of [k][m], whose rows stand one behind another in slices, as those of C do.
func New(n, k, m int) Product { return product(n, k, m, m, k, 1) }

// NewTransposed is C += Aᵀ·B for A of [k][n].
func NewTransposed(n, k, m int) Product { return product(n, k, m, m, 1, n) }

// Lower is the same for a square C of which its lower triangle alone is wanted: entries above it may be written or left.
func (p Product) Lower() Product {
	p.sizes[first] = min(group, p.sizes[columns])
	return p
}

func product(n, k, m, firstColumns, row, column int) Product {
	p := Product{sizes: [count]int{n, k, m, firstColumns, m * bytes, row * bytes, column * bytes, m * bytes}}
	if n > 0 && k > 0 && m > 0 {
		p.c, p.a, p.b = n*m, n*k, k*m
	}
	return p
}

// Add adds the product to c: c(i, j) += Σ_k a(i, k)·b(k, j), one k after the other, each rounded once. c shares no entry with a or b.
func (p *Product) Add(c, a, b []float64) {
	if p.c == 0 {
		return
	}
	_, _, _ = c[p.c-1], a[p.a-1], b[p.b-1]
	run(p, c, a, b)
}

// add is the loop of the kernels.
func (p *Product) add(c, a, b []float64) {
	most := p.sizes[first]
	for i := range p.sizes[rows] {
		if i > 0 && i%group == 0 {
			most += group
		}
		n := p.sizes[columns]
		to := c[i*n:][:min(n, most)]
		for k := range p.sizes[terms] {
			v := a[i*p.sizes[aRow]/bytes+k*p.sizes[aColumn]/bytes]
			for j, w := range b[k*n:][:len(to)] {
				to[j] = math.FMA(v, w, to[j])
			}
		}
	}
}
