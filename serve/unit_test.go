package serve

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// told notes what a decider is told, and decides at 0.5 by a plan of two.
type told struct {
	calls []string
	fails error // of open and restart
}

func (d *told) note(call string, name string) { d.calls = append(d.calls, call+" "+name) }
func (d *told) open(sess *session) error      { d.note("open", sess.name); return d.fails }
func (d *told) close(sess *session)           { d.note("close", sess.name) }
func (d *told) restart(sess *session) error   { d.note("restart", sess.name); return d.fails }
func (d *told) resume(sess *session, obs batchnav.Observation, u []float64) {
	d.note("resume", fmt.Sprint(sess.name, obs.S, u))
}
func (d *told) prepare(s *Server, jobs []*job) { d.note("prepare", fmt.Sprint(len(jobs))) }

func (d *told) decide(s *Server, jobs []*job, answer func(j *job, m *outcome)) {
	for _, j := range jobs {
		d.note("decide", j.session)
		answer(j, &outcome{&Decision{U: []float64{0.5}, Margin: 0.25}, []float64{0.5, -0.25, 0.125}, len(jobs), nil})
	}
}

func (d *told) executed(j *job, u []float64) { d.note("executed", fmt.Sprint(j.session, u)) }
func (d *told) missed(j *job)                { d.note("missed", j.session) }

// bare is a server of the cart without a dispatcher.
func bare(t *testing.T, opt Options) (*Server, *told) {
	t.Helper()
	c := require.Get(gpc.NewCase(domain.Case{Problem: testdomain.NewCart(8), Guard: domain.Guard{Off: true}}))(t)
	opt.Log, opt.Sessions = slog.New(slog.DiscardHandler), max(1, opt.Sessions)
	d := &told{}
	return &Server{
		controlCase: c, spec: c.Spec(), problem: c.Definition().Problem, opt: opt, preference: domain.Preference{Adaptive: true}, sessions: map[string]*session{}, decider: d,
		plans: planTails{plans: map[string][]float64{}, width: 1}, metrics: newMetrics(), queue: make(chan []*job, 1), finished: make(chan struct{}), draining: make(chan struct{}), hurry: make(chan struct{}), start: time.Now(),
	}, d
}

// asked is a decision of a session that waits.
func asked(name string) *job {
	return &job{op: opDecide, session: name, request: Request{S: []float64{0.1, 0.2}, C: []float64{0}}, start: time.Now(), ready: make(chan struct{})}
}

// contextOf is a context of a test, and what ends it.
func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	return ctx, end
}

// heard is a log of messages.
type heard struct{ all *[]string }

func (h heard) Enabled(context.Context, slog.Level) bool { return true }

func (h heard) Handle(_ context.Context, r slog.Record) error {
	*h.all = append(*h.all, r.Message)
	return nil
}

func (h heard) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h heard) WithGroup(string) slog.Handler      { return h }

// logTo keeps the messages of a log.
func logTo(all *[]string) *slog.Logger { return slog.New(heard{all}) }
