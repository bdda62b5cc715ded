//go:build ipopt

package main

import (
	"fmt"
	"time"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/lab/ipoptcheck"
)

func rivalName() string { return ipoptcheck.Version() }

func findIPOPT() (peer, error) { return peer{rivalName(), timeIPOPT}, nil }

// timeIPOPT solves a case with IPOPT's default settings, its analysis kept.
func timeIPOPT(name string) (us, objective float64, err error) {
	n, err := load(name)
	if err != nil {
		return 0, 0, err
	}
	p, err := ipoptcheck.New(n, &acopf.Problem{}, ipoptcheck.Default)
	if err != nil {
		return 0, 0, err
	}
	defer p.Close()
	p.Solve()
	us, err = repeat(5, func() error {
		s := p.Again()
		if !s.Optimal {
			return fmt.Errorf("%s: IPOPT ends with status %d", name, s.Status)
		}
		objective = s.Objective
		return nil
	})
	return us, objective, err
}

// ipopt is IPOPT on one network, as it comes.
type ipopt struct{ p *ipoptcheck.Program }

func newRival(n *network.Network, limit time.Duration) (rival, error) {
	p, err := ipoptcheck.New(n, &acopf.Problem{}, ipoptcheck.Default)
	if err != nil {
		return nil, err
	}
	return ipopt{p}, p.Limit(limit)
}

func (y ipopt) solve(again bool) (end ending, err error) {
	var derivatives time.Duration
	count := 0
	end.us, err = repeat(1, func() error {
		solve := y.p.Solve
		if again {
			solve = y.p.Again
		}
		r := solve()
		end.objective, end.acceptable, end.failed = r.Objective, r.Acceptable, !r.Optimal && !r.Acceptable
		derivatives += r.Derivatives
		count++
		return nil
	})
	end.derivatives = float64(derivatives.Microseconds()) / float64(count) / end.us
	return end, err
}

func (y ipopt) factor(at *acopf.Result) (f factorisation, err error) {
	m, err := ipoptcheck.NewMUMPS(y.p, at)
	if err != nil {
		return f, err
	}
	defer m.Close()
	f.us, err = repeat(5, m.Factor)
	f.flops, f.analysis = m.Flops, float64(m.Analysis.Microseconds())
	return f, err
}

func (y ipopt) close() { y.p.Close() }
