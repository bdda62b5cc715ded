// Package dense adds products of small dense matrices to others, in the registers of vectors: what a Riccati recursion and the
// condensing of constraints are made of, and with LDL the factorisation of larger ones. All instruction sets write the same bits.
// The central type is Product.
package dense

import "math"

// Product is the sizes of C = D + A·B, matrices in slices.
type Product struct {
	sizes      [count]int
	c, d, a, b int // entries that the slices have at least
	transposed bool
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
	dRow
	count
)

// group is how many rows a kernel computes at once; those behind a lower triangle's first group have so many columns more.
const group = 4

// bytes of an entry.
const bytes = 8

// New is C = D + A·B for A of [n][k] and B of [k][m], whose rows stand one behind another in slices, as those of C and D do.
func New(n, k, m int) Product { return product(n, k, m, m, k, 1) }

// NewTransposed is C = D + Aᵀ·B for A of [k][n].
func NewTransposed(n, k, m int) Product {
	p := product(n, k, m, m, 1, n)
	p.transposed = true
	return p
}

// Lower is the same for a square C of which its lower triangle alone is wanted: entries above it may be written or left.
func (p Product) Lower() Product {
	p.sizes[first] = min(group, p.sizes[columns])
	return p
}

// Within is the same for D in rows of so many entries, of which it is the first ones.
func (p Product) Within(row int) Product {
	p.sizes[dRow] = row * bytes
	if p.c > 0 {
		p.d = reach(p.sizes[rows], p.sizes[columns], row)
	}
	return p
}

// Into is the same for C in rows of so many entries, of which it is the first ones.
func (p Product) Into(row int) Product {
	p.sizes[cRow] = row * bytes
	if p.c > 0 {
		p.c = reach(p.sizes[rows], p.sizes[columns], row)
	}
	return p
}

// Left is the same for the left factor in rows of so many entries, of which it is the first ones.
func (p Product) Left(row int) Product {
	n, k := p.sizes[rows], p.sizes[terms]
	if p.transposed {
		p.sizes[aColumn] = row * bytes
		n, k = k, n
	} else {
		p.sizes[aRow] = row * bytes
	}
	if p.a > 0 {
		p.a = reach(n, k, row)
	}
	return p
}

// Right is the same for the right factor in rows of so many entries, of which it is the first ones.
func (p Product) Right(row int) Product {
	p.sizes[bRow] = row * bytes
	if p.b > 0 {
		p.b = reach(p.sizes[terms], p.sizes[columns], row)
	}
	return p
}

// reach is how many entries a slice has at least of a matrix whose rows are so many apart.
func reach(n, m, row int) int { return (n-1)*row + m }

func product(n, k, m, firstColumns, row, column int) Product {
	p := Product{sizes: [count]int{n, k, m, firstColumns, m * bytes, row * bytes, column * bytes, m * bytes, m * bytes}}
	p.c, p.d = n*m, n*m
	p.a, p.b = n*k, k*m
	return p
}

// Add adds the product to c.
func (p *Product) Add(c, a, b []float64) { p.Sum(c, c, a, b) }

// Sum writes c(i, j) = d(i, j) + Σ_k a(i, k)·b(k, j), one k after the other, each rounded once. c shares no entry with a or b, and
// with d all or none. A row that is read soon after numbers of it were written has to wait for them: better to write it here first.
func (p *Product) Sum(c, d, a, b []float64) {
	if p.c == 0 {
		return
	}
	_, _ = c[p.c-1], d[p.d-1]
	if p.a == 0 {
		p.add(c, d, nil, nil)
		return
	}
	_, _ = a[p.a-1], b[p.b-1]
	run(p, c, d, a, b)
}

// add is the loop of the kernels.
func (p *Product) add(c, d, a, b []float64) {
	most := p.sizes[first]
	for i := range p.sizes[rows] {
		if i > 0 && i%group == 0 {
			most += group
		}
		n := p.sizes[columns]
		dst := c[i*p.sizes[cRow]/bytes:][:min(n, most)]
		copy(dst, d[i*p.sizes[dRow]/bytes:])
		for k := range p.sizes[terms] {
			v := a[i*p.sizes[aRow]/bytes+k*p.sizes[aColumn]/bytes]
			for j, w := range b[k*p.sizes[bRow]/bytes:][:len(dst)] {
				dst[j] = math.FMA(v, w, dst[j])
			}
		}
	}
}
