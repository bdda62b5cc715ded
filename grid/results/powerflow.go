package results

import (
	"time"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// PowerFlow is an AC power flow: voltages in pu and degrees, powers in MW,
// MVAr and MVA. The lists are empty where it did not converge.
type PowerFlow struct {
	Case       string    `json:"case"`            // of the network
	Converged  bool      `json:"converged"`       // whether it did
	Status     string    `json:"status"`          // in a word
	Reason     string    `json:"reason"`          // in a sentence
	Remark     string    `json:"remark"`          // that a network does not run at this solution, of low voltage or wide angles; ""
	Iterations int       `json:"iterations"`      // Newton steps
	Mismatch   float64   `json:"max_mismatch_pu"` // largest power mismatch
	WallMS     float64   `json:"wall_ms"`         // of the solve
	LoadMW     float64   `json:"load_mw"`         // of all buses
	LossMW     *float64  `json:"loss_mw"`         // of all branches
	Switches   int       `json:"switches"`        // of units to a reactive limit
	Bus        []FlowBus `json:"bus"`
	Dispatch
	Controls   []Control `json:"controls,omitempty"` // with their settings, of a power flow with controls
	Violations []Broken  `json:"violations"`         // limits of voltages, ratings and units that the solution breaks, the worst of each kind first
}

// FlowBus is a bus of a power flow.
type FlowBus struct {
	ID    int     `json:"id"`             // number in the file
	Type  string  `json:"type"`           // slack, PV or PQ
	Vm    float64 `json:"vm"`             // voltage, pu
	Va    float64 `json:"va"`             // angle, °
	Pd    float64 `json:"pd"`             // active load, MW
	Qd    float64 `json:"qd"`             // reactive load, MVAr
	Name  string  `json:"name,omitempty"` // of the file; absent where it has none
	Limit string  `json:"q_limit"`        // min or max where a unit is held there; ""
}

// FlowProblem specifies a power flow. With Vm and Va, by bus, pu and rad, it starts there whatever Options.Start
// says.
type FlowProblem struct {
	powerflow.Input
	powerflow.Options
	Vm, Va []float64
}

// solve solves the power flow of the solver's network. It also returns the input, with the network's loads by
// default.
func (pr FlowProblem) solve(s *powerflow.Solver, n *network.Network) (*powerflow.Solution, powerflow.Input, error) {
	if pr.Pd == nil {
		pr.Pd = n.Pd
	}
	if pr.Qd == nil {
		pr.Qd = n.Qd
	}
	sol := s.NewSolution()
	if pr.Vm != nil {
		pr.Start = powerflow.FromSolution
		copy(sol.Vm, pr.Vm)
		copy(sol.Va, pr.Va)
	}
	return sol, pr.Input, s.Solve(pr.Input, pr.Options, sol)
}

// network is that of the power flow. Where units share the balance, an island has one reference.
func (pr FlowProblem) network(n *network.Network) *network.Network {
	if pr.Slack != nil {
		return n.OneReference()
	}
	return n
}

// Flow solves a power flow and converts it to the file's units. If it did not converge the lists are empty. The
// solution is the solver's.
func Flow(n *network.Network, pr FlowProblem) (*PowerFlow, *powerflow.Solution, error) {
	n = pr.network(n)
	s, err := powerflow.New(n)
	if err != nil {
		return nil, nil, err
	}
	start := time.Now()
	sol, input, err := pr.solve(s, n)
	if err != nil {
		return nil, nil, err
	}
	r := &PowerFlow{
		Case: n.Name, Converged: sol.Converged(), Status: sol.Status.String(), Reason: s.Reason(sol), Iterations: sol.Iterations,
		Mismatch: sol.Mismatch, LoadMW: n.MW(input.Pd), WallMS: float64(time.Since(start)) / 1e6, Switches: sol.Switches,
		Bus: []FlowBus{}, Dispatch: NoDispatch, Violations: []Broken{},
	}
	if !r.Converged {
		return r, sol, nil
	}
	r.Remark = s.Remark(sol)
	r.fill(n, NewPoint(n, sol.Vm, sol.Va, sol.Pg, sol.Qg), input.Pd, input.Qd, sol.AtLimit)
	return r, sol, nil
}

// fill writes a solution at loads; atLimit, by bus, says which units are at a reactive limit.
func (y *PowerFlow) fill(n *network.Network, p Point, pd, qd []float64, atLimit []int8) {
	for b, id := range n.BusID {
		limit := map[int8]string{-1: "min", 0: "", 1: "max"}[atLimit[b]]
		y.Bus = append(y.Bus, FlowBus{ID: id, Name: n.BusName[b], Type: n.Kind[b].String(), Vm: p.Vm[b], Va: Degrees(p.Va[b]), Pd: pd[b] * n.BaseMVA, Qd: qd[b] * n.BaseMVA, Limit: limit})
	}
	y.Dispatch = p.Dispatch()
	y.LossMW, y.Violations = new(y.Dispatch.Loss()), p.Broken()
}
