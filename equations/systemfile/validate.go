package systemfile

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
)

// Bounds of a header. They leave room for a hundred times the systems that are known.
const (
	maxText      = 256     // bytes of a name, unit or kind of limit
	maxAbout     = 4096    // bytes of a description
	maxEntries   = 4096    // of a list
	maxSteps     = 1 << 20 // of an episode, and of the escape
	maxSubsteps  = 1 << 16
	autoWork     = 64      // substeps that "auto" counts as, until they are chosen
	maxLimits    = 1 << 16 // margins of an action and of the escape after it
	maxWork      = 1 << 21 // operations of an action's margins
	maxHint      = 1 << 24 // of an integer of training and solver
	maxConstants = 1 << 16 // bytes
)

// validate says what of a file cannot be, by the place in it. What System.Case finds is not looked for here.
func (f *File) validate() error {
	h := &f.header
	return errors.Join(h.texts(), h.lists(), h.sizes(), h.hints(), f.checkFunctions())
}

func (h *header) texts() error {
	if err := printing("name", h.Name, maxText); err != nil || h.Name == "" {
		return errors.Join(err, required("name", h.Name))
	}
	if strings.ContainsAny(h.Name, `/\`) {
		return fmt.Errorf("name %q has a slash, which no name of a file may have", h.Name)
	}
	return printing("description", h.Description, maxAbout)
}

func required(place, text string) error {
	if text == "" {
		return fmt.Errorf("%s is empty", place)
	}
	return nil
}

// printing accepts texts that every reader writes the same way.
func printing(place, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s has %d bytes, want at most %d", place, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %.64q is not UTF-8", place, s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%s %.64q has the character %U, which does not print", place, s, r)
		}
	}
	return nil
}

func (h *header) lists() error {
	for _, list := range []struct {
		field     string
		variables []variable
	}{{"state", h.State}, {"context", h.Context}, {"action", h.Action}, {"objectives", h.Objectives}, {"margins", h.Margins}, {"scenario", h.Scenario}} {
		if err := variables(list.field, list.variables); err != nil {
			return err
		}
	}
	if len(h.Soft) > len(h.Margins) {
		return fmt.Errorf("soft has %d entries, want at most one for each of the %d margins", len(h.Soft), len(h.Margins))
	}
	if len(h.Rates) > len(h.Action) {
		return fmt.Errorf("rates has %d entries, want one for each of the %d entries of action", len(h.Rates), len(h.Action))
	}
	if len(h.Blocks) > maxEntries {
		return fmt.Errorf("blocks has %d entries, want at most %d", len(h.Blocks), maxEntries)
	}
	return errors.Join(h.checkSwitches(), h.checkMeasurement())
}

func (h *header) checkSwitches() error {
	if len(h.Switches) > len(h.Action) {
		return fmt.Errorf("switches has %d entries, want at most one for each of the %d entries of action", len(h.Switches), len(h.Action))
	}
	for i := range h.Switches {
		w := &h.Switches[i]
		place := fmt.Sprintf("switches[%d]", i)
		switch {
		case !slices.ContainsFunc(h.Action, func(v variable) bool { return v.Name == w.Action }):
			return fmt.Errorf("%s.action %.64q is not an entry of action", place, w.Action)
		case slices.ContainsFunc(h.Switches[:i], func(o switched) bool { return o.Action == w.Action }):
			return fmt.Errorf("%s.action %q appears twice", place, w.Action)
		case len(w.Values) > maxEntries:
			return fmt.Errorf("%s.values has %d entries, want at most %d", place, len(w.Values), maxEntries)
		case len(w.Least) != 0 && len(w.Least) != len(w.Values):
			return fmt.Errorf("%s.least has %d entries, want one for each of the %d values, or leave it out", place, len(w.Least), len(w.Values))
		case w.Objective != "" && !slices.ContainsFunc(h.Objectives, func(v variable) bool { return v.Name == w.Objective }):
			return fmt.Errorf("%s.objective %.64q is not an entry of objectives", place, w.Objective)
		case w.Initial != nil && !slices.Contains(w.Values, *w.Initial):
			return fmt.Errorf("%s.before is %v, which is none of its values", place, *w.Initial)
		}
		for k, v := range w.Values {
			if k > 0 && !(w.Values[k-1] < v) {
				return fmt.Errorf("%s.values[%d] is %v after %v, want ascending numbers, each once", place, k, v, w.Values[k-1])
			}
		}
	}
	return nil
}

// variables holds a list of them to its bounds, none twice.
func variables(field string, list []variable) error {
	if len(list) > maxEntries {
		return fmt.Errorf("%s has %d entries, want at most %d", field, len(list), maxEntries)
	}
	for i, v := range list {
		if err := v.validate(fmt.Sprintf("%s[%d]", field, i)); err != nil {
			return err
		}
		if slices.ContainsFunc(list[:i], func(w variable) bool { return w.Name == v.Name }) {
			return fmt.Errorf("%s[%d].name %q appears twice", field, i, v.Name)
		}
	}
	return nil
}

func (v *variable) validate(place string) error {
	if err := errors.Join(required(place+".name", v.Name), printing(place+".name", v.Name, maxText), printing(place+".unit", v.Unit, maxText),
		printing(place+".limit", v.Limit, maxText)); err != nil {
		return err
	}
	switch {
	case (v.Lo == nil) != (v.Hi == nil):
		return fmt.Errorf("%s has only one of lo and hi, want both or neither", place)
	case v.Lo != nil && !(*v.Lo < *v.Hi):
		return fmt.Errorf("%s ranges from %v to %v, want lo < hi", place, *v.Lo, *v.Hi)
	case v.Tolerance < 0:
		return fmt.Errorf("%s.tolerance is %v, want it ≥ 0", place, v.Tolerance)
	case v.Kind != "" && v.Kind != collision:
		return fmt.Errorf("%s.kind is %q, want %q, or leave it out", place, v.Kind, collision)
	}
	return nil
}

func (h *header) sizes() error {
	switch {
	case h.Steps < 1 || h.Steps > maxSteps:
		return fmt.Errorf("steps is %d, want 1 to %d", h.Steps, maxSteps)
	case !(h.StepSeconds > 0):
		return fmt.Errorf("step_s is %v, want it above 0", h.StepSeconds)
	case h.Horizon < 0 || h.Horizon > maxSteps:
		return fmt.Errorf("horizon is %d, want 1 to %d, or leave it out where episodes end", h.Horizon, maxSteps)
	case !(h.Delay >= 0) || h.Delay > float64(h.Steps-1):
		return fmt.Errorf("delay is %v periods, want 0 to %d, one less than steps", h.Delay, h.Steps-1)
	case h.Delay != math.Trunc(h.Delay) && h.Integrator == nil:
		return fmt.Errorf("delay is %v periods, want a whole number: only a system with an integrator has states within a period", h.Delay)
	case h.EscapeSteps < 0 || h.EscapeSteps > maxSteps || len(h.Margins)*(1+h.EscapeSteps) > maxLimits:
		return fmt.Errorf("escape_steps is %d, want 0 to %d, and at most %d limits in all these steps", h.EscapeSteps, maxSteps, maxLimits)
	case h.MarginTolerance < 0:
		return fmt.Errorf("margin_tolerance is %v, want it ≥ 0", h.MarginTolerance)
	case len(h.Constants) > maxConstants:
		return fmt.Errorf("constants has %d bytes, want at most %d", len(h.Constants), maxConstants)
	}
	if i := h.Integrator; i != nil {
		switch {
		case i.Method != explicit && i.Method != implicit:
			return fmt.Errorf("integrator.method is %.64q, want %q or %q", i.Method, explicit, implicit)
		case !(i.Span > 0):
			return fmt.Errorf("integrator.span_s is %v, want it above 0", i.Span)
		case i.Substeps < 0 || i.Substeps > maxSubsteps:
			return fmt.Errorf("integrator.substeps is %d, want 1 to %d, or \"auto\"", int(i.Substeps), maxSubsteps)
		case !(i.Error >= 0) || i.Error > 0 && i.Substeps != dual.Auto:
			return fmt.Errorf("integrator.error is %v, want it above 0, and with it \"auto\" as the substeps", i.Error)
		}
	}
	return h.shapes()
}

func (h *header) shapes() error {
	if len(h.Picture) > maxEntries {
		return fmt.Errorf("picture has %d entries, want at most %d", len(h.Picture), maxEntries)
	}
	for i, s := range h.Picture {
		if !slices.Contains(roles, s.Role) {
			return fmt.Errorf("picture[%d].role is %.64q, want one of %s", i, s.Role, strings.Join(roles, ", "))
		}
		if s.Points < 1 || s.Points > maxEntries || s.Disc != (s.Points == 1) || s.Body < 0 || s.Body > maxEntries {
			return fmt.Errorf("picture[%d] has %d points, disc %t and body %d; want a disc of one point or a line of more points, and a body from 0 to %d", i, s.Points, s.Disc, s.Body, maxEntries)
		}
	}
	return nil
}

// hints are numbers that say how much is to be done: none is without bound.
func (h *header) hints() error {
	t, o, n := &h.Training, &h.Solver, &h.Navigation
	for _, v := range []struct {
		place string
		value int
	}{
		{"training.latent", t.Latent}, {"training.hidden", t.Hidden}, {"training.encoder", t.Encoder}, {"training.scenarios", t.Scenarios},
		{"training.weights", t.Weights}, {"training.manifold_epochs", t.ManifoldEpochs}, {"training.rollout_epochs", t.RolloutEpochs},
		{"training.batch", t.Batch}, {"training.codes", t.Codes}, {"training.local_neighbours", t.LocalNeighbours},
		{"solver.horizon", o.Horizon}, {"solver.keep", o.Keep}, {"solver.starts", o.Starts}, {"solver.iterations", o.Iterations},
		{"solver.perturbed", o.Perturbed}, {"solver.follow", o.Follow}, {"solver.library", o.Library},
		{"navigation.top_k", n.TopK}, {"navigation.neighbours", n.Neighbours}, {"navigation.rotation_blocks", n.RotationBlocks},
		{"weight_design.reference", h.WeightDesign.Reference},
	} {
		if v.value < 0 || v.value > maxHint {
			return fmt.Errorf("%s is %d, want 0 to %d", v.place, v.value, maxHint)
		}
	}
	if wide := max(t.Latent, t.Hidden, t.Encoder); wide > maxEntries {
		return fmt.Errorf("training: a layer has %d units, want at most %d", wide, maxEntries)
	}
	return printing("weight_design.name", h.WeightDesign.Name, maxText)
}

// signature is what a function of a system reads and writes, by the names of docs/reference/program.md.
type signature struct {
	name     string
	in, out  string // arguments, one letter or word each
	required bool
}

// signatures are those of the required and optional functions.
func (h *header) signatures() []signature {
	list := []signature{
		{"objectives", "s c u sNext", "j", true}, {"margins", "s c u sNext", "m", len(h.Margins) > 0}, {"escape", "s c", "u", h.EscapeSteps > 0},
		{"initial", "p", "s c", true}, {"urgency", "s c", "delta", false}, {"failed", "s c", "failed", false}, {"picture", "s c", "shapes", len(h.Picture) > 0},
		{outputsFunction, "s c u", "y", false},
	}
	if h.Integrator != nil {
		return append(list, signature{"ode", "s c u", "ds", true}, signature{"step", "s c u sNext", "cNext", true})
	}
	return append(list, signature{"step", "s c u", "sNext cNext", true})
}

// entries is the size of an argument.
func (h *header) entries(argument string) int {
	shapes := 0
	for _, s := range h.Picture {
		shapes += s.numbers()
	}
	context := len(h.Context)
	if h.Horizon == 0 { // the clock
		context++
	}
	outputs := 0
	if h.Measurement != nil {
		outputs = len(h.Measurement.Outputs)
	}
	return map[string]int{
		"s": len(h.State), "sNext": len(h.State), "ds": len(h.State), "c": context, "cNext": context, "u": len(h.Action),
		"j": len(h.Objectives), "delta": len(h.Objectives), "m": len(h.Margins), "p": len(h.Scenario), "failed": 1, "shapes": shapes, "y": outputs,
	}[argument]
}

// checkFunctions requires the header's functions, no others, each of the right sizes.
func (f *File) checkFunctions() error {
	h := &f.header
	if h.Measurement == nil && f.program.Function(outputsFunction) != nil {
		return errors.New("program: the function outputs needs the field measurement, which names each output")
	}
	names := map[string]bool{}
	for _, g := range h.signatures() {
		names[g.name] = true
		function := f.program.Function(g.name)
		if function == nil {
			if g.required {
				return fmt.Errorf("program has no function %q", g.name)
			}
			continue
		}
		if err := errors.Join(h.checkArguments(g.name+" reads", function.Inputs(), g.in), h.checkArguments(g.name+" writes", function.Outputs(), g.out)); err != nil {
			return fmt.Errorf("program: %w", err)
		}
	}
	for i, g := range f.program.Functions {
		if !names[g.Name()] {
			return fmt.Errorf("program: functions[%d].name %q is not a function that a system has", i, g.Name())
		}
	}
	switch {
	case h.EscapeSteps == 0 && f.program.Function("escape") != nil:
		return errors.New("program: the function escape needs escape_steps of at least 1, escape_steps is 0")
	case len(h.Margins) == 0 && f.program.Function("margins") != nil:
		return errors.New("program: the function margins needs the field margins, which names each margin")
	case len(h.Picture) == 0 && f.program.Function("picture") != nil:
		return errors.New("program: the function picture needs the field picture, which describes each shape")
	}
	return errors.Join(f.checkClock(), f.checkCost())
}

// checkClock compares the clock of the program's step, if any, with the number of steps.
func (f *File) checkClock() error {
	if f.header.Horizon > 0 {
		return nil
	}
	step := f.program.Function("step")
	in, out := make([]float64, step.Entries()), make([]float64, step.Results())
	step.Evaluate(in, out)
	if tick, expected := out[len(out)-1], 1/float64(f.header.Steps); tick != expected {
		return fmt.Errorf("program: step moves the clock by %v, want 1/steps, %v", tick, expected)
	}
	return nil
}

func (h *header) checkArguments(place string, arguments []program.Argument, expected string) error {
	var expectedText []string
	for _, name := range strings.Fields(expected) {
		expectedText = append(expectedText, fmt.Sprintf("%s[%d]", name, h.entries(name)))
	}
	var text []string
	for _, a := range arguments {
		text = append(text, fmt.Sprintf("%s[%d]", a.Name, a.Size))
	}
	if !slices.Equal(text, expectedText) {
		return fmt.Errorf("%s %s, want %s", place, strings.Join(text, ", "), strings.Join(expectedText, ", "))
	}
	return nil
}

// checkCost refuses a file whose one decision would take minutes, such as a long escape of many substeps.
func (f *File) checkCost() error {
	work := 0.0
	for _, g := range f.program.Functions {
		times := 1.0
		if g.Name() == "ode" {
			// Radau's stages are solved for by a few rounds, and differentiated by every state.
			times = float64(cmp.Or(f.header.Integrator.Substeps, autoWork)) * 4
			if f.header.Integrator.Method == implicit {
				times *= 4 * (1 + float64(len(f.header.State)))
			}
		}
		work += times * float64(g.Operations())
	}
	if work *= float64(1 + f.header.EscapeSteps); work > maxWork || math.IsNaN(work) {
		return fmt.Errorf("program: the margins of one decision take %.3g operations, want at most %d", work, maxWork)
	}
	return nil
}
