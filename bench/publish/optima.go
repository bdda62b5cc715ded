package publish

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

// optima is what other solvers of optimal power flows take beside ours, by bench/peers/opf: the
// last run on the first device that has one.
func (d devices) optima() string {
	for _, r := range d {
		for _, p := range slices.Backward(r.Peers) {
			if len(p.Ratios) > 0 && p.Ratios[0].Op == "opf" {
				return report.Tables(optimaSection(&p))
			}
		}
	}
	return noRecord
}

// optimaSection has a row for each network: our times alone and in a batch, and by how much those
// of every peer are longer.
func optimaSection(p *peerrecord.Record) report.Section {
	type of struct {
		network, peer string
		alone         bool
	}
	found := map[of]peerrecord.Ratio{}
	var networks, peers []string
	batch := 1
	for _, v := range p.Ratios {
		found[of{v.Case, v.Peer, v.Batch == 1}] = v
		batch = max(batch, v.Batch)
		if !slices.Contains(networks, v.Case) {
			networks = append(networks, v.Case)
		}
		if !slices.Contains(peers, v.Peer) {
			peers = append(peers, v.Peer)
		}
	}
	s := report.Section{
		Note: cmp.Or(p.Note, report.PeersNote), Provenance: report.Origin("", p.Commit, p.Device, p.Load),
		Rows: [][]string{{"case", "alone, µs", fmt.Sprintf("%d side by side, each", batch)}},
	}
	for _, m := range p.Missing {
		s.Note += " Not in this run: " + m + "."
	}
	for _, peer := range peers {
		s.Rows[0] = append(s.Rows[0], peer+": time / ours alone", "side by side")
	}
	for _, network := range networks {
		row := []string{network, "–", "–"}
		for _, peer := range peers {
			for i, alone := range []bool{true, false} {
				v, ok := found[of{network, peer, alone}]
				if !ok {
					row = append(row, "–")
					continue
				}
				row[1+i] = fmt.Sprintf("%.0f", v.OursUS)
				row = append(row, report.Ratio(v.Ratio))
			}
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}
