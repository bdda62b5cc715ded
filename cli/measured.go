package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// alteration is what flags make of a case: its plant, what is measured of it, its guard.
type alteration = func(c *gpc.Case) (*gpc.Case, error)

// alter is a case after alterations, one after another.
func alter(c *gpc.Case, alterations ...alteration) (_ *gpc.Case, err error) {
	for _, f := range alterations {
		if c, err = f(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// measuredFlags adds the flags of a plant that is measured with errors, or late. The function that it returns gives
// the case with what they ask for.
func measuredFlags(cmd *cobra.Command) alteration {
	var noise, level, delay float64
	var states []string
	var window int
	f := cmd.Flags()
	f.Float64Var(&noise, "estimate", 0, "add measurement noise of this standard deviation, in units of each state's scale, and decide by an estimate (a case that declares what is measured takes no such flag)")
	f.StringSliceVar(&states, "estimate-from", nil, "with --estimate: measure the states of these `NAMES` alone, such as x,theta (default: every state)")
	f.IntVar(&window, "estimate-window", 0, "estimate from what was measured at so many last decisions at once, a moving horizon, such as 10; 0: by a Kalman filter (default: the case's); needs a measurement")
	f.Float64Var(&level, "keep-off", 0, "distance kept from every limit, in standard deviations of the closed loop; needs a measurement")
	f.Float64(gainsFlag, 0, "gains of the actuators are not known: each episode draws them from 1 − `SHARE` to 1 + SHARE, such as 0.1, and the filter estimates them beside the state; needs a measurement, and a map that was compiled with the same share")
	f.Float64Var(&delay, "delay", 0, "delay from measurement to action, in periods, such as 1 or 0.4 (default: the case's)")
	return func(c *gpc.Case) (_ *gpc.Case, err error) {
		if cmd.Flags().Changed("delay") {
			if c, err = c.Delayed(delay); err != nil {
				return nil, err
			}
		}
		if cmd.Flags().Changed("estimate") {
			if c, err = c.Noisy(noise, states); err != nil {
				return nil, err
			}
		} else if len(states) > 0 {
			return nil, BadInputf("--estimate-from %s: want --estimate too, the noise that they are measured with", strings.Join(states, ","))
		}
		if cmd.Flags().Changed("estimate-window") {
			if c, err = c.Windowed(window); err != nil {
				return nil, err
			}
		}
		if cmd.Flags().Changed(gainsFlag) && c.Definition().Measurement == nil {
			return nil, BadInputf("--%s: case %s measures its state exactly, so that nothing is estimated: add --estimate, or declare a Measurement", gainsFlag, c.Name())
		}
		if cmd.Flags().Changed("keep-off") {
			return c.Robust(level)
		}
		return c, nil
	}
}

// gainsFlag is one of measuredFlags. It makes another problem, so that it comes before a map is read and a plant chosen.
const gainsFlag = "uncertain-gains"

// uncertainGains gives a case the gains that --uncertain-gains asks for.
func uncertainGains(cmd *cobra.Command) alteration {
	return func(c *gpc.Case) (*gpc.Case, error) {
		if !cmd.Flags().Changed(gainsFlag) {
			return c, nil
		}
		share, err := cmd.Flags().GetFloat64(gainsFlag)
		if err != nil {
			return nil, err
		}
		if !(share > 0) || share >= 1 {
			return nil, BadInputf("--%s %v: want a share above 0 and below 1, such as 0.1 for gains of 0.9 to 1.1", gainsFlag, share)
		}
		return c.UncertainGains(share)
	}
}

// onPlant is a case in the plant that --plant asks for, "" for its own. NAME=FACTOR,… are of the plant of plain, which the case is
// but for what --shift says.
func (a *App) onPlant(c, plain *gpc.Case, plant string) (*gpc.Case, error) {
	if plant == "" {
		return c, nil
	}
	var other *gpc.Case
	var err error
	if strings.Contains(plant, "=") {
		var factors map[string]float64
		if factors, err = factorsOf(strings.Split(plant, ",")); err != nil {
			return nil, BadInputf("--plant %s: want a case, a system file, or NAME=FACTOR,… with each name once", plant)
		}
		other, err = plain.Shifted(factors)
	} else {
		other, err = a.Find(plant)
	}
	if err != nil {
		return nil, fmt.Errorf("--plant: %w", err)
	}
	return c.On(other)
}

// conditions are what episodes were driven with beside what their case says.
type conditions struct {
	noise, bias float64
	closedloop.Sensing
	shift map[string]float64
	plant *domain.OtherPlant
	steps int
}

// String has a line for each.
func (k conditions) String() string {
	var out strings.Builder
	if k.noise > 0 {
		fmt.Fprintf(&out, "measured with a noise of %g of each state's scale, by which decisions are made as it is\n", k.noise)
	}
	if k.bias > 0 {
		fmt.Fprintf(&out, "measured with an error of %g that stays\n", k.bias)
	}
	if text := sensed(k.Sensing); text != "" {
		fmt.Fprintln(&out, text)
	}
	if len(k.shift) > 0 {
		var factors []string
		for _, name := range slices.Sorted(maps.Keys(k.shift)) {
			factors = append(factors, fmt.Sprintf("%s × %g", name, k.shift[name]))
		}
		fmt.Fprintf(&out, "the plant is shifted: %s; solver and reference know it, the map does not\n", strings.Join(factors, ", "))
	}
	if k.plant != nil {
		fmt.Fprintf(&out, "the model is not the plant: the plant is %s; the reference knows it, map and solver do not\n", k.plant)
	}
	if k.steps > 0 {
		fmt.Fprintf(&out, "each episode has %d decisions\n", k.steps)
	}
	return out.String()
}

// sensing says by what a case decides.
func sensing(c *gpc.Case) string {
	s := closedloop.SensingOf(c.Definition())
	s.Disturbed = false // the reference's, which there is none of
	return sensed(s)
}

// sensed says by what decisions were made; "" where that is the state itself, in time.
func sensed(sensing closedloop.Sensing) string {
	var parts []string
	if sensing.Estimated {
		text := "decided by estimates of what the case says is measured"
		if sensing.MeasuredNoise > 0 {
			states := "every state"
			if len(sensing.MeasuredStates) > 0 {
				states = strings.Join(sensing.MeasuredStates, ", ")
			}
			text = fmt.Sprintf("decided by estimates: %s measured with a noise of %g of its scale", states, sensing.MeasuredNoise)
		}
		if sensing.Window > 0 {
			text += fmt.Sprintf(", at the last %d decisions at once", sensing.Window)
		}
		tightening := "nothing kept off the limits"
		if sensing.Tightening > 0 {
			tightening = fmt.Sprintf("%g deviations kept off every limit", sensing.Tightening)
		}
		if parts = append(parts, text, tightening); sensing.Disturbed {
			parts = append(parts, "the reference does not know what acts on the plant, so that costs may be below it")
		}
	}
	if sensing.Delay > 0 {
		parts = append(parts, fmt.Sprintf("delay from measurement to action, in periods: %g", sensing.Delay))
	}
	return strings.Join(parts, "; ")
}
