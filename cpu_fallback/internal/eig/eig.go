// Package eig finds the k largest eigenpairs of many small symmetric float32
// matrices at once. It is the eigendecomposition of the pullback metric that
// the Lie residual of the online step needs (eq. iclr-lie-residual).
//
// The central type is Solver, a workspace for one thread. It is vectorised
// across matrices: lane l of every vector register holds matrix l of a group of
// Solver.Lanes matrices, so that every phase is the scalar algorithm, written
// once, run on 16 (AVX-512), 8 (AVX2) or 1 (Go) matrices. A lane never looks at
// its neighbours, so a result does not depend on what shares its group.
//
// The algorithm is the classical one for a few eigenpairs (Golub and Van Loan,
// Matrix Computations, §8.3–8.4; LAPACK ssyevx): Householder reduction to a
// tridiagonal T, bisection with Sturm counts, inverse iteration on T with
// Gram–Schmidt against the vectors already found, and back-transformation of
// only k vectors. Every loop has a fixed length. Each matrix is first scaled by
// a power of two to a largest entry in [1, 2), so that huge and tiny matrices
// behave alike.
//
// Inverse iteration uses the complex shift λ + iδ and keeps the imaginary part,
// so that one solve multiplies by δ((T − λ)² + δ²)⁻¹. With a real shift a
// repeated eigenvalue fails: the eigenvector that rounding happens to hit is
// amplified beyond all bounds, and Gram–Schmidt then cancels everything else.
// Here all eigenvectors within δ of λ are amplified alike.
package eig

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

const (
	// bisections halve an interval of at most about 6‖T‖ to 6e-8 ‖T‖, the
	// rounding of one float32.
	bisections = 26
	// inverseIterations: one solve shrinks an eigenvector at distance g, relative
	// to those wanted, by (δ/g)²; two leave of it (δ/g)⁴, a residual of at most
	// about δ for any g.
	inverseIterations = 2
	// chunk is how many eigenvalues one bisection kernel call follows.
	chunk = 3
)

// Solver finds the k largest eigenpairs of n × n matrices. It is used by one
// goroutine at a time and allocates only when made.
type Solver struct {
	n, k  int
	lanes int
	run   kernels
	// half works on what is left of a batch when 8 of 16 lanes would be idle;
	// the kernels of both widths round alike, so the bits are the same.
	half *Solver

	a        []float32 // [n·n] matrices; row i keeps its reflector after the reduction
	d, e, e2 []float32 // [n] diagonal, subdiagonal (e[i] couples i−1 and i), squares
	c        []float32 // [n] 1/h of reflector i: P = I − c·u·uᵀ
	work     []float32 // [2·n] of the reduction; [8·n] factors and [2·n] of a solve
	bounds   []float32 // [3]: lower and upper bound of the spectrum of T, δ
	lambda   []float32 // [k rounded up to chunk]
	y        []float32 // [k·n] eigenvectors, of T and then of the matrix
	start    []float32 // [k·n] start vectors
	ones     []float32 // [1]
	scale    []float32 // [2]: the two factors of each lane's power of two
	largest  []uint32  // [1]: bits of the largest |entry|
	exponent []int     // [lanes]
}

// kernels are the phases over all lanes of one group; the Go twins in
// generic.go are their specification.
type kernels struct {
	lanes int
	// pack transposes [lanes][count] with the given row stride to [count][lanes].
	pack           func(dst, src []float32, stride, count int)
	largest        func(a []float32, count int, largest []uint32)
	scale          func(a []float32, count int, factor []float32)
	tridiagonalise func(a []float32, n int, d, e, c, work []float32)
	bound          func(d, e []float32, n int, e2, bounds []float32)
	bisect         func(d, e2 []float32, n, rank, iterations int, bounds, lambda []float32)
	factor         func(d, e []float32, n int, lambda, bounds, work []float32)
	solve          func(work []float32, n int, y, x []float32)
	normalise      func(y []float32, n int)
	reflect        func(u []float32, m int, c, y []float32)
}

// New returns a Solver for k eigenpairs of n × n matrices, 1 ≤ k ≤ n, on one
// instruction set.
func New(level isa.Level, n, k int) *Solver {
	run := kernelsFor(level)
	l := run.lanes
	s := &Solver{
		n: n, k: k, lanes: l, run: run,
		a: make([]float32, n*n*l),
		d: make([]float32, n*l), e: make([]float32, n*l), e2: make([]float32, n*l),
		c: make([]float32, n*l), work: make([]float32, 10*n*l),
		bounds:   make([]float32, 3*l),
		lambda:   make([]float32, (k+chunk-1)/chunk*chunk*l),
		y:        make([]float32, k*n*l),
		start:    make([]float32, k*n*l),
		ones:     slices.Repeat([]float32{1}, l),
		scale:    make([]float32, 2*l),
		largest:  make([]uint32, l),
		exponent: make([]int, l),
	}
	if level == isa.AVX512 {
		s.half = New(isa.AVX2, n, k)
	}
	// Any start with a component along every eigenvector will do; these differ
	// from each other so that a repeated eigenvalue gets independent ones.
	state := uint32(1)
	for i := range k * n {
		state = state*1664525 + 1013904223
		v := 0.5 + float32(state>>8)*0x1p-24
		if state&0x80 != 0 {
			v = -v
		}
		for j := range l {
			s.start[i*l+j] = v
		}
	}
	return s
}

// Lanes is the number of matrices worked on together.
func (s *Solver) Lanes() int { return s.lanes }

