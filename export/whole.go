package export

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/export/ccode"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/model"
)

// Method is the one that Whole writes, by the name that the navigator has it under: direct whose guard neither searches nor
// asks a solver.
const Method = "direct-no-rescue"

// Equated is implemented by a problem that knows its equations as data, such as equations.Problem: what a whole
// controller is made of besides its map.
type Equated interface {
	Equations() (*program.System, error)
}

// Episode is a closed loop that this module has driven, for the written test: where it began, and what came of it.
type Episode struct {
	S, C []float64 // at its start
	End  []float64 // the state at its end
	Cost float64   // Σ σᵀJ under the adaptive preference
	Safe bool
	// Decisions that were off the map, and whose roll-out failed.
	OffMap, Guarded int
	// Of a plant with a Measurement, at each decision: the errors of what was measured; and what acted on the plant behind the
	// action, on the states and on the unknown entries of the context, nil where nothing does.
	Noise, Acts [][]float64
}

// Whole are the options of a whole controller.
type Whole struct {
	Half  bool         // weights rounded to float16 and stored so
	Guard domain.Guard // of the case
	// FMU adds both as units of FMI 2.0, gpc_NAME_controller.fmu and gpc_NAME_plant.fmu; Start is the scenario that the
	// plant's begins with unless it is told.
	FMU   bool
	Start []float64
	// Limit is that of the residual, above which an observation is off the map, as one is outside the Envelope, the least and the
	// largest of each measured component and entry of the context; nil: there is none.
	Limit    float64
	Envelope [][]float64
	// Episodes were driven by Method with the map m, or with half by its Rounded; there must be at least one.
	Episodes []Episode
	// Observed is what comes before the controller; nil: it decides by the state as it is.
	Observed *Observed
}

// Controller writes the whole controller of problem p, which must be Equated, and its plant to the folder dir, which must be Vacant: the
// map m, projection, guard, escape and rest, with a test that drives both from where the episodes began.
func Controller(ctx context.Context, dir string, m *model.Model, p domain.Problem, opt Whole) (*Result, error) {
	u, err := newWhole(m, p, &opt)
	if err != nil {
		return nil, err
	}
	packed, err := u.save(ctx, dir, opt.FMU)
	if err != nil {
		return nil, err
	}
	r := u.result(dir, packed, u.operations().decision)
	r.Base, r.MulAdds = "copied", m.EncoderX.MulAdds()+m.DecoderU.MulAdds()
	return r, nil
}

// result says what was written, of a controller that takes so many operations without an observer.
func (w *whole) result(dir string, packed []string, operations int) *Result {
	return &Result{
		Case: w.Spec.Name, Dir: dir, Symbol: w.Symbol, SHA256: w.SHA256, Half: w.unit.Half, ConstantBytes: w.ConstantBytes, ScratchBytes: w.ScratchBytes + w.KeptBytes(), Method: w.Method,
		Episodes: len(w.Episodes), Unsafe: &w.Unsafe, Operations: w.decision(operations), LoopBytes: w.allBytes(), FMU: packed, Libm: strings.Fields(strings.ReplaceAll(w.Libm, ",", " ")),
	}
}

// equationsOf are those of a problem that C can decide, with episodes to test with.
func equationsOf(p domain.Problem, episodes []Episode) (*program.System, error) {
	equated, ok := p.(Equated)
	switch spec := p.Spec(); {
	case !ok:
		return nil, fmt.Errorf("export: case %s is not given by equations", spec.Name)
	case spec.Plan != 1:
		return nil, fmt.Errorf("export: plans of case %s have %d actions, a controller in C decides one", spec.Name, spec.Plan)
	case len(episodes) == 0:
		return nil, errors.New("export: no episodes to test with, want at least 1")
	}
	y, err := equated.Equations()
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return y, nil
}

