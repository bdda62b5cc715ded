// Package gallery collects the systems of the folders below: control problems that the
// field itself uses to compare with, each from its published definition and each written
// with equations alone. Copy a folder and change the equations.
package gallery

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/chain"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/examples/gallery/doublependulum"
	"github.com/gpc-engine/gpc/examples/gallery/hvac"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor3d"
)

// Systems are all of them, in the order of docs/reference/gallery.md.
func Systems() []equations.System {
	return []equations.System{
		cartpole.System(), cartpole.Track(), cstr.System(), doublependulum.System(), chain.System(1), chain.System(3), quadrotor.System(), quadrotor3d.System(),
		hvac.System(),
	}
}

// RunningOn are plants of these that do not end: the cart stays on its rail, and the reactor goes on producing. Their plans look
// a second and twelve minutes ahead, and a test drives ten times as long.
func RunningOn() []equations.System {
	return []equations.System{runningOn(cartpole.System(), 20), runningOn(cstr.System(), 40)}
}

// runningOn is a system without a clock and with that horizon.
func runningOn(y equations.System, horizon int) equations.System {
	y.Name, y.Description = y.Name+"-runs-on", y.Description+", which runs on"
	y.Horizon, y.Steps = horizon, 10*horizon
	return y
}

// Foreseeing are plants of these that know what comes: their context has knots of it (dual.Along).
func Foreseeing() []equations.System { return []equations.System{hvac.Ahead(), quadrotor.Ahead()} }

// Cases makes the case of every system.
func Cases() ([]domain.Case, error) {
	var cases []domain.Case
	for _, y := range slices.Concat(Systems(), RunningOn(), Foreseeing()) {
		c, err := y.Case()
		if err != nil {
			return nil, fmt.Errorf("gallery: %w", err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}
