package command

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
)

// limit is one limit of a network, where it is and how near a solution is, in the unit
// of the file. Bus, Gen and Branch are 0 where it is of something else.
type limit struct {
	Limit  string  `json:"limit"`  // vmin, vmax, pmin, pmax, qmin, qmax, rating, angmin or angmax; in `why` also p_balance and q_balance: load that is not met, or, with a value below 0, power that nothing takes
	Bus    int     `json:"bus"`    // number in the file, for a unit that of its bus; 0 for a branch
	Gen    int     `json:"gen"`    // row in `mpc.gen`, from 1; 0 for what is no unit
	Branch int     `json:"branch"` // row in `mpc.branch`, from 1; 0 for what is none
	From   int     `json:"from"`   // number of its bus; 0 likewise
	To     int     `json:"to"`     // likewise
	End    string  `json:"end"`    // of a rating: from or to; "" else
	Value  float64 `json:"value"`  // at the solution, in `unit`
	Bound  float64 `json:"bound"`  // the limit, likewise; 0 for a balance
	Unit   string  `json:"unit"`   // pu, MW, MVAr, MVA or °
}

// bindingLimit is one with a part in an optimum: its multiplier is how much the objective
// would fall for one unit more of room, in $/h for the file's own.
type bindingLimit struct {
	limit
	Multiplier float64 `json:"multiplier"` // what the objective would fall by for a unit more of room, per hour
}

// where names what is limited.
func (l limit) where() string {
	at := fmt.Sprintf("bus %d", l.Bus)
	switch {
	case l.Gen > 0:
		at = fmt.Sprintf("unit %d at bus %d", l.Gen, l.Bus)
	case l.Branch > 0:
		at = fmt.Sprintf("branch %d from bus %d to bus %d", l.Branch, l.From, l.To)
	}
	if l.End != "" {
		at += ", " + l.End + " end"
	}
	return at
}

// point is a solution with its limits, in pu and rad.
type point struct {
	n              *network.Network
	vm, va, pg, qg []float64
	flows          *network.Flows
}

func newPoint(n *network.Network, vm, va, pg, qg []float64) point {
	p := point{n, vm, va, pg, qg, network.NewFlows(n.Branches())}
	n.BranchFlows(&n.Admittance, vm, va, p.flows)
	return p
}

func (p point) bus(kind string, bounds []float64) func(int) limit {
	return func(b int) limit {
		return limit{Limit: kind, Bus: p.n.BusID[b], Value: p.vm[b], Bound: bounds[b], Unit: "pu"}
	}
}

func (p point) gen(kind, unit string, values, bounds []float64) func(int) limit {
	return func(g int) limit {
		return limit{Limit: kind, Bus: p.n.BusID[p.n.GenBus[g]], Gen: p.n.GenRow[g] + 1,
			Value: values[g] * p.n.BaseMVA, Bound: bounds[g] * p.n.BaseMVA, Unit: unit}
	}
}

func (p point) branch(kind string, k int) limit {
	return limit{Limit: kind, Branch: p.n.BranchRow[k] + 1, From: p.n.BusID[p.n.From[k]], To: p.n.BusID[p.n.To[k]]}
}

func (p point) flow(end string) func(int) limit {
	return func(k int) limit {
		l := p.branch("rating", k)
		pw, qw := p.flows.Pf[k], p.flows.Qf[k]
		if end == "to" {
			pw, qw = p.flows.Pt[k], p.flows.Qt[k]
		}
		l.End, l.Value, l.Bound, l.Unit = end, math.Hypot(pw, qw)*p.n.BaseMVA, p.n.Rate[k]*p.n.BaseMVA, "MVA"
		return l
	}
}

func (p point) angle(kind string, bounds []float64) func(int) limit {
	return func(k int) limit {
		l := p.branch(kind, k)
		l.Value, l.Bound, l.Unit = degrees(p.va[p.n.From[k]]-p.va[p.n.To[k]]), degrees(bounds[k]), "°"
		return l
	}
}

func degrees(rad float64) float64 { return rad * 180 / math.Pi }

