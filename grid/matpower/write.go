package matpower

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// FunctionName is the name that MATLAB finds the case in a file by: the file's without
// folder and ending, with an underscore for invalid characters.
func FunctionName(path string) string {
	base := filepath.Base(path)
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (letter(byte(r)) || digit(byte(r))) {
			return r
		}
		return '_'
	}, strings.TrimSuffix(base, filepath.Ext(base)))
	if name == "" || digit(name[0]) || name[0] == '_' {
		name = "case_" + name
	}
	return name
}

// Write writes a case as a version 2 case file whose function has the given name
// (FunctionName makes one of a path), with the columns of MATPOWER's results where the
// case has flows or multipliers. Numbers have as many digits as tell them apart, so that
// Read gives the same case again. Comment is written to the file's head, a line of it each;
// "" is none. A case that Check refuses is not written.
func Write(w io.Writer, name, comment string, c *Case) error {
	if FunctionName(name) != name {
		return fmt.Errorf("matpower: %q cannot be the name of a function: want letters, digits and underscores, a letter first", name)
	}
	if err := c.Check(); err != nil {
		return err
	}
	if c.HasMultipliers && !c.HasFlows {
		return fmt.Errorf("matpower: case %s has multipliers but no flows: a file holds both, or flows alone", c.Name)
	}
	out := &writer{w: bufio.NewWriter(w)}
	out.text("function mpc = " + name + "\n%" + strings.ToUpper(name) + "\n")
	for line := range strings.Lines(comment) {
		out.text("%   " + strings.TrimRight(line, "\r\n") + "\n")
	}
	out.text("\n%% MATPOWER Case Format : Version 2\nmpc.version = '2';\n\n%% system MVA base\nmpc.baseMVA = " + number(c.BaseMVA) + ";\n")
	out.buses(c)
	out.gens(c)
	out.branches(c)
	if c.HasCost {
		out.costs("generator cost data", "gencost", c.costs())
	}
	out.dcLines(c)
	if out.err != nil {
		return out.err
	}
	return out.w.Flush()
}

// writer keeps the first error.
type writer struct {
	w   *bufio.Writer
	err error
}

func (o *writer) text(s string) {
	if o.err == nil {
		_, o.err = o.w.WriteString(s)
	}
}

// number is the shortest text that is read as the same number.
func number(v float64) string {
	return strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+")
}

// table writes a matrix: rows give their numbers one after another.
func (o *writer) table(title, columns, field string, rows int, row func(i int, add func(...float64))) {
	o.text("\n%% " + title + "\n%\t" + strings.Join(strings.Fields(columns), "\t") + "\nmpc." + field + " = [\n")
	for i := range rows {
		row(i, func(values ...float64) {
			for _, v := range values {
				o.text("\t" + number(v))
			}
		})
		o.text(";\n")
	}
	o.text("];\n")
}

func status(inService bool) float64 {
	if inService {
		return 1
	}
	return 0
}

func (o *writer) buses(c *Case) {
	columns := "bus_i type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin"
	if c.HasMultipliers {
		columns += " lam_P lam_Q mu_Vmax mu_Vmin"
	}
	o.table("bus data", columns, "bus", len(c.Bus), func(i int, add func(...float64)) {
		b := c.Bus[i]
		add(float64(b.ID), float64(b.Type), b.Pd, b.Qd, b.Gs, b.Bs, float64(b.Area), b.Vm, b.Va, b.BaseKV, float64(b.Zone), b.VMax, b.VMin)
		if c.HasMultipliers {
			add(b.LamP, b.LamQ, b.MuVMax, b.MuVMin)
		}
	})
}

