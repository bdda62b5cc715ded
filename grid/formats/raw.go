package formats

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// rawRecord is a line of a RAW file: fields between commas or blanks. A field that is left out is "".
type rawRecord struct {
	line   int
	fields []string
}

// newRecord splits a line up to its comment, which is returned too.
func newRecord(line int, text string) (r rawRecord, comment string) {
	r.line = line
	separated := true // whether a comma or nothing stands before
	for i := 0; i < len(text); {
		switch ch := text[i]; {
		case ch == ' ' || ch == '\t' || ch == '\r':
			i++
		case ch == '/':
			return r, text[i+1:]
		case ch == ',':
			if separated {
				r.fields = append(r.fields, "")
			}
			separated = true
			i++
		case ch == '\'' || ch == '"':
			end := strings.IndexByte(text[i+1:], ch)
			if end < 0 {
				failf(line, "a text that is not closed: %s", text[i:])
			}
			r.fields = append(r.fields, strings.TrimSpace(text[i+1:i+1+end]))
			separated = false
			i += end + 2
		default:
			end := i
			for end < len(text) && !strings.ContainsRune(" \t\r,/", rune(text[end])) {
				end++
			}
			r.fields = append(r.fields, text[i:end])
			separated = false
			i = end
		}
	}
	return r, ""
}

// text is a field; "" where it is left out.
func (r rawRecord) text(i int) string {
	if i < len(r.fields) {
		return r.fields[i]
	}
	return ""
}

// number is a field, or the format's value where it is left out; NaN is none.
func (r rawRecord) number(i int, missing float64) float64 {
	text := r.text(i)
	if text == "" && !math.IsNaN(missing) {
		return missing
	}
	v, err := strconv.ParseFloat(strings.NewReplacer("D", "e", "d", "e").Replace(text), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		failf(r.line, "field %d is %q: want a number", i+1, text)
	}
	return v
}

func (r rawRecord) integer(i, missing int) int {
	v := r.number(i, float64(missing))
	if v != math.Trunc(v) || math.Abs(v) > 1<<31 {
		failf(r.line, "field %d is %g: want a whole number", i+1, v)
	}
	return int(v)
}

// rawCase is a RAW file that becomes a case.
type rawCase struct {
	c        *matpower.Case
	version  int
	bus      map[int]int
	sections map[string][]rawRecord
	tables   map[int][][2]float64 // of impedance correction: tap or angle, factor
	shunts   []*shuntRange
	remote   bool // whether a unit holds the file's voltage in place of another bus's
}

// The sections of a file, by version, by words of the lines that end them.
const (
	rawOld    = "BUS|LOAD|GENERATOR|BRANCH|TRANSFORMER|AREA|TWO-TERMINAL DC|VOLTAGE SOURCE CONVERTER|SWITCHED SHUNT|IMPEDANCE CORRECTION|MULTI-TERMINAL DC|MULTI-SECTION LINE|ZONE|INTER-AREA TRANSFER|OWNER|FACTS"
	rawMiddle = "BUS|LOAD|FIXED SHUNT|GENERATOR|BRANCH|TRANSFORMER|AREA|TWO-TERMINAL DC|VOLTAGE SOURCE CONVERTER|IMPEDANCE CORRECTION|MULTI-TERMINAL DC|MULTI-SECTION LINE|ZONE|INTER-AREA TRANSFER|OWNER|FACTS|SWITCHED SHUNT|GNE|INDUCTION MACHINE"
	rawNew    = "SYSTEM-WIDE|BUS|LOAD|FIXED SHUNT|GENERATOR|BRANCH|SYSTEM SWITCHING DEVICE|TRANSFORMER|AREA|TWO-TERMINAL DC|VOLTAGE SOURCE CONVERTER|IMPEDANCE CORRECTION|MULTI-TERMINAL DC|MULTI-SECTION LINE|ZONE|INTER-AREA TRANSFER|OWNER|FACTS|SWITCHED SHUNT|GNE|INDUCTION MACHINE|SUBSTATION"
)

