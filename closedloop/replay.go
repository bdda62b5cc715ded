package closedloop

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/tensor"
)

// replay is an episode of a trace, run again from the header's seed: its scene, its measurements, and, where the method
// is there, its decisions.
type replay struct {
	*verifier
	redrawn domain.Episode // nil where its scene is not the trace's
	noisy   bool           // what was measured is not the plant's state
	// estimated: a trace has what its method decided by, which follows from measurements that it has not.
	// What was decided is judged by the plant alone.
	estimated bool
	bias      []float64
	s, c, u   []float64
	state     []float64
	ns        int
	pace      *pace
	gap       gapOf
	stop      string // why the method could not continue after a decision
}

// newReplay draws the episode and compares its scene.
func (v *verifier) newReplay(e *EpisodeRecord, ns int) *replay {
	h := v.header
	a := &replay{
		verifier: v, ns: ns, estimated: h.Estimated, bias: biases(h.Bias, h.Seed, e.Episode, ns),
		s: make([]float64, v.spec.MeasuredSize()), c: make([]float64, v.spec.ContextSize()), u: make([]float64, v.spec.ActionSize()),
		noisy: h.Noise != 0 || h.Bias != 0 || h.Estimated || h.Delay != math.Trunc(h.Delay), // a part of a period: between states
		state: make([]float64, v.spec.MeasuredSize()), pace: newPace(h.Computing, v.controlCase, v.abilities, h.Seed, e.Episode), gap: domain.AbilitiesOfProblem(v.controlCase.Problem).Gap,
	}
	v.count("scene")
	options := domain.EpisodeOptions{Noise: h.Noise, Regime: h.Regime, Preference: h.Preference, Context: v.ctx}
	var redrawn domain.Episode
	var err error
	if v.staging != nil {
		redrawn, err = v.staging.Stage(h.Seed, e.Episode, e.Scene, options)
	} else {
		redrawn, err = v.plant.Episode(h.Seed, e.Episode, options)
	}
	if err != nil {
		v.differs(e.SceneLine, e.Episode, -1, "scene", "drawn", err.Error())
		return a
	}
	text, err := json.Marshal(redrawn.Scene())
	var trace, recomputed any
	if err != nil || json.Unmarshal(text, &recomputed) != nil || json.Unmarshal(e.Scene, &trace) != nil {
		v.differs(e.SceneLine, e.Episode, -1, "scene", fmt.Sprintf("%.100s", e.Scene), "cannot be compared")
		return a
	}
	if d, differ := jsonin.FirstDifference(trace, recomputed, sameScene); differ {
		v.differs(e.SceneLine, e.Episode, -1, jsonin.Below("scene", d.Path), fmt.Sprintf("%.100s", fmt.Sprint(d.A)),
			fmt.Sprintf("%.100s by seed %d, regime %q, preference %v", fmt.Sprint(d.B), h.Seed, h.Regime, h.Preference))
		return a
	}
	a.redrawn = redrawn
	if v.method != nil {
		if err := v.method.Reset(redrawn); err != nil {
			v.text(&Line{Line: e.EndLine, Episode: e.Episode, T: -1}, "end.failure", e.End.Failure, fmt.Sprintf("reset: %v", err))
			a.redrawn = nil
		}
	}
	return a
}

// sameScene reports whether two values of a scene are the same, numbers within VerifyTolerance.
func sameScene(trace, recomputed any) bool {
	a, number := trace.(float64)
	if b, numbers := recomputed.(float64); number && numbers {
		return math.Abs(a-b) <= VerifyTolerance*(1+math.Abs(b))
	}
	return reflect.DeepEqual(trace, recomputed)
}

// decision compares what was measured before a decision, ep standing there, and makes the decision again. Then the
// plant takes the trace's own action.
func (a *replay) decision(l *Line, ep domain.Episode, u []float64) {
	decides, late := a.pace.next()
	a.value(l, "late", l.Late, late)
	checkable := a.redrawn != nil && !a.estimated && (a.noisy || a.method != nil || len(a.c) > 0)
	if checkable {
		a.observe()
	}
	a.context(l, checkable)
	switch {
	case !a.noisy:
		ep.State(a.state)
		a.entries(l, "x", l.X, a.state[:a.ns])
	case checkable:
		a.entries(l, "x", l.X, a.s[:a.ns])
	default:
		a.tallyOf("x").skipped += len(l.X)
	}
	if !checkable {
		return
	}
	if a.method != nil {
		maskUnknown(a.s[:a.ns], l.X)
		maskUnknown(a.c, l.C)
		a.decide(l, decides)
	}
	if _, err := apply(a.spec, a.redrawn, u); err != nil {
		a.redrawn = nil // the replay says so too
	} else if !decides {
		return
	} else if _, err := prepare(a.abilities, a.redrawn, time.Now); err != nil {
		a.stop = unprepared(l.T, err)
	}
}

