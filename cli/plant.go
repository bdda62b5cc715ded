package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/serve"
)

// resetPatience bounds the end of all sessions, an interrupted run's too.
const resetPatience = 10 * time.Second

func (a *App) plantCommand() *cobra.Command {
	var opt closedloop.Options
	var connect, session, tokenFile, ca string
	var deadline time.Duration
	var scenes alteration
	cmd := &cobra.Command{
		Use:   "plant CASE --connect URL",
		Short: "Simulate the plant of a case and let a running gpc serve drive it",
		Long: `Simulates the episodes of gpc eval, and asks a server for every action over HTTP.
With the same seed, actions and costs equal those of gpc eval with the server's
method, bit for bit. The times that are printed are those of the answers.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if connect == "" {
				return BadInputf("--connect is required: http://HOST:PORT, https://HOST:PORT or unix:PATH of a gpc serve")
			}
			if err := durable.Apart([]durable.File{{Name: "--trace", Path: opt.TracePath}}, []durable.File{{Name: "--token-file", Path: tokenFile}, {Name: "--tls-ca", Path: ca}}); err != nil {
				return gpc.BadInput(err)
			}
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			if c, err = scenes(c); err != nil {
				return err
			}
			options := serve.ClientOptions{CA: ca, Connections: opt.Threads}
			if tokenFile != "" {
				if options.Token, err = serve.ReadToken(tokenFile); err != nil {
					return err
				}
			}
			client, err := serve.Dial(connect, options)
			if err != nil {
				return err
			}
			defer client.Close()
			h, err := client.Health(cmd.Context())
			if err != nil {
				return fmt.Errorf("--connect: no gpc serve answers there: %w", err)
			}
			if h.Case != c.Name() {
				return BadInputf("--connect %s: that server runs case %s, want %s", connect, h.Case, c.Name())
			}
			opt.Method, opt.Commit, opt.Device = h.Method, version.Build(), gpc.Host()
			opt.Backend, opt.ISA, opt.ModelSHA256 = h.Backend, h.ISA, h.ModelSHA256
			opt.Progress = a.Progress(c.Name() + " at " + connect)
			var sessions []string
			result, err := c.EvaluateBy(cmd.Context(), func() (domain.Controller, error) {
				name := session
				if n := len(sessions); n > 0 {
					name = fmt.Sprintf("%s-%d", session, n+1)
				}
				sessions = append(sessions, name)
				return client.Controller(cmd.Context(), name, deadline), nil
			}, opt)
			last, stop := context.WithTimeout(context.WithoutCancel(cmd.Context()), resetPatience)
			defer stop()
			for _, name := range sessions {
				err = cmp.Or(err, client.Reset(last, name))
			}
			if err != nil {
				return err
			}
			return a.Print(result, func(w io.Writer) { RenderEvaluation(w, []*closedloop.Result{result}) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&connect, "connect", "", "http://HOST:PORT, https://HOST:PORT or unix:PATH of a gpc serve")
	f.StringVar(&session, "session", "plant", "session; with --parallel the others are NAME-2, NAME-3, …")
	f.StringVar(&tokenFile, "token-file", "", "file of the token that the server demands")
	f.StringVar(&ca, "tls-ca", "", "PEM file of the certificates that verify the server (default: the system's)")
	f.DurationVar(&deadline, "deadline", 0, "deadline of each decision, such as 5ms (default: the server's own)")
	f.DurationVar(&opt.Interval, "every", 0, "period of the observations, such as 100ms (default: as fast as they are answered)")
	scenes = a.sceneFlags(cmd, &opt)
	f.StringVar(&opt.TracePath, "trace", "", "write every decision to this file (JSON Lines), which must not exist")
	f.IntVar(&opt.Threads, "parallel", 1, "episodes run side by side, each by a session of its own")
	return cmd
}
