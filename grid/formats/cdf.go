package formats

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// cdfLine is a line of the Common Data Format: fields in columns (IEEE Trans. PAS-92, 1973).
type cdfLine struct {
	line int
	text string
}

// columns are those from the first to the last, which count from 1.
func (l cdfLine) columns(first, last int) string {
	if first > len(l.text) {
		return ""
	}
	return strings.TrimSpace(l.text[first-1 : min(last, len(l.text))])
}

// number is that of some columns; 0 where they are blank.
func (l cdfLine) number(first, last int) float64 {
	text := l.columns(first, last)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		failf(l.line, "columns %d to %d are %q: want a number", first, last, text)
	}
	return v
}

func (l cdfLine) integer(first, last int) int {
	v := l.number(first, last)
	if v != math.Trunc(v) || math.Abs(v) > 1<<31 {
		failf(l.line, "columns %d to %d are %g: want a whole number", first, last, v)
	}
	return int(v)
}

// readCDF reads the IEEE Common Data Format. As in MATPOWER's cdf2mpc, voltage limits are 0.94 and 1.06 pu. The largest
// power of a unit is 100 MW above the file's.
func readCDF(_ string, text []byte) (*matpower.Case, error) {
	c := &matpower.Case{}
	section := ""
	for i, line := range strings.Split(string(text), "\n") {
		l := cdfLine{i + 1, strings.TrimRight(line, "\r")}
		upper := strings.ToUpper(l.text)
		switch {
		case i == 0:
			c.BaseMVA = l.number(32, 37)
			if c.BaseMVA <= 0 {
				failf(1, "the MVA base in columns 32 to 37 is %g: want a positive number", c.BaseMVA)
			}
		case strings.HasPrefix(upper, "END"):
			return c, nil
		case strings.Contains(upper, "DATA FOLLOW"):
			section = strings.Fields(upper)[0]
		case strings.HasPrefix(strings.TrimSpace(upper), "-9"):
			section = ""
		case strings.TrimSpace(upper) == "":
		case section == "BUS":
			cdfBus(c, l)
		case section == "BRANCH":
			cdfBranch(c, l)
		}
	}
	failf(1, "no line END OF DATA: the file is not whole")
	return nil, nil
}

func cdfBus(c *matpower.Case, l cdfLine) {
	id, kind := l.integer(1, 4), l.integer(25, 26)
	b := matpower.Bus{ID: id, Name: l.columns(6, 17), Type: matpower.BusType(max(kind, 1)), Area: l.integer(19, 20), Zone: l.integer(21, 23), Vm: l.number(28, 33), Va: l.number(34, 40),
		Pd: l.number(41, 49), Qd: l.number(50, 59), BaseKV: l.number(77, 83), Gs: c.BaseMVA * l.number(107, 114), Bs: c.BaseMVA * l.number(115, 122), VMax: 1.06, VMin: 0.94, Line: l.line}
	p, q := l.number(60, 67), l.number(68, 75)
	if kind >= 2 || p != 0 || q != 0 {
		g := matpower.Gen{Bus: id, Pg: p, Qg: q, QMax: l.number(91, 98), QMin: l.number(99, 106), Vg: cmp.Or(l.number(85, 90), b.Vm), MBase: c.BaseMVA, InService: true, PMax: p + 100, Line: l.line}
		if kind < 2 || g.QMax < g.QMin {
			g.QMax, g.QMin = max(q, g.QMax), min(q, g.QMin)
		}
		g.PMin = min(p, 0)
		c.Gen = append(c.Gen, g)
	}
	c.Bus = append(c.Bus, b)
}

func cdfBranch(c *matpower.Case, l cdfLine) {
	c.Branch = append(c.Branch, matpower.Branch{From: l.integer(1, 4), To: l.integer(6, 9), R: l.number(20, 29), X: l.number(30, 40), B: l.number(41, 50),
		RateA: l.number(51, 55), RateB: l.number(57, 61), RateC: l.number(63, 67), Tap: l.number(77, 82), ShiftDeg: l.number(84, 90), InService: true, AngMin: -360, AngMax: 360, Line: l.line})
}
