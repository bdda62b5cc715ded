package formats

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/grid/matpower"
)

func dcLines(rawRecord) int { return 3 }

// tangent is the ratio of reactive to active power of a bridge by its voltages (kV), DC current (kA) and commutating
// impedance (E. W. Kimbark, Direct Current Transmission, 1971). It is 0 where these contradict one another.
func tangent(dc, current, ac, resistance, reactance float64) float64 {
	cosα := (dc + current*(3/math.Pi*reactance+2*resistance)) * math.Pi / (3 * math.Sqrt2 * ac)
	cosβ := cosα - math.Sqrt2*reactance*current/ac // at the end of the overlap
	if !(cosα > 0 && cosα <= 1 && cosβ > -1) {
		return 0
	}
	α, β := math.Acos(cosα), math.Acos(cosβ)
	if β == α {
		return math.Tan(α)
	}
	return (2*(β-α) + math.Sin(2*α) - math.Sin(2*β)) / (math.Cos(2*α) - math.Cos(2*β))
}

// dcLine turns a two-terminal DC line with thyristors into one that carries 0 to the power of its schedule. Losses are in
// proportion to it, and converters take the reactive power of the schedule.
func (y *rawCase) dcLine(records []rawRecord) {
	r := records[0]
	mode, resistance, setting := r.integer(1, 0), r.number(2, 0), r.number(3, 0)
	voltage, compounding := r.number(4, 0), r.number(6, 0)
	if mode == 0 {
		return
	}
	current := math.Abs(setting) / 1000 // kA
	if mode == 1 {                      // of a power at the rectifier, or below 0 at the inverter
		drop := resistance - compounding
		if setting < 0 {
			drop = -compounding
		}
		// (voltage + drop·current)·current is the power.
		root := voltage*voltage + 4*drop*math.Abs(setting)
		if root < 0 || voltage <= 0 {
			failf(r.line, "DC line %s cannot carry %g MW at %g kV", r.text(0), setting, voltage)
		}
		current = 2 * math.Abs(setting) / (voltage + math.Sqrt(root))
	}
	inverter := voltage - compounding*current
	d := matpower.DCLine{InService: true, Line: r.line}
	for i, dc := range []float64{inverter + resistance*current, inverter} {
		end := records[1+i]
		bus := y.busOf(end, 0)
		ac := bus.Vm * end.number(6, 0) * end.number(7, 1) / end.number(8, 1)
		power, bridges := dc*current, max(end.number(1, 1), 1)
		q := -power * tangent(dc/bridges, current, ac, end.number(4, 0), end.number(5, 0))
		if i == 0 {
			d.From, d.Pf, d.PMax = bus.ID, power, power
			d.Qf, d.QMinF, d.QMaxF = q, q, q
		} else {
			d.To, d.Pt = bus.ID, power
			d.Qt, d.QMinT, d.QMaxT = q, q, q
		}
	}
	y.addLine(r, d)
}

// addLine adds a DC line whose losses, beyond constant ones, are in proportion to its power.
func (y *rawCase) addLine(r rawRecord, d matpower.DCLine) {
	if d.Pf != 0 {
		d.Loss1 = 1 - (d.Pt+d.Loss0)/d.Pf
	} else {
		d.Loss0 = -d.Pt
	}
	y.c.AddDCLine(d)
	for i := range 2 {
		y.c.Gen[len(y.c.Gen)-2+i].Name = fmt.Sprintf("%s/%d", r.text(0), i+1)
	}
	if len(y.c.DCLine) == 1 {
		y.c.Notes = append(y.c.Notes, "DC lines carry 0 to the power of their schedule, converters with voltage sources 0 to their rating; losses are in proportion, and thyristors take the reactive power of the schedule")
	}
}

// converters adds DC lines with voltage source converters. One has the power of its set-point, the other what losses leave of it.
func (y *rawCase) converters(records []rawRecord) {
	r := records[0]
	power, voltage := -1, -1 // the records of the two converters
	for i := 1; i <= 2; i++ {
		switch records[i].integer(1, 0) {
		case 1:
			voltage = i
		case 2:
			power = i
		}
	}
	if r.integer(1, 1) == 0 || records[1].integer(1, 0) == 0 || records[2].integer(1, 0) == 0 {
		return
	}
	if power < 0 || voltage < 0 {
		failf(r.line, "DC line %s: want one converter with a voltage (TYPE 1) and one with a power (TYPE 2)", r.text(0))
	}
	set, kv := records[power].number(3, 0), records[voltage].number(3, 0)
	if kv <= 0 {
		failf(records[voltage].line, "a DC voltage of %g kV: want a positive one", kv)
	}
	current := 0.0
	loss := func(i int) float64 { // MW
		c := records[i]
		return max(c.number(5, 0)+c.number(6, 0)*math.Abs(current)*1000, c.number(7, 0)) / 1000
	}
	for range 50 { // (kv − resistance·current)·current goes to the converter with the power, losses included
		current = (set + loss(power)) / (kv - r.number(2, 0)*current)
	}
	ends := [2]matpower.Gen{}
	for i := range ends {
		c, g := records[1+i], &ends[i]
		*g = matpower.Gen{Bus: y.busOf(c, 0).ID, Pg: set, QMax: c.number(11, 9999), QMin: c.number(12, -9999), Vg: c.number(4, 1)}
		if 1+i == voltage {
			g.Pg = -kv*current - loss(voltage)
		}
		if c.integer(2, 1) == 2 { // of a power factor
			g.Qg, g.Vg = g.Pg*math.Sqrt(1-g.Vg*g.Vg)/g.Vg, 0
			g.QMin, g.QMax = g.Qg, g.Qg
		}
	}
	source, sink := ends[0], ends[1]
	if source.Pg > 0 {
		source, sink = sink, source
	}
	current = 0 // the constant losses are those of none
	rating := math.Inf(1)
	for _, c := range records[1:3] {
		if most := c.number(8, 0); most > 0 {
			rating = min(rating, most)
		}
	}
	y.addLine(r, matpower.DCLine{From: source.Bus, To: sink.Bus, InService: true, Pf: -source.Pg, Pt: sink.Pg, PMax: max(rating, -source.Pg), Qf: source.Qg, Qt: sink.Qg, Vf: source.Vg, Vt: sink.Vg,
		QMinF: source.QMin, QMaxF: source.QMax, QMinT: sink.QMin, QMaxT: sink.QMax, Loss0: loss(1) + loss(2), Line: r.line})
}