// save writes all files to the folder, with units of FMI 2.0 where they are wanted, whose names it returns.
func (w *whole) save(ctx context.Context, dir string, fmu bool) (packed []string, err error) {
	files, err := w.write()
	if err != nil {
		return nil, err
	}
	if fmu {
		units, err := w.units(ctx, files)
		if err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		for _, f := range units {
			packed = append(packed, f.Name)
		}
		files = append(files, units...)
	}
	return packed, durable.WriteFolder(dir, files)
}

// whole is a controller with its plant: what the templates read.
type whole struct {
	*unit
	Y                     *program.System
	NS, NC, NU, NJ, NM    int // entries; NM margins of one step
	NP, All               int // entries of a scenario; margins with those along the escape
	OwnMargins            []domain.Variable
	Lo, Hi, HalfBox, Gain []float64
	H, Half, Sixth        float64 // of the integrator: a substep, its half and its sixth
	Functions, Libm       string
	Start                 []float64
	Guard                 bool // it looks so many steps ahead, instead of to the end
	Horizon               int
	Limit                 float64
	Envelope              [][]float64
	OfState               []bool // of each of OwnMargins: it is of the state alone
	Method                string
	Episodes              []Episode
	Unsafe                int
	Solver                *optimiser // nil: it solves nothing
	Search                *search    // of a case with switched actions; nil elsewhere
	Observer              *observer  // nil: by the state as it is
	Device                bool       // it is a plant alone, for a GPU
	slopes                map[string]*program.Sparse
}

func newWhole(m *model.Model, p domain.Problem, opt *Whole) (*whole, error) {
	y, err := equationsOf(p, opt.Episodes)
	spec := p.Spec()
	switch {
	case err != nil:
		return nil, err
	case opt.Guard.Off:
		return nil, fmt.Errorf("export: case %s has no guard", spec.Name)
	case opt.Guard.Noise > 0:
		return nil, fmt.Errorf("export: the guard of case %s makes room for noise of %g, which the one in C does not", spec.Name, opt.Guard.Noise)
	case len(m.DecoderS.Layers) == 0:
		return nil, fmt.Errorf("export: the map of case %s has no D_s, by which an observation is known to be off the map", spec.Name)
	}
	zero := Record{S: make([]float32, spec.MeasuredSize()), C: make([]float32, spec.ContextSize()), Plan: make([]float32, spec.PlanSize())}
	u, err := newUnit(m, p, opt.Half, []Record{zero})
	if err != nil {
		return nil, err
	}
	if u.BaseHook {
		return nil, fmt.Errorf("export: the plan that the map of case %s corrects is not its rest", spec.Name)
	}
	u.StateLayers = u.layers("states", m.DecoderS)
	u.ScratchBytes = (4*4 + 2) * u.Widest
	u.ConstantBytes += 8 * spec.MeasuredSize()
	w := wholeOf(u, p, y, opt.Episodes)
	w.Limit, w.Method = opt.Limit, Method
	w.Start, w.Envelope = opt.Start, opt.Envelope
	if opt.Guard.Steps > 0 {
		w.Guard, w.Horizon = true, opt.Guard.Steps
	}
	if err := w.observe(opt.Observed); err != nil {
		return nil, err
	}
	w.generate()
	return w, nil
}

// wholeOf is what every controller has of its equations and of its episodes.
func wholeOf(u *unit, p domain.Problem, y *program.System, episodes []Episode) *whole {
	spec := p.Spec()
	w := &whole{
		unit: u, Y: y, NS: len(spec.Measured), NC: len(spec.Context), NU: len(spec.Action), NJ: len(spec.Objectives), All: len(spec.Margins),
		NM: len(spec.Margins) / (1 + y.EscapeSteps), Horizon: spec.LookAhead(), Episodes: episodes,
	}
	for i := range episodes {
		if !episodes[i].Safe {
			w.Unsafe++
		}
	}
	w.OwnMargins, w.NP = spec.Margins[:w.NM], y.Function("initial").Entries()
	w.OfState = ofState(p, &episodes[0], w.NM)
	for _, a := range spec.Action {
		w.Lo, w.Hi, w.HalfBox = append(w.Lo, a.Lo), append(w.Hi, a.Hi), append(w.HalfBox, a.Half())
	}
	for i, k := range spec.Semantic.K {
		w.Gain = append(w.Gain, k/spec.Semantic.Epsilon[i])
	}
	if y.Integrator != program.NoIntegrator {
		w.H = y.Span / float64(y.Substeps)
		w.Half, w.Sixth = w.H/2, w.H/6
	}
	return w
}

