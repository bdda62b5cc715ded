package serve_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/serve"
)

// working is a controller whose decisions take a time, and that says of which states they were.
type working struct {
	domain.Controller
	takes time.Duration
	done  func(x float64)
}

func (w working) Decide(s, c []float64, p domain.Preference, u []float64) (domain.Decision, error) {
	if s[0] == short {
		time.Sleep(2 * w.takes / 5)
	} else {
		time.Sleep(w.takes)
	}
	w.done(s[0])
	return w.Controller.Decide(s, c, p, u)
}

// short is a state about which a decision takes two fifths of the time.
const short = 0.05

// atWork is a server whose decisions take a time, and the first entries of the states that it has decided
// about. It is made, asked and closed in the bubble of a synctest, where times are exact.
func atWork(t *testing.T, takes time.Duration) (s *serve.Server, decided func() []float64) {
	own, setup := cart(t)
	def := *own.Definition()
	var of sync.Mutex
	var all []float64
	done := func(x float64) {
		of.Lock()
		defer of.Unlock()
		all = append(all, x)
	}
	def.Methods = append(def.Methods[:0:0], domain.Method{Name: "working", New: func(domain.Means) (domain.Controller, error) {
		return working{require.Get(own.Controller(nil, gpc.Setup{Method: "hold"}))(t), takes, done}, nil
	}})
	setup.Method = "working"
	s = require.Get(serve.New(require.Get(gpc.NewCase(def))(t), cpu(t), serve.Options{Setup: setup}))(t)
	return s, func() []float64 {
		of.Lock()
		defer of.Unlock()
		return slices.Clone(all)
	}
}

func about(x float64) serve.Request { return serve.Request{S: []float64{x, 0}, C: []float64{0}} }

// What a plant waits for comes before everything that was asked aside, and waits for the slice in
// progress alone. While its session is open, slices take a sixteenth of the time, and begin when it asks nothing.
func TestADecisionComesBeforeWhatIsAskedAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, decided := atWork(t, 10*time.Millisecond)
		aside := s.Aside()
		var decisions sync.WaitGroup
		for range 5 {
			decisions.Go(func() { require.Get(aside.Decide(t.Context(), "looking", about(0.1)))(t) })
		}
		synctest.Wait() // the first is in progress
		for _, x := range []float64{0.2, 0.3} {
			decisions.Go(func() { require.Get(s.Decide(t.Context(), "plant", about(x)))(t) })
			synctest.Wait()
		}
		began := time.Now()
		decisions.Wait()
		if got, want := decided(), []float64{0.1, 0.2, 0.3, 0.1, 0.1, 0.1, 0.1}; !slices.Equal(got, want) {
			t.Errorf("decisions were made about %v, want %v", got, want)
		}
		// The first slice, two decisions, a moment of quiet, a slice, then three times a rest and a slice.
		if took, want := time.Since(began), (10+20+10+10+3*160)*time.Millisecond; took != want {
			t.Errorf("all of it took %v, want %v", took, want)
		}
		if h := s.Health(); h.Decisions != 2 || h.Sessions != 2 || h.Asides != 5 {
			t.Errorf("%d decisions and %d slices were counted, want the plant's 2 and 5", h.Decisions, h.Asides)
		}
		var text bytes.Buffer
		require.OK(t, s.WriteMetrics(&text))
		for _, line := range []string{"gpc_aside_total 5\n", "gpc_aside_ahead_max 0\n", "gpc_decision_latency_seconds_count 2\n"} {
			if !strings.Contains(text.String(), line) {
				t.Errorf("the metrics lack %q", line)
			}
		}
		if kept := require.Get(s.Sessions(t.Context()))(t); len(kept) != 1 || kept[0].Session != "plant" {
			t.Errorf("sessions to keep: %v", kept)
		}
		s.Close()
		if _, err := aside.Decide(t.Context(), "looking", about(0.1)); err != serve.ErrClosed {
			t.Errorf("a closed server is asked aside: %v", err)
		}
	})
}

// Who looks on all the time leaves the 90th percentile of a plant's decisions within 1.2 times what it is
// unwatched, and the longest waits for one slice: whether the plant asks now and then or at once again.
func TestWhoLooksOnDoesNotSlowDecisions(t *testing.T) {
	for _, plant := range []struct {
		name  string
		rests time.Duration // between two decisions, at most
		about float64       // what the slices decide about
		looks int           // of them beside 2000 decisions, at least
	}{{"now and then", 20 * time.Millisecond, 0.1, 500}, {"at once", 50 * time.Microsecond, short, 100}} {
		alone, _ := watchedTimes(t, plant.rests, plant.about, false)
		watched, looks := watchedTimes(t, plant.rests, plant.about, true)
		slices.Sort(alone)
		slices.Sort(watched)
		p90 := len(alone) * 9 / 10
		if looks < plant.looks {
			t.Errorf("%s: %d slices beside 2000 decisions: nobody looked on", plant.name, looks)
		}
		if ratio := float64(watched[p90]) / float64(alone[p90]); ratio > 1.2 {
			t.Errorf("%s: p90 is %v watched and %v unwatched, %.2f times as long", plant.name, watched[p90], alone[p90], ratio)
		}
		if longest := watched[len(watched)-1]; longest > 2*time.Millisecond {
			t.Errorf("%s: a decision of 1 ms took %v: it waited for more than one slice", plant.name, longest)
		}
	}
}

