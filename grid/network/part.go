package network

import "slices"

// Part is a network of some buses, with the units at them but one that is out (−1 for none), and the branches between
// them; units and branches are their numbers in n. It has no costs. An island without a reference has the bus with the
// most P_max as one.
func (n *Network) Part(buses []int, out int) (p *Network, units, branches []int) {
	index := slices.Repeat([]int{-1}, n.Buses())
	for k, b := range buses {
		index[b] = k
	}
	part := *n
	p = &part
	p.GenBus, p.From, p.To = nil, nil, nil
	for g, b := range n.GenBus {
		if index[b] >= 0 && g != out {
			units, p.GenBus = append(units, g), append(p.GenBus, index[b])
		}
	}
	for k, from := range n.From {
		if to := n.To[k]; index[from] >= 0 && index[to] >= 0 {
			branches, p.From, p.To = append(branches, k), append(p.From, index[from]), append(p.To, index[to])
		}
	}
	p.BusID, p.BusRow, p.Kind = Pick(n.BusID, buses), Pick(n.BusRow, buses), Pick(n.Kind, buses)
	p.GenRow, p.BranchRow = Pick(n.GenRow, units), Pick(n.BranchRow, branches)
	p.Cost, p.ReactiveCost = nil, nil
	y := &p.Admittance
	for _, v := range []struct {
		rows   []int
		values []*[]float64
	}{
		{buses, []*[]float64{&p.Pd, &p.Qd, &p.Gs, &p.Bs, &p.VMin, &p.VMax, &p.Vm0, &p.Va0}},
		{units, []*[]float64{&p.PMin, &p.PMax, &p.QMin, &p.QMax, &p.Pg0, &p.Qg0, &p.Vg, &p.Ramp}},
		{branches, []*[]float64{&p.Rate, &p.AngMin, &p.AngMax, &y.Gff, &y.Bff, &y.Gft, &y.Bft, &y.Gtf, &y.Btf, &y.Gtt, &y.Btt, &p.gs, &p.bs, &p.charging, &p.tap, &p.cosφ, &p.sinφ}},
	} {
		for _, x := range v.values {
			*x = Pick(*x, v.rows)
		}
	}
	p.References, p.MovedReferences = nil, nil
	island, has := p.Islands(), map[int]bool{}
	for b, k := range p.Kind {
		if k == Slack {
			p.References, has[island[b]] = append(p.References, b), true
		}
	}
	for b, i := range island {
		if !has[i] {
			r := p.strongest(island, i)
			if r < 0 {
				r = b
			}
			p.References, p.Kind[r], has[i] = append(p.References, r), Slack, true
		}
	}
	p.moveReferences()
	p.Slack = p.References[0]
	return p, units, branches
}

// Pick are the values at some rows.
func Pick[T any](values []T, rows []int) []T {
	out := make([]T, len(rows))
	for k, row := range rows {
		out[k] = values[row]
	}
	return out
}
