package domain

// Chart is a network of buses, branches between them and units at them. Powers are in per unit
// of BaseMVA; a limit that is none is infinite.
type Chart struct {
	BaseMVA  float64       `json:"base_mva"`
	Buses    []ChartBus    `json:"buses"`
	Branches []ChartBranch `json:"branches"`
	Units    []ChartUnit   `json:"units"`
}

// ChartBus has limits of its voltage, pu. The Reference holds the angle 0.
type ChartBus struct {
	Name      string  `json:"name"`
	VMin      float64 `json:"v_min"`
	VMax      float64 `json:"v_max"`
	Reference bool    `json:"reference"`
}

// ChartBranch joins two buses by their places in Chart.Buses; Rate is the largest apparent
// power at either end. One that is Open carries none.
type ChartBranch struct {
	From int     `json:"from"`
	To   int     `json:"to"`
	Rate float64 `json:"rate"`
	Open bool    `json:"open"`
}

// ChartUnit is at the bus of that place, with limits of active and reactive power.
type ChartUnit struct {
	Bus  int     `json:"bus"`
	PMin float64 `json:"p_min"`
	PMax float64 `json:"p_max"`
	QMin float64 `json:"q_min"`
	QMax float64 `json:"q_max"`
}

// OperatingPoint is a solved network: one entry a bus, a branch or a unit of its Chart. Its
// slices are the caller's.
type OperatingPoint struct {
	V     []float64 `json:"v"`     // voltage magnitude by bus, pu
	Angle []float64 `json:"angle"` // of the voltage by bus, rad
	Pd    []float64 `json:"pd"`    // load by bus
	Qd    []float64 `json:"qd"`
	P     []float64 `json:"p"` // active power into the from end, by branch
	S     []float64 `json:"s"` // apparent power at the more loaded end, by branch
	Pg    []float64 `json:"pg"`
	Qg    []float64 `json:"qg"` // of the units
}
