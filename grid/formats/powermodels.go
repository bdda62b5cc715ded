package formats

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// pmRow is an element of PowerModels' data: numbers by name, with its own cost.
type pmRow struct {
	key     string
	numbers map[string]float64
	name    string
	cost    []float64
}

// number is one of an element; an element without it has the value.
func (r pmRow) number(name string, missing float64) float64 {
	if v, ok := r.numbers[name]; ok {
		return v
	}
	return missing
}

// required is a number that an element has to have.
func (r pmRow) required(kind, name string) float64 {
	v, ok := r.numbers[name]
	if !ok {
		failf(0, "%s %s of PowerModels' data has no %s", kind, r.key, name)
	}
	return v
}

// UnmarshalJSON keeps what is a number, a truth, the name and the cost.
func (r *pmRow) UnmarshalJSON(text []byte) error {
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	r.numbers = map[string]float64{}
	for name, v := range fields {
		switch v := v.(type) {
		case float64:
			r.numbers[name] = v
		case bool:
			if r.numbers[name] = 0; v {
				r.numbers[name] = 1
			}
		case string:
			if name == "name" {
				r.name = v
			}
		case []any:
			for _, x := range v {
				if number, ok := x.(float64); ok && name == "cost" {
					r.cost = append(r.cost, number)
				}
			}
		}
	}
	return nil
}

