package cli

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// sceneResult is the JSON of a scene that was written.
type sceneResult struct {
	Case    string `json:"case"`    // its name
	Seed    uint64 `json:"seed"`    // that it was drawn from
	Episode int    `json:"episode"` // its number
	Regime  string `json:"regime"`  // as asked for
	Out     string `json:"out"`     // the file
	Bytes   int    `json:"bytes"`   // of it
	SHA256  string `json:"sha256"`  // of it
}

func (a *App) sceneCommand() *cobra.Command {
	var weights []float64
	var w sceneResult
	var crowd alteration
	cmd := &cobra.Command{
		Use:   "scene CASE --out FILE [--seed S] [--episode K]",
		Short: "Write a test scene as a file that you can edit",
		Long: `Draws test scene number K of the seed and writes it with the constants of its
plant. gpc eval CASE --scene FILE runs it: as it is, bit for bit the episode that
it was drawn from. docs/reference/formats.md has its fields.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if w.Out == "" {
				return BadInputf("--out is required: the file to write the scene to")
			}
			if _, err := os.Lstat(w.Out); err == nil {
				return BadInputf("--out %s exists already: give another name, a scene never overwrites a file", w.Out)
			}
			if err := CheckOutputs([]durable.File{{Name: "--out", Path: w.Out}}, nil); err != nil {
				return err
			}
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			if c, err = crowd(c); err != nil {
				return err
			}
			pref, err := Preference(weights, c.Spec().ObjectiveSize())
			if err != nil {
				return err
			}
			f, err := c.Scene(cmd.Context(), a.seed, w.Episode, w.Regime, pref)
			if err != nil {
				return err
			}
			text, err := f.Text()
			if err != nil {
				return err
			}
			if err := durable.WriteFile(w.Out, text, 0o644); err != nil {
				return err
			}
			w.Case, w.Seed = c.Name(), a.seed
			w.Bytes, w.SHA256 = len(text), durable.Sum(sha256.Sum256(text))
			return a.Print(w, func(out io.Writer) {
				fmt.Fprintf(out, "%s: episode %d of seed %d of %s, %d bytes\n", w.Out, w.Episode, w.Seed, w.Case, w.Bytes)
			})
		},
	}
	crowd = robotsFlag(cmd)
	f := cmd.Flags()
	f.IntVar(&w.Episode, "episode", 0, "number of the test scene")
	f.StringVar(&w.Regime, "regime", "", "kind of test scenes, one of the names that the case defines")
	f.Float64SliceVar(&weights, "preference", nil, "`weights` w1,w2,… of the objectives that score the episode (default: the case's adaptive weights)")
	f.StringVar(&w.Out, "out", "", "file to write, which must not exist")
	return cmd
}

// sceneUsage is of the flag --scene.
const sceneUsage = "scene file, or a folder with one file an episode in the order of their names, in place of drawn scenes (see gpc scene)"

// readScenes reads the scenes of --scene, beside which no flag says what is drawn.
func readScenes(cmd *cobra.Command, path string) (*closedloop.Scenes, error) {
	for _, flag := range []string{"episodes", "regime", "shift", "plant", "steps", "robots", "state"} {
		if cmd.Flags().Changed(flag) {
			return nil, BadInputf("--%s and --scene %s exclude each other: the scene fixes what --%[1]s would choose", flag, path)
		}
	}
	scenes, err := closedloop.ReadScenes(path)
	if err != nil {
		return nil, BadInputf("--scene: %w", err)
	}
	return scenes, nil
}

// observed is what is measured at the start of the one scene of a file.
func (a *App) observed(cmd *cobra.Command, c *gpc.Case, path string, pref domain.Preference) (*gpc.Case, batchnav.Observation, error) {
	obs := batchnav.Observation{Preference: pref}
	scenes, err := readScenes(cmd, path)
	if err != nil {
		return nil, obs, err
	}
	if c, err = c.Staged(scenes); err != nil {
		return nil, obs, err
	}
	if n := len(scenes.Files); n != 1 {
		return nil, obs, BadInputf("--scene %s holds %d scenes, want one: refine searches from one observation", path, n)
	}
	options := domain.EpisodeOptions{Preference: pref, Context: cmd.Context()}
	excursions, err := scenes.Check(cmd.Context(), c.Definition(), a.seed, 0, 1, options)
	if err != nil {
		return nil, obs, gpc.BadInput(err)
	}
	for _, b := range excursions {
		a.notice(b.Quantity)
	}
	ep, err := scenes.Episode(c.Definition(), a.seed, 0, options)
	if err != nil {
		return nil, obs, gpc.BadInput(err)
	}
	obs.S, obs.C = make([]float64, c.Spec().MeasuredSize()), make([]float64, c.Spec().ContextSize())
	ep.Observe(obs.S, obs.C)
	return c, obs, nil
}

// beyondListed are the entries of a result's Excursions that are printed.
const beyondListed = 10

// renderBeyond says in what scenes that were given lie outside of what maps are made for.
func renderBeyond(w io.Writer, all []closedloop.Excursion) {
	for i, b := range all {
		if i == beyondListed {
			fmt.Fprintf(w, "and %d more; --json lists all\n", len(all)-i)
			return
		}
		place := "every episode"
		if b.Episode >= 0 {
			place = fmt.Sprintf("episode %d", b.Episode)
		}
		fmt.Fprintf(w, "not what maps are made for: %s: %s\n", place, b.Quantity)
	}
}