// binding keeps of an optimum's multipliers those of limits that bind, and lists these: an
// interior point leaves some of every limit. A limit binds where its multiplier as a share
// of the largest of all, prices of buses included, is above its slack in pu; the product
// of the two is far below the one and the other.
func (p point) binding(r *acopf.Result, m *acopf.LimitMultipliers) []bindingLimit {
	n := p.n
	largest := 0.0
	for _, v := range [][]float64{r.LambdaP, r.LambdaQ, m.VMin, m.VMax, m.PMin, m.PMax, m.QMin, m.QMax, m.SFrom, m.STo, m.AngMin, m.AngMax} {
		for _, x := range v {
			largest = max(largest, math.Abs(x))
		}
	}
	out := []bindingLimit{}
	keep := func(mu []float64, unit float64, of func(int) limit) {
		for i, x := range mu {
			if x == 0 {
				continue
			}
			l := of(i)
			if math.Abs(l.Value-l.Bound)/unit*largest >= x {
				mu[i] = 0
				continue
			}
			out = append(out, bindingLimit{l, x / unit})
		}
	}
	keep(m.VMin, 1, p.bus("vmin", n.VMin))
	keep(m.VMax, 1, p.bus("vmax", n.VMax))
	keep(m.PMin, n.BaseMVA, p.gen("pmin", "MW", p.pg, n.PMin))
	keep(m.PMax, n.BaseMVA, p.gen("pmax", "MW", p.pg, n.PMax))
	keep(m.QMin, n.BaseMVA, p.gen("qmin", "MVAr", p.qg, n.QMin))
	keep(m.QMax, n.BaseMVA, p.gen("qmax", "MVAr", p.qg, n.QMax))
	keep(m.SFrom, n.BaseMVA, p.flow("from"))
	keep(m.STo, n.BaseMVA, p.flow("to"))
	keep(m.AngMin, degrees(1), p.angle("angmin", n.AngMin))
	keep(m.AngMax, degrees(1), p.angle("angmax", n.AngMax))
	slices.SortStableFunc(out, func(a, b bindingLimit) int { return cmp.Compare(b.Multiplier, a.Multiplier) })
	return out
}

// broken are the limits of voltages, ratings and units that a power flow breaks, the worst of each kind first. A power
// flow keeps none of them by itself.
func (p point) broken() []brokenLimit {
	n, out := p.n, []brokenLimit{}
	keep := func(unit float64, count int, sign float64, of func(int) limit) {
		first := len(out)
		for i := range count {
			l := of(i)
			if by := sign * (l.Value - l.Bound); by > leastViolation*unit {
				out = append(out, brokenLimit{l, by})
			}
		}
		slices.SortStableFunc(out[first:], func(a, b brokenLimit) int { return cmp.Compare(b.By, a.By) })
	}
	keep(1, n.Buses(), -1, p.bus("vmin", n.VMin))
	keep(1, n.Buses(), 1, p.bus("vmax", n.VMax))
	keep(n.BaseMVA, n.Branches(), 1, p.heavierEnd)
	keep(n.BaseMVA, n.Gens(), -1, p.gen("pmin", "MW", p.pg, n.PMin))
	keep(n.BaseMVA, n.Gens(), 1, p.gen("pmax", "MW", p.pg, n.PMax))
	keep(n.BaseMVA, n.Gens(), -1, p.gen("qmin", "MVAr", p.qg, n.QMin))
	keep(n.BaseMVA, n.Gens(), 1, p.gen("qmax", "MVAr", p.qg, n.QMax))
	return out
}

// heavierEnd is a branch's rating at the end with the larger flow.
func (p point) heavierEnd(k int) limit {
	from, to := p.flow("from")(k), p.flow("to")(k)
	if to.Value > from.Value {
		return to
	}
	return from
}

// printedBroken is how many broken limits a table lists.
const printedBroken = 40

// printBroken writes a table of broken limits under a title.
func printBroken(w io.Writer, title string, list []brokenLimit) {
	rows := [][]string{{title, "at", "value", "limit", "by", "unit"}}
	for _, l := range list[:min(len(list), printedBroken)] {
		rows = append(rows, []string{l.limit.Limit, l.where(), fmt.Sprintf("%.4f", l.Value), fmt.Sprintf("%.4f", l.Bound), fmt.Sprintf("%.4f", l.By), l.Unit})
	}
	cli.Table(w, rows)
	if more := len(list) - printedBroken; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}

// count is a number with its noun, whose plural ends in s.
func count(n int, noun string) string { return countOf(n, noun, noun+"s") }

// countOf is a number with the words for one or for several.
func countOf(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + several
}
