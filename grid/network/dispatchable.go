package network

import (
	"fmt"
	"math"
	"strings"
)

// Dispatchable says how to treat units with PMin < 0 = PMax and reactive limits.
type Dispatchable int

// MATPOWER takes such a unit for a load that keeps the power factor of its limits
// (User's Manual §6.4.2), PGLib and PowerModels for a unit whose P and Q are free within them.
const (
	// DispatchableByFile keeps a power factor where MATPOWER defines one, except in files whose name begins with
	// pglib_opf_. It is defined where a reactive limit is 0 and the file's Pg and Qg agree with it. All other units
	// are plain.
	DispatchableByFile Dispatchable = iota
	// DispatchablePowerFactor keeps it everywhere; a unit without one is an error.
	DispatchablePowerFactor
	// DispatchablePlain treats all of them as plain units.
	DispatchablePlain
)

var dispatchableNames = [...]string{"file", "power-factor", "plain"}

func (d Dispatchable) String() string { return dispatchableNames[d] }

// ParseDispatchable is the inverse of String.
func ParseDispatchable(name string) (Dispatchable, error) {
	for d, n := range dispatchableNames {
		if n == name {
			return Dispatchable(d), nil
		}
	}
	return DispatchableByFile, fmt.Errorf("%q: want one of %s", name, strings.Join(dispatchableNames[:], ", "))
}

// PowerFactor is a unit whose Q is Ratio times its P.
type PowerFactor struct {
	Gen   int
	Ratio float64
}

// sameFactor is the difference (pu) of a file's Qg from that of the power factor that MATPOWER accepts.
const sameFactor = 1e-6

// PowerFactors lists the units with a constant power factor, and the plain units that could be loads with one, both
// ascending.
func (n *Network) PowerFactors(d Dispatchable) (fixed []PowerFactor, plain []int, err error) {
	pglib, terminals := n.PGLib(), n.Terminals()
	for g := range n.Gens() {
		if terminals[g] || !(n.PMin[g] < 0 && n.PMax[g] == 0) || n.QMin[g] == 0 && n.QMax[g] == 0 {
			continue
		}
		ratio, reason := n.powerFactor(g)
		switch {
		case d == DispatchablePlain || d == DispatchableByFile && (pglib || reason != ""):
			plain = append(plain, g)
		case reason != "":
			return nil, nil, fmt.Errorf("network %s, generator %d at bus %d counts as a load of constant power factor (PMIN < 0, PMAX = 0): %s",
				n.Name, n.GenRow[g]+1, n.BusID[n.GenBus[g]], reason)
		default:
			fixed = append(fixed, PowerFactor{g, ratio})
		}
	}
	return fixed, plain, nil
}

// powerFactor is Q/P of a dispatchable load by its limits, or the reason why there is none.
func (n *Network) powerFactor(g int) (ratio float64, reason string) {
	limit := n.QMin[g] + n.QMax[g]
	ratio = limit / n.PMin[g]
	switch {
	case n.QMin[g] != 0 && n.QMax[g] != 0:
		reason = fmt.Sprintf("one of QMIN %g and QMAX %g has to be 0", n.QMin[g]*n.BaseMVA, n.QMax[g]*n.BaseMVA)
	case math.IsInf(limit, 0) || math.IsInf(n.PMin[g], 0):
		reason = "PMIN and the reactive limit have to be finite"
	case math.Abs(n.Qg0[g]-ratio*n.Pg0[g]) > sameFactor:
		reason = fmt.Sprintf("PG %g and QG %g do not have the power factor of PMIN and the reactive limit", n.Pg0[g]*n.BaseMVA, n.Qg0[g]*n.BaseMVA)
	}
	return ratio, reason
}

// PGLib says by the case's name whether it is one of PGLib-OPF. Those files have no dispatch: powers are the middle
// of each unit's limits.
func (n *Network) PGLib() bool { return strings.HasPrefix(n.Name, "pglib_opf_") }

// DispatchableNote says in a sentence how units that could be loads of constant power factor are treated; "" where
// there is none.
func (n *Network) DispatchableNote(d Dispatchable) (string, error) {
	fixed, plain, err := n.PowerFactors(d)
	if err != nil || len(fixed)+len(plain) == 0 {
		return "", err
	}
	var parts []string
	if len(fixed) > 0 {
		parts = append(parts, fmt.Sprintf("%d taken as loads of constant power factor", len(fixed)))
	}
	if len(plain) > 0 {
		parts = append(parts, fmt.Sprintf("%d taken as plain units, whose P and Q are free", len(plain)))
	}
	return "units that are loads (PMIN < 0 = PMAX, with reactive limits): " + strings.Join(parts, ", "), nil
}
