package view_test

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
	"github.com/gpc-engine/gpc/view"
)

// A client's session is shown as it was asked and decided, and steered where the client states no preference.
func TestASessionOfAClientIsShown(t *testing.T) {
	k := paper.Cases()
	c := require.Get(k.Find("integrator-nonconvex"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	t.Cleanup(func() { e.Close() })
	s := require.Get(serve.New(c, e, serve.Options{}))(t)
	t.Cleanup(s.Close)
	p := open(t, require.Get(view.NewLive(t.Context(), c, s, view.LiveOptions{Seed: 991}))(t))
	p.refused("POST", "/view/session", `{"session":"arm"}`, 400, "session")
	p.refused("POST", "/view/session", `{"session":"view"}`, 400, "session")

	o := require.Get(c.Observe(991, 3, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	decide := func() *serve.Decision {
		return require.Get(s.Decide(t.Context(), "arm", serve.Request{S: o.S, C: o.C}))(t)
	}
	first := decide()
	if names := get[[]string](p, "sessions"); !slices.Equal(names, []string{"arm"}) {
		t.Fatalf("sessions %q are offered, want the client's alone", names)
	}
	st := p.post("session", `{"session":"arm"}`)
	if st.Session == nil || *st.Session != "arm" || !st.Playing || st.Generation == st.Start {
		t.Errorf("it shows %+v", st)
	}
	if d := get[view.Description](p, "case"); d.Kind != "session" || !d.Steers {
		t.Errorf("it is described as %+v", d)
	}
	if f := get[view.Frame](p, "frame?k=0"); !slices.Equal(f.U, first.U) || !slices.Equal(f.S, o.S) || len(f.Shapes) == 0 || len(f.Margins) == 0 {
		t.Errorf("the first frame is %+v", f)
	}
	p.post("preference", `{"w":[1,0]}`)
	steered := decide()
	if slices.Equal(steered.U, first.U) {
		t.Error("the preference of the page changes nothing")
	}
	var f view.Frame
	require.Until(t, "the decision is shown", func() bool {
		st := get[view.State](p, "state")
		f = get[view.Frame](p, "frame?k="+string(rune('0'+st.Last)))
		return st.Last == 1
	})
	if !slices.Equal(f.U, steered.U) || f.T != 1 || f.LatencyUs != steered.LatencyUs || !slices.Equal(f.Preference.W, []float64{1, 0}) {
		t.Errorf("the decision %+v is shown as %+v", steered, f)
	}
	p.refused("POST", "/view/reset", `{"episode":1}`, 409, "")
	if st := p.post("session", `{"session":null}`); st.Session != nil {
		t.Errorf("back at the plant it is at %+v", st)
	}
	if d := get[view.Description](p, "case"); d.Kind != "live" {
		t.Errorf("back at the plant it is %+v", d)
	}
}
