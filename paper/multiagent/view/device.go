package view

import (
	"embed"
	"io/fs"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

//go:embed images/manifest.json images/*.zst
var embedded embed.FS

// Device names the kernels of view.cu and packs the constants in the order that its
// enumeration reads them.
func (v *View) Device() domain.DeviceCode {
	images, err := fs.Sub(embedded, "images")
	if err != nil {
		panic("view: " + err.Error())
	}
	p := &v.system.Params
	l, lambda := &p.Limits, &p.Lambda
	constants := []float64{
		p.Dt, l.VMin, l.VMax, l.AMin, l.AMax, l.OmegaMax, l.DuMax[0], l.DuMax[1],
		lambda[world.GoalTerm], lambda[world.EffortTerm], lambda[world.ViolationTerm], lambda[world.SmoothnessTerm] / float64(p.H),
		v.soft.Stiffness, v.soft.Buffer, v.soft.Knee, ApproachGain, TurnGain, wayReached, closeToGoal,
		positionScale, viewReach, intrusionReach, fanReach, fanLow, world.GoalScale, world.MarginScale, world.NoMargin,
	}
	for _, k := range knotSteps {
		constants = append(constants, float64(k))
	}
	for _, m := range append(fan[:], manoeuvre{}) {
		constants = append(constants, float64(m.hold), m.cos, m.sin, m.speed)
	}
	return domain.DeviceCode{Name: "view", Images: images, Constants: constants, Warp: true}
}
