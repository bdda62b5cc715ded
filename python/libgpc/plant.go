//go:build cgo

package main

import (
	"cmp"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
)

// gains is the case with the gains of its actuators uncertain by a share; 0: they are as they are.
func gains(c *gpc.Case, share float64) (*gpc.Case, error) {
	if share == 0 {
		return c, nil
	}
	return c.UncertainGains(share)
}

// plant is another plant than the model: at most one of a case's name or file, the text of a system, and factors on parameters of
// the plant.
type plant struct {
	Name    string             `json:"plant"`
	System  string             `json:"plant_system"`
	Factors map[string]float64 `json:"plant_factors"`
}

// drives is c in that plant; factors are on the parameters of plain.
func (p *plant) drives(c, plain *gpc.Case) (*gpc.Case, error) {
	var other *gpc.Case
	var err error
	switch {
	case len(p.Factors) > 0:
		other, err = plain.Shifted(p.Factors)
	case p.Name != "" || p.System != "":
		other, err = findCase(p.Name, p.System)
	default:
		return c, nil
	}
	if err != nil {
		return nil, wrongf("plant: %w", err)
	}
	return c.On(other)
}

// measured is what is measured of a plant, and how late; null: what the case says.
type measured struct {
	Estimate *float64 `json:"estimate"`
	Window   *int     `json:"estimate_window"`
	KeepOff  *float64 `json:"keep_off"`
	Delay    *float64 `json:"delay"`
	// Informed loops are given states, or estimates of the caller's, whatever the session measures by.
	Informed bool `json:"informed"`
}

// or is m, what it does not say being as in other.
func (m measured) or(other measured) measured {
	if m.Delay = cmp.Or(m.Delay, other.Delay); !m.Informed {
		m.Estimate, m.Window, m.KeepOff = cmp.Or(m.Estimate, other.Estimate), cmp.Or(m.Window, other.Window), cmp.Or(m.KeepOff, other.KeepOff)
	}
	return m
}

// apply is c measured so. uncertain: its gains are, by the session's option.
func (m *measured) apply(c *gpc.Case, uncertain bool) (_ *gpc.Case, err error) {
	if m.Delay != nil {
		if c, err = c.Delayed(*m.Delay); err != nil {
			return nil, err
		}
	}
	if m.Informed {
		c = c.Informed()
	}
	if v := m.Estimate; v != nil {
		if c, err = c.Noisy(*v, nil); err != nil {
			return nil, err
		}
	}
	if m.Window != nil {
		if c, err = c.Windowed(*m.Window); err != nil {
			return nil, err
		}
	}
	if uncertain && c.Definition().Measurement == nil {
		return nil, wrongf("uncertain_gains: case %s measures its state exactly, so that nothing is estimated: give estimate too", c.Name())
	}
	if m.KeepOff != nil {
		return c.Robust(*m.KeepOff)
	}
	return c, nil
}

// computing are declared times of decisions, median and 99th percentile in seconds; none: they are not declared.
func computing(times []float64) (*closedloop.Computing, error) {
	if len(times) == 0 {
		return nil, nil
	}
	if len(times) != 2 {
		return nil, wrongf("computing has %d times, want the median and the 99th percentile", len(times))
	}
	c := &closedloop.Computing{P50: 1e6 * times[0], P99: 1e6 * times[1]}
	if err := c.Validate(); err != nil {
		return nil, wrongf("computing: %w", err)
	}
	return c, nil
}
