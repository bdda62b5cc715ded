//go:build ipopt

package ipoptcheck

import (
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// NewSecure formulates the security-constrained problem with some outages and these participation
// factors, which sum to one. It begins at a dispatch, if there is one: the voltages and powers before
// any outage.
func NewSecure(n *network.Network, pd, qd []float64, outages []secure.Outage, emergency, band float64, share []float64, start *secure.Result) (*Program, error) {
	s, err := formulateSecure(n, pd, qd, outages, emergency, band, share)
	if err != nil {
		return nil, err
	}
	if start != nil {
		s.begin(start)
	}
	return newProgram(s.base, s, Exact)
}
