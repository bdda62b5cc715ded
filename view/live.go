package view

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/serve"
)

// Sessions of the server that a Live decides in: the loop's own, that of previews, and that of the
// rays of a fan, one after the other.
const (
	loopSession    = "view"
	previewSession = "view/preview"
	raySession     = "view/ray"
)

// Sessions is how many of the server's a Live uses at most.
const Sessions = 3

const (
	// history is how many frames are kept by default.
	history = 2048
	// historyNumbers bounds what is kept of the past: frames × numbers in one.
	historyNumbers = 1 << 22
)

// LiveOptions say what runs beside a server. The zero value of each is a default.
type LiveOptions struct {
	Seed    uint64 // of the plant's scenes
	Episode int    // that it begins with
	// Regime and Noise as domain.EpisodeOptions has them.
	Regime string
	Noise  float64
	// Preference that it begins with; nil: the adaptive priority.
	Preference []float64
	// Deadline that the server answers by; 0: none. The page shows it.
	Deadline time.Duration
	// Dated observations state their time, as a server with a MaxAge wants it.
	Dated bool
	// History is how many frames are kept at most; 0: 2048. Of a large network they are fewer.
	History int
}

// Live is a plant of a case in closed loop with a server, which decides in sessions of its own. All of
// it is asked aside: the decisions of others come first.
type Live struct {
	c           *gpc.Case
	server      *serve.Server
	aside       serve.Aside
	opt         LiveOptions
	problem     domain.Problem
	spec        *domain.Spec
	description *Description
	preference  domain.Preference
	searches    bool // a decision of the method is a search with a plan: Case.Learned

	ep      domain.Episode
	episode int
	s, x    []float64 // what the next decision is given
	frames  []*Frame  // the last ones
	room    int
}

var _ Source = (*Live)(nil)

// NewLive begins an episode of the case's plant beside a server of the case.
func NewLive(ctx context.Context, c *gpc.Case, s *serve.Server, opt LiveOptions) (*Live, error) {
	d, spec := c.Definition(), c.Spec()
	if d.Plant == nil {
		return nil, gpc.BadInput(fmt.Errorf("case %s has no plant to run: a page cannot show one", c.Name()))
	}
	l := &Live{
		c: c, server: s, aside: s.Aside(), opt: opt, problem: d.Problem, spec: spec, description: describe(d), searches: d.Learned != nil,
		preference: domain.Preference{Adaptive: opt.Preference == nil, W: opt.Preference},
		s:          make([]float64, spec.MeasuredSize()), x: make([]float64, spec.ContextSize()),
	}
	if err := l.preference.Validate(spec.ObjectiveSize()); err != nil {
		return nil, gpc.BadInput(err)
	}
	h := s.Health()
	if h.SessionsMax < Sessions {
		return nil, gpc.BadInput(fmt.Errorf("the server has room for %d sessions: a page wants %d of its own", h.SessionsMax, Sessions))
	}
	l.description.Kind, l.description.Steers, l.description.Method, l.description.DeadlineUs = "live", true, h.Method, machine.Microseconds(opt.Deadline)
	l.description.Source = fmt.Sprintf("seed %d, %s (%s, %d threads), commit %s", opt.Seed, h.Backend, h.ISA, h.Threads, h.Commit)
	if err := l.Reset(ctx, opt.Episode); err != nil {
		return nil, err
	}
	numbers := 8*spec.MeasuredSize() + spec.ActionSize() + len(spec.Margins) + 64
	l.room = max(2, min(cmp.Or(opt.History, history), max(64, historyNumbers/numbers)))
	return l, nil
}

// Describe implements Source.
func (l *Live) Describe() *Description { return l.description }

// Range implements Source.
func (l *Live) Range() (first, last int) { return l.frames[0].K, l.frames[len(l.frames)-1].K }

// Frame implements Source.
func (l *Live) Frame(k int) *Frame { return l.frames[k-l.frames[0].K] }

// Preference implements Source.
func (l *Live) Preference() domain.Preference { return l.preference }

// Steer implements Source.
func (l *Live) Steer(p domain.Preference) error {
	if err := p.Validate(l.spec.ObjectiveSize()); err != nil {
		return &serve.FieldError{Field: "w", Err: err}
	}
	l.preference = domain.Preference{Adaptive: p.Adaptive, W: slices.Clone(p.W)}
	return nil
}

// Reset implements Source.
func (l *Live) Reset(ctx context.Context, episode int) error {
	if episode < 0 {
		episode = l.episode + 1
	}
	return l.begin(ctx, episode, nil)
}

