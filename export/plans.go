package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/domain"
)

// DevicePlans is the exact solver of a problem in CUDA C++, for plans of at most Steps steps, with the sizes of its memory.
type DevicePlans struct {
	Device
	Steps, Inputs, Actions, Moving, Margins, Objectives int
	Solution, Stride, Space                             int // where a job has its solution; numbers of a job, and of a warp
	MovingEntries                                       []int
	MarginSizes                                         []float64 // nil: all 1
}

// mostLaneBytes bound the derivatives of a step and its escape: a device keeps that for each of a hundred thousand threads.
const mostLaneBytes = 96 << 10

// planHead is how many numbers a job begins with.
const planHead = 16

// PlansOf writes the solver of problem p, which must be Optimised, for plans of at most the given steps.
func PlansOf(p domain.Problem, steps int, tolerance float64, iterations int) (*DevicePlans, error) {
	spec := p.Spec()
	episode := Episode{S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize())}
	w, err := newOptimal(p, &OptimalOptions{Tolerance: tolerance, Iterations: iterations, State: episode.S, Episodes: []Episode{episode}})
	if err != nil {
		return nil, err
	}
	if w.Solver.Factors != nil {
		return nil, fmt.Errorf("export: corners of case %s are followed on the CPU alone", spec.Name)
	}
	if bytes := 8 * w.blockNumbers(); bytes > mostLaneBytes {
		return nil, fmt.Errorf("export: the derivatives of a step of case %s take %d kB, a lane of a device has room for %d", spec.Name, bytes>>10, mostLaneBytes>>10)
	}
	w.Device, w.Horizon = true, steps
	text, err := templates().execute("plans.tmpl", w)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	sum := sha256.Sum256(text)
	name := w.Symbol + "_" + hex.EncodeToString(sum[:8])
	s := w.Solver
	return &DevicePlans{
		Device: Device{Name: name, Text: strings.ReplaceAll(string(text), w.DeviceName(), name), plans: true},
		Steps:  steps, Inputs: s.Inputs, Actions: w.NU, Moving: len(s.Moving), Margins: w.All, Objectives: w.NJ,
		Solution: w.solutionOffset(), Stride: w.solutionOffset() + w.solutionNumbers(), Space: w.PlanSpace(), MovingEntries: s.Moving, MarginSizes: s.MarginSizes,
	}, nil
}

// solutionNumbers are those of a PlanSolution.
func (w *whole) solutionNumbers() int {
	n, a := w.Horizon, len(w.Solver.Moving)
	return n*(3*w.NU+w.All+w.NU*w.NU+a*w.NU) + (n+1)*(w.Solver.Inputs+a)
}

// solutionOffset are the numbers of a job before its solution.
func (w *whole) solutionOffset() int {
	a := len(w.Solver.Moving)
	return planHead + w.Solver.Inputs + w.NJ + w.All + 2*a + a*a
}

// PlanSpace are the numbers that lay_all takes.
func (w *whole) PlanSpace() int {
	n, a, d := w.Horizon, len(w.Solver.Moving), w.Solver.Width
	x, all := w.Solver.Inputs, max(1, w.All)
	u, j := w.NU, w.NJ
	iterate := (n+1)*x + n*(2*u+x+2*j+3*all+a)
	return 2*iterate + n*(3*all+4*u+a*d+all*d+2*j*d+d+d*d+d+a+u*u+a*u+u) + (n+1)*(3*a+a*a) + a + a*d + d*d + a + all + 2*a + a*a
}

// Of the loops that the steps of a plan share: one after the other, or on a device by the lanes of a warp.
func (w *whole) Steps() string {
	return w.onDevice("for (t = 0; t < p->steps; t++)", "for (t = gpc_lane(); t < p->steps; t += GPC_WARP)")
}
func (w *whole) Points() string {
	return w.onDevice("for (t = 0; t <= p->steps; t++)", "for (t = gpc_lane(); t <= p->steps; t += GPC_WARP)")
}
func (w *whole) First() string   { return w.onDevice("", "gpc_lane() > 0 ? 0.0 : ") }
func (w *whole) Joined() string  { return w.onDevice("", "    sum = gpc::warp_sum64(sum);\n") }
func (w *whole) Meet() string    { return w.onDevice("", "\n    __syncwarp();") }
func (w *whole) Met() string     { return w.onDevice("", "    __syncwarp();\n") }
func (w *whole) Lead() string    { return w.onDevice("", "gpc_lane() == 0 && ") }
func (w *whole) Once() string    { return w.onDevice("", "if (gpc_lane() == 0) ") }
func (w *whole) Scratch() string { return w.onDevice("static ", "") }
func (w *whole) Alone() string   { return w.onDevice("", "GPC_ALONE ") }

func (w *whole) onDevice(one, many string) string {
	if w.Device {
		return many
	}
	return one
}