// watchedTimes are those of 2000 decisions of a plant that rests for a random time between two, and how many
// slices those had who look on.
func watchedTimes(t *testing.T, rests time.Duration, looked float64, watched bool) (all []time.Duration, slices int) {
	synctest.Test(t, func(t *testing.T) {
		s, decided := atWork(t, time.Millisecond)
		stop := make(chan struct{})
		var looking sync.WaitGroup
		for range 3 {
			looking.Go(func() {
				for watched {
					select {
					case <-stop:
						return
					default:
						require.Get(s.Aside().Decide(t.Context(), "looking", about(looked)))(t)
					}
				}
			})
		}
		draw := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			time.Sleep(time.Duration(draw.Int64N(int64(rests))))
			began := time.Now()
			require.Get(s.Decide(t.Context(), "plant", about(0.2)))(t)
			all = append(all, time.Since(began))
		}
		close(stop)
		looking.Wait()
		s.Close()
		slices = len(decided()) - 2000
	})
	return all, slices
}

// preparing counts its preparations, which fail with an error.
type preparing struct {
	domain.Controller
	prepared int
	fails    error
}

func (p *preparing) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Prepare: func() error { p.prepared++; return p.fails }}
}

// refusing makes no decision.
type refusing struct{ *preparing }

func (refusing) Decide(_, _ []float64, _ domain.Preference, _ []float64) (domain.Decision, error) {
	return domain.Decision{}, errors.New("refused")
}

// Whoever looks on has anything done in a slice, lets a controller of another plant decide as it would by itself, and ends its own sessions.
func TestWhatElseIsAskedAside(t *testing.T) {
	c, setup := cart(t)
	s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: setup}))(t)
	t.Cleanup(s.Close)
	ctx, aside, broken := t.Context(), s.Aside(), errors.New("broken")
	done := 0
	if err := aside.Do(ctx, func() error { done++; return nil }); err != nil || done != 1 {
		t.Errorf("done %d times: %v", done, err)
	}
	if err := aside.Do(ctx, func() error { return broken }); err != broken {
		t.Errorf("an error of what is done is %v", err)
	}
	if err := aside.Do(ctx, func() error { panic("wrong") }); err == nil || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("a panic is %v", err)
	}
	r := about(0.1)
	r.Preference = &domain.Preference{W: []float64{0.5, 0.5}}
	want := []float64{0}
	require.Get(require.Get(aside.Controller(c))(t).Decide(r.S, r.C, *r.Preference, want))(t)
	got := require.Get(aside.DecideBy(ctx, require.Get(aside.Controller(c))(t), c.Definition().Problem, r))(t)
	if !slices.Equal(got.U, want) || !(got.LatencyUs > 0) {
		t.Errorf("it decides %+v, by itself %v", got, want)
	}
	r.S = []float64{math.NaN(), 0}
	if d, err := aside.DecideBy(ctx, require.Get(aside.Controller(c))(t), c.Definition().Problem, r); err == nil && d.Fallback == 0 {
		t.Errorf("about no number it decides %+v", d)
	}
	k := &preparing{Controller: require.Get(aside.Controller(c))(t)}
	for _, fails := range []error{nil, broken} {
		k.fails, r.S = fails, []float64{0.1, 0}
		if d, err := aside.DecideBy(ctx, k, c.Definition().Problem, r); err != fails || d.U[0] != want[0] {
			t.Errorf("prepared with the error %v: %+v, %v", fails, d, err)
		}
	}
	if d, err := aside.DecideBy(ctx, refusing{k}, c.Definition().Problem, r); err == nil || err.Error() != "refused" || d != nil || k.prepared != 2 {
		t.Errorf("a controller that fails decides %+v, %v, and was prepared %d times", d, err, k.prepared)
	}
	if _, err := aside.Controller(require.Get(gpc.NewCase(domain.Case{Problem: testdomain.NewCart(8), Guard: domain.Guard{Off: true}}))(t)); err == nil {
		t.Error("a plant without the server's method has a controller")
	}
	search := batchnav.RefineOptions{Candidates: 16, Seed: 3}
	looked, refined := require.Get(aside.Refine(ctx, "looking", about(0.1), search))(t), require.Get(s.Refine(ctx, "plant", about(0.1), search))(t)
	if looked.Late || !slices.Equal(looked.U, refined.U) || s.Health().Decisions != 1 {
		t.Errorf("refined aside: %+v, else %+v", looked, refined)
	}
	if _, err := s.Refine(ctx, "plant", about(0.1), batchnav.RefineOptions{LookAhead: -1}); err == nil || s.Health().Refused != 1 {
		t.Errorf("a look ahead of less than nothing: %v", err)
	}
	groups := aside.Groups()
	require.Get(s.Decide(ctx, "plant", about(0.1)))(t)
	require.Get(aside.Decide(ctx, "looking", about(0.1)))(t)
	if now := aside.Groups(); now != groups+1 {
		t.Errorf("a plant's decision and a slice are %d groups", now-groups)
	}
	require.OK(t, s.Clear(ctx, "plant"))
	if h := s.Health(); h.Sessions != 2 {
		t.Errorf("%d sessions are open, want both", h.Sessions)
	}
	require.OK(t, aside.Reset(ctx, "looking"))
	if h := s.Health(); h.Sessions != 1 {
		t.Errorf("%d sessions are open, want the plant's", h.Sessions)
	}
}
