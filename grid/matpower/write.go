package matpower

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
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
	for _, m := range c.Matrices() {
		out.text("\n%%\t" + strings.Join(m.Columns, "\t") + "\nmpc." + m.Field + " = [\n")
		for _, row := range m.Rows {
			for _, v := range row {
				out.text("\t" + number(v))
			}
			out.text(";\n")
		}
		out.text("];\n")
		if m.Names != nil {
			out.text("\nmpc." + m.Field + "_name = {\n")
			for _, name := range m.Names {
				out.text("\t'" + strings.ReplaceAll(name, "'", "''") + "';\n")
			}
			out.text("};\n")
		}
	}
	if out.err != nil {
		return out.err
	}
	return out.w.Flush()
}

// namesOf are the names of rows; nil where none has one.
func namesOf[T any](rows []T, name func(T) string) (list []string) {
	for _, r := range rows {
		list = append(list, name(r))
	}
	if strings.Join(list, "") == "" {
		return nil
	}
	return list
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

// Matrix is a matrix of a case in the columns of the format.
type Matrix struct {
	Field   string // bus, gen, branch, gencost, dcline or dclinecost
	Columns []string
	Rows    [][]float64
	Names   []string // of the rows; nil where none has one
}

// Matrices are those of a case: bus, gen and branch, with the columns of results that it has, gencost, and DC lines.
func (c *Case) Matrices() []Matrix {
	bus := Matrix{"bus", strings.Fields("bus_i type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin"), nil, namesOf(c.Bus, func(b Bus) string { return b.Name })}
	gen := Matrix{"gen", strings.Fields("bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin Pc1 Pc2 Qc1min Qc1max Qc2min Qc2max ramp_agc ramp_10 ramp_30 ramp_q apf"), nil,
		namesOf(c.Gen[:c.generators()], func(g Gen) string { return g.Name })}
	branch := Matrix{"branch", strings.Fields("fbus tbus r x b rateA rateB rateC ratio angle status angmin angmax"), nil, namesOf(c.Branch, func(b Branch) string { return b.Name })}
	if c.HasFlows {
		branch.Columns = append(branch.Columns, "Pf", "Qf", "Pt", "Qt")
	}
	if c.HasMultipliers {
		bus.Columns = append(bus.Columns, "lam_P", "lam_Q", "mu_Vmax", "mu_Vmin")
		gen.Columns = append(gen.Columns, "mu_Pmax", "mu_Pmin", "mu_Qmax", "mu_Qmin")
		branch.Columns = append(branch.Columns, "mu_Sf", "mu_St", "mu_angmin", "mu_angmax")
	}
	add := func(m *Matrix, row ...float64) { m.Rows = append(m.Rows, row[:len(m.Columns)]) }
	for _, b := range c.Bus {
		add(&bus, float64(b.ID), float64(b.Type), b.Pd, b.Qd, b.Gs, b.Bs, float64(b.Area), b.Vm, b.Va, b.BaseKV, float64(b.Zone), b.VMax, b.VMin, b.LamP, b.LamQ, b.MuVMax, b.MuVMin)
	}
	for _, g := range c.Gen[:c.generators()] {
		add(&gen, float64(g.Bus), g.Pg, g.Qg, g.QMax, g.QMin, g.Vg, g.MBase, status(g.InService), g.PMax, g.PMin,
			g.Pc1, g.Pc2, g.Qc1Min, g.Qc1Max, g.Qc2Min, g.Qc2Max, g.RampAGC, g.Ramp10, g.Ramp30, g.RampQ, g.APF, g.MuPMax, g.MuPMin, g.MuQMax, g.MuQMin)
	}
	for _, b := range c.Branch {
		add(&branch, float64(b.From), float64(b.To), b.R, b.X, b.B, b.RateA, b.RateB, b.RateC, b.Tap, b.ShiftDeg, status(b.InService), b.AngMin, b.AngMax,
			b.Pf, b.Qf, b.Pt, b.Qt, b.MuSf, b.MuSt, b.MuAngMin, b.MuAngMax)
	}
	matrices := []Matrix{bus, gen, branch}
	if c.HasCost {
		matrices = append(matrices, costMatrix("gencost", c.costs()))
	}
	return append(matrices, c.dcLines()...)
}

func status(inService bool) float64 {
	if inService {
		return 1
	}
	return 0
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

// dcLines are the DC lines with the powers and voltages of their ends, and their costs where they have any.
func (c *Case) dcLines() (matrices []Matrix) {
	if len(c.DCLine) == 0 {
		return nil
	}
	lines, ends := Matrix{Field: "dcline", Columns: strings.Fields("fbus tbus status Pf Pt Qf Qt Vf Vt Pmin Pmax QminF QmaxF QminT QmaxT loss0 loss1")}, c.Gen[c.generators():]
	var costs []Cost
	for i, d := range c.DCLine {
		source, sink := ends[2*i], ends[2*i+1]
		lines.Rows = append(lines.Rows, []float64{float64(d.From), float64(d.To), status(d.InService), -source.Pg, sink.Pg, source.Qg, sink.Qg, source.Vg, sink.Vg,
			d.PMin, d.PMax, d.QMinF, d.QMaxF, d.QMinT, d.QMaxT, d.Loss0, d.Loss1})
		costs = append(costs, d.Cost)
	}
	if matrices = append(matrices, lines); costs[0].Model != NoCost {
		matrices = append(matrices, costMatrix("dclinecost", costs))
	}
	return matrices
}

// costMatrix has rows of one length: those with fewer parameters end in zeros.
func costMatrix(field string, costs []Cost) Matrix {
	m := Matrix{Field: field, Columns: strings.Fields("model startup shutdown n")}
	width := 5
	for _, f := range costs {
		p, n := f.Coefficients, len(f.Coefficients)
		if f.Model == PiecewiseLinear {
			p, n = nil, len(f.Points)
			for _, point := range f.Points {
				p = append(p, point.Power, point.Cost)
			}
		}
		m.Rows = append(m.Rows, append([]float64{float64(f.Model), f.Startup, f.Shutdown, float64(n)}, p...))
		width = max(width, 4+len(p))
	}
	for i, r := range m.Rows {
		m.Rows[i] = append(r, make([]float64, width-len(r))...)
	}
	for k := range width - 4 {
		m.Columns = append(m.Columns, "c"+strconv.Itoa(k+1))
	}
	return m
}
