package serve

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Slices are refused where they cannot be had, and say how long the next one waits.
func TestSlicesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := bare(t, Options{})
		s.asideQueue = make(chan *job)
		ctx, end := contextOf(t)
		ask := func() (time.Duration, error) {
			start := time.Now()
			_, err := s.Aside().Decide(ctx, "a", Request{})
			return time.Since(start), err
		}
		if took, err := ask(); !errors.Is(err, ErrBusy) || took != 2*time.Second {
			t.Errorf("where none is served: %v after %v", err, took)
		}
		time.AfterFunc(time.Second, end)
		if took, err := ask(); !errors.Is(err, context.Canceled) || took != time.Second {
			t.Errorf("whoever has left: %v after %v", err, took)
		}
		ctx = t.Context()
		time.AfterFunc(time.Second, func() { close(s.finished) })
		if took, err := ask(); !errors.Is(err, ErrClosed) || took != time.Second {
			t.Errorf("by a server that ends: %v after %v", err, took)
		}
		if s.Drain(time.Hour); true {
			s.finished = nil
		}
		if took, err := ask(); !errors.Is(err, ErrClosed) || took != 0 {
			t.Errorf("by a server that drains: %v after %v", err, took)
		}
	})
}

// A slice begins at its time: after decisions of others when it has been quiet, or sixteen were made since the last; and after a rest of fifteen times
// the last one while others' sessions are open.
func TestASliceHasItsTurn(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		foreground int
		batches    int64         // since the last slice
		decided    time.Duration // ago
		rests      time.Duration // from now on
		want       time.Duration
	}{
		{0, 0, 0, 0, 0}, {1, 0, 0, 0, 10 * ms}, {1, 15, 0, 0, 10 * ms}, {1, 16, 0, 0, 0}, {1, 0, 4 * ms, 0, 6 * ms}, {1, 0, 10 * ms, 0, 0}, {1, 0, time.Hour, 0, 0},
		{1, 0, 0, 20 * ms, 20 * ms}, {1, 0, 0, 5 * ms, 10 * ms}, {1, 16, 0, 3 * ms, 3 * ms}, {0, 0, 0, 5 * ms, 5 * ms}, {2, 14, 9 * ms, 0, ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := bare(t, Options{})
			s.asideQueue = make(chan *job, 1)
			start := time.Now()
			s.foreground, s.asideAt, s.decidedAt, s.asideFrom = c.foreground, 100, start.Add(-c.decided), start.Add(c.rests)
			s.batches.Store(100 + c.batches)
			j := asked("a")
			s.asideQueue <- j
			turn := time.NewTimer(0)
			defer turn.Stop()
			group, ok := s.next(turn)
			if took := time.Since(start); !ok || len(group) != 1 || group[0] != j || took != c.want {
				t.Errorf("%+v: it begins after %v, %v", c, took, ok)
			}
		})
	}
	for _, foreground := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := bare(t, Options{})
			s.foreground = foreground
			s.batches.Store(7)
			j := asked("")
			j.op, j.background, j.task = opInside, true, func() { time.Sleep(2 * time.Second) }
			if s.slice(j); !j.finished() || s.asides.Load() != 1 || s.asideAt != 7 || foreground == 0 && !s.asideFrom.IsZero() || foreground == 1 && time.Until(s.asideFrom) != 30*time.Second {
				t.Errorf("%d in front: %d slices, the next %v from now", foreground, s.asides.Load(), time.Until(s.asideFrom))
			}
			from := s.asideFrom
			bad := asked("a")
			bad.background, bad.request.S = true, nil
			if s.slice(bad); bad.err == nil || FailureOf(bad.err).Field != "s" || s.refused.Load() != 0 || s.asideFrom != from {
				t.Errorf("what is wrong is answered %v, %d refused", bad.err, s.refused.Load())
			}
		})
	}
}

// No slice begins once a decision has been asked for, whenever that gets into the queue: on a busy machine whoever asks may
// be kept from it for as long as several slices take.
func TestNoSliceBeginsBeforeWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{queue: make(chan []*job, 1), asideQueue: make(chan *job, 1)}
		aside, plant := &job{background: true}, &job{}
		turn := time.NewTimer(0)
		defer turn.Stop()
		s.pending.Add(1)
		s.asideQueue <- aside
		taken := make(chan *job, 2)
		go func() {
			for range 2 {
				group, _ := s.next(turn)
				taken <- group[0]
			}
		}()
		synctest.Wait()
		if len(taken) > 0 {
			t.Fatal("a slice has begun while a decision comes")
		}
		s.queue <- []*job{plant}
		if first, second := <-taken, <-taken; first != plant || second != aside {
			t.Error("the slice comes before the decision")
		}
	})
}
