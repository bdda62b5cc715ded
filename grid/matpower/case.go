// Package matpower reads and writes MATPOWER case files, version 2: the text format
// in which most published power networks are exchanged.
//
// The central type is Case, what such a file says and nothing more: every row
// in the order of the file, in the file's own units (MW, MVAr, degrees, per unit
// where the format uses per unit), equipment out of service included, each
// record with the line it came from. Read parses and checks a file; what it
// cannot honour it refuses by name and line. Write writes one, solved or not.
//
// The format is that of the MATPOWER User's Manual, appendix B ("Data File
// Format"): R. D. Zimmerman, C. E. Murillo-Sánchez, R. J. Thomas, "MATPOWER:
// Steady-State Operations, Planning and Analysis Tools for Power Systems
// Research and Education", IEEE Trans. Power Systems 26(1), 2011.
package matpower

import "math"

// BusType says which quantities a power flow fixes at a bus.
type BusType int

// The four bus types of the format, with the format's numbers.
const (
	PQ        BusType = 1 // load: P and Q are given
	PV        BusType = 2 // generator: P and the voltage magnitude are given
	Reference BusType = 3 // slack: voltage magnitude and angle are given
	Isolated  BusType = 4 // not connected: it and all equipment at it are out
)

// String is the manual's name of the type.
func (t BusType) String() string {
	switch t {
	case PQ:
		return "PQ"
	case PV:
		return "PV"
	case Reference:
		return "reference"
	case Isolated:
		return "isolated"
	}
	return "unknown"
}

// Case is one network as its file describes it.
type Case struct {
	Name    string  // the file's function name, or the name given to Read where it has none
	BaseMVA float64 // MVA base of every per-unit quantity
	Bus     []Bus
	// Gen are the generators, then for each DC line its from and its to end, as MATPOWER's toggle_dcline adds them.
	Gen    []Gen
	Branch []Branch
	DCLine []DCLine
	// HasCost says that the file has a gencost matrix; without one every Cost is
	// the zero Cost, which is enough for a power flow.
	HasCost bool
	// HasReactiveCost says that gencost has a second row per generator, for
	// reactive power.
	HasReactiveCost bool
	// HasFlows says that the case is a solved one: branches have their flows.
	HasFlows bool
	// HasMultipliers says that it is solved by an optimal power flow: prices of buses
	// and multipliers of limits are given, and flows.
	HasMultipliers bool
	// Controls are what a file of another program has to keep voltages and flows, in lines of results.ReadControls.
	Controls []string
	// Notes say in a sentence each what the case holds otherwise than a file of another program.
	Notes []string
	// Ignored are the fields of the file that are neither data of the network nor
	// refused, such as bus names.
	Ignored []Field
}

// Field is a named part of a file.
type Field struct {
	Name string // as written after the dot: "bus_name"
	Line int    // 1-based line of the file
}

// Bus is one row of the bus matrix.
type Bus struct {
	ID     int    // external number, positive, not necessarily consecutive
	Name   string // "" where the file has none
	Type   BusType
	Pd, Qd float64 // load, MW and MVAr
	Gs, Bs float64 // shunt: MW drawn and MVAr injected at 1 pu
	Area   int
	Vm, Va float64 // voltage, pu and degrees: the starting point
	BaseKV float64
	Zone   int
	VMax   float64 // pu
	VMin   float64 // pu
	// Of an optimum, zero where the file's row has thirteen columns.
	LamP, LamQ     float64 // derivative of the objective by the load, $/MWh and $/MVArh
	MuVMax, MuVMin float64 // multipliers of the limits, $/h per pu
	Line           int     // line of the file, 0 when the case was not read from one
}

