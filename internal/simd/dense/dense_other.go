//go:build !amd64 || purego

package dense

func run(p *Product, c, d, a, b []float64) { p.add(c, d, a, b) }
