package closedloop_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// faulty is a plant whose position sensor gives NaN at the third decision.
type faulty struct{ domain.Plant }

func (p faulty) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	ep, err := p.Plant.Episode(seed, index, opt)
	return &blind{Episode: ep}, err
}

type blind struct {
	domain.Episode
	t int
}

func (e *blind) Observe(s, c []float64) {
	e.Episode.Observe(s, c)
	if e.t == 2 {
		s[0] = math.NaN()
	}
	e.t++
}

// An observation that is not a number gets the fallback action, flagged in a
// trace that stays valid JSON and verifies.
func TestSensorFaultIsFlaggedInTheTrace(t *testing.T) {
	c := cartCase(t)
	healthy := *c
	c.Plant = faulty{c.Plant}
	o := options(t.TempDir())
	r := evaluate(t, c, direct(c), o)
	if r.Fallback != 6 || r.Flagged != 6 || r.Failures != 0 {
		t.Errorf("fallback %d, flagged %d, failures %d; want 6, 6, 0", r.Fallback, r.Flagged, r.Failures)
	}
	file := require.Get(os.Open(o.TracePath))(t)
	defer file.Close()
	reader := require.Get(closedloop.NewReader(file))(t)
	e := require.Get(reader.Next())(t)
	l := e.Lines[2]
	want := domain.FallbackObservation | domain.FallbackConservative
	if domain.Fallback(l.Fallback) != want || !math.IsNaN(l.X[0]) || l.U[0] != -1 || !math.IsNaN(float64(l.Residual)) {
		t.Errorf("faulty decision is %+v, want fallback %v", l, want)
	}
	v, err := closedloop.Verify(t.Context(), o.TracePath, lookup(&healthy))
	if err != nil || !v.OK {
		t.Errorf("the trace of a sensor fault: %v, %+v", err, v)
	}
}

// A full disk is an error that names the file, not a result.
func TestFullDisk(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("this system has no /dev/full")
	}
	c := cartCase(t)
	o := options("")
	o.TracePath = full
	if _, err := closedloop.Evaluate(context.Background(), c, direct(c), o); err == nil || !strings.Contains(err.Error(), full) {
		t.Errorf("writing to a full disk gives %v", err)
	}
}

// A trace has one writer, and one that is there is not written over, by whatever run.
func TestATraceIsNotOverwritten(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	refused := func(what string, o closedloop.Options, says string) {
		t.Helper()
		before, _ := os.ReadFile(o.TracePath)
		_, err := closedloop.Evaluate(context.Background(), c, func() (domain.Controller, error) {
			t.Errorf("%s: work was begun", what)
			return direct(c)()
		}, o)
		var refusal *durable.Refusal
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want a refusal that says %q", what, err, says)
		}
		if after, _ := os.ReadFile(o.TracePath); !bytes.Equal(before, after) {
			t.Errorf("%s: the trace was changed", what)
		}
	}
	during := o
	during.Progress = func(done, _ int) {
		second := o
		second.Resume = true
		if done == 3 {
			refused("a second writer", second, "is being written by process")
		}
	}
	evaluate(t, c, direct(c), during)
	refused("a finished trace", o, "exists already")
	if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); !v.OK {
		t.Errorf("after all this: %+v", v)
	}
	if left, _ := filepath.Glob(o.TracePath + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	o.TracePath = t.TempDir()
	refused("a folder", o, "folder")
}

func TestBadEvaluationRequests(t *testing.T) {
	c := cartCase(t)
	for name, change := range map[string]func(*closedloop.Options){
		"no episodes":       func(o *closedloop.Options) { o.Episodes = 0 },
		"shard":             func(o *closedloop.Options) { o.ShardIndex, o.ShardCount = 3, 3 },
		"noise":             func(o *closedloop.Options) { o.Noise = math.NaN() },
		"preference":        func(o *closedloop.Options) { o.Preference = domain.Preference{W: []float64{1}} },
		"regime":            func(o *closedloop.Options) { o.Regime = "storm" },
		"resume of no file": func(o *closedloop.Options) { o.Resume = true },
	} {
		o := options("")
		change(&o)
		if _, err := closedloop.Evaluate(context.Background(), c, direct(c), o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	without := *c
	without.Plant = nil
	if _, err := closedloop.Evaluate(context.Background(), &without, direct(c), options("")); err == nil {
		t.Error("a case without a plant was evaluated")
	}
}

// The functions of a case are asked on a goroutine of their own, which a limit of time can
// leave. What they panic with is the caller's to catch all the same.
func TestAPanicOfACaseIsTheVerifiersCallers(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	evaluate(t, c, direct(c), o)
	opt := lookup(c)
	opt.Case = func(*closedloop.Header) (*domain.Case, bool, error) { panic("of the case") }
	defer func() {
		if got := recover(); got != "of the case" {
			t.Errorf("Verify panics with %v", got)
		}
	}()
	_, err := closedloop.Verify(t.Context(), o.TracePath, opt)
	t.Errorf("Verify returns %v", err)
}