// OffMap and Guarded are decisions of all episodes.
func (w *whole) OffMap() (n int) {
	for i := range w.Episodes {
		n += w.Episodes[i].OffMap
	}
	return n
}

func (w *whole) Guarded() (n int) {
	for i := range w.Episodes {
		n += w.Episodes[i].Guarded
	}
	return n
}

// ofState are the margins that the problem knows to be of the state alone.
func ofState(p domain.Problem, episode *Episode, n int) []bool {
	mask := make([]bool, n)
	if margins := domain.AbilitiesOfProblem(p).MarginsOfState; margins != nil {
		m := make([]float64, len(p.Spec().Margins))
		margins(episode.S, episode.C, m)
		for i := range mask {
			mask[i] = !math.IsInf(m[i], 1)
		}
	}
	return mask
}

// AnyOfState reports whether there is such a margin.
func (w *whole) AnyOfState() bool { return slices.Contains(w.OfState, true) }

// Questions of the templates.
func (w *whole) Navigates() bool  { return w.Solver == nil && w.Search == nil }
func (w *whole) HasCorners() bool { return w.Solver != nil && w.Solver.Factors != nil }
func (w *whole) HasEscape() bool  { return w.Y.Function("escape") != nil }
func (w *whole) HasFailed() bool  { return w.Y.Function("failed") != nil }
func (w *whole) HasUrgency() bool { return w.Y.Function("urgency") != nil }
func (w *whole) Helpers() string  { return ccode.Helpers }

// Integrator is the name of a template's part, "" without one.
func (w *whole) Integrator() string {
	return [...]string{program.NoIntegrator: "", program.RK4: "rk4", program.Radau: "radau"}[w.Y.Integrator]
}

// generate writes the functions of the system and the derivatives that the projection needs.
func (w *whole) generate() {
	var b strings.Builder
	var functions []*program.Function
	w.slopes = map[string]*program.Sparse{}
	emit := func(f *program.Function, name string) {
		functions = append(functions, f)
		b.WriteString(ccode.Function(f, name) + "\n")
	}
	slope := func(name string, present bool, f *program.Function) {
		if !present {
			return
		}
		s := f.Jacobian(f.Own())
		w.slopes[name] = s
		upper := strings.ToUpper(name)
		fmt.Fprintf(&b, "enum { %s_COUNT = %d, %s_ROOM = %d };\n%s", upper, len(s.Rows), upper, max(1, len(s.Rows)), ccode.SparsityPattern(s, name))
		emit(s.Function, name+"_jacobian")
	}
	for _, f := range w.Y.Functions {
		if f.Name() != "outputs" { // which is the Observer's
			emit(f, f.Name())
		}
	}
	limited := w.NM > 0
	derived := limited || w.Filtered() || w.Device
	slope("ode", derived && w.Y.Integrator == program.RK4 || w.Y.Integrator == program.Radau, w.Y.Function("ode"))
	slope("step", derived, w.Y.Function("step"))
	slope("objectives", w.Device, w.Y.Function("objectives"))
	slope("margins", limited, w.Y.Function("margins"))
	slope("escape", limited && w.Y.EscapeSteps > 0, w.Y.Function("escape"))
	if w.Filtered() {
		emit(w.Observer.outputs, "outputs")
		slope("outputs", true, w.Observer.outputs)
	}
	w.Functions = strings.TrimRight(b.String(), "\n") + "\n"
	more := []string{"exp", "fabs", "fmax", "hypot", "round", "sqrt"}
	if w.Filtered() && len(w.Observer.Unknown) > 0 || w.Follows() {
		more = append(more, "fmin")
	}
	if w.Search != nil && len(w.Search.Others) > 0 {
		more = append(more, "log")
	}
	w.Libm = libm(functions, more...)
}

