package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/offline"
	"github.com/gpc-engine/gpc/report"
)

// heldOutStream separates the scenarios a certificate is estimated on from those
// of a dataset with the same seed.
const heldOutStream = 0x68656c646f757400 // "heldout"

func (a *App) certifyCommand() *cobra.Command {
	var modelFile, method string
	var scenarios, episodes, steps int
	var radius float64
	cmd := &cobra.Command{
		Use:   "certify CASE",
		Short: "Estimate the paper's constants on held-out data and say which of its conditions hold",
		Long: `Solves held-out scenarios, estimates γ_min, K_Du, K_Ds, L_f, σ_0, μ_PL, δ_dec,
δ_loc, δ_feas, F_Δ and κ_max on them, evaluates the feasible-step condition, the
drift bound and the action-error bounds, and compares them with what the closed
loop does. Then perturbs latents off M* and follows their recovery. A condition
that does not hold is a result, not a failure: the exit code is 0.`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.find(args[0])
			if err != nil {
				return err
			}
			if err := wholeProblem(c, "certify"); err != nil {
				return err
			}
			if scenarios < 1 || episodes < 0 || steps < 1 || !(radius > 0) {
				return badInputf("--scenarios %d, --episodes %d, --recovery-steps %d, --recovery-radius %v: want at least 1, 0, 1 and a radius above 0", scenarios, episodes, steps, radius)
			}
			if c.Solver == nil {
				return badInputf("case %s has no solver to make held-out samples with", args[0])
			}
			navigation, err := batchnav.OptionsFor(method)
			if err != nil {
				return badInput(err)
			}
			m, err := a.loadModel(c, modelFile)
			if err != nil {
				return err
			}
			held, err := a.heldOut(cmd.Context(), c, scenarios)
			if err != nil {
				return err
			}
			e, err := a.open(a.json)
			if err != nil {
				return err
			}
			defer e.Close()
			opt := batchnav.CertifyOptions{Options: navigation, Seed: a.seed}
			constants, err := batchnav.Estimate(e, m, c.MapProblem(), held, opt)
			if err != nil {
				return err
			}
			var measured *batchnav.Measured
			if episodes > 0 && c.Plant != nil && c.Learned == nil { // a map of another problem does not steer the plant by itself
				n, err := batchnav.NewNavigator(e, m, c.Problem, navigation)
				if err != nil {
					return err
				}
				var optimal batchnav.Optimal
				if o, ok := c.Solver.(domain.Optimizer); ok {
					optimal = o.Optimal
				}
				if measured, err = batchnav.MeasureLoop(cmd.Context(), c.Problem.Spec(), n.Controller(), c.Plant, a.seed, episodes, domain.Preference{Adaptive: true}, optimal); err != nil {
					return err
				}
			}
			recovery, err := batchnav.Recover(e, m, c.MapProblem(), held, constants, batchnav.RecoveryOptions{Certify: opt, Radius: radius * m.Calibration.LatentSpread, Steps: steps})
			if err != nil {
				return err
			}
			out := report.Certified{Certificate: batchnav.Judge(args[0], *constants, measured), Recovery: recovery, Commit: version.Build(), Device: device()}
			return a.print(out, func(w io.Writer) error {
				if err := out.Certificate.WriteTable(w); err != nil {
					return err
				}
				last := len(recovery.Median) - 1
				_, err := fmt.Fprintf(w, "\nrecovery from ‖Δz‖ = %.3g over %d runs: median Φ %.3g → %.3g in %d steps, predicted factor per step %.6g; within the prediction %.4f, at the velocity cap %.4f\n",
					recovery.Radius, recovery.Runs, float64(recovery.Median[0]), float64(recovery.Median[last]), last, float64(recovery.Contraction), float64(recovery.Within), float64(recovery.Capped))
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&modelFile, "model", "", "model file (default: the bundled one)")
	f.StringVar(&method, "method", "gpc", "variant of the navigator")
	f.IntVar(&scenarios, "scenarios", 20, "held-out scenarios to solve")
	f.IntVar(&episodes, "episodes", 20, "closed-loop episodes to compare the bounds with; 0: none")
	f.IntVar(&steps, "recovery-steps", 200, "latent steps followed after a perturbation")
	f.Float64Var(&radius, "recovery-radius", 0.1, "size of the perturbation as a fraction of the spread of M*")
	return cmd
}

// heldOut solves scenarios of a stream that no dataset uses.
func (a *App) heldOut(ctx context.Context, c domain.Case, scenarios int) ([]domain.Sample, error) {
	seed := a.seed ^ heldOutStream
	points, err := offline.LatinHypercube(c.Solver.Parameters(), scenarios, seed)
	if err != nil {
		return nil, err
	}
	if err := c.Solver.Prepare(ctx, seed, a.progress("prepare")); err != nil {
		return nil, err
	}
	var held []domain.Sample
	bar := a.progress("held-out scenarios")
	for i, p := range points {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		samples, err := c.Solver.Solve(i, p, domain.Preference{Adaptive: true}, domain.WeightedSum, seed)
		if err == nil {
			held = append(held, samples...)
		}
		bar(i+1, len(points))
	}
	if len(held) == 0 {
		return nil, fmt.Errorf("none of %d held-out scenarios has a certified solution", scenarios)
	}
	return held, nil
}
