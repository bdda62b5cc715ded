package secure

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Candidate is a dispatch to be screened: active power by unit and voltage by bus, pu, of which those of
// buses with units count. Missing power is shared as after an outage.
type Candidate struct{ Pg, Vm []float64 }

// ScreenOptions say which outages of a candidate get a full power flow. The zero value takes the
// default guard and audits nothing.
type ScreenOptions struct {
	// Guard: an outage whose margin, as predicted, is at most so far above the worst that was found gets a
	// full power flow; margins of voltages by a quarter of it. 0 is DefaultGuard, +Inf every outage.
	Guard float64
	// Audit, if positive, gives every so many of the outages that are left out a full power flow as well.
	Audit int
}

const (
	// DefaultGuard is what predictions of flows may be wrong by, as a share of a rating.
	DefaultGuard = 0.2
	// voltageGuard is the share of a guard that predictions of voltages get, which are nearer.
	voltageGuard = 0.25
)

// Margin is what a candidate has left after its worst outage.
type Margin struct {
	Outage // the worst
	// Least is the smallest room to any limit after it, in the unit of Violation.Severity: negative where
	// one is broken, −Inf where there is no power flow.
	Least float64
	// Flows are the outages that were solved for it.
	Flows int
}

// Screening is what Screen found.
type Screening struct {
	Margins []Margin // by candidate
	// Flows are full power flows after outages in all, Skipped the outages that were left to their
	// prediction. Audited of these were solved after all, and Missed of them were worse than the worst
	// found before; the candidate's margin is corrected by what an audit finds.
	Flows, Skipped, Audited, Missed int
}

// Screen finds the smallest margin of each candidate after the solver's outages. Linear sensitivities at
// the first candidate predict the margins after every outage: of flows by distribution factors, of
// voltages by what the outage changed there. Full power flows then go through the outages from the
// worst prediction on, until those left are predicted to be better by the guard. No margin is a
// prediction. The error is for bad input or the context's end.
func (s *Solver) Screen(ctx context.Context, pr Problem, candidates []Candidate, opt ScreenOptions) (*Screening, error) {
	n := s.net
	if !(opt.Guard >= 0) || opt.Audit < 0 {
		return nil, fmt.Errorf("secure: guard %g and audit %d: want 0 or more", opt.Guard, opt.Audit)
	}
	guard := opt.Guard
	if guard == 0 {
		guard = DefaultGuard
	}
	pd, qd := n.Pd, n.Qd
	if pr.Pd != nil {
		pd = pr.Pd
	}
	if pr.Qd != nil {
		qd = pr.Qd
	}
	if len(pd) != n.Buses() || len(qd) != n.Buses() {
		return nil, fmt.Errorf("secure: loads of %d and %d buses, network %s has %d", len(pd), len(qd), n.Name, n.Buses())
	}
	for i, c := range candidates {
		if len(c.Pg) != n.Gens() || len(c.Vm) != n.Buses() {
			return nil, fmt.Errorf("secure: candidate %d has %d powers and %d voltages: want those of %d units and %d buses",
				i, len(c.Pg), len(c.Vm), n.Gens(), n.Buses())
		}
		for _, b := range s.sys.hold {
			if !(c.Vm[b] > 0) || math.IsInf(c.Vm[b], 1) {
				return nil, fmt.Errorf("secure: candidate %d has the voltage %g pu at bus %d: want a positive one", i, c.Vm[b], n.BusID[b])
			}
		}
		for g, p := range c.Pg {
			if p-p != 0 {
				return nil, fmt.Errorf("secure: candidate %d has the power %g pu at unit %d: want a finite number", i, p, n.GenRow[g]+1)
			}
		}
	}
	out := &Screening{Margins: make([]Margin, len(candidates))}
	if len(candidates) == 0 || len(s.outages) == 0 {
		for i := range out.Margins {
			out.Margins[i] = Margin{Outage{-1, -1}, math.Inf(1), 0}
		}
		return out, ctx.Err()
	}
	factors, err := s.distribution(newOutageFlows(s.sys, pd, qd), candidates[0])
	if err != nil {
		return nil, err
	}
	threads := max(1, min(s.sys.opt.Threads, len(candidates)))
	parts, errs := make([]Screening, threads), make([]error, threads)
	parallel.Each(threads, threads, func(_, part int) {
		w := &screener{s: s, f: newOutageFlows(s.sys, pd, qd), factors: factors, guard: guard, audit: opt.Audit, counts: &parts[part]}
		for i := part; i < len(candidates) && errs[part] == nil && ctx.Err() == nil; i += threads {
			out.Margins[i], errs[part] = w.margin(candidates[i], i)
		}
	})
	for k, p := range parts {
		if errs[k] != nil {
			return nil, errs[k]
		}
		out.Flows += p.Flows
		out.Skipped += p.Skipped
		out.Audited += p.Audited
		out.Missed += p.Missed
	}
	return out, ctx.Err()
}

