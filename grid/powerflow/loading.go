package powerflow

import "github.com/gpc-engine/gpc/grid/network"

// Loading finds branches that carry much. Nothing changes it.
type Loading struct {
	ends  [][2]int32
	terms [][3][lanes]float64 // P, −Q at the from end, P, −Q at the to end: of |V|² there, and of Vi·Vj times cosine and minus sine
	all   []int32
}

// NewLoading is that of a network's branches.
func NewLoading(n *network.Network) *Loading {
	nl, a := n.Branches(), &n.Admittance
	y := &Loading{make([][2]int32, nl), make([][3][lanes]float64, nl), make([]int32, nl)}
	for k, i := range n.From {
		y.all[k], y.ends[k] = int32(k), [2]int32{int32(i), int32(n.To[k])}
		y.terms[k] = [3][lanes]float64{{a.Gff[k], -a.Bff[k], a.Gtt[k], -a.Btt[k]}, {a.Gft[k], -a.Bft[k], a.Gtf[k], -a.Btf[k]}, {-a.Bft[k], -a.Gft[k], a.Btf[k], a.Gtf[k]}}
	}
	return y
}

// Above lists branches of which |S| reaches the rate plus a floor at an end, but for rounding; it may list others. The voltages v
// are in rectangular form. It may write list, which is as long as there are branches.
func (y *Loading) Above(list []int32, v [][2]float64, rate, fromFloor, toFloor []float64) []int32 {
	const rounded = 1 - 1e-12
	if !vectors {
		return y.all
	}
	return list[:loadingAVX2(y.ends, y.terms, v, rate, fromFloor, toFloor, rounded, list)]
}
