package serve_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// A client says what it was answered, and refuses addresses that are none.
func TestClients(t *testing.T) {
	_, h := web(t, serve.Options{}, serve.HTTPOptions{})
	client := require.Get(serve.Dial(h.URL+"/", serve.ClientOptions{}))(t)
	defer client.Close()
	ctx := t.Context()
	gap := serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}, Preference: &domain.Preference{W: []float64{1, 0}}, Deadline: time.Now().Add(24 * time.Hour), Observed: time.UnixMilli(1000)}
	if d := require.Get(client.Decide(ctx, "a", gap))(t); d.Sigma[0] != 1 || d.Late || d.Batch != 1 {
		t.Errorf("%+v", d)
	}
	require.OK(t, client.SetPreference(ctx, "a", domain.Preference{W: []float64{0, 1}}))
	gap.Preference = nil
	if d := require.Get(client.Decide(ctx, "a", gap))(t); d.Stale != "order" || d.Residual == d.Residual {
		t.Errorf("%+v", d)
	}
	require.OK(t, client.Clear(ctx, "a"))
	if d := require.Get(client.Decide(ctx, "a", gap))(t); d.Stale != "" || d.Sigma[1] != 1 {
		t.Errorf("%+v", d)
	}
	require.OK(t, client.Reset(ctx, "a"))
	var status *serve.StatusError
	if _, err := client.Decide(ctx, "a", serve.Request{S: []float64{1}, C: []float64{0}}); !errors.As(err, &status) || status.Status != 400 || status.Field != "s" || !strings.Contains(err.Error(), "entries") {
		t.Errorf("a short state: %v", err)
	}
	for _, at := range []string{"", "127.0.0.1:8080", "ftp://a", "http://", "unix:", "http://a/b", "http://u:p@a"} {
		if _, err := serve.Dial(at, serve.ClientOptions{}); err == nil {
			t.Errorf("%q is an address", at)
		}
	}
}

// An answer that is no JSON is told as it is, with its status; one that is an error is that error alone.
func TestAClientTellsWhatItCannotRead(t *testing.T) {
	for body, want := range map[string]string{`<h1>a proxy`: "a proxy", `{}`: "{}", `{"error":"no"}`: ""} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			w.Write([]byte(body))
		}))
		client := require.Get(serve.Dial(h.URL, serve.ClientOptions{}))(t)
		var status *serve.StatusError
		err := client.Reset(t.Context(), "a")
		if !errors.As(err, &status) || status.Status != http.StatusBadGateway || want != "" && !strings.Contains(err.Error(), want) || want == "" && (status.Error() != err.Error() || status.Failure.Error != "no") {
			t.Errorf("%s: %v", body, err)
		}
		client.Close()
		h.Close()
	}
}

// Closed loops side by side over HTTP are those of controllers by themselves, action for action to
// the bit.
func TestLoopsOverHTTPAreThoseOfControllers(t *testing.T) {
	cases := paper.Cases()
	c := require.Get(cases.Find("integrator-convex"))(t)
	setup := require.Get(c.Setup("navigator", ""))(t)
	s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: setup}))(t)
	defer s.Close()
	h := httptest.NewServer(serve.Handler(s, serve.HTTPOptions{}))
	defer h.Close()
	client := require.Get(serve.Dial(h.URL, serve.ClientOptions{}))(t)
	defer client.Close()
	adaptive := domain.Preference{Adaptive: true}
	var wait sync.WaitGroup
	for i := range 3 {
		ep := require.Get(c.Definition().Plant.Episode(991, i, domain.EpisodeOptions{Preference: adaptive}))(t)
		alone, served := require.Get(c.Controller(cpu(t), setup))(t), client.Controller(t.Context(), fmt.Sprint(i), time.Hour)
		wait.Go(func() {
			x, cx := make([]float64, c.Spec().MeasuredSize()), make([]float64, c.Spec().ContextSize())
			u, v := make([]float64, c.Spec().ActionSize()), make([]float64, c.Spec().ActionSize())
			err := errors.Join(alone.Reset(ep), served.Reset(ep))
			for step := 0; err == nil && !ep.Done(); step++ {
				ep.Observe(x, cx)
				a, one := alone.Decide(x, cx, adaptive, u)
				b, two := served.Decide(x, cx, adaptive, v)
				if !slices.Equal(u, v) || !slices.Equal(a.Sigma, b.Sigma) || a.Residual != b.Residual || a.Displacement != b.Displacement || a.Fallback != b.Fallback {
					t.Errorf("episode %d, decision %d: %v %+v, a controller decides %v %+v", i, step, v, b, u, a)
					return
				}
				_, three := ep.Apply(u)
				err = errors.Join(one, two, three)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}
