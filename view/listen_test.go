package view

import (
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// A session that is dropped where as many watch as may listens again once a place is free.
func TestASessionListensAgainWhereAPlaceIsFree(t *testing.T) {
	k := paper.Cases()
	c := require.Get(k.Find("opf30"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	t.Cleanup(func() { e.Close() })
	s := require.Get(serve.New(c, e, serve.Options{}))(t)
	t.Cleanup(s.Close)
	var all []*serve.Watch
	for range serve.MaxWatchers {
		all = append(all, require.Get(s.Watch("other"))(t))
	}
	dropped := make(chan serve.Event)
	close(dropped)
	v := &Session{loop: loop{server: s, room: 3}, name: "arm", closed: make(chan struct{})}
	ended := make(chan struct{})
	go func() { v.listen(&serve.Watch{Events: dropped}); close(ended) }()
	select {
	case <-ended:
		t.Fatal("it ended where as many watch as may")
	default:
	}
	all[0].Close()
	o := require.Get(c.Observe(991, 3, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	require.Until(t, "a decision is heard", func() bool {
		require.Get(s.Decide(t.Context(), "arm", serve.Request{S: o.S, C: o.C}))(t)
		v.mutex.Lock()
		defer v.mutex.Unlock()
		return len(v.pending) > 0
	})
	close(v.closed)
	<-ended
}
