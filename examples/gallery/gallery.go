// Package gallery collects the systems of the folders below: control problems that the
// field itself uses to compare with, each from its published definition and each written
// with equations alone. Copy a folder and change the equations.
package gallery

import (
	"slices"

	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/basins"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/chain"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/examples/gallery/doublependulum"
	"github.com/gpc-engine/gpc/examples/gallery/hvac"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor3d"
	"github.com/gpc-engine/gpc/examples/gallery/switched"
)

// Named is a system by its name, which it is made without.
type Named struct {
	Name   string
	System func() equations.System
}

var (
	systems = []Named{
		{"cartpole", cartpole.System}, {"cartpole-track", cartpole.Track}, {"cstr", cstr.System}, {"double-pendulum", doublependulum.System},
		{"chain9", func() equations.System { return chain.System(1) }}, {"chain21", func() equations.System { return chain.System(3) }},
		{"quadrotor", quadrotor.System}, {"quadrotor-3d", quadrotor3d.System}, {"hvac", hvac.System},
	}
	onward = []Named{
		{"cartpole-runs-on", func() equations.System { return runningOn(cartpole.System(), 20) }},
		{"cstr-runs-on", func() equations.System { return runningOn(cstr.System(), 40) }},
	}
	knowing = []Named{{"hvac-ahead", hvac.Ahead}, {"quadrotor-ahead", quadrotor.Ahead}}
)

// Switched are the systems of the folder of that name, whose inputs are on or off, or one of a few.
func Switched() []Named {
	return []Named{
		{"fishing", switched.Fishing}, {"f8", switched.F8}, {"double-tank", switched.DoubleTank}, {"van-der-pol", switched.VanDerPol}, {"calcium", switched.Calcium},
		{"subway", switched.Subway}, {"gears", switched.Gears}, {"three-tank", switched.ThreeTank}, {"heat-pump", switched.HeatPump}, {"water-tower", switched.WaterTower},
	}
}

// Ways are the systems of the folder basins, which have several ways round.
func Ways() []Named { return []Named{{"parking", basins.Parking}, {"arm", basins.Arm}} }

// All are all systems and plants below, by their names.
func All() []Named { return slices.Concat(systems, onward, knowing) }

func made(list []Named) (all []equations.System) {
	for _, n := range list {
		all = append(all, n.System())
	}
	return all
}

// Systems are all of them, in the order of docs/reference/gallery.md.
func Systems() []equations.System { return made(systems) }

// runningOn is a system without a clock and with that horizon.
func runningOn(y equations.System, horizon int) equations.System {
	y.Name, y.Description = y.Name+"-runs-on", y.Description+", which runs on"
	y.Horizon, y.Steps = horizon, 10*horizon
	return y
}
