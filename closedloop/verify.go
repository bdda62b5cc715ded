package closedloop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/interrupt"
	"github.com/gpc-engine/gpc/internal/option"
)

// VerifyTolerance is ε in |got − want| ≤ ε·(1 + |want|), which holds for a state, a margin, an objective or a cost. A
// replay repeats the same float64 operations, so that on one machine it differs by nothing. Another processor may fuse
// multiply-adds, and a power flow stops at 1e-9 per unit.
const VerifyTolerance = 1e-7

// DeepTolerance is the same ε for decisions that are made again on another backend or instruction set than the
// trace's. Of an action it is a share of the range.
const DeepTolerance = 1e-3

// DefaultEpisodeLimit is how long the verification of one episode may take.
const DefaultEpisodeLimit = 10 * time.Minute

// maxMismatches of a trace are listed; all are counted.
const maxMismatches = 1000

// Mismatch is one value of a trace that its verification does not confirm.
type Mismatch struct {
	Line    int    `json:"line"`    // of the file, from 1
	Episode int    `json:"episode"` // its number
	T       int    `json:"t"`       // decision; −1 for a value of the whole episode
	Field   string `json:"field"`   // the trace's key, with the entry of a list
	Trace   string `json:"trace"`   // what the trace says
	Replay  string `json:"replay"`  // what the replay gives
}

func (m Mismatch) String() string {
	place := fmt.Sprintf("line %d", m.Line)
	if m.Episode >= 0 { // a header is of none
		place += fmt.Sprintf(", episode %d", m.Episode)
	}
	if m.T >= 0 {
		place += fmt.Sprintf(", t %d", m.T)
	}
	return fmt.Sprintf("%s: %s is %s, verification gives %s", place, m.Field, m.Trace, m.Replay)
}

// Verification is the outcome of Verify under the JSON keys of `gpc verify`.
type Verification struct {
	OK        bool    `json:"ok"`           // whether nothing that was checked differs
	Case      string  `json:"case"`         // of the trace
	Method    string  `json:"method"`       // of the trace
	SHA256    string  `json:"trace_sha256"` // of the last record, and by the chain of the whole trace
	Episodes  int     `json:"episodes"`     // replayed
	Decisions int     `json:"decisions"`    // replayed
	Safe      int     `json:"safe"`         // episodes, by the replay
	Tolerance float64 `json:"tolerance"`    // relative, of a value
	Deep      bool    `json:"deep"`         // whether decisions were made again
	Exact     bool    `json:"exact"`        // whether these were compared bit for bit
	// Checks are what was done with every field that a trace has.
	Checks     []Check    `json:"checks"`
	Differing  int        `json:"differing"` // values that differ
	Mismatches []Mismatch `json:"mismatches"`
}

// VerifyOptions say what Verify is to use and how long it may take.
type VerifyOptions struct {
	// Case makes the case of a header. It must open nothing that a trace can name. embedded
	// is whether the case was made of the header's own params.
	Case func(h *Header) (c *domain.Case, embedded bool, err error)
	// Deep, if set, makes the method of a header for the case that Case made of it, with the map
	// that the header names by its hash. It also names the backend that computes it. Every
	// decision is then made again and compared.
	Deep func(h *Header) (m domain.Controller, backend string, err error)
	ISA  string // of this process; see Header
	// EpisodeLimit ends a verification of which one episode takes longer; 0 is
	// DefaultEpisodeLimit. What it was waiting for then goes on in the background, as it
	// does when the context ends.
	EpisodeLimit time.Duration
	Progress     func(done, total int) // nil: none is called
}

// Verify re-simulates a trace from its header, scenes and actions. It draws scenes, measurements and optima again from
// the seed, and, with opt.Deep, decides again. It reports every value that differs and what was done with every field.
// A malformed trace is an error that names the line. A trace that is well formed but cut off, or lacks an episode, is a
// mismatch.
func Verify(ctx context.Context, path string, opt VerifyOptions) (*Verification, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	defer file.Close()
	return VerifyReader(ctx, file, opt)
}

