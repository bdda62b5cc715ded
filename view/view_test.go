package view_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
	"github.com/gpc-engine/gpc/view"
)

// TestThePageIsMadeOfItsSources: the bundle is what build.mjs wrote of the sources that are
// here, and not of others.
func TestThePageIsMadeOfItsSources(t *testing.T) {
	text := string(must.Get(os.ReadFile("page/SHA256SUMS"))(t))
	listed := map[string]bool{}
	for line := range strings.Lines(text) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("page/SHA256SUMS has the line %q", line)
		}
		listed[name] = true
		data, err := os.ReadFile(filepath.Join("ui", name))
		if own := sha256.Sum256(data); err != nil || hex.EncodeToString(own[:]) != sum {
			t.Errorf("%s is not the one that the page was made with (%v): run make ui and commit view/page", name, err)
		}
	}
	for _, name := range must.Get(filepath.Glob("ui/src/*"))(t) {
		if !listed[strings.TrimPrefix(filepath.ToSlash(name), "ui/")] {
			t.Errorf("the page was made without %s: run make ui and commit view/page", name)
		}
	}
	size := int64(0)
	for _, name := range []string{"app.js", "app.css", "index.html", "icon.svg"} {
		size += must.Get(os.Stat(filepath.Join("page", name)))(t).Size()
	}
	if size > 200<<10 {
		t.Errorf("the page has %d bytes, want at most 200 KiB", size)
	}
	if lock := must.Get(os.ReadFile("ui/package-lock.json"))(t); bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Error("ui/package-lock.json names a registry's host")
	}
}

// live is a plant of a case beside a server with the bundled map, and the page of it.
func live(t *testing.T, name string, opt view.LiveOptions, options serve.Options) (*view.Live, *page) {
	t.Helper()
	k := paper.Cases()
	c := must.Get(k.Find(name))(t)
	e := must.Get(gpc.OpenEngine(gpc.EngineOptions{Backend: "cpu", Threads: 1}))(t)
	t.Cleanup(func() { e.Close() })
	s := must.Get(serve.New(c, e, options))(t)
	t.Cleanup(s.Close)
	l := must.Get(view.NewLive(t.Context(), c, s, opt))(t)
	return l, open(t, l)
}

// page is a handler asked over HTTP.
type page struct {
	t  testing.TB
	at *httptest.Server
	h  *view.Handler
}

// open is the page of a source that stands still.
func open(t testing.TB, s view.Source) *page {
	h := view.New(s, 100, false)
	p := &page{t, httptest.NewServer(h), h}
	t.Cleanup(func() {
		h.Close()
		p.at.Close()
	})
	return p
}

// ask asks and decodes what is answered.
func (p *page) ask(method, path, body string, into any) (status int, text string) {
	p.t.Helper()
	r := must.Get(http.NewRequestWithContext(p.t.Context(), method, p.at.URL+path, strings.NewReader(body)))(p.t)
	resp := must.Get(http.DefaultClient.Do(r))(p.t)
	defer resp.Body.Close()
	data := must.Get(io.ReadAll(resp.Body))(p.t)
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			p.t.Fatalf("%s %s is answered %.200s: %v", method, path, data, err)
		}
	}
	return resp.StatusCode, string(data)
}

// get and post want what they ask for to be right.
func get[T any](p *page, path string) (v T) {
	p.t.Helper()
	if status, text := p.ask("GET", "/view/"+path, "", &v); status != http.StatusOK {
		p.t.Fatalf("GET %s: %d %s", path, status, text)
	}
	return v
}

func (p *page) post(path, body string) (s view.State) {
	p.t.Helper()
	if status, text := p.ask("POST", "/view/"+path, body, &s); status != http.StatusOK {
		p.t.Fatalf("POST %s %s: %d %s", path, body, status, text)
	}
	return s
}

// refused wants a status and the field that is named.
func (p *page) refused(method, path, body string, status int, field string) {
	p.t.Helper()
	var f serve.Failure
	got, text := p.ask(method, path, body, &f)
	if got != status || f.Field != field || f.Error == "" {
		p.t.Errorf("%s %s %.80s is answered %d %.200s, want %d and field %q", method, path, body, got, text, status, field)
	}
}

