package serve_test

import (
	"testing"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// A case whose method searches by itself refines under a deadline too.
func TestASearchOfItsOwnRefinesByADeadline(t *testing.T) {
	k := paper.Cases()
	c := require.Get(k.Find("multiagent-static"))(t)
	s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: require.Get(c.Setup("planner", ""))(t)}))(t)
	t.Cleanup(s.Close)
	o := require.Get(c.Observe(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	r := serve.Request{S: o.S, C: o.C, Deadline: time.Now().Add(24 * time.Hour)}
	if a, err := s.Refine(t.Context(), "", r, batchnav.RefineOptions{Candidates: 96}); err != nil || a.Late || a.LookAhead < 8 || len(a.U) != a.LookAhead*c.Spec().ActionSize() {
		t.Errorf("%+v, %v", a, err)
	}
	r.Deadline = time.Now().Add(time.Microsecond)
	if a, err := s.Refine(t.Context(), "", r, batchnav.RefineOptions{Candidates: 96}); err != nil || !a.Late {
		t.Errorf("by a deadline that is too short: %+v, %v", a, err)
	}
}