// VerifyReader is Verify of an open trace.
func VerifyReader(ctx context.Context, source io.Reader, opt VerifyOptions) (*Verification, error) {
	r, err := NewReader(interrupt.Reader(ctx, source))
	if err != nil {
		return nil, err
	}
	opt.EpisodeLimit = cmp.Or(opt.EpisodeLimit, DefaultEpisodeLimit)
	v := &verifier{
		Verification: Verification{Case: r.Header.Case, Method: r.Header.Method, Tolerance: VerifyTolerance, Deep: opt.Deep != nil, Mismatches: []Mismatch{}},
		ctx:          ctx, opt: opt, header: &r.Header, tally: map[string]*tallied{}, abilities: new(domain.ControllerAbilities),
	}
	if err := withLimit(ctx, opt.EpisodeLimit, "line 1", v.begin); err != nil {
		return nil, err
	}
	next, total := r.Header.Shard[0], r.Header.count()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, ErrTruncated) {
			v.differs(r.line, next, -1, "end", "missing", "the trace ends inside an episode")
			break
		}
		if err != nil {
			return nil, err
		}
		if v.count("episode"); e.Episode != next {
			v.differs(e.SceneLine, e.Episode, -1, "episode", fmt.Sprint(e.Episode), fmt.Sprintf("%d: every episode is written, in order", next))
		}
		next = e.Episode + r.Header.Shard[1]
		if err := withLimit(ctx, opt.EpisodeLimit, fmt.Sprintf("line %d, episode %d", e.SceneLine, e.Episode), func() error { return v.episode(e) }); err != nil {
			return nil, err
		}
		if opt.Progress != nil {
			opt.Progress(v.Episodes, total)
		}
	}
	if v.count("header.episodes"); v.Episodes != total {
		v.differs(1, -1, -1, "header.episodes", fmt.Sprintf("%d, %d of them in this file", r.Header.Episodes, total), fmt.Sprintf("%d in this file", v.Episodes))
	}
	v.SHA256 = r.last
	v.OK = v.Differing == 0
	v.Checks = v.checks()
	return &v.Verification, nil
}

// withLimit runs work unless ctx ends or limit passes first. Then work continues by itself, and its output is not to be
// read. A panic of work until then is the caller's.
func withLimit(ctx context.Context, limit time.Duration, name string, work func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	type end struct {
		err      error
		panicked any
	}
	result := make(chan end, 1)
	go func() {
		var e end
		defer func() {
			e.panicked = recover()
			result <- e
		}()
		e.err = work()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case e := <-result:
		if e.panicked != nil {
			panic(e.panicked)
		}
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("trace %s: not verified within %v: %w", name, limit, context.DeadlineExceeded)
	}
}

type verifier struct {
	Verification
	ctx         context.Context
	opt         VerifyOptions
	header      *Header
	controlCase *domain.Case
	plant       domain.Plant
	staging     *domain.PlantAbilities // of scenes that were given; nil: they were drawn
	spec        *domain.Spec
	embedded    bool
	method      domain.Controller // nil: the decisions are taken as they are
	abilities   *domain.ControllerAbilities
	tally       map[string]*tallied
}

// tallied are the values of a field that were compared, and those that could not be.
type tallied struct{ compared, skipped int }

func (v *verifier) tallyOf(field string) *tallied {
	if v.tally[field] == nil {
		v.tally[field] = &tallied{}
	}
	return v.tally[field]
}

func (v *verifier) count(field string) { v.tallyOf(field).compared++ }

func (v *verifier) differs(line, episode, t int, field, trace, replay string) {
	if v.Differing++; v.Differing <= maxMismatches {
		v.Mismatches = append(v.Mismatches, Mismatch{line, episode, t, field, trace, replay})
	}
}

// number compares one value, entry of a list unless entry is negative.
func (v *verifier) number(l *Line, field string, entry int, trace, replay float64) {
	if v.count(field); same(trace, replay) {
		return
	}
	v.differs(l.Line, l.Episode, l.T, indexed(field, entry), fmt.Sprint(trace), fmt.Sprint(replay))
}

func indexed(field string, entry int) string {
	if entry < 0 {
		return field
	}
	return fmt.Sprintf("%s[%d]", field, entry)
}

// value compares a comparable value, such as a flag.
func (v *verifier) value(l *Line, field string, trace, replay any) {
	if v.count(field); trace != replay {
		v.differs(l.Line, l.Episode, l.T, field, fmt.Sprint(trace), fmt.Sprint(replay))
	}
}

// optional compares a flag that only some episodes have.
func (v *verifier) optional(l *Line, field string, trace, replay *bool) {
	text := func(b *bool) string {
		if b == nil {
			return "absent"
		}
		return fmt.Sprint(*b)
	}
	v.value(l, field, text(trace), text(replay))
}

