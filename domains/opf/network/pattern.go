package network

import "slices"

// Pattern is where the bus admittance matrix has entries: by rows, columns
// ascending, the diagonal always there, parallel branches sharing an entry. It
// depends on the topology only.
type Pattern struct {
	RowStart []int // len buses+1; row i is Column[RowStart[i]:RowStart[i+1]]
	Column   []int
	Diagonal []int // position of (i, i) in Column
	FromTo   []int // per branch, position of (from, to)
	ToFrom   []int // per branch, position of (to, from)
}

// Pattern of the network's bus admittance matrix.
func (n *Network) Pattern() *Pattern {
	rows := make([][]int, n.Buses())
	for i := range rows {
		rows[i] = append(rows[i], i)
	}
	for k, f := range n.From {
		t := n.To[k]
		rows[f], rows[t] = append(rows[f], t), append(rows[t], f)
	}
	p := &Pattern{RowStart: make([]int, n.Buses()+1), Diagonal: make([]int, n.Buses()),
		FromTo: make([]int, n.Branches()), ToFrom: make([]int, n.Branches())}
	for i, r := range rows {
		slices.Sort(r)
		p.Column = append(p.Column, slices.Compact(r)...)
		p.RowStart[i+1] = len(p.Column)
		p.Diagonal[i] = p.find(i, i)
	}
	for k, f := range n.From {
		p.FromTo[k], p.ToFrom[k] = p.find(f, n.To[k]), p.find(n.To[k], f)
	}
	return p
}

func (p *Pattern) find(i, j int) int {
	k, _ := slices.BinarySearch(p.Column[p.RowStart[i]:p.RowStart[i+1]], j)
	return p.RowStart[i] + k
}

// BusAdmittance writes the bus admittance matrix G + jB, shunts included, into
// g and b, one entry each of the pattern.
func (n *Network) BusAdmittance(p *Pattern, y *Admittance, g, b []float64) {
	clear(g)
	clear(b)
	for i, d := range p.Diagonal {
		g[d], b[d] = n.Gs[i], n.Bs[i]
	}
	for k, f := range n.From {
		df, dt, ft, tf := p.Diagonal[f], p.Diagonal[n.To[k]], p.FromTo[k], p.ToFrom[k]
		g[df], b[df] = g[df]+y.Gff[k], b[df]+y.Bff[k]
		g[dt], b[dt] = g[dt]+y.Gtt[k], b[dt]+y.Btt[k]
		g[ft], b[ft] = g[ft]+y.Gft[k], b[ft]+y.Bft[k]
		g[tf], b[tf] = g[tf]+y.Gtf[k], b[tf]+y.Btf[k]
	}
}