func (o *writer) gens(c *Case) {
	columns := "bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin Pc1 Pc2 Qc1min Qc1max Qc2min Qc2max ramp_agc ramp_10 ramp_30 ramp_q apf"
	if c.HasMultipliers {
		columns += " mu_Pmax mu_Pmin mu_Qmax mu_Qmin"
	}
	o.table("generator data", columns, "gen", c.generators(), func(i int, add func(...float64)) {
		g := c.Gen[i]
		add(float64(g.Bus), g.Pg, g.Qg, g.QMax, g.QMin, g.Vg, g.MBase, status(g.InService), g.PMax, g.PMin,
			g.Pc1, g.Pc2, g.Qc1Min, g.Qc1Max, g.Qc2Min, g.Qc2Max, g.RampAGC, g.Ramp10, g.Ramp30, g.RampQ, g.APF)
		if c.HasMultipliers {
			add(g.MuPMax, g.MuPMin, g.MuQMax, g.MuQMin)
		}
	})
}

func (o *writer) branches(c *Case) {
	columns := "fbus tbus r x b rateA rateB rateC ratio angle status angmin angmax"
	if c.HasFlows {
		columns += " Pf Qf Pt Qt"
	}
	if c.HasMultipliers {
		columns += " mu_Sf mu_St mu_angmin mu_angmax"
	}
	o.table("branch data", columns, "branch", len(c.Branch), func(i int, add func(...float64)) {
		b := c.Branch[i]
		add(float64(b.From), float64(b.To), b.R, b.X, b.B, b.RateA, b.RateB, b.RateC, b.Tap, b.ShiftDeg, status(b.InService), b.AngMin, b.AngMax)
		if c.HasFlows {
			add(b.Pf, b.Qf, b.Pt, b.Qt)
		}
		if c.HasMultipliers {
			add(b.MuSf, b.MuSt, b.MuAngMin, b.MuAngMax)
		}
	})
}

// generators is the number of generators, without the ends of DC lines after them.
func (c *Case) generators() int { return len(c.Gen) - 2*len(c.DCLine) }

// costs are the rows of gencost.
func (c *Case) costs() (all []Cost) {
	for _, g := range c.Gen[:c.generators()] {
		all = append(all, g.Cost)
	}
	if c.HasReactiveCost {
		for _, g := range c.Gen[:c.generators()] {
			all = append(all, g.ReactiveCost)
		}
	}
	return all
}

// dcLines writes the DC lines with the powers and voltages of their ends.
func (o *writer) dcLines(c *Case) {
	if len(c.DCLine) == 0 {
		return
	}
	ends := c.Gen[c.generators():]
	o.table("DC lines", "fbus tbus status Pf Pt Qf Qt Vf Vt Pmin Pmax QminF QmaxF QminT QmaxT loss0 loss1", "dcline", len(c.DCLine), func(i int, add func(...float64)) {
		d, source, sink := c.DCLine[i], ends[2*i], ends[2*i+1]
		add(float64(d.From), float64(d.To), status(d.InService), -source.Pg, sink.Pg, source.Qg, sink.Qg, source.Vg, sink.Vg,
			d.PMin, d.PMax, d.QMinF, d.QMaxF, d.QMinT, d.QMaxT, d.Loss0, d.Loss1)
	})
	if c.DCLine[0].Cost.Model != NoCost {
		var all []Cost
		for _, d := range c.DCLine {
			all = append(all, d.Cost)
		}
		o.costs("DC line cost data", "dclinecost", all)
	}
}

// costs writes rows of one length: those with fewer parameters end in zeros.
func (o *writer) costs(title, field string, all []Cost) {
	parameters := func(f Cost) []float64 {
		if f.Model == Polynomial {
			return f.Coefficients
		}
		var out []float64
		for _, p := range f.Points {
			out = append(out, p.Power, p.Cost)
		}
		return out
	}
	width := 1
	for _, f := range all {
		width = max(width, len(parameters(f)))
	}
	o.table(title, "model startup shutdown n c(n-1)_or_p1 ...", field, len(all), func(i int, add func(...float64)) {
		f := all[i]
		p := parameters(f)
		n := len(p)
		if f.Model == PiecewiseLinear {
			n = len(f.Points)
		}
		add(float64(f.Model), f.Startup, f.Shutdown, float64(n))
		add(p...)
		add(slices.Repeat([]float64{0}, width-len(p))...)
	})
}