func (a *replay) observe() {
	a.redrawn.Observe(a.s, a.c)
	tensor.Axpy(1, a.bias, a.s)
}

// maskUnknown makes NaN of the values that the trace does not have.
func maskUnknown(v []float64, trace Vector) {
	for i := range min(len(v), len(trace)) {
		if math.IsNaN(trace[i]) {
			v[i] = math.NaN()
		}
	}
}

// context compares c with that of the scene, which observe has written if drawn.
func (a *replay) context(l *Line, observed bool) {
	switch {
	case a.header.Trace == bareVersion:
		a.tallyOf("c").skipped += len(a.c)
	case observed:
		a.entries(l, "c", l.C, a.c)
	default:
		a.tallyOf("c").skipped += len(l.C)
	}
}

// entries compares what was known of a state or a context. A null entry is a sensor that
// gave no number, which nothing can confirm.
func (a *replay) entries(l *Line, field string, trace Vector, recomputed []float64) {
	if !a.length(l, field, trace, recomputed) {
		return
	}
	for i, v := range trace {
		if math.IsNaN(v) {
			a.tallyOf(field).skipped++
		} else {
			a.number(l, field, i, v, recomputed[i])
		}
	}
}

// decide makes one decision and compares it with the trace's.
func (a *replay) decide(l *Line, decides bool) {
	var m domain.Decision
	var err error
	if decides {
		m, err = a.method.Decide(a.s, a.c, a.header.Preference, a.u)
	}
	if err != nil {
		a.count("u")
		a.differs(l.Line, l.Episode, l.T, "u", fmt.Sprint([]float64(l.U)), err.Error())
		return
	}
	m = a.gap.bounded(a.pace.executed(m, a.s, a.c, a.u), a.s, a.c, a.header.Preference, a.u)
	for j, u := range l.U {
		scale := 1 + math.Abs(a.u[j])
		if v := a.spec.Action[j]; v.Bounded() {
			scale = v.Hi - v.Lo
		}
		a.repeated(l, "u", j, u, a.u[j], scale)
	}
	a.one(l, "residual", -1, float64(l.Residual), m.Residual)
	a.one(l, "displacement", -1, float64(l.Displacement), m.Displacement)
	if l.Gap != 0 { // a trace of an older program has none
		a.one(l, "gap_bound", -1, float64(l.Gap), m.Gap)
	}
	if a.length(l, "priority", l.Priority, m.Sigma) {
		for i, p := range l.Priority {
			a.one(l, "priority", i, p, m.Sigma[i])
		}
	}
	a.value(l, "fallback", domain.Fallback(l.Fallback), m.Fallback)
}

// one compares a value of the method's own record.
func (a *replay) one(l *Line, field string, entry int, trace, recomputed float64) {
	a.repeated(l, field, entry, trace, recomputed, 1+math.Abs(recomputed))
}

// repeated compares what was computed again: bit for bit on the trace's backend and
// instruction set, else within DeepTolerance of a scale. What is not finite is null in a
// trace.
func (a *replay) repeated(l *Line, field string, entry int, trace, recomputed, scale float64) {
	a.count(field)
	equal := math.Abs(trace-recomputed) <= DeepTolerance*scale
	if a.Exact {
		equal = trace == recomputed
	}
	if equal || math.IsNaN(trace) && !finite(recomputed) {
		return
	}
	a.differs(l.Line, l.Episode, l.T, indexed(field, entry), fmt.Sprint(trace), fmt.Sprint(recomputed))
}

// failure compares why an episode ended before its last step, and what its solves ended at.
func (a *replay) failure(e *EpisodeRecord, completed bool) {
	end := &Line{Line: e.EndLine, Episode: e.Episode, T: -1}
	if a.count("end.completed"); completed != (e.End.Failure == "") {
		a.differs(end.Line, end.Episode, -1, "end.failure", fmt.Sprintf("%.200q", e.End.Failure), fmt.Sprintf("every step taken: %v", completed))
	}
	if a.method == nil && !completed && a.stop != "" {
		a.text(end, "end.failure", e.End.Failure, a.stop)
	}
	if a.method == nil || a.redrawn == nil {
		return
	}
	failure, t := a.stop, len(e.Lines)
	if !completed && failure == "" {
		a.observe()
		if _, err := a.method.Decide(a.s, a.c, a.header.Preference, a.u); err != nil {
			failure = fmt.Sprintf("decision %d: %v", t, err)
		} else if _, err := apply(a.spec, a.redrawn, a.u); err != nil {
			failure = fmt.Sprintf("step %d: %v", t, err)
		}
	}
	a.text(end, "end.failure", e.End.Failure, failure)
	var starts []float64
	if a.abilities.Starts != nil {
		starts = a.abilities.Starts()
	}
	if a.length(end, "end.starts", e.End.Starts, starts) {
		a.count("end.starts")
		for i, c := range e.End.Starts {
			a.one(end, "end.starts", i, c, starts[i])
		}
	}
}
