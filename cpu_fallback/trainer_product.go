package cpufallback

// product is one matrix product of training with its fused epilogue:
//
//	C[i][j] = start_j + Σ_k A[i·aRow + k·aStep] · B[k·bStep + j]
//
// for i < rows, j < cols, k < depth, with C's own value as the start if
// accumulate and zero if there is no start; then max(·, 0) if relu; then 0
// where[i·whereRow + j] is not above 0, if there is a where. cols is at most the
// panel width; a whole panel of B and of start must be readable.
type product struct {
	a           []float32
	aRow, aStep int
	b           []float32
	bStep       int
	c           []float32
	cRow        int
	start       []float32
	where       []float32
	whereRow    int
	depth       int
	rows, cols  int
	relu        bool
	accumulate  bool
}

// kernel multiplies on one instruction set.
type kernel struct{}

func (kernel) multiply(p product) {
	var sums [64]float32
	for i := range p.rows {
		sum := sums[:p.cols]
		c := p.c[i*p.cRow : i*p.cRow+p.cols]
		switch {
		case p.accumulate:
			copy(sum, c)
		case p.start != nil:
			copy(sum, p.start)
		default:
			clear(sum)
		}
		for k := range p.depth {
			a := p.a[i*p.aRow+k*p.aStep]
			for j, v := range p.b[k*p.bStep : k*p.bStep+p.cols] {
				sum[j] += a * v
			}
		}
		for j, v := range sum {
			if p.relu && v < 0 {
				v = 0
			}
			if p.where != nil && !(p.where[i*p.whereRow+j] > 0) {
				v = 0
			}
			c[j] = v
		}
	}
}
