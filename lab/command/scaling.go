package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/lab/scaling"
)

// Scaling is `bench scaling`.
func Scaling(a *cli.App) *cobra.Command {
	var out, figures string
	var selected []string
	var budget time.Duration
	var limit func() (closedloop.LoadLimit, error)
	cmd := &cobra.Command{
		Use:     "scaling --out DIR",
		Example: "  gpc-lab bench scaling --out out/scaling --axes batch,codes",
		Short:   "Measure how costs grow with batch, latent dimension, width, codes, buses, robots",
		Long: `Times a step for several batches, latent dimensions and widths, and localization for
several numbers of codes. It also times optimal power flows of several networks, and
decisions for several numbers of robots. gpc fits cost ∝ size^b, with the 95 % interval of b, and
writes DIR/scaling.json.`,
		Args: cli.ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return cli.BadInputf("--out is required: the folder to write the record to")
			}
			if err := cli.MakeFolder("--out", out); err != nil {
				return err
			}
			file := filepath.Join(out, "scaling.json")
			if err := cli.CheckOutputs([]durable.File{{Name: "--out", Path: file}}, nil); err != nil {
				return err
			}
			most, err := limit()
			if err != nil {
				return err
			}
			e, err := a.OpenEngine()
			if err != nil {
				return err
			}
			defer e.Close()
			axes := append(scaling.Axes(), buses())
			robots, err := robots(cmd.Context(), a, e)
			if err != nil {
				return err
			}
			if axes, err = selectAxes(append(axes, robots...), selected); err != nil {
				return err
			}
			opt := bench.Options{Seed: a.Seed(), Budget: bench.Budget{Time: budget}}
			watch, err := machine.Begin(most)
			if err != nil {
				return err
			}
			s, err := scaling.Measure(cmd.Context(), e, axes, opt, a.Stages())
			if err != nil {
				return err
			}
			if s.Load, err = watch.End(); err != nil {
				return err
			}
			s.Device, s.Commit, s.Command = e.Device(), version.Build(), a.CommandLine()
			text, err := finite.Marshal(s)
			if err != nil {
				return err
			}
			if err := durable.WriteFile(file, append(text, '\n'), 0o644); err != nil {
				return err
			}
			if figures != "" {
				if err := writeFigures(figures, report.ScalingFigures(s)); err != nil {
					return err
				}
			}
			return a.Print(s, func(w io.Writer) {
				cli.Table(w, s.Rows())
				fmt.Fprintln(w, s.Load)
			})
		},
	}
	limit = cli.LimitFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "folder for scaling.json")
	f.StringSliceVar(&selected, "axes", nil, "measure these `axes` alone, such as batch,codes (default: all)")
	f.StringVar(&figures, "figures", "", "folder for a figure of each axis, SVG and PNG")
	f.DurationVar(&budget, "time", time.Second, "time spent on each size")
	return cmd
}

// selectAxes are the axes of some names, all of them for none.
func selectAxes(axes []scaling.Axis, selected []string) (axesSelected []scaling.Axis, err error) {
	if len(selected) == 0 {
		return axes, nil
	}
	if sorted := slices.Sorted(slices.Values(selected)); len(slices.Compact(sorted)) < len(selected) {
		return nil, cli.BadInputf("--axes %s names an axis twice", strings.Join(selected, ","))
	}
	var all []string
	for _, a := range axes {
		if all = append(all, a.Name); slices.Contains(selected, a.Name) {
			axesSelected = append(axesSelected, a)
		}
	}
	for _, name := range selected {
		if !slices.Contains(all, name) {
			return nil, cli.BadInputf("--axes %s%s (want some of %s)", name, names.Meant(name, all), strings.Join(all, ", "))
		}
	}
	return axesSelected, nil
}

// What the axis of robots measures: of each size of scene so many episodes, if a case has
// them among the first scenesDrawn, and their first decisions.
const (
	scenesOfSize   = 2
	scenesDrawn    = 40
	sceneDecisions = 40
)

// robots is the axis of the first case whose scenes differ in the size of their action, such
// as robots do; none where there is no such case.
func robots(ctx context.Context, a *cli.App, e *gpc.Engine) ([]scaling.Axis, error) {
	for _, c := range a.All() {
		plant := c.Definition().Plant
		if plant == nil || c.Definition().Learned == nil || !c.Bundled() {
			continue
		}
		pref := domain.Preference{Adaptive: true}
		scenes := map[int][]int{} // indices by inputs
		for i := range scenesDrawn {
			ep, err := plant.Episode(a.Seed(), i, domain.EpisodeOptions{Preference: pref, Context: ctx})
			if err != nil {
				return nil, fmt.Errorf("test episode %d of %s: %w", i, c.Name(), err)
			}
			sizes := domain.AbilitiesOfEpisode(ep).Sizes
			if sizes == nil {
				break
			}
			if _, inputs := sizes(); len(scenes[inputs]) < scenesOfSize {
				scenes[inputs] = append(scenes[inputs], i)
			}
		}
		if len(scenes) < 2 {
			continue
		}
		s, err := c.Setup("", "")
		if err != nil {
			return nil, err
		}
		k, err := c.Controller(e, s)
		if err != nil {
			return nil, err
		}
		return []scaling.Axis{{
			Name: "robots", What: fmt.Sprintf("a decision of %s by %s; sizes are inputs, two of each robot; the first %d decisions of %d scenes", c.Name(), s.Method, sceneDecisions, scenesOfSize),
			Values: slices.Sorted(maps.Keys(scenes)),
			Measure: func(ctx context.Context, _ *bench.Runner, inputs int) (us []float64, _ float64, err error) {
				for _, i := range scenes[inputs] {
					ep, err := plant.Episode(a.Seed(), i, domain.EpisodeOptions{Preference: pref, Context: ctx})
					if err != nil {
						return nil, 0, err
					}
					more, err := decisions(ctx, c.Spec(), k, ep, pref)
					if err != nil {
						return nil, 0, err
					}
					us = append(us, more...)
				}
				return us, 0, nil
			},
		}}, nil
	}
	return nil, nil
}

// decisions times the first decisions of an episode, µs.
func decisions(ctx context.Context, spec *domain.Spec, k domain.Controller, ep domain.Episode, pref domain.Preference) (us []float64, err error) {
	if err := k.Reset(ep); err != nil {
		return nil, err
	}
	s, c, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for len(us) < sceneDecisions && !ep.Done() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ep.Observe(s, c)
		start := time.Now()
		if _, err := k.Decide(s, c, pref, u); err != nil {
			return nil, err
		}
		us = append(us, machine.Microseconds(time.Since(start)))
		if _, err := ep.Apply(u); err != nil {
			return nil, err
		}
	}
	return us, nil
}