// begin draws an episode; its first frame stands behind those that are kept.
func (l *Live) begin(ctx context.Context, episode int, kept []*Frame) error {
	ep, err := l.c.Definition().Plant.Episode(l.opt.Seed, episode, domain.EpisodeOptions{
		Noise: l.opt.Noise, Regime: l.opt.Regime, Preference: domain.Preference{Adaptive: true}, Context: ctx,
	})
	if err != nil {
		return gpc.BadInput(fmt.Errorf("episode %d of seed %d: %w", episode, l.opt.Seed, err))
	}
	if err := l.aside.Reset(ctx, loopSession); err != nil {
		return err
	}
	l.ep, l.episode, l.frames = ep, episode, kept
	f := l.frame()
	f.Margin, f.Residual, f.Moved, f.LatencyUs = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	f.Fallback = domain.Fallback(0).String()
	ep.State(f.S)
	l.observe(f)
	l.append(f)
	return nil
}

func (l *Live) frame() *Frame {
	return &Frame{Episode: l.episode, S: make([]float64, l.spec.MeasuredSize()), Preference: l.preference}
}

// observe takes what the next decision is given, and draws the state that a frame led to.
func (l *Live) observe(f *Frame) {
	l.ep.Observe(l.s, l.x)
	f.Shapes = picture(l.problem, f.S, l.x)
}

func (l *Live) append(f *Frame) {
	if n := len(l.frames); n > 0 {
		f.K = l.frames[n-1].K + 1
		if n >= l.room {
			l.frames = slices.Delete(l.frames, 0, n-l.room+1)
		}
	}
	l.frames = append(l.frames, f)
}

// request is the observation at hand under a preference.
func (l *Live) request(p domain.Preference) serve.Request {
	return l.asked(l.s, l.x, p)
}

// asked is a request about copies of a state and a context.
func (l *Live) asked(s, c []float64, p domain.Preference) serve.Request {
	r := serve.Request{S: slices.Clone(s), C: slices.Clone(c), Preference: &p}
	if l.opt.Dated {
		r.Observed = time.Now()
	}
	return r
}

// Advance implements Source: one decision, and after the last of an episode the next episode.
func (l *Live) Advance(ctx context.Context) error {
	last := l.frames[len(l.frames)-1]
	if l.ep.Done() || last.Note != "" {
		return l.begin(ctx, l.episode+1, l.frames)
	}
	d, err := l.aside.Decide(ctx, loopSession, l.request(l.preference))
	if err != nil {
		return err
	}
	f := l.decided(d, last.T+1)
	f.Grid = operate(l.problem, l.s, l.x, d.U)
	out, err := l.ep.Apply(d.U)
	if err != nil {
		f.Note = fmt.Sprintf("the plant has stopped: %v", err)
		copy(f.S, last.S)
		f.Shapes = last.Shapes
		l.append(f)
		return nil
	}
	f.S, f.J, f.Sigma, f.Margin, f.Margins, f.Failed = out.S, out.J, out.Sigma, out.Margin, out.Named, out.Failed
	l.observe(f)
	l.append(f)
	return nil
}

// decided is a frame with what the server says of a decision.
func (l *Live) decided(d *serve.Decision, t int) *Frame {
	f, bits := l.frame(), domain.Fallback(d.Fallback)
	f.T, f.U, f.Priority, f.Margin, f.Residual, f.Limit, f.Moved = t, d.U, d.Sigma, d.Margin, d.Residual, d.ResidualLimit, d.Displacement
	f.LatencyUs, f.Fallback, f.Replaced, f.Late = d.LatencyUs, bits.String(), bits.Replaced(), d.Late
	return f
}

// Preview implements Source: the decision in the present state under the preference that was
// set last, by a loop that has no past. The state is what it would be after it.
func (l *Live) Preview(ctx context.Context) (*Frame, error) {
	if l.ep.Done() {
		return nil, nil
	}
	if err := l.aside.Reset(ctx, previewSession); err != nil {
		return nil, err
	}
	r := l.request(l.preference)
	d, err := l.aside.Decide(ctx, previewSession, r)
	if err != nil {
		return nil, err
	}
	last := l.frames[len(l.frames)-1]
	f := l.decided(d, last.T)
	f.K = last.K
	f.J, f.Margins = make([]float64, l.spec.ObjectiveSize()), make([]float64, len(l.spec.Margins))
	l.score(r.S, r.C, d.U, f.J, f.Margins)
	f.Grid = operate(l.problem, r.S, r.C, d.U)
	next := make([]float64, len(l.x))
	l.problem.Step(r.S, r.C, d.U, f.S, next)
	f.Shapes = last.Shapes
	return f, nil
}

// score writes what the known dynamics say of an action.
func (l *Live) score(s, c, u, j, margins []float64) {
	if scored, ok := l.problem.(domain.Scored); ok {
		scored.Score(s, c, u, j, margins)
		return
	}
	l.problem.Objectives(s, u, c, j)
	l.problem.Margins(s, c, u, margins)
}

// DefaultRate is how many decisions a second a Live is shown at: the plant's own time where
// that is fast enough to watch, and not so fast that nothing is seen.
func DefaultRate(spec *domain.Spec) float64 {
	if spec.StepSeconds <= 0 {
		return 10
	}
	return min(25, max(1/spec.StepSeconds, 10))
}
