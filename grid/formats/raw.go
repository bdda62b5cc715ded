package formats

import (
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
