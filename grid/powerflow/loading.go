package powerflow

import "github.com/gpc-engine/gpc/grid/network"

// Loading finds branches that carry much.
type Loading struct {
	ends  [][2]int32
	terms [][3][lanes]float64 // P, −Q at the from end, P, −Q at the to end: of |V|² there, and of Vi·Vj times cosine and minus sine
	list  []int32
}

// NewLoading is that of a network's branches.
func NewLoading(n *network.Network) *Loading {
	y, a := &Loading{list: make([]int32, n.Branches())}, &n.Admittance
	for k, i := range n.From {
		y.list[k] = int32(k)
		y.ends = append(y.ends, [2]int32{int32(i), int32(n.To[k])})
		y.terms = append(y.terms, [3][lanes]float64{{a.Gff[k], -a.Bff[k], a.Gtt[k], -a.Btt[k]}, {a.Gft[k], -a.Bft[k], a.Gtf[k], -a.Btf[k]}, {-a.Bft[k], -a.Gft[k], a.Btf[k], a.Gtf[k]}})
	}
	return y
}

// Above lists branches of which |S| reaches the rate plus a floor at an end, but for rounding; it may list others. The voltages v
// are in rectangular form.
func (y *Loading) Above(v [][2]float64, rate, fromFloor, toFloor []float64) []int32 {
	const rounded = 1 - 1e-12
	if !vectors {
		return y.list
	}
	return y.list[:loadingAVX2(y.ends, y.terms, v, rate, fromFloor, toFloor, rounded, y.list)]
}
