//go:build ipopt

package main

import (
	"fmt"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/ipoptcheck"
)

func findIPOPT() (peer, error) {
	return peer{"IPOPT " + ipoptcheck.Version + " with MUMPS", timeIPOPT}, nil
}

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
	us, err = repeat(func() error {
		s := p.Solve()
		if !s.Optimal {
			return fmt.Errorf("%s: IPOPT ends with status %d", name, s.Status)
		}
		objective = s.Objective
		return nil
	})
	return us, objective, err
}
