//go:build !amd64 || purego

package dense

func run(p *Product, c, a, b []float64) { p.add(c, a, b) }
