package integrator

import (
	"embed"
	"io/fs"

	"github.com/gpc-engine/gpc/domain"
)

//go:embed images/manifest.json images/*.zst
var embedded embed.FS

// Device names the kernels of integrator.cu and packs the constants in the order
// that its enumeration reads them.
func (y *System) Device() domain.DeviceCode {
	images, err := fs.Sub(embedded, "images")
	if err != nil {
		panic("integrator: " + err.Error())
	}
	p := &y.Params
	return domain.DeviceCode{Name: "integrator", Images: images, Lanes: 32, Policy: true, Constants: []float64{
		p.Dt, 0.5 * p.Dt * p.Dt, p.QGoal[0], p.QGoal[1], p.QSafe0[0], p.QSafe0[1], p.Ellipse.Rho[0], p.Ellipse.Rho[1],
		p.BetaU, p.LambdaNC, p.Omega, p.UMax, p.RMax, p.Ellipse.A, p.Ellipse.B, p.Ellipse.C0[0], p.Ellipse.C0[1],
		Horizon, psiScale, goalScale, escapeSteps, escapeTrims,
	}}
}
