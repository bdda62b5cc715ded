package view_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/examples/gallery/switched"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
	"github.com/gpc-engine/gpc/view"
)

// live is a plant of a case beside a server with the bundled map, and the page of it.
func live(t *testing.T, name string, opt view.LiveOptions, options serve.Options) (*view.Live, *page) {
	t.Helper()
	k := paper.Cases()
	return liveOf(t, require.Get(k.Find(name))(t), opt, options)
}

func liveOf(t *testing.T, c *gpc.Case, opt view.LiveOptions, options serve.Options) (*view.Live, *page) {
	t.Helper()
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	t.Cleanup(func() { e.Close() })
	s := require.Get(serve.New(c, e, options))(t)
	t.Cleanup(s.Close)
	l := require.Get(view.NewLive(t.Context(), c, s, opt))(t)
	return l, open(t, l)
}

// blind is a plant whose episodes do not look for the optimum, which takes longer than a test may.
type blind struct{ domain.Plant }

type blindEpisode struct{ domain.Episode }

func (p blind) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	e, err := p.Plant.Episode(seed, index, opt)
	return blindEpisode{e}, err
}

func (blindEpisode) Oracle() (float64, [][]float64, error) { return math.NaN(), nil, nil }

// The actions of the plant at the page are those of gpc eval, bit for bit, and what the map
// shows is what the plant says.
func TestALiveLoopIsTheOneOfEval(t *testing.T) {
	for _, name := range []string{"opf30", "integrator-convex"} {
		k := paper.Cases()
		own := require.Get(k.Find(name))(t)
		def := *own.Definition()
		def.Plant = blind{def.Plant}
		c := require.Get(gpc.NewCase(def))(t)
		var want *closedloop.EpisodeRecord
		require.Get(c.Evaluate(t.Context(), gpc.Setup{Model: require.Get(own.Model(""))(t)}, engine.Options{Backend: "cpu", Threads: 1}, closedloop.Options{
			Episodes: 1, Seed: 991, Preference: domain.Preference{Adaptive: true}, Visit: func(e *closedloop.EpisodeRecord) { want = e },
		}))(t)
		_, p := live(t, name, view.LiveOptions{Seed: 991}, serve.Options{})
		for i := range min(30, len(want.Lines)) {
			if s := p.post("step", `{"by":1}`); s.K != i+1 || s.Last != i+1 {
				t.Fatalf("%s: after %d steps the page is at %+v", name, i+1, s)
			}
			f := get[view.Frame](p, fmt.Sprintf("frame?k=%d", i+1))
			l := &want.Lines[i]
			if !slices.Equal(f.U, []float64(l.U)) || !slices.Equal(f.S, []float64(l.S)) || f.Margin != float64(l.Margin) || !slices.Equal(f.J, []float64(l.J)) {
				t.Fatalf("%s, decision %d: the page has u %v, s %v, margin %v; eval u %v, s %v, margin %v", name, i, f.U, f.S, f.Margin, l.U, l.S, l.Margin)
			}
			if low := slices.Min(f.Margins); low != f.Margin {
				t.Fatalf("%s, decision %d: the least of %v is not %v", name, i, f.Margins, f.Margin)
			}
		}
	}
}

// A preference shows its decision at once while the plant stands, and decides when it goes on.
func TestAPreferenceChangesTheDispatch(t *testing.T) {
	_, p := live(t, "opf30", view.LiveOptions{Seed: 991}, serve.Options{})
	p.post("step", `{"by":1}`)
	next := p.stream()
	if text := next("frame"); !strings.Contains(text, `"k":1`) {
		t.Fatalf("the stream begins with %.100s", text)
	}
	decided := func(w string, name string) (f view.Frame) {
		p.post("preference", w)
		if name == "frame" {
			p.post("step", `{"by":1}`)
		}
		require.OK(t, json.Unmarshal([]byte(next(name)), &f))
		return f
	}
	cheap, gentle := decided(`{"w":[0,0,1]}`, "preview"), decided(`{"w":[0,0.99,0.01]}`, "preview")
	if cheap.K != 1 || !slices.Equal(cheap.Preference.W, []float64{0, 0, 1}) || !(cheap.J[2] < gentle.J[2]) || !(gentle.J[1] < cheap.J[1]) {
		t.Errorf("cheap dispatch costs %v, one of even voltages %v", cheap.J, gentle.J)
	}
	if len(cheap.Grid.V) != 30 || len(cheap.Margins) == 0 {
		t.Errorf("the preview has %d voltages and %d margins", len(cheap.Grid.V), len(cheap.Margins))
	}
	if s := get[view.State](p, "state"); s.Last != 1 {
		t.Errorf("previews have moved the plant to frame %d", s.Last)
	}
	if f := decided(`{"w":[0,0,1]}`, "frame"); f.K != 2 || f.Preference.Adaptive || f.Preference.W[2] != 1 {
		t.Errorf("the decision after it is %+v", f)
	}
	if f := decided(`{"w":null}`, "preview"); !f.Preference.Adaptive {
		t.Errorf("null is the preference %+v", f.Preference)
	}
}

