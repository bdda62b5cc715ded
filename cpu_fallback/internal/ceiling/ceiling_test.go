package ceiling

import (
	"testing"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/gemm"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

func TestTriadComputes(t *testing.T) {
	const n = 256
	for _, level := range isa.Available() {
		a, b, c := gemm.Buffer(n+1), make([]float32, n), make([]float32, n)
		for i := range b {
			b[i], c[i] = float32(i), float32(2*i+1)
		}
		a[n] = -1
		triad(level, a[:n], b, c, 3)
		for i, v := range a[:n] {
			if want := b[i] + 3*c[i]; v != want {
				t.Fatalf("%s: a[%d] = %v, want %v", level, i, v, want)
			}
		}
		if a[n] != -1 {
			t.Fatalf("%s: wrote behind the end", level)
		}
	}
}

// A wider instruction set has a higher ceiling than the Go loop; a peak that
// stopped counting would show here.
func TestCeilingsArePlausible(t *testing.T) {
	pool := parallel.New(1)
	defer pool.Close()
	generic := FMA(pool, isa.Generic)
	if generic < 1e8 {
		t.Fatalf("Go loop: %.3g FLOP/s", generic)
	}
	for _, level := range isa.Available()[1:] {
		rate := FMA(pool, level)
		t.Logf("%s: %.1f GFLOP/s, Go %.1f, triad %.1f GB/s", level, rate/1e9, generic/1e9, Triad(pool, level, 1<<22)/1e9)
		if rate < 2*generic || rate > 1e13 {
			t.Errorf("%s: %.3g FLOP/s, Go loop %.3g", level, rate, generic)
		}
	}
}
