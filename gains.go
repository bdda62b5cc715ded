package gpc

import (
	"fmt"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/systemfile"
)

// UncertainGains is the case in which the gain of every actuator is a parameter, which the scenario draws from 1 − share to 1 + share:
// equations.System.UncertainGains of its system, with what is measured and how late as here. With a Measurement, which may be given
// afterwards (Measured), the gains are estimated beside the state. Other plants come afterwards: Shifted, On, Driven. The case is
// named as its system with "-gains" behind it and is another problem, so that it needs a map of its own. Its traces are verified without it
// where the text of its functions is known (equations.System.Source).
func (c *Case) UncertainGains(share float64) (*Case, error) {
	p, ok := c.def.Problem.(*equations.Problem)
	plant, generic := c.def.Plant.(*closedloop.Simulation)
	switch {
	case !ok || !generic:
		return nil, badInputf("case %s is no system of equations (equations.System) in its own plant: only such a system has gains of actuators that can be uncertain", c.Name())
	case c.def.Learned != nil || len(c.def.Methods) > 0:
		return nil, badInputf("case %s has a map or methods of its own, which know no gains of its actuators", c.Name())
	case c.gainShare() > 0:
		return nil, badInputf("the gains of case %s are uncertain already", c.Name())
	case c.def.Other != nil || len(c.def.Shift) > 0 || c.remade || plant.Steps > 0:
		return nil, badInputf("case %s is in another plant already: make the gains uncertain first", c.Name())
	}
	y := p.System()
	y.Measurement, y.Delay = c.def.Measurement, c.def.Delay.Periods
	with, err := y.UncertainGains(share)
	if err != nil {
		return nil, BadInput(err)
	}
	def, err := with.Case()
	if err != nil {
		return nil, BadInput(err)
	}
	def.Guard, def.Level = c.def.Guard, c.def.Level
	if y.Source != nil {
		text, err := fileText(def.Problem.(*equations.Problem))
		if err != nil {
			return nil, BadInput(fmt.Errorf("case %s with uncertain gains: %w", c.Name(), err))
		}
		systemfile.Embed(&def, text)
	}
	made := c.defined(def)
	made.system = nil
	return made, nil
}

// gainShare is the share by which the gains of the case are uncertain, 0 where they are not.
func (c *Case) gainShare() float64 {
	p, ok := c.def.Problem.(*equations.Problem)
	if !ok {
		return 0
	}
	share, _ := p.UncertainGains()
	return share
}

func fileText(p *equations.Problem) ([]byte, error) {
	f, err := systemfile.Of(p)
	if err != nil {
		return nil, err
	}
	return f.Marshal()
}

// withGains is a measurement of a case, nil for none, in which uncertain gains are not known.
func (c *Case) withGains(m *domain.Measurement) *domain.Measurement {
	p, ok := c.def.Problem.(*equations.Problem)
	if !ok || m == nil {
		return m
	}
	_, unknown := p.UncertainGains()
	return m.With(unknown)
}
