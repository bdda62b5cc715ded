package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/durable"
)

func (a *App) evalCommand() *cobra.Command {
	var opt closedloop.Options
	var method, modelFile, shard, mcapFile, computing string
	var scenes, guard func(c *gpc.Case) (*gpc.Case, error)
	var limit func() (closedloop.LoadLimit, error)
	cmd := &cobra.Command{
		Use:   "eval CASE [--method NAME] [--episodes N] [--trace FILE]",
		Short: "Evaluate a method in closed loop on unseen episodes",
		Long: `Drives episodes of the case's plant and scores every decision. --trace writes a file
that gpc verify checks without trusting this command. The engine uses one thread
unless you give --threads, so latencies are those of one core. --parallel runs
episodes side by side, which changes latencies alone.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := CheckOutputs([]durable.File{{Name: "--trace", Path: opt.TracePath}}, []durable.File{{Name: "--model", Path: modelFile}}); err != nil {
				return err
			}
			c, setup, err := a.setup(cmd, args[0], modelFile, method)
			if err != nil {
				return err
			}
			if c, err = scenes(c); err != nil {
				return err
			}
			if opt.Computing, err = computingOf(computing); err != nil {
				return err
			}
			opt.Resume = opt.Resume || a.requeue.Load()
			if opt.Resume && opt.TracePath == "" {
				return BadInputf("--resume and --requeue need --trace FILE, the run to continue")
			}
			part, err := a.shard(shard)
			if err != nil {
				return err
			}
			opt.ShardIndex, opt.ShardCount = part.Index, part.Count
			if opt.Limit, err = limit(); err != nil {
				return err
			}
			opt.Progress = a.progress(c.Name() + " " + setup.Method)
			if c, err = guard(c); err != nil {
				return err
			}
			result, err := a.evaluateToMCAP(cmd.Context(), mcapFile, modelFile, &opt, func() (*closedloop.Result, error) {
				return c.Evaluate(cmd.Context(), setup, a.engine(), opt)
			})
			if err != nil {
				return err
			}
			return a.Print(result, func(w io.Writer) { renderEvaluation(w, []*closedloop.Result{result}) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&method, "method", "", "method that decides, see gpc methods CASE (default: the one that the map was compiled for, or the first of the list)")
	f.StringVar(&modelFile, "model", "", "model file, or the weights of a method that brings its own (default: the bundled map)")
	scenes = a.sceneFlags(cmd, &opt)
	guard, limit = guardFlags(cmd), limitFlags(cmd)
	f.StringVar(&computing, "computing", "", computingUsage)
	f.StringVar(&opt.TracePath, "trace", "", "write every decision to this file (JSON Lines), which must not exist, or is continued with --resume")
	f.StringVar(&mcapFile, "mcap", "", "write the episodes as MCAP too, for Foxglove and Rerun (gpc mcap does it of a trace)")
	f.BoolVar(&opt.Resume, "resume", false, "continue the trace after its last complete episode")
	f.StringVar(&shard, "shard", "", "i/n: run every n-th episode, from i"+shardUsage)
	f.IntVar(&opt.Threads, "parallel", 1, "episodes run side by side")
	requeueFlag(cmd, "; with --resume")
	cmd.AddCommand(a.pairCommand(), a.joinCommand(), a.compareCommand())
	return cmd
}
