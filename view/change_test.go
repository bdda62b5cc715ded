package view_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
	"github.com/gpc-engine/gpc/view"
)

// verified is the trace that a page saves, which verification confirms.
func verified(t *testing.T, p *page) {
	t.Helper()
	status, text := p.ask("GET", "/view/trace", "", nil)
	if status != http.StatusOK {
		t.Fatalf("the trace: %d %s", status, text)
	}
	file := filepath.Join(t.TempDir(), "saved.jsonl")
	require.OK(t, os.WriteFile(file, []byte(text), 0o600))
	k := paper.Cases()
	v := require.Get(k.Verify(t.Context(), file, nil, closedloop.VerifyOptions{}))(t)
	if !v.OK || v.Episodes != 1 || v.Decisions == 0 {
		t.Fatalf("of %d decisions %d values differ: %v", v.Decisions, v.Differing, v.Mismatches)
	}
	if _, err := k.Verify(t.Context(), file, &gpc.Again{}, closedloop.VerifyOptions{}); err == nil || !strings.Contains(err.Error(), "a person changed") {
		t.Errorf("decided again: %v", err)
	}
	other := strings.Replace(text, `"margin":`, `"margin":1`, 1)
	require.OK(t, os.WriteFile(file, []byte(other), 0o600))
	if v, err := k.Verify(t.Context(), file, nil, closedloop.VerifyOptions{}); err == nil && v.OK {
		t.Error("a changed margin is confirmed")
	}
}

// steps makes decisions.
func (p *page) steps(n int) (s view.State) {
	for range n {
		s = p.post("step", `{"by":1}`)
	}
	return s
}

// last is the frame that is shown.
func (p *page) last() view.Frame {
	p.t.Helper()
	return get[view.Frame](p, fmt.Sprintf("frame?k=%d", get[view.State](p, "state").K))
}

// A load that is changed changes the dispatch from the next decision on; the frames before it stay, and the saved trace is
// confirmed, as it is of what a person steered.
func TestALoadIsChangedAtThePage(t *testing.T) {
	_, p := live(t, "opf30", view.LiveOptions{Seed: 991}, serve.Options{})
	p.steps(3)
	p.post("preference", `{"w":[0.1,0.2,0.7]}`)
	p.steps(2)
	before := p.last()
	bus := 6 // of bus 7
	if s := p.post("change", fmt.Sprintf(`{"change":{"load":{"bus":%d,"p_mw":25}}}`, bus)); s.Last != 6 || s.K != 6 {
		t.Fatalf("after the change the page is at %+v", s)
	}
	if f := p.last(); f.Event == "" || f.U != nil || f.T != 0 {
		t.Errorf("the change begins with %+v", f)
	}
	p.steps(1)
	f := p.last()
	if got := f.Grid.Pd[bus] * 100; math.Abs(got-25) > 1e-9 {
		t.Errorf("the load is %v MW, want 25", got)
	}
	gave := func(f view.Frame) (sum float64) {
		for _, v := range f.Grid.Pg {
			sum += v
		}
		return sum
	}
	if more := gave(f) - gave(before); more < 0.02 {
		t.Errorf("the units give %v pu more", more)
	}
	if !(f.Cost >= f.Best*(1-1e-9)) || f.Cost > 1.05*f.Best {
		t.Errorf("the decision costs %v, the optimum %v", f.Cost, f.Best)
	}
	verified(t, p)
}

