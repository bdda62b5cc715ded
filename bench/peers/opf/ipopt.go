//go:build ipopt

package main

import (
	"fmt"
	"time"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/ipoptcheck"
	"github.com/gpc-engine/gpc/grid/network"
)

const rivalName = "IPOPT " + ipoptcheck.Version + " with MUMPS"

func findIPOPT() (peer, error) { return peer{rivalName, timeIPOPT}, nil }

// timeIPOPT solves a case as Debian's IPOPT does by default.
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
	us, err = repeat(5, func() error {
		s := p.Solve()
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

func (y ipopt) solve() (us, objective float64, ended string, err error) {
	us, err = repeat(1, func() error {
		s := y.p.Solve()
		if objective, ended = s.Objective, ""; !s.Optimal {
			ended = fmt.Sprintf("status %d after %d iterations", s.Status, s.Iterations)
		}
		return nil
	})
	return us, objective, ended, err
}

func (y ipopt) factor(at *acopf.Result) (us, flops float64, err error) {
	m, err := ipoptcheck.NewMUMPS(y.p, at)
	if err != nil {
		return 0, 0, err
	}
	defer m.Close()
	us, err = repeat(5, m.Factor)
	return us, m.Flops, err
}

func (y ipopt) close() { y.p.Close() }