var (
	rawBegin   = regexp.MustCompile(`(?i)BEGIN (.*?)(?: CONTROL DEVICE| DEVICE)? DATA`)
	rawRelease = regexp.MustCompile(`(?i)PSS(?:\(TM\)|\(R\)|\W+)E[- ]?(\d+)`)
)

// readRAW reads a power flow case of PSS/E.
func readRAW(_ string, text []byte) (*matpower.Case, error) {
	y := &rawCase{c: &matpower.Case{}, bus: map[int]int{}, sections: map[string][]rawRecord{}, tables: map[int][][2]float64{}}
	y.scan(strings.Split(string(text), "\n"))
	y.buses()
	y.loads()
	y.fixedShunts()
	y.gens()
	y.corrections()
	y.branches()
	y.visit("TRANSFORMER", windings, y.transformer)
	y.addShunts()
	y.visit("TWO-TERMINAL DC", dcLines, y.dcLine)
	y.visit("VOLTAGE SOURCE CONVERTER", dcLines, y.converters)
	y.compensators()
	y.refuse()
	if y.remote {
		y.c.Notes = append(y.c.Notes, "units that regulate another bus hold the file's voltage at their own")
	}
	return y.c, nil
}

// recordSize counts the lines of a multi-terminal line or a GNE, and finds the field of its status.
func recordSize(r rawRecord, section string) (lines, status int) {
	lines, status = 1, 2
	switch section {
	case "MULTI-TERMINAL DC":
		lines, status = 1+r.integer(1, 0)+r.integer(2, 0)+r.integer(3, 0), 4
	case "GNE":
		status = 6 + r.integer(2, 1)
		for i := range 3 { // of ten values each
			lines += (r.integer(status-3+i, 0) + 9) / 10
		}
	}
	return max(lines, 1), status
}

// refuse names what is in service and no case holds.
func (y *rawCase) refuse() {
	for _, section := range []string{"MULTI-TERMINAL DC", "GNE", "INDUCTION MACHINE"} {
		y.visit(section, func(r rawRecord) int { lines, _ := recordSize(r, section); return lines }, func(records []rawRecord) {
			if _, status := recordSize(records[0], section); records[0].integer(status, 1) != 0 {
				failf(records[0].line, "%s %s is in service, which a case cannot hold: put it out of service, and loads in its place", strings.ToLower(section), records[0].text(0))
			}
		})
	}
}

// scan splits the file into sections.
func (y *rawCase) scan(lines []string) {
	if len(lines) < 3 {
		failf(1, "%d lines: a RAW file begins with three of identification", len(lines))
	}
	next := 0
	record := func() (rawRecord, string) {
		r, comment := newRecord(next+1, lines[next])
		next++
		return r, comment
	}
	for next < len(lines) && strings.HasPrefix(lines[next], "@!") {
		next++
	}
	if len(lines)-next < 3 {
		failf(next+1, "a RAW file begins with three lines of identification")
	}
	head, comment := record()
	y.c.BaseMVA, y.version = head.number(1, 100), head.integer(2, 0)
	if y.version == 0 {
		if m := rawRelease.FindStringSubmatch(comment); m != nil {
			y.version, _ = strconv.Atoi(m[1])
		}
	}
	if head.integer(0, 0) != 0 {
		failf(head.line, "IC is %s: a file of changes, and not of a whole case", head.text(0))
	}
	if y.version < 29 || y.version > 36 {
		failf(head.line, "version %d of the RAW format: 30 to 35 can be read", y.version)
	}
	next += 2
	order := rawMiddle
	if y.version <= 30 {
		order = rawOld
	} else if y.version >= 34 {
		order = rawNew
	}
	names, section := strings.Split(order, "|"), 0
	for next < len(lines) && section < len(names) {
		if strings.HasPrefix(lines[next], "@!") {
			next++
			continue
		}
		r, comment := record()
		switch {
		case len(r.fields) == 0:
		case r.fields[0] == "Q" || r.fields[0] == "q":
			return
		case r.fields[0] == "0" && len(r.fields) == 1:
			section++
			if m := rawBegin.FindStringSubmatch(comment); m != nil {
				name := strings.ToUpper(strings.TrimPrefix(strings.ToUpper(m[1]), "NON-TRANSFORMER "))
				if k := slices.IndexFunc(names, func(n string) bool { return n == name || strings.HasPrefix(name, n+" ") }); k >= section {
					section = k
				}
			}
		default:
			y.sections[names[section]] = append(y.sections[names[section]], r)
		}
	}
	if section <= slices.Index(names, "SWITCHED SHUNT") {
		failf(len(lines), "the file ends in the section %s, without its 0 or a Q: it is not whole", names[section])
	}
}

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

