package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/version"
)

// Device is a plant in CUDA C++: a .cu file that includes the engine's gpc.cuh and policy.cuh, and makes the kernels of
// domain.DeviceCode of that Name. Functions without an execution space of their own are the device's: the compiler has to be told so.
type Device struct {
	Name, Text string
	Lanes      int  // that share a row of a roll-out or a gradient
	plans      bool // of DevicePlans
}

// Piece is a part of the Text that can be compiled by itself, with the macro GPC_PIECE as its Number.
type Piece struct {
	Name    string // of its image
	Number  int
	Kernels []string
}

// Pieces are the kernels of steps, then those of whole roll-outs whose networks have so many parts (include/policy.cuh).
func (d *Device) Pieces(parts int) []Piece {
	if d.plans {
		return []Piece{{Name: d.Name, Kernels: []string{"gpc_plans_" + d.Name}}}
	}
	steps := Piece{Name: d.Name}
	for _, kernel := range []string{"base", "gradient", "priority", "rollout"} {
		steps.Kernels = append(steps.Kernels, "gpc_domain_"+kernel+"_"+d.Name)
	}
	pieces := []Piece{steps}
	for _, s := range shapes {
		if s.Parts == parts {
			pieces = append(pieces, Piece{fmt.Sprint(d.Name, "_", s), s.Piece(), []string{fmt.Sprint("gpc_domain_policy_", d.Name, "_", s)}})
		}
	}
	return pieces
}

// shape is a kernel of whole roll-outs: 8·Tiles rows a block, and the Parts of its networks' numbers.
type shape struct{ Tiles, Parts int }

var shapes = []shape{{1, 1}, {2, 1}, {1, 2}, {2, 2}}

func (s shape) String() string { return fmt.Sprintf("%dx%d", 8*s.Tiles, s.Parts) }

// Piece is the number of its Piece.
func (s shape) Piece() int { return 10*s.Tiles + s.Parts }

// Shapes are those that the text has.
func (w *whole) Shapes() []shape { return shapes }

// DeviceOf writes the functions of problem p, which must be Equated, with the arithmetic that the exported C has. Its Name has a hash
// of the Text: equations that are others have another.
func DeviceOf(p domain.Problem) (*Device, error) {
	spec := p.Spec()
	episodes := []Episode{{S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize())}}
	y, err := equationsOf(p, episodes)
	if err != nil {
		return nil, err
	}
	symbol := identifier(spec.Name)
	w := wholeOf(&unit{Symbol: symbol, Macro: strings.ToUpper(symbol), Version: version.Version, Spec: spec}, p, y, episodes)
	w.Device = true
	w.generate()
	text, err := templates().execute("device.tmpl", w)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	sum := sha256.Sum256(text)
	name := symbol + "_" + hex.EncodeToString(sum[:8])
	return &Device{Name: name, Text: strings.ReplaceAll(string(text), w.DeviceName(), name), Lanes: w.Lanes()}, nil
}

// Lanes share a row of a roll-out: one has the action, two each entry of it, as far as a warp goes.
func (w *whole) Lanes() int {
	if w.NU <= 7 {
		return 16
	}
	return 32
}

// DeviceName stands for the name in the text, until the text has its hash.
func (w *whole) DeviceName() string { return "NAME_OF_" + w.Macro }

// Together is how many entries of state and action a lane takes a gradient along: each takes a number's memory beside every input.
func (w *whole) Together() int { return min(2, (w.NS+w.NU+w.Lanes()-1)/w.Lanes()) }

// AlongTogether are derivatives by those.
func (w *whole) AlongTogether() directional {
	return directional{w, "together", "TOGETHER", "_together"}
}
