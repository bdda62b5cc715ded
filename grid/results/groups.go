package results

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Group is several elements that go out of service together. A busbar takes what is connected to it along, and its load.
type Group struct {
	Label                  string
	Branches, Units, Buses []int // numbers in the network
}

// ReadOutages reads lines of outages: elements between commas, such as "branch 7", "unit 2", "bus 5" or a name of the case.
// Before a colon a line may have a label. Lines of one branch or unit are outages of their own, the others are groups, which
// stay lines.
func ReadOutages(n *network.Network, name string, source io.Reader) (list []secure.Outage, groups []string, err error) {
	listed := map[uint64]string{} // by hash, in less memory than by element
	seed := maphash.MakeSeed()
	err = secure.EachLine(name, source, func(line string) error {
		g, err := parseGroup(n, line)
		if err != nil {
			return err
		}
		key := fmt.Sprint(g.Branches, g.Units, g.Buses)
		hash := maphash.String(seed, key)
		if other, ok := listed[hash]; ok {
			if o, _ := parseGroup(n, other); fmt.Sprint(o.Branches, o.Units, o.Buses) == key {
				return fmt.Errorf("%s is listed twice", g.Label)
			}
		}
		switch {
		case len(g.Branches) == 1 && len(g.Units)+len(g.Buses) == 0:
			list = append(list, secure.Outage{Branch: g.Branches[0], Unit: -1})
		case len(g.Units) == 1 && len(g.Branches)+len(g.Buses) == 0:
			list = append(list, secure.Outage{Branch: -1, Unit: g.Units[0]})
		default:
			groups = append(groups, line)
		}
		listed[hash] = line
		return nil
	})
	if err == nil && len(list)+len(groups) == 0 {
		err = fmt.Errorf("%s: no outage is listed", name)
	}
	return list, groups, err
}

// ReadElements reads outages of one element each, as ReadOutages does.
func ReadElements(n *network.Network, name string, source io.Reader) ([]secure.Outage, error) {
	list, groups, err := ReadOutages(n, name, source)
	if err == nil && len(groups) > 0 {
		err = fmt.Errorf("%s: %.60q: want branch ROW or unit ROW, one element a line", name, groups[0])
	}
	return list, err
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

// opened are the branches and units that a group takes out, those at its busbars included.
func (g *Group) opened(n *network.Network) (branches, units []int) {
	if len(g.Buses) == 0 {
		return g.Branches, g.Units
	}
	branches, units = slices.Clone(g.Branches), slices.Clone(g.Units)
	for k, b := range n.From {
		if !slices.Contains(branches, k) && (slices.Contains(g.Buses, b) || slices.Contains(g.Buses, n.To[k])) {
			branches = append(branches, k)
		}
	}
	for unit, b := range n.GenBus {
		if !slices.Contains(units, unit) && slices.Contains(g.Buses, b) {
			units = append(units, unit)
		}
	}
	return branches, units
}

// outage is one of the list, or of the groups after it.
func (y *securityRun) outage(i int) Outage {
	if i < len(y.list) {
		return NewOutage(y.n, y.list[i])
	}
	label, _, _ := strings.Cut(y.groups[i-len(y.list)], ":")
	return Outage{Kind: "group", Row: y.first + i - len(y.list) + 1, Label: strings.TrimSpace(label)}
}

// group solves the power flow without a group.
func (y *securityRun) group(i int, v *worker) error {
	g, err := parseGroup(y.n, y.groups[i-len(y.list)])
	if err != nil {
		return err
	}
	r := &y.out.Outages[i]
	*r = newAfterOutage(y.outage(i))
	flow, err := y.supplied(v, g, v.sol)
	if err != nil {
		r.Reason = err.Error()
	}
	r.References = flow.references
	y.write(i, v, g, flow.Outage)
	return nil
}

// withLines is a group with the DC lines that have an end at buses without supply.
func (y *securityRun) withLines(g Group, dark []int) Group {
	for _, d := range y.n.DCLines {
		if slices.Contains(dark, y.n.GenBus[d.From]) || slices.Contains(dark, y.n.GenBus[d.To]) {
			g.Units = append(slices.Clip(g.Units), d.From, d.To)
		}
	}
	return g
}

// suppliedFlow is an outage with the numbers in the file of buses that become references.
type suppliedFlow struct {
	powerflow.Outage
	references []int
}

// supplied solves the power flow without a group. A part that is left without a reference gets its bus with the most P_max, or
// is dark where it has no unit.
func (y *securityRun) supplied(v *worker, g Group, sol *powerflow.Solution) (flow suppliedFlow, err error) {
	n := y.n
	flow.references = []int{}
	branches, units := g.opened(n)
	island, terminals := n.Islands(branches...), n.Terminals()
	power, reference := make([]float64, n.Buses()), slices.Repeat([]int{-1}, n.Buses()) // of each part
	var remaining []int                                                                 // units
	hasUnit := make([]bool, n.Buses())
	for unit, b := range n.GenBus {
		if !terminals[unit] && !slices.Contains(units, unit) {
			remaining = append(remaining, unit)
			power[b], hasUnit[b] = power[b]+n.PMax[unit], true
		}
	}
	var former, further []int
	for _, b := range n.References {
		if hasUnit[b] {
			reference[island[b]] = b
		} else {
			former = append(former, b)
		}
	}
	for _, unit := range remaining {
		b := n.GenBus[unit]
		if r := reference[island[b]]; r < 0 || n.Kind[r] != network.Slack && power[b] > power[r] {
			reference[island[b]] = b
		}
	}
	for b, part := range island {
		switch r := reference[part]; {
		case r < 0:
			flow.Islanded = append(flow.Islanded, b)
		case r == b && n.Kind[b] != network.Slack:
			further, flow.references = append(further, b), append(flow.references, n.BusID[b])
		}
	}
	flow.Solution = sol
	*sol = powerflow.Solution{Status: powerflow.Singular, Vm: sol.Vm, Va: sol.Va, Pg: sol.Pg, Qg: sol.Qg, AtLimit: sol.AtLimit}
	if len(flow.Islanded) == n.Buses() {
		return flow, errors.New("nothing takes up the balance: no unit is left")
	}
	g = y.withLines(g, flow.Islanded)
	_, units = g.opened(n)
	o := v.scalar
	if len(former)+len(further) > 0 {
		if o, err = o.Supplied(former, further); err != nil {
			return flow, err
		}
	}
	flow.Outage, err = o.Without(branches, units, flow.Islanded, sol)
	return flow, err
}
