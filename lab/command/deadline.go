package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/deadline"
	"github.com/gpc-engine/gpc/lab/draw"
	"github.com/gpc-engine/gpc/lab/report"
)

// Deadline is `bench deadline`.
func Deadline(a *cli.App) *cobra.Command {
	var name, modelFile, method, figures string
	var weights []float64
	var opt deadline.DeadlineOptions
	var limit func() (closedloop.LoadLimit, error)
	cmd := &cobra.Command{
		Example: "  gpc-lab bench deadline --case cartpole --rate 1000 --for 10s",
		Use:     "deadline --case CASE [--rate HZ] [--for TIME]",
		Short:   "Run real decisions in a periodic loop: response times, jitter, missed deadlines",
		Long: `Runs decisions at a fixed rate. A thread of its own sleeps until each release, an
absolute time, and decides on an observation of closed loops that were recorded
first. gpc compares the actions with the recorded ones. A response lasts from the
release to the action; a decision is late if its response exceeds the deadline.
Releases that pass during a decision are skipped, except the last. The output also
shows what else used the processor: garbage collector, context switches, other
processes, other guests of the host. The engine uses one thread unless you give
--threads.`,
		Args: cli.ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" {
				return cli.BadInputf("--case is required: the case whose decisions are timed")
			}
			for _, limit := range []struct {
				flag       string
				time, most time.Duration
			}{{"for", opt.For, 24 * time.Hour}, {"deadline", opt.Deadline, time.Hour}} {
				if limit.time < 0 || limit.time > limit.most {
					return cli.BadInputf("--%s %v: want 0 to %v", limit.flag, limit.time, limit.most)
				}
			}
			opt.Seed = a.Seed()
			if err := opt.Validate(); err != nil {
				return gpc.BadInput(err)
			}
			c, setup, err := a.Setup(cmd, name, modelFile, method)
			if err != nil {
				return err
			}
			if opt.Preference, err = cli.Preference(weights, c.Spec().ObjectiveSize()); err != nil {
				return err
			}
			most, err := limit()
			if err != nil {
				return err
			}
			o := a.Engine()
			o.Threads = max(1, a.Threads())
			e, err := gpc.OpenEngine(o)
			if err != nil {
				return err
			}
			defer e.Close()
			k, err := c.Controller(e, setup)
			if err != nil {
				return err
			}
			watch, err := machine.Begin(most)
			if err != nil {
				return err
			}
			d, err := deadline.KeepDeadlines(cmd.Context(), c.Definition(), k, opt)
			if err != nil {
				return err
			}
			if d.Load, err = watch.End(); err != nil {
				return err
			}
			description := e.About()
			d.Method, d.Device, d.Backend = setup.Method, e.Device(), description.Backend
			d.ISA, d.Threads = description.ISA, description.Threads
			d.Commit, d.Command = version.Build(), a.CommandLine()
			if figures != "" {
				if err := writeFigures(figures, []*draw.Figure{report.DeadlineFigure(d)}); err != nil {
					return err
				}
			}
			return a.Print(d, func(w io.Writer) {
				cli.Table(w, d.Rows())
				for _, line := range d.Lines() {
					fmt.Fprintln(w, line)
				}
			})
		},
	}
	limit = cli.LimitFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&name, "case", "", "case whose decisions are timed")
	f.StringVar(&method, "method", "", "method that decides (default: the one that the map was compiled for, or the first of gpc methods CASE)")
	f.StringVar(&modelFile, "model", "", "model file, or the weights of a method that brings its own (default: the bundled map)")
	f.Float64SliceVar(&weights, "preference", nil, "fixed `weights` w1,w2,… of the objectives, which sum to 1 (default: the adaptive priority)")
	f.Float64Var(&opt.Rate, "rate", 100, "decisions a second")
	f.DurationVar(&opt.For, "for", 10*time.Second, "duration of the loop")
	f.DurationVar(&opt.Deadline, "deadline", 0, "largest response of a decision, such as 2ms (default: until the next release)")
	f.IntVar(&opt.Episodes, "episodes", 4, "closed loops whose observations are used, again and again")
	f.StringVar(&figures, "figures", "", "folder for the histogram, SVG and PNG")
	return cmd
}
