package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/tensor"
)

func TestGradientAndColumnSumsAgainstFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, level := range isa.Available() {
		k := For(level)
		for i, s := range [][3]int{{1, 1, 1}, {2, 3, 5}, {3, 60, 33}, {31, 16, 8}, {32, 97, 20}, {33, 200, 70}, {100, 33, 64}, {600, 40, 36}} {
			batch, out, in := s[0], s[1], s[2]
			dy, x := randomMatrix(rng, batch, out, out+3), randomMatrix(rng, batch, in, in+i%2)
			if i == 3 {
				x = tensor.Broadcast(random(rng, in), batch)
			}
			dw, db := randomMatrix(rng, out, in, in+1), random(rng, out)
			overwrite := i%2 == 1
			oldW, oldB := dw.Clone(), append([]float32(nil), db...)
			g := NewGradient(k, out, in)
			scratch := Buffer(GradientScratch)
			for task := g.Tasks() - 1; task >= 0; task-- {
				g.Add(task, dy, x, dw, overwrite, scratch)
			}
			k.ColumnSums(dy, db, overwrite)
			for o := range out {
				check := func(what string, got, old float32, factor func(b int) float64) {
					want, scale := float64(old), math.Abs(float64(old))
					if overwrite {
						want, scale = 0, 0
					}
					for b := range batch {
						term := float64(dy.Row(b)[o]) * factor(b)
						want += term
						scale += math.Abs(term)
					}
					if d := math.Abs(float64(got) - want); !(d <= relative(batch)*scale) {
						t.Fatalf("%s batch %d, %d×%d: %s is %v, want %v", level, batch, out, in, what, got, want)
					}
				}
				check(fmt.Sprintf("db[%d]", o), db[o], oldB[o], func(int) float64 { return 1 })
				for j := range in {
					check(fmt.Sprintf("dW[%d,%d]", o, j), dw.Row(o)[j], oldW.Row(o)[j], func(b int) float64 { return float64(x.Row(b)[j]) })
				}
			}
		}
	}
}
