package powerflow

import "math"

// rows are the rows of the bus admittance matrix without its diagonal, and voltages in rectangular form. Injections from the
// currents read each row once and write two numbers.
type rows struct {
	first []int32 // by bus, of the entries
	entry []admittance
	// places are the entries of each pair, in the row of its i and in that of its j.
	places [][2]int32
	v      [][2]float64 // by bus: real and imaginary part
}

// admittance is an entry, in the column of a bus.
type admittance struct {
	column int32
	g, b   float64
}

// newRows are at the solver's voltages.
func (s *Solver) newRows() *rows {
	buses := s.net.Buses()
	y := &rows{first: make([]int32, buses+1), entry: make([]admittance, 2*len(s.pairs)), places: make([][2]int32, len(s.pairs)), v: Rectangular(s.vm, s.va)}
	for _, p := range s.pairs {
		y.first[p.i+1]++
		y.first[p.j+1]++
	}
	for b := range buses {
		y.first[b+1] += y.first[b]
	}
	next := append([]int32(nil), y.first...)
	for k, p := range s.pairs {
		y.places[k] = [2]int32{next[p.i], next[p.j]}
		next[p.i]++
		next[p.j]++
		y.set(s, int32(k))
	}
	return y
}

// set takes the admittances of a pair.
func (y *rows) set(s *Solver, pair int32) {
	p, place := &s.pairs[pair], y.places[pair]
	y.entry[place[0]], y.entry[place[1]] = admittance{p.j, p.gij, p.bij}, admittance{p.i, p.gji, p.bji}
}

// Rectangular are voltages in rectangular form.
func Rectangular(vm, va []float64) [][2]float64 {
	v := make([][2]float64, len(vm))
	for b, m := range vm {
		sin, cos := math.Sincos(va[b])
		v[b] = [2]float64{m * cos, m * sin}
	}
	return v
}

// inject computes the solver's injections at the voltages.
func (y *rows) inject(s *Solver) {
	vm, voltages, first := s.vm, y.v[:len(s.vm)], y.first[:len(s.vm)+1]
	p, q := s.p[:len(vm)], s.q[:len(vm)]
	gd, bd := s.gd[:len(vm)], s.bd[:len(vm)]
	if vectors {
		injectAVX2(first, y.entry, voltages, vm, gd, bd, p, q)
		return
	}
	for b := range vm {
		var active, reactive [2]float64 // parts of the current: by conductances, by susceptances
		entries := y.entry[first[b]:first[b+1]]
		for i := range entries {
			a := &entries[i]
			v := &voltages[a.column]
			active[0] += a.g * v[0]
			active[1] += a.g * v[1]
			reactive[0] += a.b * v[0]
			reactive[1] += a.b * v[1]
		}
		re, im := active[0]-reactive[1], active[1]+reactive[0]
		v, vm2 := &voltages[b], vm[b]*vm[b]
		p[b], q[b] = vm2*gd[b]+(v[0]*re+v[1]*im), v[1]*re-v[0]*im-vm2*bd[b]
	}
}

// small (rad) bounds the angles of the series of sincos.
const small = 0.125

// sincos is math.Sincos, with a truncation error below 3e-18 where an angle is small: then its series costs less.
func sincos(d float64) (sin, cos float64) {
	const smaller = 2e-3 // rad
	d2 := d * d
	switch size := math.Abs(d); {
	case size <= smaller:
		return d * (1 + d2*(-1.0/6+d2*(1.0/120))), 1 + d2*(-1.0/2+d2*(1.0/24))
	case size <= small:
		return d * (1 + d2*(-1.0/6+d2*(1.0/120+d2*(-1.0/5040+d2*(1.0/362880))))), 1 + d2*(-1.0/2+d2*(1.0/24+d2*(-1.0/720+d2*(1.0/40320+d2*(-1.0/3628800)))))
	}
	return math.Sincos(d)
}

// terms are those of the same series of sin d/d and cos d, the last first.
var terms = [6][2]float64{{0, -1.0 / 3628800}, {1.0 / 362880, 1.0 / 40320}, {-1.0 / 5040, -1.0 / 720}, {1.0 / 120, 1.0 / 24}, {-1.0 / 6, -1.0 / 2}, {1, 1}}

// move is the solver's step, of a squared length, of the voltages in rectangular form too. A product by 1 + Δv and by the sine and cosine of a small angle costs a
// tenth of those of any angle.
func (y *rows) move(s *Solver) (scale, length float64) {
	rhs, voltages := s.lu.rhs, y.v[:len(s.position)]
	vm, va := s.vm[:len(voltages)], s.va[:len(voltages)]
	scale, angle, length := s.stepScale()
	if vectors && scale*angle <= small {
		moveAVX2(s.position, rhs, vm, va, voltages, &terms, scale)
		return scale, length
	}
	for b, k := range s.position {
		if k < 0 {
			continue
		}
		x := (*[2]float64)(rhs[2*k:])
		d, dv := scale*x[0], scale*x[1]
		va[b] += d
		vm[b] += vm[b] * dv
		sin, cos := sincos(d)
		v := &voltages[b]
		e, f := (1+dv)*v[0], (1+dv)*v[1]
		v[0], v[1] = e*cos-f*sin, f*cos+e*sin
	}
	return scale, length
}
