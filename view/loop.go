package view

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/serve"
)

// loop is what a plant beside a server and a session of its clients have in common: the frames so far, and what
// the server is asked aside about the last one.
type loop struct {
	server *serve.Server
	decider
	description *Description
	preference  domain.Preference
	searches    bool // a decision of the method is a search with a plan: Case.Learned
	dated       bool // observations state their time
	episode     int
	frames      []*Frame // the last ones
	room        int      // how many are kept
}

// decider is who decides, about what.
type decider struct {
	decides decides
	problem domain.Problem
	spec    *domain.Spec
}

// Describe implements Source.
func (l *loop) Describe() *Description { return l.description }

// Range implements Source.
func (l *loop) Range() (first, last int) { return l.frames[0].K, l.frames[len(l.frames)-1].K }

// Frame implements Source.
func (l *loop) Frame(k int) *Frame { return l.frames[k-l.frames[0].K] }

// Preference implements Source.
func (l *loop) Preference() domain.Preference { return l.preference }

func (l *loop) frame() *Frame {
	return &Frame{Episode: l.episode, S: make([]float64, l.spec.MeasuredSize()), Preference: l.preference}
}

func (l *loop) append(f *Frame) {
	if n := len(l.frames); n > 0 {
		last := l.frames[n-1]
		if f.K = last.K + 1; f.Episode == last.Episode {
			f.Room = last.Room
		}
		if n >= l.room {
			l.frames = slices.Delete(l.frames, 0, n-l.room+1)
		}
	}
	f.widen(f.Room, l.spec)
	l.frames = append(l.frames, f)
}

// groups is how many groups of decisions the server has made for plants of others.
func (l *loop) groups() int64 { return l.server.Aside().Groups() }

// requestAbout asks about copies of a state and a context.
func (l *loop) requestAbout(s, c []float64, p domain.Preference) serve.Request {
	r := serve.Request{S: slices.Clone(s), C: slices.Clone(c), Preference: &p}
	if l.dated {
		r.Observed = time.Now()
	}
	return r
}

// decisionFrame is a frame with what the server says of a decision.
func (l *loop) decisionFrame(d *serve.Decision, t int) *Frame {
	f, bits := l.frame(), domain.Fallback(d.Fallback)
	f.T, f.U, f.Priority = t, d.U, d.Sigma
	f.Margin, f.Residual, f.Limit = d.Margin, d.Residual, d.ResidualLimit
	f.Moved = d.Displacement
	f.LatencyUs, f.Fallback = d.LatencyUs, bits.String()
	f.Replaced, f.Late = bits.Replaced(), d.Late
	f.Cost, f.Best = math.NaN(), math.NaN()
	if len(l.spec.Switches) > 0 {
		f.Plan = slices.Collect(slices.Chunk(d.Ahead, l.spec.ActionSize()))
	}
	return f
}

// score writes what the known dynamics say of an action.
func (l *loop) score(s, c, u, j, margins []float64) {
	if score := domain.AbilitiesOfProblem(l.problem).Score; score != nil {
		score(s, c, u, j, margins)
		return
	}
	l.problem.Objectives(s, u, c, j)
	l.problem.Margins(s, c, u, margins)
}

// preview is the decision about a request, of a loop that has no past.
func (l *loop) preview(ctx context.Context, r serve.Request) (*Frame, error) {
	if err := l.decides.Reset(ctx, previewSession); err != nil {
		return nil, err
	}
	d, err := l.decides.Decide(ctx, previewSession, r)
	if err != nil {
		return nil, err
	}
	last := l.frames[len(l.frames)-1]
	f := l.decisionFrame(d, last.T)
	f.K = last.K
	f.J, f.Margins = make([]float64, l.spec.ObjectiveSize()), make([]float64, len(l.spec.Margins))
	l.score(r.S, r.C, d.U, f.J, f.Margins)
	f.leaveRules(l.spec)
	f.Grid = operate(l.problem, r.S, r.C, d.U)
	l.compare(ctx, f, r)
	l.problem.Step(r.S, r.C, d.U, f.S, make([]float64, l.spec.ContextSize()))
	f.Shapes = last.Shapes
	return f, nil
}

// compare writes the cost of a frame's decision beside that of the exact optimum of the same request, of a
// problem with Best; the optimum is another slice of the server's time, and not known where the server has none.
func (l *loop) compare(ctx context.Context, f *Frame, r serve.Request) {
	f.Cost, f.Best = math.NaN(), math.NaN()
	abilities := domain.AbilitiesOfProblem(l.problem)
	weights := make([]float64, l.spec.ObjectiveSize())
	if abilities.Best == nil || abilities.Weigh == nil || l.description.Grid == nil || len(l.description.Grid.Buses) > mostCompared || !abilities.Weigh(*r.Preference, weights) {
		return
	}
	j, margins := make([]float64, len(weights)), make([]float64, len(l.spec.Margins))
	cost := func(u []float64) (sum float64) {
		l.score(r.S, r.C, u, j, margins)
		for i, w := range weights {
			sum += w * j[i]
		}
		return sum
	}
	f.Cost, f.Weights = cost(f.U), weights
	_ = l.server.Aside().Do(ctx, func() error { // ErrBusy: the optimum stays unknown
		if u := make([]float64, len(f.U)); abilities.Best(r.S, r.C, *r.Preference, u) {
			f.Best = cost(u)
		}
		return nil
	})
}

// mostCompared buses: a larger network's exact optimum takes longer than a slice should.
const mostCompared = 300
