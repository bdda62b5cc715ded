package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/offline"
)

func (a *App) datasetCommand() *cobra.Command {
	var opt offline.Options
	var weights int
	var design, how, shard, policy string
	cmd := &cobra.Command{
		Use:   "dataset CASE --scenarios N --weights W --out DIR",
		Short: "Solve Pareto samples of a case into a parquet dataset; resumable",
		Long: `Draws N scenarios by Latin hypercube sampling, solves each for the adaptive
priority and for W fixed preferences, and writes the samples as parquet parts.
Running the same command again continues where the last one stopped. --shard i/n
solves one of n parts of the work; gpc dataset merge joins them. With --policy the
optimum is also solved from every state that an earlier map leads to.`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.find(args[0])
			if err != nil {
				return err
			}
			spec := c.MapProblem().Spec()
			if !cmd.Flags().Changed("scenarios") {
				opt.Scenarios = spec.Training.Scenarios
			}
			if !cmd.Flags().Changed("weights") {
				weights = spec.Training.Weights
			}
			if opt.Scenarios < 1 {
				return badInputf("--scenarios %d: want 1 or more", opt.Scenarios)
			}
			if opt.OutDir == "" {
				return badInputf("--out is required: the folder of the dataset")
			}
			if opt.Shard, err = parseShard(shard); err != nil {
				return err
			}
			d := spec.Training.Design
			if d.Name == "" || cmd.Flags().Changed("design") {
				d.Name = design
			}
			if opt.Weights = (offline.Weights{Count: weights, Design: offline.WeightDesign(d.Name)}); d.LogLo < d.LogHi {
				opt.Weights.Reference, opt.Weights.LogLo, opt.Weights.LogHi = d.Reference, d.LogLo, d.LogHi
			}
			if err := opt.Weights.Validate(spec.ObjectiveSize()); err != nil {
				return badInput(err)
			}
			opt.Scalarization = domain.Scalarization(how)
			opt.Seed, opt.Threads = a.seed, a.threads
			opt.Program, opt.Command = version.Version+" "+version.Build(), commandLine()
			if policy != "" {
				closeAll, err := a.visit(c, policy, &opt)
				if err != nil {
					return err
				}
				defer closeAll()
			}
			bar, stage := a.progress("prepare"), "prepare"
			counters, err := offline.Generate(cmd.Context(), c, opt, func(p offline.Progress) {
				if p.Stage != stage {
					bar, stage = a.progress(p.Stage), p.Stage
				}
				bar(p.Done, p.Total)
			})
			if err != nil {
				return err
			}
			return a.print(counters, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%d samples from %d of %d scenarios (%d discarded), %d solves in %.1f s, %.0f solves/s, in %s\n",
					counters.Samples, counters.Retained, counters.Scenarios, counters.Discarded, counters.Solves, counters.WallSeconds, counters.SolvesPerSecond, opt.OutDir)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&opt.Scenarios, "scenarios", 0, "scenarios to draw (default: the case's full size)")
	f.IntVar(&weights, "weights", 0, "fixed preferences per scenario (default: the case's)")
	f.StringVar(&opt.OutDir, "out", "", "folder of the dataset")
	f.StringVar(&shard, "shard", "", "i/n: solve part i (from 0) of n")
	f.StringVar(&design, "design", string(offline.RandomWeights), "fixed preferences: random, uniform, logarithmic, mixed or centred (default: the case's)")
	f.StringVar(&how, "scalarization", string(domain.WeightedSum), "weighted-sum, chebyshev or epsilon-constraint, for fixed preferences")
	f.BoolVar(&opt.Adaptive, "adaptive", true, "solve every scenario with the adaptive priority")
	f.StringVar(&policy, "policy", "", "model file: solve also from the states its method direct visits in closed loop")
	f.IntVar(&opt.Chunk, "chunk", 0, "scenarios per part; 0 is 64")
	cmd.AddCommand(a.mergeCommand())
	return cmd
}

// visit sets up the policy whose visited states are solved from: the method direct
// of a model file, known by the file's hash.
func (a *App) visit(c domain.Case, file string, opt *offline.Options) (closeAll func(), err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, badInput(err)
	}
	opt.PolicyName = fmt.Sprintf("direct %x", sha256.Sum256(data))
	make, closeAll, err := a.factory(c, "direct", file)
	if err != nil {
		return nil, err
	}
	opt.Policy = make
	return closeAll, nil
}

func (a *App) mergeCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "merge DIR DIR... --out DIR",
		Short: "Join the shards of one dataset",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return badInputf("dataset merge needs the folders of the shards")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return badInputf("--out is required: the folder of the merged dataset")
			}
			d, err := offline.Merge(out, args...)
			if err != nil {
				return badInput(err)
			}
			result := struct {
				Samples int    `json:"samples"`
				Hash    string `json:"hash"`
			}{d.Rows(), d.Hash()}
			return a.print(result, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%d samples in %s, hash %s\n", result.Samples, out, result.Hash)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder of the merged dataset")
	return cmd
}

// parseShard reads "i/n" with 0 ≤ i < n; "" is the whole.
func parseShard(s string) (offline.Shard, error) {
	if s == "" {
		return offline.Shard{}, nil
	}
	i, n, err := splitShard(s)
	if err != nil {
		return offline.Shard{}, err
	}
	return offline.Shard{Index: i, Count: n}, nil
}

func splitShard(s string) (i, n int, err error) {
	left, right, found := strings.Cut(s, "/")
	i, errI := strconv.Atoi(left)
	n, errN := strconv.Atoi(right)
	if !found || errors.Join(errI, errN) != nil || n < 1 || i < 0 || i >= n {
		return 0, 0, badInputf("--shard %q: want i/n with 0 ≤ i < n", s)
	}
	return i, n, nil
}

// commandLine is the command as a reader would type it, without the path of the
// binary.
func commandLine() string {
	return strings.Join(append([]string{"gpc"}, os.Args[1:]...), " ")
}
