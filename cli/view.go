package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/serve"
	"github.com/gpc-engine/gpc/view"
)

// viewed is what view prints.
type viewed struct {
	URL string `json:"url"` // of the page
}

func (a *App) viewCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "view TRACE",
		Short: "Show a recorded trace on a web page: scrub, step, play",
		Long: `Shows the episodes of a trace on a web page of this machine. The page has a picture of
the plant, and plots of objectives, weights, margins and latencies over time. The page needs no
network. Ctrl-C ends it. Only TRACE is opened.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			trace, err := view.OpenTrace(cmd.Context(), &a.Catalogue, args[0])
			if err != nil {
				return err
			}
			const perSecond = 10
			return a.page(cmd.Context(), view.New(trace, perSecond, false), listen)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address of the page, a loopback address; port 0 takes any free port")
	return cmd
}

// withPage is a server's handler with the page of a plant beside it, which ends with the context.
func (a *App) withPage(ctx context.Context, h http.Handler, c *gpc.Case, s *serve.Server, f *serving) (http.Handler, func(), error) {
	live, err := view.NewLive(ctx, c, s, view.LiveOptions{Seed: a.seed, Preference: f.weights, Deadline: s.Deadline(), Dated: f.options.MaxAge > 0})
	if err != nil {
		return nil, nil, err
	}
	page := view.New(live, view.DefaultRate(c.Spec()), true)
	context.AfterFunc(ctx, page.Close) // its streams would be waited for
	mux := http.NewServeMux()
	mux.Handle("/", page)
	for _, path := range serve.Paths {
		mux.Handle(path, h)
	}
	return mux, page.Close, nil
}

// Limits of the page's connections.
const (
	headerLimit = 5 * time.Second
	idleLimit   = time.Minute
	headerBytes = 16 << 10
)

// page serves a page until the context ends, which is no error.
func (a *App) page(ctx context.Context, h *view.Handler, address string) error {
	defer h.Close()
	listener, err := loopback(ctx, address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerLimit, ReadTimeout: headerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: headerBytes}
	stopped := context.AfterFunc(ctx, func() {
		h.Close() // and the streams with it
		server.Close()
	})
	defer stopped()
	out := viewed{"http://" + listener.Addr().String() + "/"}
	if err := a.Print(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s  (Ctrl-C ends it)\n", out.URL)
	}); err != nil {
		listener.Close()
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// loopback listens where this machine alone can ask: a page has no password.
func loopback(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, BadInputf("--listen %s: %w", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, BadInputf("--listen %s: want an address that only this machine reaches, such as 127.0.0.1:8080: the page has no password. From another machine, use ssh -L", address)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	return listener, nil
}
