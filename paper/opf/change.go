package opf

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// Best is domain.ProblemAbilities.Best: what mo-opf decides, from a cold start.
func (y *System) Best(s, c []float64, pref domain.Preference, u []float64) bool {
	m, err := newExactController(y, nil, acopf.Tightening{})
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
	var request change
	if err := jsonin.Exact(text, &request); err != nil {
		return domain.Change{}, err
	}
	scene := e.currentScene()
	switch {
	case (request.Load == nil) == (request.Branch == nil):
		return domain.Change{}, errors.New("want either load or branch")
	case request.Load != nil:
		return e.load(&scene, request.Load)
	}
	return e.branch(&scene, request.Branch)
}

// currentScene is the scene of an episode that begins where this one stands: row 0 are the loads of the last dispatch, and
// behind the last row the loads stay as they are.
func (e *episode) currentScene() Scene {
	s := e.scene
	s.Regime, s.Excluded, s.Hidden = givenRegime, nil, e.hidden || e.estimator != nil
	s.Pg0, s.Vg0 = slices.Clone(e.pg), slices.Clone(e.applied[e.system.layout.gens:])
	remaining := func(rows [][]float64) (rest [][]float64) {
		for k := range Steps + 1 {
			rest = append(rest, rows[min(e.t+k, Steps)])
		}
		return rest
	}
	s.Pd, s.Qd = remaining(s.Pd), remaining(s.Qd)
	return s
}

// load changes the load of a bus from row 1 on.
func (e *episode) load(s *Scene, request *loadChange) (domain.Change, error) {
	n := e.system.Network
	if request.Bus < 0 || request.Bus >= n.Buses() {
		return domain.Change{}, fmt.Errorf("load.bus is %d, want the index of a bus, 0 to %d", request.Bus, n.Buses()-1)
	}
	b, name, previous := request.Bus, n.BusID[request.Bus], s.Pd[1][request.Bus]
	if n.Pd[b] == 0 {
		return domain.Change{}, fmt.Errorf("load.bus is %d: bus %d has no load in the network", b, name)
	}
	q, factor := s.Qd[1][b], 0.0
	switch {
	case request.Q != nil:
		q = *request.Q
	case previous != 0:
		q *= request.P / previous
	}
	for _, v := range []struct {
		name        string
		value, file float64
	}{{"load.p_mw", request.P, n.Pd[b]}, {"load.q_mvar", q, n.Qd[b]}} {
		if most := mostLoad * n.BaseMVA * math.Abs(v.file); !(math.Abs(v.value) <= most) || v.value*v.file < 0 {
			const text = "%s is %v, want 0 to %.4g at bus %d: %d times the load in the file"
			return domain.Change{}, fmt.Errorf(text, v.name, v.value, math.Copysign(most, v.file), name, mostLoad)
		}
	}
	rescale := func(rows [][]float64, value float64) {
		if factor = 0; rows[1][b] != 0 {
			factor = value / rows[1][b]
		}
		for t := len(rows) - 1; t > 0; t-- {
			rows[t] = slices.Clone(rows[t])
			if rows[t][b] *= factor; rows[1][b] == 0 {
				rows[t][b] = value
			}
		}
		rows[1][b] = value
	}
	rescale(s.Pd, request.P)
	rescale(s.Qd, q)
	description := fmt.Sprintf("load of bus %d: %.4g to %.4g MW, from here on", name, previous, request.P)
	return domain.Change{Scene: *s, About: description}, nil
}

// branch opens or closes a branch: its plant is one with another case file.
func (e *episode) branch(s *Scene, request *branchChange) (domain.Change, error) {
	y := e.system
	n := y.Network
	if request.At < 0 || request.At >= n.Branches() {
		return domain.Change{}, fmt.Errorf("branch.at is %d, want the index of a branch, 0 to %d", request.At, n.Branches()-1)
	}
	name := fmt.Sprintf("branch %d–%d", n.BusID[n.From[request.At]], n.BusID[n.To[request.At]])
	if open := slices.Contains(y.opened, request.At); open == request.Open {
		return domain.Change{}, fmt.Errorf("branch.open is %v, which %s is already", request.Open, name)
	}
	text, description := e.text, name+" is opened"
	if request.Open {
		if cut := cutOff(n, append(slices.Clone(y.opened), request.At)); cut > 0 {
			const text = "branch.at is %d: %s is the only way to %d of %d buses, and this case needs a connected network"
			return domain.Change{}, fmt.Errorf(text, request.At, name, cut, n.Buses())
		}
		text += opening(n, request.At)
	} else {
		text, description = strings.Replace(text, opening(n, request.At), "", 1), name+" is closed"
	}
	return domain.Change{Scene: *s, Params: map[string]string{"case_m": text}, About: description}, nil
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
func cutOff(n *network.Network, opened []int) (buses int) {
	island := n.Islands(opened...)
	for _, i := range island {
		if i != island[n.Slack] {
			buses++
		}
	}
	return buses
}
