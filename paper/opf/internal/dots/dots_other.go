//go:build !amd64 || purego

package dots

const wide = false

func four(a, rows *float64, stride, n int, sums *float64) {
	panic("dots: there is no kernel in this build")
}

func add(y, v, rows *float64, stride, n int) { panic("dots: there is no kernel in this build") }
