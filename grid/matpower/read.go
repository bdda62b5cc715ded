package matpower

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// MaxBytes is the largest file Read takes: about twenty times the largest
// published case, 70 000 buses.
const MaxBytes = 256 << 20

// Read parses a version 2 case file and checks the case (Case.Check).
// Errors contain name, which is the case's name where the file has no function.
//
// Read takes files as people have them: comments and block comments,
// continuation lines, commas or blanks between numbers, semicolons or newlines
// between rows, several statements a line, scalar expressions, the columns of
// solved cases (flows, an optimal power flow's multipliers). It does not run
// programs: assignments to parts of a matrix, function calls and control flow
// are refused, and so is every field it knows and cannot honour. Fields it does
// not know are listed in Case.Ignored.
//
// Every error about the content is an *Error with its line.
func Read(name string, r io.Reader) (*Case, error) {
	src, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(src) > MaxBytes {
		return nil, &Error{Name: name, Line: 1, Reason: fmt.Sprintf("the file is larger than %d MiB", MaxBytes>>20)}
	}
	p, err := parse(name, src)
	if err != nil {
		return nil, err
	}
	c, err := p.build(name)
	if err != nil {
		return nil, err
	}
	return c, c.check(name)
}

// build turns the tables into records.
func (p *parsed) build(file string) (*Case, error) {
	bad := func(line int, format string, args ...any) (*Case, error) {
		return nil, &Error{Name: file, Line: max(line, 1), Reason: fmt.Sprintf(format, args...)}
	}
	if p.structName == "" {
		return bad(p.functionLine, "no case here: a case file assigns mpc.version, mpc.baseMVA, mpc.bus, mpc.gen and mpc.branch")
	}
	switch {
	case p.versionLine == 0:
		return bad(p.functionLine, "%s.version is missing: only version '2' case files can be read, and a file without it is version 1", p.structName)
	case strings.TrimSpace(p.version) == "1":
		return bad(p.versionLine, "this is a version 1 case file; only version '2' can be read (MATPOWER's savecase writes it)")
	case strings.TrimSpace(p.version) != "2":
		return bad(p.versionLine, "%s.version is %q; only version '2' can be read", p.structName, p.version)
	case p.baseLine == 0:
		return bad(p.functionLine, "%s.baseMVA is missing", p.structName)
	}
	c := &Case{Name: cmp.Or(p.function, file), BaseMVA: p.baseMVA, Ignored: p.ignored}
	if !(c.BaseMVA > 0) || math.IsInf(c.BaseMVA, 1) {
		return bad(p.baseLine, "%s.baseMVA is %g: want a positive number", p.structName, c.BaseMVA)
	}
	for _, want := range []struct {
		table   string
		columns int
	}{{"bus", 13}, {"gen", 10}, {"branch", 11}} {
		m := p.tables[want.table]
		switch {
		case m == nil:
			return bad(p.functionLine, "%s.%s is missing", p.structName, want.table)
		case m.rows() == 0 && want.table == "branch": // of a network of one bus
		case m.rows() == 0:
			return bad(m.line, "%s.%s is empty", p.structName, want.table)
		case m.columns < want.columns:
			return bad(m.rowLine[0], "%s.%s has %d columns, version 2 has %d or more", p.structName, want.table, m.columns, want.columns)
		}
	}
	k := &checker{file: file}
	p.buses(c, k)
	p.gens(c, k)
	p.branches(c, k)
	p.costs(c, k)
	p.dcLines(c, k)
	c.HasFlows = c.HasFlows || c.HasMultipliers
	for i, row := range []struct {
		count int
		name  func(int) *string
	}{{len(c.Bus), func(k int) *string { return &c.Bus[k].Name }}, {c.generators(), func(k int) *string { return &c.Gen[k].Name }}, {len(c.Branch), func(k int) *string { return &c.Branch[k].Name }}} {
		names := p.names[nameFields[i]]
		if len(names) != row.count || row.count == 0 {
			continue
		}
		c.Ignored = slices.DeleteFunc(c.Ignored, func(f Field) bool { return f.Name == nameFields[i] })
		for k, name := range names {
			*row.name(k) = name
		}
	}
	return c, k.err
}

// Columns of the tables, and those that a solved case has beyond them.
const (
	busColumns, busMultipliers                    = 13, 4
	genColumns, genMultipliers                    = 21, 4
	branchColumns, branchFlows, branchMultipliers = 13, 4, 4
	dcColumns                                     = 17
)

// whole converts a number that must be an integer a bus number can be.
func (k *checker) integer(line int, name string, v float64) int {
	if v != math.Trunc(v) || math.Abs(v) > 1<<31 {
		k.fail(line, "%s is %g: want a whole number", name, v)
	}
	return int(v)
}

