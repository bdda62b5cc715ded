package opf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Security says that a dispatch has to survive outages too: package secure's problem. Set-points are
// chosen before any outage; after one, units share what is missing, buses hold their voltage until a
// reactive limit, ratings are those of an emergency and voltages have a wider band.
type Security struct {
	Outages   []secure.Outage
	Emergency float64 // factor on every rating after an outage
	Band      float64 // what voltages may leave their limits by after an outage, pu
}

// security is that of a System. What it solves by is made on first use.
type security struct {
	Security
	reach   float64                          // see reachOf
	checker func() (*secure.Solver, error)   // of the limits as they are: power flows of every outage, and the exact optimum
	tight   func() (*secure.Solver, error)   // within limits tightened as those of a map's samples are
	flows   func() (*laneflow.Solver, error) // power flows after outages side by side
}

func newSecurity(n *network.Network, s Security) (*security, error) {
	if len(s.Outages) == 0 {
		return nil, errors.New("opf: a secure dispatch needs at least one outage")
	}
	opt := secure.Options{Outages: s.Outages, Emergency: s.Emergency, Band: s.Band, Threads: 1}
	y := &security{
		Security: s, reach: reachOf(n, s.Emergency),
		checker: sync.OnceValues(func() (*secure.Solver, error) { return secure.New(n, opt) }),
		tight:   sync.OnceValues(func() (*secure.Solver, error) { return secure.New(tightenedNetwork(n, DatasetTightening), opt) }),
	}
	y.flows = sync.OnceValues(func() (*laneflow.Solver, error) {
		return laneflow.ForContingencies(n, y.shares(), rated(n), s.Emergency, s.Band)
	})
	return y, opt.Validate()
}

// shares are those in which units take up what is missing. A System is not made where there are none.
func (y *security) shares() []float64 {
	s, err := y.checker()
	if err != nil {
		panic("opf: " + err.Error())
	}
	return s.Shares()
}

// tightenedNetwork is a network whose voltages, reactive powers and ratings keep room to the limits of n. After
// an outage ratings then keep as much more as an emergency allows.
func tightenedNetwork(n *network.Network, tightening acopf.Tightening) *network.Network {
	t := *n
	for _, v := range []*[]float64{&t.VMin, &t.VMax, &t.QMin, &t.QMax, &t.Rate} {
		*v = slices.Clone(*v)
	}
	holds := make([]bool, n.Buses())
	for g, b := range n.GenBus {
		holds[b] = true
		room := tightening.Reactive(n.QMin[g], n.QMax[g])
		t.QMin[g], t.QMax[g] = n.QMin[g]+room, n.QMax[g]-room
	}
	for b := range t.VMin {
		if room := math.Min(tightening.VLoad, (n.VMax[b]-n.VMin[b])/4); !holds[b] {
			t.VMin[b], t.VMax[b] = n.VMin[b]+room, n.VMax[b]-room
		}
	}
	for k := range t.Rate {
		t.Rate[k] -= math.Min(tightening.S, t.Rate[k]/4)
	}
	return &t
}

// solve is the secure optimum of a problem, begun at an earlier one, or once more without it where that
// leads to nothing.
func (y *security) solve(ctx context.Context, p acopf.Problem, start *secure.Result) (*secure.Result, error) {
	r, err := y.attempt(ctx, p, start)
	if err != nil || r.Status == secure.Secure || start == nil {
		return r, err
	}
	return y.attempt(ctx, p, nil)
}

// attempt solves from one start. With tightening the optimum is that within the room of a map's samples.
func (y *security) attempt(ctx context.Context, p acopf.Problem, start *secure.Result) (*secure.Result, error) {
	solver := y.checker
	if p.Tightening != (acopf.Tightening{}) {
		solver = y.tight
	}
	s, err := solver()
	if err != nil {
		return nil, err
	}
	r, err := s.Solve(ctx, secure.Problem{Pd: p.Pd, Qd: p.Qd, Objective: p.Objective, Previous: p.Previous, Ramp: p.Ramp, Start: start})
	if err != nil {
		return nil, fmt.Errorf("opf: %w", err)
	}
	return r, nil
}

