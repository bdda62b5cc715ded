package formats

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// corrections reads tables of factors on a transformer's impedance. From version 34 on a table may go on in further lines.
func (y *rawCase) corrections() {
	width, id := 2, 0
	if y.version >= 34 {
		width = 3
	}
	for _, r := range y.sections["IMPEDANCE CORRECTION"] {
		i := 0
		if width == 2 || len(r.fields)%width != 0 {
			id, i = r.integer(0, 0), 1
		}
		for ; i+1 < len(r.fields) && (r.number(i, 0) != 0 || r.number(i+1, 0) != 0); i += width {
			if width == 3 && r.number(i+2, 0) != 0 {
				failf(r.line, "impedance correction %d has a complex factor, which cannot be honoured here", id)
			}
			y.tables[id] = append(y.tables[id], [2]float64{r.number(i, 0), r.number(i+1, 0)})
		}
	}
}

// factor interpolates a table of impedance correction; 0 is none.
func (y *rawCase) factor(table int, value float64) float64 {
	t := y.tables[table]
	if len(t) == 0 {
		return 1
	}
	k := 1
	for k < len(t)-1 && value > t[k][0] {
		k++
	}
	if len(t) == 1 || value <= t[0][0] {
		return t[0][1]
	}
	if value >= t[k][0] {
		return t[k][1]
	}
	return t[k-1][1] + (value-t[k-1][0])*(t[k][1]-t[k-1][1])/(t[k][0]-t[k-1][0])
}

// addBranch adds a branch with the ratings of a record from a field on.
func (y *rawCase) addBranch(r rawRecord, b matpower.Branch, ratings int) {
	b.RateA, b.RateB, b.RateC = r.number(ratings, 0), r.number(ratings+1, 0), r.number(ratings+2, 0)
	b.AngMin, b.AngMax, b.Line = -360, 360, r.line
	y.c.Branch = append(y.c.Branch, b)
}

func (y *rawCase) branches() {
	ratings, shunts := 6, 9
	if y.version >= 34 {
		ratings, shunts = 7, 19
	}
	for _, r := range y.sections["BRANCH"] {
		from, to := y.busOf(r, 0), y.busOf(r, 1)
		b := matpower.Branch{From: from.ID, To: to.ID, R: r.number(3, 0), X: r.number(4, math.NaN()), B: r.number(5, 0), InService: r.integer(shunts+4, 1) > 0}
		b.Name = fmt.Sprintf("%d-%d-%s", b.From, b.To, cmp.Or(r.text(2), "1"))
		if y.version >= 34 {
			b.Name = cmp.Or(r.text(6), b.Name)
		}
		if b.InService {
			for i, bus := range []*matpower.Bus{from, to} {
				bus.Gs += r.number(shunts+2*i, 0) * y.c.BaseMVA
				bus.Bs += r.number(shunts+1+2*i, 0) * y.c.BaseMVA
			}
		}
		y.addBranch(r, b, ratings)
	}
	for _, r := range y.sections["SYSTEM SWITCHING DEVICE"] {
		b := matpower.Branch{From: y.busOf(r, 0).ID, To: y.busOf(r, 1).ID, X: r.number(3, 1e-4), InService: r.integer(16, 1) > 0}
		b.Name = cmp.Or(r.text(20), fmt.Sprintf("%d-%d-%s", b.From, b.To, r.text(2)))
		y.addBranch(r, b, 4)
	}
	// PSS/E makes one bus of two with a line of so little impedance.
	threshold, joined := 1e-4, 0
	for _, r := range y.sections["SYSTEM-WIDE"] {
		for i, field := range r.fields {
			if text, ok := strings.CutPrefix(strings.ToUpper(field), "THRSHZ="); ok {
				r.fields[i] = text
				threshold = r.number(i, threshold)
			}
		}
	}
	for i := range y.c.Branch {
		if b := &y.c.Branch[i]; b.R == 0 && math.Abs(b.X) <= threshold {
			b.X = 0
			joined++
		}
	}
	if joined > 0 {
		y.c.Notes = append(y.c.Notes, fmt.Sprintf("lines without resistance, of at most %g pu, join their buses: %d", threshold, joined))
	}
}

// winding is one side of a transformer.
type winding struct {
	bus   *matpower.Bus
	r     rawRecord
	tap   float64 // pu of the bus
	scale float64 // of a ratio of the record, in its code's unit
	base  float64 // nominal over the bus's voltage, squared
}

// newWinding reads a side by the codes of its ratio and of the impedances.
func newWinding(bus *matpower.Bus, r rawRecord, ratioCode, impedanceCode int) winding {
	w := winding{bus: bus, r: r, base: 1, scale: 1}
	nominal, kv := r.number(1, 0), bus.BaseKV
	if kv <= 0 && (ratioCode == 2 || nominal != 0 && (ratioCode == 3 || impedanceCode > 1)) {
		failf(r.line, "bus %d has no base voltage", bus.ID)
	}
	ratio := 1.0
	if kv > 0 {
		ratio = cmp.Or(nominal, kv) / kv
	}
	if w.tap = r.number(0, 1); w.tap == 0 {
		w.tap = 1
	}
	switch {
	case ratioCode == 2 && r.text(0) == "":
		w.tap, w.scale = 1, 1/kv
	case ratioCode == 2:
		w.scale = 1 / kv
		w.tap /= kv
	case ratioCode == 3:
		w.scale = ratio
		w.tap *= ratio
	}
	if w.tap <= 0 {
		failf(r.line, "a ratio of %g: want a positive one", w.tap)
	}
	if impedanceCode > 1 {
		w.base = ratio * ratio
	}
	return w
}