// inService says whether a status is above zero.
func (k *checker) inService(line int, status float64) bool {
	if math.IsNaN(status) {
		k.fail(line, "the status is NaN")
	}
	return status > 0
}

func (p *parsed) buses(c *Case, k *checker) {
	m := p.tables["bus"]
	c.HasMultipliers = c.HasMultipliers || m.columns >= busColumns+busMultipliers
	m.each(busColumns+busMultipliers, func(line int, r []float64) {
		c.Bus = append(c.Bus, Bus{
			ID: k.integer(line, "the bus number", r[0]), Type: BusType(k.integer(line, "the bus type", r[1])),
			Pd: r[2], Qd: r[3], Gs: r[4], Bs: r[5], Area: k.integer(line, "the area", r[6]),
			Vm: r[7], Va: r[8], BaseKV: r[9], Zone: k.integer(line, "the zone", r[10]), VMax: r[11], VMin: r[12],
			LamP: r[13], LamQ: r[14], MuVMax: r[15], MuVMin: r[16], Line: line,
		})
	})
}

func (p *parsed) gens(c *Case, k *checker) {
	m := p.tables["gen"]
	c.HasMultipliers = c.HasMultipliers || m.columns >= genColumns+genMultipliers
	m.each(genColumns+genMultipliers, func(line int, r []float64) {
		c.Gen = append(c.Gen, Gen{
			Bus: k.integer(line, "the bus number", r[0]), Pg: r[1], Qg: r[2], QMax: r[3], QMin: r[4], Vg: r[5], MBase: r[6], InService: k.inService(line, r[7]),
			PMax: r[8], PMin: r[9], Pc1: r[10], Pc2: r[11], Qc1Min: r[12], Qc1Max: r[13], Qc2Min: r[14], Qc2Max: r[15],
			RampAGC: r[16], Ramp10: r[17], Ramp30: r[18], RampQ: r[19], APF: r[20],
			MuPMax: r[21], MuPMin: r[22], MuQMax: r[23], MuQMin: r[24], Line: line,
		})
	})
}

func (p *parsed) branches(c *Case, k *checker) {
	m := p.tables["branch"]
	c.HasFlows = m.columns >= branchColumns+branchFlows
	c.HasMultipliers = c.HasMultipliers || m.columns >= branchColumns+branchFlows+branchMultipliers
	m.each(branchColumns+branchFlows+branchMultipliers, func(line int, r []float64) {
		c.Branch = append(c.Branch, Branch{
			From: k.integer(line, "the from bus", r[0]), To: k.integer(line, "the to bus", r[1]), R: r[2], X: r[3], B: r[4], RateA: r[5], RateB: r[6], RateC: r[7],
			Tap: r[8], ShiftDeg: r[9], InService: k.inService(line, r[10]), AngMin: r[11], AngMax: r[12],
			Pf: r[13], Qf: r[14], Pt: r[15], Qt: r[16], MuSf: r[17], MuSt: r[18], MuAngMin: r[19], MuAngMax: r[20], Line: line,
		})
	})
}

func (p *parsed) costs(c *Case, k *checker) {
	m := p.tables["gencost"]
	if m == nil || m.rows() == 0 {
		return
	}
	gens := len(c.Gen)
	switch {
	case m.rows() < gens:
		g := c.Gen[m.rows()]
		k.fail(g.Line, "generator %d (bus %d) has no cost: %s.gencost has %d rows for %d generators",
			m.rows()+1, g.Bus, p.structName, m.rows(), gens)
		return
	case m.rows() != gens && m.rows() != 2*gens:
		k.fail(m.rowLine[min(gens, m.rows()-1)], "%s.gencost has %d rows for %d generators: want one a generator, or two with reactive power's after active power's",
			p.structName, m.rows(), gens)
		return
	case m.columns < 5:
		k.fail(m.rowLine[0], "%s.gencost has %d columns, want 5 or more", p.structName, m.columns)
		return
	}
	c.HasCost, c.HasReactiveCost = true, m.rows() == 2*gens
	for i := range m.rows() {
		cost, reason := costRow(m.row(i))
		if reason != "" {
			k.fail(m.rowLine[i], "%s.gencost: %s", p.structName, reason)
		}
		cost.Line = m.rowLine[i]
		if i < gens {
			c.Gen[i].Cost = cost
		} else {
			c.Gen[i-gens].ReactiveCost = cost
		}
	}
}