// optimum is what a secure result is as one of package acopf.
func optimum(r *secure.Result) acopf.Result {
	out := acopf.Result{Status: acopf.Infeasible, Vm: r.Vm, Va: r.Va, Pg: r.Pg, Qg: r.Qg, J: r.J}
	out.KKT.Gradient = r.KKT.Max()
	switch r.Status {
	case secure.Secure:
		out.Status = acopf.Optimal
	case secure.IterationLimit, secure.Numerical, secure.NotSolved:
		out.Status = acopf.IterationLimit
	}
	return out
}

// ParseOutages reads what may go out: by secure.Named branches, units or all of both, without branches that cut off a part of
// the network, or, by read, a file of lines such as "branch 7" and "unit 2", rows of the case's tables.
func ParseOutages(n *network.Network, selection string, read func(name string) ([]byte, error)) ([]secure.Outage, error) {
	if list, ok := secure.Named(n, selection); ok {
		whole, _ := secure.Survivable(n, list)
		return whole, nil
	}
	text, err := read(selection)
	if err != nil {
		return nil, fmt.Errorf(`outages: %w: want branches, units, all or a file of lines such as "branch 7" and "unit 2"`, err)
	}
	list, err := results.ReadElements(n, selection, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("outages: %w", err)
	}
	for _, o := range list {
		if err := survivable(n, o); err != nil {
			return nil, fmt.Errorf("outages %s: %w", selection, err)
		}
	}
	return list, nil
}

// survivable refuses the outage of a branch that cuts off a part of the network.
func survivable(n *network.Network, o secure.Outage) error {
	if o.Branch >= 0 && n.Bridges()[o.Branch] {
		return fmt.Errorf("the outage of branch %d cuts off a part of the network, which no dispatch survives: leave it out", n.BranchRow[o.Branch]+1)
	}
	return nil
}

// outageLine is what secure.ParseOutage reads.
func outageLine(n *network.Network, o secure.Outage) string {
	if o.Branch >= 0 {
		return fmt.Sprint("branch ", n.BranchRow[o.Branch]+1)
	}
	return fmt.Sprint("unit ", n.GenRow[o.Unit]+1)
}

// securityParams are a Security in the params of a trace.
type securityParams struct {
	Outages   []string `json:"outages"` // branch ROW, unit ROW
	Emergency float64  `json:"emergency"`
	Band      float64  `json:"voltage_band_pu"`
}

func (y *security) params(n *network.Network) *securityParams {
	if y == nil {
		return nil
	}
	p := &securityParams{Emergency: y.Emergency, Band: y.Band}
	for _, o := range y.Outages {
		p.Outages = append(p.Outages, outageLine(n, o))
	}
	return p
}

// security is the Security that params hold.
func (p *securityParams) security(n *network.Network) (*Security, error) {
	if p == nil {
		return nil, nil
	}
	s := &Security{Emergency: p.Emergency, Band: p.Band}
	for i, line := range p.Outages {
		o, err := secure.ParseOutage(n, line)
		if err = cmp.Or(err, survivable(n, o)); err != nil {
			return nil, fmt.Errorf("security: outages[%d]: %w", i, err)
		}
		s.Outages = append(s.Outages, o)
	}
	return s, nil
}

// equal says whether params are of the same security.
func (p *securityParams) equal(o *securityParams) bool {
	if p == nil || o == nil {
		return p == o
	}
	return slices.Equal(p.Outages, o.Outages) && p.Emergency == o.Emergency && p.Band == o.Band
}

// marginsAfter name the margins after outages: the least of all limits after each.
func (y *System) marginsAfter() (all []domain.Variable) {
	if y.security == nil {
		return nil
	}
	n := y.Network
	for _, o := range y.security.Outages {
		name := ""
		if o.Branch >= 0 {
			name = fmt.Sprintf("after%d-%d", n.BusID[n.From[o.Branch]], n.BusID[n.To[o.Branch]])
		} else {
			name = fmt.Sprintf("afterPg%d", n.BusID[n.GenBus[o.Unit]])
		}
		all = append(all, domain.Variable{Name: name, Unit: "pu"})
	}
	return all
}
