package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

func (a *App) datasetCommand() *cobra.Command {
	var scenarios, weights, chunk int
	var adaptive bool
	var out, design, scalarization, shard, policy, distil, regime string
	var ranges []string
	var inward float64
	cmd := &cobra.Command{
		Use:   "dataset CASE --out DIR [--scenarios N] [--weights W]",
		Short: "Solve optimal plans of a case into a Parquet dataset to train on; resumable",
		Long: `Draws N scenarios by Latin hypercube sampling. It solves each for the case's adaptive
weights and for W fixed weightings of the objectives, and writes the samples as
Parquet files. The same command continues where the last one stopped, if the files
written so far are whole. Without a single sample it fails and says why. --shard i/n
solves one of n parts of the work; gpc dataset merge joins them. --policy also solves
from every state that an earlier map leads to. With --distil as well, nothing is
solved: the samples are the decisions of that method.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			opt, isSet := c.DatasetDefaults(), cmd.Flags().Changed
			if isSet("scenarios") {
				opt.Scenarios = scenarios
			}
			if isSet("weights") {
				opt.Weights.Count = weights
			}
			if isSet("design") {
				opt.Weights.Design = dataset.WeightDesign(design)
			}
			if opt.Shard, err = a.Shard(shard); err != nil {
				return err
			}
			opt.OutDir, opt.Adaptive = out, adaptive
			opt.Scalarization, opt.Chunk = domain.Scalarization(scalarization), chunk
			opt.Seed, opt.Threads, opt.Command = a.seed, a.threads, a.CommandLine()
			opt.Distil, opt.Visiting.Method = distil != "", distil
			opt.Regime, opt.Inward = regime, inward
			if opt.Ranges, err = parseRanges(ranges); err != nil {
				return err
			}
			stages := a.Stages()
			counters, err := c.Dataset(cmd.Context(), policy, a.Engine(), opt, func(p dataset.Progress) { stages(p.Stage, p.Done, p.Total) })
			if err != nil {
				return err
			}
			return a.Print(counters, func(w io.Writer) {
				missing := counters.Missing()
				if missing != "" {
					missing = "; " + missing
				}
				fmt.Fprintf(w, "%d samples from %d of %d scenarios (%d discarded), %d solves in %.1f s, %.0f solves/s, in %s%s\n",
					counters.Samples, counters.Retained, counters.Scenarios, counters.Discarded, counters.Solves, counters.WallSeconds, counters.SolvesPerSecond, out, missing)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&scenarios, "scenarios", 0, "scenarios to draw (default: the case's full size)")
	f.IntVar(&weights, "weights", 0, "fixed preferences per scenario (default: the case's)")
	f.StringVar(&out, "out", "", "folder of the dataset")
	f.StringVar(&shard, "shard", "", "i/n: solve part i (from 0) of n"+ShardUsage)
	f.StringVar(&design, "design", string(dataset.RandomWeights), "fixed preferences: random, uniform, logarithmic, mixed or centred (default: the case's)")
	f.StringVar(&scalarization, "scalarization", string(domain.WeightedSum), "weighted-sum, chebyshev or epsilon-constraint, for fixed preferences")
	f.BoolVar(&adaptive, "adaptive", true, "solve every scenario with the adaptive priority")
	f.StringVar(&policy, "policy", "", "model file: solve also from the states its method direct visits in closed loop")
	f.StringVar(&distil, "distil", "", "method, such as refine-64, that drives --policy's map in closed loop; its decisions are the samples, and nothing is solved")
	f.StringVar(&regime, "regime", "", "kind of scenes for the episodes of --distil (default: the case's)")
	f.StringArrayVar(&ranges, "range", nil, "`AXIS=LO:HI`: draw this axis of the scenarios from LO to HI; repeatable, AXIS may be a pattern such as 'P*'")
	f.Float64Var(&inward, "inward", 0, "room that every optimum keeps to every limit (default: the case's own targets)")
	f.IntVar(&chunk, "chunk", 0, "scenarios per part; 0 is 64")
	requeueFlag(cmd, "")
	cmd.AddCommand(a.mergeCommand())
	return cmd
}

// merged is what `gpc dataset merge` prints.
type merged struct {
	Samples int    `json:"samples"` // in the merged dataset
	Hash    string `json:"hash"`    // of its content
}

func (a *App) mergeCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "merge DIR DIR... --out DIR",
		Short: "Join the shards of one dataset",
		Args:  AtLeast(1, "dataset merge needs the folders of the shards"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return BadInputf("--out is required: the folder to write the merged dataset to")
			}
			d, err := dataset.Merge(cmd.Context(), out, args...)
			if errors.As(err, new(*durable.Refusal)) {
				return gpc.BadInput(err)
			}
			if err != nil {
				return err
			}
			result := merged{d.Rows(), d.Hash()}
			return a.Print(result, func(w io.Writer) {
				fmt.Fprintf(w, "%d samples in %s, hash %s\n", result.Samples, out, result.Hash)
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder of the merged dataset")
	requeueFlag(cmd, "")
	return cmd
}

// parseRanges reads each AXIS=LO:HI.
func parseRanges(texts []string) ([]dataset.Range, error) {
	var out []dataset.Range
	var axes []string
	for _, text := range texts {
		axis, span, hasAxis := strings.Cut(text, "=")
		left, right, hasBounds := strings.Cut(span, ":")
		lo, errLo := strconv.ParseFloat(left, 64)
		hi, errHi := strconv.ParseFloat(right, 64)
		if !hasAxis || !hasBounds || axis == "" || errors.Join(errLo, errHi) != nil {
			return nil, BadInputf("--range %q: want AXIS=LO:HI, such as level=0.86:1.1", text)
		}
		out, axes = append(out, dataset.Range{Axis: axis, Lo: lo, Hi: hi}), append(axes, axis)
	}
	return out, unique("--range", axes)
}

// CommandLine is the command as a reader would type it, without the path of the
// binary.
func (a *App) CommandLine() string { return strings.Join(append([]string{a.Name}, a.args...), " ") }