// dcLines reads the DC lines, and adds their ends to the generators. Limits of the to end's power become those of the
// from end's.
func (p *parsed) dcLines(c *Case, k *checker) {
	m, cost := p.tables["dcline"], p.tables["dclinecost"]
	if m == nil || m.rows() == 0 {
		return
	}
	if m.columns < dcColumns || cost != nil && (cost.rows() != m.rows() || cost.columns < 5) {
		k.fail(m.line, "%s.dcline has %d columns, want %d or more, and dclinecost a row of five or more for each", p.structName, m.columns, dcColumns)
		return
	}
	m.each(dcColumns, func(line int, r []float64) {
		d := DCLine{
			From: k.integer(line, "the from bus", r[0]), To: k.integer(line, "the to bus", r[1]), InService: k.inService(line, r[2]),
			Pf: r[3], Pt: r[3] - r[15] - r[16]*r[3], Qf: r[5], Qt: r[6], Vf: r[7], Vt: r[8], PMin: r[9], PMax: r[10],
			QMinF: r[11], QMaxF: r[12], QMinT: r[13], QMaxT: r[14], Loss0: r[15], Loss1: r[16], Line: line,
		}
		if cost != nil {
			var reason string
			if d.Cost, reason = costRow(cost.row(len(c.DCLine))); reason != "" {
				k.fail(cost.rowLine[len(c.DCLine)], "%s.dclinecost: %s", p.structName, reason)
			}
		}
		c.AddDCLine(d)
	})
}

// AddDCLine adds a DC line, and its ends behind all generators.
func (c *Case) AddDCLine(d DCLine) {
	c.DCLine = append(c.DCLine, d)
	limit := func(p float64) float64 {
		if p < 0 {
			return (p + d.Loss0) / (1 - d.Loss1)
		}
		return p
	}
	delivered := func(pf float64) float64 { return pf - d.Loss0 - d.Loss1*pf }
	least, most := limit(d.PMin), limit(d.PMax)
	source := Gen{Bus: d.From, Pg: -d.Pf, Qg: d.Qf, Vg: d.Vf, PMin: -most, PMax: -least, QMin: d.QMinF, QMax: d.QMaxF}
	sink := Gen{Bus: d.To, Pg: delivered(d.Pf), Qg: d.Qt, Vg: d.Vt, PMin: delivered(least), PMax: delivered(most), QMin: d.QMinT, QMax: d.QMaxT}
	for _, end := range []*Gen{&source, &sink} {
		end.MBase, end.InService = 100, d.InService
		end.DCLine, end.Line = len(c.DCLine), d.Line
	}
	if c.HasCost {
		sink.Cost = Cost{Model: Polynomial, Line: d.Line}
		source.Cost = sink.Cost
		if d.Cost.Model != NoCost {
			source.Cost = d.Cost.mirrored()
		}
	}
	if c.HasReactiveCost {
		source.ReactiveCost, sink.ReactiveCost = sink.Cost, sink.Cost
	}
	c.Gen = append(c.Gen, source, sink)
}

// mirrored is the cost as a function of minus its power.
func (c Cost) mirrored() Cost {
	out := c
	out.Coefficients, out.Points = slices.Clone(c.Coefficients), nil
	for k := len(c.Coefficients) - 2; k >= 0; k -= 2 {
		out.Coefficients[k] *= -1
	}
	for _, p := range slices.Backward(c.Points) {
		out.Points = append(out.Points, Point{-p.Power, p.Cost})
	}
	return out
}

// costRow reads model, startup, shutdown, n and n parameters (or 2n).
func costRow(r []float64) (Cost, string) {
	cost := Cost{Startup: r[1], Shutdown: r[2]}
	n, take := r[3], 1
	switch r[0] {
	case float64(Polynomial):
		cost.Model = Polynomial
	case float64(PiecewiseLinear):
		cost.Model = PiecewiseLinear
		take = 2
	default:
		return cost, fmt.Sprintf("the cost model is %g: want 1 (piecewise linear) or 2 (polynomial)", r[0])
	}
	if n != math.Trunc(n) || n < 0 || n == 0 && take == 2 || n > maxColumns { // a polynomial without any is zero
		return cost, fmt.Sprintf("the number of cost parameters is %g: want a positive whole number", n)
	}
	count := int(n) * take
	if count > len(r)-4 {
		return cost, fmt.Sprintf("the row says %g, that is %d numbers, and has %d", n, count, len(r)-4)
	}
	parameters := r[4 : 4+count]
	if cost.Model == Polynomial {
		cost.Coefficients = append([]float64(nil), parameters...)
		return cost, ""
	}
	for k := 0; k < count; k += 2 {
		cost.Points = append(cost.Points, Point{parameters[k], parameters[k+1]})
	}
	return cost, ""
}
