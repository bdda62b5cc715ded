package results

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Group is several elements that go out of service together. A busbar takes what is connected to it along, and its load.
type Group struct {
	Label                  string
	Branches, Units, Buses []int // numbers in the network
}

// ReadOutages reads lines of outages: elements between commas, such as "branch 7", "unit 2", "bus 5" or a name of the case.
// Before a colon a line may have a label. Lines of one branch or unit are outages of their own, the others are groups.
func ReadOutages(n *network.Network, name string, source io.Reader) (list []secure.Outage, groups []Group, err error) {
	listed := map[string]bool{}
	err = secure.EachLine(name, source, func(line string) error {
		g, err := parseGroup(n, line)
		if err != nil {
			return err
		}
		key := fmt.Sprint(g.Branches, g.Units, g.Buses)
		switch {
		case listed[key]:
			return fmt.Errorf("%s is listed twice", g.Label)
		case len(g.Branches) == 1 && len(g.Units)+len(g.Buses) == 0:
			list = append(list, secure.Outage{Branch: g.Branches[0], Unit: -1})
		case len(g.Units) == 1 && len(g.Branches)+len(g.Buses) == 0:
			list = append(list, secure.Outage{Branch: -1, Unit: g.Units[0]})
		default:
			groups = append(groups, g)
		}
		listed[key] = true
		return nil
	})
	if err == nil && len(list)+len(groups) == 0 {
		err = fmt.Errorf("%s: no outage is listed", name)
	}
	return list, groups, err
}

// parseGroup parses one line.
func parseGroup(n *network.Network, line string) (g Group, err error) {
	label, rest, ok := strings.Cut(line, ":")
	if !ok {
		label, rest = line, line
	}
	g.Label = strings.TrimSpace(label)
	for _, element := range strings.Split(rest, ",") {
		element = strings.TrimSpace(element)
		matches := 0
		for _, kind := range []struct {
			names   []string
			numbers *[]int
		}{{n.BranchName, &g.Branches}, {n.GenName, &g.Units}, {n.BusName, &g.Buses}} {
			for k, name := range kind.names {
				if name == element && element != "" {
					*kind.numbers = append(*kind.numbers, k)
					matches++
				}
			}
		}
		if matches == 1 {
			continue
		}
		if matches > 1 {
			return g, fmt.Errorf("%d elements of the case have the name %.60q: give rows of the tables", matches, element)
		}
		if number, ok := strings.CutPrefix(element, "bus "); ok {
			b := slices.IndexFunc(n.BusID, func(id int) bool { return fmt.Sprint(id) == strings.TrimSpace(number) })
			if b < 0 {
				return g, fmt.Errorf("no bus in service is %s", number)
			}
			g.Buses = append(g.Buses, b)
			continue
		}
		if kind, _, _ := strings.Cut(element, " "); kind != "branch" && kind != "unit" {
			return g, fmt.Errorf("%.60q: want branch ROW or unit ROW, bus NUMBER or a name of the case", element)
		}
		o, err := secure.ParseOutage(n, element)
		if err != nil {
			return g, err
		}
		if o.Branch >= 0 {
			g.Branches = append(g.Branches, o.Branch)
		} else {
			g.Units = append(g.Units, o.Unit)
		}
	}
	for _, numbers := range []*[]int{&g.Branches, &g.Units, &g.Buses} {
		slices.Sort(*numbers)
		*numbers = slices.Compact(*numbers)
	}
	return g, nil
}

// limitKey is a limit without its values.
type limitKey struct {
	kind, end        string
	bus, gen, branch int
}

func keyOf(l Limit) limitKey { return limitKey{l.Kind, l.End, l.Bus, l.Gen, l.Branch} }

// solveGroups solves the power flow without each group, of a network made of what is left, from the base.
func (y *securityRun) solveGroups(ctx context.Context) error {
	if len(y.groups) == 0 {
		return nil
	}
	excesses := map[limitKey]float64{}
	for _, v := range NewPoint(y.widened(y.n), y.base.Vm, y.base.Va, y.base.Pg, y.base.Qg).Broken() {
		excesses[keyOf(v.Limit)] = v.Excess
	}
	errs := make([]error, len(y.groups))
	parallel.Each(max(1, y.opt.Threads), len(y.groups), func(_, i int) {
		if errs[i] = ctx.Err(); errs[i] == nil {
			y.out.Outages[len(y.list)+i], errs[i] = y.group(i, excesses)
			y.reportProgress()
		}
	})
	return cmp.Or(errs...)
}

// widened is a network with the limits after an outage.
func (y *securityRun) widened(n *network.Network) *network.Network {
	copied, l := *n, limitsAfter(n, y.opt.Emergency, y.opt.Band)
	copied.Rate, copied.VMin, copied.VMax = l.rate, l.vmin, l.vmax
	return &copied
}

