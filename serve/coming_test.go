package serve

import (
	"testing"
	"testing/synctest"
	"time"
)

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