// windings counts the lines of a transformer: two and one a winding.
func windings(r rawRecord) int {
	if r.integer(2, 0) != 0 {
		return 5
	}
	return 4
}

// transformer adds one of two windings as a branch, one of three as a star.
func (y *rawCase) transformer(records []rawRecord) {
	r, z := records[0], records[1]
	cw, cz, cm := r.integer(4, 1), r.integer(5, 1), r.integer(6, 1)
	for i, code := range []int{cw, cz, cm} {
		if most := []int{3, 3, 2}[i]; code < 1 || code > most {
			failf(r.line, "field %d is %d: want 1 to %d", i+5, code, most)
		}
	}
	sides := make([]winding, len(records)-2)
	for i := range sides {
		sides[i] = newWinding(y.busOf(r, i), records[2+i], cw, cz)
	}
	name := cmp.Or(r.text(10), fmt.Sprintf("%d-%d-%s", sides[0].bus.ID, sides[1].bus.ID, cmp.Or(r.text(3), "1")))
	status := r.integer(11, 1)
	if status > 0 {
		y.magnetise(r, z, sides[0], cm)
	}
	if len(sides) == 3 {
		y.star(r, z, sides, name, status)
		return
	}
	re, im := y.impedance(z, 0, cz)
	scale := sides[0].base * sides[1].tap * sides[1].tap * y.corrected(sides[0])
	y.addBranch(sides[0].r, matpower.Branch{From: sides[0].bus.ID, To: sides[1].bus.ID, Name: name, R: re * scale, X: im * scale,
		Tap: sides[0].tap / sides[1].tap, ShiftDeg: sides[0].r.number(2, 0), InService: status > 0}, 3)
	y.regulate(sides[0], name, func(v float64) float64 { return v * sides[0].scale / sides[1].tap })
}

// star is a transformer of three windings: a branch from each to a bus of its own. A status of 2 to 4 is of one winding that is out.
func (y *rawCase) star(r, z rawRecord, sides []winding, name string, status int) {
	var re, im [3]float64 // of windings 1–2, 2–3 and 3–1
	for i := range re {
		re[i], im[i] = y.impedance(z, 3*i, r.integer(5, 1))
	}
	star := matpower.Bus{ID: y.c.Bus[0].ID, Name: fmt.Sprintf("%s star", name), Type: matpower.PQ, Vm: z.number(9, 1), Va: z.number(10, 0), BaseKV: 1, VMax: 1.1, VMin: 0.9,
		Area: sides[0].bus.Area, Zone: sides[0].bus.Zone, Line: r.line}
	for id := range y.bus {
		star.ID = max(star.ID, id+1)
	}
	if status <= 0 {
		star.Type = matpower.Isolated
	}
	for i, w := range sides {
		j, k := i, (i+2)%3 // the pairs that winding i is in; the other is opposite
		opposite := (i + 1) % 3
		out := status == 0 || status > 1 && i == map[int]int{2: 1, 3: 2, 4: 0}[status]
		scale := w.base * y.corrected(w) / 2
		x := scale * (im[j] + im[k] - im[opposite])
		if math.Abs(x) < 1e-7 {
			x = 1e-4 // as PSS/E has it
		}
		y.addBranch(w.r, matpower.Branch{From: w.bus.ID, To: star.ID, Name: fmt.Sprintf("%s/%d", name, i+1), R: scale * (re[j] + re[k] - re[opposite]), X: x,
			Tap: w.tap, ShiftDeg: w.r.number(2, 0), InService: !out && w.bus.Type != matpower.Isolated}, 3)
		y.regulate(w, name, func(v float64) float64 { return v * w.scale })
	}
	y.bus[star.ID] = len(y.c.Bus)
	y.c.Bus = append(y.c.Bus, star)
}

// corrected is the factor on a winding's impedance by its table: of the ratio, or of the angle for one that shifts.
func (y *rawCase) corrected(w winding) float64 {
	code, limits := y.regulation()
	value := w.tap
	if math.Abs(w.r.number(code, 0)) == 3 {
		value = w.r.number(2, 0)
	}
	return y.factor(w.r.integer(limits+5, 0), value)
}

// impedance is that of a pair of windings in pu of the system's power and the windings' voltages.
func (y *rawCase) impedance(z rawRecord, first, code int) (re, im float64) {
	re, im = z.number(first, 0), z.number(first+1, math.NaN())
	power := z.number(first+2, y.c.BaseMVA)
	if code == 1 {
		return re, im
	}
	if power <= 0 {
		failf(z.line, "a base of %g MVA: want a positive one", power)
	}
	if code == 3 { // load loss in W, and the magnitude
		re /= 1e6 * power
		im = math.Sqrt(max(im*im-re*re, 0))
	}
	return re * y.c.BaseMVA / power, im * y.c.BaseMVA / power
}

// magnetise adds the magnetising admittance to the bus of winding 1.
func (y *rawCase) magnetise(r, z rawRecord, w winding, code int) {
	g, b := r.number(7, 0), r.number(8, 0)
	if code == 2 { // no-load loss in W, and the exciting current
		g /= 1e6 * y.c.BaseMVA
		current := b * z.number(2, y.c.BaseMVA) / y.c.BaseMVA
		b = -math.Sqrt(max(current*current-g*g, 0))
		if nominal := w.r.number(1, 0); nominal > 0 && w.bus.BaseKV > 0 {
			ratio := w.bus.BaseKV / nominal
			g, b = g*ratio*ratio, b*ratio*ratio
		}
	}
	w.bus.Gs += g * y.c.BaseMVA
	w.bus.Bs += b * y.c.BaseMVA
}
