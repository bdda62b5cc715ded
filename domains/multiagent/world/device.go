package world

import (
	"embed"
	"io/fs"

	"github.com/gpc-engine/gpc/domain"
)

//go:embed images/manifest.json images/*.zst
var embedded embed.FS

var _ domain.Device = (*System)(nil)

// Device names the kernels of multiagent.cu and packs the constants in the order
// that its enumeration reads them.
func (y *System) Device() domain.DeviceCode {
	images, err := fs.Sub(embedded, "images")
	if err != nil {
		panic("multiagent: " + err.Error())
	}
	p, l := &y.Params, &y.Params.Limits
	constants := []float64{
		p.Dt, p.DSafe, p.Workspace[0], p.Workspace[1], p.Workspace[2], p.Workspace[3],
		l.VMin, l.VMax, l.AMin, l.AMax, l.OmegaMax, l.DuMax[0], l.DuMax[1],
	}
	constants = append(constants, p.Lambda[:]...)
	return domain.DeviceCode{Name: "multiagent", Images: images, Constants: append(constants, p.EtaG, float64(p.H), GoalScale, MarginScale)}
}
