package results

import (
	"context"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
)

// share solves the outages after which units share what is missing, and returns the numbers of the others.
func (y *securityRun) share(ctx context.Context, opt SecurityOptions, base *powerflow.Solution) (others []int, err error) {
	var list []secure.Outage
	var at []int
	bridges := y.n.Bridges()
	for i, o := range y.list {
		if o.Branch >= 0 && bridges[o.Branch] {
			others = append(others, i)
			continue
		}
		list, at = append(list, o), append(at, i)
	}
	if len(list) == 0 {
		return others, nil
	}
	s, err := secure.New(y.n, secure.Options{Outages: list, Emergency: opt.Emergency, Band: opt.Band, Participation: opt.Participation, Threads: opt.Threads, Dispatchable: network.DispatchablePlain})
	if err != nil {
		return nil, err
	}
	checks, err := s.Check(ctx, y.in.Pd, y.in.Qd, base.Pg, base.Vm, base.Va)
	if err != nil {
		return nil, err
	}
	for k, c := range checks {
		y.checked(at[k], c)
	}
	return others, nil
}

// checked writes the result of an outage after which units share.
func (y *securityRun) checked(i int, c *secure.Check) {
	defer y.tell()
	r := &y.out.Outages[i]
	*r = AfterOutage{Outage: NewOutage(y.n, c.Outage), Converged: c.Solved, Reason: c.Reason, Islanded: []int{}, Violations: []Broken{}}
	if !c.Solved {
		return
	}
	severity := 0.0
	for _, v := range c.Violations {
		if v.Excess > max(y.before[y.number(v)], 0)+leastViolation {
			r.Violations = append(r.Violations, broken(y.n, v))
			severity = max(severity, v.Severity)
		}
	}
	r.Severity = &severity
}

// number is that of a limit among securityWatch's.
func (y *securityRun) number(v secure.Violation) int {
	nb, nl := y.n.Buses(), y.n.Branches()
	switch v.Kind {
	case secure.LowVoltage:
		return v.Element
	case secure.HighVoltage:
		return nb + v.Element
	case secure.FromRating:
		return 2*nb + v.Element
	}
	return 2*nb + nl + v.Element
}