// A line that is opened carries nothing, in the plant and in what the controller knows; the saved trace holds the network, and
// the next episode is of the case's own again.
func TestALineIsOpenedAtThePage(t *testing.T) {
	names := []string{"opf30", "opf30-uncertain"}
	if testing.Short() {
		names = names[:1] // its context has no branch factors: the harder of the two
	}
	for _, name := range names {
		_, p := live(t, name, view.LiveOptions{Seed: 991}, serve.Options{})
		p.steps(2)
		before, k := p.last(), 5 // from 2 to 6
		generation := get[view.State](p, "state").Generation
		if s := p.post("change", fmt.Sprintf(`{"change":{"branch":{"at":%d,"open":true}}}`, k)); s.Generation == generation {
			t.Error("the page is not told that the network is another one")
		}
		if d := get[view.Description](p, "case"); !d.Grid.Branches[k].Open || len(d.Warnings) == 0 {
			t.Errorf("the chart has %+v, warnings %q", d.Grid.Branches[k], d.Warnings)
		}
		p.refused("POST", "/view/change", fmt.Sprintf(`{"change":{"branch":{"at":%d,"open":true}}}`, k), 400, "change")
		p.steps(3)
		if f := p.last(); math.Abs(f.Grid.P[k]) > 1e-4 || f.Margin < -1e-6 || !(f.Cost >= f.Best*(1-1e-9)) {
			t.Errorf("%s: the open line carries %v pu of %v before, margin %v, cost %v of %v", name, f.Grid.P[k], before.Grid.P[k], f.Margin, f.Cost, f.Best)
		}
		verified(t, p)
		p.post("change", fmt.Sprintf(`{"change":{"branch":{"at":%d,"open":false}}}`, k))
		p.steps(1)
		if f := p.last(); math.Abs(f.Grid.P[k]) < 0.05 {
			t.Errorf("closed again it carries %v pu", f.Grid.P[k])
		}
	}
}

// Obstacles and goals are moved between two decisions, and only where a robot is not.
func TestObstaclesAndGoalsAreMoved(t *testing.T) {
	_, p := live(t, "multiagent-static", view.LiveOptions{Seed: 991}, serve.Options{})
	s := p.steps(2)
	at := func(f view.Frame, role string, n int) [2]float64 {
		for _, shape := range f.Shapes {
			if shape.Role == role {
				if n--; n < 0 {
					return shape.Path[0]
				}
			}
		}
		t.Fatalf("no %s", role)
		return [2]float64{}
	}
	robot := at(p.last(), "body", 0)
	p.refused("POST", "/view/change", fmt.Sprintf(`{"change":{"obstacle":{"of":0,"to":[%v,%v]}}}`, robot[0], robot[1]), 400, "change")
	if now := get[view.State](p, "state"); now.Last != s.Last || now.Generation != s.Generation {
		t.Errorf("a refused change has led to %+v", now)
	}
	was := at(p.last(), "obstacle", 1)
	p.post("change", fmt.Sprintf(`{"change":{"obstacle":{"of":1,"to":[%v,%v]}}}`, was[0]+0.05, was[1]))
	if now := at(p.last(), "obstacle", 1); math.Abs(now[0]-was[0]-0.05) > 1e-9 {
		t.Errorf("the obstacle is at %v, it was at %v", now, was)
	}
	p.steps(1)
	goal := at(p.last(), "goal", 0)
	p.post("change", fmt.Sprintf(`{"change":{"goal":{"of":0,"to":[%v,%v]}}}`, goal[0], goal[1]-0.05))
	p.steps(2)
	if now := at(p.last(), "goal", 0); math.Abs(goal[1]-now[1]-0.05) > 1e-9 {
		t.Errorf("the goal is at %v, it was at %v", now, goal)
	}
	verified(t, p)
}

// A link makes the frame again that it was made at, bit for bit, on another server, whatever was done on the way.
func TestALinkMakesTheFrameAgain(t *testing.T) {
	_, p := live(t, "opf30", view.LiveOptions{Seed: 991}, serve.Options{})
	if s := p.post("seed", `{"seed":7}`); *s.Seed != 7 || s.Last != 0 {
		t.Fatalf("another seed: %+v", s)
	}
	p.post("reset", `{"episode":3}`)
	p.steps(2)
	p.post("preference", `{"w":[0,0.4,0.6]}`)
	p.steps(2)
	p.post("change", `{"change":{"load":{"bus":1,"p_mw":5}}}`)
	p.steps(1)
	p.post("change", `{"change":{"branch":{"at":5,"open":true}}}`)
	p.steps(3)
	want := p.last()
	_, link := p.ask("GET", "/view/link", "", nil)
	p.post("seek", fmt.Sprintf(`{"k":%d}`, want.K-5)) // before the line is opened
	_, earlier := p.ask("GET", "/view/link", "", nil)
	then := p.last()
	_, other := live(t, "opf30", view.LiveOptions{Seed: 1}, serve.Options{})
	for _, c := range []struct {
		link string
		want view.Frame
	}{{link, want}, {earlier, then}, {link, want}} {
		if s := other.post("link", `{"link":`+c.link+`}`); s.Playing || s.K != c.want.K {
			t.Errorf("the link leads to %+v, want frame %d", s, c.want.K)
		}
		got := other.last()
		got.LatencyUs, c.want.LatencyUs = 0, 0
		a, b := require.Get(json.Marshal(finite(got)))(t), require.Get(json.Marshal(finite(c.want)))(t)
		if !bytes.Equal(a, b) {
			t.Errorf("the link leads to %.300s, want %.300s", a, b)
		}
	}
	verified(t, other)
}

