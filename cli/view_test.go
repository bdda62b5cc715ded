package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
	"github.com/gpc-engine/gpc/view"
)

// paged starts a command that serves a page, and gives its address and what ends it.
func paged(t *testing.T, app *App, args ...string) (url string, end func() int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	from, to := io.Pipe()
	a := *app
	a.Stdout, a.Stderr, a.Stdin = to, to, strings.NewReader("")
	code := make(chan int, 1)
	go func() {
		code <- a.Run(ctx, args)
		to.Close()
	}()
	var v viewed
	var log strings.Builder
	for in := bufio.NewScanner(from); v.URL == "" && in.Scan(); {
		log.WriteString(in.Text())
		_ = json.Unmarshal(in.Bytes(), &v) // or it is of something else
	}
	if v.URL == "" {
		stop()
		t.Fatalf("%v says no address: exit code %d, %s", args, <-code, log.String())
	}
	go io.Copy(io.Discard, from)
	return v.URL, func() int {
		stop()
		return <-code
	}
}

func fetched[T any](t *testing.T, url string) (v T) {
	t.Helper()
	resp := require.Get(http.Get(url))(t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", url, resp.Status)
	}
	require.OK(t, json.NewDecoder(resp.Body).Decode(&v))
	return v
}

// view shows a trace, serve --ui a plant that runs, until a signal; both then end with 0.
func TestPagesOfTheCommandLine(t *testing.T) {
	app, file := cart(t)
	trace := filepath.Join(t.TempDir(), "cart.jsonl")
	if code, _, log := run(app, "eval", "cart", "--method", "direct", "--episodes", "2", "--model", file, "--trace", trace); code != 0 {
		t.Fatalf("eval: exit code %d: %s", code, log)
	}
	url, end := paged(t, app, "view", trace, "--json")
	if d := fetched[view.Description](t, url+"view/case"); d.Case != "cart" || d.Kind != "trace" || len(d.Episodes) != 2 {
		t.Errorf("the page is of %+v", d)
	}
	resp := require.Get(http.Get(url + "view/events"))(t) // a stream does not keep it
	defer resp.Body.Close()
	if code := end(); code != 0 {
		t.Errorf("view ends with exit code %d", code)
	}
	url, end = paged(t, app, "serve", "cart", "--ui", "--listen", "127.0.0.1:0", "--model", file, "--deadline", "1s", "--max-age", "1m", "--log", "json")
	if d := fetched[view.Description](t, url+"view/case"); d.Case != "cart" || d.Kind != "live" || !d.Steers || d.DeadlineUs != 1e6 {
		t.Errorf("the page is of %+v", d)
	}
	require.Until(t, "the plant goes on", func() bool { return fetched[view.State](t, url+"view/state").K > 0 })
	if a := fetched[serve.Answer](t, url+"health"); a.Health == nil || a.Health.Case != "cart" || a.Health.Decisions != 0 || a.Health.Sessions == 0 || a.Health.Asides == 0 { // those of the page are not counted
		t.Errorf("beside the page the server says %+v", a)
	}
	if code := end(); code != 0 {
		t.Errorf("serve --ui ends with exit code %d", code)
	}
}

// A page listens where nobody else can reach it.
func TestAPageIsOfThisMachineAlone(t *testing.T) {
	for address, says := range map[string]string{"0.0.0.0:0": "only this machine reaches", "somewhere:0": "only this machine reaches", ":0": "only this machine reaches", "8080": "missing port", "127.0.0.1:99999": "99999"} {
		if on, err := loopback(t.Context(), address); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", address, on, err)
		}
	}
}

func TestWrongPagesAreRefused(t *testing.T) {
	app, file := cart(t)
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	require.OK(t, os.WriteFile(empty, nil, 0o644))
	token := filepath.Join(t.TempDir(), "token")
	require.OK(t, os.WriteFile(token, []byte("0123456789abcdef0123"), 0o600))
	for line, says := range map[string]string{
		"view":                             "takes one argument",
		"view nothing":                     "nothing",
		"view " + empty:                    "the file is empty",
		"view " + empty + " --listen 8080": "the file is empty",
		"serve cart --ui":                  "needs a way to receive requests",
		"serve cart --ui --stdin":          "--ui needs --listen",
		"serve cart --ui --listen 127.0.0.1:0 --token-file " + token:             "the page asks for no token",
		"serve cart --ui --model " + file + " --listen 0.0.0.0:0":                "needs a token",
		"serve cart --ui --model " + file + " --listen 127.0.0.1:0 --sessions 2": "room for 2 sessions",
	} {
		refused(t, app, says, strings.Fields(line)...)
	}
}
