package closedloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/interrupt"
)

// VerifyTolerance bounds |got − want| ≤ VerifyTolerance·(1 + |want|) for a state,
// a margin, an objective or a cost. A replay repeats the same float64 operations,
// so on one machine it differs by nothing; another processor may fuse
// multiply-adds, and a power flow stops at 1e-9 per unit.
const VerifyTolerance = 1e-7

// Mismatch is one value of a trace that its re-simulation does not confirm.
type Mismatch struct {
	Line    int    `json:"line"`
	Episode int    `json:"episode"`
	T       int    `json:"t"`     // −1 for a value of the whole episode
	Field   string `json:"field"` // the trace's key, with the entry where it is a list
	Trace   string `json:"trace"` // what the trace says
	Replay  string `json:"replay"`
}

func (m Mismatch) String() string {
	return fmt.Sprintf("line %d, episode %d, t %d: %s is %s, re-simulation gives %s", m.Line, m.Episode, m.T, m.Field, m.Trace, m.Replay)
}

// Verification is the outcome of Verify under the JSON keys of `gpc verify`.
type Verification struct {
	OK         bool       `json:"ok"`
	Case       string     `json:"case"`
	Method     string     `json:"method"`
	Episodes   int        `json:"episodes"`
	Decisions  int        `json:"decisions"`
	Safe       int        `json:"safe"`
	Tolerance  float64    `json:"tolerance"`
	Mismatches []Mismatch `json:"mismatches"`
}

// Verify re-simulates a trace from its header, scenes and actions alone and
// reports every state, objective, priority, margin, cost and verdict that
// differs. lookup finds a case by name. What is malformed is an error that names
// the line; a trace that is well formed but cut off, or lacks an episode, is a
// mismatch.
func Verify(ctx context.Context, path string, lookup func(name string) (*domain.Case, error)) (*Verification, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	defer file.Close()
	return VerifyReader(ctx, file, lookup)
}

// VerifyReader is Verify of an open trace.
func VerifyReader(ctx context.Context, in io.Reader, lookup func(name string) (*domain.Case, error)) (*Verification, error) {
	r, err := NewReader(interrupt.Reader(ctx, in))
	if err != nil {
		return nil, err
	}
	c, err := lookup(r.Header.Case)
	if err != nil {
		return nil, fmt.Errorf("trace line 1: %w", err)
	}
	shifted, err := c.Shifted(r.Header.Shift)
	if err != nil {
		return nil, fmt.Errorf("trace line 1: %w", err)
	}
	if c = &shifted; c.Plant == nil {
		return nil, fmt.Errorf("trace line 1: case %q has no plant to re-simulate with", r.Header.Case)
	}
	v := &verifier{
		Verification: Verification{Case: r.Header.Case, Method: r.Header.Method, Tolerance: VerifyTolerance, Mismatches: []Mismatch{}},
		ctx:          ctx, header: &r.Header, plant: c.Plant, spec: c.Problem.Spec(),
	}
	next := r.Header.Shard[0]
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
		if e.Episode != next {
			v.differs(e.SceneLine, e.Episode, -1, "episode", fmt.Sprint(e.Episode), fmt.Sprintf("%d: every episode is written, in order", next))
		}
		next = e.Episode + r.Header.Shard[1]
		if err := v.episode(e); err != nil {
			return nil, err
		}
	}
	if v.Episodes == 0 && len(v.Mismatches) == 0 {
		v.differs(1, -1, -1, "episode", "none", "a trace holds at least one complete episode")
	}
	v.OK = len(v.Mismatches) == 0
	return &v.Verification, nil
}

type verifier struct {
	Verification
	ctx    context.Context
	header *Header
	plant  domain.Plant
	spec   *domain.Spec
}

func (v *verifier) differs(line, episode, t int, field, trace, replay string) {
	v.Mismatches = append(v.Mismatches, Mismatch{line, episode, t, field, trace, replay})
}

// number compares one value; NaN equals nothing.
func (v *verifier) number(l *Line, field string, trace, replay float64) {
	if math.Abs(trace-replay) <= VerifyTolerance*(1+math.Abs(replay)) {
		return
	}
	v.differs(l.Line, l.Episode, l.T, field, fmt.Sprint(trace), fmt.Sprint(replay))
}

