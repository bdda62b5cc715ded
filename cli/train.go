package cli

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/train"
)

// Trained is what `gpc train` prints.
type Trained struct {
	Epochs        int                 `json:"epochs"` // of both phases
	Losses        []train.EpochRecord `json:"losses"`
	Val           model.Calibration   `json:"val"`
	WallSeconds   float64             `json:"wall_s"`        // wall time
	SamplesPerSec float64             `json:"samples_per_s"` // through both phases
	Samples       int                 `json:"samples"`       // in the datasets
	Rounds        []model.Round       `json:"rounds"`
	Model         string              `json:"model"` // file written
}

func (a *App) trainCommand() *cobra.Command {
	var opt train.Options
	var dirs []string
	var out, curves, initial string
	cmd := &cobra.Command{
		Use:   "train CASE --data DIR --out FILE",
		Short: "Train a map on a dataset; resumable",
		Long: `Trains a map's encoders (E_x, E_o) and decoders (D_u, D_s) on a dataset. It then
trains the action decoder D_u on latents of roll-outs, chooses the stored codes M*,
calibrates on held-out scenarios and writes the model. FILE.checkpoint is saved
about every second and on interrupt. --resume continues from it to the same model,
bit for bit, on any number of threads. The backend ref does not train.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			if len(dirs) == 0 || out == "" {
				return BadInputf("--data and --out are required")
			}
			if err := OnceFiles("--data", dirs); err != nil {
				return err
			}
			opt.Checkpoint = out + ".checkpoint"
			opt.Resume = opt.Resume || a.requeue.Load()
			inputs := append(systemFiles(args[0]), durable.File{Name: "--init", Path: initial})
			for _, dir := range dirs {
				inputs = append(inputs, durable.File{Name: "--data", Path: dir})
			}
			if err := CheckOutputs([]durable.File{
				{Name: "--out", Path: out}, {Name: "the checkpoint", Path: opt.Checkpoint}, {Name: "--curves", Path: curves},
			}, inputs); err != nil {
				return err
			}
			if initial != "" {
				if opt.Initial, err = c.Model(initial); err != nil {
					return err
				}
			}
			e, err := a.OpenEngine()
			if err != nil {
				return err
			}
			defer e.Close()
			opt.Seed, opt.Command = a.seed, a.CommandLine()
			result, err := a.Train(cmd, c, e, dirs, opt, out, curves)
			if err != nil {
				return err
			}
			return a.Print(result, func(w io.Writer) { renderTrained(w, result) })
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&dirs, "data", nil, "`folders` of datasets of any seeds and policies, solved or distilled, or of their shards")
	f.StringVar(&out, "out", "", "model file to write")
	f.StringVar(&initial, "init", "", "start from the networks and the normalisation of this earlier map")
	f.StringVar(&curves, "curves", "", "write the learning curves to this CSV file")
	f.BoolVar(&opt.Resume, "resume", false, "continue from FILE.checkpoint")
	requeueFlag(cmd, "; with --resume")
	f.IntVar(&opt.ManifoldEpochs, "epochs", 0, "manifold epochs; 0: the case's")
	f.IntVar(&opt.RolloutEpochs, "rollout-epochs", 0, "epochs of rollout-aware refinement; 0: the case's, negative: none (the ablation navigator-no-rollout)")
	f.BoolVar(&opt.Chain, "chain", false, "refine D_u along the latents that the navigator goes through (eq. iclr-rollout-loss) instead of between successors")
	f.IntVar(&opt.Latent, "latent", 0, "latent size n_z; 0: the case's")
	f.IntVar(&opt.Hidden, "hidden", 0, "hidden width; 0: the case's")
	f.IntVar(&opt.Encoder, "encoder-hidden", 0, "hidden width of E_x; 0: as --hidden, or the case's")
	f.Float64Var(&opt.Emphasis, "emphasis", 0, "share of each epoch drawn by decoding error; 0: the case's, negative: none")
	f.IntVar(&opt.Batch, "batch", 0, "samples per update; 0: the case's")
	f.IntVar(&opt.Codes, "codes", 0, "codes of M* in the model; 0: the case's, negative: all training samples")
	f.Float64Var(&opt.LearningRate, "lr", 0, "Adam's learning rate at the start; 0: the case's")
	f.Float64Var(&opt.SpectralBound, "spectral-bound", 0, "K of every layer; 0: the case's, negative: off")
	f.Float64Var(&opt.ActionWeight, "action-weight", 0, "λ_u of the action loss; 0: the case's")
	f.Float64Var(&opt.LocalityWeight, "locality-weight", 0, "ω_2 of the locality loss; 0: the paper's 0.5, negative: none")
	f.BoolVar(&opt.Plain, "plain", false, "train E_x and D_u as one plain network by the action loss alone, for direct; no rollout-aware refinement")
	f.BoolVar(&opt.Isometry, "isometry", false, "use the compact isometry form of the locality loss")
	return cmd
}

// renderTrained says what a map was trained on, its rounds where it has several, and how well it
// decodes.
func renderTrained(w io.Writer, result *Trained) {
	if len(result.Rounds) > 1 {
		rows := [][]string{{"round", "samples", "seed", "scenarios", "of"}}
		for i, r := range result.Rounds {
			source := "solved"
			switch {
			case r.Distilled:
				source = "distilled from " + policyName(r.Policy)
			case r.Policy != (model.Policy{}):
				source = "solved, also where " + policyName(r.Policy) + " leads"
			}
			rows = append(rows, []string{fmt.Sprint(i + 1), fmt.Sprint(r.Samples), fmt.Sprint(r.Seed), fmt.Sprint(r.Scenarios), source})
		}
		Table(w, rows)
	}
	v := result.Val
	fmt.Fprintf(w, "%s: %d samples, %d epochs in %.1f s (%.0f samples/s); τ_geom %.3g, δ_dec %.3g (p99 %.3g)\n",
		result.Model, result.Samples, result.Epochs, result.WallSeconds, result.SamplesPerSec, v.TauGeom, v.DeltaDec, v.DeltaDecP99)
}

// policyName is a policy as a table has room for.
func policyName(p model.Policy) string { return fmt.Sprintf("%s of %.12s", p.Method, p.ModelSHA256) }

// Train runs the training with progress and writes model and curves.
func (a *App) Train(cmd *cobra.Command, c *gpc.Case, e *gpc.Engine, dirs []string, opt train.Options, out, curves string) (*Trained, error) {
	bar := a.Progress("train")
	r, err := c.Train(cmd.Context(), e, dirs, opt, func(p train.Progress) {
		bar(p.Step, p.Steps)
		if p.Note != "" {
			a.say("%s", p.Note)
		}
		if rec := p.Record; rec != nil {
			a.say("%-8s epoch %3d/%d  loss %.3e  τ_geom %.3e  δ_dec %.3e (p99 %.3e, mean %.3e)  %.1f s",
				rec.Phase, rec.Epoch, p.Epochs, rec.Loss(), rec.TauGeom, rec.DeltaDec, rec.DeltaDecP99, rec.DeltaDecMean, rec.Seconds)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := r.Model.WriteFile(out); err != nil {
		return nil, err
	}
	if curves != "" {
		var csv bytes.Buffer
		if err := train.WriteCSV(&csv, r.History); err != nil {
			return nil, err
		}
		if err := durable.WriteFile(curves, csv.Bytes(), 0o644); err != nil {
			return nil, fmt.Errorf("writing the learning curves: %w", err)
		}
	}
	t := &Trained{Epochs: len(r.History), Losses: r.History, Val: r.Model.Calibration, WallSeconds: r.Seconds, Samples: r.Rows, Rounds: r.Model.Provenance.Rounds, Model: out}
	if r.Seconds > 0 {
		t.SamplesPerSec = float64(r.Samples) / r.Seconds
	}
	return t, nil
}