// group solves one group, of which only what exceeds the excesses of the base counts.
func (y *securityRun) group(i int, excesses map[limitKey]float64) (AfterOutage, error) {
	g := y.groups[i]
	r := AfterOutage{Outage: Outage{Kind: "group", Row: y.first + i + 1, Label: g.Label}, Islanded: []int{}, References: []int{}, Violations: []Broken{}}
	n, err := network.New(y.remaining(y.opt.Case, g, &r))
	if err != nil {
		r.Reason = err.Error()
		return r, nil
	}
	carryAdmittances(n, y.n)
	n = y.widened(n)
	for _, m := range n.MovedReferences {
		r.References = append(r.References, n.BusID[m.To])
	}
	flow, _, err := Flow(n, FlowProblem{Options: y.flow, Vm: n.Vm0, Va: n.Va0})
	if err != nil {
		return r, err
	}
	r.Converged, r.Iterations = flow.Converged, flow.Iterations
	if !r.Converged {
		r.Reason = flow.Reason
		return r, nil
	}
	worst := 0.0
	for _, v := range flow.Violations {
		severity := v.Excess / max(math.Abs(v.Bound), 1)
		more := minViolation
		if v.Unit == "pu" {
			severity = voltageSeverity * v.Excess
		} else if more *= n.BaseMVA; v.Gen > 0 && excesses[keyOf(v.Limit)] > 0 {
			more = minUnitChange * math.Abs(v.Bound)
		}
		if v.Excess > excesses[keyOf(v.Limit)]+more {
			r.Violations, worst = append(r.Violations, v), max(worst, severity)
		}
	}
	r.Severity = &worst
	return r, nil
}

// remaining is the case at the base without a group. Parts that are left without a reference get the bus with the most PMAX.
// Parts without a unit are out too, and r has what is lost.
func (y *securityRun) remaining(c *matpower.Case, g Group, r *AfterOutage) *matpower.Case {
	n, rest := y.n, *c
	rest.Bus, rest.Gen, rest.Branch = slices.Clone(c.Bus), slices.Clone(c.Gen), slices.Clone(c.Branch)
	opened := slices.Clone(g.Branches)
	for k, start := range n.From {
		if slices.Contains(g.Buses, start) || slices.Contains(g.Buses, n.To[k]) {
			opened = append(opened, k)
		}
	}
	for _, k := range g.Branches {
		rest.Branch[n.BranchRow[k]].InService = false
	}
	island := n.Islands(opened...)
	power, unit, referenced := make([]float64, n.Buses()), make([]int, n.Buses()), make([]bool, n.Buses())
	for b := range unit {
		unit[b] = -1
		rest.Bus[n.BusRow[b]].Pd, rest.Bus[n.BusRow[b]].Qd = y.input.Pd[b]*n.BaseMVA, y.input.Qd[b]*n.BaseMVA
		rest.Bus[n.BusRow[b]].Vm, rest.Bus[n.BusRow[b]].Va = y.base.Vm[b], Degrees(y.base.Va[b])
		if n.Kind[b] == network.Slack && !slices.Contains(g.Buses, b) {
			referenced[island[b]] = true
		}
	}
	for i, b := range n.GenBus {
		row := &rest.Gen[n.GenRow[i]]
		row.Pg, row.Qg = y.base.Pg[i]*n.BaseMVA, y.base.Qg[i]*n.BaseMVA
		if n.Kind[b] != network.PQ {
			row.Vg = y.base.Vm[b]
		}
		if slices.Contains(g.Units, i) || slices.Contains(g.Buses, b) {
			row.InService = false
			continue
		}
		if part := island[b]; unit[part] < 0 || n.PMax[i] > power[part] {
			unit[part], power[part] = b, n.PMax[i]
		}
	}
	for b, part := range island {
		if unit[part] >= 0 && !slices.Contains(g.Buses, b) {
			if !referenced[part] && b == unit[part] {
				rest.Bus[n.BusRow[b]].Type = matpower.Reference
				r.References = append(r.References, n.BusID[b])
			}
			continue
		}
		rest.Bus[n.BusRow[b]].Type = matpower.Isolated
		r.Islanded = append(r.Islanded, n.BusID[b])
		r.LostMW += y.input.Pd[b] * n.BaseMVA
		for i, bus := range n.GenBus {
			if bus == b && !slices.Contains(g.Units, i) {
				r.LostUnitsMW += y.base.Pg[i] * n.BaseMVA
			}
		}
	}
	return &rest
}

// carryAdmittances gives the branches of a network those of another of the same case.
func carryAdmittances(n, source *network.Network) {
	for k, row := range n.BranchRow {
		j, _ := slices.BinarySearch(source.BranchRow, row)
		parts := source.Admittance.Parts()
		for i, part := range n.Admittance.Parts() {
			part[k] = parts[i][j]
		}
	}
}