// libm names what functions call, and what else is called.
func libm(functions []*program.Function, more ...string) string {
	names := append(ccode.Libm(functions...), more...)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// counts are bounds of the arithmetic operations of one call.
type counts struct{ step, margins, slopes, program, projection, decision int }

// operations are what the loops' bounds multiply to.
func (w *whole) operations() counts {
	var c counts
	c.step, c.slopes = w.step(), w.stepAlong(w.NU)
	times := 1 + w.Y.EscapeSteps
	c.margins = times * (c.step + w.operationsOf("margins") + w.operationsOf("escape"))
	c.slopes = times * (c.slopes + w.derivativeOperations("margins", w.NU) + w.derivativeOperations("escape", w.NU))
	wide, rows := w.NU+1, w.All+2*w.NU
	add := (wide + 1) * (wide*wide*wide + 6*wide*wide)
	c.program = 10 * (rows + wide) * (2*rows*wide + add)
	if w.NM > 0 {
		c.projection = 10*(c.slopes+c.margins+2*c.program+rows*6*wide) + 2*c.margins
	}
	mulAdds := 2 * (w.Model.EncoderX.MulAdds() + w.Model.DecoderU.MulAdds())
	c.decision = 2*mulAdds + 2*w.Model.DecoderS.MulAdds() + c.projection +
		4*(w.Horizon*(mulAdds+c.projection+c.margins+c.step)+(1+w.NU)*c.margins)
	return c
}

// operationsOf is a function itself, 0 where there is none.
func (w *whole) operationsOf(name string) int {
	if f := w.Y.Function(name); f != nil {
		return f.Operations()
	}
	return 0
}

// step is the plant's.
func (w *whole) step() int {
	switch w.Y.Integrator {
	case program.RK4:
		return w.operationsOf("step") + w.Y.Substeps*4*(w.operationsOf("ode")+5*w.NS)
	case program.Radau:
		return w.operationsOf("step") + w.Y.Substeps*w.implicit(w.NU)
	}
	return w.operationsOf("step")
}

// derivativeOperations is the derivative of a function, by so many numbers at once.
func (w *whole) derivativeOperations(name string, wide int) int {
	if s := w.slopes[name]; s != nil {
		return s.Operations() + 2*wide*len(s.Rows)
	}
	return 0
}

// solving are the factors of an implicit step's matrix, and a substitution.
func (w *whole) solving() int {
	n := 2 * w.NS
	return 2*n*n*n/3 + 2*n*n
}

func (w *whole) implicit(wide int) int {
	newton, trial := 2*w.derivativeOperations("ode", wide)+w.solving()+12*w.NS, 2*w.operationsOf("ode")+w.solving()
	return 240*newton + 2*100*51*trial + w.solving()
}

// stepAlong is a step with derivatives by so many numbers.
func (w *whole) stepAlong(wide int) int {
	n := w.derivativeOperations("step", wide)
	switch w.Y.Integrator {
	case program.RK4:
		n += w.Y.Substeps * 4 * (w.derivativeOperations("ode", wide) + 5*w.NS*(1+wide))
	case program.Radau:
		n += w.Y.Substeps * (w.implicit(wide) + 2*w.derivativeOperations("ode", wide) + w.solving() + wide*8*w.NS*w.NS)
	}
	return n
}

// Bounds are the header's lines about them.
func (w *whole) Bounds() []string {
	switch {
	case w.Search != nil:
		return w.searchBounds()
	case w.Solver != nil:
		return []string{
			fmt.Sprintf("at most %d solves a decision, of %d iterations each, in which a step is tried at 25 lengths at most;", w.Solves(), w.Solver.Iterations),
			fmt.Sprintf("and so at most %d arithmetic operations for a decision. Solves hardly ever come near theirs: measure.", w.solverOperations()),
		}
	}
	c := w.operations()
	plans := 3
	if w.HasEscape() {
		plans = 4
	}
	lines := []string{
		fmt.Sprintf("at most %d roll-outs a decision, of %d steps each; a step decides, projects, and takes the margins and the plant's step;", plans, w.Horizon),
		fmt.Sprintf("a projection linearises at most 10 times, and solves two programs of at most %d active-set steps each;", 10*(w.All+2*w.NU+w.NU+1)),
	}
	if w.Y.Integrator == program.Radau {
		lines = append(lines, "an implicit step takes at most 240 of Newton's, 200 of them damped in 51 trials each;")
	}
	return append(lines,
		fmt.Sprintf("at most %d arithmetic operations for the map's action, %d for a step, %d for the margins, %d for a projection,", 2*(w.Model.EncoderX.MulAdds()+w.Model.DecoderU.MulAdds()), c.step, c.margins, c.projection),
		fmt.Sprintf("and so at most %d for a decision. Projections hardly ever come near theirs: measure.", c.decision))
}

// LoopBytes are the memory of one closed loop.
func (w *whole) LoopBytes() int {
	switch {
	case w.Search != nil:
		return w.searchBytes()
	case w.Solver != nil:
		return 8 * w.loopNumbers()
	}
	return 3*(8+8+8*w.Horizon*w.NU) + 16
}

// Stated is what the header says of the episodes.
func (w *whole) Stated() string {
	return fmt.Sprintf("Driven by gpc with this method: %d of %d episodes unsafe. main_test.c drives the same episodes in C.", w.Unsafe, len(w.Episodes))
}

// ControllerInfo is what gpc_NAME_controller_info says.
func (w *whole) ControllerInfo() string {
	info := fmt.Sprintf("gpc %s (%s), case %s", w.Version, w.Build, w.Spec.Name)
	if w.SHA256 != "" {
		info = w.Info()
	}
	return fmt.Sprintf("%s; method %s, unsafe %d of %d", info, w.Method, w.Unsafe, len(w.Episodes))
}

// write are the files, by their templates.
func (w *whole) write() ([]durable.Text, error) {
	type template struct {
		name, template string
		data           any
	}
	list := []template{
		{"gpc_" + w.Symbol + "_system.h", "system.h", w},
		{"gpc_" + w.Symbol + "_system.c", "system.c", w},
		{"test_episodes.h", "episodes.h", w},
		{"main_test.c", "loops.c", w},
		{"README.md", "WHOLE.md", w},
	}
	controller, guess := "controller", w.unit
	switch {
	case w.Search != nil:
		controller, guess = "switched", w.Search.Map
	case w.Solver != nil:
		controller, guess = "nmpc", nil
	}
	list = append(list,
		template{"gpc_" + w.Symbol + "_controller.h", controller + ".h", w},
		template{"gpc_" + w.Symbol + "_controller.c", controller + ".c", w})
	if guess != nil {
		list = append(list,
			template{"gpc_" + w.Symbol + ".h", "header.h", guess},
			template{"gpc_" + w.Symbol + ".c", "source.c", guess},
			template{"gpc_" + w.Symbol + "_weights.h", "weights.h", guess})
	}
	if w.Observer != nil {
		list = append(list,
			template{"gpc_" + w.Symbol + "_measured.h", "measured.h", w},
			template{"gpc_" + w.Symbol + "_measured.c", "measured.c", w})
	}
	var all []durable.Text
	for _, f := range list {
		text, err := templates().execute(f.template, f.data)
		if err != nil {
			return nil, err
		}
		all = append(all, durable.Text{Name: f.name, Text: text})
	}
	return all, nil
}
