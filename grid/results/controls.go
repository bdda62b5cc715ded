package results

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Control is equipment that keeps a voltage or a flow in a band: a transformer's ratio, a phase shifter or a switched shunt.
type Control struct {
	Kind   string  `json:"control"` // tap, shift or shunt
	Branch int     `json:"branch"`  // row in `mpc.branch`, from 1; 0 for a shunt
	Bus    int     `json:"bus"`     // number of the bus whose voltage is kept; 0 for a flow, and without a band
	Shunt  int     `json:"shunt"`   // number of the bus of a shunt; 0 else
	Low    float64 `json:"low"`     // lower end of the band: pu, or MW into the branch
	High   float64 `json:"high"`    // upper end, likewise
	Min    float64 `json:"min"`     // least setting: a ratio, °, or MVAr at 1 pu
	Max    float64 `json:"max"`     // largest setting, likewise
	Steps  int     `json:"steps"`   // from min to max; 0 is continuous
	Set    float64 `json:"setting"` // that was found
	Value  float64 `json:"value"`   // what is kept, at the solution
	Keeps  bool    `json:"keeps"`   // whether it is in the band

	setting  acopf.Range // without its ends
	unit     float64     // of the setting, in that of the range
	keptUnit float64     // of what is kept, of a pu
	bus      int
	banded   bool
}

// ReadControls reads lines such as "tap 8 bus 9 1.03 1.05 0.9 1.1 16". They are a transformer's row, the bus of a voltage with
// its band, the range of the ratio and, if they count, the steps. "shunt 9 bus 14 …" is a shunt at bus 9, in MVAr.
// "shift 4 flow 20 30 -30 30" is a phase shifter that keeps MW into its branch, by degrees. An optimal power flow needs no band:
// "tap 8 0.9 1.1 16".
func ReadControls(n *network.Network, name string, source io.Reader) (list []Control, err error) {
	row := func(text string, rows []int, first int, kind string) (int, error) {
		v, err := strconv.Atoi(text)
		k := slices.Index(rows, v-first)
		if err != nil || k < 0 {
			return 0, fmt.Errorf("no %s in service is %s", kind, text)
		}
		return k, nil
	}
	return list, secure.EachLine(name, source, func(line string) error {
		words := strings.Fields(line)
		c := Control{bus: -1, unit: 1, keptUnit: 1}
		form := fmt.Errorf("%.60q: want tap ROW bus NUMBER LOW HIGH MIN MAX [STEPS], shunt NUMBER bus … or shift ROW flow LOW HIGH MIN MAX [STEPS], in an optimal power flow without bus or flow and band", line)
		if len(words) < 4 || words[2] == "flow" && words[0] != "shift" || words[2] == "bus" && words[0] == "shift" {
			return form
		}
		c.Kind, c.banded = words[0], words[2] == "bus" || words[2] == "flow"
		switch k := &c.setting; c.Kind {
		case "tap", "shift":
			if k.Index, err = row(words[1], n.BranchRow, 1, "branch"); err == nil {
				c.Branch = n.BranchRow[k.Index] + 1
			}
			if c.Kind == "shift" {
				k.Kind, c.unit, c.keptUnit = acopf.Shift, math.Pi/180, n.BaseMVA
			}
		case "shunt":
			if k.Index, err = row(words[1], n.BusID, 0, "bus"); err == nil {
				c.Shunt = n.BusID[k.Index]
			}
			k.Kind, c.unit = acopf.Susceptance, 1/n.BaseMVA
		default:
			err = fmt.Errorf("%q: want tap, shift or shunt", c.Kind)
		}
		numbers, values := words[2:], []*float64{&c.Low, &c.High, &c.Min, &c.Max}
		if c.banded {
			numbers = words[3:]
		} else {
			values = values[2:]
		}
		if err == nil && words[2] == "bus" {
			if c.bus, err = row(words[3], n.BusID, 0, "bus"); err == nil {
				c.Bus = n.BusID[c.bus]
			}
			numbers = words[4:]
		}
		if err != nil {
			return err
		}
		steps := len(values)
		if len(numbers) < steps || len(numbers) > steps+1 {
			return form
		}
		for i, dst := range values {
			if *dst, err = strconv.ParseFloat(numbers[i], 64); err != nil || *dst-*dst != 0 {
				return fmt.Errorf("%q: want a finite number", numbers[i])
			}
		}
		if len(numbers) > steps {
			if c.Steps, err = strconv.Atoi(numbers[steps]); err != nil || c.Steps < 1 {
				return fmt.Errorf("%q: want a number of steps, 1 or more", numbers[steps])
			}
		}
		if c.Low > c.High || c.Min > c.Max || c.Kind == "tap" && c.Min <= 0 {
			return fmt.Errorf("%.60q: a band or a range without room", line)
		}
		if slices.ContainsFunc(list, func(o Control) bool { return o.setting == c.setting }) {
			return fmt.Errorf("%s %s is listed twice", c.Kind, words[1])
		}
		list = append(list, c)
		return nil
	})
}

const (
	maxControlRounds = 60
	controlTolerance = 1e-6 // pu, of what is kept
)