func (v *verifier) flag(l *Line, field string, trace, replay bool) {
	if trace != replay {
		v.differs(l.Line, l.Episode, l.T, field, fmt.Sprint(trace), fmt.Sprint(replay))
	}
}

func (v *verifier) vector(l *Line, field string, trace Vector, replay []float64) {
	if len(trace) != len(replay) {
		v.differs(l.Line, l.Episode, l.T, field, fmt.Sprintf("%d entries", len(trace)), fmt.Sprintf("%d entries", len(replay)))
		return
	}
	for i, x := range trace {
		v.number(l, fmt.Sprintf("%s[%d]", field, i), x, replay[i])
	}
}

// episode replays one episode. An unusable scene is an error with its line.
func (v *verifier) episode(e *EpisodeRecord) error {
	ep, err := v.plant.Replay(v.header.Params, e.Scene)
	if err != nil {
		return fmt.Errorf("trace line %d: %w", e.SceneLine, err)
	}
	v.Episodes++
	var sum score
	state, completed := make([]float64, v.spec.MeasuredSize()), true
	ns, nu := sizes(v.spec, ep)
	u := make([]float64, v.spec.ActionSize())
	for i := range e.Lines {
		if err := v.ctx.Err(); err != nil {
			return err
		}
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
		if v.header.Noise == 0 && v.header.Bias == 0 {
			ep.State(state)
			v.measured(l, state[:ns])
		}
		out, err := apply(v.spec, ep, u)
		if err != nil {
			v.differs(l.Line, e.Episode, l.T, "u", fmt.Sprint([]float64(l.U)), err.Error())
			completed = false
			break
		}
		v.Decisions++
		sum.add(v.spec, &out)
		v.vector(l, "s", l.S, out.S[:ns])
		v.vector(l, "sigma", l.Sigma, out.Sigma)
		v.vector(l, "J", l.J, out.J)
		v.number(l, "margin", float64(l.Margin), out.Margin)
		if f := domain.Fallback(l.Fallback); !f.Known() {
			v.differs(l.Line, e.Episode, l.T, "fallback", fmt.Sprint(l.Fallback), "bits that no guard sets")
		}
		v.flag(l, "failed", l.Failed, out.Failed)
	}
	v.verdict(e, ep, &sum, completed && ep.Done())
	return nil
}

// measured compares x with the plant's state where there was no noise. A null
// entry is a sensor that gave no number, which no replay can confirm; the actions
// do not depend on it.
func (v *verifier) measured(l *Line, state []float64) {
	if len(l.X) != len(state) {
		v.vector(l, "x", l.X, state)
		return
	}
	for i, x := range l.X {
		if !math.IsNaN(x) {
			v.number(l, fmt.Sprintf("x[%d]", i), x, state[i])
		}
	}
}

// verdict compares the end line with what the replay says of the episode.
func (v *verifier) verdict(e *EpisodeRecord, ep domain.Episode, sum *score, completed bool) {
	safe := sum.safe() && completed
	if judged, ok := ep.(domain.Judged); ok && !judged.Succeeded() {
		safe = false
	}
	if safe {
		v.Safe++
	}
	end := &Line{Line: e.EndLine, Episode: e.Episode, T: -1}
	v.number(end, "cost", float64(e.End.Cost), sum.cost)
	if e.End.Margins != nil {
		v.vector(end, "margins", e.End.Margins, sum.lowest)
	}
	if judged, ok := ep.(domain.Judged); ok && e.End.Reached != nil {
		v.flag(end, "reached", *e.End.Reached, judged.Succeeded())
	}
	if a, ok := ep.(domain.Arrived); ok && e.End.AtEnd != nil {
		v.flag(end, "at_end", *e.End.AtEnd, a.Arrived())
	}
	v.flag(end, "failed", e.End.Failed, sum.failed)
	v.flag(end, "safe", e.End.Safe, safe)
	v.flag(end, "collision_free", e.End.CollisionFree, sum.collisionFree)
	v.flag(end, "completed", e.End.Completed, completed)
}
