package formats

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// shuntRange are the switched shunts of a bus that keep a voltage: MVAr at 1 pu.
type shuntRange struct {
	bus, regulated int // numbers of buses
	low, high      float64
	present        float64 // of BINIT
	least, largest float64
	block          float64 // of every step; NaN where they differ, 0 where there are none
	continuous     bool
}

// regulation is the first field of a winding's control: COD. CONT, RMA, RMI, VMA, VMI, NTP and TAB follow.
func (y *rawCase) regulation() (first, limits int) {
	if y.version >= 34 {
		return 15, 18 // behind a node
	}
	return 6, 8
}

// regulate adds the control of a winding, the from side of the last branch. ratio is the branch's ratio for one of the record.
func (y *rawCase) regulate(w winding, name string, ratio func(float64) float64) {
	code, limits := y.regulation()
	row := len(y.c.Branch)
	if b := y.c.Branch[row-1]; !b.InService {
		return
	}
	value := func(i int, missing float64) float64 { return w.r.number(limits+i, missing) }
	low, high := min(value(2, 1.1), value(3, 0.9)), max(value(2, 1.1), value(3, 0.9))
	switch w.r.integer(code, 0) {
	case 1:
		if w.r.integer(code+1, 0) == 0 {
			return
		}
		least, largest := ratio(value(1, 0.9)), ratio(value(0, 1.1))
		y.addControl("tap %d bus %d %g %g %g %g%s", row, y.busOf(w.r, code+1).ID, low, high, min(least, largest), max(least, largest), steps(w.r.integer(limits+4, 33)-1))
	case 3:
		y.addControl("shift %d flow %g %g %g %g", row, low, high, min(value(0, 0), value(1, 0)), max(value(0, 0), value(1, 0)))
	case 2, 4, 5:
		y.c.Notes = append(y.c.Notes, fmt.Sprintf("transformer %s, bus %d to bus %d: its control of mode %d is none of a voltage or an active power; it stays at its ratio", name, y.c.Branch[row-1].From, y.c.Branch[row-1].To, w.r.integer(code, 0)))
	}
}

func (y *rawCase) addControl(format string, values ...any) {
	y.c.Controls = append(y.c.Controls, fmt.Sprintf(format, values...))
}

// steps are those of a control; none where it is continuous.
func steps(n int) string {
	if n < 1 {
		return ""
	}
	return fmt.Sprintf(" %d", n)
}

// regulateShunt adds a switched shunt to those of its bus, where it keeps a voltage.
func (y *rawCase) regulateShunt(r rawRecord, susceptance int) {
	mode, band := 1, susceptance-5 // fields of MODSW and VSWHI
	width := 2
	if y.version >= 35 {
		mode, band, width = 2, susceptance-6, 3
	}
	code := r.integer(mode, 1)
	if code != 1 && code != 2 {
		return
	}
	bus := y.busOf(r, 0).ID
	regulated := bus
	if r.integer(band+2, 0) != 0 {
		regulated = y.busOf(r, band+2).ID
	}
	k := slices.IndexFunc(y.shunts, func(s *shuntRange) bool { return s.bus == bus })
	if k < 0 {
		k = len(y.shunts)
		y.shunts = append(y.shunts, &shuntRange{bus: bus, regulated: regulated, low: min(r.number(band, 1), r.number(band+1, 1)), high: max(r.number(band, 1), r.number(band+1, 1))})
	}
	s := y.shunts[k]
	s.continuous = s.continuous || code == 2
	s.present += r.number(susceptance, 0)
	for i := susceptance + width - 1; i+1 < len(r.fields); i += width {
		if width == 3 && r.integer(i-1, 1) <= 0 {
			continue
		}
		count, b := r.number(i, 0), r.number(i+1, 0)
		s.least, s.largest = s.least+min(count*b, 0), s.largest+max(count*b, 0)
		switch size := math.Abs(b); {
		case count == 0 || size == 0:
		case s.block == 0:
			s.block = size
		case s.block != size:
			s.block = math.NaN()
		}
	}
}

// addShunts adds the controls of switched shunts, in the susceptance of all that is at their buses.
func (y *rawCase) addShunts() {
	for _, s := range y.shunts {
		bus := y.c.Bus[y.bus[s.bus]]
		if bus.Type == matpower.Isolated || s.largest == s.least {
			continue
		}
		other, count := bus.Bs-s.present, 0
		if s.block > 0 && !s.continuous {
			count = int(math.Round((s.largest - s.least) / s.block))
		} else if !s.continuous {
			y.c.Notes = append(y.c.Notes, fmt.Sprintf("the switched shunt at bus %d has blocks of several sizes: its control has no steps", s.bus))
		}
		y.addControl("shunt %d bus %d %g %g %g %g%s", s.bus, s.regulated, s.low, s.high, other+s.least, other+s.largest, steps(count))
	}
}
