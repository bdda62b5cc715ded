package laneflow

import "github.com/gpc-engine/gpc/internal/simd/lanes"

// removedBranch records the cells that a branch's outage changed in a lane.
type removedBranch struct {
	cell  [8]lanes.Ref
	value [8]float64
	n     int
}

// restore puts the branch back.
func (l *removedBranch) restore(w *Worker, lane int) {
	for i := range l.n {
		w.m.Set(l.cell[i], lane, l.value[i])
	}
	l.n = 0
}

// remove removes a branch from a lane.
func (l *removedBranch) remove(w *Worker, lane, branch int) {
	m, n, p := w.m, w.solver.net, &w.solver.plan
	y := &n.Admittance
	subtract := func(c lanes.Ref, v float64, clear bool) {
		value := m.Get(c, lane)
		l.cell[l.n], l.value[l.n] = c, value
		l.n++
		if reduced := value - v; clear {
			m.Set(c, lane, 0)
		} else {
			m.Set(c, lane, reduced)
		}
	}
	from, to, pair := n.From[branch], n.To[branch], p.pairOf[branch]
	subtract(p.gd[from], y.Gff[branch], false)
	subtract(p.bd[from], y.Bff[branch], false)
	subtract(p.gd[to], y.Gtt[branch], false)
	subtract(p.bd[to], y.Btt[branch], false)
	gij, bij := y.Gft[branch], y.Bft[branch]
	gji, bji := y.Gtf[branch], y.Btf[branch]
	if p.flipped[branch] {
		gij, gji = gji, gij
		bij, bji = bji, bij
	}
	// The only branch between two buses leaves exact zeros.
	exclusive := p.single[pair]
	subtract(p.gij[pair], gij, exclusive)
	subtract(p.bij[pair], bij, exclusive)
	subtract(p.gji[pair], gji, exclusive)
	subtract(p.bji[pair], bji, exclusive)
}

// singles says of each pair whether exactly one branch joins it.
func singles(pairOf []int, pairs int) []bool {
	count := make([]int, pairs)
	for _, pair := range pairOf {
		count[pair]++
	}
	single := make([]bool, pairs)
	for pair, c := range count {
		single[pair] = c == 1
	}
	return single
}
