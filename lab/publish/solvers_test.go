package publish

import (
	"testing"

	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// peersOfTwo is a record of three peers on a cart, whose map was timed, and on a crane.
func peersOfTwo() peerrecord.Record {
	ratio := func(of, op, peer string, ours, theirs float64, unsolved int) peerrecord.Ratio {
		return peerrecord.Ratio{Op: op, Case: of + ", 40 steps", Peer: peer, Ratio: theirs / ours, OursUS: ours, PeerUS: theirs, Decisions: 10, Unsolved: unsolved}
	}
	p := peerrecord.Record{Commit: "abc", Device: "cpu", Note: "CPU times."}
	for _, of := range []string{"cart", "crane"} {
		p.Checks = append(p.Checks, peerrecord.Check{Case: of, Decisions: 10, Worst: 2e-9, Above: 3e-6})
		for _, peer := range []struct {
			name     string
			us       float64
			unsolved int
		}{{"CasADi + slow", 4000, 0}, {"CasADi + quick", 2000, 0}, {"CasADi + fails", 500, 3}} {
			p.Ratios = append(p.Ratios, ratio(of, "warm p50", peer.name, 1000, peer.us, peer.unsolved), ratio(of, "warm p99", peer.name, 1500, 2*peer.us, peer.unsolved), ratio(of, "cold p50", peer.name, 8000, peer.us, peer.unsolved))
			if of == "cart" {
				p.Ratios = append(p.Ratios, ratio(of, "direct p50", peer.name, 5, peer.us, peer.unsolved), ratio(of, "direct p99", peer.name, 10, 2*peer.us, peer.unsolved))
			}
		}
	}
	p.Ratios = append(p.Ratios, ratio("cart", "direct p50", ownSolver, 5, 1000, 0), ratio("cart", "direct p99", ownSolver, 10, 1500, 0))
	return p
}

// TestSolversBesideOurs: a cell has the three ratios of a peer, theirs are in the order of the columns.
func TestSolversBesideOurs(t *testing.T) {
	r := report.New("device", nil)
	report.Set(r, []peerrecord.Record{{}, peersOfTwo()})
	wants(t, (devices{r}).solvers(), "| `cart` | 10 | 1 / 1.5 / 8 | 4 / 5.33 / 0.5 | 2 / 2.67 / 0.25 | 0.5 / 0.667 / 0.0625 | 0 | 0 / 0 / 3 | 2e-09 | 3e-06 |")

	// A peer of one system alone has dashes elsewhere, and its check no row of its own.
	own := &report.Of[peerrecord.Record](r)[1]
	own.Checks = append(own.Checks, peerrecord.Check{Case: "crane", Peer: "own-mpc", Decisions: 10, Worst: 4e-8})
	for _, op := range []string{"warm p50", "warm p99", "cold p50"} {
		own.Ratios = append(own.Ratios, peerrecord.Ratio{Op: op, Case: "crane, 40 steps", Peer: "own-mpc", Ratio: 16, OursUS: 1000, PeerUS: 16000, Decisions: 10, Unsolved: 1})
	}
	wants(t, (devices{r}).solvers(), "| 0.5 / 0.667 / 0.0625 | – | 0 | 0 / 0 / 3 / – | 2e-09 | 3e-06 |", "| 16 / 16 / 16 | 0 | 0 / 0 / 3 / 1 | 2e-09, own-mpc 4e-08 | 3e-06 |", "| `crane` |")
	wants(t, (devices{r}).mapsBeside(), "| `crane` |")
}

// TestMapsBesideSolvers: the fastest peer that solves everything is what a map is compared with,
// though one that does not is faster; a system without a map's times is there too, and says so.
func TestMapsBesideSolvers(t *testing.T) {
	r := report.New("device", nil)
	report.Set(r, []peerrecord.Record{{}, peersOfTwo()})
	wants(t, (devices{r}).mapsBeside(),
		"| system | method | its p50 / p99, µs | slow's, µs | quick's, µs | fails's, µs | fastest that solves all | over the method's p50 / p99 | warm `nmpc`'s over its p50 |",
		"| `cart` | `direct` | 5 / 10 | 4000 / 8000 | 2000 / 4000 | 500 / 1000, 3 of 10 unsolved | quick | 400 / 400 | 200 |",
		"| `crane` | – | – | 4000 / 8000 | 2000 / 4000 | 500 / 1000, 3 of 10 unsolved | quick | – | – |")
}