// Gen is one row of the gen matrix with its row, or rows, of gencost.
type Gen struct {
	Bus        int     // bus number
	Name       string  // "" where the file has none
	Pg, Qg     float64 // output, MW and MVAr
	QMax, QMin float64 // MVAr
	Vg         float64 // voltage set-point, pu
	MBase      float64 // machine MVA base
	InService  bool
	PMax, PMin float64 // MW
	// The rest is zero where the file's row has only ten columns.
	Pc1, Pc2       float64 // P of the two ends of the capability curve, MW
	Qc1Min, Qc1Max float64 // Q limits at Pc1, MVAr
	Qc2Min, Qc2Max float64 // Q limits at Pc2, MVAr
	RampAGC        float64 // MW/min
	Ramp10, Ramp30 float64 // MW in 10 and in 30 minutes
	RampQ          float64 // MVAr/min
	APF            float64 // area participation factor
	// Multipliers of the limits, of an optimum, zero where the row has 21 columns.
	MuPMax, MuPMin float64 // $/MWh
	MuQMax, MuQMin float64 // $/MVArh
	Cost           Cost    // $/h of MW
	ReactiveCost   Cost    // $/h of MVAr, the zero Cost where the file has none
	DCLine         int     // row, from 1, of the DC line whose end it is; 0 for a generator
	Line           int
}

// DCLine is one row of the dcline matrix: Pt = Pf − Loss0 − Loss1·Pf. Its ends hold their voltage in a power flow.
type DCLine struct {
	From, To     int // bus numbers
	InService    bool
	Pf, Pt       float64 // MW into the line at from, out of it at to
	Qf, Qt       float64 // MVAr injected at the ends
	Vf, Vt       float64 // set-points, pu; 0 at an end that holds no voltage
	PMin, PMax   float64 // MW, of Pf where not negative, else of Pt
	QMinF, QMaxF float64 // MVAr
	QMinT, QMaxT float64 // MVAr
	Loss0, Loss1 float64 // MW, and MW per MW of Pf
	Cost         Cost    // $/h of Pf, the zero Cost where the file has none
	Line         int
}

// Branch is one row of the branch matrix: a line or a transformer in the
// format's π model, the tap at the from end.
type Branch struct {
	From, To            int     // bus numbers
	Name                string  // "" where the file has none
	R, X                float64 // series impedance, pu
	B                   float64 // total charging susceptance, pu
	RateA, RateB, RateC float64 // MVA; 0 is no limit
	Tap                 float64 // off-nominal ratio, 0 for a line (which acts as 1)
	ShiftDeg            float64 // phase shift, degrees, positive is a delay
	InService           bool
	AngMin, AngMax      float64 // limits of the angle difference, degrees; (0, 0) and ±360 are none
	// Of a solved case, zero where the file's row has thirteen columns: powers into the
	// branch at both ends, MW and MVAr.
	Pf, Qf, Pt, Qt float64
	// Multipliers of the limits, of an optimum: $/h per MVA at the from and the to end,
	// $/h per degree.
	MuSf, MuSt         float64
	MuAngMin, MuAngMax float64
	Line               int
}

// CostModel is how a cost row is written.
type CostModel int

// The models, with the format's numbers; 0 is "no cost given".
const (
	NoCost          CostModel = 0
	PiecewiseLinear CostModel = 1
	Polynomial      CostModel = 2
)

// Cost is one row of gencost: $/h as a function of MW (or MVAr).
type Cost struct {
	Model             CostModel
	Startup, Shutdown float64 // $
	// Coefficients of a polynomial, highest power first, as in the file.
	Coefficients []float64
	// Points of a piecewise linear cost, by strictly increasing Power. Beyond the
	// first and the last point the end segments go on.
	Points []Point
	Line   int
}

// Point is one corner of a piecewise linear cost.
type Point struct {
	Power float64 // MW or MVAr
	Cost  float64 // $/h
}

// Value is the cost in $/h at a power in MW (MVAr); NaN for the zero Cost.
func (c Cost) Value(power float64) float64 {
	switch c.Model {
	case Polynomial:
		v := 0.0
		for _, a := range c.Coefficients {
			v = v*power + a
		}
		return v
	case PiecewiseLinear:
		k := 1
		for k < len(c.Points)-1 && power > c.Points[k].Power {
			k++
		}
		a, b := c.Points[k-1], c.Points[k]
		return a.Cost + (power-a.Power)*(b.Cost-a.Cost)/(b.Power-a.Power)
	}
	return math.NaN()
}
