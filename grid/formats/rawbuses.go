package formats

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// busOf is the row of a bus, by its field.
func (y *rawCase) busOf(r rawRecord, i int) *matpower.Bus {
	id := r.integer(i, 0)
	if id < 0 { // the metered end
		id = -id
	}
	row, ok := y.bus[id]
	if !ok {
		failf(r.line, "there is no bus %d", id)
	}
	return &y.c.Bus[row]
}

func (y *rawCase) buses() {
	for _, r := range y.sections["BUS"] {
		b := matpower.Bus{ID: r.integer(0, 0), Name: r.text(1), BaseKV: r.number(2, 0), Type: matpower.BusType(r.integer(3, 1)), VMax: 1.1, VMin: 0.9, Line: r.line}
		if y.version <= 30 {
			b.Gs, b.Bs = r.number(4, 0), r.number(5, 0)
			b.Area, b.Zone = r.integer(6, 1), r.integer(7, 1)
			b.Vm, b.Va = r.number(8, 1), r.number(9, 0)
		} else {
			b.Area, b.Zone = r.integer(4, 1), r.integer(5, 1)
			b.Vm, b.Va = r.number(7, 1), r.number(8, 0)
			b.VMax, b.VMin = r.number(9, 1.1), r.number(10, 0.9)
		}
		y.bus[b.ID] = len(y.c.Bus)
		y.c.Bus = append(y.c.Bus, b)
	}
}

func (y *rawCase) loads() {
	current := false
	for _, r := range y.sections["LOAD"] {
		b := y.busOf(r, 0)
		if r.integer(2, 1) <= 0 {
			continue
		}
		ip, iq := r.number(7, 0), r.number(8, 0)
		current = current || ip != 0 || iq != 0
		b.Pd += r.number(5, 0) + ip*b.Vm
		b.Qd += r.number(6, 0) + iq*b.Vm
		b.Gs += r.number(9, 0) // of constant admittance
		b.Bs += r.number(10, 0)
		if y.version >= 34 && r.number(16, 0) > 0 { // generation at the load
			b.Pd -= r.number(14, 0)
			b.Qd -= r.number(15, 0)
		}
	}
	if current {
		y.c.Notes = append(y.c.Notes, "loads of constant current are of constant power, that at the file's voltages")
	}
}

func (y *rawCase) fixedShunts() {
	for _, r := range y.sections["FIXED SHUNT"] {
		if b := y.busOf(r, 0); r.integer(2, 1) > 0 {
			b.Gs += r.number(3, 0)
			b.Bs += r.number(4, 0)
		}
	}
	status, susceptance := -1, 7
	if y.version >= 32 {
		status, susceptance = 3, 9
	}
	if y.version >= 35 {
		status, susceptance = 4, 11
	}
	for _, r := range y.sections["SWITCHED SHUNT"] {
		if b := y.busOf(r, 0); status < 0 || r.integer(status, 1) > 0 {
			b.Bs += r.number(susceptance, 0)
			y.regulateShunt(r, susceptance)
		}
	}
	if len(y.sections["SWITCHED SHUNT"]) > 0 {
		y.c.Notes = append(y.c.Notes, "switched shunts stay at their present susceptance, but where controls move them")
	}
}

func (y *rawCase) gens() {
	regulated, shift, mode := map[int]bool{}, 0, 26
	if y.version >= 35 {
		shift, mode = 1, 28
	}
	for _, r := range y.sections["GENERATOR"] {
		b := y.busOf(r, 0)
		g := matpower.Gen{Bus: b.ID, Name: fmt.Sprintf("%d-%s", b.ID, cmp.Or(r.text(1), "1")), Pg: r.number(2, 0), Qg: r.number(3, 0), QMax: r.number(4, 9999), QMin: r.number(5, -9999), Vg: r.number(6, 1),
			MBase: r.number(8+shift, y.c.BaseMVA), InService: r.integer(14+shift, 1) > 0, PMax: r.number(16+shift, 9999), PMin: r.number(17+shift, -9999), Line: r.line}
		if g.InService && b.Type == matpower.PQ {
			g.InService = false
			y.c.Notes = append(y.c.Notes, fmt.Sprintf("unit %s is out of service, as PSS/E has those at a bus of type 1", g.Name))
		}
		control := r.integer(mode, 0)
		if control == 2 || control == 3 { // reactive power by a power factor
			factor := r.number(mode+1, 1)
			if factor == 0 || math.Abs(factor) > 1 {
				failf(r.line, "unit %s: a power factor of %g: want one of at most 1", g.Name, factor)
			}
			q := g.Pg * math.Sqrt(1-factor*factor) / factor
			if g.QMin, g.QMax = -math.Abs(q), math.Abs(q); control == 3 {
				g.Qg, g.QMin, g.QMax = q, q, q
			}
		}
		regulated[b.ID] = regulated[b.ID] || g.InService && control != 3
		y.holdVoltage(&g, *b, r.integer(7, 0))
	}
	for i, b := range y.c.Bus {
		if b.Type == matpower.PV && !regulated[b.ID] {
			y.c.Bus[i].Type = matpower.PQ
		}
	}
}

// holdVoltage adds a unit. One that regulates another bus holds the file's voltage at its own.
func (y *rawCase) holdVoltage(g *matpower.Gen, bus matpower.Bus, regulated int) {
	if regulated != 0 && regulated != bus.ID {
		g.Vg, y.remote = bus.Vm, true
	}
	y.c.Gen = append(y.c.Gen, *g)
}

// compensators turns FACTS devices without a series element into units of reactive power alone.
func (y *rawCase) compensators() {
	for _, r := range y.sections["FACTS"] {
		mode := r.integer(3, 1)
		if mode == 0 {
			continue
		}
		if mode != 1 || r.integer(2, 0) != 0 {
			failf(r.line, "facts %s has a series element in service, which a case cannot hold: put it out of service, and loads in its place", r.text(0))
		}
		b, limit := y.busOf(r, 1), r.number(7, 9999)
		if b.Type == matpower.PQ {
			b.Type = matpower.PV
		}
		y.holdVoltage(&matpower.Gen{Bus: b.ID, Name: r.text(0), QMax: limit, QMin: -limit, Vg: r.number(6, 1), MBase: y.c.BaseMVA, InService: true, Line: r.line}, *b, r.integer(19, 0))
		y.c.Notes = append(y.c.Notes, fmt.Sprintf("facts %s is a unit of -%g to %g MVAr, its limits at 1 pu", r.text(0), limit, limit))
	}
}
