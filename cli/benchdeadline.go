package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/spf13/cobra"
)

func (a *App) benchDeadlineCommand() *cobra.Command {
	var name, modelFile, method string
	var weights []float64
	var opt bench.DeadlineOptions
	var draw func(result any) error
	var limit func() (closedloop.LoadLimit, error)
	cmd := &cobra.Command{
		Use:   "deadline --case CASE [--rate HZ] [--for TIME]",
		Short: "Run real decisions in a periodic loop: response times, jitter, missed deadlines",
		Long: `Runs decisions at a fixed rate. A thread of its own sleeps until each release, an
absolute time, and decides on an observation of closed loops that were recorded
first. gpc compares the actions with the recorded ones. A response lasts from the
release to the action; a decision is late if its response exceeds the deadline.
Releases that pass during a decision are skipped, except the last. The output also
shows what else used the processor: garbage collector, context switches, other
processes, other guests of the host. The engine uses one thread unless you give
--threads.`,
		Args: ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" {
				return BadInputf("--case is required: the case whose decisions are timed")
			}
			opt.Seed = a.seed
			if err := opt.Validate(); err != nil {
				return gpc.BadInput(err)
			}
			c, setup, err := a.Setup(cmd, name, modelFile, method)
			if err != nil {
				return err
			}
			if opt.Preference, err = preference(weights, c.Spec().ObjectiveSize()); err != nil {
				return err
			}
			most, err := limit()
			if err != nil {
				return err
			}
			o := a.Engine()
			o.Threads = max(1, a.threads)
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
			d, err := bench.KeepDeadlines(cmd.Context(), c.Definition(), k, opt)
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
			if err := draw(d); err != nil {
				return err
			}
			return a.Print(d, func(w io.Writer) {
				Table(w, d.Rows())
				for _, line := range d.Lines() {
					fmt.Fprintln(w, line)
				}
			})
		},
	}
	limit = LimitFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&name, "case", "", "case whose decisions are timed")
	f.StringVar(&method, "method", "", "method that decides (default: the one that the map was compiled for, or the first of gpc methods CASE)")
	f.StringVar(&modelFile, "model", "", "model file, or the weights of a method that brings its own (default: the bundled map)")
	f.Float64SliceVar(&weights, "preference", nil, "fixed `weights` w1,w2,… of the objectives, which sum to 1 (default: the adaptive priority)")
	f.Float64Var(&opt.Rate, "rate", 100, "decisions a second")
	f.DurationVar(&opt.For, "for", 10*time.Second, "duration of the loop")
	f.DurationVar(&opt.Deadline, "deadline", 0, "largest response of a decision, such as 2ms (default: until the next release)")
	f.IntVar(&opt.Episodes, "episodes", 4, "closed loops whose observations are used, again and again")
	draw = a.figuresFlag(cmd, "folder for the histogram, SVG and PNG")
	return cmd
}