// finite are the numbers of a frame that are compared.
func finite(f view.Frame) any {
	return []any{f.Episode, f.T, f.S, f.U, f.J, f.Sigma, f.Preference, f.Margins, f.Event}
}

func TestWrongChangesAreRefused(t *testing.T) {
	_, p := live(t, "opf30", view.LiveOptions{Seed: 991}, serve.Options{})
	p.refused("GET", "/view/trace", "", 400, "episode")
	p.steps(1)
	for _, c := range []struct{ path, body, field string }{
		{"change", `{"change":null}`, "change"},
		{"change", `{"change":{}}`, "change"},
		{"change", `{"change":7}`, "change"},
		{"change", `{"change":{"load":{"bus":6,"p_mw":1},"branch":{"at":1,"open":true}}}`, "change"},
		{"change", `{"change":{"load":{"bus":30,"p_mw":1}}}`, "change"},
		{"change", `{"change":{"load":{"bus":-1,"p_mw":1}}}`, "change"},
		{"change", `{"change":{"load":{"bus":0,"p_mw":1}}}`, "change"}, // bus 1 has none
		{"change", `{"change":{"load":{"bus":6,"p_mw":1e9}}}`, "change"},
		{"change", `{"change":{"load":{"bus":6,"p_mw":-1}}}`, "change"},
		{"change", `{"change":{"load":{"bus":6}}}`, "change"},
		{"change", `{"change":{"load":{"bus":6,"p_mw":1,"at":2}}}`, "change"},
		{"change", `{"change":{"branch":{"at":41,"open":true}}}`, "change"},
		{"change", `{"change":{"branch":{"at":12,"open":true}}}`, "change"}, // 9–11, the only way to bus 11
		{"change", `{"change":{"branch":{"at":1,"open":false}}}`, "change"},
		{"change", `{"change":{"obstacle":{"of":0,"to":[0,0]}}}`, "change"},
		{"seed", `{"seed":-1}`, "seed"},
		{"seed", `{"seed":1e300}`, "seed"},
		{"seed", `{"seed":9007199254740992}`, "seed"},
		{"seed", `{"seed":null}`, "seed"},
		{"link", `{"link":null}`, "link"},
		{"link", `{"link":{}}`, "case"},
		{"link", `{"link":{"case":"opf30","method":"x"}}`, "method"},
	} {
		p.refused("POST", "/view/"+c.path, c.body, 400, c.field)
	}
	link := get[view.Link](p, "link")
	for _, wrong := range []struct {
		change func(l *view.Link)
		field  string
	}{
		{func(l *view.Link) { l.Decisions = 1 << 30 }, "decisions"},
		{func(l *view.Link) { l.Decisions = -1 }, "decisions"},
		{func(l *view.Link) { l.Episode = -1 }, "episode"},
		{func(l *view.Link) { l.Seed = 1 << 60 }, "seed"},
		{func(l *view.Link) { l.Did = []view.Event{{After: 0}} }, "did"},
		{func(l *view.Link) { l.Did = []view.Event{{After: 9, Change: json.RawMessage(`{}`)}} }, "did"},
		{func(l *view.Link) { l.Did = []view.Event{{After: 0, Change: json.RawMessage(`{}`)}} }, "change"},
	} {
		of := link
		wrong.change(&of)
		p.refused("POST", "/view/link", `{"link":`+string(require.Get(json.Marshal(of))(t))+`}`, 400, wrong.field)
	}
	if s := get[view.State](p, "state"); slices.Contains([]string{s.Fault}, "panic") {
		t.Error(s.Fault)
	}
}
