package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A run that is interrupted ends its sessions at the server.
func TestAnInterruptedPlantEndsItsSessions(t *testing.T) {
	app, _ := cart(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var ended atomic.Int64
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/health":
			fmt.Fprint(w, `{"op":"health","health":{"status":"ok","case":"cart","method":"direct"}}`)
		case "/v1/reset":
			if interrupted := ctx.Err() != nil; interrupted && strings.Contains(string(body), `"plant"`) {
				ended.Add(1)
			}
			fmt.Fprint(w, `{"op":"reset","session":"plant"}`)
		default:
			interrupt()
			<-r.Context().Done()
		}
	}))
	defer door.Close()
	a := *app
	a.Stdin, a.Stdout, a.Stderr = strings.NewReader(""), io.Discard, io.Discard
	if code := a.Run(ctx, []string{"plant", "cart", "--connect", door.URL, "--episodes", "1"}); code == 0 || ended.Load() != 1 {
		t.Errorf("exit code %d, %d sessions ended", code, ended.Load())
	}
}