// factors are the sensitivities of a dispatch, by outage.
type factors struct {
	flow    [][]float64 // of each rated branch's active power, per pu that the outage takes away
	voltage [][]float64 // what it changed, by bus; nil where there was no power flow
}

// distribution finds the factors at a dispatch. Where it has no power flow there are none, and every
// outage gets a full one.
func (s *Solver) distribution(f *outageFlows, c Candidate) (*factors, error) {
	n, out := s.net, &factors{}
	base, pg, err := f.base(c)
	if err != nil || !base.Solved {
		return nil, err
	}
	solver, err := powerflow.New(n)
	if err != nil {
		return nil, err
	}
	in := powerflow.Input{Pd: f.pd, Qd: f.qd, Pg: pg, Vg: make([]float64, n.Gens())}
	for g, b := range n.GenBus {
		in.Vg[g] = base.vm[b]
	}
	at := solver.NewSolution()
	copy(at.Vm, base.vm)
	copy(at.Va, base.va)
	if err := solver.Solve(in, powerflow.Options{Start: powerflow.Given, MaxIterations: 60}, at); err != nil {
		return nil, err
	}
	if !at.Converged() || !solver.Linearise() {
		return nil, nil
	}
	// transfer[l][b] is the active power of branch l per pu injected at bus b.
	transfer := make([][]float64, n.Branches())
	magnitude := make([]float64, n.Buses())
	for l := range transfer {
		transfer[l] = make([]float64, n.Buses())
		clear(magnitude)
		solver.AddFlowGradient(l, true, 1, 0, transfer[l], magnitude)
		solver.Sensitivity(transfer[l], magnitude)
	}
	for _, o := range s.outages {
		flow := make([]float64, len(s.sys.rated))
		for r, l := range s.sys.rated {
			t := transfer[l]
			if k := o.Branch; k >= 0 {
				from, to := n.From[k], n.To[k]
				flow[r] = (t[from] - t[to]) / (1 - transfer[k][from] + transfer[k][to])
				continue
			}
			left := 1 - s.sys.share[o.Unit]
			flow[r] = -t[n.GenBus[o.Unit]]
			for g, a := range s.sys.share {
				if g != o.Unit && left > 0 {
					flow[r] += a / left * t[n.GenBus[g]]
				}
			}
		}
		out.flow = append(out.flow, flow)
		check, err := f.after(o, pg, base.vm, base.va, nil)
		if err != nil {
			return nil, err
		}
		var voltage []float64
		if check.Solved {
			voltage = make([]float64, n.Buses())
			for b := range voltage {
				voltage[b] = check.vm[b] - base.vm[b]
			}
		}
		out.voltage = append(out.voltage, voltage)
	}
	return out, nil
}

// base is the power flow of a candidate, and what its units give in it.
func (f *outageFlows) base(c Candidate) (*Check, []float64, error) {
	n := f.sys.net
	check, err := f.after(Outage{-1, -1}, c.Pg, c.Vm, make([]float64, n.Buses()), nil)
	if err != nil || !check.Solved {
		return check, nil, err
	}
	pg := slices.Clone(c.Pg)
	for g, a := range f.sys.share {
		if a > 0 {
			pg[g], _, _ = clip(c.Pg[g]+a*check.Delta, n.PMin[g], n.PMax[g], 0)
		}
	}
	return check, pg, nil
}

// screener screens candidates one after another.
type screener struct {
	s       *Solver
	f       *outageFlows
	factors *factors
	guard   float64
	audit   int
	counts  *Screening
}

