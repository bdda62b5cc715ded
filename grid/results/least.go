package results

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
)

// LeastRelaxation is the cheapest violation of limits of a network without an optimum (acopf.Relax).
type LeastRelaxation struct {
	Status     string  `json:"status"`     // of the search for the least relaxation; all of `why` is absent where there is an optimum, and with `--why=false`
	Iterations int     `json:"iterations"` // of the interior point, in all rounds
	WallMS     float64 `json:"wall_ms"`    // with its setup
	// Cost is Σ price × amount by acopf's prices, which are per pu.
	Cost      *float64 `json:"cost"`         // price × amount of all limits that give, by the prices of [acopf.md](acopf.md#why-there-is-no-optimum); null without a relaxation
	Shortfall *float64 `json:"shortfall_mw"` // active power that is missing: of units beyond `pmax` and of buses; null likewise
	Limits    []Broken `json:"limits"`       // those that give; empty where all can be kept
}

// Least relaxes the limits of a network at loads in pu.
func Least(ctx context.Context, n *network.Network, pd, qd []float64, opt acopf.Options) (*LeastRelaxation, error) {
	start := time.Now()
	r, err := acopf.Relax(ctx, n, pd, qd, acopf.Options{Threads: opt.Threads, Dispatchable: opt.Dispatchable, Ranges: opt.Ranges, CurrentLimits: opt.CurrentLimits}, acopf.Penalties{})
	if err != nil {
		return nil, err
	}
	out := &LeastRelaxation{Status: r.Status.String(), Iterations: r.Iterations, WallMS: float64(time.Since(start)) / 1e6, Limits: []Broken{}}
	if r.Status != acopf.Optimal {
		return out, nil
	}
	out.Limits = Relaxed(acopf.Settled(n, opt.Ranges, r.Settings), r)
	shortfall := n.MW(r.PMax)
	for _, x := range r.MissingP {
		shortfall += max(x, 0) * n.BaseMVA
	}
	out.Cost, out.Shortfall = &r.Cost, &shortfall
	return out, nil
}

// Relaxed lists the limits that give in a relaxation.
func Relaxed(n *network.Network, r *acopf.Relaxation) []Broken {
	p, out := NewPoint(n, r.Vm, r.Va, r.Pg, r.Qg), []Broken{}
	kinds := p.kinds()
	kinds[6].limit = p.HeavierEnd
	add := func(amounts []float64, unit float64, limit func(int) Limit) {
		for i, x := range amounts {
			if x != 0 {
				out = append(out, Broken{Limit: limit(i), Excess: math.Abs(x) * unit})
			}
		}
	}
	balance := func(kind, unit string, missing []float64) func(int) Limit {
		return func(b int) Limit {
			return Limit{Kind: kind, Bus: n.BusID[b], Value: missing[b] * n.BaseMVA, Unit: unit}
		}
	}
	add(r.MissingP, n.BaseMVA, balance("p_balance", "MW", r.MissingP))
	add(r.MissingQ, n.BaseMVA, balance("q_balance", "MVAr", r.MissingQ))
	for i, k := range []int{3, 2, 5, 4, 6, 1, 0, 9, 8} {
		amounts := [][]float64{r.PMax, r.PMin, r.QMax, r.QMin, r.Flow, r.VMax, r.VMin, r.AngMax, r.AngMin}[i]
		add(amounts, kinds[k].unit, kinds[k].limit)
	}
	return out
}

// SoftPrices are prices of soft limits in the file's units, from words. These are rating ($/MVAh), voltage, vmin and vmax ($/h
// per pu), angle, angmin and angmax ($/h per degree), and generation, pmin, pmax, qmin and qmax ($/MWh and $/MVArh). One of these
// with a colon and a number is of one limit: of a bus by its number, else of a row. An infinite price keeps a limit hard.
func SoftPrices(n *network.Network, prices map[string]float64) (soft acopf.SoftLimits, err error) {
	type limits struct {
		word   string
		factor float64 // of a price per pu
		ids    []int
		first  int
		lists  []*[]float64
	}
	var kinds []limits
	add := func(words string, factor float64, ids []int, first int, lists ...*[]float64) { // the first word is all of them
		for i, word := range strings.Fields(words) {
			y := limits{word, factor, ids, first, lists}
			if i > 0 {
				y.lists = lists[i-1 : i]
			}
			kinds = append(kinds, y)
		}
		for _, list := range lists {
			*list = make([]float64, len(ids))
		}
	}
	add("rating", n.BaseMVA, n.BranchRow, 1, &soft.SFrom, &soft.STo)
	add("voltage vmin vmax", 1, n.BusID, 0, &soft.VMin, &soft.VMax)
	add("angle angmin angmax", Degrees(1), n.BranchRow, 1, &soft.AngMin, &soft.AngMax)
	add("generation pmin pmax qmin qmax", n.BaseMVA, n.GenRow, 1, &soft.PMin, &soft.PMax, &soft.QMin, &soft.QMax)
	rank := func(key string) int { // kinds before single limits, general before special ones
		word, _, single := strings.Cut(key, ":")
		kind := slices.IndexFunc(kinds, func(y limits) bool { return y.word == word })
		if single && kind >= 0 {
			kind += len(kinds)
		}
		return kind
	}
	for _, key := range slices.SortedFunc(maps.Keys(prices), func(a, b string) int { return cmp.Compare(rank(a), rank(b)) }) {
		k, v := rank(key), prices[key]
		if k < 0 {
			return soft, fmt.Errorf("no soft limit %q: want rating, voltage, vmin, vmax, angle, angmin, angmax, generation, pmin, pmax, qmin or qmax, and after a colon the number of one", key)
		}
		if !(v > 0) {
			return soft, fmt.Errorf("the price of %s is %g: want a positive number", key, v)
		}
		if math.IsInf(v, 1) {
			v = 0
		}
		kind := kinds[k%len(kinds)]
		_, id, single := strings.Cut(key, ":")
		number, err := strconv.Atoi(id)
		if single && (err != nil || !slices.Contains(kind.ids, number-kind.first)) {
			return soft, fmt.Errorf("%q: nothing in service with this limit has the number %q", key, id)
		}
		for i, other := range kind.ids {
			for _, list := range kind.lists {
				if !single || other == number-kind.first {
					(*list)[i] = v * kind.factor
				}
			}
		}
	}
	return soft, nil
}
