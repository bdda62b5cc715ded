package view_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/serve"
	"github.com/gpc-engine/gpc/view"
)

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
		p.refused("GET", path, "", http.StatusNotFound, "")
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
	for path, status := range map[string]int{"/": 200, "/view/events": 403, "/view/state": 403, "/view/app.js": 403} { // a link may lead to the page
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "localhost"
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		p.h.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("GET %s for another site: %d, want %d", path, w.Code, status)
		}
	}
	for _, path := range []string{"/", "/view/app.js", "/view/app.css", "/view/icon.svg"} {
		if status, text := p.ask("GET", path, "", nil); status != 200 || text == "" {
			t.Errorf("GET %s: %d", path, status)
		}
	}
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