// With the end of an episode the next one begins, and what is kept is bounded.
func TestALiveLoopGoesOnAndForgets(t *testing.T) {
	l, p := live(t, "integrator-convex", view.LiveOptions{Seed: 991, Episode: 3, History: 50}, serve.Options{})
	steps := l.Describe().Steps
	for range steps + 1 {
		require.OK(t, l.Advance(t.Context()))
	}
	if f := get[view.Frame](p, fmt.Sprintf("frame?k=%d", steps+1)); f.Episode != 4 || f.T != 0 || f.U != nil {
		t.Errorf("after %d decisions there is %+v", steps, f)
	}
	first := 0
	for k := steps + 2; k < 100; k++ {
		require.OK(t, l.Advance(t.Context()))
		first, _ = l.Range()
	}
	if _, last := l.Range(); last-first != 49 {
		t.Errorf("frames %d to %d are kept, want 50", first, last)
	}
	p.refused("GET", fmt.Sprintf("/view/frame?k=%d", first-1), "", 400, "k")
	s := get[view.Series](p, "series")
	_, last := l.Range()
	if s.First != first || len(s.Margin) != last-first+1 || len(s.J) != 2 || len(s.J[0]) != len(s.Margin) || len(s.Bodies) != 1 || len(s.Bodies[0]) != len(s.Margin) {
		t.Errorf("time lines from %d on with %d entries of %d to %d", s.First, len(s.Margin), first, last)
	}
	if st := p.post("reset", `{"episode":7}`); st.Generation != st.Start+1 || st.Start == 0 || st.Last != 0 || st.K != 0 {
		t.Errorf("reset leads to %+v", st)
	}
	if f := get[view.Frame](p, "frame?k=0"); f.Episode != 7 {
		t.Errorf("reset begins episode %d", f.Episode)
	}
}

// The bars of limits have one scale an episode: the largest margin of each kind of limit there was. Time lines are read
// from a frame on.
func TestFramesHaveTheRoomOfTheirEpisode(t *testing.T) {
	l, p := live(t, "integrator-convex", view.LiveOptions{Seed: 991}, serve.Options{})
	d := get[view.Description](p, "case")
	if d.Margins[0].Name != "obstacle" || d.Margins[0].Limit != "obstacle" || !d.Margins[0].Collision || d.Margins[1].Collision {
		t.Errorf("the limits are described as %+v", d.Margins)
	}
	room, episode := map[string]float64{}, 0
	for k := 1; k <= d.Steps+3; k++ {
		require.OK(t, l.Advance(t.Context()))
		f := get[view.Frame](p, fmt.Sprintf("frame?k=%d", k))
		if f.Episode != episode {
			room, episode = map[string]float64{}, f.Episode
		}
		for i, m := range f.Margins {
			room[d.Margins[i].Name] = max(room[d.Margins[i].Name], m)
		}
		if !maps.Equal(f.Room, room) {
			t.Fatalf("frame %d of episode %d has the room %v, want %v", k, f.Episode, f.Room, room)
		}
	}
	all, rest := get[view.Series](p, "series"), get[view.Series](p, fmt.Sprint("series?from=", d.Steps))
	if rest.First != d.Steps || !slices.Equal(rest.T, all.T[d.Steps:]) || !slices.Equal(rest.J[1], all.J[1][d.Steps:]) || len(rest.Fallback) != len(rest.T) || len(rest.OffMap) != len(rest.T) {
		t.Errorf("from frame %d on the time lines are %+v of %+v", d.Steps, rest, all)
	}
	if next := get[view.Series](p, fmt.Sprint("series?from=", d.Steps+100)); next.First != d.Steps+4 || len(next.T) != 0 {
		t.Errorf("time lines of what is not there: %+v", next)
	}
	p.refused("GET", "/view/series?from=x", "", 400, "from")
}

// What the page draws of a switched action are its values, and its plan begins with what is executed.
func TestAFrameHasThePlanOfSwitchedActions(t *testing.T) {
	c := require.Get(gpc.NewCase(require.Get(switched.Fishing().Case())(t)))(t)
	_, p := liveOf(t, c, view.LiveOptions{Seed: 9001}, serve.Options{Setup: gpc.Setup{Method: "search-64"}})
	if d := get[view.Description](p, "case"); len(d.Switches) != 1 || d.Switches[0].Action != 0 || !slices.Equal(d.Switches[0].Values, []float64{0, 1}) {
		t.Fatalf("the case is described with the switches %+v", d.Switches)
	}
	for k := range 3 {
		p.post("step", `{"by":1}`)
		f := get[view.Frame](p, fmt.Sprintf("frame?k=%d", k+1))
		if len(f.Plan) != c.Spec().Steps-k || !slices.Equal(f.Plan[0], f.U) {
			t.Errorf("decision %d: a plan of %d steps that begins with %v, want %d that begin with %v", k, len(f.Plan), f.Plan[0], c.Spec().Steps-k, f.U)
		}
	}
	if f := get[struct{ Margin *float64 }](p, "frame?k=3"); f.Margin != nil { // null: it is not known
		t.Errorf("without a limit the smallest margin is %v", *f.Margin)
	}
	if s := get[view.Series](p, "series"); len(s.U) != 1 || len(s.U[0]) != 4 {
		t.Errorf("the time lines of actions are %v", s.U)
	}
}
