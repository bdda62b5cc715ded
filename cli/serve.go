package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/serve"
)

func (a *App) serveCommand() *cobra.Command {
	var modelFile, method string
	var stdin, ui bool
	var listen string
	var weights []float64
	opt, lines := serve.Options{}, serve.LineOptions{}
	cmd := &cobra.Command{
		Use:   "serve CASE --stdin | --ui",
		Short: "Decide for many closed loops: JSON Lines in, JSON Lines out; or a page to steer one",
		Long: `Reads one request a line from standard input and writes one answer a line, in the
same order, to standard output:

  {"op":"decide","session":"a","s":[…],"c":[…],"preference":[…],"deadline_ms":5}
  {"op":"refine","s":[…],"c":[…],"candidates":4096,"deadline_ms":20}
  {"op":"preference","session":"a","preference":[…]}      null: adaptive
  {"op":"reset","session":"a"}
  {"op":"health"}

A session is one closed loop by its name; those whose requests are at hand together
decide as one batch. What is wrong with a line is its answer, {"error":…,"field":…},
and the next is read. The end of the input, Ctrl-C and SIGTERM end the program with
exit code 0 when what was read is answered. docs/serve.md has every key.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if stdin == ui {
				return BadInputf("serve needs either --stdin or --ui: standard input and output, or a page, are its doors")
			}
			c, setup, err := a.setup(args[0], modelFile, method)
			if err != nil {
				return err
			}
			pref, err := preference(weights, c.Spec().ObjectiveSize())
			if err != nil {
				return err
			}
			e, err := a.open()
			if err != nil {
				return err
			}
			opt.Setup, opt.Preference, opt.Seed, opt.Threads, opt.Notice = setup, pref.W, a.seed, cpuThreads(a.threads), a.notice
			s, err := serve.New(c, e, opt)
			if err != nil {
				e.Close()
				return err
			}
			if ui {
				err = a.servePage(cmd.Context(), c, s, opt, listen)
			} else {
				err = s.Lines(cmd.Context(), a.Stdin, a.Stdout, lines)
			}
			if cmd.Context().Err() != nil {
				return err // the process ends, and what still computes with it
			}
			s.Close()
			e.Close()
			if err == nil && !a.json {
				err = renderHealth(a.Stderr, s.Health())
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&stdin, "stdin", false, "requests on standard input, answers on standard output")
	f.BoolVar(&ui, "ui", false, "a page at --listen to watch and steer a plant of the case that runs beside")
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "address of the page")
	f.StringVar(&modelFile, "model", "", "model file, or the weights of a method that brings its own (default: the bundled map)")
	f.StringVar(&method, "method", "", "method that decides (default: the one that the map was compiled for, or gpc)")
	f.Float64SliceVar(&weights, "preference", nil, "fixed weights w1,w2,… of sessions that state none (default: the adaptive priority)")
	f.IntVar(&opt.Sessions, "sessions", serve.DefaultSessions, "sessions that may be open at once")
	f.DurationVar(&opt.Deadline, "deadline", 0, "answer by then, with the fallback if need be, where a request states no deadline_ms, such as 5ms (default: none)")
	f.IntVar(&lines.MaxBytes, "line-bytes", serve.DefaultLineBytes, "bytes of a line at most")
	return cmd
}

func renderHealth(w io.Writer, h serve.Health) error {
	_, err := fmt.Fprintf(w, "%d decisions in %d batches (largest %d): %d replaced, %d late, %d refused, %d panics, in %v\n",
		h.Decisions, h.Batches, h.LargestBatch, h.Replaced, h.Late, h.Refused, h.Panics, time.Duration(h.UptimeS*float64(time.Second)).Round(time.Millisecond))
	return err
}
