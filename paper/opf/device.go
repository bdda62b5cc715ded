package opf

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/gpc-engine/gpc/domain"
)

//go:embed images/manifest.json images/*.zst
var embedded embed.FS

// Limits of the device functions; a network beyond one is dispatched with its
// gradients on the host.
const (
	// devicePositions of the factors: the program names two of them in 32 bits.
	devicePositions = 1 << 16
	// deviceShared is the dynamic shared memory of a block that every device from
	// compute capability 8.0 on gives; a larger working set lies in device memory.
	deviceShared = 96 << 10
	// deviceNear is the working set up to which the response to the set-points lies in shared memory.
	deviceNear = 32 << 10
	// deviceWorkspace is the device memory of one row in flight. It grows with the
	// limits times the units of the network: 54 units and 118 buses are 0.3 MB.
	deviceWorkspace = 16 << 20
	// deviceActive is mostActive of device_change.cuh: constraints that a change of the
	// set-points is held at, at most. A candidate that needs more is left where it came
	// to, and so with a negative margin.
	deviceActive = 126
	// devicePivots of a change at most.
	devicePivots = 4 * deviceActive
)

// Device names the kernels of opf.cu and packs the network for them. It says what
// is in the way where the network is larger than they hold.
func (y *System) Device() domain.DeviceCode { return y.device() }

func newDevice(y *System) domain.DeviceCode {
	if y.security != nil {
		return domain.DeviceCode{Reason: "limits after outages have no device functions"}
	}
	images, err := fs.Sub(embedded, "images")
	if err != nil {
		panic("opf: " + err.Error())
	}
	p := newDevicePack(y)
	code := domain.DeviceCode{
		Images: images, Scored: true, Warp: true,
		GradientShared: 8 * 3 * len(y.layout.rated), RolloutShared: 8 * p.fast, Workspace: 8 * p.slow,
	}
	if p.fast*8 > deviceShared {
		code.RolloutShared, code.Workspace = 0, code.Workspace+8*p.fast
	}
	if code.Reason = p.tooLarge(y, &code); code.Reason != "" {
		return domain.DeviceCode{Reason: code.Reason}
	}
	code.Name = "opf"
	p.pack()
	code.Constants, code.Indices = p.finish(code.RolloutShared > 0, code.Workspace/8)
	return code
}

// tooLarge says which limit of the device functions the network is beyond.
func (p *devicePack) tooLarge(y *System, code *domain.DeviceCode) string {
	switch {
	case p.pattern.all > devicePositions:
		return fmt.Sprintf("the factors of its power flow have %d entries, the device functions name at most %d", p.pattern.all, devicePositions)
	case code.Workspace > deviceWorkspace:
		return fmt.Sprintf("a row of the roll-out needs %d bytes for %d limits and %d set-points, the device functions have at most %d", code.Workspace, p.limits, len(p.projection.control), deviceWorkspace)
	case code.GradientShared > deviceShared:
		return fmt.Sprintf("the gradient needs %d bytes of shared memory for %d rated branches, the device functions have at most %d", code.GradientShared, len(y.layout.rated), deviceShared)
	}
	return ""
}
