package view

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/option"
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
	loop
	home    loop      // as it began, without frames
	c       *gpc.Case // of the server
	running *gpc.Case // on the plant that runs: c, or one that a person has changed
	opt     LiveOptions
	seed    uint64

	ep   domain.Episode
	s, x []float64 // what the next decision is given
	// The drawn episode so far: decisions made, what a person did, and the preference of the last of these.
	decisions int
	events    []Event
	preferred domain.Preference
	first     domain.Preference     // that the page began with
	recording *closedloop.Recording // of the episode, with so many decisions; nil: it is too large
	recorded  int
}

// NewLive begins an episode of the case's plant beside a server of the case.
func NewLive(ctx context.Context, c *gpc.Case, s *serve.Server, opt LiveOptions) (*Live, error) {
	d, spec := c.Definition(), c.Spec()
	if d.Plant == nil {
		return nil, gpc.BadInput(fmt.Errorf("case %s has no plant to simulate, which the page shows", c.Name()))
	}
	l := &Live{
		loop: loop{
			server: s, decider: decider{s.Aside(), d.Problem, spec}, description: describe(d), searches: d.Learned != nil, dated: opt.Dated,
			preference: domain.Preference{Adaptive: opt.Preference == nil, W: opt.Preference},
		},
		c: c, running: c, opt: opt, seed: opt.Seed, s: make([]float64, spec.MeasuredSize()), x: make([]float64, spec.ContextSize()),
	}
	if err := l.preference.Validate(spec.ObjectiveSize()); err != nil {
		return nil, gpc.BadInput(err)
	}
	h := s.Health()
	if h.SessionsMax < Sessions {
		return nil, gpc.BadInput(option.Errorf("the server has room for %d sessions, the page needs %d: raise {Sessions}", h.SessionsMax, Sessions))
	}
	l.description.Kind, l.description.Steers, l.description.Method = "live", true, h.Method
	l.description.DeadlineUs = machine.Microseconds(opt.Deadline)
	l.first, l.home = l.preference, l.loop
	if err := l.Reset(ctx, opt.Episode); err != nil {
		return nil, err
	}
	numbers := 8*spec.MeasuredSize() + spec.ActionSize() + len(spec.Margins) + 64
	if len(spec.Switches) > 0 {
		numbers += spec.LookAhead() * spec.ActionSize()
	}
	l.room = max(2, min(cmp.Or(opt.History, history), max(64, historyNumbers/numbers)))
	return l, nil
}

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

// episodeOptions are the options of an episode.
func (l *Live) episodeOptions(ctx context.Context) domain.EpisodeOptions {
	return domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}, Context: ctx}
}

// begin draws an episode of the case's own plant; its first frame stands behind those that are kept.
func (l *Live) begin(ctx context.Context, episode int, history []*Frame) error {
	ep, err := l.c.Definition().Plant.Episode(l.seed, episode, l.episodeOptions(ctx))
	if err != nil {
		return gpc.BadInput(fmt.Errorf("episode %d of seed %d: %w", episode, l.seed, err))
	}
	if err := l.home.decides.Reset(ctx, loopSession); err != nil {
		return err
	}
	l.episode, l.frames = episode, history
	l.decisions, l.events, l.preferred = 0, nil, l.first
	if l.running != l.c || l.description.Source != l.source() {
		l.take(l.c, l.home.decider)
	}
	if abilities := domain.AbilitiesOfEpisode(ep); abilities.Change != nil {
		l.description.Changes = abilities.Changes
	}
	l.start(ep, false)
	l.append(l.opening())
	return nil
}

// start takes over an episode before its first decision.
func (l *Live) start(ep domain.Episode, staged bool) {
	l.ep = ep
	l.record(staged)
}

// opening is the frame of an episode before its first decision.
func (l *Live) opening() *Frame {
	f := l.frame()
	unknown := math.NaN()
	f.Margin, f.Residual, f.Moved = unknown, unknown, unknown
	f.LatencyUs, f.Cost, f.Best = unknown, unknown, unknown
	f.Fallback = domain.Fallback(0).String()
	l.ep.State(f.S)
	l.observe(f)
	return f
}

// source says where the frames come from.
func (l *Live) source() string {
	h := l.server.Health()
	return fmt.Sprintf("seed %d, %s (%s, %d threads), commit %s", l.seed, h.Backend, h.ISA, h.Threads, h.Commit)
}

// observe takes what the next decision is given, and draws the state that a frame led to.
func (l *Live) observe(f *Frame) {
	l.ep.Observe(l.s, l.x)
	f.Shapes = picture(l.problem, f.S, l.x)
}

// measured reports whether outputs are measured in place of the state.
func (l *Live) measured() bool { return l.running.Definition().Measurement != nil }

// request is the observation at hand under a preference.
func (l *Live) request(p domain.Preference) serve.Request {
	r := l.requestAbout(l.s, l.x, p)
	if l.measured() {
		r.S, r.Y = nil, make([]float64, len(l.running.Definition().Measurement.Outputs))
		domain.AbilitiesOfEpisode(l.ep).Measure(r.Y, r.C)
	}
	return r
}

// Advance implements Source: one decision, and after the last of an episode the next episode.
func (l *Live) Advance(ctx context.Context) error {
	last := l.frames[len(l.frames)-1]
	if l.ep.Done() || last.Note != "" {
		return l.begin(ctx, l.episode+1, l.frames)
	}
	d, err := l.decides.Decide(ctx, loopSession, l.request(l.preference))
	if err != nil {
		return err
	}
	if !l.preference.Equal(l.preferred) {
		p := l.preference
		l.events, l.preferred = append(l.events, Event{After: l.decisions, Preference: &p}), p
	}
	f := l.decisionFrame(d, last.T+1)
	f.Grid = operate(l.problem, l.s, l.x, d.U)
	l.compare(ctx, f, serve.Request{S: l.s, C: l.x, Preference: &f.Preference})
	out, err := l.ep.Apply(d.U)
	if err != nil {
		f.Note = fmt.Sprintf("the plant has stopped: %v", err)
		copy(f.S, last.S)
		f.Shapes = last.Shapes
		l.append(f)
		return nil
	}
	f.S, f.J, f.Sigma = out.S, out.J, out.Sigma
	f.Margin, f.Margins, f.Failed = out.Margin, out.Named, out.Failed
	if l.recording != nil {
		decision := domain.Decision{Sigma: d.Sigma, Residual: d.Residual, Displacement: d.Displacement, Fallback: domain.Fallback(d.Fallback)}
		l.recording.Add(l.s, l.x, d.U, &out, decision, time.Duration(d.LatencyUs*1e3))
		l.recorded++
	}
	l.decisions++
	l.observe(f)
	l.append(f)
	return nil
}

// Preview implements Source: the decision in the present state under the preference that was
// set last, by a loop that has no past. The state is what it would be after it.
func (l *Live) Preview(ctx context.Context) (*Frame, error) {
	if l.ep.Done() || l.measured() { // a loop without a past has no estimate
		return nil, nil
	}
	return l.preview(ctx, l.request(l.preference))
}

// DefaultRate is how many decisions a second a Live is shown at: the plant's own time where
// that is fast enough to watch, and not so fast that nothing is seen. Of a plant with steps of a minute or more
// each decision is seen for half a second.
func DefaultRate(spec *domain.Spec) float64 {
	switch {
	case spec.StepSeconds <= 0:
		return 10
	case spec.StepSeconds >= 60:
		return 2
	}
	return min(25, max(1/spec.StepSeconds, 10))
}
