package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/version"
)

// Device is a plant in CUDA C++: a .cu file that includes the engine's gpc.cuh and policy.cuh, and makes the kernels of
// domain.DeviceCode of that Name. Functions without an execution space of their own are the device's: the compiler has to be told so.
type Device struct{ Name, Text string }

// together bounds the directions that a gradient is taken along at once: each takes a number's memory beside every input.
const together = 8

// DeviceOf writes the functions of problem p, which must be Equated, with the arithmetic that the exported C has. Its Name has a hash
// of the Text: equations that are others have another.
func DeviceOf(p domain.Problem) (*Device, error) {
	equated, ok := p.(Equated)
	spec := p.Spec()
	switch {
	case !ok:
		return nil, fmt.Errorf("export: case %s is not given by equations", spec.Name)
	case spec.Plan != 1:
		return nil, fmt.Errorf("export: plans of case %s have %d actions, device functions decide one", spec.Name, spec.Plan)
	}
	y, err := equated.Equations()
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	symbol := identifier(spec.Name)
	at := Episode{S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize())}
	w := wholeOf(&unit{Symbol: symbol, Macro: strings.ToUpper(symbol), Version: version.Version, Spec: spec}, p, y, []Episode{at})
	w.Device = true
	w.generate()
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "device.tmpl", w); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	name := symbol + "_" + hex.EncodeToString(sum[:8])
	return &Device{Name: name, Text: strings.ReplaceAll(b.String(), w.DeviceName(), name)}, nil
}

// DeviceName stands for the name in the text, until the text has its hash.
func (w *whole) DeviceName() string { return "NAME_OF_" + w.Macro }

// Together is how many entries of state and action a gradient is taken along at once.
func (w *whole) Together() int { return min(together, w.NS+w.NU) }

// AlongTogether are derivatives by those.
func (w *whole) AlongTogether() along { return along{w, "together", "TOGETHER", "_together"} }