// readPowerModels reads PowerModels' JSON: per unit and radians, elements by number.
func readPowerModels(name string, text []byte) (*matpower.Case, error) {
	var data map[string]json.RawMessage
	if err := json.Unmarshal(text, &data); err != nil {
		line := 1
		if syntax, ok := err.(*json.SyntaxError); ok {
			line += bytes.Count(text[:syntax.Offset], []byte("\n"))
		}
		failf(line, "%v", err)
	}
	get := func(key string, dst any) {
		if raw, ok := data[key]; ok {
			if err := json.Unmarshal(raw, dst); err != nil {
				failf(0, "%s: %v", key, err)
			}
		}
	}
	rows := func(kind string) []pmRow {
		var byKey map[string]pmRow
		get(kind, &byKey)
		var out []pmRow
		for key, r := range byKey {
			r.key = key
			out = append(out, r)
		}
		slices.SortFunc(out, func(a, b pmRow) int {
			i, _ := strconv.Atoi(a.key)
			j, _ := strconv.Atoi(b.key)
			return cmp.Or(cmp.Compare(i, j), cmp.Compare(a.key, b.key))
		})
		return out
	}
	perUnit, base := true, 0.0
	c := &matpower.Case{HasCost: true}
	get("per_unit", &perUnit)
	get("baseMVA", &base)
	get("name", &c.Name)
	if !perUnit {
		failf(0, "PowerModels' data are not per unit, want per_unit true")
	}
	if !(base > 0) {
		failf(0, "baseMVA is %g: want a positive number", base)
	}
	for _, kind := range slices.Sorted(maps.Keys(data)) {
		if matpower.Refused(kind) == "" {
			continue
		}
		for _, r := range rows(kind) {
			if r.number("br_status", r.number("status", 1)) != 0 {
				failf(0, "%s %s of PowerModels' data is in service, which gpc does not solve", kind, r.key)
			}
		}
	}
	const degree = 180 / math.Pi
	c.BaseMVA = base
	rowOf := map[int]int{}
	for _, r := range rows("bus") {
		b := matpower.Bus{ID: int(r.number("bus_i", 0)), Name: r.name, Type: matpower.BusType(r.number("bus_type", 1)), Area: int(r.number("area", 1)), Zone: int(r.number("zone", 1)),
			Vm: r.number("vm", 1), Va: degree * r.number("va", 0), BaseKV: r.number("base_kv", 1), VMax: r.number("vmax", 1.1), VMin: r.number("vmin", 0.9)}
		rowOf[b.ID] = len(c.Bus)
		c.Bus = append(c.Bus, b)
	}
	busOf := func(kind string, r pmRow, field string) *matpower.Bus {
		id := r.required(kind, field)
		row, ok := rowOf[int(id)]
		if !ok {
			failf(0, "%s %s: there is no bus %g", kind, r.key, id)
		}
		return &c.Bus[row]
	}
	for _, r := range rows("load") {
		if b := busOf("load", r, "load_bus"); r.number("status", 1) != 0 {
			b.Pd += base * r.required("load", "pd")
			b.Qd += base * r.required("load", "qd")
		}
	}
	for _, r := range rows("shunt") {
		if b := busOf("shunt", r, "shunt_bus"); r.number("status", 1) != 0 {
			b.Gs += base * r.required("shunt", "gs")
			b.Bs += base * r.required("shunt", "bs")
		}
	}
	for _, r := range rows("gen") {
		c.Gen = append(c.Gen, matpower.Gen{Bus: busOf("gen", r, "gen_bus").ID, Name: r.name, Pg: base * r.number("pg", 0), Qg: base * r.number("qg", 0), QMax: base * r.number("qmax", 0), QMin: base * r.number("qmin", 0),
			Vg: r.number("vg", 1), MBase: r.number("mbase", base), InService: r.number("gen_status", 1) != 0, PMax: base * r.number("pmax", 0), PMin: base * r.number("pmin", 0), Cost: pmCost(r, base)})
	}
	for _, r := range rows("branch") {
		if r.number("g_fr", 0) != 0 || r.number("g_to", 0) != 0 || math.Abs(r.number("b_fr", 0)-r.number("b_to", 0)) > 1e-12 {
			failf(0, "branch %s of PowerModels' data has a conductance or differs in charging at its two ends, which a branch of MATPOWER cannot", r.key)
		}
		tap := r.number("tap", 1)
		if tap == 1 && r.number("transformer", 0) == 0 {
			tap = 0
		}
		c.Branch = append(c.Branch, matpower.Branch{From: busOf("branch", r, "f_bus").ID, To: busOf("branch", r, "t_bus").ID, Name: r.name, R: r.number("br_r", 0), X: r.required("branch", "br_x"), B: r.number("b_fr", 0) + r.number("b_to", 0),
			RateA: base * r.number("rate_a", 0), RateB: base * r.number("rate_b", 0), RateC: base * r.number("rate_c", 0), Tap: tap, ShiftDeg: degree * r.number("shift", 0), InService: r.number("br_status", 1) != 0,
			AngMin: degree * r.number("angmin", -2*math.Pi), AngMax: degree * r.number("angmax", 2*math.Pi)})
	}
	for _, r := range rows("dcline") {
		power := func(field string) float64 { return base * r.required("dcline", field) }
		d := matpower.DCLine{From: busOf("dcline", r, "f_bus").ID, To: busOf("dcline", r, "t_bus").ID, InService: r.number("br_status", 1) != 0,
			Pf: base * r.number("pf", 0), Pt: -base * r.number("pt", 0), Qf: -base * r.number("qf", 0), Qt: -base * r.number("qt", 0), Vf: r.number("vf", 1), Vt: r.number("vt", 1),
			PMin: power("pminf"), PMax: power("pmaxf"), QMinF: power("qminf"), QMaxF: power("qmaxf"), QMinT: power("qmint"), QMaxT: power("qmaxt"),
			Loss0: base * r.number("loss0", 0), Loss1: r.number("loss1", 0), Cost: pmCost(r, base)}
		for _, p := range []*float64{&d.PMin, &d.PMax} {
			if *p < 0 { // MATPOWER's is of the to end
				*p = *p*(1-d.Loss1) - d.Loss0
			}
		}
		c.AddDCLine(d)
	}
	return c, nil
}

// pmCost is a unit's cost, which PowerModels has of per unit powers.
func pmCost(r pmRow, base float64) matpower.Cost {
	cost := matpower.Cost{Model: matpower.Polynomial, Startup: r.number("startup", 0), Shutdown: r.number("shutdown", 0)}
	if r.number("model", 2) == 1 {
		cost.Model = matpower.PiecewiseLinear
		if len(r.cost)%2 != 0 {
			failf(0, "gen %s: %d numbers of a piecewise linear cost: want pairs", r.key, len(r.cost))
		}
		for k := 0; k < len(r.cost); k += 2 {
			cost.Points = append(cost.Points, matpower.Point{Power: base * r.cost[k], Cost: r.cost[k+1]})
		}
		return cost
	}
	for k, a := range r.cost {
		cost.Coefficients = append(cost.Coefficients, a/math.Pow(base, float64(len(r.cost)-1-k)))
	}
	return cost
}