// visit reads the elements of a section whose records have several lines.
func (y *rawCase) visit(section string, lines func(first rawRecord) int, read func(records []rawRecord)) {
	for records := y.sections[section]; len(records) > 0; {
		n := lines(records[0])
		if len(records) < n {
			failf(records[0].line, "%s %s of %d lines instead of %d", strings.ToLower(section), records[0].text(0), len(records), n)
		}
		read(records[:n])
		records = records[n:]
	}
}

func dcLines(rawRecord) int { return 3 }

// windings counts the lines of a transformer: two and one a winding.
func windings(r rawRecord) int {
	if r.integer(2, 0) != 0 {
		return 5
	}
	return 4
}

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
		w := winding{bus: y.busOf(r, i), r: records[2+i], base: 1, scale: 1}
		nominal := w.r.number(1, 0)
		kv := w.bus.BaseKV
		if kv <= 0 && (cw == 2 || nominal != 0 && (cw == 3 || cz > 1)) {
			failf(w.r.line, "bus %d has no base voltage", w.bus.ID)
		}
		nominal = cmp.Or(nominal, kv)
		ratio := 1.0
		if kv > 0 {
			ratio = nominal / kv
		}
		if w.tap = w.r.number(0, 1); w.tap == 0 {
			w.tap = 1
		}
		switch {
		case cw == 2 && w.r.text(0) == "":
			w.tap, w.scale = 1, 1/kv
		case cw == 2:
			w.scale = 1 / kv
			w.tap /= kv
		case cw == 3:
			w.scale = ratio
			w.tap *= ratio
		}
		if w.tap <= 0 {
			failf(w.r.line, "a ratio of %g: want a positive one", w.tap)
		}
		if cz > 1 {
			w.base = ratio * ratio
		}
		sides[i] = w
	}
	name := cmp.Or(r.text(10), fmt.Sprintf("%d-%d-%s", sides[0].bus.ID, sides[1].bus.ID, cmp.Or(r.text(3), "1")))
	status := r.integer(11, 1)
	if status > 0 {
		y.magnetise(r, z, sides[0], cm)
	}
	if len(sides) == 2 {
		re, im := y.impedance(z, 0, cz)
		scale := sides[0].base * sides[1].tap * sides[1].tap * y.corrected(sides[0])
		y.addBranch(sides[0].r, matpower.Branch{From: sides[0].bus.ID, To: sides[1].bus.ID, Name: name, R: re * scale, X: im * scale,
			Tap: sides[0].tap / sides[1].tap, ShiftDeg: sides[0].r.number(2, 0), InService: status > 0}, 3)
		y.regulate(sides[0], name, func(v float64) float64 { return v * sides[0].scale / sides[1].tap })
		return
	}
	var re, im [3]float64 // of windings 1–2, 2–3 and 3–1
	for i := range re {
		re[i], im[i] = y.impedance(z, 3*i, cz)
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

// lines turns two-terminal DC lines with thyristors into DC lines that carry 0 to the power of their schedule. Losses are in
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
