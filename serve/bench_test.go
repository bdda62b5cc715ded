package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// BenchmarkLines is a decision of each of n sessions, lines in and lines out.
func BenchmarkLines(b *testing.B) {
	cases := paper.Cases()
	for _, name := range []string{"integrator-convex", "opf30"} {
		for _, method := range []string{"direct", "navigator"} {
			c := require.Get(cases.Find(name))(b)
			setup := require.Get(c.Setup(method, ""))(b)
			spec := c.Spec()
			ep := require.Get(c.Definition().Plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(b)
			s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
			ep.Observe(s, cx)
			for _, n := range []int{1, 16, 256} {
				b.Run(fmt.Sprintf("%s/%s/%d", name, method, n), func(b *testing.B) {
					server := require.Get(serve.New(c, cpu(b), serve.Options{Setup: setup}))(b)
					defer server.Close()
					w := wired(b, server)
					lines := make([]string, n)
					for i := range lines {
						lines[i] = decide(b, fmt.Sprint(i), s, cx)
					}
					w.ask(lines...)
					for b.Loop() {
						w.ask(lines...)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/decision")
					b.ReportMetric(float64(server.Health().Decisions)/float64(server.Health().Batches), "sessions/batch")
					w.end()
				})
			}
		}
	}
}

// BenchmarkHTTP is a request and its answer without the network: a decision, and one that is
// refused because as many wait as may.
func BenchmarkHTTP(b *testing.B) {
	cases := paper.Cases()
	c := require.Get(cases.Find("opf30"))(b)
	spec := c.Spec()
	ep := require.Get(c.Definition().Plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(b)
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	ep.Observe(s, cx)
	body := require.Get(json.Marshal(map[string]any{"session": "a", "s": s, "c": cx, "deadline_ms": 1000}))(b)
	for _, method := range []string{"direct", "navigator", "refused"} {
		b.Run(method, func(b *testing.B) {
			opt, want := serve.Options{Setup: require.Get(c.Setup("direct", ""))(b), Waiting: 1}, http.StatusOK
			if method == "navigator" {
				opt.Setup = require.Get(c.Setup("navigator", ""))(b)
			}
			server := require.Get(serve.New(c, cpu(b), opt))(b)
			defer server.Close()
			if method == "refused" {
				server.Drain(time.Hour) // by the same way as a busy one
				want = http.StatusServiceUnavailable
			}
			h := serve.Handler(server, serve.HTTPOptions{})
			for b.Loop() {
				r, w := httptest.NewRequest("POST", "/v1/decide", bytes.NewReader(body)), httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != want {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}