func (w *screener) margin(c Candidate, number int) (Margin, error) {
	m := Margin{Outage{-1, -1}, math.Inf(1), 0}
	base, pg, err := w.f.base(c)
	if err != nil {
		return m, err
	}
	if !base.Solved {
		return Margin{Outage{-1, -1}, math.Inf(-1), 0}, nil
	}
	predicted := w.predict(base, pg)
	order := make([]int, len(predicted))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case predicted[a] < predicted[b]:
			return -1
		case predicted[a] > predicted[b]:
			return 1
		}
		return 0
	})
	take := func(i int) (worse bool, err error) {
		// The voltages of a base that holds another bus's set-point are where the flow begins; what is held is
		// the candidate's.
		check, err := w.f.after(w.s.outages[i], pg, c.Vm, base.va, nil)
		if err != nil {
			return false, err
		}
		m.Flows++
		w.counts.Flows++
		if room := w.f.room(check); room < m.Least {
			m.Least, m.Outage, worse = room, check.Outage, true
		}
		return worse, nil
	}
	at := 0
	for ; at < len(order) && !(predicted[order[at]] > m.Least); at++ {
		if _, err := take(order[at]); err != nil {
			return m, err
		}
	}
	w.counts.Skipped += len(order) - at
	for ; w.audit > 0 && at < len(order); at++ {
		if (order[at]+number)%w.audit > 0 {
			continue
		}
		w.counts.Audited++
		worse, err := take(order[at])
		if err != nil {
			return m, err
		}
		if worse {
			w.counts.Missed++
		}
	}
	return m, nil
}

// predict is the margin after each outage by the factors, less the guard; −Inf where they say nothing.
func (w *screener) predict(base *Check, pg []float64) []float64 {
	s, n := w.s.sys, w.s.net
	out := make([]float64, len(w.s.outages))
	if w.factors == nil {
		for i := range out {
			out[i] = math.Inf(-1)
		}
		return out
	}
	active, reactive := make([]float64, n.Branches()), make([]float64, n.Branches())
	for k := range n.From {
		f, t := n.From[k], n.To[k]
		x := flows(&n.Admittance, k, base.va[f]-base.va[t], base.vm[f], base.vm[t])
		active[k], reactive[k] = x.p[0], max(math.Abs(x.q[0]), math.Abs(x.q[1]))
	}
	for i, o := range w.s.outages {
		change := w.factors.voltage[i]
		if change == nil {
			out[i] = math.Inf(-1)
			continue
		}
		lost := 0.0
		if o.Branch >= 0 {
			lost = active[o.Branch]
		} else {
			lost = pg[o.Unit]
		}
		least := math.Inf(1)
		for r, k := range s.rated {
			if k != o.Branch {
				rate := s.opt.Emergency * n.Rate[k]
				least = min(least, 1-math.Hypot(active[k]+w.factors.flow[i][r]*lost, reactive[k])/rate-w.guard)
			}
		}
		for b, v := range base.vm {
			v += change[b]
			room := min(v-n.VMin[b], n.VMax[b]-v) + s.opt.Band
			least = min(least, voltageSeverity*room-voltageGuard*w.guard)
		}
		if least != least {
			least = math.Inf(-1)
		}
		out[i] = least
	}
	return out
}

// room is the smallest room to any limit in a power flow after an outage; −Inf where there is none.
func (f *outageFlows) room(c *Check) float64 {
	if !c.Solved {
		return math.Inf(-1)
	}
	s, n, least := f.sys, f.sys.net, math.Inf(1)
	for b, v := range c.vm {
		least = min(least, voltageSeverity*(v-n.VMin[b]+s.opt.Band), voltageSeverity*(n.VMax[b]+s.opt.Band-v))
	}
	for _, k := range s.rated {
		if k != c.Branch {
			x := flows(&n.Admittance, k, c.va[n.From[k]]-c.va[n.To[k]], c.vm[n.From[k]], c.vm[n.To[k]])
			least = min(least, 1-max(math.Hypot(x.p[0], x.q[0]), math.Hypot(x.p[1], x.q[1]))/(s.opt.Emergency*n.Rate[k]))
		}
	}
	return least
}