// FLOPs is the nominal work of one matrix: (4/3)n³ of the reduction, 2n²k of
// the back-transformation.
func FLOPs(n, k int) float64 {
	f := float64(n)
	return 4*f*f*f/3 + 2*f*f*float64(k)
}

// TopK writes the k largest eigenpairs of count matrices. Matrix b is row-major
// at g[b·gStride:], its values (descending) go to values[b·valuesStride:] and
// its eigenvectors to vectors[b·vectorsStride:], row-major n × k with column j
// the vector of value j: of unit length, largest-magnitude entry positive, the
// first such on a tie. Only the lower triangle is read as data; a non-finite
// entry anywhere gives NaN values and zero vectors.
func (s *Solver) TopK(g []float32, gStride, count int, values []float32, valuesStride int, vectors []float32, vectorsStride int) {
	for b := 0; b < count; b += s.lanes {
		m := min(s.lanes, count-b)
		if s.half != nil && m <= s.half.lanes {
			s.half.TopK(g[b*gStride:], gStride, m, values[b*valuesStride:], valuesStride, vectors[b*vectorsStride:], vectorsStride)
			return
		}
		s.load(g[b*gStride:], gStride, m)
		s.decompose()
		for l := range m {
			o, v := (b+l)*valuesStride, (b+l)*vectorsStride
			s.store(l, values[o:o+s.k], vectors[v:v+s.n*s.k])
		}
	}
}

// load transposes m matrices into the lanes and scales them. Lanes beyond m
// keep what they held: nothing reads their results.
func (s *Solver) load(g []float32, stride, m int) {
	count, l := s.n*s.n, s.lanes
	if m == l {
		s.run.pack(s.a, g, stride, count)
	} else {
		for j := range m {
			row := g[j*stride : j*stride+count]
			dst := s.a[j:]
			for i, v := range row {
				dst[i*l] = v
			}
		}
	}
	s.run.largest(s.a, count, s.largest)
	retry := false
	for j := range l {
		first, second, e := powerOfTwo(s.largest[j])
		s.scale[j], s.scale[l+j], s.exponent[j] = first, second, e
		retry = retry || second != 1
	}
	s.run.scale(s.a, count, s.scale[:l])
	if retry {
		s.run.scale(s.a, count, s.scale[l:])
	}
}

// nonFinite marks a lane without eigenvalues in Solver.exponent.
const nonFinite = math.MaxInt32

// powerOfTwo returns the factors that bring a largest magnitude, given by its
// bits, into [1, 2), and the exponent that undoes them. Two factors, because
// the inverse of a denormal overflows.
func powerOfTwo(bits uint32) (first, second float32, exponent int) {
	switch {
	case bits >= 0x7f800000:
		return 1, 1, nonFinite
	case bits == 0:
		return 1, 1, 0
	case bits >= 1<<23:
		exponent = int(bits>>23) - 127
	default:
		_, e := math.Frexp(float64(math.Float32frombits(bits)))
		exponent = e - 1
	}
	up := min(max(-exponent, -126), 126)
	return power(up), power(-exponent - up), exponent
}

func power(e int) float32 { return math.Float32frombits(uint32(e+127) << 23) }

// decompose runs every phase on the packed group.
func (s *Solver) decompose() {
	n, l := s.n, s.lanes
	s.run.tridiagonalise(s.a, n, s.d, s.e, s.c, s.work)
	s.run.bound(s.d, s.e, n, s.e2, s.bounds)
	for j := 0; j < s.k; j += chunk {
		s.run.bisect(s.d, s.e2, n, n-1-j, bisections, s.bounds, s.lambda[j*l:(j+chunk)*l])
	}
	copy(s.y, s.start)
	size := n * l
	for j := range s.k {
		y := s.y[j*size : (j+1)*size]
		s.run.factor(s.d, s.e, n, s.lambda[j*l:(j+1)*l], s.bounds, s.work)
		for iteration := range inverseIterations {
			s.run.solve(s.work, n, y, s.work[8*size:])
			s.run.normalise(y, n)
			s.orthogonalise(j)
			if iteration == inverseIterations-1 {
				s.orthogonalise(j) // twice is enough (Kahan, Parlett)
			}
		}
	}
	for j := range s.k {
		y := s.y[j*size : (j+1)*size]
		for i := 2; i < n; i++ {
			s.run.reflect(s.a[i*size:], i, s.c[i*l:(i+1)*l], y)
		}
		s.run.normalise(y, n)
	}
}

// orthogonalise makes vector j orthogonal to those before it, and of unit
// length.
func (s *Solver) orthogonalise(j int) {
	if j == 0 {
		return
	}
	size := s.n * s.lanes
	y := s.y[j*size : (j+1)*size]
	for p := range j {
		s.run.reflect(s.y[p*size:(p+1)*size], s.n, s.ones, y)
	}
	s.run.normalise(y, s.n)
}

// store writes lane l's eigenpairs.
func (s *Solver) store(l int, values, vectors []float32) {
	if s.exponent[l] == nonFinite {
		for j := range values {
			values[j] = float32(math.NaN())
		}
		clear(vectors)
		return
	}
	n, k, lanes := s.n, s.k, s.lanes
	for j := range k {
		values[j] = float32(math.Ldexp(float64(s.lambda[j*lanes+l]), s.exponent[l]))
		y := s.y[j*n*lanes+l:]
		top, sign := float32(-1), float32(1)
		for i := range n {
			v := y[i*lanes]
			if a := math.Float32frombits(math.Float32bits(v) &^ (1 << 31)); a > top {
				top, sign = a, v
			}
		}
		sign = float32(math.Copysign(1, float64(sign)))
		for i := range n {
			vectors[i*k+j] = sign * y[i*lanes]
		}
	}
}
