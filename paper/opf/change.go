package opf

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// Best is domain.ProblemAbilities.Best: what mo-opf decides, from a cold start.
func (y *System) Best(s, c []float64, pref domain.Preference, u []float64) bool {
	m, err := newExactController(y, nil)
	if err != nil {
		return false
	}
	d, err := m.Decide(s, c, pref, u)
	return err == nil && d.Solved()
}

// change is what a person may change of a dispatch that runs.
type change struct {
	Load   *loadChange   `json:"load,omitempty"`
	Branch *branchChange `json:"branch,omitempty"`
}

// loadChange is the load of a bus, by its place in the chart, in the next dispatch. The later ones change by the same
// factor.
type loadChange struct {
	Bus int     `json:"bus"`
	P   float64 `json:"p_mw"`
	// Q, Mvar; nil: it changes by the factor of P.
	Q *float64 `json:"q_mvar,omitempty"`
}

// branchChange opens or closes a branch, by its place in the chart.
type branchChange struct {
	At   int  `json:"at"`
	Open bool `json:"open"`
}

// mostLoad of a bus that a person sets, as a multiple of the file's.
const mostLoad = 5

// Change is domain.EpisodeAbilities.Change.
func (e *episode) Change(text json.RawMessage) (domain.Change, error) {
	var to change
	if err := jsonin.Exact(text, &to); err != nil {
		return domain.Change{}, err
	}
	scene := e.from()
	switch {
	case (to.Load == nil) == (to.Branch == nil):
		return domain.Change{}, errors.New("want either load or branch")
	case to.Load != nil:
		return e.load(&scene, to.Load)
	}
	return e.branch(&scene, to.Branch)
}

// from is the scene of an episode that begins where this one stands: row 0 are the loads of the last dispatch, and
// behind the last row the loads stay as they are.
func (e *episode) from() Scene {
	s := e.scene
	s.Regime, s.Excluded, s.Hidden = givenRegime, nil, e.hidden || e.estimator != nil
	s.Pg0, s.Vg0 = slices.Clone(e.pg), slices.Clone(e.applied[e.system.layout.gens:])
	at := func(rows [][]float64) (from [][]float64) {
		for k := range Steps + 1 {
			from = append(from, rows[min(e.t+k, Steps)])
		}
		return from
	}
	s.Pd, s.Qd = at(s.Pd), at(s.Qd)
	return s
}

// load changes the load of a bus from row 1 on.
func (e *episode) load(s *Scene, to *loadChange) (domain.Change, error) {
	n := e.system.Network
	if to.Bus < 0 || to.Bus >= n.Buses() {
		return domain.Change{}, fmt.Errorf("load.bus is %d, want the index of a bus, 0 to %d", to.Bus, n.Buses()-1)
	}
	b, name, was := to.Bus, n.BusID[to.Bus], s.Pd[1][to.Bus]
	if n.Pd[b] == 0 {
		return domain.Change{}, fmt.Errorf("load.bus is %d: bus %d has no load in the network", b, name)
	}
	q, factor := s.Qd[1][b], 0.0
	switch {
	case to.Q != nil:
		q = *to.Q
	case was != 0:
		q *= to.P / was
	}
	for _, v := range []struct {
		name     string
		to, file float64
	}{{"load.p_mw", to.P, n.Pd[b]}, {"load.q_mvar", q, n.Qd[b]}} {
		if most := mostLoad * n.BaseMVA * math.Abs(v.file); !(math.Abs(v.to) <= most) || v.to*v.file < 0 {
			const over = "%s is %v, want 0 to %.4g at bus %d: %d times the load in the file"
			return domain.Change{}, fmt.Errorf(over, v.name, v.to, math.Copysign(most, v.file), name, mostLoad)
		}
	}
	rescale := func(rows [][]float64, to float64) {
		if factor = 0; rows[1][b] != 0 {
			factor = to / rows[1][b]
		}
		for t := len(rows) - 1; t > 0; t-- {
			rows[t] = slices.Clone(rows[t])
			if rows[t][b] *= factor; rows[1][b] == 0 {
				rows[t][b] = to
			}
		}
		rows[1][b] = to
	}
	rescale(s.Pd, to.P)
	rescale(s.Qd, q)
	about := fmt.Sprintf("load of bus %d: %.4g to %.4g MW, from here on", name, was, to.P)
	return domain.Change{Scene: *s, About: about}, nil
}

// branch opens or closes a branch: its plant is one with another case file.
func (e *episode) branch(s *Scene, to *branchChange) (domain.Change, error) {
	y := e.system
	n := y.Network
	if to.At < 0 || to.At >= n.Branches() {
		return domain.Change{}, fmt.Errorf("branch.at is %d, want the index of a branch, 0 to %d", to.At, n.Branches()-1)
	}
	name := fmt.Sprintf("branch %d–%d", n.BusID[n.From[to.At]], n.BusID[n.To[to.At]])
	if is := slices.Contains(y.opened, to.At); is == to.Open {
		return domain.Change{}, fmt.Errorf("branch.open is %v, which %s is already", to.Open, name)
	}
	text, about := e.text, name+" is opened"
	if to.Open {
		if cut := cutOff(n, append(slices.Clone(y.opened), to.At)); cut > 0 {
			const only = "branch.at is %d: %s is the only way to %d of %d buses, and this case needs a connected network"
			return domain.Change{}, fmt.Errorf(only, to.At, name, cut, n.Buses())
		}
		text += opening(n, to.At)
	} else {
		text, about = strings.Replace(text, opening(n, to.At), "", 1), name+" is closed"
	}
	return domain.Change{Scene: *s, Params: map[string]string{"case_m": text}, About: about}, nil
}

// openFactor multiplies the impedance of a branch that is opened. The branch stays in the network, so that states,
// limits and maps keep their sizes; it carries some millionths of what it did.
const openFactor = 1e6

// opening are the assignments behind a case file that open a branch.
func opening(n *network.Network, k int) string {
	row := n.BranchRow[k] + 1
	const text = "\nmpc.branch(%[1]d, [3, 4]) = mpc.branch(%[1]d, [3, 4]) * %[2]v;\nmpc.branch(%[1]d, 5) = 0;\n"
	return fmt.Sprintf(text, row, openFactor)
}

// openedIn are the branches that a case file opens in this way.
func openedIn(n *network.Network, text string) (opened []int) {
	for k := range n.Branches() {
		if strings.Contains(text, opening(n, k)) {
			opened = append(opened, k)
		}
	}
	return opened
}

// cutOff is how many buses have no way to the reference where these branches are open.
func cutOff(n *network.Network, opened []int) int {
	reached, grown := make([]bool, n.Buses()), true
	reached[n.Slack] = true
	left := n.Buses() - 1
	for grown {
		grown = false
		for k, f := range n.From {
			if t := n.To[k]; reached[f] != reached[t] && !slices.Contains(opened, k) {
				reached[f], reached[t], grown = true, true, true
				left--
			}
		}
	}
	return left
}
