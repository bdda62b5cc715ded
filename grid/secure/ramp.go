package secure

import "math"

// ramp is max(0, t) with its first two derivatives. Within width of zero it is the polynomial of degree four that
// joins both branches with two continuous derivatives. Width 0 is the exact corner.
func ramp(t, width float64) (value, first, second float64) {
	switch {
	case t >= width:
		return t, 1, 0
	case t <= -width:
		return 0, 0, 0
	}
	u := t / width
	value = width * (3 + u*(8+u*(6-u*u))) / 16
	first = (8 + u*(12-4*u*u)) / 16
	second = (12 - 12*u*u) / (16 * width)
	return value, first, second
}

// clip limits t to [lo, hi], which may be infinite, with smoothed corners.
func clip(t, lo, hi, width float64) (value, first, second float64) {
	value, first = t, 1
	if !math.IsInf(lo, -1) {
		v, d, dd := ramp(lo-t, width)
		value, first, second = value+v, first-d, second+dd
	}
	if !math.IsInf(hi, 1) {
		v, d, dd := ramp(t-hi, width)
		value, first, second = value-v, first-d, second-dd
	}
	return value, first, second
}
