package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/durable"
)

// sceneFlags adds the flags that say which episodes are run. The function that it returns
// reads them into opt and gives the case on the plant that they ask for.
func (a *App) sceneFlags(cmd *cobra.Command, opt *closedloop.Options) alteration {
	var weights []float64
	var shifts []string
	var scene, plant string
	var steps int
	f := cmd.Flags()
	f.StringVar(&scene, "scene", "", sceneUsage)
	f.IntVar(&opt.Episodes, "episodes", 100, "episodes")
	f.StringVar(&opt.Regime, "regime", "", "kind of test scenes, one of the names that the case defines")
	f.Float64Var(&opt.Noise, "noise", 0, "standard deviation of the measurement noise, in units of each state's scale")
	f.Float64Var(&opt.Bias, "bias", 0, "size of a constant error of every measured value, its sign drawn for each value and episode")
	f.StringSliceVar(&shifts, "shift", nil, "multiply parameters of the plant by factors, `NAME=FACTOR`,… (names: gpc cases --json); controllers and oracle know that plant, the map does not")
	f.StringVar(&plant, "plant", "", "drive every episode in "+plantUsage)
	f.IntVar(&steps, "steps", 0, "decisions of an episode, of a plant that runs on (default: the case's)")
	crowd := robotsFlag(cmd)
	f.Float64SliceVar(&weights, "preference", nil, "fixed `weights` w1,w2,… of the objectives, which sum to 1 (default: the adaptive priority)")
	return func(c *gpc.Case) (*gpc.Case, error) {
		factors, err := factorsOf(shifts)
		if err != nil {
			return nil, err
		}
		plain := c
		if c, err = c.Shifted(factors); err != nil {
			return nil, err
		}
		if c, err = a.onPlant(c, plain, plant); err != nil {
			return nil, err
		}
		if cmd.Flags().Changed("steps") {
			if c, err = c.Driven(steps); err != nil {
				return nil, err
			}
		}
		if c, err = crowd(c); err != nil {
			return nil, err
		}
		if scene != "" {
			if err := durable.Apart([]durable.File{{Name: "--trace", Path: opt.TracePath}}, []durable.File{{Name: "--scene", Path: scene}}); err != nil {
				return nil, gpc.BadInput(err)
			}
			if opt.Scenes, err = readScenes(cmd, scene); err != nil {
				return nil, err
			}
			opt.Episodes = len(opt.Scenes.Files)
		}
		opt.Seed = a.seed
		if opt.Preference, err = Preference(weights, c.Spec().ObjectiveSize()); err != nil {
			return nil, err
		}
		return c, nil
	}
}

// robotsFlag adds the flag --robots. The function that it returns gives the case with the scenes that it asks for.
func robotsFlag(cmd *cobra.Command) alteration {
	robots := cmd.Flags().Int("robots", 0, "scenes of exactly so many robots, more than 12, at the density of six (default: the case's scenes)")
	return func(c *gpc.Case) (*gpc.Case, error) {
		if !cmd.Flags().Changed("robots") {
			return c, nil
		}
		return c.ForRobots(*robots)
	}
}

// plantUsage is of the flag --plant.
const plantUsage = "another plant than the model, which only the reference and the oracle know: a case or a system FILE.json of the same sizes, or NAME=FACTOR,… for parameters of the plant (gpc cases --json lists them)"

// factorsOf reads the factors of --shift, each NAME=FACTOR.
func factorsOf(shifts []string) (map[string]float64, error) {
	factors := map[string]float64{}
	for _, text := range shifts {
		name, value, ok := strings.Cut(text, "=")
		f, err := strconv.ParseFloat(value, 64)
		if _, duplicate := factors[name]; !ok || err != nil || duplicate {
			return nil, BadInputf("--shift %s: want NAME=FACTOR, each name once", text)
		}
		factors[name] = f
	}
	return factors, nil
}