func (v *verifier) text(l *Line, field, trace, replay string) {
	if v.count(field); trace != replay {
		v.differs(l.Line, l.Episode, l.T, field, fmt.Sprintf("%.200q", trace), fmt.Sprintf("%.200q", replay))
	}
}

// length reports whether a list is as long as its replay.
func (v *verifier) length(l *Line, field string, trace, replay []float64) bool {
	if len(trace) == len(replay) {
		return true
	}
	v.count(field)
	v.differs(l.Line, l.Episode, l.T, field, fmt.Sprintf("%d entries", len(trace)), fmt.Sprintf("%d entries", len(replay)))
	return false
}

func (v *verifier) vector(l *Line, field string, trace Vector, replay []float64) {
	if v.length(l, field, trace, replay) {
		for i, x := range trace {
			v.number(l, field, i, x, replay[i])
		}
	}
}

// begin makes the header's case and holds what the header says of it to the case.
func (v *verifier) begin() error {
	h := v.header
	c, embedded, err := v.opt.Case(h)
	if err != nil {
		return fmt.Errorf("trace line 1: %w", err)
	}
	if c.Plant == nil {
		return fmt.Errorf("trace line 1: case %q has no plant to re-simulate with", h.Case)
	}
	v.controlCase, v.plant = c, c.Plant
	v.spec, v.embedded = c.Problem.Spec(), embedded
	if h.ScenesSHA256 != "" {
		if v.staging, err = staging(c); err != nil {
			return fmt.Errorf("trace line 1: %w", err)
		}
	}
	params, err := json.Marshal(c.Plant.Params())
	if err != nil {
		return fmt.Errorf("plant parameters: %w", err)
	}
	if v.count("header.params"); !sameJSON(params, h.Params) {
		v.differs(1, -1, -1, "header.params", fmt.Sprintf("%.200s", h.Params), fmt.Sprintf("%.200s", params))
	}
	header := &Line{Line: 1, Episode: -1, T: -1}
	v.text(header, "header.problem_sha256", h.ProblemSHA256, durable.Sum(domain.FingerprintOf(c.Problem)))
	if h.Computing != nil {
		if err := h.Computing.Validate(); err != nil {
			return fmt.Errorf("trace line 1: computing_us: %w", err)
		}
	}
	if h.Plant != nil && c.Other != nil {
		v.text(header, "header.plant", h.Plant.ProblemSHA256, c.Other.ProblemSHA256)
	}
	v.number(header, "header.margin_tolerance", -1, h.Tolerance, v.spec.MarginTolerance)
	margins := domain.Names(v.spec.Margins)
	if v.count("header.margins"); !slices.Equal(h.Margins, margins) {
		v.differs(1, -1, -1, "header.margins", fmt.Sprintf("%q", h.Margins), fmt.Sprintf("%q", margins))
	}
	v.text(header, "header.soft", fmt.Sprint(h.Soft), fmt.Sprint(softOf(c.Problem)))
	if v.opt.Deep != nil && h.Steered {
		return option.Errorf("trace line 1: a person changed the preference or the plant between its decisions, so that they cannot be repeated: leave {Deep} out")
	}
	if v.opt.Deep != nil {
		method, backend, err := v.opt.Deep(h)
		if err != nil {
			return fmt.Errorf("trace line 1: %w", err)
		}
		v.method, v.abilities, v.Exact = method, domain.AbilitiesOfController(method), h.Backend == backend && h.ISA == v.opt.ISA
	}
	return nil
}

