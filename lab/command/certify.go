package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/lab/certificate"
)

// Certify estimates the constants of the paper's guarantees.
func Certify(a *cli.App) *cobra.Command {
	var modelFile, method string
	var scenarios, episodes int
	var opt certificate.Options
	cmd := &cobra.Command{
		Use:     "certify CASE",
		Example: "  gpc-lab certify integrator-convex --scenarios 50",
		Short:   "Estimate the constants of the paper's guarantees on held-out data, and say which conditions hold",
		Long: `Solves held-out scenarios and estimates the constants of the paper's guarantees on
them: γ_min, K_Du, K_Ds, L_f, σ_0, μ_PL, δ_dec, δ_loc, δ_feas, F_Δ and κ_max. It
evaluates the feasible-step condition, the drift bound and the action-error bounds,
and compares them with the closed loop. It then perturbs latents and follows their
recovery. A condition that does not hold is a result: the exit code is still 0.
docs/reference/certify.md defines the constants.`,
		Args: cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, setup, err := a.Setup(cmd, args[0], modelFile, method)
			if err != nil {
				return err
			}
			setup.Method = method
			e, err := a.OpenEngine()
			if err != nil {
				return err
			}
			defer e.Close()
			opt.Seed = a.Seed()
			out, err := certificate.Of(cmd.Context(), c, e, setup, scenarios, episodes, opt, a.Stages())
			if err != nil {
				return err
			}
			recovery := out.Recovery
			return a.Print(out, func(w io.Writer) {
				out.Certificate.WriteTable(w)
				last := len(recovery.Median) - 1
				fmt.Fprintf(w, "\n%s\nrecovery from ‖Δz‖ = %.3g over %d runs: median Φ %.3g → %.3g in %d steps, predicted factor per step %.6g; within the prediction %.4f, at the velocity cap %.4f\n",
					out.Certificate.Summary(), recovery.Radius, recovery.Runs, float64(recovery.Median[0]), float64(recovery.Median[last]), last, float64(recovery.Contraction), float64(recovery.Conforming), float64(recovery.Capped))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&modelFile, "model", "", "model file (default: the bundled map)")
	f.StringVar(&method, "method", "", "method whose closed loop is compared with the bounds (default: Algorithm 2)")
	f.IntVar(&scenarios, "scenarios", 20, "held-out scenarios to solve")
	f.IntVar(&episodes, "episodes", 20, "closed-loop episodes to compare the bounds with; 0: none")
	f.IntVar(&opt.Steps, "recovery-steps", 200, "latent steps followed after a perturbation")
	f.Float64Var(&opt.Perturbation, "recovery-radius", 0.1, "size of the perturbation as a fraction of the spread of M*")
	cli.Bound(cmd, "scenarios", 1, 100_000)
	cli.Bound(cmd, "episodes", 0, 100_000)
	cli.Bound(cmd, "recovery-steps", 1, 100_000)
	return cmd
}