// The actions of the plant at the page are those of gpc eval, bit for bit, and what the map
// shows is what the plant says.
func TestALiveLoopIsTheOneOfEval(t *testing.T) {
	for _, name := range []string{"opf30", "integrator-convex"} {
		k := paper.Cases()
		own := must.Get(k.Find(name))(t)
		def := *own.Definition()
		def.Plant = blind{def.Plant}
		c := must.Get(gpc.NewCase(def))(t)
		var want *closedloop.EpisodeRecord
		must.Get(c.Evaluate(t.Context(), gpc.Setup{Model: must.Get(own.Model(""))(t)}, gpc.EngineOptions{Backend: "cpu", Threads: 1}, closedloop.Options{
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

// frame is what a test reads of a frame in events.
type event struct{ name, data string }

// stream reads the server's events one by one.
func (p *page) stream() (next func(name string) string) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	p.t.Cleanup(stop)
	r := must.Get(http.NewRequestWithContext(ctx, "GET", p.at.URL+"/view/events", nil))(p.t)
	resp := must.Get(http.DefaultClient.Do(r))(p.t)
	p.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		p.t.Fatalf("events: %d, %q", resp.StatusCode, resp.Header)
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<24)
	return func(name string) string {
		p.t.Helper()
		var e event
		for in.Scan() {
			switch line := in.Text(); {
			case strings.HasPrefix(line, "event: "):
				e.name = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				e.data = line[len("data: "):]
			case line == "" && e.name == name:
				return e.data
			case line == "":
				e = event{}
			}
		}
		p.t.Fatalf("the events end (%v) before one of %q", in.Err(), name)
		return ""
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
		must.OK(t, json.Unmarshal([]byte(next(name)), &f))
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

func TestWrongRequestsNameTheirField(t *testing.T) {
	_, p := live(t, "integrator-convex", view.LiveOptions{Seed: 991}, serve.Options{})
	for _, c := range []struct {
		path, body string
		status     int
		field      string
	}{
		{"preference", `{"w":[0.5,0.4]}`, 400, "w"},
		{"preference", `{"w":[2,-1,0]}`, 400, "w"},
		{"preference", `{"w":[1e999]}`, 400, "w"},
		{"preference", `{"w":"all"}`, 400, "w"},
		{"preference", `{}`, 400, "w"},
		{"preference", `{"w":[1,0],"v":1}`, 400, "v"},
		{"preference", `[1,0]`, 400, ""},
		{"preference", `null`, 400, ""},
		{"preference", `{"w":[1,0]} {}`, 400, ""},
		{"preference", "\xff", 400, ""},
		{"preference", `{"w":[` + strings.Repeat("0,", 40<<10) + `0]}`, 413, ""},
		{"pause", `{"paused":null}`, 400, "paused"},
		{"pause", `{"paused":1}`, 400, "paused"},
		{"step", `{"by":2}`, 400, "by"},
		{"step", `{"by":0}`, 400, "by"},
		{"rate", `{"hz":0}`, 400, "hz"},
		{"rate", `{"hz":1e6}`, 400, "hz"},
		{"seek", `{"k":-1}`, 400, "k"},
		{"seek", `{"k":1}`, 400, "k"},
		{"seek", `{"k":0.5}`, 400, "k"},
		{"reset", `{"episode":-1}`, 400, "episode"},
		{"reset", `{"episode":99999999999}`, 400, "episode"},
	} {
		p.refused("POST", "/view/"+c.path, c.body, c.status, c.field)
	}
	p.refused("GET", "/view/frame?k=1", "", 400, "k")
	p.refused("GET", "/view/frame?k=x", "", 400, "k")
	if s := get[view.State](p, "state"); s.K != 0 || s.Last != 0 || !s.Preference.Adaptive || s.Playing {
		t.Errorf("refused requests have led to %+v", s)
	}
	for _, path := range []string{"/view/", "/view/page/app.js", "/view/../handler.go", "/x", "/view/SHA256SUMS"} {
		if status, _ := p.ask("GET", path, "", nil); status != http.StatusNotFound {
			t.Errorf("GET %s is answered %d", path, status)
		}
	}
}

// Another site can neither steer nor frame the page, and no name of its own leads there.
func TestOtherSitesAreRefused(t *testing.T) {
	_, p := live(t, "integrator-convex", view.LiveOptions{}, serve.Options{})
	for _, c := range []struct {
		host, site string
		status     int
	}{{"127.0.0.1:1", "same-origin", 200}, {"[::1]:1", "", 200}, {"localhost", "none", 200}, {"127.0.0.1", "cross-site", 403}, {"evil.example", "same-origin", 403}, {"", "", 403}} {
		r := httptest.NewRequest("POST", "/view/pause", strings.NewReader(`{"paused":true}`))
		r.Host = c.host
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		p.h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("host %q, site %q: %d, want %d", c.host, c.site, w.Code, c.status)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("the policy is %q", policy)
		}
	}
	for _, path := range []string{"/", "/view/app.js", "/view/app.css", "/view/icon.svg"} {
		if status, text := p.ask("GET", path, "", nil); status != 200 || text == "" {
			t.Errorf("GET %s: %d", path, status)
		}
	}
}

// A fan is the method under every preference, from one state.
func TestAFanLooksAhead(t *testing.T) {
	for name, paths := range map[string]bool{"opf30": false, "integrator-nonconvex": true} {
		l, _ := live(t, name, view.LiveOptions{Seed: 991, Preference: nil}, serve.Options{})
		fan := must.Get(l.Fan()(t.Context()))(t)
		if fan.Present != len(fan.Rays)-1 || !fan.Rays[fan.Present].Preference.Adaptive || len(fan.Rays) < 10 || len(fan.Rays) > 22 || fan.Ahead < 1 {
			t.Fatalf("%s: %d rays, %d the present one, %d ahead", name, len(fan.Rays), fan.Present, fan.Ahead)
		}
		m := len(fan.Rays[0].J)
		for i := range m { // the least of an objective is where it alone counts, or next to there
			own := slices.IndexFunc(fan.Rays, func(r view.Ray) bool { return !r.Preference.Adaptive && r.Preference.W[i] == 1 })
			other := slices.IndexFunc(fan.Rays, func(r view.Ray) bool { return !r.Preference.Adaptive && r.Preference.W[(i+1)%m] == 1 })
			if own < 0 || other < 0 || !(fan.Rays[own].J[i] <= fan.Rays[other].J[i]+1e-9) {
				t.Errorf("%s: objective %d costs %v where it alone counts, %v where another does", name, i, fan.Rays[own].J[i], fan.Rays[other].J[i])
			}
		}
		for _, r := range fan.Rays {
			if paths != (len(r.Paths) == 1) || paths && len(r.Paths[0]) != fan.Ahead+1 {
				t.Errorf("%s: paths of %d bodies", name, len(r.Paths))
			}
		}
	}
	// As many as there are sessions for.
	k := paper.Cases()
	c := must.Get(k.Find("integrator-convex"))(t)
	e := must.Get(gpc.OpenEngine(gpc.EngineOptions{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	s := must.Get(serve.New(c, e, serve.Options{Sessions: view.Sessions - 1}))(t)
	defer s.Close()
	if _, err := view.NewLive(t.Context(), c, s, view.LiveOptions{}); err == nil {
		t.Error("a server with too few sessions is taken")
	}
}

// Robots have plans of a search, for each of them.
func TestAFanOfRobots(t *testing.T) {
	l, p := live(t, "multiagent-static", view.LiveOptions{Seed: 991}, serve.Options{})
	p.post("step", `{"by":1}`)
	fan := must.Get(l.Fan()(t.Context()))(t)
	f := get[view.Frame](p, "frame?k=1")
	bodies := 0
	for _, s := range f.Shapes {
		if s.Role == "body" {
			bodies++
		}
	}
	if len(fan.Rays) != 4 || bodies < 2 || len(fan.Rays[3].Paths) != bodies || len(fan.Rays[3].Paths[0]) < 5 {
		t.Errorf("%d robots, %d rays with paths of %d", bodies, len(fan.Rays), len(fan.Rays[3].Paths))
	}
}

// With the end of an episode the next one begins, and what is kept is bounded.
func TestALiveLoopGoesOnAndForgets(t *testing.T) {
	l, p := live(t, "integrator-convex", view.LiveOptions{Seed: 991, Episode: 3, History: 50}, serve.Options{})
	steps := l.Describe().Steps
	for range steps + 1 {
		must.OK(t, l.Advance(t.Context()))
	}
	if f := get[view.Frame](p, fmt.Sprintf("frame?k=%d", steps+1)); f.Episode != 4 || f.T != 0 || f.U != nil {
		t.Errorf("after %d decisions there is %+v", steps, f)
	}
	first := 0
	for k := steps + 2; k < 100; k++ {
		must.OK(t, l.Advance(t.Context()))
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
	if st := p.post("reset", `{"episode":7}`); st.Generation != 1 || st.Last != 0 || st.K != 0 {
		t.Errorf("reset leads to %+v", st)
	}
	if f := get[view.Frame](p, "frame?k=0"); f.Episode != 7 {
		t.Errorf("reset begins episode %d", f.Episode)
	}
}

// blind is a plant whose episodes do not look for the optimum, which takes longer than a test may.
type blind struct{ domain.Plant }

type blindEpisode struct{ domain.Episode }

func (p blind) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	e, err := p.Plant.Episode(seed, index, opt)
	return blindEpisode{e}, err
}

func (blindEpisode) Oracle() (float64, [][]float64, error) { return math.NaN(), nil, nil }

// recorded is a trace of some episodes.
func recorded(t *testing.T, name string, episodes int) string {
	t.Helper()
	k := paper.Cases()
	own := must.Get(k.Find(name))(t)
	def := *own.Definition()
	def.Plant = blind{def.Plant}
	c := must.Get(gpc.NewCase(def))(t)
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	must.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "direct", Model: must.Get(own.Model(""))(t)}, gpc.EngineOptions{Backend: "cpu", Threads: 1}, closedloop.Options{
		Episodes: episodes, Seed: 991, Preference: domain.Preference{Adaptive: true}, TracePath: file,
	}))(t)
	return file
}

func TestATraceIsShown(t *testing.T) {
	k := paper.Cases()
	file := recorded(t, "integrator-convex", 2)
	p := open(t, must.Get(view.OpenTrace(t.Context(), &k, file))(t))
	d := get[view.Description](p, "case")
	if d.Kind != "trace" || d.Steers || d.Method != "direct" || len(d.Episodes) != 2 || len(d.Warnings) != 0 || len(d.Objectives) != 2 || !d.Episodes[0].Safe {
		t.Fatalf("described as %+v", d)
	}
	in := must.Get(os.Open(file))(t)
	defer in.Close()
	r := must.Get(closedloop.NewReader(in))(t)
	for episode := range 2 {
		e := must.Get(r.Next())(t)
		s := p.post("reset", fmt.Sprintf(`{"episode":%d}`, episode))
		if s.Last != len(e.Lines) || s.K != 0 {
			t.Fatalf("episode %d of %d decisions is shown as %+v", episode, len(e.Lines), s)
		}
		for i := range e.Lines {
			f := get[view.Frame](p, fmt.Sprintf("frame?k=%d", i+1))
			l := &e.Lines[i]
			if !slices.Equal(f.S, []float64(l.S)) || !slices.Equal(f.U, []float64(l.U)) || f.Margin != float64(l.Margin) || f.LatencyUs != float64(l.Latency) || len(f.Shapes) != 3 {
				t.Fatalf("decision %d is shown as %+v, the trace has %+v", i, f, l)
			}
			if at := f.Shapes[2].Path[0]; at != [2]float64{l.S[0], l.S[1]} {
				t.Fatalf("decision %d leads to %v and is drawn at %v", i, l.S[:2], at)
			}
		}
	}
	p.refused("POST", "/view/reset", `{"episode":2}`, 400, "episode")
	p.refused("POST", "/view/preference", `{"w":[1,0]}`, 409, "")
	if s := p.post("reset", `{"episode":null}`); s.Last == 0 {
		t.Errorf("the next episode is shown as %+v", s)
	}
	// It plays to its end and stands there; then it plays from the beginning.
	p.post("rate", `{"hz":1000}`)
	p.post("pause", `{"paused":false}`)
	last := 0
	for wait := time.Now().Add(20 * time.Second); time.Now().Before(wait); time.Sleep(5 * time.Millisecond) {
		if s := get[view.State](p, "state"); !s.Playing {
			last = s.K
			break
		}
	}
	if s := get[view.State](p, "state"); last != s.Last || s.Fault != "" {
		t.Errorf("it has stopped at %d of %+v", last, s)
	}
	if s := p.post("step", `{"by":1}`); s.K != s.Last {
		t.Errorf("a step behind the end leads to %+v", s)
	}
	if s := p.post("step", `{"by":-1}`); s.K != s.Last-1 {
		t.Errorf("a step back leads to %+v", s)
	}
	if s := p.post("seek", `{"k":0}`); s.K != 0 {
		t.Errorf("seek leads to %+v", s)
	}
	if s := p.post("step", `{"by":-1}`); s.K != 0 {
		t.Errorf("a step before the beginning leads to %+v", s)
	}
}

// A network is drawn from the trace alone.
func TestATraceOfANetwork(t *testing.T) {
	k := paper.Cases()
	p := open(t, must.Get(view.OpenTrace(t.Context(), &k, recorded(t, "opf30", 1)))(t))
	d := get[view.Description](p, "case")
	if len(d.Grid.Places) != 30 || len(d.Grid.Branches) != 41 || len(d.Grid.Units) != 6 {
		t.Fatalf("the map has %d places, %d branches, %d units", len(d.Grid.Places), len(d.Grid.Branches), len(d.Grid.Units))
	}
	f := get[view.Frame](p, "frame?k=300")
	sum := func(v []float64) (s float64) {
		for _, x := range v {
			s += x
		}
		return s
	}
	if losses := sum(f.Grid.Pg) - sum(f.Grid.Pd); !(losses > 0 && losses < 0.1*sum(f.Grid.Pd)) {
		t.Errorf("the units give %v pu, the loads take %v", sum(f.Grid.Pg), sum(f.Grid.Pd))
	}
	for i, v := range f.Grid.V {
		if math.Abs(v-f.S[i]) > 1e-9 {
			t.Errorf("bus %d is drawn at %v pu and recorded at %v", i, v, f.S[i])
		}
	}
}

// Whatever is wrong with a trace is an error of the input or a warning, and what is whole is
// shown.
func TestHostileTraces(t *testing.T) {
	k := paper.Cases()
	file := recorded(t, "integrator-convex", 2)
	text := string(must.Get(os.ReadFile(file))(t))
	lines := strings.SplitAfter(text, "\n")
	again := func(name, text string) (*view.Trace, error) {
		path := filepath.Join(t.TempDir(), name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return view.OpenTrace(t.Context(), &k, path)
	}
	for name, text := range map[string]string{
		"empty": "", "binary": "\x00\xff\x00\n", "header-only": lines[0], "no-json": "trace\n" + text,
		"other-case":  strings.Replace(text, `"case":"integrator-convex"`, `"case":"opf:../../etc/passwd"`, 1),
		"short-first": strings.Join(lines[:10], ""),
		"wide":        lines[0] + lines[1] + strings.Replace(lines[2], `"u":[`, `"u":[1,2,3,`, 1) + strings.Join(lines[3:], ""),
		"wide-sigma":  lines[0] + lines[1] + strings.Replace(lines[2], `"J":[`, `"J":[1,2,3,`, 1) + strings.Join(lines[3:], ""),
		"deep":        strings.Repeat("[", 1<<20),
	} {
		_, err := again(name, text)
		var in gpc.InputError
		if err == nil || !asInput(err, &in) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := view.OpenTrace(t.Context(), &k, t.TempDir()); err == nil {
		t.Error("a folder is a trace")
	}
	for name, c := range map[string]struct {
		text  string
		says  string
		drawn bool
	}{
		"cut":     {text[:len(text)-100], "ends inside an episode", true},
		"changed": {strings.Replace(text, `"margin":`, `"margin":1`, 1), "was changed after it was recorded", true},
		"scene":   {strings.Replace(text, `"scene":{`, `"scene":{"s0":null,"`, 1), "cannot be replayed", false},
	} {
		tr, err := again(name, c.text)
		if name == "scene" {
			tr, err = again(name, lines[0]+lines[1][:strings.Index(lines[1], `"scene":`)]+`"scene":{"s0":[1e308]}}`+"\n"+strings.Join(lines[2:], ""))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d := tr.Describe()
		if !strings.Contains(strings.Join(d.Warnings, "\n"), c.says) {
			t.Errorf("%s: the warnings are %q, want one that says %q", name, d.Warnings, c.says)
		}
		if f := tr.Frame(5); f.U == nil || (len(f.Shapes) > 0) != c.drawn {
			t.Errorf("%s: frame 5 is %+v", name, f)
		}
	}
}

func asInput(err error, in *gpc.InputError) bool {
	for ; err != nil; err = unwrap(err) {
		if v, ok := err.(gpc.InputError); ok {
			*in = v
			return true
		}
	}
	return false
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}

// fragile is a source that panics in its third frame.
type fragile struct {
	view.Source
	frames []view.Frame
}

func (f *fragile) Describe() *view.Description {
	return &view.Description{Kind: "live", Steers: true, Warnings: []string{}, Episodes: []view.Episode{}}
}
func (f *fragile) Range() (int, int)                             { return 0, len(f.frames) - 1 }
func (f *fragile) Frame(k int) *view.Frame                       { return &f.frames[k] }
func (f *fragile) Preference() domain.Preference                 { return domain.Preference{Adaptive: true} }
func (f *fragile) Fan() func(context.Context) (*view.Fan, error) { return nil }
func (f *fragile) Reset(context.Context, int) error              { return nil }
func (f *fragile) Preview(context.Context) (*view.Frame, error)  { return nil, nil }
func (f *fragile) Steer(domain.Preference) error                 { panic("no way to steer") }
func (f *fragile) Advance(context.Context) error {
	if len(f.frames) == 3 {
		panic("no way on")
	}
	f.frames = append(f.frames, view.Frame{K: len(f.frames), Margin: math.NaN()})
	return nil
}

// What breaks stops the loop, says so, and leaves the page there; Close leaves nothing behind.
func TestAPanicIsTold(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	h := view.New(&fragile{frames: make([]view.Frame, 1)}, 1000, true)
	at := httptest.NewServer(h)
	p := &page{t, at, h}
	var s view.State
	for wait := time.Now().Add(10 * time.Second); time.Now().Before(wait) && s.Fault == ""; time.Sleep(time.Millisecond) {
		s = get[view.State](p, "state")
	}
	if s.Playing || s.K != 2 || !strings.Contains(s.Fault, "no way on") {
		t.Errorf("it stands at %+v", s)
	}
	if status, text := p.ask("POST", "/view/preference", `{"w":null}`, nil); status != 500 || !strings.Contains(text, "no way to steer") {
		t.Errorf("a panic is answered %d %s", status, text)
	}
	if status, text := p.ask("POST", "/view/seek", `{"k":1}`, nil); status != 200 {
		t.Errorf("after it: %d %s", status, text)
	}
	h.Close()
	if status, _ := p.ask("GET", "/view/state", "", nil); status != http.StatusServiceUnavailable {
		t.Errorf("a closed page is answered %d", status)
	}
	h.Close()
	http.DefaultClient.CloseIdleConnections()
	at.Close()
}

// FuzzRequest: whatever is posted is done or refused, and the page goes on.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{`{"w":null}`, `{"w":[0.5,0.5]}`, `{"paused":false}`, `{"by":-1}`, `{"hz":1e3}`, `{"k":0}`, `{"episode":null}`, `{"k":1e99}`, "{", "[]", "\xff"} {
		for _, name := range []string{"preference", "pause", "step", "rate", "seek", "reset"} {
			f.Add(name, seed)
		}
	}
	h := view.New(&calm{fragile{frames: make([]view.Frame, 1)}}, 1, false)
	f.Cleanup(h.Close)
	f.Fuzz(func(t *testing.T, name, body string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.URL.Path, r.Host = "/view/"+name, "localhost"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200, 301, 307, 308, 400, 404, 405, 413:
		default:
			t.Fatalf("%q %q is answered %d %s", name, body, w.Code, w.Body)
		}
		if w.Code == 400 && !strings.Contains(w.Body.String(), `"field":`) {
			t.Fatalf("%q %q is answered %s", name, body, w.Body)
		}
	})
}

// calm is a source that does what it is asked.
type calm struct{ fragile }

func (*calm) Steer(p domain.Preference) error {
	if err := p.Validate(2); err != nil {
		return &serve.FieldError{Field: "w", Err: err}
	}
	return nil
}

func (c *calm) Advance(context.Context) error {
	if len(c.frames) < 100 {
		c.frames = append(c.frames, view.Frame{K: len(c.frames)})
	}
	return nil
}

// Pages come and go; more than there is room for are refused.
func TestPagesComeAndGo(t *testing.T) {
	h := view.New(&fragile{frames: make([]view.Frame, 1)}, 1, false)
	defer h.Close()
	at := httptest.NewServer(h)
	defer at.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	watch := func() *http.Response {
		r := must.Get(http.NewRequestWithContext(ctx, "GET", at.URL+"/view/events", nil))(t)
		return must.Get(http.DefaultClient.Do(r))(t)
	}
	open := 0
	for ; open < 1000; open++ {
		resp := watch()
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			break
		}
	}
	if open < 10 || open == 1000 {
		t.Fatalf("%d pages may watch", open)
	}
	leave()
	ctx, leave = context.WithCancel(t.Context())
	defer leave()
	for wait := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		resp := watch()
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(wait) {
			t.Fatal("nobody is let in after all have left")
		}
	}
}