// Regulate solves power flows until every control keeps its band or is at the end of its range, and writes the settings that
// it found. Each control moves by a secant of its own. Settings in steps are rounded at the end.
func Regulate(n *network.Network, pr FlowProblem, controls []Control) (*PowerFlow, Point, error) {
	for i := range controls {
		if c := &controls[i]; !c.banded {
			return nil, Point{}, fmt.Errorf("control %d, %s: a power flow needs a band that it keeps", i+1, c.Kind)
		}
	}
	span := func(c *Control) float64 { // of the setting, up to what moves a network much
		return min(c.Max-c.Min, map[string]float64{"tap": 1, "shift": 90, "shunt": n.BaseMVA}[c.Kind])
	}
	slope, ranges := make([]float64, len(controls)), Ranges(controls)
	solve := func() (*PowerFlow, Point, error) {
		settings := make([]float64, len(controls))
		for i, c := range controls {
			settings[i] = c.Set * c.unit
		}
		m := acopf.Settled(n, ranges, settings)
		flow, sol, err := Flow(m, pr)
		if err != nil {
			return nil, Point{}, err
		}
		p := NewPoint(m, sol.Vm, sol.Va, sol.Pg, sol.Qg)
		if flow.Converged {
			pr.Vm, pr.Va = sol.Vm, sol.Va
		}
		return flow, p, nil
	}
	for i := range controls {
		c := &controls[i]
		c.Set = min(max(c.setting.Setting(n)/c.unit, c.Min), c.Max)
	}
	flow, p, err := solve()
	if err != nil || !flow.Converged {
		return flow, p, err
	}
	for i := range controls { // the slope of each at the start
		c := &controls[i]
		set, delta := c.Set, span(c)/100
		if set+delta > c.Max {
			delta = -delta
		}
		c.Set = set + delta
		other, q, err := solve()
		if c.Set = set; err != nil {
			return flow, p, err
		}
		if other.Converged && delta != 0 {
			slope[i] = (c.value(q) - c.value(p)) / delta
		}
	}
	for range maxControlRounds {
		change, earlier := false, slices.Clone(controls)
		for i := range controls {
			c := &controls[i]
			e := c.excess(c.value(p))
			if math.Abs(e) <= controlTolerance*c.keptUnit || math.Abs(slope[i])*span(c) <= controlTolerance*c.keptUnit {
				continue
			}
			if set := min(max(c.Set-e/slope[i], c.Min), c.Max); math.Abs(set-c.Set) > 1e-9*span(c) {
				c.Set, change = set, true
			}
		}
		if !change {
			break
		}
		last := p
		if flow, p, err = solve(); err != nil {
			return flow, p, err
		}
		if !flow.Converged {
			break
		}
		for i := range controls {
			c := &controls[i]
			if d := c.Set - earlier[i].Set; math.Abs(d) > 1e-6*span(c) {
				if s := (c.value(p) - c.value(last)) / d; s*slope[i] > 0 && math.Abs(s) > 0.1*math.Abs(slope[i]) {
					slope[i] = s
				}
			}
		}
	}
	discrete := slices.ContainsFunc(controls, func(c Control) bool { return c.Steps > 0 })
	if discrete && flow.Converged {
		for i := range controls {
			controls[i].Set = controls[i].rounded(controls[i].Set)
		}
		if flow, p, err = solve(); err != nil {
			return flow, p, err
		}
	}
	measure(controls, p)
	flow.Controls = controls
	return flow, p, nil
}

// value is what a control keeps at a point; 0 without a band.
func (c *Control) value(p Point) float64 {
	switch {
	case !c.banded:
		return 0
	case c.Kind == "shift":
		return p.Flows.Pf[c.setting.Index] * c.keptUnit
	}
	return p.Vm[c.bus]
}

// Banded says whether a control keeps something.
func (c *Control) Banded() bool { return c.banded }

// excess is the distance of a value from the band.
func (c *Control) excess(v float64) float64 { return v - min(max(v, c.Low), c.High) }

// rounded is the next setting in steps.
func (c *Control) rounded(setting float64) float64 {
	if c.Steps == 0 || c.Min == c.Max {
		return setting
	}
	width := (c.Max - c.Min) / float64(c.Steps)
	return c.Min + width*math.Round((setting-c.Min)/width)
}

// measure writes what controls keep at a point.
func measure(controls []Control, p Point) {
	for i := range controls {
		c := &controls[i]
		c.Value = c.value(p)
		c.Keeps = math.Abs(c.excess(c.Value)) <= 10*controlTolerance*c.keptUnit
	}
}

// Ranges are the settings of controls as variables of an optimal power flow.
func Ranges(controls []Control) (out []acopf.Range) {
	for _, c := range controls {
		c.setting.Min, c.setting.Max = c.Min*c.unit, c.Max*c.unit
		out = append(out, c.setting)
	}
	return out
}

// Rounded are the ranges with those in steps fixed at the step next to an optimum's setting; false without any.
func Rounded(controls []Control, ranges []acopf.Range, settings []float64) (out []acopf.Range, any bool) {
	out = slices.Clone(ranges)
	for i := range out {
		if c := &controls[i]; c.Steps > 0 && out[i].Min < out[i].Max {
			out[i].Min = c.rounded(settings[i]/c.unit) * c.unit
			out[i].Max, any = out[i].Min, true
		}
	}
	return out, any
}

// Settle writes the settings of an optimum to controls, with what they keep there.
func Settle(controls []Control, settings []float64, p Point) {
	for i := range controls {
		controls[i].Set = settings[i] / controls[i].unit
	}
	measure(controls, p)
}

// Put writes the settings of controls to a case.
func Put(c *matpower.Case, n *network.Network, controls []Control) {
	for _, y := range controls {
		switch y.Kind {
		case "tap":
			c.Branch[y.Branch-1].Tap = y.Set
		case "shift":
			c.Branch[y.Branch-1].ShiftDeg = y.Set
		case "shunt":
			c.Bus[n.BusRow[y.setting.Index]].Bs = y.Set
		}
	}
}