// episode verifies one episode. An unusable scene is an error with its line.
func (v *verifier) episode(e *EpisodeRecord) error {
	if v.count("sha256"); e.Damage != "" {
		v.differs(e.SceneLine, e.Episode, -1, "sha256", "broken", e.Damage)
	}
	ep, err := v.plant.Replay(v.header.Params, e.Scene)
	if err != nil {
		return fmt.Errorf("trace line %d: %w", e.SceneLine, err)
	}
	v.Episodes++
	ns, nu := sizes(v.spec, ep)
	rerun := v.newReplay(e, ns)
	var sum score
	completed := true
	u := make([]float64, v.spec.ActionSize())
	for i := range e.Lines {
		l := &e.Lines[i]
		if ep.Done() {
			v.differs(l.Line, e.Episode, l.T, "t", fmt.Sprint(l.T), fmt.Sprintf("the episode is over after %d decisions", i))
			completed = false
			break
		}
		if len(l.U) != nu {
			return fmt.Errorf("trace line %d: u has %d entries, this episode of %q has %d", l.Line, len(l.U), v.spec.Name, nu)
		}
		copy(u, l.U)
		rerun.decision(l, ep, u)
		out, err := apply(v.spec, ep, u)
		if err != nil {
			v.differs(l.Line, e.Episode, l.T, "u", fmt.Sprint([]float64(l.U)), err.Error())
			completed = false
			break
		}
		v.Decisions++
		v.count("t")
		if sum.add(v.spec, &out); sum.diverged != "" && !ep.Done() {
			rerun.stop = sum.diverged
		}
		v.vector(l, "s", l.S, out.S[:ns])
		v.vector(l, "sigma", l.Sigma, out.Sigma)
		v.vector(l, "J", l.J, out.J)
		v.number(l, "margin", -1, float64(l.Margin), out.Margin)
		if f := domain.Fallback(l.Fallback); !f.Known() {
			v.differs(l.Line, e.Episode, l.T, "fallback", fmt.Sprint(l.Fallback), "bits that no guard sets")
		}
		v.value(l, "failed", l.Failed, out.Failed)
	}
	completed = completed && ep.Done()
	rerun.failure(e, completed)
	want, simulation := endOf(ep, &sum, completed), ep
	if rerun.redrawn != nil {
		ep = rerun.redrawn // which knows its optimum already
	}
	if v.header.Steered {
		want.compare(noOptimum)
	} else {
		want.compare(optimumOf(ep).improved(v.controlCase, simulation, &want))
	}
	v.end(e, &want)
	return nil
}

// end compares the end line with what the replay says of the episode.
func (v *verifier) end(e *EpisodeRecord, want *End) {
	if want.Safe {
		v.Safe++
	}
	end := &Line{Line: e.EndLine, Episode: e.Episode, T: -1}
	v.number(end, "end.cost", -1, float64(e.End.Cost), float64(want.Cost))
	v.vector(end, "end.margins", e.End.Margins, want.Margins)
	v.violations(end, e.End.Violations, want.Violations)
	v.vector(end, "end.excess", e.End.Excess, want.Excess)
	v.text(end, "end.exceeding", fmt.Sprint(e.End.Exceeding), fmt.Sprint(want.Exceeding))
	v.optional(end, "end.reached", e.End.GoalReached, want.GoalReached)
	v.optional(end, "end.at_end", e.End.AtEnd, want.AtEnd)
	v.value(end, "end.failed", e.End.Failed, want.Failed)
	v.value(end, "end.safe", e.End.Safe, want.Safe)
	v.value(end, "end.collision_free", e.End.CollisionFree, want.CollisionFree)
	v.value(end, "end.completed", e.End.Completed, want.Completed)
	v.text(end, "end.cause", e.End.Cause, want.Cause)
	v.value(end, "end.excluded", e.End.Excluded, want.Excluded)
	v.text(end, "end.oracle_failure", e.End.OracleFailure, want.OracleFailure)
	v.value(end, "end.best_known", e.End.BestKnown, want.BestKnown)
	trace, cost := float64(e.End.OracleCost), float64(want.OracleCost)
	switch {
	case same(trace, cost):
		v.count("end.oracle_cost")
	case v.header.ISA != v.opt.ISA:
		v.tallyOf("end.oracle_cost").skipped++ // a search for the optimum may go another way there
	default:
		v.count("end.oracle_cost")
		v.differs(end.Line, end.Episode, -1, "end.oracle_cost", fmt.Sprint(trace), fmt.Sprint(cost))
	}
}

// violations compares the counts of decisions that broke a limit; a trace of an older program has
// none.
func (v *verifier) violations(l *Line, trace, replay []int) {
	const field = "end.violations"
	if trace == nil {
		v.tallyOf(field).skipped += len(replay)
		return
	}
	if v.tallyOf(field).compared += len(replay); !slices.Equal(trace, replay) {
		v.differs(l.Line, l.Episode, -1, field, fmt.Sprint(trace), fmt.Sprint(replay))
	}
}

// same reports whether a replay gives a trace's number. What is not finite is null in a trace, and NaN when it is read.
func same(trace, replay float64) bool {
	if !finite(replay) {
		return trace == replay || math.IsNaN(trace)
	}
	return math.Abs(trace-replay) <= VerifyTolerance*(1+math.Abs(replay))
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
